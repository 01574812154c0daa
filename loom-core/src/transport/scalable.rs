//! [`Scalable`]: transports whose endpoints have several transmit and receive contexts.

use super::{EndpointError, Transport};
use crate::vocabulary::{Attributes, Counted, EndpointAddr, Errno, OptionValue};

/// How many contexts a scalable endpoint has of each kind.
///
/// ```
/// use loom_core::transport::scalable::Contexts;
/// use loom_core::vocabulary::DomainAttributes;
///
/// /// A context for each queue, or as many as the domain grants.
/// fn contexts(granted: &DomainAttributes, queues: u16) -> Contexts {
///     let of = |most: usize| u16::try_from(most).map_or(queues, |most| most.min(queues));
///     Contexts { tx: of(granted.max_ep_tx_ctx), rx: of(granted.max_ep_rx_ctx) }
/// }
///
/// let granted = DomainAttributes { max_ep_tx_ctx: 64, max_ep_rx_ctx: 2, ..DomainAttributes::UNSPEC };
/// assert_eq!(contexts(&granted, 4), Contexts { tx: 4, rx: 2 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// Transmit contexts.
    #[doc(alias = "tx_ctx_cnt")]
    pub tx: u16,
    /// Receive contexts.
    #[doc(alias = "rx_ctx_cnt")]
    pub rx: u16,
}

/// What a context is bound to before it is enabled.
#[derive(Debug)]
pub struct ContextBindings<'a, T: Transport> {
    /// Where it completes.
    pub cq: &'a T::Cq,
    /// What counts its operations, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// Options that are set before it is enabled, by number.
    pub options: &'a [(u32, OptionValue)],
}

/// A transport with scalable endpoints: one address, and contexts that post and complete apart from each other.
///
/// A context is an [`Endpoint`](super::Endpoints::Endpoint) for the operations of its direction, and is closed as one.
///
/// # Contract of callers
///
/// [C1 to C18, and C25 to C27](super#contract-of-callers).
///
/// # Safety
///
/// Implementations promise what [`Transport`] does, and [P14 and P15](super#promises-of-implementations).
pub unsafe trait Scalable: Transport {
    /// `fid_ep` of a scalable endpoint. Whether it is `Sync` is the transport's threading level.
    type ScalableEndpoint;

    /// Whether the contexts of one scalable endpoint need no more serialisation than this transport type gives them.
    fn serves_contexts(attributes: &Attributes) -> bool;

    /// [`av_open`](super::AddressVectors::av_open) with this number of bits of each address for the number of a receive context (`rx_ctx_bits`).
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn av_open_for_contexts(domain: &Self::Domain, capacity: usize, rx_ctx_bits: u8) -> Result<Self::Av, Errno>;

    /// `fi_scalable_ep`, `fi_scalable_ep_bind` and `fi_enable`. On error nothing is left open, or the error says so.
    ///
    /// # Safety
    /// The contract of callers; the vector belongs to `domain`.
    unsafe fn scalable_open(
        domain: &Self::Domain,
        info: &Self::Info,
        av: &Self::Av,
        contexts: Contexts,
    ) -> Result<Self::ScalableEndpoint, EndpointError>;
    /// `fi_close` of a scalable endpoint.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn scalable_close(endpoint: &Self::ScalableEndpoint) -> Result<(), Errno>;
    /// `fi_getname`
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn scalable_address(endpoint: &Self::ScalableEndpoint) -> Result<EndpointAddr, Errno>;
    /// Whether a write may be injected through its transmit contexts: there are providers that could not close them any more.
    fn injects_writes(endpoint: &Self::ScalableEndpoint) -> bool;

    /// `fi_tx_context`, `fi_ep_bind` and `fi_enable`: the transmit context of this number, which completes into `tx`. On error
    /// nothing is left open, or the error says so.
    ///
    /// # Errors
    /// `EBUSY` if it is open already, `EINVAL` if there is none of that number.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn tx_context_open(
        endpoint: &Self::ScalableEndpoint,
        index: u16,
        bind: ContextBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_rx_context`, `fi_ep_bind` and `fi_enable`, as [`tx_context_open`](Self::tx_context_open).
    ///
    /// # Errors
    /// As [`tx_context_open`](Self::tx_context_open).
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn rx_context_open(
        endpoint: &Self::ScalableEndpoint,
        index: u16,
        bind: ContextBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
}
