#![allow(unsafe_code, reason = "lends, and shows, the memory that a lease stands for")]

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;

use loom_core::RangeError;
use loom_core::buffer::{Buffer, Descriptor, Lent, SourceBuffer, TargetBuffer};
use loom_core::mr::RemoteRegion;

use super::buffers::{Buffers, Exposed};
use super::parts::Parts;
use crate::sharing::{Owner, Shared, Sharing};

/// Slab buffer, or a part of one, posted like any other buffer, with its descriptor.
///
/// # Data and room
/// ```text
///     | consumed | data        | room          |
///     0          data().as_ptr()               capacity()
/// ```
///
/// A new lease is all room.
///
/// # Posting
/// - **With data, the data is posted**, for any operation.
/// - **Without data, the room is posted**, to receive or read into. A send fails with
///   [`PostError::Access`](loom_core::error::PostError::Access): inject messages without bytes.
///
/// # Drop
/// Dropping the lease returns the buffer. Forgetting it leaks the buffer until the slab is dropped.
///
/// ```
/// use loom_alloc::allocator_api2::alloc::Global;
/// use loom_alloc::registered::{Slab, SlabAttr};
/// use loom_core::error::PostError;
/// use loom_core::{Cq, CqAttr, Forever, Source, scope};
/// # use loom_core::soft::{RequiredModes, Network, NetworkAttr};
/// # use loom_core::{Av, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # // Like hardware, the network refuses unregistered buffers.
/// # let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION))?;
/// # let av = Av::open(&domain, 1)?;
///
/// let slab = Slab::open_in(&domain, SlabAttr::new(4, 256), Global)?;
/// // The slab outlives the queue, whose operations use its buffers.
/// scope(|s| {
///     let cq = Cq::open(&s.domain(&domain), CqAttr::new(8))?;
/// #   let endpoint = cq.endpoint(&av)?;
/// #   let me = av.insert(&endpoint.address()?)?;
///     let room = slab.lease().ok_or("no free buffer")?;
///     let received = endpoint.recv(Source::Any, room).map_err(PostError::from)?;
/// #   let mut outbox = slab.lease().ok_or("no free buffer")?;
/// #   outbox.append(b"hello")?;
/// #   cq.post(outbox, Forever, |outbox| endpoint.send(me, outbox)).map_err(PostError::from)?;
///     // A peer has sent "hello".
///     let (mut inbox, result) = cq.finish(received, Forever)?.into_parts();
///     inbox.set_len(result?.len)?;
///     assert_eq!(&inbox[..], b"hello");
///     Ok::<_, Box<dyn core::error::Error>>(())
/// })?;
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[must_use = "the buffer goes back to the slab when the lease is dropped"]
pub struct Lease<'s, L: Sharing = Owner> {
    pub(super) buffers: &'s Buffers<L>,
    pub(super) number: u32,
    /// `start..end` is not empty, and `start <= data <= room <= end`.
    pub(super) start: u32,
    /// `start` without data.
    pub(super) data: u32,
    pub(super) room: u32,
    pub(super) end: u32,
}

/// Lease that may change threads.
pub type SharedLease<'s> = Lease<'s, Shared>;

const _: () = assert!(size_of::<Lease<'_>>() == 32);

impl<'s, L: Sharing> Lease<'s, L> {
    /// Bytes: consumed, data and room.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Bytes behind the data.
    #[must_use]
    pub const fn room(&self) -> usize {
        (self.end - self.room) as usize
    }

    /// Data.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        // SAFETY: `self.data` is within the lease (invariant 2).
        let first = unsafe { self.buffers.at(self.number, self.data) };
        // SAFETY: initialised bytes of the borrowed lease alone (invariants 1 and 2).
        unsafe { slice::from_raw_parts(first.as_ptr(), (self.room - self.data) as usize) }
    }

    /// Mutable data.
    #[inline]
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.bytes_mut(self.data, self.room)
    }

    /// Returns `len` bytes of room with unspecified contents, to [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] beyond the room.
    pub fn prepare(&mut self, len: usize) -> Result<&mut [u8], RangeError> {
        let to = self.behind(self.room, len)?;
        Ok(self.bytes_mut(self.room, to))
    }

    /// Turns the next `len` bytes of room into data.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] beyond the room.
    pub fn commit(&mut self, len: usize) -> Result<(), RangeError> {
        self.room = self.behind(self.room, len)?;
        Ok(())
    }

    /// Copies bytes behind the data.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] beyond the room.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), RangeError> {
        self.prepare(bytes.len())?.copy_from_slice(bytes);
        self.commit(bytes.len())
    }

    /// Removes `len` bytes of data at the front.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] beyond the data.
    pub fn consume(&mut self, len: usize) -> Result<(), RangeError> {
        let data = self.behind(self.data, len)?;
        if data > self.room {
            return Err(RangeError::OutOfWindow);
        }
        self.data = data;
        self.settle();
        Ok(())
    }

    /// Sets the length of the data, received or to be posted. Former room keeps its contents.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] beyond the lease.
    pub fn set_len(&mut self, len: usize) -> Result<(), RangeError> {
        self.room = self.behind(self.data, len)?;
        self.settle();
        Ok(())
    }

    /// Removes all data.
    pub const fn clear(&mut self) {
        (self.data, self.room) = (self.start, self.start);
    }

    /// Local descriptor of the region.
    #[doc(alias = "fi_mr_desc")]
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.buffers.descriptor
    }

    /// Remote region of the lease, if the slab is exposed.
    #[doc(alias = "fi_mr_key")]
    #[must_use]
    pub fn remote(&self) -> Option<RemoteRegion> {
        Some(self.exposed()?.remote)
    }

    /// # Safety
    /// The list handed out the number for this lease.
    #[inline]
    pub(super) const unsafe fn whole(buffers: &'s Buffers<L>, number: u32) -> Self {
        Lease { buffers, number, start: 0, data: 0, room: 0, end: buffers.size }
    }

    /// Requires `start <= from <= to <= end`.
    #[inline]
    pub(super) fn bytes_mut(&mut self, from: u32, to: u32) -> &mut [u8] {
        debug_assert!(self.start <= from && from <= to && to <= self.end);
        // SAFETY: `from` is within the lease (invariant 2).
        let first = unsafe { self.buffers.at(self.number, from) };
        // SAFETY: initialised bytes of the exclusively borrowed lease (invariants 1 and 2).
        unsafe { slice::from_raw_parts_mut(first.as_ptr(), (to - from) as usize) }
    }

    pub(super) fn exposed(&self) -> Option<Exposed> {
        self.buffers.exposed(self.number, self.start, self.end - self.start)
    }

    /// Does not read the data: devices or peers may write it.
    #[inline]
    pub(super) const fn has_data(&self) -> bool {
        self.data != self.room
    }

    pub(super) const fn fill(&mut self) {
        (self.data, self.room) = (self.start, self.end);
    }

    #[inline]
    fn behind(&self, place: u32, len: usize) -> Result<u32, RangeError> {
        if len > (self.end - place) as usize {
            return Err(RangeError::OutOfWindow);
        }
        #[expect(clippy::cast_possible_truncation, reason = "no more than the lease has")]
        Ok(place + len as u32)
    }

    #[inline]
    pub(super) const fn settle(&mut self) {
        if self.data == self.room {
            self.clear();
        }
    }

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

// SAFETY: the lease owns its bytes until dropped, wherever it moves (invariants 1 and 2). It
// borrows the slab, so the region is open.
unsafe impl<L: Sharing> Buffer for Lease<'_, L> {
    #[inline]
    fn lend(&mut self) -> Lent {
        // SAFETY: `self.data` is within the lease (invariant 2).
        let first = unsafe { self.buffers.at(self.number, self.data) };
        let lent = if self.data == self.room {
            Lent::target(first, self.room())
        } else {
            Lent::both(first, (self.room - self.data) as usize)
        };
        Lent { descriptor: Some(self.buffers.descriptor), kind: self.buffers.kind, ..lent }
    }
}
impl<L: Sharing> SourceBuffer for Lease<'_, L> {}
impl<L: Sharing> TargetBuffer for Lease<'_, L> {}

impl<L: Sharing> Deref for Lease<'_, L> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl<L: Sharing> DerefMut for Lease<'_, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}

impl<L: Sharing> AsRef<[u8]> for Lease<'_, L> {
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

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
