//! Flows in shared memory as rings of an initiator and a target.

use std::time::{Duration, Instant};

use loom_core::Domain as FabricDomain;
use loom_core::allocator_api2::alloc::Global;
use loom_core::exposed::Window;
use loom_core::soft::Soft;
use loom_fabric::loom_core;
use loom_media::mxl::{FlowReader, FlowWriter, MxlError, Ring};
use loom_media::{FlowKey, Initiator, InitiatorEvent, Release, Target, TargetEvent};
use support::posting::LIMIT;

use super::super::world::{attr, network};
use super::{Domain, SLOT, audio, payload, video};

/// Sends a flow of one domain into a flow of another one.
struct Gateway {
    initiator: Initiator<'static, Soft<'static>, Ring, Global>,
    target: Target<'static, Soft<'static>, Ring, Global>,
    sent: FlowKey,
    received: FlowKey,
    /// Writer, dropped after the initiator and the target, because its rings keep their flows.
    to: FlowWriter,
    reader: FlowReader,
    from: FlowWriter,
    domains: [Domain; 2],
}

impl Gateway {
    fn open(definition: &str, first: u64) -> Self {
        let network = network();
        let fabric = FabricDomain::open(&network.info()).unwrap();
        let mut initiator = Initiator::open_in(std::slice::from_ref(&fabric), attr(), Global).unwrap();
        let mut target = Target::open_in(&[fabric], attr(), Global).unwrap();
        let domains = [Domain::new(), Domain::new()];
        let (from, to) = (domains[0].writer(definition), domains[1].writer(definition));
        let sent = initiator.add_mxl_flow(&domains[0].reader(), first).unwrap();
        let received = target.add_mxl_flow(&to, Release::Explicit).unwrap();
        let mut record = [0; 2048];
        let len = target.record(received, &mut record).unwrap();
        let key = initiator.add_target(sent, &record[..len]).unwrap();
        let reader = domains[1].reader();
        let mut gateway = Gateway { initiator, target, sent, received, to, reader, from, domains };
        while gateway.initiator.room(key).is_none() {
            gateway.next(|event| matches!(event, None | Some(TargetEvent::Attached { .. })));
        }
        gateway
    }

    /// Polls until an expected event.
    fn next(&mut self, is_expected: impl Fn(Option<TargetEvent>) -> bool) -> Option<TargetEvent> {
        let until = Instant::now() + LIMIT;
        loop {
            self.initiator.poll(0).unwrap();
            let event = self.target.poll(0).unwrap();
            if is_expected(event) {
                return event;
            }
            assert!(Instant::now() < until && matches!(event, None | Some(TargetEvent::Attached { .. })), "{event:?}");
        }
    }

    fn close(self) {
        let Gateway { initiator, target, to, from, domains, .. } = self;
        drop((to, from));
        assert!(domains[1].flow("data").exists(), "a ring keeps its flow");
        drop((initiator, target));
        assert!(domains.iter().all(|domain| !domain.flow("data").exists()));
    }
}

#[test]
fn grains_of_a_flow_arrive_in_a_flow_and_readers_see_complete_ones() {
    let first = 1_000_000;
    let mut gateway = Gateway::open(&video(), first);
    let mut slot = [0; SLOT];
    for index in first..first + 30 {
        gateway.from.grain(index).unwrap().copy_from(8192, &payload(index)).unwrap();
        gateway.from.commit_grain(index, 17, false).unwrap();
        // In parts from the second grain on.
        let part = if index == first { 17 } else { 6 };
        for start in (0..17).step_by(part) {
            let end = 17.min(start + part as u16);
            let fanout = gateway.initiator.send_grain(gateway.sent, index, start..end).unwrap();
            assert_eq!(fanout.submitted + fanout.deferred, 1);
            let mut valid = 0;
            while valid < end {
                let event = gateway.next(|event| event.is_some());
                valid = match event {
                    Some(TargetEvent::Slices { index: of, valid, .. }) if of == index => valid,
                    Some(TargetEvent::Complete { index: of, .. }) if of == index => 17,
                    event => panic!("{event:?}"),
                };
                // The header with all slices of the source has arrived, and the grain is not
                // committed.
                let early = gateway.reader.read_grain(index, valid, &mut slot, Duration::ZERO);
                assert!(early.is_err(), "{early:?}");
                gateway.to.commit_grain(index, valid, false).unwrap();
                gateway.target.release(gateway.received, gateway.to.oldest()).unwrap();
                let read = gateway.reader.read_grain(index, valid, &mut slot, Duration::ZERO);
                assert_eq!(read.map(|header| (header.index, header.valid)), Ok((index, valid)));
                let bytes = usize::from(valid) * 256;
                assert!(slot[8192..8192 + bytes] == payload(index)[..bytes], "grain {index}, {valid} slices");
                if valid < 17 {
                    let more = gateway.reader.read_grain(index, valid + 1, &mut slot, Duration::ZERO);
                    assert_eq!(more, Err(MxlError::TooEarly));
                }
            }
        }
        for older in first.max(gateway.to.oldest())..index {
            gateway.reader.read_grain(older, 17, &mut slot, Duration::ZERO).unwrap();
            assert!(slot[8192..] == payload(older), "grain {older} beside {index}");
        }
    }
    gateway.close();
}

#[test]
fn samples_of_a_flow_arrive_in_a_flow() {
    let mut gateway = Gateway::open(&audio(), 0);
    for start in (0..60_000).step_by(480) {
        let block: Vec<u8> = payload(start)[..480 * 4].to_vec();
        gateway.from.samples().unwrap().copy_from(1, start, &block).unwrap();
        gateway.from.commit_samples(start, 480).unwrap();
        let fanout = gateway.initiator.send_samples(gateway.sent, start, 480).unwrap();
        assert_eq!(fanout.submitted + fanout.deferred, 1);
        gateway.next(|event| matches!(event, Some(TargetEvent::Samples { start: of, count: 480, .. }) if of == start));
        gateway.to.commit_samples(start, 480).unwrap();
        gateway.target.release(gateway.received, gateway.to.oldest()).unwrap();
        let mut found = vec![0; block.len()];
        gateway.reader.read_samples(1, start, &mut found, Duration::ZERO).unwrap();
        assert!(found == block, "samples from {start} on");
    }
    gateway.close();
}

/// Writes into the ring of the source regardless of transfers, with some polls after each grain.
/// The target stalls until all are written.
#[test]
fn grains_that_the_writer_overwrites_are_not_reported_as_sent_or_complete() {
    for polls in 0..6 {
        let mut gateway = Gateway::open(&video(), 0);
        let (mut sent, mut lost, mut complete) = (Vec::new(), Vec::new(), Vec::new());
        let mut note = |event| match event {
            Some(InitiatorEvent::Ended { start, result: Ok(()), .. }) => sent.push(start),
            Some(InitiatorEvent::Ended { start, .. }) => lost.push(start),
            Some(InitiatorEvent::Passed { from, to, .. }) => lost.extend(from..to),
            _ => {}
        };
        for index in 0..10 {
            gateway.from.grain(index).unwrap().copy_from(8192, &payload(index)).unwrap();
            gateway.from.commit_grain(index, 17, false).unwrap();
            let _ = gateway.initiator.send_grain(gateway.sent, index, 0..17).unwrap();
            (0..polls).for_each(|_| note(gateway.initiator.poll(0).unwrap()));
        }
        let until = Instant::now() + LIMIT;
        while !complete.contains(&9) || gateway.initiator.in_progress() > 0 {
            assert!(Instant::now() < until, "{polls} polls: {complete:?}");
            note(gateway.initiator.poll(0).unwrap());
            match gateway.target.poll(0).unwrap() {
                Some(TargetEvent::Complete { index, .. }) => {
                    let mut bytes = [0; SLOT - 8192];
                    let grain = gateway.target.grain(gateway.received, index).unwrap();
                    grain.window.copy_to(8192, &mut bytes).unwrap();
                    assert!(bytes == payload(index)[..], "{polls} polls: grain {index} has its bytes");
                    complete.push(index);
                    gateway.target.release(gateway.received, index + 1).unwrap();
                }
                Some(TargetEvent::Lapped { to, .. }) => gateway.target.release(gateway.received, to).unwrap(),
                _ => {}
            }
        }
        assert_eq!(complete, sent, "{polls} polls");
        let mut all = [sent, lost].concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>(), "{polls} polls: each once");
        gateway.close();
    }
}

#[test]
fn the_ring_of_a_reader_is_not_written_to() {
    let mut gateway = Gateway::open(&video(), 0);
    let window: Window<'_> = gateway.initiator.grain(gateway.sent, 1).unwrap().unwrap();
    assert!(!window.is_writable() && window.copy_from(0, &[1]).is_err());
    gateway.close();
}
