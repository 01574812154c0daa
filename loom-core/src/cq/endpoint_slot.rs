#![allow(unsafe_code, reason = "keeps and closes a raw handle that was written when the endpoint was opened")]

use core::cell::{Cell, RefCell, UnsafeCell};
use core::mem::MaybeUninit;

use heapless::Vec;

use crate::domain::DomainInner;
use crate::engine::op_table::Posted;
use crate::storage::handle::Bond;
use crate::transport::{Closing, InFlight, Transport};
use crate::util::count::Count;
use crate::util::debug::debug_struct;
use crate::vocabulary::{EndpointType, Errno, MsgOrder};

#[derive(Default)]
pub(crate) struct Bonds {
    pub(crate) av: Option<Bond>,
    /// Event queue or scalable endpoint, and counters.
    pub(crate) others: Vec<Bond, 7>,
}

/// Place of one endpoint in its queue, which closes forgotten endpoints.
pub(crate) struct EndpointSlot<T: Transport> {
    state: Cell<SlotState>,
    raw: UnsafeCell<MaybeUninit<T::Endpoint>>,
    bonds: RefCell<Bonds>,
    /// Bytes of the longest truncated message.
    truncated: Cell<usize>,
    receives: Cell<ReceiveMode>,
    pub(crate) handles: Cell<Count>,
    /// Number of bound memory regions, which close before the endpoint.
    pub(crate) regions: Cell<Count>,
    /// `true` if peers' writes consume its receives.
    pub(crate) consumes: Cell<bool>,
    /// `true` if a close first waits for operations in flight that end soon.
    pub(crate) settles: Cell<bool>,
    pub(crate) offered: Cell<Offered>,
}

/// Attributes that posts are not checked against.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered {
    pub(crate) kind: EndpointType,
    /// Order that both sides grant.
    pub(crate) msg_order: MsgOrder,
}

impl Bonds {
    fn all(&self) -> impl Iterator<Item = &Bond> {
        self.av.iter().chain(&self.others)
    }

    pub(crate) fn leave(&self) {
        self.all().for_each(Bond::leave);
    }

    pub(crate) fn forget(self) {
        self.av.into_iter().chain(self.others).for_each(Bond::forget);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveMode {
    Itself,
    /// The endpoint itself, a shared receive context.
    ForOthers,
    /// Posts this number of empty receives, for remote writes alone (`FI_RX_CQ_DATA`).
    OfWrites(u16),
    /// Index of the shared context, which closes after the endpoint.
    Through(u16),
    /// Transmit context.
    Nowhere,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    Closed,
    Open,
    /// Closes with the queue ([`Closing::Retired`]).
    Retired,
    /// Open for good ([`Closing::Left`]).
    Left,
    /// Its buffers are lost with the queue.
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

    /// # Safety
    /// The state is `Closed`, so the previous raw handle is not referenced. The endpoint is bound
    /// to this slot alone.
    pub(crate) unsafe fn open(&self, raw: T::Endpoint, receives: ReceiveMode, bonds: Bonds) {
        // SAFETY: the caller guarantees the state `Closed`, in which the handle is not borrowed.
        unsafe { self.raw.get().write(MaybeUninit::new(raw)) };
        self.bonds.replace(bonds);
        self.truncated.set(0);
        self.receives.set(receives);
        self.handles.set(Count::NONE.one_more());
        self.consumes.set(false);
        self.settles.set(false);
        self.state.set(SlotState::Open);
    }

    pub(crate) fn fail(&self, receives: ReceiveMode, errno: Errno, bonds: Bonds) {
        // The endpoint may use its bonds for good.
        bonds.leave();
        self.bonds.replace(bonds);
        self.receives.set(receives);
        self.state.set(SlotState::Failed(errno));
    }

    pub(crate) fn receives(&self) -> Option<ReceiveMode> {
        (!self.is(SlotState::Closed)).then(|| self.receives.get())
    }

    pub(crate) fn retire(&self) {
        if self.is(SlotState::Open) {
            self.state.set(SlotState::Retired);
        }
    }

    pub(crate) fn is(&self, state: SlotState) -> bool {
        self.state.get() == state
    }

    /// # Safety
    /// The state is `Open` or `Retired`: the handle was written, and is not written again before
    /// the slot is closed.
    #[inline]
    pub(crate) unsafe fn raw(&self) -> &T::Endpoint {
        // SAFETY: the caller guarantees the state `Open` or `Retired`, in which the handle is not
        // written.
        let raw = unsafe { &*self.raw.get() };
        // SAFETY: the caller guarantees the state `Open` or `Retired`, in which the handle is
        // initialised.
        unsafe { raw.assume_init_ref() }
    }

    pub(crate) fn note_truncated(&self, len: usize) {
        self.truncated.set(self.truncated.get().max(len));
    }

    /// A failed close is reported again, not retried.
    ///
    /// # Safety
    /// No `Endpoint` uses the slot after this, the endpoint belongs to `domain`, and `in_flight`
    /// describes its operations.
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
        // SAFETY: open (H1), and closed once unless retired (H3), because the state changes below.
        let closing = unsafe { T::endpoint_close(raw, in_flight) };
        self.state.set(match closing {
            Ok(Closing::Closed) => SlotState::Closed,
            Ok(Closing::Retired) => SlotState::Retired,
            Ok(Closing::Left) => SlotState::Left,
            Err(errno) => SlotState::Failed(errno),
        });
        if let Ok(Closing::Left) = closing {
            self.bonds.borrow().leave();
        }
        if let Ok(Closing::Closed | Closing::Left) = closing {
            domain.reclaim.endpoint_closed();
        }
        closing
    }

    pub(crate) fn leave(&self) {
        if self.is(SlotState::Retired) {
            // SAFETY: the state is `Retired`.
            let raw = unsafe { self.raw() };
            // SAFETY: the endpoint is retired (H3).
            let _ = unsafe { T::endpoint_leave(raw, false) };
        }
    }

    pub(crate) fn leave_for_good(&self, domain: &DomainInner<T>) {
        if self.is(SlotState::Retired) {
            // SAFETY: the state is `Retired`.
            let raw = unsafe { self.raw() };
            // SAFETY: the endpoint is retired (H3).
            let driven = unsafe { T::endpoint_leave(raw, true) };
            self.state.set(SlotState::Left);
            self.bonds.borrow().leave();
            if !driven {
                domain.reclaim.endpoint_closed();
            }
        }
    }

    pub(crate) fn take_bonds(&self) -> Bonds {
        self.bonds.take()
    }

    pub(crate) fn stays_on_its_thread(&self) -> bool {
        !self.bonds.borrow().others.is_empty()
    }

    pub(crate) fn cancel_all(&self, in_flight: impl Iterator<Item = Posted>) {
        if let SlotState::Open | SlotState::Retired = self.state.get() {
            // SAFETY: the state is `Open` or `Retired`.
            let raw = unsafe { self.raw() };
            for op in in_flight {
                // SAFETY: the endpoint is open (H1) or retired (H3), and the context is one of its
                // operations in flight.
                let _ = unsafe { T::cancel(raw, op.context) };
            }
        }
    }
}

debug_struct!([T: Transport] EndpointSlot[T], |it| open: it.is(SlotState::Open));
