//! Why the program fails.

use core::fmt;

use loom_core::exposed::OutOfWindow;
use loom_core::{CqError, Errno, Error, InsertError, OpError, OpenError, PostError, Rejected};

/// Why the program fails.
pub enum Failure {
    /// Memory was taken in another way than it should be.
    Memory(&'static str),
    /// The transport did not do what it promises.
    Wrong(&'static str),
    /// An object was not opened.
    Open(OpenError),
    /// An address was not inserted.
    Insert(InsertError),
    /// An operation was not posted.
    Post(PostError),
    /// A queue failed.
    Queue(CqError),
    /// An operation failed.
    Operation(OpError),
    /// A region is too short.
    Window(OutOfWindow),
    /// A task failed.
    Task(Error),
    /// Something else failed.
    Errno(Errno),
    /// Standard output takes nothing.
    Print(fmt::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Memory(what) | Failure::Wrong(what) => f.write_str(what),
            Failure::Open(error) => write!(f, "not opened: {error}"),
            Failure::Insert(error) => write!(f, "not inserted: {error}"),
            Failure::Post(error) => write!(f, "not posted: {error}"),
            Failure::Queue(error) => error.fmt(f),
            Failure::Operation(error) => write!(f, "an operation failed: {error}"),
            Failure::Window(error) => error.fmt(f),
            Failure::Task(error) => write!(f, "a task failed: {error}"),
            Failure::Errno(error) => error.fmt(f),
            Failure::Print(error) => error.fmt(f),
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
    InsertError => Insert,
    PostError => Post,
    CqError => Queue,
    OpError => Operation,
    OutOfWindow => Window,
    Error => Task,
    Errno => Errno,
    fmt::Error => Print,
}

impl<B> From<Rejected<B>> for Failure {
    fn from(rejected: Rejected<B>) -> Self {
        Failure::Post(rejected.error)
    }
}
