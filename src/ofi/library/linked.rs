//! libfabric as the program was linked with it.

use core::ffi::c_void;
use core::fmt;

use crate::ofi::info::query::QueryError;
use crate::ofi::sys;

#[derive(Clone, Copy, Debug)]
pub(super) struct Handle;

/// Calls the function of the headers.
macro_rules! call {
    ($handle:expr, $name:ident @ $version:literal: fn($($arg:ident: $type:ty),*) -> $result:ty) => {
        crate::ofi::sys::$name($($arg),*)
    };
}
pub(super) use call;

impl Handle {
    pub(super) const fn get() -> Result<Self, QueryError> {
        Ok(Handle)
    }

    pub(super) const fn of_object() -> Self {
        Handle
    }

    pub(super) fn any_function(self) -> *const c_void {
        sys::fi_version as *const c_void
    }

    pub(super) fn write_attempts(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is linked")
    }
}
