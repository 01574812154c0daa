//! Consecutive socket addresses.

use core::net::{IpAddr, SocketAddr};

use crate::vocabulary::{AddressFormat, Errno};

/// The addresses of some services at each of some nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    first: SocketAddr,
    nodes: u32,
    services: u16,
}

impl Range {
    /// # Errors
    /// - `ENOSYS`: such a format has no ranges
    /// - `EINVAL`: the addresses are not of that format, or not all there
    pub(super) fn new(format: AddressFormat, first: SocketAddr, nodes: u32, services: u16) -> Result<Self, Errno> {
        let fits = match format {
            AddressFormat::SOCKADDR_IN => first.is_ipv4(),
            AddressFormat::SOCKADDR_IN6 => first.is_ipv6(),
            AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IP => true,
            _ => return Err(Errno::ENOSYS),
        };
        // Nodes without services are none: they are not gone through.
        let nodes = if services == 0 { 0 } else { nodes };
        let range = Range { first, nodes, services };
        let whole = nodes == 0 || range.at(nodes - 1, services - 1).is_some();
        (fits && first.port() != 0 && whole).then_some(range).ok_or(Errno::EINVAL)
    }

    pub(super) fn len(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.services)
    }

    /// All services of a node, then the next node.
    pub(super) fn addresses(self) -> impl Iterator<Item = SocketAddr> {
        (0..self.nodes).flat_map(move |node| (0..self.services).filter_map(move |service| self.at(node, service)))
    }

    /// `None` past the last port, or past the last address.
    fn at(self, node: u32, service: u16) -> Option<SocketAddr> {
        let mut socket = self.first;
        socket.set_port(self.first.port().checked_add(service)?);
        socket.set_ip(match self.first.ip() {
            IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).checked_add(node)?.into()),
            IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).checked_add(node.into())?.into()),
        });
        Some(socket)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    fn range(first: &str, nodes: u32, services: u16) -> Result<Vec<String>, Errno> {
        let range = Range::new(AddressFormat::SOCKADDR, first.parse().unwrap(), nodes, services)?;
        let all: Vec<_> = range.addresses().map(|socket| socket.to_string()).collect();
        assert_eq!(all.len() as u64, range.len());
        Ok(all)
    }

    #[test]
    fn services_of_a_node_come_before_the_next_node() {
        // The example of the manual page.
        let wanted = ["10.1.1.1:5000", "10.1.1.1:5001", "10.1.1.2:5000", "10.1.1.2:5001"];
        assert_eq!(range("10.1.1.1:5000", 2, 2).unwrap(), wanted);
        assert_eq!(range("10.0.0.255:9", 2, 1).unwrap(), ["10.0.0.255:9", "10.0.1.0:9"]);
        assert_eq!(
            range("[fe80::fffe%3]:9", 3, 1).unwrap(),
            ["[fe80::fffe%3]:9", "[fe80::ffff%3]:9", "[fe80::1:0%3]:9"]
        );
        assert!(range("10.0.0.1:1", 0, u16::MAX).unwrap().is_empty());
        assert!(range("10.0.0.1:1", u32::MAX, 0).unwrap().is_empty());
    }

    #[test]
    fn ranges_end_with_the_last_port_and_the_last_address() {
        assert_eq!(range("127.0.0.1:65534", 1, 2).unwrap(), ["127.0.0.1:65534", "127.0.0.1:65535"]);
        assert_eq!(range("127.0.0.1:65534", 1, 3), Err(Errno::EINVAL));
        assert_eq!(range("255.255.255.255:1", 1, 1).unwrap(), ["255.255.255.255:1"]);
        assert_eq!(range("255.255.255.255:1", 2, 1), Err(Errno::EINVAL));
        assert_eq!(range("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:1", 2, 1), Err(Errno::EINVAL));
        assert_eq!(range("127.0.0.1:0", 1, 1), Err(Errno::EINVAL));
    }

    #[test]
    fn range_is_of_the_vectors_family() {
        let of = |format, first: &str| Range::new(format, first.parse().unwrap(), 1, 1).map(Range::len);
        assert_eq!(of(AddressFormat::SOCKADDR_IN, "127.0.0.1:1"), Ok(1));
        assert_eq!(of(AddressFormat::SOCKADDR_IN, "[::1]:1"), Err(Errno::EINVAL));
        assert_eq!(of(AddressFormat::SOCKADDR_IN6, "127.0.0.1:1"), Err(Errno::EINVAL));
        assert_eq!(of(AddressFormat::SOCKADDR_IP, "[::1]:1"), Ok(1));
        assert_eq!(of(AddressFormat::ADDR_STR, "127.0.0.1:1"), Err(Errno::ENOSYS));
        assert_eq!(of(AddressFormat::UNSPEC, "127.0.0.1:1"), Err(Errno::ENOSYS));
    }
}
