use core::fmt;

use loom_core::Error;
use loom_core::completion::OpError;
use loom_core::cq::CqError;
use loom_core::vocabulary::AddressError;

use loom_core::error::{OpenError, PostError};
use loom_core::vocabulary::{EndpointAddr, Errno};

use crate::exchange::Record;

/// Reason for which a peer was not added, or its [`Record`] not encoded or decoded.
///
/// ```
/// use loom_core::Domain;
/// use loom_group::{PeerError, PeerIndex, Prepared};
///
/// # fixture::domain!(network, domain);
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// # let prepared: Prepared<'_, _, Vec<u8>, _> = prepared;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// // The group was opened for two members.
/// assert_eq!(group.set(PeerIndex(2), &itself), Err(PeerError::NoSuchPlace));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerError {
    /// The group was opened for fewer members.
    NoSuchPlace,
    /// The address vector rejected the address.
    Insert(AddressError),
    /// Wrong method: [`Connections::set`](crate::Connections::set) sets members with connections,
    /// [`Group::set`](crate::Group::set) all others.
    HasConnections,
    /// The peer did not connect in time.
    Missing,
    /// The connection's endpoint was not opened.
    Open(OpenError),
    /// Connecting or accepting was refused here.
    Connect(OpenError),
    /// The connection was rejected or ended, and was not replaced in time.
    Failed(Errno),
    /// Another program answered at the peer's address.
    Stranger,
    /// The event queue has failed.
    Events(CqError),
    /// The completion queue has failed.
    Queue(CqError),
    /// The buffer is too short, and was not written.
    BufferTooShort {
        /// Bytes of the record.
        needed: usize,
    },
    /// The record has more than [`Record::MAX_REGIONS`] regions.
    TooManyRegions {
        /// Regions.
        count: usize,
    },
    /// The bytes end before the record.
    Truncated {
        /// Minimum bytes of the record.
        needed: usize,
    },
    /// The record's magic is missing.
    Magic,
    /// The version is not supported.
    Version(u16),
    /// The address has more than [`EndpointAddr::MAX_LEN`] bytes.
    AddressTooLong {
        /// Bytes of the address.
        len: usize,
    },
    /// The stated length of the record differs from that of its parts.
    LengthMismatch {
        /// Stated bytes.
        stated: usize,
        /// Bytes of header, address and regions.
        parts: usize,
    },
    /// More bytes follow the record.
    TrailingBytes {
        /// Bytes after the record.
        count: usize,
    },
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerError::NoSuchPlace => f.write_str("the group was opened for fewer peers: raise `GroupAttr::capacity`"),
            PeerError::Insert(error) => error.fmt(f),
            PeerError::HasConnections => f.write_str("the members of this group are set in another way"),
            PeerError::Missing => f.write_str("the deadline has passed before it was connected"),
            PeerError::Open(error) => error.fmt(f),
            PeerError::Connect(error) => error.fmt(f),
            PeerError::Failed(errno) => write!(f, "the connection failed: {errno}"),
            PeerError::Stranger => f.write_str("another program has answered at its address"),
            PeerError::Events(error) => error.fmt(f),
            PeerError::Queue(error) => error.fmt(f),
            PeerError::BufferTooShort { needed } => {
                write!(f, "buffer too short: the record needs {needed} bytes")
            }
            PeerError::TooManyRegions { count } => {
                write!(f, "{count} regions in a record, which takes at most {}", Record::MAX_REGIONS)
            }
            PeerError::Truncated { needed } => write!(f, "record ends early: it needs at least {needed} bytes"),
            PeerError::Magic => f.write_str("the bytes are not a record"),
            PeerError::Version(version) => write!(f, "record of the unknown version {version}"),
            PeerError::AddressTooLong { len } => {
                write!(f, "address of {len} bytes in a record, which takes at most {}", EndpointAddr::MAX_LEN)
            }
            PeerError::LengthMismatch { stated, parts } => {
                write!(f, "record states a length of {stated} bytes, its parts have {parts}")
            }
            PeerError::TrailingBytes { count } => write!(f, "{count} bytes follow the record"),
        }
    }
}

pub(crate) fn with(f: &mut fmt::Formatter<'_>, what: fmt::Arguments<'_>, error: &dyn fmt::Display) -> fmt::Result {
    f.write_fmt(what)?;
    f.write_str(": ")?;
    error.fmt(f)
}

impl core::error::Error for PeerError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            PeerError::Insert(error) => error.source(),
            PeerError::Open(error) | PeerError::Connect(error) => error.source(),
            PeerError::Events(error) | PeerError::Queue(error) => error.source(),
            _ => None,
        }
    }
}

impl From<PeerError> for Error {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::NoSuchPlace => AddressError::Full.into(),
            PeerError::Insert(error) => error.into(),
            PeerError::HasConnections => Error::Invalid("the members of a group are set in another way"),
            PeerError::Missing => Errno::ETIMEDOUT.into(),
            PeerError::Open(error) => error.into(),
            PeerError::Connect(error) => error.into(),
            PeerError::Failed(errno) => errno.into(),
            PeerError::Stranger => Error::Invalid("another program has answered at a peer's address"),
            PeerError::Events(error) => error.into(),
            PeerError::Queue(error) => error.into(),
            PeerError::BufferTooShort { .. } => Error::Full("the buffer for the record of a peer"),
            PeerError::TooManyRegions { .. } => Error::Full("the regions in the record of a peer"),
            PeerError::Truncated { .. } => Error::Invalid("the record of a peer ends early"),
            PeerError::Magic => Error::Invalid("the bytes of a peer are not a record"),
            PeerError::Version(_) => Error::Invalid("the record of a peer has an unknown version"),
            PeerError::AddressTooLong { .. } => Error::Invalid("the address in the record of a peer is too long"),
            PeerError::LengthMismatch { .. } => {
                Error::Invalid("the lengths in the record of a peer contradict each other")
            }
            PeerError::TrailingBytes { .. } => Error::Invalid("further bytes follow the record of a peer"),
        }
    }
}

/// Reason for which a schedule or a team does not exist, or a collective has failed. Members are
/// ranks.
///
/// ```
/// use loom_group::CollectiveError;
/// use loom_group::schedule::{BroadcastTree, Member};
///
/// assert_eq!(Member::new(4, 4), Err(CollectiveError::Rank));
/// let member = Member::new(3, 4).expect("ranks count from 0");
/// assert_eq!(BroadcastTree::new(member, 4, 10), Err(CollectiveError::Root));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The number of members is zero, or above
    /// [`Member::MOST`](crate::schedule::Member::MOST).
    Members,
    /// The rank is not below the number of members.
    Rank,
    /// The root is not below the number of members.
    Root,
    /// The bounds are not one more than the members, or decrease.
    Bounds,
    /// The number of elements of a buffer exceeds a `usize`.
    Size,
    /// A collective needs at least two packets, of equal capacity for at least one element.
    Packets,
    /// The group's queue has too few slots for the team's packets, so receives could block sends.
    Depth {
        /// Slots.
        needs: usize,
    },
    /// The provider ignores tag bits (`mem_tag_format`) of the team number.
    TagBits,
    /// The connections have no tagged messages, and the provider does not guarantee message order
    /// ([`MsgOrder::SAS`]).
    ///
    /// [`MsgOrder::SAS`]: loom_core::vocabulary::MsgOrder::SAS
    Order,
    /// Over connections without tagged messages, a team has one collective at a time.
    AtOnce,
    /// Another open team of the group has the number or, without tags, exists.
    NumberTaken,
    /// A part of the team was not opened.
    Open(OpenError),
    /// The buffer lengths do not match the collective.
    Lengths,
    /// The team has too little scratch.
    Scratch {
        /// Bytes.
        needs: usize,
    },
    /// Too many collectives are in flight, or one of 63 numbers before. Retry after a completion.
    Busy,
    /// An earlier collective has failed or was given up.
    Over,
    /// A message has more than 2^15 pieces: the packets are too short.
    TooLong,
    /// A message has an unexpected length: the members call different collectives.
    Mismatch {
        /// Sender of the message.
        member: u32,
    },
    /// A message to or from a member was not posted.
    Post {
        /// Peer of the message.
        member: u32,
        /// Cause.
        error: PostError,
    },
    /// A message to or from a member has failed.
    Operation {
        /// Peer of the message.
        member: u32,
        /// Cause.
        error: OpError,
    },
    /// The provider's group has other members than the team, or another queue than the group.
    ProviderGroup,
    /// The provider refused a collective: `ECONNRESET` of the software transport if a member has
    /// gone.
    Provider(PostError),
    /// A collective of the provider has failed, without the name of a member.
    ProviderOperation(OpError),
    /// The completion queue failed.
    Queue(CqError),
    /// The deadline has passed. The collective stays in flight.
    TimedOut {
        /// Member of an incomplete message.
        member: Option<u32>,
    },
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectiveError::Members => f.write_str("a group needs from 1 to 2^30 members"),
            CollectiveError::Rank => f.write_str("the rank is not less than the number of members"),
            CollectiveError::Root => f.write_str("the root is not less than the number of members"),
            CollectiveError::Bounds => f.write_str("the bounds are not one more than the members, or they decrease"),
            CollectiveError::Size => f.write_str("a buffer has more elements than a usize can count"),
            CollectiveError::Packets => {
                f.write_str("a collective needs two packets or more, of the same capacity of an element or more")
            }
            CollectiveError::Depth { needs } => {
                write!(f, "the queue of the group needs {needs} places, one for each packet of the team")
            }
            CollectiveError::TagBits => {
                f.write_str("the provider ignores bits of tags that the number of the team needs")
            }
            CollectiveError::Order => {
                f.write_str("the connections have no tagged messages, and do not promise that messages stay in order")
            }
            CollectiveError::AtOnce => {
                f.write_str("over connections without tagged messages, a team has one collective in flight")
            }
            CollectiveError::NumberTaken => f.write_str("another open team of the group has this number"),
            CollectiveError::Open(error) => error.fmt(f),
            CollectiveError::Lengths => f.write_str("the buffers do not have the length of the collective"),
            CollectiveError::Scratch { needs } => write!(f, "the collective needs {needs} bytes of scratch"),
            CollectiveError::Busy => f.write_str("too many collectives are in flight"),
            CollectiveError::Over => f.write_str("an earlier collective of the team has failed or was given up"),
            CollectiveError::TooLong => f.write_str("a message has more than 2^15 pieces: use longer packets"),
            CollectiveError::Mismatch { member } => {
                write!(f, "a message of member {member} has another length than this member expects")
            }
            CollectiveError::Post { member, error } => with(f, format_args!("member {member}"), error),
            CollectiveError::Operation { member, error } => with(f, format_args!("member {member}"), error),
            CollectiveError::ProviderGroup => {
                f.write_str("the provider's group has other members than the team, or another queue")
            }
            CollectiveError::Provider(error) => with(f, format_args!("the provider's collective"), error),
            CollectiveError::ProviderOperation(error) => with(f, format_args!("the provider's collective"), error),
            CollectiveError::Queue(error) => error.fmt(f),
            CollectiveError::TimedOut { member: Some(member) } => {
                write!(f, "the deadline has passed before a message of or to member {member} has moved")
            }
            CollectiveError::TimedOut { member: None } => f.write_str("the deadline has passed"),
        }
    }
}

impl core::error::Error for CollectiveError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            CollectiveError::Open(error) => error.source(),
            CollectiveError::Post { error, .. } | CollectiveError::Provider(error) => error.source(),
            CollectiveError::Queue(error) => error.source(),
            _ => None,
        }
    }
}

impl From<OpenError> for CollectiveError {
    fn from(error: OpenError) -> Self {
        CollectiveError::Open(error)
    }
}

impl From<CqError> for CollectiveError {
    fn from(error: CqError) -> Self {
        CollectiveError::Queue(error)
    }
}

impl From<CollectiveError> for Error {
    fn from(error: CollectiveError) -> Self {
        match error {
            CollectiveError::Members => Error::Invalid("the number of members of a schedule"),
            CollectiveError::Rank => Error::Invalid("the rank of a member of a schedule"),
            CollectiveError::Root => Error::Invalid("the root of a schedule"),
            CollectiveError::Bounds => Error::Invalid("the bounds of blocks of a schedule"),
            CollectiveError::Size => Error::Invalid("the number of elements of a schedule"),
            CollectiveError::Open(error) => error.into(),
            CollectiveError::Post { error, .. } | CollectiveError::Provider(error) => error.into(),
            CollectiveError::Operation { error, .. } | CollectiveError::ProviderOperation(error) => error.into(),
            CollectiveError::Queue(error) => error.into(),
            CollectiveError::TimedOut { .. } => CqError::TimedOut.into(),
            CollectiveError::Busy => PostError::Again.into(),
            CollectiveError::Packets => Error::Invalid("the packets of a team"),
            CollectiveError::Depth { .. } => {
                Error::Invalid("the queue of a group has fewer places than a team of it has packets")
            }
            CollectiveError::TagBits => {
                Error::Invalid("the provider's tags have too few bits for the number of a team")
            }
            CollectiveError::Order => Error::Invalid("a team over connections without tags and without order"),
            CollectiveError::AtOnce => Error::Invalid("several collectives of a team without tags"),
            CollectiveError::NumberTaken => Error::Invalid("the number of a team is taken"),
            CollectiveError::ProviderGroup => Error::Invalid("the provider's group of a team"),
            CollectiveError::Lengths => Error::Invalid("the lengths of buffers of a collective"),
            CollectiveError::Scratch { .. } => Error::Invalid("the scratch of a team is too short for a collective"),
            CollectiveError::Over => Error::Invalid("an earlier collective of the team has failed or was given up"),
            CollectiveError::TooLong => Error::Invalid("a message of a collective has too many pieces"),
            CollectiveError::Mismatch { .. } => Error::Invalid("the members of a team call different collectives"),
        }
    }
}
