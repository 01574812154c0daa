//! Completion queues.
//!
//! A [`Cq`] is one [op table](crate::engine::op_table) over one or two provider queues, in one
//! block of memory with its endpoint slots. An event read from a provider queue (`read_event.rs`)
//! becomes:
//!
//! - a completion, returned at once (`poll.rs`)
//! - a completion *parked* in its slot, by a wait for another key (`kept_events.rs`)
//! - an *unmatched* event, of a peer or a piece, in a deque (`kept_events.rs`)
//! - dropped, if it is of a closed endpoint
//!
//! Polls are slow while parked, unmatched or old events may remain. A
//! [driver](crate::driver) takes events one at a time (`driver_hooks.rs`).

#![allow(unsafe_code, reason = "refers to the endpoint slots in the queue's own block of memory")]

mod attr;
mod close;
mod close_endpoint;
mod completion;
mod driver_hooks;
mod driving_deadline;
mod endpoint_slot;
mod error;
mod kept_events;
mod open;
mod poll;
mod read_event;
mod repost;
mod retry;
mod sleep;
mod wait;

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use heapless::Deque;

pub use self::attr::CqAttr;
pub use self::completion::Piece;
pub use self::completion::{Completion, RemoteEvent};
pub(crate) use self::driver_hooks::{KeptEvent, Next};
pub use self::driving_deadline::Driving;
pub(crate) use self::endpoint_slot::{Bonds, EndpointSlot, Offered, ReceiveMode, SlotState};
pub use self::error::ErrorText;
use self::kept_events::UnmatchedEvent;
use self::sleep::Signalled;
pub use self::sleep::Signaller;
use crate::buffer::Buffer;
use crate::counter::Counter;
use crate::domain::scope_registry::Node;
use crate::domain::{Brand, DomainInner};
use crate::engine::op_table::{OpTable, Slot};
pub use crate::error::CqError;
use crate::info::Info;
use crate::storage::handle::Handle;
use crate::transport::Transport;
use crate::util::abort::OnFailedClose;
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::vocabulary::WaitObj;

/// Number of events without a post, such as peers' writes with immediate data, that a queue keeps.
pub const PEER_EVENTS: usize = 64;

/// A completion queue.
///
/// A counted handle. Dropping the last of its clones, endpoints and multi-receive [pieces](Piece)
/// closes the queue and drops the buffers in flight. A forgotten handle keeps the queue open until
/// its [`scope`](crate::domain::scope) ends, or for good.
///
/// The queue and its endpoints stay on the thread that opened it, unless [parked](Self::park) and
/// moved.
///
/// ```
/// use loom_core::{Completion, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// let mut over = 0;
/// while over < 2 {
///     // A message that was sent or received, with its buffer; or an event of a peer.
///     if let Some(Completion::Op(done)) = cq.poll()? {
///         done.result()?;
///         over += 1;
///     }
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_cq`
#[doc(alias = "fid_cq")]
pub struct Cq<'m, T: Transport, B: Buffer> {
    pub(super) body: Handle<'m, CqInner<T, B>>,
    /// Invariant in `'m`: shorter-lived memory cannot be bound.
    lives: Brand<'m>,
}

pub(crate) struct CqInner<T: Transport, B: Buffer, S: ?Sized = [Slot<B>]> {
    depth: u32,
    node: Node,
    on_failed_close: OnFailedClose,
    domain: Handle<'static, DomainInner<T>>,
    tx: T::Cq,
    rx: Option<T::Cq>,
    endpoint_slots: NonNull<[EndpointSlot<T>]>,
    unmatched: RefCell<Deque<UnmatchedEvent, PEER_EVENTS>>,
    /// `NONE` with two provider queues.
    wait: WaitObj,
    signalled: Signalled,
    has_signallers: Cell<bool>,
    /// All polls are slow: there are two provider queues, or prefixes.
    pub(crate) always_slow: bool,
    driven: Cell<bool>,
    writes_consume_receives: bool,
    rx_first: Cell<bool>,
    ops: OpTable<B, S>,
}

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Number of operations in flight, including receives for peers' writes
    /// ([`Binding::remote_writes`](crate::endpoint::Binding::remote_writes)).
    ///
    /// Kept completions, a [`Claim`](crate::completion::Claim), and a completed multi-receive with
    /// [pieces](Piece) out hold slots without counting ([`free_slots`](Self::free_slots)).
    ///
    /// ```
    /// use loom_core::{Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// # let _ = (&alice, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// assert_eq!((cq.in_flight(), cq.capacity()), (1, 16));
    /// bob.cancel(received)?;
    /// cq.finish(received, Forever)?.result().unwrap_err();
    /// assert_eq!(cq.in_flight(), 0);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.body.ops.in_flight()
    }

    /// Maximum number of operations in flight.
    ///
    /// ```
    /// use loom_core::Cq;
    ///
    /// # fixture::domain!(network, domain);
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// assert_eq!((cq.capacity(), cq.free_slots()), (16, 16));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.body.ops.capacity()
    }

    /// Number of operations that can be posted now. Takes time linear in the
    /// [capacity](Self::capacity).
    ///
    /// ```
    /// use loom_core::{Av, Cq, Forever, Source};
    ///
    /// # fixture::domain!(network, domain);
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 1)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// bob.recv(Source::Any, vec![0; 5])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// while cq.in_flight() > 0 {
    ///     cq.progress()?;
    /// }
    /// // The completion of the receive holds the slot.
    /// assert_eq!(cq.free_slots(), 0);
    /// assert!(cq.poll()?.is_some());
    /// assert_eq!(cq.free_slots(), 1);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn free_slots(&self) -> usize {
        self.body.ops.free_slots()
    }

    /// Number of provider events of no operation in flight, such as late events of closed
    /// endpoints.
    ///
    /// ```
    /// use loom_core::Cq;
    ///
    /// # fixture::domain!(network, domain);
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// assert_eq!(cq.strays(), 0, "no endpoint was closed");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.body.ops.strays()
    }

    /// Raw transmit and receive queues, which may be identical.
    #[must_use]
    pub fn raw(&self) -> (&T::Cq, &T::Cq) {
        self.body.raw()
    }

    /// Info of the queue's domain.
    #[must_use]
    pub fn info(&self) -> &Info<T> {
        self.domain().info()
    }

    /// Returns `true` if the counter and the queue belong to one domain.
    ///
    /// ```
    /// use loom_core::{Counter, CounterAttr, Domain};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let other_domain = Domain::open(&network.info())?;
    /// let counters = [&domain, &other_domain].map(|domain| Counter::open(domain, CounterAttr::default()));
    /// let [counter, other] = counters;
    /// assert!(cq.shares_domain(&counter?) && !cq.shares_domain(&other?));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn shares_domain(&self, counter: &Counter<'_, T>) -> bool {
        counter.is_of(self.domain())
    }

    pub(crate) fn domain(&self) -> &Handle<'static, DomainInner<T>> {
        &self.body.domain
    }

    #[inline]
    pub(crate) fn ops(&self) -> &OpTable<B> {
        &self.body.ops
    }
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    fn raw(&self) -> (&T::Cq, &T::Cq) {
        (&self.tx, self.rx.as_ref().unwrap_or(&self.tx))
    }

    pub(crate) fn endpoint_slots(&self) -> &[EndpointSlot<T>] {
        // SAFETY: the slots were written when the queue was opened, in its own block.
        unsafe { self.endpoint_slots.as_ref() }
    }
}

clone_struct!([T: Transport, B: Buffer] Cq['_, T, B], body, lives);

impl<T: Transport, B: Buffer> PartialEq for Cq<'_, T, B> {
    fn eq(&self, other: &Self) -> bool {
        self.body.is(&other.body)
    }
}

impl<T: Transport, B: Buffer> Eq for Cq<'_, T, B> {}

debug_struct!([T: Transport, B: Buffer] Cq['_, T, B], |it| ops: it.ops());
