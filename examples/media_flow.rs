//! Video in real time from one initiator to targets, which verify each frame.
//!
//! Frames go in four slices, as a camera produces them. With `--provider shm` or another one, each
//! target is a process.

#[path = "common/child.rs"]
mod child;
mod common;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::{Caps, Domain, Hints, Info, Program, Transport};
use loom_media::{
    FlowKey, FlowLayout, GrainLayout, Initiator, InitiatorEvent, MediaAttr, Rate, Release, Target, TargetEvent,
};

use common::Failure;

const FRAMES: u64 = 60;
const RATE: Rate = Rate::new(60, 1);
const PICTURE: GrainLayout = GrainLayout::v210(192, 108);
const RING: FlowLayout = FlowLayout::Grains(PICTURE, 8);

fn line(frame: u64, line: u16) -> Vec<u8> {
    (0..PICTURE.slice_len[0]).map(|at| (frame * 7 + u64::from(line) * 3 + u64::from(at)).to_le_bytes()[0]).collect()
}

fn attr() -> MediaAttr {
    MediaAttr { silence: 2_000_000_000, ..MediaAttr::default() }
}

struct Receiver<T: Transport + 'static> {
    target: Target<'static, T, Vec<u8>, Global>,
    flow: FlowKey,
    begin: Instant,
    frames: u64,
}

impl<T: Transport> Receiver<T> {
    /// Returns the receiver, and the record of its flow.
    fn open(info: &Info<T>) -> Result<(Self, Vec<u8>), Failure> {
        let mut target = Target::open_in(&[Domain::open(info)?], attr(), Global)?;
        let flow = target.add_flow(vec![0; usize::try_from(RING.bytes())?], RING, Release::Keep(3))?;
        let mut record = [0; 1024];
        let len = target.record(flow, &mut record)?;
        Ok((Receiver { target, flow, begin: Instant::now(), frames: 0 }, record[..len].to_vec()))
    }

    /// Returns `true` when the flow has ended.
    fn step(&mut self) -> Result<bool, Failure> {
        while let Some(event) = self.target.poll(u64::try_from(self.begin.elapsed().as_nanos())?)? {
            match event {
                TargetEvent::Complete { index, .. } => {
                    let grain = self.target.grain(self.flow, index).ok_or("the frame is kept")?;
                    let mut bytes = vec![0; PICTURE.slice_len[0] as usize];
                    for number in 0..PICTURE.slices {
                        grain.window.copy_to(usize::try_from(PICTURE.offset(0, number))?, &mut bytes)?;
                        if bytes != line(index, number) {
                            return Err(format!("frame {index} has other bytes in line {number}").into());
                        }
                    }
                    self.frames += 1;
                }
                TargetEvent::Lapped { from, to, .. } => eprintln!("frames {from} to {to} were lost"),
                TargetEvent::Detached { error: Some(error), .. } => return Err(error.into()),
                TargetEvent::Detached { error: None, .. } if self.frames == 0 => return Err("no frame".into()),
                TargetEvent::Detached { error: None, .. } => return Ok(true),
                _ => {}
            }
        }
        std::thread::yield_now();
        Ok(false)
    }
}

struct Role {
    receives: bool,
    targets: usize,
    /// Command of a target. Without one, targets run in this thread.
    command: Option<String>,
}

impl Program for Role {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        if self.receives {
            let (mut receiver, record) = Receiver::open(info)?;
            child::print(&record)?;
            while !receiver.step()? {}
            return Ok(String::new());
        }
        let mut initiator = Initiator::open_in(&[Domain::open(info)?], attr(), Global)?;
        let flow = initiator.add_flow(vec![0; usize::try_from(RING.bytes())?], RING, 0)?;
        let (mut steps, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..self.targets {
            let (step, record) = match &self.command {
                Some(command) => child::start(command)?,
                None => {
                    let (mut receiver, record) = Receiver::open(info)?;
                    (Box::new(move || receiver.step()) as child::Step, record)
                }
            };
            targets.push(initiator.add_target(flow, &record)?);
            steps.push((step, false));
        }
        let (opened, mut begin, mut frame, mut quarter) = (Instant::now(), None, 0, 0);
        while !steps.iter().all(|step| step.1) {
            for (step, has_ended) in steps.iter_mut().filter(|step| !step.1) {
                *has_ended = step()?;
            }
            while let Some(event) = initiator.poll(u64::try_from(opened.elapsed().as_nanos())?)? {
                match event {
                    InitiatorEvent::Target { result: Err(error), .. } => return Err(error.into()),
                    InitiatorEvent::Passed { from, to, .. } => eprintln!("frames {from} to {to} were not sent"),
                    _ => {}
                }
            }
            let is_ready = targets.iter().all(|target| initiator.room(*target).is_some());
            let now = if is_ready { begin.get_or_insert_with(Instant::now).elapsed() } else { Duration::ZERO };
            let is_due = frame < FRAMES && u64::try_from(now.as_nanos())? > RATE.time_of(4 * frame + quarter) / 4;
            if is_due {
                // A target with the earlier frame in flight is lapped.
                initiator.lap(flow, frame + 1)?;
            }
            if is_due && let Some(picture) = initiator.grain(flow, frame)? {
                let (first, end) = (u16::try_from(quarter)? * 27, u16::try_from(quarter)? * 27 + 27);
                for number in first..end {
                    picture.copy_from(usize::try_from(PICTURE.offset(0, number))?, &line(frame, number))?;
                }
                let _ = initiator.send_grain(flow, frame, first..end)?;
                (frame, quarter) = if quarter == 3 { (frame + 1, 0) } else { (frame, quarter + 1) };
                if frame == FRAMES {
                    // The last transfers end first.
                    targets.drain(..).try_for_each(|target| initiator.remove_target(target))?;
                }
            }
        }
        Ok(format!("{FRAMES} frames to {} targets\n", steps.len()))
    }
}

fn main() -> ExitCode {
    common::exit("media_flow", run())
}

fn run() -> Result<String, Failure> {
    use lexopt::prelude::*;

    child::exit_after(Duration::from_secs(60));
    let (mut provider, mut node) = ("soft".to_owned(), "127.0.0.1".to_owned());
    let (mut parser, mut role) = (lexopt::Parser::from_env(), Role { receives: false, targets: 2, command: None });
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("node") => node = parser.value()?.string()?,
            Long("targets") => role.targets = parser.value()?.parse()?,
            Value(word) if word == "receive" => role.receives = true,
            _ => return Err("media_flow [receive] [--provider NAME] [--node ADDRESS] [--targets N]".into()),
        }
    }
    let here = format!("'{}' receive --provider '{provider}' --node {node}", std::env::current_exe()?.display());
    role.command = (provider != "soft").then_some(here);
    common::over(&Hints { caps: Caps::MSG | Caps::RMA, ..Hints::at(&provider, &node) }, role)
}

#[cfg(test)]
#[path = "../tests/examples/media_flow.rs"]
mod tests;
