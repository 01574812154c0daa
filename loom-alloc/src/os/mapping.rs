//! [`Mapping`]: pages of the operating system.

#![allow(unsafe_code, reason = "maps memory, and gives it out")]

use core::ffi::{c_int, c_void};
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use core::slice;

use super::{MapError, sys};

/// How large the pages of a [`Mapping`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// As the processor has them: 4 KiB on most.
    Base,
    /// Such pages, of which the kernel makes huge ones where it can and is allowed to (`MADV_HUGEPAGE`). That it could is not
    /// promised; where it has no such thing, the mapping is refused.
    Transparent,
    /// Pages of 2 MiB, which the administrator has set aside (`/proc/sys/vm/nr_hugepages`).
    Huge2M,
    /// Pages of 1 GiB, which the administrator has set aside.
    Huge1G,
}

impl PageSize {
    /// In bytes. Transparent pages are as large as they become if all goes well.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            PageSize::Base => sys::page_size(),
            PageSize::Transparent | PageSize::Huge2M => 2 << 20,
            PageSize::Huge1G => 1 << 30,
        }
    }

    /// For `mmap`.
    const fn map_flags(self) -> c_int {
        match self {
            PageSize::Base | PageSize::Transparent => 0,
            PageSize::Huge2M => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            PageSize::Huge1G => libc::MAP_HUGETLB | libc::MAP_HUGE_1GB,
        }
    }

    /// For `memfd_create`.
    const fn file_flags(self) -> u32 {
        match self {
            PageSize::Base | PageSize::Transparent => 0,
            PageSize::Huge2M => libc::MFD_HUGE_2MB,
            PageSize::Huge1G => libc::MFD_HUGE_1GB,
        }
    }
}

/// What a [`Mapping`] is asked for.
///
/// Each of it is granted or the mapping is refused; [`pages`](Self::pages) says what else will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingAttr<'a> {
    /// The sizes of pages that will do, the best one first. The first one that the system grants is taken.
    pub pages: &'a [PageSize],
    /// The memory is a file without a name, which other processes can map if they are given [its descriptor](Mapping::file).
    pub shared: bool,
    /// It is never swapped (`mlock`); `ulimit -l` says how many bytes a process may lock.
    pub locked: bool,
    /// It lies on this NUMA node (`mbind`); without, on that of the thread that touches a page first.
    pub node: Option<u32>,
    /// Every page is there when the mapping is made: touched by this thread, and so on its node if none was named.
    pub touched: bool,
    /// Before the memory and behind it lies a page that ends the process when it is touched: for finding out who writes beyond.
    pub guarded: bool,
}

impl MappingAttr<'_> {
    /// Pages of the usual size, for this process, that are there when they are touched first.
    pub const DEFAULT: MappingAttr<'static> = MappingAttr {
        pages: &[PageSize::Base],
        shared: false,
        locked: false,
        node: None,
        touched: false,
        guarded: false,
    };
}

impl Default for MappingAttr<'static> {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Pages of the operating system, all zero at first, and given back on drop.
///
/// What is to live in them takes it from an [`Arena`](crate::Arena) over them:
///
/// ```
/// use loom_alloc::{Arena, Locked};
/// use loom_alloc::os::{Mapping, MappingAttr, PageSize};
/// use loom_core::soft::{Network, NetworkAttr};
///
/// // Huge pages if there are some, and all of it there before anything begins.
/// let pages = &[PageSize::Huge2M, PageSize::Transparent, PageSize::Base];
/// let mut memory = Mapping::new(8 << 20, MappingAttr { pages, touched: true, ..MappingAttr::DEFAULT })?;
/// let arena = Locked::new(Arena::new(memory.as_uninit_mut()));
/// let network = Network::new_in(NetworkAttr::DEFAULT, &arena)?;
/// assert!(arena.used() >= network.attr().layout::<&Locked<Arena<'_>>>()?.size());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// For objects that are never closed, [`leak`](Self::leak) makes `'static` memory of it.
///
/// # References
/// - `man 2 mmap`, `man 2 madvise`, `man 2 mlock`, `man 2 mbind`, `man 2 memfd_create`, `man 2 fcntl`
#[doc(alias = "mmap")]
pub struct Mapping {
    memory: NonNull<[u8]>,
    pages: PageSize,
    /// Bytes of either guard.
    guard: usize,
    file: Option<c_int>,
}

// SAFETY: the mapping owns its memory, which belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// The system call that failed, and why: that for the last of the sizes of pages, if none was granted. `EINVAL` if nothing
    /// is asked for (no bytes, or no size), or if there is no such NUMA node; `ENOMEM` if there is less memory or it is
    /// more than may be locked; `EPERM` if nothing may.
    pub fn new(len: usize, attr: MappingAttr<'_>) -> Result<Self, MapError> {
        let mut refused = MapError::new(c"mmap", libc::EINVAL);
        if len == 0 {
            return Err(refused);
        }
        for pages in attr.pages {
            // Another thread may map something at the addresses in between: then there are others.
            for _ in 0..TRIES {
                match Self::with_pages(len, *pages, &attr) {
                    Ok(mapping) => return Ok(mapping),
                    Err(error) => refused = error,
                }
                if refused.errno() != libc::EEXIST {
                    break;
                }
            }
        }
        Err(refused)
    }

    fn with_pages(len: usize, pages: PageSize, attr: &MappingAttr<'_>) -> Result<Self, MapError> {
        let too_long = MapError::new(c"mmap", libc::ENOMEM);
        let align = pages.bytes();
        let len = len.checked_next_multiple_of(align).ok_or(too_long)?;
        let guard = if attr.guarded { sys::page_size() } else { 0 };
        // Whatever the kernel gives, an aligned range with its guards lies within.
        let whole = len.checked_add(align).and_then(|sum| sum.checked_add(2 * guard)).ok_or(too_long)?;
        let file = if attr.shared { Some(File(sys::memory_file(len, pages.file_flags())?)) } else { None };
        let reserved = Range { at: sys::reserve(whole)?, len: whole };
        let before = (reserved.at.addr() + guard).next_multiple_of(align) - guard - reserved.at.addr();
        // SAFETY: reserved just now.
        let reserved = unsafe { reserved.keep(before, len + 2 * guard) };
        let [before, memory, behind] = reserved.split(guard);
        let memory = memory.map(pages.map_flags(), file.as_ref().map(|file| file.0))?;
        let at = memory.at;
        if pages == PageSize::Transparent {
            // SAFETY: mapped just now.
            unsafe { sys::advise(at, len, libc::MADV_HUGEPAGE) }?;
        }
        if let Some(node) = attr.node {
            // SAFETY: as above; before any page is there.
            unsafe { sys::bind(at, len, node) }?;
        }
        if attr.touched {
            // SAFETY: as above.
            unsafe { touch(at, len) }?;
        }
        if attr.locked {
            // SAFETY: as above.
            unsafe { sys::lock(at, len) }?;
        }
        let first = NonNull::new(at.cast::<u8>()).ok_or(too_long)?;
        // The mapping owns all of it from here on.
        let _ = ManuallyDrop::new([before, memory, behind]);
        let file = file.map(|file| ManuallyDrop::new(file).0);
        Ok(Mapping { memory: NonNull::slice_from_raw_parts(first, len), pages, guard, file })
    }

    /// The size of the pages that the system has granted.
    #[must_use]
    pub const fn pages(&self) -> PageSize {
        self.pages
    }

    /// The descriptor of the file, if it was asked for as [shared](MappingAttr::shared), for giving it to another process. It is
    /// closed with the mapping, and not passed on to programs that are executed. A program that maps it has the same memory: to keep
    /// this one's references to it true is that program's part. The file is sealed: no program makes it shorter or longer
    /// (`F_SEAL_SHRINK`, `F_SEAL_GROW`), with any size of pages.
    #[must_use]
    pub const fn file(&self) -> Option<c_int> {
        self.file
    }

    /// The memory, as [`Arena::new`](crate::Arena::new) takes it.
    pub const fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let len = self.memory.len();
        // SAFETY: the mapping owns its bytes, and is borrowed exclusively. They are never read as initialised ones.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().cast(), len) }
    }

    /// The memory for as long as the process runs.
    #[must_use]
    pub fn leak(self) -> &'static mut [MaybeUninit<u8>] {
        let this = ManuallyDrop::new(self);
        // SAFETY: it is not unmapped any more, and this is the only reference to it.
        unsafe { slice::from_raw_parts_mut(this.memory.as_ptr().cast(), this.memory.len()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let at = self.memory.cast::<c_void>().as_ptr().wrapping_byte_sub(self.guard);
        // SAFETY: mapped by `new` with its guards, and not borrowed any more.
        unsafe { sys::unmap(at, self.memory.len() + 2 * self.guard) };
        if let Some(file) = self.file {
            sys::close(file);
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("memory", &self.memory).field("pages", &self.pages).finish_non_exhaustive()
    }
}

/// How often memory is mapped anew where another thread takes the addresses that were chosen for it.
const TRIES: usize = 16;

/// Makes every page be there.
///
/// # Safety
/// The range is mapped, can be written, and is not in use.
unsafe fn touch(at: *mut c_void, len: usize) -> Result<(), MapError> {
    // SAFETY: the caller's promise. The kernel says what it cannot do, where a touch would end the process.
    let populated = unsafe { sys::advise(at, len, libc::MADV_POPULATE_WRITE) };
    // Kernels before 5.14 have no such advice.
    if !populated.is_err_and(|error| error.errno() == libc::EINVAL) {
        return populated;
    }
    for offset in (0..len).step_by(sys::page_size()) {
        // SAFETY: within the range; the memory is zero before and after. Volatile, so that it is written.
        unsafe { at.cast::<u8>().wrapping_add(offset).write_volatile(0) };
    }
    Ok(())
}

/// A file that is closed on drop.
struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// Addresses that are given back on drop.
struct Range {
    at: *mut c_void,
    len: usize,
}

impl Range {
    /// Gives all of it back but `len` bytes, from `before` on.
    ///
    /// # Safety
    /// There are as many; the others are not in use. Both are multiples of the size of a page.
    unsafe fn keep(self, before: usize, len: usize) -> Self {
        let this = ManuallyDrop::new(self);
        let at = this.at.wrapping_byte_add(before);
        // SAFETY: the caller's promise.
        unsafe { sys::unmap(this.at, before) };
        // SAFETY: as above.
        unsafe { sys::unmap(at.wrapping_byte_add(len), this.len - before - len) };
        Range { at, len }
    }

    /// The first bytes, as many at the end, and those between them.
    fn split(self, outer: usize) -> [Self; 3] {
        let this = ManuallyDrop::new(self);
        let inner = this.len - 2 * outer;
        [(0, outer), (outer, inner), (outer + inner, outer)]
            .map(|(from, len)| Range { at: this.at.wrapping_byte_add(from), len })
    }

    /// Maps memory in its place.
    ///
    /// The addresses are given back first, and not replaced: a replacement that fails leaves them to anybody (the kernel unmaps
    /// what is there before it looks whether it has the memory), and a thread that then gave them back would unmap memory of another thread.
    fn map(self, huge: c_int, file: Option<c_int>) -> Result<Self, MapError> {
        let (at, len) = (self.at, self.len);
        drop(self);
        sys::map_at(at, len, huge, file)?;
        Ok(Range { at, len })
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: reserved or mapped by `Mapping::with_pages`, and not the mapping's yet, so it is not in use.
        unsafe { sys::unmap(self.at, self.len) };
    }
}
