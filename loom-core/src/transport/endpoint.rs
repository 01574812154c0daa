//! [`Endpoints`]: what operations are posted on.

use core::fmt;

use super::{AddressVectors, CompletionQueues, Context, Counters};
use crate::vocabulary::{Counted, EndpointAddr, Errno, OptionValue};

/// Why an endpoint was not opened.
///
/// ```
/// use loom_core::Errno;
/// use loom_core::transport::EndpointError;
///
/// /// What a transport returns that has closed what it opened; or has not.
/// fn open(enabled: Result<(), Errno>, closed: bool) -> Result<(), EndpointError> {
///     enabled.map_err(|errno| EndpointError { errno, left_open: !closed })
/// }
///
/// assert_eq!(open(Err(Errno::ENOMEM), true), Err(Errno::ENOMEM.into()));
/// assert!(open(Err(Errno::ENOMEM), false).is_err_and(|error| error.left_open));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointError {
    /// The reason.
    pub errno: Errno,
    /// The provider failed to close again what was opened before the failure: what the endpoint is bound to must stay
    /// open for ever.
    pub left_open: bool,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errno.fmt(f)?;
        if self.left_open { f.write_str("; what was opened before the failure is still open") } else { Ok(()) }
    }
}

impl core::error::Error for EndpointError {}

impl From<Errno> for EndpointError {
    /// A failure which left nothing open.
    fn from(errno: Errno) -> Self {
        EndpointError { errno, left_open: false }
    }
}

/// What became of an endpoint that was to be closed.
///
/// ```
/// use loom_core::transport::{Closing, InFlight};
///
/// /// What a transport does whose provider does not survive closing in the middle of a receive.
/// fn close(in_flight: InFlight) -> Closing {
///     if in_flight.receives > 0 { Closing::Retired } else { Closing::Closed }
/// }
///
/// assert_eq!(close(InFlight { receives: 1, ..InFlight::NOTHING }), Closing::Retired);
/// assert_eq!(close(InFlight { transmits: 1, ..InFlight::NOTHING }), Closing::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a retired endpoint still has what was lent through it"]
pub enum Closing {
    /// It is closed: nothing that was lent through it is touched any more.
    Closed,
    /// It is still open, because the provider cannot close it safely for now: receives or reads are under way, or other
    /// endpoints would be hurt that have talked to it. Its operations go on and end like others; nothing new is posted on
    /// it. Closing may be tried again.
    Retired,
    /// Its queues are not polled any more, nor its counters used (`endpoint_leave`), and nothing that was lent through it is
    /// touched; but the provider cannot close it, and so not what it is bound to.
    Left,
}

/// What is in flight on an endpoint that is to be closed and that not every provider survives or can stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Receives: there are providers that do not survive closing in the middle of one.
    pub receives: usize,
    /// Bytes of the longest read: there are providers that let the peer write into its buffer whether the endpoint is open
    /// or not.
    pub longest_read: usize,
    /// Bytes of the longest message that was truncated, as far as that is known, or else as many as there can be: there are
    /// providers that do not survive closing afterwards. Never forgotten.
    pub longest_truncated: usize,
    /// Sends, writes and reads, where an endpoint cannot be closed with them in flight
    /// ([`ProviderQuirks::close_with_sends`](super::ProviderQuirks::close_with_sends)), and on transmit contexts of scalable
    /// endpoints: there are providers that come back to them when the answer reaches another context. Such reads count here
    /// alone. Elsewhere none.
    pub transmits: usize,
}

impl InFlight {
    /// An endpoint with nothing in flight.
    pub const NOTHING: InFlight = InFlight { receives: 0, longest_read: 0, longest_truncated: 0, transmits: 0 };
}

/// What an endpoint is bound to before it is enabled.
#[derive(Debug)]
pub struct Bindings<'a, T: Endpoints> {
    /// Where transmit completions go.
    pub tx: &'a T::Cq,
    /// Where receive completions and peers' events go; the same queue as `tx`, or another.
    pub rx: &'a T::Cq,
    /// Where peers' addresses are found.
    pub av: &'a T::Av,
    /// What counts its operations, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// Whether sends, reads and writes that are posted as a [`Msg`](super::Msg) report their success only if its flags have `COMPLETION`.
    /// All others do in any case.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    pub selective: bool,
    /// Options that are set before it is enabled, by number.
    pub options: &'a [(u32, OptionValue)],
}

/// Endpoints without connections, and what is common to all.
///
/// # Safety
/// As [`Transport`](super::Transport).
pub unsafe trait Endpoints: AddressVectors + CompletionQueues + Counters {
    /// `fid_ep`
    type Endpoint;

    /// `fi_endpoint`, `fi_ep_bind` and `fi_enable` in the order that they need. On error nothing is left open, or the
    /// error says so.
    ///
    /// # Safety
    /// The contract of callers; everything in `bind` belongs to `domain`.
    unsafe fn endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_close` of an endpoint: the point after which nothing lent through it is touched.
    ///
    /// # Safety
    /// The contract of callers; `in_flight` is true.
    unsafe fn endpoint_close(endpoint: &Self::Endpoint, in_flight: InFlight) -> Result<Closing, Errno>;
    /// The queues of a retired endpoint are not polled from now on, and nothing else drives it, such as its counters: until
    /// `endpoint_close` retires it again, or, with nothing in flight on it, for good. Returns whether the provider goes on
    /// driving it all the same, with others of its domain: then peers still reach the domain's memory through it.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_leave(endpoint: &Self::Endpoint, for_good: bool) -> bool;
    /// `fi_getname`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno>;
    /// `fi_getopt`: the value of an option of this number, which has the type of `kind`.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_option(endpoint: &Self::Endpoint, option: u32, kind: OptionValue) -> Result<OptionValue, Errno>;
    /// `fi_setopt`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn endpoint_set_option(endpoint: &Self::Endpoint, option: u32, value: OptionValue) -> Result<(), Errno>;
    /// `fi_cancel`: asks for the operation to end. Its event still comes.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn cancel(endpoint: &Self::Endpoint, context: Context) -> Result<(), Errno>;
}
