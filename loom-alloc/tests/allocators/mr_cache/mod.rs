//! The cache of registrations, over the software transport, which refuses buffers whose region is not open or does not cover
//! them.

mod closing;
mod defects;
mod memory_use;
mod random;
mod rules;
/// The transport that follows a script is that of loom-core's own tests.
#[allow(dead_code, unreachable_pub, reason = "most of it is for those tests alone")]
#[cfg(all(feature = "os", target_os = "linux"))]
mod userfaultfd;
mod world;
