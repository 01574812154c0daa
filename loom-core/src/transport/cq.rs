use core::alloc::Layout;
use core::borrow::Borrow;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::{Event, Fabrics};
use crate::vocabulary::{Errno, WaitObj};

/// Queues of events.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
pub unsafe trait CompletionQueues: Fabrics {
    /// `fid_cq`
    type Cq;
    /// Result of a poll: an event, or a reference.
    type Polled<'q>: Borrow<Event>
    where
        Self: 'q;

    /// Memory that a queue for `depth` events requires from the caller.
    fn cq_layout(depth: usize) -> Layout;
    /// `fi_cq_open` for `depth` events. `with_source` requests sender addresses (`fi_cq_readfrom`).
    /// `wait` selects an object for `cq_sleep` and `cq_wait_fd`, or no object.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_open(
        domain: &Self::Domain,
        depth: usize,
        with_source: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Self::Cq, Errno>;
    /// `fi_close` of a completion queue.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_close(cq: &Self::Cq) -> Result<(), Errno>;
    /// Returns the next event. If no event is at hand, drives progress first. `Ok(None)` if the
    /// queue is empty.
    ///
    /// # Errors
    /// `EAVAIL` if the next event is available from [`cq_read_error`](Self::cq_read_error). Other
    /// errors are of the queue, not of an operation.
    ///
    /// # Safety
    /// Contract of callers. The event is read before the transport is called again.
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<Self::Polled<'_>>, Errno>;
    /// `fi_cq_sread`: sleeps until [`cq_poll`](Self::cq_poll) may have an event, for at most
    /// `milliseconds`. May wake up spuriously.
    ///
    /// # Errors
    /// An error of the queue. `ENOSYS` if it was opened without a wait object.
    ///
    /// # Safety
    /// Contract of callers. `cq_poll` has just found the queue empty.
    unsafe fn cq_sleep(cq: &Self::Cq, milliseconds: i32) -> Result<(), Errno>;
    /// `fi_control` with `FI_GETWAIT`: file descriptor, readable when the queue may have an event.
    ///
    /// # Errors
    /// `ENOSYS` if the queue was opened without a file descriptor.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_wait_fd(cq: &Self::Cq) -> Result<c_int, Errno>;
    /// `fi_trywait`: `true` if sleeping on the file descriptor now misses no event.
    ///
    /// # Errors
    /// An error of the queue. `ENOSYS` if it was opened without a file descriptor.
    ///
    /// # Safety
    /// Contract of callers. `domain` is the domain of the queue.
    unsafe fn cq_may_sleep(domain: &Self::Domain, cq: &Self::Cq) -> Result<bool, Errno>;
    /// Returns `true` if the queue cannot be slept on any more because one of its endpoints was
    /// closed. Then the file descriptor misses events, [`cq_sleep`](Self::cq_sleep) polls once a
    /// millisecond, and [`cq_may_sleep`](Self::cq_may_sleep) waits a millisecond and returns
    /// `false`.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_naps(cq: &Self::Cq) -> bool {
        let _ = cq;
        false
    }
    /// `fi_cq_readerr`: returns the event of a failed operation that [`cq_poll`](Self::cq_poll) has
    /// reported.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_read_error(cq: &Self::Cq) -> Result<Option<Event>, Errno>;
    /// `fi_cq_strerror`: writes the provider's error text and returns its length in bytes.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_error_text(cq: &Self::Cq, provider_errno: i32, out: &mut [u8]) -> usize;
    /// Writes the provider's data of the last event of [`cq_read_error`](Self::cq_read_error)
    /// (`err_data`), and returns its length in bytes.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cq_error_data(cq: &Self::Cq, out: &mut [u8]) -> usize {
        let _ = (cq, out);
        0
    }
}
