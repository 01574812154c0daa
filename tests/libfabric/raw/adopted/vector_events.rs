//! Address vectors that report insertions through an event queue (`FI_EVENT`).

use std::time::Duration;

use loom_core::transport::connected::{EqAttr, Fault, Fid, Notice};
use loom_core::transport::{AddressVectors, Connected, Endpoints};
use loom_core::vocabulary::{CmData, EventKind};
use loom_fabric::ofi::Eq;

use super::*;

/// Report of an event queue about insertions.
#[derive(Debug, PartialEq)]
enum Said {
    Inserted { vector: Fid, context: u64, count: u64 },
    Failed(Fault),
}

/// Returns the next event, if one arrives before the end.
fn next(eq: &Eq<Local>, end: Instant) -> Option<Said> {
    let mut data = CmData::EMPTY;
    loop {
        // SAFETY: the queue is open, and this thread is its only user.
        match unsafe { T::eq_read(eq, None, &mut data) } {
            Ok(Some(Notice::Entry(entry))) => {
                assert_eq!(entry.kind, EventKind::AV_COMPLETE);
                return Some(Said::Inserted { vector: entry.object, context: entry.context, count: entry.data });
            }
            Ok(None) if Instant::now() < end => {}
            Ok(None) => return None,
            Err(Errno::EAVAIL) => {
                // SAFETY: as above.
                let fault = unsafe { T::eq_read_error(eq, &mut data) }.unwrap();
                return Some(Said::Failed(fault.expect("an error")));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// `fi_av_insert` of addresses, which lasts until the events have arrived.
///
/// # Safety
/// The vector is open with a queue, and `peers` stays until the end of the insertion is reported.
unsafe fn insert(av: &Av<Local>, bytes: &[u8], peers: &mut [u64], context: usize) -> i32 {
    let raw = av.as_ptr();
    let insert = entry!(raw, ops => insert).unwrap();
    let context = std::ptr::without_provenance_mut(context);
    // SAFETY: the caller's promise. Providers read the addresses in the call, or copy them.
    unsafe { insert(raw, bytes.as_ptr().cast(), peers.len(), peers.as_mut_ptr(), 0, context) }
}

#[test]
fn insertions_are_reported_by_an_event_queue() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened = Opened::new(&info);
        let flags = u64::from(sys::FI_EVENT);
        let av = open_vector(&opened.domain, sys::fi_av_attr { count: 8, flags, ..Default::default() }).unwrap();
        // SAFETY: the domain is open.
        let eq = unsafe { T::eq_open(&opened.domain, EqAttr { size: 0, wait: WaitObj::NONE, write: false }) }.unwrap();
        let close_both = || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { T::av_close(&av) }.unwrap();
            // SAFETY: open, its vector is closed, and used no more.
            unsafe { T::eq_close(&eq) }.unwrap();
        };
        // SAFETY: both are open.
        if let Err(errno) = unsafe { bind(av.as_ptr(), eq.as_ptr(), 0) } {
            println!("{provider}: no vector with an event queue: {errno}");
            assert_eq!(errno, Errno::ENOSYS);
            assert!(library_version().major >= 2 && provider != "sockets");
            close_both();
            opened.close_unused();
            continue;
        }
        let cq = open_queue(&opened.domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let endpoint = opened.endpoint_of(&av, (queue, queue), &[]);
        // SAFETY: the endpoint is open.
        let address = unsafe { T::endpoint_address(&endpoint) }.unwrap();

        let soon = || Instant::now() + Duration::from_millis(300);
        let vector = Fid(av.as_ptr().addr() as u64);
        let mut own = [u64::MAX];
        // SAFETY: `own` does not move until the event has arrived.
        let code = unsafe { insert(&av, &together(&[&address]), &mut own, 77) };
        let said = next(&eq, soon());
        println!("{provider}: one address: {code}, {said:?}");
        if provider == "shm" {
            assert_eq!((code, said), (1, None), "as without a queue");
        } else {
            assert_eq!((code, said), (0, Some(Said::Inserted { vector, context: 77, count: 1 })));
        }
        moves(&cq, &endpoint, (&endpoint, FabricAddr(own[0])), 33);

        // An address of an unknown family. `shm` accepts any name.
        if provider != "shm" {
            let mut wrong = together(&[&address]);
            wrong[..2].copy_from_slice(&99_u16.to_ne_bytes());
            let mut nobody = [0];
            // SAFETY: as above.
            let code = unsafe { insert(&av, &wrong, &mut nobody, 78) };
            let said = [next(&eq, soon()), next(&eq, soon())];
            println!("{provider}: a wrong one: {code}, {said:?}");
            let [Some(Said::Failed(fault)), end] = said else { panic!("no error") };
            assert_eq!((code, fault.object, fault.context, fault.data), (0, vector, 78, 0));
            assert!([Errno::EADDRNOTAVAIL, Errno::EINVAL].contains(&fault.errno), "{fault:?}");
            assert_eq!(end, Some(Said::Inserted { vector, context: 78, count: 0 }));
            assert_eq!(FabricAddr(nobody[0]), FabricAddr::NOTAVAIL);
        }
        assert_eq!(next(&eq, Instant::now()), None, "each event once");
        ran.push(provider);
        opened.close(&endpoint, || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { cq.close() }.unwrap();
            close_both();
        });
    }
    println!("over {ran:?}");
    assert!(ran.iter().any(|provider| provider == "sockets"));
}
