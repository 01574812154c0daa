//! [`Spans`]: memory lent with an operation, or of a region.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use heapless::Vec;
use loom_core::buffer::Lent;
use loom_core::exposed::copy_exposed;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use super::syscall::{self, IoVec};
use crate::wire::{MAX_HEADER, MAX_PARTS};

/// Range of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    first: NonNull<u8>,
    len: usize,
}

impl Span {
    /// # Safety
    /// The memory is valid while the span is used, for the accesses of the engine.
    pub(crate) const unsafe fn new(first: NonNull<u8>, len: usize) -> Self {
        Span { first, len }
    }

    /// Part of the range, or `None` if it does not lie within.
    pub(crate) fn part(&self, at: u64, len: u64) -> Option<Span> {
        let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
        let end = at.checked_add(len)?;
        // SAFETY: the part lies within the range.
        (end <= self.len).then(|| Span { first: unsafe { self.first.add(at) }, len })
    }
}

/// Ranges that one operation transfers, and the position of the transfer.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<Span, MAX_PARTS>,
    /// Range of the next byte, and the bytes before it in that range.
    at: usize,
    offset: usize,
    left: u64,
}

impl Spans {
    /// # Safety
    /// The requirements of [`Span::new`] for each of the pieces.
    pub(crate) unsafe fn lent(pieces: &[Lent]) -> Option<Self> {
        let mut spans = Spans::default();
        for piece in pieces {
            spans.push(Span { first: piece.ptr, len: piece.len })?;
        }
        Some(spans)
    }

    /// Returns `None` if the operation has too many ranges.
    pub(crate) fn push(&mut self, span: Span) -> Option<()> {
        self.left += span.len as u64;
        self.spans.push(span).ok()
    }

    /// Bytes left to transfer.
    #[inline]
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    fn rest(&self) -> impl Iterator<Item = Span> + '_ {
        let rest = self.spans.get(self.at..).unwrap_or_default();
        rest.iter().enumerate().map(|(number, span)| {
            let skipped = if number == 0 { self.offset } else { 0 };
            // SAFETY: the offset lies within the first range.
            Span { first: unsafe { span.first.add(skipped) }, len: span.len - skipped }
        })
    }

    /// Moves the position forwards, at most to the end.
    pub(crate) fn advance(&mut self, count: u64) {
        let mut count = count.min(self.left);
        self.left -= count;
        while let Some(span) = self.spans.get(self.at) {
            let room = (span.len - self.offset) as u64;
            if count < room {
                #[expect(clippy::cast_possible_truncation, reason = "less than a range has")]
                let count = count as usize;
                self.offset += count;
                return;
            }
            count -= room;
            self.at += 1;
            self.offset = 0;
        }
    }

    /// Address of the next byte, or zero at the end.
    pub(crate) fn address(&self) -> usize {
        self.rest().next().map_or(0, |span| span.first.addr().get())
    }

    /// Takes the next bytes, at most `len`.
    pub(crate) fn split_front(&mut self, len: u64) -> Spans {
        let mut front = Spans::default();
        for span in self.rest() {
            let wanted = usize::try_from(len - front.left).unwrap_or(usize::MAX);
            let _ = front.push(Span { len: span.len.min(wanted), ..span });
        }
        self.advance(front.left);
        front
    }

    /// Copies bytes in, as many as there is room for, and returns their number.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> usize {
        // SAFETY: borrowed.
        unsafe { self.fill_from(NonNull::from_ref(bytes).cast(), bytes.len()) }
    }

    /// # Safety
    /// `len` bytes are valid for reads. They may be exposed memory.
    pub(super) unsafe fn fill_from(&mut self, bytes: NonNull<u8>, len: usize) -> usize {
        // Usually one range.
        if let (Some(span), 0) = (self.spans.first(), self.at)
            && self.spans.len() == 1
        {
            let len = len.min(span.len - self.offset);
            // SAFETY: `len` bytes are left of both.
            unsafe { copy_exposed(bytes.as_ptr(), span.first.as_ptr().add(self.offset), len) };
            self.offset += len;
            self.left -= len as u64;
            return len;
        }
        let mut copied = 0;
        for span in self.rest() {
            let len = span.len.min(len - copied);
            // SAFETY: `len` bytes are left of both.
            unsafe { copy_exposed(bytes.as_ptr().add(copied), span.first.as_ptr(), len) };
            copied += len;
        }
        self.advance(copied as u64);
        copied
    }

    /// Receives at most `limit` bytes into the ranges, and further ones into `behind`. Returns the
    /// number of bytes for the ranges, and behind.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, limit: u64, behind: &mut [u8]) -> Result<(u64, usize), Errno> {
        let mut ranges = Vec::<IoVec, { MAX_PARTS + 1 }>::new();
        let mut direct = 0;
        for span in self.rest() {
            let len = usize::try_from(limit - direct).map_or(span.len, |left| left.min(span.len));
            direct += len as u64;
            let _ = ranges.push(IoVec { base: span.first.as_ptr(), len });
        }
        let _ = ranges.push(IoVec { base: behind.as_mut_ptr(), len: behind.len() });
        // SAFETY: the ranges are valid (`Span::new`), and `behind` is borrowed.
        let received = unsafe { syscall::receive(fd, &ranges) }? as u64;
        let direct = received.min(direct);
        self.advance(direct);
        #[expect(clippy::cast_possible_truncation, reason = "at most the length of `behind`")]
        Ok((direct, (received - direct) as usize))
    }
}

/// Longest payload that is copied behind its header.
const COPIED: usize = 512;

/// Ranges of one system call. Their memory is used again, because zeroing it for each call takes
/// longer than the headers.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<IoVec, 64>);

/// Bytes of one send: headers and short payloads copied to a buffer, and long payloads where they
/// are.
pub(crate) struct Gather<'a> {
    buffer: NonNull<u8>,
    room: usize,
    /// Bytes in the buffer, and the first of them that belongs to no range yet.
    end: usize,
    begin: usize,
    ranges: &'a mut Ranges,
    len: u64,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Gather<'a> {
    /// `buffer` has room for a header and its short payload at least.
    pub(crate) fn over(buffer: &'a mut [u8], ranges: &'a mut Ranges) -> Self {
        ranges.0.clear();
        let (room, buffer) = (buffer.len(), NonNull::from_mut(buffer).cast());
        Gather { buffer, room, end: 0, begin: 0, ranges, len: 0, memory: PhantomData }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if a frame with payload may not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.room - self.end < MAX_HEADER + COPIED || self.ranges.0.len() + MAX_PARTS + 2 > self.ranges.0.capacity()
    }

    /// Next `len` bytes of the buffer, or `None` if it has fewer.
    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        if len > self.room - self.end {
            return None;
        }
        // SAFETY: the bytes lie within the buffer.
        let place = unsafe { self.buffer.add(self.end) };
        self.end += len;
        self.len += len as u64;
        Some(place)
    }

    /// Writes a header. The function returns its length in bytes.
    pub(crate) fn encode(&mut self, write: impl FnOnce(&mut [u8; MAX_HEADER]) -> usize) {
        if self.room - self.end < MAX_HEADER {
            return;
        }
        // SAFETY: the bytes lie within the buffer.
        let place = unsafe { self.buffer.add(self.end) };
        // SAFETY: the buffer is borrowed exclusively.
        let len = write(unsafe { place.cast().as_mut() }).min(MAX_HEADER);
        self.end += len;
        self.len += len as u64;
    }

    /// Copies bytes.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        if let Some(place) = self.take(bytes.len()) {
            // SAFETY: the place has room for the bytes, and the buffer is borrowed exclusively.
            unsafe { place.copy_from_nonoverlapping(NonNull::from_ref(bytes).cast(), bytes.len()) };
        }
    }

    /// Adds the bytes that are left of spans, which stay until the send.
    pub(crate) fn spans(&mut self, spans: &'a Spans) {
        if spans.left == 0 {
            return;
        }
        if spans.left <= COPIED as u64 {
            for span in spans.rest() {
                let Some(place) = self.take(span.len) else { return };
                // SAFETY: both have the length of the span, which is valid (`Span::new`).
                unsafe { copy_exposed(span.first.as_ptr(), place.as_ptr(), span.len) };
            }
            return;
        }
        self.end_range();
        for span in spans.rest().filter(|span| span.len > 0) {
            if self.ranges.0.push(IoVec { base: span.first.as_ptr(), len: span.len }).is_ok() {
                self.len += span.len as u64;
            }
        }
    }

    fn end_range(&mut self) {
        let len = self.end - self.begin;
        if len > 0 {
            // SAFETY: the bytes lie within the buffer.
            let base = unsafe { self.buffer.add(self.begin) };
            let _ = self.ranges.0.push(IoVec { base: base.as_ptr(), len });
        }
        self.begin = self.end;
    }

    /// Returns the bytes if all are in the buffer.
    #[inline]
    pub(super) fn copied(&self) -> Option<&[u8]> {
        // SAFETY: the bytes lie within the buffer, which is borrowed, and were written.
        self.ranges.0.is_empty().then(|| unsafe { slice::from_raw_parts(self.buffer.as_ptr(), self.end) })
    }

    /// Returns the bytes, to be copied in order.
    pub(crate) fn gathered(mut self) -> Gathered<'a> {
        self.end_range();
        Gathered { ranges: self.ranges, at: 0, offset: 0, memory: PhantomData }
    }

    /// Sends the bytes, and returns the number of those that the kernel took.
    pub(crate) fn send(mut self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.end_range();
        // SAFETY: spans are valid (`Span::new`), and the buffer is borrowed.
        unsafe { syscall::send(fd, &self.ranges.0) }.map(|sent| sent as u64)
    }
}

/// Bytes of a [`Gather`], and the position of the next one.
pub(crate) struct Gathered<'a> {
    ranges: &'a Ranges,
    at: usize,
    offset: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl Gathered<'_> {
    /// Copies the next bytes, as many as there is room for, and returns their number.
    #[cfg(feature = "tls")]
    pub(crate) fn copy_to(&mut self, room: &mut [u8]) -> usize {
        // SAFETY: borrowed.
        unsafe { self.copy_out(NonNull::from_mut(room).cast(), room.len()) }
    }

    /// # Safety
    /// `room` bytes are valid for writes. They may be exposed memory.
    pub(super) unsafe fn copy_out(&mut self, to: NonNull<u8>, room: usize) -> usize {
        let mut copied = 0;
        while copied < room
            && let Some(range) = self.ranges.0.get(self.at)
        {
            let len = (range.len - self.offset).min(room - copied);
            // SAFETY: the offset lies within the range.
            let from = unsafe { range.base.add(self.offset) };
            // SAFETY: `len` bytes are left of both. Spans are valid (`Span::new`), and the gather's
            // buffer is borrowed.
            unsafe { copy_exposed(from, to.as_ptr().add(copied), len) };
            copied += len;
            self.offset += len;
            if self.offset == range.len {
                (self.at, self.offset) = (self.at + 1, 0);
            }
        }
        copied
    }
}
