use core::fmt;
use core::ops::Deref;

/// Bytes of a connection event, which the peer passed to connect, accept or reject.
///
/// The underlying protocol may pad them with zeros.
///
/// ```
/// use loom_core::vocabulary::CmData;
///
/// let data = CmData::new(b"hello").expect("it is short");
/// assert_eq!(&data[..], b"hello");
/// assert_eq!(CmData::new(&[0; CmData::MAX_LEN + 1]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CmData {
    /// Bytes from `len` on are zero.
    bytes: [u8; CmData::MAX_LEN],
    len: usize,
}

impl CmData {
    /// Maximum number of bytes. Providers carry fewer: `tcp` and `sockets` 256, others less.
    pub const MAX_LEN: usize = 512;

    /// No bytes.
    pub const EMPTY: Self = CmData { bytes: [0; CmData::MAX_LEN], len: 0 };

    /// Copy of `bytes`, or `None` if longer than [`CmData::MAX_LEN`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut data = CmData::EMPTY;
        data.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        data.len = bytes.len();
        Some(data)
    }
}

impl Deref for CmData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Debug for CmData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
