//! Errors of opening, posting, polling and waiting.
//!
//! An error prints its own text. `{error:#}` adds its [sources](core::error::Error::source) on the
//! same line.
//!
//! ```
//! use core::error::Error;
//! use loom_core::{Errno, OpenError};
//!
//! let error = OpenError::Errno(Errno::ENOSYS);
//! assert_eq!(error.to_string(), "the transport refused");
//! assert_eq!(format!("{error:#}"), format!("the transport refused: {}", Errno::ENOSYS));
//! assert!(error.source().is_some_and(|source| source.is::<Errno>()));
//! ```

mod cq;
mod open;
mod post;
mod rejected;

pub use self::cq::CqError;
pub use self::open::OpenError;
pub use self::post::PostError;
pub use self::rejected::Rejected;
