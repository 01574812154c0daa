//! [`Userfaultfd`]: Linux tells when memory is unmapped.
//!
//! The kernel has a file descriptor for that. It lets a thread that unmaps memory go on when another thread has *read* the event,
//! that is before that one could tell anybody. So the reading itself is a part of the notice
//! ([`Notices::give_what`](super::Notices::give_what)): a thread that learns of the unmapping from the thread that did it comes after the read,
//! and sees that a notice is being given, or was given.
//!
//! Memory is registered with the descriptor for write protection, which is never asked for: no access to it faults, unlike with
//! libfabric's own monitor, which registers for missing pages and then has to provide them.

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

    /// `struct uffd_msg`: the arguments of remap are `from`, `to` and `len`, those of remove and unmap `start` and `end`.
    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Message {
        pub(super) event: u8,
        pub(super) reserved: [u8; 7],
        pub(super) arguments: [u64; 3],
    }
}

/// A monitor of the memory of this process that Linux tells (`userfaultfd`).
///
/// A thread of the user's has to read the kernel's events, by [`poll`](Self::poll), at all times: **who unmaps memory that is watched waits
/// for that**, and for ever if no thread reads. That thread itself must not unmap or free any memory that may be watched: it would wait
/// for itself. When the monitor is dropped no thread waits any more.
///
/// Only anonymous and shared memory can be watched (on huge pages of `hugetlbfs` where these are the pages of the cache:
/// [`MrCacheAttr::page_size`](crate::mr_cache::MrCacheAttr::page_size)): not the part of a program that is read from its file, as initialised statics. Such
/// buffers are registered each for its own use ([`uncached`](crate::mr_cache::MrCacheStats::uncached)). A part of the address space has one
/// descriptor at most: what another one watches, such as that of libfabric's own cache, cannot be watched.
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
    /// - `EPERM` if the system does not allow that to its users, `ENOSYS` if it has none
    /// - `EINVAL` before Linux 5.11
    ///
    /// # Safety
    /// **Addresses are free before Linux tells that their memory is gone**: until the event of an `munmap` (or of an `mmap` with `MAP_FIXED`
    /// or an `mremap` that unmaps) is read, another thread may be given the same addresses by `mmap`, and find the old region for a
    /// buffer there. No monitor inside of the program can prevent that; libfabric's own has the same gap. So the caller promises
    /// that no buffer is given to a cache with this monitor whose memory was mapped while another thread was unmapping memory that is
    /// watched. This holds if one thread at a time maps and unmaps, and for allocators that keep the address ranges to themselves.
    /// Where threads share an allocator that unmaps, it does not: such an allocator has to tell a [`Notified`](super::Notified) itself.
    ///
    /// **Nor does Linux tell of pages that go by way of their file**: a hole in it (`fallocate`), or its end (`ftruncate`), by this process or
    /// another that shares the memory. So the caller promises, too, that this does not happen to shared memory that is given to a cache
    /// with this monitor.
    #[doc(alias = "userfaultfd")]
    pub unsafe fn open() -> Result<Self, Errno> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | sys::USER_MODE_ONLY;
        // SAFETY: a system call with numbers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let Some(fd) = c_int::try_from(fd).ok().filter(|fd| *fd >= 0) else { return Err(errno()) };
        let monitor = Userfaultfd { fd, notices: Notices::new() };
        let features = sys::FEATURE_EVENT_UNMAP | sys::FEATURE_EVENT_REMOVE | sys::FEATURE_EVENT_REMAP;
        let mut api = sys::Api { api: sys::API_VERSION, features, ioctls: 0 };
        monitor.ioctl(libc::_IOWR::<sys::Api>(0xaa, 0x3f), &mut api)?;
        Ok(monitor)
    }

    fn ioctl<V>(&self, request: libc::Ioctl, argument: &mut V) -> Result<(), Errno> {
        // SAFETY: the descriptor is open, and the request's argument has this type.
        let result = unsafe { libc::ioctl(self.fd, request, core::ptr::from_mut(argument)) };
        if result < 0 { Err(errno()) } else { Ok(()) }
    }

    /// Waits for what the kernel tells, but no longer than this, in whole milliseconds; and passes it on, up to 64 events at a time.
    /// Returns how many there were.
    ///
    /// Any number of threads may do this.
    ///
    /// # Errors
    /// The system's.
    pub fn poll(&self, timeout: core::time::Duration) -> Result<usize, Errno> {
        let mut polled = libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
        let timeout = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one descriptor, which is open.
        if unsafe { libc::poll(&raw mut polled, 1, timeout) } < 0 {
            return match errno() {
                Errno::EINTR => Ok(0),
                errno => Err(errno),
            };
        }
        /// Where memory is unmapped all the time, the caller gets back to its other work now and then.
        const MOST: usize = 64;
        let mut events = 0;
        while polled.revents != 0 && events < MOST && self.read()? {
            events += 1;
        }
        Ok(events)
    }

    /// Reads an event and passes it on, if there is one.
    fn read(&self) -> Result<bool, Errno> {
        let mut result = Ok(false);
        self.notices.give_what(|| {
            let mut message = sys::Message::default();
            // SAFETY: the descriptor is open, and there is room for a message.
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
                // What is moved away. (Where it goes to is unmapped before.)
                sys::EVENT_REMAP => Some((first, third)),
                _ => None,
            }
        });
        result
    }
}

// SAFETY: for a range that is registered the kernel tells of each kind of change before the thread that makes it goes on; the event is
// read within a notice. That no buffer comes in between is the promise of the program that has opened this.
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
        // SAFETY: open, and closed once, here.
        unsafe { libc::close(self.fd) };
    }
}

impl fmt::Debug for Userfaultfd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Userfaultfd").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// Of the last system call of this thread.
fn errno() -> Errno {
    // SAFETY: it can be called at any time.
    let number = unsafe { libc::__errno_location() };
    // SAFETY: the place of this thread's number.
    Errno::from_raw(unsafe { *number })
}
