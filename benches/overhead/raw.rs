//! The C side: `raw.c`, compiled when the benchmark starts, and called through a shared object.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::path::PathBuf;
use std::process::Command;

use libloading::{Library, Symbol};

use crate::sides::{Operation, SHORT, Side};

type Open = unsafe extern "C" fn(*const c_char, *const c_char, usize, *mut *mut c_void) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void);
type Run = unsafe extern "C" fn(*mut c_void, usize, c_long) -> c_int;

/// Two endpoints of one provider, driven by C.
pub(crate) struct Raw {
    library: Library,
    raw: *mut c_void,
    operations: [Run; Operation::ALL.len()],
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
    pub(crate) fn open(provider: &str, node: Option<&str>, size: usize) -> Result<Self, String> {
        let object = compile()?;
        // SAFETY: compiled above from our own source; loading it runs nothing.
        let loaded = unsafe { Library::new(&object) };
        let _ = std::fs::remove_file(&object);
        let library = loaded.map_err(|error| error.to_string())?;
        // SAFETY: the type is that of the definition in `raw.c`.
        let open = *unsafe { symbol::<Open>(&library, "raw_open") }?;
        // SAFETY: as above: all operations have one type.
        let run = |operation: Operation| unsafe { symbol::<Run>(&library, operation.raw_name()) }.map(|symbol| *symbol);
        let [message, tagged, inject, write, write_data, poll] = Operation::ALL.map(run);
        let operations = [message?, tagged?, inject?, write?, write_data?, poll?];
        let name = CString::new(provider).map_err(|error| error.to_string())?;
        let node = node.map(CString::new).transpose().map_err(|error| error.to_string())?;
        let node = node.as_ref().map_or(std::ptr::null(), |node| node.as_ptr());
        let mut raw = std::ptr::null_mut();
        // SAFETY: the arguments are as `raw_open` wants them.
        let code = unsafe { open(name.as_ptr(), node, size, &raw mut raw) };
        let mut side = Raw { library, raw, operations };
        if code != 0 {
            return Err(format!("C over {provider}: {}", loom_core::vocabulary::Errno::from_raw(-code)));
        }
        for operation in Operation::ALL {
            side.run(operation, 100);
        }
        Ok(side)
    }
}

/// # Safety
/// The symbol has this type.
unsafe fn symbol<'l, F>(library: &'l Library, name: &str) -> Result<Symbol<'l, F>, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name.as_bytes()) }.map_err(|error| error.to_string())
}

impl Side for Raw {
    fn run(&mut self, operation: Operation, count: u32) {
        let [message, tagged, inject, write, write_data, poll] = self.operations;
        let run = match operation {
            Operation::Message => message,
            Operation::Tagged => tagged,
            Operation::Inject => inject,
            Operation::Write => write,
            Operation::WriteData => write_data,
            Operation::PollEmpty => poll,
        };
        // SAFETY: `raw` is open; 64 bytes fit into its buffers.
        assert_eq!(unsafe { run(self.raw, SHORT, count.into()) }, 0, "{operation:?} in C");
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the type is that of the definition in `raw.c`.
        if let Ok(close) = unsafe { symbol::<Close>(&self.library, "raw_close") } {
            // SAFETY: open or null, and not used any more.
            unsafe { close(self.raw) };
        }
    }
}
