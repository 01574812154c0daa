use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use loom_core::Domain;
use loom_core::allocator_api2::alloc::Global;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_media::{FlowKey, FlowLayout, Grain, MediaAttr, Release, Target, TargetEvent};
use serde_json::Value;

use super::figures::Figures;
use super::format::{Audio, Format, Video};
use super::picture::{Picture, write_png};
use super::tone::{Recording, Tone};
use crate::failure::Failure;

const RECORD: usize = 1024;

const KEPT: u64 = 2;

pub(super) const PAUSE: Duration = Duration::from_micros(50);

/// Nanoseconds of the clock of one machine, or of synchronised ones.
pub(super) fn clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) const fn attr(peers: usize, silence: Duration) -> MediaAttr {
    #[expect(clippy::cast_possible_truncation, reason = "seconds")]
    let silence = silence.as_nanos() as u64;
    MediaAttr {
        flows: 2,
        peers,
        transfers: 512,
        depth: 256,
        piece: 8 << 20,
        message: 192,
        record: RECORD,
        silence,
        retry: 0,
    }
}

/// Files for what arrives.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Files {
    /// Write the last frame into this file, as PNG
    #[arg(long, value_name = "FILE")]
    pub(super) png: Option<PathBuf>,

    /// Write the samples of the first minute into this file, as WAV
    #[arg(long, value_name = "FILE")]
    pub(super) wav: Option<PathBuf>,
}

struct VideoFlow {
    key: FlowKey,
    video: Video,
    picture: Option<Picture>,
    figures: Figures,
    last: Option<Vec<u8>>,
    got: Vec<u8>,
    expected: Vec<u8>,
}

struct AudioFlow {
    key: FlowKey,
    audio: Audio,
    tone: Tone,
    figures: Figures,
    recording: Option<Recording>,
    got: Vec<u8>,
    expected: Vec<u8>,
}

pub(super) struct Receiver<T: Transport + 'static> {
    target: Target<'static, T, Vec<u8>, Global>,
    video: Option<VideoFlow>,
    audio: Option<AudioFlow>,
    files: Files,
    open: Vec<FlowKey>,
    begin: Instant,
    last_event: Instant,
}

impl<T: Transport + 'static> Receiver<T> {
    /// Returns the receiver, and the records of video and audio, empty for an absent flow.
    pub(super) fn open(
        info: &Info<T>,
        format: &Format,
        files: Files,
        silence: Duration,
    ) -> Result<(Self, [Vec<u8>; 2]), Failure> {
        let domain = Domain::open(info).map_err(Failure::when("opening the domain"))?;
        let opened = Target::open_in(&[domain], attr(2, silence), Global);
        let mut target = opened.map_err(Failure::when("opening the target"))?;
        let mut add = |ring: FlowLayout, kept| {
            let memory = vec![0; usize::try_from(ring.bytes()).map_err(Failure::when("opening a ring"))?];
            let flow =
                target.add_flow(memory, ring, Release::Keep(kept)).map_err(Failure::when("registering a ring"))?;
            let mut record = vec![0; RECORD];
            let len = target.record(flow, &mut record).map_err(Failure::when("describing a flow"))?;
            record.truncate(len);
            Ok::<_, Failure>((flow, record))
        };
        let mut records = [Vec::new(), Vec::new()];
        let mut video_flow = None;
        if let Some(video) = format.video {
            let (key, record) = add(video.ring(), KEPT)?;
            records[0] = record;
            let figures = Figures::new("video", video.rate.time_of(1), 1);
            let picture = format.is_test.then(|| Picture::new(video));
            let last = files.png.is_some().then(Vec::new);
            video_flow = Some(VideoFlow { key, video, picture, figures, last, got: Vec::new(), expected: Vec::new() });
        }
        let mut audio_flow = None;
        if let Some((audio, block)) = format.audio {
            let (key, record) = add(FlowLayout::Samples(audio.layout(block)), KEPT * u64::from(block))?;
            records[1] = record;
            let figures = Figures::new("audio", audio.rate().time_of(block.into()), block.into());
            let (tone, recording) = (Tone::new(audio), files.wav.is_some().then(|| Recording::new(audio)));
            audio_flow =
                Some(AudioFlow { key, audio, tone, figures, recording, got: Vec::new(), expected: Vec::new() });
        }
        let (video, audio, now) = (video_flow, audio_flow, Instant::now());
        let open = video.as_ref().map(|flow| flow.key).into_iter().chain(audio.as_ref().map(|flow| flow.key)).collect();
        Ok((Receiver { target, video, audio, files, open, begin: now, last_event: now }, records))
    }

    /// Receives until the sender has ended its flows.
    pub(super) fn run(&mut self, timeout: Duration, stop: &AtomicBool) -> Result<(), Failure> {
        let mut failed = None;
        while !self.open.is_empty() {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            match self.step()? {
                Step::Idle if self.last_event.elapsed() > timeout => {
                    return Err(Failure::Timeout { doing: "receiving".into(), waited: timeout });
                }
                Step::Idle => std::thread::sleep(PAUSE),
                Step::Busy => {}
                Step::Failed(failure) => failed = Some(failure),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn figures(&self) -> Vec<Value> {
        let video = self.video.as_ref().map(|flow| flow.figures.to_json());
        video.into_iter().chain(self.audio.as_ref().map(|flow| flow.figures.to_json())).collect()
    }

    pub(super) fn write_files(&self) -> Result<(), Failure> {
        if let (Some(path), Some(VideoFlow { video, last: Some(frame), .. })) = (&self.files.png, &self.video)
            && !frame.is_empty()
        {
            write_png(path, *video, frame)?;
        }
        if let (Some(path), Some(AudioFlow { recording: Some(recording), .. })) = (&self.files.wav, &self.audio) {
            recording.write(path)?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Step, Failure> {
        let now = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Some(event) = self.target.poll(now).map_err(Failure::when("polling the target"))? else {
            return Ok(Step::Idle);
        };
        // A rejected message is a stranger's.
        if !matches!(event, TargetEvent::Rejected { .. }) {
            self.last_event = Instant::now();
        }
        let Receiver { target, video, audio, .. } = self;
        let is_video = |flow| video.as_ref().is_some_and(|video| video.key == flow);
        match event {
            TargetEvent::Complete { flow, index } if is_video(flow) => {
                if let Some(flow) = video {
                    flow.complete(target, index)?;
                }
            }
            TargetEvent::Samples { start, count, .. } => {
                let arrived = clock();
                if let Some(flow) = audio {
                    flow.verify(target, start, count)?;
                    let due = flow.audio.rate().time_of(start.saturating_add(count.into()));
                    flow.figures.arrived(count.into(), arrived, due);
                }
            }
            TargetEvent::Invalid { .. } => {
                if let Some(flow) = video {
                    flow.figures.invalid += 1;
                }
            }
            TargetEvent::Lapped { flow, from, to } => {
                let is_video = is_video(flow);
                let lapped = if is_video {
                    video.as_mut().map(|flow| &mut flow.figures)
                } else {
                    audio.as_mut().map(|flow| &mut flow.figures)
                };
                if let Some(figures) = lapped {
                    figures.lapped += to - from;
                }
            }
            TargetEvent::Detached { flow, error } => {
                self.open.retain(|open| *open != flow);
                if let Some(error) = error {
                    return Ok(Step::Failed(Failure::doing("receiving", error)));
                }
            }
            _ => {}
        }
        Ok(Step::Busy)
    }
}

enum Step {
    Idle,
    Busy,
    Failed(Failure),
}

impl VideoFlow {
    fn complete<T: Transport>(&mut self, target: &Target<'_, T, Vec<u8>, Global>, index: u64) -> Result<(), Failure> {
        let arrived = clock();
        match target.grain(self.key, index) {
            Some(grain) => {
                self.verify(grain)?;
                self.figures.arrived(1, arrived, self.video.rate.time_of(index + 1));
            }
            None => self.figures.lost += 1,
        }
        Ok(())
    }

    fn verify(&mut self, grain: Grain<'_>) -> Result<(), Failure> {
        let layout = self.video.layout();
        if let Some(last) = &mut self.last {
            last.resize(usize::try_from(layout.len()).unwrap_or(0), 0);
            grain.window.copy_to(0, last).map_err(Failure::when("reading a frame"))?;
        }
        let Some(picture) = &self.picture else { return Ok(()) };
        self.got.resize(layout.slice_len[0] as usize, 0);
        let mut copied = Ok(());
        let is_right = (0..layout.slices).all(|line| {
            picture.line(grain.index, line, &mut self.expected);
            copied = grain.window.copy_to(usize::try_from(layout.offset(0, line)).unwrap_or(usize::MAX), &mut self.got);
            copied.is_err() || self.got == self.expected
        });
        self.figures.wrong += u64::from(!is_right);
        copied.map_err(Failure::when("reading a frame"))
    }
}

impl AudioFlow {
    fn verify<T: Transport>(
        &mut self,
        target: &Target<'_, T, Vec<u8>, Global>,
        start: u64,
        count: u32,
    ) -> Result<(), Failure> {
        let Some(samples) = target.samples(self.key) else { return Ok(()) };
        let mut is_right = true;
        self.got.resize(4 * count as usize, 0);
        for channel in 0..self.audio.channels {
            self.tone.block(channel, start, count, &mut self.expected);
            samples.copy_to(channel, start, &mut self.got).map_err(Failure::when("reading samples"))?;
            is_right &= self.got == self.expected;
            if let Some(recording) = &mut self.recording {
                recording.put(channel, start, &self.got);
            }
        }
        self.figures.wrong += u64::from(!is_right);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loom_core::soft::{Network, NetworkAttr};

    use super::*;

    #[test]
    fn a_frame_that_cannot_be_verified_is_lost() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let format = Format { video: Some("96x4@50".parse().unwrap()), audio: None, slices: 1, is_test: true };
        let opened = Receiver::open(&network.info(), &format, Files::default(), Duration::from_secs(1));
        let (Receiver { target, video, .. }, _) = opened.unwrap_or_else(|failure| panic!("{failure}"));
        let mut video = video.unwrap();
        video.complete(&target, 7).unwrap();
        let json = video.figures.to_json();
        assert_eq!((json["complete"].as_u64(), json["lost"].as_u64()), (Some(0), Some(1)));
    }
}
