//! The smallest executor that polls a task only if it was woken: a lost wake-up shows as a task that does not end.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom_core::driver::Drive;

/// More turns in a row than anything takes in which nothing happens.
const IDLE: u32 = 2_000;

/// Whether a task was woken, and how often.
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
    /// `None` when it has ended, or was dropped.
    pub future: Option<Pin<Box<dyn Future<Output = ()> + 'f>>>,
}

impl<'f> Task<'f> {
    pub fn new(future: impl Future<Output = ()> + 'f) -> Self {
        let flag = Arc::<Flag>::default();
        flag.woken.store(true, Ordering::Relaxed);
        Task { waker: flag.clone().into(), flag, future: Some(Box::pin(future)) }
    }

    /// Polls it, if it was woken; says whether it was.
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
/// If for long nothing happens.
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

/// As many turns as anything takes that happens on one thread.
pub fn turns(drive: &impl Drive) {
    for _ in 0..50 {
        drive.turn(64);
    }
}

/// How often a task was woken.
pub fn woken(flag: &Flag) -> usize {
    flag.times.load(Ordering::Relaxed)
}
