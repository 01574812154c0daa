#![allow(unsafe_code, reason = "calls `fi_getparams` and owns the list that it returns")]

use core::fmt;
use core::ptr::{self, NonNull};

use loom_core::vocabulary::ParamType;

use crate::ofi::ffi::call::done;
use crate::ofi::ffi::text;
use crate::ofi::info::query::QueryError;
use crate::ofi::library::Library;
use crate::ofi::sys;

/// Returns the environment variables of libfabric and its providers. Loads the providers.
///
/// ```
/// use loom_fabric::ofi;
///
/// let params = ofi::params()?;
/// for param in params.iter().filter(|param| param.value.is_some()) {
///     println!("{}={} ({})", param.name, param.value.unwrap_or(""), param.help);
/// }
/// assert!(params.iter().any(|param| param.name == "FI_LOG_LEVEL"));
/// # Ok::<_, loom_fabric::Error>(())
/// ```
///
/// # Errors
/// Those of [`Library::get`], and libfabric's.
///
/// # References
/// - `man fi_getparams`
#[doc(alias = "fi_getparams")]
pub fn params() -> Result<Params, QueryError> {
    let (mut raw, mut count) = (ptr::null_mut(), 0);
    // SAFETY: both pointers receive results, which we own.
    done(unsafe { Library::get()?.fi_getparams(&raw mut raw, &raw mut count) }).map_err(QueryError::Errno)?;
    let count = usize::try_from(count).unwrap_or(0);
    Ok(Params { raw: NonNull::new(raw), count })
}

/// Environment variables, see [`params`].
pub struct Params {
    /// Array of `count`, allocated by libfabric and owned.
    raw: Option<NonNull<sys::fi_param>>,
    count: usize,
}

// SAFETY: plain memory of the C allocator, which is not written.
unsafe impl Send for Params {}
// SAFETY: plain memory of the C allocator, which is not written.
unsafe impl Sync for Params {}

/// Environment variable.
#[doc(alias = "fi_param")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'p> {
    /// Name, such as `FI_LOG_LEVEL`.
    pub name: &'p str,
    /// Type of the value.
    pub kind: ParamType,
    /// Purpose.
    pub help: &'p str,
    /// Value, if it is set and UTF-8.
    pub value: Option<&'p str>,
}

impl Params {
    /// Iterates over the variables.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Param<'_>> {
        let raw = match self.raw {
            // SAFETY: an array of that length, owned, and not written.
            Some(raw) => unsafe { core::slice::from_raw_parts(raw.as_ptr(), self.count) },
            None => &[],
        };
        raw.iter().map(|param| {
            // SAFETY: null, or strings that belong to the array.
            let string = |text| unsafe { text::read(text) };
            Param {
                name: string(param.name).unwrap_or(""),
                kind: ParamType::from_raw(param.type_),
                help: string(param.help_string).unwrap_or(""),
                value: string(param.value),
            }
        })
    }
}

impl Drop for Params {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: owned, and freed here.
            unsafe { Library::of_object().fi_freeparams(raw.as_ptr()) };
        }
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
