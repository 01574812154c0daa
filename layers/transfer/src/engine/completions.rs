//! Completed operations, booked by transfer, and writes of peers.

use core::mem;

use allocator_api2::alloc::Allocator;
use loom_core::{Buffer, Completion, CqError, Error, OpError, Transport};

use super::Engine;
use crate::memory::{Booking, LentPart};
use crate::peers::Vectors;
use crate::plan::Plan;
use crate::transfers::Stage;

/// Completed operations of one transfer, booked together. A flush is alone.
struct Batch {
    booking: Booking,
    ended: u32,
    bytes: u64,
}

impl Batch {
    const NONE: Self = Batch { booking: Booking::NONE, ended: 0, bytes: 0 };

    #[inline(always)]
    fn add(&mut self, part: &LentPart) {
        self.ended += 1;
        self.bytes += part.len();
    }
}

/// What polls of a rail leave to others.
enum Uncommon {
    /// Belongs to another batch.
    Op(LentPart),
    Failed(LentPart, OpError),
    /// Peer's write with a value that is not counted.
    Remote(Option<u64>),
    Stray,
    End(Result<(), CqError>),
}

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    pub(super) fn poll_rails(&mut self) -> Result<(), Error> {
        for number in 0..self.rails.len() {
            if self.failed.contains(number) {
                continue;
            }
            let mut left = self.rails[number].events(&self.attr);
            let mut batch = Batch::NONE;
            let polled = loop {
                match self.poll_batch(number, &mut left, &mut batch) {
                    Uncommon::Op(part) => self.start_batch(&mut batch, part, None),
                    Uncommon::Failed(part, error) => self.start_batch(&mut batch, part, Some(error)),
                    Uncommon::Remote(data) => self.count_notified(data),
                    Uncommon::Stray => self.strays += 1,
                    Uncommon::End(polled) => break polled,
                }
            };
            self.book(batch, None);
            if let Err(error) = polled {
                self.failed.insert(number);
                self.fail_transfers_in_flight(error.into());
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Polls a rail at most `left` times: adds operations to the batch, and counts arrivals.
    #[inline(always)]
    fn poll_batch(&self, number: usize, left: &mut usize, batch: &mut Batch) -> Uncommon {
        let rail = &self.rails[number];
        while *left > 0 {
            *left -= 1;
            match rail.cq.poll() {
                Ok(Some(Completion::Op(done))) => {
                    if let Err(error) = done.result() {
                        return Uncommon::Failed(done.into_buf(), error);
                    }
                    let part = done.into_buf();
                    if part.booking != batch.booking {
                        return Uncommon::Op(part);
                    }
                    batch.add(&part);
                }
                Ok(Some(Completion::Remote(event))) => {
                    let data = event.data().map(|data| data.0);
                    if data.is_none_or(|value| self.arrivals.count(value).is_err()) {
                        return Uncommon::Remote(data);
                    }
                }
                Ok(Some(_)) => return Uncommon::Stray,
                Ok(None) => return Uncommon::End(Ok(())),
                Err(error) => return Uncommon::End(Err(error)),
            }
        }
        Uncommon::End(Ok(()))
    }

    /// A failed completion is booked alone.
    #[inline(never)]
    fn start_batch(&mut self, batch: &mut Batch, part: LentPart, error: Option<OpError>) {
        let mut next = Batch { booking: part.booking, ..Batch::NONE };
        next.add(&part);
        drop(part);
        let is_alone = error.is_some() || next.booking.flushes();
        self.book(mem::replace(batch, next), None);
        if is_alone {
            self.book(mem::replace(batch, Batch::NONE), error);
        }
    }

    #[inline(never)]
    fn book(&mut self, batch: Batch, error: Option<OpError>) {
        let Batch { booking, ended, bytes } = batch;
        let transfer = booking.transfer();
        let Some(slot) = self.transfers.get_mut(transfer) else { return };
        let operations = if booking.flushes() { 0 } else { u64::from(ended) };
        slot.in_flight -= ended;
        match error {
            None => {
                slot.operations += operations;
                slot.bytes += bytes;
            }
            Some(error) => {
                slot.failed += operations;
                if operations > 0 {
                    slot.fail(error);
                }
            }
        }
        let is_last = slot.in_flight == 0;
        if let Some(peer) = slot.peer {
            self.peers.completed(peer, ended, &Vectors::of(&self.rails, self.control.as_ref()));
        }
        if is_last {
            self.transfers.settle(transfer);
        }
    }

    /// Fails transfers with operations in flight, which may not complete, and all if no rail is
    /// left.
    fn fail_transfers_in_flight(&mut self, error: Error) {
        let all = self.is_failed();
        for index in self.transfers.indices() {
            let Some(slot) = self.transfers.get_mut(index) else { return };
            if (slot.in_flight > 0 || all) && matches!(slot.stage, Stage::Posting | Stage::Draining) {
                slot.fail(error);
                self.transfers.end(index);
            }
        }
    }
}
