use core::fmt;

use loom_core::Error;
use loom_core::error::OpenError;
use loom_core::vocabulary::Errno;

/// Reason for which a rank did not join, or a round failed.
///
/// ```
/// use core::time::Duration;
/// use std::time::Instant;
///
/// use loom_group::bootstrap::{Board, Bootstrap, BootstrapError, InProcess};
///
/// let board = Board::open(3, 16).expect("there is memory");
/// assert_eq!(InProcess::join(&board, 3).err(), Some(BootstrapError::UnknownRank { rank: 3, size: 3 }));
/// let mut ranks = InProcess::join(&board, 0).expect("the seat is free");
/// assert!(matches!(InProcess::join(&board, 0), Err(BootstrapError::Taken { .. })));
///
/// let ended = ranks.barrier(&mut (Instant::now() + Duration::from_millis(2)));
/// // The lowest of the ranks that did not come.
/// assert_eq!(ended, Err(BootstrapError::Missing { rank: 1 }));
/// // The ranks are no longer in step.
/// assert_eq!(ranks.barrier(&mut loom_core::Forever), Err(BootstrapError::Ended));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The number of ranks is zero, or above [`MAX_SIZE`](super::MAX_SIZE).
    Size {
        /// Number.
        size: u32,
    },
    /// The rank is not below the number of ranks.
    UnknownRank {
        /// Requested rank.
        rank: u32,
        /// Number of ranks.
        size: u32,
    },
    /// The limit of bytes for each rank exceeds 32 bits.
    Limit {
        /// Requested limit.
        limit: usize,
    },
    /// Out of memory for a board.
    OutOfMemory,
    /// Another peer has joined with this rank.
    Taken {
        /// Rank.
        rank: u32,
    },
    /// An earlier run has used the job name.
    Used,
    /// The job name has other characters than letters, digits, `-`, `_` and `.`.
    Name,
    /// This rank and another have different attributes.
    Mismatch(Mismatch),
    /// An environment variable is missing or not a number: no launcher has started the program.
    Environment {
        /// Name of the variable.
        variable: &'static str,
    },
    /// A rank did not take part in time, or left.
    Missing {
        /// Lowest rank known to be missing.
        rank: u32,
    },
    /// Bytes exceed a limit.
    TooLong {
        /// Rank of the bytes.
        rank: u32,
        /// Number of bytes.
        len: usize,
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The numbers of slots and ranks differ.
    SlotCount {
        /// Number of slots.
        count: u32,
        /// Number of ranks.
        size: u32,
    },
    /// A rank runs another round.
    OutOfStep {
        /// Lowest.
        rank: u32,
    },
    /// A rank violated the protocol.
    Malformed {
        /// Lowest.
        rank: u32,
    },
    /// The launcher failed.
    Launcher(LauncherFault),
    /// An earlier round failed, and the ranks are out of step.
    Ended,
    /// The operating system refused a call.
    System {
        /// Name of the call.
        call: &'static str,
        /// Cause.
        errno: Errno,
    },
}

/// Attribute that must be equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// Protocol version.
    Version,
    /// Job number.
    Job,
    /// Ranks.
    Size,
    /// Limit of bytes.
    Limit,
}

/// Failure of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LauncherFault {
    /// It closed the connection.
    Gone,
    /// It did not answer in time: a rank may be missing.
    Silent,
    /// Its answer violates the protocol.
    Malformed,
    /// It refused a request.
    Refused {
        /// Code of the launcher.
        rc: i32,
    },
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { size } => write!(f, "{size} ranks: there must be from 1 to {}", super::MAX_SIZE),
            Self::UnknownRank { rank, size } => write!(f, "there is no rank {rank} among {size}"),
            Self::Limit { limit } => write!(f, "{limit} bytes for each rank are more than 4 GiB"),
            Self::OutOfMemory => f.write_str("no memory for the bootstrap"),
            Self::Taken { rank } => write!(f, "another peer has joined as rank {rank}"),
            Self::Used => f.write_str("an earlier run has used the name of the job"),
            Self::Name => {
                f.write_str("the name of a job has letters, digits, '-', '_' and '.', and does not begin with '.'")
            }
            Self::Mismatch(what) => write!(f, "another rank has joined with another {what}"),
            Self::Environment { variable } => write!(
                f,
                "{variable} is missing in the environment, or not a number: no launcher has started the program"
            ),
            Self::Missing { rank } => write!(f, "rank {rank} is missing"),
            Self::TooLong { rank, len, limit } => write!(f, "rank {rank} gives {len} bytes, at most {limit} are taken"),
            Self::SlotCount { count, size } => write!(f, "{count} slots for {size} ranks"),
            Self::OutOfStep { rank } => write!(f, "rank {rank} plays another round"),
            Self::Malformed { rank } => write!(f, "the bytes of rank {rank} are not part of the bootstrap"),
            Self::Launcher(fault) => fault.fmt(f),
            Self::Ended => f.write_str("an earlier round of the bootstrap failed"),
            Self::System { call, errno } => write!(f, "{call} failed: {errno}"),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "version of the protocol",
            Self::Job => "number of the job",
            Self::Size => "number of ranks",
            Self::Limit => "limit of bytes for each rank",
        })
    }
}

impl fmt::Display for LauncherFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the launcher has closed the connection"),
            Self::Silent => f.write_str("the launcher did not answer in time: a rank may be missing"),
            Self::Malformed => f.write_str("the answer of the launcher is not part of its protocol"),
            Self::Refused { rc } => write!(f, "the launcher refuses a request with code {rc}"),
        }
    }
}

impl core::error::Error for BootstrapError {}

impl From<LauncherFault> for BootstrapError {
    fn from(fault: LauncherFault) -> Self {
        BootstrapError::Launcher(fault)
    }
}

/// Missing ranks and silent launchers are [`Errno::ETIMEDOUT`], an ended bootstrap and a closed
/// connection to the launcher [`Errno::ECONNABORTED`].
impl From<BootstrapError> for Error {
    fn from(error: BootstrapError) -> Self {
        Error::Invalid(match error {
            BootstrapError::Missing { .. } | BootstrapError::Launcher(LauncherFault::Silent) => {
                return Errno::ETIMEDOUT.into();
            }
            BootstrapError::Ended | BootstrapError::Launcher(LauncherFault::Gone) => {
                return Errno::ECONNABORTED.into();
            }
            BootstrapError::System { call, errno } => return Error::System { call, errno },
            BootstrapError::OutOfMemory => return OpenError::OutOfMemory.into(),
            BootstrapError::TooLong { .. } => return Error::Full("the bytes that a rank of a bootstrap may give"),
            BootstrapError::Size { .. } => "the number of ranks is out of range",
            BootstrapError::UnknownRank { .. } => "there is no such rank in the bootstrap",
            BootstrapError::Limit { .. } => "the limit of bytes for each rank is above 4 GiB",
            BootstrapError::Taken { .. } => "another peer has joined with this rank",
            BootstrapError::Used => "an earlier run has used the name of the job",
            BootstrapError::Name => {
                "the name of a job has letters, digits, '-', '_' and '.', and does not begin with '.'"
            }
            BootstrapError::Mismatch(_) => "another rank has joined with other attributes",
            BootstrapError::Environment { .. } => "the environment has no launcher",
            BootstrapError::SlotCount { .. } => "the number of slots is not the number of ranks",
            BootstrapError::OutOfStep { .. } => "a rank plays another round of the bootstrap",
            BootstrapError::Malformed { .. } => "the bytes of a rank are not part of the bootstrap",
            BootstrapError::Launcher(LauncherFault::Malformed) => {
                "the answer of the launcher is not part of its protocol"
            }
            BootstrapError::Launcher(LauncherFault::Refused { .. }) => "the launcher refuses a request",
        })
    }
}

#[cfg(feature = "std")]
pub(super) fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
