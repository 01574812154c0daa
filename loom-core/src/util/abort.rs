//! Ending the process where continuing would break a promise to safe code.

/// Ends the process without unwinding, using only `core`.
#[cold]
pub(crate) fn abort(why: &'static str) -> ! {
    extern "C" fn no_unwind(why: &&'static str) -> ! {
        panic!("{why}")
    }
    no_unwind(&why)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailedClose {
    Leak,
    Abort,
}
