//! [`Outflow`]: flow of an initiator, and the submission of its parts to a target.

#[cfg(all(feature = "mxl", target_os = "linux"))]
use std::sync::Arc;

use allocator_api2::alloc::Allocator;
use loom_core::{Buffer, Error, Transport};
use loom_transfer::{Engine, MemoryKey, Request, TransferKey};

use crate::flow::FlowKey;
use crate::layout::FlowLayout;
use crate::link::{Link, TargetKey};
use crate::message::Token;
use crate::span::Span;

pub(crate) struct Outflow {
    pub(crate) memory: MemoryKey,
    pub(crate) layout: FlowLayout,
    /// Minimum grain or sample of later transfers.
    pub(crate) next: u64,
    /// Minimum slice in this grain.
    pub(crate) next_slice: u16,
    /// Its writer does not wait.
    #[cfg(all(feature = "mxl", target_os = "linux"))]
    pub(crate) source: Option<Arc<crate::mxl::Files>>,
}

impl Outflow {
    /// Bound of a transfer with short periods.
    const MAX_PERIODS: u64 = 64;

    /// Oldest number that the ring has.
    pub(crate) fn oldest(&self) -> u64 {
        #[cfg(all(feature = "mxl", target_os = "linux"))]
        if let Some(files) = &self.source {
            return files.oldest(files.head());
        }
        0
    }

    /// Fails if the writer may have changed this number.
    pub(crate) fn check(&self, number: u64) -> Result<(), Error> {
        #[cfg(all(feature = "mxl", target_os = "linux"))]
        if let Some(files) = &self.source {
            return files.check(number);
        }
        let _ = number;
        Ok(())
    }

    pub(crate) fn end_of_part(&self, target: &FlowLayout, start: u64) -> u64 {
        match (self.layout, target) {
            (FlowLayout::Samples(from), FlowLayout::Samples(to)) => {
                start.saturating_add(Self::MAX_PERIODS * u64::from(from.period.min(to.period)))
            }
            _ => u64::MAX,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) flow: FlowKey,
    pub(crate) target: TargetKey,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) transfer: TransferKey,
    /// The outcome is taken, and operations are in flight.
    pub(crate) has_ended: bool,
    /// Its places in the ring are free: it has been cancelled, or all operations have completed.
    pub(crate) is_lapped: bool,
}

impl Sending {
    /// Returns `true` if its grain or first sample has the place of one below `end`.
    pub(crate) fn is_in_place(&self, flow: FlowKey, end: u64, ring: u64) -> bool {
        self.flow == flow && self.start.saturating_add(ring) < end
    }
}

pub(crate) fn has_sendings(sendings: &[Option<Sending>], target: TargetKey) -> bool {
    sendings.iter().flatten().any(|sending| sending.target == target)
}

pub(crate) struct Sender<'s, 'm, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    pub(crate) engine: &'s mut Engine<'m, T, M, Span, A>,
    pub(crate) sendings: &'s mut [Option<Sending>],
    pub(crate) token: &'s mut Token,
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> Sender<'_, '_, T, M, A> {
    pub(crate) fn submit(&mut self, flow: &Outflow, target: TargetKey, link: &mut Link) {
        let Some(peer) = link.peer else { return };
        if link.needs_attachment() && !has_sendings(self.sendings, target) {
            link.attach(self.token, flow.next);
        }
        if !link.is_attached() {
            return;
        }
        link.backlog.pass_below(link.first.max(flow.oldest()));
        while let Some(part) = link.next_part(flow) {
            let free = self.sendings.iter_mut().zip(0..).find(|(sending, _)| sending.is_none());
            let Some((sending, index)) = free.filter(|_| self.engine.can_notify(peer)) else { return };
            // Never `None`: the layouts were compared when the target was added.
            let Some((blocks, message)) = link.describe(flow, part) else { return };
            let (bytes, len) = message.encode();
            let request = Request::write(peer, flow.memory, &link.memory, Span { sending: index, blocks });
            match self.engine.submit_and_notify(request, bytes.get(..len).unwrap_or(&[])) {
                Ok(transfer) => {
                    let (start, end, flow) = (part.range().0, part.end(&flow.layout), link.flow);
                    *sending = Some(Sending { flow, target, start, end, transfer, has_ended: false, is_lapped: false });
                    link.submitted(part);
                }
                // Submitted later.
                Err(rejected) if matches!(rejected.error, Error::Full(_)) => return,
                Err(_) => return link.fail_attachment(),
            }
        }
    }
}
