//! Ranges of socket addresses, which an address vector takes from descriptions of a job.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use loom_core::av::Av;
use loom_core::vocabulary::{AddressFormat, Attributes, EndpointAddr, Errno};
use loom_core::{AddressError, scope};

use crate::scripted::Script;

const PLACES: usize = 24;

pub fn range(first: SocketAddr, nodes: u32, services: u16, format: u8) {
    let addr_format = AddressFormat::from_raw(u32::from(format % 18));
    let script = Script::new(Attributes { addr_format, ..Attributes::default() });
    let mut told = Vec::new();
    let result = scope(|s| {
        let domain = s.open(&script.info()).expect("a script opens");
        let av = Av::open(&domain, PLACES).expect("the size is small");
        av.insert_symmetric(first, nodes, services, |peer| told.push(peer))
    });
    let wanted = addresses(first, nodes, services, addr_format);
    match &wanted {
        Ok(wanted) => {
            assert_eq!(result, Ok(wanted.len()));
            assert_eq!(told.len(), wanted.len());
            assert!(told.iter().all(Result::is_ok));
            assert_eq!(*script.inserted.borrow(), *wanted);
        }
        Err(error) => {
            assert_eq!(result, Err(*error));
            assert!(told.is_empty() && script.inserted.borrow().is_empty());
        }
    }
}

/// Returns all addresses, or the reason for a refusal.
fn addresses(
    first: SocketAddr,
    nodes: u32,
    services: u16,
    format: AddressFormat,
) -> Result<Vec<EndpointAddr>, AddressError> {
    let (v4, v6) = match format.as_raw() {
        2 => (true, false),
        3 => (false, true),
        1 | 17 => (true, true),
        _ => return Err(AddressError::Errno(Errno::ENOSYS)),
    };
    let (ip, last_ip): (u128, u128) = match first.ip() {
        IpAddr::V4(ip) => (u32::from(ip).into(), u32::MAX.into()),
        IpAddr::V6(ip) => (ip.into(), u128::MAX),
    };
    let count = u64::from(nodes) * u64::from(services);
    let beyond = count > 0
        && (u64::from(first.port()) + u64::from(services) - 1 > 65_535 || last_ip - ip < u128::from(nodes) - 1);
    if first.port() == 0 || beyond || !(if first.is_ipv4() { v4 } else { v6 }) {
        return Err(AddressError::Errno(Errno::EINVAL));
    }
    if count > PLACES as u64 {
        return Err(AddressError::Full);
    }
    let at = |number: u64| {
        let (node, service) = (number / u64::from(services), number % u64::from(services));
        let mut socket = first;
        socket.set_port((u64::from(first.port()) + service) as u16);
        let ip = ip + u128::from(node);
        socket.set_ip(if first.is_ipv4() { Ipv4Addr::from(ip as u32).into() } else { Ipv6Addr::from(ip).into() });
        EndpointAddr::from(socket)
    };
    Ok((0..count).map(at).collect())
}
