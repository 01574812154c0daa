//! The completion queue: owns the operations in flight and every endpoint that posts through it.
//!
//! A [`Cq`] is one [op table](crate::engine::op_table) over one or two provider queues, in one block of memory with the places of its
//! endpoints. Endpoints, and the pieces of multi-receives, are handles of it, too: the last one to go closes it.

#![allow(unsafe_code, reason = "refers to the endpoint slots in the queue's own block of memory")]

mod attr;
mod close;
mod completion;
mod driver_hooks;
mod driving;
mod endpoint_slot;
mod error;
mod open;
mod poll;
mod sleep;
mod wait;

use core::cell::{Cell, RefCell};
use core::fmt;
use core::ptr::NonNull;

use heapless::Deque;

pub use self::attr::CqAttr;
pub use self::completion::Piece;
pub use self::completion::{Completion, RemoteEvent};
pub(crate) use self::driver_hooks::{Kept, Next};
pub use self::driving::Driving;
pub(crate) use self::endpoint_slot::{Bonds, EndpointSlot, Offered, ReceiveMode};
pub use self::error::{CqError, ErrorText};
use self::sleep::Signalled;
pub use self::sleep::Signaller;
use self::wait::UnmatchedEvent;
use crate::abort::OnFailedClose;
use crate::buffer::Buffer;
use crate::domain::{Brand, DomainInner};
use crate::engine::op_table::{OpTable, Slot};
use crate::handle::Handle;
use crate::info::Info;
use crate::scope_registry::Node;
use crate::transport::Transport;
use crate::vocabulary::WaitObj;

/// How many events of peers a queue has room for besides those of its own operations.
///
/// Peers' writes with immediate data report themselves without a post of this side, so the provider's queue is opened
/// for this many more events than there are operations, and [`Cq::wait`] keeps as many for the next
/// poll.
pub const PEER_EVENTS: usize = 64;

/// A completion queue.
///
/// A counted handle: the queue is closed when the last of its clones, of its endpoints and of the [pieces](Piece) of its
/// multi-receives is gone. Closing it drops the buffers in flight. What is forgotten keeps it open, until the end of its
/// [`scope`](crate::scope::scope) or for good; that is safe.
///
/// It stays on the thread that opened it, and so do its endpoints: parallelism is a queue for each thread. A whole queue can be handed
/// to another thread when it is [parked](Self::park).
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Completion, Cq, Domain, Forever, Source};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// let to_bob = av.insert(&bob.address()?)?;
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
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_cq`
#[doc(alias = "fid_cq")]
pub struct Cq<'m, T: Transport, B: Buffer> {
    pub(super) body: Handle<'m, CqInner<T, B>>,
    /// Invariant: what uses shorter-lived memory is not bound to a queue that is kept.
    lives: Brand<'m>,
}

/// What there is one of, however many handles there are.
pub(crate) struct CqInner<T: Transport, B: Buffer, S: ?Sized = [Slot<B>]> {
    /// How many slots there are.
    depth: u32,
    node: Node,
    on_failed_close: OnFailedClose,
    domain: Handle<'static, DomainInner<T>>,
    tx: T::Cq,
    /// The queue of the receives, unless `tx` serves both.
    rx: Option<T::Cq>,
    /// In the same block of memory as the queue.
    endpoint_slots: NonNull<[EndpointSlot<T>]>,
    /// Unmatched events met while waiting for one key.
    unmatched: RefCell<Deque<UnmatchedEvent, PEER_EVENTS>>,
    /// What there is to sleep on: nothing, if there are two provider queues.
    wait: WaitObj,
    signalled: Signalled,
    /// Whether there ever was a [`Signaller`].
    has_signallers: Cell<bool>,
    /// No poll goes the short way: there are two provider queues, or prefixes that its events count.
    detours: bool,
    /// A [driver](crate::driver) alone polls it.
    driven: Cell<bool>,
    /// Peers' writes use up receives (`FI_RX_CQ_DATA`).
    consumes: bool,
    /// Which provider queue `poll` looks at first the next time.
    turn: Cell<bool>,
    /// Something counts as kept in it also where unmatched events are kept, or polls make detours: a poll then has to look elsewhere
    /// than into `tx`, or at more.
    ops: OpTable<B, S>,
}

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Number of operations in flight, and of receives that are kept for peers' writes
    /// ([`Binding::remote_writes`](crate::endpoint::Binding::remote_writes), where the provider requires them).
    ///
    /// A peek counts until it is answered, and the fetch or discard of a claimed message until it has ended. Three things hold a slot and
    /// do not count: a completion that the queue keeps for [`poll`](Self::poll) and [`wait`](Self::wait), a
    /// [`Claim`](crate::completion::Claim), and a multi-receive that has ended with [pieces](Piece) out. They make posts fail
    /// as [`Kept`](crate::error::PostError::Kept) before `in_flight` has reached [`capacity`](Self::capacity), and
    /// [`free_slots`](Self::free_slots) leaves them out.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Cq, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # let _ = (&alice, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// assert_eq!((cq.in_flight(), cq.capacity()), (1, 16));
    /// bob.cancel(received)?;
    /// cq.finish(received, Forever)?.result().unwrap_err();
    /// assert_eq!(cq.in_flight(), 0);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.body.ops.in_flight()
    }

    /// Number of slots: the most operations that can be in flight.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// assert_eq!((cq.capacity(), cq.free_slots()), (16, 16));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.body.ops.capacity()
    }

    /// Number of operations that can be posted now: the slots without operation in flight, completion, claim or piece. Takes time linear in
    /// the [capacity](Self::capacity).
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::PostError;
    /// use loom_core::{Av, Cq, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 1)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// bob.recv(Source::Any, vec![0; 5])?;
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// while cq.in_flight() > 0 {
    ///     cq.progress()?;
    /// }
    /// // The receive is not in flight any more, and its completion holds the slot.
    /// assert_eq!(cq.free_slots(), 0);
    /// let refused = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room)).unwrap_err();
    /// assert_eq!(refused.error, PostError::Kept);
    /// assert!(cq.poll()?.is_some());
    /// assert_eq!(cq.free_slots(), 1);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn free_slots(&self) -> usize {
        self.body.ops.free_slots()
    }

    /// How many of the provider's events belonged to no operation in flight: late ones of endpoints already closed.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// assert_eq!(cq.strays(), 0, "no endpoint was closed");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.body.ops.strays()
    }

    /// The raw queue of the transmits and that of the receives, which may be the same: for calls that loom does not wrap.
    #[must_use]
    pub fn raw(&self) -> (&T::Cq, &T::Cq) {
        self.body.raw()
    }

    /// The info of its domain.
    #[must_use]
    pub fn info(&self) -> &Info<T> {
        self.domain().info()
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
        // SAFETY: written when the queue was opened, in the block that the queue lies in itself.
        unsafe { self.endpoint_slots.as_ref() }
    }
}

impl<T: Transport, B: Buffer> Clone for Cq<'_, T, B> {
    fn clone(&self) -> Self {
        Cq { body: self.body.clone(), ..*self }
    }
}

/// Handles of the same queue are equal.
impl<T: Transport, B: Buffer> PartialEq for Cq<'_, T, B> {
    fn eq(&self, other: &Self) -> bool {
        self.body.is(&other.body)
    }
}

impl<T: Transport, B: Buffer> Eq for Cq<'_, T, B> {}

impl<T: Transport, B: Buffer> fmt::Debug for Cq<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq").field("ops", &self.ops()).finish_non_exhaustive()
    }
}
