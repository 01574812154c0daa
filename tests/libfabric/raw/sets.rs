//! Poll sets and wait sets, over each provider that has them.

use std::cell::RefCell;
use std::time::Instant;

use loom_core::transport::{CounterAttr, Counters};
use loom_core::vocabulary::{Counted, CqEntry, CqMsgEntry, Errno, WaitObj};
use loom_fabric::ofi::{EntryCq, Local, PollSet, PollSetMember, QueueEntry, WaitSet};

use super::loopback::{Opened, T, are_tested, infos, message};
use super::{LIMIT, pattern};

fn read<E: QueueEntry + Default>(cq: &EntryCq<E, Local>) -> usize {
    // SAFETY: the queue is open, and this thread is its only user.
    unsafe { cq.read(&mut [E::default(); 4]) }.unwrap()
}

#[test]
fn a_poll_set_reports_its_ready_queues_and_counters() {
    for info in infos() {
        println!("{info}");
        let end = Instant::now() + LIMIT;
        let opened = Opened::new(&info);
        let domain = &opened.domain;
        // SAFETY: the domain is open.
        let cq = unsafe { EntryCq::<CqMsgEntry, Local>::open(domain, 16, WaitObj::NONE) }.unwrap();
        // SAFETY: as above.
        let counter = unsafe { T::counter_open(domain, CounterAttr::default()) }.unwrap();
        // SAFETY: as above.
        let set = unsafe { PollSet::open(domain) }.unwrap();
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let (endpoint, own) = opened.endpoint((queue, queue), &[(Counted::RECV, &counter)]);
        // SAFETY: open, of the set's domain, and not in it.
        unsafe { set.add(&cq) }.unwrap();
        // SAFETY: as above.
        unsafe { set.add(&counter) }.unwrap();
        let told = RefCell::new(Vec::new());
        let poll = || {
            let mut ready = [None; 4];
            // SAFETY: open, with its members, and this thread is their only user.
            let count = unsafe { set.poll(&mut ready) }.unwrap();
            told.borrow_mut().extend(ready.into_iter().take(count).flatten());
        };
        poll();
        assert!(told.borrow().is_empty(), "nothing has happened");
        let (sent, mut room) = (pattern(5, 64), vec![0; 64]);
        // SAFETY: the bytes outlive the events, which are waited for below.
        unsafe { message((&endpoint, own), &sent, &mut room, poll) };
        let mut entries = 0;
        while entries < 2 || !told.borrow().contains(&PollSetMember::<Local>::fid(&counter)) {
            assert!(Instant::now() < end, "{entries} entries, told of {told:?}");
            poll();
            if told.borrow_mut().pop_if(|last| *last == PollSetMember::<Local>::fid(&cq)).is_some() {
                entries += read(&cq);
            }
        }
        assert_eq!(room, sent);
        // SAFETY: as above.
        assert_eq!(unsafe { set.poll(&mut []) }, Ok(0), "there is no room");
        // SAFETY: they are in the set.
        unsafe { set.remove(&cq) }.unwrap();
        // SAFETY: as above.
        unsafe { set.remove(&counter) }.unwrap();
        told.take();
        poll();
        assert!(told.borrow().is_empty(), "nothing is in it");
        opened.close(&endpoint, || {
            // SAFETY: open, empty, and used no more, as are those below.
            unsafe { set.close() }.unwrap();
            // SAFETY: as above.
            unsafe { cq.close() }.unwrap();
            // SAFETY: as above.
            unsafe { T::counter_close(&counter) }.unwrap();
        });
    }
}

#[test]
fn a_wait_set_sleeps_on_several_queues() {
    let mut ran = 0;
    for info in infos() {
        println!("{info}");
        let end = Instant::now() + LIMIT;
        let opened = Opened::new(&info);
        let domain = &opened.domain;
        // SAFETY: the domain is open.
        let set = match unsafe { WaitSet::open(domain, WaitObj::FD) } {
            Ok(set) => set,
            Err(errno) => {
                assert_eq!(errno, Errno::ENOSYS);
                assert!(info.provider() == "shm" || !info.raw().is_tested());
                continue;
            }
        };
        // SAFETY: as above.
        let tx = unsafe { set.open_queue::<CqEntry>(domain, 16) }.unwrap();
        // SAFETY: as above.
        let rx = unsafe { set.open_queue::<CqMsgEntry>(domain, 16) }.unwrap();
        // SAFETY: named in bindings.
        let of_sends = unsafe { tx.for_bindings() };
        // SAFETY: as above.
        let of_receives = unsafe { rx.for_bindings() };
        let (endpoint, own) = opened.endpoint((of_sends, of_receives), &[]);
        // SAFETY: open, and this thread is its only user.
        let slept = unsafe { tx.sread(&mut [CqEntry::default()], 1) };
        assert_eq!(slept, Err(Errno::ENOSYS), "the set sleeps, not the queue");
        // Spurious wakes are allowed. SAFETY: open, with its queues, and this thread is their only
        // user.
        while unsafe { set.wait(20) }.unwrap() {
            assert!(Instant::now() < end, "it does not sleep");
            assert_eq!((read(&tx), read(&rx)), (0, 0));
        }
        let (sent, mut room) = (pattern(6, 64), vec![0; 64]);
        // SAFETY: the bytes outlive the events, which are waited for below.
        unsafe { message((&endpoint, own), &sent, &mut room, || assert_eq!(read(&tx) + read(&rx), 0)) };
        let (mut of_tx, mut of_rx) = (0, 0);
        let begin = Instant::now();
        while (of_tx, of_rx) != (1, 1) {
            assert!(Instant::now() < end, "{of_tx} and {of_rx} entries");
            // SAFETY: as above.
            unsafe { set.wait(i32::try_from(LIMIT.as_millis()).unwrap()) }.unwrap();
            of_tx += read(&tx);
            of_rx += read(&rx);
        }
        assert!(begin.elapsed() < LIMIT / 2, "it is not woken up");
        assert_eq!(room, sent);
        // SAFETY: as above. It was opened with a descriptor.
        match unsafe { set.wait_fd() } {
            Ok(fd) => assert!(fd >= 0),
            Err(errno) => println!("  no descriptor: {errno}"),
        }
        opened.close(&endpoint, || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { tx.close() }.unwrap();
            // SAFETY: as above.
            unsafe { rx.close() }.unwrap();
            // SAFETY: open, its queues are closed, and used no more.
            unsafe { set.close() }.unwrap();
        });
        ran += 1;
    }
    assert!(ran >= if are_tested() { 3 } else { 0 }, "over {ran} providers only");
}
