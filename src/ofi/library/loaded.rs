use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::mem::transmute;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use heapless::Vec;
use loom_core::vocabulary::Version;

use super::{EXPORTS, Export, check_version, file_of};
use crate::ofi::info::query::QueryError;

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(target_feature = "crt-static")
)))]
compile_error!(
    "the feature `libfabric` loads libfabric on Linux with glibc, on x86_64 and aarch64: use the feature `libfabric-linked` elsewhere"
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

const RTLD_NOW: c_int = 0x2;
const RTLD_NOLOAD: c_int = 0x4;
const RTLD_NODELETE: c_int = 0x1000;

const VARIABLE: &CStr = c"LOOM_LIBFABRIC";

const NAMES: [&CStr; 2] = [c"libfabric.so.1", c"libfabric.so"];

/// Decided by the first thread that has found a library. Null before.
static DECIDED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Reasons of the dynamic loader in the last search that found none.
static REASONS: spin::Mutex<Reasons> = spin::Mutex::new(Vec::new());

type Reasons = Vec<u8, 4096>;

/// The functions of the decided library are in [`EXPORTS`].
static READY: AtomicBool = AtomicBool::new(false);

macro_rules! call {
    ($name:ident: fn($($arg:ident: $type:ty),*) -> $result:ty) => {{
        let function = slots::$name.load(core::sync::atomic::Ordering::Relaxed);
        core::mem::transmute::<*mut core::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(function)($($arg),*)
    }};
}
pub(super) use call;

pub(super) fn find() -> Result<(), QueryError> {
    if is_ready() {
        return Ok(());
    }
    let found = search()?;
    // Another thread may have found another library: the first is for all.
    let decided = DECIDED.compare_exchange(ptr::null_mut(), found.0.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
    let decided = decided.err().and_then(NonNull::new).map_or(found, Handle);
    for export in EXPORTS {
        // Each thread stores the same.
        export.slot.store(decided.function(export)?.as_ptr(), Ordering::Relaxed);
    }
    READY.store(true, Ordering::Release);
    Ok(())
}

pub(super) fn is_ready() -> bool {
    READY.load(Ordering::Acquire)
}

fn search() -> Result<Handle, QueryError> {
    let mut reasons = Reasons::new();
    let mut open = |before: &[u8], name: &CStr| {
        let opened = Handle::open(name.as_ptr(), RTLD_NOW);
        if opened.is_none() {
            // SAFETY: no arguments. The result is null or a text of this thread.
            let text = NonNull::new(unsafe { dlerror() });
            // SAFETY: the text stays until this thread's next call of the loader.
            let text = text.map_or(&b""[..], |text| unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes());
            for byte in before.iter().chain(text) {
                let _ = reasons.push(*byte);
            }
        }
        opened
    };
    let opened = with_configured(|path| open(b"LOOM_LIBFABRIC names ", path)).unwrap_or_else(|| {
        let [first, second] = NAMES;
        Handle::in_process().or_else(|| open(b"", first)).or_else(|| open(b"; ", second))
    });
    let Some(library) = opened else {
        // A forked child does not wait for its parent's threads.
        if let Some(mut last) = REASONS.try_lock() {
            *last = reasons;
        }
        return Err(QueryError::LibraryNotFound);
    };
    library.check().map(|()| library)
}

/// Handle of a library, never closed.
#[derive(Clone, Copy)]
struct Handle(NonNull<c_void>);

impl Handle {
    fn open(file: *const c_char, mode: c_int) -> Option<Self> {
        // SAFETY: null or a text. Constructors of the library run: the administrator or the
        // environment chose the file.
        NonNull::new(unsafe { dlopen(file, mode) }).map(Handle)
    }

    /// A libfabric that was linked, preloaded, or loaded for all.
    fn in_process() -> Option<Self> {
        let [getinfo, ..] = EXPORTS;
        let function = Self::open(ptr::null(), RTLD_NOW)?.function(getinfo).ok()?;
        let file = NonNull::new(file_of(function.as_ptr()).cast_mut())?;
        // The program's handle would not keep the library in the process.
        let library = Self::open(file.as_ptr(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)?;
        library.check().is_ok().then_some(library)
    }

    fn function(self, export: &Export) -> Result<NonNull<c_void>, QueryError> {
        let find = |version: &str| {
            // SAFETY: the handle is never closed, and both texts end with a zero byte.
            NonNull::new(unsafe { dlvsym(self.0.as_ptr(), export.name.as_ptr().cast(), version.as_ptr().cast()) })
        };
        // A library without versions of symbols has each version, with structures of any length.
        let Export { name, version, .. } = export;
        let found = find(version).filter(|_| find("LOOM_0.0\0").is_none());
        let text = |text: &'static str| text.trim_end_matches('\0');
        found.ok_or(QueryError::LibrarySymbol { symbol: text(name), version: text(version), library: None })
    }

    fn check(self) -> Result<(), QueryError> {
        let [others @ .., version] = EXPORTS;
        let function = self.function(version)?;
        // SAFETY: `fi_version` has no arguments, and no state.
        let version = unsafe { transmute::<NonNull<c_void>, unsafe extern "C" fn() -> u32>(function)() };
        let running = Version::from_raw(version);
        check_version(running)?;
        others.iter().try_for_each(|export| match self.function(export) {
            Err(QueryError::LibrarySymbol { symbol, version, .. }) => {
                Err(QueryError::LibrarySymbol { symbol, version, library: Some(running) })
            }
            found => found.map(drop),
        })
    }
}

fn with_configured<R>(use_path: impl FnOnce(&CStr) -> R) -> Option<R> {
    // SAFETY: the name is a text.
    let value = NonNull::new(unsafe { secure_getenv(VARIABLE.as_ptr()) })?;
    // SAFETY: a text of the environment, which programs do not change beside other threads.
    let value = unsafe { CStr::from_ptr(value.as_ptr()) };
    (!value.is_empty()).then(|| use_path(value))
}

/// Writes the reasons, which begin with the file.
pub(super) fn write_reasons(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // A copy, because the formatter may search.
    let reasons = REASONS.try_lock().map_or(Reasons::new(), |last| last.clone());
    for chunk in reasons.utf8_chunks() {
        f.write_str(chunk.valid())?;
        if !chunk.invalid().is_empty() {
            f.write_str("\u{fffd}")?;
        }
    }
    Ok(())
}
