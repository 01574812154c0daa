//! [`Signals`]: waking up a thread that sleeps on a completion queue.

use super::Transport;
use crate::vocabulary::Errno;

/// A transport whose sleepers can be woken up by other threads. A transport that leaves out locks has no other threads.
///
/// # Safety
///
/// Implementations promise what [`Transport`] does, and [P16](super#promises-of-implementations).
#[diagnostic::on_unimplemented(
    message = "no other thread can wake up the one that sleeps on a queue of `{Self}`",
    note = "`Soft` has signals; over libfabric, transports have them whose domains threads share: `Ofi<Shared>`"
)]
pub unsafe trait Signals: Transport {
    /// What names a queue to other threads. Dropping it does nothing.
    type Signal: Send + Sync;

    /// The name of a queue.
    ///
    /// # Safety
    /// The contract of callers of [`Transport`]; the queue was opened with something to sleep on.
    unsafe fn cq_signal_of(cq: &Self::Cq) -> Self::Signal;

    /// `fi_cq_signal`: [`cq_sleep`](super::CompletionQueues::cq_sleep) returns, or if no thread sleeps, the next one may return at once. A
    /// signal may be lost that comes just when a sleep begins: callers look again after a while.
    ///
    /// # Errors
    /// The provider's: `ENOSYS` if it has no signals.
    ///
    /// # Safety
    /// The queue is open, and stays so until this returns.
    unsafe fn cq_signal(signal: &Self::Signal) -> Result<(), Errno>;
}
