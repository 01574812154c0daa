#![allow(unsafe_code, reason = "opens raw queues, and lays the queue out in its block")]

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use heapless::Deque;

use super::EndpointSlot;
use super::sleep::Signalled;
use super::{Cq, CqAttr, CqInner};
use crate::buffer::Buffer;
use crate::domain::Domain;
use crate::domain::scope_registry::{Closing, Node, Rank};
use crate::engine::op_table::{ContextKind, OpTable, Slot};
use crate::error::OpenError;
use crate::storage::handle::{HandleBlock, Head, Unfilled};
use crate::storage::{array, extend};
use crate::transport::{Claims, Transport};
use crate::util::abort::OnFailedClose;
use crate::util::log::note;
use crate::vocabulary::{Caps, Errno, WaitObj};

type Prefix<T, B> = CqInner<T, B, [Slot<B>; 0]>;

impl<T: Transport, B: Buffer> CqInner<T, B> {
    pub(super) fn place_layout(depth: usize) -> Result<Layout, OpenError> {
        let prefix = Layout::new::<HandleBlock<Prefix<T, B>>>();
        // The slots are the last field at each level of nesting.
        let slots_at = HandleBlock::<Prefix<T, B>>::VALUE_AT
            + offset_of!(Prefix<T, B>, ops)
            + OpTable::<B, [Slot<B>; 0]>::SLOTS_AT;
        let before = Layout::from_size_align(slots_at, prefix.align()).map_err(|_| OpenError::Size)?;
        Ok(extend(before, array::<Slot<B>>(depth)?)?.0.pad_to_align())
    }

    pub(super) const NODE_AT: usize = HandleBlock::<Prefix<T, B>>::VALUE_AT + offset_of!(Prefix<T, B>, node);

    pub(super) fn place_at(begin: NonNull<u8>, depth: usize) -> NonNull<HandleBlock<Self>> {
        let slots = core::ptr::slice_from_raw_parts_mut(begin.as_ptr().cast::<Slot<B>>(), depth);
        // SAFETY: `slots` has the address of `begin`.
        unsafe { NonNull::new_unchecked(slots as *mut HandleBlock<Self>) }
    }

    /// # Safety
    /// The head is that of a queue of this type.
    pub(super) unsafe fn place_of(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        let prefix = head.cast::<HandleBlock<Prefix<T, B>>>();
        // SAFETY: the caller guarantees a head of this type.
        let prefix = unsafe { HandleBlock::value(prefix) };
        // SAFETY: the head's queue is open, and begins with this prefix.
        let prefix = unsafe { prefix.as_ref() };
        Self::place_at(head.cast(), prefix.depth as usize)
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Opens a queue with memory from `alloc`. `attr` is at least the number of operations in
    /// flight.
    ///
    /// Buffers live for `'m`. Borrowed buffers require a [`scope`](crate::domain::scope).
    ///
    /// # Errors
    /// Those of [`CqAttr::layout`], [`OpenError::OutOfMemory`], and [`OpenError::Errno`] if the
    /// provider refuses.
    #[doc(alias = "fi_cq_open")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: impl Into<CqAttr>,
        alloc: A,
    ) -> Result<Self, OpenError>
    where
        B: 'm,
    {
        let attr = attr.into();
        let wait = match attr.wait {
            _ if attr.separate && attr.wait_is_optional => WaitObj::NONE,
            WaitObj::NONE => WaitObj::NONE,
            _ if attr.separate => return Err(Errno::EINVAL.into()),
            wait => wait,
        };
        let parts = attr.parts::<T, B, A>()?;
        let attributes = domain.info().attributes();
        let requested = !domain.info().contexts().is_empty();
        let for_claims = attr.claims && T::quirks(domain.info().raw()).claims == Claims::InContexts;
        let kind = if requested || for_claims { ContextKind::Space } else { ContextKind::Word };
        let with_source = attributes.caps.contains(Caps::SOURCE);
        let events = attr.events();
        // Events of closed endpoints may remain (rule 4 of the op table).
        let horizon = u32::try_from(events).ok().and_then(|events| events.checked_mul(2)).ok_or(OpenError::Size)?;
        let block = Unfilled::new(parts.plan, alloc)?;
        let at = |part: usize| {
            // SAFETY: `part` is an offset of the plan.
            unsafe { block.at(part) }
        };

        let open = |wait, part| {
            // SAFETY: open (H1). The memory has the transport's layout, and stays until the queue
            // is closed (M1).
            unsafe { T::cq_open(domain.raw(), events, with_source, wait, at(part)) }
        };
        let (tx, wait) = match open(wait, parts.tx) {
            // Errors of providers without wait objects.
            Err(Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EINVAL) if attr.wait_is_optional => {
                (open(WaitObj::NONE, parts.tx)?, WaitObj::NONE)
            }
            opened => (opened?, wait),
        };
        let rx = if attr.separate {
            match open(wait, parts.rx) {
                Ok(rx) => Some(rx),
                Err(errno) => {
                    // SAFETY: opened above (H1), and not used again (H3).
                    if unsafe { T::cq_close(&tx) }.is_err() {
                        block.forget();
                        domain.body.leave();
                    }
                    return Err(errno.into());
                }
            }
        } else {
            None
        };

        let endpoint_slots = at(parts.endpoint_slots).cast::<EndpointSlot<T>>();
        for index in 0..usize::from(attr.endpoints) {
            // SAFETY: the plan has room for `attr.endpoints` endpoint slots.
            let endpoint_slot = unsafe { endpoint_slots.add(index) };
            // SAFETY: the plan has room for this slot.
            unsafe { endpoint_slot.write(EndpointSlot::closed()) };
        }
        let place = CqInner::<T, B>::place_at(at(0), attr.depth);
        // SAFETY: the place lies in the block.
        let this = unsafe { HandleBlock::value(place) }.as_ptr();
        macro_rules! set {
            ($field:ident, $value:expr) => {
                // SAFETY: the block begins with room for the place.
                unsafe { (&raw mut (*this).$field).write($value) }
            };
        }
        let prefix = domain.info().prefixes().rx;
        set!(depth, parts.depth);
        // SAFETY: the node lies in a queue of this type, which its scope closes once.
        let node = unsafe { Node::new(&const { Closing { rank: Rank::Queue, close: CqInner::<T, B>::close_scoped } }) };
        set!(node, node);
        set!(on_failed_close, if domain.scope.is_some() { OnFailedClose::Abort } else { OnFailedClose::Leak });
        // SAFETY: the queue's handles live for 'm.
        let parent = unsafe { domain.body.for_child() };
        set!(domain, parent);
        set!(tx, tx);
        set!(writes_consume_receives, domain.info().consumes_receives());
        set!(always_slow, rx.is_some() || prefix > 0);
        set!(driven, Cell::new(false));
        set!(rx, rx);
        set!(endpoint_slots, NonNull::slice_from_raw_parts(endpoint_slots, attr.endpoints.into()));
        set!(unmatched, RefCell::new(Deque::new()));
        set!(rx_first, Cell::new(false));
        set!(wait, wait);
        set!(signalled, Signalled::not_yet());
        set!(has_signallers, Cell::new(false));
        // SAFETY: the place lies in the block.
        let ops = unsafe { &raw mut (*this).ops };
        // SAFETY: the block has room for `attr.depth` slots.
        unsafe { OpTable::init_slots(ops, kind, horizon, prefix) };
        // SAFETY: every field is written; the plan has the layout of the place.
        let body = unsafe { block.filled(place) };
        body.ops.set_slow_poll(body.always_slow);
        // SAFETY: the place lies in the block.
        let node = unsafe { &raw mut (*this).node };
        if let Some(node) = NonNull::new(node) {
            // SAFETY: the queue stays in place, and the pointer is that of its place.
            unsafe { Node::register(node, domain.scope) };
        }
        note!(
            debug,
            "open",
            "completion queue of {} operations and {} endpoints is open on {}: {events} events, {}",
            attr.depth,
            attr.endpoints,
            *domain.body,
            wait
        );
        Ok(Cq { body, lives: PhantomData })
    }

    /// [`WaitObj::FD`] if threads can sleep on a descriptor, [`WaitObj::NONE`] if the queue is
    /// polled.
    ///
    /// ```
    /// use loom_core::{Cq, WaitObj};
    ///
    /// # fixture::domain!(network, domain);
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
    /// assert_eq!(cq.wait_obj(), WaitObj::NONE);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// A queue with a descriptor where the transport has one:
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use loom_core::{Cq, CqAttr, WaitObj};
    ///
    /// # fixture::domain!(network, domain);
    /// let attr = CqAttr { wait: WaitObj::FD, wait_is_optional: true, ..CqAttr::new(64) };
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, attr)?;
    /// // Sleeps. Over `shm`, for example, it polls.
    /// assert!(cq.poll_until(Instant::now() + Duration::from_millis(1))?.is_none());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn wait_obj(&self) -> WaitObj {
        self.body.wait
    }

    /// [`Cq::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, attr: impl Into<CqAttr>) -> Result<Self, OpenError>
    where
        B: 'm,
    {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }
}
