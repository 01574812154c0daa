//! Cache of registrations, over the software transport, which refuses buffers without an open
//! region that covers them.

mod closing;
mod defects;
mod memory_use;
mod random;
mod rules;
/// Scripted transport, from the tests of loom-core.
#[allow(dead_code, unreachable_pub, reason = "most of it is for those tests alone")]
#[cfg(all(feature = "os", target_os = "linux"))]
mod userfaultfd;
mod world;
