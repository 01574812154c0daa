//! [`PollSet`] and [`WaitSet`], for users of the raw layer.
//!
//! libfabric 2 deprecates both, but 2.5 has them.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use loom_core::transport::connected::Fid;
use loom_core::vocabulary::{Errno, WaitObj};

use super::entry_queue::{EntryCq, QueueEntry};
use super::event_queue::named;
use crate::ofi::control::{self, opened};
use crate::ofi::counter::Counter;
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{done, entry, errno};
use crate::ofi::queue;
use crate::ofi::quirks::nap;
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::{Handle, Level};

mod sealed {
    use core::ptr::NonNull;

    use crate::ofi::sys;

    #[expect(unnameable_types, reason = "what seals `PollSetMember`")]
    pub trait Sealed {
        fn raw_fid(&self) -> NonNull<sys::fid>;
    }
}

/// Member of a [`PollSet`]: a counter, or an [`EntryCq`].
pub trait PollSetMember<L>: sealed::Sealed {
    /// Identity in the results of [`PollSet::poll`].
    fn fid(&self) -> Fid {
        named(self.raw_fid().as_ptr())
    }
}

impl<L> sealed::Sealed for Counter<L> {
    fn raw_fid(&self) -> NonNull<sys::fid> {
        self.fid().pointer()
    }
}
impl<L> PollSetMember<L> for Counter<L> {}

impl<E: QueueEntry, L: Level> sealed::Sealed for EntryCq<E, L> {
    fn raw_fid(&self) -> NonNull<sys::fid> {
        self.fid().pointer()
    }
}
impl<E: QueueEntry, L: Level> PollSetMember<L> for EntryCq<E, L> {}

/// Queues and counters of a domain that are driven and polled in one call.
///
/// Every `unsafe fn` relies on its caller: the domain is open, and closed after the set, which is
/// closed once. Members are open, and removed before they are closed. One thread at a time uses the
/// set, its members, and their endpoints.
///
/// # References
/// - `man fi_poll`
#[doc(alias = "fid_poll")]
#[derive(Debug)]
pub struct PollSet<L>(Handle<sys::fid_poll, L>);

impl<L> PollSet<L> {
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

impl<L: Level> PollSet<L> {
    /// Opens an empty set.
    ///
    /// # Errors
    /// `ENOSYS` if the provider has no sets, or the provider's.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_poll_open")]
    pub unsafe fn open(domain: &Domain<L>) -> Result<Self, Errno> {
        let raw_domain = domain.raw();
        let open = entry!(raw_domain, ops => poll_open)?;
        let mut attributes = sys::fi_poll_attr::default();
        let mut raw = ptr::null_mut();
        // SAFETY: open (H1). The call keeps no pointer.
        let code = unsafe { open(raw_domain.as_ptr(), &raw mut attributes, &raw mut raw) };
        Ok(PollSet(Handle::new(opened(code, raw)?)))
    }

    /// Adds a queue or counter.
    ///
    /// # Safety
    /// Contract of callers. The member belongs to the set's domain, and is not in the set.
    #[doc(alias = "fi_poll_add")]
    pub unsafe fn add(&self, member: &impl PollSetMember<L>) -> Result<(), Errno> {
        let (raw, fid) = (self.0.raw(), member.raw_fid());
        let add = entry!(raw, ops => poll_add)?;
        // SAFETY: open (H1).
        unsafe { nap::set_name(fid) };
        // SAFETY: open (H1).
        done(unsafe { add(raw.as_ptr(), fid.as_ptr(), 0) })
    }

    /// Removes a queue or counter.
    ///
    /// # Safety
    /// Contract of callers. The member is in the set.
    #[doc(alias = "fi_poll_del")]
    pub unsafe fn remove(&self, member: &impl PollSetMember<L>) -> Result<(), Errno> {
        let raw = self.0.raw();
        let remove = entry!(raw, ops => poll_del)?;
        // SAFETY: open (H1).
        done(unsafe { remove(raw.as_ptr(), member.raw_fid().as_ptr(), 0) })
    }

    /// Drives all members, and writes the queues that may have entries and the counters that may
    /// have changed to `ready`. Returns their number.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_poll")]
    pub unsafe fn poll(&self, ready: &mut [Option<Fid>]) -> Result<usize, Errno> {
        const MOST: usize = 32;
        let raw = self.0.raw();
        let poll = entry!(raw, ops => poll)?;
        let mut contexts = [ptr::null_mut::<c_void>(); MOST];
        let room = ready.len().min(MOST);
        let count = c_int::try_from(room).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the set and its members are open (H1), and the array has room for `count`.
        let code = unsafe { poll(raw.as_ptr(), contexts.as_mut_ptr(), count) };
        let found = match usize::try_from(code) {
            Ok(found) if found <= room => found,
            _ if code == -Errno::EAGAIN.as_raw() => 0,
            _ => return Err(errno(code as isize)),
        };
        for (place, context) in ready.iter_mut().zip(contexts.iter().take(found)) {
            *place = Some(named(nap::name(*context)));
        }
        Ok(found)
    }

    /// Closes the set, which must not be used again whatever this returns.
    ///
    /// # Safety
    /// Contract of callers. The set is empty.
    #[doc(alias = "fi_close")]
    pub unsafe fn close(&self) -> Result<(), Errno> {
        // SAFETY: the caller guarantees that the set is open, empty, and closed once.
        unsafe { control::close(self.0.fid()) }
    }
}

/// A wait object for many queues ([`open_queue`](Self::open_queue)).
///
/// Every `unsafe fn` relies on its caller: the domains of the set and of its queues belong to one
/// fabric, which is closed after the set. The set is closed once, after its queues. After
/// the first of them is closed, the set is only closed. One thread at a time uses the set, its
/// queues, and their endpoints. Over `tcp;ofi_rxm` and `udp;ofi_rxd`, [`wait`](Self::wait) and
/// [`may_sleep`](Self::may_sleep) are not called after an endpoint of its queues was closed.
///
/// # References
/// - `man fi_poll`
#[doc(alias = "fid_wait")]
#[derive(Debug)]
pub struct WaitSet<L>(Handle<sys::fid_wait, L>);

impl<L> WaitSet<L> {
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

impl<L: Level> WaitSet<L> {
    /// Opens a set in the fabric of a domain, with the wait object of its queues.
    ///
    /// # Errors
    /// `ENOSYS` if queues of the domain cannot be slept on, or the provider has no such sets. Or
    /// the provider's.
    ///
    /// # Safety
    /// Contract of callers: the domain is open.
    #[doc(alias = "fi_wait_open")]
    pub unsafe fn open(domain: &Domain<L>, wait: WaitObj) -> Result<Self, Errno> {
        let fabric = domain.fabric();
        let open = entry!(fabric, ops => wait_open)?;
        if !domain.sleeps() {
            return Err(Errno::ENOSYS);
        }
        let mut attributes = sys::fi_wait_attr { wait_obj: wait.as_raw(), ..Default::default() };
        let mut raw = ptr::null_mut();
        // SAFETY: the fabric is open with its domain (H1). The call keeps no pointer.
        let code = unsafe { open(fabric.as_ptr(), &raw mut attributes, &raw mut raw) };
        Ok(WaitSet(Handle::new(opened(code, raw)?)))
    }

    /// Opens a queue of the set for `depth` entries, which itself cannot be slept on.
    ///
    /// # Errors
    /// Those of [`EntryCq::open`].
    ///
    /// # Safety
    /// Contract of callers: the domain is open.
    #[doc(alias = "fi_cq_open")]
    #[doc(alias = "FI_WAIT_SET")]
    pub unsafe fn open_queue<E: QueueEntry>(&self, domain: &Domain<L>, depth: usize) -> Result<EntryCq<E, L>, Errno> {
        let set = self.0.raw().as_ptr();
        // SAFETY: the caller keeps the domain and the set open.
        let queue = unsafe { queue::open_in_set(domain, depth, E::FORMAT, set) }?;
        Ok(EntryCq::of(queue))
    }

    /// Sleeps until a queue may have an entry, or returns `false` after `milliseconds`. Spurious
    /// wake-ups are possible.
    ///
    /// # Safety
    /// Contract of callers.
    #[doc(alias = "fi_wait")]
    pub unsafe fn wait(&self, milliseconds: c_int) -> Result<bool, Errno> {
        let raw = self.0.raw();
        let wait = entry!(raw, ops => wait)?;
        // SAFETY: the set and its queues are open (H1).
        let code = unsafe { wait(raw.as_ptr(), milliseconds) };
        // `sockets` returns 1 if an operation has failed.
        match done(code.min(0)) {
            Ok(()) | Err(Errno::EINTR) => Ok(true),
            Err(Errno::ETIMEDOUT | Errno::EAGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// File descriptor that is readable when one of the queues may have an entry.
    ///
    /// # Safety
    /// Contract of callers. The set was opened with [`WaitObj::FD`].
    #[doc(alias = "FI_GETWAIT")]
    pub unsafe fn wait_fd(&self) -> Result<c_int, Errno> {
        // SAFETY: the caller guarantees an open set with a file descriptor.
        unsafe { control::wait_fd(self.0.fid()) }
    }

    /// Returns `true` if a sleep on the file descriptor misses no entry now.
    ///
    /// # Safety
    /// That of [`wait_fd`](Self::wait_fd). The domain belongs to the set's fabric.
    #[doc(alias = "fi_trywait")]
    pub unsafe fn may_sleep(&self, domain: &Domain<L>) -> Result<bool, Errno> {
        // SAFETY: the caller guarantees that the set is open, in the domain's fabric.
        unsafe { control::try_wait(domain, self.0.fid()) }
    }

    /// Closes the set, which must not be used again whatever this returns.
    ///
    /// # Safety
    /// Contract of callers: its queues are closed.
    #[doc(alias = "fi_close")]
    pub unsafe fn close(&self) -> Result<(), Errno> {
        // SAFETY: the caller guarantees that the set is open, and its queues are closed.
        unsafe { control::close(self.0.fid()) }
    }
}
