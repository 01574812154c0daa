//! `fi_getinfo`, `fi_freeinfo` and `fi_dupinfo` have the version `FABRIC_1.3`, with the structures
//! of 1.17. Their default versions have longer ones.

#![allow(unsafe_code, reason = "loads libfabric, and calls what it exports")]

#[cfg(libfabric_linked)]
mod linked;
#[cfg(not(libfabric_linked))]
mod loaded;

use core::ffi::{c_char, c_int, c_void};
use core::fmt;
use core::ptr;

use loom_core::vocabulary::Version;

#[cfg(libfabric_linked)]
use self::linked as way;
#[cfg(not(libfabric_linked))]
use self::loaded as way;
use super::ffi::text;
use super::info::query::{HEADERS, QueryError};
use super::sys;

/// The libfabric of this process.
///
/// With the feature `libfabric`, the first call of [`get`](Self::get) loads it for good:
/// 1. the file in the environment variable `LOOM_LIBFABRIC`, and no other
/// 2. a libfabric that the process has already
/// 3. `libfabric.so.1`, then `libfabric.so`, on the path of the dynamic loader
///
/// Programs with another user's rights (setuid) ignore the variable. With the feature
/// `libfabric-linked` it is the linked one.
///
/// ```
/// use loom_fabric::ofi::Library;
///
/// let library = Library::get()?;
/// println!("libfabric {} of {}", library.version(), library.path().unwrap_or("an unknown file"));
/// # Ok::<_, loom_fabric::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library(());

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident @ $version:literal: fn($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Library {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The requirements of the C function.
                pub unsafe fn $name(self, $($arg: $type),*) -> $result {
                    // SAFETY: a `Library` exists once the functions are there, with the signature
                    // of the C function. The caller guarantees its requirements.
                    unsafe { way::call!($name: fn($($arg: $type),*) -> $result) }
                }
            )*
        }

        #[cfg(not(libfabric_linked))]
        #[allow(non_upper_case_globals, reason = "the names of the functions")]
        mod slots {
            use core::ffi::c_void;
            use core::ptr;
            use core::sync::atomic::AtomicPtr;

            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());)*
        }

        #[cfg(not(libfabric_linked))]
        const EXPORTS: &[Export; 8] = &[$(Export {
            name: concat!(stringify!($name), "\0"),
            version: concat!($version, "\0"),
            slot: &slots::$name,
        }),*];
    };
}

/// An exported function. The texts end with a zero byte.
#[cfg(not(libfabric_linked))]
struct Export {
    name: &'static str,
    version: &'static str,
    slot: &'static core::sync::atomic::AtomicPtr<c_void>,
}

functions! {
    /// Queries infos.
    fi_getinfo @ "FABRIC_1.3": fn(
        version: u32, node: *const c_char, service: *const c_char, flags: u64, hints: *const sys::fi_info,
        info: *mut *mut sys::fi_info
    ) -> c_int;
    /// Frees a list of infos.
    fi_freeinfo @ "FABRIC_1.3": fn(info: *mut sys::fi_info) -> ();
    /// Copies an info, or allocates an empty one.
    fi_dupinfo @ "FABRIC_1.3": fn(info: *const sys::fi_info) -> *mut sys::fi_info;
    /// Opens a fabric.
    fi_fabric @ "FABRIC_1.1": fn(
        attr: *mut sys::fi_fabric_attr, fabric: *mut *mut sys::fid_fabric, context: *mut c_void
    ) -> c_int;
    /// Writes a structure as text.
    fi_tostr_r @ "FABRIC_1.4": fn(
        buf: *mut c_char, len: usize, data: *const c_void, datatype: sys::fi_type
    ) -> *mut c_char;
    /// Returns the environment variables that libfabric reads.
    fi_getparams @ "FABRIC_1.0": fn(params: *mut *mut sys::fi_param, count: *mut c_int) -> c_int;
    /// Frees the array of `fi_getparams`.
    fi_freeparams @ "FABRIC_1.0": fn(params: *mut sys::fi_param) -> ();
    /// Version of the interface.
    fi_version @ "FABRIC_1.0": fn() -> u32;
}

impl Library {
    /// Returns the libfabric of this process, which is loaded at the first call.
    ///
    /// # Errors
    /// - [`QueryError::LibraryNotFound`] if the dynamic loader gives none
    /// - [`QueryError::LibrarySymbol`] if it lacks a function
    /// - [`QueryError::LibraryTooOld`] before 1.17, or before the headers of a linked build
    pub fn get() -> Result<Self, QueryError> {
        way::find().map(|()| Library(()))
    }

    /// The library of an object that this module has made.
    pub(crate) fn of_object() -> Self {
        assert!(way::is_ready(), "libfabric is found before its objects are made");
        Library(())
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
        #[cfg(libfabric_linked)]
        let function = sys::fi_version as *const c_void;
        #[cfg(not(libfabric_linked))]
        let function = slots::fi_version.load(core::sync::atomic::Ordering::Relaxed);
        // SAFETY: null, or the name of a library that stays in the process.
        unsafe { text::read(file_of(function)) }
    }
}

fn check_version(version: Version) -> Result<(), QueryError> {
    if version < HEADERS { Err(QueryError::LibraryTooOld { headers: HEADERS, library: version }) } else { Ok(()) }
}

fn file_of(function: *const c_void) -> *const c_char {
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
    let mut info = DlInfo { file: ptr::null(), base: ptr::null_mut(), symbol: ptr::null(), address: ptr::null_mut() };
    // SAFETY: the address is compared, and the info is written during the call.
    unsafe { dladdr(function, &raw mut info) };
    info.file
}

pub(crate) fn write_reasons(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    way::write_reasons(f)
}
