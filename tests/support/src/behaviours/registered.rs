//! Buffers that are registered for local use.

use loom_core::av::Av;
use loom_core::buffer::bytes_mut;
use loom_core::completion::Transfer;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::endpoint::{RecvOptions, SendOptions};
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::registered::Registered;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Tag};

use crate::behaviours::needs::{Behaviour, MSG, TAGGED_AND_RMA};
use crate::behaviours::pair::{Bytes, OrCut, limit, pattern, room};
use crate::memory::allocator;
use crate::posting::post;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("registered_buffers_serve_every_operation", TAGGED_AND_RMA, registered_buffers_serve_every_operation),
        ("a_registration_of_another_domain_is_refused", MSG, a_registration_of_another_domain_is_refused),
        ("registered_buffers_are_dropped_with_their_queue", MSG, registered_buffers_are_dropped_with_their_queue),
    ]
}

type Buf<'d, T> = Registered<'d, T, Bytes>;

fn register<'d, T: Transport + 'static>(domain: &Domain<'d, T>, bytes: Bytes) -> Buf<'d, T> {
    Registered::new(domain, bytes).unwrap_or_else(|error| panic!("{error:#}"))
}

fn finish<'d, T: Transport + 'static>(cq: &Cq<'_, T, Buf<'d, T>>, key: OpKey) -> (Buf<'d, T>, Transfer) {
    let done = cq.wait(key, limit()).or_cut("the queue works").expect("the operation ends in time");
    let (buf, result) = done.into_parts();
    (buf, result.or_cut("the operation succeeds"))
}

fn registered_buffers_serve_every_operation<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let region = Mr::open_in(&domain, room(1 << 20), access, allocator()).expect("region");
    scope(|s| {
        let cq = &Cq::<T, Buf<'_, T>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        for (seed, len) in [1, 64, 5000, 1 << 20].into_iter().enumerate() {
            let (mut out, mut into) = (register(&domain, pattern(len, seed)), register(&domain, room(len)));
            for tagged in [false, true] {
                for msg in [false, true] {
                    bytes_mut(&mut into).expect("a buffer of bytes").fill(0xee);
                    let received = post(cq, into, |into| match (tagged, msg) {
                        (false, false) => b.recv(Source::Any, into),
                        (false, true) => b.recv_with(Source::Any, RecvOptions::default(), into),
                        (true, false) => b.tagged_recv(Source::Any, Tag(4), into),
                        (true, true) => b.tagged_recv_with(Source::Any, Tag(4), RecvOptions::default(), into),
                    });
                    let sent = post(cq, out, |out| match (tagged, msg) {
                        (false, false) => a.send(to_b, out),
                        (false, true) => a.send_with(to_b, SendOptions::default(), out),
                        (true, false) => a.tagged_send(to_b, Tag(4), out),
                        (true, true) => a.tagged_send_with(to_b, Tag(4), SendOptions::default(), out),
                    });
                    (into, _) = finish(cq, received);
                    assert!(**into == *pattern(len, seed), "{len} bytes, tagged {tagged}, msg {msg}");
                    (out, _) = finish(cq, sent);
                }
            }
            let remote = region.remote();
            let written = post(cq, out, |out| a.write(to_b, &remote, 0, out));
            (out, _) = finish(cq, written);
            // The completion of a write does not report that its bytes have arrived. A later read
            // finds them.
            let mut deadline = limit();
            loop {
                bytes_mut(&mut into).expect("a buffer of bytes").fill(0xee);
                let read = post(cq, into, |into| a.read(to_b, &remote, 0, into));
                (into, _) = finish(cq, read);
                if **into == *pattern(len, seed) {
                    break;
                }
                assert!(!deadline.passed(), "{len} bytes are written and read");
            }
            assert!(out.into_inner() == pattern(len, seed), "the bytes come back");
        }
    });
}

fn a_registration_of_another_domain_is_refused<T: Transport + 'static>(info: &Info<T>) {
    let (domain, other) = (Domain::open(info).expect("domain"), Domain::open(info).expect("another domain"));
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::<T, Buf<'_, T>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let rejected = endpoint.recv(Source::Any, register(&other, room(8))).expect_err("it is another domain's");
        assert_eq!(rejected.error, PostError::ForeignDescriptor);
        assert_eq!(rejected.value.into_inner(), room(8));
    });
}

fn registered_buffers_are_dropped_with_their_queue<T: Transport + 'static>(info: &Info<T>) {
    if !crate::behaviours::waiting::closes_with_receives(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::<T, Buf<'_, T>>::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        for _ in 0..4 {
            let buf = register(&domain, room(100));
            post(cq, buf, |buf| endpoint.recv(Source::Any, buf));
        }
    });
    // The domain closes, because no object of it is open.
    drop(Mr::open_in(&domain, room(8), Access::REMOTE_READ, allocator()).expect("a region"));
}
