//! [`Lane`]: what one collective of a team has while it is under way.

use core::cell::{Cell, RefCell};
use core::task::Waker;

use allocator_api2::alloc::Allocator;
use loom_core::OpKey;
use loom_core::storage::Array;

use super::cursor::Direction;
use super::provider::Call;
use crate::schedule::Part;

/// A message that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) key: OpKey,
    pub(super) direction: Direction,
    pub(super) member: u32,
    pub(super) part: Part,
}

/// A packet, or the flight that it is on. Neither: it was lost with a failed collective.
#[derive(Debug)]
pub(super) struct Slot<B> {
    pub(super) packet: Option<B>,
    pub(super) flight: Option<Flight>,
}

/// The packets and the scratch of a collective.
#[derive(Debug)]
pub(super) struct Room<B, A: Allocator> {
    pub(super) slots: Array<Slot<B>, A>,
    /// Aligned for every element.
    pub(super) scratch: Array<u128, A>,
}

/// The room of one collective at a time. Each has its own, so none waits for packets of another.
pub(super) struct Lane<B, A: Allocator> {
    /// The number of the collective that is under way.
    pub(super) number: Cell<Option<u8>>,
    pub(super) room: RefCell<Room<B, A>>,
    /// The task that awaits the collective: the end of the team wakes it.
    pub(super) task: Cell<Option<Waker>>,
    /// What the provider does, if that is the collective.
    pub(super) call: RefCell<Option<Call<B>>>,
}

impl<B, A: Allocator> Lane<B, A> {
    /// The task of this waker awaits the collective.
    pub(super) fn is_awaited_by(&self, waker: &Waker) {
        let before = self.task.take().filter(|before| before.will_wake(waker));
        self.task.set(Some(before.unwrap_or_else(|| waker.clone())));
    }
}
