use super::Transport;
use crate::vocabulary::Errno;

/// Transport with sleepers that other threads can wake.
///
/// # Safety
///
/// The promises of [`Transport`], and [P17](super#promises-of-implementations).
#[diagnostic::on_unimplemented(
    message = "no other thread can wake up the one that sleeps on a queue of `{Self}`",
    note = "`Soft` has signals; over libfabric, transports have them whose domains threads share: `Ofi<Shared>`"
)]
pub unsafe trait Signals: Transport {
    /// Handle of a queue for other threads.
    type Signal: Send + Sync;

    /// Returns the signal handle of a queue.
    ///
    /// # Safety
    /// Contract of callers of [`Transport`]. The queue was opened with a wait object.
    unsafe fn cq_signal_of(cq: &Self::Cq) -> Self::Signal;

    /// `fi_cq_signal`: [`cq_sleep`](super::CompletionQueues::cq_sleep) returns. If no thread
    /// sleeps, the next call may return at once. A signal as a sleep begins may be lost, so callers
    /// poll again.
    ///
    /// # Errors
    /// An error of the provider, such as `ENOSYS` if it has no signals.
    ///
    /// # Safety
    /// The queue stays open until this call returns.
    unsafe fn cq_signal(signal: &Self::Signal) -> Result<(), Errno>;
}
