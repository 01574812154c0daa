//! [`EndpointSlot`]: the place of one endpoint in its queue.

#![allow(unsafe_code, reason = "keeps and closes a raw handle that was written when the endpoint was opened")]

use core::cell::{Cell, RefCell, UnsafeCell};
use core::fmt;
use core::mem::MaybeUninit;

use heapless::Vec;

use crate::count::Count;
use crate::domain::DomainInner;
use crate::engine::op_table::Posted;
use crate::handle::Bond;
use crate::transport::{Closing, InFlight, Transport};
use crate::vocabulary::{EndpointType, Errno, MsgOrder};

/// Everything that an endpoint is bound to, which stays open as long.
#[derive(Default)]
pub(crate) struct Bonds {
    /// To its address vector, which threads may share.
    pub(crate) av: Option<Bond>,
    /// To an event queue or a scalable endpoint, and to counters.
    pub(crate) others: Vec<Bond, 7>,
}

/// A place for one endpoint in the storage of its queue, so that a forgotten one is closed with the queue.
pub(crate) struct EndpointSlot<T: Transport> {
    state: Cell<SlotState>,
    raw: UnsafeCell<MaybeUninit<T::Endpoint>>,
    /// What it is bound to.
    bonds: RefCell<Bonds>,
    /// Bytes of the longest message that was truncated.
    truncated: Cell<usize>,
    receives: Cell<ReceiveMode>,
    /// How many handles there are of it.
    handles: Cell<Count>,
    /// How many memory regions are bound to it, which are closed before it is. Each has a handle.
    regions: Cell<Count>,
    /// Peers' writes use up its receives.
    consumes: Cell<bool>,
    /// What is in flight is ended before it is closed, as far as that can be soon.
    settles: Cell<bool>,
    offered: Cell<Offered>,
}

/// What the info of an endpoint offers that no post is checked against.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered {
    pub(crate) kind: EndpointType,
    /// On both sides.
    pub(crate) msg_order: MsgOrder,
}

impl Bonds {
    fn all(&self) -> impl Iterator<Item = &Bond> {
        self.av.iter().chain(&self.others)
    }

    /// The endpoint stays open for good, and so does what it is bound to: reading a counter would drive it.
    pub(crate) fn leave(&self) {
        self.all().for_each(Bond::leave);
    }

    /// Gives them up without ending what they are bonds of.
    pub(crate) fn forget(self) {
        self.av.into_iter().chain(self.others).for_each(Bond::forget);
    }
}

/// Where an endpoint's receives are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveMode {
    /// On itself.
    Itself,
    /// On itself, for others, too: it is a shared receive context.
    ForOthers,
    /// Posts this number of zero-length receives, which remote writes consume (`FI_RX_CQ_DATA`): it takes no messages.
    OfWrites(u16),
    /// On the shared receive context at this place of the queue, which is not closed before the endpoint is.
    Through(u16),
    /// It has none: it is a transmit context.
    Nowhere,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Closed,
    Open,
    /// To be closed with the queue; see [`Closing::Retired`].
    Retired,
    /// Open for good; see [`Closing::Left`].
    Left,
    /// The provider failed to close it: whatever it was lent is lost with the queue.
    Failed(Errno),
}

impl<T: Transport> EndpointSlot<T> {
    pub(crate) const fn closed() -> Self {
        EndpointSlot {
            state: Cell::new(SlotState::Closed),
            raw: UnsafeCell::new(MaybeUninit::uninit()),
            bonds: RefCell::new(Bonds { av: None, others: Vec::new() }),
            truncated: Cell::new(0),
            receives: Cell::new(ReceiveMode::Itself),
            handles: Cell::new(Count::NONE),
            regions: Cell::new(Count::NONE),
            consumes: Cell::new(false),
            settles: Cell::new(false),
            offered: Cell::new(Offered { kind: EndpointType::UNSPEC, msg_order: MsgOrder::NONE }),
        }
    }

    /// Whether an endpoint can be opened here.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.get() == SlotState::Closed
    }

    /// Whether something can be posted on what is open here.
    pub(crate) fn is_open(&self) -> bool {
        self.state.get() == SlotState::Open
    }

    /// Keeps an endpoint that has just been opened, of which there is one handle.
    ///
    /// # Safety
    /// The state is `Closed`: nothing refers to the handle that was here before. The endpoint is bound to this alone.
    pub(crate) unsafe fn open(&self, raw: T::Endpoint, receives: ReceiveMode, bonds: Bonds) {
        // SAFETY: the caller's promise.
        unsafe { self.raw.get().write(MaybeUninit::new(raw)) };
        self.bonds.replace(bonds);
        self.truncated.set(0);
        self.receives.set(receives);
        self.handles.set(Count::NONE.one_more());
        self.consumes.set(false);
        self.settles.set(false);
        self.state.set(SlotState::Open);
    }

    /// Keeps in mind that an endpoint was opened by half and cannot be closed: the queue finds out when it is dropped.
    pub(crate) fn fail(&self, receives: ReceiveMode, errno: Errno, bonds: Bonds) {
        // It may go on using what it is bound to, which is never closed then, and stays where it is.
        bonds.leave();
        self.bonds.replace(bonds);
        self.receives.set(receives);
        self.state.set(SlotState::Failed(errno));
    }

    /// Where the endpoint that is open here receives.
    pub(crate) fn receives(&self) -> Option<ReceiveMode> {
        (!self.is_closed()).then(|| self.receives.get())
    }

    /// How many handles there are of it.
    pub(crate) const fn handles(&self) -> &Cell<Count> {
        &self.handles
    }

    /// How many memory regions are bound to it.
    pub(crate) const fn regions(&self) -> &Cell<Count> {
        &self.regions
    }

    /// Whether peers' writes use up its receives.
    pub(crate) const fn consumes(&self) -> &Cell<bool> {
        &self.consumes
    }

    /// Whether what is in flight is ended before it is closed, as far as that can be soon.
    pub(crate) const fn settles(&self) -> &Cell<bool> {
        &self.settles
    }

    /// What the info of the endpoint offers, set after it was opened.
    pub(crate) const fn offered(&self) -> &Cell<Offered> {
        &self.offered
    }

    /// Whether it is to be closed, and was not yet.
    pub(crate) fn is_retired(&self) -> bool {
        self.state.get() == SlotState::Retired
    }

    /// Whether it stays open for good.
    pub(crate) fn is_left(&self) -> bool {
        self.state.get() == SlotState::Left
    }

    /// Leaves the endpoint to its queue.
    pub(crate) fn retire(&self) {
        if self.state.get() == SlotState::Open {
            self.state.set(SlotState::Retired);
        }
    }

    /// The raw handle.
    ///
    /// # Safety
    /// The state is `Open` or `Retired`: the handle was written, and is not written again before the endpoint slot is closed.
    #[inline]
    pub(crate) unsafe fn raw(&self) -> &T::Endpoint {
        // SAFETY: the caller's promise.
        let raw = unsafe { &*self.raw.get() };
        // SAFETY: as above.
        unsafe { raw.assume_init_ref() }
    }

    /// A message of `len` bytes was longer than its buffer.
    pub(crate) fn note_truncated(&self, len: usize) {
        self.truncated.set(self.truncated.get().max(len));
    }

    /// Closes the endpoint, if one is open here. A close that failed is reported again, and not retried. One to which regions
    /// are bound is retired.
    ///
    /// # Safety
    /// No `Endpoint` uses the endpoint slot after this; the endpoint is one of `domain`, and `in_flight` is what is in flight on it.
    pub(crate) unsafe fn close(&self, domain: &DomainInner<T>, in_flight: InFlight) -> Result<Closing, Errno> {
        match self.state.get() {
            SlotState::Closed => return Ok(Closing::Closed),
            SlotState::Left => return Ok(Closing::Left),
            SlotState::Failed(errno) => return Err(errno),
            SlotState::Open | SlotState::Retired => {}
        }
        if !self.regions.get().is_none() {
            self.state.set(SlotState::Retired);
            return Ok(Closing::Retired);
        }
        // SAFETY: the state is `Open` or `Retired`.
        let raw = unsafe { self.raw() };
        let in_flight = InFlight { longest_truncated: self.truncated.get(), ..in_flight };
        // SAFETY: open (C1), and closed once, unless it is retired (C3): the state changes below whatever comes back.
        let closing = unsafe { T::endpoint_close(raw, in_flight) };
        self.state.set(match closing {
            Ok(Closing::Closed) => SlotState::Closed,
            Ok(Closing::Retired) => SlotState::Retired,
            Ok(Closing::Left) => SlotState::Left,
            Err(errno) => SlotState::Failed(errno),
        });
        // Left open, it is still bound to what it was bound to, which then stays open too.
        if let Ok(Closing::Left) = closing {
            self.bonds.borrow().leave();
        }
        if let Ok(Closing::Closed | Closing::Left) = closing {
            domain.deferred_close().endpoint_closed();
        }
        closing
    }

    /// Tells the transport that the queue of a retired endpoint is not polled any more, until it is closed again.
    pub(crate) fn leave(&self) {
        if self.state.get() == SlotState::Retired {
            // SAFETY: the state is `Retired`.
            let raw = unsafe { self.raw() };
            // SAFETY: the endpoint is retired (C3).
            let _ = unsafe { T::endpoint_leave(raw, false) };
        }
    }

    /// Tells the transport that the queue of a retired endpoint, on which nothing is in flight, is not polled ever again.
    pub(crate) fn leave_for_good(&self, domain: &DomainInner<T>) {
        if self.state.get() == SlotState::Retired {
            // SAFETY: the state is `Retired`.
            let raw = unsafe { self.raw() };
            // SAFETY: the endpoint is retired (C3).
            let driven = unsafe { T::endpoint_leave(raw, true) };
            self.state.set(SlotState::Left);
            self.bonds.borrow().leave();
            if !driven {
                domain.deferred_close().endpoint_closed();
            }
        }
    }

    /// What an endpoint was bound to that is closed or left. Dropping it runs user code, so that the caller is done with the endpoint.
    pub(crate) fn take_bonds(&self) -> Bonds {
        self.bonds.take()
    }

    /// Whether it is bound to something that stays on one thread.
    pub(crate) fn stays_on_its_thread(&self) -> bool {
        !self.bonds.borrow().others.is_empty()
    }

    /// Asks for every operation in flight to end. Those that cannot be cancelled go on.
    pub(crate) fn cancel_all(&self, in_flight: impl Iterator<Item = Posted>) {
        if let SlotState::Open | SlotState::Retired = self.state.get() {
            // SAFETY: the state is `Open` or `Retired`.
            let raw = unsafe { self.raw() };
            for op in in_flight {
                // SAFETY: the endpoint is open (C1) or retired (C3), and the context is one of its operations in flight.
                let _ = unsafe { T::cancel(raw, op.context) };
            }
        }
    }
}

impl<T: Transport> fmt::Debug for EndpointSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSlot").field("open", &(self.state.get() == SlotState::Open)).finish_non_exhaustive()
    }
}
