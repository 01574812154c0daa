#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr;

use loom_core::vocabulary::{
    CqDataEntry, CqEntry, CqErrEntry, CqFormat, CqMsgEntry, CqTaggedEntry, Errno, FabricAddr, WaitObj,
};

use super::Cq;
use crate::ofi::control::{self};
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{done, entry, errno};
use crate::ofi::queue;
use crate::ofi::quirks::nap;
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::Level;

mod sealed {
    #[expect(unnameable_types, reason = "what seals `QueueEntry`")]
    pub trait Sealed {}
}

/// Entry of a completion queue: a type for each format. Any bytes are a value of it.
pub trait QueueEntry: sealed::Sealed + Copy {
    /// Format of queues with these entries.
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

/// A completion queue, raw, with entries in libfabric's layout, and contexts as they were posted.
///
/// Every `unsafe fn` relies on its caller for the contract of queues in `Transport`: the queue is
/// open, one thread at a time uses it with its endpoints, and it is closed once, after them and
/// before its domain.
///
/// The entries have the queue's type:
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
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.queue.fid()
    }
}

impl<E: QueueEntry, L: Level> EntryCq<E, L> {
    /// Opens a queue for `depth` entries.
    ///
    /// # Errors
    /// `ENOSYS` if the wait object is not available, or the provider's.
    ///
    /// # Safety
    /// Contract of callers: the domain is open.
    #[doc(alias = "fi_cq_open")]
    pub unsafe fn open(domain: &Domain<L>, depth: usize, wait: WaitObj) -> Result<Self, Errno> {
        // SAFETY: the caller keeps the domain open.
        let queue = unsafe { queue::open_as(domain, depth, E::FORMAT, wait) }?;
        Ok(Self::of(queue))
    }

    pub(crate) fn of(queue: Cq<L>) -> Self {
        EntryCq { queue, entry: PhantomData }
    }

    /// Queue for [`Bindings`](loom_core::transport::Bindings).
    ///
    /// # Safety
    /// Used for bindings only: `Transport` would read it as a queue of its own.
    #[must_use]
    pub const unsafe fn for_bindings(&self) -> &Cq<L> {
        &self.queue
    }

    /// Reads entries, and returns their number, or 0 if the queue is empty. Drives progress.
    ///
    /// # Errors
    /// `EAVAIL` if [`read_error`](Self::read_error) has the next entry. Others are errors of the
    /// queue.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_cq_read")]
    pub unsafe fn read(&self, entries: &mut [E]) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => read)?;
        // SAFETY: open (H1) in the format of `entries`, which has room.
        counted(unsafe { read(raw.as_ptr(), entries.as_mut_ptr().cast(), entries.len()) }, entries.len())
    }

    /// [`read`](Self::read) with the sender of each entry where the provider grants sources, else
    /// [`FabricAddr::NOTAVAIL`]. The shorter slice limits the number.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_cq_readfrom")]
    pub unsafe fn read_from(&self, entries: &mut [E], sources: &mut [FabricAddr]) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => readfrom)?;
        let (room, sources) = room_for(entries, sources);
        // SAFETY: open (H1) in the format of the entries, and both slices have `room` elements.
        counted(unsafe { read(raw.as_ptr(), entries.as_mut_ptr().cast(), room, sources) }, room)
    }

    /// [`read`](Self::read) that sleeps for at most `milliseconds` if the queue is empty. Spurious
    /// wake-ups are possible.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and `ENOSYS` without a wait object.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_cq_sread")]
    pub unsafe fn sread(&self, entries: &mut [E], milliseconds: c_int) -> Result<usize, Errno> {
        let raw = self.queue.raw();
        let read = entry!(raw, ops => sread)?;
        if !self.queue.sleeps() {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: open (H1).
        if unsafe { queue::naps(&self.queue) } {
            // SAFETY: one thread uses the open queue (H1, T1).
            return look_for(milliseconds, || unsafe { self.read(entries) });
        }
        let (to, room) = (entries.as_mut_ptr().cast(), entries.len());
        // SAFETY: the queue is open (H1) with a wait object, and its format and the count are those
        // of the entries. The null condition is any entry.
        slept(unsafe { read(raw.as_ptr(), to, room, ptr::null(), milliseconds) }, room)
    }

    /// [`sread`](Self::sread) with the sender of each entry, like [`read_from`](Self::read_from).
    ///
    /// # Safety
    /// Contract of callers.
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
        // SAFETY: open (H1).
        if unsafe { queue::naps(&self.queue) } {
            // SAFETY: one thread uses the open queue (H1, T1).
            return look_for(milliseconds, || unsafe { self.read_from(entries, sources) });
        }
        let (room, sources) = room_for(entries, sources);
        let to = entries.as_mut_ptr().cast();
        // SAFETY: open (H1) in the format of the entries with a wait object, and both slices have
        // `room` elements.
        slept(unsafe { read(raw.as_ptr(), to, room, sources, ptr::null(), milliseconds) }, room)
    }

    /// Entry of an operation that failed, if it is the next one.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_cq_readerr")]
    pub unsafe fn read_error(&self) -> Result<Option<CqErrEntry>, Errno> {
        #[repr(C)]
        #[derive(Default)]
        struct WithRoom(CqErrEntry, [u64; 8]);
        let raw = self.queue.raw();
        let read = entry!(raw, ops => readerr)?;
        let mut entry = WithRoom::default();
        // SAFETY: open (H1), and the entry has room.
        match counted(unsafe { read(raw.as_ptr(), (&raw mut entry).cast(), 0) }, 1)? {
            0 => Ok(None),
            _ => Ok(Some(entry.0)),
        }
    }

    /// Writes the provider's text for its own error number, and returns its length in bytes.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_cq_strerror")]
    pub unsafe fn error_text(&self, prov_errno: i32, out: &mut [u8]) -> usize {
        // SAFETY: open (H1), and the data is null.
        unsafe { queue::text_of(&self.queue, prov_errno, ptr::null(), out) }
    }

    /// Wakes up the thread that sleeps on the queue, or the next one that would. Any thread may
    /// call this while the queue is open. See [`Signals`](loom_core::transport::Signals) for lost
    /// signals.
    ///
    /// # Errors
    /// `ENOSYS` without a wait object, or the provider's.
    ///
    /// # Safety
    /// Contract of callers, except for the thread.
    #[doc(alias = "fi_cq_signal")]
    pub unsafe fn signal(&self) -> Result<(), Errno> {
        let raw = self.queue.raw();
        let signal = entry!(raw, ops => signal)?;
        if !self.queue.sleeps() {
            return Err(Errno::ENOSYS);
        }
        // SAFETY: open (H1), and has a wait object.
        done(unsafe { signal(raw.as_ptr()) })
    }

    /// File descriptor that is readable when the queue may have an entry.
    ///
    /// # Errors
    /// `ENOSYS` without one.
    ///
    /// # Safety
    /// Contract of callers. The queue was opened with [`WaitObj::FD`].
    #[doc(alias = "FI_GETWAIT")]
    pub unsafe fn wait_fd(&self) -> Result<c_int, Errno> {
        // SAFETY: the caller guarantees an open queue with a file descriptor.
        unsafe { control::wait_fd(self.queue.fid()) }
    }

    /// Returns `true` if a sleep on the file descriptor misses no entry now.
    ///
    /// # Safety
    /// That of [`wait_fd`](Self::wait_fd). The queue belongs to this domain.
    #[doc(alias = "fi_trywait")]
    pub unsafe fn may_sleep(&self, domain: &Domain<L>) -> Result<bool, Errno> {
        // SAFETY: open (H1).
        if unsafe { queue::naps(&self.queue) } {
            nap::look_for(1, || None::<()>);
            return Ok(false);
        }
        // SAFETY: the caller guarantees that the queue is open, and belongs to this domain.
        unsafe { control::try_wait(domain, self.queue.fid()) }
    }

    /// Closes the queue, which must not be used again whatever this returns.
    ///
    /// # Safety
    /// Contract of callers: its endpoints are closed.
    #[doc(alias = "fi_close")]
    pub unsafe fn close(&self) -> Result<(), Errno> {
        // SAFETY: the caller guarantees that the queue is open, and its endpoints are closed.
        unsafe { control::close(self.queue.fid()) }
    }
}

fn look_for(milliseconds: c_int, mut read: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    nap::look_for(milliseconds, || Some(read()).filter(|read| *read != Ok(0))).unwrap_or(Ok(0))
}

fn room_for<E>(entries: &[E], sources: &mut [FabricAddr]) -> (usize, *mut u64) {
    // Some providers omit unknown sources.
    sources.fill(FabricAddr::NOTAVAIL);
    (entries.len().min(sources.len()), sources.as_mut_ptr().cast())
}

fn counted(code: isize, room: usize) -> Result<usize, Errno> {
    const AGAIN: isize = -(Errno::EAGAIN.as_raw() as isize);
    match usize::try_from(code) {
        Ok(count) if count <= room => Ok(count),
        _ if code == AGAIN => Ok(0),
        _ => Err(errno(code)),
    }
}

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
