use core::cell::{Cell, RefCell};
use core::task::Waker;

use allocator_api2::alloc::Allocator;
use loom_core::OpKey;
use loom_core::storage::Array;

use super::cursor::Direction;
use super::provider::Call;
use crate::schedule::Part;

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) key: OpKey,
    pub(super) direction: Direction,
    pub(super) member: u32,
    pub(super) part: Part,
}

/// Both are `None` if a failed collective has lost the packet.
#[derive(Debug)]
pub(super) struct Slot<B> {
    pub(super) packet: Option<B>,
    pub(super) flight: Option<Flight>,
}

#[derive(Debug)]
pub(super) struct Room<B, A: Allocator> {
    pub(super) slots: Array<Slot<B>, A>,
    /// Aligned for every element.
    pub(super) scratch: Array<u128, A>,
}

pub(super) struct Lane<B, A: Allocator> {
    pub(super) number: Cell<Option<u8>>,
    pub(super) room: RefCell<Room<B, A>>,
    /// The end of the team wakes the task.
    pub(super) task: Cell<Option<Waker>>,
    pub(super) call: RefCell<Option<Call<B>>>,
}

impl<B, A: Allocator> Lane<B, A> {
    pub(super) fn is_awaited_by(&self, waker: &Waker) {
        let before = self.task.take().filter(|before| before.will_wake(waker));
        self.task.set(Some(before.unwrap_or_else(|| waker.clone())));
    }
}

/// State of a collective after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Over,
    Waits,
    Refused,
}
