use core::fmt;

/// Text of the caller in an error, such as the name of a provider. A longer text is cut to 46 bytes
/// and an ellipsis.
///
/// ```
/// use loom_core::vocabulary::Excerpt;
///
/// assert_eq!(Excerpt::of("tpc;ofi_rxm").as_str(), "tpc;ofi_rxm");
/// assert_eq!(Excerpt::of(&"x".repeat(200)).as_str(), "x".repeat(46) + "…");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Excerpt::MAX_LEN],
    len: u8,
}

impl Excerpt {
    const MAX_LEN: usize = 49;
    const ELLIPSIS: &str = "…";

    /// Excerpt of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let (kept, more) = if text.len() <= Self::MAX_LEN {
            (text, "")
        } else {
            let end = text.floor_char_boundary(Self::MAX_LEN - Self::ELLIPSIS.len());
            (text.get(..end).unwrap_or(""), Self::ELLIPSIS)
        };
        let mut excerpt = Excerpt { bytes: [0; Self::MAX_LEN], len: 0 };
        for (to, from) in excerpt.bytes.iter_mut().zip(kept.bytes().chain(more.bytes())) {
            *to = from;
            excerpt.len += 1;
        }
        excerpt
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..self.len.into()).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or("")
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
