use core::ffi::{c_int, c_void};
use core::ptr;

use loom_core::buffer::Lent;
use loom_core::transport::Refusal;
use loom_core::vocabulary::Errno;

/// The function in an object's operation table: `entry!(object, path.to.table => function)`.
///
/// Fails with `ENOSYS` without such a table or entry, and with [`Errno::OTHER_PROCESS`] in a forked
/// child of the process that opened the object. `object` is a [`Raw`](crate::ofi::raw::Raw)
/// pointer to an object that the caller of the surrounding `unsafe fn` keeps open.
///
/// For entries that not every version has, use [`later_entry!`].
macro_rules! entry {
    ($object:expr, $($table:ident).+ => $function:ident) => {{
        if $object.is_here() {
            // SAFETY: the object is open (H1), so that its structure is valid.
            let table = unsafe { (*$object.as_ptr()).$($table).+ };
            let function = if table.is_null() {
                None
            } else {
                // SAFETY: an open object's operation tables stay valid until it is closed.
                unsafe { (*table).$function }
            };
            function.ok_or_else($crate::ofi::ffi::call::missing)
        } else {
            Err($crate::ofi::ffi::call::other_process())
        }
    }};
}
pub(crate) use entry;

/// [`entry!`] of a function that the first versions of the interface lack: `later_entry!(object,
/// path.to.table: Table => function)`. A provider loaded from a file may be built for one of them,
/// with shorter tables that contain their size (`FI_CHECK_OP`).
macro_rules! later_entry {
    ($object:expr, $($table:ident).+ : $type:ty => $function:ident) => {{
        // SAFETY: the object is open (H1), so that its structure is valid.
        let table: *const $type = unsafe { (*$object.as_ptr()).$($table).+ };
        // SAFETY: null, or an open object's operation table, which begins with its size.
        let size = if table.is_null() { 0 } else { unsafe { (&raw const (*table).size).read() } };
        if core::mem::offset_of!($type, $function) < size {
            entry!($object, $($table).+ => $function)
        } else {
            Err($crate::ofi::ffi::call::missing())
        }
    }};
}
pub(crate) use later_entry;

/// Lent memory as arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) start: *mut c_void,
    pub(crate) len: usize,
    pub(crate) descriptor: *mut c_void,
}

impl Memory {
    #[inline]
    pub(crate) fn new(lent: &Lent) -> Self {
        let descriptor = match lent.descriptor {
            // `mr_open` exposed its provenance.
            Some(descriptor) => ptr::with_exposed_provenance_mut(descriptor.raw()),
            None => ptr::null_mut(),
        };
        Memory { start: lent.ptr.as_ptr().cast(), len: lent.len, descriptor }
    }
}

/// Positive numbers are undefined.
#[inline]
pub(crate) fn done(code: c_int) -> Result<(), Errno> {
    match code {
        0 => Ok(()),
        1.. => Err(Errno::EOTHER),
        _ => Err(errno(code as isize)),
    }
}

/// Positive numbers are undefined.
#[inline]
pub(crate) fn posted(code: isize) -> Result<(), Refusal> {
    if code == 0 { Ok(()) } else { Err(refusal(code)) }
}

#[cold]
#[inline(never)]
fn refusal(code: isize) -> Refusal {
    const AGAIN: isize = -(Errno::EAGAIN.as_raw() as isize);
    if code == AGAIN { Refusal::Again } else { Refusal::Errno(errno(code)) }
}

#[inline]
pub(crate) fn errno(code: isize) -> Errno {
    Errno::from_ret(code).unwrap_or(Errno::EOTHER)
}

#[cold]
#[inline(never)]
pub(crate) const fn missing() -> Errno {
    Errno::ENOSYS
}

#[cold]
#[inline(never)]
pub(crate) const fn other_process() -> Errno {
    Errno::OTHER_PROCESS
}

/// Attributes for libfabric, with zeros behind them: a provider with newer headers reads its longer
/// structure.
#[repr(C)]
pub(crate) struct Padded<A> {
    attributes: A,
    more: [u64; 8],
}

impl<A> Padded<A> {
    pub(crate) const fn new(attributes: A) -> Self {
        Padded { attributes, more: [0; 8] }
    }

    pub(crate) const fn as_mut_ptr(&mut self) -> *mut A {
        (&raw mut *self).cast()
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "looks functions up in tables of its own")]
mod tests {
    use super::*;
    use crate::ofi::raw::Raw;

    #[test]
    fn an_older_table_has_no_later_function() {
        #[repr(C)]
        struct Table {
            size: usize,
            first: Option<fn()>,
            later: Option<fn()>,
        }
        struct Object {
            ops: *const Table,
        }
        let found = |size: Option<usize>| {
            let table = size.map(|size| Table { size, first: Some(|| {}), later: Some(|| {}) });
            let object = Object { ops: table.as_ref().map_or(core::ptr::null(), |table| &raw const *table) };
            let raw = Raw::opened(core::ptr::NonNull::from(&object));
            let first = entry!(raw, ops => first).is_ok();
            (first, later_entry!(raw, ops: Table => later).is_ok())
        };
        assert_eq!(found(None), (false, false));
        assert_eq!(found(Some(core::mem::offset_of!(Table, later))), (true, false));
        assert_eq!(found(Some(size_of::<Table>())), (true, true));
    }

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
