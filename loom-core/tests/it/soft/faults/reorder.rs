//! Writes and reads that run later, and in another order.

use loom_core::buffer::Lent;
use loom_core::completion::Completion;
use loom_core::endpoint::Binding;
use loom_core::endpoint::{ReadOptions, SendOptions};
use loom_core::error::PostError;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::soft::{Plan, Soft};
use loom_core::vocabulary::{Access, Errno, ImmediateData, MsgOrder};

use crate::soft::faults::{Bytes, LONG, World, bytes, end, post, under};

type Region = Mr<'static, Soft<'static>, Bytes>;

const BOTH: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

fn byte(region: &Region, at: usize) -> u8 {
    region.window().load(at, std::sync::atomic::Ordering::Relaxed).unwrap()
}

#[test]
fn writes_are_seen_after_their_posts_before_their_ends_and_in_another_order() {
    let (mut later, mut swapped) = (false, false);
    for seed in 0..20 {
        under(Plan { reorder: 6, ..Plan::new(seed) }, |world| {
            let order = world.domain.info().attributes().tx.msg_order;
            assert!(!order.intersects(MsgOrder::WAW | MsgOrder::RAW | MsgOrder::SAW) && order.contains(MsgOrder::SAS));
            let region = Mr::open(&world.domain, bytes(0, 8), BOTH).unwrap();
            // Each write has its own target.
            let written = |at: u8| world.a.write(world.to_b, &region.remote(), at.into(), vec![200 + at].into());
            let keys: Vec<_> = (0..8).map(|at| written(at).unwrap()).collect();
            later |= (0..8).any(|at| byte(&region, at.into()) != 200 + at);
            let mut done = Vec::new();
            for _ in 0..100 {
                while let Some(completion) = world.a.cq().poll().unwrap() {
                    let Completion::Op(ended) = completion else { panic!("{completion:?}") };
                    let at = (0..8u8).find(|at| keys[usize::from(*at)] == ended.key()).unwrap();
                    assert_eq!(byte(&region, at.into()), 200 + at, "it is there when it is reported");
                    assert_eq!(ended.result().unwrap().len, 1);
                    done.push(at);
                }
            }
            assert_eq!(done.len(), 8, "all end");
            swapped |= !done.is_sorted();
        });
    }
    assert!(later && swapped);
}

#[test]
fn reads_and_operations_with_flags_are_late_too() {
    let (mut late, mut unsignaled) = (0, 0);
    for seed in 0..10 {
        under(Plan { reorder: 6, ..Plan::new(seed) }, |world| {
            let region = Mr::open(&world.domain, bytes(5, 64), BOTH).unwrap();
            let (remote, part) = (region.remote(), region.remote().part(8, 16).unwrap());
            let read = world.a.read(world.to_b, &remote, 8, bytes(0, 16)).unwrap();
            let other = world.a.read_with(world.to_b, &[part], Default::default(), bytes(0, 16)).unwrap();
            late += world.a.cq().in_flight();
            for key in [read, other] {
                let (buf, result) = end(world.a.cq(), key);
                assert_eq!((result.unwrap().len, &buf[..]), (16, &bytes(5, 64)[8..24]));
            }
            let written = world.a.write_with(world.to_b, &[part], SendOptions::default(), bytes(9, 16)).unwrap();
            assert!(end(world.a.cq(), written).1.is_ok());
            assert_eq!(byte(&region, 8), bytes(9, 1)[0]);
            unsignaled += world.injected().reordered;
        });
    }
    assert!(late > 0 && unsignaled > 10);
}

#[test]
fn an_injected_write_is_late_and_its_bytes_may_be_reused_at_once() {
    let mut late = false;
    for seed in 0..10 {
        under(Plan { reorder: 6, ..Plan::new(seed) }, |world| {
            let region = Mr::open(&world.domain, bytes(0, 64), BOTH).unwrap();
            let mut injected = [77; 4];
            world.a.inject_write(world.to_b, &region.remote(), 0, &injected).unwrap();
            injected.fill(1);
            late |= byte(&region, 0) != 77;
            world.quiet(10);
            assert_eq!([0, 1, 2, 3].map(|at| byte(&region, at)), [77; 4]);
            assert!(injected == [1; 4] && world.a.cq().in_flight() == 0);
            // A forbidden write is refused before it is delayed, because a later error would not be
            // reported.
            let closed = Mr::open(&world.domain, bytes(0, 64), Access::REMOTE_READ).unwrap();
            let told = closed.remote();
            let claimed = RemoteRegion { base: told.base, len: told.len, key: told.key, access: BOTH };
            let refused = world.a.inject_write(world.to_b, &claimed, 0, &[1]);
            assert_eq!(refused, Err(PostError::Errno(Errno::EACCES)));
        });
    }
    assert!(late);
}

#[test]
fn immediate_data_arrives_after_the_bytes() {
    for seed in 0..10 {
        under(Plan { reorder: 6, ..Plan::new(seed) }, |world| {
            let region = Mr::open(&world.domain, bytes(0, 8), BOTH).unwrap();
            for at in 0..8u8 {
                let (place, data) = (u64::from(at), ImmediateData(u64::from(at)));
                world.a.write_data(world.to_b, &region.remote(), place, data, vec![100 + at].into()).unwrap();
            }
            let mut told = Vec::new();
            for _ in 0..100 {
                assert!(!matches!(world.a.cq().poll().unwrap(), Some(Completion::Remote(_))));
                if let Some(Completion::Remote(event)) = world.b.cq().poll().unwrap() {
                    let at = u8::try_from(event.data().unwrap().0).unwrap();
                    assert_eq!(byte(&region, at.into()), 100 + at);
                    told.push(at);
                }
            }
            told.sort_unstable();
            assert_eq!(told, (0..8).collect::<Vec<_>>());
        });
    }
}

/// A world with a late write.
fn with_a_late_write(test: impl Fn(&World, &RemoteRegion, Region)) {
    let mut was_late = 0;
    for seed in 0..10 {
        under(Plan { reorder: 20, ..Plan::new(seed) }, |world| {
            let region = Mr::open(&world.domain, bytes(0, LONG), BOTH).unwrap();
            world.a.write(world.to_b, &region.remote(), 0, bytes(9, LONG)).unwrap();
            if world.injected().reordered > 0 {
                was_late += 1;
                assert_eq!(byte(&region, 0), bytes(0, 1)[0]);
                test(world, &region.remote(), region);
            }
        });
    }
    assert!(was_late > 5);
}

#[test]
fn a_region_that_closes_first_is_not_written() {
    with_a_late_write(|world, _, region| {
        // Closing returns the memory unchanged.
        assert_eq!(region.close().unwrap(), bytes(0, LONG));
        let done = crate::soft::faults::next(world.a.cq(), 100).expect("it ends");
        assert_eq!(done.result().unwrap_err().errno, Errno::ENOKEY);
        assert_eq!(done.into_buf(), bytes(9, LONG), "the buffer comes back");
    });
}

#[test]
fn an_endpoint_that_closes_first_does_not_write() {
    under(Plan { reorder: 1_000_000, ..Plan::new(0) }, |world| {
        let region = Mr::open(&world.domain, bytes(0, LONG), BOTH).unwrap();
        // More rounds than places in the raw queue.
        for round in 0..200 {
            let d = world.a.cq().endpoint(world.a.av()).unwrap();
            let before = world.injected().reordered;
            let write = |buf| d.write(world.to_b, &region.remote(), 0, buf);
            let key = post(world.a.cq(), bytes(9, LONG), write);
            d.inject_write(world.to_b, &region.remote(), 50, &[1]).unwrap();
            assert_eq!(world.injected().reordered - before, 2, "round {round}");
            drop(d);
            let (buf, result) = end(world.a.cq(), key);
            assert_eq!((buf, result.unwrap_err().errno), (bytes(9, LONG), Errno::ECANCELED));
        }
        world.quiet(2000);
        assert_eq!(region.close().unwrap(), bytes(0, LONG));
        // Its cells are free again, for the next endpoint with the port.
        let d = world.a.cq().endpoint(world.a.av()).unwrap();
        for _ in 0..crate::soft::faults::ATTR.tx_depth {
            d.inject(world.to_b, &[1]).unwrap();
        }
    });
}

#[test]
fn a_late_write_cannot_be_cancelled_and_ends_once() {
    with_a_late_write(|world, remote, region| {
        let key = world.a.write(world.to_b, remote, 0, bytes(3, LONG)).unwrap();
        world.a.cancel(key).unwrap();
        assert!(end(world.a.cq(), key).1.is_ok());
        let _ = crate::soft::faults::next(world.a.cq(), 100);
        world.quiet(100);
        assert_eq!(world.a.cq().in_flight(), 0);
        drop(region);
    });
}

#[test]
#[allow(unsafe_code, reason = "posts operations that no completion gives the memory of back")]
fn an_unsignaled_write_that_fails_late_is_reported() {
    let network = loom_core::soft::Network::new(crate::soft::faults::ATTR).unwrap();
    let domain =
        loom_core::domain::Domain::open(&network.info_with_faults(Plan { reorder: 1000, ..Plan::new(1) })).unwrap();
    let av = loom_core::av::Av::open(&domain, 2).unwrap();
    let cq = crate::soft::faults::Queue::open(&domain, 4).unwrap();
    let a = cq.endpoint(Binding::to(&av).selective()).unwrap();
    let to_a = av.insert(&a.address().unwrap()).unwrap();
    let region = Mr::open(&domain, bytes(0, 64), BOTH).unwrap();
    let source = [1; 8];
    let lent = Lent::source(core::ptr::NonNull::from_ref(&source).cast(), 8);
    // SAFETY: the bytes are read only, and outlive the queue.
    unsafe { a.write_unsignaled(to_a, &region.remote(), 0, SendOptions::default(), &lent) }.unwrap();
    assert_eq!(network.injected().reordered, 1);
    drop(region);
    let told = (0..3000).find_map(|_| cq.poll().unwrap());
    let Some(Completion::Unclaimed(error)) = told else { panic!("its failure") };
    assert_eq!(error.errno, Errno::ENOKEY);
}

#[test]
fn announced_writes_and_reads_wait_for_the_next_operation_without_fi_more() {
    under(Plan { doorbell: true, ..Plan::new(1) }, |world| {
        let region = Mr::open(&world.domain, bytes(7, 8), BOTH).unwrap();
        let parts = [0, 1, 2].map(|at| region.remote().part(at, 1).unwrap());
        let more = SendOptions { more: true, ..SendOptions::default() };
        let announced = world.a.write_with(world.to_b, &parts[..1], more, vec![1].into()).unwrap();
        let read = ReadOptions { more: true, ..ReadOptions::default() };
        let read = world.a.read_with(world.to_b, &parts[1..2], read, bytes(0, 1)).unwrap();
        for _ in 0..100 {
            assert!(world.a.cq().poll().unwrap().is_none());
        }
        assert_eq!(byte(&region, 0), bytes(7, 1)[0]);
        let last = world.a.write(world.to_b, &parts[2], 0, vec![3].into()).unwrap();
        let [_, read, _] = [announced, read, last].map(|key| {
            let (buf, result) = end(world.a.cq(), key);
            result.unwrap();
            buf
        });
        assert_eq!((byte(&region, 0), &read[..], byte(&region, 2)), (1, &bytes(7, 8)[1..2], 3));
    });
}
