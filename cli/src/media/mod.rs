mod figures;
mod format;
mod picture;
mod receive;
mod send;
mod targets;
mod tone;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use loom_core::info::Info;
use loom_core::transport::Transport;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::play::bootstrap::{Connection, Until};
use crate::play::frame::Message;
use crate::play::setup::{self, DEFAULT_LISTEN, Measure, Op, is_soft, timeout, usage};
use crate::play::{libfabric, soft, tcp};
use crate::signals;
use figures::{HEADS, row};
use format::{Audio, Format, Video};
use receive::{Files, Receiver};
use send::{Control, Frames, Sender, Sent, Setup};
use targets::{Ended, MAX_TARGETS, Place, Targets};

/// Sends video and audio in real time to targets, which verify every frame and sample.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    side: Side,
}

const EXAMPLES: &str = "\
Examples:
  loom media send
  loom media send --video 1280x720@50 --slices 1 --audio none --provider shm --targets 2
  loom media receive --provider 'tcp;ofi_rxm' --node 10.0.0.2 --listen 10.0.0.2:47593, and on another machine
  loom media send --provider 'tcp;ofi_rxm' --node 10.0.0.1 --to 10.0.0.2:47593

Exit status: 0 done, 1 failed or wrong bytes, 2 wrong options, 130 interrupted: the figures until then are printed.";

#[derive(Debug, Subcommand)]
enum Side {
    Send(Send),
    Receive(Receive),
}

/// Sends a moving test picture with a counter, or raw v210 from a file, and a tone.
///
/// Latency is from when the last part of a frame or the last sample of a block is due to its event
/// at the target, by the clocks of both machines. A frame is late after the time of a frame.
#[derive(Debug, Args)]
struct Send {
    /// Format of the video. `none` for no video
    #[arg(long, value_name = "WIDTHxHEIGHT@RATE", default_value = "1920x1080@60")]
    video: String,

    /// Format of the audio in 32-bit floating point. `none` for no audio
    #[arg(long, value_name = "CHANNELS@RATE", default_value = "2@48000")]
    audio: String,

    /// Samples of a block
    #[arg(long, value_name = "N", default_value_t = 48)]
    block: u32,

    /// Parts in which a frame is sent as it is produced
    #[arg(long, value_name = "N", default_value_t = 4)]
    slices: u16,

    /// Send these frames instead of the test picture. Targets do not verify them
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,

    /// Time to send
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    seconds: Duration,

    /// Number of targets: threads over soft, else processes of this machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MAX_TARGETS as i64), conflicts_with = "to")]
    targets: u8,

    /// Send to the process that listens there. May be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    to: Vec<String>,

    /// Kill the oldest target each time after so long, and start another one
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "to")]
    kill_after: Option<Duration>,

    /// Change a byte of the first frame, to see that verification finds it
    #[arg(long, value_name = "OFFSET")]
    corrupt: Option<usize>,

    #[command(flatten)]
    common: Common,
}

/// Receives the flows of one sender, verifies them, and prints their figures.
#[derive(Debug, Args)]
struct Receive {
    /// Wait for a sender at this address
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_LISTEN)]
    listen: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Provider: soft (the software transport), or one of `loom info`, such as shm. Over TCP
    /// loom-tcp or 'tcp;ofi_rxm': flows need endpoints without connections
    #[arg(long, value_name = "NAME", default_value = "soft")]
    provider: String,

    /// This side's address, for providers that have one [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    node: Option<String>,

    /// Give up when nothing happens for this number of seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = timeout)]
    timeout: Duration,

    /// A side that shows no sign of life for so long has failed
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = timeout)]
    silence: Duration,

    /// JSON instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    files: Files,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=1e7).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("takes seconds, from 0.1 on, not `{text}`"))
}

impl Common {
    fn setup(&self, place: setup::Place) -> setup::Setup {
        setup::Setup {
            ops: vec![Op::Message, Op::Write],
            sizes: Vec::new(),
            measure: Measure::Trips,
            iterations: None,
            place,
            provider: Some(self.provider.clone()),
            node: self.node.clone(),
            timeout: self.timeout,
            corrupt: None,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.side {
        Side::Send(send) => send.run(),
        Side::Receive(receive) => receive.run(),
    }
}

impl Receive {
    fn run(&self) -> Result<(), Failure> {
        let Common { provider, .. } = &self.common;
        if is_soft(provider)? {
            return Err(usage(
                "the software transport lives in the memory of one process: --provider takes another one, such as loom-tcp",
            ));
        }
        let interrupted = signals::watch()?;
        let setup = self.common.setup(setup::Place::Listen(self.listen.clone()));
        if provider == tcp::NAME {
            return self.over(&tcp::find(&setup)?, &interrupted);
        }
        self.over(&libfabric::find(&setup)?.1, &interrupted)
    }

    fn over<T: Transport + 'static>(&self, info: &Info<T>, interrupted: &AtomicBool) -> Result<(), Failure> {
        let Common { timeout, silence, json, files, .. } = &self.common;
        let until = Until { timeout: *timeout, interrupted };
        let listening = |at| Ok(writeln!(io::stderr(), "listening on {at}")?);
        let mut connection = Connection::listen(&self.listen, until, listening)?;
        let Some(format) = Format::of_text(&targets::receive(&mut connection, until)?) else {
            let _ = connection.send(&Message::Failed("it does not have the format".into()));
            return Err(Failure::OtherSide("sent a format that is not one of this version".into()));
        };
        let opened = Receiver::open(info, &format, files.clone(), *silence);
        let (mut receiver, records) = opened.inspect_err(|failure| {
            let _ = connection.send(&Message::Failed(failure.to_string()));
        })?;
        records.into_iter().try_for_each(|record| connection.send(&Message::Data(record)))?;
        let ended = receiver.run(*timeout, interrupted);
        let flows = receiver.figures();
        let mut out = io::stdout().lock();
        if *json {
            writeln!(out, "{}", Value::from(flows.clone()))?;
        } else {
            write_table(&mut out, flows.iter().map(|flow| row("1", flow)))?;
        }
        receiver.write_files()?;
        ended?;
        check([&flows[..]], false)
    }
}

impl Send {
    fn format(&self) -> Result<Format, Failure> {
        let none = |text: &str| text == "none";
        let video: Option<Video> = (!none(&self.video)).then(|| self.video.parse()).transpose().map_err(usage)?;
        let audio: Option<Audio> = (!none(&self.audio)).then(|| self.audio.parse()).transpose().map_err(usage)?;
        if video.is_none() && audio.is_none() {
            return Err(usage("there is no flow: --video and --audio are none"));
        }
        let audio = audio.map(|audio| (audio, self.block));
        let format = Format { video, audio, slices: self.slices, is_test: self.raw.is_none() };
        if !format.is_valid() {
            return Err(usage("--slices has at most a part for each line, --block at most a tenth of a second"));
        }
        Ok(format)
    }

    fn run(&self) -> Result<(), Failure> {
        let format = self.format()?;
        let Common { provider, node, .. } = &self.common;
        let is_soft = is_soft(provider)?;
        if is_soft && (!self.to.is_empty() || node.is_some()) {
            return Err(usage(
                "the software transport lives in the memory of one process: --to and --node take another --provider",
            ));
        }
        self.check_options(&format)?;
        let frames = format.video.map(|video| Frames::open(video, self.raw.as_deref())).transpose()?;
        let interrupted = signals::watch()?;
        if is_soft {
            // Killed ones may not be closed yet.
            let endpoints = 4 * u16::from(self.targets) + 16;
            let info = soft::info(endpoints, Op::Message.caps() | Op::Write.caps())?;
            return self.over(&info, format, frames, Place::Thread, &interrupted);
        }
        let setup = self.common.setup(setup::Place::Connect(String::new()));
        let place = if self.to.is_empty() { Place::Process(self.options()) } else { Place::Listening(self.to.clone()) };
        if provider == tcp::NAME {
            return self.over(&tcp::find(&setup)?, format, frames, place, &interrupted);
        }
        let (_, info) = libfabric::find(&setup)?;
        // Killed peers may leave their locks taken, or hold up others.
        let fragile = ["shm", "sm2", "udp;ofi_rxd"];
        if self.kill_after.is_some() && fragile.contains(&info.provider()) {
            let text = format!(
                "other peers of {} may not survive one that is killed: --kill-after is for others",
                info.provider()
            );
            return Err(Failure::Unavailable(text));
        }
        self.over(&info, format, frames, place, &interrupted)
    }

    fn check_options(&self, format: &Format) -> Result<(), Failure> {
        let Files { png, wav } = &self.common.files;
        let len = format.video.map_or(0, |video| video.layout().len());
        if self.corrupt.is_some_and(|offset| !format.is_test || offset as u64 >= len) {
            return Err(usage(format!("--corrupt takes the offset of a byte of the test picture, below {len}")));
        }
        if (png.is_some() || self.raw.is_some()) && format.video.is_none() {
            return Err(usage("--png and --raw are for video"));
        }
        if wav.is_some() && format.audio.is_none() {
            return Err(usage("--wav is for audio"));
        }
        if (png.is_some() || wav.is_some()) && (!self.to.is_empty() || self.kill_after.is_some()) {
            return Err(usage(
                "--png and --wav are for the first target: not with --kill-after, and with --to they are options of `receive`",
            ));
        }
        Ok(())
    }

    fn options(&self) -> Vec<String> {
        let Common { provider, node, timeout, silence, .. } = &self.common;
        let [timeout, silence] = [timeout, silence].map(|time| time.as_secs_f64().to_string());
        let options = ["--provider", provider, "--timeout", &timeout, "--silence", &silence];
        let node = node.iter().flat_map(|node| ["--node", node]);
        options.into_iter().chain(node).map(str::to_owned).collect()
    }

    fn over<T: Transport + 'static>(
        &self,
        info: &Info<T>,
        format: Format,
        frames: Option<Frames>,
        place: Place,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<(), Failure>
    where
        Info<T>: Sync,
    {
        let Common { timeout, silence, json, files, .. } = &self.common;
        let targets = if self.to.is_empty() { self.targets.into() } else { self.to.len() };
        let setup = Setup {
            format,
            frames,
            seconds: self.seconds,
            targets,
            kill_after: self.kill_after,
            timeout: *timeout,
            silence: *silence,
            corrupt: self.corrupt,
        };
        if !json {
            writeln!(io::stdout(), "{}", self.title(info.provider(), format))?;
        }
        let (channel, started) = mpsc::channel();
        let (sent, ended) = thread::scope(|scope| {
            let mut control = Targets {
                scope,
                info,
                format,
                place,
                files: files.clone(),
                timeout: *timeout,
                silence: *silence,
                started: channel,
                interrupted,
                running: Vec::new(),
                next: 1,
                oldest: 1,
            };
            (0..targets).for_each(|_| control.start());
            let sent = Sender::run(info, setup, &mut control, &started, interrupted);
            if sent.is_err() {
                control.kill_others(&[]);
            }
            (sent, control.join())
        });
        let sent = sent?;
        let flows: Vec<_> =
            ended.iter().filter_map(|(number, ended)| Some((*number, ended.as_ref().ok()?.as_deref()?))).collect();
        let mut out = io::stdout().lock();
        if *json {
            self.write_json(&mut out, info.provider(), &sent, &flows)?;
        } else {
            let rows = flows.iter().flat_map(|(number, flows)| flows.iter().map(|flow| row(&number.to_string(), flow)));
            write_table(&mut out, rows)?;
            let Sent { frames, skipped, passed, .. } = &sent;
            writeln!(
                out,
                "\n{frames} frames sent, {skipped} frames and blocks skipped by the sender, {passed} passed over for want of room."
            )?;
        }
        out.flush()?;
        if interrupted.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let kinds = format.kinds().filter(|_| self.to.is_empty());
        outcome(sent, ended, kinds, self.kill_after.is_some())
    }

    fn title(&self, provider: &str, format: Format) -> String {
        let video = format.video.map(|video| format!("video {video} in {} parts", format.slices));
        let audio = format.audio.map(|(audio, block)| format!("audio {audio} in blocks of {block}"));
        let flows: Vec<_> = video.into_iter().chain(audio).collect();
        format!("loom media: {}, provider {provider}\n", flows.join(", "))
    }

    fn write_json(
        &self,
        out: &mut impl Write,
        provider: &str,
        sent: &Sent,
        flows: &[(usize, &[Value])],
    ) -> Result<(), Failure> {
        let targets: Vec<_> = flows.iter().map(|(number, flows)| json!({ "number": number, "flows": flows })).collect();
        let text = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "provider": provider,
            "frames_sent": sent.frames,
            "skipped": sent.skipped,
            "passed": sent.passed,
            "targets": targets,
        });
        Ok(writeln!(out, "{text:#}")?)
    }
}

/// First failure of the sender, or of a target not killed.
fn outcome(
    sent: Sent,
    ended: Vec<Ended>,
    kinds: impl IntoIterator<Item = &'static str>,
    come_late: bool,
) -> Result<(), Failure> {
    let mut flows = Vec::new();
    for (number, ended) in ended {
        match ended {
            Ok(figures) => flows.extend(figures),
            Err(failure) => return Err(Failure::Unavailable(format!("target {number}: {failure}"))),
        }
    }
    // The last target may have come too late for a frame.
    check(flows.iter().map(|flows| &flows[..]), come_late)?;
    if let Some((number, failure)) = sent.failed.into_iter().next() {
        return Err(Failure::Unavailable(format!("target {number}: {failure}")));
    }
    let arrived = |kind| flows.iter().flatten().any(|flow| flow["kind"] == kind && flow["complete"] != 0);
    match kinds.into_iter().find(|kind| !arrived(*kind)) {
        Some(kind) => Err(Failure::Unavailable(format!("no {kind} arrived at a target that was not killed"))),
        None => Ok(()),
    }
}

/// Fails for wrong bytes, and for an empty flow.
fn check<'f>(targets: impl IntoIterator<Item = &'f [Value]>, may_be_empty: bool) -> Result<(), Failure> {
    for flow in targets.into_iter().flatten() {
        let (kind, number) = (flow["kind"].as_str().unwrap_or_default(), |name: &str| flow[name].as_u64().unwrap_or(0));
        if number("wrong") > 0 {
            return Err(Failure::Unavailable(format!("{} of {kind} have wrong bytes", number("wrong"))));
        }
        if number("complete") == 0 && !may_be_empty {
            return Err(Failure::Unavailable(format!("no {kind} arrived")));
        }
    }
    Ok(())
}

fn write_table(out: &mut impl Write, rows: impl Iterator<Item = Vec<String>>) -> io::Result<()> {
    for cells in [HEADS.map(str::to_owned).to_vec()].into_iter().chain(rows) {
        let line: String = cells.iter().map(|cell| format!("{cell:>10} ")).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_arrivals_or_with_wrong_bytes_fails() {
        let flow = |kind, complete, wrong| json!({ "kind": kind, "complete": complete, "wrong": wrong });
        let ends = |targets: &[Option<Vec<Value>>]| {
            let ended = (1..).zip(targets.iter().cloned().map(Ok)).collect();
            outcome(Sent::default(), ended, ["video", "audio"], true).map_err(|failure| failure.to_string())
        };
        let (empty, right) = (vec![flow("video", 0, 0), flow("audio", 9, 0)], vec![flow("video", 1, 0)]);
        assert_eq!(ends(&[None, Some(empty.clone()), Some(right)]), Ok(()));
        assert!(ends(&[None, None]).is_err_and(|text| text.contains("no video arrived")));
        assert!(ends(&[Some(empty)]).is_err_and(|text| text.contains("no video arrived")));
        assert!(ends(&[Some(vec![flow("video", 1, 0)])]).is_err_and(|text| text.contains("no audio arrived")));
        assert!(ends(&[Some(vec![flow("video", 2, 1)])]).is_err_and(|text| text.contains("wrong bytes")));
    }
}
