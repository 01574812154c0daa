//! What an `fi_info` says in numbers.
//!
//! The fields have the names of the C structures; what is a pointer there (names, addresses, keys) is not here. Zero in
//! hints means "no demand"; sizes are in bytes, counts in objects or operations.

use super::{
    AddressFormat, AvType, Caps, CompOrder, EndpointType, Mode, MrMode, MsgOrder, OpFlags, Progress, Protocol,
    ResourceMgmt, Threading, TrafficClass, Version,
};

/// The numbers of an `fi_info`: what is asked for in hints, or what a provider grants.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::Domain;
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let attributes = domain.attributes();
/// // The provider grants a number of operations in flight, a message size, and ranges per operation.
/// assert!(attributes.tx.size > 0 && attributes.endpoint.max_msg_size > 0 && attributes.tx.iov_limit > 0);
/// println!("{} {}", attributes.endpoint.kind, attributes.caps);
/// # }
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
    /// Version of the interface that was asked for (`fi_fabric_attr`).
    #[doc(alias = "fi_fabric_attr")]
    pub api_version: Version,
    /// Version of the provider (`fi_fabric_attr`).
    #[doc(alias = "prov_version")]
    pub provider_version: Version,
}

/// Attributes of an endpoint.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::Hints;
/// use loom_core::vocabulary::{EndpointAttributes, EndpointType};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// let hints = Hints { endpoint_attr: EndpointAttributes::of(EndpointType::RDM), ..Hints::default() };
/// let info = network.query(&hints)?;
/// assert_eq!(info.attributes().endpoint.kind, EndpointType::RDM);
/// # }
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
    /// Version of the protocol, as its provider counts.
    pub protocol_version: u32,
    /// Longest message or RMA operation, in bytes.
    pub max_msg_size: usize,
    /// Room that [`Mode::MSG_PREFIX`] asks for at the start of a message buffer, in bytes.
    pub msg_prefix_size: usize,
    /// Longest transfer for which read-after-write order holds, in bytes.
    pub max_order_raw_size: usize,
    /// Longest transfer for which write-after-read order holds, in bytes.
    pub max_order_war_size: usize,
    /// Longest transfer for which write-after-write order holds, in bytes.
    pub max_order_waw_size: usize,
    /// Format of tags: the fields that the provider tells apart are runs of equal bits.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::hexadecimal"))]
    pub mem_tag_format: u64,
    /// Transmit contexts of a scalable endpoint; `usize::MAX` stands for a shared context.
    pub tx_ctx_cnt: usize,
    /// Receive contexts of a scalable endpoint; `usize::MAX` stands for a shared context.
    pub rx_ctx_cnt: usize,
}

impl EndpointAttributes {
    /// No demand: what [`Default`] makes, for constants.
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

    /// For hints: this kind of endpoint, and no demand beyond.
    #[must_use]
    pub const fn of(kind: EndpointType) -> Self {
        EndpointAttributes { kind, ..Self::UNSPEC }
    }
}

/// Attributes of the transmit side of an endpoint.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::Hints;
/// use loom_core::vocabulary::TxAttributes;
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// // The program injects up to 64 bytes.
/// let hints = Hints { tx_attr: TxAttributes { inject_size: 64, ..TxAttributes::UNSPEC }, ..Hints::default() };
/// let info = network.query(&hints)?;
/// assert!(info.attributes().tx.inject_size >= 64);
/// # }
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
    /// Flags of operations that name none.
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
    /// No demand: what [`Default`] makes, for constants.
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
/// # #[cfg(feature = "std")] {
/// use loom_core::Hints;
/// use loom_core::vocabulary::RxAttributes;
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// // The program keeps up to 32 receives posted, each into two buffers.
/// let rx_attr = RxAttributes { size: 32, iov_limit: 2, ..RxAttributes::UNSPEC };
/// let info = network.query(&Hints { rx_attr, ..Hints::default() })?;
/// assert!(info.attributes().rx.size >= 32);
/// # }
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
    /// Flags of operations that name none.
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
    /// No demand: what [`Default`] makes, for constants.
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
/// # #[cfg(feature = "std")] {
/// use loom_core::Hints;
/// use loom_core::vocabulary::DomainAttributes;
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// // The program has 4 endpoints, and sends immediate data of 8 bytes.
/// let domain_attr = DomainAttributes { ep_cnt: 4, cq_data_size: 8, ..DomainAttributes::UNSPEC };
/// let hints = Hints { domain_attr, ..Hints::default() };
/// let info = network.query(&hints)?;
/// assert_eq!(info.attributes().domain.cq_data_size, 8);
/// # }
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
    /// Which calls must not run at the same time.
    pub threading: Threading,
    /// Who drives connections, address vectors and the like.
    pub control_progress: Progress,
    /// Who drives transfers.
    pub data_progress: Progress,
    /// Who prevents queues from overflowing.
    pub resource_mgmt: ResourceMgmt,
    /// How address vectors number their addresses.
    pub av_type: AvType,
    /// How memory must be registered.
    pub mr_mode: MrMode,
    /// Size of a memory key, in bytes.
    pub mr_key_size: usize,
    /// Size of immediate data, in bytes; zero when there is none.
    pub cq_data_size: usize,
    /// Completion queues, as a hint for their best number.
    pub cq_cnt: usize,
    /// Endpoints, as a hint for their best number.
    pub ep_cnt: usize,
    /// Transmit contexts, as a hint for their best number.
    pub tx_ctx_cnt: usize,
    /// Receive contexts, as a hint for their best number.
    pub rx_ctx_cnt: usize,
    /// Transmit contexts of one endpoint, at most.
    pub max_ep_tx_ctx: usize,
    /// Receive contexts of one endpoint, at most.
    pub max_ep_rx_ctx: usize,
    /// Endpoints that share one transmit context, at most.
    pub max_ep_stx_ctx: usize,
    /// Endpoints that share one receive context, at most.
    pub max_ep_srx_ctx: usize,
    /// Counters, as a hint for their best number.
    pub cntr_cnt: usize,
    /// Buffers in one registration.
    pub mr_iov_limit: usize,
    /// Capabilities of the domain.
    pub caps: Caps,
    /// Demands of the domain.
    pub mode: Mode,
    /// Length of the provider's data in a completion error, at most, in bytes.
    pub max_err_data: usize,
    /// Memory regions, as a hint for their best number.
    pub mr_cnt: usize,
    /// Traffic class of endpoints that ask for none.
    pub tclass: TrafficClass,
    /// Authorization keys of one endpoint, at most; zero where the library has no such field (before 1.20).
    pub max_ep_auth_key: usize,
    /// Highest number of a group of peers; zero where the library has no such field (libfabric 1).
    pub max_group_id: u32,
}

impl DomainAttributes {
    /// No demand: what [`Default`] makes, for constants.
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
