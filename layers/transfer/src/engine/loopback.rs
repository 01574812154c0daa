//! Transfers of an engine to itself: copies in chunks.

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::{Buffer, Transport};

use super::Engine;
use crate::event::Ending;
use crate::memory::MemoryKey;
use crate::plan::Plan;
use crate::remote::RemoteMemory;
use crate::request::Request;
use crate::transfers::Stage;

const CHUNK: usize = 4096;
/// Bytes that one poll copies, and one turn of a transfer.
pub(super) const COPIES: u64 = 1 << 20;
const SHARE: u64 = COPIES / 16;

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    pub(super) fn memory_of(&self, remote: &RemoteMemory) -> Option<MemoryKey> {
        self.memories.keys().find(|key| self.remote(*key).is_ok_and(|own| own == *remote))
    }

    /// Copies up to `most` operations, and `room` bytes, which it reduces.
    pub(super) fn copy_some(&mut self, index: u32, target: MemoryKey, most: usize, room: &mut u64) -> usize {
        let Engine { memories, peers, transfers, attr, .. } = self;
        let Some(slot) = transfers.get_mut(index).filter(|slot| slot.stage == Stage::Posting) else { return 0 };
        let Some(link) = slot.peer.and_then(|peer| peers.link_mut(peer)) else {
            slot.fail(PostError::UnknownPeer);
            return 0;
        };
        let Ok(value) = slot.operation_data(link, attr.notifications) else { return 0 };
        let Some(Request { reads, local, remote, plan, signals, .. }) = &slot.request else { return 0 };
        let signals = *signals;
        let (Some(here), Some(there)) = (memories.window(*local), memories.window(target)) else {
            slot.fail(PostError::OutOfBounds);
            return 0;
        };
        let piece = if value.is_some() && !signals { remote.piece() } else { attr.piece };
        let (mut copied, mut share) = (0, SHARE.min(*room));
        *room -= share;
        let mut bounce = [0; CHUNK];
        let mut cursor = slot.cursor.take();
        let mut result = Ok(());
        'blocks: while copied < most {
            let Some(block) = cursor.peek(piece) else { break };
            let (from, from_at, to, to_at) = if *reads {
                (there, block.remote, here, block.local)
            } else {
                (here, block.local, there, block.remote)
            };
            while slot.copied < block.len && share > 0 {
                #[expect(clippy::cast_possible_truncation, reason = "at most the length of an array")]
                let bytes = &mut bounce[..(block.len - slot.copied).min(CHUNK as u64).min(share) as usize];
                let offset = |at: u64| usize::try_from(at.saturating_add(slot.copied)).unwrap_or(usize::MAX);
                let moved = from.copy_to(offset(from_at), bytes).and_then(|()| to.copy_from(offset(to_at), bytes));
                if let Err(error) = moved {
                    result = Err(error);
                    break 'blocks;
                }
                slot.copied += bytes.len() as u64;
                share -= bytes.len() as u64;
            }
            if slot.copied < block.len {
                break;
            }
            slot.copied = 0;
            slot.operations += 1;
            slot.bytes += block.len;
            cursor.advance(plan, block);
            copied += 1;
        }
        *room += share;
        match result {
            Ok(()) => {
                slot.cursor = cursor;
                slot.end_posting(piece);
            }
            Err(error) => slot.fail(error),
        }
        let arrivals = if signals {
            usize::from(copied > 0 && slot.stage == Stage::Draining && slot.ending == Ending::Done)
        } else {
            copied
        };
        if let Some(value) = value {
            for _ in 0..arrivals {
                self.count_arrival(Some(value));
            }
        }
        copied
    }
}
