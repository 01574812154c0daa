//! Calling through operation tables, and what calls return.

use core::ffi::c_int;

use loom_core::transport::Refusal;
use loom_core::vocabulary::Errno;

/// The function in an object's operation table: `entry!(object, path.to.table => function)`.
///
/// `None` if the object has no such table, or the table no such entry. `object` is a `NonNull` to an open libfabric
/// object, which the caller of the surrounding `unsafe fn` guarantees.
///
/// All entries that are looked up this way exist in the oldest headers that `build.rs` accepts, so the table's `size`
/// needs no check.
macro_rules! entry {
    ($object:expr, $($table:ident).+ => $function:ident) => {{
        // SAFETY: the object is open (C1), so the structure that libfabric allocated for it is valid.
        let table = unsafe { (*$object.as_ptr()).$($table).+ };
        if table.is_null() {
            None
        } else {
            // SAFETY: an open object's operation tables stay valid until it is closed.
            unsafe { (*table).$function }
        }
    }};
}
pub(super) use entry;

/// The result of a control function: zero, or a negated error number. A positive number means nothing.
#[inline]
pub(super) fn done(code: c_int) -> Result<(), Errno> {
    match code {
        0 => Ok(()),
        1.. => Err(Errno::EOTHER),
        _ => Err(errno(code as isize)),
    }
}

/// The result of a post: zero, or a negated error number. A positive number means nothing.
#[inline]
pub(super) fn posted(code: isize) -> Result<(), Refusal> {
    if code == 0 { Ok(()) } else { Err(refusal(code)) }
}

#[cold]
#[inline(never)]
fn refusal(code: isize) -> Refusal {
    const AGAIN: isize = -(Errno::EAGAIN.as_raw() as isize);
    if code == AGAIN { Refusal::Again } else { Refusal::Errno(errno(code)) }
}

/// The error in a return value which is not success; what no error can be (a positive number) is `EOTHER`.
#[inline]
pub(super) fn errno(code: isize) -> Errno {
    Errno::from_ret(code).unwrap_or(Errno::EOTHER)
}

/// What a post is refused with where the provider has no function for it.
#[cold]
#[inline(never)]
pub(super) fn missing() -> Refusal {
    Refusal::Errno(Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_is_success() {
        assert_eq!(done(0), Ok(()));
        assert_eq!(done(-22), Err(Errno::EINVAL));
        assert_eq!(done(1), Err(Errno::EOTHER));
        assert_eq!(done(c_int::MIN), Err(Errno::EOTHER));
        assert_eq!(posted(0), Ok(()));
        assert_eq!(posted(-11), Err(Refusal::Again));
        assert_eq!(posted(-259), Err(Refusal::Errno(Errno::EAVAIL)));
        assert_eq!(posted(3), Err(Refusal::Errno(Errno::EOTHER)));
        assert_eq!(posted(isize::MIN), Err(Refusal::Errno(Errno::EOTHER)));
    }
}
