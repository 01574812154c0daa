use core::fmt;

use loom_core::vocabulary::Version;

use super::check_version;
use crate::ofi::info::query::QueryError;
use crate::ofi::sys;

macro_rules! call {
    ($name:ident: fn($($arg:ident: $type:ty),*) -> $result:ty) => {
        sys::$name($($arg),*)
    };
}
pub(super) use call;

pub(super) fn find() -> Result<(), QueryError> {
    // SAFETY: no arguments, no state.
    check_version(Version::from_raw(unsafe { sys::fi_version() }))
}

pub(super) const fn is_ready() -> bool {
    true
}

pub(super) fn write_reasons(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("it is linked")
}
