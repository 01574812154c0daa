use core::alloc::Layout;

use loom_core::error::OpenError;

/// Attributes of a slab's buffers.
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
    /// Number of buffers, 1 to 2^32 - 1.
    pub count: usize,
    /// Bytes of each buffer, 1 to 2^32 - 1.
    pub size: usize,
    /// Alignment of each buffer in bytes, a power of two.
    pub align: usize,
}

impl SlabAttr {
    /// Default alignment: buffers share no cache line.
    pub const CACHE_LINE: usize = 64;

    /// Attributes of `count` buffers of `size` bytes, aligned to `CACHE_LINE`.
    #[must_use]
    pub const fn new(count: usize, size: usize) -> Self {
        SlabAttr { count, size, align: Self::CACHE_LINE }
    }

    /// Sets the alignment, a power of two.
    #[must_use]
    pub const fn align(mut self, align: usize) -> Self {
        self.align = align;
        self
    }

    pub(super) fn stride(&self) -> Result<usize, OpenError> {
        let countable = |number: usize| number > 0 && u32::try_from(number).is_ok();
        if !countable(self.count) || !countable(self.size) || !self.align.is_power_of_two() {
            return Err(OpenError::Size);
        }
        self.size.checked_next_multiple_of(self.align).ok_or(OpenError::Size)
    }

    /// Layout of the registered buffers.
    ///
    /// # Errors
    /// [`OpenError::Size`] if an attribute is out of range or the memory too large.
    pub fn memory(&self) -> Result<Layout, OpenError> {
        let size = self.stride()?.checked_mul(self.count).ok_or(OpenError::Size)?;
        Layout::from_size_align(size, self.align).map_err(|_| OpenError::Size)
    }

    /// Layout of the slab's other memory: 8 bytes for each buffer.
    ///
    /// # Errors
    /// [`OpenError::Size`] like [`memory`](Self::memory).
    pub fn table(&self) -> Result<Layout, OpenError> {
        self.stride()?;
        Layout::array::<[u32; 2]>(self.count).map_err(|_| OpenError::Size)
    }
}
