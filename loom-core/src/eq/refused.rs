//! [`Refused`], which returns the endpoint, the request or the event.

use core::error::Error;
use core::fmt;

use super::Failure;
use crate::error::OpenError;
use crate::vocabulary::Errno;

/// Checks the length of the data of a connection.
pub(crate) fn check_data(data: &[u8], limit: Result<usize, Errno>) -> Result<(), OpenError> {
    match limit {
        _ if data.is_empty() => Ok(()),
        Ok(limit) if data.len() > limit => Err(OpenError::DataTooLong { limit }),
        Ok(_) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// An [`OpenError`] with the unchanged endpoint or request, or with the event that reports it
/// (futures of [`EqDriver`](crate::driver::EqDriver)).
///
/// ```
/// use loom_core::{EndpointAddr, Error, MsgEndpoint, OpenError, endpoint::{Connecting, Idle}, transport::Connected};
///
/// /// Connects with data for the peer, or without data if the provider carries less.
/// fn connect<'m, T: Connected>(
///     endpoint: MsgEndpoint<'m, T, Vec<u8>, Idle>, to: &EndpointAddr, data: &[u8],
/// ) -> Result<MsgEndpoint<'m, T, Vec<u8>, Connecting>, Error> {
///     match endpoint.connect(to, data) {
///         Err(refused) if matches!(refused.error, OpenError::DataTooLong { .. }) => Ok(refused.what.connect(to, b"")?),
///         connecting => Ok(connecting?),
///     }
/// }
/// ```
pub struct Refused<E = Option<Failure>> {
    /// The endpoint, the request, or the event.
    pub what: E,
    /// The reason.
    pub error: OpenError,
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

impl<E> Error for Refused<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Self {
        Refused { what: None, error }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Refused { what: Some(failure), error: failure.into() }
    }
}

/// Keeps the reason alone, for `?`. The endpoint is closed, or the request rejected.
impl<E> From<Refused<E>> for OpenError {
    fn from(refused: Refused<E>) -> Self {
        refused.error
    }
}
