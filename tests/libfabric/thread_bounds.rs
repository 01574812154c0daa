//! Thread bounds over libfabric: they depend on the level of the transport, and the types have
//! them.
//!
//! The compiler checks the assertions. Other refusals of the types are equal on every transport:
//! `loom-core/tests/compile_fail`.

use loom_core::av::Av;
use loom_core::cq::{Cq, Signaller};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Parked};
use loom_core::endpoint::{RxContext, ScalableEndpoint, TxContext};
use loom_core::info::Info;
use loom_core::transport::Signals;
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi, Shared};

/// Compiles only if the type is not `$Auto`: otherwise two implementations fit and `_` is
/// ambiguous.
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

// One thread for a domain and all objects under it: another handle of the domain may be anywhere.
is_not!(ScalableEndpoint<'static, Ofi<Local>>: Sync, ScalableEndpoint<'static, Ofi<Local>>: Send);
is_not!(Domain<'static, Ofi<Local>>: Sync, Domain<'static, Ofi<Local>>: Send);
is_not!(Av<'static, Ofi<Local>>: Sync, Av<'static, Ofi<Local>>: Send);

// Threads share a domain and its address vectors, and each has its own queues.
is!(ScalableEndpoint<'static, Ofi<Shared>>: Sync, ScalableEndpoint<'static, Ofi<Shared>>: Send);
is!(Domain<'static, Ofi<Shared>>: Sync, Domain<'static, Ofi<Shared>>: Send);
is!(Av<'static, Ofi<Shared>>: Sync, Av<'static, Ofi<Shared>>: Send);

// Queues and endpoints stay on their thread, unless they are parked, if threads share a domain.
type Queue<L> = Cq<'static, Ofi<L>, ()>;
type Post<L> = Endpoint<'static, Ofi<L>, ()>;
is_not!(Queue<Local>: Sync, Queue<Local>: Send, Post<Local>: Sync, Post<Local>: Send);
type Tx<L> = TxContext<'static, Ofi<L>, ()>;
type Rx<L> = RxContext<'static, Ofi<L>, ()>;
is_not!(Tx<Shared>: Sync, Tx<Shared>: Send, Rx<Shared>: Sync, Rx<Shared>: Send);
is_not!(Queue<Shared>: Sync, Queue<Shared>: Send, Post<Shared>: Sync, Post<Shared>: Send);
is!(Parked<'static, Ofi<Shared>, Vec<u8>, 1>: Send);
is_not!(Parked<'static, Ofi<Local>, Vec<u8>, 1>: Send);

// Other threads can wake the thread of a queue, if they share its domain.
is!(Ofi<Shared>: Signals, Signaller<'static, Ofi<Shared>>: Send, Signaller<'static, Ofi<Shared>>: Sync);
is_not!(Ofi<Local>: Signals);

// An info can be opened on any thread.
is!(Info<Ofi<Local>>: Send, Info<Ofi<Local>>: Sync, Info<Ofi<Shared>>: Send, Info<Ofi<Shared>>: Sync);

#[test]
fn the_compiler_checks_objects_that_cross_threads() {}
