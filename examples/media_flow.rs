//! Video in real time from one initiator to targets, which verify each frame.
//!
//! Frames go in four slices, as a camera produces them. With `--provider shm` or another one, each
//! target is a process.

#[path = "common/child.rs"]
mod child;
mod common;

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::{Caps, Domain, Hints, Info, Program, Transport};
use loom_media::{FlowLayout, GrainLayout, Initiator, InitiatorEvent, MediaAttr, Rate, Release, Target, TargetEvent};

use common::Failure;

const FRAMES: u64 = 60;
const RATE: Rate = Rate::new(60, 1);
const PICTURE: GrainLayout = GrainLayout::v210(192, 108);
const RING: FlowLayout = FlowLayout::Grains(PICTURE, 8);

fn picture(frame: u64, lines: Range<u16>) -> Vec<u8> {
    let bytes = PICTURE.offset(0, lines.start)..PICTURE.offset(0, lines.end);
    bytes.map(|at| (frame * 7 + at % 251).to_le_bytes()[0]).collect()
}

fn attr() -> MediaAttr {
    MediaAttr { silence: 2_000_000_000, ..MediaAttr::default() }
}

/// Receives until the flow ends. Also returns its record.
fn receive<T: Transport + 'static>(info: &Info<T>) -> Result<(child::Step, Vec<u8>), Failure> {
    let mut target = Target::open_in(&[Domain::open(info)?], attr(), Global)?;
    let flow = target.add_flow(vec![0; usize::try_from(RING.bytes())?], RING, Release::Keep(3))?;
    let mut record = [0; 1024];
    let len = target.record(flow, &mut record)?;
    let (begin, mut frames) = (Instant::now(), 0);
    let step = Box::new(move || {
        while let Some(event) = target.poll(u64::try_from(begin.elapsed().as_nanos())?)? {
            match event {
                TargetEvent::Complete { index, .. } => {
                    let mut bytes = vec![0; usize::try_from(PICTURE.len())?];
                    let grain = target.grain(flow, index).ok_or("the frame is kept")?;
                    grain.window.copy_to(0, &mut bytes)?;
                    if bytes != picture(index, 0..PICTURE.slices) {
                        return Err(format!("frame {index} has other bytes").into());
                    }
                    frames += 1;
                }
                TargetEvent::Lapped { from, to, .. } => eprintln!("frames {from} to {to} were lost"),
                TargetEvent::Detached { error: Some(error), .. } => return Err(error.into()),
                TargetEvent::Detached { error: None, .. } if frames == 0 => return Err("no frame".into()),
                TargetEvent::Detached { error: None, .. } => return Ok(true),
                _ => {}
            }
        }
        std::thread::yield_now();
        Ok(false)
    });
    Ok((step, record[..len].to_vec()))
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
            let (mut step, record) = receive(info)?;
            child::print(&record)?;
            while !step()? {}
            return Ok(String::new());
        }
        let mut initiator = Initiator::open_in(&[Domain::open(info)?], attr(), Global)?;
        let flow = initiator.add_flow(vec![0; usize::try_from(RING.bytes())?], RING, 0)?;
        let (mut steps, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..self.targets {
            let (step, record) = self.command.as_deref().map_or_else(|| receive(info), child::start)?;
            targets.push(initiator.add_target(flow, &record)?);
            steps.push((step, false));
        }
        let (opened, mut begin, mut part) = (Instant::now(), None, 0);
        while !steps.iter().all(|step| step.1) {
            for (step, has_ended) in steps.iter_mut().filter(|step| !step.1) {
                *has_ended = step()?;
            }
            while let Some(event) = initiator.poll(u64::try_from(opened.elapsed().as_nanos())?)? {
                match event {
                    InitiatorEvent::Target { result, .. } => result?,
                    InitiatorEvent::Passed { from, to, .. } => eprintln!("frames {from} to {to} were not sent"),
                    _ => {}
                }
            }
            let is_ready = targets.iter().all(|target| initiator.room(*target).is_some());
            let now = if is_ready { begin.get_or_insert_with(Instant::now).elapsed() } else { Duration::ZERO };
            if part == 4 * FRAMES || u64::try_from(now.as_nanos())? <= RATE.time_of(part) / 4 {
                continue;
            }
            let (frame, first) = (part / 4, u16::try_from(part % 4)? * 27);
            // A target with the earlier frame in flight is lapped.
            initiator.lap(flow, frame + 1)?;
            let Some(window) = initiator.grain(flow, frame)? else { continue };
            window.copy_from(usize::try_from(PICTURE.offset(0, first))?, &picture(frame, first..first + 27))?;
            let _ = initiator.send_grain(flow, frame, first..first + 27)?;
            part += 1;
            if part == 4 * FRAMES {
                // The last transfers end first.
                targets.drain(..).try_for_each(|target| initiator.remove_target(target))?;
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
    let (mut parser, mut provider) = (lexopt::Parser::from_env(), "soft".to_owned());
    let mut role = Role { receives: false, targets: 2, command: None };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("targets") => role.targets = parser.value()?.parse()?,
            Value(word) if word == "receive" => role.receives = true,
            _ => return Err("media_flow [receive] [--provider NAME] [--targets N]".into()),
        }
    }
    let here = format!("'{}' receive --provider '{provider}'", std::env::current_exe()?.display());
    role.command = (provider != "soft").then_some(here);
    common::over(&Hints { caps: Caps::MSG | Caps::RMA, ..Hints::local(&provider) }, role)
}

#[cfg(test)]
#[path = "../tests/examples/media_flow.rs"]
mod tests;
