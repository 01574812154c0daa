//! The completion queue: owns the operations in flight and every endpoint that posts through it.
//!
//! A [`Cq`] is one [op table](crate::engine::op_table) over one or two provider queues. What users hold is
//! `&Cq<'d, T, B>`; where it comes from decides which buffers it may carry:
//!
//! - [`scope_in`] takes buffers of any lifetime: the queue and its endpoints are closed before it returns or unwinds.
//! - [`Cq::open_in`] makes a long-lived queue and asks for `'static` buffers and memory, because its owner may be
//!   forgotten and never close.

#![allow(unsafe_code, reason = "refers to the endpoints' records in the queue's own block of memory")]

mod attr;
mod close;
mod error;
mod keep;
mod owner;
mod poll;
mod signal;
mod sleep;

use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use heapless::Deque;

pub use self::attr::CqAttr;
pub use self::error::{CqError, ErrorText};
use self::keep::Bystander;
#[cfg(feature = "std")]
pub use self::owner::scope;
pub use self::owner::{CqOwner, scope_in};
use self::signal::Signalled;
pub use self::signal::Signaller;
use crate::buffer::Buffer;
use crate::engine::op_table::{OpTable, Slot};
use crate::objects::av::Av;
use crate::objects::domain::Domain;
use crate::objects::endpoint::EndpointBuilder;
use crate::objects::endpoint::Record;
use crate::transport::Transport;
use crate::vocabulary::WaitObj;

/// How many events of peers a queue has room for besides those of its own operations.
///
/// Peers' writes with immediate data report themselves without a post of this side, so the provider's queue is opened
/// for this many more events than there are operations, and [`Cq::wait`](CqBody::wait) keeps as many for the next
/// poll.
pub const PEER_EVENTS: usize = 64;

/// A queue with its operations in place; [`Cq`] is the name for users.
///
/// It stays on the thread that opened it, and so do its endpoints: parallelism is a queue for each thread.
pub struct CqBody<'d, T: Transport, B: Buffer, S: ?Sized> {
    domain: &'d Domain<T>,
    tx: T::Cq,
    /// The queue of the receives, unless `tx` serves both.
    rx: Option<T::Cq>,
    /// In the same block of memory as the queue.
    records: NonNull<[Record<'d, T>]>,
    /// Bystanders met while waiting for one key.
    bystanders: RefCell<Deque<Bystander, PEER_EVENTS>>,
    /// What there is to sleep on.
    wait: WaitObj,
    signalled: Signalled,
    /// Whether there ever was a [`Signaller`].
    has_signallers: Cell<bool>,
    /// No poll goes the short way: there are two provider queues, or prefixes that its events count.
    detours: bool,
    /// Peers' writes use up receives (`FI_RX_CQ_DATA`).
    consumes: bool,
    /// Which provider queue `poll` looks at first the next time.
    turn: Cell<bool>,
    /// Invariant in `'d`: what an endpoint is bound to lives as long as the queue's parent.
    parent: PhantomData<Cell<&'d ()>>,
    /// Something counts as kept in it also where there are bystanders, or polls make detours: a poll then has to look elsewhere
    /// than into `tx`, or at more.
    ops: OpTable<B, S>,
}

/// A completion queue.
///
/// # References
/// - `man fi_cq`
#[doc(alias = "fid_cq")]
pub type Cq<'d, T, B> = CqBody<'d, T, B, [Slot<B>]>;

impl<'d, T: Transport, B: Buffer> Cq<'d, T, B> {
    /// Begins to open an endpoint that completes into this queue and finds its peers in `av`.
    #[doc(alias = "fi_endpoint")]
    pub fn endpoint<'q>(&'q self, av: &'d Av<'d, T>) -> EndpointBuilder<'q, 'd, T, B> {
        EndpointBuilder::new(self, av)
    }

    /// How many operations are in flight, and receives that are kept for peers' writes
    /// ([`EndpointBuilder::remote_writes`], where the provider asks for them).
    ///
    /// A peek counts until it is answered, and the fetch or discard of a claimed message until it has ended. A
    /// [`Claim`](crate::completion::Claim) that is held in between does not count, but keeps its place in the queue: with claims held,
    /// posts are refused as [`Full`](crate::error::PostError::Full) before `in_flight` has come to
    /// [`capacity`](Self::capacity).
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.ops.in_flight()
    }

    /// How many operations can be in flight.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ops.capacity()
    }

    /// How many of the provider's events belonged to no operation in flight: late ones of endpoints already closed.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.ops.strays()
    }

    /// The queue's parent.
    #[must_use]
    pub fn domain(&self) -> &'d Domain<T> {
        self.domain
    }

    #[inline]
    pub(crate) fn ops(&self) -> &OpTable<B> {
        &self.ops
    }

    /// The raw queue of the transmits and that of the receives, which may be the same: for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> (&T::Cq, &T::Cq) {
        (&self.tx, self.rx.as_ref().unwrap_or(&self.tx))
    }

    pub(crate) fn records(&self) -> &[Record<'d, T>] {
        // SAFETY: written when the queue was opened, in the block that the queue lies in itself.
        unsafe { self.records.as_ref() }
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for Cq<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq").field("ops", &&self.ops).finish_non_exhaustive()
    }
}
