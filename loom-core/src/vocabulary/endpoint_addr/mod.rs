use core::error::Error;
use core::fmt;

use heapless::Vec;

use super::{AddressFormat, Errno, OTHER_PROCESS, with_cause};

#[cfg(feature = "serde")]
mod serial;
mod socket;
mod text;
mod wire;

/// Address of an endpoint: a format, and up to [`MAX_LEN`](Self::MAX_LEN) bytes from the provider.
///
/// Conversions:
/// * **Sockets.** `From<SocketAddr>` makes `FI_SOCKADDR_IN` and `FI_SOCKADDR_IN6` addresses.
///   `SocketAddr::try_from(&addr)` reads them, and also `FI_SOCKADDR` and `FI_SOCKADDR_IP`.
/// * **Text** in the style of `fi_av_straddr`. [`FromStr`](core::str::FromStr) reads the text of
///   [`Display`](fmt::Display) back to the same format and bytes:
///
///   | address | text |
///   |---|---|
///   | sockets | `fi_sockaddr_in://127.0.0.1:4242`, `fi_sockaddr_in6://[::1]:4242` |
///   | `FI_ADDR_STR` | the string itself: `fi_shm://1234` |
///   | others | the format and hexadecimal bytes: `fi_addr_efa://fe80…` |
///   | formats without a name | `fi_format_4242://00ff…` |
///
/// Hexadecimal is also used if the short text would lose bytes, for example flow information. Plain
/// `127.0.0.1:4242` and `[::1]:4242` are read, not printed.
/// * **Bytes for a bootstrap**, self-delimiting: [`encode`](Self::encode) and
///   [`decode`](Self::decode).
///
/// ```
/// use core::net::SocketAddr;
/// use loom_core::{EndpointAddr, vocabulary::AddressFormat};
///
/// let socket: SocketAddr = "10.0.0.1:7471".parse().expect("a socket address");
/// let address = EndpointAddr::from(socket);
/// assert_eq!(address.format(), AddressFormat::SOCKADDR_IN);
/// assert_eq!(address.to_string(), "fi_sockaddr_in://10.0.0.1:7471");
/// assert_eq!("10.0.0.1:7471".parse(), Ok(address.clone()));
/// assert_eq!(SocketAddr::try_from(&address), Ok(socket));
/// ```
///
/// # References
/// - `fi_cm(3)`, `fi_getname`
/// - `fi_av(3)`, `fi_av_straddr`
#[doc(alias = "fi_getname")]
#[doc(alias = "fi_av_straddr")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EndpointAddr {
    format: AddressFormat,
    bytes: Vec<u8, { Self::MAX_LEN }>,
}

impl EndpointAddr {
    /// Maximum number of bytes of an address.
    pub const MAX_LEN: usize = 512;

    /// Address of this format with a copy of these bytes.
    ///
    /// # Errors
    ///
    /// [`AddressError::TooLong`] if there are more than [`MAX_LEN`](Self::MAX_LEN) bytes.
    pub fn new(format: AddressFormat, bytes: &[u8]) -> Result<Self, AddressError> {
        Ok(Self { format, bytes: Vec::from_slice(bytes).map_err(|_| AddressError::TooLong)? })
    }

    /// Format of the bytes.
    #[must_use]
    pub const fn format(&self) -> AddressFormat {
        self.format
    }

    /// Bytes without the format.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for EndpointAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointAddr({self})")
    }
}

/// Error of reading, writing, converting or inserting an address.
///
/// ```
/// use loom_core::{AddressError, Av, AvAttr, Cq, EndpointAddr, allocator_api2::alloc::Global};
///
/// assert_eq!("10.0.0.1".parse::<EndpointAddr>(), Err(AddressError::Malformed), "the port is missing");
/// assert_eq!(EndpointAddr::decode(&[2, 0, 0]).unwrap_err(), AddressError::Truncated);
///
/// # fixture::domain!(network, domain);
/// # let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
/// // This vector has no room for the bytes of addresses.
/// let av = Av::open_in(&domain, AvAttr { bytes: Some(0), ..AvAttr::new(2) }, Global)?;
/// let address = cq.endpoint(&av)?.address()?;
/// assert_eq!(av.insert(&address), Err(AddressError::OutOfBytes));
/// // The software transport refuses the address of a host.
/// let host = "10.0.0.1:7471".parse()?;
/// assert!(matches!(Av::open(&domain, 2)?.insert(&host), Err(AddressError::Errno(_))));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressError {
    /// More than [`EndpointAddr::MAX_LEN`] bytes.
    TooLong,
    /// The bytes end before the encoded address does.
    Truncated,
    /// The buffer is too small for the encoded address.
    BufferTooSmall,
    /// Not an IPv4 or IPv6 socket address, because of its format, family or length.
    NotASocket,
    /// Not the text of an address.
    Malformed,
    /// The address vector, table or set has no free slot
    /// ([`AvAttr::capacity`](crate::AvAttr::capacity),
    /// [`AddressTableAttr::places`](crate::engine::address_table::AddressTableAttr::places) and
    /// [`singles`](crate::engine::address_table::AddressTableAttr::singles)).
    Full,
    /// The address vector or table has too few free bytes for the address
    /// ([`AvAttr::bytes`](crate::AvAttr::bytes),
    /// [`AddressTableAttr::bytes`](crate::engine::address_table::AddressTableAttr::bytes)).
    OutOfBytes,
    /// The address vector was opened by the parent of this forked process.
    OtherProcess,
    /// The provider's maximum of addresses for a vector's lifetime is reached
    /// ([`AvAttr::capacity`](crate::AvAttr::capacity)).
    TooManyPeers {
        /// Maximum number of addresses in the lifetime of a vector.
        limit: usize,
    },
    /// The provider refused the address.
    Errno(Errno),
}

impl From<Errno> for AddressError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { AddressError::OtherProcess } else { AddressError::Errno(errno) }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "address too long",
            Self::Truncated => "encoded address ends early",
            Self::BufferTooSmall => "buffer too small for the encoded address",
            Self::NotASocket => "not an IPv4 or IPv6 socket address",
            Self::Malformed => "malformed address text",
            Self::Full => {
                "no slot is left for the address: raise `AvAttr::capacity` (of a table `AddressTableAttr::places`, of a set \
                 its count), or remove peers"
            }
            Self::OutOfBytes => {
                "no room is left for the bytes of the address: raise `bytes` of the attributes, or remove peers"
            }
            Self::OtherProcess => OTHER_PROCESS,
            Self::TooManyPeers { limit } => {
                return write!(
                    f,
                    "the provider takes no more addresses into this vector ({limit} in its lifetime), or not this one: \
                     open another vector and endpoint, or check the address"
                );
            }
            Self::Errno(_) => "the transport refused the address",
        })?;
        with_cause(f, self)
    }
}

impl Error for AddressError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Errno(errno) => Some(errno),
            _ => None,
        }
    }
}
