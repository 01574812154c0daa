#![allow(unsafe_code, reason = "handles for objects that the program has opened")]

use core::ptr::NonNull;

use loom_core::transport::EndpointError;
use loom_core::vocabulary::{Errno, WaitObj};

use crate::ofi::av::Av;
use crate::ofi::counter::Counter;
use crate::ofi::endpoint::closing::Closable;
use crate::ofi::endpoint::connection::PassiveEndpoint;
use crate::ofi::endpoint::multicast::Group;
use crate::ofi::endpoint::scalable::ScalableEndpoint;
use crate::ofi::endpoint::{self, Endpoint};
use crate::ofi::fabric::{Domain, Fabric};
use crate::ofi::info::RawInfo;
use crate::ofi::info::query::QueryError;
use crate::ofi::library::Library;
use crate::ofi::queue::entry_queue::{EntryCq, QueueEntry};
use crate::ofi::queue::event_queue::{Eq, Request};
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
use crate::ofi::queue::sets::{PollSet, WaitSet};
use crate::ofi::queue::{self, Cq};
use crate::ofi::quirks;
use crate::ofi::raw::Raw;
use crate::ofi::region::Mr;
use crate::ofi::sys;
use crate::ofi::threading::Level;

macro_rules! pointers {
    ($($Raw:ident<$($T:ident),+>: $fid:ident;)*) => {$(
        impl<$($T),+> $Raw<$($T),+> {
            #[doc = concat!("The `struct ", stringify!($fid), "`, for calls that loom does not wrap: through its operation tables, with")]
            /// the types of [`sys`].
            ///
            /// Valid as long as this handle is open. Calls must not close an object or free lent
            /// memory.
            #[must_use]
            pub const fn as_ptr(&self) -> *mut sys::$fid {
                self.fid().cast().as_ptr()
            }
        }
    )*};
}

pointers! {
    Fabric<L>: fid_fabric;
    Domain<L>: fid_domain;
    Av<L>: fid_av;
    Cq<L>: fid_cq;
    EntryCq<E, L>: fid_cq;
    Eq<L>: fid_eq;
    Mr<L>: fid_mr;
    Counter<L>: fid_cntr;
    Endpoint<L>: fid_ep;
    PassiveEndpoint<L>: fid_pep;
    ScalableEndpoint<L>: fid_ep;
    Group<L>: fid_mc;
}

#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
pointers! {
    PollSet<L>: fid_poll;
    WaitSet<L>: fid_wait;
}

impl RawInfo {
    /// Adopts an info from `fi_getinfo` or `fi_dupinfo`. It is corrected like those of
    /// [`Ofi::query`](crate::ofi::Ofi::query).
    ///
    /// # Errors
    /// Those of [`Library::get`]. The info is then the caller's.
    ///
    /// # Safety
    /// The libfabric of `Library::get` has allocated the info, its fields hold for the opened
    /// objects, and no other code uses or frees it.
    pub unsafe fn from_ptr(raw: NonNull<sys::fi_info>) -> Result<Self, QueryError> {
        Library::get()?;
        // SAFETY: the caller guarantees that the info is from libfabric, and not used elsewhere.
        let mut info = unsafe { Self::adopt(raw) };
        quirks::correct(&mut info);
        Ok(info)
    }
}

impl Request {
    /// Value of `fi_info.handle`, for opening the endpoint through the tables, which uses up the
    /// request.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut sys::fid {
        self.0.as_ptr()
    }
}

impl<L: Level> Fabric<L> {
    /// Adopts a fabric.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting).
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_fabric>) -> Self {
        Self::of(Raw::opened(raw))
    }
}

impl<L: Level> Domain<L> {
    /// Adopts a domain, for example of `fi_domain2`.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting). The domain was opened in this fabric with this
    /// info, and its threading model serves the level
    /// ([`Fabrics::serves_threading`](loom_core::transport::Fabrics::serves_threading)).
    #[must_use]
    pub unsafe fn from_ptr(fabric: &Fabric<L>, info: &RawInfo, raw: NonNull<sys::fid_domain>) -> Self {
        Self::of(Raw::opened(raw), fabric, info)
    }
}

impl<L: Level> Av<L> {
    /// Adopts an address vector: a map, one that is shared by name, or one with an event queue.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting).
    ///
    /// Addresses enter a vector with `FI_EVENT` through its own table only: the provider writes the
    /// result later, and loom's insertions lend memory on the stack. With `FI_AV_USER_ID`, events
    /// report an id, which must not be posted to.
    ///
    /// Over `shm`, and over an untested provider, addresses of this process are inserted by
    /// [`AddressVectors::av_insert`](loom_core::transport::AddressVectors::av_insert) only, which
    /// keeps their endpoints open.
    #[must_use]
    pub unsafe fn from_ptr(domain: &Domain<L>, raw: NonNull<sys::fid_av>) -> Self {
        Self::of(domain, Raw::opened(raw))
    }
}

impl<L: Level> Cq<L> {
    /// Adopts a completion queue like those of
    /// [`CompletionQueues::cq_open`](loom_core::transport::CompletionQueues::cq_open). `wait` is
    /// its wait object, or [`WaitObj::NONE`] without one or with a wait set.
    ///
    /// # Errors
    /// `ENOSYS` if queues of the domain cannot be slept on. The program then closes the queue.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting), and those of `cq_open` for the memory. The queue
    /// has the format `FI_CQ_FORMAT_TAGGED`, and a wait object unless `wait` is `NONE`.
    pub unsafe fn from_ptr(
        domain: &Domain<L>,
        raw: NonNull<sys::fid_cq>,
        with_source: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Self, Errno> {
        let cq = queue::adopt(domain, Raw::opened(raw), wait)?;
        // SAFETY: the caller guarantees that the memory has the queue's layout and outlives it
        // (M1).
        Ok(unsafe { queue::with_batch(cq, usize::MAX, with_source, memory) })
    }
}

impl<E: QueueEntry, L: Level> EntryCq<E, L> {
    /// Adopts a completion queue with entries that the user reads. `wait` and errors are those of
    /// [`Cq::from_ptr`].
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting). The queue has the format of the entries, and a
    /// wait object unless `wait` is `NONE`.
    pub unsafe fn from_ptr(domain: &Domain<L>, raw: NonNull<sys::fid_cq>, wait: WaitObj) -> Result<Self, Errno> {
        queue::adopt(domain, Raw::opened(raw), wait).map(Self::of)
    }
}

impl<L: Level> Eq<L> {
    /// Adopts an event queue.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting).
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_eq>) -> Self {
        Self::of(Raw::opened(raw))
    }
}

impl<L: Level> Mr<L> {
    /// Adopts a memory region.
    ///
    /// Reads key and descriptor, and again in
    /// [`MemoryRegions::mr_enable`](loom_core::transport::MemoryRegions::mr_enable), for providers
    /// that choose the key then.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting), and those of
    /// [`MemoryRegions::mr_open`](loom_core::transport::MemoryRegions::mr_open) for the memory.
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_mr>) -> Self {
        // SAFETY: the caller guarantees that the region is open (H1).
        unsafe { Self::of(Raw::opened(raw)) }
    }
}

impl<L: Level> Counter<L> {
    /// Adopts a counter.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting). The counter is slept on only if it has a wait
    /// object.
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_cntr>) -> Self {
        Self::of(Raw::opened(raw))
    }
}

impl<L: Level> Endpoint<L> {
    /// Adopts an alias, a shared receive context, or a context of a scalable endpoint. A close
    /// takes effect at once. For `selective` see [`from_fn`](Self::from_fn).
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting). The endpoint of an alias or a context is open,
    /// and is closed after it.
    ///
    /// A transmit context over `sockets` is closed only when its operations have completed, in a
    /// domain without manual progress: otherwise `sockets` uses it after the close. Over an
    /// untested provider, the object is closed without operations in flight.
    #[must_use]
    pub unsafe fn from_ptr(domain: &Domain<L>, raw: NonNull<sys::fid_ep>, selective: bool) -> Self {
        Self::of(domain, domain.overruns(), Raw::opened(raw), Closable::ALWAYS, selective)
    }

    /// Adopts the endpoint that `open` opens, binds and enables, or returns already open.
    ///
    /// `selective` is `true` if the transmit queue is bound with `FI_SELECTIVE_COMPLETION`. Then
    /// the flags of a post through [`Transport`](loom_core::transport::Transport), or else the
    /// default flags, request its completion.
    ///
    /// # Errors
    /// Those of `open`, except that over `shm` of libfabric 1 `EBUSY` repeats the call up to 255
    /// times, to pass over names of killed processes. Over `shm`, `EMFILE` without a call of `open`
    /// if the process has its maximum number of endpoints, or the provider's error for the
    /// endpoint's address, which closes the endpoint.
    ///
    /// # Safety
    /// The rules of [`ofi`](crate::ofi#adopting). The endpoint was opened with this info, and is
    /// bound to objects of this domain and its fabric, which count as those of
    /// [`Bindings`](loom_core::transport::Bindings).
    ///
    /// Over `tcp;ofi_rxm` and `udp;ofi_rxd`, its queues and counters are not slept on after it was
    /// closed: libfabric would follow a pointer to it.
    ///
    /// Over `shm`, and over an untested provider, `open` runs under a lock, and would wait for ever
    /// if it opened or closed an endpoint or a domain, or inserted an address, through loom. If the
    /// endpoint is already open, no other thread opens or closes one meanwhile.
    ///
    /// No thread inserts into its address vector while `open` runs or the endpoint is closed.
    pub unsafe fn from_fn(
        domain: &Domain<L>,
        info: &RawInfo,
        selective: bool,
        mut open: impl FnMut() -> Result<NonNull<sys::fid_ep>, Errno>,
    ) -> Result<Self, EndpointError> {
        // SAFETY: the caller guarantees that the endpoint is open and bound to objects of this
        // domain (H1, H4).
        unsafe { endpoint::open::adopt(domain, info, selective, || open().map(Raw::opened)) }
    }
}
