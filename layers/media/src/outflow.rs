//! [`Flow`] of an initiator, and the submission of its transfers to a target.

use allocator_api2::alloc::Allocator;
use loom_core::{Buffer, Error, Transport};
use loom_transfer::{Engine, MemoryKey, Request, TransferKey};

use crate::backlog::Part;
use crate::flow::FlowKey;
use crate::layout::FlowLayout;
use crate::link::{Link, TargetKey};
use crate::message::{Message, Token};
use crate::ranges::Ranges;
use crate::span::{Blocks, Span};

pub(crate) struct Flow {
    pub(crate) memory: MemoryKey,
    pub(crate) layout: FlowLayout,
    /// Later transfers begin at this grain or sample, or behind it, and at this slice of the grain.
    pub(crate) next: u64,
    pub(crate) next_slice: u16,
}

/// Transfer to a target.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) flow: FlowKey,
    pub(crate) target: TargetKey,
    pub(crate) start: u64,
    pub(crate) transfer: TransferKey,
    /// Kept after an outcome with operations in flight.
    pub(crate) has_ended: bool,
}

/// End of a part of samples that has few operations, however short the periods are.
fn most(flow: &Flow, link: &Link, start: u64) -> u64 {
    match (flow.layout, link.layout) {
        (FlowLayout::Samples(from), FlowLayout::Samples(to)) => {
            start.saturating_add(64 * u64::from(from.period.min(to.period)))
        }
        _ => u64::MAX,
    }
}

/// Submits what the target has room for.
pub(crate) fn submit<T: Transport, M: Buffer + Send, A: Allocator + Send>(
    engine: &mut Engine<'_, T, M, Span, A>,
    flow: &Flow,
    target: TargetKey,
    link: &mut Link,
    entries: &mut [Option<Entry>],
    token: &mut Token,
) {
    let Some(peer) = link.peer else { return };
    if link.active == 0 && !link.is_waiting && (link.is_dirty || link.is_stale && link.backlog.first().is_some()) {
        let first = link.backlog.first().map_or(flow.next, |part| part.range().0);
        // Operations of ended transfers may be in flight.
        if entries.iter().flatten().any(|entry| entry.target == target) {
            return;
        }
        if link.is_dirty { link.renew(token.take(), first) } else { link.request_room(first) }
    }
    if link.is_dirty || link.is_stale {
        return;
    }
    link.backlog.pass_below(link.first);
    while let Some(part) = link.backlog.first().filter(|_| !link.is_waiting && link.owed.is_none()) {
        let start = part.range().0;
        if link.sequence.wrapping_sub(link.processed) as usize >= Ranges::MAX {
            return;
        }
        let Some(part) = part.below(link.limit.min(most(flow, link, start))) else {
            if link.active == 0 {
                link.request_room(start);
            }
            return;
        };
        let free = entries.iter_mut().enumerate().find(|(_, entry)| entry.is_none());
        let Some((index, entry)) = free.filter(|_| engine.can_notify(peer)) else { return };
        let (number, token, sequence) = (link.number, link.token, link.sequence);
        let (blocks, message) = match (part, flow.layout, link.layout) {
            (Part::Slices { index, start, end, invalid }, FlowLayout::Grains(layout, slots), to) => {
                let (local, remote) = (index % u64::from(slots) * layout.len(), index % to.ring() * layout.len());
                let message = Message::Slices { flow: number, token, index, start, end, invalid, sequence };
                (Blocks::Slices { layout, local, remote, start, end }, message)
            }
            (Part::Samples { start, count }, FlowLayout::Samples(from), FlowLayout::Samples(to)) => {
                let message = Message::Samples { flow: number, token, start, count, sequence };
                (Blocks::Samples { from, to, start, count }, message)
            }
            _ => return,
        };
        #[expect(clippy::cast_possible_truncation, reason = "the number of transfers is a `u32`")]
        let span = Span { entry: index as u32, blocks };
        let (bytes, len) = message.encode();
        let request = Request::write(peer, flow.memory, &link.memory, span);
        match engine.submit_and_notify(request, bytes.get(..len).unwrap_or(&[])) {
            Ok(transfer) => {
                *entry = Some(Entry { flow: link.flow, target, start, transfer, has_ended: false });
                link.sequence = link.sequence.wrapping_add(1);
                link.active += 1;
                link.backlog.remove(part);
            }
            Err(rejected) if matches!(rejected.error, Error::Full(_)) => return,
            Err(_) => {
                link.is_dirty = true;
                return;
            }
        }
    }
}
