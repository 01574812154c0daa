//! The C side: `raw.c`, compiled when the benchmark starts, and called through a shared object.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::path::PathBuf;
use std::process::Command;

use libloading::{Library, Symbol};

use crate::sides::Side;

type Open = unsafe extern "C" fn(*const c_char, usize, *mut *mut c_void) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void);
type Transfer = unsafe extern "C" fn(*mut c_void, usize, c_long) -> c_int;
type Poll = unsafe extern "C" fn(*mut c_void, c_long) -> c_int;

/// Two endpoints of one provider, driven by C.
pub(crate) struct Raw {
    library: Library,
    raw: *mut c_void,
    tagged: Transfer,
    write: Transfer,
    poll_empty: Poll,
}

/// Compiles the C side with `cc -O2`.
fn compile() -> Result<PathBuf, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/overhead/raw.c");
    let object = std::env::temp_dir().join(format!("loom-overhead-{}.so", std::process::id()));
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&object)
        .args([source, "-lfabric"])
        .status()
        .map_err(|error| format!("the C compiler: {error}; install gcc, or name one in CC"))?;
    if status.success() { Ok(object) } else { Err(format!("the C compiler: {status}")) }
}

impl Raw {
    pub(crate) fn open(provider: &str, size: usize) -> Result<Self, String> {
        let object = compile()?;
        // SAFETY: compiled above from our own source; loading it runs nothing.
        let loaded = unsafe { Library::new(&object) };
        let _ = std::fs::remove_file(&object);
        let library = loaded.map_err(|error| error.to_string())?;
        // SAFETY: the type is that of the definition in `raw.c`.
        let open = *unsafe { symbol::<Open>(&library, b"raw_open\0") }?;
        // SAFETY: as above.
        let tagged = *unsafe { symbol::<Transfer>(&library, b"raw_tagged\0") }?;
        // SAFETY: as above.
        let write = *unsafe { symbol::<Transfer>(&library, b"raw_write\0") }?;
        // SAFETY: as above.
        let poll_empty = *unsafe { symbol::<Poll>(&library, b"raw_poll_empty\0") }?;
        let name = CString::new(provider).map_err(|error| error.to_string())?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the arguments are as `raw_open` wants them.
        let code = unsafe { open(name.as_ptr(), size, &raw mut raw) };
        let mut side = Raw { library, raw, tagged, write, poll_empty };
        if code != 0 {
            return Err(format!("C over {provider}: {}", loom_core::vocabulary::Errno::from_raw(-code)));
        }
        side.tagged(1000);
        side.write(100);
        Ok(side)
    }
}

/// # Safety
/// The symbol has this type.
unsafe fn symbol<'l, F>(library: &'l Library, name: &[u8]) -> Result<Symbol<'l, F>, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name) }.map_err(|error| error.to_string())
}

impl Side for Raw {
    fn tagged(&mut self, count: u32) {
        // SAFETY: `raw` is open; 64 bytes fit into its buffers.
        assert_eq!(unsafe { (self.tagged)(self.raw, 64, count.into()) }, 0);
    }

    fn write(&mut self, count: u32) {
        // SAFETY: as above.
        assert_eq!(unsafe { (self.write)(self.raw, 64, count.into()) }, 0);
    }

    fn poll_empty(&mut self, count: u32) {
        // SAFETY: as above.
        assert_eq!(unsafe { (self.poll_empty)(self.raw, count.into()) }, 0);
    }

    fn large(&mut self, _: u32) {
        unreachable!("bandwidth is measured beside memcpy");
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the type is that of the definition in `raw.c`.
        if let Ok(close) = unsafe { symbol::<Close>(&self.library, b"raw_close\0") } {
            // SAFETY: open or null, and not used any more.
            unsafe { close(self.raw) };
        }
    }
}
