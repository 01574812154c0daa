//! The C objects behind raw handles, and raw handles for C objects: for what libfabric has and loom does not wrap.
//!
//! The contract of all `from_ptr` stands in the documentation of [`ofi`](super#adopting).

#![allow(unsafe_code, reason = "handles for objects that the program has opened")]

use core::ptr::NonNull;

use loom_core::transport::EndpointError;
use loom_core::vocabulary::{Errno, WaitObj};

use super::closing::Closable;
use super::connection::PassiveEndpoint;
use super::control::{Av, Domain, Fabric};
use super::counter::Counter;
use super::endpoint::{self, Endpoint};
use super::entry_queue::{EntryCq, QueueEntry};
use super::event_queue::{Eq, Request};
use super::info::RawInfo;
use super::multicast::Group;
use super::process::Raw;
use super::queue::{self, Cq};
use super::quirks;
use super::region::Mr;
use super::scalable::ScalableEndpoint;
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
use super::sets::{PollSet, WaitSet};
use super::sys;
use super::threading::Level;

macro_rules! pointers {
    ($($Raw:ident<$($T:ident),+>: $fid:ident;)*) => {$(
        impl<$($T),+> $Raw<$($T),+> {
            #[doc = concat!("The `struct ", stringify!($fid), "`, for calls that loom does not wrap: through its operation tables, with")]
            /// the types of [`sys`].
            ///
            /// What is done with it has to keep to what the objects above rely on: nothing is closed, and what was lent to the
            /// provider stays. It is there as long as this handle is open.
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
    /// An info that `fi_getinfo` has written, or a copy of one (`fi_dupinfo`): what was found with hints that
    /// [`Hints`](loom_core::info::Hints) does not have, or was changed where `man fi_getinfo` says that it may be.
    ///
    /// It is corrected as those that [`Ofi::query`](super::Ofi::query) finds. Of a list, this is the first; the rest is still
    /// the program's.
    ///
    /// # Safety
    /// libfabric has allocated it, what is in it holds for what is opened with it, and nothing else uses or frees it.
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fi_info>) -> Self {
        // SAFETY: the caller's promise.
        let mut info = unsafe { Self::adopt(raw) };
        quirks::correct(&mut info);
        info
    }
}

impl Request {
    /// What `fi_info.handle` names, for opening the endpoint through the tables. That uses the request up: it is then neither
    /// accepted by loom's functions nor rejected.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut sys::fid {
        self.0.as_ptr()
    }
}

impl<L: Level> Fabric<L> {
    /// Adopts a fabric.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting).
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_fabric>) -> Self {
        Self::of(Raw::opened(raw))
    }
}

impl<L: Level> Domain<L> {
    /// Adopts a domain: one that was opened with flags (`fi_domain2`), or by a library in C.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting). It is a domain of this fabric, opened with this info, whose threading
    /// model serves the level ([`Fabrics::serves_threading`](loom_core::transport::Fabrics::serves_threading)).
    #[must_use]
    pub unsafe fn from_ptr(fabric: &Fabric<L>, info: &RawInfo, raw: NonNull<sys::fid_domain>) -> Self {
        Self::of(Raw::opened(raw), fabric, info)
    }
}

impl<L: Level> Av<L> {
    /// Adopts an address vector: a map, a set of addresses under a name, one with an event queue.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting).
    ///
    /// If the vector was opened with `FI_EVENT`, addresses are inserted through its own table: the provider writes the result
    /// when it likes, and loom's insertions lend it a place on the stack. What stands in events for an address that was inserted
    /// with `FI_AV_USER_ID` is its id, which is no address for posts.
    ///
    /// Over `shm`, and over a provider that is not tested, an address that is inserted through its own table is one of another process:
    /// loom keeps endpoints open whose address a vector of this process has, and learns of it by [`AddressVectors::av_insert`](loom_core::transport::AddressVectors::av_insert).
    #[must_use]
    pub unsafe fn from_ptr(domain: &Domain<L>, raw: NonNull<sys::fid_av>) -> Self {
        Self::of(domain, Raw::opened(raw))
    }
}

impl<L: Level> Cq<L> {
    /// Adopts a completion queue, as [`CompletionQueues::cq_open`](loom_core::transport::CompletionQueues::cq_open) opens one: `wait` is what
    /// it was opened with, [`WaitObj::NONE`] if it cannot be slept on, or only by a set.
    ///
    /// # Errors
    /// `ENOSYS` if queues of the domain are not to be slept on; the queue is then the program's to close.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting); the memory is as for `cq_open`. The queue's format is
    /// `FI_CQ_FORMAT_TAGGED`, and there is something to sleep on if `wait` says so.
    pub unsafe fn from_ptr(
        domain: &Domain<L>,
        raw: NonNull<sys::fid_cq>,
        with_source: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Self, Errno> {
        let cq = queue::adopt(domain, Raw::opened(raw), wait)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { queue::with_batch(cq, usize::MAX, with_source, memory) })
    }
}

impl<E: QueueEntry, L: Level> EntryCq<E, L> {
    /// Adopts a completion queue whose entries the user reads: `wait` is what it was opened with, [`WaitObj::NONE`] if it cannot
    /// be slept on, or only by a set.
    ///
    /// # Errors
    /// `ENOSYS` if queues of the domain are not to be slept on; the queue is then the program's to close.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting). The queue's format is that of the entries, and there is something to
    /// sleep on if `wait` says so.
    pub unsafe fn from_ptr(domain: &Domain<L>, raw: NonNull<sys::fid_cq>, wait: WaitObj) -> Result<Self, Errno> {
        queue::adopt(domain, Raw::opened(raw), wait).map(Self::of)
    }
}

impl<L: Level> Eq<L> {
    /// Adopts an event queue.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting).
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_eq>) -> Self {
        Self::of(Raw::opened(raw))
    }
}

impl<L: Level> Mr<L> {
    /// Adopts a memory region: one of several ranges, or one that was registered with an authorization key.
    ///
    /// Key and descriptor are read here; where the provider chooses the key when the region is enabled,
    /// [`MemoryRegions::mr_enable`](loom_core::transport::MemoryRegions::mr_enable) reads them again.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting). Its memory stays as that of
    /// [`MemoryRegions::mr_open`](loom_core::transport::MemoryRegions::mr_open) has to.
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_mr>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of(Raw::opened(raw)) }
    }
}

impl<L: Level> Counter<L> {
    /// Adopts a counter: one that counts bytes, or one of a wait set.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting). It is slept on only if there is something to sleep on.
    #[must_use]
    pub unsafe fn from_ptr(raw: NonNull<sys::fid_cntr>) -> Self {
        Self::of(Raw::opened(raw))
    }
}

impl<L: Level> Endpoint<L> {
    /// Adopts something that posts and is no endpoint of its own: an alias, a shared receive context, or a context of a scalable
    /// endpoint that the program has opened. It is closed as soon as that is asked for. For `selective` see
    /// [`from_fn`](Self::from_fn).
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting). What it is an alias or a context of is open, and closed after it.
    ///
    /// A transmit context of a scalable endpoint over `sockets` is closed when all its operations have ended, and its domain has
    /// no manual progress: otherwise `sockets` uses it afterwards. Over a provider that is not tested, nothing is in flight on it when it is closed. (The contexts of
    /// [`ScalableEndpoint`](loom_core::endpoint::ScalableEndpoint) see to that.)
    #[must_use]
    pub unsafe fn from_ptr(domain: &Domain<L>, raw: NonNull<sys::fid_ep>, selective: bool) -> Self {
        Self::of(domain, domain.overruns(), Raw::opened(raw), Closable::ALWAYS, selective)
    }

    /// Adopts the endpoint that `open` opens, and returns with everything bound that it needs and enabled. If it is open already,
    /// `open` does no more than to return it.
    ///
    /// `selective` says whether its transmit queue is bound with `FI_SELECTIVE_COMPLETION`. If not, everything that is posted
    /// through [`Transport`](loom_core::transport::Transport) with flags asks for its completion. If so, what is posted with
    /// flags says for itself; what is posted without does what the default flags say.
    ///
    /// # Errors
    /// Those of `open`; it is called again, up to 255 times, if that is `EBUSY` over `shm` of libfabric 1, which numbers its names
    /// and meets those that a killed process has left. Over `shm`, `EMFILE` if the process has as many endpoints as it can have
    /// (`open` is not called then), or what the provider says when the endpoint is asked for its address, and it is closed.
    ///
    /// # Safety
    /// As for all of them, see [`ofi`](super#adopting). What `open` returns was opened with this info, and is bound to objects
    /// of this domain and its fabric, which count as those of [`Bindings`](loom_core::transport::Bindings).
    ///
    /// Over `tcp;ofi_rxm` and `udp;ofi_rxd`, queues and counters that it is bound to are not slept on after it was closed: libfabric follows
    /// a pointer to it then.
    ///
    /// Over `shm`, and over a provider that is not tested, endpoints of a process open and close one after the other, and `open` runs while the others wait: it opens and
    /// closes no endpoint and no domain through loom, and inserts no address, which would wait for ever. One that was open before
    /// is not opened or closed around by another thread meanwhile.
    ///
    /// Over all of them no thread inserts into its address vector while `open` runs, or while the endpoint is closed.
    pub unsafe fn from_fn(
        domain: &Domain<L>,
        info: &RawInfo,
        selective: bool,
        mut open: impl FnMut() -> Result<NonNull<sys::fid_ep>, Errno>,
    ) -> Result<Self, EndpointError> {
        // SAFETY: the caller's promise.
        unsafe { endpoint::adopt(domain, info, selective, || open().map(Raw::opened)) }
    }
}
