//! What the types refuse, and right next to each case a twin that differs in nothing else and is accepted.
//!
//! The cases are in `compile_fail/`; their messages are those of Rust 1.95. Another compiler words them differently, so
//! there only the twins run. To renew the messages: `TRYBUILD=overwrite cargo test --features std --test compile_fail`,
//! then read every one of them.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]
#![allow(clippy::needless_borrows_for_generic_args, reason = "borrowed memory is what the cases are about")]

use core::mem::MaybeUninit;
use std::collections::BTreeSet;

use loom_core::allocator_api2::alloc::Global;
use loom_core::atomic::{BaseOp, FetchOp, Operation};
use loom_core::buffer::{Buffer, Lent};
use loom_core::completion::{Completion, Done};
use loom_core::engine::address_table::AddressSet;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::{Peer, PeerSlot, PeerTable};
use loom_core::immediate::{Field, Layout};
use loom_core::objects::atomic::Granted;
use loom_core::objects::av::Av;
use loom_core::objects::counter::{Counter, CounterAttr};
use loom_core::objects::cq::{Cq, CqAttr, Piece};
use loom_core::objects::deadline::Forever;
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Binding, Endpoint, OnlyEndpoint, Parked, Source, ThePeer};
use loom_core::objects::endpoint::{Established, MsgEndpoint};
use loom_core::objects::endpoint::{Joined, MulticastGroup};
use loom_core::objects::eq::ConnectionRequest;
use loom_core::objects::info::{Hints, Info};
use loom_core::objects::mr::{EndpointMr, Mr, RemoteRegion};
use loom_core::objects::query::{
    AtomicOps, CollectiveOps, Injects, Messages, Msg, MultiRecvs, Query, Rdm, Reads, Tagged, Writes,
};
use loom_core::objects::scope::{Scope, scope};
use loom_core::profiles::{self, NativeAtomics};
use loom_core::protocol::TaggedSend;
use loom_core::soft::{Network, NetworkAttr, Soft, SoftCounter, SoftCq, SoftEndpoint, SoftMr};
use loom_core::transport::{Connected, Multicast, Signals};
use loom_core::vocabulary::{Access, Caps, Counted, EndpointAddr, FabricAddr, Tag};

/// The compiler whose messages are pinned.
const PINNED: &str = "1.95.";

#[test]
fn cases_are_refused() {
    let cases = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compile_fail")).unwrap();
    let count = cases.filter(|case| case.as_ref().unwrap().path().extension().is_some_and(|end| end == "rs")).count();
    assert_eq!(count, CASES + connections::CASES, "each case has a twin below, and the other way round");
    let version = std::process::Command::new(env!("CARGO")).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(&format!("cargo {PINNED}")) {
        println!("SKIPPED: the messages are pinned to {PINNED}x, and this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}

/// What depends on constants of type parameters is refused only where code is generated; building a program that is accepted makes the
/// others be built, too. The twins lie in a folder of their own.
#[test]
fn cases_are_refused_when_code_is_generated() {
    let names = |folder: &str| {
        let folder = format!("{}/tests/compile_fail_generated{folder}", env!("CARGO_MANIFEST_DIR"));
        let paths = std::fs::read_dir(folder).unwrap().map(|case| case.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|end| end == "rs"))
            .map(|path| path.file_name().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(names(""), names("/accepted"), "each case has a twin, and the other way round");
    let version = std::process::Command::new(env!("CARGO")).arg("--version").output().unwrap();
    let pinned = String::from_utf8(version.stdout).unwrap().starts_with(&format!("cargo {PINNED}"));
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail_generated/accepted/*.rs");
    if pinned {
        cases.compile_fail("tests/compile_fail_generated/*.rs");
    } else {
        println!("SKIPPED but for the twins: the messages are pinned to {PINNED}x");
    }
}

/// Declares the twins, and counts them.
macro_rules! twins {
    ($($(#[$doc:meta])* fn $name:ident() $body:block)*) => {
        const CASES: usize = [$(stringify!($name)),*].len();
        mod twin {
            use super::*;
            $($(#[$doc])* #[test] fn $name() $body)*
        }
    };
}

/// Twins of what needs a transport with connections, groups, or signals of other threads: they are compiled, over any such
/// transport, and tested over libfabric (`tests/connected` and others).
#[allow(dead_code, reason = "what matters is that they compile")]
mod connections {
    use super::*;

    fn connecting_endpoint_sends<T: Connected>(endpoint: MsgEndpoint<'_, T, &'static [u8], Established>) {
        endpoint.send(ThePeer, b"in time").unwrap();
    }

    fn request_used_twice<T: Connected>(request: ConnectionRequest<'_, T>) {
        request.reject(b"no").unwrap();
    }

    fn group_sent_to_before_it_is_joined<T: Multicast>(group: MulticastGroup<'_, T, &'static [u8], Joined>) {
        group.send(b"in time").unwrap();
    }

    fn group_sent_to_after_leaving<T: Multicast>(group: MulticastGroup<'_, T, &'static [u8]>) {
        group.send(b"in time").unwrap();
        group.leave().unwrap();
    }

    fn signaller_outlives_queue<T: Signals>(domain: &Domain<'_, T>) {
        let cq = Cq::<T, ()>::open(domain, CqAttr::new(4).with_fd()).unwrap();
        let signaller = cq.signaller().unwrap();
        signaller.signal().unwrap();
        drop(cq);
    }

    fn connection_for_a_query_without_one<T: Connected>(endpoint: &MsgEndpoint<'_, T, &'static [u8]>) {
        type Wanted = (Messages, Msg);

        endpoint.only::<Wanted>().unwrap();
    }

    pub(super) const CASES: usize = 6;
}

twins! {
    fn tagged_send_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            endpoint.tagged_send(peer, Tag(7), vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn send_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            endpoint.send(peer, vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn read_that_the_query_lacks() {
        type Wanted = (Rdm, Reads, Writes);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
            endpoint.read(peer, region, 0, vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn write_that_the_query_lacks() {
        type Wanted = (Rdm, Reads, Writes);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
            endpoint.write(peer, region, 0, vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn atomic_that_the_query_lacks() {
        type Wanted = (AtomicOps, Messages, Rdm);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion, add: Granted<FetchOp<u64>>) {
            endpoint.fetch_value(peer, region, 0, add, 1).unwrap();
        }

        let _ = post;
    }

    fn inject_that_the_query_lacks() {
        type Wanted = (Injects<8>, Messages, Rdm);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            endpoint.inject(peer, b"copied").unwrap();
        }

        let _ = post;
    }

    fn multi_recv_that_the_query_lacks() {
        type Wanted = (Messages, MultiRecvs, Rdm);

        fn post(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
            endpoint.multi_recv(Source::Any, vec![0; 800]).unwrap();
        }

        let _ = post;
    }

    fn protocol_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged);

        fn announce<P: TaggedSend<Buf = Vec<u8>>>(protocol: &mut P, to: P::To) {
            protocol.tagged_send(to, Tag(7), vec![0; 8]).unwrap();
        }

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            announce(endpoint, peer);
        }

        let _ = post;
    }

    fn query_for_two_types_of_endpoint() {
        type Basic = (Rdm, Messages);
        type Wanted = (Basic, Rdm);

        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        cq.endpoint_for::<Wanted>(&av).unwrap();
    }

    fn hints_of_two_types_of_endpoint() {
        const HINTS: Hints<'static> = <(Rdm, Messages) as Query>::HINTS;

        assert!(HINTS.provider.is_none());
    }

    fn collective_that_the_query_lacks() {
        type Wanted = (CollectiveOps, Messages, Rdm);

        fn join(endpoint: &OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, members: &AddressSet<Global>) {
            endpoint.join_collective(members).unwrap();
        }

        let _ = join;
    }

    fn what_is_no_query() {
        fn caps<Q: Query>() -> Caps {
            Q::CAPS
        }

        assert_eq!(caps::<Rdm>(), Caps::empty());
    }

    fn query_for_connections_without_one() {
        type Wanted = (Messages, Rdm);

        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        cq.endpoint_for::<Wanted>(&av).unwrap();
    }

    fn atomic_that_the_type_does_not_admit() {
        let _ = FetchOp::<u64>::BOR.atomic();
    }

    fn atomic_order_of_complex_numbers() {
        let _ = BaseOp::<f64>::MIN.atomic();
    }

    fn atomic_of_what_is_no_element() {
        let _ = FetchOp::<u8>::WRITE.atomic();
    }

    fn layout_wider_than_immediate_data() {
        loom_core::data_layout! {
            struct Part {
                transfer: u64 = 60,
                index: u8 = 4,
            }
        }
        assert_eq!(Part::WIDTH, 64);
    }

    fn layout_with_a_field_of_no_bits() {
        loom_core::data_layout! {
            struct Part {
                transfer: u32 = 20,
                nothing: u8 = 1,
            }
        }
        assert_eq!(Part::WIDTH, 21);
    }

    fn layout_with_a_field_that_is_none() {
        #[derive(Clone, Copy)]
        enum Kind {
            Part,
            Last,
        }
        impl Field for Kind {
            fn to_bits(self) -> u64 {
                self as u64
            }
            fn from_bits(bits: u64) -> Option<Self> {
                [Kind::Part, Kind::Last].get(usize::try_from(bits).ok()?).copied()
            }
        }
        loom_core::data_layout! {
            struct Part {
                transfer: u32 = 20,
                kind: Kind = 1,
            }
        }
        let data = Part { transfer: 1, kind: Kind::Last }.encode().unwrap();
        assert!(matches!(Part::decode(data).unwrap().kind, Kind::Last));
    }

    fn buffer_shorter_than_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
    }

    fn temporary_buffer() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = vec![0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, memory.as_mut_slice()).unwrap();
        });
    }

    fn posted_buffer_written() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_buffer_written_after_forgetting() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
            core::mem::forget((domain, av, cq, endpoint));
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_buffer_read() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
        assert_eq!(memory[0], 0);
    }

    fn posted_source_written() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            let peer = av.insert(&endpoint.address().unwrap()).unwrap();
            endpoint.send(peer, &memory[..]).unwrap();
            assert_eq!(memory[0], 0, "others may read");
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_twice() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            let (left, right) = memory.split_at_mut(4);
            endpoint.recv(Source::Any, left).unwrap();
            endpoint.recv(Source::Any, right).unwrap();
        });
    }

    fn owned_buffer_after_post() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::open(&domain, 4).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let buffer: Box<[u8]> = Box::new([0; 8]);
        let key = endpoint.recv(Source::Any, buffer).unwrap();
        endpoint.cancel(key).unwrap();
        let buffer = cq.wait(key, Forever).unwrap().unwrap().into_buf();
        assert_eq!(buffer[0], 0);
    }

    fn borrowed_buffer_in_long_lived_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let memory = Box::leak(Box::new([0; 8]));
        let cq = Cq::open(&domain, 4).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        endpoint.recv(Source::Any, &mut memory[..]).unwrap();
    }

    fn borrowed_buffer_in_queue_of_kept_domain() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.domain(&domain);
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
    }

    fn borrowed_arena_in_kept_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let arena = Global;
        scope(|s| {
            let domain = s.domain(&domain);
            let cq = Cq::<_, Vec<u8>>::open_in(&domain, 4, &arena).unwrap();
            assert_eq!(cq.in_flight(), 0);
        });
    }

    fn arena_shorter_than_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let arena = Global;
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let cq = Cq::<_, Vec<u8>>::open_in(&domain, 4, &arena).unwrap();
            assert_eq!(cq.in_flight(), 0);
        });
    }

    fn network_shorter_than_scope() {
        let arena = Global;
        scope(|s| {
            let network = Network::new_in(NetworkAttr::default(), &arena).unwrap();
            let domain = s.open(&network.info()).unwrap();
            core::mem::forget(Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        });
    }

    fn network_of_borrowed_memory_with_kept_domain() {
        let arena = Global;
        let network = Network::new_in(NetworkAttr::default(), &arena).unwrap();
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            assert_eq!(domain.info().provider(), "soft");
        });
    }

    fn counter_of_kept_domain_in_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        scope(|s| {
            let domain = s.domain(&domain);
            let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
            cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
        });
    }

    fn send_from_uninit() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [MaybeUninit::<u8>::uninit(); 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
    }

    fn receive_into_shared() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            let peer = av.insert(&endpoint.address().unwrap()).unwrap();
            endpoint.send(peer, &memory[..]).unwrap();
        });
    }

    fn atomics_over_a_profile_without() {
        fn counts_with_atomics<P: NativeAtomics>() {}
        counts_with_atomics::<profiles::Shm>();
    }

    fn profile_that_is_none() {
        let _ = Hints::of_profile::<profiles::Software>();
    }

    fn domain_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let kept = scope(|s| s.open(&network.info()).unwrap().attributes().caps);
        assert!(!kept.is_empty());
    }

    fn queue_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut kept: Option<usize> = None;
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            kept = Some(Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap().capacity());
        });
        assert!(kept.is_some());
    }

    fn endpoint_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut kept: Option<EndpointAddr> = None;
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap());
            kept = Some(cq.endpoint(&av).unwrap().address().unwrap());
        });
        assert!(kept.is_some());
    }

    fn piece_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let len = scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
            match cq.poll().unwrap() {
                Some(Completion::Piece(piece)) => Some(piece.bytes().len()),
                _ => None,
            }
        });
        assert!(len.is_none());
    }

    fn bytes_of_a_dropped_piece() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
        if let Some(Completion::Piece(piece)) = cq.poll().unwrap() {
            let bytes = piece.bytes();
            assert!(bytes.is_empty());
            drop(piece);
        }
    }

    fn address_vector_of_scope_in_kept_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        scope(|s| {
            let cq = Cq::<_, Box<[u8]>>::open(&s.domain(&domain), 4).unwrap();
            cq.endpoint(&av).unwrap();
        });
    }

    fn queue_on_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        let endpoint = cq.endpoint(&av).unwrap();
        let parked = cq.park([endpoint]).unwrap();
        let used = std::thread::spawn(move || {
            let (cq, [endpoint]) = parked.unpark();
            (cq.in_flight(), endpoint.inject_size())
        });
        assert_eq!(used.join().unwrap(), (0, NetworkAttr::DEFAULT.eager_size as usize));
    }

    fn parked_queue_with_buffers_of_one_thread() {
        struct Anywhere(Vec<u8>);

        // SAFETY: lends what the vector lends.
        #[allow(unsafe_code, reason = "a buffer like that of the case")]
        unsafe impl Buffer for Anywhere {
            fn lend(&mut self) -> Lent {
                self.0.lend()
            }
        }

        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let cq = Cq::<_, Anywhere>::open(&domain, 4).unwrap();
        let parked = cq.park([]).unwrap();
        let in_flight = std::thread::spawn(move || parked.unpark().0.in_flight());
        assert_eq!(in_flight.join().unwrap(), 0);
    }

    fn region_of_memory_of_one_thread() {
        struct Anywhere(Vec<u8>);

        // SAFETY: lends what the vector lends.
        #[allow(unsafe_code, reason = "a buffer like that of the case")]
        unsafe impl Buffer for Anywhere {
            fn lend(&mut self) -> Lent {
                self.0.lend()
            }
        }

        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let region = Mr::open(&domain, Anywhere(vec![0; 8]), Access::REMOTE_WRITE).unwrap();
        drop(region);
    }

    fn queue_of_shorter_buffers() {
        fn as_long<'m>(cq: Cq<'m, Soft<'m>, &'static [u8]>) -> Cq<'m, Soft<'m>, &'static [u8]> {
            cq
        }
        let _ = as_long;
    }

    fn kept_queue_as_one_of_a_scope() {
        fn as_long(cq: Cq<'static, Soft<'static>, ()>) -> Cq<'static, Soft<'static>, ()> {
            cq
        }
        let _ = as_long;
    }

    fn kept_domain_as_one_of_a_scope() {
        fn shorter<'m>(domain: &Domain<'static, Soft<'static>>, s: &'m Scope<'m, '_>) -> Domain<'m, Soft<'static>> {
            s.domain(domain)
        }
        let _ = shorter;
    }

    fn region_of_borrowed_memory() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut memory = [0; 8];
        scope(|s| drop(Mr::open(&s.domain(&domain), &mut memory[..], Access::REMOTE_WRITE).unwrap()));
        let region = Mr::open(&domain, Vec::from(memory), Access::REMOTE_WRITE).unwrap();
        drop(region);
    }

    fn region_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        let remote = scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap().remote()
        });
        assert_eq!(remote.len(), 8);
    }

    fn exposed_memory_touched() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let region = Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap();
            assert_eq!(region.window().len(), 8);
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn region_of_an_endpoint_on_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(region));
        });
    }

    fn region_of_scope_for_kept_endpoint() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        scope(|s| {
            let domain = s.domain(&domain);
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            Mr::open_for(&domain, &endpoint, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        });
    }

    fn address_vector_written_to_by_who_reads_it() {
        let mut entries = [PeerSlot::default(), PeerSlot::default()];
        let mut peers = PeerTable::new(&mut entries);
        let own = peers.insert(FabricAddr(1)).unwrap();
        assert_eq!(peers.remove(own), Some(FabricAddr(1)));
    }

    fn counter_read_by_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
        std::thread::scope(|_| assert_eq!(counter.read(), 0));
    }

    fn window_beyond_region() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        let window = region.window();
        assert_eq!(window.len(), 8);
        drop(region);
    }
}

/// Compiles only if the type is not `$Auto`: where it is, two implementations fit and `_` is ambiguous.
///
/// Not a case of `compile_fail/`, because the message would list every private field.
macro_rules! is_not {
    ($($T:ty: $Auto:ident),* $(,)?) => {$(
        const _: fn() = || {
            trait Either<A> {
                fn choose() {}
            }
            impl<T: ?Sized> Either<()> for T {}
            struct Fits;
            impl<T: ?Sized + $Auto> Either<Fits> for T {}
            let _ = <$T as Either<_>>::choose;
        };
    )*};
}

/// Compiles only if the type is `$Auto`.
macro_rules! is {
    ($($T:ty: $Auto:ident),* $(,)?) => {
        const _: fn() = || {
            $({
                fn check<T: ?Sized + $Auto>() {}
                check::<$T>();
            })*
        };
    };
}

type Queue = Cq<'static, Soft<'static>, Box<[u8]>>;
type Post = Endpoint<'static, Soft<'static>, Box<[u8]>>;

// A queue, its endpoints and pieces stay on the thread that opened it.
is_not!(Queue: Send, Queue: Sync, Post: Send, Post: Sync, &Queue: Send, &Post: Send);
is_not!(Piece<'static, Box<[u8]>>: Send, Piece<'static, Box<[u8]>>: Sync);
// Parked they can go to another one.
is!(Parked<'static, Soft<'static>, Box<[u8]>, 2>: Send);
is_not!(Parked<'static, Soft<'static>, Box<[u8]>, 2>: Sync);

// Neither do the raw handles, through which a port's cells can be reached.
is_not!(SoftEndpoint<'static>: Sync, SoftCq<'static>: Sync, SoftCounter: Sync);
// A raw region has numbers in it and no port, so that regions can be shared; one that is bound to an endpoint cannot.
is!(SoftMr<'static>: Send, SoftMr<'static>: Sync);
is!(Mr<'static, Soft<'static>, Vec<u8>>: Send, Mr<'static, Soft<'static>, Vec<u8>>: Sync);
is_not!(EndpointMr<'static, Soft<'static>, Vec<u8>>: Send);
is_not!(EndpointMr<'static, Soft<'static>, Vec<u8>>: Sync);

// What they are opened from is shared.
is!(Network<'static>: Send, Network<'static>: Sync);
is!(Info<Soft<'static>>: Send, Info<Soft<'static>>: Sync);
is!(Domain<'static, Soft<'static>>: Send, Domain<'static, Soft<'static>>: Sync);
is!(Av<'static, Soft<'static>>: Send, Av<'static, Soft<'static>>: Sync);
is!(Peer: Send, Peer: Sync, OpKey: Send, RemoteRegion: Send, Done<Box<[u8]>>: Send);

#[test]
fn a_queue_for_each_thread() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
                let endpoint = cq.endpoint(&av).unwrap();
                assert!(endpoint.address().is_ok());
                assert!(cq.poll().unwrap().is_none());
            });
        }
    });
}
