//! Queries: [`query`], and the offer of this transport.

use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{
    AddressFormat, Attributes, AvType, Caps, DomainAttributes, EndpointAttributes, EndpointType, MrMode, MsgOrder,
    Progress, Protocol, ResourceMgmt, RxAttributes, Threading, TxAttributes, Version,
};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::attr::TcpAttr;
use crate::interface;
use crate::tcp::Tcp;
use crate::tls::Tls;
use crate::wire::MAX_PARTS;

pub(crate) const PROVIDER: &str = "loom-tcp";

/// Domain name without an interface.
const ANY_INTERFACE: &str = "sockets";

/// Name of at most `IFNAMSIZ - 1` bytes.
pub(crate) type InterfaceName = heapless::String<15>;

const CAPS: Caps = Caps::MSG
    .union(Caps::TAGGED)
    .union(Caps::RMA)
    .union(Caps::SEND)
    .union(Caps::RECV)
    .union(Caps::READ)
    .union(Caps::WRITE)
    .union(Caps::REMOTE_READ)
    .union(Caps::REMOTE_WRITE)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::SOURCE)
    .union(Caps::MULTI_RECV)
    .union(Caps::RMA_EVENT)
    .union(Caps::LOCAL_COMM)
    .union(Caps::REMOTE_COMM);

/// A read fetches its bytes when they are sent, so that later writes may be earlier.
const MSG_ORDER: MsgOrder = MsgOrder::RAR
    .union(MsgOrder::RAW)
    .union(MsgOrder::RAS)
    .union(MsgOrder::WAW)
    .union(MsgOrder::WAS)
    .union(MsgOrder::SAW)
    .union(MsgOrder::SAS)
    .union(MsgOrder::RMA_RAR)
    .union(MsgOrder::RMA_RAW)
    .union(MsgOrder::RMA_WAW);

/// Raw info: sizes, and the address that endpoints listen at.
#[derive(Clone, Debug)]
pub struct TcpInfo {
    pub(crate) attr: TcpAttr,
    pub(crate) address: SocketAddr,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) kind: EndpointType,
    pub(crate) tls: Option<Tls>,
    pub(crate) interface: InterfaceName,
}

/// Returns an info for domains of these sizes, if the transport satisfies the hints.
///
/// Endpoints listen at [`Hints::source`], or at [`Hints::node`] and [`Hints::service`] with
/// [`Hints::listen`]. Without it, these name a peer, and endpoints listen on the route to it.
/// Look-ups of names block. The default is 127.0.0.1 with a free port. The address is one of an
/// interface of this host, by which peers recognise the endpoint. `0.0.0.0` and `::` are refused.
///
/// [`Hints::domain`] names an interface, as in libfabric, and replaces the default by its address:
/// of the peer's or requested family or else IPv4, if possible, and rather global than link-local.
/// Peers' link-local addresses take the scope of this side's.
///
/// ```
/// use loom_core::{Caps, Hints, OpenError};
/// use loom_tcp::{TcpAttr, query};
///
/// let info = query(&Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::default() }, TcpAttr::DEFAULT)?;
/// assert_eq!(info.attributes().tx.inject_size, TcpAttr::INJECT_SIZE);
///
/// let atomics = Hints { caps: Caps::ATOMIC, ..Hints::default() };
/// assert_eq!(query(&atomics, TcpAttr::DEFAULT).unwrap_err(), OpenError::NotGranted(Caps::ATOMIC));
/// # Ok::<_, OpenError>(())
/// ```
///
/// # Errors
/// - [`OpenError::NotGranted`] with the missing capabilities
/// - [`OpenError::NoAddress`]
/// - [`OpenError::NotOffered`] with another field of the hints that requests too much, or an
///   address that is not one
/// - [`OpenError::OutOfRange`] with a field of `attr`
#[doc(alias = "fi_getinfo")]
pub fn query(hints: &Hints<'_>, attr: TcpAttr) -> Result<Info<Tcp>, OpenError> {
    query_with(hints, attr, None)
}

pub(crate) fn query_with(hints: &Hints<'_>, attr: TcpAttr, tls: Option<Tls>) -> Result<Info<Tcp>, OpenError> {
    attr.check()?;
    let interface = hints.domain.filter(|name| *name != ANY_INTERFACE);
    let (address, destination) = addresses(hints, interface)?;
    let interface =
        InterfaceName::try_from(interface.unwrap_or(ANY_INTERFACE)).map_err(|_| OpenError::NotOffered("domain"))?;
    let kind = match hints.endpoint_attr.kind {
        EndpointType::UNSPEC | EndpointType::RDM => EndpointType::RDM,
        EndpointType::MSG => EndpointType::MSG,
        _ => return Err(OpenError::NotOffered("endpoint_attr.kind")),
    };
    let info = Info::from_raw(TcpInfo { attr, address, destination, kind, tls, interface });
    let mut demands = Hints { source: None, destination: None, node: None, service: None, ..hints.clone() };
    if kind == EndpointType::MSG && demands.endpoint_attr.rx_ctx_cnt == usize::MAX {
        // Shared receives (`FI_SHARED_CONTEXT`).
        demands.endpoint_attr.rx_ctx_cnt = 0;
    }
    info.satisfies(&demands)?;
    Ok(info)
}

/// Address that endpoints listen at, and that of the peer.
fn addresses(hints: &Hints<'_>, interface: Option<&str>) -> Result<(SocketAddr, Option<SocketAddr>), OpenError> {
    let mut port = 0;
    let node = match (hints.node, hints.service) {
        (None, None) => None,
        (None, Some(service)) if hints.listen && interface.is_some() => {
            port = service.parse().map_err(|_| OpenError::NotOffered("service"))?;
            None
        }
        (None, Some(_)) => return Err(OpenError::NotOffered("service")),
        (Some(node), service) => Some(resolve(node, service, None).ok_or(OpenError::NotOffered("node"))?),
    };
    let of = |address, field| SocketAddr::try_from(address).map_err(|_| OpenError::NotOffered(field));
    let source = hints.source.map(|source| of(source, "source")).transpose()?;
    let destination = hints.destination.map(|peer| of(peer, "destination")).transpose()?;
    let (source, destination, field) = match node {
        Some(node) if hints.listen => (source.or(Some(node)), destination, "node"),
        _ => (source, destination.or(node), "source"),
    };
    let source = source.map(|source| interface::in_scope(source, 0));
    let source = match (interface, source, destination) {
        (Some(interface), source, peer) => {
            let is_ipv4 = match hints.addr_format {
                AddressFormat::SOCKADDR_IN => Some(true),
                AddressFormat::SOCKADDR_IN6 => Some(false),
                _ => peer.map(|peer| peer.is_ipv4()),
            };
            let mut own = interface::address_of(interface, |ip| match source {
                Some(source) => ip == source.ip(),
                None => is_ipv4.is_none_or(|is_ipv4| ip.is_ipv4() == is_ipv4),
            })?;
            own.set_port(source.map_or(port, |source| source.port()));
            let scopes = [0, interface::scope_of(own)];
            if source.is_some_and(|source| !scopes.contains(&interface::scope_of(source))) {
                return Err(OpenError::NoAddress);
            }
            own
        }
        (None, Some(source), _) => source,
        (None, None, Some(peer)) => route_to(peer).ok_or(OpenError::NotOffered("node"))?,
        (None, None, None) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    };
    let scope = interface::scope_of(source);
    let lacks_scope = interface::is_link_local(source.ip()) && scope == 0;
    if source.ip().is_unspecified() || source.ip().is_multicast() || lacks_scope {
        return Err(OpenError::NotOffered(field));
    }
    let destination = destination.map(|peer| interface::in_scope(peer, scope));
    if destination.is_some_and(|peer| peer.is_ipv4() != source.is_ipv4()) {
        return Err(OpenError::NotOffered("destination"));
    }
    Ok((source, destination))
}

/// Address of this host on the route to a peer.
fn route_to(peer: SocketAddr) -> Option<SocketAddr> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    // Sends nothing.
    net::connect(&socket, &peer).ok()?;
    let mut own = SocketAddr::try_from(net::getsockname(&socket).ok()?).ok()?;
    own.set_port(0);
    Some(own)
}

/// Address of a node, by number, or, with the feature `std`, by name. Of a family, or else IPv4 if
/// the node has it.
pub(crate) fn resolve(node: &str, service: Option<&str>, is_ipv4: Option<bool>) -> Option<SocketAddr> {
    let port = match service {
        Some(service) => service.parse().ok()?,
        None => 0,
    };
    let fits = |address: &SocketAddr| is_ipv4.is_none_or(|is_ipv4| address.is_ipv4() == is_ipv4);
    if let Ok(ip) = node.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, port)).filter(fits);
    }
    if let Some((ip, scope)) = node.split_once('%') {
        let scope = scope.parse().ok().or_else(|| interface::index_of(scope))?;
        return Some(SocketAddrV6::new(ip.parse().ok()?, port, 0, scope).into()).filter(fits);
    }
    #[cfg(feature = "std")]
    let all = std::net::ToSocketAddrs::to_socket_addrs(&(node, port)).ok()?;
    #[cfg(not(feature = "std"))]
    let all = core::iter::empty();
    all.filter(fits).min_by_key(SocketAddr::is_ipv6)
}

pub(crate) fn attributes(info: &TcpInfo) -> Attributes {
    let TcpInfo { attr, address, kind, .. } = *info;
    let endpoints = usize::from(attr.endpoints);
    let (caps, protocol) = match kind {
        // An endpoint of libfabric without shared receives crashes by a tag.
        EndpointType::MSG => {
            (CAPS.difference(Caps::TAGGED | Caps::DIRECTED_RECV | Caps::SOURCE | Caps::MULTI_RECV), Protocol::SOCK_TCP)
        }
        _ => (CAPS, Protocol::XNET),
    };
    Attributes {
        caps,
        addr_format: if address.is_ipv4() { AddressFormat::SOCKADDR_IN } else { AddressFormat::SOCKADDR_IN6 },
        endpoint: EndpointAttributes {
            kind,
            protocol,
            max_msg_size: isize::MAX.unsigned_abs(),
            max_order_raw_size: usize::MAX,
            max_order_waw_size: usize::MAX,
            mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EndpointAttributes::UNSPEC
        },
        tx: TxAttributes {
            caps,
            msg_order: MSG_ORDER,
            inject_size: TcpAttr::INJECT_SIZE,
            size: attr.tx_depth as usize,
            iov_limit: MAX_PARTS,
            rma_iov_limit: MAX_PARTS,
            ..TxAttributes::UNSPEC
        },
        rx: RxAttributes {
            caps,
            msg_order: MSG_ORDER,
            size: attr.rx_depth as usize,
            iov_limit: MAX_PARTS,
            total_buffered_recv: attr.unexpected_size as usize,
            ..RxAttributes::UNSPEC
        },
        domain: DomainAttributes {
            caps: Caps::LOCAL_COMM.union(Caps::REMOTE_COMM),
            threading: Threading::DOMAIN,
            control_progress: Progress::MANUAL,
            data_progress: Progress::MANUAL,
            resource_mgmt: ResourceMgmt::ENABLED,
            av_type: AvType::TABLE,
            mr_mode: MrMode::PROV_KEY,
            mr_key_size: size_of::<u64>(),
            cq_data_size: size_of::<u64>(),
            cq_cnt: attr.queues.into(),
            ep_cnt: endpoints,
            tx_ctx_cnt: endpoints,
            rx_ctx_cnt: endpoints,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_srx_ctx: endpoints,
            cntr_cnt: attr.counters.into(),
            mr_iov_limit: 1,
            mr_cnt: attr.regions.into(),
            ..DomainAttributes::UNSPEC
        },
        provider_version: Version::new(0, 1),
        ..Attributes::default()
    }
}
