//! [`Packet`]: a buffer on its way, and copies between packets and the buffers of messages.

#![allow(unsafe_code, reason = "lends parts of buffers, and copies what they lend")]

use core::fmt;

use super::credit::Class;
use super::link::LinkId;
use super::slab::Key;
use super::wire::{HEADER_LEN, Header};
use crate::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use crate::error::PostError;
use crate::vocabulary::HmemIface;

/// A buffer that the layer sends a packet from or receives one into: what its queue carries.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::tagged::{Packet, TaggedAttr};
/// use loom_core::{Cq, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// let attr = TaggedAttr { links: 2, ..TaggedAttr::DEFAULT };
/// // The queue of an endpoint with tags carries packets, and has a place for each of them.
/// let depth = usize::from(attr.links) * attr.packets_per_link();
/// let cq = Cq::<_, Packet<Vec<u8>>>::open(&domain, depth)?;
/// assert!(cq.capacity() >= depth);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Packet<P> {
    buf: P,
    /// How much of it is lent.
    used: usize,
    pub(super) owner: Owner,
    pub(super) purpose: Purpose,
}

/// Whose a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) link: LinkId,
    /// Which link it is, of all that there ever were.
    pub(super) identity: u64,
}

/// What a packet is used for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// To be received into; when it is posted (again), a credit of this class is free.
    Receive(Option<Class>),
    /// To be sent, for this operation.
    Send(Key),
}

/// The bytes that a buffer has, if all may be done with them.
fn range(lent: &Lent) -> Option<usize> {
    let usable = lent.is_readable() && lent.is_writable() && lent.kind() == HmemIface::SYSTEM;
    usable.then_some(lent.len())
}

impl<P: Buffer> Packet<P> {
    /// A packet of `size` bytes.
    ///
    /// # Errors
    /// The buffer comes back if it has fewer, or may not be read and written.
    pub(super) fn new(mut buf: P, size: usize, owner: Owner) -> Result<Self, P> {
        match range(&buf.lend()) {
            Some(len) if len >= size => Ok(Packet { buf, used: size, owner, purpose: Purpose::Receive(None) }),
            _ => Err(buf),
        }
    }

    /// What is in it.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let lent = self.buf.lend();
        let len = range(&lent).unwrap_or(0).min(self.used);
        // SAFETY: initialised and writable memory of the host, and borrowed from this value alone, which is not posted.
        unsafe { core::slice::from_raw_parts_mut(lent.ptr().as_ptr(), len) }
    }

    /// Makes it one to receive into, of the whole size.
    pub(super) const fn prepare_receive(&mut self, size: usize, frees: Option<Class>) {
        (self.used, self.purpose) = (size, Purpose::Receive(frees));
    }

    /// Makes it one to send: a header, and `follow` bytes, which are written by the caller.
    pub(super) fn prepare_send(&mut self, header: &Header, follow: usize, write: impl FnOnce(&mut [u8]), op: Key) {
        (self.used, self.purpose) = (HEADER_LEN + follow, Purpose::Send(op));
        // Packets are shorter than that: `TaggedAttr`.
        let header = header.encode(u32::try_from(follow).unwrap_or(u32::MAX));
        if let Some((head, rest)) = self.bytes().split_first_chunk_mut() {
            *head = header;
            write(rest);
        }
    }
}

// SAFETY: a part of what the buffer itself lends, from its begin on; which part, only the layer says, between two posts.
unsafe impl<P: Buffer> Buffer for Packet<P> {
    #[inline]
    fn lend(&mut self) -> Lent {
        self.buf.lend().first(self.used)
    }
}
impl<P: SourceBuffer> SourceBuffer for Packet<P> {}
impl<P: TargetBuffer> TargetBuffer for Packet<P> {}

impl<P> fmt::Debug for Packet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("used", &self.used).field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

/// How many bytes a message has that is sent from a buffer.
pub(super) fn source_len(buf: &mut impl SourceBuffer) -> Result<usize, PostError> {
    let lent = buf.lend();
    host(&lent)?;
    if lent.is_readable() { Ok(lent.len()) } else { Err(PostError::Access) }
}

/// How many bytes of a message a buffer has room for.
pub(super) fn target_len(buf: &mut impl TargetBuffer) -> Result<usize, PostError> {
    let lent = buf.lend();
    host(&lent)?;
    if lent.is_writable() { Ok(lent.len()) } else { Err(PostError::Access) }
}

fn host(lent: &Lent) -> Result<(), PostError> {
    if lent.kind() == HmemIface::SYSTEM { Ok(()) } else { Err(PostError::DeviceMemory) }
}

/// Copies bytes of a message out of its buffer, from a place on. What lies beyond the buffer is left as it is.
pub(super) fn copy_out<B: Buffer>(buf: &mut B, from: usize, out: &mut [u8]) {
    let lent = buf.lend();
    let len = lent.len().saturating_sub(from).min(out.len());
    if len > 0 && lent.is_readable() && host(&lent).is_ok() {
        // SAFETY: `from` is smaller than the range.
        let source = unsafe { lent.ptr().add(from) };
        // SAFETY: what is lent is initialised, and not written by anybody until the buffer is used again; `out` belongs to
        // somebody else. Both have that number of bytes.
        unsafe { source.copy_to_nonoverlapping(core::ptr::NonNull::from_mut(out).cast(), len) };
    }
}

/// Copies bytes of a message into its buffer, to a place. What lies beyond the buffer is left out.
pub(super) fn copy_in<B: Buffer>(buf: &mut B, to: usize, bytes: &[u8]) {
    let lent = buf.lend();
    let len = lent.len().saturating_sub(to).min(bytes.len());
    if len > 0 && lent.is_writable() && host(&lent).is_ok() {
        // SAFETY: `to` is smaller than the range.
        let target = unsafe { lent.ptr().add(to) };
        // SAFETY: what is lent may be written, and is not touched otherwise until the buffer is used again; `bytes` are somebody
        // else's. Both have that number of bytes.
        unsafe { target.copy_from_nonoverlapping(core::ptr::NonNull::from_ref(bytes).cast(), len) };
    }
}
