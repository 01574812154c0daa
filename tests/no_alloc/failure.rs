//! Reason for a failed case, created without allocation.

use std::fmt;

use loom_core::completion::OpError;
use loom_core::error::{OpenError, PostError};
use loom_core::vocabulary::Errno;
use loom_core::{AddressError, CqError};

#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// Wrong result.
    Wrong(&'static str),
    /// Wait without an event.
    Late(&'static str),
    Open(OpenError),
    Insert(AddressError),
    Post(PostError),
    Queue(CqError),
    Operation(OpError),
    Errno(Errno),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wrong(what) => f.write_str(what),
            Failure::Late(what) => write!(f, "waited too long for {what}"),
            Failure::Open(error) => write!(f, "not opened: {error:#}"),
            Failure::Insert(error) => write!(f, "not inserted: {error:#}"),
            Failure::Post(error) => write!(f, "not posted: {error:#}"),
            Failure::Queue(error) => write!(f, "{error:#}"),
            Failure::Operation(error) => write!(f, "an operation failed: {error:#}"),
            Failure::Errno(errno) => errno.fmt(f),
        }
    }
}

macro_rules! from {
    ($($Error:ty => $Variant:ident),* $(,)?) => {$(
        impl From<$Error> for Failure {
            fn from(error: $Error) -> Self {
                Failure::$Variant(error)
            }
        }
    )*};
}
from! {
    OpenError => Open,
    AddressError => Insert,
    PostError => Post,
    CqError => Queue,
    OpError => Operation,
    Errno => Errno,
}
