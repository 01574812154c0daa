//! Opening, closing, dropping and forgetting, in any order that compiles, with operations in
//! flight.

use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom_core::av::Av;
use loom_core::buffer::{AnyBuffer, Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::error::{OpenError, PostError};
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, EndpointAddr, Errno, ImmediateData, MemoryKey, RemoteAddr, Tag};
use loom_core::{AddressError, scope};

use crate::behaviours::needs::{Behaviour, MSG, RMA, tags};
use crate::behaviours::pair::{
    Bytes, OrCut, Pair, fails_with, fences, is_tested, limit, most, on_pair, pattern, post_on, room,
};
use crate::behaviours::rma::MAY_STAY;
use crate::behaviours::waiting::{cancels_receives, closes_with_receives};
use crate::memory::allocator;
use crate::posting::or_less;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("closed_endpoint_gives_its_buffers_back", MSG, closed_endpoint_gives_its_buffers_back),
        ("completed_operations_survive_the_close_of_their_endpoint", MSG, completed_operations_survive_the_close),
        ("slots_of_a_closed_endpoint_can_be_used_again", MSG, slots_of_a_closed_endpoint_can_be_used_again),
        (
            "closing_in_the_middle_of_a_long_message_harms_no_other_endpoint",
            MSG,
            closing_in_the_middle_of_a_long_message,
        ),
        ("reads_in_flight_come_back_with_their_endpoint", RMA, reads_in_flight_come_back_with_their_endpoint),
        (
            "messages_to_an_endpoint_that_was_closed_before_harm_no_other_endpoint",
            MSG,
            messages_to_an_endpoint_that_was_closed_before,
        ),
        ("every_buffer_is_dropped_once", MSG, every_buffer_is_dropped_once),
        ("borrowed_buffers_come_back_from_a_scope", MSG, borrowed_buffers_come_back_from_a_scope),
        ("panic_in_a_scope_closes_first", MSG, panic_in_a_scope_closes_first),
        ("forgotten_endpoint_is_closed_with_its_queue", MSG, forgotten_endpoint_is_closed_with_its_queue),
        ("forgotten_queue_leaks_without_other_effects", MSG, forgotten_queue_leaks_without_other_effects),
        ("forgotten_region_leaks_without_other_effects", RMA, forgotten_region_leaks_without_other_effects),
        ("removed_peer_is_refused", MSG, removed_peer_is_refused),
        ("peer_may_be_inserted_by_node_and_service", MSG, peer_may_be_inserted_by_node_and_service),
        ("wrong_kind_of_buffer_is_refused", MSG, wrong_kind_of_buffer_is_refused),
        ("address_vector_of_another_domain_is_refused", MSG, address_vector_of_another_domain_is_refused),
        ("foreign_address_is_refused", MSG, foreign_address_is_refused),
        ("endpoints_come_and_go", MSG, endpoints_come_and_go),
        ("buffer_that_panics_when_lent_is_dropped_once", MSG, buffer_that_panics_when_lent_is_dropped_once),
        (
            "destructors_that_panic_while_closing_leave_a_domain_that_works",
            RMA,
            destructors_that_panic_while_closing_leave_a_domain_that_works,
        ),
    ]
}

fn closed_endpoint_gives_its_buffers_back<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    on_pair(info, |pair| {
        pair.warm_up();
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let receives: Vec<_> =
            (0..5).map(|seed| (seed, pair.post(pattern(16, seed), |buf| c.recv(Source::Any, buf)))).collect();
        let other = pair.post(room(16), |buf| pair.b.recv(Source::Any, buf));
        drop(c);
        for (seed, key) in receives {
            let (buf, _) = pair.fail(key, Errno::ECANCELED);
            assert_eq!(buf, pattern(16, seed));
        }
        assert_eq!(pair.cq.in_flight(), 1, "the other endpoint's receive is still there");
        let sent = pair.post(pattern(16, 9), |buf| pair.a.send(pair.to_b, buf));
        assert_eq!(pair.finish(other).0, pattern(16, 9));
        pair.finish(sent);
    });
}

fn completed_operations_survive_the_close<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let to_c = pair.av.insert(&c.address().expect("address")).expect("in the vector");
        let received = pair.post(room(16), |buf| c.recv(Source::Any, buf));
        let sent = pair.post(pattern(16, 4), |buf| pair.a.send(to_c, buf));
        pair.finish(sent);
        // The sender's completion does not report that the receiver has made progress, so it gets
        // time.
        let mut deadline = limit();
        while pair.cq.in_flight() > 0 {
            assert!(!deadline.passed(), "the message arrives");
            pair.cq.progress().or_cut("the queue works");
        }
        drop(c);
        assert_eq!(pair.finish(received).0, pattern(16, 4));
    });
}

fn slots_of_a_closed_endpoint_can_be_used_again<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    on_pair(info, |pair| {
        pair.warm_up();
        for round in 0..10 {
            let c = pair.cq.endpoint(pair.av).expect("endpoint c");
            let keys: Vec<_> = (0..60).map(|_| pair.post(room(8), |buf| c.recv(Source::Any, buf))).collect();
            drop(c);
            for key in keys {
                assert_eq!(pair.fail(key, Errno::ECANCELED).0.len(), 8, "round {round}");
            }
        }
        pair.warm_up();
    });
}

/// Closes an endpoint with reads of any length. The peer does not write to the returned buffers
/// later.
fn reads_in_flight_come_back_with_their_endpoint<T: Transport + 'static>(info: &Info<T>) {
    let lens = [8, 64, 4096, or_less(1 << 20, 1 << 16)];
    let content = pattern(lens[3], 1);
    for progress in [0, 1, 3, 10] {
        on_pair(info, |pair| {
            pair.warm_up();
            let memory = content.clone();
            let region = Mr::open_in(pair.domain, memory, Access::REMOTE_READ, allocator()).expect("region");
            let c = pair.cq.endpoint(pair.av).expect("endpoint c");
            // Connects, if the provider has connections.
            let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(8, 2), |buf| c.send(pair.to_b, buf));
            pair.finish(received);
            pair.finish(sent);

            let reads = lens.map(|len| pair.post(room(len), |buf| c.read(pair.to_b, &region.remote(), 0, buf)));
            for _ in 0..progress {
                pair.cq.progress().or_cut("the queue works");
            }
            drop(c);
            let back = reads.map(|read| pair.end(read));
            let seen = back.each_ref().map(|(buf, _)| buf.clone());
            for _ in 0..2000 {
                pair.cq.progress().or_cut("the queue works");
            }
            pair.warm_up();
            for ((buf, result), seen) in black_box(back).into_iter().zip(seen) {
                assert!(buf == seen, "{} bytes were written to after they had come back", buf.len());
                match result {
                    Ok(_) => assert!(*buf == content[..buf.len()], "what was read"),
                    Err(error) => drop(fails_with(Err::<(), _>(error), Errno::ECANCELED)),
                }
            }
        });
    }
}

/// Sends to an endpoint that closed before the first endpoint with this vector opened. The closed
/// one was of the vector's domain, or of another one.
fn messages_to_an_endpoint_that_was_closed_before<T: Transport + 'static>(info: &Info<T>) {
    // `shm` accepts any bytes after an address's prefix.
    let prefixes: &[Option<&[u8]>] = if info.provider() == "shm" { &[None, Some(b""), Some(b"x://")] } else { &[None] };
    for (in_its_domain, prefix) in
        [true, false].into_iter().flat_map(|own| prefixes.iter().map(move |prefix| (own, *prefix)))
    {
        let (one, two) = (Domain::open(info).expect("domain"), Domain::open(info).expect("another domain"));
        let open = |domain| Av::open_in(domain, 8, allocator()).expect("address vector");
        let (av, other) = (open(&one), open(&two));
        let closes = if in_its_domain { (&one, &av) } else { (&two, &other) };
        let gone = Cq::<T, Bytes>::open_in(closes.0, CqAttr::new(16), allocator()).expect("queue");
        let endpoint = gone.endpoint(closes.1).expect("endpoint");
        let mut address = endpoint.address().expect("its address");
        if let Some(prefix) = prefix {
            let name = address.bytes().strip_prefix(b"fi_shm://").expect("a name of shm");
            address = EndpointAddr::new(address.format(), &[prefix, name].concat()).expect("as long");
        }
        let peer = av.insert(&address).expect("inserted");
        drop(endpoint);
        drop(gone);
        let cq = Cq::<T, Bytes>::open_in(&one, CqAttr::new(64), allocator()).expect("queue");
        let later = cq.endpoint(&av).expect("endpoint");
        let mut taken = 0;
        for seed in 0..32 {
            taken += usize::from(later.send(peer, pattern(64, seed)).is_ok());
            for _ in 0..100 {
                // The result does not matter.
                let _ = cq.poll();
            }
        }
        println!("{}: {taken} of 32 messages to it were taken", info.provider());
        // The others continue.
        let its_address = later.address().expect("its address");
        let itself = av.insert(&its_address).expect("inserted");
        let sent = post_on(&cq, pattern(64, 99), |buf| later.send(itself, buf));
        for seed in 0..=32 {
            let received = post_on(&cq, room(64), |buf| later.recv(Source::Any, buf));
            let (bytes, result) = cq.wait(received, limit()).or_cut("the queue works").expect("in time").into_parts();
            result.or_cut("it is received");
            if bytes == pattern(64, 99) {
                break;
            }
            // The places of `sm2` have no generation, and a system may reuse the port of a closed
            // socket.
            assert!(info.provider() == "sm2" || its_address == address, "the message of another address");
            assert_eq!(bytes, pattern(64, seed), "whose message is it");
            if its_address != address {
                crate::report::partly("A message to a closed endpoint reaches the endpoint that has taken its place");
            }
        }
        drop(cq.wait(sent, limit()).or_cut("the queue works").expect("in time"));
    }
}

fn closing_in_the_middle_of_a_long_message<T: Transport + 'static>(info: &Info<T>) {
    let longest = most(info, or_less(4 << 20, 1 << 18));
    for closes_sender in [true, false] {
        for progress in [0, 1, 2, 5, 20] {
            on_pair(info, |pair| {
                pair.warm_up();
                let c = pair.cq.endpoint(pair.av).expect("endpoint c");
                let d = pair.cq.endpoint(pair.av).expect("endpoint d");
                let to_d = pair.av.insert(&d.address().expect("address")).expect("in the vector");
                // Connects, if the provider has connections.
                let received = pair.post(room(8), |buf| d.recv(Source::Any, buf));
                let sent = pair.post(pattern(8, 1), |buf| c.send(to_d, buf));
                pair.finish(received);
                pair.finish(sent);

                let received = pair.post(room(longest), |buf| match tags(info) {
                    true => d.tagged_recv(Source::Any, Tag(1), buf),
                    false => d.recv(Source::Any, buf),
                });
                let sent = pair.post(pattern(longest, 1), |buf| match tags(info) {
                    true => c.tagged_send(to_d, Tag(1), buf),
                    false => c.send(to_d, buf),
                });
                for _ in 0..progress {
                    pair.cq.progress().or_cut("the queue works");
                }
                if closes_sender {
                    drop(c);
                } else {
                    drop(d);
                }
                if let Some((buf, _)) = pair.end_after_close(if closes_sender { sent } else { received }) {
                    assert!(!closes_sender || buf == pattern(longest, 1), "a sender's buffer comes back unchanged");
                }
            });
        }
    }
}

struct Counted<'c> {
    bytes: Bytes,
    drops: &'c Cell<usize>,
}

// SAFETY: the box owns its bytes wherever the value is.
unsafe impl Buffer for Counted<'_> {
    fn lend(&mut self) -> Lent {
        self.bytes.lend()
    }
}
impl SourceBuffer for Counted<'_> {}
impl TargetBuffer for Counted<'_> {}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
    }
}

fn every_buffer_is_dropped_once<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    let drops = Cell::new(0);
    let counted = |len| Counted { bytes: room(len), drops: &drops };
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::open_in(&s.domain(&domain), CqAttr::new(16), allocator()).expect("queue");
        let a = cq.endpoint(&av).expect("endpoint a");
        let b = cq.endpoint(&av).expect("endpoint b");
        let to_b = av.insert(&b.address().expect("address")).expect("in the vector");
        // In flight, parked, rejected, and taken.
        let parked = post_on(cq, counted(16), |buf| a.recv(Source::Any, buf));
        let cancels = cancels_receives(info);
        if cancels {
            a.cancel(parked).expect("in flight");
        }
        for _ in 0..5 {
            post_on(cq, counted(1 << 20), |buf| b.recv(Source::Any, buf));
        }
        cq.progress().or_cut("the queue works");
        let waited = post_on(cq, counted(16), |buf| a.recv(Source::Any, buf));
        if cancels {
            a.cancel(waited).expect("in flight");
            let taken = cq.wait(waited, limit()).or_cut("the queue works").expect("cancelled");
            assert_eq!(drops.get(), 0);
            drop(taken);
            assert_eq!(drops.get(), 1);
        }
        let before = drops.get();
        let missing = RemoteRegion { base: RemoteAddr(0), len: 1, key: MemoryKey(0), access: Access::REMOTE_WRITE };
        drop(b.write(to_b, &missing, 0, counted(16)));
        assert_eq!(drops.get(), before + 1, "a rejected buffer comes back, and is dropped with the error");
    });
    assert_eq!(drops.get(), 8, "the end of the scope drops what is left, once each");
}

fn borrowed_buffers_come_back_from_a_scope<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    let (mut from, mut into) = (pattern(64, 1), room(64));
    let (source, target) = (&mut from[..], &mut into[..]);
    scope(|s| {
        let cq = &Cq::open_in(&s.domain(&domain), CqAttr::new(8), allocator()).expect("queue");
        let a = cq.endpoint(&av).expect("endpoint a");
        let b = cq.endpoint(&av).expect("endpoint b");
        let to_b = av.insert(&b.address().expect("address")).expect("in the vector");
        let (mut source, mut target) = (source, target);
        for _ in 0..50 {
            let received = post_on(cq, target, |buf| b.recv(Source::Any, buf));
            let sent = post_on(cq, source, |buf| a.send(to_b, buf));
            let done = cq.wait(received, limit()).or_cut("the queue works").expect("in time");
            assert_eq!(done.result().or_cut("received").len, 64);
            target = done.into_buf();
            source = cq.wait(sent, limit()).or_cut("the queue works").expect("in time").into_buf();
        }
        // This one is still in flight when the scope ends.
        post_on(cq, target, |buf| b.recv(Source::Any, buf));
    });
    assert_eq!(into, from);
}

fn panic_in_a_scope_closes_first<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    let mut memory = room(1 << 16);
    let buffer = &mut memory[..];
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        scope(|s| {
            let cq = &Cq::open_in(&s.domain(&domain), CqAttr::new(8), allocator()).expect("queue");
            let a = cq.endpoint(&av).expect("endpoint a");
            post_on(cq, buffer, |buf| a.recv(Source::Any, buf));
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    }));
    assert!(unwound.is_err());
    memory.fill(1);
    drop(memory);
    // All objects can be opened again.
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    Pair::open(&domain, &cq, &av).warm_up();
}

fn forgotten_endpoint_is_closed_with_its_queue<T: Transport + 'static>(info: &Info<T>) {
    let drops = Cell::new(0);
    let domain = Domain::open(info).expect("domain");
    // A scope that cannot close ends the process.
    let may_be_in_flight = is_tested(info) || cancels_receives(info);
    for _ in 0..20 {
        // If endpoints stayed open, the software network would be full after a few rounds.
        let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
        scope(|s| {
            let cq = Cq::open_in(&s.domain(&domain), CqAttr::new(8), allocator()).expect("queue");
            let endpoint = cq.endpoint(&av).expect("a place for an endpoint");
            if may_be_in_flight {
                let counted = Counted { bytes: room(64), drops: &drops };
                post_on(&cq, counted, |buf| endpoint.recv(Source::Any, buf));
            }
            std::mem::forget(endpoint);
        });
    }
    assert_eq!(drops.get(), 0, "what a forgotten queue owns is leaked");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    Pair::open(&domain, &cq, &av).warm_up();
}

fn forgotten_queue_leaks_without_other_effects<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(8), allocator()).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    post_on(&cq, room(64), |buf| endpoint.recv(Source::Any, buf));
    drop(endpoint);
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let key = post_on(&cq, room(64), |buf| endpoint.recv(Source::Any, buf));
    std::mem::forget(endpoint);
    assert!(cq.wait(key, loom_core::deadline::Spins(3)).or_cut("the queue works").is_none());
    std::mem::forget(cq);
    // A child of the vector and the domain is still open: they leave their raw handles open too.
    drop(av);
    drop(domain);
    // Another domain is not affected.
    on_pair(info, |pair| pair.warm_up());
}

fn forgotten_region_leaks_without_other_effects<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    std::mem::forget(Mr::open_in(&domain, room(64), Access::REMOTE_WRITE, allocator()).expect("region"));
    drop(domain);
    on_pair(info, |pair| pair.warm_up());
}

fn peer_may_be_inserted_by_node_and_service<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let c = pair.cq.endpoint(pair.av).expect("endpoint c");
        let address = c.address().expect("address of c");
        let inserted = match std::net::SocketAddr::try_from(&address) {
            Ok(socket) => pair.av.insert_service(&socket.ip().to_string(), Some(&socket.port().to_string())),
            Err(_) => {
                let text = std::str::from_utf8(address.bytes()).expect("text").trim_end_matches('\0');
                pair.av.insert_service(text, None)
            }
        };
        for (node, service) in [("", None), ("no\0node", None), ("no such node", Some("1")), ("", Some("no service"))] {
            assert!(pair.av.insert_service(node, service).is_err(), "{node:?} {service:?}");
        }
        let to_c = match inserted {
            Err(AddressError::Errno(Errno::ENOSYS)) => return crate::report::not_granted(),
            inserted => inserted.expect("in the vector"),
        };
        let received = pair.post(room(8), |buf| c.recv(Source::Any, buf));
        let sent = pair.post(pattern(8, 4), |buf| pair.a.send(to_c, buf));
        assert_eq!(pair.finish(received).0, pattern(8, 4));
        pair.finish(sent);
    });
}

fn removed_peer_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        pair.warm_up();
        let address = pair.b.address().expect("address");
        assert_eq!(pair.av.insert(&address), Ok(pair.to_b), "the same address is the same peer");
        let found = pair.av.address(pair.to_b).expect("in the vector").expect("the provider tells");
        assert_eq!(found.format(), address.format());
        assert!(pair.av.remove(pair.to_b));
        assert!(!pair.av.remove(pair.to_b), "it is gone");
        assert!(pair.av.address(pair.to_b).is_none());
        let rejected = pair.a.send(pair.to_b, pattern(8, 1)).expect_err("removed");
        assert_eq!((rejected.error, rejected.value), (PostError::UnknownPeer, pattern(8, 1)));
        assert_eq!(pair.a.inject(pair.to_b, &[1]), Err(PostError::UnknownPeer));
        let again = pair.av.insert(&address).expect("back again");
        assert_ne!(again, pair.to_b, "a handle never comes to life again");
        let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
        let sent = pair.post(pattern(8, 2), |buf| pair.a.send(again, buf));
        assert_eq!(pair.finish(received).0, pattern(8, 2));
        pair.finish(sent);
        assert_eq!(pair.av.peer_table().iter().count(), 2);
    });
}

fn wrong_kind_of_buffer_is_refused<T: Transport + 'static>(info: &Info<T>) {
    static CONSTANT: [u8; 4] = *b"text";
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr::new(8), allocator()).expect("queue");
    let a = cq.endpoint(&av).expect("endpoint a");
    let to_a = av.insert(&a.address().expect("address")).expect("in the vector");
    let rejected = a.recv(Source::Any, AnyBuffer::Read(&CONSTANT)).expect_err("it may not be written");
    assert_eq!(rejected.error, PostError::Access);
    assert!(matches!(rejected.value, AnyBuffer::Read(b"text")), "the buffer comes back");
    let room: &'static mut [std::mem::MaybeUninit<u8>] = Vec::leak(vec![std::mem::MaybeUninit::uninit(); 16]);
    let rejected = a.send(to_a, AnyBuffer::Uninit(room)).expect_err("it may not be read");
    assert_eq!(rejected.error, PostError::Access);
    assert_eq!(cq.in_flight(), 0);
    post_on(&cq, rejected.value, |buf| a.recv(Source::Any, buf));
    let data = ImmediateData(u64::MAX);
    if !data.fits(info.attributes().domain.cq_data_size) {
        let rejected = a.send_data(to_a, data, AnyBuffer::Empty).expect_err("too wide");
        assert!(matches!(rejected.error, PostError::DataWidth { .. }));
    }
}

fn address_vector_of_another_domain_is_refused<T: Transport + 'static>(info: &Info<T>) {
    let (one, other) = (Domain::open(info).expect("domain"), Domain::open(info).expect("domain"));
    let av = Av::open_in(&other, 4, allocator()).expect("address vector");
    let cq = Cq::<T, Bytes>::open_in(&one, CqAttr::new(8), allocator()).expect("queue");
    assert_eq!(cq.endpoint(&av).err(), Some(OpenError::OtherDomain));
    let av = Av::open_in(&one, 4, allocator()).expect("address vector");
    let attr = CqAttr { endpoints: 1, ..CqAttr::new(8) };
    let cq = Cq::<T, Bytes>::open_in(&one, attr, allocator()).expect("queue");
    let _first = cq.endpoint(Binding::to(&av).info(info.clone())).expect("endpoint");
    assert_eq!(cq.endpoint(&av).err(), Some(OpenError::TooManyEndpoints));
}

fn foreign_address_is_refused<T: Transport + 'static>(info: &Info<T>) {
    on_pair(info, |pair| {
        let foreign = loom_core::vocabulary::EndpointAddr::new(
            loom_core::vocabulary::AddressFormat::from_raw(4242),
            &[1, 2, 3, 4],
        )
        .expect("short");
        assert!(pair.av.insert(&foreign).is_err());
        assert_eq!(pair.av.peer_table().iter().count(), 2);
        pair.warm_up();
    });
}

fn endpoints_come_and_go<T: Transport + 'static>(info: &Info<T>) {
    // Room for all endpoints: if endpoints of one process cannot be closed alone, they keep their
    // places.
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 64, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, CqAttr { endpoints: 40, ..CqAttr::new(64) }, allocator()).expect("queue");
    {
        let pair = &Pair::open(&domain, &cq, &av);
        for seed in 0..30 {
            let c = pair.cq.endpoint(pair.av).expect("endpoint c");
            let to_c = pair.av.insert(&c.address().expect("address")).expect("in the vector");
            let received = pair.post(room(16), |buf| c.recv(Source::Any, buf));
            let sent = pair.post(pattern(16, seed), |buf| pair.a.send(to_c, buf));
            assert_eq!(pair.finish(received).0, pattern(16, seed));
            pair.finish(sent);
            drop(c);
            pair.av.remove(to_c);
        }
    }
}

/// A buffer with a `lend` that panics.
struct Hostile<'c>(&'c Cell<usize>);

// SAFETY: it never lends memory.
unsafe impl Buffer for Hostile<'_> {
    fn lend(&mut self) -> Lent {
        if self.0.get() == 0 {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        Lent::both(NonNull::dangling(), 0)
    }
}
impl TargetBuffer for Hostile<'_> {}

impl Drop for Hostile<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn buffer_that_panics_when_lent_is_dropped_once<T: Transport + 'static>(info: &Info<T>) {
    if !closes_with_receives(info) {
        return;
    }
    let drops = Cell::new(0);
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    scope(|s| {
        let cq = &Cq::open_in(&s.domain(&domain), CqAttr::new(2), allocator()).expect("queue");
        let a = cq.endpoint(&av).expect("endpoint");
        let unwound = catch_unwind(AssertUnwindSafe(|| a.recv(Source::Any, Hostile(&drops)).is_ok()));
        assert!(unwound.is_err());
        assert_eq!((drops.get(), cq.in_flight()), (1, 0));
        // Both slots are still usable.
        post_on(cq, Hostile(&drops), |buf| a.recv(Source::Any, buf));
        post_on(cq, Hostile(&drops), |buf| a.recv(Source::Any, buf));
    });
    assert_eq!(drops.get(), 3);
}

/// A counted buffer with a destructor that panics.
struct Angry(Bytes, Arc<AtomicUsize>);

// SAFETY: lends the memory of the box.
unsafe impl Buffer for Angry {
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}
impl TargetBuffer for Angry {}

impl Drop for Angry {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

fn destructors_that_panic_while_closing_leave_a_domain_that_works<T: Transport + 'static>(info: &Info<T>) {
    fn unwinds(f: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let angry = || Angry(room(64), dropped.clone());
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 4, allocator()).expect("address vector");
    for round in 1..=3 {
        let cq = Cq::open_in(&domain, CqAttr::new(4), allocator()).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        post_on(&cq, angry(), |buf| endpoint.recv(Source::Any, buf));
        let region = Mr::open_in(&domain, angry(), Access::REMOTE_WRITE, allocator()).expect("region");
        let unwound = unwinds(|| drop(region));
        assert_eq!(unwound, fences(info), "where closing is no fence, the memory waits for the endpoint");
        // The memory is dropped with the endpoint, and the buffer with the queue.
        let memory_unwound = unwinds(|| drop(endpoint));
        assert!(unwinds(|| drop(cq)));
        // Objects that an unwound destructor has left are dropped with the next queue.
        let other = Cq::<T, Bytes>::open_in(&domain, CqAttr::new(4), allocator()).expect("queue");
        let left_over = unwinds(|| drop(other));
        let dropped = dropped.load(Ordering::Relaxed);
        if is_tested(info) {
            assert_eq!((memory_unwound, left_over, dropped), (!fences(info), false, 2 * round));
        } else {
            // The memory may stay with an endpoint that may stay open.
            assert!((round..=2 * round).contains(&dropped), "{dropped} in round {round}");
        }
    }
    if !is_tested(info) {
        return crate::report::partly(MAY_STAY);
    }
    // A forgotten queue is closed with its scope: its buffer is leaked, and the memory is dropped.
    let unwound = unwinds(|| {
        scope(|s| {
            let cq = Cq::open_in(&s.domain(&domain), CqAttr::new(4), allocator()).expect("queue");
            let endpoint = cq.endpoint(&av).expect("endpoint");
            post_on(&cq, angry(), |buf| endpoint.recv(Source::Any, buf));
            let region = Mr::open_in(&domain, angry(), Access::REMOTE_WRITE, allocator()).expect("region");
            assert_eq!(unwinds(|| drop(region)), fences(info));
            std::mem::forget(endpoint);
        });
    });
    assert_eq!((unwound, dropped.load(Ordering::Relaxed)), (!fences(info), 2 * 3 + 1));
    let region = Mr::open_in(&domain, room(16), Access::REMOTE_WRITE, allocator()).expect("region");
    assert_eq!(region.close().expect("no endpoint counts as open"), room(16));
}
