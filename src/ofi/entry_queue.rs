//! [`EntryCq`]: completion queues of any format, for users of the raw layer.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr;

use loom_core::vocabulary::{
    CqDataEntry, CqEntry, CqErrEntry, CqFormat, CqMsgEntry, CqTaggedEntry, Errno, FabricAddr, WaitObj,
};

use super::call::{done, entry, errno};
use super::control::{self, Domain};
use super::process::Raw;
use super::queue::{self, Cq};
use super::threading::Level;
use super::{nap, sys};

mod sealed {
    #[expect(unnameable_types, reason = "what seals `QueueEntry`")]
    pub trait Sealed {}
}

/// What a completion queue can be read into: a type for each format. Any bytes make a value of it.
pub trait QueueEntry: sealed::Sealed + Copy {
    /// The format of queues of these entries.
    const FORMAT: CqFormat;
}

macro_rules! entries {
    ($($Entry:ident: $FORMAT:ident),+) => {$(
        impl sealed::Sealed for $Entry {}
        impl QueueEntry for $Entry {
            const FORMAT: CqFormat = CqFormat::$FORMAT;
        }
    )+};
}
entries!(CqEntry: CONTEXT, CqMsgEntry: MSG, CqDataEntry: DATA, CqTaggedEntry: TAGGED);

/// A completion queue, raw, from which entries are read as libfabric lays them out, with contexts as they were posted.
///
/// [`Transport`](loom_core::transport::Transport)'s own queues are of the format that tells most, because completions of tagged
/// receives tell the tag. This is for programs that post through `Transport` and want no more than they read.
///
/// Every `unsafe fn` here relies on its caller for what `Transport`'s contract says of queues: the queue is open, one thread
/// at a time uses it with its endpoints, and it is closed once, after them and before its domain.
///
/// The entries have the queue's type, and no other:
///
/// ```
/// use loom_fabric::loom_core::vocabulary::{CqMsgEntry, Errno};
/// use loom_fabric::ofi::{EntryCq, Local};
///
/// fn drain(cq: &EntryCq<CqMsgEntry, Local>) -> Result<usize, Errno> {
///     let mut entries = [CqMsgEntry::default(); 8];
///     // SAFETY: the queue is open, and this thread is its only user.
///     unsafe { cq.read(&mut entries) }
/// }
/// ```
///
/// ```compile_fail,E0308
/// use loom_fabric::loom_core::vocabulary::{CqEntry, CqMsgEntry, Errno};
/// use loom_fabric::ofi::{EntryCq, Local};
///
/// fn drain(cq: &EntryCq<CqMsgEntry, Local>) -> Result<usize, Errno> {
///     let mut entries = [CqEntry::default(); 8];
///     // SAFETY: the queue is open, and this thread is its only user.
///     unsafe { cq.read(&mut entries) }
/// }
/// ```
///
/// # References
/// - `man fi_cq`
#[doc(alias = "fid_cq")]
#[derive(Debug)]
pub struct EntryCq<E, L> {
    queue: Cq<L>,
    entry: PhantomData<fn() -> E>,
}

impl<E, L> EntryCq<E, L> {
    pub(super) const fn fid(&self) -> Raw<sys::fid> {
        self.queue.fid()
    }
}

impl<E: QueueEntry, L: Level> EntryCq<E, L> {
    /// Opens a queue for `depth` entries.
    ///
    /// # Errors
    /// `ENOSYS` if there is nothing of this kind to sleep on, or what the provider says.
    ///
    /// # Safety
    /// The contract of callers: the domain is open.
    #[doc(alias = "fi_cq_open")]
    pub unsafe fn open(domain: &Domain<L>, depth: usize, wait: WaitObj) -> Result<Self, Errno> {
        // SAFETY: the caller's promise.
        let queue = unsafe { queue::open_as(domain, depth, E::FORMAT, wait) }?;
        Ok(Self::of(queue))
    }

    /// Of a queue that was opened in this format.
    pub(super) fn of(queue: Cq<L>) -> Self {
        EntryCq { queue, entry: PhantomData }
    }

    /// The queue, to be named in [`Bindings`](loom_core::transport::Bindings).
    ///
    /// # Safety
    /// It is named there, and used for nothing else: `Transport` would read it as a queue of its own.
    #[must_use]
    pub const unsafe fn for_bindings(&self) -> &Cq<L> {
        &self.queue
    }

    /// Reads entries, and returns how many; none if there are none for now. Drives progress.
    ///
    /// # Errors
    /// `EAVAIL` if the next one is to be had from [`read_error`](Self::read_error); anything else is an error of the queue.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_cq_read")]
    pub unsafe fn read(&self, entries: &mut [E]) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => read)?;
        // SAFETY: the queue is open (C1), its format is that of the entries, and the count is that of the entries.
        counted(unsafe { read(raw.as_ptr(), entries.as_mut_ptr().cast(), entries.len()) }, entries.len())
    }

    /// [`read`](Self::read) with the sender of each, where the provider grants sources; else
    /// [`FabricAddr::NOTAVAIL`]. No more than there are places for both.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_cq_readfrom")]
    pub unsafe fn read_from(&self, entries: &mut [E], sources: &mut [FabricAddr]) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => readfrom)?;
        let (room, sources) = room_for(entries, sources);
        // SAFETY: as for `read`; there are as many sources.
        counted(unsafe { read(raw.as_ptr(), entries.as_mut_ptr().cast(), room, sources) }, room)
    }

    /// [`read`](Self::read), which sleeps for at most `milliseconds` if there is nothing, and may wake up for nothing.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `ENOSYS` if there is nothing to sleep on.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_cq_sread")]
    pub unsafe fn sread(&self, entries: &mut [E], milliseconds: c_int) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => sread)?;
        if !self.queue.sleeps() {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the queue is open (C1).
        if unsafe { queue::naps(&self.queue) } {
            // SAFETY: the contract of callers.
            return look_for(milliseconds, || unsafe { self.read(entries) });
        }
        let (to, room) = (entries.as_mut_ptr().cast(), entries.len());
        // SAFETY: as for `read`; there is something to sleep on, and no condition but that there is something.
        slept(unsafe { read(raw.as_ptr(), to, room, ptr::null(), milliseconds) }, room)
    }

    /// [`sread`](Self::sread) with the sender of each, as [`read_from`](Self::read_from).
    ///
    /// # Errors
    /// As [`sread`](Self::sread).
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_cq_sreadfrom")]
    pub unsafe fn sread_from(
        &self,
        entries: &mut [E],
        sources: &mut [FabricAddr],
        milliseconds: c_int,
    ) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => sreadfrom)?;
        if !self.queue.sleeps() {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the queue is open (C1).
        if unsafe { queue::naps(&self.queue) } {
            // SAFETY: the contract of callers.
            return look_for(milliseconds, || unsafe { self.read_from(entries, sources) });
        }
        let (room, sources) = room_for(entries, sources);
        let to = entries.as_mut_ptr().cast();
        // SAFETY: as for `sread`; there are as many sources.
        slept(unsafe { read(raw.as_ptr(), to, room, sources, ptr::null(), milliseconds) }, room)
    }

    /// The entry of an operation that failed, if that is the next one.
    ///
    /// # Errors
    /// An error of the queue.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_cq_readerr")]
    pub unsafe fn read_error(&self) -> Result<Option<CqErrEntry>, Errno> {
        /// In case that a newer library writes more than this.
        #[repr(C)]
        #[derive(Default)]
        struct WithRoom(CqErrEntry, [u64; 8]);
        let raw = self.queue.raw();
        let read = entry!(raw, ops => readerr)?;
        let mut entry = WithRoom::default();
        // SAFETY: the queue is open (C1); there is room for an entry.
        match counted(unsafe { read(raw.as_ptr(), (&raw mut entry).cast(), 0) }, 1)? {
            0 => Ok(None),
            _ => Ok(Some(entry.0)),
        }
    }

    /// Writes the provider's text for its own error number, and returns how many bytes that are.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_cq_strerror")]
    pub unsafe fn error_text(&self, prov_errno: i32, out: &mut [u8]) -> usize {
        // SAFETY: the caller's promise.
        unsafe { queue::text_of(&self.queue, prov_errno, ptr::null(), out) }
    }

    /// Wakes up the thread that sleeps on the queue, or the next one that would. Any thread may call this at any time while
    /// the queue is open. A signal may be lost that comes when a sleep begins: see
    /// [`Signals`](loom_core::transport::Signals).
    ///
    /// # Errors
    /// `ENOSYS` if there is nothing to sleep on, or what the provider says.
    ///
    /// # Safety
    /// The contract of callers, but for the thread.
    #[doc(alias = "fi_cq_signal")]
    pub unsafe fn signal(&self) -> Result<(), Errno> {
        let raw = self.queue.raw();
        let signal = entry!(raw, ops => signal)?;
        if !self.queue.sleeps() {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the queue is open (C1), and has something to sleep on.
        done(unsafe { signal(raw.as_ptr()) })
    }

    /// The file descriptor that is readable when the queue may have an entry.
    ///
    /// # Errors
    /// `ENOSYS` if there is none.
    ///
    /// # Safety
    /// The contract of callers; the queue was opened with [`WaitObj::FD`].
    #[doc(alias = "FI_GETWAIT")]
    pub unsafe fn wait_fd(&self) -> Result<c_int, Errno> {
        // SAFETY: the caller's promise.
        unsafe { control::wait_fd(self.queue.fid()) }
    }

    /// Whether nothing is lost by sleeping on the file descriptor now.
    ///
    /// # Errors
    /// One of the queue.
    ///
    /// # Safety
    /// As for [`wait_fd`](Self::wait_fd); the queue is one of this domain.
    #[doc(alias = "fi_trywait")]
    pub unsafe fn may_sleep(&self, domain: &Domain<L>) -> Result<bool, Errno> {
        // SAFETY: the queue is open (C1).
        if unsafe { queue::naps(&self.queue) } {
            nap::look_for(1, || None::<()>);
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        unsafe { control::try_wait(domain, self.queue.fid()) }
    }

    /// Closes the queue, which is not used again whatever this returns.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers: its endpoints are closed.
    #[doc(alias = "fi_close")]
    pub unsafe fn close(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { control::close(self.queue.fid()) }
    }
}

/// Reads once a millisecond, until an entry arrives or the time has passed.
fn look_for(milliseconds: c_int, mut read: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    nap::look_for(milliseconds, || Some(read()).filter(|read| *read != Ok(0))).unwrap_or(Ok(0))
}

/// How many entries there is room for with their sources, and where these go.
fn room_for<E>(entries: &[E], sources: &mut [FabricAddr]) -> (usize, *mut u64) {
    // Some providers write no source where they know none.
    sources.fill(FabricAddr::NOTAVAIL);
    (entries.len().min(sources.len()), sources.as_mut_ptr().cast())
}

/// How many entries a read has written, of those that it had room for.
fn counted(code: isize, room: usize) -> Result<usize, Errno> {
    const AGAIN: isize = -(Errno::EAGAIN.as_raw() as isize);
    match usize::try_from(code) {
        Ok(count) if count <= room => Ok(count),
        _ if code == AGAIN => Ok(0),
        _ => Err(errno(code)),
    }
}

/// As [`counted`], of a read that may have slept.
fn slept(code: isize, room: usize) -> Result<usize, Errno> {
    match counted(code, room) {
        Err(Errno::ETIMEDOUT | Errno::EINTR | Errno::ECANCELED) => Ok(0),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_believed_as_far_as_there_is_room() {
        assert_eq!([0, 1, 4].map(|code| counted(code, 4)), [Ok(0), Ok(1), Ok(4)]);
        assert_eq!(counted(5, 4), Err(Errno::EOTHER));
        assert_eq!([-11, -259, -125].map(|code| counted(code, 4)), [Ok(0), Err(Errno::EAVAIL), Err(Errno::ECANCELED)]);
        assert_eq!([-11, -4, -125, -110].map(|code| slept(code, 4)), [Ok(0); 4]);
        assert_eq!(counted(isize::MIN, 4), Err(Errno::EOTHER));
    }

    #[test]
    fn sources_are_no_more_than_there_is_room_for() {
        let mut sources = [FabricAddr(1); 2];
        assert_eq!(room_for(&[(); 3], &mut sources).0, 2);
        assert_eq!(sources, [FabricAddr::NOTAVAIL; 2]);
        assert_eq!(room_for(&[(); 1], &mut sources).0, 1);
    }
}
