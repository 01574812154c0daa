use core::ffi::c_int;

use super::Fabrics;
use crate::vocabulary::{Errno, WaitObj};

/// Attributes of a counter.
///
/// ```
/// use loom_core::{Counter, CounterAttr, WaitObj};
///
/// # fixture::domain!(network, domain);
/// // With something to sleep on, where the provider has that.
/// let slept_on = Counter::open(&domain, CounterAttr { wait: WaitObj::FD });
/// let counter = slept_on.or_else(|_| Counter::open(&domain, CounterAttr::default()))?;
/// assert!(counter.wait_fd().is_err(), "software has nothing to sleep on for counters");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[doc(alias = "fi_cntr_attr")]
pub struct CounterAttr {
    /// Object to sleep on until a number is reached.
    #[doc(alias = "wait_obj")]
    pub wait: WaitObj,
}

/// Result of waiting for a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterWait {
    /// The counter reached the number.
    Reached,
    /// The time has expired.
    TimeIsOver,
    /// An operation failed.
    OperationFailed,
}

/// Counters of operations.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
pub unsafe trait Counters: Fabrics {
    /// `fid_cntr`. The thread that closes the last region bound to the counter may close it.
    type Counter: Send;

    /// `fi_cntr_open`. The counter starts at zero.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_open(domain: &Self::Domain, attr: CounterAttr) -> Result<Self::Counter, Errno>;
    /// `fi_close` of a counter.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_close(counter: &Self::Counter) -> Result<(), Errno>;
    /// `fi_cntr_read`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_read(counter: &Self::Counter) -> Result<u64, Errno>;
    /// `fi_cntr_readerr`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_read_error(counter: &Self::Counter) -> Result<u64, Errno>;
    /// `fi_cntr_add`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_add(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_adderr`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_add_error(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_set`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_set(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_seterr`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_set_error(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_wait`, for at most `milliseconds`.
    ///
    /// # Safety
    /// Contract of callers. The counter was opened with a wait object.
    unsafe fn counter_wait(counter: &Self::Counter, threshold: u64, milliseconds: i32) -> Result<CounterWait, Errno>;
    /// `fi_control` with `FI_GETWAIT`: file descriptor, readable when the counter has changed.
    ///
    /// # Safety
    /// Contract of callers. The counter was opened with a file descriptor.
    unsafe fn counter_wait_fd(counter: &Self::Counter) -> Result<c_int, Errno>;
    /// `fi_trywait`: `true` if sleeping on the file descriptor now misses no change.
    ///
    /// # Safety
    /// Contract of callers. The counter was opened with a file descriptor, on `domain`.
    unsafe fn counter_may_sleep(domain: &Self::Domain, counter: &Self::Counter) -> Result<bool, Errno>;
    /// Returns `true` if the counter cannot be slept on any more, like
    /// [`cq_naps`](super::CompletionQueues::cq_naps).
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn counter_naps(counter: &Self::Counter) -> bool {
        let _ = counter;
        false
    }
}
