//! Where threads cannot be bound to processors by loom's example.

use std::io;

/// Says so.
pub(crate) fn to(_: Option<usize>) -> io::Result<usize> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "threads are bound to processors on Linux only"))
}
