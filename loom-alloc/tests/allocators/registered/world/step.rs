//! What happens to leases.

use arbitrary::Arbitrary;
use loom_alloc::Sharing;
use loom_alloc::registered::Lease;

/// A step, of which each number means something among what there is.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Step {
    /// Of the slabs, of the receives that wait, or of the leases.
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
        /// With this one, or with a neighbour.
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
    /// Now and then: a buffer of which a part is forgotten never comes back.
    Forget {
        certain: u8,
    },
    Receive,
    Send,
    Cancel,
}

/// How data comes into a lease.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Write {
    Append,
    /// Room is written to, of which a part becomes data.
    Prepare {
        commit: u8,
    },
    /// What is in the room is data.
    Commit,
    /// As `bytes::BufMut`, where there is that feature.
    Put,
}

/// How data is consumed.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Read {
    Consume,
    /// As `bytes::Buf`, where there is that feature.
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

/// Consumes so many bytes, if there are as many, and shows them.
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

/// As above.
#[cfg(not(feature = "bytes"))]
pub fn get<L: Sharing>(lease: &mut Lease<'_, L>, len: usize, show: impl FnOnce(&[u8])) -> bool {
    let there = len <= lease.len();
    if there {
        show(&lease[..len]);
        lease.consume(len).unwrap();
    }
    there
}
