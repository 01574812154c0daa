//! [`SlabAttr`]: how many buffers of what size, and the memory that they take.

use core::alloc::Layout;

use loom_core::error::OpenError;

/// How many buffers a slab has, how long each is, and how each is aligned.
///
/// ```
/// use loom_alloc::registered::SlabAttr;
///
/// let attr = SlabAttr::new(1024, 1500);
/// // Each begins a cache line of its own.
/// assert_eq!(attr.memory()?.size(), 1024 * 1536);
/// assert_eq!(attr.table()?.size(), 1024 * 8);
/// # Ok::<_, loom_core::error::OpenError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabAttr {
    /// How many buffers; at least one, and less than 2^32.
    pub count: usize,
    /// Bytes of each; at least one, and less than 2^32.
    pub size: usize,
    /// What the address of each is a multiple of: a power of two.
    pub align: usize,
}

impl SlabAttr {
    /// The alignment if nothing is said: buffers of two threads, or of a thread and a device, share no cache line.
    pub const CACHE_LINE: usize = 64;

    /// `count` buffers of `size` bytes.
    #[must_use]
    pub const fn new(count: usize, size: usize) -> Self {
        SlabAttr { count, size, align: Self::CACHE_LINE }
    }

    /// Aligned to this power of two.
    #[must_use]
    pub const fn align(mut self, align: usize) -> Self {
        self.align = align;
        self
    }

    /// From one buffer to the next.
    pub(super) fn stride(&self) -> Result<usize, OpenError> {
        let countable = |number: usize| number > 0 && u32::try_from(number).is_ok();
        if !countable(self.count) || !countable(self.size) || !self.align.is_power_of_two() {
            return Err(OpenError::Size);
        }
        self.size.checked_next_multiple_of(self.align).ok_or(OpenError::Size)
    }

    /// The memory of the buffers, which is what is registered.
    ///
    /// # Errors
    /// [`OpenError::Size`] if the numbers are out of range, or no memory can be that large.
    pub fn memory(&self) -> Result<Layout, OpenError> {
        let size = self.stride()?.checked_mul(self.count).ok_or(OpenError::Size)?;
        Layout::from_size_align(size, self.align).map_err(|_| OpenError::Size)
    }

    /// What a slab takes from its allocator besides: 8 bytes for each buffer, which are not registered.
    ///
    /// # Errors
    /// As [`memory`](Self::memory).
    pub fn table(&self) -> Result<Layout, OpenError> {
        self.stride()?;
        Layout::array::<[u32; 2]>(self.count).map_err(|_| OpenError::Size)
    }
}
