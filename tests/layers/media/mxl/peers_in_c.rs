//! MXL's fabrics beside a peer in C that follows MXL's documents alone (`peer.c`). Both verify each
//! byte. loom uses libfabric or its own TCP, and the peer uses libfabric.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use loom_core::transport::Connected;
use loom_core::vocabulary::{EndpointAttributes, EndpointType};
use loom_core::{Caps, Domain as FabricDomain, Hints};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_media::mxl::{FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, GrainHeader, TargetInfo};
use loom_media::{FlowLayout, GrainLayout, InitiatorEvent, SampleLayout, TargetStatus};
use loom_tcp::TcpAttr;
use support::posting::LIMIT;

use super::{byte, payload};

const GRAIN: GrainLayout = GrainLayout { header: 8192, slice_len: [256, 0, 0, 0], slices: 17, slot_align: 1 };
const GRAINS: FlowLayout = FlowLayout::Grains(GRAIN, 7);
const SAMPLES: FlowLayout = FlowLayout::Samples(SampleLayout { word: 4, channels: 2, period: 2048, len: 2048 });
const ATTR: FabricsAttr = FabricsAttr { targets: 1, transfers: 4, depth: 64, batch: 480, retry: 0, connect: 0 };

struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(role: &str, kind: &str, count: u32, provider: &str) -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layers/media/mxl/peer.c");
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mxl-peer-{}", std::process::id()));
            let compiled = Command::new("cc").arg("-O1").arg("-o").args([&program, &source]).arg("-lfabric").output();
            let compiled = compiled.unwrap();
            assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
            program
        });
        let mut command = Command::new(program);
        command
            .args([role, kind, &count.to_string(), provider])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Peer { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().into()
    }

    /// Waits for its end, which has its own limit.
    fn succeeds(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}");
        self.output.lines().map(Result::unwrap).collect()
    }
}

fn hints(provider: &str) -> Hints<'_> {
    let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
    Hints { caps: Caps::RMA, endpoint_attr, ..Hints::local(provider) }
}

/// MXL's name of the provider.
fn provider<T: Connected>(domain: &FabricDomain<'static, T>) -> &'static str {
    if domain.info().provider() == "shm" { "shm" } else { "tcp" }
}

fn shm() -> FabricDomain<'static, Ofi<Local>> {
    support::shared_memory::remove_at_exit();
    let hints = Hints { provider: Some("shm"), caps: Caps::RMA, ..Hints::default() };
    FabricDomain::open(&Ofi::query(&hints).unwrap().next().unwrap()).unwrap()
}

fn libfabric() -> FabricDomain<'static, Ofi<Local>> {
    FabricDomain::open(&Ofi::query(&hints("tcp")).unwrap().next().unwrap()).unwrap()
}

pub(super) fn tcp_in_rust() -> FabricDomain<'static, loom_tcp::Tcp> {
    FabricDomain::open(&loom_tcp::query(&hints("loom-tcp"), TcpAttr { event_queues: 4, ..TcpAttr::DEFAULT }).unwrap())
        .unwrap()
}

fn sample(channel: u16, at: u64) -> [u8; 4] {
    ((at as u32) << 8 | u32::from(channel)).to_le_bytes()
}

fn initiator_to<T: Connected + 'static>(
    domain: &FabricDomain<'static, T>,
    kind: &str,
    layout: FlowLayout,
    count: u32,
) -> (FabricsInitiator<'static, T, Vec<u8>>, Peer) {
    let mut peer = Peer::start("target", kind, count, provider(domain));
    let info = TargetInfo::parse(&peer.line()).unwrap();
    let mut initiator = FabricsInitiator::open(domain, vec![0; layout.bytes() as usize], layout, 100, ATTR).unwrap();
    let key = initiator.add_target(info).unwrap();
    let until = Instant::now() + LIMIT;
    while initiator.status(key) != Some(TargetStatus::Ready) {
        let event = initiator.poll(0).unwrap();
        assert!(Instant::now() < until && !matches!(event, Some(InitiatorEvent::Target { result: Err(_), .. })));
    }
    (initiator, peer)
}

fn drain<T: Connected>(initiator: &mut FabricsInitiator<'static, T, Vec<u8>>) {
    let until = Instant::now() + LIMIT;
    loop {
        let event = initiator.poll(0).unwrap();
        assert!(Instant::now() < until && !matches!(event, Some(InitiatorEvent::Ended { result: Err(_), .. })));
        if event.is_none() && initiator.in_progress() == 0 {
            break;
        }
    }
}

#[test]
fn a_target_in_c_receives_grains_slices_and_headers() {
    sends_grains(&libfabric());
    sends_grains(&tcp_in_rust());
    sends_grains(&shm());
}

fn sends_grains<T: Connected + 'static>(domain: &FabricDomain<'static, T>) {
    let (mut initiator, peer) = initiator_to(domain, "video", GRAINS, 15);
    for index in 100..112 {
        drain(&mut initiator);
        let slot = initiator.grain(index).unwrap().expect("free");
        let is_invalid = index % 4 == 3;
        let header = GrainHeader { index, is_invalid, grain_size: 4352, total: 17, valid: 17 };
        slot.copy_from(0, &header.to_bytes()).unwrap();
        slot.copy_from(8192, &payload(index)).unwrap();
        let sent = match index % 4 {
            3 => initiator.send_invalid(index),
            1 => initiator.send_grain(index, 0..9).and_then(|_| initiator.send_grain(index, 9..17)),
            _ => initiator.send_grain(index, 0..17),
        };
        // The first write over `shm` waits until the peer is mapped.
        assert_eq!(sent.map(|sent| sent.submitted + sent.deferred), Ok(1));
    }
    drain(&mut initiator);
    drop(initiator);
    let lines = peer.succeeds();
    assert_eq!((lines.len(), &lines[1][..], &lines[4][..]), (15, "1: grain 101, 9 slices", "4: grain 103, 0 slices"));
}

#[test]
fn a_target_in_c_receives_samples_in_entries_in_turn() {
    sends_samples(&libfabric());
    sends_samples(&tcp_in_rust());
    sends_samples(&shm());
}

fn sends_samples<T: Connected + 'static>(domain: &FabricDomain<'static, T>) {
    let (mut initiator, peer) = initiator_to(domain, "audio", SAMPLES, 30);
    let mut start = 100;
    for count in (0..20).map(|turn| [480, 961][turn % 2]).map(|count: u32| count.min(960)) {
        drain(&mut initiator);
        let samples = initiator.samples(start, count).unwrap();
        let end = start + u64::from(count);
        for channel in 0..2 {
            let bytes: Vec<u8> = (start..end).flat_map(|at| sample(channel, at)).collect();
            samples.copy_from(channel, start, &bytes).unwrap();
        }
        assert_eq!(initiator.send_samples(start, count).unwrap().failed, 0);
        start = end;
    }
    drain(&mut initiator);
    drop(initiator);
    assert_eq!(peer.succeeds().len(), 30);
}

fn target_of<T: Connected + 'static>(
    domain: &FabricDomain<'static, T>,
    kind: &str,
    layout: FlowLayout,
    count: u32,
) -> (FabricsTarget<'static, T, Vec<u8>>, Peer) {
    let target = FabricsTarget::open(domain, vec![0; layout.bytes() as usize], layout, ATTR).unwrap();
    let mut peer = Peer::start("initiator", kind, count, provider(domain));
    writeln!(peer.child.stdin.take().unwrap(), "{}", target.info().unwrap()).unwrap();
    (target, peer)
}

/// Polls to the end of the connection, or of the peer.
fn received<T: Connected>(
    target: &mut FabricsTarget<'static, T, Vec<u8>>,
    peer: &mut Peer,
    mut each: impl FnMut(&FabricsTarget<'static, T, Vec<u8>>, FabricsEvent),
) {
    let until = Instant::now() + LIMIT;
    let is_connectionless = target.info().unwrap().provider == "shm";
    loop {
        assert!(Instant::now() < until);
        let has_ended = is_connectionless && peer.child.try_wait().unwrap().is_some();
        match target.poll().unwrap() {
            None if has_ended => break,
            Some(FabricsEvent::Detached { error: None }) => break,
            Some(FabricsEvent::Attached) => {}
            Some(event) => each(target, event),
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn an_initiator_in_c_sends_grains_slices_and_headers() {
    receives_grains(&libfabric());
    receives_grains(&tcp_in_rust());
    receives_grains(&shm());
}

fn receives_grains<T: Connected + 'static>(domain: &FabricDomain<'static, T>) {
    let (mut target, mut peer) = target_of(domain, "video", GRAINS, 20);
    let mut events = Vec::new();
    received(&mut target, &mut peer, |target, event| {
        if let FabricsEvent::Complete { index } = event {
            let mut bytes = vec![0; 17 * 256];
            target.grain(index).unwrap().window.copy_to(8192, &mut bytes).unwrap();
            let is_whole = bytes.iter().enumerate().all(|(at, of)| *of == byte(index, at));
            assert!(is_whole || target.grain(index).is_none(), "grain {index}");
        }
        match event {
            // The rest may have arrived at the same time.
            FabricsEvent::Slices { index, valid } => assert_eq!((index % 4, valid), (1, 5)),
            event => events.push(event),
        }
    });
    let expected = |index| match index % 4 {
        3 => FabricsEvent::Invalid { index },
        _ => FabricsEvent::Complete { index },
    };
    assert_eq!(events, (1000..1020).map(expected).collect::<Vec<_>>());
    peer.succeeds();
}

#[test]
fn an_initiator_in_c_sends_samples() {
    receives_samples(&libfabric());
    receives_samples(&tcp_in_rust());
    receives_samples(&shm());
}

fn receives_samples<T: Connected + 'static>(domain: &FabricDomain<'static, T>) {
    let (mut target, mut peer) = target_of(domain, "audio", SAMPLES, 40);
    let mut expected = 1000;
    received(&mut target, &mut peer, |target, event| {
        let FabricsEvent::Samples { start, count } = event else { panic!("{event:?}") };
        assert_eq!(start, expected);
        expected += u64::from(count);
        for channel in 0..2 {
            let mut bytes = vec![0; 4 * count as usize];
            target.samples().unwrap().copy_to(channel, start, &mut bytes).unwrap();
            assert_eq!(bytes, (start..expected).flat_map(|at| sample(channel, at)).collect::<Vec<_>>());
        }
    });
    assert_eq!(expected, 1000 + 27 * 480 + 13 * 7);
    peer.succeeds();
}

/// The control: the peer verifies.
#[test]
fn a_target_in_c_refuses_a_wrong_byte() {
    sends_a_wrong_byte(&libfabric());
    sends_a_wrong_byte(&tcp_in_rust());
    sends_a_wrong_byte(&shm());
}

fn sends_a_wrong_byte<T: Connected + 'static>(domain: &FabricDomain<'static, T>) {
    let (mut initiator, mut peer) = initiator_to(domain, "video", GRAINS, 1);
    let header = GrainHeader { index: 100, is_invalid: false, grain_size: 4352, total: 17, valid: 17 };
    initiator.grain(100).unwrap().expect("free").copy_from(0, &header.to_bytes()).unwrap();
    let _ = initiator.send_grain(100, 0..17).unwrap();
    let until = Instant::now() + LIMIT;
    while peer.child.try_wait().unwrap().is_none() {
        let _ = initiator.poll(0).unwrap();
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut text = String::new();
    peer.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "a wrong byte\n");
}

#[test]
fn a_target_in_c_that_ends_fails_in_time_and_frees_all_slots() {
    let attr = FabricsAttr { connect: 100_000_000, ..ATTR };
    let mut peer = Peer::start("target", "video", 2, "shm");
    let mut initiator = FabricsInitiator::open(&shm(), vec![0; GRAINS.bytes() as usize], GRAINS, 100, attr).unwrap();
    let key = initiator.add_target(TargetInfo::parse(&peer.line()).unwrap()).unwrap();
    let (began, mut peer, mut index, mut ended) = (Instant::now(), Some(peer), 100, Vec::new());
    while !matches!(initiator.status(key), Some(TargetStatus::Failed(_))) {
        assert!(began.elapsed() < LIMIT, "{ended:?}");
        ended.extend(initiator.poll(began.elapsed().as_nanos() as u64).unwrap());
        if index == 102 && initiator.in_progress() == 0 && peer.is_some() {
            assert_eq!(peer.take().unwrap().succeeds().len(), 2);
        }
        if index < 107 && initiator.in_progress() == 0 && initiator.status(key) == Some(TargetStatus::Ready) {
            let header = GrainHeader { index, is_invalid: false, grain_size: 4352, total: 17, valid: 17 };
            let slot = initiator.grain(index).unwrap().expect("free");
            slot.copy_from(0, &header.to_bytes()).unwrap();
            slot.copy_from(8192, &payload(index)).unwrap();
            let _ = initiator.send_grain(index, 0..17).unwrap();
            index += 1;
        }
    }
    initiator.remove_target(key).unwrap();
    while !ended.contains(&InitiatorEvent::Removed { target: key }) {
        assert!(began.elapsed() < LIMIT, "{ended:?}");
        ended.extend(initiator.poll(began.elapsed().as_nanos() as u64).unwrap());
    }
    let results = ended.iter().filter_map(|event| match event {
        InitiatorEvent::Ended { start, result, .. } => Some((*start, result.is_ok())),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [(100, true), (101, true), (102, false)]);
    if !shm().info().raw().is_tested() {
        println!("skipped: operations of a provider that is not tested keep their slots");
        return;
    }
    for index in 103..120 {
        assert!(initiator.grain(index).unwrap().is_some(), "grain {index}");
    }
}
