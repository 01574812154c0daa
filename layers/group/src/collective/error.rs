//! [`CollectiveError`].

use core::fmt;

use loom_core::Error;
use loom_core::completion::OpError;
use loom_core::cq::CqError;
use loom_core::error::{OpenError, PostError};

use crate::schedule::ScheduleError;

/// Reason why a team or a collective has failed. Members are given by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The member or the schedule does not exist.
    Schedule(ScheduleError),
    /// A collective needs at least two packets of the same capacity, at least one element long.
    Packets,
    /// The group's queue has fewer slots than the team has packets, so receives could block sends.
    Depth {
        /// Slots that the team needs.
        needs: usize,
    },
    /// The provider ignores tag bits (`mem_tag_format`) that the team number needs.
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
    /// Out of memory.
    Open(OpenError),
    /// The buffer lengths do not match the collective.
    Lengths,
    /// The team has too little scratch.
    Scratch {
        /// Bytes that the collective needs.
        needs: usize,
    },
    /// Too many collectives are in flight, or one that began 63 collectives before. Retry after a
    /// completion.
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
    /// The provider refused a collective. `ECONNRESET` over the software transport: a member has
    /// gone.
    Provider(PostError),
    /// A collective of the provider has failed. The error does not name a member.
    ProviderOperation(OpError),
    /// The completion queue cannot go on.
    Queue(CqError),
    /// The deadline has passed. The collective stays in flight and can be waited for again.
    TimedOut {
        /// Member of an incomplete message.
        member: Option<u32>,
    },
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectiveError::Schedule(error) => error.fmt(f),
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
                f.write_str("over connections without tagged messages, a team has one collective under way at a time")
            }
            CollectiveError::NumberTaken => f.write_str("another open team of the group has this number"),
            CollectiveError::Open(error) => error.fmt(f),
            CollectiveError::Lengths => f.write_str("the buffers are not as long as the collective says"),
            CollectiveError::Scratch { needs } => write!(f, "the collective needs {needs} bytes of scratch"),
            CollectiveError::Busy => f.write_str("too many collectives are under way"),
            CollectiveError::Over => f.write_str("an earlier collective of the team has failed or was given up"),
            CollectiveError::TooLong => f.write_str("a message has more than 2^15 pieces: use longer packets"),
            CollectiveError::Mismatch { member } => {
                write!(f, "a message of member {member} has another length than this member expects")
            }
            CollectiveError::Post { member, error } => write!(f, "member {member}: {error}"),
            CollectiveError::Operation { member, error } => write!(f, "member {member}: {error}"),
            CollectiveError::ProviderGroup => {
                f.write_str("the provider's group has other members than the team, or another queue")
            }
            CollectiveError::Provider(error) => write!(f, "the provider's collective: {error}"),
            CollectiveError::ProviderOperation(error) => write!(f, "the provider's collective: {error}"),
            CollectiveError::Queue(error) => error.fmt(f),
            CollectiveError::TimedOut { member: Some(member) } => {
                write!(f, "the deadline has passed before a message of or to member {member} has moved")
            }
            CollectiveError::TimedOut { member: None } => f.write_str("the deadline has passed"),
        }
    }
}

impl core::error::Error for CollectiveError {}

impl From<ScheduleError> for CollectiveError {
    fn from(error: ScheduleError) -> Self {
        CollectiveError::Schedule(error)
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
            CollectiveError::Schedule(error) => error.into(),
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
