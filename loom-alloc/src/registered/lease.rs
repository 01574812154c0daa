//! [`Lease`]: a buffer of a slab, or a part of one, for as long as somebody has it.

#![allow(unsafe_code, reason = "lends, and shows, the memory that a lease stands for")]

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;

use loom_core::Error;
use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer};
use loom_core::mr::RemoteRegion;

use super::buffers::{Buffers, Exposed};
use super::parts::Parts;
use crate::sharing::{Owner, Shared, Sharing};

/// A buffer of a slab, or a part of one, that belongs to the holder of the lease: it is posted like any other buffer, and brings its
/// descriptor along.
///
/// # Data and room
///
/// ```text
///     | consumed | data        | room          |
///     0          data().as_ptr()               capacity()
/// ```
///
/// A lease that was just taken has no data, and room for as much as it is long. [`prepare`](Self::prepare) gives room to write to,
/// and [`commit`](Self::commit) makes data of it; [`consume`](Self::consume) takes data away at its begin. When there is none left, all is
/// room again. So one buffer is filled and read piece by piece, and nothing is moved in it. The lease dereferences to its data.
///
/// # What a post takes
///
/// - **A lease with data posts its data**: to be sent or written, or to be received or read over.
/// - **A lease without data posts its room**, and that only to be received or read into: what was in the buffer before is
///   not part of any message. ([`PostError::Access`](loom_core::error::PostError::Access) if it is sent. A message without bytes is injected.)
///
/// When the lease comes back from a receive, [`set_len`](Self::set_len) says how much of it is the message. Before a post
/// it shortens what is posted: an RMA read of 100 bytes goes into a lease of which 100 are said to be data.
///
/// # Its end
///
/// Dropping the lease gives the buffer back to the slab. Forgetting it loses the buffer for as long as the slab is there, and
/// nothing else.
///
/// ```
/// use loom_alloc::{Arena, Locked};
/// use loom_alloc::registered::{Slab, SlabAttr};
/// use loom_core::error::PostError;
/// use loom_core::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, endpoint::Source, scope::scope};
/// use loom_core::soft::{RequiredModes, Network, NetworkAttr};
///
/// let mut memory = [core::mem::MaybeUninit::uninit(); 128 * 1024];
/// let arena = Locked::new(Arena::new(&mut memory));
/// let attr = NetworkAttr { endpoints: 1, tx_depth: 8, rx_depth: 8, eager_size: 256, regions: 1, ..NetworkAttr::DEFAULT };
/// let network = Network::new_in(attr, &arena)?;
/// scope(|s| {
///     // As over hardware: only registered buffers are taken.
///     let domain = s.open_in(&network.info_requiring(RequiredModes::none().local_registration()), &arena)?;
///     let slab = Slab::open_in(&domain, SlabAttr::new(4, 256), &arena)?;
///     // The queue has a scope of its own: the slab, whose buffers are lent to it, lives longer.
///     scope(|s| {
///         let domain = s.domain(&domain);
///         let (av, cq) = (Av::open_in(&domain, 1, &arena)?, Cq::open_in(&domain, CqAttr::new(8), &arena)?);
///         let endpoint = cq.endpoint(&av)?;
///         let me = av.insert(&endpoint.address()?)?;
///         let (inbox, mut outbox) = (slab.lease().ok_or("none left")?, slab.lease().ok_or("none left")?);
///         let received = endpoint.recv(Source::Any, inbox).map_err(PostError::from)?;
///         outbox.append(b"hello")?;
///         cq.post(outbox, Forever, |outbox| endpoint.send(me, outbox)).map_err(PostError::from)?;
///         let (mut inbox, result) = cq.finish(received, Forever)?.into_parts();
///         inbox.set_len(result?.len())?;
///         assert_eq!(&inbox[..], b"hello");
///         Ok::<_, Box<dyn core::error::Error>>(())
///     })
/// })?;
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[must_use = "the buffer goes back to the slab when the lease is dropped"]
pub struct Lease<'s, L: Sharing = Owner> {
    pub(super) buffers: &'s Buffers<L>,
    pub(super) number: u32,
    /// The bytes of the buffer that are this lease's: `start..end`, at least one. `start <= data <= room <= end`.
    pub(super) start: u32,
    /// The first byte of the data. Where there is none, `start`.
    pub(super) data: u32,
    /// The first byte behind the data.
    pub(super) room: u32,
    pub(super) end: u32,
}

/// A lease that goes from thread to thread.
pub type SharedLease<'s> = Lease<'s, Shared>;

const _: () = assert!(size_of::<Lease<'_>>() == 32);

/// More bytes than the lease has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfLease;

impl fmt::Display for OutOfLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lease has fewer bytes")
    }
}

impl core::error::Error for OutOfLease {}

impl From<OutOfLease> for Error {
    fn from(_: OutOfLease) -> Self {
        Error::Invalid("the lease has fewer bytes")
    }
}

impl<'s, L: Sharing> Lease<'s, L> {
    /// A whole buffer.
    ///
    /// # Safety
    /// The list gave the number, for this lease.
    #[inline]
    pub(super) const unsafe fn whole(buffers: &'s Buffers<L>, number: u32) -> Self {
        Lease { buffers, number, start: 0, data: 0, room: 0, end: buffers.size }
    }

    /// How long it is: consumed bytes, data and room.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// How many bytes of data there can be more.
    #[must_use]
    pub const fn room(&self) -> usize {
        (self.end - self.room) as usize
    }

    /// The data.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        // SAFETY: within the lease (invariant 2); `Buffers` is borrowed.
        let first = unsafe { self.buffers.at(self.number, self.data) };
        // SAFETY: initialised, and this lease's alone (invariants 1 and 2), which is borrowed.
        unsafe { slice::from_raw_parts(first.as_ptr(), (self.room - self.data) as usize) }
    }

    /// The data, to be changed.
    #[inline]
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.bytes_mut(self.data, self.room)
    }

    /// `start <= from <= to <= end`.
    #[inline]
    pub(super) fn bytes_mut(&mut self, from: u32, to: u32) -> &mut [u8] {
        debug_assert!(self.start <= from && from <= to && to <= self.end);
        // SAFETY: within the lease (invariant 2).
        let first = unsafe { self.buffers.at(self.number, from) };
        // SAFETY: initialised, and this lease's alone (invariants 1 and 2), which is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(first.as_ptr(), (to - from) as usize) }
    }

    /// `len` bytes of room, to be written to; what is in them is of no meaning. [`commit`](Self::commit) makes data of them.
    ///
    /// # Errors
    /// [`OutOfLease`] if there is less room.
    pub fn prepare(&mut self, len: usize) -> Result<&mut [u8], OutOfLease> {
        let to = self.behind(self.room, len)?;
        Ok(self.bytes_mut(self.room, to))
    }

    /// Makes data of `len` bytes of room, behind the data that is there.
    ///
    /// # Errors
    /// [`OutOfLease`] if there is less room; nothing has changed.
    pub fn commit(&mut self, len: usize) -> Result<(), OutOfLease> {
        self.room = self.behind(self.room, len)?;
        Ok(())
    }

    /// Copies bytes behind the data.
    ///
    /// # Errors
    /// [`OutOfLease`] if there is less room; nothing was copied.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), OutOfLease> {
        self.prepare(bytes.len())?.copy_from_slice(bytes);
        self.commit(bytes.len())
    }

    /// Takes `len` bytes of the data away, at its begin.
    ///
    /// # Errors
    /// [`OutOfLease`] if there is less data; nothing has changed.
    pub fn consume(&mut self, len: usize) -> Result<(), OutOfLease> {
        let data = self.behind(self.data, len)?;
        if data > self.room {
            return Err(OutOfLease);
        }
        self.data = data;
        self.settle();
        Ok(())
    }

    /// Says how long the data is, from where it begins: as many bytes as were received, or as are to be posted. Bytes that were room
    /// have whatever was in them.
    ///
    /// # Errors
    /// [`OutOfLease`] if the lease has fewer bytes from there on; nothing has changed.
    pub fn set_len(&mut self, len: usize) -> Result<(), OutOfLease> {
        self.room = self.behind(self.data, len)?;
        self.settle();
        Ok(())
    }

    /// Takes all data away, such that all of the lease is room.
    pub const fn clear(&mut self) {
        (self.data, self.room) = (self.start, self.start);
    }

    /// The local descriptor of the slab's region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.buffers.descriptor
    }

    /// What peers need to reach the lease, from its first byte on, if the slab is one that they reach.
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn remote(&self) -> Option<RemoteRegion> {
        Some(self.exposed()?.remote)
    }

    /// How this side and peers see the lease, if they reach it.
    pub(super) fn exposed(&self) -> Option<Exposed> {
        self.buffers.exposed(self.number, self.start, self.end - self.start)
    }

    /// Whether there is data. It is not looked at: it may be a device's, or peers may write there.
    #[inline]
    pub(super) const fn has_data(&self) -> bool {
        self.data != self.room
    }

    /// Makes data of all that the lease has.
    pub(super) const fn fill(&mut self) {
        (self.data, self.room) = (self.start, self.end);
    }

    /// The place a number of bytes behind another one, if it lies within the lease.
    #[inline]
    fn behind(&self, place: u32, len: usize) -> Result<u32, OutOfLease> {
        if len > (self.end - place) as usize {
            return Err(OutOfLease);
        }
        #[expect(clippy::cast_possible_truncation, reason = "no more than the lease has")]
        Ok(place + len as u32)
    }

    /// Where there is no data, all is room.
    #[inline]
    pub(super) const fn settle(&mut self) {
        if self.data == self.room {
            self.clear();
        }
    }

    /// Whether it is all of a buffer: then there is no other part of it.
    #[inline]
    pub(super) const fn is_whole(&self) -> bool {
        self.start == 0 && self.end == self.buffers.size
    }
}

impl<L: Sharing> Drop for Lease<'_, L> {
    #[inline]
    fn drop(&mut self) {
        if self.is_whole() || self.buffers.parts(self.number).is_some_and(Parts::ended) {
            self.buffers.put(self.number);
        }
    }
}

// SAFETY: the lease has its bytes for itself until it is dropped (invariants 1 and 2), wherever it is moved; the slab is borrowed, so
// its region is open.
unsafe impl<L: Sharing> Buffer for Lease<'_, L> {
    #[inline]
    fn lend(&mut self) -> Lent {
        // SAFETY: within the lease (invariant 2).
        let first = unsafe { self.buffers.at(self.number, self.data) };
        let lent = if self.data == self.room {
            Lent::target(first, self.room())
        } else {
            Lent::both(first, (self.room - self.data) as usize)
        };
        lent.with_descriptor(self.buffers.descriptor).in_memory_of(self.buffers.kind)
    }
}
impl<L: Sharing> SourceBuffer for Lease<'_, L> {}
impl<L: Sharing> TargetBuffer for Lease<'_, L> {}

/// The data.
impl<L: Sharing> Deref for Lease<'_, L> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.data()
    }
}

/// The data.
impl<L: Sharing> DerefMut for Lease<'_, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}

/// The data.
impl<L: Sharing> AsRef<[u8]> for Lease<'_, L> {
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

/// The data.
impl<L: Sharing> AsMut<[u8]> for Lease<'_, L> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}

impl<L: Sharing> fmt::Debug for Lease<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("buffer", &self.number)
            .field("part", &(self.start..self.end))
            .field("data", &(self.data..self.room))
            .finish_non_exhaustive()
    }
}
