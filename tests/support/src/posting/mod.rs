//! Posts in tests, their bytes, and the limits of waits.

#[allow(dead_code, reason = "not every program that shares this moves much")]
mod pattern;
#[allow(dead_code, reason = "not every program that shares this has threads")]
pub mod threads;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loom_core::buffer::Buffer;
use loom_core::completion::OpError;
use loom_core::cq::{Cq, CqError};
use loom_core::deadline::Deadline;
use loom_core::driver::RunError;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::transport::Transport;
use loom_core::vocabulary::Errno;

#[allow(unused_imports, reason = "not every program that shares this moves much")]
pub use self::pattern::pattern;

/// Limit of a wait, extended while other threads of its behaviour make progress ...
pub const LIMIT: Duration = Duration::from_secs(60);

/// ... up to this one.
const END: Duration = Duration::from_secs(600);

thread_local! {
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience { looks: u64::MAX, time: LIMIT }) };
}

#[derive(Clone, Copy)]
pub struct Patience {
    /// Number of polls before a limit: on a single thread, time is no measure.
    pub looks: u64,
    pub time: Duration,
}

/// Sets the patience of this thread's waits.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn be_patient(patience: Patience) {
    PATIENCE.set(patience);
}

/// End of a behaviour that a fault has cut short: the payload of its panic, to separate it from a
/// failure's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// An operation, a post or the queue failed.
    Error(Errno),
    /// A wait reached its limit.
    InVain,
}

#[derive(Default)]
struct Together {
    may_be_cut_short: bool,
    was_cut_short: AtomicBool,
    waits: AtomicU64,
}

thread_local! {
    static TOGETHER: RefCell<Arc<Together>> = RefCell::default();
}

/// Permits a fault to cut behaviours of this thread short with a [`Cut`], or ends the permission.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn may_be_cut_short(may: bool) {
    TOGETHER.set(Arc::new(Together { may_be_cut_short: may, ..Together::default() }));
}

fn cut(by: Cut) {
    let together = TOGETHER.with_borrow(Arc::clone);
    if together.may_be_cut_short {
        together.was_cut_short.store(true, Ordering::Release);
        // No output: the run judges it.
        std::panic::resume_unwind(Box::new(by));
    }
}

/// Ends a behaviour after another of its threads was cut short, because a wait for that one would
/// not end.
fn cut_like_another() {
    if TOGETHER.with_borrow(|together| together.was_cut_short.load(Ordering::Acquire)) {
        cut(Cut::InVain);
    }
}

/// Errors of a fault, which have a number.
pub trait HasErrno: fmt::Debug {
    /// Returns the number, unless loom itself refuses.
    fn errno(&self) -> Option<Errno>;
}

impl HasErrno for CqError {
    fn errno(&self) -> Option<Errno> {
        match self {
            CqError::Queue(errno) | CqError::EventQueue(errno) | CqError::Counter(errno) => Some(*errno),
            _ => None,
        }
    }
}

impl HasErrno for PostError {
    fn errno(&self) -> Option<Errno> {
        match self {
            PostError::Errno(errno) => Some(*errno),
            _ => None,
        }
    }
}

impl HasErrno for OpenError {
    fn errno(&self) -> Option<Errno> {
        match self {
            OpenError::Errno(errno) => Some(*errno),
            _ => None,
        }
    }
}

impl<B: fmt::Debug> HasErrno for RunError<B> {
    fn errno(&self) -> Option<Errno> {
        match self {
            RunError::Rejected(rejected) => rejected.error.errno(),
            RunError::Queue { error, .. } => error.errno(),
        }
    }
}

impl HasErrno for OpError {
    fn errno(&self) -> Option<Errno> {
        Some(self.errno)
    }
}

/// A result that succeeds unless a fault cuts the behaviour short.
pub trait OrCut<V> {
    /// Returns the value. An error ends the behaviour.
    fn or_cut(self, words: &str) -> V;
}

impl<V, E: HasErrno> OrCut<V> for Result<V, E> {
    #[track_caller]
    fn or_cut(self, words: &str) -> V {
        self.unwrap_or_else(|error| {
            // Another side that has left cannot be reached.
            cut_like_another();
            if let Some(errno) = error.errno() {
                cut(Cut::Error(errno));
            }
            panic!("{words}: {error:?}")
        })
    }
}

/// Returns the error of a result that must fail with this number, unless a fault cuts the behaviour
/// short.
#[allow(dead_code, reason = "not every program that shares this looks at it")]
#[track_caller]
pub fn fails_with<V, E: HasErrno>(result: Result<V, E>, errno: Errno) -> E {
    let Err(error) = result else { panic!("it succeeds, and was to fail with {errno}") };
    if error.errno() != Some(errno) {
        cut_like_another();
        error.errno().into_iter().for_each(|other| cut(Cut::Error(other)));
        panic!("not {errno}: {error:?}");
    }
    error
}

static SHORT: AtomicBool = AtomicBool::new(false);

#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn be_short() {
    SHORT.store(true, Ordering::Relaxed);
}

/// Returns a number, or a smaller one if behaviours are to be short.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn or_less(number: usize, less: usize) -> usize {
    if SHORT.load(Ordering::Relaxed) { less } else { number }
}

fn waits_begun() -> u64 {
    TOGETHER.with_borrow(|together| together.waits.load(Ordering::Relaxed))
}

/// Minimum number of polls of a wait: after a pause of the machine, no thread has made progress.
const LOOKS: u64 = 1000;

/// Maximum duration of a sleep: the whole wait, a moment if the behaviour may be cut short, which
/// wakes no sleeper, or zero on a single thread.
#[allow(dead_code, reason = "not every program that shares this sleeps")]
pub fn one_sleep() -> Duration {
    if !TOGETHER.with_borrow(|together| together.may_be_cut_short) {
        LIMIT
    } else if PATIENCE.get().looks == u64::MAX {
        Duration::from_millis(2)
    } else {
        Duration::ZERO
    }
}

/// A deadline that a working transport never reaches. Progress of other threads of the behaviour
/// extends it.
#[derive(Clone, Copy)]
pub struct Limit {
    end: Instant,
    until: Instant,
    looks: u64,
    in_vain: u64,
    waits: u64,
}

impl Limit {
    pub fn new() -> Self {
        TOGETHER.with_borrow(|together| together.waits.fetch_add(1, Ordering::Relaxed));
        let Patience { looks, time } = PATIENCE.get();
        let now = Instant::now();
        Limit { end: now + END, until: now + time, looks, in_vain: 0, waits: waits_begun() }
    }
}

impl Deadline for Limit {
    fn passed(&mut self) -> bool {
        cut_like_another();
        let waits = waits_begun();
        if self.waits != waits {
            (self.waits, self.in_vain, self.until) = (waits, 0, self.end.min(Instant::now() + PATIENCE.get().time));
        }
        self.looks = self.looks.saturating_sub(1);
        self.in_vain += 1;
        let passed = self.looks == 0 || self.in_vain > LOOKS && self.until.passed() || self.end.passed();
        if passed {
            cut(Cut::InVain);
        }
        passed
    }
}

/// Posts until the provider accepts it, and keeps completions meanwhile.
pub fn post<T: Transport, B: Buffer>(
    cq: &Cq<'_, T, B>,
    mut buf: B,
    post: impl Fn(B) -> Result<OpKey, Rejected<B>>,
) -> OpKey {
    let mut deadline = Limit::new();
    loop {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) if rejected.error.is_transient() && !deadline.passed() => {
                buf = rejected.value;
                match cq.progress() {
                    // The queue has no room to keep more, but may have some for the post.
                    Ok(_) | Err(CqError::PeerEvents) => {}
                    Err(error) => Err(error).or_cut("the queue works"),
                }
            }
            Err(rejected) => return Err(rejected.error).or_cut("not posted"),
        }
    }
}
