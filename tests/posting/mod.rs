//! Posting in tests, and how long they wait.

use std::time::{Duration, Instant};

use loom_core::buffer::Buffer;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::objects::cq::Cq;
use loom_core::transport::Transport;

/// Every wait ends here at the latest.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Posts until it is taken; what completes meanwhile is kept.
pub(crate) fn post<T: Transport, B: Buffer>(
    cq: &Cq<'_, T, B>,
    mut buf: B,
    post: impl Fn(B) -> Result<OpKey, Rejected<B>>,
) -> OpKey {
    let deadline = Instant::now() + LIMIT;
    loop {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) if rejected.error.is_transient() && Instant::now() < deadline => {
                buf = rejected.buf;
                cq.progress().expect("the queue works");
            }
            Err(rejected) => panic!("not posted: {}", rejected.error),
        }
    }
}
