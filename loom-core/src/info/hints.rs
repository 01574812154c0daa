//! [`Hints`]: what to ask for.

use crate::profiles::{Profile, Promise};
use crate::vocabulary::{
    AddressFormat, Caps, DomainAttributes, EndpointAddr, EndpointAttributes, Mode, MrMode, MsgOrder, Progress,
    RxAttributes, TxAttributes, Version,
};

/// What the caller needs from a transport; the hints of `fi_getinfo`.
///
/// Every field that is left at its default means "no preference", and so does zero in the attributes. Numbers are the
/// least that is needed; orders and capabilities are requirements: only what grants all of them is returned. The names are
/// those of the fields of `fi_info`.
///
/// Not looked at, because they are not the caller's to choose:
/// - `threading`, which the transport's type says;
/// - `mode` in all attributes: loom says what it serves, and [`Hints::mode`] what more the caller does.
///
/// ```
/// use loom_core::info::Hints;
/// use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType, MsgOrder, TxAttributes};
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
    /// Capabilities which must be granted. Empty: what the provider grants unasked, which leaves out what costs it something
    /// ([`Caps::SOURCE`], [`Caps::DIRECTED_RECV`]).
    pub caps: Caps,
    /// What the caller is ready for beyond what loom serves by itself: [`Mode::MSG_PREFIX`], with buffers that are
    /// [`Prefixed`](crate::buffer::Prefixed).
    pub mode: Mode,
    /// Format of addresses; unspecified means any.
    pub addr_format: AddressFormat,
    /// Provider by name, as `fi_info` prints it: `shm`, `tcp;ofi_rxm`.
    #[doc(alias = "prov_name")]
    pub provider: Option<&'a str>,
    /// Fabric by name.
    pub fabric: Option<&'a str>,
    /// Domain by name.
    pub domain: Option<&'a str>,
    /// The endpoint: its kind, protocol and sizes.
    #[doc(alias = "ep_attr")]
    pub endpoint_attr: EndpointAttributes,
    /// The transmit side: orders, sizes, default flags of operations.
    pub tx_attr: TxAttributes,
    /// The receive side.
    pub rx_attr: RxAttributes,
    /// The domain: progress, resource management, counts. The modes of `mr_mode` are those that the caller is ready for
    /// beyond what loom serves by itself.
    pub domain_attr: DomainAttributes,
    /// Authorization key of the domain, by which a fabric keeps jobs apart; its form is the provider's.
    pub domain_auth_key: Option<&'a [u8]>,
    /// Authorization key of the endpoint, where it is not the domain's.
    pub endpoint_auth_key: Option<&'a [u8]>,
    /// This side's address, where there is no `node` and no `service`: a socket address, or a string with its zero byte, in the
    /// form of `addr_format` if there is one. Others are refused: loom could not tell whether they are whole. Over `shm` and `sm2` it is
    /// refused, as [`Hints::listen`] is.
    #[doc(alias = "src_addr")]
    pub source: Option<&'a EndpointAddr>,
    /// The peer's address, as [`Hints::source`].
    #[doc(alias = "dest_addr")]
    pub destination: Option<&'a EndpointAddr>,
    /// Host name or address: of this side with [`Hints::listen`], else of the peer.
    pub node: Option<&'a str>,
    /// Port number or service name.
    pub service: Option<&'a str>,
    /// `node` and `service` name this side's own address (`FI_SOURCE`). Over `shm` and `sm2` that is refused: two processes that choose one
    /// name crash, or do not reach each other.
    #[doc(alias = "FI_SOURCE")]
    pub listen: bool,
    /// `node` is a number, so that no name need be looked up (`FI_NUMERICHOST`; the providers of libfabric 1.17 do it all the
    /// same if it is not).
    #[doc(alias = "FI_NUMERICHOST")]
    pub numeric_host: bool,
    /// The version of the interface to ask for: providers may behave as they did then. Without one it is that of the headers
    /// that loom was built with.
    #[doc(alias = "FI_VERSION")]
    pub api_version: Option<Version>,
}

impl Hints<'static> {
    /// Asks for the provider of a [profile](crate::profiles) by name, and for everything that the profile promises. By these hints the
    /// caller declares to be ready for the profile's modes and registration modes.
    ///
    /// ```
    /// use loom_core::profiles::TcpRxm;
    /// use loom_core::{Caps, Hints};
    ///
    /// let hints = Hints { service: Some("7471"), ..Hints::of_profile::<TcpRxm>() };
    /// assert_eq!(hints.provider, Some("tcp;ofi_rxm"));
    /// assert!(hints.caps.contains(Caps::TAGGED | Caps::ATOMIC));
    /// ```
    #[must_use]
    pub fn of_profile<P: Profile>() -> Self {
        Self::of_promise(&Promise::of::<P>())
    }

    /// [`of_profile`](Self::of_profile), with the profile as a value.
    #[must_use]
    pub fn of_promise(promise: &Promise) -> Self {
        // A provider that makes progress by itself may be driven, too: manual progress is no demand.
        let asked = |progress| if progress == Progress::AUTO { progress } else { Progress::UNSPEC };
        let hints = Hints {
            caps: promise.caps,
            mode: promise.mode,
            provider: Some(promise.name),
            endpoint_attr: EndpointAttributes::of(promise.endpoint),
            tx_attr: TxAttributes { inject_size: promise.inject_size, ..TxAttributes::default() },
            domain_attr: DomainAttributes {
                // libfabric refuses hints that combine these two with other modes.
                mr_mode: promise.mr_mode.difference(MrMode::BASIC.union(MrMode::SCALABLE)),
                cq_data_size: promise.cq_data_size,
                control_progress: asked(promise.control_progress),
                data_progress: asked(promise.data_progress),
                ..DomainAttributes::default()
            },
            ..Hints::default()
        };
        hints.with_msg_order(promise.msg_order)
    }
}

impl<'a> Hints<'a> {
    /// Asks for a provider by name, with endpoints for peers on this host.
    ///
    /// Providers over sockets (`tcp`, `net`, `sockets`, `udp`, and what is layered on them, such as `tcp;ofi_rxm`) take the first interface of the
    /// host unless they are given an address: these hints give them `127.0.0.1`. Endpoints of the others (`shm`, `sm2`, and those of network cards)
    /// choose their addresses themselves.
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

    /// [`local`](Self::local), with another address of this host: for peers on other hosts.
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
        let listen = ["tcp", "net", "sockets", "udp"].iter().any(|sockets| lowest.eq_ignore_ascii_case(sockets));
        Hints { provider: Some(provider), node: listen.then_some(node), listen, ..Hints::default() }
    }
}

impl Hints<'_> {
    /// No preference: what [`Default`] makes, for constants.
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

    /// With an order that messages and RMA operations must keep, on both sides.
    #[must_use]
    pub const fn with_msg_order(mut self, order: MsgOrder) -> Self {
        self.tx_attr.msg_order = order;
        self.rx_attr.msg_order = order;
        self
    }
}
