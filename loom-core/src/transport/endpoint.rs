use super::{AddressVectors, CompletionQueues, Context, Counters};
use crate::vocabulary::{Counted, EndpointAddr, Errno, OptionValue};

/// Failure to open an endpoint.
///
/// ```
/// use loom_core::{Errno, transport::EndpointError};
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
    /// Cause.
    pub errno: Errno,
    /// The provider failed to close what it had opened. The objects that the endpoint is bound to
    /// must stay open for ever.
    pub left_open: bool,
}

impl From<Errno> for EndpointError {
    fn from(errno: Errno) -> Self {
        EndpointError { errno, left_open: false }
    }
}

/// Result of closing an endpoint.
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
    /// The endpoint is closed.
    Closed,
    /// The provider cannot close the endpoint safely yet: receives or reads are in flight, or
    /// closing would harm endpoints that have talked to it. The caller posts no more operations,
    /// and may retry closing.
    Retired,
    /// The endpoint was left (`endpoint_leave`): its queues are not polled and its counters not
    /// used any more, and memory lent through it is not touched.
    Left,
}

/// Operations in flight on an endpoint to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Number of receives.
    pub receives: usize,
    /// Bytes of the longest read.
    pub longest_read: usize,
    /// Bytes of the longest truncated message in the endpoint's lifetime, or the maximum if
    /// unknown.
    pub longest_truncated: usize,
    /// Sends, writes and reads, where an endpoint cannot be closed with them in flight
    /// ([`ProviderQuirks::close_with_sends`](super::ProviderQuirks::close_with_sends)), and on
    /// transmit contexts of scalable endpoints. Such reads count only here. Zero elsewhere.
    pub transmits: usize,
}

impl InFlight {
    /// An endpoint without operations in flight.
    pub const NOTHING: InFlight = InFlight { receives: 0, longest_read: 0, longest_truncated: 0, transmits: 0 };
}

/// Objects and options of an endpoint, bound before it is enabled.
#[derive(Debug)]
pub struct Bindings<'a, T: Endpoints> {
    /// Queue of transmit completions.
    pub tx: &'a T::Cq,
    /// Queue of receive completions and peers' events, possibly `tx`.
    pub rx: &'a T::Cq,
    /// Vector of peers' addresses.
    pub av: &'a T::Av,
    /// Counters of its operations, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// `true` if sends, reads and writes posted as a [`Msg`](super::Msg) report success only with
    /// the flag `COMPLETION`.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    pub selective: bool,
    /// Options by number, set before the endpoint is enabled.
    pub options: &'a [(u32, OptionValue)],
}

/// Endpoints without connections, and functions of all endpoints.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
pub unsafe trait Endpoints: AddressVectors + CompletionQueues + Counters {
    /// `fid_ep`
    type Endpoint;

    /// `fi_endpoint`, `fi_ep_bind` and `fi_enable` in the required order.
    ///
    /// # Safety
    /// Contract of callers. Every object in `bind` belongs to `domain`.
    unsafe fn endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_close` of an endpoint.
    ///
    /// # Safety
    /// Contract of callers. `in_flight` is accurate.
    unsafe fn endpoint_close(endpoint: &Self::Endpoint, in_flight: InFlight) -> Result<Closing, Errno>;
    /// Announces that no call drives a retired endpoint any more, by its queues or counters, until
    /// `endpoint_close` retires it again or, without operations in flight, for good. Returns `true`
    /// if the provider still drives the endpoint together with others of its domain. Then peers
    /// still reach the domain's memory through it.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn endpoint_leave(endpoint: &Self::Endpoint, for_good: bool) -> bool;
    /// `fi_getname`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn endpoint_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno>;
    /// `fi_getopt` of an option with this number and the type of `kind`.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn endpoint_option(endpoint: &Self::Endpoint, option: u32, kind: OptionValue) -> Result<OptionValue, Errno>;
    /// `fi_setopt`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn endpoint_set_option(endpoint: &Self::Endpoint, option: u32, value: OptionValue) -> Result<(), Errno>;
    /// `fi_cancel`: requests the end of the operation. Its event is still reported.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn cancel(endpoint: &Self::Endpoint, context: Context) -> Result<(), Errno>;
}
