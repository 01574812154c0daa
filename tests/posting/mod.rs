//! Posting in tests that open their own objects.

use std::time::{Duration, Instant};

use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::objects::cq::Cq;
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};

/// Every wait ends here at the latest.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Posts until it is taken.
pub(crate) fn post(
    cq: &Cq<'_, Ofi<Local>, Vec<u8>>,
    mut buf: Vec<u8>,
    post: impl Fn(Vec<u8>) -> Result<OpKey, Rejected<Vec<u8>>>,
) -> OpKey {
    let deadline = Instant::now() + LIMIT;
    loop {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) => {
                assert!(rejected.error.is_transient() && Instant::now() < deadline, "{}", rejected.error);
                buf = rejected.buf;
                cq.progress().unwrap();
            }
        }
    }
}
