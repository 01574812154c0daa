use core::fmt::{Arguments, Write};
use core::ops::{Deref, DerefMut};
use core::str::FromStr;

use allocator_api2::alloc::Allocator;
use heapless::String;
use loom_core::error::OpenError;
use loom_core::storage::Array;

/// Folder `/sys` of Linux. Paths are relative to it.
///
/// A slice of paths and texts is a recorded one. The text of a link is its target.
///
/// ```
/// use loom_transfer::topology::SysFs;
///
/// let sys = &[("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0"), ("class/net/eth0/speed", "25000\n")][..];
/// let mut buffer = [0; 64];
/// assert_eq!(sys.read("class/net/eth0/speed", &mut buffer), Some(6));
/// sys.list("class/net", &mut |name| assert_eq!(name, "eth0"));
/// assert_eq!(sys.resolve("class/net/eth0/device", &mut buffer), Some(31));
/// ```
pub trait SysFs {
    /// Reads the begin of a file. Returns the number of bytes, or `None` if it cannot be read.
    fn read(&self, path: &str, buffer: &mut [u8]) -> Option<usize>;

    /// Passes each name in a folder, in any order.
    fn list(&self, path: &str, each: &mut dyn FnMut(&str));

    /// Writes the real path behind a link. Returns its length, or `None` if it does not fit.
    fn resolve(&self, path: &str, buffer: &mut [u8]) -> Option<usize>;
}

fn child<'p>(file: &'p str, folder: &str) -> Option<&'p str> {
    file.strip_prefix(folder)?.strip_prefix('/')?.split('/').next()
}

impl<P: AsRef<str>, T: AsRef<str>> SysFs for [(P, T)] {
    fn read(&self, path: &str, buffer: &mut [u8]) -> Option<usize> {
        let (_, text) = self.iter().find(|(name, _)| name.as_ref() == path)?;
        let len = text.as_ref().len().min(buffer.len());
        buffer.get_mut(..len)?.copy_from_slice(text.as_ref().as_bytes().get(..len)?);
        Some(len)
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str)) {
        for (at, (file, _)) in self.iter().enumerate() {
            let Some(name) = child(file.as_ref(), path) else { continue };
            if self.iter().take(at).all(|(earlier, _)| child(earlier.as_ref(), path) != Some(name)) {
                each(name);
            }
        }
    }

    fn resolve(&self, path: &str, buffer: &mut [u8]) -> Option<usize> {
        self.read(path, buffer).filter(|len| *len < buffer.len())
    }
}

/// Maximum length of a path in bytes.
const PATH: usize = 512;
/// Maximum number of devices of a kind.
const ENTRIES: usize = 4096;

fn path(path: Arguments<'_>) -> Option<String<PATH>> {
    let mut text = String::new();
    text.write_fmt(path).ok().map(|()| text)
}

/// Trimmed text of a file that is shorter than the buffer.
pub(super) fn text<'b>(sys: &(impl SysFs + ?Sized), file: Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b str> {
    let len = sys.read(&path(file)?, buffer).filter(|len| *len < buffer.len())?;
    core::str::from_utf8(buffer.get(..len)?).ok().map(str::trim)
}

pub(super) fn number<V: FromStr>(sys: &(impl SysFs + ?Sized), file: Arguments<'_>) -> Option<V> {
    text(sys, file, &mut [0; 32])?.parse().ok()
}

pub(super) fn resolved<V>(sys: &(impl SysFs + ?Sized), link: Arguments<'_>, read: impl FnOnce(&str) -> V) -> Option<V> {
    let mut buffer = [0; PATH];
    let len = sys.resolve(&path(link)?, &mut buffer)?;
    core::str::from_utf8(buffer.get(..len)?).ok().map(read)
}

/// Values of a scan, which first counts them. Later ones are left out.
pub(super) fn collect<V: Copy + Default, A: Allocator>(
    alloc: A,
    scan: impl Fn(&mut dyn FnMut(V)),
) -> Result<List<V, A>, OpenError> {
    let mut count = 0;
    scan(&mut |_| count += 1);
    if count > ENTRIES {
        return Err(OpenError::Size);
    }
    let mut list = List { values: Array::new_in(count, alloc, |_| V::default())?, len: 0 };
    scan(&mut |value| {
        if let Some(place) = list.values.get_mut(list.len) {
            *place = value;
            list.len += 1;
        }
    });
    Ok(list)
}

#[derive(Debug)]
pub(super) struct List<V, A: Allocator> {
    values: Array<V, A>,
    len: usize,
}

impl<V, A: Allocator> List<V, A> {
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<V, A: Allocator> Deref for List<V, A> {
    type Target = [V];

    fn deref(&self) -> &[V] {
        self.values.get(..self.len).unwrap_or_default()
    }
}

impl<V, A: Allocator> DerefMut for List<V, A> {
    fn deref_mut(&mut self) -> &mut [V] {
        self.values.get_mut(..self.len).unwrap_or_default()
    }
}
