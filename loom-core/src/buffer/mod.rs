//! Memory that can be lent to a transport: [`Buffer`], its ranges ([`Lent`]), and common
//! implementations.

#![allow(unsafe_code, reason = "implementations of the unsafe trait `Buffer`")]

mod iovecs;
mod prefixed;
mod registered;

use core::mem::MaybeUninit;
use core::num::NonZero;
use core::ptr::NonNull;

pub use self::iovecs::IoVecs;
pub use self::prefixed::Prefixed;
pub use self::registered::RegisteredAllocator;
use crate::vocabulary::HmemIface;

/// Local descriptor of a memory region, with the domain that made it.
///
/// A post in another domain is refused.
///
/// ```
/// use loom_core::{Av, Buffer, Cq, Domain, PostError, registered::Registered};
///
/// # fixture::domain!(network, domain);
/// # let other_domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let alice = cq.endpoint(&av)?;
/// # let to_bob = av.insert(&cq.endpoint(&av)?.address()?)?;
/// let mut message = Registered::new(&other_domain, b"hello".to_vec())?;
/// assert!(message.lend().descriptor.is_some());
/// // A descriptor means nothing in another domain.
/// let refused = alice.send(to_bob, message).expect_err("it is registered elsewhere");
/// assert_eq!(refused.error, PostError::ForeignDescriptor);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_mr_desc")]
pub struct Descriptor {
    pub(crate) raw: usize,
    pub(crate) domain: u64,
}

impl Descriptor {
    /// The transport's own number (`fi_mr_desc`).
    #[must_use]
    pub const fn raw(&self) -> usize {
        self.raw
    }
}

/// Bytes that a [`Buffer`] lends for one operation, and the permitted accesses.
///
/// ```
/// use core::ptr::NonNull;
/// use loom_core::buffer::Lent;
///
/// let mut memory = [0_u8; 16];
/// let lent = Lent::both(NonNull::from_mut(&mut memory).cast(), memory.len());
/// assert!(lent.readable && lent.writable);
/// // The provider may use the first four bytes.
/// let message = lent.with_headroom(4);
/// assert_eq!((message.len, message.headroom), (12, 4));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// First byte.
    pub ptr: NonNull<u8>,
    /// Length in bytes.
    pub len: usize,
    /// Bytes before the range that belong to the buffer but not to the message (`FI_MSG_PREFIX`).
    pub headroom: usize,
    /// `true` if the bytes are initialised and may be sent.
    pub readable: bool,
    /// `true` if the bytes may be written.
    pub writable: bool,
    /// Owner of the memory.
    ///
    /// ```
    /// use loom_core::{Buffer, buffer::Lent, vocabulary::HmemIface};
    ///
    /// let mut message = b"hello".to_vec();
    /// assert_eq!(message.lend().kind, HmemIface::SYSTEM);
    /// // What the buffer of a GPU's allocator lends.
    /// let lent = Lent { kind: HmemIface::CUDA, ..message.lend() };
    /// assert_eq!((lent.kind, lent.len), (HmemIface::CUDA, 5));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub kind: HmemIface,
    /// Local descriptor, if the range lies in a registered region.
    pub descriptor: Option<Descriptor>,
}

impl Lent {
    /// Readable bytes: the source of a send or of an RMA write.
    ///
    /// ```
    /// use core::ptr::NonNull;
    /// use loom_core::buffer::Lent;
    ///
    /// let message = b"hello";
    /// let lent = Lent::source(NonNull::from_ref(message).cast(), message.len());
    /// // It can be sent, and nothing is received into it.
    /// assert_eq!((lent.readable, lent.writable), (true, false));
    /// ```
    #[must_use]
    pub const fn source(ptr: NonNull<u8>, len: usize) -> Self {
        Lent { ptr, len, headroom: 0, readable: true, writable: false, kind: HmemIface::SYSTEM, descriptor: None }
    }

    /// Writable bytes, possibly uninitialised: the target of a receive or of an RMA read.
    ///
    /// ```
    /// use core::{mem::MaybeUninit, ptr::NonNull};
    /// use loom_core::buffer::Lent;
    ///
    /// let mut room = [MaybeUninit::<u8>::uninit(); 64];
    /// let lent = Lent::target(NonNull::from_mut(&mut room).cast(), room.len());
    /// // Messages are received into it. It may hold uninitialised bytes, which are not sent.
    /// assert_eq!((lent.readable, lent.writable), (false, true));
    /// ```
    #[must_use]
    pub const fn target(ptr: NonNull<u8>, len: usize) -> Self {
        Lent { ptr, len, headroom: 0, readable: false, writable: true, kind: HmemIface::SYSTEM, descriptor: None }
    }

    /// Initialised bytes that may be read and written.
    #[must_use]
    pub const fn both(ptr: NonNull<u8>, len: usize) -> Self {
        Lent { ptr, len, headroom: 0, readable: true, writable: true, kind: HmemIface::SYSTEM, descriptor: None }
    }

    /// Turns the first `bytes` bytes, or the whole range if it is shorter, into
    /// [`headroom`](Self::headroom) for a provider's message prefix.
    ///
    /// ```
    /// use core::ptr::NonNull;
    /// use loom_core::buffer::Lent;
    ///
    /// let mut memory = [0_u8; 24];
    /// let whole = Lent::both(NonNull::from_mut(&mut memory).cast(), memory.len());
    /// // For a provider with a prefix of 8 bytes (`FI_MSG_PREFIX`).
    /// let message = whole.with_headroom(8);
    /// assert_eq!((message.len, message.headroom), (16, 8));
    /// assert_eq!(message.ptr.addr().get(), whole.ptr.addr().get() + 8);
    /// ```
    #[must_use]
    pub fn with_headroom(mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.len);
        self.ptr = self.ptr.map_addr(|addr| addr.saturating_add(bytes));
        self.len -= bytes;
        self.headroom = if self.writable { self.headroom + bytes } else { 0 };
        self
    }

    /// First `len` bytes, or the whole range if it is shorter.
    ///
    /// ```
    /// use loom_core::Buffer;
    ///
    /// let mut message = b"hello".to_vec();
    /// assert_eq!((message.lend().first(2).len, message.lend().first(64).len), (2, 5));
    /// ```
    #[must_use]
    #[inline]
    pub const fn first(mut self, len: usize) -> Self {
        if len < self.len {
            self.len = len;
        }
        self
    }

    pub(crate) fn behind(mut self, len: usize) -> Self {
        let len = len.min(self.len);
        self.ptr = self.ptr.map_addr(|addr| addr.saturating_add(len));
        self.len -= len;
        self.headroom = 0;
        self
    }

    pub(crate) fn with_prefix(mut self, bytes: usize) -> Option<Self> {
        self.headroom = self.headroom.checked_sub(bytes)?;
        self.len = self.len.checked_add(bytes)?;
        self.ptr = self.ptr.with_addr(NonZero::new(self.ptr.addr().get().checked_sub(bytes)?)?);
        Some(self)
    }

    pub(crate) const fn with_range_of(self, other: &Lent) -> Self {
        Lent { ptr: other.ptr, len: other.len, headroom: other.headroom, ..self }
    }

    pub(crate) fn whole(self) -> Self {
        self.with_prefix(self.headroom).unwrap_or(self)
    }
}

/// Value that owns, or exclusively borrows, a range of bytes that can be lent to a transport.
///
/// ```
/// # #![allow(unsafe_code)]
/// use core::ptr::NonNull;
/// use loom_core::{Buffer, Forever, Source, TargetBuffer, buffer::Lent};
///
/// struct Page(Box<[u8; 4096]>);
/// // SAFETY: the page owns its bytes, and moving the page does not move them.
/// unsafe impl Buffer for Page {
///     fn lend(&mut self) -> Lent { Lent::both(NonNull::from_mut(&mut *self.0).cast(), 4096) }
/// }
/// impl TargetBuffer for Page {}
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, Page(Box::new([0; 4096])))?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(&cq.finish(received, Forever)?.into_buf().0[..5], b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Safety
///
/// - Every call of [`lend`](Buffer::lend) returns the same range, even after the value was moved.
/// - From `lend` until the value is used again or dropped, the range stays valid for its [`Lent`]:
///   initialised and free of writers if readable, free of any other access if writable. Memory
///   may also be [exposed](crate::exposed), with other accesses by that module's rule, if safe code
///   cannot obtain the value, and it is posted in RMA reads and writes alone.
/// - During that time the [headroom](Lent::headroom) is writable and free of any other access, and
///   is initialised if the range is.
/// - If [`Lent`] has a descriptor, its region is open during that time and covers the range and its
///   headroom.
pub unsafe trait Buffer {
    /// Returns the range. Called once per post, when the value is in its final place.
    fn lend(&mut self) -> Lent;

    /// Pushes the ranges of a buffer in several pieces, in order, under the safety rules of the
    /// trait.
    fn lend_pieces(&mut self, pieces: &mut IoVecs) {
        pieces.push(self.lend());
    }
}

/// Bytes of a buffer, if they are initialised, writable and host memory.
///
/// ```
/// use loom_core::buffer::bytes_mut;
///
/// let mut message = b"hello".to_vec();
/// bytes_mut(&mut message).expect("a vector is initialised, and may be written")[0] = b'j';
/// assert_eq!(message, b"jello");
/// let mut borrowed = &message[..];
/// assert!(bytes_mut(&mut borrowed).is_none(), "shared bytes are not writable");
/// ```
pub fn bytes_mut<B: Buffer + ?Sized>(buf: &mut B) -> Option<&mut [u8]> {
    let lent = buf.lend();
    if !lent.readable || !lent.writable || lent.kind != HmemIface::SYSTEM {
        return None;
    }
    // SAFETY: the range is initialised, writable host memory, and free of other accesses while the
    // buffer is borrowed.
    Some(unsafe { core::slice::from_raw_parts_mut(lent.ptr.as_ptr(), lent.len) })
}

/// Buffer with initialised bytes, which may be sent.
///
/// ```
/// # #![allow(unsafe_code)]
/// use core::ptr::NonNull;
/// use loom_core::{Buffer, Forever, SourceBuffer, buffer::Lent};
///
/// /// Static bytes, which can be sent, and not be received into.
/// struct Page(&'static [u8]);
/// // SAFETY: static bytes stay where they are, initialised and unwritten.
/// unsafe impl Buffer for Page {
///     fn lend(&mut self) -> Lent { Lent::source(NonNull::from_ref(self.0).cast(), self.0.len()) }
/// }
/// impl SourceBuffer for Page {}
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// cq.post(Page(b"hello"), Forever, |page| alice.send(to_bob, page))?;
/// assert!(!Page(b"hello").lend().writable);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent from",
    note = "`&mut [MaybeUninit<u8>]` may hold uninitialised bytes: receive into it first"
)]
pub trait SourceBuffer: Buffer {}

/// Writable buffer, which can receive messages.
///
/// ```
/// use core::mem::MaybeUninit;
/// use loom_core::{Forever, Source, scope};
///
/// # fixture::domain!(network, domain);
/// // The target may be uninitialised. `send` does not take it.
/// let mut room = [MaybeUninit::<u8>::uninit(); 64];
/// scope(|s| {
/// # let domain = s.open(&network.info())?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
///     let received = bob.recv(Source::Any, &mut room[..])?;
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
///     assert_eq!(cq.finish(received, Forever)?.result()?.len, 5);
///     Ok::<_, loom_core::Error>(())
/// })?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be received into",
    note = "`&[u8]` is shared and may not be written: use `&mut [u8]` or `&mut [MaybeUninit<u8>]`"
)]
pub trait TargetBuffer: Buffer {}

// SAFETY: a shared borrow keeps the range initialised and unwritten for 'a.
unsafe impl Buffer for &[u8] {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent::source(NonNull::from_ref(*self).cast(), self.len())
    }
}
impl SourceBuffer for &[u8] {}

// SAFETY: an exclusive borrow excludes other accesses for 'a.
unsafe impl Buffer for &mut [u8] {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from_mut(*self).cast(), self.len())
    }
}
impl SourceBuffer for &mut [u8] {}
impl TargetBuffer for &mut [u8] {}

// SAFETY: an exclusive borrow excludes other accesses for 'a. Uninitialised bytes are not read: the
// range is lent for writing only.
unsafe impl Buffer for &mut [MaybeUninit<u8>] {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent::target(NonNull::from_mut(*self).cast(), self.len())
    }
}
impl TargetBuffer for &mut [MaybeUninit<u8>] {}

// SAFETY: an empty range has no bytes to keep valid.
unsafe impl Buffer for () {
    #[inline]
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::dangling(), 0)
    }
}
impl SourceBuffer for () {}
impl TargetBuffer for () {}

/// Borrowed buffer of any kind.
///
/// ```
/// use loom_core::{Forever, ImmediateData, Source, buffer::AnyBuffer, scope};
///
/// # fixture::domain!(network, domain);
/// let (message, mut room) = (b"hello", [0; 5]);
/// scope(|s| {
/// # let domain = s.open(&network.info())?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
///     let received = [bob.recv(Source::Any, AnyBuffer::Write(&mut room))?, bob.recv(Source::Any, AnyBuffer::Empty)?];
///     cq.post(AnyBuffer::Read(message), Forever, |buf| alice.send(to_bob, buf))?;
///     cq.post(AnyBuffer::Empty, Forever, |buf| alice.send_data(to_bob, ImmediateData(7), buf))?;
///     cq.finish(received[0], Forever)?.result()?;
///     assert_eq!(cq.finish(received[1], Forever)?.result()?.data, Some(ImmediateData(7)));
///     Ok::<_, loom_core::Error>(())
/// })?;
/// assert_eq!(&room, message);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub enum AnyBuffer<'a> {
    /// Zero bytes, for messages of only a tag or immediate data.
    #[default]
    Empty,
    /// Bytes to send.
    Read(&'a [u8]),
    /// Bytes to send or to receive into.
    Write(&'a mut [u8]),
    /// Memory to receive into.
    Uninit(&'a mut [MaybeUninit<u8>]),
}

// SAFETY: each variant forwards to its content.
unsafe impl Buffer for AnyBuffer<'_> {
    #[inline]
    fn lend(&mut self) -> Lent {
        match self {
            AnyBuffer::Empty => ().lend(),
            AnyBuffer::Read(bytes) => bytes.lend(),
            AnyBuffer::Write(bytes) => bytes.lend(),
            AnyBuffer::Uninit(bytes) => bytes.lend(),
        }
    }
}
impl SourceBuffer for AnyBuffer<'_> {}
impl TargetBuffer for AnyBuffer<'_> {}

#[cfg(feature = "std")]
mod owned {
    use std::boxed::Box;
    use std::vec::Vec;

    use super::{Buffer, Lent, NonNull, SourceBuffer, TargetBuffer};

    // SAFETY: the box owns its bytes, and a move of the box does not move them.
    unsafe impl Buffer for Box<[u8]> {
        #[inline]
        fn lend(&mut self) -> Lent {
            Lent::both(NonNull::from_mut(&mut **self).cast(), self.len())
        }
    }
    impl SourceBuffer for Box<[u8]> {}
    impl TargetBuffer for Box<[u8]> {}

    // SAFETY: the vector owns its bytes, and cannot grow while it is in flight.
    unsafe impl Buffer for Vec<u8> {
        #[inline]
        fn lend(&mut self) -> Lent {
            Lent::both(NonNull::from_mut(self.as_mut_slice()).cast(), self.len())
        }
    }
    impl SourceBuffer for Vec<u8> {}
    impl TargetBuffer for Vec<u8> {}
}
