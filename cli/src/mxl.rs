use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use loom_core::transport::Connected;
use loom_core::vocabulary::EndpointAttributes;
use loom_core::{Caps, Domain, EndpointType, Hints};
use loom_fabric::ofi::{Local, Ofi};
use loom_media::mxl::{
    FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, FlowId, FlowReader, FlowWriter, MxlError, Ring,
    TargetInfo,
};
use loom_media::{FlowLayout, InitiatorEvent, TargetKey, TargetStatus};
use loom_tcp::{Tcp, TcpAttr};

use crate::failure::Failure;
use crate::play::tcp;
use crate::signals;

/// Exchanges flows of MXL (Media eXchange Layer) with MXL's peers, or with itself.
///
/// A domain of MXL is a directory in which the writers and readers of this machine find flows.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    side: Side,
}

const SHM: &str = "shm";

const EXAMPLES: &str = "\
Examples:
  loom mxl receive --domain /dev/shm/mxl --definition flow.json --info target.json
  loom mxl send --domain /dev/shm/mxl --flow 5fbec3b1-1b0f-417d-9059-8b94a47197ed --info target.json

Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted: the figures until then are printed.";

#[derive(Debug, Subcommand)]
enum Side {
    Receive(Receive),
    Send(Send),
}

/// Receives a flow into a domain. Prints the target's info, or writes it to a file, then waits for
/// initiators.
#[derive(Debug, Args)]
struct Receive {
    /// Definition of the flow, which is created
    #[arg(long, value_name = "FILE")]
    definition: PathBuf,

    /// Port, 0 for any
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Write the info of the target to this file
    #[arg(long, value_name = "FILE")]
    info: Option<PathBuf>,

    /// End when the first initiator disconnects, which over shm needs --silence
    #[arg(long)]
    once: bool,

    /// Disconnect an initiator that is silent for so long
    #[arg(long, value_name = "SECONDS")]
    silence: Option<u64>,

    #[command(flatten)]
    common: Common,
}

/// Sends a flow of a domain as its writer commits, from the newest grain or sample on once a target
/// is reached. Ends when the flow is deleted.
#[derive(Debug, Args)]
struct Send {
    /// Identifier of the flow
    #[arg(long, value_name = "UUID")]
    flow: String,

    /// Info of a target. May be repeated
    #[arg(long, value_name = "FILE", required = true)]
    info: Vec<PathBuf>,

    /// Give up when no target is reached for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Directory of MXL's domain
    #[arg(long, value_name = "DIR")]
    domain: PathBuf,

    /// This machine's address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    node: String,

    /// Provider of this side: tcp, loom-tcp (TCP in Rust), or on both sides shm
    #[arg(long, value_name = "NAME", default_value = "tcp", value_parser = ["tcp", tcp::NAME, SHM])]
    provider: String,

    /// End after so long
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl Common {
    fn hints<'h>(&'h self, service: &'h str) -> Hints<'h> {
        let kind = if self.provider == SHM { EndpointType::RDM } else { EndpointType::MSG };
        let endpoint_attr = EndpointAttributes::of(kind);
        let service = (service != "0").then_some(service);
        Hints { caps: Caps::RMA, endpoint_attr, service, ..Hints::at(&self.provider, &self.node) }
    }

    fn libfabric(&self, port: u16) -> Result<Domain<'static, Ofi<Local>>, Failure> {
        if self.provider == SHM && port > 0 {
            return Err(Failure::Usage("--port: endpoints over shm have no address to choose: leave it out".into()));
        }
        let infos = Ofi::<Local>::query(&self.hints(&port.to_string()));
        let mut infos = infos.map_err(Failure::when("looking for MXL's endpoints"))?;
        let none = || Failure::Unavailable(format!("this libfabric has no endpoints of MXL over {}", self.provider));
        Domain::open(&infos.next().ok_or_else(none)?).map_err(Failure::when("opening the domain"))
    }

    fn tcp_in_rust(&self, port: u16) -> Result<Domain<'static, Tcp>, Failure> {
        let attr = TcpAttr { event_queues: 1, ..TcpAttr::DEFAULT };
        let info = loom_tcp::query(&self.hints(&port.to_string()), attr);
        let info = info.map_err(Failure::when("looking for connections over loom-tcp"))?;
        Domain::open(&info).map_err(Failure::when("opening the domain"))
    }

    fn until(&self) -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(self.seconds?))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.side {
        Side::Receive(receive) if receive.common.provider == tcp::NAME => {
            receive.run(&receive.common.tcp_in_rust(receive.port)?)
        }
        Side::Receive(receive) => receive.run(&receive.common.libfabric(receive.port)?),
        Side::Send(send) if send.common.provider == tcp::NAME => send.run(&send.common.tcp_in_rust(0)?),
        Side::Send(send) => send.run(&send.common.libfabric(0)?),
    }
}

fn text_of(file: &Path, what: &'static str) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(Failure::when(what))
}

#[derive(Default)]
struct Figures {
    complete: u64,
    invalid: u64,
    lost: u64,
    /// Of the sender: the newest invalid grains.
    marked: VecDeque<u64>,
    /// Ends of those that were not sent.
    passed: HashMap<TargetKey, u64>,
}

impl Figures {
    fn print(&self, what: &str, is_interrupted: bool) -> Result<(), Failure> {
        let Figures { complete, invalid, lost, .. } = self;
        writeln!(io::stdout(), "{complete} {what}, {invalid} invalid, {lost} lost")?;
        if is_interrupted { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

const fn unit(layout: &FlowLayout) -> &'static str {
    if matches!(layout, FlowLayout::Grains(..)) { "grains" } else { "samples" }
}

impl Receive {
    fn run<T: Connected + 'static>(&self, domain: &Domain<'static, T>) -> Result<(), Failure> {
        let definition = text_of(&self.definition, "reading the definition")?;
        let interrupted = signals::watch()?;
        let opening = || Failure::when("opening the flow");
        let mut flow = FlowWriter::create(&self.common.domain, &definition).map_err(opening())?;
        let target = FabricsTarget::open_flow(domain, &flow, FabricsAttr::default());
        let mut target = target.map_err(Failure::when("listening"))?;
        let info = target.info().map_err(Failure::when("listening"))?;
        match &self.info {
            Some(file) => fs::write(file, info.to_string()).map_err(Failure::when("writing the info"))?,
            None => writeln!(io::stdout(), "{info}")?,
        }
        let (mut figures, until, mut heard) = (Figures::default(), self.common.until(), Instant::now());
        while !interrupted.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
            match target.poll().map_err(Failure::when("receiving"))? {
                Some(FabricsEvent::Detached { error }) => {
                    writeln!(
                        io::stderr(),
                        "disconnected{}",
                        error.map_or(String::new(), |error| format!(": {error}"))
                    )?;
                    if self.once {
                        break;
                    }
                }
                Some(event) => {
                    heard = Instant::now();
                    figures.receive(&target, &mut flow, event)?;
                }
                None if self.silence.is_some_and(|silence| heard.elapsed() > Duration::from_secs(silence)) => {
                    heard = Instant::now();
                    target.disconnect();
                }
                None => thread::sleep(IDLE),
            }
        }
        figures.print(unit(&flow.layout()), interrupted.load(Ordering::Relaxed))
    }
}

impl Figures {
    /// A later grain in the slot keeps its header.
    fn receive<T: Connected>(
        &mut self,
        target: &FabricsTarget<'static, T, Ring>,
        flow: &mut FlowWriter,
        event: FabricsEvent,
    ) -> Result<(), Failure> {
        let (index, is_last) = match event {
            FabricsEvent::Slices { index, .. } => (index, false),
            FabricsEvent::Complete { index } | FabricsEvent::Invalid { index } => (index, true),
            _ => return self.commit(flow, event),
        };
        let Figures { complete, invalid, .. } = *self;
        if target.grain(index).is_some() {
            self.commit(flow, event)?;
        }
        if target.grain(index).is_none() {
            (self.complete, self.invalid) = (complete, invalid);
            self.lost += u64::from(is_last);
        }
        Ok(())
    }

    fn commit(&mut self, flow: &mut FlowWriter, event: FabricsEvent) -> Result<(), Failure> {
        let slices = if let FlowLayout::Grains(layout, _) = flow.layout() { layout.slices } else { 0 };
        let committed = match event {
            FabricsEvent::Slices { index, valid } => flow.commit_grain(index, valid, false),
            FabricsEvent::Complete { index } => flow.commit_grain(index, slices, false),
            FabricsEvent::Invalid { index } => flow.commit_grain(index, 0, true),
            FabricsEvent::Samples { start, count } => flow.commit_samples(start, count),
            FabricsEvent::Lapped { from, to } => {
                self.lost += to - from;
                Ok(())
            }
            FabricsEvent::Attached => return Ok(writeln!(io::stderr(), "connected")?),
            FabricsEvent::Rejected { data } => return Ok(writeln!(io::stderr(), "rejected immediate data {data:#x}")?),
            FabricsEvent::Unconnected { error } => return Ok(writeln!(io::stderr(), "not connected: {error}")?),
            FabricsEvent::Detached { .. } => Ok(()),
        };
        match (committed, event) {
            (Ok(()), FabricsEvent::Complete { .. }) => self.complete += 1,
            (Ok(()), FabricsEvent::Invalid { .. }) => self.invalid += 1,
            (Ok(()), FabricsEvent::Samples { count, .. }) => self.complete += u64::from(count),
            // Earlier numbers of another initiator.
            (Ok(()) | Err(MxlError::TooLate), _) => {}
            (Err(error), _) => return Err(Failure::doing("committing", error)),
        }
        Ok(())
    }

    fn note(&mut self, event: InitiatorEvent) -> Result<bool, Failure> {
        match event {
            InitiatorEvent::Target { result: Ok(()), .. } => writeln!(io::stderr(), "connected")?,
            InitiatorEvent::Target { result: Err(error), .. } => writeln!(io::stderr(), "{error}")?,
            InitiatorEvent::Ended { start, end, result: Ok(()), .. } if self.marked.contains(&start) => {
                self.invalid += end - start;
            }
            InitiatorEvent::Ended { start, end, result: Ok(()), .. } => self.complete += end - start,
            InitiatorEvent::Ended { start, end, result: Err(error), .. } => {
                self.lost += end - start;
                writeln!(io::stderr(), "not sent: {error}")?;
            }
            InitiatorEvent::Passed { target, from, to } => self.pass(target, from, to),
            InitiatorEvent::Removed { .. } => {}
        }
        Ok(matches!(event, InitiatorEvent::Target { result: Ok(()), .. }))
    }

    fn pass(&mut self, target: TargetKey, from: u64, to: u64) {
        let end = self.passed.entry(target).or_default();
        self.lost += to.saturating_sub(from.max(*end));
        *end = to.max(*end);
    }
}

impl Send {
    fn run<T: Connected + 'static>(&self, domain: &Domain<'static, T>) -> Result<(), Failure> {
        let id: FlowId = self.flow.parse().map_err(Failure::when("reading --flow"))?;
        let interrupted = signals::watch()?;
        let flow = FlowReader::open(&self.common.domain, id).map_err(Failure::when("opening the flow"))?;
        let first = flow.head();
        let initiator = FabricsInitiator::open_flow(domain, &flow, first, FabricsAttr::default());
        let mut initiator = initiator.map_err(Failure::when("sending"))?;
        let mut targets = Vec::new();
        for file in &self.info {
            let info = TargetInfo::parse(text_of(file, "reading the info of a target")?.trim());
            let info = info.map_err(Failure::when("reading the info of a target"))?;
            targets.push(initiator.add_target(info).map_err(Failure::when("adding a target"))?);
        }
        let (mut figures, begin, until) = (Figures::default(), Instant::now(), self.common.until());
        let is_over = || interrupted.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
        let mut is_ready = false;
        while !is_ready && !is_over() && begin.elapsed() < Duration::from_secs(self.wait) {
            match poll(&mut initiator, begin)? {
                Some(event) => is_ready = figures.note(event)?,
                None => thread::sleep(IDLE),
            }
        }
        if !is_ready && !interrupted.load(Ordering::Relaxed) {
            return Err(Failure::Unavailable("no target was reached: start it, and use its newest --info".into()));
        }
        let (mut next, mut slice) = (flow.head(), 0);
        while !is_over() {
            if let Some(event) = poll(&mut initiator, begin)? {
                figures.note(event)?;
                continue;
            }
            let pass = |figures: &mut Figures, from, to, all| {
                for target in &targets {
                    if all || initiator.status(*target) != Some(TargetStatus::Ready) {
                        figures.pass(*target, from, to);
                    }
                }
            };
            let sent = match flow.layout() {
                FlowLayout::Grains(layout, slots) => {
                    let head = flow.head();
                    match flow.read_grain(next, slice + 1, &mut [], Duration::from_millis(1)) {
                        Ok(header) if header.is_invalid => {
                            figures.marked.truncate(MARKED - 1);
                            figures.marked.push_front(next);
                            pass(&mut figures, next, next + 1, false);
                            (next, slice) = (next + 1, 0);
                            initiator.send_invalid(header.index)
                        }
                        Ok(header) => {
                            let slices = core::mem::replace(&mut slice, header.valid)..header.valid;
                            if header.valid == layout.slices {
                                pass(&mut figures, next, next + 1, false);
                                (next, slice) = (next + 1, 0);
                            }
                            initiator.send_grain(header.index, slices)
                        }
                        Err(MxlError::TooLate | MxlError::TooEarly) => {
                            // The writer had gone on before.
                            if head > next {
                                let oldest = flow.head().saturating_sub(u64::from(slots).saturating_sub(2));
                                let oldest = oldest.max(next + 1);
                                pass(&mut figures, next, oldest, true);
                                (next, slice) = (oldest, 0);
                            }
                            thread::sleep(IDLE);
                            continue;
                        }
                        Err(MxlError::Stale) => break,
                        Err(error) => return Err(Failure::doing("reading the flow", error)),
                    }
                }
                FlowLayout::Samples(layout) => {
                    let head = flow.head();
                    let start = next.max(head.saturating_sub(u64::from(layout.len / 2)));
                    pass(&mut figures, next, start, true);
                    let Some(count) = u32::try_from(head.saturating_sub(start)).ok().filter(|count| *count > 0) else {
                        if flow.is_stale() {
                            break;
                        }
                        thread::sleep(IDLE);
                        continue;
                    };
                    pass(&mut figures, start, head, false);
                    next = head;
                    initiator.send_samples(start, count)
                }
            };
            let _ = sent.map_err(Failure::when("sending"))?;
        }
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            match poll(&mut initiator, begin)? {
                Some(event) => _ = figures.note(event)?,
                None if initiator.in_progress() == 0 => break,
                None => thread::sleep(IDLE),
            }
        }
        figures.print(unit(&flow.layout()), interrupted.load(Ordering::Relaxed))?;
        if figures.lost > 0 && figures.complete + figures.invalid == 0 {
            return Err(Failure::Unavailable("no target received the flow: see their errors above".into()));
        }
        Ok(())
    }
}

const MARKED: usize = 64;
const IDLE: Duration = Duration::from_micros(100);

fn poll<T: Connected>(
    initiator: &mut FabricsInitiator<'static, T, Ring>,
    begin: Instant,
) -> Result<Option<InitiatorEvent>, Failure> {
    let now = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    initiator.poll(now).map_err(Failure::when("sending"))
}

#[cfg(test)]
mod tests {
    use std::process;

    use loom_media::mxl::GrainHeader;

    use super::*;

    #[test]
    fn an_overwritten_grain_does_not_take_the_header_of_a_later_one() {
        const ID: &str = "5fbec3b1-1b0f-417d-9059-8b94a47197ed";
        let definition = format!(
            r#"{{"id":"{ID}","label":"a","tags":{{"urn:x-nmos:tag:grouphint/v1.0":["a:b"]}},
            "format":"urn:x-nmos:format:video","media_type":"video/v210","grain_rate":{{"numerator":25}},
            "frame_width":96,"frame_height":17}}"#
        );
        let folder = Path::new("/dev/shm").join(format!("loom-headers-{}", process::id()));
        fs::create_dir(&folder).unwrap();
        let mut flow = FlowWriter::create(&folder, &definition).unwrap();
        let (node, provider) = ("127.0.0.1".into(), tcp::NAME.into());
        let common = Common { domain: folder.clone(), node, provider, seconds: None };
        let ([at, from], attr) = ([0, 0].map(|port| common.tcp_in_rust(port).unwrap()), FabricsAttr::default());
        let mut target = FabricsTarget::open_flow(&at, &flow, attr).unwrap();
        let layout = flow.layout();
        let memory = vec![0; usize::try_from(layout.bytes()).unwrap()];
        let mut initiator = FabricsInitiator::open(&from, memory, layout, 0, attr).unwrap();
        let key = initiator.add_target(target.info().unwrap()).unwrap();
        let begin = Instant::now();
        let next = |initiator: &mut FabricsInitiator<'_, Tcp, Vec<u8>>, target: &mut FabricsTarget<'_, Tcp, Ring>| {
            while begin.elapsed() < Duration::from_secs(60) {
                initiator.poll(0).unwrap();
                if let Some(event) = target.poll().unwrap() {
                    return event;
                }
            }
            panic!("no event");
        };
        assert_eq!(next(&mut initiator, &mut target), FabricsEvent::Attached);
        while initiator.status(key) != Some(TargetStatus::Ready) {
            assert!(begin.elapsed() < Duration::from_secs(60));
            initiator.poll(0).unwrap();
        }
        let send = |initiator: &mut FabricsInitiator<'_, Tcp, Vec<u8>>, index: u64, end| {
            let header = GrainHeader { index, is_invalid: false, grain_size: 17 * 256, total: 17, valid: 17 };
            initiator.grain(index).unwrap().unwrap().copy_from(0, &header.to_bytes()).unwrap();
            assert_eq!(initiator.send_grain(index, 0..end).unwrap().failed, 0);
        };
        send(&mut initiator, 2, 4);
        let late = next(&mut initiator, &mut target);
        assert_eq!(late, FabricsEvent::Slices { index: 2, valid: 4 });
        while initiator.in_progress() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60));
            initiator.poll(0).unwrap();
            assert_eq!(target.poll().unwrap(), None);
        }
        // Of the same slot.
        send(&mut initiator, 7, 17);
        while next(&mut initiator, &mut target) != (FabricsEvent::Complete { index: 7 }) {}
        let mut figures = Figures::default();
        figures.receive(&target, &mut flow, late).unwrap();
        figures.receive(&target, &mut flow, FabricsEvent::Complete { index: 2 }).unwrap();
        assert_eq!((figures.complete, figures.lost), (0, 1));
        figures.receive(&target, &mut flow, FabricsEvent::Complete { index: 7 }).unwrap();
        assert_eq!((figures.complete, flow.head()), (1, 7));
        drop((target, flow));
        fs::remove_dir(folder).unwrap();
    }
}
