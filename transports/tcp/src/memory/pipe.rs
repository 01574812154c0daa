//! [`Pipe`]: memory that two processes of a host share, with a stream of bytes in each direction.
//!
//! The writer fills a *cell*, and hands it over by one store of its word. A short batch lies in
//! its cell, a long one in the ring.
//!
//! ```text
//!                             for each direction
//! ┌──────────────────┬───────┬───────────────────────┬──────────────────┐
//! │ nonce (16 bytes) │ words │ 64 cells of 128 bytes │ `capacity` bytes │
//! └──────────────────┴───────┴───────────────────────┴──────────────────┘
//! words of a direction, 128 bytes each: cells done │ bytes done │ reader sleeps, writer waits
//! word of a cell: length in bits 0 to 30, bit 31 for bytes in the ring, number of the cell + 1
//! ```
//!
//! The peer may write anything at any time. Words are checked against positions that this side
//! keeps, and bytes are copied before they are parsed.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt::{Arguments, Write};
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use heapless::String;
use loom_core::exposed::copy_exposed;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{self, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{self, Errno};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::spans::{Gather, Spans};

const NAME: &CStr = c"loom-tcp";
const CELLS: usize = 64;
/// Longest batch in a cell.
const SHORT: usize = 120;
/// Mark of a length of bytes in the ring.
const LONG: u32 = 1 << 31;
const APART: usize = 128;

/// Words and cells of a direction.
#[repr(C, align(128))]
struct Direction {
    /// Positions below which the reader is done.
    cells_done: Apart<AtomicU64>,
    bytes_done: Apart<AtomicU64>,
    /// The reader sleeps until a byte arrives on the socket.
    reader_sleeps: Apart<AtomicU32>,
    writer_waits: Apart<AtomicU32>,
}

#[repr(C, align(128))]
struct Apart<V>(V);

#[repr(C, align(128))]
struct Cell {
    word: AtomicU64,
    bytes: UnsafeCell<[u8; SHORT]>,
}

#[repr(C)]
struct Head {
    nonce: [AtomicU64; 2],
    directions: [Direction; 2],
    cells: [[Cell; CELLS]; 2],
}

const _: () = assert!(size_of::<Head>().is_multiple_of(APART) && offset_of!(Head, cells).is_multiple_of(APART));

/// The peer's words contradict those of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inconsistent;

/// Position of the memory among processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Descriptor of the process that made it.
    pub(crate) fd: i32,
    pub(crate) capacity: u32,
    pub(crate) nonce: [u64; 2],
}

impl Offer {
    pub(crate) const LEN: usize = 24;

    pub(crate) fn of(file: &OwnedFd, capacity: u32, nonce: [u64; 2]) -> Self {
        Offer { fd: file.as_raw_fd(), capacity, nonce }
    }

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let first = u64::from(self.capacity) << 32 | u64::from(self.fd.cast_unsigned());
        let mut bytes = [0; Self::LEN];
        for (to, word) in bytes.chunks_exact_mut(8).zip([first, self.nonce[0], self.nonce[1]]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[expect(clippy::cast_possible_truncation, reason = "halves of a word")]
    pub(crate) fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let mut words = [0; 3];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(from.try_into().unwrap_or_default());
        }
        let [first, nonce @ ..] = words;
        Offer { fd: (first as u32).cast_signed(), capacity: (first >> 32) as u32, nonce }
    }
}

/// One side of the shared memory.
#[derive(Debug)]
pub(crate) struct Pipe {
    head: NonNull<Head>,
    /// Length of a ring in bytes, a power of two.
    capacity: u64,
    /// Direction in which this side writes: 0 for the maker of the memory.
    own: usize,
    /// Next cell and byte to write.
    written: Position,
    /// Positions below which the peer is done, as last read.
    done: Position,
    /// Next cell and byte to read.
    read: Position,
    /// Bytes of the last cell that are still in the ring.
    left: u64,
    reported: Position,
    has_reported: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    cells: u64,
    bytes: u64,
}

impl Pipe {
    /// Lengths of a ring.
    pub(crate) const CAPACITIES: core::ops::RangeInclusive<u32> = 4096..=1 << 30;

    const fn len(capacity: u64) -> u64 {
        size_of::<Head>() as u64 + 2 * capacity
    }

    /// Makes the memory, with a capacity of [`CAPACITIES`](Self::CAPACITIES).
    pub(crate) fn create(capacity: u32, nonce: [u64; 2]) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Required by some systems, and unknown to older ones.
        let file =
            fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL).or_else(|_| fs::memfd_create(NAME, flags))?;
        fs::ftruncate(&file, Self::len(capacity.into()))?;
        fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let pipe = Self::map(&file, capacity, MapFlags::empty(), 0)?;
        for (word, value) in pipe.words().nonce.iter().zip(nonce) {
            word.store(value, Ordering::Relaxed);
        }
        Ok((pipe, file))
    }

    /// Opens the memory of another process of the same user.
    pub(crate) fn open(pid: u32, offer: &Offer) -> io::Result<Self> {
        let is_valid = Self::CAPACITIES.contains(&offer.capacity) && offer.capacity.is_power_of_two();
        if !is_valid || offer.fd < 0 {
            return Err(Errno::INVAL);
        }
        let found = open(format_args!("/proc/{pid}/fd/{}", offer.fd), OFlags::PATH)?;
        let path = path(format_args!("/proc/self/fd/{}", found.as_raw_fd()))?;
        // Opening another file may wait, or change the state of a device.
        let mut link = [MaybeUninit::uninit(); 64];
        let (link, _) = fs::readlinkat_raw(fs::CWD, path.as_str(), &mut link)?;
        if !link.starts_with(b"/memfd:loom-tcp") {
            return Err(Errno::BADF);
        }
        let file = open(format_args!("{path}"), OFlags::RDWR | OFlags::NONBLOCK)?;
        // A file that shrinks would end this process.
        let seals = fs::fcntl_get_seals(&file)?;
        let len = u64::try_from(fs::fstat(&file)?.st_size).unwrap_or(0);
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) || len != Self::len(offer.capacity.into()) {
            return Err(Errno::BADF);
        }
        let pipe = Self::map(&file, offer.capacity, MapFlags::POPULATE, 1)?;
        let is_it =
            pipe.words().nonce.iter().zip(offer.nonce).all(|(word, nonce)| word.load(Ordering::Relaxed) == nonce);
        if is_it { Ok(pipe) } else { Err(Errno::BADF) }
    }

    fn map(file: impl AsFd, capacity: u32, flags: MapFlags, own: usize) -> io::Result<Self> {
        let capacity = u64::from(capacity);
        let len = usize::try_from(Self::len(capacity)).map_err(|_| Errno::NOMEM)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | flags);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let head = unsafe { mmap(null_mut(), len, access, flags, file, 0) }?;
        let head = NonNull::new(head.cast()).ok_or(Errno::NOMEM)?;
        let (written, done, read, reported) = Default::default();
        Ok(Pipe { head, capacity, own, written, done, read, left: 0, reported, has_reported: false })
    }

    fn words(&self) -> &Head {
        // SAFETY: the mapping begins with a head of atomic words, and stays while the pipe does.
        // Bytes of a cell are accessed by pointers alone.
        unsafe { self.head.as_ref() }
    }

    fn direction(&self, of: usize) -> &Direction {
        &self.words().directions[of & 1]
    }

    /// Number of words of the memory.
    #[cfg(test)]
    pub(crate) fn len_in_words(&self) -> usize {
        usize::try_from(Self::len(self.capacity) / 8).expect("it is mapped")
    }

    /// Index of the word of a direction's first cell.
    #[cfg(test)]
    pub(crate) fn first_cell(&self, of: usize) -> usize {
        (core::ptr::from_ref(self.cell(of, 0).0).addr() - self.head.addr().get()) / 8
    }

    /// Stores a word, as a hostile peer.
    #[cfg(test)]
    pub(crate) fn scribble(&self, at: usize, value: u64) {
        assert!(at < self.len_in_words());
        // SAFETY: the word lies in the mapping.
        let word = unsafe { self.head.cast::<AtomicU64>().add(at) };
        // SAFETY: the mapping stays while the pipe does, and all accesses are atomic.
        unsafe { word.as_ref() }.store(value, Ordering::Release);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "of a remainder")]
    fn cell(&self, of: usize, number: u64) -> (&AtomicU64, NonNull<u8>) {
        let cell = &self.words().cells[of & 1][number as usize % CELLS];
        (&cell.word, NonNull::from_ref(&cell.bytes).cast())
    }

    /// Bytes of a ring from a position on, at most `len`, up to its end.
    #[inline]
    fn bytes(&self, of: usize, at: u64, len: u64) -> (NonNull<u8>, usize) {
        let offset = at & (self.capacity - 1);
        let len = len.min(self.capacity - offset);
        #[expect(clippy::cast_possible_truncation, reason = "less than the length of the mapping")]
        let (start, len) = ((of as u64 * self.capacity + offset) as usize, len as usize);
        // SAFETY: the rings lie behind the head, and `offset` is within one.
        (unsafe { self.head.cast::<u8>().add(size_of::<Head>() + start) }, len)
    }

    /// Copies the bytes of a gather, as far as there is room, and returns their number.
    #[inline]
    pub(crate) fn send(&mut self, gather: Gather<'_>) -> Result<u64, Inconsistent> {
        if let Some(bytes) = gather.copied().filter(|bytes| bytes.len() <= SHORT) {
            if !self.has_cell()? {
                return Ok(0);
            }
            let (_, cell) = self.cell(self.own, self.written.cells);
            // SAFETY: the cell has room, and is this side's until the word is stored.
            unsafe { copy_exposed(bytes.as_ptr(), cell.as_ptr(), bytes.len()) };
            #[expect(clippy::cast_possible_truncation, reason = "at most `SHORT`")]
            self.hand_over(bytes.len() as u32);
            return Ok(bytes.len() as u64);
        }
        self.send_long(gather)
    }

    fn send_long(&mut self, gather: Gather<'_>) -> Result<u64, Inconsistent> {
        let total = gather.len();
        let mut gathered = gather.gathered();
        let mut sent = 0;
        while sent < total && self.has_cell()? {
            // In several parts, so that the reader copies meanwhile.
            let room = self.room()?.min(self.capacity / 4).min(total - sent);
            if room == 0 {
                break;
            }
            let (to, len) = self.bytes(self.own, self.written.bytes, room);
            // SAFETY: the ring has room, which is this side's until the word is stored.
            unsafe { gathered.copy_out(to, len) };
            self.written.bytes += len as u64;
            sent += len as u64;
            #[expect(clippy::cast_possible_truncation, reason = "at most a quarter of the ring")]
            self.hand_over(len as u32 | LONG);
        }
        Ok(sent)
    }

    /// Stores the word of the next cell.
    #[inline]
    fn hand_over(&mut self, len: u32) {
        debug_assert!(len & !LONG > 0, "the peer expects bytes");
        let (word, _) = self.cell(self.own, self.written.cells);
        // Release: the bytes come before.
        word.store((self.written.cells + 1) << 32 | u64::from(len), Ordering::Release);
        self.written.cells += 1;
    }

    #[inline]
    fn has_cell(&mut self) -> Result<bool, Inconsistent> {
        if self.written.cells - self.done.cells == CELLS as u64 {
            // Acquire: the reader is done with the cells.
            let done = self.direction(self.own).cells_done.0.load(Ordering::Acquire);
            if self.written.cells.wrapping_sub(done) > CELLS as u64 {
                return Err(Inconsistent);
            }
            self.done.cells = done;
        }
        Ok(self.written.cells - self.done.cells < CELLS as u64)
    }

    /// Number of free bytes of the ring, or fewer.
    #[inline]
    fn room(&mut self) -> Result<u64, Inconsistent> {
        if self.written.bytes.wrapping_sub(self.done.bytes) > self.capacity / 2 {
            // Acquire: the reader is done with the bytes.
            let done = self.direction(self.own).bytes_done.0.load(Ordering::Acquire);
            if self.written.bytes.wrapping_sub(done) > self.capacity {
                return Err(Inconsistent);
            }
            self.done.bytes = done;
        }
        Ok(self.capacity - self.written.bytes.wrapping_sub(self.done.bytes))
    }

    #[inline]
    pub(crate) fn has_bytes(&self) -> bool {
        self.left > 0 || self.cell(self.own ^ 1, self.read.cells).0.load(Ordering::Relaxed) >> 32 == self.next_number()
    }

    const fn next_number(&self) -> u64 {
        (self.read.cells + 1) & u32::MAX as u64
    }

    /// Takes the next cell. Returns the length of its bytes, unless they are in the ring.
    #[inline]
    fn next_cell(&mut self) -> Result<Option<usize>, Inconsistent> {
        // Acquire: pairs with `hand_over`.
        let word = self.cell(self.own ^ 1, self.read.cells).0.load(Ordering::Acquire);
        if word >> 32 != self.next_number() {
            return Ok(None);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let len = word as u32;
        if len & LONG == 0 {
            let len = len as usize;
            return if len == 0 || len > SHORT { Err(Inconsistent) } else { Ok(Some(len)) };
        }
        let len = u64::from(len & !LONG);
        // All earlier bytes were read.
        if len == 0 || len > self.capacity {
            return Err(Inconsistent);
        }
        self.left = len;
        self.finish_cell();
        Ok(None)
    }

    #[inline]
    fn finish_cell(&mut self) {
        self.read.cells += 1;
        if self.read.cells - self.reported.cells >= CELLS as u64 / 4 {
            (self.reported.cells, self.has_reported) = (self.read.cells, true);
            // Release: the copies come before.
            self.direction(self.own ^ 1).cells_done.0.store(self.read.cells, Ordering::Release);
        }
    }

    /// Copies bytes to `room`, of at least [`SHORT`] bytes, and returns their number.
    #[inline]
    pub(crate) fn read(&mut self, room: &mut [u8]) -> Result<usize, Inconsistent> {
        if self.left == 0
            && let Some(len) = self.next_cell()?
        {
            let Some(room) = room.get_mut(..len) else { return Ok(0) };
            let (_, bytes) = self.cell(self.own ^ 1, self.read.cells);
            // SAFETY: both have the length.
            unsafe { copy_exposed(bytes.as_ptr(), room.as_mut_ptr(), len) };
            self.finish_cell();
            return Ok(len);
        }
        let mut copied = 0;
        while self.left > 0 && copied < room.len() {
            let (from, len) = self.bytes(self.own ^ 1, self.read.bytes, self.left.min((room.len() - copied) as u64));
            // SAFETY: both have the length.
            unsafe { copy_exposed(from.as_ptr(), room.as_mut_ptr().add(copied), len) };
            copied += len;
            self.finish_bytes(len);
        }
        Ok(copied)
    }

    /// Copies bytes of the ring to spans, at most `limit`, and returns their number.
    pub(crate) fn read_to(&mut self, spans: &mut Spans, limit: u64) -> u64 {
        let mut copied = 0;
        while self.left > 0 && copied < limit {
            let (from, len) = self.bytes(self.own ^ 1, self.read.bytes, self.left.min(limit - copied));
            // SAFETY: the bytes lie in the ring.
            let filled = unsafe { spans.fill_from(from, len) };
            copied += filled as u64;
            self.finish_bytes(filled);
            if filled < len {
                break;
            }
        }
        copied
    }

    pub(crate) fn is_long(&mut self) -> Result<bool, Inconsistent> {
        if self.left == 0 {
            self.next_cell()?;
        }
        Ok(self.left > 0)
    }

    #[inline]
    fn finish_bytes(&mut self, len: usize) {
        self.read.bytes += len as u64;
        self.left -= len as u64;
        if self.read.bytes - self.reported.bytes >= self.capacity / 4 {
            (self.reported.bytes, self.has_reported) = (self.read.bytes, true);
            // Release: the copies come before.
            self.direction(self.own ^ 1).bytes_done.0.store(self.read.bytes, Ordering::Release);
        }
    }

    /// Wakes the peer by a byte if it sleeps, after a send.
    #[inline]
    pub(crate) fn wake_reader(&self, send_byte: impl FnOnce() -> bool) {
        Self::wake(&self.direction(self.own).reader_sleeps.0, send_byte);
    }

    /// Wakes the peer if it sleeps, after reads that have made room.
    #[inline]
    pub(crate) fn wake_writer(&mut self, send_byte: impl FnOnce() -> bool) {
        if core::mem::take(&mut self.has_reported) {
            Self::wake(&self.direction(self.own ^ 1).writer_waits.0, send_byte);
        }
    }

    #[inline]
    fn wake(sleeps: &AtomicU32, send_byte: impl FnOnce() -> bool) {
        // Pairs with `arm`: the peer sees the stores before, or this side sees that it sleeps.
        fence(Ordering::SeqCst);
        if sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0 && !send_byte() {
            // The next send tries again.
            sleeps.store(1, Ordering::Relaxed);
        }
    }

    /// Requests a byte on the socket for the next bytes, and for room if there are `unsent` ones.
    /// Returns `false` if there is room, or there are bytes and this side `reads`.
    pub(crate) fn arm(&mut self, unsent: bool, reads: bool) -> bool {
        self.direction(self.own ^ 1).reader_sleeps.0.store(1, Ordering::Relaxed);
        self.direction(self.own).writer_waits.0.store(unsent.into(), Ordering::Relaxed);
        // Pairs with `wake`.
        fence(Ordering::SeqCst);
        // After an inconsistency, the next call reports it.
        let has_room = unsent && self.has_cell() != Ok(false) && self.room() != Ok(0);
        !(has_room || reads && self.has_bytes())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let len = usize::try_from(Self::len(self.capacity)).unwrap_or(0);
        // SAFETY: `map` has mapped this length, and no reference is left.
        let _ = unsafe { munmap(self.head.as_ptr().cast(), len) };
    }
}

fn path(text: Arguments<'_>) -> io::Result<String<48>> {
    let mut path = String::new();
    path.write_fmt(text).map_err(|_| Errno::NAMETOOLONG)?;
    Ok(path)
}

fn open(text: Arguments<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    fs::open(path(text)?.as_str(), flags | OFlags::CLOEXEC, Mode::empty())
}
