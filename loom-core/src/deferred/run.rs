//! Starting due work and recording its completion.

use super::{Deferred, DeferredEvent, Work};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::counter::Counter;
use crate::endpoint::{Endpoint, Receives, Transmits};
use crate::engine::op_table::OpKey;
use crate::engine::work_table::WorkKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::Errno;

pub(super) struct Task<'m, T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> {
    pub(super) job: Job<'m, T, B, K>,
    pub(super) buf: Option<B>,
    pub(super) refused: Option<PostError>,
}

#[expect(clippy::large_enum_variant, reason = "they lie in places that have room for the largest, and most are that")]
pub(super) enum Job<'m, T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> {
    Post {
        endpoint: Endpoint<'m, T, B, K>,
        work: Work<K::To, K::From>,
        then: Option<Counter<'m, T>>,
        op: Option<OpKey>,
    },
    Add {
        counter: Counter<'m, T>,
        value: u64,
    },
    Set {
        counter: Counter<'m, T>,
        value: u64,
    },
}

impl<T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> Task<'_, T, B, K> {
    pub(super) fn cancelled(&mut self) {
        self.refused = Some(PostError::Errno(Errno::ECANCELED));
    }

    /// A counter with left-open endpoints no longer counts.
    fn count(&self, succeeded: bool) {
        if let Job::Post { then: Some(then), .. } = &self.job {
            let _ = if succeeded { then.add(1) } else { then.add_error(1) };
        }
    }
}

enum Tried {
    Again,
    Gone,
}

impl<'m, T, B, K> Deferred<'m, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    /// Returns `true` if work started. Runs user code.
    pub(super) fn run(&self) -> bool {
        let mut left = self.body.table.borrow().len();
        if left == 0 {
            return false;
        }
        // Without a driver, operations without a future complete in the poll that follows.
        if !self.cq().is_driven() {
            let _: (bool, Option<OpKey>) = self.look_at_ended();
        }
        let (mut list, mut busy) = (0, false);
        while left > 0 && list < self.body.table.borrow().lists() {
            let reached = |counter: &Counter<'m, T>| counter.read().saturating_add(counter.read_error());
            let due = self.body.table.borrow_mut().take_due(list, reached);
            let Some((key, task)) = due else {
                list += 1;
                continue;
            };
            left -= 1;
            match self.try_it(key, task) {
                Tried::Again => list += 1,
                Tried::Gone => busy = true,
            }
        }
        busy
    }

    fn try_it(&self, key: WorkKey, mut task: Task<'m, T, B, K>) -> Tried {
        let counted = match &task.job {
            Job::Add { counter, value } => counter.add(*value),
            Job::Set { counter, value } => counter.set(*value),
            Job::Post { .. } => return self.try_post(key, task),
        };
        if let Err(errno) = counted {
            task.refused = Some(PostError::Errno(errno));
            let last = self.body.table.borrow_mut().give_up(key, task);
            drop(last);
        } else {
            let last = self.body.table.borrow_mut().end(key);
            // Runs user code, if it drops the last handle of a counter.
            drop((last, task));
        }
        Tried::Gone
    }

    fn try_post(&self, key: WorkKey, mut task: Task<'m, T, B, K>) -> Tried {
        let (Job::Post { endpoint, work, .. }, Some(buf)) = (&task.job, task.buf.take()) else { return Tried::Gone };
        let unwound = Unwound { deferred: self, key };
        // Runs user code, which may add work, cancel and poll, so the table is not borrowed.
        let posted = work.post(endpoint, buf);
        core::mem::forget(unwound);
        match posted {
            Ok(posted) => {
                if let Job::Post { op, .. } = &mut task.job {
                    *op = Some(posted);
                }
                self.note(posted, key);
                let last = self.body.table.borrow_mut().start(key, task);
                drop(last);
                Tried::Gone
            }
            Err(Rejected { buf, error }) => {
                task.buf = Some(buf);
                if error.is_transient() {
                    let mut table = self.body.table.borrow_mut();
                    table.put_back(key, task);
                    if !table.is_abandoned(key) {
                        return Tried::Again;
                    }
                    drop(table);
                    self.cancel_waiting(key);
                    return Tried::Gone;
                }
                task.refused = Some(error);
                task.count(false);
                let last = self.body.table.borrow_mut().give_up(key, task);
                drop(last);
                Tried::Gone
            }
        }
    }

    fn note(&self, op: OpKey, key: WorkKey) {
        if let Some(place) = self.body.by_op.get(op.index() as usize) {
            let before = place.replace(key.index());
            // Ends earlier work with this slot, if its completion was taken from the queue itself.
            self.end_at(before, |known| known.index() == op.index(), true);
        }
    }

    pub(super) fn ended(&self, op: OpKey, succeeded: bool) -> Option<WorkKey> {
        let place = self.body.by_op.get(op.index() as usize)?;
        self.end_at(place.get(), |known| known == op, succeeded)
    }

    fn end_at(&self, index: u32, is_over: impl FnOnce(OpKey) -> bool, succeeded: bool) -> Option<WorkKey> {
        let mut table = self.body.table.borrow_mut();
        let key = table.started_at(index)?;
        match table.value(key).map(|task| &task.job) {
            Some(Job::Post { op: Some(op), .. }) if is_over(*op) => {}
            _ => return None,
        }
        let (task, _) = table.end(key);
        drop(table);
        if let Some(task) = task {
            task.count(succeeded);
        }
        Some(key)
    }

    /// Returns `true` if it counted, and, once, an operation after its future was dropped.
    ///
    /// Also returns, once, an operation after its future was dropped. Its work then ends.
    pub(crate) fn look_at_ended(&self) -> (bool, Option<OpKey>) {
        let look = &self.body.look;
        let index = look.get();
        let next = index as usize + 1;
        look.set(if next < self.capacity() { index + 1 } else { 0 });
        let ops = self.cq().ops();
        let has_ended = self.end_at(index, |op| !ops.knows(op), true).is_some();

        let mut table = self.body.table.borrow_mut();
        let Some(key) = table.started_at(index) else { return (has_ended, None) };
        let Some(Job::Post { op: Some(op), then, .. }) = table.value_mut(key).map(|task| &mut task.job) else {
            return (has_ended, None);
        };
        let Some(succeeded) = ops.parked_success(*op) else { return (has_ended, None) };
        let (op, then) = (*op, then.take());
        let abandoned = table.is_abandoned(key);
        let ended = if abandoned { table.end(key).0 } else { None };
        drop(table);
        let has_counted = then.is_some();
        if let Some(then) = then {
            let _ = if succeeded { then.add(1) } else { then.add_error(1) };
        }
        drop(ended);
        (has_ended || has_counted, abandoned.then_some(op))
    }

    pub(super) fn take_returned(&self) -> Option<DeferredEvent<'m, B>> {
        let (key, task) = self.body.table.borrow_mut().take_returned()?;
        Some(Self::returned(key, task))
    }

    pub(super) fn returned(key: WorkKey, task: Task<'m, T, B, K>) -> DeferredEvent<'m, B> {
        let error = task.refused.unwrap_or(PostError::Errno(Errno::ECANCELED));
        match (task.buf, error) {
            (Some(buf), error) => DeferredEvent::Returned(key, Rejected { buf, error }),
            (None, PostError::Errno(errno)) => DeferredEvent::NotCounted(key, errno),
            (None, _) => DeferredEvent::NotCounted(key, Errno::EOTHER),
        }
    }
}

/// Removes the work of a post that unwinds. Its buffer is lost.
struct Unwound<'a, 'm, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    deferred: &'a Deferred<'m, T, B, K>,
    key: WorkKey,
}

impl<T, B, K> Drop for Unwound<'_, '_, T, B, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    K: Transmits<T> + Receives<T> + Clone,
{
    fn drop(&mut self) {
        let last = self.deferred.body.table.borrow_mut().end(self.key);
        drop(last);
    }
}
