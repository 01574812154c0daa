//! Socket addresses: `struct sockaddr_in` and `struct sockaddr_in6` with Linux's layout.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::{AddressError, AddressFormat, EndpointAddr};

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Length of `struct sockaddr_in` in bytes: family, port, four octets, eight bytes of padding.
const IN_LEN: usize = 16;

impl From<SocketAddr> for EndpointAddr {
    fn from(socket: SocketAddr) -> Self {
        let format = match socket {
            SocketAddr::V4(_) => AddressFormat::SOCKADDR_IN,
            SocketAddr::V6(_) => AddressFormat::SOCKADDR_IN6,
        };
        Self::from_socket(format, socket)
    }
}

impl TryFrom<&EndpointAddr> for SocketAddr {
    type Error = AddressError;

    /// Reads `FI_SOCKADDR_IN`, `FI_SOCKADDR_IN6`, and `FI_SOCKADDR` or `FI_SOCKADDR_IP` of these
    /// families.
    ///
    /// # Errors
    ///
    /// [`AddressError::NotASocket`] for another format, family or length.
    fn try_from(addr: &EndpointAddr) -> Result<Self, AddressError> {
        addr.socket_as(addr.format()).ok_or(AddressError::NotASocket)
    }
}

/// Families (IPv4, IPv6) that addresses of this format may have.
pub(super) fn families(format: AddressFormat) -> (bool, bool) {
    match format {
        AddressFormat::SOCKADDR_IN => (true, false),
        AddressFormat::SOCKADDR_IN6 => (false, true),
        AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IP => (true, true),
        _ => (false, false),
    }
}

impl EndpointAddr {
    pub(crate) fn socket_as(&self, format: AddressFormat) -> Option<SocketAddr> {
        let (v4, v6) = families(format);
        match *self.bytes() {
            [f0, f1, p0, p1, a, b, c, d, ref padding @ ..]
                if v4 && padding.len() == IN_LEN - 8 && u16::from_ne_bytes([f0, f1]) == AF_INET =>
            {
                let port = u16::from_be_bytes([p0, p1]);
                Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port)))
            }
            [f0, f1, p0, p1, i0, i1, i2, i3, ref octets @ .., s0, s1, s2, s3]
                if v6 && u16::from_ne_bytes([f0, f1]) == AF_INET6 =>
            {
                let octets: [u8; 16] = octets.try_into().ok()?;
                Some(SocketAddr::V6(SocketAddrV6::new(
                    Ipv6Addr::from(octets),
                    u16::from_be_bytes([p0, p1]),
                    u32::from_ne_bytes([i0, i1, i2, i3]),
                    u32::from_ne_bytes([s0, s1, s2, s3]),
                )))
            }
            _ => None,
        }
    }

    /// `format` must admit the family.
    pub(crate) fn from_socket(format: AddressFormat, socket: SocketAddr) -> Self {
        let bytes = match socket {
            SocketAddr::V4(v4) => (AF_INET.to_ne_bytes().into_iter())
                .chain(v4.port().to_be_bytes())
                .chain(v4.ip().octets())
                .chain([0; IN_LEN - 8])
                .collect(),
            SocketAddr::V6(v6) => (AF_INET6.to_ne_bytes().into_iter())
                .chain(v6.port().to_be_bytes())
                .chain(v6.flowinfo().to_ne_bytes())
                .chain(v6.ip().octets())
                .chain(v6.scope_id().to_ne_bytes())
                .collect(),
        };
        Self { format, bytes }
    }
}
