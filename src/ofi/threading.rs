#![allow(unsafe_code, reason = "the only `unsafe impl Send` and `Sync` of libfabric objects")]

use core::fmt;
use core::marker::PhantomData;
use loom_core::vocabulary::Threading;

use super::endpoint::scalable::FidSep;
use super::queue::Signalled;
use super::raw::Raw;
use super::sys;

mod sealed {
    #[expect(unnameable_types, reason = "what seals `Level`")]
    pub trait Sealed {}
}

/// Serialisation of calls: [`Local`] or [`Shared`].
///
/// # References
/// - `man fi_domain`, section *Threading*
pub trait Level: sealed::Sealed + Send + Sync + 'static {
    /// Threading model requested of libfabric.
    const THREADING: Threading;

    /// Returns `true` if the level's types enforce the serialisation of a domain with this
    /// threading model.
    ///
    /// Unknown models are refused.
    fn is_served_by(granted: Threading) -> bool;

    /// Returns `true` if that also holds for the contexts of one scalable endpoint, on several
    /// threads.
    fn serves_contexts(granted: Threading) -> bool;
}

/// Everything under a domain stays on one thread, and libfabric may omit all locks
/// (`FI_THREAD_DOMAIN`).
#[doc(alias = "FI_THREAD_DOMAIN")]
#[derive(Debug)]
pub enum Local {}

/// Threads share the domain, its address vectors and regions, each with its own queues and
/// endpoints (`FI_THREAD_COMPLETION`).
///
/// Over `shm`, `sm2`, `ofi_rxm` and untested providers, an insertion may look into other threads'
/// endpoints, so the domain is opened with `FI_THREAD_SAFE`.
#[doc(alias = "FI_THREAD_COMPLETION")]
#[derive(Debug)]
pub enum Shared {}

impl sealed::Sealed for Local {}
impl sealed::Sealed for Shared {}

impl Level for Local {
    const THREADING: Threading = Threading::DOMAIN;

    fn is_served_by(granted: Threading) -> bool {
        granted == Threading::DOMAIN || Shared::is_served_by(granted)
    }

    fn serves_contexts(granted: Threading) -> bool {
        Self::is_served_by(granted)
    }
}

impl Level for Shared {
    const THREADING: Threading = Threading::COMPLETION;

    fn is_served_by(granted: Threading) -> bool {
        // A queue and its endpoints stay on one thread, which serialises every fid (FID), endpoint
        // with contexts (ENDPOINT) and queue (COMPLETION).
        matches!(granted, Threading::SAFE | Threading::FID | Threading::ENDPOINT | Threading::COMPLETION)
    }

    fn serves_contexts(granted: Threading) -> bool {
        // `ENDPOINT` requires one thread at a time for all contexts of an endpoint, the others for
        // one queue.
        matches!(granted, Threading::SAFE | Threading::FID | Threading::COMPLETION)
    }
}

/// libfabric does not bind these objects to the thread that opened them.
trait Moves {}
impl Moves for sys::fid_fabric {}
impl Moves for sys::fid_domain {}
impl Moves for sys::fid_av {}
impl Moves for sys::fid_mr {}
impl Moves for sys::fid_cntr {}
impl Moves for Signalled {}
impl Moves for FidSep {}

trait SharedAt<L> {}
// Threading models cover domains and their children. Any thread may use a fabric.
impl<L: Level> SharedAt<L> for sys::fid_fabric {}
impl SharedAt<Shared> for sys::fid_domain {}
impl SharedAt<Shared> for sys::fid_av {}
impl SharedAt<Shared> for sys::fid_mr {}
// `fi_cq_signal` wakes up a thread that uses the queue (`man fi_cq`).
impl SharedAt<Shared> for Signalled {}
// Calls on a scalable endpoint hold a lock.
impl SharedAt<Shared> for FidSep {}

/// Every raw object consists of handles, so this type alone decides which objects cross threads.
/// Queues and endpoints have neither `Moves` nor `SharedAt`.
pub(crate) struct Handle<F, L> {
    raw: Raw<F>,
    level: PhantomData<L>,
}

// SAFETY: libfabric has no thread affinity. Objects under a domain keep a counted handle of it,
// which is `Send` only where the raw domain is `Sync`. So a domain at level `Local` does not move
// while an object is open under it.
unsafe impl<F: Moves, L: Level> Send for Handle<F, L> {}
// SAFETY: a domain at level `Shared` was granted a model under which domains, address vectors and
// regions need no serialisation (`Level::is_served_by`, checked when the domain is opened). For the
// other types see `SharedAt`.
unsafe impl<F: SharedAt<L>, L: Level> Sync for Handle<F, L> {}

impl<F, L> Handle<F, L> {
    pub(crate) const fn new(raw: Raw<F>) -> Self {
        Handle { raw, level: PhantomData }
    }

    #[inline]
    pub(crate) const fn raw(&self) -> Raw<F> {
        self.raw
    }

    #[inline]
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.raw.cast()
    }
}

impl<F, L> fmt::Debug for Handle<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

const _: () = {
    const fn sends<T: Send>() {}
    const fn shares<T: Sync>() {}
    sends::<Handle<sys::fid_domain, Local>>();
    sends::<Handle<sys::fid_mr, Shared>>();
    shares::<Handle<sys::fid_fabric, Local>>();
    shares::<Handle<sys::fid_domain, Shared>>();
    shares::<Handle<sys::fid_av, Shared>>();
    shares::<Handle<sys::fid_mr, Shared>>();
    sends::<Handle<FidSep, Local>>();
    shares::<Handle<FidSep, Shared>>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ofi::{
        Av, Counter, Cq, Domain, Endpoint, Eq, Fabric, Group, Mr, PassiveEndpoint, RawInfo, ScalableEndpoint,
    };

    /// An inherent constant hides the trait's.
    macro_rules! has {
        ($T:ty: $Auto:ident) => {{
            #[allow(dead_code, reason = "hidden where the type has the trait")]
            trait Otherwise {
                const HAS: bool = false;
            }
            impl<T> Otherwise for Inherent<T> {}
            struct Inherent<T>(PhantomData<T>);
            #[allow(dead_code, reason = "absent where the type has not the trait")]
            impl<T: $Auto> Inherent<T> {
                const HAS: bool = true;
            }
            Inherent::<$T>::HAS
        }};
    }

    #[test]
    fn thread_bounds_of_objects_hold() {
        assert!(has!(Fabric<Local>: Sync));
        assert!(has!(Domain<Shared>: Sync));
        assert!(has!(Av<Shared>: Sync));
        assert!(has!(Mr<Shared>: Sync));
        assert!(!has!(Domain<Local>: Sync));
        assert!(!has!(Av<Local>: Sync));
        assert!(!has!(Mr<Local>: Sync));
        assert!(has!(Domain<Local>: Send));
        assert!(has!(ScalableEndpoint<Shared>: Sync));
        assert!(!has!(ScalableEndpoint<Local>: Sync));
        for queue in
            [has!(Cq<Shared>: Sync), has!(Cq<Shared>: Send), has!(Endpoint<Shared>: Sync), has!(Endpoint<Shared>: Send)]
        {
            assert!(!queue);
        }
        assert!(!has!(Eq<Shared>: Sync) && !has!(Eq<Shared>: Send));
        assert!(has!(Counter<Local>: Send) && !has!(Counter<Shared>: Sync));
        assert!(!has!(Group<Shared>: Sync) && !has!(Group<Shared>: Send));
        assert!(!has!(PassiveEndpoint<Shared>: Sync) && !has!(PassiveEndpoint<Shared>: Send));
        assert!(has!(RawInfo: Send));
        assert!(has!(RawInfo: Sync));
    }

    #[test]
    fn unknown_models_serve_no_level() {
        for level in [Local::is_served_by, Shared::is_served_by] {
            assert!(level(Threading::SAFE));
            assert!(level(Threading::COMPLETION));
            assert!(!level(Threading::UNSPEC));
            assert!(!level(Threading::from_raw(77)));
        }
        assert!(Local::is_served_by(Threading::DOMAIN));
        assert!(!Shared::is_served_by(Threading::DOMAIN));
    }
}
