//! Steps of stories of leases.

use arbitrary::Arbitrary;
use loom_alloc::Sharing;
use loom_alloc::registered::Lease;

/// Step. Its numbers select among the existing objects.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Step {
    /// Index of a slab, a posted receive, or a lease.
    pub nth: u8,
    pub action: Action,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Action {
    Take,
    Split {
        at: u8,
    },
    Rejoin {
        /// Joins with this lease, or with a neighbour.
        with: Option<u8>,
    },
    Write {
        len: u8,
        way: Write,
    },
    Read {
        len: u8,
        way: Read,
    },
    Change,
    SetLen {
        len: u8,
    },
    Clear,
    Drop,
    /// Forgets a lease, rarely: a buffer with a forgotten part never returns.
    Forget {
        certain: u8,
    },
    Receive,
    Send,
    Cancel,
}

/// Way to write data into a lease.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Write {
    Append,
    /// Writes to room, and makes a part of it data.
    Prepare {
        commit: u8,
    },
    /// Makes the content of the room data.
    Commit,
    /// Writes by `bytes::BufMut`, with that feature.
    Put,
}

/// Way to consume data.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Read {
    Consume,
    /// Reads by `bytes::Buf`, with that feature.
    Get,
}

#[cfg(feature = "bytes")]
pub fn put<L: Sharing>(lease: &mut Lease<'_, L>, bytes: &[u8]) -> bool {
    use bytes::BufMut;

    let fits = bytes.len() <= lease.remaining_mut();
    if fits {
        lease.put_slice(bytes);
    }
    fits
}

#[cfg(not(feature = "bytes"))]
pub fn put<L: Sharing>(lease: &mut Lease<'_, L>, bytes: &[u8]) -> bool {
    lease.append(bytes).is_ok()
}

/// Consumes this number of bytes, if the lease has them, and returns them.
#[cfg(feature = "bytes")]
pub fn get<L: Sharing>(lease: &mut Lease<'_, L>, len: usize, show: impl FnOnce(&[u8])) -> bool {
    use bytes::Buf;

    let there = len <= lease.remaining();
    if there {
        let mut bytes = vec![0; len];
        lease.copy_to_slice(&mut bytes);
        show(&bytes);
    }
    there
}

/// Consumes without the feature `bytes`.
#[cfg(not(feature = "bytes"))]
pub fn get<L: Sharing>(lease: &mut Lease<'_, L>, len: usize, show: impl FnOnce(&[u8])) -> bool {
    let there = len <= lease.len();
    if there {
        show(&lease[..len]);
        lease.consume(len).unwrap();
    }
    there
}
