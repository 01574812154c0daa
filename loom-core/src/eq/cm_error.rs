//! [`CmError`]: refusals of connecting, accepting and rejecting.

use core::fmt;

use crate::vocabulary::Errno;

/// Reason why connecting, accepting or rejecting was refused on this side.
///
/// ```
/// use loom_core::eq::{CmError, ConnectionRequest};
/// use loom_core::transport::Connected;
///
/// /// Rejects a request with the reason, or with as much of it as the provider carries.
/// fn reject<T: Connected>(request: ConnectionRequest<'_, T>, reason: &[u8]) -> Result<(), CmError> {
///     match request.reject(reason) {
///         Err(refused) => match refused.error {
///             CmError::DataTooLong { limit } => Ok(refused.what.reject(&reason[..limit])?),
///             error => Err(error),
///         },
///         Ok(()) => Ok(()),
///     }
/// }
///
/// assert_eq!(CmError::DataTooLong { limit: 8 }.to_string(), "connections carry no more than 8 bytes of data");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmError {
    /// The data exceeds the provider's maximum, to which libfabric would silently truncate it.
    DataTooLong {
        /// Maximum bytes of data.
        limit: usize,
    },
    /// The provider refused.
    Errno(Errno),
}

impl CmError {
    pub(crate) fn check(data: &[u8], limit: Result<usize, Errno>) -> Result<(), CmError> {
        match limit {
            _ if data.is_empty() => Ok(()),
            Ok(limit) if data.len() > limit => Err(CmError::DataTooLong { limit }),
            Ok(_) => Ok(()),
            Err(errno) => Err(CmError::Errno(errno)),
        }
    }
}

impl From<Errno> for CmError {
    fn from(errno: Errno) -> Self {
        CmError::Errno(errno)
    }
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CmError::DataTooLong { limit } => write!(f, "connections carry no more than {limit} bytes of data"),
            CmError::Errno(errno) => write!(f, "the provider refused: {errno}"),
        }
    }
}

impl core::error::Error for CmError {}

/// A refusal, with the unchanged endpoint or request.
///
/// ```
/// use loom_core::endpoint::{Connecting, Idle};
/// use loom_core::eq::CmError;
/// use loom_core::transport::Connected;
/// use loom_core::{EndpointAddr, Error, MsgEndpoint};
///
/// /// Connects with `data` for the peer, or without if connections of the provider carry less.
/// fn connect<'m, T: Connected>(
///     endpoint: MsgEndpoint<'m, T, Vec<u8>, Idle>,
///     to: &EndpointAddr,
///     data: &[u8],
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>, Connecting>, Error> {
///     match endpoint.connect(to, data) {
///         Err(refused) if matches!(refused.error, CmError::DataTooLong { .. }) => Ok(refused.what.connect(to, b"")?),
///         connecting => Ok(connecting?),
///     }
/// }
/// ```
pub struct Refused<E> {
    /// The endpoint, or the request.
    pub what: E,
    /// The reason.
    pub error: CmError,
}

impl<E> fmt::Debug for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<E> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E> core::error::Error for Refused<E> {}

/// Keeps the reason alone, for `?`. The endpoint is closed, or the request rejected.
impl<E> From<Refused<E>> for CmError {
    fn from(refused: Refused<E>) -> Self {
        refused.error
    }
}
