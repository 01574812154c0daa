mod block_on;
mod ready;
#[cfg(all(doctest, feature = "std"))]
mod refusals;
mod shared;
mod spawner;
mod table;
mod users;

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use allocator_api2::alloc::Allocator;
use loom_core::Error;
use loom_core::driver::Drive;
use loom_core::error::OpenError;

pub use self::block_on::block_on;
pub use self::spawner::Spawner;
use self::table::Table;

/// Default events of each queue in a round ([`LocalExecutor::set_budget`]).
pub const BUDGET: usize = 64;

/// A fixed number of tasks, run by the calling thread, in one block of the caller's allocator. All
/// have one type `F`:
/// - the inferred type of an async block or function, with equal tasks that cannot spawn
/// - `Pin<&mut dyn Future<Output = ()>>`, pinned by the program
/// - `Pin<Box<dyn Future<Output = ()>>>`, with a global allocator
///
/// # Rounds
/// A round polls each woken task once, in order, then takes a [turn](Drive::turn). Rounds follow
/// without sleep.
///
/// # Wakers
/// A wake-up takes constant time, without lock or allocation, on any thread. Wakers may be kept
/// forever, so the allocator is `'static`.
///
/// # Panics in tasks
/// A task that panics is dropped. The panic reaches the caller of the round, which can go on.
///
/// ```
/// use core::cell::Cell;
///
/// use loom_async::LocalExecutor;
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
///
/// let sum = Cell::new(0);
/// let add = async |number| sum.set(sum.get() + number);
/// let executor = LocalExecutor::new(3)?;
/// for number in [1, 2, 3] {
///     executor.spawn(add(number))?;
/// }
/// // These tasks use no fabric. With one: `&(&driver, &timers)`.
/// executor.run(&Timers::new(StdClock::new()));
/// assert_eq!(sum.get(), 6);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct LocalExecutor<F> {
    table: Table<F>,
    budget: Cell<usize>,
}

/// Identifies a task of an executor.
///
/// ```
/// use core::future::pending;
///
/// use loom_async::LocalExecutor;
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
///
/// let executor = LocalExecutor::new(1)?;
/// let waits = || pending::<()>();
/// let first = executor.spawn(waits())?;
/// executor.round(&Timers::new(StdClock::new()));
/// assert!(executor.cancel(first));
/// // The next task has the same place, and another identity.
/// let second = executor.spawn(waits())?;
/// assert_eq!((executor.contains(first), executor.contains(second)), (false, true));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    index: u32,
    generation: u32,
}

/// Result of a round.
///
/// ```
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
/// use loom_async::{LocalExecutor, Round};
///
/// let executor = LocalExecutor::new(2)?;
/// for _ in 0..2 {
///     executor.spawn(async {})?;
/// }
/// let timers = Timers::new(StdClock::new());
/// assert_eq!(executor.round(&timers), Round { polled: 2, events: 0 });
/// // A program that shares its thread sleeps after a round that has done nothing.
/// assert_eq!(executor.round(&timers), Round::default());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Tasks polled.
    pub polled: usize,
    /// Events taken.
    pub events: usize,
}

/// The executor is full or was dropped, and returns the future.
///
/// ```
/// use core::future::ready;
///
/// use loom_async::clock::StdClock;
/// use loom_async::timers::Timers;
/// use loom_async::{Full, LocalExecutor};
///
/// let executor = LocalExecutor::new(1)?;
/// let timers = Timers::new(StdClock::new());
/// for _ in 0..3 {
///     let mut future = ready(());
///     // A round may bring a task to its end, whose place is free then.
///     while let Err(Full(refused)) = executor.spawn(future) {
///         future = refused;
///         executor.round(&timers);
///     }
/// }
/// assert_eq!(executor.len(), 1);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Full<F>(pub F);

impl<F> LocalExecutor<F> {
    /// Opens an executor for `tasks` tasks, in memory of `alloc`.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`], and [`OpenError::Size`].
    pub fn new_in<A: Allocator + Send + 'static>(tasks: usize, alloc: A) -> Result<Self, OpenError> {
        Ok(LocalExecutor { table: Table::new(tasks, alloc)?, budget: Cell::new(BUDGET) })
    }

    /// [`LocalExecutor::new_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn new(tasks: usize) -> Result<Self, OpenError> {
        Self::new_in(tasks, allocator_api2::alloc::Global)
    }

    /// Layout of an executor's block.
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>(tasks: usize) -> Result<Layout, OpenError> {
        Table::<F>::layout::<A>(tasks)
    }

    /// Number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Number of tasks not completed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns `true` if all tasks have completed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if this task has not completed.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.table.contains(task)
    }

    /// Limits the events of each queue in a round.
    pub fn set_budget(&self, budget: usize) {
        self.budget.set(budget);
    }

    /// Adds a task, polled in the next round.
    ///
    /// # Errors
    /// [`Full`] without a free slot.
    pub fn spawn(&self, future: F) -> Result<TaskId, Full<F>> {
        self.table.spawn(future)
    }

    /// Handle that adds tasks.
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
    /// type Task = Pin<Box<dyn Future<Output = ()>>>;
    /// let executor = LocalExecutor::<Task>::new(2)?;
    /// let (spawner, ran) = (executor.spawner(), Rc::new(Cell::new(false)));
    /// let told = ran.clone();
    /// executor.spawn(Box::pin(async move {
    ///     let second = spawner.spawn(Box::pin(async move { told.set(true) })).expect("there is a place");
    ///     assert!(spawner.contains(second));
    /// }))?;
    /// executor.run(&Timers::new(StdClock::new()));
    /// assert!(ran.get());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn spawner(&self) -> Spawner<F> {
        Spawner::new(self.table.clone())
    }

    /// Drops a task, after its poll if it cancels itself. Returns `true` if the task existed.
    ///
    /// ```
    /// use core::future::{Pending, pending};
    ///
    /// use loom_async::LocalExecutor;
    ///
    /// let executor = LocalExecutor::<Pending<()>>::new(1)?;
    /// let task = executor.spawn(pending())?;
    /// assert!(executor.contains(task) && executor.cancel(task));
    /// assert!(!executor.cancel(task) && executor.is_empty());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn cancel(&self, task: TaskId) -> bool {
        self.table.cancel(task)
    }
}

impl<F: Future<Output = ()>> LocalExecutor<F> {
    /// Runs one [round](Self#rounds).
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use loom_async::clock::ManualClock;
    /// use loom_async::timers::Timers;
    /// use loom_async::{LocalExecutor, Round};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::new(&clock);
    /// let executor = LocalExecutor::new(1)?;
    /// executor.spawn(async { timers.sleep(Duration::from_millis(5)).await })?;
    /// assert_eq!(executor.round(&timers), Round { polled: 1, events: 0 });
    /// clock.advance(Duration::from_millis(5));
    /// // The turn at the end of a round wakes the task, and the next round polls it.
    /// assert_eq!(executor.round(&timers), Round { polled: 0, events: 1 });
    /// assert_eq!(executor.round(&timers), Round { polled: 1, events: 0 });
    /// assert!(executor.is_empty());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn round<D: Drive + ?Sized>(&self, drive: &D) -> Round {
        let polled = self.table.poll_woken();
        Round { polled, events: drive.turn(self.budget.get()) }
    }

    /// Runs rounds until all tasks have completed. Never returns if a task calls it.
    pub fn run<D: Drive + ?Sized>(&self, drive: &D) {
        while !self.is_empty() {
            self.round(drive);
        }
    }

    /// Runs rounds until `future` completes, polled as another task. Other tasks stay.
    ///
    /// A task or `future` that calls this is not polled until its call returns.
    pub fn run_until<D: Drive + ?Sized, M: Future>(&self, drive: &D, future: M) -> M::Output {
        /// Nested calls share a node, so an inner one may take the outer one's wake-up: repeat it.
        struct Ended<'a, F>(&'a Table<F>);
        impl<F> Drop for Ended<'_, F> {
            fn drop(&mut self) {
                self.0.wake_main();
            }
        }
        let mut future = pin!(future);
        let _ended = Ended(&self.table);
        let woken = self.table.main_woken();
        woken.set(true);
        loop {
            if woken.replace(false) {
                let poll = |waker: &Waker| future.as_mut().poll(&mut Context::from_waker(waker));
                let polled = self.table.with_main_waker(poll);
                if let Poll::Ready(output) = polled {
                    return output;
                }
            }
            self.round(drive);
        }
    }
}

impl<F> Drop for LocalExecutor<F> {
    fn drop(&mut self) {
        self.table.close();
    }
}

impl<F> fmt::Debug for LocalExecutor<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalExecutor")
            .field("tasks", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Full<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<F> From<Full<F>> for Error {
    fn from(_: Full<F>) -> Self {
        Error::Full("the executor: open it for more tasks")
    }
}
