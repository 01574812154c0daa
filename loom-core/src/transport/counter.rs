//! [`Counters`]: how many operations have ended.

use core::ffi::c_int;

use super::Fabrics;
use crate::vocabulary::{Errno, WaitObj};

/// How a counter is opened.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::vocabulary::WaitObj;
/// use loom_core::{Counter, CounterAttr, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// // With something to sleep on, where the provider has that.
/// let slept_on = Counter::open(&domain, CounterAttr { wait: WaitObj::FD });
/// let counter = slept_on.or_else(|_| Counter::open(&domain, CounterAttr::default()))?;
/// assert!(counter.wait_fd().is_err(), "software has nothing to sleep on for counters");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
#[doc(alias = "fi_cntr_attr")]
pub struct CounterAttr {
    /// What to sleep on until a number is reached.
    #[doc(alias = "wait_obj")]
    pub wait: WaitObj,
}

/// How waiting for a counter has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterWait {
    /// The number is reached.
    Reached,
    /// The time is over.
    TimeIsOver,
    /// An operation has failed meanwhile.
    OperationFailed,
}

/// Counters of operations.
///
/// # Safety
/// As [`Transport`](super::Transport).
pub unsafe trait Counters: Fabrics {
    /// `fid_cntr`. The thread that closes the last region which is bound to it may close it.
    type Counter: Send;

    /// `fi_cntr_open`, at zero.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_open(domain: &Self::Domain, attr: CounterAttr) -> Result<Self::Counter, Errno>;
    /// `fi_close` of a counter.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_close(counter: &Self::Counter) -> Result<(), Errno>;
    /// `fi_cntr_read`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_read(counter: &Self::Counter) -> Result<u64, Errno>;
    /// `fi_cntr_readerr`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_read_error(counter: &Self::Counter) -> Result<u64, Errno>;
    /// `fi_cntr_add`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_add(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_adderr`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_add_error(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_set`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_set(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_seterr`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_set_error(counter: &Self::Counter, value: u64) -> Result<(), Errno>;
    /// `fi_cntr_wait`, for at most `milliseconds`.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers; the counter was opened with something to sleep on.
    unsafe fn counter_wait(counter: &Self::Counter, threshold: u64, milliseconds: i32) -> Result<CounterWait, Errno>;
    /// The file descriptor that is readable when the counter has changed; `fi_control` with `FI_GETWAIT`.
    ///
    /// # Safety
    /// The contract of callers; the counter was opened with one.
    unsafe fn counter_wait_fd(counter: &Self::Counter) -> Result<c_int, Errno>;
    /// Whether nothing is lost by sleeping on the file descriptor now; `fi_trywait`.
    ///
    /// # Safety
    /// The contract of callers; the counter was opened with one, on `domain`.
    unsafe fn counter_may_sleep(domain: &Self::Domain, counter: &Self::Counter) -> Result<bool, Errno>;
    /// Returns `true` if the counter cannot be slept on any more, because one of its endpoints was closed. Then
    /// [`counter_wait`](Self::counter_wait) polls once a millisecond, and [`counter_may_sleep`](Self::counter_may_sleep) waits a
    /// millisecond and returns `false`.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn counter_naps(counter: &Self::Counter) -> bool {
        let _ = counter;
        false
    }
}
