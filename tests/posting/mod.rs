//! Posting in tests, and how long they wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loom_core::buffer::Buffer;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::objects::cq::{Cq, CqError};
use loom_core::objects::deadline::Deadline;
use loom_core::transport::Transport;

/// Every wait ends here at the latest.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

thread_local! {
    /// How often a wait of this thread looks in vain, at most.
    static LOOKS: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Waits of this thread look so often at most: where one that is in vain is no surprise, and time says nothing.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub(crate) fn look_at_most(looks: u64) {
    LOOKS.set(looks);
}

/// Whether behaviours run so often that each has to be short.
static SHORT: AtomicBool = AtomicBool::new(false);

/// Behaviours are to be short from now on.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub(crate) fn be_short() {
    SHORT.store(true, Ordering::Relaxed);
}

/// How often something is done, or how long something is; less where behaviours are to be short.
#[allow(dead_code, reason = "not every program that shares this has faults")]
pub(crate) fn or_less(number: usize, less: usize) -> usize {
    if SHORT.load(Ordering::Relaxed) { less } else { number }
}

/// A deadline that a working transport never meets.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    until: Instant,
    looks: u64,
}

impl Limit {
    pub(crate) fn new() -> Self {
        Limit { until: Instant::now() + LIMIT, looks: LOOKS.get() }
    }
}

impl Deadline for Limit {
    fn passed(&mut self) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks == 0 || self.until.passed()
    }
}

/// Posts until it is taken; what completes meanwhile is kept.
pub(crate) fn post<T: Transport, B: Buffer>(
    cq: &Cq<'_, T, B>,
    mut buf: B,
    post: impl Fn(B) -> Result<OpKey, Rejected<B>>,
) -> OpKey {
    let mut deadline = Limit::new();
    loop {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) if rejected.error.is_transient() && !deadline.passed() => {
                buf = rejected.buf;
                match cq.progress() {
                    // There is no room to keep more, but there may be some for the post.
                    Ok(_) | Err(CqError::PeerEvents) => {}
                    Err(error) => panic!("the queue works: {error}"),
                }
            }
            Err(rejected) => panic!("not posted: {}", rejected.error),
        }
    }
}
