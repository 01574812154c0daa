#![allow(unsafe_code, reason = "lends parts of buffers, and copies what they lend")]

use core::fmt;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::PostError;
use loom_core::vocabulary::HmemIface;

use crate::credit::Class;
use crate::slab::Key;
use crate::wire::{HEADER_LEN, Header};

/// Link of a [`TaggedEndpoint`](crate::TaggedEndpoint): a number below
/// [`TaggedAttr::links`](crate::TaggedAttr::links), in the order of addition.
///
/// ```
/// use loom_tagged::TaggedDone;
///
/// /// The name of the peer that a message came from. The program keeps one for each link.
/// fn sender<'n>(names: &[&'n str], done: &TaggedDone<Vec<u8>>) -> Option<&'n str> {
///     names.get(done.link()?.index()).copied()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u16);

impl LinkId {
    /// Number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Buffer type of the layer's queue: packets to send or to receive into.
///
/// ```
/// use loom_tagged::{Packet, TaggedAttr};
/// use loom_core::{Cq, Domain};
///
/// # fixture::domain!(network, domain);
/// let attr = TaggedAttr { links: 2, ..TaggedAttr::DEFAULT };
/// // The queue of an endpoint with tags carries packets, and has a place for each of them.
/// let depth = usize::from(attr.links) * attr.packets_per_link();
/// let cq = Cq::<_, Packet<Vec<u8>>>::open(&domain, depth)?;
/// assert!(cq.capacity() >= depth);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Packet<P> {
    buf: P,
    used: usize,
    pub(crate) owner: Owner,
    pub(crate) purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) link: LinkId,
    /// Unique in the process.
    pub(crate) identity: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Frees a credit of this class.
    Receive(Option<Class>),
    Send(Key),
}

/// Length of a loan that is readable and writable host memory.
fn range(lent: &Lent) -> Option<usize> {
    let usable = lent.readable && lent.writable && lent.kind == HmemIface::SYSTEM;
    usable.then_some(lent.len)
}

impl<P: Buffer> Packet<P> {
    /// Returns the buffer if it is shorter than `size`, or not both readable and writable.
    pub(crate) fn new(mut buf: P, size: usize, owner: Owner) -> Result<Self, P> {
        match range(&buf.lend()) {
            Some(len) if len >= size => Ok(Packet { buf, used: size, owner, purpose: Purpose::Receive(None) }),
            _ => Err(buf),
        }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let lent = self.buf.lend();
        let len = range(&lent).unwrap_or(0).min(self.used);
        // SAFETY: `range` accepts only initialised, writable host memory of at least `len` bytes.
        // `&mut self` excludes other access, and a packet in hand is not posted.
        unsafe { core::slice::from_raw_parts_mut(lent.ptr.as_ptr(), len) }
    }

    pub(crate) const fn prepare_receive(&mut self, size: usize, frees: Option<Class>) {
        (self.used, self.purpose) = (size, Purpose::Receive(frees));
    }

    pub(crate) fn prepare_send(&mut self, header: &Header, follow: usize, write: impl FnOnce(&mut [u8]), op: Key) {
        (self.used, self.purpose) = (HEADER_LEN + follow, Purpose::Send(op));
        // `TaggedAttr` limits packets to 2^30 bytes.
        let header = header.encode(u32::try_from(follow).unwrap_or(u32::MAX));
        if let Some((head, rest)) = self.bytes().split_first_chunk_mut() {
            *head = header;
            write(rest);
        }
    }
}

// SAFETY: the loan is the first `used` bytes of the loan of `buf`, which keeps the contract of
// `Buffer`. The layer changes `used` only between two posts.
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

pub(crate) fn source_len(buf: &mut impl SourceBuffer) -> Result<usize, PostError> {
    let lent = buf.lend();
    host(&lent)?;
    if lent.readable { Ok(lent.len) } else { Err(PostError::Access) }
}

pub(crate) fn target_len(buf: &mut impl TargetBuffer) -> Result<usize, PostError> {
    let lent = buf.lend();
    host(&lent)?;
    if lent.writable { Ok(lent.len) } else { Err(PostError::Access) }
}

fn host(lent: &Lent) -> Result<(), PostError> {
    if lent.kind == HmemIface::SYSTEM { Ok(()) } else { Err(PostError::DeviceMemory) }
}

/// Bytes of `out` beyond the buffer's end stay unchanged.
pub(crate) fn copy_out<B: Buffer>(buf: &mut B, from: usize, out: &mut [u8]) {
    let lent = buf.lend();
    let len = lent.len.saturating_sub(from).min(out.len());
    if len > 0 && lent.readable && host(&lent).is_ok() {
        // SAFETY: `len > 0`, so `from` is inside the loan.
        let source = unsafe { lent.ptr.add(from) };
        // SAFETY: the loan is initialised and not written until the buffer is used again, and `out`
        // is a different object. Both have `len` bytes.
        unsafe { source.copy_to_nonoverlapping(core::ptr::NonNull::from_mut(out).cast(), len) };
    }
}

/// Bytes beyond the buffer's end are dropped.
pub(crate) fn copy_in<B: Buffer>(buf: &mut B, to: usize, bytes: &[u8]) {
    let lent = buf.lend();
    let len = lent.len.saturating_sub(to).min(bytes.len());
    if len > 0 && lent.writable && host(&lent).is_ok() {
        // SAFETY: `len > 0`, so `to` is inside the loan.
        let target = unsafe { lent.ptr.add(to) };
        // SAFETY: the loan is writable and not accessed otherwise until the buffer is used again,
        // and `bytes` is a different object. Both have `len` bytes.
        unsafe { target.copy_from_nonoverlapping(core::ptr::NonNull::from_ref(bytes).cast(), len) };
    }
}
