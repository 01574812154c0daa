//! Operations of transfers, posted on rails in turn.

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::vocabulary::{ImmediateData, RangeError};
use loom_core::{AddressError, Buffer, Error, Transport};

use super::Engine;
use super::loopback::COPIES;
use crate::event::TransferKey;
use crate::memory::{Lender, LentPart, MemoryKey, Source};
use crate::plan::{Block, Cursor, Plan};
use crate::rail::{How, Rail, RailSet, Target, Unflushed};
use crate::request::Request;
use crate::transfers::Stage;

/// Operations that a transfer may post, at least, before the next transfer posts.
const MIN_SHARE: usize = 32;

/// Rail of the next operation, and number of operations that it has had in turn.
#[derive(Default)]
pub(super) struct Turn {
    rail: usize,
    posted: usize,
}

impl Turn {
    const fn pass(&mut self, rails: usize) {
        *self = Turn { rail: if self.rail + 1 < rails { self.rail + 1 } else { 0 }, posted: 0 };
    }
}

enum Stop {
    /// Posted `most` operations, or fewer that fill the rail or end the plan.
    Done,
    /// The transfer's peer has no room.
    Again,
    /// The rail has no room for any transfer.
    NoRoom,
    Failed(Error),
}

impl Stop {
    /// Sets the reason for which an operation was refused. Returns `false`.
    // Out of line, so that successful posts do not keep room for the error.
    #[cold]
    #[inline(never)]
    fn set(&mut self, error: PostError) -> bool {
        *self = match error {
            PostError::Again => Stop::Again,
            error if error.is_transient() => Stop::NoRoom,
            error => Stop::Failed(error.into()),
        };
        false
    }
}

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    /// Posts operations of all transfers in turn, until the budget is used up or no rail has room.
    pub(super) fn post(&mut self) {
        let (mut budget, mut room) = (self.attr.budget, COPIES);
        let (mut blocked, all) = (self.failed, RailSet::all(self.rails.len()));
        let mut idle = 0;
        while budget > 0 && blocked != all && idle < self.transfers.posting() {
            let Some(index) = self.transfers.next_posting() else { break };
            if self.transfers.get_mut(index).is_none_or(|slot| slot.stage != Stage::Posting) {
                continue;
            }
            // Before its plan is called, which may panic.
            self.transfers.post_later(index);
            let peer = self.transfers.get_mut(index).and_then(|slot| slot.peer);
            match peer.map_or(Ok(()), |peer| self.place(peer)) {
                // Removed peers are found below.
                Ok(()) | Err(Error::Post(_)) => {}
                Err(Error::Address(AddressError::Full)) => {
                    idle += 1;
                    continue;
                }
                Err(error) => {
                    if let Some(slot) = self.transfers.get_mut(index) {
                        slot.fail(error);
                    }
                }
            }
            let (most, copied) = (budget.min(self.attr.batch.max(MIN_SHARE)), room);
            let posted = match self.transfers.get_mut(index).and_then(|slot| slot.target) {
                Some(target) => self.copy_some(index, target, most, &mut room),
                None => self.post_some(index, most, &mut blocked),
            };
            budget -= posted;
            idle = if posted == 0 && room == copied { idle + 1 } else { 0 };
            self.transfers.settle(index);
        }
        for number in 0..self.rails.len() {
            self.flush(number);
        }
    }

    /// Posts an operation without bytes on a rail where the last operation has announced another
    /// one and is in flight.
    fn flush(&mut self, number: usize) {
        let Engine { rails, memories, peers, transfers, .. } = self;
        let Some(rail) = rails.get_mut(number) else { return };
        let Some(Unflushed { peer, region, local, reads, transfer }) = rail.unflushed else { return };
        let slot = transfers.named(transfer).filter(|slot| slot.in_flight > 0);
        let part = memories
            .lender(local, reads, transfer.index)
            .and_then(|lender| lender.part(lender.source(number)?, Block::default()));
        if let (Some(slot), Some(part)) = (slot, part) {
            let how = How { reads, data: None, more: false, delivers: false };
            match rail.post(&Target { peer, region, offset: 0 }, how, part.flushing()) {
                Ok(_) => {
                    slot.in_flight += 1;
                    if let Some(peer) = slot.peer {
                        peers.posted(peer, 1);
                    }
                }
                Err(error) if error.is_transient() => return,
                // The announced operation may not complete.
                Err(error) => slot.fail(error),
            }
        }
        rail.unflushed = None;
    }

    #[inline(never)]
    fn post_some(&mut self, index: u32, most: usize, blocked: &mut RailSet) -> usize {
        let Engine { rails, memories, peers, transfers, attr, turn, .. } = self;
        let Some(slot) = transfers.get_mut(index).filter(|slot| slot.stage == Stage::Posting) else { return 0 };
        let Some((routes, peer_in_flight, link)) = slot.peer.and_then(|peer| peers.routes(peer)) else {
            slot.fail(PostError::UnknownPeer);
            return 0;
        };
        let Ok(data) = slot.operation_data(link, attr.notifications) else { return 0 };
        let transfer = slot.key(index);
        let Some(Request { reads, local, remote, plan, signals, .. }) = &slot.request else { return 0 };
        let Some(lender) = memories.lender(*local, *reads, index) else {
            slot.fail(PostError::Access);
            return 0;
        };
        let (data, signal) = if *signals { (None, data) } else { (data, None) };
        let piece = if data.is_some() { remote.piece() } else { attr.piece };
        let most = most.min(attr.peer_depth.saturating_sub(*peer_in_flight as usize));
        let all = RailSet::all(rails.len());
        let batches = attr.batch > 1;
        let mut run = Run {
            transfer,
            local: *local,
            data: data.map(ImmediateData),
            signal: signal.map(ImmediateData),
            lender,
            plan,
            piece,
            batches,
            cursor: slot.cursor.take(),
            in_flight: &mut slot.in_flight,
            peer_in_flight,
            posted: 0,
        };
        // Rails on which this peer has no room. Other transfers may still use them, so they are not
        // `blocked`.
        let mut refused = RailSet::EMPTY;
        let mut stopped = None;
        while run.posted < most && stopped.is_none() && run.cursor.peek(piece).is_some() {
            let closed = blocked.union(refused);
            if closed == all {
                break;
            }
            while closed.contains(turn.rail) {
                turn.pass(rails.len());
            }
            let share = if rails.len() == 1 && !batches { most } else { attr.batch - turn.posted };
            let number = turn.rail;
            let (Some(rail), Some(&Some(peer))) = (rails.get_mut(number), routes.get(number)) else {
                stopped = Some(PostError::UnknownPeer.into());
                break;
            };
            let first = run.posted;
            let to = Target { peer, region: remote.on(number), offset: 0 };
            match run.post_on(rail, number, &to, share.min(most - first)) {
                Stop::Done => {}
                Stop::Again => refused.insert(number),
                Stop::NoRoom => blocked.insert(number),
                Stop::Failed(error) => stopped = Some(error),
            }
            turn.posted += run.posted - first;
            if turn.posted >= attr.batch {
                turn.pass(rails.len());
            }
        }
        let posted = run.posted;
        slot.cursor = run.cursor;
        match stopped {
            Some(error) => slot.fail(error),
            None => slot.end_posting(piece),
        }
        posted
    }
}

struct Run<'r, P> {
    transfer: TransferKey,
    local: MemoryKey,
    data: Option<ImmediateData>,
    /// Immediate data of the last operation, which follows the delivery of all others.
    signal: Option<ImmediateData>,
    lender: Lender<'r>,
    plan: &'r P,
    piece: u64,
    /// With `FI_MORE`.
    batches: bool,
    cursor: Cursor,
    in_flight: &'r mut u32,
    peer_in_flight: &'r mut u32,
    posted: usize,
}

impl<P: Plan> Run<'_, P> {
    // Not inlined: in a function of its own, most stays in registers.
    #[inline(never)]
    fn post_on<T: Transport>(&mut self, rail: &mut Rail<'_, T>, number: usize, to: &Target, most: usize) -> Stop {
        let Some(source) = self.lender.source(number) else {
            return Stop::Failed(RangeError::OutOfWindow.into());
        };
        let room = rail.room();
        if room == 0 {
            return Stop::NoRoom;
        }
        let most = room.min(most);
        let Run { transfer, local, data, signal, batches, lender, .. } = *self;
        let reads = lender.reads();
        let is_signal = signal.is_some() && self.cursor.is_last(self.piece) && *self.in_flight == 0;
        let holds_last = signal.is_some() && !is_signal;
        match if is_signal { signal } else { data } {
            // Inlined for most lists.
            Some(data) if !batches && !reads => self.post_each(lender, source, most, false, |offset, part, _, stop| {
                match rail.endpoint.write_data(to.peer, &to.region, offset, data, part) {
                    Ok(_) => true,
                    Err(rejected) => stop.set(rejected.error),
                }
            }),
            data => self.post_each(lender, source, most, holds_last, |offset, part, has_next, stop| {
                let more = batches && has_next && rail.has_room_for_two();
                let how = How { reads, data, more, delivers: holds_last && part.len() > 0 };
                if let Err(error) = rail.post(&Target { offset, ..*to }, how, part) {
                    return stop.set(error);
                }
                if batches {
                    let Target { peer, region, .. } = *to;
                    rail.unflushed = more.then_some(Unflushed { peer, region, local, reads, transfer });
                }
                true
            }),
        }
    }

    /// Posts operations by `post`, also the last one unless `holds_last`: with offset and buffer,
    /// and whether another one follows. It returns `false` if the operation is refused, with the
    /// reason.
    #[inline(always)]
    fn post_each(
        &mut self,
        lender: Lender<'_>,
        source: &Source,
        most: usize,
        holds_last: bool,
        mut post: impl FnMut(u64, LentPart, bool, &mut Stop) -> bool,
    ) -> Stop {
        let Run { plan, piece, mut cursor, .. } = *self;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let mut posted = Posted { count: 0, in_flight: self.in_flight, peer_in_flight: self.peer_in_flight };
        let mut stop = Stop::Done;
        while let Some(block) = cursor.peek(piece).filter(|_| posted.count < most) {
            if holds_last && cursor.is_last(piece) {
                stop = Stop::Again;
                break;
            }
            let Some(part) = lender.part(source, block) else {
                stop = Stop::Failed(RangeError::OutOfWindow.into());
                break;
            };
            let has_next = posted.count + 1 < most && !cursor.is_last(piece);
            if !post(block.remote, part, has_next, &mut stop) {
                break;
            }
            posted.count += 1;
            cursor.advance(plan, block);
        }
        self.posted += posted.count as usize;
        drop(posted);
        self.cursor = cursor;
        stop
    }
}

/// Number of operations posted, counted as in flight when it is dropped, also if the plan panics.
struct Posted<'r> {
    count: u32,
    in_flight: &'r mut u32,
    peer_in_flight: &'r mut u32,
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        *self.in_flight += self.count;
        *self.peer_in_flight += self.count;
    }
}
