use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver as Channel;
use std::time::{Duration, Instant};

use loom_core::Domain;
use loom_core::allocator_api2::alloc::Global;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_media::{FlowKey, FlowLayout, Initiator, InitiatorEvent, TargetKey};

use super::format::{Audio, Format, Video};
use super::picture::Picture;
use super::receive::{PAUSE, attr, clock};
use super::targets::{MAX_TARGETS, Started};
use super::tone::Tone;
use crate::failure::Failure;

/// Maximum number of targets' flows, including killed targets.
const PEERS: usize = 4 * MAX_TARGETS;

/// Nanoseconds for targets to connect before the first frame is due.
const LEAD: u64 = 300_000_000;

pub(super) enum Frames {
    Test(Picture),
    /// Raw v210, again from its begin after its end.
    Raw {
        file: File,
        frames: u64,
        frame: Vec<u8>,
    },
}

impl Frames {
    pub(super) fn open(video: Video, raw: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = raw else { return Ok(Frames::Test(Picture::new(video))) };
        let failed = |error| Failure::Unavailable(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let (len, frame) = (file.metadata().map_err(failed)?.len(), video.layout().len());
        if len == 0 || len % frame != 0 {
            return Err(Failure::Unavailable(format!("{} has {len} bytes, not frames of {frame}", path.display())));
        }
        let frame = vec![0; usize::try_from(frame).map_err(Failure::when("reading a frame"))?];
        Ok(Frames::Raw { file, frames: len / frame.len() as u64, frame })
    }

    fn begin(&mut self, number: u64) -> Result<(), Failure> {
        let Frames::Raw { file, frames, frame } = self else { return Ok(()) };
        let read =
            file.seek(SeekFrom::Start(number % *frames * frame.len() as u64)).and_then(|_| file.read_exact(frame));
        read.map_err(Failure::when("reading a frame"))
    }

    fn line(&self, number: u64, line: u16, out: &mut Vec<u8>, len: usize) {
        match self {
            Frames::Test(picture) => picture.line(number, line, out),
            Frames::Raw { frame, .. } => {
                out.clear();
                out.extend_from_slice(frame.chunks_exact(len).nth(line.into()).unwrap_or_default());
            }
        }
    }
}

struct VideoFlow {
    key: FlowKey,
    video: Video,
    frames: Frames,
    frame: u64,
    part: u16,
    line: Vec<u8>,
    corrupt: Option<usize>,
}

struct AudioFlow {
    key: FlowKey,
    audio: Audio,
    count: u32,
    tone: Tone,
    start: u64,
    block: Vec<u8>,
}

impl VideoFlow {
    /// Goes on with the frame of this time. Returns the number of frames before it.
    fn catch_up(&mut self, now: u64) -> u64 {
        let next = self.video.rate.index_at(now).max(self.frame);
        next - std::mem::replace(&mut self.frame, next)
    }
}

impl AudioFlow {
    fn catch_up(&mut self, now: u64) -> u64 {
        let count = u64::from(self.count);
        let next = (self.audio.rate().index_at(now) / count * count).max(self.start);
        (next - std::mem::replace(&mut self.start, next)) / count
    }
}

pub(super) struct Setup {
    pub(super) format: Format,
    pub(super) frames: Option<Frames>,
    pub(super) seconds: Duration,
    pub(super) targets: usize,
    pub(super) kill_after: Option<Duration>,
    pub(super) timeout: Duration,
    pub(super) silence: Duration,
    pub(super) corrupt: Option<usize>,
}

#[derive(Default)]
pub(super) struct Sent {
    pub(super) frames: u64,
    /// Not produced, because this side was late by more than its ring.
    pub(super) skipped: u64,
    /// Without room in time at targets not killed.
    pub(super) passed: u64,
    /// Failed targets that were not killed.
    pub(super) failed: Vec<(usize, Failure)>,
}

struct Outlet {
    number: usize,
    key: TargetKey,
    /// Number of grains of a frame or samples of a block.
    unit: u64,
    was_killed: bool,
    /// `true` after it was ready or failed.
    is_connected: bool,
}

pub(super) struct Sender<T: Transport + 'static> {
    initiator: Initiator<'static, T, Vec<u8>, Global>,
    video: Option<VideoFlow>,
    audio: Option<AudioFlow>,
    outlets: Vec<Outlet>,
    sent: Sent,
    begin: Instant,
}

pub(super) trait Control {
    fn start(&mut self);
    /// Kills the oldest. Returns its number.
    fn kill(&mut self) -> Option<usize>;
    fn kill_others(&mut self, numbers: &[usize]);
}

impl<T: Transport + 'static> Sender<T> {
    pub(super) fn run(
        info: &Info<T>,
        mut setup: Setup,
        control: &mut dyn Control,
        started: &Channel<Result<Started, Failure>>,
        interrupted: &AtomicBool,
    ) -> Result<Sent, Failure> {
        let domain = Domain::open(info).map_err(Failure::when("opening the domain"))?;
        let opened = Initiator::open_in(&[domain], attr(PEERS, setup.silence), Global);
        let initiator = opened.map_err(Failure::when("opening the initiator"))?;
        let begin = Instant::now();
        let mut sender =
            Sender { initiator, video: None, audio: None, outlets: Vec::new(), sent: Sent::default(), begin };
        let mut first = Vec::new();
        while first.len() < setup.targets {
            match started.recv_timeout(Duration::from_millis(20)) {
                Ok(target) => first.push(target?),
                Err(_) if interrupted.load(Ordering::Relaxed) => return Err(Failure::Interrupted),
                Err(_) if begin.elapsed() > setup.timeout => {
                    return Err(Failure::Timeout { doing: "starting the targets".into(), waited: setup.timeout });
                }
                Err(_) => {}
            }
        }
        sender.add_flows(&mut setup)?;
        first.iter().try_for_each(|target| sender.add_target(target))?;
        sender.send(&setup, control, started, interrupted)?;
        // Unconnected targets would wait for the sender.
        control.kill_others(&sender.connected());
        sender.end(setup.timeout)?;
        Ok(sender.sent)
    }

    fn add_flows(&mut self, setup: &mut Setup) -> Result<(), Failure> {
        let first = clock().saturating_add(LEAD);
        let mut add = |ring: FlowLayout, first| {
            let memory = vec![0; usize::try_from(ring.bytes()).map_err(Failure::when("opening a ring"))?];
            self.initiator.add_flow(memory, ring, first).map_err(Failure::when("registering a ring"))
        };
        if let (Some(video), Some(frames)) = (setup.format.video, setup.frames.take()) {
            let frame = video.rate.index_at(first);
            let (key, corrupt) = (add(video.ring(), frame)?, setup.corrupt);
            self.video = Some(VideoFlow { key, video, frames, frame, part: 0, line: Vec::new(), corrupt });
        }
        if let Some((audio, count)) = setup.format.audio {
            // Blocks begin at multiples of their length.
            let start = audio.rate().index_at(first) / u64::from(count) * u64::from(count);
            let key = add(FlowLayout::Samples(audio.layout(count)), start)?;
            self.audio = Some(AudioFlow { key, audio, count, tone: Tone::new(audio), start, block: Vec::new() });
        }
        Ok(())
    }

    fn add_target(&mut self, target: &Started) -> Result<(), Failure> {
        let video = self.video.as_ref().map(|flow| (flow.key, 1));
        let audio = self.audio.as_ref().map(|flow| (flow.key, flow.count.into()));
        for (flow, record) in [video, audio].into_iter().zip(&target.records) {
            let Some((flow, unit)) = flow else { continue };
            let key = self.initiator.add_target(flow, record).map_err(Failure::when("adding a target"))?;
            self.outlets.push(Outlet { number: target.number, key, unit, was_killed: false, is_connected: false });
        }
        Ok(())
    }

    fn connect(&mut self, timeout: Duration, interrupted: &AtomicBool) -> Result<(), Failure> {
        let begin = Instant::now();
        while self.outlets.iter().any(|outlet| !outlet.is_connected) {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            if begin.elapsed() > timeout {
                return Err(Failure::Timeout { doing: "connecting to the targets".into(), waited: timeout });
            }
            if !self.poll()? {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        setup: &Setup,
        control: &mut dyn Control,
        started: &Channel<Result<Started, Failure>>,
        interrupted: &AtomicBool,
    ) -> Result<(), Failure> {
        let due = Instant::now() + Duration::from_nanos(LEAD);
        self.connect(setup.timeout, interrupted)?;
        let now = clock();
        self.video.as_mut().map(|flow| flow.catch_up(now));
        self.audio.as_mut().map(|flow| flow.catch_up(now));
        let begin = due.max(Instant::now());
        let (mut killed, mut last_killed, mut waiting) = (begin, 0, Vec::new());
        let end = begin + setup.seconds;
        // A frame is at most a second.
        let is_amid = |sender: &Self| sender.video.as_ref().is_some_and(|flow| flow.part > 0);
        while Instant::now() < end || is_amid(self) && Instant::now() < end + Duration::from_secs(1) {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            if setup.kill_after.is_some_and(|after| killed.elapsed() >= after)
                && let Some(number) = control.kill()
            {
                (killed, last_killed) = (Instant::now(), number);
                self.note_killed(number);
                control.start();
            }
            while let Ok(target) = started.try_recv() {
                waiting.push(target?);
            }
            // Targets killed before they started are not added. Others wait for the place of a
            // killed one.
            waiting.retain(|target| target.number > last_killed);
            while self.outlets.len() + 2 <= PEERS
                && let Some(target) = waiting.pop()
            {
                self.add_target(&target)?;
            }
            let is_busy = self.poll()? | self.send_video(&setup.format)? | self.send_audio()?;
            if !is_busy {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<bool, Failure> {
        let mut is_busy = false;
        let now = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        while let Some(event) = self.initiator.poll(now).map_err(Failure::when("polling the initiator"))? {
            is_busy = true;
            match event {
                InitiatorEvent::Target { target, result } => {
                    let Some(outlet) = self.outlets.iter_mut().find(|outlet| outlet.key == target) else { continue };
                    outlet.is_connected = true;
                    if let Err(error) = result {
                        if !outlet.was_killed {
                            self.sent.failed.push((outlet.number, Failure::doing("sending to a target", error)));
                        }
                        self.initiator.remove_target(target).map_err(Failure::when("removing a target"))?;
                    }
                }
                InitiatorEvent::Passed { target, from, to } => {
                    let outlet = self.outlets.iter().find(|outlet| outlet.key == target && !outlet.was_killed);
                    self.sent.passed += outlet.map_or(0, |outlet| (to - from).div_ceil(outlet.unit));
                }
                InitiatorEvent::Removed { target } => self.outlets.retain(|outlet| outlet.key != target),
                InitiatorEvent::Ended { .. } => {}
            }
        }
        Ok(is_busy)
    }

    fn send_video(&mut self, format: &Format) -> Result<bool, Failure> {
        let Some(flow) = &mut self.video else { return Ok(false) };
        let (now, rate) = (clock(), flow.video.rate);
        let FlowLayout::Grains(layout, slots) = flow.video.ring() else { return Ok(false) };
        if flow.part == 0 && now > rate.time_of(flow.frame + u64::from(slots)) {
            self.sent.skipped += flow.catch_up(now);
        }
        let (begin, end) = (rate.time_of(flow.frame), rate.time_of(flow.frame + 1));
        let due = begin + (end - begin) * (u64::from(flow.part) + 1) / u64::from(format.slices);
        if now < due {
            return Ok(false);
        }
        // In real time: a target that still has the earlier frame in flight is lapped.
        self.initiator.lap(flow.key, flow.frame + 1).map_err(Failure::when("writing a frame"))?;
        let grain = self.initiator.grain(flow.key, flow.frame).map_err(Failure::when("writing a frame"))?;
        let Some(window) = grain else { return Ok(false) };
        if flow.part == 0 {
            flow.frames.begin(flow.frame)?;
        }
        let (from, to) = (format.line_of(flow.video, flow.part), format.line_of(flow.video, flow.part + 1));
        for line in from..to {
            flow.frames.line(flow.frame, line, &mut flow.line, layout.slice_len[0] as usize);
            let offset = usize::try_from(layout.offset(0, line)).map_err(Failure::when("writing a frame"))?;
            if let Some(byte) = flow.corrupt.and_then(|at| flow.line.get_mut(at.checked_sub(offset)?)) {
                *byte ^= 0xff;
                flow.corrupt = None;
            }
            window.copy_from(offset, &flow.line).map_err(Failure::when("writing a frame"))?;
        }
        let _ = self.initiator.send_grain(flow.key, flow.frame, from..to).map_err(Failure::when("sending a frame"))?;
        flow.part += 1;
        if flow.part == format.slices {
            (flow.frame, flow.part) = (flow.frame + 1, 0);
            self.sent.frames += 1;
        }
        Ok(true)
    }

    fn send_audio(&mut self) -> Result<bool, Failure> {
        let Some(flow) = &mut self.audio else { return Ok(false) };
        let (now, rate, count) = (clock(), flow.audio.rate(), u64::from(flow.count));
        if now > rate.time_of(flow.start + u64::from(flow.audio.layout(flow.count).len)) {
            self.sent.skipped += flow.catch_up(now);
        }
        if now < rate.time_of(flow.start + count) {
            return Ok(false);
        }
        self.initiator.lap(flow.key, flow.start + count).map_err(Failure::when("writing samples"))?;
        let ring =
            self.initiator.samples(flow.key, flow.start, flow.count).map_err(Failure::when("writing samples"))?;
        let Some(samples) = ring else { return Ok(false) };
        for channel in 0..flow.audio.channels {
            flow.tone.block(channel, flow.start, flow.count, &mut flow.block);
            samples.copy_from(channel, flow.start, &flow.block).map_err(Failure::when("writing samples"))?;
        }
        let sent = self.initiator.send_samples(flow.key, flow.start, flow.count);
        let _ = sent.map_err(Failure::when("sending samples"))?;
        flow.start += count;
        Ok(true)
    }

    fn note_killed(&mut self, number: usize) {
        self.outlets.iter_mut().filter(|outlet| outlet.number == number).for_each(|outlet| outlet.was_killed = true);
    }

    /// Gives up unconnected targets. Returns the numbers of the others.
    fn connected(&mut self) -> Vec<usize> {
        while let Some(outlet) = self.outlets.iter().find(|outlet| !outlet.is_connected && !outlet.was_killed) {
            self.note_killed(outlet.number);
        }
        self.outlets.iter().filter(|outlet| !outlet.was_killed).map(|outlet| outlet.number).collect()
    }

    /// Removes all targets.
    fn end(&mut self, timeout: Duration) -> Result<(), Failure> {
        for outlet in &self.outlets {
            self.initiator.remove_target(outlet.key).map_err(Failure::when("removing a target"))?;
        }
        let begin = Instant::now();
        // Operations to a killed target may never complete.
        while self.outlets.iter().any(|outlet| !outlet.was_killed) {
            if !self.poll()? {
                std::thread::sleep(PAUSE);
            }
            if begin.elapsed() > timeout {
                return Err(Failure::Timeout { doing: "ending the last transfers".into(), waited: timeout });
            }
        }
        Ok(())
    }
}
