//! [`CollectiveError`].

use core::fmt;

use loom_core::Error;
use loom_core::completion::OpError;
use loom_core::error::PostError;
use loom_core::objects::cq::CqError;

use crate::schedule::ScheduleError;

/// Why a collective has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// A collective before this one has failed.
    Over,
    /// There is no such member or schedule.
    Schedule(ScheduleError),
    /// There must be two packets or more, of the same capacity.
    Packets,
    /// A buffer is shorter than the schedule needs, or a packet is shorter than an element.
    Lengths,
    /// A message has more than 2^15 pieces: the packets are too short for it.
    TooLong,
    /// A message has another length than this member expects: the members run different schedules.
    Mismatch,
    /// A message was not posted.
    Post(PostError),
    /// A message was not sent or received.
    Operation(OpError),
    /// The provider ignores bits of tags that the number of the group needs.
    TagBits,
    /// The completion queue cannot go on.
    Queue(CqError),
    /// The deadline has passed.
    TimedOut,
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectiveError::Over => f.write_str("an earlier collective of the group has failed"),
            CollectiveError::Schedule(error) => error.fmt(f),
            CollectiveError::Packets => f.write_str("a group needs two packets or more, of the same capacity"),
            CollectiveError::Lengths => f.write_str("a buffer is shorter than the schedule needs"),
            CollectiveError::TooLong => f.write_str("a message has more than 2^15 pieces: use longer packets"),
            CollectiveError::Mismatch => f.write_str("a message has another length than this member expects"),
            CollectiveError::Post(error) => error.fmt(f),
            CollectiveError::Operation(error) => error.fmt(f),
            CollectiveError::TagBits => {
                f.write_str("the provider ignores bits of tags that the number of the group needs")
            }
            CollectiveError::Queue(error) => error.fmt(f),
            CollectiveError::TimedOut => f.write_str("the deadline has passed before the collective was over"),
        }
    }
}

impl core::error::Error for CollectiveError {}

impl From<ScheduleError> for CollectiveError {
    fn from(error: ScheduleError) -> Self {
        CollectiveError::Schedule(error)
    }
}

impl From<PostError> for CollectiveError {
    fn from(error: PostError) -> Self {
        CollectiveError::Post(error)
    }
}

impl From<OpError> for CollectiveError {
    fn from(error: OpError) -> Self {
        CollectiveError::Operation(error)
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
            CollectiveError::Post(error) => error.into(),
            CollectiveError::Operation(error) => error.into(),
            CollectiveError::Queue(error) => error.into(),
            CollectiveError::TimedOut => CqError::TimedOut.into(),
            CollectiveError::Over => Error::Invalid("an earlier collective of the group has failed"),
            CollectiveError::Packets => Error::Invalid("the packets of a group of collectives"),
            CollectiveError::Lengths => Error::Invalid("the lengths of buffers of a collective"),
            CollectiveError::TooLong => Error::Invalid("a message of a collective has too many pieces"),
            CollectiveError::Mismatch => Error::Invalid("the members of a collective run different schedules"),
            CollectiveError::TagBits => Error::Invalid("the provider's tags have too few bits for collectives"),
        }
    }
}
