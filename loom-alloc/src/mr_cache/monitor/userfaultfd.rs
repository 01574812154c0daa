//! [`Userfaultfd`]: unmapping events from Linux.
//!
//! The kernel lets an unmapping thread continue when another has *read* the event. The read is
//! therefore part of the notice ([`Notices::give_what`](super::Notices::give_what)), and a thread
//! that learns of the unmapping sees a notice in progress or given.
//!
//! Memory is registered for write protection, which is never enabled, so accesses do not fault.

#![allow(unsafe_code, reason = "system calls")]

use core::ffi::c_int;
use core::fmt;
use core::mem::size_of;

use loom_core::vocabulary::Errno;

use super::{MemoryMonitor, Notices};

/// `linux/userfaultfd.h`
mod sys {
    pub(super) const USER_MODE_ONLY: i32 = 1;
    pub(super) const API_VERSION: u64 = 0xaa;
    pub(super) const FEATURE_EVENT_REMAP: u64 = 1 << 2;
    pub(super) const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
    pub(super) const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
    pub(super) const REGISTER_MODE_WP: u64 = 1 << 1;
    pub(super) const EVENT_REMAP: u8 = 0x14;
    pub(super) const EVENT_REMOVE: u8 = 0x15;
    pub(super) const EVENT_UNMAP: u8 = 0x16;

    #[repr(C)]
    pub(super) struct Api {
        pub(super) api: u64,
        pub(super) features: u64,
        pub(super) ioctls: u64,
    }

    #[repr(C)]
    pub(super) struct Register {
        pub(super) start: u64,
        pub(super) len: u64,
        pub(super) mode: u64,
        pub(super) ioctls: u64,
    }

    /// `struct uffd_msg`: `from`, `to`, `len` of remap, `start`, `end` of remove and unmap.
    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Message {
        pub(super) event: u8,
        pub(super) reserved: [u8; 7],
        pub(super) arguments: [u64; 3],
    }
}

/// Monitor of this process's memory by Linux (`userfaultfd`).
///
/// A thread of the program has to [`poll`](Self::poll) all the time, and must not unmap or free
/// watched memory. **A thread that unmaps watched memory waits for that**, perhaps forever.
///
/// Only anonymous and shared memory can be watched, on `hugetlbfs` with its page size as
/// [`MrCacheAttr::page_size`](crate::mr_cache::MrCacheAttr::page_size). A buffer elsewhere, or in
/// memory that another descriptor watches (libfabric's cache), gets its own registration
/// ([`uncached`](crate::mr_cache::MrCacheStats::uncached)).
///
/// ```no_run
/// use core::sync::atomic::{AtomicBool, Ordering};
/// use core::time::Duration;
///
/// use loom_alloc::mr_cache::Userfaultfd;
///
/// // SAFETY: one thread at a time maps and unmaps memory for buffers.
/// let monitor = unsafe { Userfaultfd::open() }?;
/// let over = AtomicBool::new(false);
/// std::thread::scope(|threads| {
///     threads.spawn(|| {
///         while !over.load(Ordering::Relaxed) {
///             monitor.poll(Duration::from_millis(100)).expect("events");
///         }
///     });
///     // Caches with `&monitor`, on this thread and others.
///     over.store(true, Ordering::Relaxed);
/// });
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
///
/// # References
/// - `man userfaultfd`, `man ioctl_userfaultfd`
pub struct Userfaultfd {
    fd: c_int,
    notices: Notices,
}

impl Userfaultfd {
    /// Opens a descriptor.
    ///
    /// # Errors
    /// - `EPERM` if the system denies it to users, `ENOSYS` if the kernel lacks it
    /// - `EINVAL` before Linux 5.11
    ///
    /// # Safety
    /// **Addresses are free before Linux reports it.** Until the event of an `munmap`, or of an
    /// `mmap` with `MAP_FIXED` or `mremap` that unmaps, is read, another thread's `mmap` may get
    /// the addresses and find the old region. The caller guarantees that no buffer of a cache with
    /// this monitor was mapped while another thread unmapped watched memory. This holds if one
    /// thread at a time maps and unmaps, and for allocators that keep their addresses. A shared
    /// allocator that unmaps has to notify a [`Notified`](super::Notified).
    ///
    /// **Linux does not report pages that go by their file**, by a hole (`fallocate`) or its end
    /// (`ftruncate`), here or in another process. The caller guarantees that this does not happen
    /// to shared memory of a cache with this monitor.
    #[doc(alias = "userfaultfd")]
    pub unsafe fn open() -> Result<Self, Errno> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | sys::USER_MODE_ONLY;
        // SAFETY: passes numbers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let Some(fd) = c_int::try_from(fd).ok().filter(|fd| *fd >= 0) else { return Err(errno()) };
        let monitor = Userfaultfd { fd, notices: Notices::new() };
        let features = sys::FEATURE_EVENT_UNMAP | sys::FEATURE_EVENT_REMOVE | sys::FEATURE_EVENT_REMAP;
        let mut api = sys::Api { api: sys::API_VERSION, features, ioctls: 0 };
        monitor.ioctl(libc::_IOWR::<sys::Api>(0xaa, 0x3f), &mut api)?;
        Ok(monitor)
    }

    fn ioctl<V>(&self, request: libc::Ioctl, argument: &mut V) -> Result<(), Errno> {
        // SAFETY: open descriptor, and the request's type of argument.
        let result = unsafe { libc::ioctl(self.fd, request, core::ptr::from_mut(argument)) };
        if result < 0 { Err(errno()) } else { Ok(()) }
    }

    /// Waits for kernel events up to `timeout`, in whole milliseconds, on any number of threads.
    /// Gives notice of at most 64 events and returns their number.
    ///
    /// # Errors
    /// The system's error.
    pub fn poll(&self, timeout: core::time::Duration) -> Result<usize, Errno> {
        let mut polled = libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
        let timeout = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one open descriptor.
        if unsafe { libc::poll(&raw mut polled, 1, timeout) } < 0 {
            return match errno() {
                Errno::EINTR => Ok(0),
                errno => Err(errno),
            };
        }
        /// Constant unmapping must not hold the caller.
        const MOST: usize = 64;
        let mut events = 0;
        while polled.revents != 0 && events < MOST && self.read()? {
            events += 1;
        }
        Ok(events)
    }

    fn read(&self) -> Result<bool, Errno> {
        let mut result = Ok(false);
        self.notices.give_what(|| {
            let mut message = sys::Message::default();
            // SAFETY: open descriptor, and room for a message.
            let read = unsafe { libc::read(self.fd, (&raw mut message).cast(), size_of::<sys::Message>()) };
            if usize::try_from(read) != Ok(size_of::<sys::Message>()) {
                result = match errno() {
                    Errno::EAGAIN | Errno::EINTR => Ok(false),
                    errno => Err(errno),
                };
                return None;
            }
            result = Ok(true);
            let [first, second, third] = message.arguments.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            match message.event {
                sys::EVENT_UNMAP | sys::EVENT_REMOVE => Some((first, second.saturating_sub(first))),
                // The source. The target was unmapped before.
                sys::EVENT_REMAP => Some((first, third)),
                _ => None,
            }
        });
        result
    }
}

// SAFETY: the kernel reports changes of registered ranges before the changing thread continues, and
// the event is read within a notice. The caller of `open` excludes buffers in between.
unsafe impl MemoryMonitor for Userfaultfd {
    #[inline]
    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn watch(&self, start: usize, len: usize) -> bool {
        let (start, len) = (start as u64, len as u64);
        let mut range = sys::Register { start, len, mode: sys::REGISTER_MODE_WP, ioctls: 0 };
        self.ioctl(libc::_IOWR::<sys::Register>(0xaa, 0), &mut range).is_ok()
    }
}

impl Drop for Userfaultfd {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { libc::close(self.fd) };
    }
}

impl fmt::Debug for Userfaultfd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Userfaultfd").field("fd", &self.fd).finish_non_exhaustive()
    }
}

fn errno() -> Errno {
    // SAFETY: callable at any time.
    let number = unsafe { libc::__errno_location() };
    // SAFETY: address of this thread's number.
    Errno::from_raw(unsafe { *number })
}
