//! [`Spawner`]: adds tasks to an executor, from within its tasks.

use core::fmt;

use super::table::Table;
use super::{Full, TaskId};

/// Adds tasks to a [`LocalExecutor`](super::LocalExecutor), and cancels them. Tasks may keep one.
///
/// A task cannot borrow its executor, which holds the task. This is a counted handle: it keeps the executor's memory, and not
/// its tasks. When the executor has gone, nothing can be spawned any more.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use core::cell::Cell;
/// use core::pin::Pin;
/// use std::rc::Rc;
///
/// use loom_async::LocalExecutor;
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
///
/// let executor = LocalExecutor::<Pin<Box<dyn Future<Output = ()>>>>::new(4)?;
/// let (spawner, served) = (executor.spawner(), Rc::new(Cell::new(0)));
/// let count = Rc::clone(&served);
/// // A task that spawns others, as a server does for each of its clients.
/// executor.spawn(Box::pin(async move {
///     for client in 1..=3 {
///         let count = Rc::clone(&count);
///         let serves = async move { count.set(count.get() + client) };
///         assert!(spawner.spawn(Box::pin(serves)).is_ok());
///     }
/// }))?;
/// executor.run(&Timers::new(StdClock::new()));
/// assert_eq!(served.get(), 1 + 2 + 3);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Spawner<F> {
    table: Table<F>,
}

impl<F> Spawner<F> {
    pub(super) const fn new(table: Table<F>) -> Self {
        Spawner { table }
    }

    /// Adds a task. The next round polls it.
    ///
    /// # Errors
    /// [`Full`] with the future if there is no place for it, or the executor has gone.
    pub fn spawn(&self, future: F) -> Result<TaskId, Full<F>> {
        self.table.spawn(future)
    }

    /// Whether this task is not over.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.table.contains(task)
    }

    /// Drops a task; one that cancels itself is dropped when it returns from its poll. Says whether the task was there.
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
