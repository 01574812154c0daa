//! Numeric attributes of an `fi_info`.
//!
//! Fields have the names of the C structures. Zero in hints means "no demand". Sizes are in bytes,
//! counts in objects or operations.

use super::{
    AddressFormat, AvType, Caps, CompOrder, EndpointType, Mode, MrMode, MsgOrder, OpFlags, Progress, Protocol,
    ResourceMgmt, Threading, TrafficClass, Version,
};

/// Numbers of an `fi_info`: requested in hints, or granted by a provider.
///
/// ```
/// # fixture::domain!(network, domain);
/// let attributes = domain.attributes();
/// // The provider grants a number of operations in flight, a message size, and ranges per operation.
/// assert!(attributes.tx.size > 0 && attributes.endpoint.max_msg_size > 0 && attributes.tx.iov_limit > 0);
/// println!("{} {}", attributes.endpoint.kind, attributes.caps);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_getinfo(3)`
#[doc(alias = "fi_info")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Attributes {
    /// Capabilities.
    pub caps: Caps,
    /// Demands on the user.
    pub mode: Mode,
    /// Format of the addresses.
    pub addr_format: AddressFormat,
    /// The endpoint.
    #[doc(alias = "ep_attr")]
    pub endpoint: EndpointAttributes,
    /// The transmit side of the endpoint.
    #[doc(alias = "tx_attr")]
    pub tx: TxAttributes,
    /// The receive side of the endpoint.
    #[doc(alias = "rx_attr")]
    pub rx: RxAttributes,
    /// The domain.
    #[doc(alias = "domain_attr")]
    pub domain: DomainAttributes,
    /// Requested version of the interface (`fi_fabric_attr`).
    #[doc(alias = "fi_fabric_attr")]
    pub api_version: Version,
    /// Version of the provider (`fi_fabric_attr`).
    #[doc(alias = "prov_version")]
    pub provider_version: Version,
}

/// Attributes of an endpoint.
///
/// ```
/// use loom_core::{EndpointAttributes, EndpointType, Hints};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// let hints = Hints { endpoint_attr: EndpointAttributes::of(EndpointType::RDM), ..Hints::default() };
/// let info = network.query(&hints)?;
/// assert_eq!(info.attributes().endpoint.kind, EndpointType::RDM);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_endpoint(3)`, section *Endpoint attributes*
#[doc(alias = "fi_ep_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct EndpointAttributes {
    /// Kind of the endpoint (`type` in C).
    #[doc(alias = "type")]
    pub kind: EndpointType,
    /// Protocol on the wire.
    pub protocol: Protocol,
    /// Version of the protocol, as numbered by its provider.
    pub protocol_version: u32,
    /// Longest message or RMA operation, in bytes.
    pub max_msg_size: usize,
    /// Prefix of message buffers that [`Mode::MSG_PREFIX`] requires, in bytes.
    pub msg_prefix_size: usize,
    /// Longest transfer with read-after-write order, in bytes.
    pub max_order_raw_size: usize,
    /// Longest transfer with write-after-read order, in bytes.
    pub max_order_war_size: usize,
    /// Longest transfer with write-after-write order, in bytes.
    pub max_order_waw_size: usize,
    /// Format of tags. Runs of equal bits are the fields that the provider distinguishes.
    #[cfg_attr(feature = "serde", serde(with = "crate::util::serial::hexadecimal"))]
    pub mem_tag_format: u64,
    /// Transmit contexts of a scalable endpoint. `usize::MAX` is a shared context.
    pub tx_ctx_cnt: usize,
    /// Receive contexts of a scalable endpoint. `usize::MAX` is a shared context.
    pub rx_ctx_cnt: usize,
}

impl EndpointAttributes {
    /// No demand: the [`Default`], for constants.
    pub const UNSPEC: Self = Self {
        kind: EndpointType::UNSPEC,
        protocol: Protocol::UNSPEC,
        protocol_version: 0,
        max_msg_size: 0,
        msg_prefix_size: 0,
        max_order_raw_size: 0,
        max_order_war_size: 0,
        max_order_waw_size: 0,
        mem_tag_format: 0,
        tx_ctx_cnt: 0,
        rx_ctx_cnt: 0,
    };

    /// Hints for this kind of endpoint without other demands.
    #[must_use]
    pub const fn of(kind: EndpointType) -> Self {
        EndpointAttributes { kind, ..Self::UNSPEC }
    }
}

/// Attributes of the transmit side of an endpoint.
///
/// ```
/// use loom_core::{Hints, vocabulary::TxAttributes};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// // The program injects up to 64 bytes.
/// let hints = Hints { tx_attr: TxAttributes { inject_size: 64, ..TxAttributes::UNSPEC }, ..Hints::default() };
/// let info = network.query(&hints)?;
/// assert!(info.attributes().tx.inject_size >= 64);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_endpoint(3)`, section *Transmit context attributes*
#[doc(alias = "fi_tx_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct TxAttributes {
    /// Capabilities.
    pub caps: Caps,
    /// Demands on the user.
    pub mode: Mode,
    /// Default flags of operations.
    pub op_flags: OpFlags,
    /// Order of operations.
    pub msg_order: MsgOrder,
    /// Order of completions.
    pub comp_order: CompOrder,
    /// Longest buffer that may be injected, in bytes.
    pub inject_size: usize,
    /// Operations that may be in flight.
    pub size: usize,
    /// Local buffers in one operation.
    pub iov_limit: usize,
    /// Remote buffers in one RMA operation.
    pub rma_iov_limit: usize,
    /// Traffic class.
    pub tclass: TrafficClass,
}

impl TxAttributes {
    /// No demand: the [`Default`], for constants.
    pub const UNSPEC: Self = Self {
        caps: Caps::empty(),
        mode: Mode::empty(),
        op_flags: OpFlags::empty(),
        msg_order: MsgOrder::empty(),
        comp_order: CompOrder::empty(),
        inject_size: 0,
        size: 0,
        iov_limit: 0,
        rma_iov_limit: 0,
        tclass: TrafficClass::UNSPEC,
    };
}

/// Attributes of the receive side of an endpoint.
///
/// ```
/// use loom_core::{Hints, vocabulary::RxAttributes};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// // The program keeps up to 32 receives posted, each into two buffers.
/// let rx_attr = RxAttributes { size: 32, iov_limit: 2, ..RxAttributes::UNSPEC };
/// let info = network.query(&Hints { rx_attr, ..Hints::default() })?;
/// assert!(info.attributes().rx.size >= 32);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_endpoint(3)`, section *Receive context attributes*
#[doc(alias = "fi_rx_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct RxAttributes {
    /// Capabilities.
    pub caps: Caps,
    /// Demands on the user.
    pub mode: Mode,
    /// Default flags of operations.
    pub op_flags: OpFlags,
    /// Order of operations.
    pub msg_order: MsgOrder,
    /// Order of completions.
    pub comp_order: CompOrder,
    /// Room for messages that arrive before their buffer, in bytes.
    pub total_buffered_recv: usize,
    /// Receives that may be posted.
    pub size: usize,
    /// Local buffers in one operation.
    pub iov_limit: usize,
}

impl RxAttributes {
    /// No demand: the [`Default`], for constants.
    pub const UNSPEC: Self = Self {
        caps: Caps::empty(),
        mode: Mode::empty(),
        op_flags: OpFlags::empty(),
        msg_order: MsgOrder::empty(),
        comp_order: CompOrder::empty(),
        total_buffered_recv: 0,
        size: 0,
        iov_limit: 0,
    };
}

/// Attributes of a domain.
///
/// ```
/// use loom_core::{Hints, vocabulary::DomainAttributes};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// // The program has 4 endpoints, and sends immediate data of 8 bytes.
/// let domain_attr = DomainAttributes { ep_cnt: 4, cq_data_size: 8, ..DomainAttributes::UNSPEC };
/// let hints = Hints { domain_attr, ..Hints::default() };
/// let info = network.query(&hints)?;
/// assert_eq!(info.attributes().domain.cq_data_size, 8);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_domain(3)`, section *Domain attributes*
#[doc(alias = "fi_domain_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct DomainAttributes {
    /// Calls that must not run at the same time.
    pub threading: Threading,
    /// Driver of connections, address vectors and the like.
    pub control_progress: Progress,
    /// Driver of transfers.
    pub data_progress: Progress,
    /// Protection of queues from overflowing.
    pub resource_mgmt: ResourceMgmt,
    /// Numbering of addresses in address vectors.
    pub av_type: AvType,
    /// Requirements on memory registration.
    pub mr_mode: MrMode,
    /// Size of a memory key, in bytes.
    pub mr_key_size: usize,
    /// Size of immediate data in bytes, zero if unsupported.
    pub cq_data_size: usize,
    /// Optimal number of completion queues (a hint).
    pub cq_cnt: usize,
    /// Optimal number of endpoints (a hint).
    pub ep_cnt: usize,
    /// Optimal number of transmit contexts (a hint).
    pub tx_ctx_cnt: usize,
    /// Optimal number of receive contexts (a hint).
    pub rx_ctx_cnt: usize,
    /// Maximum transmit contexts of one endpoint.
    pub max_ep_tx_ctx: usize,
    /// Maximum receive contexts of one endpoint.
    pub max_ep_rx_ctx: usize,
    /// Maximum endpoints that share one transmit context.
    pub max_ep_stx_ctx: usize,
    /// Maximum endpoints that share one receive context.
    pub max_ep_srx_ctx: usize,
    /// Optimal number of counters (a hint).
    pub cntr_cnt: usize,
    /// Buffers in one registration.
    pub mr_iov_limit: usize,
    /// Capabilities of the domain.
    pub caps: Caps,
    /// Demands of the domain.
    pub mode: Mode,
    /// Maximum length of the provider's data in a completion error, in bytes.
    pub max_err_data: usize,
    /// Optimal number of memory regions (a hint).
    pub mr_cnt: usize,
    /// Default traffic class of endpoints.
    pub tclass: TrafficClass,
    /// Maximum authorization keys of one endpoint. Zero if the library lacks the field (before
    /// 1.20).
    pub max_ep_auth_key: usize,
    /// Highest number of a group of peers. Zero if the library lacks the field (libfabric 1).
    pub max_group_id: u32,
}

impl DomainAttributes {
    /// No demand: the [`Default`], for constants.
    pub const UNSPEC: Self = Self {
        threading: Threading::UNSPEC,
        control_progress: Progress::UNSPEC,
        data_progress: Progress::UNSPEC,
        resource_mgmt: ResourceMgmt::UNSPEC,
        av_type: AvType::UNSPEC,
        mr_mode: MrMode::empty(),
        mr_key_size: 0,
        cq_data_size: 0,
        cq_cnt: 0,
        ep_cnt: 0,
        tx_ctx_cnt: 0,
        rx_ctx_cnt: 0,
        max_ep_tx_ctx: 0,
        max_ep_rx_ctx: 0,
        max_ep_stx_ctx: 0,
        max_ep_srx_ctx: 0,
        cntr_cnt: 0,
        mr_iov_limit: 0,
        caps: Caps::empty(),
        mode: Mode::empty(),
        max_err_data: 0,
        mr_cnt: 0,
        tclass: TrafficClass::UNSPEC,
        max_ep_auth_key: 0,
        max_group_id: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_demanded_by_default() {
        let hints = Attributes::default();
        assert_eq!(hints.caps, Caps::empty());
        assert_eq!(hints.addr_format, AddressFormat::UNSPEC);
        assert_eq!(hints.endpoint.kind, EndpointType::UNSPEC);
        assert_eq!(hints.tx.msg_order, MsgOrder::NONE);
        assert_eq!(hints.rx.size, 0);
        assert_eq!(hints.domain.mr_mode, MrMode::empty());
        assert_eq!(hints.api_version, Version::new(0, 0));
        assert_eq!(EndpointAttributes::UNSPEC, EndpointAttributes::default());
        assert_eq!(TxAttributes::UNSPEC, TxAttributes::default());
        assert_eq!(RxAttributes::UNSPEC, RxAttributes::default());
        assert_eq!(DomainAttributes::UNSPEC, DomainAttributes::default());
    }

    #[test]
    fn unknown_numbers_travel_in_attributes() {
        let granted = Attributes {
            caps: Caps::from_bits_retain(1 << 62),
            domain: DomainAttributes { threading: Threading::from_raw(99), ..DomainAttributes::default() },
            ..Attributes::default()
        };
        let copy = granted;
        assert_eq!(copy, granted);
        assert_eq!(copy.caps.bits(), 1 << 62);
        assert_eq!(copy.domain.threading.as_raw(), 99);
    }
}
