//! What the types refuse, and right next to each case a twin that differs in nothing else and is accepted.
//!
//! The cases are in `compile_fail/`; their messages are those of Rust 1.95. Another compiler words them differently, so
//! there only the twins run. To renew the messages: `TRYBUILD=overwrite cargo test --features std --test compile_fail`,
//! then read every one of them.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use core::mem::MaybeUninit;

use loom_core::allocator_api2::alloc::Global;
use loom_core::buffer::{Buffer, Lent};
use loom_core::completion::{Completion, Done};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::{Entry, Peer, PeerTable};
use loom_core::objects::av::Av;
use loom_core::objects::counter::{Counter, CounterAttr};
use loom_core::objects::cq::{self, Cq, CqAttr, CqOwner};
use loom_core::objects::deadline::Forever;
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Contexts, ScalableEndpoint, ThePeer};
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::endpoint::{Established, MsgEndpoint};
use loom_core::objects::endpoint::{Joined, MulticastEndpoint, MulticastGroup};
use loom_core::objects::eq::{ConnectionRequest, Eq, EqAttr, EqEvent};
use loom_core::objects::info::Info;
use loom_core::objects::mr::{self, EndpointMr, Mr, RemoteRegion};
use loom_core::soft::{Network, NetworkAttr, Soft, SoftCounter, SoftCq, SoftEndpoint, SoftMr};
use loom_core::transport::{Connected, Multicast, Scalable, Signals};
use loom_core::vocabulary::{Access, Counted, EndpointAddr, FabricAddr};

/// The compiler whose messages are pinned.
const PINNED: &str = "1.95.";

#[test]
fn cases_are_refused() {
    let cases = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compile_fail")).unwrap();
    let count = cases.filter(|case| case.as_ref().unwrap().path().extension().is_some_and(|end| end == "rs")).count();
    assert_eq!(
        count,
        CASES + connections::CASES + scalable::CASES,
        "each case has a twin below, and the other way round"
    );
    let version = std::process::Command::new(env!("CARGO")).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(&format!("cargo {PINNED}")) {
        println!("SKIPPED: the messages are pinned to {PINNED}x, and this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
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

    fn connecting_endpoint_sends<T: Connected>(endpoint: MsgEndpoint<'_, '_, T, &'static [u8], Established>) {
        endpoint.send(ThePeer, b"in time").unwrap();
    }

    fn request_used_twice<T: Connected>(request: ConnectionRequest<'_, '_, T>) {
        request.reject(b"no").unwrap();
    }

    fn request_outlives_event_queue<T: Connected>(domain: &Domain<T>) {
        let eq = Eq::open(domain, EqAttr::default()).unwrap();
        if let Some(EqEvent::Request(request)) = eq.poll().unwrap() {
            request.reject(b"no").unwrap();
        }
        drop(eq);
    }

    fn shared_receives_dropped_while_bound<T: Connected>(domain: &Domain<T>) {
        let eq = Eq::open(domain, EqAttr::default()).unwrap();
        let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
        let shared = owner.shared_rx(domain.info()).unwrap();
        let endpoint = shared.msg_endpoint(&eq, domain.info()).unwrap();
        assert!(endpoint.address().is_ok());
        drop(endpoint);
        drop(shared);
    }

    fn event_queue_dropped_while_bound<T: Connected>(domain: &Domain<T>) {
        let eq = Eq::open(domain, EqAttr::default()).unwrap();
        let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
        let endpoint = owner.msg_endpoint(&eq, domain.info()).unwrap();
        assert!(endpoint.address().is_ok());
    }

    fn group_sent_to_before_it_is_joined<T: Multicast>(group: MulticastGroup<'_, '_, '_, T, &'static [u8], Joined>) {
        group.send(b"in time").unwrap();
    }

    fn group_sent_to_after_leaving<T: Multicast>(group: MulticastGroup<'_, '_, '_, T, &'static [u8]>) {
        group.send(b"in time").unwrap();
        group.leave().unwrap();
    }

    fn group_outlives_endpoint<T: Multicast>(
        endpoint: MulticastEndpoint<'_, '_, T, &'static [u8]>,
        address: &EndpointAddr,
    ) {
        let group = endpoint.join(address).unwrap();
        group.leave().unwrap();
        drop(endpoint);
    }

    fn signaller_outlives_queue<T: Signals>(domain: &Domain<T>) {
        let cq = Cq::<T, ()>::open(domain, CqAttr::<4>::new().with_fd()).unwrap();
        let signaller = cq.signaller().unwrap();
        signaller.signal().unwrap();
        drop(cq);
    }

    pub(super) const CASES: usize = 9;
}

/// Twins of what needs a transport with scalable endpoints, as those above; tested in `tests/ofi_scalable`.
#[allow(dead_code, reason = "what matters is that they compile")]
mod scalable {
    use super::*;

    fn scalable_endpoint_dropped_while_bound<T: Scalable>(domain: &Domain<T>) {
        let av = Av::open(domain, 2).unwrap();
        let endpoint = ScalableEndpoint::open(&av, domain.info(), Contexts { tx: 1, rx: 1 }).unwrap();
        let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
        let context = owner.rx_context(&endpoint, 0).unwrap();
        drop(context);
    }

    fn scalable_endpoint_moved_after_context_was_forgotten<T: Scalable>(domain: &Domain<T>) {
        let av = Av::open(domain, 2).unwrap();
        let endpoint = ScalableEndpoint::open(&av, domain.info(), Contexts { tx: 1, rx: 1 }).unwrap();
        let owner = Cq::<T, Box<[u8]>>::open(domain, CqAttr::<4>::new()).unwrap();
        std::mem::forget(owner.tx_context(&endpoint, 0).unwrap());
        drop(owner);
    }

    pub(super) const CASES: usize = 2;
}

twins! {
    fn buffer_shorter_than_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        })
        .unwrap();
    }

    fn temporary_buffer() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = vec![0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, memory.as_mut_slice()).unwrap();
        })
        .unwrap();
    }

    fn posted_buffer_written() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        })
        .unwrap();
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_buffer_read() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        })
        .unwrap();
        assert_eq!(memory[0], 0);
    }

    fn posted_source_written() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            let peer = av.insert(&endpoint.address().unwrap()).unwrap();
            endpoint.send(peer, &memory[..]).unwrap();
            assert_eq!(memory[0], 0, "others may read");
        })
        .unwrap();
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_twice() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            let (left, right) = memory.split_at_mut(4);
            endpoint.recv(Source::Any, left).unwrap();
            endpoint.recv(Source::Any, right).unwrap();
        })
        .unwrap();
    }

    fn owned_buffer_after_post() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let owner = Cq::open(&domain, CqAttr::<4>::new()).unwrap();
        let endpoint = owner.endpoint(&av).enable().unwrap();
        let buffer: Box<[u8]> = Box::new([0; 8]);
        let key = endpoint.recv(Source::Any, buffer).unwrap();
        endpoint.cancel(key).unwrap();
        let buffer = owner.wait(key, Forever).unwrap().unwrap().into_buf();
        assert_eq!(buffer[0], 0);
    }

    fn borrowed_buffer_in_long_lived_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let memory = Box::leak(Box::new([0; 8]));
        let owner = Cq::open(&domain, CqAttr::<4>::new()).unwrap();
        let endpoint = owner.endpoint(&av).enable().unwrap();
        endpoint.recv(Source::Any, &mut memory[..]).unwrap();
    }

    fn domain_dropped_before_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        assert_eq!(owner.in_flight(), 0);
        drop(owner);
        drop(domain);
    }

    fn address_vector_dropped_while_bound() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        let endpoint = owner.endpoint(&av).enable().unwrap();
        assert!(endpoint.address().is_ok());
        drop(endpoint);
        drop(owner);
        drop(av);
    }

    fn address_vector_dropped_after_endpoint_was_forgotten() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        core::mem::forget(owner.endpoint(&av).enable().unwrap());
        assert!(owner.poll().unwrap().is_none());
        drop(owner);
        drop(av);
    }

    fn address_vector_moved_while_bound() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let elsewhere = Box::new(av);
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        let endpoint = owner.endpoint(&elsewhere).enable().unwrap();
        assert!(endpoint.address().is_ok());
    }

    fn address_vector_written_to_by_who_reads_it() {
        let mut entries = [Entry::default(), Entry::default()];
        let mut peers = PeerTable::new(&mut entries);
        let own = peers.insert(FabricAddr(1)).unwrap();
        assert_eq!(peers.remove(own), Some(FabricAddr(1)));
    }

    fn address_vector_opened_in_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, ()).unwrap();
        })
        .unwrap();
    }

    fn network_dropped_before_domain() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        assert_eq!(domain.info().provider(), "soft");
        drop(domain);
        drop(network);
    }

    fn send_from_uninit() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [MaybeUninit::<u8>::uninit(); 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        })
        .unwrap();
    }

    fn receive_into_shared() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            let peer = av.insert(&endpoint.address().unwrap()).unwrap();
            endpoint.send(peer, &memory[..]).unwrap();
        })
        .unwrap();
    }

    fn counter_dropped_while_bound() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        let endpoint = owner.endpoint(&av).counter(Counted::SEND, &counter).enable().unwrap();
        assert!(endpoint.address().is_ok());
        drop(endpoint);
        drop(owner);
        drop(counter);
    }

    fn counter_moved_while_bound() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
        let elsewhere = counter;
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        core::mem::forget(owner.endpoint(&av).counter(Counted::SEND, &elsewhere).enable().unwrap());
        assert!(owner.poll().unwrap().is_none());
        assert_eq!(elsewhere.read(), 0);
    }

    fn counter_read_by_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
        std::thread::scope(|_| assert_eq!(counter.read(), 0));
    }

    fn queue_forgotten_out_of_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut memory = [0; 8];
        cq::scope(&domain, CqAttr::<4>::new(), |cq| {
            let endpoint = cq.endpoint(&av).enable().unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
            core::mem::forget(endpoint);
        })
        .unwrap();
    }

    fn queue_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut kept: Option<usize> = None;
        cq::scope(&domain, CqAttr::<4>::new(), |cq: &Cq<'_, Soft<'_>, Box<[u8]>>| {
            kept = Some(cq.capacity());
        })
        .unwrap();
        assert!(kept.is_some());
    }

    fn endpoint_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let mut kept: Option<EndpointAddr> = None;
        cq::scope(&domain, CqAttr::<4>::new(), |cq: &Cq<'_, Soft<'_>, Box<[u8]>>| {
            kept = Some(cq.endpoint(&av).enable().unwrap().address().unwrap());
        })
        .unwrap();
        assert!(kept.is_some());
    }

    fn piece_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let len = cq::scope(&domain, CqAttr::<4>::new(), |cq: &Cq<'_, Soft<'_>, Box<[u8]>>| match cq.poll().unwrap() {
            Some(Completion::Piece(piece)) => Some(piece.bytes().len()),
            _ => None,
        });
        assert!(len.unwrap().is_none());
    }

    fn bytes_of_a_dropped_piece() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let cq: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        if let Some(Completion::Piece(piece)) = cq.poll().unwrap() {
            let bytes = piece.bytes();
            assert!(bytes.is_empty());
            drop(piece);
        }
    }

    fn endpoint_outlives_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
        let endpoint = owner.endpoint(&av).enable().unwrap();
        assert!(endpoint.address().is_ok());
        drop(endpoint);
        drop(owner);
    }

    fn queue_of_shorter_buffers() {
        fn as_long<'q>(cq: &'q Cq<'q, Soft<'q>, &'static [u8]>) -> &'q Cq<'q, Soft<'q>, &'static [u8]> {
            cq
        }
        let _ = as_long;
    }

    fn queue_of_shorter_parent() {
        fn as_long<'q>(cq: &'q Cq<'static, Soft<'static>, ()>) -> &'q Cq<'static, Soft<'static>, ()> {
            cq
        }
        let _ = as_long;
    }

    fn region_of_borrowed_memory() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut memory = [0; 8];
        mr::scope(&domain, &mut memory[..], Access::REMOTE_WRITE, |_| ()).unwrap();
        let region = Mr::open(&domain, Vec::from(memory), Access::REMOTE_WRITE).unwrap();
        drop(region);
    }

    fn endpoint_closed_under_its_region() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 1).unwrap();
        let cq = Cq::<Soft<'_>, Vec<u8>>::open(&domain, CqAttr::<4>::new()).unwrap();
        let endpoint = cq.endpoint(&av).enable().unwrap();
        let region = Mr::builder(&domain, Access::REMOTE_WRITE).open_for(&endpoint, vec![0; 8]).unwrap();
        drop(region);
        drop(endpoint);
    }

    fn region_of_an_endpoint_on_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let region = Mr::builder(&domain, Access::REMOTE_WRITE).open(vec![0; 8]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(region));
        });
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

    fn exposed_memory_touched() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut memory = [0; 8];
        mr::scope(&domain, &mut memory[..], Access::REMOTE_WRITE, |region| {
            assert_eq!(region.window().len(), 8);
        })
        .unwrap();
        memory[0] = 1;
        assert_eq!(memory[0], 1);
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

type Owner = CqOwner<'static, Soft<'static>, Box<[u8]>, Global, 4>;
type Queue = Cq<'static, Soft<'static>, Box<[u8]>>;
type Post = Endpoint<'static, 'static, Soft<'static>, Box<[u8]>>;

// A queue and its endpoints stay on the thread that opened them.
is_not!(Owner: Send, Owner: Sync, Queue: Send, Queue: Sync, Post: Send, Post: Sync);
is_not!(&Owner: Send, &Queue: Send, &Post: Send);

// Neither do the raw handles, through which a port's cells can be reached.
is_not!(SoftEndpoint<'static>: Sync, SoftCq<'static>: Sync, SoftCounter: Sync);
// A raw region has numbers in it and no port, so that regions can be shared; one that is bound to an endpoint cannot.
is!(SoftMr<'static>: Send, SoftMr<'static>: Sync, Mr<'static, Soft<'static>>: Send, Mr<'static, Soft<'static>>: Sync);
is_not!(EndpointMr<'static, 'static, Soft<'static>, Vec<u8>, Global>: Send);
is_not!(EndpointMr<'static, 'static, Soft<'static>, Vec<u8>, Global>: Sync);

// What they are opened from is shared.
is!(Network<Global>: Send, Network<Global>: Sync);
is!(Info<Soft<'static>>: Send, Info<Soft<'static>>: Sync);
is!(Domain<Soft<'static>>: Send, Domain<Soft<'static>>: Sync);
is!(Av<'static, Soft<'static>>: Send, Av<'static, Soft<'static>>: Sync);
is!(Peer: Send, Peer: Sync, OpKey: Send, RemoteRegion: Send, Done<Box<[u8]>>: Send);

#[test]
fn a_queue_for_each_thread() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let av: &Av<'_, _> = &av;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let owner: CqOwner<'_, _, Box<[u8]>, _, 4> = Cq::open(&domain, CqAttr::new()).unwrap();
                let endpoint = owner.endpoint(av).enable().unwrap();
                assert!(endpoint.address().is_ok());
                assert!(owner.poll().unwrap().is_none());
            });
        }
    });
}
