//! [`CompletionQueues`]: where operations are reported.

use core::alloc::Layout;
use core::borrow::Borrow;
use core::ffi::c_int;
use core::ptr::NonNull;

use super::{Event, Fabrics};
use crate::vocabulary::{Errno, WaitObj};

/// Queues of events.
///
/// # Safety
/// As [`Transport`](super::Transport).
pub unsafe trait CompletionQueues: Fabrics {
    /// `fid_cq`
    type Cq;
    /// What a poll shows: the event itself where it is put together from something else, or a reference to where it lies.
    type Polled<'q>: Borrow<Event>
    where
        Self: 'q;

    /// What memory a queue for `depth` events needs from the caller.
    fn cq_layout(depth: usize) -> Layout;
    /// `fi_cq_open` for `depth` events; `with_source` asks for sender addresses (`fi_cq_readfrom`), and `wait` for something
    /// that `cq_sleep` and `cq_wait_fd` can use, or for nothing.
    ///
    /// # Safety
    /// The contract of callers.
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
    /// The contract of callers.
    unsafe fn cq_close(cq: &Self::Cq) -> Result<(), Errno>;
    /// The next event, after driving progress if there is none at hand; `Ok(None)` says that the queue was empty.
    ///
    /// Implementations inline what they do for an event that is at hand: the queue above then builds the completion from it
    /// without a copy in between, which is a third of the cost of a poll.
    ///
    /// # Errors
    /// `EAVAIL` if the next event is to be had from [`cq_read_error`](Self::cq_read_error); anything else is an error of the
    /// queue itself, not of an operation.
    ///
    /// # Safety
    /// The contract of callers; the event is looked at before the transport is called again.
    unsafe fn cq_poll(cq: &Self::Cq) -> Result<Option<Self::Polled<'_>>, Errno>;
    /// Sleeps until the queue may have an event for [`cq_poll`](Self::cq_poll), for at most `milliseconds`; may wake up
    /// for nothing. `fi_cq_sread`.
    ///
    /// # Errors
    /// One of the queue itself; `ENOSYS` if it was opened with nothing to sleep on.
    ///
    /// # Safety
    /// The contract of callers; `cq_poll` has just found the queue empty.
    unsafe fn cq_sleep(cq: &Self::Cq, milliseconds: i32) -> Result<(), Errno>;
    /// The file descriptor that is readable when the queue may have an event; `fi_control` with `FI_GETWAIT`.
    ///
    /// # Errors
    /// `ENOSYS` if it was opened without one.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_wait_fd(cq: &Self::Cq) -> Result<c_int, Errno>;
    /// Whether nothing is lost by sleeping on the file descriptor now; `fi_trywait`.
    ///
    /// # Errors
    /// One of the queue itself; `ENOSYS` if it was opened without a file descriptor.
    ///
    /// # Safety
    /// The contract of callers; the domain of the queue is `domain`.
    unsafe fn cq_may_sleep(domain: &Self::Domain, cq: &Self::Cq) -> Result<bool, Errno>;
    /// Returns `true` if the queue cannot be slept on any more, because one of its endpoints was closed. Then the file descriptor does
    /// not report every event, [`cq_sleep`](Self::cq_sleep) polls once a millisecond, and [`cq_may_sleep`](Self::cq_may_sleep)
    /// waits a millisecond and returns `false`.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_naps(cq: &Self::Cq) -> bool {
        let _ = cq;
        false
    }
    /// `fi_cq_readerr`: the event of an operation that failed, after [`cq_poll`](Self::cq_poll) said so.
    ///
    /// # Errors
    /// One of the queue itself.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_read_error(cq: &Self::Cq) -> Result<Option<Event>, Errno>;
    /// `fi_cq_strerror`: writes the provider's text for its own error number, and returns how many bytes it wrote.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_error_text(cq: &Self::Cq, provider_errno: i32, out: &mut [u8]) -> usize;
    /// Writes the data that the provider gave with the last event of [`cq_read_error`](Self::cq_read_error) (`err_data`), and returns
    /// how many bytes it wrote.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cq_error_data(cq: &Self::Cq, out: &mut [u8]) -> usize {
        let _ = (cq, out);
        0
    }
}
