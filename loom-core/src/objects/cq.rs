//! The completion queue: owns the operations in flight and every endpoint that posts through it.
//!
//! A [`Cq`] is one [op table](crate::engine::op_table) over one or two provider queues. What users hold is
//! `&Cq<'d, T, B>`; where it comes from decides which buffers it may carry:
//!
//! - [`scope_in`] takes buffers of any lifetime: the queue and its endpoints are closed before it returns or unwinds.
//! - [`Cq::open_in`] makes a long-lived queue and asks for `'static` buffers and memory, because its owner may be
//!   forgotten and never close.

#![allow(unsafe_code, reason = "owns raw handles and the memory of the queue")]

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use heapless::Deque;

use crate::abort::OnFailedClose;
use crate::buffer::Buffer;
use crate::completion::{Completion, Done, OpError, RemoteEvent};
use crate::engine::op_table::{ContextKind, Direction, Kind, OpKey, OpTable, Resolution, Slot, Taken};
use crate::error::OpenError;
use crate::objects::av::Av;
use crate::objects::deadline::Deadline;
use crate::objects::domain::Domain;
use crate::objects::endpoint::{EndpointBuilder, Record};
use crate::storage::{Block, array, extend};
use crate::transport::{Closing, Event, InFlight, Transport};
use crate::vocabulary::{Caps, CompletionFlags, Errno, Mode};

/// How many events of peers a queue has room for besides those of its own operations.
///
/// Peers' writes with immediate data report themselves without a post of this side, so the provider's queue is opened
/// for this many more events than there are operations, and [`Cq::wait`](CqBody::wait) keeps as many for the next
/// poll.
pub const PEER_EVENTS: usize = 64;

/// How many polls an endpoint is given to end what cannot be interrupted, before it is left to its queue.
const SETTLING: u32 = 1 << 17;

/// How a queue is opened: for up to `N` operations in flight.
#[derive(Clone, Copy, Debug)]
pub struct CqAttr<const N: usize> {
    /// How many endpoints can be open on the queue at a time; below `u16::MAX`.
    pub endpoints: u16,
    /// One provider queue for transmits and another for receives, so that either can be polled alone.
    pub separate: bool,
}

impl<const N: usize> CqAttr<N> {
    /// Up to 16 endpoints and one provider queue.
    #[must_use]
    pub const fn new() -> Self {
        CqAttr { endpoints: 16, separate: false }
    }

    /// With one provider queue for each direction.
    #[must_use]
    pub const fn separate(mut self) -> Self {
        self.separate = true;
        self
    }

    /// For so many endpoints.
    #[must_use]
    pub const fn endpoints(mut self, endpoints: u16) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// How many events the provider's queue is opened for.
    const fn events() -> usize {
        N + PEER_EVENTS
    }

    /// The memory that a queue takes from its allocator, in one block: the op table, the endpoints' records, and
    /// what the transport asks for.
    ///
    /// # Errors
    /// [`OpenError::Size`] if it is more than an address space holds.
    pub fn layout<T: Transport, B: Buffer>(&self) -> Result<Layout, OpenError> {
        Ok(self.places::<T, B>()?.layout)
    }

    fn places<T: Transport, B: Buffer>(&self) -> Result<Places, OpenError> {
        if self.endpoints == u16::MAX {
            return Err(OpenError::Size);
        }
        let body = Layout::new::<CqBody<'_, T, B, [Slot<B>; N]>>();
        let (layout, records) = extend(body, array::<Record<'_, T>>(self.endpoints.into())?)?;
        let (layout, tx) = extend(layout, T::cq_layout(Self::events()))?;
        let (layout, rx) = if self.separate { extend(layout, T::cq_layout(Self::events()))? } else { (layout, tx) };
        Ok(Places { layout, records, tx, rx })
    }
}

impl<const N: usize> Default for CqAttr<N> {
    fn default() -> Self {
        Self::new()
    }
}

struct Places {
    layout: Layout,
    records: usize,
    tx: usize,
    rx: usize,
}

/// Why a queue cannot go on, or not with this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqError {
    /// The provider's queue itself failed. The operations in flight keep their buffers until the queue is closed.
    Queue(Errno),
    /// The key is not, or no more, one of this queue.
    UnknownKey,
    /// While waiting for one operation, as many events of peers came as are kept: take them with
    /// [`poll`](CqBody::poll) and wait again.
    PeerEvents,
}

impl fmt::Display for CqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqError::Queue(errno) => write!(f, "the completion queue failed: {errno}"),
            CqError::UnknownKey => f.write_str("the key does not belong to an operation of this queue"),
            CqError::PeerEvents => f.write_str("peers' events have to be taken with poll before waiting on"),
        }
    }
}

impl core::error::Error for CqError {}

/// An event that is nobody's operation.
#[derive(Clone, Copy)]
enum Bystander {
    Remote(RemoteEvent),
    Unclaimed(OpError),
}

impl<B> From<Bystander> for Completion<B> {
    fn from(bystander: Bystander) -> Self {
        match bystander {
            Bystander::Remote(event) => Completion::Remote(event),
            Bystander::Unclaimed(error) => Completion::Unclaimed(error),
        }
    }
}

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
    /// Whether anything may be kept, among the bystanders or parked in the op table.
    any_kept: Cell<bool>,
    /// Which provider queue `poll` looks at first the next time.
    turn: Cell<bool>,
    /// Invariant in `'d`: what an endpoint is bound to lives as long as the queue's parent.
    parent: PhantomData<Cell<&'d ()>>,
    ops: OpTable<B, S>,
}

/// A completion queue.
///
/// # References
/// - `man fi_cq`
#[doc(alias = "fid_cq")]
pub type Cq<'d, T, B> = CqBody<'d, T, B, [Slot<B>]>;

impl<'d, T: Transport, B: Buffer> Cq<'d, T, B> {
    /// Opens a long-lived queue with memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    /// - [`OpenError::Size`] if the sizes do not fit into memory
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_cq_open")]
    pub fn open_in<A: Allocator + 'static, const N: usize>(
        domain: &'d Domain<T>,
        attr: CqAttr<N>,
        alloc: A,
    ) -> Result<CqOwner<'d, T, B, A, N>, OpenError>
    where
        B: 'static,
    {
        CqOwner::new(domain, attr, alloc, OnFailedClose::Leak)
    }

    /// [`Cq::open_in`] with the global allocator.
    ///
    /// # Errors
    /// As [`Cq::open_in`].
    #[cfg(feature = "std")]
    pub fn open<const N: usize>(
        domain: &'d Domain<T>,
        attr: CqAttr<N>,
    ) -> Result<CqOwner<'d, T, B, allocator_api2::alloc::Global, N>, OpenError>
    where
        B: 'static,
    {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }

    /// Begins to open an endpoint that completes into this queue and finds its peers in `av`.
    #[doc(alias = "fi_endpoint")]
    pub fn endpoint<'q>(&'q self, av: &'d Av<'d, T>) -> EndpointBuilder<'q, 'd, T, B> {
        EndpointBuilder::new(self, av)
    }

    /// The next completion of either direction; `None` if there is none for now. Drives progress.
    ///
    /// What [`wait`](CqBody::wait) and [`progress`](CqBody::progress) have kept comes first, receives before transmits;
    /// then one provider queue's completions come in its order.
    ///
    /// # Errors
    /// [`CqError::Queue`] if the provider's queue failed.
    #[doc(alias = "fi_cq_read")]
    // Always, with what it calls: the completion is built where the caller wants it, not copied from one return value
    // to the next. That is a third of the cost of a poll.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion<B>>, CqError> {
        if self.any_kept.get()
            && let Some(completion) = self.take_any_kept()
        {
            return Ok(Some(completion));
        }
        let Some(rx) = &self.rx else {
            let polled = self.poll_queue(&self.tx);
            if let Ok(None) = polled {
                self.ops.drained();
            }
            return polled;
        };
        let turn = self.turn.get();
        self.turn.set(!turn);
        let (first, second) = if turn { (rx, &self.tx) } else { (&self.tx, rx) };
        match self.poll_queue(first)? {
            None => {
                let polled = self.poll_queue(second);
                if let Ok(None) = polled {
                    self.ops.drained();
                }
                polled
            }
            some => Ok(some),
        }
    }

    /// The next completion of a send, read or write.
    ///
    /// # Errors
    /// As [`Cq::poll`](CqBody::poll).
    pub fn poll_tx(&self) -> Result<Option<Completion<B>>, CqError> {
        self.poll_direction(&self.tx, Direction::Transmit)
    }

    /// The next completion of a receive, or event of a peer.
    ///
    /// # Errors
    /// As [`Cq::poll`](CqBody::poll).
    pub fn poll_rx(&self) -> Result<Option<Completion<B>>, CqError> {
        self.poll_direction(self.rx.as_ref().unwrap_or(&self.tx), Direction::Receive)
    }

    /// Waits for one operation. Completions of others are kept for [`poll`](CqBody::poll); `Ok(None)` says that the
    /// deadline passed, and leaves the operation in flight.
    ///
    /// # Errors
    /// - [`CqError::UnknownKey`] if the operation is over and its completion was taken
    /// - [`CqError::PeerEvents`] if events of peers have to be taken first
    /// - [`CqError::Queue`] if the provider's queue failed
    pub fn wait(&self, key: OpKey, mut until: impl Deadline) -> Result<Option<Done<B>>, CqError> {
        /// How many events pass between two looks at the clock while the queue is busy.
        const BUSY: u32 = 256;
        let mut busy = 0;
        loop {
            match self.ops.take(key) {
                Taken::Done(done) => return Ok(Some(done)),
                Taken::Unknown => return Err(CqError::UnknownKey),
                Taken::InFlight => {}
            }
            if !self.progress()? {
                if until.passed() {
                    return Ok(None);
                }
            } else {
                busy += 1;
                if busy % BUSY == 0 && until.passed() {
                    return Ok(None);
                }
            }
        }
    }

    /// Drives progress and keeps what completes for later: for the loop around a post that is refused for the moment
    /// ([`PostError::is_transient`](crate::error::PostError::is_transient)). Says whether anything happened.
    ///
    /// # Errors
    /// - [`CqError::PeerEvents`] if events of peers have to be taken first
    /// - [`CqError::Queue`] if the provider's queue failed
    pub fn progress(&self) -> Result<bool, CqError> {
        let mut busy = false;
        for queue in core::iter::once(&self.tx).chain(&self.rx) {
            busy |= self.keep_next(queue)?;
        }
        if !busy {
            self.ops.drained();
        }
        Ok(busy)
    }

    /// The provider's text for a failed operation.
    #[doc(alias = "fi_cq_strerror")]
    #[must_use]
    pub fn error_text(&self, error: &OpError) -> ErrorText {
        let mut text = ErrorText { bytes: [0; ErrorText::MAX_LEN], len: 0 };
        let queue = self.rx.as_ref().filter(|_| error.flags.contains(CompletionFlags::RECV)).unwrap_or(&self.tx);
        // SAFETY: the queue is open until its owner is dropped, and this thread is its only user.
        text.len = unsafe { T::cq_error_text(queue, error.provider_errno, &mut text.bytes) };
        text
    }

    /// How many operations are in flight.
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

    /// The raw queue of the transmits and of the receives.
    pub(crate) fn raw(&self) -> (&T::Cq, &T::Cq) {
        (&self.tx, self.rx.as_ref().unwrap_or(&self.tx))
    }

    pub(crate) fn records(&self) -> &[Record<'d, T>] {
        // SAFETY: written when the queue was opened, in the block that the queue lies in itself.
        unsafe { self.records.as_ref() }
    }

    /// The next completion of a raw queue.
    #[inline(always)]
    fn poll_queue(&self, queue: &T::Cq) -> Result<Option<Completion<B>>, CqError> {
        // Bounded: stray events are no more than the queue holds and peers go on adding.
        loop {
            // SAFETY: the queue is open until its owner is dropped, and this thread is its only user.
            match unsafe { T::cq_poll(queue) } {
                Ok(Some(event)) => {
                    if let Some(completion) = self.resolve(event) {
                        return Ok(Some(completion));
                    }
                }
                Ok(None) => return Ok(None),
                Err(errno) => {
                    if let Some(completion) = self.resolve_failed(queue, errno)? {
                        return Ok(Some(completion));
                    }
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve_failed(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Completion<B>>, CqError> {
        Ok(self.failed(queue, errno)?.and_then(|event| self.resolve(&event)))
    }

    /// The event behind an error of a poll, if there is one.
    #[cold]
    fn failed(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Event>, CqError> {
        if errno != Errno::EAVAIL {
            return Err(CqError::Queue(errno));
        }
        // SAFETY: the queue is open until its owner is dropped, and this thread is its only user.
        unsafe { T::cq_read_error(queue) }.map_err(CqError::Queue)
    }

    /// The next completion of one direction. Those of the other are kept: one raw queue may report both.
    fn poll_direction(&self, queue: &T::Cq, direction: Direction) -> Result<Option<Completion<B>>, CqError> {
        loop {
            if let Some(completion) = self.take_kept(direction) {
                return Ok(Some(completion));
            }
            if !self.keep_next(queue)? {
                match self.rx {
                    Some(_) => self.ops.drained_of(direction),
                    None => self.ops.drained(),
                }
                return Ok(None);
            }
        }
    }

    /// What an event says to the user; nothing, if it belongs to an operation that is over.
    #[inline(always)]
    fn resolve(&self, event: &Event) -> Option<Completion<B>> {
        if let Some(bystander) = Self::bystander_by_flags(event) {
            return Some(bystander.into());
        }
        // SAFETY: the transport has just reported the event, and a queue has one table.
        match unsafe { self.ops.complete(event) } {
            Resolution::Done(done) => Some(Completion::Op(done)),
            Resolution::Foreign if event.is_error() => Some(Completion::Unclaimed(OpError::of(event))),
            Resolution::Stale | Resolution::Foreign => None,
        }
    }

    /// A peer's operation on this side's memory, which the provider reports with a context of no meaning.
    #[inline]
    fn bystander_by_flags(event: &Event) -> Option<Bystander> {
        let remote = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_READ);
        (event.flags.intersects(remote) && !event.is_error()).then(|| Bystander::Remote(RemoteEvent::of(event)))
    }

    /// Keeps the next event of a raw queue until somebody asks for it; `false` if there is none.
    ///
    /// # Errors
    /// [`CqError::PeerEvents`] if there is no room for an event of a peer, which the next one may be.
    fn keep_next(&self, queue: &T::Cq) -> Result<bool, CqError> {
        let mut bystanders = self.bystanders.borrow_mut();
        if bystanders.is_full() {
            return Err(CqError::PeerEvents);
        }
        // SAFETY: the queue is open until its owner is dropped, and this thread is its only user.
        let event = match unsafe { T::cq_poll(queue) } {
            Ok(event) => event.copied(),
            Err(errno) => self.failed(queue, errno)?,
        };
        let Some(event) = &event else { return Ok(false) };
        let bystander = Self::bystander_by_flags(event).or_else(|| {
            // SAFETY: the transport has just reported the event, and a queue has one table.
            match unsafe { self.ops.park(event) } {
                Some(Resolution::Foreign) if event.is_error() => Some(Bystander::Unclaimed(OpError::of(event))),
                _ => None,
            }
        });
        if let Some(bystander) = bystander {
            // There is room: seen above.
            let _ = bystanders.push_back(bystander);
        }
        self.any_kept.set(true);
        Ok(true)
    }

    /// Keeps everything that the provider's queues hold now: what an endpoint that has just been closed left there.
    pub(crate) fn collect(&self) {
        for queue in core::iter::once(&self.tx).chain(&self.rx) {
            // No queue holds more than this; what peers go on adding is not waited for.
            for _ in 0..self.ops.capacity() + PEER_EVENTS {
                if !matches!(self.keep_next(queue), Ok(true)) {
                    break;
                }
            }
        }
    }

    /// Something kept may be there for [`poll`](CqBody::poll) now.
    pub(crate) fn note_kept(&self) {
        self.any_kept.set(true);
    }

    /// Takes the oldest thing kept, of receives and peers first.
    #[cold]
    fn take_any_kept(&self) -> Option<Completion<B>> {
        let kept = self.take_kept(Direction::Receive).or_else(|| self.take_kept(Direction::Transmit));
        self.any_kept.set(kept.is_some());
        kept
    }

    fn take_kept(&self, direction: Direction) -> Option<Completion<B>> {
        if direction == Direction::Receive
            && let Some(bystander) = self.bystanders.borrow_mut().pop_front()
        {
            return Some(bystander.into());
        }
        self.ops.take_parked(direction).map(Completion::Op)
    }

    /// Closes endpoints, forgotten ones too, then drops the buffers, then closes the queues.
    ///
    /// # Safety
    /// Called once, by the owner, whom nobody borrows any more.
    unsafe fn close(&self, on_failed_close: OnFailedClose) -> Result<(), Errno> {
        // Polls: milliseconds where giving up leaks; a tenth of a second, so that a peer which is not running at the
        // moment can answer, where it ends the process.
        let patience = match on_failed_close {
            OnFailedClose::Leak => SETTLING,
            OnFailedClose::Abort => 32 * SETTLING,
        };
        // SAFETY: the owner is being dropped, so no `Endpoint` uses the records.
        let mut open = unsafe { self.close_endpoints() }?;
        if open.retired > 0 {
            for (index, record) in (0u16..).zip(self.records()) {
                record.cancel_all(self.ops.posted_on(index));
            }
            self.progress_until(patience, || {
                (0u16..).zip(self.records()).all(|(index, _)| self.in_flight_on(index) == InFlight::NOTHING)
            });
            // Together, if they keep each other open only.
            for record in self.records() {
                record.leave();
            }
            // SAFETY: as above.
            open = unsafe { self.close_endpoints() }?;
        }
        if open.retired > 0 {
            // What is still in flight on endpoints that others keep open stays lent.
            if !self.progress_until(patience, || self.ops.in_flight() == 0) {
                return Err(Errno::EBUSY);
            }
            // SAFETY: as above.
            open = unsafe { self.close_endpoints() }?;
            for record in self.records() {
                record.leave_for_good(self.domain);
            }
        }
        let left_open = open.retired + open.left > 0;
        let queues = CloseQueues { cq: self, left_open };
        // SAFETY: every endpoint that posted is closed, or has nothing in flight. A destructor that unwinds still gets the
        // queues closed.
        unsafe { self.ops.drop_buffers() };
        let _ = ManuallyDrop::new(queues);
        // Queues of endpoints that stay open stay open too, and so does the domain, which has a child more then.
        if left_open { Ok(()) } else { self.close_queues() }
    }

    /// Closes every endpoint, and tells how many are still open.
    ///
    /// # Safety
    /// No `Endpoint` uses the records any more.
    unsafe fn close_endpoints(&self) -> Result<StillOpen, Errno> {
        let mut open = StillOpen { retired: 0, left: 0 };
        for (index, record) in (0u16..).zip(self.records()) {
            // SAFETY: the caller's promise.
            match unsafe { record.close(self.domain, self.in_flight_on(index)) }? {
                Closing::Closed => {}
                Closing::Retired => open.retired += 1,
                Closing::Left => open.left += 1,
            }
        }
        Ok(open)
    }

    /// What is in flight on an endpoint that may keep it from being closed.
    pub(crate) fn in_flight_on(&self, endpoint: u16) -> InFlight {
        self.ops.posted_on(endpoint).fold(InFlight::NOTHING, |in_flight, op| match op.kind {
            Kind::Receive => InFlight { receives: in_flight.receives + 1, ..in_flight },
            Kind::Read => InFlight { longest_read: in_flight.longest_read.max(op.len), ..in_flight },
            Kind::Send => in_flight,
        })
    }

    /// Polls until the receives and reads of a retired endpoint have ended, for a bounded time.
    #[cold]
    pub(crate) fn settle(&self, endpoint: u16) {
        let mut polls = 0;
        while self.in_flight_on(endpoint) != InFlight::NOTHING
            && polls < SETTLING
            && self.keep_until_busy(&mut polls, SETTLING)
        {}
    }

    /// Polls until something is so, throwing peers' events away: nobody will ask for them any more.
    #[cold]
    fn progress_until(&self, patience: u32, so: impl Fn() -> bool) -> bool {
        let mut polls = 0;
        while !so() {
            self.bystanders.borrow_mut().clear();
            if polls >= patience || !self.keep_until_busy(&mut polls, patience) {
                return false;
            }
        }
        true
    }

    /// Polls until an event was kept or so many polls were made; `false` if the queue cannot go on.
    fn keep_until_busy(&self, polls: &mut u32, patience: u32) -> bool {
        while *polls < patience {
            *polls += 1;
            match self.progress() {
                Ok(true) => return true,
                Ok(false) => core::hint::spin_loop(),
                Err(_) => return false,
            }
        }
        true
    }

    fn close_queues(&self) -> Result<(), Errno> {
        let rx = self.rx.as_ref().map_or(Ok(()), |rx| {
            // SAFETY: the endpoints bound to it are closed; called once, from `close`.
            unsafe { T::cq_close(rx) }
        });
        // SAFETY: as above.
        let tx = unsafe { T::cq_close(&self.tx) };
        rx.and(tx)?;
        self.domain.child_closed();
        Ok(())
    }
}

/// How many endpoints of a queue could not be closed.
struct StillOpen {
    retired: usize,
    left: usize,
}

/// Closes the raw queues when a buffer's destructor unwinds. The block is then leaked by `CqOwner::drop`.
struct CloseQueues<'a, 'd, T: Transport, B: Buffer> {
    cq: &'a Cq<'d, T, B>,
    /// Endpoints are still bound to them.
    left_open: bool,
}

impl<T: Transport, B: Buffer> Drop for CloseQueues<'_, '_, T, B> {
    fn drop(&mut self) {
        if !self.left_open {
            let _ = self.cq.close_queues();
        }
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for Cq<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq").field("ops", &&self.ops).finish_non_exhaustive()
    }
}

/// A provider's text for an error, up to [`ErrorText::MAX_LEN`] bytes.
#[derive(Clone, Copy)]
pub struct ErrorText {
    bytes: [u8; ErrorText::MAX_LEN],
    len: usize,
}

impl ErrorText {
    /// The most bytes that are kept of a text.
    pub const MAX_LEN: usize = 128;

    /// The text; what is not UTF-8 is left out at the end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or(&self.bytes);
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or(""),
        }
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Owns a completion queue: the only name that knows its depth `N` and its allocator `A`.
///
/// Dropping it closes the endpoints of the queue (forgotten ones too), drops the buffers in flight, closes the
/// queue and gives the memory back, in this order. Forgetting it leaks all of that, which is safe.
pub struct CqOwner<'d, T: Transport, B: Buffer, A: Allocator, const N: usize> {
    body: NonNull<CqBody<'d, T, B, [Slot<B>; N]>>,
    block: ManuallyDrop<Block<A>>,
    on_failed_close: OnFailedClose,
}

impl<'d, T: Transport, B: Buffer, A: Allocator, const N: usize> CqOwner<'d, T, B, A, N> {
    fn new(
        domain: &'d Domain<T>,
        attr: CqAttr<N>,
        alloc: A,
        on_failed_close: OnFailedClose,
    ) -> Result<Self, OpenError> {
        let places = attr.places::<T, B>()?;
        let attributes = domain.attributes();
        let kind = if attributes.mode.intersects(Mode::CONTEXT | Mode::CONTEXT2) {
            ContextKind::Space
        } else {
            ContextKind::Word
        };
        let with_source = attributes.caps.contains(Caps::SOURCE);
        let events = CqAttr::<N>::events();
        // Events of a closed endpoint may lie in the provider's queue and in what the transport has read of it: rule 4
        // of the op table counts twice what the queue can hold.
        let horizon = u32::try_from(2 * events).map_err(|_| OpenError::Size)?;
        let block = Block::new(places.layout, alloc)?;
        let at = |offset: usize| {
            // SAFETY: the offset is one of the block's own layout.
            unsafe { block.ptr().add(offset) }
        };

        // SAFETY: the memory has the layout that the transport asked for, and stays until the queue is closed.
        let tx = unsafe { T::cq_open(domain.raw(), events, with_source, at(places.tx)) }?;
        let rx = if attr.separate {
            // SAFETY: as above, with memory of its own.
            match unsafe { T::cq_open(domain.raw(), events, with_source, at(places.rx)) } {
                Ok(rx) => Some(rx),
                Err(errno) => {
                    // SAFETY: opened above and not used.
                    if unsafe { T::cq_close(&tx) }.is_err() {
                        let _ = ManuallyDrop::new(block);
                        domain.child_opened();
                    }
                    return Err(errno.into());
                }
            }
        } else {
            None
        };

        let records = at(places.records).cast::<Record<'d, T>>();
        for index in 0..usize::from(attr.endpoints) {
            // SAFETY: the block has room for so many records.
            let record = unsafe { records.add(index) };
            // SAFETY: as above.
            unsafe { record.write(Record::closed()) };
        }
        let body = block.ptr().cast::<CqBody<'d, T, B, [Slot<B>; N]>>();
        let this = body.as_ptr();
        /// Writes a field of the body in place.
        macro_rules! set {
            ($field:ident, $value:expr) => {
                // SAFETY: the block begins with room for the body.
                unsafe { (&raw mut (*this).$field).write($value) }
            };
        }
        set!(domain, domain);
        set!(tx, tx);
        set!(rx, rx);
        set!(records, NonNull::slice_from_raw_parts(records, attr.endpoints.into()));
        set!(bystanders, RefCell::new(Deque::new()));
        set!(any_kept, Cell::new(false));
        set!(turn, Cell::new(false));
        set!(parent, PhantomData);
        // SAFETY: as above.
        let ops = unsafe { &raw mut (*this).ops };
        // SAFETY: as above.
        unsafe { OpTable::init(ops, kind, horizon) };
        domain.child_opened();
        domain.lingering().queue_opened();
        Ok(CqOwner { body, block: ManuallyDrop::new(block), on_failed_close })
    }
}

impl<'d, T: Transport, B: Buffer, A: Allocator, const N: usize> Deref for CqOwner<'d, T, B, A, N> {
    type Target = Cq<'d, T, B>;

    #[inline]
    fn deref(&self) -> &Cq<'d, T, B> {
        // SAFETY: written in `new`, and there until the owner is dropped.
        let body: &CqBody<'d, T, B, [Slot<B>; N]> = unsafe { self.body.as_ref() };
        body
    }
}

impl<T: Transport, B: Buffer, A: Allocator, const N: usize> Drop for CqOwner<'_, T, B, A, N> {
    fn drop(&mut self) {
        let domain = self.domain;
        // SAFETY: called once, here, and nobody borrows the owner.
        match unsafe { self.close(self.on_failed_close) } {
            Ok(()) => {
                domain.lingering().queue_closed();
                // SAFETY: dropped once, here. Of the body's fields only `tx` and `rx` may own something, and raw
                // handles do not (no `Drop`, by `Transport`'s definition).
                unsafe { ManuallyDrop::drop(&mut self.block) };
            }
            Err(_) if self.on_failed_close == OnFailedClose::Leak => {}
            Err(_) => crate::abort::abort("a provider failed to close an endpoint or queue whose buffers are borrowed"),
        }
        domain.lingering().release();
    }
}

impl<T: Transport, B: Buffer, A: Allocator, const N: usize> fmt::Debug for CqOwner<'_, T, B, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Opens a queue for the time of a call, with memory of `alloc`: for buffers and memory of any lifetime.
///
/// The closure gets the queue by reference, so it can neither keep nor forget it. Before this function returns or
/// unwinds, the queue's endpoints are closed, buffers in flight are dropped, and the queue is closed. If the provider
/// fails to close, or cannot close and goes on using what was lent (a long message over `shm` to an endpoint of another
/// thread that never receives it), the process is aborted: the borrows that were lent are about to end.
///
/// # Errors
/// - [`OpenError::OutOfMemory`] if the allocator has no room
/// - [`OpenError::Size`] if the sizes do not fit into memory
/// - [`OpenError::Errno`] if the provider refuses
#[doc(alias = "fi_cq_open")]
pub fn scope_in<'d, T: Transport, B: Buffer, A: Allocator, const N: usize, R>(
    domain: &'d Domain<T>,
    attr: CqAttr<N>,
    alloc: A,
    f: impl FnOnce(&Cq<'d, T, B>) -> R,
) -> Result<R, OpenError> {
    let owner = CqOwner::new(domain, attr, alloc, OnFailedClose::Abort)?;
    Ok(f(&owner))
}

/// [`scope_in`] with the global allocator.
///
/// # Errors
/// As [`scope_in`].
#[cfg(feature = "std")]
pub fn scope<'d, T: Transport, B: Buffer, const N: usize, R>(
    domain: &'d Domain<T>,
    attr: CqAttr<N>,
    f: impl FnOnce(&Cq<'d, T, B>) -> R,
) -> Result<R, OpenError> {
    scope_in(domain, attr, allocator_api2::alloc::Global, f)
}
