//! [`MapError`]: a failed system call.

use core::ffi::{CStr, c_int};
use core::fmt;

use loom_core::Error;
use loom_core::vocabulary::Errno;

/// A failed system call of a mapping. It leaves no mapping behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapError {
    call: &'static CStr,
    errno: c_int,
}

impl MapError {
    pub(super) const fn new(call: &'static CStr, errno: c_int) -> Self {
        MapError { call, errno }
    }

    /// Name of the system call.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call.to_str().unwrap_or("")
    }

    /// Error number (`man 3 errno`).
    #[must_use]
    pub const fn errno(&self) -> c_int {
        self.errno
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with error number {}", self.call(), self.errno)
    }
}

impl core::error::Error for MapError {}

impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        Error::System { call: error.call.to_str().unwrap_or(""), errno: Errno::from_raw(error.errno) }
    }
}
