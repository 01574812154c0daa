use core::ops::Range;

use allocator_api2::alloc::Allocator;
use loom_core::Error;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use crate::control::Notice;
use crate::event::{Ending, TransferKey};
use crate::link::{Link, LinkState, Number};
use crate::memory::MemoryKey;
use crate::peers::PeerKey;
use crate::plan::{Cursor, Plan};
use crate::queue::Queue;
use crate::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    Posting,
    /// All operations are posted, or posting has stopped. Ends after the message to the peer.
    Draining,
    /// In the queue of outcomes.
    Ended,
    /// The outcome was taken with operations in flight.
    Reported,
}

pub(crate) struct TransferSlot<P> {
    generation: u32,
    queued: bool,
    pub(crate) peer: Option<PeerKey>,
    pub(crate) stage: Stage,
    pub(crate) request: Option<Request<P>>,
    pub(crate) cursor: Cursor,
    /// Memory of this engine that takes the place of the peer's.
    pub(crate) target: Option<MemoryKey>,
    /// Bytes of the next operation that were copied to it.
    pub(crate) copied: u64,
    pub(crate) in_flight: u32,
    pub(crate) operations: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    pub(crate) ending: Ending,
    pub(crate) notice: Option<Notice>,
    announced: bool,
    pub(crate) number: Option<Number>,
    /// Length of the message, and whether the request reads, and its immediate data, which outlast
    /// the request.
    pub(crate) message_len: u32,
    pub(crate) reads: bool,
    pub(crate) data: Option<u64>,
    pub(crate) signals: bool,
    /// Parts of the message in flight.
    pub(crate) sending: u32,
}

impl<P> TransferSlot<P> {
    pub(crate) const fn key(&self, index: u32) -> TransferKey {
        TransferKey { index, generation: self.generation }
    }

    /// Takes a number that the peer has not learned of.
    pub(crate) fn take_unused_number(&mut self) -> Option<Number> {
        let is_posted = self.operations > 0 || self.in_flight > 0 || self.failed > 0 || self.sending > 0;
        self.number.take_if(|_| !is_posted && self.notice.is_some())
    }

    pub(crate) fn stop(&mut self, ending: Ending) {
        if let Stage::Posting | Stage::Draining = self.stage {
            if self.ending == Ending::Done {
                self.ending = ending;
            }
            self.stage = Stage::Draining;
        }
    }

    pub(crate) fn cancel(&mut self) -> bool {
        let is_open = self.stage == Stage::Posting || self.stage == Stage::Draining && self.in_flight > 0;
        if is_open {
            self.stop(Ending::Cancelled);
        }
        is_open
    }

    pub(crate) fn end_posting(&mut self, piece: u64) {
        if self.cursor.is_lost() {
            self.fail(Error::Invalid("the plan panicked: correct `Plan::block`"));
        } else if self.cursor.peek(piece).is_none() {
            self.stage = Stage::Draining;
        }
    }

    const fn is_over(&self) -> bool {
        self.in_flight == 0 && self.notice.is_none() && self.sending == 0
    }

    /// Immediate data of each operation. `Err` while the transfer cannot post.
    pub(crate) fn operation_data(&mut self, link: &mut Link, numbers: u16) -> Result<Option<u64>, ()> {
        match link.state {
            LinkState::Greeting => return Err(()),
            LinkState::Failed(error) => {
                self.fail(error);
                return Err(());
            }
            LinkState::Absent | LinkState::Ready => {}
        }
        let Some(Notice::Message(_)) = self.notice else { return Ok(self.data) };
        self.number = self.number.or_else(|| link.acquire(numbers.into()));
        let number = self.number.ok_or(())?;
        Ok((!self.reads).then(|| link.value(number)))
    }

    pub(crate) fn fail(&mut self, error: impl Into<Error>) {
        self.stop(Ending::Failed(error.into()));
    }
}

pub(crate) struct Transfers<P, A: Allocator> {
    slots: Array<TransferSlot<P>, A>,
    /// Slots in `Stage::Posting`, and some that have left that stage.
    posting: Queue<A>,
    announcing: Queue<A>,
    ended: Queue<A>,
    free: Queue<A>,
}

impl<P: Plan, A: Allocator + Clone> Transfers<P, A> {
    pub(crate) fn new(len: usize, number: u32, alloc: &A) -> Result<Self, OpenError> {
        let count = u32::try_from(len).ok().filter(|count| *count < u32::MAX).ok_or(OpenError::Size)?;
        let slot = |_| TransferSlot {
            generation: number,
            queued: false,
            peer: None,
            stage: Stage::Free,
            request: None,
            cursor: Cursor::default(),
            target: None,
            copied: 0,
            in_flight: 0,
            operations: 0,
            failed: 0,
            bytes: 0,
            ending: Ending::Done,
            notice: None,
            announced: false,
            number: None,
            message_len: 0,
            reads: false,
            data: None,
            signals: false,
            sending: 0,
        };
        let queue = || Queue::new(len, alloc.clone());
        let mut free = queue()?;
        for index in 0..count {
            free.push(index);
        }
        let slots = Array::new_in(len, alloc.clone(), slot)?;
        Ok(Transfers { slots, posting: queue()?, announcing: queue()?, ended: queue()?, free })
    }
}

impl<P: Plan, A: Allocator> Transfers<P, A> {
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut TransferSlot<P>> {
        self.slots.get_mut(index as usize)
    }

    pub(crate) fn indices(&self) -> Range<u32> {
        0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn named(&mut self, key: TransferKey) -> Option<&mut TransferSlot<P>> {
        let slot = self.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation && slot.stage != Stage::Free).then_some(slot)
    }

    pub(crate) fn in_flight(&self, key: TransferKey) -> Option<u32> {
        let slot = self.slots.get(key.index as usize)?;
        (slot.generation == key.generation && slot.stage != Stage::Free).then_some(slot.in_flight)
    }

    #[expect(clippy::result_large_err, reason = "the request is returned, which cannot be boxed without an allocator")]
    pub(crate) fn begin(&mut self, request: Request<P>, notice: Option<Notice>) -> Result<TransferKey, Request<P>> {
        // First: the plan may panic.
        let cursor = Cursor::new(&request.plan);
        let Some(index) = self.free.pop() else { return Err(request) };
        let Some(slot) = self.slots.get_mut(index as usize) else { return Err(request) };
        let (reads, data, signals) = (request.reads, request.data, request.signals);
        let (is_queued, announced) = (slot.queued, slot.announced);
        *slot = TransferSlot {
            generation: slot.generation.wrapping_add(1),
            queued: true,
            peer: Some(request.peer),
            stage: Stage::Posting,
            cursor,
            target: None,
            copied: 0,
            request: Some(request),
            in_flight: 0,
            operations: 0,
            failed: 0,
            bytes: 0,
            ending: Ending::Done,
            notice,
            announced,
            number: None,
            message_len: 0,
            reads,
            data,
            signals,
            sending: 0,
        };
        if !is_queued {
            self.posting.push(index);
        }
        Ok(slot.key(index))
    }

    pub(crate) const fn posting(&self) -> usize {
        self.posting.len()
    }

    pub(crate) fn next_posting(&mut self) -> Option<u32> {
        let index = self.posting.pop()?;
        self.slots.get_mut(index as usize)?.queued = false;
        Some(index)
    }

    pub(crate) fn post_later(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.queued = true;
            self.posting.push(index);
        }
    }

    /// Ends a transfer: its outcome can be taken. Its message follows, if it has not been sent.
    pub(crate) fn end(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.stage = Stage::Ended;
            self.ended.push(index);
            self.announce(index);
        }
    }

    /// Queues the message of a transfer, unless it is about a failure and there is none.
    pub(crate) fn announce(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if slot.ending == Ending::Done && matches!(slot.notice, Some(Notice::Failure)) {
            slot.notice = None;
        }
        if slot.notice.is_some() && !slot.announced {
            slot.announced = true;
            self.announcing.push(index);
        }
    }

    pub(crate) const fn announcing(&self) -> usize {
        self.announcing.len()
    }

    pub(crate) fn next_announcing(&mut self) -> Option<u32> {
        let index = self.announcing.pop()?;
        self.slots.get_mut(index as usize)?.announced = false;
        Some(index)
    }

    pub(crate) fn settle(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).filter(|slot| slot.in_flight == 0) else { return };
        match slot.stage {
            Stage::Draining => {
                self.announce(index);
                if self.slots[index as usize].is_over() {
                    self.end(index);
                }
            }
            Stage::Reported if slot.is_over() => {
                slot.stage = Stage::Free;
                self.free.push(index);
            }
            _ => {}
        }
    }

    pub(crate) fn take_ended(&mut self) -> Option<(TransferKey, Request<P>, &mut TransferSlot<P>)> {
        let index = self.ended.pop()?;
        let slot = self.slots.get_mut(index as usize)?;
        let request = slot.request.take()?;
        slot.stage = if slot.is_over() { Stage::Free } else { Stage::Reported };
        if slot.stage == Stage::Free {
            self.free.push(index);
        }
        Some((slot.key(index), request, slot))
    }
}
