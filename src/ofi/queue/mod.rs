#![allow(unsafe_code, reason = "calls libfabric, and reads what it wrote")]

pub(crate) mod entry_queue;
pub(crate) mod event_queue;
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
pub(crate) mod sets;
pub(crate) mod signals;

use core::alloc::Layout;
use core::ffi::{c_char, c_int};
use core::ptr::{self, NonNull};

use loom_core::transport::{CompletionQueues, Event};
use loom_core::vocabulary::{CompletionFlags, CqFormat, Errno, FabricAddr, ImmediateData, Tag, WaitObj};

use super::control::{close, opened, try_wait, wait_fd};
use super::fabric::Domain;
use super::ffi::call::{Padded, done, entry, errno};
use super::ffi::text;
use super::quirks::nap;
use super::raw::Raw;
use super::threading::{Handle, Level, Shared};
use super::transport::Ofi;
use super::{quirks, sys};

/// Maximum number of events per call of `fi_cq_read`.
const BATCH: usize = 64;

/// A completion queue, raw: a `fid_cq`, and its unreported events.
#[doc(alias = "fid_cq")]
#[derive(Debug)]
pub struct Cq<L> {
    fid: Handle<sys::fid_cq, L>,
    /// In the memory given to `open`. Only the polling thread uses it.
    batch: NonNull<Batch>,
    /// At most the queue's depth: the op table's rule 4 has twice that as its horizon.
    room: usize,
    with_source: bool,
    /// Providers of 1.17 crash when they sleep without a wait object.
    sleeps: bool,
}

impl<L> Cq<L> {
    #[inline]
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    pub(crate) const fn raw(&self) -> Raw<sys::fid_cq> {
        self.fid.raw()
    }

    pub(crate) const fn sleeps(&self) -> bool {
        self.sleeps
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> CompletionQueues for Ofi<L> {
    type Cq = Cq<L>;
    type Polled<'q>
        = Event
    where
        Self: 'q;

    fn cq_layout(_depth: usize) -> Layout {
        Layout::new::<Batch>()
    }

    #[inline]
    unsafe fn cq_open(
        domain: &Domain<L>,
        depth: usize,
        with_source: bool,
        wait: WaitObj,
        memory: NonNull<u8>,
    ) -> Result<Cq<L>, Errno> {
        // SAFETY: open (H1).
        let cq = unsafe { open_as(domain, depth, CqFormat::TAGGED, wait) }?;
        // SAFETY: the memory fits a batch and outlives the queue (M1).
        Ok(unsafe { with_batch(cq, depth, with_source, memory) })
    }

    #[inline]
    unsafe fn cq_close(cq: &Cq<L>) -> Result<(), Errno> {
        // SAFETY: the queue is closed once (H1–H3).
        unsafe { close(cq.fid()) }
    }

    #[cold]
    unsafe fn cq_sleep(cq: &Cq<L>, milliseconds: i32) -> Result<(), Errno> {
        if !cq.sleeps {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: one thread uses the batch (T1, M1).
        let batch = unsafe { &mut *cq.batch.as_ptr() };
        if batch.next != batch.end {
            return Ok(());
        }
        // SAFETY: open (H1).
        if unsafe { nap::is_deserted(cq.fid()) } {
            // SAFETY: open (H1).
            let look = || Some(unsafe { fill(cq, batch) }).filter(|code| ![0, AGAIN].contains(code));
            let code = nap::look_for(milliseconds, look).unwrap_or(AGAIN);
            return slept(cq, batch, code);
        }
        let raw = cq.fid.raw();
        let entries = batch.entries.as_mut_ptr().cast();
        let code = if cq.with_source {
            let read = entry!(raw, ops => sreadfrom)?;
            let sources = batch.sources.as_mut_ptr();
            // SAFETY: open (H1) in the format of `entries`, and both arrays have room. The null
            // condition is any event.
            unsafe { read(raw.as_ptr(), entries, cq.room, sources, ptr::null(), milliseconds) }
        } else {
            let read = entry!(raw, ops => sread)?;
            // SAFETY: open (H1) in the format of `entries`, which has room. The null condition is
            // any event.
            unsafe { read(raw.as_ptr(), entries, cq.room, ptr::null(), milliseconds) }
        };
        slept(cq, batch, code)
    }

    unsafe fn cq_wait_fd(cq: &Cq<L>) -> Result<c_int, Errno> {
        // SAFETY: open (H1).
        unsafe { wait_fd(cq.fid()) }
    }

    unsafe fn cq_may_sleep(domain: &Domain<L>, cq: &Cq<L>) -> Result<bool, Errno> {
        // SAFETY: one thread uses the batch (T1, M1).
        let batch = unsafe { &*cq.batch.as_ptr() };
        if batch.next != batch.end {
            return Ok(false);
        }
        // SAFETY: open (H1).
        let naps = unsafe { naps(cq) };
        // SAFETY: open (H1).
        if naps || unsafe { domain.is_left_readable(cq.fid()) } {
            // SAFETY: one thread uses the open queue (H1, T1). The batch is empty.
            unsafe { Self::cq_sleep(cq, 1) }?;
            return Ok(false);
        }
        // SAFETY: the queue and its domain are open (H1).
        unsafe { try_wait(domain, cq.fid()) }
    }

    unsafe fn cq_naps(cq: &Cq<L>) -> bool {
        // SAFETY: open (H1).
        unsafe { naps(cq) }
    }

    #[inline(always)]
    unsafe fn cq_poll(cq: &Cq<L>) -> Result<Option<Event>, Errno> {
        // SAFETY: `open` initialised the batch, which outlives the queue (M1), and one thread polls
        // (T1). libfabric does not call back: this is the only reference.
        let batch = unsafe { &mut *cq.batch.as_ptr() };
        if batch.next == batch.end {
            // SAFETY: open (H1).
            let code = unsafe { fill(cq, batch) };
            if code != 1 {
                if code == AGAIN {
                    return Ok(None);
                }
                match entries_read(code, cq.room) {
                    Some(count) => batch.was_read(count, 1),
                    None if code == 0 => return Ok(None),
                    None => return Err(errno(code)),
                }
            }
            let Batch { entries: [entry, ..], sources: [source, ..], .. } = batch;
            return Ok(Some(event(entry, source)));
        }
        Ok(batch.next().map(|(entry, source)| event(entry, source)))
    }

    #[cold]
    unsafe fn cq_read_error(cq: &Cq<L>) -> Result<Option<Event>, Errno> {
        let raw = cq.fid.raw();
        let read = entry!(raw, ops => readerr)?;
        // SAFETY: one thread uses the batch (T1, M1).
        let batch = unsafe { &mut *cq.batch.as_ptr() };
        batch.last = Details::NONE;
        let mut error = ErrorEntry::default();
        error.entry.err_data = batch.last.bytes.as_mut_ptr().cast();
        error.entry.err_data_size = DETAILS;
        // SAFETY: open (H1), with room for entry and data.
        match unsafe { read(raw.as_ptr(), (&raw mut error).cast(), 0) } {
            1 => {
                // SAFETY: the data is our own room, or the provider's until the next read
                // (`man fi_cq`).
                unsafe { batch.last.keep(&error.entry) };
                Ok(Some(failure(&error.entry)))
            }
            0 | AGAIN => Ok(None),
            code => Err(errno(code)),
        }
    }

    unsafe fn cq_error_text(cq: &Cq<L>, provider_errno: i32, out: &mut [u8]) -> usize {
        // SAFETY: one thread uses the batch (T1, M1).
        let last = unsafe { &(*cq.batch.as_ptr()).last };
        // SAFETY: open (H1), and the data is null or the error's.
        unsafe { text_of(cq, provider_errno, last.whole(provider_errno), out) }
    }

    unsafe fn cq_error_data(cq: &Cq<L>, out: &mut [u8]) -> usize {
        // SAFETY: one thread uses the batch (T1, M1).
        let last = unsafe { &(*cq.batch.as_ptr()).last };
        let len = last.len.min(out.len());
        for (to, from) in out.iter_mut().zip(last.bytes.iter().take(len)) {
            *to = *from;
        }
        len
    }
}

pub(crate) unsafe fn with_batch<L>(cq: Cq<L>, depth: usize, with_source: bool, memory: NonNull<u8>) -> Cq<L> {
    let batch = memory.cast::<Batch>();
    // SAFETY: the memory fits a batch and outlives the queue (M1).
    unsafe { batch.write(Batch::new()) };
    Cq { batch, room: depth.clamp(1, BATCH), with_source, ..cq }
}

pub(crate) fn adopt<L>(domain: &Domain<L>, raw: Raw<sys::fid_cq>, wait: WaitObj) -> Result<Cq<L>, Errno> {
    if !quirks::can_sleep(wait, domain.sleeps()) {
        return Err(Errno::ENOSYS);
    }
    Ok(of(raw, wait != WaitObj::NONE))
}

const fn of<L>(raw: Raw<sys::fid_cq>, sleeps: bool) -> Cq<L> {
    let (fid, batch) = (Handle::new(raw), NonNull::dangling());
    Cq { fid, batch, room: 0, with_source: false, sleeps }
}

/// Without room for a batch: not for `poll`, `sleep` and `may_sleep`.
pub(crate) unsafe fn open_as<L>(
    domain: &Domain<L>,
    depth: usize,
    format: CqFormat,
    wait: WaitObj,
) -> Result<Cq<L>, Errno> {
    if !quirks::can_sleep(wait, domain.sleeps()) {
        return Err(Errno::ENOSYS);
    }
    let attributes =
        sys::fi_cq_attr { size: depth, format: format.as_raw(), wait_obj: wait.as_raw(), ..Default::default() };
    // SAFETY: open (H1).
    unsafe { open_with(domain, attributes, wait != WaitObj::NONE) }
}

/// The queue itself cannot be slept on, and closes before the set.
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
pub(crate) unsafe fn open_in_set<L>(
    domain: &Domain<L>,
    depth: usize,
    format: CqFormat,
    set: *mut sys::fid_wait,
) -> Result<Cq<L>, Errno> {
    if !domain.sleeps() {
        return Err(Errno::ENOSYS);
    }
    let attributes = sys::fi_cq_attr {
        size: depth,
        format: format.as_raw(),
        wait_obj: WaitObj::SET.as_raw(),
        wait_set: set,
        ..Default::default()
    };
    // SAFETY: open (H1).
    unsafe { open_with(domain, attributes, false) }
}

unsafe fn open_with<L>(domain: &Domain<L>, attributes: sys::fi_cq_attr, sleeps: bool) -> Result<Cq<L>, Errno> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => cq_open)?;
    let mut raw = ptr::null_mut();
    let mut attributes = Padded::new(attributes);
    // SAFETY: open (H1). The call keeps no pointer.
    let code = unsafe { open(raw_domain.as_ptr(), attributes.as_mut_ptr(), &raw mut raw, ptr::null_mut()) };
    Ok(of(opened(code, raw)?, sleeps))
}

#[inline(always)]
fn entries_read(code: isize, room: usize) -> Option<usize> {
    Some(code.cast_unsigned()).filter(|count| (1..=room).contains(count))
}

const AGAIN: isize = -(Errno::EAGAIN.as_raw() as isize);

#[inline(always)]
unsafe fn fill<L>(cq: &Cq<L>, batch: &mut Batch) -> isize {
    // Looked up each time: some providers change the table later.
    let raw = cq.fid.raw();
    let entries = batch.entries.as_mut_ptr().cast();
    if cq.with_source {
        let read = match entry!(raw, ops => readfrom) {
            Ok(read) => read,
            Err(errno) => return code_of(errno),
        };
        // SAFETY: open (H1) in the format of `entries`, and both arrays have room.
        unsafe { read(raw.as_ptr(), entries, cq.room, batch.sources.as_mut_ptr()) }
    } else {
        let read = match entry!(raw, ops => read) {
            Ok(read) => read,
            Err(errno) => return code_of(errno),
        };
        // SAFETY: open (H1) in the format of `entries`, which has room.
        unsafe { read(raw.as_ptr(), entries, cq.room) }
    }
}

#[inline]
const fn code_of(errno: Errno) -> isize {
    -(errno.as_raw() as isize)
}

fn slept<L>(cq: &Cq<L>, batch: &mut Batch, code: isize) -> Result<(), Errno> {
    const INTERRUPTED: isize = -(Errno::EINTR.as_raw() as isize);
    const OVER: isize = -(Errno::ETIMEDOUT.as_raw() as isize);
    const AVAILABLE: isize = -(Errno::EAVAIL.as_raw() as isize);
    const SIGNALLED: isize = -(Errno::ECANCELED.as_raw() as isize);
    match entries_read(code, cq.room) {
        Some(count) => {
            batch.was_read(count, 0);
            Ok(())
        }
        None if [0, AGAIN, OVER, INTERRUPTED, AVAILABLE, SIGNALLED].contains(&code) => Ok(()),
        None => Err(errno(code)),
    }
}

/// Handle of a completion queue for other threads, which may only signal it.
#[derive(Debug)]
pub struct Signal(Handle<Signalled, Shared>);

#[repr(transparent)]
pub(crate) struct Signalled(sys::fid_cq);

pub(crate) fn signal_of(cq: &Cq<Shared>) -> Signal {
    Signal(Handle::new(cq.fid.raw().cast()))
}

pub(crate) unsafe fn signal(signal: &Signal) -> Result<(), Errno> {
    let raw = signal.0.raw().cast::<sys::fid_cq>();
    let signal = entry!(raw, ops => signal)?;
    // SAFETY: open (H1), and has a wait object, without which providers follow a null pointer.
    // `threading` explains why any thread may signal.
    done(unsafe { signal(raw.as_ptr()) })
}

pub(crate) unsafe fn naps<L>(cq: &Cq<L>) -> bool {
    // SAFETY: open (H1).
    unsafe { nap::is_deserted(cq.fid()) }
}

/// With room for a newer library's fields.
#[repr(C)]
#[derive(Default)]
struct ErrorEntry {
    entry: sys::fi_cq_err_entry,
    room: [u64; 8],
}

fn failure(entry: &sys::fi_cq_err_entry) -> Event {
    let errno = match entry.err.checked_abs() {
        None | Some(0) => Errno::EOTHER,
        Some(number) => Errno::from_raw(number),
    };
    let flags = CompletionFlags::from_bits_retain(entry.flags);
    Event {
        context: entry.op_context.addr() as u64,
        flags,
        len: entry.len,
        tag: Tag(entry.tag),
        data: ImmediateData(entry.data),
        source: FabricAddr::UNSPEC,
        errno,
        provider_errno: entry.prov_errno,
        overflow_or_place: entry.olen,
    }
}

/// # Safety
/// Contract of callers. `data` is null, or the data of an error with this number.
pub(crate) unsafe fn text_of<L>(cq: &Cq<L>, provider_errno: i32, data: *const u8, out: &mut [u8]) -> usize {
    let raw = cq.fid.raw();
    let Ok(strerror) = entry!(raw, ops => strerror) else { return 0 };
    // The provider writes here, or returns a string of its own.
    let mut own = [0 as c_char; 256];
    // SAFETY: open (H1), `data` is null or the error's data, and the length is below that of `own`.
    let text = unsafe { strerror(raw.as_ptr(), provider_errno, data.cast(), own.as_mut_ptr(), own.len() - 1) };
    // SAFETY: the text is null, or ends with a zero byte: in `own`, or in the provider's string.
    unsafe { text::copy(text, out) }
}

/// `next <= end <= BATCH`. Entries from `next` to `end` are still to be reported.
struct Batch {
    next: usize,
    end: usize,
    /// Zeroed at first: a provider may omit fields.
    entries: [sys::fi_cq_tagged_entry; BATCH],
    /// `NOTAVAIL` except for entries still to be reported: some providers omit unknown sources.
    sources: [sys::fi_addr_t; BATCH],
    last: Details,
}

const DETAILS: usize = 128;

struct Details {
    provider_errno: i32,
    len: usize,
    /// Ends with a zero byte: some providers read their data as a string.
    bytes: [u8; DETAILS + 1],
}

impl Details {
    const NONE: Details = Details { provider_errno: 0, len: 0, bytes: [0; DETAILS + 1] };

    /// # Safety
    /// `err_data` is `bytes`, or points to `err_data_size` readable bytes.
    unsafe fn keep(&mut self, entry: &sys::fi_cq_err_entry) {
        let data = entry.err_data.cast_const().cast::<u8>();
        self.provider_errno = entry.prov_errno;
        self.len = entry.err_data_size.min(DETAILS);
        if data.is_null() {
            self.len = 0;
        } else if data != self.bytes.as_ptr() {
            // SAFETY: the caller guarantees `err_data_size` readable bytes outside `self.bytes`.
            unsafe { data.copy_to_nonoverlapping(self.bytes.as_mut_ptr(), self.len) };
        } else if entry.err_data_size == DETAILS && self.bytes == Self::NONE.bytes {
            self.len = 0;
        }
    }

    /// `fi_cq_strerror` takes no length. Null if the data may be incomplete.
    fn whole(&self, provider_errno: i32) -> *const u8 {
        let is_whole = (1..DETAILS).contains(&self.len) && self.provider_errno == provider_errno;
        if is_whole { self.bytes.as_ptr() } else { ptr::null() }
    }
}

impl Batch {
    fn new() -> Self {
        let nothing = sys::fi_cq_tagged_entry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: 0,
        };
        let sources = [FabricAddr::NOTAVAIL.0; BATCH];
        Batch { next: 0, end: 0, entries: [nothing; BATCH], sources, last: Details::NONE }
    }

    #[inline(always)]
    fn was_read(&mut self, count: usize, reported: usize) {
        (self.next, self.end) = (reported, count);
    }

    #[inline(always)]
    fn next(&mut self) -> Option<(&sys::fi_cq_tagged_entry, &mut sys::fi_addr_t)> {
        let index = self.next;
        if index == self.end {
            return None;
        }
        self.next += 1;
        Some((self.entries.get(index)?, self.sources.get_mut(index)?))
    }
}

#[inline(always)]
fn event(entry: &sys::fi_cq_tagged_entry, source: &mut sys::fi_addr_t) -> Event {
    let source = core::mem::replace(source, FabricAddr::NOTAVAIL.0);
    Event {
        context: entry.op_context.addr() as u64,
        flags: CompletionFlags::from_bits_retain(entry.flags),
        len: entry.len,
        tag: Tag(entry.tag),
        data: ImmediateData(entry.data),
        source: FabricAddr(source),
        errno: Errno::from_raw(0),
        provider_errno: 0,
        overflow_or_place: entry.buf.addr(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_data_of_a_provider_is_kept() {
        let mut last = Details::NONE;
        let mut keep = |entry: &mut sys::fi_cq_err_entry, own: bool, first: u8| {
            last = Details::NONE;
            last.bytes[0] = first;
            if own {
                entry.err_data = last.bytes.as_mut_ptr().cast();
            }
            // SAFETY: `err_data` is the room, or has `err_data_size` bytes.
            unsafe { last.keep(entry) };
            assert_eq!(last.bytes[DETAILS], 0);
            assert_eq!(last.whole(5).is_null(), last.len == 0 || last.len == DETAILS, "strerror is given no part");
            assert!(last.whole(6).is_null(), "of another error");
            (last.len, last.bytes[0], last.provider_errno)
        };
        let mut entry = sys::fi_cq_err_entry { prov_errno: 5, err_data_size: DETAILS, ..Default::default() };
        assert_eq!(keep(&mut entry, false, 0), (0, 0, 5), "nothing is pointed to");
        assert_eq!(keep(&mut entry, true, 0), (0, 0, 5), "the room as it was");
        assert_eq!(keep(&mut entry, true, 1), (DETAILS, 1, 5), "all of it");
        entry.err_data_size = 3;
        assert_eq!(keep(&mut entry, true, 1), (3, 1, 5));
        let mut own = [9_u8; 300];
        (entry.err_data, entry.err_data_size) = (own.as_mut_ptr().cast(), own.len());
        assert_eq!(keep(&mut entry, false, 0), (DETAILS, 9, 5), "the provider's own memory");
    }

    #[test]
    fn an_error_entry_is_never_a_success() {
        for (err, errno) in [(0, Errno::EOTHER), (22, Errno::EINVAL), (-22, Errno::EINVAL), (i32::MIN, Errno::EOTHER)] {
            let flags = (CompletionFlags::TAGGED | CompletionFlags::RECV).bits();
            let entry = sys::fi_cq_err_entry { err, flags, olen: 7, prov_errno: -3, tag: 9, ..Default::default() };
            let event = failure(&entry);
            assert!(event.is_error());
            assert_eq!((event.errno, event.overflow_or_place, event.provider_errno), (errno, 7, -3));
            assert_eq!(event.tag, Tag(9));
        }
    }

    #[test]
    fn a_count_is_believed_as_far_as_there_is_room() {
        assert_eq!([1, 4].map(|code| entries_read(code, 4)), [Some(1), Some(4)]);
        assert_eq!([0, -1, 5, isize::MAX, isize::MIN].map(|code| entries_read(code, 4)), [None; 5]);
        assert_eq!(errno(5), Errno::EOTHER, "an error of the queue, then");
    }

    #[test]
    fn a_batch_returns_read_entries_in_order() {
        let mut batch = Batch::new();
        let next = |batch: &mut Batch| batch.next().map(|(entry, source)| event(entry, source));
        assert!(next(&mut batch).is_none());
        for (index, entry) in batch.entries.iter_mut().enumerate() {
            (entry.len, entry.tag, entry.data) = (index, 5, 6);
        }
        batch.sources = [1; BATCH];
        batch.was_read(2, 0);
        let events =
            [(); 2].map(|()| next(&mut batch).map(|event| (event.len, event.tag.0, event.data.0, event.source.0)));
        assert_eq!(events, [Some((0, 5, 6, 1)), Some((1, 5, 6, 1))]);
        assert!(next(&mut batch).is_none());
        batch.was_read(1, 0);
        assert_eq!(
            next(&mut batch).map(|event| event.source),
            Some(FabricAddr::NOTAVAIL),
            "a provider that wrote none"
        );
        assert!(next(&mut batch).is_none());
        batch.was_read(2, 1);
        assert_eq!(next(&mut batch).map(|event| event.len), Some(1), "the first one is reported already");
        assert!(next(&mut batch).is_none());
    }
}
