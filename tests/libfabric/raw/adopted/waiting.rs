//! Wait sets with counters and event queues.

use std::ptr;

use loom_core::transport::connected::Notice;
use loom_core::transport::{Connected, Counters, Messages};
use loom_core::vocabulary::{CmData, Counted};
use loom_fabric::ofi::{Counter, Eq, WaitSet};

use super::*;

/// Returns a set, if queues have wait objects.
fn open_set(opened: &Opened<'_>, provider: &str) -> Option<WaitSet<Local>> {
    // SAFETY: the domain is open.
    match unsafe { WaitSet::open(&opened.domain, WaitObj::FD) } {
        Ok(set) => Some(set),
        Err(errno) => {
            println!("{provider}: no wait set: {errno}");
            assert_eq!(errno, Errno::ENOSYS);
            assert!(provider == "shm" || !opened.info.raw().is_tested());
            None
        }
    }
}

fn sleep_until(set: &WaitSet<Local>, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    loop {
        // SAFETY: the set and its members are open, and this thread is their only user.
        let woken = unsafe { set.wait(i32::try_from(LIMIT.as_millis()).unwrap()) }.unwrap();
        assert!(woken && begin.elapsed() < LIMIT / 2, "it is not woken up");
        if happened() {
            return;
        }
    }
}

#[test]
fn a_wait_set_sleeps_on_a_counter() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened_all = Opened::new(&info);
        let Some(set) = open_set(&opened_all, &provider) else {
            opened_all.close_unused();
            continue;
        };
        let domain = opened_all.domain.as_ptr();
        let mut attr =
            sys::fi_cntr_attr { wait_obj: WaitObj::SET.as_raw(), wait_set: set.as_ptr(), ..Default::default() };
        let (mut raw, open) = (ptr::null_mut(), entry!(domain, ops => cntr_open).unwrap());
        // SAFETY: domain and set are open. The counter goes to `raw`.
        let code = unsafe { open(domain, &raw mut attr, &raw mut raw, ptr::null_mut()) };
        // SAFETY: just opened, and slept on by its set alone.
        let counter = unsafe { Counter::from_ptr(opened(code, raw).unwrap()) };
        let cq = open_queue(&opened_all.domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let (endpoint, own) = opened_all.endpoint((queue, queue), &[(Counted::RECV, &counter)]);
        // Spurious wakes are allowed. SAFETY: the set and its members are open, and this thread is
        // their only user.
        let woken = unsafe { set.wait(20) }.unwrap();
        // SAFETY: the counter is open.
        assert_eq!(unsafe { T::counter_read(&counter) }, Ok(0));
        let (sent, mut room) = (pattern(61, 100), vec![0; 100]);
        let (from, into) = (crate::raw::source(&sent), crate::raw::target(&mut room));
        // SAFETY: the queue is open, and this thread is its only user.
        let nothing = || assert_eq!(unsafe { cq.read(&mut [CqTaggedEntry::default()]) }, Ok(0));
        // SAFETY: the bytes outlive the endpoint's operations. Words are no pointers.
        retry(nothing, || unsafe {
            T::recv(&endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(TAG)), word(1))
        });
        // SAFETY: as above. The peer is in the vector.
        retry(nothing, || unsafe { T::send(&endpoint, own, &from, Some(TAG), None, word(2)) });
        // SAFETY: the counter is open.
        sleep_until(&set, || unsafe { T::counter_read(&counter) } == Ok(1));
        println!("{provider}: slept until a message was counted (and for nothing: {woken})");
        assert_eq!(room, sent);
        opened_all.close(&endpoint, || {
            // SAFETY: open, without endpoints, and used no more, as are those below.
            unsafe { T::counter_close(&counter) }.unwrap();
            // SAFETY: as above.
            unsafe { cq.close() }.unwrap();
            // SAFETY: as above, and its members are closed.
            unsafe { set.close() }.unwrap();
        });
        ran.push(provider);
    }
    assert!(ran.len() >= if are_tested() { 3 } else { 0 }, "over {ran:?} only");
}

#[test]
fn a_wait_set_sleeps_on_an_event_queue() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened_all = Opened::new(&info);
        let Some(set) = open_set(&opened_all, &provider) else {
            opened_all.close_unused();
            continue;
        };
        let fabric = opened_all.fabric.as_ptr();
        let mut attr = sys::fi_eq_attr {
            flags: u64::from(sys::FI_WRITE),
            wait_obj: WaitObj::SET.as_raw(),
            wait_set: set.as_ptr(),
            ..Default::default()
        };
        let (mut raw, open) = (ptr::null_mut(), entry!(fabric, ops => eq_open).unwrap());
        // SAFETY: fabric and set are open. The queue goes to `raw`.
        let code = unsafe { open(fabric, &raw mut attr, &raw mut raw, ptr::null_mut()) };
        match opened(code, raw) {
            Ok(raw) => {
                // SAFETY: just opened.
                let eq = unsafe { Eq::<Local>::from_ptr(raw) };
                // Spurious wakes are allowed. SAFETY: the set and its members are open, and this
                // thread is their only user.
                unsafe { set.wait(10) }.unwrap();
                // SAFETY: open for writing, and this thread is its only user, here and below.
                unsafe { T::eq_notify(&eq, 7, 8) }.unwrap();
                let mut data = CmData::EMPTY;
                // SAFETY: the set and its members are open, and this thread is their only user.
                assert!(unsafe { set.wait(i32::try_from(LIMIT.as_millis()).unwrap()) }.unwrap(), "it is not woken up");
                // SAFETY: as above.
                match unsafe { T::eq_read(&eq, None, &mut data) }.unwrap() {
                    Some(Notice::Entry(entry)) => assert_eq!((entry.context, entry.data), (7, 8)),
                    other => panic!("{other:?}"),
                }
                println!("{provider}: woken up by an event");
                // SAFETY: open, and used no more.
                unsafe { T::eq_close(&eq) }.unwrap();
                ran.push(provider);
            }
            Err(errno) => panic!("{provider}: {errno}"),
        }
        // SAFETY: open, its members are closed, and used no more.
        unsafe { set.close() }.unwrap();
        opened_all.close_unused();
    }
    assert!(ran.len() >= if are_tested() { 3 } else { 0 }, "over {ran:?} only");
}
