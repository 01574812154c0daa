//! [`PollSet`] and [`WaitSet`]: many queues and counters asked, or slept on, together; for users of the raw layer.
//!
//! libfabric 2 deprecates both, and the libraries of 1.17 and 2.5 have them.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use loom_core::transport::connected::Fid;
use loom_core::vocabulary::{Errno, WaitObj};

use super::call::{done, entry, errno};
use super::control::{self, Domain, opened};
use super::counter::Counter;
use super::entry_queue::{EntryCq, QueueEntry};
use super::event_queue::named;
use super::nap;
use super::process::Raw;
use super::queue;
use super::sys;
use super::threading::{Handle, Level};

mod sealed {
    use core::ptr::NonNull;

    use crate::ofi::sys;

    #[expect(unnameable_types, reason = "what seals `PollSetMember`")]
    pub trait Sealed {
        fn raw_fid(&self) -> NonNull<sys::fid>;
    }
}

/// What can be in a [`PollSet`]: counters, and completion queues whose entries the user reads. (Those of the objects read in
/// batches, of which a set knows nothing.)
pub trait PollSetMember<L>: sealed::Sealed {
    /// What [`PollSet::poll`] names it by.
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

/// Queues and counters of a domain that are driven and looked at in one call.
///
/// Every `unsafe fn` here relies on its caller for this: the domain is open, and is closed after the set; the set is closed
/// once; what is in it is open, and is taken out before it is closed; and one thread at a time uses the set, what is in
/// it, and the endpoints of all that.
///
/// # References
/// - `man fi_poll`
#[doc(alias = "fid_poll")]
#[derive(Debug)]
pub struct PollSet<L>(Handle<sys::fid_poll, L>);

impl<L> PollSet<L> {
    pub(super) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

impl<L: Level> PollSet<L> {
    /// Opens a set with nothing in it.
    ///
    /// # Errors
    /// `ENOSYS` if the provider has none, or what it says.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_poll_open")]
    pub unsafe fn open(domain: &Domain<L>) -> Result<Self, Errno> {
        let raw_domain = domain.raw();
        let open = entry!(raw_domain, ops => poll_open)?;
        let mut attributes = sys::fi_poll_attr::default();
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open (C1); the attributes are read and not kept; `raw` is where the set goes.
        let code = unsafe { open(raw_domain.as_ptr(), &raw mut attributes, &raw mut raw) };
        Ok(PollSet(Handle::new(opened(code, raw)?)))
    }

    /// Adds a queue or counter.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers; the member is of the set's domain, and not in the set.
    #[doc(alias = "fi_poll_add")]
    pub unsafe fn add(&self, member: &impl PollSetMember<L>) -> Result<(), Errno> {
        let (raw, fid) = (self.0.raw(), member.raw_fid());
        let add = entry!(raw, ops => poll_add)?;
        // SAFETY: the member is open (C1).
        unsafe { nap::set_name(fid) };
        // SAFETY: the set and the member are open (C1).
        done(unsafe { add(raw.as_ptr(), fid.as_ptr(), 0) })
    }

    /// Takes a queue or counter out.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers; the member is in the set.
    #[doc(alias = "fi_poll_del")]
    pub unsafe fn remove(&self, member: &impl PollSetMember<L>) -> Result<(), Errno> {
        let raw = self.0.raw();
        let remove = entry!(raw, ops => poll_del)?;
        // SAFETY: the set and the member are open (C1).
        done(unsafe { remove(raw.as_ptr(), member.raw_fid().as_ptr(), 0) })
    }

    /// Drives all that is in the set, writes which queues may have entries and which counters may have changed since this
    /// was asked last, as far as there is room, and returns how many it wrote. There may be nothing all the same.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_poll")]
    pub unsafe fn poll(&self, ready: &mut [Option<Fid>]) -> Result<usize, Errno> {
        /// How many the provider is asked for at once.
        const MOST: usize = 32;
        let raw = self.0.raw();
        let poll = entry!(raw, ops => poll)?;
        let mut contexts = [ptr::null_mut::<c_void>(); MOST];
        let room = ready.len().min(MOST);
        let count = c_int::try_from(room).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the set and what is in it are open (C1); there is room for that number.
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

    /// Closes the set, which is not used again whatever this returns.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers; nothing is in the set.
    #[doc(alias = "fi_close")]
    pub unsafe fn close(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { control::close(self.0.fid()) }
    }
}

/// Something to sleep on for many queues ([`open_queue`](Self::open_queue)).
///
/// Every `unsafe fn` here relies on its caller for this: the domain that it was opened with, and each of its queues' domains,
/// are of one fabric, which is closed after the set; the set is closed once, after its queues, and after the first of them is
/// closed it is used for nothing else; and one thread at a time uses the set and its queues, with their endpoints. Over `tcp;ofi_rxm` and `udp;ofi_rxd`,
/// [`wait`](Self::wait) and [`may_sleep`](Self::may_sleep) are not called after an endpoint of one of its queues was closed.
///
/// # References
/// - `man fi_poll`
#[doc(alias = "fid_wait")]
#[derive(Debug)]
pub struct WaitSet<L>(Handle<sys::fid_wait, L>);

impl<L> WaitSet<L> {
    pub(super) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

impl<L: Level> WaitSet<L> {
    /// Opens a set in the fabric of a domain, by which its queues wake up those that sleep.
    ///
    /// # Errors
    /// `ENOSYS` if queues of the domain cannot be slept on, or the provider has no such sets; or what it says.
    ///
    /// # Safety
    /// The contract of callers: the domain is open.
    #[doc(alias = "fi_wait_open")]
    pub unsafe fn open(domain: &Domain<L>, wait: WaitObj) -> Result<Self, Errno> {
        let fabric = domain.fabric();
        let open = entry!(fabric, ops => wait_open)?;
        if !domain.sleeps() {
            return Err(Errno::ENOSYS);
        }
        let mut attributes = sys::fi_wait_attr { wait_obj: wait.as_raw(), ..Default::default() };
        let mut raw = ptr::null_mut();
        // SAFETY: the fabric is open as its domain is (C1); the attributes are read and not kept; `raw` is
        // where the set goes.
        let code = unsafe { open(fabric.as_ptr(), &raw mut attributes, &raw mut raw) };
        Ok(WaitSet(Handle::new(opened(code, raw)?)))
    }

    /// Opens a queue of the set for `depth` entries. By itself it cannot be slept on.
    ///
    /// # Errors
    /// As [`EntryCq::open`].
    ///
    /// # Safety
    /// The contract of callers: the domain is open.
    #[doc(alias = "fi_cq_open")]
    #[doc(alias = "FI_WAIT_SET")]
    pub unsafe fn open_queue<E: QueueEntry>(&self, domain: &Domain<L>, depth: usize) -> Result<EntryCq<E, L>, Errno> {
        let set = self.0.raw().as_ptr();
        // SAFETY: the caller's promise.
        let queue = unsafe { queue::open_in_set(domain, depth, E::FORMAT, set) }?;
        Ok(EntryCq::of(queue))
    }

    /// Sleeps until one of the queues may have an entry, for at most `milliseconds`; `false` says that the time is
    /// over. It may wake up for nothing.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers.
    #[doc(alias = "fi_wait")]
    pub unsafe fn wait(&self, milliseconds: c_int) -> Result<bool, Errno> {
        let raw = self.0.raw();
        let wait = entry!(raw, ops => wait)?;
        // SAFETY: the set and its queues are open (C1).
        let code = unsafe { wait(raw.as_ptr(), milliseconds) };
        // `sockets` returns one where an operation has failed.
        match done(code.min(0)) {
            Ok(()) | Err(Errno::EINTR) => Ok(true),
            Err(Errno::ETIMEDOUT | Errno::EAGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// The file descriptor that is readable when one of the queues may have an entry.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers; the set was opened with [`WaitObj::FD`].
    #[doc(alias = "FI_GETWAIT")]
    pub unsafe fn wait_fd(&self) -> Result<c_int, Errno> {
        // SAFETY: the caller's promise.
        unsafe { control::wait_fd(self.0.fid()) }
    }

    /// Whether nothing is lost by sleeping on the file descriptor now.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// As for [`wait_fd`](Self::wait_fd); the domain is of the set's fabric.
    #[doc(alias = "fi_trywait")]
    pub unsafe fn may_sleep(&self, domain: &Domain<L>) -> Result<bool, Errno> {
        // SAFETY: the caller's promise.
        unsafe { control::try_wait(domain, self.0.fid()) }
    }

    /// Closes the set, which is not used again whatever this returns.
    ///
    /// # Errors
    /// The provider's.
    ///
    /// # Safety
    /// The contract of callers: its queues are closed.
    #[doc(alias = "fi_close")]
    pub unsafe fn close(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { control::close(self.0.fid()) }
    }
}
