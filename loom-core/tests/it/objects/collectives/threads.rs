//! Members on threads of their own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::error::{OpenError, PostError};
use loom_core::soft::Network;
use loom_core::{Deadline, EndpointAddr, Errno};
// ThreadSanitizer sees the order that this mutex makes, because it is not part of the standard
// library.
use spin::Mutex;

use crate::objects::collectives::world::{Group, Queue, bytes, info, network, with_room};

/// Limit of all waits of one test.
const LIMIT: Duration = Duration::from_secs(120);

/// Yields to other threads, in case there are more threads than processors.
#[derive(Clone, Copy)]
struct Patient(Instant);

impl Deadline for Patient {
    fn passed(&mut self) -> bool {
        std::thread::yield_now();
        self.0.passed()
    }
}

/// Runs each member on a thread, with a domain, a vector and a queue of its own.
fn on_threads(network: &Network<'static>, size: u16, member: impl Fn(&Queue, Group, Patient) + Sync) {
    let info = info(network);
    let (addresses, together) = (Mutex::new(Vec::<EndpointAddr>::new()), Barrier::new(size.into()));
    let until = Patient(Instant::now() + LIMIT);
    std::thread::scope(|scope| {
        let one = || {
            scope.spawn(|| {
                let domain = Domain::open(&info).unwrap();
                let av = Av::open(&domain, usize::from(size)).unwrap();
                let cq = Cq::open(&domain, CqAttr::new(8)).unwrap();
                let endpoint = cq.endpoint(&av).unwrap();
                addresses.lock().push(endpoint.address().unwrap());
                together.wait();
                let mut set = av.set_in(size.into(), Global).unwrap();
                for address in addresses.lock().iter() {
                    assert!(set.insert(av.insert(address).unwrap()).unwrap());
                }
                let group = endpoint.join_collective(&set).unwrap();
                drop(endpoint);
                member(&cq, group, until);
            })
        };
        let threads: Vec<_> = (0..size).map(|_| one()).collect();
        // Joins one by one, so that ThreadSanitizer sees it.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn members_on_threads_see_the_same_results_in_ten_thousand_rounds() {
    const SIZE: u16 = 4;
    const ROUNDS: u64 = 10_000;
    on_threads(&network(SIZE, 1), SIZE, |cq, group, until| {
        let (rank, size) = (group.rank() as u64, u64::from(SIZE));
        let mut buf = Vec::new();
        for round in 0..ROUNDS {
            let key = cq.retry(until, || group.all_reduce_value(ReduceOp::SUM, round * 10 + rank)).unwrap();
            buf.clear();
            buf.extend(with_room(&[round * 100 + rank], SIZE.into()));
            let gathered = cq.post(buf, until, |buf| group.post(Collective::all_gather::<u64>(), 0, buf)).unwrap();
            let sum = cq.wait_value(key, until).unwrap().expect("in time").value::<u64>().unwrap();
            assert_eq!(sum, Some(size * round * 10 + size * (size - 1) / 2));
            let done = cq.finish(gathered, until).unwrap();
            buf = done.into_buf();
            let all: Vec<u64> = (0..size).map(|rank| round * 100 + rank).collect();
            assert_eq!(buf[8..], bytes(&all));
        }
        let last = cq.retry(until, || group.barrier()).unwrap();
        assert!(cq.wait_value(last, until).unwrap().expect("in time").result().is_ok());
    });
}

/// One member leaves before or during operations of the others. Returned buffers are not written
/// to.
#[test]
fn a_member_that_leaves_in_the_middle_ends_the_operations_of_members_on_other_threads() {
    // The ports of members and the place of the group are reused in each round.
    let network = network(3, 1);
    for round in 0..300_u64 {
        let all_are_done = Barrier::new(3);
        on_threads(&network, 3, |cq, group, until| {
            let leaves = group.rank() as u64 == round % 3;
            let mut kept = Vec::new();
            let ended = 'calls: loop {
                let mut keys = Vec::new();
                for call in 0..1 + round % 4 {
                    let buf = with_room(&[call; 64], 64);
                    match cq.post(buf, until, |buf| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf)) {
                        Ok(key) => keys.push(key),
                        Err(rejected) => {
                            assert_eq!(rejected.error, PostError::Errno(Errno::ECONNRESET));
                            break;
                        }
                    }
                }
                if leaves && kept.len() as u64 > round % 7 {
                    drop(group);
                    break keys;
                }
                let all = keys.len() as u64 == 1 + round % 4;
                for (at, key) in keys.iter().enumerate() {
                    let (buf, result) = cq.finish(*key, until).unwrap().into_parts();
                    match result {
                        Ok(_) => assert_eq!(buf[512..], bytes(&[at as u64 * 3; 64])),
                        Err(error) => {
                            assert_eq!(error.errno, Errno::ECONNRESET);
                            kept.push(buf);
                            break 'calls keys.split_off(at + 1);
                        }
                    }
                    kept.push(buf);
                }
                if !all {
                    // The post was refused, and the operations before it have run.
                    break Vec::new();
                }
            };
            for key in ended {
                let (buf, result) = cq.finish(key, until).unwrap().into_parts();
                let expected = if leaves { Errno::ECANCELED } else { Errno::ECONNRESET };
                assert!(result.is_ok() || result.is_err_and(|error| error.errno == expected));
                kept.push(buf);
            }
            // The memory belongs to this thread again, so no later event changes it.
            kept.iter_mut().for_each(|buf| buf.fill(0x5a));
            all_are_done.wait();
            assert!(kept.iter().flatten().all(|byte| *byte == 0x5a));
        });
    }
}

/// A peer is removed from the vector while a member joins it. The group has all members of the set,
/// or is refused.
#[test]
fn a_peer_that_is_removed_while_others_join_is_a_member_or_refused() {
    let network = network(2, 1);
    let domain = Domain::open(&info(&network)).unwrap();
    let av = Av::open(&domain, 64).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(8)).unwrap();
    let (me, other) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let mine = av.insert(&me.address().unwrap()).unwrap();
    let address = other.address().unwrap();
    // The peer for the other thread to remove, the current round, and the last completed round.
    let (told, round_of, over) = (Mutex::new(None), AtomicU32::new(0), AtomicU32::new(0));
    let (mut joined, mut refused, mut round) = (0, 0, 0);
    let until = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            for round in 1_u32.. {
                while round_of.load(Ordering::Acquire) < round {
                    std::hint::spin_loop();
                }
                let Some(peer) = told.lock().take() else { return };
                (0..round % 400).for_each(|_| std::hint::spin_loop());
                av.remove(peer);
                over.store(round, Ordering::Release);
            }
        });
        while Instant::now() < until {
            round += 1;
            let peer = av.insert(&address).unwrap();
            let mut set = av.set_in(2, Global).unwrap();
            assert!(set.insert(peer).unwrap() && set.insert(mine).unwrap());
            *told.lock() = Some(peer);
            round_of.store(round, Ordering::Release);
            (0..50).for_each(|_| std::hint::spin_loop());
            match me.join_collective(&set) {
                Ok(group) => {
                    assert_eq!((group.size(), group.is_joined()), (2, Ok(false)), "the other one has not joined");
                    joined += 1;
                }
                Err(error) => {
                    assert_eq!(error, OpenError::UnknownPeer);
                    refused += 1;
                }
            }
            while over.load(Ordering::Acquire) < round {
                std::thread::yield_now();
            }
        }
        // Without a peer to remove, the thread ends.
        round_of.store(u32::MAX, Ordering::Release);
        other.join().unwrap();
    });
    println!("{joined} joined, {refused} were refused");
    assert!(joined + refused > 100);
}
