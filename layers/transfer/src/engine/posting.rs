//! Posting of operations.

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::vocabulary::{ImmediateData, RangeError};
use loom_core::{AddressError, Buffer, Error, Transport};

use super::Engine;
use crate::plan::{Block, Plan};
use crate::rail::{RailSet, Target, Unflushed};
use crate::request::Request;
use crate::transfers::Stage;

/// Operations that a transfer may post, at least, before the next transfer posts.
const MIN_SHARE: usize = 32;

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    /// Posts operations of all transfers in turn, until the budget is used up or no rail has room.
    pub(super) fn post(&mut self) {
        let mut budget = self.attr.budget;
        // Rails without room.
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
            let most = budget.min(self.attr.batch.max(MIN_SHARE));
            let posted = match self.transfers.get_mut(index).and_then(|slot| slot.target) {
                Some(target) => self.copy_some(index, target, most),
                None => self.post_some(index, most, &mut blocked),
            };
            budget -= posted;
            idle = if posted == 0 { idle + 1 } else { 0 };
            self.transfers.settle(index);
        }
        for number in 0..self.rails.len() {
            self.flush(number);
        }
    }

    /// Posts an operation without bytes on a rail where the last operation has announced another one
    /// and is in flight.
    fn flush(&mut self, number: usize) {
        let Engine { rails, memories, peers, transfers, .. } = self;
        let Some(rail) = rails.get_mut(number) else { return };
        let Some(Unflushed { peer, region, local, reads, transfer }) = rail.unflushed else { return };
        let slot = transfers.named(transfer).filter(|slot| slot.in_flight > 0);
        let part = memories
            .lender(local, reads, transfer.index)
            .and_then(|lender| lender.part(lender.descriptor(number)?, Block::default()));
        if let (Some(slot), Some(mut part)) = (slot, part) {
            part.flushes = true;
            match rail.post(&Target { peer, region, offset: 0 }, reads, None, false, part) {
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

    /// Posts up to `most` operations of a transfer, and returns their number.
    #[inline(never)]
    fn post_some(&mut self, index: u32, most: usize, blocked: &mut RailSet) -> usize {
        let Engine { rails, memories, peers, transfers, attr, turn, .. } = self;
        let Some(slot) = transfers.get_mut(index).filter(|slot| slot.stage == Stage::Posting) else { return 0 };
        let Some((routes, peer_in_flight, link)) = slot.peer.and_then(|peer| peers.routes(peer)) else {
            slot.fail(PostError::UnknownPeer);
            return 0;
        };
        let Ok(data) = slot.operation_data(link, attr.notifications) else { return 0 };
        let Some(Request { reads, local, remote, plan, .. }) = &slot.request else { return 0 };
        let Some(lender) = memories.lender(*local, *reads, index) else {
            slot.fail(PostError::Access);
            return 0;
        };
        let piece = if data.is_some() { remote.piece() } else { attr.piece };
        let most = most.min(attr.peer_depth.saturating_sub(*peer_in_flight as usize));
        let all = RailSet::all(rails.len());
        let batches = attr.batch > 1;
        // Rails on which this transfer was refused: others may have other peers.
        let mut refused = RailSet::EMPTY;
        let mut posted = 0;
        let mut stopped = None;
        while posted < most && stopped.is_none() && slot.cursor.peek(piece).is_some() {
            if blocked.union(refused) == all {
                break;
            }
            while blocked.union(refused).contains(turn.0) {
                *turn = (next_of(turn.0, rails.len()), 0);
            }
            let (number, count) = *turn;
            let (Some(rail), Some(&Some(peer))) = (rails.get_mut(number), routes.get(number)) else {
                stopped = Some(PostError::UnknownPeer.into());
                break;
            };
            let Some(descriptor) = lender.descriptor(number) else {
                stopped = Some(RangeError::OutOfWindow.into());
                break;
            };
            let room = rail.room();
            if room == 0 {
                blocked.insert(number);
                continue;
            }
            // Operations until the next rail takes over.
            let share = if all == RailSet::all(1) && !batches { most } else { attr.batch - count };
            let end = posted + room.min(share).min(most - posted);
            let first = posted;
            // Address, key and descriptor are those of this rail.
            let mut to = Target { peer, region: remote.on(number), offset: 0 };
            while posted < end {
                let Some(block) = slot.cursor.peek(piece) else { break };
                let Some(part) = lender.part(descriptor, block) else {
                    stopped = Some(RangeError::OutOfWindow.into());
                    break;
                };
                let more = batches
                    && count + (posted - first) + 1 < attr.batch
                    && posted + 1 < most
                    && !slot.cursor.is_last(piece)
                    && rail.has_room_for_two();
                to.offset = block.remote;
                let sent = match data.map(ImmediateData) {
                    // Most lists: inlined.
                    Some(data) if !more && !*reads => rail
                        .endpoint
                        .write_data(peer, &to.region, to.offset, data, part)
                        .map_err(|rejected| rejected.error),
                    data => rail.post(&to, *reads, data, more, part),
                };
                match sent {
                    Ok(_) => {
                        if batches {
                            let (region, local, reads, transfer) = (to.region, *local, *reads, slot.key(index));
                            rail.unflushed = more.then_some(Unflushed { peer, region, local, reads, transfer });
                        }
                        posted += 1;
                        slot.in_flight += 1;
                        *peer_in_flight += 1;
                        slot.cursor.advance(plan, block);
                    }
                    Err(PostError::Again) => {
                        refused.insert(number);
                        break;
                    }
                    Err(error) if error.is_transient() => {
                        blocked.insert(number);
                        break;
                    }
                    Err(error) => {
                        stopped = Some(Error::Post(error));
                        break;
                    }
                }
            }
            let count = count + (posted - first);
            *turn = if count < attr.batch { (number, count) } else { (next_of(number, rails.len()), 0) };
        }
        match stopped {
            Some(error) => slot.fail(error),
            None if slot.cursor.is_lost() => slot.fail(Error::Invalid("the plan panicked")),
            None if slot.cursor.peek(piece).is_none() => slot.stage = Stage::Draining,
            None => {}
        }
        posted
    }
}

const fn next_of(rail: usize, rails: usize) -> usize {
    if rail + 1 < rails { rail + 1 } else { 0 }
}
