use core::fmt;

use loom_core::{AddressError, CqError, Errno, Error, OpError, OpenError, PostError, RangeError, Rejected};

pub enum Failure {
    /// The transport or the program is wrong.
    Wrong(&'static str),
    Loom(Error),
    Print(fmt::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wrong(text) => f.write_str(text),
            Failure::Loom(error) => write!(f, "{error:#}"),
            Failure::Print(error) => error.fmt(f),
        }
    }
}

macro_rules! from {
    ($($Error:ty),*) => {$(
        impl From<$Error> for Failure {
            fn from(error: $Error) -> Self {
                Failure::Loom(error.into())
            }
        }
    )*};
}
from!(OpenError, AddressError, PostError, CqError, OpError, RangeError, Errno, Error);

impl From<fmt::Error> for Failure {
    fn from(error: fmt::Error) -> Self {
        Failure::Print(error)
    }
}

impl<B> From<Rejected<B>> for Failure {
    fn from(rejected: Rejected<B>) -> Self {
        rejected.error.into()
    }
}
