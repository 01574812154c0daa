use crate::vocabulary::{
    AddressFormat, Caps, DomainAttributes, EndpointAddr, EndpointAttributes, Mode, MsgOrder, RxAttributes,
    TxAttributes, Version,
};

/// Hints of `fi_getinfo`.
///
/// Defaults, and zero in the attributes, mean "no preference". Numbers are minimums. Names are
/// those of `fi_info`.
///
/// Ignored fields:
/// - `threading`, which follows from the transport's type
/// - `mode` in all attributes: loom adds its own modes to [`Hints::mode`]
///
/// ```
/// use loom_core::{Caps, EndpointAttributes, EndpointType, Hints, MsgOrder, vocabulary::TxAttributes};
///
/// let hints = Hints {
///     caps: Caps::MSG | Caps::TAGGED,
///     endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
///     tx_attr: TxAttributes { inject_size: 64, ..Default::default() },
///     ..Default::default()
/// };
/// let ordered = hints.with_msg_order(MsgOrder::SAS);
/// assert_eq!((ordered.tx_attr.msg_order, ordered.rx_attr.msg_order), (MsgOrder::SAS, MsgOrder::SAS));
/// ```
///
/// # References
/// - `man fi_getinfo`
#[derive(Clone, Debug, Default)]
#[doc(alias = "fi_getinfo")]
#[doc(alias = "fi_allocinfo")]
pub struct Hints<'a> {
    /// Required capabilities. Empty for the provider's defaults, without costly ones
    /// ([`Caps::SOURCE`], [`Caps::DIRECTED_RECV`]).
    pub caps: Caps,
    /// Modes that the caller supports beyond loom's: [`Mode::MSG_PREFIX`], with
    /// [`Prefixed`](crate::buffer::Prefixed) buffers.
    pub mode: Mode,
    /// Address format.
    pub addr_format: AddressFormat,
    /// Provider name, as printed by `fi_info`: `shm`, `tcp;ofi_rxm`.
    #[doc(alias = "prov_name")]
    pub provider: Option<&'a str>,
    /// Fabric name.
    pub fabric: Option<&'a str>,
    /// Domain name.
    pub domain: Option<&'a str>,
    /// Endpoint: kind, protocol and sizes.
    #[doc(alias = "ep_attr")]
    pub endpoint_attr: EndpointAttributes,
    /// Transmit side: orders, sizes, default flags of operations.
    pub tx_attr: TxAttributes,
    /// Receive side.
    pub rx_attr: RxAttributes,
    /// Domain: progress, resource management, counts. `mr_mode` contains the modes that the caller
    /// supports beyond loom's.
    pub domain_attr: DomainAttributes,
    /// Authorization key of the domain, in the provider's format.
    pub domain_auth_key: Option<&'a [u8]>,
    /// Authorization key of the endpoint, if not the domain's.
    pub endpoint_auth_key: Option<&'a [u8]>,
    /// This side's address, without `node` and `service`: a socket address or a zero-terminated
    /// string, of format `addr_format` if given. `shm` and `sm2` refuse it, like [`Hints::listen`].
    #[doc(alias = "src_addr")]
    pub source: Option<&'a EndpointAddr>,
    /// The peer's address, in the form of [`Hints::source`].
    #[doc(alias = "dest_addr")]
    pub destination: Option<&'a EndpointAddr>,
    /// Host name or address: this side's with [`Hints::listen`], otherwise the peer's. A query
    /// blocks while a name is resolved.
    pub node: Option<&'a str>,
    /// Port number or service name.
    pub service: Option<&'a str>,
    /// `node` and `service` name this side's address (`FI_SOURCE`). Refused over `shm` and `sm2`:
    /// two processes with one name crash, or do not reach each other.
    #[doc(alias = "FI_SOURCE")]
    pub listen: bool,
    /// `node` is numeric, without name lookup (`FI_NUMERICHOST`). Providers of libfabric 1.17 look
    /// names up regardless.
    #[doc(alias = "FI_NUMERICHOST")]
    pub numeric_host: bool,
    /// Requested interface version, by default that of loom's declarations of libfabric.
    #[doc(alias = "FI_VERSION")]
    pub api_version: Option<Version>,
}

impl<'a> Hints<'a> {
    /// Hints for a provider by name, with endpoints for peers on this host.
    ///
    /// Socket providers (`tcp`, `net`, `sockets`, `udp`, and layers on them) would use the host's
    /// first interface, so these hints give `127.0.0.1`.
    ///
    /// ```
    /// use loom_core::{Caps, Hints};
    ///
    /// let hints = Hints { caps: Caps::MSG, ..Hints::local("tcp;ofi_rxm") };
    /// assert_eq!((hints.provider, hints.node, hints.listen), (Some("tcp;ofi_rxm"), Some("127.0.0.1"), true));
    /// let hints = Hints::local("shm");
    /// assert_eq!((hints.provider, hints.node, hints.listen), (Some("shm"), None, false));
    /// ```
    #[must_use]
    pub fn local(provider: &'a str) -> Self {
        Self::at(provider, "127.0.0.1")
    }

    /// [`local`](Self::local) with another address of this host, for peers on other hosts.
    ///
    /// ```
    /// use loom_core::Hints;
    ///
    /// assert_eq!(Hints::at("net", "10.0.0.1").node, Some("10.0.0.1"));
    /// assert_eq!(Hints::at("shm", "10.0.0.1").node, None);
    /// ```
    #[must_use]
    pub fn at(provider: &'a str, node: &'a str) -> Self {
        let lowest = provider.split(';').next().unwrap_or(provider);
        let listen =
            ["tcp", "net", "sockets", "udp", "loom-tcp"].iter().any(|sockets| lowest.eq_ignore_ascii_case(sockets));
        Hints { provider: Some(provider), node: listen.then_some(node), listen, ..Hints::default() }
    }
}

impl Hints<'_> {
    /// No preference: [`Default`] as a constant.
    pub const UNSPEC: Hints<'static> = Hints {
        caps: Caps::empty(),
        mode: Mode::empty(),
        addr_format: AddressFormat::UNSPEC,
        provider: None,
        fabric: None,
        domain: None,
        endpoint_attr: EndpointAttributes::UNSPEC,
        tx_attr: TxAttributes::UNSPEC,
        rx_attr: RxAttributes::UNSPEC,
        domain_attr: DomainAttributes::UNSPEC,
        domain_auth_key: None,
        endpoint_auth_key: None,
        source: None,
        destination: None,
        node: None,
        service: None,
        listen: false,
        numeric_host: false,
        api_version: None,
    };

    /// Requires an order of messages and RMA operations on both sides.
    #[must_use]
    pub const fn with_msg_order(mut self, order: MsgOrder) -> Self {
        self.tx_attr.msg_order = order;
        self.rx_attr.msg_order = order;
        self
    }
}
