//! [`Transport`]: all subjects together.

use super::{Atomics, MemoryRegions, Messages, Rma, TaggedMessages};

/// A network layer underneath the safe objects: the sum of what a transport does.
///
/// Handles are raw: dropping one does nothing, and each is closed by exactly one call of its `*_close`, but for endpoints that are retired (C3).
///
/// # Contract of callers
///
/// [C1 to C18, and C28](super#contract-of-callers).
///
/// # Safety
///
/// Implementations of this trait, and of those that it is the sum of, promise [P1 to P8 and P17](super#promises-of-implementations).
pub unsafe trait Transport: MemoryRegions + Messages + TaggedMessages + Rma + Atomics {}
