use core::fmt;

use loom_core::{Errno, Error};

/// Error of formats or flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MxlError {
    /// Missing or invalid key of a definition or of options.
    Definition(&'static str),
    /// Missing or invalid key of a target's info, or another kind of flow.
    TargetInfo(&'static str),
    /// The files do not have MXL's format.
    Flow(&'static str),
    /// An argument does not fit the flow.
    Invalid(&'static str),
    /// The flow has been deleted or replaced.
    Stale,
    /// The data is not committed.
    TooEarly,
    /// The ring no longer has the data.
    TooLate,
    /// A system call failed.
    System {
        /// Name of the call.
        call: &'static str,
        /// Error number.
        errno: Errno,
    },
}

impl MxlError {
    pub(super) fn io(call: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |error| MxlError::System { call, errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)) }
    }

    pub(super) fn system(call: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| MxlError::System { call, errno: Errno::from_raw(errno.raw_os_error()) }
    }

    const fn text(&self) -> &'static str {
        match self {
            MxlError::Definition(_) => {
                "a key of an MXL flow definition or of options is missing or invalid: correct the file"
            }
            MxlError::TargetInfo(_) => {
                "a key of an MXL target's info is missing or invalid, or of another kind of flow: use the newest info"
            }
            MxlError::Flow(text) | MxlError::Invalid(text) => text,
            MxlError::Stale => "the flow has been deleted or replaced: open it again",
            MxlError::TooEarly => "the grain or the samples have not been committed: wait for longer",
            MxlError::TooLate => {
                "the ring no longer has the grain or the samples: read later ones, or lengthen the history"
            }
            MxlError::System { .. } => "a system call failed",
        }
    }
}

impl fmt::Display for MxlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        match self {
            MxlError::Definition(key) | MxlError::TargetInfo(key) => write!(f, ", `{key}`"),
            MxlError::System { call, errno } => write!(f, ": {call}: {errno}"),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for MxlError {}

impl From<MxlError> for Error {
    fn from(error: MxlError) -> Self {
        match error {
            MxlError::System { call, errno } => Error::System { call, errno },
            other => Error::Invalid(other.text()),
        }
    }
}
