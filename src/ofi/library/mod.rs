//! [`Library`]: the libfabric of this process.
//!
//! `fi_getinfo`, `fi_freeinfo` and `fi_dupinfo` have the version `FABRIC_1.3`, with the structures
//! of libfabric 1.17, which later versions keep. Their default versions have longer structures.

#![allow(unsafe_code, reason = "loads libfabric, and calls what it exports")]

#[cfg(libfabric_linked)]
mod linked;
#[cfg(not(libfabric_linked))]
mod loaded;

use core::ffi::{c_char, c_int, c_void};
use core::fmt;

#[cfg(libfabric_linked)]
use self::linked::{Handle, call};
#[cfg(not(libfabric_linked))]
use self::loaded::{Handle, call};
use super::ffi::text;
use super::info::query::{HEADERS, QueryError};
use super::sys;
use crate::loom_core::vocabulary::Version;

/// The libfabric of this process.
///
/// With the feature `libfabric`, the first call of [`get`](Self::get) loads it, and it stays in the
/// process:
/// 1. the file in the environment variable `LOOM_LIBFABRIC`, and no other
/// 2. a libfabric that the process has already
/// 3. `libfabric.so.1`, then `libfabric.so`, on the path of the dynamic loader
///
/// With the feature `libfabric-linked` it is the linked one.
///
/// ```
/// use loom_fabric::ofi::Library;
///
/// let library = Library::get()?;
/// println!("libfabric {} of {}", library.version(), library.path().unwrap_or("an unknown file"));
/// # Ok::<_, loom_fabric::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Library(Handle);

/// Exported functions: name, version of the symbol, signature.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident @ $version:literal: fn($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Library {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The requirements of the C function.
                pub unsafe fn $name(self, $($arg: $type),*) -> $result {
                    // SAFETY: the signature is that of the C function. The caller guarantees its
                    // requirements.
                    unsafe { call!(self.0, $name @ $version: fn($($arg: $type),*) -> $result) }
                }
            )*

            /// Names and versions of the functions.
            #[cfg(not(libfabric_linked))]
            const FUNCTIONS: &[(&core::ffi::CStr, &core::ffi::CStr)] = &[$((
                // SAFETY: a text without another zero byte.
                unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                $version,
            )),*];
        }
    };
}

functions! {
    /// Queries infos.
    fi_getinfo @ c"FABRIC_1.3": fn(
        version: u32, node: *const c_char, service: *const c_char, flags: u64, hints: *const sys::fi_info,
        info: *mut *mut sys::fi_info
    ) -> c_int;
    /// Frees a list of infos.
    fi_freeinfo @ c"FABRIC_1.3": fn(info: *mut sys::fi_info) -> ();
    /// Copies an info, or allocates an empty one.
    fi_dupinfo @ c"FABRIC_1.3": fn(info: *const sys::fi_info) -> *mut sys::fi_info;
    /// Opens a fabric.
    fi_fabric @ c"FABRIC_1.1": fn(
        attr: *mut sys::fi_fabric_attr, fabric: *mut *mut sys::fid_fabric, context: *mut c_void
    ) -> c_int;
    /// Returns the version of the interface.
    fi_version @ c"FABRIC_1.0": fn() -> u32;
    /// Writes a structure as text.
    fi_tostr_r @ c"FABRIC_1.4": fn(
        buf: *mut c_char, len: usize, data: *const c_void, datatype: sys::fi_type
    ) -> *mut c_char;
    /// Returns the environment variables that libfabric reads.
    fi_getparams @ c"FABRIC_1.0": fn(params: *mut *mut sys::fi_param, count: *mut c_int) -> c_int;
    /// Frees the array of `fi_getparams`.
    fi_freeparams @ c"FABRIC_1.0": fn(params: *mut sys::fi_param) -> ();
}

impl Library {
    /// Returns the libfabric of this process, which is loaded at the first call.
    ///
    /// # Errors
    /// - [`QueryError::LibraryNotFound`] if the dynamic loader gives none
    /// - [`QueryError::LibrarySymbol`] if it lacks a function
    /// - [`QueryError::LibraryTooOld`] before 1.17, or before the headers of a linked build
    pub fn get() -> Result<Self, QueryError> {
        let library = Library(Handle::get()?);
        let version = library.version();
        if version < HEADERS {
            return Err(QueryError::LibraryTooOld { headers: HEADERS, library: version });
        }
        Ok(library)
    }

    /// The library of an object of libfabric, which exists.
    pub(crate) fn of_object() -> Self {
        Library(Handle::of_object())
    }

    /// Version of the library, which may be newer than the [headers](super::headers_version).
    ///
    /// # References
    /// - `man fi_version`
    #[must_use]
    pub fn version(self) -> Version {
        // SAFETY: no arguments, no state.
        Version::from_raw(unsafe { self.fi_version() })
    }

    /// Path of the library's file, if it is UTF-8.
    #[must_use]
    pub fn path(self) -> Option<&'static str> {
        #[repr(C)]
        struct DlInfo {
            file: *const c_char,
            base: *mut c_void,
            symbol: *const c_char,
            address: *mut c_void,
        }
        unsafe extern "C" {
            fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
        }
        let mut info = DlInfo {
            file: core::ptr::null(),
            base: core::ptr::null_mut(),
            symbol: core::ptr::null(),
            address: core::ptr::null_mut(),
        };
        // SAFETY: the address is compared, and the info is written during the call.
        let found = unsafe { dladdr(self.0.any_function(), &raw mut info) };
        // SAFETY: null, or the name of a library that stays in the process.
        (found != 0).then(|| unsafe { text::read(info.file) }).flatten()
    }
}

/// Writes the files that were tried, and the answers of the dynamic loader.
pub(crate) fn write_attempts(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    Handle::write_attempts(f)
}
