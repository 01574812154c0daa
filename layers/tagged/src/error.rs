use core::fmt;

use loom_core::Error;
use loom_core::engine::op_table::OpError;
use loom_core::error::PostError;
use loom_core::vocabulary::Errno;

/// Cause of the end of a link, or reason for which a link was not added.
///
/// ```
/// use loom_core::Errno;
/// use loom_tagged::{LinkError, Violation};
///
/// /// Returns `true` if a new link to the same peer may work, as after its restart.
/// fn is_worth_a_retry(error: LinkError) -> bool {
///     matches!(error, LinkError::Carrier(_) | LinkError::Post(_))
/// }
///
/// let error = LinkError::Protocol(Violation::Overdrawn);
/// assert!(!is_worth_a_retry(error));
/// // Error of the operations of the link.
/// assert_eq!(error.errno(), Errno::EPROTO);
/// ```
///
/// A refused link:
///
/// ```
/// use loom_tagged::{LinkError, Packet, TaggedAttr, TaggedEndpoint, WithPeer};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let _ = (to_alice, at_bob);
/// let attr = TaggedAttr::DEFAULT;
/// let mut tagged = TaggedEndpoint::<_, Vec<u8>, _>::open(alice, attr)?;
/// let packets = (0..10).map(|_| vec![0; attr.packet_size as usize]);
/// let added = tagged.add_link(WithPeer::new(&at_alice, to_bob), packets);
/// assert_eq!(added, Err(LinkError::TooFewPackets { needed: attr.packets_per_link() }));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// Closed by this side.
    Closed,
    /// A packet failed: the peer has gone or never existed.
    Carrier(OpError),
    /// A post of a packet failed. [`PostError::Full`]: the queue has fewer slots than all links
    /// have [packets](crate::TaggedAttr::packets_per_link).
    Post(PostError),
    /// The peer violated the protocol.
    Protocol(Violation),
    /// The endpoint has its [maximum](crate::TaggedAttr::links) of links.
    TooMany,
    /// The carrier has another queue.
    OtherQueue,
    /// Too few buffers.
    TooFewPackets {
        /// Required number.
        needed: usize,
    },
    /// A buffer is too short, or not both readable and writable.
    Packet,
}

/// Violation of the protocol by a peer.
///
/// ```
/// use loom_tagged::Violation;
/// use loom_tagged::wire::{Body, Header};
///
/// let mut packet = Header { seq: 0, credits: [0, 0], body: Body::Credit }.encode(0);
/// assert!(Header::decode(&packet).is_ok());
/// assert_eq!(Header::decode(&packet[..10]), Err(Violation::Short { len: 10 }));
/// // A peer that speaks a later version of the protocol.
/// packet[2] = 2;
/// assert_eq!(Header::decode(&packet), Err(Violation::Version(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Bytes shorter than a header.
    Short {
        /// Bytes.
        len: usize,
    },
    /// The magic of a packet is wrong.
    Magic,
    /// Another version of the format.
    Version(u8),
    /// An unknown kind of packet.
    Kind(u8),
    /// The length differs from the header's, or the kind forbids or requires bytes.
    Length,
    /// A field that the kind does not use is not zero.
    Unused,
    /// A sequence number has arrived before.
    Repeated,
    /// A sequence number is further ahead than packets can be in flight.
    Beyond,
    /// More packets than the peer was allowed to send.
    Overdrawn,
    /// A credit smaller than the last one, or larger than the packets.
    NotGranted,
    /// The peer's packets are too short, or its greeting is not its first packet.
    Hello,
    /// An answer without a request, or more bytes than requested.
    Unasked,
}

impl LinkError {
    /// Errno of the link's operations: `ECANCELED` if this side closed the link, `EPROTO` if the
    /// peer violated the protocol, `EINVAL` if the link was not added, otherwise the carrier's.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            LinkError::Closed => Errno::ECANCELED,
            // A packet that is too long is a protocol error, not a truncated message.
            LinkError::Carrier(error) if error.errno == Errno::ETRUNC => Errno::EPROTO,
            LinkError::Carrier(error) => error.errno,
            LinkError::Post(PostError::Errno(errno)) => *errno,
            LinkError::Post(PostError::OtherProcess) => Errno::OTHER_PROCESS,
            LinkError::Post(_) => Errno::EIO,
            LinkError::Protocol(_) => Errno::EPROTO,
            LinkError::TooMany | LinkError::OtherQueue | LinkError::TooFewPackets { .. } | LinkError::Packet => {
                Errno::EINVAL
            }
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Closed => f.write_str("the link was closed"),
            LinkError::Carrier(error) => f.write_str("a packet has failed: ").and_then(|()| error.fmt(f)),
            LinkError::Post(error) => f.write_str("a packet was refused: ").and_then(|()| error.fmt(f)),
            LinkError::Protocol(violation) => write!(f, "the peer does not follow the protocol: {violation}"),
            LinkError::TooMany => {
                f.write_str("the endpoint has as many links as it was opened for: raise `TaggedAttr::links`")
            }
            LinkError::OtherQueue => f.write_str("the carrier has another queue than the endpoint"),
            LinkError::TooFewPackets { needed } => write!(f, "a link needs {needed} packets"),
            LinkError::Packet => {
                f.write_str("a buffer is shorter than `TaggedAttr::packet_size`, or not both readable and writable")
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Short { len } => write!(f, "{len} bytes are no packet"),
            Violation::Magic => f.write_str("it has not the first bytes of a packet"),
            Violation::Version(version) => write!(f, "version {version} of the packets"),
            Violation::Kind(kind) => write!(f, "a packet of kind {kind}"),
            Violation::Length => f.write_str("a packet does not have the length in its header"),
            Violation::Unused => f.write_str("a packet has something in a field without use"),
            Violation::Repeated => f.write_str("a packet has come twice"),
            Violation::Beyond => f.write_str("a packet is further ahead than the credit"),
            Violation::Overdrawn => f.write_str("more packets than there was credit for"),
            Violation::NotGranted => f.write_str("a credit that cannot be"),
            Violation::Hello => f.write_str("its first packet is no greeting"),
            Violation::Unasked => f.write_str("it answers a request that was not made"),
        }
    }
}

impl core::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            LinkError::Post(error) => error.source(),
            _ => None,
        }
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => Error::Provider(Errno::ECANCELED),
            LinkError::Carrier(error) => error.into(),
            LinkError::Post(error) => error.into(),
            LinkError::Protocol(violation) => violation.into(),
            LinkError::TooMany => Error::Full("the links of the endpoint"),
            LinkError::OtherQueue => Error::Invalid("the carrier has another queue than the endpoint"),
            LinkError::TooFewPackets { .. } => Error::Invalid("a link needs `TaggedAttr::packets_per_link` packets"),
            LinkError::Packet => Error::Invalid("a buffer cannot be used as a packet"),
        }
    }
}

impl From<Violation> for Error {
    fn from(_: Violation) -> Self {
        Error::Invalid("the peer of a link does not follow the protocol of tagged messages")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{State, failed};

    #[test]
    fn operations_of_a_failed_link_end_with_its_carriers_error() {
        let carrier = |errno| LinkError::Carrier(failed(&State::Leaving { len: 0 }, errno));
        assert_eq!(LinkError::Closed.errno(), Errno::ECANCELED);
        assert_eq!(carrier(Errno::ECONNRESET).errno(), Errno::ECONNRESET);
        assert_eq!(carrier(Errno::ETRUNC).errno(), Errno::EPROTO);
        assert_eq!(LinkError::Post(PostError::Errno(Errno::ENOMEM)).errno(), Errno::ENOMEM);
        assert_eq!(LinkError::Post(PostError::Full).errno(), Errno::EIO);
        assert_eq!(LinkError::Protocol(Violation::Hello).errno(), Errno::EPROTO);
    }
}
