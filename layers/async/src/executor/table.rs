//! [`Table`]: the tasks of an executor, in a fixed number of slots.
//!
//! # Rules
//! 1. State and slots lie in the executor's block. They are written before the first handle exists
//!    and stay until the last has gone. Handles stay on one thread.
//! 2. A slot has a future unless its phase is [`Phase::Free`]. The future does not move, and is
//!    dropped in place.
//! 3. A reference to a future exists only while it is polled or dropped, in the phases
//!    [`Phase::Running`], [`Phase::Woken`], [`Phase::Cancelled`] and [`Phase::Ending`], in which
//!    other code does not touch it.
//! 4. User code (polls, destructors of futures) runs with consistent state: it may spawn, cancel,
//!    run a round, or panic.

#![allow(unsafe_code, reason = "futures in slots of a block")]

use core::alloc::Layout;
use core::cell::{Cell, UnsafeCell};
use core::future::Future;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Waker};

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;

use super::ready::NIL;
use super::shared::{Plan, SharedRef};
use super::{Full, TaskId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Waiting,
    Running,
    /// Being polled, and woken in a nested round.
    Woken,
    /// Being polled, then dropped.
    Cancelled,
    Ending,
}

#[repr(C)]
struct Slot<F> {
    head: SlotHead,
    future: UnsafeCell<MaybeUninit<F>>,
}

struct SlotHead {
    phase: Cell<Phase>,
    /// Wraps after 2^32.
    generation: Cell<u32>,
    after: Cell<u32>,
}

struct State {
    free: Cell<u32>,
    tasks: Cell<u32>,
    capacity: u32,
    closed: Cell<bool>,
    /// First left in this round.
    taken: Cell<u32>,
    main_woken: Cell<bool>,
}

pub(super) struct Table<F> {
    shared: SharedRef,
    state: NonNull<State>,
    slots: NonNull<Slot<F>>,
    /// Drops futures, and is invariant in `F`.
    futures: PhantomData<(F, Cell<F>)>,
}

impl<F> Table<F> {
    fn plan<A>(tasks: usize) -> Result<(Plan, usize, usize), OpenError> {
        // One more node for the main future of `run_until`. The last number is `NIL`.
        let count = u32::try_from(tasks).ok().filter(|count| *count < NIL - 1).ok_or(OpenError::Size)?;
        let mut plan = Plan::of::<A>(count + 1)?;
        let state = plan.add(Layout::new::<State>())?;
        let slots = plan.add(Layout::array::<Slot<F>>(tasks).map_err(|_| OpenError::Size)?)?;
        Ok((plan, state, slots))
    }

    pub(super) fn layout<A>(tasks: usize) -> Result<Layout, OpenError> {
        Ok(Self::plan::<A>(tasks)?.0.layout)
    }

    pub(super) fn new<A: Allocator + Send + 'static>(tasks: usize, alloc: A) -> Result<Self, OpenError> {
        let (plan, state_at, slots_at) = Self::plan::<A>(tasks)?;
        let capacity = u32::try_from(tasks).map_err(|_| OpenError::Size)?;
        let shared = SharedRef::new(plan, alloc)?;
        // SAFETY: the plan has room for the state.
        let state = unsafe { shared.part(state_at) }.cast::<State>();
        // SAFETY: the plan has room for the slots.
        let slots = unsafe { shared.part(slots_at) }.cast::<Slot<F>>();
        for index in 0..capacity {
            let after = if index + 1 == capacity { NIL } else { index + 1 };
            let head = SlotHead { phase: Cell::new(Phase::Free), generation: Cell::new(0), after: Cell::new(after) };
            // SAFETY: the plan has room for the slots.
            let place = unsafe { slots.add(index as usize) };
            // SAFETY: the plan has room for the slots. A slot begins with its head. The rest may
            // stay uninitialised.
            unsafe { place.cast::<SlotHead>().write(head) };
        }
        let first = State {
            free: Cell::new(if capacity == 0 { NIL } else { 0 }),
            tasks: Cell::new(0),
            capacity,
            closed: Cell::new(false),
            taken: Cell::new(NIL),
            main_woken: Cell::new(false),
        };
        // SAFETY: the plan has room for the state.
        unsafe { state.write(first) };
        Ok(Table { shared, state, slots, futures: PhantomData })
    }

    #[inline]
    fn state(&self) -> &State {
        // SAFETY: rule 1.
        unsafe { self.state.as_ref() }
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<F>> {
        if index >= self.state().capacity {
            return None;
        }
        // SAFETY: rule 1, and `index` is below `capacity`.
        let slot = unsafe { self.slots.add(index as usize) };
        // SAFETY: rule 1.
        Some(unsafe { slot.as_ref() })
    }

    fn task(&self, id: TaskId) -> Option<&Slot<F>> {
        let slot = self.slot(id.index)?;
        (slot.head.generation.get() == id.generation && slot.head.phase.get() != Phase::Free).then_some(slot)
    }

    pub(super) fn capacity(&self) -> usize {
        self.state().capacity as usize
    }

    pub(super) fn len(&self) -> usize {
        self.state().tasks.get() as usize
    }

    pub(super) fn wake_main(&self) {
        self.shared.wake(self.state().capacity);
    }

    pub(super) fn main_woken(&self) -> &Cell<bool> {
        &self.state().main_woken
    }

    pub(super) fn with_main_waker<R>(&self, with: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: the block has one more node than slots (`plan`).
        unsafe { self.shared.with_waker(self.state().capacity, with) }
    }

    pub(super) fn contains(&self, id: TaskId) -> bool {
        self.task(id).is_some_and(|slot| !matches!(slot.head.phase.get(), Phase::Ending | Phase::Cancelled))
    }

    pub(super) fn spawn(&self, future: F) -> Result<TaskId, Full<F>> {
        let state = self.state();
        let index = state.free.get();
        let Some(slot) = self.slot(index).filter(|_| !state.closed.get()) else { return Err(Full(future)) };
        state.free.set(slot.head.after.get());
        state.tasks.set(state.tasks.get() + 1);
        // SAFETY: the slot is free (rule 3).
        unsafe { slot.future.get().write(MaybeUninit::new(future)) };
        slot.head.phase.set(Phase::Waiting);
        self.shared.wake(index);
        Ok(TaskId { index, generation: slot.head.generation.get() })
    }

    /// Frees the slot even on a panic.
    fn end(&self, index: u32, slot: &Slot<F>) {
        struct Freed<'a, F>(&'a State, u32, &'a Slot<F>);
        impl<F> Drop for Freed<'_, F> {
            fn drop(&mut self) {
                let Freed(state, index, slot) = self;
                slot.head.generation.set(slot.head.generation.get().wrapping_add(1));
                slot.head.phase.set(Phase::Free);
                slot.head.after.set(state.free.replace(*index));
                state.tasks.set(state.tasks.get() - 1);
            }
        }
        slot.head.phase.set(Phase::Ending);
        let _freed = Freed(self.state(), index, slot);
        // SAFETY: the future exists, for this code alone (rules 2 and 3).
        let future = unsafe { &mut *slot.future.get() };
        // SAFETY: rule 2. Dropped once, because the phase has changed.
        unsafe { future.assume_init_drop() };
    }

    pub(super) fn cancel(&self, id: TaskId) -> bool {
        let Some(slot) = self.task(id) else { return false };
        match slot.head.phase.get() {
            Phase::Waiting => self.end(id.index, slot),
            Phase::Running | Phase::Woken => slot.head.phase.set(Phase::Cancelled),
            Phase::Free | Phase::Cancelled | Phase::Ending => return false,
        }
        true
    }

    pub(super) fn close(&self) {
        /// Continues after a destructor that panics.
        struct Rest<'a, F>(&'a Table<F>, u32);
        impl<F> Rest<'_, F> {
            fn end_all(&mut self) {
                while let Some(slot) = self.0.slot(self.1) {
                    let index = self.1;
                    self.1 += 1;
                    if slot.head.phase.get() == Phase::Waiting {
                        self.0.end(index, slot);
                    }
                }
            }
        }
        impl<F> Drop for Rest<'_, F> {
            fn drop(&mut self) {
                self.end_all();
            }
        }
        self.state().closed.set(true);
        Rest(self, 0).end_all();
    }
}

impl<F: Future<Output = ()>> Table<F> {
    pub(super) fn poll_woken(&self) -> usize {
        let state = self.state();
        let nodes = self.shared.nodes();
        // First finishes a round that panicked or contains this one.
        if state.taken.get() == NIL {
            state.taken.set(self.shared.ready.take(nodes));
        }
        let mut polled = 0;
        while let Some(node) = nodes.get(state.taken.get() as usize) {
            let index = node.index();
            // Before the poll (rule 3 of the list).
            state.taken.set(node.leave());
            match self.slot(index) {
                Some(slot) => polled += usize::from(self.poll(index, slot)),
                None => state.main_woken.set(true),
            }
        }
        polled
    }

    #[inline]
    fn poll(&self, index: u32, slot: &Slot<F>) -> bool {
        struct Unwound<'a, F>(&'a Table<F>, u32, &'a Slot<F>);
        impl<F> Drop for Unwound<'_, F> {
            fn drop(&mut self) {
                self.0.end(self.1, self.2);
            }
        }
        match slot.head.phase.get() {
            Phase::Waiting => slot.head.phase.set(Phase::Running),
            Phase::Running => {
                slot.head.phase.set(Phase::Woken);
                return false;
            }
            Phase::Free | Phase::Woken | Phase::Cancelled | Phase::Ending => return false,
        }
        let unwound = Unwound(self, index, slot);
        // SAFETY: the future exists. Its phase reserves it for this poll (rules 2 and 3).
        let future = unsafe { &mut *slot.future.get() };
        // SAFETY: the slot has a future (rule 2).
        let future = unsafe { future.assume_init_mut() };
        // SAFETY: the future does not move until dropped (rule 2).
        let future = unsafe { Pin::new_unchecked(future) };
        let poll = |waker: &Waker| future.poll(&mut Context::from_waker(waker));
        // SAFETY: each slot has a node with its number.
        let polled = unsafe { self.shared.with_waker(index, poll) };
        core::mem::forget(unwound);
        let phase = slot.head.phase.replace(Phase::Waiting);
        if polled.is_ready() || phase == Phase::Cancelled {
            self.end(index, slot);
        } else if phase == Phase::Woken {
            self.shared.wake(index);
        }
        true
    }
}

impl<F> Clone for Table<F> {
    fn clone(&self) -> Self {
        Table { shared: self.shared.clone(), state: self.state, slots: self.slots, futures: PhantomData }
    }
}
