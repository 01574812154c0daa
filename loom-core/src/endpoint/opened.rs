#![allow(unsafe_code, reason = "opens, uses and closes the raw handle in the endpoint slot")]

use core::fmt;
use core::ptr::NonNull;

use super::binding::is_sane;
use super::limits::Limits;
use crate::buffer::Buffer;
use crate::cq::{Bonds, Cq, CqInner, EndpointSlot, Offered, ReceiveMode, SlotState};
use crate::engine::op_table::{Kind, OpKey};
use crate::error::{OpenError, PostError};
use crate::info::Info;
use crate::storage::handle::Erased;
use crate::transport::{EndpointError, Transport};
use crate::util::debug::debug_struct;
use crate::util::log::note;
use crate::vocabulary::{Attributes, EndpointAddr, EndpointOption, Errno, FabricAddr, Mode, OptionType};

/// Dropping the last closes the endpoint.
pub(super) struct Opened<'m, T: Transport, B: Buffer> {
    cq: Cq<'m, T, B>,
    endpoint_slot: NonNull<EndpointSlot<T>>,
    pub(super) index: u16,
    pub(super) limits: Limits,
}

impl<'m, T: Transport, B: Buffer> Opened<'m, T, B> {
    /// Opens an endpoint in a free slot of the queue. `open` opens the raw endpoint from `info`, of
    /// the queue's domain, bound to the given queues and by `bonds`.
    pub(super) fn open(
        cq: &Cq<'m, T, B>,
        info: &Info<T>,
        receives: ReceiveMode,
        bonds: Bonds,
        open: impl FnOnce(&T::Cq, &T::Cq) -> Result<T::Endpoint, EndpointError>,
    ) -> Result<Self, OpenError> {
        let domain = cq.domain();
        let place =
            (0u16..).zip(cq.body.endpoint_slots()).find(|(_, endpoint_slot)| endpoint_slot.is(SlotState::Closed));
        if matches!(receives, ReceiveMode::OfWrites(1..)) && info.consumes_receives() && info.prefixes().rx > 0 {
            // Receives of zero bytes have no space for a prefix.
            return Err(OpenError::Mode(Mode::MSG_PREFIX));
        }
        let Some((index, endpoint_slot)) = place else { return Err(OpenError::TooManyEndpoints) };
        let (tx, rx) = cq.raw();
        domain.reclaim.endpoint_opened();
        match open(tx, rx) {
            Ok(raw) => {
                // SAFETY: the slot is closed, so its handle has no references. The endpoint is
                // bound to `bonds` and the queues only.
                unsafe { endpoint_slot.open(raw, receives, bonds) };
                let limits = Limits::of(info, domain, receives);
                let opened = Opened { cq: cq.clone(), endpoint_slot: endpoint_slot.into(), index, limits };
                endpoint_slot.consumes.set(limits.writes_consume_receives);
                let Attributes { endpoint, tx, rx, .. } = info.attributes();
                endpoint_slot
                    .offered
                    .set(Offered { kind: endpoint.kind, msg_order: tx.msg_order.intersection(rx.msg_order) });
                if let ReceiveMode::OfWrites(count) = receives
                    && opened.limits.writes_consume_receives
                {
                    // On failure, `opened` closes the endpoint.
                    (0..count).try_for_each(|_| opened.post_spare().map(drop))?;
                }
                note!(
                    debug,
                    "open",
                    "endpoint {index} is open on {}: {}, messages of {} bytes, {} transmits, {} receives",
                    **domain,
                    endpoint.kind,
                    endpoint.max_msg_size,
                    tx.size,
                    rx.size
                );
                Ok(opened)
            }
            Err(error) => {
                if error.left_open {
                    // Bound objects stay open. The queue detects this when it closes.
                    endpoint_slot.fail(receives, error.errno, bonds);
                    note!(
                        warn,
                        "left",
                        "endpoint {index} is open by half on {}, and stays so: {}",
                        **domain,
                        error.errno
                    );
                } else {
                    drop(bonds);
                    domain.reclaim.endpoint_closed();
                    domain.release();
                }
                Err(OpenError::refused::<T>(error.errno))
            }
        }
    }

    pub(super) const fn with_selective(mut self, selective: bool) -> Self {
        self.limits.selective = selective;
        self
    }

    #[inline]
    pub(super) const fn cq(&self) -> &Cq<'m, T, B> {
        &self.cq
    }

    #[inline]
    pub(super) const fn endpoint_slot(&self) -> &EndpointSlot<T> {
        // SAFETY: the slot is in the queue's block, which this handle's `cq` keeps alive.
        unsafe { self.endpoint_slot.as_ref() }
    }

    #[inline]
    pub(super) fn raw(&self) -> &T::Endpoint {
        // SAFETY: the slot is open from `open` until this value is dropped.
        unsafe { self.endpoint_slot().raw() }
    }

    /// Posts a receive of zero bytes for a peer's write.
    fn post_spare(&self) -> Result<OpKey, OpenError> {
        let posted = self.cq.ops().post_empty(self.index, Kind::Spare, |context| {
            // SAFETY: handles keep H1 and T1. Only the context's space is lent, until the event or
            // the endpoint's close (L2).
            Ok(unsafe { T::recv(self.raw(), FabricAddr::UNSPEC, &().lend(), None, context) }?)
        });
        posted.map_err(|error| match error {
            PostError::Errno(errno) => errno.into(),
            _ => OpenError::Size,
        })
    }

    pub(super) fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        if self.limits.writes_consume_receives && self.cq.ops().cancel_used_up(key, self.index) {
            self.cq.ops().wake_driver();
            return Ok(());
        }
        let context = self.cq.ops().context_of(key, self.index).ok_or(Errno::ENOENT)?;
        // SAFETY: handles keep H1 and T1. The context is of an operation in flight here.
        unsafe { T::cancel(self.raw(), context) }?;
        // Only once the provider has accepted: otherwise the operation ends normally. A later poll
        // reads the event.
        self.cq.body.cancelling(key);
        self.cq.ops().wake_driver();
        Ok(())
    }

    pub(super) fn shown_address(&self) -> impl fmt::Display {
        ShownAddress(self)
    }

    pub(super) fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: handles keep H1 and T1.
        unsafe { T::endpoint_address(self.raw()) }
    }
}

struct ShownAddress<'o, 'm, T: Transport, B: Buffer>(&'o Opened<'m, T, B>);

impl<T: Transport, B: Buffer> fmt::Display for ShownAddress<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.address() {
            Ok(address) => address.fmt(f),
            Err(errno) => write!(f, "no address: {errno}"),
        }
    }
}

impl<T: Transport, B: Buffer> Clone for Opened<'_, T, B> {
    fn clone(&self) -> Self {
        let handles = &self.endpoint_slot().handles;
        handles.set(handles.get().one_more());
        Opened { cq: self.cq.clone(), ..*self }
    }
}

impl<T: Transport, B: Buffer> Drop for Opened<'_, T, B> {
    fn drop(&mut self) {
        let handles = &self.endpoint_slot().handles;
        handles.set(handles.get().one_less());
        if handles.get().is_none() {
            // SAFETY: this was the last handle of the endpoint.
            unsafe { self.cq.body.close_one(self.index) };
        }
    }
}

debug_struct!([T: Transport, B: Buffer] Opened['_, T, B], |it| index: it.index, limits: it.limits);

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    pub(super) fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        // SAFETY: handles keep H1 and T1.
        let value = unsafe { T::endpoint_option(self.raw(), option.as_raw(), V::ANY.into()) }?;
        V::of(value).ok_or(Errno::EOTHER)
    }

    pub(super) fn set_option<V: OptionType>(&self, option: EndpointOption<V>, value: V) -> Result<(), Errno> {
        if !is_sane(option, value) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: handles keep H1 and T1.
        unsafe { T::endpoint_set_option(self.raw(), option.as_raw(), value.into()) }
    }
}

/// Handle of an endpoint that a memory region is bound to. The region closes first.
pub struct EndpointHold(Option<Keeper>);

struct Keeper {
    queue: Erased,
    index: u16,
    /// Releases a handle of the endpoint in this slot, and a region bound to it.
    release: unsafe fn(&Erased, u16),
}

impl EndpointHold {
    pub(crate) const fn nothing() -> Self {
        EndpointHold(None)
    }

    pub(super) fn endpoint<T: Transport, B: Buffer>(endpoint: &Opened<'_, T, B>) -> Self {
        /// # Safety
        /// The queue is a `CqInner<T, B>` with an endpoint at `index` that has a handle to release.
        unsafe fn release<T: Transport, B: Buffer>(queue: &Erased, index: u16) {
            // SAFETY: the caller guarantees that the queue is a `CqInner<T, B>`.
            let queue = unsafe { queue.object::<CqInner<T, B>>() };
            let Some(endpoint_slot) = queue.endpoint_slots().get(usize::from(index)) else { return };
            endpoint_slot.regions.set(endpoint_slot.regions.get().one_less());
            endpoint_slot.handles.set(endpoint_slot.handles.get().one_less());
            if endpoint_slot.handles.get().is_none() {
                // SAFETY: this was the last handle of the endpoint.
                unsafe { queue.close_one(index) };
            }
        }
        let endpoint_slot = endpoint.endpoint_slot();
        endpoint_slot.regions.set(endpoint_slot.regions.get().one_more());
        endpoint_slot.handles.set(endpoint_slot.handles.get().one_more());
        let (queue, index) = (endpoint.cq().body.erased(), endpoint.index);
        EndpointHold(Some(Keeper { queue, index, release: release::<T, B> }))
    }
}

impl Drop for EndpointHold {
    fn drop(&mut self) {
        if let Some(Keeper { queue, index, release }) = &self.0 {
            // SAFETY: `queue` and `index` are the endpoint's, and `self` is a handle of both.
            unsafe { release(queue, *index) };
        }
    }
}

debug_struct!(EndpointHold, |it| endpoint: it.0.as_ref().map(|keeper| keeper.index));
