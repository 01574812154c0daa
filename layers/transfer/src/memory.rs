//! Memory of an engine, registered on all rails, and [`LentPart`], the buffer of one operation.

#![allow(unsafe_code, reason = "shares memory between the regions of rails, and lends parts of it")]

use core::cell::{Cell, UnsafeCell};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use allocator_api2::alloc::{Allocator, Layout};
use loom_core::buffer::{Descriptor, Lent};
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::mr::EndpointMr;
use loom_core::storage::Array;
use loom_core::vocabulary::HmemIface;
use loom_core::{Access, Buffer, SourceBuffer, TargetBuffer, Transport};

use crate::plan::Block;
use crate::rail::Rail;

/// Counted handle of memory, for the regions of several rails.
pub(crate) struct Shared<M, A: Allocator>(NonNull<Inner<M, A>>);

struct Inner<M, A> {
    handles: AtomicUsize,
    lent: Lent,
    alloc: ManuallyDrop<A>,
    /// Not used until it is dropped, because its range is lent.
    memory: UnsafeCell<M>,
}

impl<M: Buffer, A: Allocator> Shared<M, A> {
    pub(crate) fn new(memory: M, alloc: A) -> Result<Self, OpenError> {
        let place = alloc.allocate(Layout::new::<Inner<M, A>>()).map_err(|_| OpenError::OutOfMemory)?;
        let place = place.cast::<Inner<M, A>>();
        let inner = Inner {
            handles: AtomicUsize::new(1),
            lent: Lent::both(NonNull::dangling(), 0),
            alloc: ManuallyDrop::new(alloc),
            memory: UnsafeCell::new(memory),
        };
        // SAFETY: allocated above with this layout.
        unsafe { place.write(inner) };
        let mut shared = Shared(place);
        // SAFETY: written above, and this is the only handle.
        let inner = unsafe { shared.0.as_mut() };
        // In its place, where it stays while lent.
        inner.lent = inner.memory.get_mut().lend();
        Ok(shared)
    }

    pub(crate) fn lent(&self) -> Lent {
        // SAFETY: the block exists as long as a handle.
        unsafe { self.0.as_ref() }.lent
    }
}

impl<M, A: Allocator> Clone for Shared<M, A> {
    fn clone(&self) -> Self {
        // SAFETY: the block exists as long as a handle.
        unsafe { self.0.as_ref() }.handles.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl<M, A: Allocator> Drop for Shared<M, A> {
    fn drop(&mut self) {
        // SAFETY: the block exists as long as a handle.
        if unsafe { self.0.as_ref() }.handles.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        // After all accesses of other threads.
        fence(Ordering::Acquire);
        // SAFETY: this was the last handle. The allocator is moved out once.
        let alloc = unsafe { ManuallyDrop::take(&mut self.0.as_mut().alloc) };
        // SAFETY: this was the last handle. The allocator is not dropped with it.
        unsafe { self.0.drop_in_place() };
        // SAFETY: allocated in `new` with this layout from this allocator.
        unsafe { alloc.deallocate(self.0.cast(), Layout::new::<Inner<M, A>>()) };
    }
}

// SAFETY: the last handle drops memory and allocator on its thread, and both are `Send`. Before,
// handles share the counter, which is atomic, and the range, which does not change.
unsafe impl<M: Send, A: Allocator + Send> Send for Shared<M, A> {}

// SAFETY: the range is that of the memory, which is neither used nor dropped while a handle exists.
// Regions of several rails expose it. All accesses keep the rule of exposed memory: those of peers,
// of windows, and of parts in RMA operations.
unsafe impl<M: Buffer, A: Allocator> Buffer for Shared<M, A> {
    fn lend(&mut self) -> Lent {
        self.lent()
    }
}

/// Transfer of an operation, and its kind.
///
/// A number without unused values: with these, the compiler would tell completions apart by a byte
/// within parts, and copy all of them through memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Booking(u64);

impl Booking {
    /// Belongs to no transfer.
    pub(crate) const NONE: Self = Booking(u64::MAX);
    const READS: u64 = 1;
    const FLUSHES: u64 = 2;

    fn of(transfer: u32, reads: bool) -> Self {
        Booking(u64::from(transfer) << 32 | if reads { Self::READS } else { 0 })
    }

    pub(crate) const fn transfer(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn reads(self) -> bool {
        self.0 & Self::READS != 0
    }

    /// Returns `true` if the operation belongs to no block of the plan.
    pub(crate) const fn flushes(self) -> bool {
        self.0 & Self::FLUSHES != 0
    }
}

pub(crate) struct Source {
    descriptor: Descriptor,
    /// Number of parts. Only shared references to it exist.
    parts: Cell<u32>,
}

/// Buffer of an operation. Counted, because memory outlives the operations in flight on it.
pub(crate) struct LentPart {
    ptr: NonNull<u8>,
    len: usize,
    source: NonNull<Source>,
    pub(crate) booking: Booking,
}

impl LentPart {
    pub(crate) const fn len(&self) -> u64 {
        self.len as u64
    }

    /// Marks an operation without bytes that belongs to no block of the plan.
    pub(crate) const fn flushing(mut self) -> Self {
        self.booking.0 |= Booking::FLUSHES;
        self
    }

    #[inline(always)]
    const fn source(&self) -> &Source {
        // SAFETY: `Memories` keeps sources as long as they have parts. All stay on one thread.
        unsafe { self.source.as_ref() }
    }
}

impl Drop for LentPart {
    #[inline]
    fn drop(&mut self) {
        let parts = &self.source().parts;
        parts.set(parts.get() - 1);
    }
}

// SAFETY: the range lies within memory that `Memories` keeps registered while it has parts. It is
// exposed memory, and the engine posts it in RMA operations alone: as the source of a write if the
// memory is readable, as the target of a read if it is writable (`Registered::allows`).
unsafe impl Buffer for LentPart {
    #[inline]
    fn lend(&mut self) -> Lent {
        let lent =
            if self.booking.reads() { Lent::target(self.ptr, self.len) } else { Lent::source(self.ptr, self.len) };
        Lent { descriptor: Some(self.source().descriptor), ..lent }
    }
}
impl SourceBuffer for LentPart {}
impl TargetBuffer for LentPart {}

#[derive(Clone, Copy)]
pub(crate) struct Lender<'a> {
    lent: Lent,
    sources: &'a [Source],
    booking: Booking,
}

impl<'a> Lender<'a> {
    pub(crate) fn source(&self, rail: usize) -> Option<&'a Source> {
        self.sources.get(rail)
    }

    pub(crate) const fn reads(&self) -> bool {
        self.booking.reads()
    }

    /// Returns `None` if the block does not lie within.
    #[inline(always)]
    pub(crate) fn part(&self, source: &Source, block: Block) -> Option<LentPart> {
        let (offset, len) = (usize::try_from(block.local).ok()?, usize::try_from(block.len).ok()?);
        let last = self.lent.len.checked_sub(len)?;
        if offset > last {
            return None;
        }
        source.parts.set(source.parts.get() + 1);
        Some(LentPart {
            // SAFETY: `offset` is within the lent range, or at its end.
            ptr: unsafe { self.lent.ptr.byte_add(offset) },
            len,
            source: NonNull::from_ref(source),
            booking: self.booking,
        })
    }
}

/// Name of memory that is registered with an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryKey {
    index: u32,
    generation: u32,
}

struct MemorySlot<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    generation: u32,
    users: u32,
    memory: Option<Registered<'m, T, M, A>>,
}

type Regions<'m, T, M, A> = Array<EndpointMr<'m, T, Shared<M, A>>, A>;

pub(crate) struct Registered<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    /// Regions for operations of this side, and for peers unless `bound`.
    regions: Regions<'m, T, M, A>,
    /// Regions for peers, bound to the rails' endpoints (`FI_MR_ENDPOINT`).
    bound: Option<Regions<'m, T, M, A>>,
    sources: Array<Source, A>,
    lent: Lent,
}

impl<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> Registered<'m, T, M, A> {
    pub(crate) fn regions(&self) -> &[EndpointMr<'m, T, Shared<M, A>>] {
        self.bound.as_ref().unwrap_or(&self.regions)
    }

    pub(crate) fn len(&self) -> u64 {
        self.lent.len as u64
    }

    fn in_flight(&self) -> u32 {
        self.sources.iter().map(|source| source.parts.get()).sum()
    }

    /// Returns `true` if operations may read the memory for a write, or write it for a read.
    pub(crate) fn allows(&self, reads: bool) -> bool {
        if reads { self.lent.writable } else { self.lent.readable }
    }
}

pub(crate) struct Memories<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    slots: Array<MemorySlot<'m, T, M, A>, A>,
}

impl<'m, T: Transport, M: Buffer + Send + 'm, A: Allocator + Clone + Send + 'm> Memories<'m, T, M, A> {
    pub(crate) fn new(len: usize, number: u32, alloc: &A) -> Result<Self, OpenError> {
        u32::try_from(len).map_err(|_| OpenError::Size)?;
        let slots = Array::new_in(len, alloc.clone(), |_| MemorySlot { generation: number, users: 0, memory: None })?;
        Ok(Memories { slots })
    }

    pub(crate) fn register(
        &mut self,
        rails: &[Rail<'m, T>],
        memory: M,
        access: Access,
        alloc: &A,
    ) -> Result<Option<MemoryKey>, OpenError> {
        let free = self.slots.iter_mut().enumerate().find(|(_, slot)| slot.memory.is_none());
        let Some((index, slot)) = free else { return Ok(None) };
        let shared = Shared::new(memory, alloc.clone())?;
        let lent = shared.lent();
        if lent.kind != HmemIface::SYSTEM {
            return Err(OpenError::DeviceMemory);
        }
        let mut local = Access::empty();
        local.set(Access::WRITE, lent.readable);
        local.set(Access::READ, lent.writable);
        let open = |access| {
            Array::try_new_in(rails.len(), alloc.clone(), |rail| {
                let rail = rails.get(rail).ok_or(OpenError::Size)?;
                EndpointMr::open_for_in(&rail.domain, &rail.endpoint, shared.clone(), access, alloc.clone())
            })
        };
        // A bound region is closed before the queue, so it cannot serve operations in flight.
        let binds = !access.is_empty() && rails.iter().any(Rail::binds_regions);
        let (regions, bound) = if binds { (open(local)?, Some(open(access)?)) } else { (open(access | local)?, None) };
        let sources = Array::try_new_in(rails.len(), alloc.clone(), |rail| {
            let descriptor = regions.get(rail).map(EndpointMr::descriptor).ok_or(OpenError::Size)?;
            Ok(Source { descriptor, parts: Cell::new(0) })
        })?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.memory = Some(Registered { regions, bound, sources, lent });
        #[expect(clippy::cast_possible_truncation, reason = "the number of slots is a `u32`")]
        Ok(Some(MemoryKey { index: index as u32, generation: slot.generation }))
    }
}

impl<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> Memories<'m, T, M, A> {
    pub(crate) fn get(&self, key: MemoryKey) -> Option<&Registered<'m, T, M, A>> {
        self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation)?.memory.as_ref()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = MemoryKey> + use<'_, 'm, T, M, A> {
        let slots = self.slots.iter().zip(0..).filter(|(slot, _)| slot.memory.is_some());
        slots.map(|(slot, index)| MemoryKey { index, generation: slot.generation })
    }

    pub(crate) fn window(&self, key: MemoryKey) -> Option<Window<'_>> {
        self.get(key)?.regions.first().map(EndpointMr::window)
    }

    pub(crate) fn used(&mut self, key: MemoryKey, by: i32) {
        if let Some(slot) = self.slots.get_mut(key.index as usize) {
            slot.users = slot.users.wrapping_add_signed(by);
        }
    }

    pub(crate) fn in_flight(&self, key: MemoryKey) -> Option<u32> {
        self.get(key).map(Registered::in_flight)
    }

    /// Returns `false` while the memory is in use.
    pub(crate) fn deregister(&mut self, key: MemoryKey) -> bool {
        let in_flight = self.in_flight(key);
        match self.slots.get_mut(key.index as usize) {
            Some(slot) if in_flight == Some(0) && slot.users == 0 => {
                slot.memory = None;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn close_bound(&mut self) {
        for slot in self.slots.iter_mut() {
            if let Some(memory) = &mut slot.memory {
                memory.bound = None;
            }
        }
    }

    /// Returns `None` if the memory does not allow the operations.
    pub(crate) fn lender(&self, key: MemoryKey, reads: bool, transfer: u32) -> Option<Lender<'_>> {
        let memory = self.get(key).filter(|memory| memory.allows(reads))?;
        Some(Lender { lent: memory.lent, sources: &memory.sources, booking: Booking::of(transfer, reads) })
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> Drop for Memories<'_, T, M, A> {
    fn drop(&mut self) {
        for slot in self.slots.iter_mut() {
            if slot.memory.as_ref().is_some_and(|memory| memory.in_flight() > 0) {
                // Parts were leaked: a queue could not be closed, and its provider may use them.
                core::mem::forget(slot.memory.take());
            }
        }
    }
}
