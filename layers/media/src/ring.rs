//! Rings in memory.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use loom_core::Error;
use loom_core::exposed::Window;
use loom_core::vocabulary::RangeError;

use crate::flow::Samples;
use crate::layout::{FlowLayout, SampleLayout};
use crate::message::{decode_layout, encode_layout};

const MAGIC: u64 = u64::from_le_bytes(*b"loomring");
const LAYOUT: usize = 1;
/// Exclusive end of committed numbers.
const HEAD: usize = 5;
/// Exclusive end of numbers that the writer may have changed.
const CLAIMED: usize = 6;
const FIRST: usize = 7;
const SLOTS: usize = 8;
const PAGE: usize = 512;

/// Reason for a refused read of a [`RingReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Not committed.
    Early,
    /// Skipped or overwritten.
    Lapped,
    /// Not in the ring.
    Range(RangeError),
}

const EARLY: &str = "not committed yet: read again later";
const LAPPED: &str = "the writer has lapped the reader: go on at `RingReader::head`";

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Early => f.write_str(EARLY),
            ReadError::Lapped => f.write_str(LAPPED),
            ReadError::Range(error) => error.fmt(f),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Early => Error::Invalid(EARLY),
            ReadError::Lapped => Error::Invalid(LAPPED),
            ReadError::Range(error) => error.into(),
        }
    }
}

impl core::error::Error for ReadError {}

#[derive(Clone, Copy)]
struct Memory<'m> {
    words: &'m [AtomicU64],
    layout: FlowLayout,
}

const SHORT: Error = Error::Invalid("the memory is shorter than the ring: use `RingWriter::words`");
const WRONG: Error = Error::Invalid("the ring has other numbers, slices, or a flow of another kind: see its layout");

impl<'m> Memory<'m> {
    fn new(words: &'m [AtomicU64], layout: FlowLayout) -> Result<Self, Error> {
        let len = RingWriter::words(&layout).filter(|len| *len <= words.len()).ok_or(SHORT)?;
        Ok(Memory { words: words.get(..len).ok_or(SHORT)?, layout })
    }

    fn word(&self, at: usize) -> &'m AtomicU64 {
        // `new` has checked the length.
        static NEVER: AtomicU64 = AtomicU64::new(0);
        self.words.get(at).unwrap_or(&NEVER)
    }

    fn window(&self) -> Window<'m> {
        let head = RingWriter::head_words(&self.layout).unwrap_or(0);
        Window::from(self.words.get(head..).unwrap_or(&[]))
    }

    fn slot(&self, index: u64) -> Option<(&'m AtomicU64, Window<'m>)> {
        let FlowLayout::Grains(layout, slots) = self.layout else { return None };
        let slot = usize::try_from(index % u64::from(slots)).ok()?;
        let at = usize::try_from(index % u64::from(slots) * layout.stride()).ok()?;
        let window = self.window().slice(at, usize::try_from(layout.len()).ok()?).ok()?;
        Some((self.word(SLOTS + slot), window))
    }

    fn samples(&self) -> Option<Samples<'m>> {
        let FlowLayout::Samples(layout) = self.layout else { return None };
        Some(Samples { window: self.window(), layout })
    }

    /// Readers of later bytes find it.
    fn claim(&self, end: u64) {
        self.word(CLAIMED).store(end, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    fn is_lapped(&self, number: u64) -> bool {
        // After copies.
        fence(Ordering::Acquire);
        let claimed = self.word(CLAIMED).load(Ordering::Relaxed);
        number < claimed.saturating_sub(self.layout.ring()) || number < self.word(FIRST).load(Ordering::Relaxed)
    }
}

const INDICES: u64 = 1 << 47;

/// State of a slot.
const fn state(index: u64, is_invalid: bool, valid: u16) -> u64 {
    index << 17 | (is_invalid as u64) << 16 | valid as u64
}

/// Writer of a flow in memory, for the [`RingReader`]s of threads or processes.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use loom_media::{FlowLayout, GrainLayout, ReadError, RingReader, RingWriter};
///
/// let layout = GrainLayout::v210(96, 16);
/// let ring = FlowLayout::Grains(layout, 4);
/// let memory: Vec<_> = (0..RingWriter::words(&ring).unwrap()).map(|_| AtomicU64::new(0)).collect();
/// let mut writer = RingWriter::create(&memory, ring, 100)?;
/// let reader = RingReader::open(&memory)?;
/// writer.grain(100)?.copy_from(0, b"slices")?;
/// writer.commit_grain(100, layout.slices, false)?;
/// let mut bytes = [0; 6];
/// assert_eq!((reader.read_grain(100, &mut bytes), &bytes), (Ok((16, false)), b"slices"));
/// writer.grain(104)?;
/// assert_eq!(reader.read_grain(100, &mut bytes), Err(ReadError::Lapped));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct RingWriter<'m> {
    memory: Memory<'m>,
}

impl<'m> RingWriter<'m> {
    fn head_words(layout: &FlowLayout) -> Option<usize> {
        let slots = if let FlowLayout::Grains(_, slots) = layout { *slots as usize } else { 0 };
        SLOTS.checked_add(slots)?.checked_next_multiple_of(PAGE)
    }

    /// Number of words of a ring.
    #[must_use]
    pub fn words(layout: &FlowLayout) -> Option<usize> {
        if !layout.is_valid() {
            return None;
        }
        Self::head_words(layout)?.checked_add(usize::try_from(layout.bytes().div_ceil(8)).ok()?)
    }

    /// Begins a ring. No other writer has the memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] for fewer [`words`](Self::words).
    pub fn create(words: &'m [AtomicU64], layout: FlowLayout, first: u64) -> Result<Self, Error> {
        let memory = Memory::new(words, layout)?;
        memory.word(0).store(0, Ordering::Relaxed);
        memory.claim(first);
        let encoded = encode_layout(&layout);
        for (at, bytes) in (LAYOUT..).zip(encoded.chunks(8)) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            memory.word(at).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        if let FlowLayout::Grains(_, slots) = layout {
            (0..slots as usize).for_each(|slot| memory.word(SLOTS + slot).store(u64::MAX, Ordering::Relaxed));
        }
        memory.word(HEAD).store(first, Ordering::Relaxed);
        memory.word(FIRST).store(first, Ordering::Relaxed);
        memory.word(0).store(MAGIC, Ordering::Release);
        Ok(RingWriter { memory })
    }

    fn get(&self, at: usize) -> u64 {
        self.memory.word(at).load(Ordering::Relaxed)
    }

    /// Slot of the newest grain, or of a later one.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an earlier grain, or a ring of samples.
    pub fn grain(&mut self, index: u64) -> Result<Window<'_>, Error> {
        let end = index.checked_add(1).filter(|end| *end >= self.get(CLAIMED) && index < INDICES).ok_or(WRONG)?;
        let (_, window) = self.memory.slot(index).ok_or(WRONG)?;
        self.memory.claim(end);
        Ok(window)
    }

    /// Commits slices of the last [`grain`](Self::grain).
    ///
    /// # Errors
    /// [`Error::Invalid`] for another grain, or more slices than it has.
    pub fn commit_grain(&mut self, index: u64, valid: u16, is_invalid: bool) -> Result<(), Error> {
        let FlowLayout::Grains(layout, _) = self.memory.layout else { return Err(WRONG) };
        let (slot, _) = self.memory.slot(index).ok_or(WRONG)?;
        if valid > layout.slices || index.checked_add(1) != Some(self.get(CLAIMED)) || index < self.get(FIRST) {
            return Err(WRONG);
        }
        slot.store(state(index, is_invalid, valid), Ordering::Release);
        self.memory.word(HEAD).store(index + 1, Ordering::Release);
        Ok(())
    }

    /// Samples to write, which gives up those before a gap.
    ///
    /// # Errors
    /// [`Error::Invalid`] for committed samples, more than the ring has, or grains.
    pub fn samples(&mut self, start: u64, count: u32) -> Result<Samples<'_>, Error> {
        let samples = self.memory.samples().filter(|samples| count <= samples.layout.len).ok_or(WRONG)?;
        let end = start.checked_add(count.into()).filter(|_| start >= self.get(HEAD)).ok_or(WRONG)?;
        if start > self.get(HEAD) {
            self.memory.word(FIRST).store(start, Ordering::Relaxed);
        }
        self.memory.claim(end.max(self.get(CLAIMED)));
        Ok(samples)
    }

    /// Commits [`samples`](Self::samples) below a number.
    pub fn commit_samples(&mut self, end: u64) -> Result<(), Error> {
        if self.memory.samples().is_none() || !(self.get(HEAD)..=self.get(CLAIMED)).contains(&end) {
            return Err(WRONG);
        }
        self.memory.word(HEAD).store(end, Ordering::Release);
        Ok(())
    }
}

impl fmt::Debug for RingWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingWriter").field("layout", &self.memory.layout).finish_non_exhaustive()
    }
}

/// Reader of a flow in memory. Its [`RingWriter`] does not wait.
#[derive(Clone, Copy)]
pub struct RingReader<'m> {
    memory: Memory<'m>,
}

impl<'m> RingReader<'m> {
    /// Opens a ring.
    ///
    /// # Errors
    /// [`Error::Invalid`] before [`RingWriter::create`], or for fewer words.
    pub fn open(words: &'m [AtomicU64]) -> Result<Self, Error> {
        const NONE: Error = Error::Invalid("the memory has no ring: open it after `RingWriter::create`");
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Acquire));
        if word(0) != MAGIC {
            return Err(NONE);
        }
        let mut encoded = [0; 28];
        for (at, bytes) in (LAYOUT..).zip(encoded.chunks_mut(8)) {
            bytes.iter_mut().zip(word(at).to_le_bytes()).for_each(|(to, from)| *to = from);
        }
        Ok(RingReader { memory: Memory::new(words, decode_layout(encoded).ok_or(NONE)?)? })
    }

    /// Layout of the ring.
    #[must_use]
    pub const fn layout(&self) -> FlowLayout {
        self.memory.layout
    }

    /// Exclusive end of the committed grains or samples.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.memory.word(HEAD).load(Ordering::Acquire)
    }

    /// Copies the first bytes of a slot. Returns the number of valid slices, and `true` for an
    /// invalid grain. Other slices have any bytes.
    ///
    /// # Errors
    /// [`ReadError`], after which the bytes are of no grain.
    pub fn read_grain(&self, index: u64, out: &mut [u8]) -> Result<(u16, bool), ReadError> {
        let (slot, window) = self.memory.slot(index).ok_or(ReadError::Range(RangeError::OutOfWindow))?;
        if index >= self.head() {
            return Err(ReadError::Early);
        }
        let found = slot.load(Ordering::Acquire);
        window.copy_to(0, out).map_err(ReadError::Range)?;
        if found >> 17 != index || self.memory.is_lapped(index) {
            return Err(ReadError::Lapped);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
        Ok((found as u16, found & 1 << 16 != 0))
    }

    /// Copies samples of a channel, like [`read_grain`](Self::read_grain).
    pub fn read_samples(&self, channel: u16, start: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let range = ReadError::Range(RangeError::OutOfWindow);
        let samples = self.memory.samples().ok_or(range)?;
        let SampleLayout { word, .. } = samples.layout;
        let end = start.checked_add((out.len() / usize::from(word)) as u64).ok_or(range)?;
        if end > self.head() {
            return Err(ReadError::Early);
        }
        samples.copy_to(channel, start, out).map_err(ReadError::Range)?;
        if self.memory.is_lapped(start) { Err(ReadError::Lapped) } else { Ok(()) }
    }
}

impl fmt::Debug for RingReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingReader").field("layout", &self.memory.layout).finish_non_exhaustive()
    }
}
