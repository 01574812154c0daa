//! libfabric's address vectors, in `raw.c`, which is compiled when the benchmark starts and called
//! through a shared object.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::mem;
use std::process::Command;

use libloading::Library;
use loom_core::vocabulary::{EndpointAddr, Errno};

use crate::work::{Times, Work, timed};

type Open = unsafe extern "C" fn(*const c_char, *const c_char, usize, *mut *mut c_void) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void);
type Insert = unsafe extern "C" fn(*mut c_void, *const u8, usize, c_long) -> c_long;
type Lookup = unsafe extern "C" fn(*mut c_void, *const c_uint, c_long, *const u8, usize) -> c_long;
type Remove = unsafe extern "C" fn(*mut c_void, *const c_uint, c_long) -> c_long;
type Heap = unsafe extern "C" fn() -> usize;

/// Functions of `raw.c`, which stays loaded.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    open: Open,
    close: Close,
    insert: Insert,
    lookup: Lookup,
    remove: Remove,
    heap: Heap,
}

/// # Safety
/// The symbol has this type.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name.as_bytes()) }.map(|symbol| *symbol).map_err(|error| error.to_string())
}

/// Compiles the C side with `cc -O2`, and loads it.
pub(crate) fn functions() -> Result<Functions, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/address_table/raw.c");
    let object = std::env::temp_dir().join(format!("loom-address-table-{}.so", std::process::id()));
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&object)
        .args([source, "-lfabric"])
        .status()
        .map_err(|error| format!("the C compiler: {error}; install gcc, or name one in CC"))?;
    if !status.success() {
        return Err(format!("the C compiler: {status}"));
    }
    // SAFETY: compiled above from our own source. Loading it runs no code.
    let loaded = unsafe { Library::new(&object) };
    let _ = std::fs::remove_file(&object);
    let library = loaded.map_err(|error| error.to_string())?;
    // SAFETY: the types are those of the definitions in `raw.c`, here and below.
    let open = unsafe { symbol(&library, "raw_open") }?;
    // SAFETY: as above.
    let close = unsafe { symbol(&library, "raw_close") }?;
    // SAFETY: as above.
    let insert = unsafe { symbol(&library, "raw_insert") }?;
    // SAFETY: as above.
    let lookup = unsafe { symbol(&library, "raw_lookup") }?;
    // SAFETY: as above.
    let remove = unsafe { symbol(&library, "raw_remove") }?;
    // SAFETY: as above.
    let heap = unsafe { symbol(&library, "raw_heap") }?;
    mem::forget(library);
    Ok(Functions { open, close, insert, lookup, remove, heap })
}

/// Open address vector of a provider.
struct Vector {
    functions: Functions,
    raw: *mut c_void,
}

impl Drop for Vector {
    fn drop(&mut self) {
        // SAFETY: open, and not used afterwards.
        unsafe { (self.functions.close)(self.raw) };
    }
}

/// Addresses of peers, and the provider of their vector.
pub(crate) struct Raw {
    functions: Functions,
    provider: &'static CStr,
    node: Option<&'static CStr>,
    /// Addresses in succession, `STRIDE` bytes each.
    addresses: Vec<u8>,
}

/// Bytes for an address.
const STRIDE: usize = 64;

/// Maximum number of peers removed in a round: `ofi_rxm` visits all free entries for each.
const REMOVED: usize = 1000;

impl Raw {
    pub(crate) fn new(
        functions: Functions,
        provider: &'static CStr,
        node: Option<&'static CStr>,
        addresses: impl ExactSizeIterator<Item = EndpointAddr>,
    ) -> Self {
        let mut together = vec![0; addresses.len() * STRIDE];
        for (place, address) in together.chunks_exact_mut(STRIDE).zip(addresses) {
            place[..address.bytes().len()].copy_from_slice(address.bytes());
        }
        Raw { functions, provider, node, addresses: together }
    }

    /// Runs one round of all operations except look-up by address, in a new vector. Returns the
    /// times and the bytes per peer.
    pub(crate) fn round(&self, work: &Work) -> Result<(Times, f64), String> {
        let Functions { open, insert, lookup, remove, heap, .. } = self.functions;
        let (addresses, order) = (self.addresses.as_ptr(), work.order.as_ptr());
        let count = self.addresses.len() / STRIDE;
        let len = c_long::try_from(count).map_err(|error| error.to_string())?;
        assert_eq!(count, work.order.len());
        let node = self.node.map_or(std::ptr::null(), CStr::as_ptr);
        let mut raw = std::ptr::null_mut();
        // SAFETY: no argument.
        let before = unsafe { heap() };
        // SAFETY: the arguments meet the requirements of `raw_open`.
        let code = unsafe { open(self.provider.as_ptr(), node, count, &raw mut raw) };
        if code != 0 {
            return Err(format!("C over {}: {}", self.provider.to_string_lossy(), Errno::from_raw(-code)));
        }
        let vector = Vector { functions: self.functions, raw };
        let mut inserted = 0;
        let insert = timed(count, || {
            // SAFETY: the vector is open, and `addresses` contains `len` addresses.
            inserted = unsafe { insert(vector.raw, addresses, STRIDE, len) };
        });
        if inserted != len {
            return Err(format!("{} takes {inserted} peers of {len}", self.provider.to_string_lossy()));
        }
        // SAFETY: no argument.
        let bytes = unsafe { heap() }.saturating_sub(before) as f64 / count as f64;
        let lookup = timed(count, || {
            // SAFETY: the vector is open and has these peers, and `addresses` contains theirs.
            assert_eq!(unsafe { lookup(vector.raw, order, len, addresses, STRIDE) }, len);
        });
        let removed = count.min(REMOVED);
        let remove = timed(removed, || {
            // SAFETY: the vector is open, and has these peers.
            let there = unsafe { remove(vector.raw, order, removed as c_long) };
            assert_eq!(usize::try_from(there), Ok(removed));
        });
        Ok((Times { insert, lookup, reverse: f64::NAN, remove }, bytes))
    }
}
