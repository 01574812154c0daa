use core::error::Error;
use core::fmt;

use super::{OpenError, PostError};
use crate::util::debug::debug_struct;

/// Error of a call that takes a value, with the unchanged value.
///
/// Text and [`source`](Error::source) are those of the cause. `?` drops the value.
///
/// ```
/// use loom_core::{Av, Cq, Forever, Rejected, Source};
///
/// # fixture::domain!(network, domain);
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 1)?);
/// # let bob = cq.endpoint(&av)?;
/// let first = bob.recv(Source::Any, vec![0; 5])?;
/// // The queue is full: the post returns its buffer, for another attempt.
/// let Rejected { value, error } = bob.recv(Source::Any, vec![0; 64]).unwrap_err();
/// assert!(error.is_transient());
/// bob.cancel(first)?;
/// cq.finish(first, Forever)?;
/// bob.recv(Source::Any, value)?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it holds the value that was passed"]
pub struct Rejected<V, E = PostError> {
    /// The unchanged value.
    pub value: V,
    /// Cause.
    pub error: E,
}

debug_struct!([V, E: fmt::Debug] Rejected[V, E], |it| error: it.error);

impl<V, E: fmt::Display> fmt::Display for Rejected<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V, E: Error> Error for Rejected<V, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Drops the value, for `?` in a function with an error that cannot borrow.
impl<V> From<Rejected<V>> for PostError {
    fn from(rejected: Rejected<V>) -> Self {
        rejected.error
    }
}

/// An endpoint is closed, and a connection request rejected.
impl<V> From<Rejected<V, OpenError>> for OpenError {
    fn from(rejected: Rejected<V, OpenError>) -> Self {
        rejected.error
    }
}
