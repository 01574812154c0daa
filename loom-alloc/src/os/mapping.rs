#![allow(unsafe_code, reason = "maps memory, and gives it out")]

use core::ffi::{c_int, c_void};
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Deref;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU64;

use loom_core::Error;

use super::sys;

/// Page size of a [`Mapping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// Base pages, mostly 4 KiB.
    Base,
    /// Base pages that the kernel may merge (`MADV_HUGEPAGE`), if it has the feature.
    Transparent,
    /// Pages of 2 MiB, reserved by the administrator (`/proc/sys/vm/nr_hugepages`).
    Huge2M,
    /// Pages of 1 GiB, reserved by the administrator.
    Huge1G,
}

impl PageSize {
    /// Size in bytes, of huge pages for transparent ones.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            PageSize::Base => sys::page_size(),
            PageSize::Transparent | PageSize::Huge2M => 2 << 20,
            PageSize::Huge1G => 1 << 30,
        }
    }

    const fn map_flags(self) -> c_int {
        match self {
            PageSize::Base | PageSize::Transparent => 0,
            PageSize::Huge2M => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            PageSize::Huge1G => libc::MAP_HUGETLB | libc::MAP_HUGE_1GB,
        }
    }

    const fn file_flags(self) -> u32 {
        match self {
            PageSize::Base | PageSize::Transparent => 0,
            PageSize::Huge2M => libc::MFD_HUGE_2MB,
            PageSize::Huge1G => libc::MFD_HUGE_1GB,
        }
    }
}

/// Attributes of a [`Mapping`], all granted unless the mapping fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingAttr<'a> {
    /// Page sizes by preference. The first that the system grants is used.
    pub pages: &'a [PageSize],
    /// Maps an unnamed file, for other processes by [its descriptor](Mapping::file).
    pub shared: bool,
    /// Locks the memory (`mlock`). `ulimit -l` limits locked bytes.
    pub locked: bool,
    /// NUMA node (`mbind`). Default: the node of the thread that first touches a page.
    pub node: Option<u32>,
    /// Touches every page now, on this thread, and so by default on its node.
    pub touched: bool,
    /// Adds guard pages on both sides, which end the process when touched.
    pub guarded: bool,
}

impl MappingAttr<'_> {
    /// Private base pages, populated on first touch.
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

/// Zeroed pages of the operating system, unmapped on drop.
///
/// Objects take memory from an [`Arena`](crate::Arena) over them:
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
/// # References
/// - `man 2 mmap`, `man 2 madvise`, `man 2 mlock`, `man 2 mbind`, `man 2 memfd_create`, `man 2
///   fcntl`
#[doc(alias = "mmap")]
pub struct Mapping {
    memory: NonNull<[u8]>,
    pages: PageSize,
    guard: usize,
    file: Option<c_int>,
}

// SAFETY: the mapping owns its memory, which has no thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// [`Error::System`] with the failed system call, for the last page size. `EINVAL` without
    /// bytes or page sizes, or for an unknown NUMA node. `ENOMEM` beyond the memory or the lock
    /// limit. `EPERM` if locking is not permitted.
    pub fn new(len: usize, attr: MappingAttr<'_>) -> Result<Self, Error> {
        let mut refused = sys::failed("mmap", libc::EINVAL);
        if len == 0 {
            return Err(refused);
        }
        for pages in attr.pages {
            for _ in 0..TRIES {
                match Self::with_pages(len, *pages, &attr, None) {
                    Ok(mapping) => return Ok(mapping),
                    Err(error) => refused = error,
                }
                if !sys::is(&refused, libc::EEXIST) {
                    break;
                }
            }
        }
        Err(refused)
    }

    /// Granted page size.
    #[must_use]
    pub const fn pages(&self) -> PageSize {
        self.pages
    }

    /// Descriptor of a [shared](MappingAttr::shared) mapping's file, closed with the mapping and on
    /// `exec`. Processes that map it must keep this process's references valid. The file's length
    /// is sealed.
    #[must_use]
    pub const fn file(&self) -> Option<c_int> {
        self.file
    }

    /// Memory for [`Arena::new`](crate::Arena::new).
    pub const fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let len = self.memory.len();
        // SAFETY: the mapping owns its bytes and is borrowed exclusively. They need not be
        // initialised.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().cast(), len) }
    }

    /// Memory for the rest of the process.
    #[must_use]
    pub fn leak(self) -> &'static mut [MaybeUninit<u8>] {
        let this = ManuallyDrop::new(self);
        // SAFETY: never unmapped, and the only reference.
        unsafe { slice::from_raw_parts_mut(this.memory.as_ptr().cast(), this.memory.len()) }
    }

    fn with_pages(len: usize, pages: PageSize, attr: &MappingAttr<'_>, of: Option<File>) -> Result<Self, Error> {
        let too_long = sys::failed("mmap", libc::ENOMEM);
        let align = pages.bytes();
        let len = len.checked_next_multiple_of(align).ok_or(too_long)?;
        let guard = if attr.guarded { sys::page_size() } else { 0 };
        let whole = len.checked_add(align).and_then(|sum| sum.checked_add(2 * guard)).ok_or(too_long)?;
        let file = match of {
            None if attr.shared => Some(File(sys::memory_file(len, pages.file_flags())?)),
            of => of,
        };
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
            // SAFETY: mapped just now, and not populated.
            unsafe { sys::bind(at, len, node) }?;
        }
        if attr.touched {
            // SAFETY: mapped just now, writable, not in use.
            unsafe { touch(at, len) }?;
        }
        if attr.locked {
            // SAFETY: mapped just now.
            unsafe { sys::lock(at, len) }?;
        }
        let first = NonNull::new(at.cast::<u8>()).ok_or(too_long)?;
        let _ = ManuallyDrop::new([before, memory, behind]);
        let file = file.map(|file| ManuallyDrop::new(file).0);
        Ok(Mapping { memory: NonNull::slice_from_raw_parts(first, len), pages, guard, file })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let at = self.memory.cast::<c_void>().as_ptr().wrapping_byte_sub(self.guard);
        // SAFETY: mapped by `new` with its guards, and no longer borrowed.
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

/// Words of a shared [`Mapping`].
#[derive(Debug)]
pub struct Words(Mapping);

impl Words {
    /// Maps an unnamed file.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn new(len: usize) -> Result<Self, Error> {
        let bytes = len.checked_mul(size_of::<AtomicU64>()).ok_or(sys::failed("mmap", libc::ENOMEM))?;
        Ok(Words(Mapping::new(bytes, MappingAttr { shared: true, ..MappingAttr::DEFAULT })?))
    }

    /// Maps the [file](Self::file) of another process.
    ///
    /// # Errors
    /// `EINVAL` for a file that may shrink.
    ///
    /// # Safety
    /// All accesses to the file keep the rule of [`loom_core::exposed`].
    pub unsafe fn open(file: c_int) -> Result<Self, Error> {
        let (file, len) = sys::shared_file(file)?;
        Mapping::with_pages(len, PageSize::Base, &MappingAttr::DEFAULT, Some(File(file))).map(Words)
    }

    /// [`Mapping::file`]
    #[must_use]
    pub const fn file(&self) -> Option<c_int> {
        self.0.file
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        let memory = self.0.memory;
        // SAFETY: whole pages of a sealed file, initialised and mapped, without exclusive borrows.
        unsafe { slice::from_raw_parts(memory.as_ptr().cast(), memory.len() / size_of::<AtomicU64>()) }
    }
}

/// Another thread may take the addresses.
const TRIES: usize = 16;

/// # Safety
/// The range is mapped, writable, and not in use.
unsafe fn touch(at: *mut c_void, len: usize) -> Result<(), Error> {
    // SAFETY: the caller guarantees an unused mapped range. The kernel reports errors where a touch
    // would end the process.
    let populated = unsafe { sys::advise(at, len, libc::MADV_POPULATE_WRITE) };
    // Kernels before 5.14 lack the advice.
    if !populated.is_err_and(|error| sys::is(&error, libc::EINVAL)) {
        return populated;
    }
    for offset in (0..len).step_by(sys::page_size()) {
        // SAFETY: within the zeroed range. Volatile keeps the write.
        unsafe { at.cast::<u8>().wrapping_add(offset).write_volatile(0) };
    }
    Ok(())
}

struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

struct Range {
    at: *mut c_void,
    len: usize,
}

impl Range {
    /// # Safety
    /// The kept part is within the range, the rest not in use. Both numbers are multiples of the
    /// page size.
    unsafe fn keep(self, before: usize, len: usize) -> Self {
        let this = ManuallyDrop::new(self);
        let at = this.at.wrapping_byte_add(before);
        // SAFETY: the caller guarantees unused whole pages.
        unsafe {
            sys::unmap(this.at, before);
            sys::unmap(at.wrapping_byte_add(len), this.len - before - len);
        }
        Range { at, len }
    }

    fn split(self, outer: usize) -> [Self; 3] {
        let this = ManuallyDrop::new(self);
        let inner = this.len - 2 * outer;
        [(0, outer), (outer, inner), (outer + inner, outer)]
            .map(|(from, len)| Range { at: this.at.wrapping_byte_add(from), len })
    }

    /// Unmaps first: a failed `MAP_FIXED` leaves the addresses free, and a later unmap could hit
    /// another thread's memory.
    fn map(self, huge: c_int, file: Option<c_int>) -> Result<Self, Error> {
        let (at, len) = (self.at, self.len);
        drop(self);
        sys::map_at(at, len, huge, file)?;
        Ok(Range { at, len })
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: reserved or mapped by `Mapping::with_pages`, not owned by a mapping, not in use.
        unsafe { sys::unmap(self.at, self.len) };
    }
}
