//! Connections that end, fail, hang, and begin again.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::Domain as FabricDomain;
use loom_core::transport::Connected;
use loom_fabric::loom_core;
use loom_media::mxl::{FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, TargetInfo};
use loom_media::{InitiatorEvent, TargetStatus};
use support::posting::LIMIT;

use super::super::peers_in_c::tcp_in_rust;
use super::{ATTR, Target, World, fabric, flows, grains, info, initiator, ring, target, verify};

/// Fault 13: a target that has gone is removed without a report. Fault 7: it listens at another
/// port afterwards.
#[test]
fn an_initiator_connects_again_to_a_target_at_the_same_address() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let open = || {
        let domain = FabricDomain::open(&info(Some(&port))).unwrap();
        Target::open(&domain, ring(&grains(3)), grains(3), ATTR).unwrap()
    };
    let mut world = World::new(initiator(5, ATTR));
    let mut first = open();
    let key = world.connect(&mut first);
    let failed = |world: &World<_>| {
        world
            .ended
            .iter()
            .any(|event| matches!(event, InitiatorEvent::Target { target, result: Err(_) } if *target == key))
    };
    first.disconnect();
    world.until(&mut [&mut first], failed);
    world.write(&mut [], 0, false);
    let fanout = world.initiator.send_grain(0, 0..17).unwrap();
    assert_eq!((fanout.submitted, fanout.failed + fanout.connecting), (0, 1));
    world.until(&mut [&mut first], |world| world.initiator.status(key) == Some(TargetStatus::Ready));
    for index in 1..8 {
        world.write(&mut [&mut first], index, false);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
        world.until(&mut [&mut first], |world| world.count(FabricsEvent::Complete { index }) == 1);
        verify(&first, index);
    }
    if !info(None).raw().is_tested() {
        println!("skipped: providers that are not tested keep listeners open");
        return;
    }
    // Another target has other keys.
    drop(first);
    world.ended.clear();
    world.until::<Vec<u8>>(&mut [], failed);
    let mut second = open();
    world.until(&mut [&mut second], |world| world.initiator.status(key) == Some(TargetStatus::Ready));
    world.ended.clear();
    world.write(&mut [&mut second], 8, false);
    let _ = world.initiator.send_grain(8, 0..17).unwrap();
    let is_refused = |event: &InitiatorEvent| matches!(event, InitiatorEvent::Ended { result: Err(_), .. });
    world.until(&mut [&mut second], |world| world.ended.iter().any(is_refused));
    assert_eq!(world.count(FabricsEvent::Complete { index: 8 }), 0);
}

/// Fault 8: the listener is closed while a connection is open.
#[test]
fn a_second_initiator_is_rejected_until_the_first_one_leaves() {
    let mut target = target(3);
    let [mut first, mut second] = [World::new(initiator(5, ATTR)), World::new(initiator(5, ATTR))];
    let key = first.connect(&mut target);
    let other = second.initiator.add_target(target.info().unwrap()).unwrap();
    let is_rejected = |world: &World<_>| {
        world.ended.iter().any(|event| matches!(event, InitiatorEvent::Target { result: Err(_), .. }))
    };
    second.until(&mut [&mut target], is_rejected);
    first.write(&mut [], 0, false);
    let _ = first.initiator.send_grain(0, 0..17).unwrap();
    first.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index: 0 }) == 1);
    first.initiator.remove_target(key).unwrap();
    first.until(&mut [&mut target], |world| world.ended.contains(&InitiatorEvent::Removed { target: key }));
    second.until(&mut [&mut target], |world| world.initiator.status(other) == Some(TargetStatus::Ready));
    second.write(&mut [&mut target], 0, false);
    let _ = second.initiator.send_grain(0, 0..17).unwrap();
    second.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index: 0 }) == 1);
    second.write(&mut [&mut target], 1, false);
    let _ = second.initiator.send_grain(1, 0..17).unwrap();
    second.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index: 1 }) == 1);
    let attached = second.arrived.iter().chain(&first.arrived).filter(|event| **event == FabricsEvent::Attached);
    assert_eq!(attached.count(), 2);
}

fn with_port(mut info: TargetInfo, port: u16) -> TargetInfo {
    info.fabric_address[2..4].copy_from_slice(&port.to_be_bytes());
    info
}

fn port_of(info: &TargetInfo) -> u16 {
    u16::from_be_bytes([info.fabric_address[2], info.fabric_address[3]])
}

type WorldOver<T> = flows::World<T, Vec<u8>>;

/// Bytes with which an initiator requests a connection.
fn request<T: Connected + 'static>(mut world: WorldOver<T>, info: &TargetInfo) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let info = with_port(info.clone(), listener.local_addr().unwrap().port());
    world.initiator.add_target(info).unwrap();
    let (mut stream, mut bytes, mut quiet) = (None, Vec::new(), 0);
    while bytes.is_empty() || quiet < 20 {
        world.turn::<Vec<u8>>(&mut []);
        stream = stream.or_else(|| listener.accept().ok()).inspect(|(stream, _)| stream.set_nonblocking(true).unwrap());
        let (mut part, before) = ([0; 4096], bytes.len());
        if let Some((stream, _)) = &mut stream {
            let len = stream.read(&mut part).unwrap_or(0);
            bytes.extend_from_slice(&part[..len]);
        }
        quiet = if bytes.len() > before { 0 } else { quiet + 1 };
        thread::sleep(Duration::from_millis(1));
    }
    bytes
}

/// Fault 8: a peer that leaves while it connects takes the listener with it.
#[test]
fn strangers_and_peers_that_die_while_connecting_do_not_close_the_target() {
    strangers(&fabric());
    strangers(&tcp_in_rust());
}

fn strangers<T: Connected + 'static>(domain: &FabricDomain<'static, T>) {
    let attr = FabricsAttr { targets: 1, ..ATTR };
    let open = || WorldOver::new(FabricsInitiator::open(domain, ring(&grains(5)), grains(5), 0, attr).unwrap());
    let mut target = FabricsTarget::open(domain, ring(&grains(3)), grains(3), ATTR).unwrap();
    let info = target.info().unwrap();
    let request = request(open(), &info);
    let part = &request[..request.len() / 2];
    for bytes in [&[][..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096], part, &request] {
        let stranger = || {
            let mut stream = TcpStream::connect(("127.0.0.1", port_of(&info))).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        // One has gone before the target finds its bytes, one while it waits for more.
        drop(stranger());
        let (waits, mut events) = (stranger(), Vec::new());
        let limit = if bytes == request { LIMIT } else { Duration::from_millis(20) };
        let until = Instant::now() + limit;
        while Instant::now() < until && !events.contains(&FabricsEvent::Attached) {
            events.extend(target.poll().unwrap());
        }
        assert_eq!(events.contains(&FabricsEvent::Attached), bytes == request, "{events:?}");
        drop(waits);
        let mut world = open();
        let key = world.reach(&mut target);
        for index in 0..4 {
            world.write(&mut [&mut target], index, false);
            let _ = world.initiator.send_grain(index, 0..17).unwrap();
            world.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index }) == 1);
            verify(&target, index);
        }
        world.initiator.remove_target(key).unwrap();
        world.until(&mut [&mut target], |world| world.ended.contains(&InitiatorEvent::Removed { target: key }));
    }
}

/// Fault 22: the events of connections are looked at ten times a second. Fault 26: a call for
/// progress waits although no transfer is in flight.
#[test]
fn connections_and_idle_polls_take_less_time_than_those_of_mxl() {
    let times = (0..10).map(|_| {
        let (mut target, mut world) = (target(3), World::new(initiator(3, ATTR)));
        let began = Instant::now();
        world.connect(&mut target);
        let connected = began.elapsed();
        for _ in 0..100 {
            world.turn(&mut [&mut target]);
        }
        (connected, began.elapsed() - connected)
    });
    let (connected, idle): (Vec<_>, Vec<_>) = times.unzip();
    // Of the fastest, beside other programs.
    assert!(connected.iter().min() < Some(&Duration::from_millis(100)), "{connected:?}");
    assert!(idle.iter().min() < Some(&Duration::from_millis(100)), "100 polls: {idle:?}");
}

/// Faults 10 and 11: slices that were not sent on a connection are not valid.
#[test]
fn slices_of_a_grain_begun_on_another_connection_are_not_sent() {
    let (mut target, mut world) = (target(3), World::new(initiator(5, ATTR)));
    world.connect(&mut target);
    world.write(&mut [], 3, false);
    let _ = world.initiator.send_grain(3, 0..4).unwrap();
    world.until(&mut [&mut target], |world| world.count(FabricsEvent::Slices { index: 3, valid: 4 }) == 1);
    target.disconnect();
    world.until(&mut [&mut target], |world| world.count(FabricsEvent::Attached) == 2);
    world.until(&mut [&mut target], |world| {
        world.ended.iter().filter(|event| matches!(event, InitiatorEvent::Target { result: Ok(()), .. })).count() == 2
    });
    assert!(world.initiator.send_grain(3, 5..17).is_err(), "a gap");
    let _ = world.initiator.send_grain(3, 4..17).unwrap();
    world.write(&mut [], 4, false);
    let _ = world.initiator.send_grain(4, 0..17).unwrap();
    world.until(&mut [&mut target], |world| world.count(FabricsEvent::Complete { index: 4 }) == 1);
    assert_eq!(world.count(FabricsEvent::Complete { index: 3 }), 0);
    let is_passed = |event: &InitiatorEvent| matches!(event, InitiatorEvent::Passed { from: 3, to: 4, .. });
    assert!(world.ended.iter().any(is_passed), "{:?}", world.ended);
}

/// Fault 9: completions in front of a shutdown are lost. Fault 14: a removed target loses writes in
/// flight.
#[test]
fn grains_sent_before_a_disconnection_are_reported_before_it() {
    let (mut target, mut world) = (target(9), World::new(initiator(9, FabricsAttr { transfers: 8, ..ATTR })));
    let key = world.connect(&mut target);
    for index in 0..8 {
        world.write(&mut [], index, false);
        assert_eq!(world.initiator.send_grain(index, 0..17).unwrap().submitted, 1);
    }
    world.initiator.remove_target(key).unwrap();
    world.until(&mut [&mut target], |world| world.arrived.contains(&FabricsEvent::Detached { error: None }));
    let complete = (0..8).map(|index| FabricsEvent::Complete { index });
    let wanted: Vec<_> =
        [FabricsEvent::Attached].into_iter().chain(complete).chain([FabricsEvent::Detached { error: None }]).collect();
    assert_eq!(world.arrived, wanted);
    let ended = world.ended.iter().filter(|event| matches!(event, InitiatorEvent::Ended { result: Ok(()), .. }));
    assert_eq!(ended.count(), 8);
}

/// Fault 3: failed writes are counted for ever.
#[test]
fn a_wrong_key_ends_transfers_with_an_error() {
    let (mut wrong, mut right) = (target(5), target(5));
    let mut world = World::new(initiator(5, FabricsAttr { retry: 0, ..ATTR }));
    let mut info = wrong.info().unwrap();
    info.regions.iter_mut().for_each(|region| region.rkey ^= 0x5555);
    let failing = world.initiator.add_target(info).unwrap();
    world.until(&mut [&mut wrong], |world| world.initiator.status(failing) == Some(TargetStatus::Ready));
    world.connect(&mut right);
    for index in 0..20 {
        world.write(&mut [&mut wrong, &mut right], index, false);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
    }
    let failed = |event: &InitiatorEvent| matches!(event, InitiatorEvent::Ended { target, result: Err(_), .. } if *target == failing);
    world.until(&mut [&mut wrong, &mut right], |world| {
        let is_complete = world.arrived.contains(&FabricsEvent::Complete { index: 19 });
        is_complete && world.initiator.in_progress() == 0 && world.ended.iter().any(failed)
    });
    assert!(matches!(world.initiator.status(failing), Some(TargetStatus::Failed(_))));
    verify(&right, 19);
}

/// Forwards one connection, until it stalls. Returns the port.
fn stalling_proxy(to: u16, stalls: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, stalls) = (listener.local_addr().unwrap().port(), stalls.clone());
    thread::spawn(move || {
        let (initiator, target) = (listener.accept().unwrap().0, TcpStream::connect(("127.0.0.1", to)).unwrap());
        let copy = |mut from: TcpStream, mut to: TcpStream, stalls: Arc<AtomicBool>| {
            from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let (mut bytes, end) = ([0; 4096], Instant::now() + LIMIT);
            while Instant::now() < end {
                match from.read(&mut bytes) {
                    Ok(0) => break,
                    // No further bytes arrive, and the connection stays open.
                    Ok(_) if stalls.load(Ordering::Relaxed) => {}
                    Ok(len) => to.write_all(&bytes[..len]).unwrap(),
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => break,
                }
            }
        };
        let (back, stalls_back) = (target.try_clone().unwrap(), stalls.clone());
        let forth = initiator.try_clone().unwrap();
        thread::spawn(move || copy(back, initiator, stalls_back));
        copy(forth, target, stalls);
    });
    port
}

#[test]
fn a_target_that_accepts_no_connection_fails_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (target, attr) = (target(3), FabricsAttr { retry: 0, connect: 100_000_000, ..ATTR });
    let mut world = World::new(initiator(3, attr));
    let mute = with_port(target.info().unwrap(), listener.local_addr().unwrap().port());
    let key = world.initiator.add_target(mute).unwrap();
    world.until::<Vec<u8>>(&mut [], |world| !world.ended.is_empty());
    let [InitiatorEvent::Target { target, result: Err(error) }] = world.ended[..] else { panic!("{:?}", world.ended) };
    assert!(target == key && error.to_string().contains("`FabricsAttr::connect`"), "{error}");
    assert_eq!(world.initiator.status(key), Some(TargetStatus::Failed(error)));
}

#[test]
fn a_target_that_hangs_delays_no_other() {
    let (mut hangs, mut runs) = (target(3), target(3));
    let mut world = World::new(initiator(3, FabricsAttr { retry: 0, ..ATTR }));
    let stalls = Arc::new(AtomicBool::new(false));
    let hidden = hangs.info().unwrap();
    let proxy = stalling_proxy(port_of(&hidden), &stalls);
    let hidden = with_port(hidden, proxy);
    let hanging = world.initiator.add_target(hidden).unwrap();
    world.until(&mut [&mut hangs], |world| world.initiator.status(hanging) == Some(TargetStatus::Ready));
    let running = world.connect(&mut runs);
    stalls.store(true, Ordering::Relaxed);
    for index in 0..50 {
        let is_late = |world: &World<_>| world.initiator.in_progress() == 3;
        if index == 3 {
            world.until(&mut [&mut runs], is_late);
            assert!(world.initiator.grain(index).unwrap().is_none(), "the hanging target keeps the slot");
            world.initiator.lap(index + 1).unwrap();
            assert!(matches!(world.initiator.status(hanging), Some(TargetStatus::Failed(_))));
            if !info(None).raw().is_tested() {
                println!("skipped: operations of a provider that is not tested keep their slots");
                return;
            }
        }
        world.write(&mut [&mut runs], index, false);
        let _ = world.initiator.send_grain(index, 0..17).unwrap();
        world.until(&mut [&mut runs], |world| world.count(FabricsEvent::Complete { index }) == 1);
        verify(&runs, index);
    }
    let failed = |event: &&InitiatorEvent| matches!(event, InitiatorEvent::Ended { target, result: Err(_), .. } if *target == hanging);
    world.until(&mut [&mut runs], |world| world.ended.iter().filter(failed).count() == 3);
    assert_eq!(world.initiator.status(running), Some(TargetStatus::Ready));
}
