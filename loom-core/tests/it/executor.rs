//! The smallest executor. It polls a task only after a wake-up, so that a lost wake-up shows as a
//! task that does not end.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom_core::driver::Drive;

/// Limit of idle turns in a row. No test requires as many.
const IDLE: u32 = 2_000;

/// Counter of a task's wake-ups.
#[derive(Default)]
pub struct Flag {
    woken: AtomicBool,
    pub times: AtomicUsize,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Task<'f> {
    pub flag: Arc<Flag>,
    waker: Waker,
    /// `None` after the task has ended or was dropped.
    pub future: Option<Pin<Box<dyn Future<Output = ()> + 'f>>>,
}

impl<'f> Task<'f> {
    pub fn new(future: impl Future<Output = ()> + 'f) -> Self {
        let flag = Arc::<Flag>::default();
        flag.woken.store(true, Ordering::Relaxed);
        Task { waker: flag.clone().into(), flag, future: Some(Box::pin(future)) }
    }

    /// Polls the task if it was woken. Returns `true` if it was.
    pub fn run(&mut self) -> bool {
        let Some(future) = &mut self.future else { return false };
        if !self.flag.woken.swap(false, Ordering::Relaxed) {
            return false;
        }
        if future.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.future = None;
        }
        true
    }
}

/// Runs tasks until all have ended.
///
/// # Panics
///
/// If no task makes progress for long.
pub fn run<'f>(drive: &impl Drive, tasks: impl IntoIterator<Item = Task<'f>>) {
    let mut tasks: Vec<Task<'f>> = tasks.into_iter().collect();
    let mut idle = 0;
    while tasks.iter().any(|task| task.future.is_some()) {
        let ran = tasks.iter_mut().map(Task::run).filter(|ran| *ran).count();
        let events = drive.turn(8);
        idle = if ran + events > 0 { 0 } else { idle + 1 };
        assert!(idle < IDLE, "tasks wait that nobody wakes");
    }
}

/// Runs one future to its end.
pub fn block_on<'f, V: 'f>(drive: &impl Drive, future: impl Future<Output = V> + 'f) -> V {
    let result = Rc::new(Cell::new(None));
    let told = result.clone();
    run(drive, [Task::new(async move { told.set(Some(future.await)) })]);
    result.take().unwrap()
}

/// Polls a future once.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Drives more turns than any event on one thread requires.
pub fn turns(drive: &impl Drive) {
    for _ in 0..50 {
        drive.turn(64);
    }
}

/// Number of wake-ups of a task.
pub fn woken(flag: &Flag) -> usize {
    flag.times.load(Ordering::Relaxed)
}
