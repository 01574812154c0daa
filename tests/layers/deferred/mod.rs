//! Deferred work over the software transport.

mod chains;
#[path = "../../../loom-core/tests/it/executor.rs"]
mod executor;
mod futures;
#[path = "../../../loom-core/tests/it/memory.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod memory;
mod pair;
mod sleeping;
mod work_table;
