use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::counter::Counter;
use loom_core::endpoint::{Endpoint, Receives, Transmits};
use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};
use loom_core::transport::Transport;
use loom_core::vocabulary::Errno;

use crate::deferred::{Deferred, DeferredEvent};
use crate::work::Work;
use crate::work_table::{Interest, WorkKey};

pub(crate) struct Task<'m, T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> {
    pub(crate) job: Job<'m, T, B, K>,
    /// Present until posted.
    pub(crate) buf: Option<B>,
    pub(crate) refused: Option<PostError>,
}

#[expect(clippy::large_enum_variant, reason = "they lie in places that have room for the largest, and most are that")]
pub(crate) enum Job<'m, T: Transport, B: Buffer, K: Transmits<T> + Receives<T>> {
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
    pub(crate) fn cancelled(&mut self) {
        self.refused = Some(PostError::Errno(Errno::ECANCELED));
    }

    fn count(&self, succeeded: bool) {
        if let Job::Post { then: Some(then), .. } = &self.job {
            count(then, succeeded);
        }
    }
}

/// A counter with left-open endpoints no longer counts.
fn count<T: Transport>(then: &Counter<'_, T>, succeeded: bool) {
    let _: Result<(), Errno> = if succeeded { then.add(1) } else { then.add_error(1) };
}

enum Tried {
    /// Again, before other work of the counter.
    Again,
    Gone,
}

impl<'m, T, B, A, K> Deferred<'m, T, B, A, K>
where
    T: Transport,
    B: SourceBuffer + TargetBuffer,
    A: Allocator,
    K: Transmits<T> + Receives<T> + Clone,
{
    /// Returns `true` if work started. Runs user code.
    pub(crate) fn run(&self) -> bool {
        let mut left = self.table.borrow().len();
        if left == 0 {
            return false;
        }
        // Without a driver, the poll that follows completes operations without a future.
        if !self.cq().is_driven() {
            let _: (bool, Option<OpKey>) = self.examine_next();
        }
        let (mut list, mut busy) = (0, false);
        while left > 0 && list < self.table.borrow().lists() {
            let reached = |counter: &Counter<'m, T>| counter.read().saturating_add(counter.read_error());
            let due = self.table.borrow_mut().take_due(list, reached);
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
            let last = self.table.borrow_mut().give_up(key, task);
            self.wake_future(key);
            drop(last);
        } else {
            let last = self.table.borrow_mut().end(key);
            self.wake_future(key);
            // Runs user code with a counter's last handle.
            drop((last, task));
        }
        Tried::Gone
    }

    fn try_post(&self, key: WorkKey, mut task: Task<'m, T, B, K>) -> Tried {
        let (Job::Post { endpoint, work, .. }, Some(buf)) = (&task.job, task.buf.take()) else { return Tried::Gone };
        let unwound = Unwound { deferred: self, key };
        // Runs user code, which may add work, cancel and poll: the table is not borrowed.
        let posted = work.post(endpoint, buf);
        core::mem::forget(unwound);
        match posted {
            Ok(posted) => {
                if let Job::Post { op, .. } = &mut task.job {
                    *op = Some(posted);
                }
                if let Some(place) = self.by_op.get(posted.index() as usize) {
                    place.set(key.index());
                }
                let last = self.table.borrow_mut().start(key, task);
                self.wake_future(key);
                drop(last);
                Tried::Gone
            }
            Err(Rejected { value: buf, error }) => {
                task.buf = Some(buf);
                if error.is_transient() {
                    let mut table = self.table.borrow_mut();
                    table.put_back(key, task);
                    if table.interest(key) != Interest::Abandoned {
                        return Tried::Again;
                    }
                    drop(table);
                    let _: Result<(), Errno> = self.cancel(key);
                    return Tried::Gone;
                }
                task.refused = Some(error);
                task.count(false);
                let last = self.table.borrow_mut().give_up(key, task);
                self.wake_future(key);
                drop(last);
                Tried::Gone
            }
        }
    }

    pub(crate) fn ended(&self, op: OpKey, succeeded: bool) -> Option<WorkKey> {
        let index = self.by_op.get(op.index() as usize)?.get();
        let mut table = self.table.borrow_mut();
        let key = table.started_at(index)?;
        match table.value(key).map(|task| &task.job) {
            Some(Job::Post { op: Some(known), .. }) if *known == op => {}
            _ => return None,
        }
        let (task, _) = table.end(key);
        drop(table);
        if let Some(task) = task {
            task.count(succeeded);
        }
        Some(key)
    }

    /// Examines one piece of work. Returns `true` if it ended, because its completion was taken or
    /// it is abandoned, and the operation of abandoned work.
    pub(crate) fn examine_next(&self) -> (bool, Option<OpKey>) {
        let index = self.next.get();
        self.next.set(if (index as usize) + 1 < self.capacity() { index + 1 } else { 0 });
        let mut table = self.table.borrow_mut();
        let Some(key) = table.started_at(index) else { return (false, None) };
        let is_abandoned = table.interest(key) == Interest::Abandoned;
        let Some(Job::Post { op: Some(op), then, .. }) = table.value_mut(key).map(|task| &mut task.job) else {
            return (false, None);
        };
        let (op, has_succeeded) = (*op, self.cq().has_succeeded(*op));
        if has_succeeded == Ok(None) {
            return (false, None);
        }
        let then = then.take();
        let was_taken = has_succeeded.is_err();
        let ended = if was_taken || is_abandoned { table.end(key).0 } else { None };
        drop(table);
        let has_counted = then.is_some();
        if let Some(then) = then {
            count(&then, !matches!(has_succeeded, Ok(Some(false))));
        }
        drop(ended);
        (has_counted || was_taken, (is_abandoned && !was_taken).then_some(op))
    }

    pub(crate) fn take_returned(&self) -> Option<DeferredEvent<'m, B>> {
        let (key, task) = self.table.borrow_mut().take_returned()?;
        Some(Self::returned(key, task))
    }

    pub(crate) fn take_returned_of(&self, work: WorkKey) -> Option<DeferredEvent<'m, B>> {
        let task = self.table.borrow_mut().take_returned_of(work)?;
        Some(Self::returned(work, task))
    }

    pub(crate) fn take_returned_abandoned(&self) -> Option<DeferredEvent<'m, B>> {
        let work = self.table.borrow_mut().abandoned_returned()?;
        self.take_returned_of(work)
    }

    fn returned(key: WorkKey, task: Task<'m, T, B, K>) -> DeferredEvent<'m, B> {
        let error = task.refused.unwrap_or(PostError::Errno(Errno::ECANCELED));
        match (task.buf, error) {
            (Some(buf), error) => DeferredEvent::Returned(key, Rejected { value: buf, error }),
            (None, PostError::Errno(errno)) => DeferredEvent::NotCounted(key, errno),
            (None, _) => DeferredEvent::NotCounted(key, Errno::EOTHER),
        }
    }
}

/// Removes the work of a post that unwinds. Its buffer is lost.
struct Unwound<'a, 'm, T, B, A, K>
where
    T: Transport,
    B: Buffer,
    A: Allocator,
    K: Transmits<T> + Receives<T>,
{
    deferred: &'a Deferred<'m, T, B, A, K>,
    key: WorkKey,
}

impl<T, B, A, K> Drop for Unwound<'_, '_, T, B, A, K>
where
    T: Transport,
    B: Buffer,
    A: Allocator,
    K: Transmits<T> + Receives<T>,
{
    fn drop(&mut self) {
        let last = self.deferred.table.borrow_mut().end(self.key);
        self.deferred.wake_future(self.key);
        drop(last);
    }
}
