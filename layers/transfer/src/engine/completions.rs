//! Completed operations, booked by transfer, and writes of peers.

use allocator_api2::alloc::Allocator;
use loom_core::{Buffer, Completion, Done, Error, OpError, Transport};

use super::Engine;
use crate::memory::LentPart;
use crate::peers::Vectors;
use crate::plan::Plan;
use crate::transfers::Stage;

/// Completed operations of one transfer, booked together.
struct Batch {
    transfer: u32,
    ended: u32,
    /// Without flushes, as the bytes.
    operations: u64,
    bytes: u64,
}

impl Batch {
    const fn of(transfer: u32) -> Self {
        Batch { transfer, ended: 0, operations: 0, bytes: 0 }
    }

    #[inline(always)]
    fn add(&mut self, part: &LentPart) {
        self.ended += 1;
        if !part.flushes {
            self.operations += 1;
            self.bytes += part.len();
        }
    }
}

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    pub(super) fn poll_rails(&mut self) -> Result<(), Error> {
        for number in 0..self.rails.len() {
            if self.failed.contains(number) {
                continue;
            }
            let mut batch = None::<Batch>;
            let mut polled = Ok(());
            for _ in 0..self.rails[number].events(&self.attr) {
                match self.rails[number].cq.poll() {
                    Ok(None) => break,
                    Ok(Some(Completion::Op(done))) => {
                        let part = done.buf();
                        match &mut batch {
                            Some(batch)
                                if done.result().is_ok() && part.transfer == batch.transfer && !part.flushes =>
                            {
                                batch.add(&done.into_buf());
                            }
                            _ => self.start_batch(&mut batch, done),
                        }
                    }
                    Ok(Some(Completion::Remote(event))) => self.count_arrival(event.data().map(|data| data.0)),
                    Ok(Some(_)) => self.strays += 1,
                    Err(error) => {
                        polled = Err(error);
                        break;
                    }
                }
            }
            self.book(batch, None);
            if let Err(error) = polled {
                self.failed.insert(number);
                self.fail_transfers_in_flight(error.into());
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// A failed completion is booked alone.
    #[inline(never)]
    fn start_batch(&mut self, batch: &mut Option<Batch>, done: Done<LentPart>) {
        let (error, part) = (done.result().err(), done.into_buf());
        let mut next = Batch::of(part.transfer);
        next.add(&part);
        let is_alone = error.is_some() || part.flushes;
        drop(part);
        self.book(batch.replace(next), None);
        if is_alone {
            self.book(batch.take(), error);
        }
    }

    #[inline(never)]
    fn book(&mut self, batch: Option<Batch>, error: Option<OpError>) {
        let Some(Batch { transfer, ended, operations, bytes }) = batch else { return };
        let Some(slot) = self.transfers.get_mut(transfer) else { return };
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
