//! Ending the process where going on would break a promise made to safe code.

/// Ends the process without unwinding, with nothing but `core`.
#[cold]
pub(crate) fn abort(why: &'static str) -> ! {
    /// Unwinding out of this function is not possible, so the panic ends the process.
    extern "C" fn no_unwind(why: &&'static str) -> ! {
        panic!("{why}")
    }
    no_unwind(&why)
}

/// What to do when a provider fails to close something that was lent memory, which it may still use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailedClose {
    /// Leak it with everything that was lent: all of it is `'static`.
    Leak,
    /// End the process: borrowed memory is about to be used again.
    Abort,
}
