#![allow(unsafe_code, reason = "reads strings that C wrote")]

use core::ffi::{CStr, c_char};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextError {
    InteriorNul,
    TooLong,
}

#[derive(Debug)]
pub(crate) struct CText {
    /// Zero-terminated.
    bytes: [u8; CText::MAX_LEN + 1],
}

impl CText {
    /// In bytes. A domain name of DNS has at most 255.
    pub(crate) const MAX_LEN: usize = 255;

    pub(crate) fn new(text: &str) -> Result<Self, TextError> {
        if text.bytes().any(|byte| byte == 0) {
            return Err(TextError::InteriorNul);
        }
        if text.len() > Self::MAX_LEN {
            return Err(TextError::TooLong);
        }
        let mut bytes = [0; Self::MAX_LEN + 1];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Ok(CText { bytes })
    }

    pub(crate) fn with_zero(&self) -> &[u8] {
        self.bytes.split_inclusive(|byte| *byte == 0).next().unwrap_or(&[0])
    }

    pub(crate) const fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

/// `None` if the string is null or not UTF-8.
///
/// # Safety
/// `text` is null, or points to a zero-terminated string that is neither changed nor freed during
/// `'a`.
pub(crate) unsafe fn read<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller guarantees a zero-terminated string.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Copies a C string, up to its zero byte or the end of `out`, and returns the number of bytes.
///
/// # Safety
/// `text` is null, or points to bytes readable up to and including a zero byte.
pub(crate) unsafe fn copy(text: *const c_char, out: &mut [u8]) -> usize {
    if text.is_null() {
        return 0;
    }
    let mut at: *const u8 = text.cast();
    let mut copied = 0;
    for byte in out {
        // SAFETY: no zero byte precedes this byte, and the caller guarantees that it is readable.
        *byte = match unsafe { *at } {
            0 => break,
            other => other,
        };
        // SAFETY: this byte is not zero, so the next is in the same object.
        at = unsafe { at.add(1) };
        copied += 1;
    }
    copied
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn text_that_c_reads_differently_is_refused() {
        assert_eq!(CText::new("a\0b").unwrap_err(), TextError::InteriorNul);
        let long = [b'x'; CText::MAX_LEN + 1];
        let long = core::str::from_utf8(&long).unwrap();
        assert!(CText::new(&long[1..]).is_ok());
        assert_eq!(CText::new(long).unwrap_err(), TextError::TooLong);
    }

    #[test]
    fn copy_truncates_long_text() {
        let text = c"libfabric";
        let mut out = [b'-'; 4];
        // SAFETY: a string literal.
        assert_eq!(unsafe { copy(text.as_ptr(), &mut out) }, 4);
        assert_eq!(&out, b"libf");
        let mut out = [b'-'; 12];
        // SAFETY: a string literal.
        assert_eq!(unsafe { copy(text.as_ptr(), &mut out) }, 9);
        assert_eq!(&out, b"libfabric---");
        // SAFETY: null is permitted.
        assert_eq!(unsafe { copy(core::ptr::null(), &mut out) }, 0);
    }
}
