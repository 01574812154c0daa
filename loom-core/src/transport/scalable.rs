//! [`Scalable`]: transports with endpoints of several transmit and receive contexts.

use super::{EndpointError, Transport};
use crate::vocabulary::{Attributes, Counted, EndpointAddr, Errno, OptionValue};

/// Numbers of contexts of a scalable endpoint.
///
/// ```
/// use loom_core::{transport::scalable::Contexts, vocabulary::DomainAttributes};
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

/// Objects and options of a context, bound before it is enabled.
#[derive(Debug)]
pub struct ContextBindings<'a, T: Transport> {
    /// Queue of its completions.
    pub cq: &'a T::Cq,
    /// Counters of its operations, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// Options by number, set before the context is enabled.
    pub options: &'a [(u32, OptionValue)],
}

/// Transport with scalable endpoints.
///
/// # Contract of callers
///
/// [H1 to H4, T1, T2, N1, N2, L1 to L4, O1 to O3, M1 to M3, and S1, S2,
/// T4](super#contract-of-callers).
///
/// # Safety
///
/// The promises of [`Transport`], and [P15 and P16](super#promises-of-implementations).
pub unsafe trait Scalable: Transport {
    /// `fid_ep` of a scalable endpoint.
    type ScalableEndpoint;

    /// Returns `true` if this transport type's serialisation suffices for several contexts.
    fn serves_contexts(attributes: &Attributes) -> bool;

    /// `fi_scalable_ep`, `fi_scalable_ep_bind` and `fi_enable`.
    ///
    /// # Safety
    /// Contract of callers. The vector belongs to `domain`.
    unsafe fn scalable_open(
        domain: &Self::Domain,
        info: &Self::Info,
        av: &Self::Av,
        contexts: Contexts,
    ) -> Result<Self::ScalableEndpoint, EndpointError>;
    /// `fi_close` of a scalable endpoint.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn scalable_close(endpoint: &Self::ScalableEndpoint) -> Result<(), Errno>;
    /// `fi_getname`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn scalable_address(endpoint: &Self::ScalableEndpoint) -> Result<EndpointAddr, Errno>;
    /// Returns `true` if writes may be injected through its transmit contexts.
    fn injects_writes(endpoint: &Self::ScalableEndpoint) -> bool;

    /// `fi_tx_context`, `fi_ep_bind` and `fi_enable` of the transmit context with this number,
    /// which completes into `tx`.
    ///
    /// # Errors
    /// `EBUSY` if the context is open already, `EINVAL` if the number is out of range.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn tx_context_open(
        endpoint: &Self::ScalableEndpoint,
        index: u16,
        bind: ContextBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
    /// `fi_rx_context`, `fi_ep_bind` and `fi_enable`, like
    /// [`tx_context_open`](Self::tx_context_open).
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn rx_context_open(
        endpoint: &Self::ScalableEndpoint,
        index: u16,
        bind: ContextBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError>;
}
