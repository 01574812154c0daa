/// Ends the process without unwinding, using only `core`.
#[cold]
pub(crate) fn abort(why: &'static str) -> ! {
    extern "C" fn no_unwind(why: &&'static str) -> ! {
        panic!("{why}")
    }
    no_unwind(&why)
}

/// Action if a provider fails to close an object and may still use lent memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailedClose {
    /// Leak the object and the lent memory, which is all `'static`.
    Leak,
    /// End the process, because borrowed memory is about to be reused.
    Abort,
}
