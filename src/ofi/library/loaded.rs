//! libfabric as the dynamic loader finds it at run time.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use heapless::String;

use super::Library;
use crate::ofi::ffi::text;
use crate::ofi::info::query::QueryError;

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!(
    "the feature `libfabric` loads libfabric on 64-bit Linux with glibc: on other systems, use the feature `libfabric-linked`"
);

// In `libc.so` since glibc 2.34.
#[link(name = "dl")]
unsafe extern "C" {
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, symbol: *const c_char, version: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
    /// Null in programs with the rights of another user.
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

const RTLD_NOW: c_int = 2;

/// The variable with the path of a libfabric.
const VARIABLE: &CStr = c"LOOM_LIBFABRIC";

const NAMES: [&CStr; 2] = [c"libfabric.so.1", c"libfabric.so"];

/// Decided by the first thread that has found a library with all functions. Null before.
static DECIDED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Handle of the dynamic loader, for a library that stays in the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(NonNull<c_void>);

/// Looks the function up, and calls it.
macro_rules! call {
    ($handle:expr, $name:ident @ $version:literal: fn($($arg:ident: $type:ty),*) -> $result:ty) => {{
        let name = concat!(stringify!($name), "\0").as_ptr().cast();
        let function = $handle.checked_function(name, $version);
        core::mem::transmute::<core::ptr::NonNull<core::ffi::c_void>, unsafe extern "C" fn($($type),*) -> $result>(function)($($arg),*)
    }};
}
pub(super) use call;

impl Handle {
    pub(super) fn get() -> Result<Self, QueryError> {
        if let Some(decided) = Self::decided() {
            return Ok(decided);
        }
        let found = Self::find().ok_or(QueryError::LibraryNotFound)?;
        for (name, version) in Library::FUNCTIONS {
            if found.function(name.as_ptr(), version).is_none() {
                return Err(QueryError::LibrarySymbol {
                    symbol: name.to_str().unwrap_or(""),
                    version: version.to_str().unwrap_or(""),
                });
            }
        }
        // Another thread may have found another library meanwhile: the first one is for all.
        let _ = DECIDED.compare_exchange(ptr::null_mut(), found.0.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        Ok(Self::decided().unwrap_or(found))
    }

    pub(super) fn of_object() -> Self {
        match Self::decided() {
            Some(decided) => decided,
            None => panic!("an object of libfabric was made by this module, which has loaded it"),
        }
    }

    fn decided() -> Option<Self> {
        NonNull::new(DECIDED.load(Ordering::Acquire)).map(Handle)
    }

    fn find() -> Option<Self> {
        if let Some(path) = configured() {
            return Self::open(path.as_ptr());
        }
        Self::in_process().or_else(|| NAMES.iter().find_map(|name| Self::open(name.as_ptr())))
    }

    /// A libfabric that was linked or preloaded.
    fn in_process() -> Option<Self> {
        let program = Self::open(ptr::null())?;
        program.function(c"fi_getinfo".as_ptr(), c"FABRIC_1.3").map(|_| program)
    }

    fn open(file: *const c_char) -> Option<Self> {
        // SAFETY: null or a text. Constructors of the library run: the file is the choice of the
        // machine's administrator, or of the environment.
        NonNull::new(unsafe { dlopen(file, RTLD_NOW) }).map(Handle)
    }

    fn function(self, name: *const c_char, version: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is never closed, and the names are texts.
        NonNull::new(unsafe { dlvsym(self.0.as_ptr(), name, version.as_ptr()) })
    }

    /// A function that was there when the library was found.
    pub(super) fn checked_function(self, name: *const c_char, version: &CStr) -> NonNull<c_void> {
        match self.function(name, version) {
            Some(function) => function,
            None => panic!("a library that stays in the process has lost a function"),
        }
    }

    pub(super) fn any_function(self) -> *const c_void {
        self.checked_function(c"fi_version".as_ptr(), c"FABRIC_1.0").as_ptr()
    }

    pub(super) fn write_attempts(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = configured() {
            f.write_str("LOOM_LIBFABRIC names ")?;
            return attempt(f, path);
        }
        attempt(f, NAMES[0])?;
        NAMES[1..].iter().try_for_each(|name| {
            f.write_str("; ")?;
            attempt(f, name)
        })
    }
}

fn configured() -> Option<&'static CStr> {
    // SAFETY: the name is a text.
    let value = NonNull::new(unsafe { secure_getenv(VARIABLE.as_ptr()) })?;
    // SAFETY: a text of the environment, which stays until the variable is changed. The caller
    // passes it on at once.
    Some(unsafe { CStr::from_ptr(value.as_ptr()) }).filter(|value| !value.is_empty())
}

/// Writes the dynamic loader's answer, which begins with the file.
fn attempt(f: &mut fmt::Formatter<'_>, file: &CStr) -> fmt::Result {
    match Handle::open(file.as_ptr()) {
        Some(_) => write!(f, "{}: loaded", file.to_str().unwrap_or("the file")),
        None => {
            // SAFETY: null, or a text of this thread that stays until its next call of the loader.
            let reason = unsafe { text::read(dlerror()) }.unwrap_or("no reason");
            // A copy, because the formatter may call the loader.
            let mut copy = String::<512>::new();
            let _ = reason.chars().try_for_each(|letter| copy.push(letter));
            f.write_str(&copy)
        }
    }
}
