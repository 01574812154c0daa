//! Values that stay on their thread.

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent};
use loom_core::completion::Done;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, Piece};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Parked};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::info::Info;
use loom_core::mr::{EndpointMr, Mr, RemoteRegion};
use loom_core::soft::{Network, NetworkAttr, Soft, SoftCounter, SoftCq, SoftEndpoint, SoftMr};
use loom_core::vocabulary::Access;

twins! {
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

        // SAFETY: lends the memory of the vector.
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

        // SAFETY: lends the memory of the vector.
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

    fn region_of_an_endpoint_on_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(region));
        });
    }

    fn counter_read_by_another_thread() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
        std::thread::scope(|_| assert_eq!(counter.read(), 0));
    }
}

/// Compiles only if the type is not `$Auto`. Otherwise two implementations fit and `_` is
/// ambiguous.
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
// Parked values can move to another thread.
is!(Parked<'static, Soft<'static>, Box<[u8]>, 2>: Send);
is_not!(Parked<'static, Soft<'static>, Box<[u8]>, 2>: Sync);

// Raw handles stay as well, because they give access to a port's cells.
is_not!(SoftEndpoint<'static>: Sync, SoftCq<'static>: Sync, SoftCounter: Sync);
// A raw region contains numbers and no port, so regions can be shared. A region bound to an
// endpoint cannot.
is!(SoftMr<'static>: Send, SoftMr<'static>: Sync);
is!(Mr<'static, Soft<'static>, Vec<u8>>: Send, Mr<'static, Soft<'static>, Vec<u8>>: Sync);
is_not!(EndpointMr<'static, Soft<'static>, Vec<u8>>: Send);
is_not!(EndpointMr<'static, Soft<'static>, Vec<u8>>: Sync);

// Networks and infos are shared.
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
