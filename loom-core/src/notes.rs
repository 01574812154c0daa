//! [`note!`]: lines for the log, with the feature `log`. Without it nothing is compiled.
//!
//! # Rules
//!
//! A logger is code of the program. It may take its time, take locks, and use loom itself.
//!
//! 1. No function that posts, polls, waits or takes a completion has a line.
//! 2. No line is written while a lock of loom's, or a borrow of one of its cells, is held.
//! 3. A logger that panics ends the process: there are lines where an object is half closed. So it may not unwind out of a function of a
//!    transport, either.
//! 4. No line has a key of a region, an authorization key, or a byte of a message: a reader of the log may lack the right to the memory.

/// A line at a level, with a subject: `open`, `close`, `quirk` or `left`. Its arguments are looked at if the line is wanted.
#[cfg(feature = "log")]
macro_rules! note {
    ($level:ident, $subject:literal, $($text:tt)+) => {{
        let logging = $crate::notes::Logging;
        ::log::$level!(target: concat!("loom::", $subject), $($text)+);
        core::mem::forget(logging);
    }};
}

#[cfg(not(feature = "log"))]
macro_rules! note {
    ($level:ident, $subject:literal, $($text:tt)+) => {
        if $crate::notes::ON {
            let _ = core::format_args!($($text)+);
        }
    };
}

pub(crate) use note;

/// Whether there are lines.
pub(crate) const ON: bool = cfg!(feature = "log");

/// Is there while a logger runs, and ends the process if that unwinds.
#[cfg(feature = "log")]
pub(crate) struct Logging;

#[cfg(feature = "log")]
impl Drop for Logging {
    #[cold]
    fn drop(&mut self) {
        crate::abort::abort("a logger panicked in the middle of loom");
    }
}
