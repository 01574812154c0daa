use core::fmt;

use super::table::Table;
use super::{Full, TaskId};

/// Adds tasks to a [`LocalExecutor`](super::LocalExecutor) and cancels them. Tasks may keep one.
///
/// This counted handle keeps the executor's memory, but not its tasks.
///
/// ```
/// use core::cell::Cell;
/// use core::pin::Pin;
/// use std::rc::Rc;
///
/// use loom_async::LocalExecutor;
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
///
/// let executor = LocalExecutor::<Pin<Box<dyn Future<Output = ()>>>>::new(2)?;
/// let (spawner, served) = (executor.spawner(), Rc::new(Cell::new(false)));
/// let flag = Rc::clone(&served);
/// // A server spawns a task for a client.
/// executor.spawn(Box::pin(async move {
///     let serve = async move { flag.set(true) };
///     assert!(spawner.spawn(Box::pin(serve)).is_ok());
/// }))?;
/// executor.run(&Timers::new(StdClock::new()));
/// assert!(served.get());
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Spawner<F> {
    table: Table<F>,
}

impl<F> Spawner<F> {
    pub(super) const fn new(table: Table<F>) -> Self {
        Spawner { table }
    }

    /// Adds a task, polled in the next round.
    ///
    /// # Errors
    /// [`Full`] without a free slot or executor.
    pub fn spawn(&self, future: F) -> Result<TaskId, Full<F>> {
        self.table.spawn(future)
    }

    /// Returns `true` if this task has not completed.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.table.contains(task)
    }

    /// [`LocalExecutor::cancel`](super::LocalExecutor::cancel).
    pub fn cancel(&self, task: TaskId) -> bool {
        self.table.cancel(task)
    }
}

impl<F> Clone for Spawner<F> {
    fn clone(&self) -> Self {
        Spawner { table: self.table.clone() }
    }
}

impl<F> fmt::Debug for Spawner<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("tasks", &self.table.len()).finish_non_exhaustive()
    }
}
