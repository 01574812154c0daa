//! Posting in tests, what they move, and how long they wait.

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

/// A wait ends here, unless other threads of its behaviour get on meanwhile ...
pub const LIMIT: Duration = Duration::from_secs(60);

/// ... and here at the latest.
const END: Duration = Duration::from_secs(600);

thread_local! {
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience { looks: u64::MAX, time: LIMIT }) };
}

#[derive(Clone, Copy)]
pub struct Patience {
    /// So often they look: where one thread does everything, time says nothing.
    pub looks: u64,
    pub time: Duration,
}

/// Sets the patience of this thread's waits.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn be_patient(patience: Patience) {
    PATIENCE.set(patience);
}

/// What ends a behaviour that a fault has cut short: it unwinds with this, and not with words, which may be a failure's as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// An operation, a post or the queue failed.
    Error(Errno),
    /// A wait was in vain.
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

/// Lets a fault cut behaviours of this thread short with a [`Cut`], or not any more.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn may_be_cut_short(may: bool) {
    TOGETHER.set(Arc::new(Together { may_be_cut_short: may, ..Together::default() }));
}

fn cut(by: Cut) {
    let together = TOGETHER.with_borrow(Arc::clone);
    if together.may_be_cut_short {
        together.was_cut_short.store(true, Ordering::Release);
        // Nothing is printed: the run judges it.
        std::panic::resume_unwind(Box::new(by));
    }
}

/// Ends a behaviour of which another thread was cut short: nobody waits for that one any more.
fn cut_like_another() {
    if TOGETHER.with_borrow(|together| together.was_cut_short.load(Ordering::Acquire)) {
        cut(Cut::InVain);
    }
}

/// The errors that a fault makes have a number.
pub trait HasErrno: fmt::Debug {
    /// The number, where it is not loom itself that refuses.
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

/// What succeeds unless a fault cuts the behaviour short.
pub trait OrCut<V> {
    /// The value; an error ends the behaviour.
    fn or_cut(self, words: &str) -> V;
}

impl<V, E: HasErrno> OrCut<V> for Result<V, E> {
    #[track_caller]
    fn or_cut(self, words: &str) -> V {
        self.unwrap_or_else(|error| {
            // Who is gone cannot be reached.
            cut_like_another();
            if let Some(errno) = error.errno() {
                cut(Cut::Error(errno));
            }
            panic!("{words}: {error:?}")
        })
    }
}

/// What fails, and with this number, unless a fault cuts the behaviour short.
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

/// How often something is done, or how long something is; less where behaviours are to be short.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub fn or_less(number: usize, less: usize) -> usize {
    if SHORT.load(Ordering::Relaxed) { less } else { number }
}

fn waits_begun() -> u64 {
    TOGETHER.with_borrow(|together| together.waits.load(Ordering::Relaxed))
}

/// So often a wait looks before its time is over: a machine that stood still meanwhile has let nobody get on.
const LOOKS: u64 = 1000;

/// Longest sleep: the whole wait, a moment where the behaviour may be cut short, which wakes nobody up, or zero on a single thread.
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

/// A deadline that a working transport never meets: it is put off for as long as other threads of the behaviour get on.
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

/// Posts until it is taken; what completes meanwhile is kept.
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
                    // There is no room to keep more, but there may be some for the post.
                    Ok(_) | Err(CqError::PeerEvents) => {}
                    Err(error) => Err(error).or_cut("the queue works"),
                }
            }
            Err(rejected) => return Err(rejected.error).or_cut("not posted"),
        }
    }
}
