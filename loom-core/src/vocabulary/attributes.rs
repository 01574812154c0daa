//! Fields have the names of the C structures. Sizes are in bytes.

use super::{
    AddressFormat, AvType, Caps, CompOrder, EndpointType, Mode, MrMode, MsgOrder, OpFlags, Progress, Protocol,
    ResourceMgmt, Threading, TrafficClass, Version,
};

/// Numbers of an `fi_info`: requested in hints, or granted by a provider.
///
/// ```
/// # fixture::domain!(network, domain);
/// let attributes = domain.info().attributes();
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

/// Attributes that demand nothing by default.
macro_rules! attributes {
    (
        $(#[$meta:meta])*
        pub struct $Type:ident { $($(#[$field_meta:meta])* pub $field:ident: $FieldType:ty = $unspec:expr,)* }
    ) => {
        $(#[$meta])*
        pub struct $Type {
            $($(#[$field_meta])* pub $field: $FieldType,)*
        }

        impl $Type {
            /// No demands: the default as a constant.
            pub const UNSPEC: Self = Self { $($field: $unspec,)* };
        }
    };
}

attributes! {
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
        pub kind: EndpointType = EndpointType::UNSPEC,
        /// Protocol on the wire.
        pub protocol: Protocol = Protocol::UNSPEC,
        /// Version of the protocol, as numbered by its provider.
        pub protocol_version: u32 = 0,
        /// Longest message or RMA operation, in bytes.
        pub max_msg_size: usize = 0,
        /// Prefix of message buffers that [`Mode::MSG_PREFIX`] requires, in bytes.
        pub msg_prefix_size: usize = 0,
        /// Longest transfer with read-after-write order, in bytes.
        pub max_order_raw_size: usize = 0,
        /// Longest transfer with write-after-read order, in bytes.
        pub max_order_war_size: usize = 0,
        /// Longest transfer with write-after-write order, in bytes.
        pub max_order_waw_size: usize = 0,
        /// Format of tags. Runs of equal bits are the fields that the provider distinguishes.
        #[cfg_attr(feature = "serde", serde(with = "crate::util::serial::hexadecimal"))]
        pub mem_tag_format: u64 = 0,
        /// Transmit contexts of a scalable endpoint. `usize::MAX` is a shared context.
        pub tx_ctx_cnt: usize = 0,
        /// Receive contexts of a scalable endpoint. `usize::MAX` is a shared context.
        pub rx_ctx_cnt: usize = 0,
    }
}

impl EndpointAttributes {
    /// Hints for this kind of endpoint without other demands.
    #[must_use]
    pub const fn of(kind: EndpointType) -> Self {
        EndpointAttributes { kind, ..Self::UNSPEC }
    }
}

attributes! {
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
        pub caps: Caps = Caps::empty(),
        /// Demands on the user.
        pub mode: Mode = Mode::empty(),
        /// Default flags of operations.
        pub op_flags: OpFlags = OpFlags::empty(),
        /// Order of operations.
        pub msg_order: MsgOrder = MsgOrder::empty(),
        /// Order of completions.
        pub comp_order: CompOrder = CompOrder::empty(),
        /// Longest buffer that may be injected, in bytes.
        pub inject_size: usize = 0,
        /// Operations that may be in flight.
        pub size: usize = 0,
        /// Local buffers in one operation.
        pub iov_limit: usize = 0,
        /// Remote buffers in one RMA operation.
        pub rma_iov_limit: usize = 0,
        /// Traffic class.
        pub tclass: TrafficClass = TrafficClass::UNSPEC,
    }
}

attributes! {
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
        pub caps: Caps = Caps::empty(),
        /// Demands on the user.
        pub mode: Mode = Mode::empty(),
        /// Default flags of operations.
        pub op_flags: OpFlags = OpFlags::empty(),
        /// Order of operations.
        pub msg_order: MsgOrder = MsgOrder::empty(),
        /// Order of completions.
        pub comp_order: CompOrder = CompOrder::empty(),
        /// Room for messages that arrive before their buffer, in bytes.
        pub total_buffered_recv: usize = 0,
        /// Receives that may be posted.
        pub size: usize = 0,
        /// Local buffers in one operation.
        pub iov_limit: usize = 0,
    }
}

attributes! {
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
        pub threading: Threading = Threading::UNSPEC,
        /// Driver of connections, address vectors and the like.
        pub control_progress: Progress = Progress::UNSPEC,
        /// Driver of transfers.
        pub data_progress: Progress = Progress::UNSPEC,
        /// Protection of queues from overflowing.
        pub resource_mgmt: ResourceMgmt = ResourceMgmt::UNSPEC,
        /// Numbering of addresses in address vectors.
        pub av_type: AvType = AvType::UNSPEC,
        /// Requirements on memory registration.
        pub mr_mode: MrMode = MrMode::empty(),
        /// Size of a memory key, in bytes.
        pub mr_key_size: usize = 0,
        /// Size of immediate data in bytes, zero if unsupported.
        pub cq_data_size: usize = 0,
        /// Optimal number of completion queues (a hint).
        pub cq_cnt: usize = 0,
        /// Optimal number of endpoints (a hint).
        pub ep_cnt: usize = 0,
        /// Optimal number of transmit contexts (a hint).
        pub tx_ctx_cnt: usize = 0,
        /// Optimal number of receive contexts (a hint).
        pub rx_ctx_cnt: usize = 0,
        /// Maximum transmit contexts of one endpoint.
        pub max_ep_tx_ctx: usize = 0,
        /// Maximum receive contexts of one endpoint.
        pub max_ep_rx_ctx: usize = 0,
        /// Maximum endpoints that share one transmit context.
        pub max_ep_stx_ctx: usize = 0,
        /// Maximum endpoints that share one receive context.
        pub max_ep_srx_ctx: usize = 0,
        /// Optimal number of counters (a hint).
        pub cntr_cnt: usize = 0,
        /// Buffers in one registration.
        pub mr_iov_limit: usize = 0,
        /// Capabilities of the domain.
        pub caps: Caps = Caps::empty(),
        /// Demands of the domain.
        pub mode: Mode = Mode::empty(),
        /// Maximum length of the provider's data in a completion error, in bytes.
        pub max_err_data: usize = 0,
        /// Optimal number of memory regions (a hint).
        pub mr_cnt: usize = 0,
        /// Default traffic class of endpoints.
        pub tclass: TrafficClass = TrafficClass::UNSPEC,
        /// Maximum authorization keys of one endpoint. Zero if the declarations lack the field.
        pub max_ep_auth_key: usize = 0,
        /// Highest number of a group of peers. Zero if the declarations lack the field.
        pub max_group_id: u32 = 0,
    }
}
