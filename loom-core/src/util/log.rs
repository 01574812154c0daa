//! [`note!`]: lines for the log, compiled with the feature `log`.
//!
//! # Rules
//! A logger may be slow, take locks, and use loom itself.
//!
//! 1. Functions that post, poll, wait or take completions have no lines.
//! 2. No line is written while a lock of loom or a borrow of one of its cells is held.
//! 3. A logger that panics ends the process, because some lines are written while an object is half
//!    closed.
//! 4. Lines contain no key of a region, no authorization key and no byte of a message.

/// Writes a line with a subject: `open`, `close`, `quirk` or `left`.
#[cfg(feature = "log")]
macro_rules! note {
    ($level:ident, $subject:literal, $($text:tt)+) => {{
        let logging = $crate::util::log::Logging;
        ::log::$level!(target: concat!("loom::", $subject), $($text)+);
        core::mem::forget(logging);
    }};
}

#[cfg(not(feature = "log"))]
macro_rules! note {
    ($level:ident, $subject:literal, $($text:tt)+) => {
        if $crate::util::log::ON {
            let _ = core::format_args!($($text)+);
        }
    };
}

pub(crate) use note;

pub(crate) const ON: bool = cfg!(feature = "log");

#[cfg(feature = "log")]
pub(crate) struct Logging;

#[cfg(feature = "log")]
impl Drop for Logging {
    #[cold]
    fn drop(&mut self) {
        super::abort::abort("a logger panicked in the middle of loom");
    }
}
