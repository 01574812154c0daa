//! [`Process`]: recognition of forked children, which share the parent's sockets.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE: usize = 4096;

/// Page that the kernel clears in forked children.
static PAGE_OF_PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static LAST: AtomicU32 = AtomicU32::new(0);

/// Process that opened a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    page: NonNull<AtomicU32>,
    number: u32,
}

impl Process {
    /// Returns this process, or `None` if the kernel has no memory for it.
    pub(crate) fn current() -> Option<Self> {
        let page = match NonNull::new(PAGE_OF_PROCESS.load(Ordering::Acquire)) {
            Some(page) => page,
            None => Self::map()?,
        };
        // SAFETY: the page is never unmapped.
        let number = unsafe { page.as_ref() };
        // A child counts from its parent's number on, so that it never has the same one.
        let new = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        let number =
            number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|old| old, |_| new);
        Some(Process { page, number })
    }

    fn map() -> Option<NonNull<AtomicU32>> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let page = unsafe { mmap_anonymous(null_mut(), PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let page = page.ok()?;
        // SAFETY: the advice concerns only the new mapping.
        let advised = unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) };
        let won = advised
            .is_ok()
            .then(|| PAGE_OF_PROCESS.compare_exchange(null_mut(), page.cast(), Ordering::AcqRel, Ordering::Acquire));
        if let Some(Ok(_)) = won {
            return NonNull::new(page.cast());
        }
        // SAFETY: no other code has the address of the mapping.
        let _ = unsafe { munmap(page, PAGE) };
        // Another thread was faster.
        won.and_then(Result::err).and_then(NonNull::new)
    }

    /// Returns `false` in forked children.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        // SAFETY: the page is never unmapped.
        unsafe { self.page.as_ref() }.load(Ordering::Relaxed) == self.number
    }
}
