use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use super::SysFs;

/// Folder of files like `/sys`.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_transfer::topology::{SysFolder, Topology};
///
/// let topology = Topology::read_in(&SysFolder::default(), Global)?;
/// assert!(topology.cards().iter().all(|card| !card.name().is_empty()));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysFolder(PathBuf);

impl SysFolder {
    /// A copy of `/sys` in another folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        SysFolder(root.into())
    }
}

impl Default for SysFolder {
    /// `/sys`.
    fn default() -> Self {
        SysFolder::new("/sys")
    }
}

impl SysFs for SysFolder {
    fn read(&self, path: &str, buffer: &mut [u8]) -> Option<usize> {
        let mut file = File::open(self.0.join(path)).ok()?;
        let mut len = 0;
        while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match file.read(rest).ok()? {
                0 => break,
                read => len += read,
            }
        }
        Some(len)
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str)) {
        for entry in fs::read_dir(self.0.join(path)).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str() {
                each(name);
            }
        }
    }

    fn resolve(&self, path: &str, buffer: &mut [u8]) -> Option<usize> {
        let real = fs::canonicalize(self.0.join(path)).ok()?;
        let real = real.to_str()?.as_bytes();
        buffer.get_mut(..real.len())?.copy_from_slice(real);
        Some(real.len())
    }
}
