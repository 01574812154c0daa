use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{Ordering, fence};
use std::fs::{self, File, Permissions};
use std::hash::RandomState;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use loom_core::Error;
use rustix::fs::{
    CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, fallocate, flock, fstat, open,
    renameat_with, stat,
};
use rustix::io::Errno;
use rustix::time::{DynamicClockId, Timespec, clock_gettime_dynamic};
use serde_json::Value;

use super::memory::Memory;
use super::wire::{GrainHeader, put, take};
use super::{FlowDefinition, FlowFormat, FlowId, MxlError};
use crate::layout::FlowLayout;

const OVERWRITTEN: Error = Error::Invalid("the flow's writer has overwritten the data: send it sooner");
const DATA_LEN: usize = 2064;
/// Offsets in `data`.
pub(super) const HEAD: usize = 200;
pub(super) const LAST_WRITE: usize = 208;
const INODE: usize = 2048;
pub(super) const COUNTER: usize = 2056;
const MAX_JSON: u64 = 1 << 20;
const TRIES: usize = 16;

pub(crate) struct Files {
    pub(super) data: Memory,
    pub(super) ring: Memory,
    pub(super) definition: FlowDefinition,
    pub(super) layout: FlowLayout,
    /// Hints for commits, and for wake-ups of readers.
    pub(super) batches: (u32, u32),
    path: PathBuf,
    /// The first is `data`.
    locks: Vec<OwnedFd>,
    inode: u64,
    is_writer: bool,
}

/// Nanoseconds of TAI.
pub(super) fn now() -> u64 {
    let nanoseconds = |now: Timespec| i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, |now| u64::try_from(nanoseconds(now)).unwrap_or(0))
}

/// Deleted unless renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Renamed, or garbage.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Files {
    pub(super) fn create(domain: &Path, json: &str) -> Result<Self, MxlError> {
        let definition = FlowDefinition::parse(json)?;
        let layout = definition.layout(history_ns(domain)?)?;
        for _ in 0..TRIES {
            if let Some(files) = Self::build(domain, json, definition, layout)? {
                return Ok(files);
            }
            match Self::open(domain, definition.id, true) {
                Ok(files) if files.definition == definition => return Ok(files),
                Ok(_) => {
                    return Err(MxlError::Invalid(
                        "the flow exists with another rate or format: use another identifier, or its definition",
                    ));
                }
                // Being deleted.
                Err(MxlError::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Err(MxlError::Flow("other processes create and delete the flow all the time: try again later"))
    }

    /// `None` if the flow exists.
    fn build(
        domain: &Path,
        json: &str,
        definition: FlowDefinition,
        layout: FlowLayout,
    ) -> Result<Option<Self>, MxlError> {
        let random = RandomState::new().build_hasher().finish();
        let temporary = domain.join(format!(".mxl-tmp-{random:016x}"));
        fs::DirBuilder::new().mode(0o700).create(&temporary).map_err(MxlError::io("mkdir"))?;
        let temporary = Temporary(temporary);
        let (of, final_path) = (|name: &str| temporary.0.join(name), path(domain, definition.id));
        fs::write(of("flow_def.json"), json).map_err(MxlError::io("write"))?;
        if matches!(layout, FlowLayout::Grains(..)) {
            File::create(of("access")).map_err(MxlError::io("open"))?;
        }
        let file = allocate(&of("data"), DATA_LEN as u64)?;
        let inode = fstat(&file).map_err(MxlError::system("fstat"))?.st_ino;
        let mut locks = vec![file];
        let data = Memory::map(&locks, rustix::param::page_size(), true)?;
        let batches = batches(&definition, &layout);
        let header = header(&definition, &layout, batches, inode);
        data.window()
            .copy_from(0, &header)
            .map_err(|_| MxlError::Flow("a page is shorter than the header: use pages of 4 KiB or more"))?;
        let ring = match layout {
            FlowLayout::Grains(grain, slots) => {
                fs::create_dir(of("grains")).map_err(MxlError::io("mkdir"))?;
                let grains = (0..slots).map(|slot| allocate(&of(&format!("grains/data.{slot}")), grain.len()));
                locks.extend(grains.collect::<Result<Vec<_>, _>>()?);
                map(locks.get(1..).unwrap_or(&[]), &layout, true)?
            }
            FlowLayout::Samples(samples) => {
                locks.push(allocate(&of("channels"), samples.bytes())?);
                map(locks.get(1..).unwrap_or(&[]), &layout, true)?
            }
        };
        let files = Files { data, ring, definition, layout, batches, path: final_path, locks, inode, is_writer: true };
        if let FlowLayout::Grains(_, slots) = layout {
            (0..slots.into()).for_each(|slot| files.store_header(slot, 0, 0, false));
        }
        fs::set_permissions(&temporary.0, Permissions::from_mode(0o755)).map_err(MxlError::io("chmod"))?;
        match renameat_with(CWD, &temporary.0, CWD, &files.path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Some(files)),
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(None),
            Err(errno) => Err(MxlError::system("renameat2")(errno)),
        }
    }

    /// [`MxlError::Stale`] if the flow does not exist, or is being deleted.
    pub(super) fn open(domain: &Path, id: FlowId, is_writer: bool) -> Result<Self, MxlError> {
        let path = path(domain, id);
        let definition = FlowDefinition::parse(&read(&path.join("flow_def.json"))?)?;
        let (file, inode) = open_file(&path.join("data"), is_writer, DATA_LEN as u64)?;
        let mut locks = vec![file];
        let data = Memory::map(&locks, rustix::param::page_size(), is_writer)?;
        let mut header = [0; DATA_LEN];
        data.window()
            .copy_to(0, &mut header)
            .map_err(|_| MxlError::Flow("a page is shorter than the header: use pages of 4 KiB or more"))?;
        let word = |at| u32::from_ne_bytes(take(&header, at));
        if word(0) != 1 {
            return Err(MxlError::Flow("the flow's header has another version: use a writer of MXL 1"));
        }
        if u64::from_ne_bytes(take(&header, INODE)) != inode {
            return Err(MxlError::Stale);
        }
        let len = if matches!(definition.format, FlowFormat::Audio { .. }) { word(140) } else { word(152) };
        let layout = definition.with_ring(len).ok_or(MxlError::Flow(
            "the flow has an empty or too long ring: delete its directory, and create it again",
        ))?;
        let batches = (word(48), word(52));
        let own = self::header(&definition, &layout, batches, inode);
        // Of the definition and the ring.
        let shape = if matches!(layout, FlowLayout::Grains(..)) { 136..156 } else { 136..144 };
        let is_same = [8..28, 32..48, shape].into_iter().all(|range| header.get(range.clone()) == own.get(range));
        if definition.id != id || !is_same || batches.0 == 0 || batches.1 == 0 {
            return Err(MxlError::Flow(
                "the flow's header and definition differ: delete its directory, and create it again",
            ));
        }
        let ring = match layout {
            FlowLayout::Grains(grain, slots) => {
                let open = |slot| open_file(&path.join(format!("grains/data.{slot}")), is_writer, grain.len());
                let grains = (0..slots).map(|slot| Ok(open(slot)?.0)).collect::<Result<Vec<_>, _>>()?;
                let ring = map(&grains, &layout, is_writer)?;
                locks.extend(grains.into_iter().filter(|_| is_writer));
                ring
            }
            FlowLayout::Samples(samples) => {
                let (channels, _) = open_file(&path.join("channels"), is_writer, samples.bytes())?;
                locks.push(channels);
                map(locks.get(1..).unwrap_or(&[]), &layout, is_writer)?
            }
        };
        let files = Files { data, ring, definition, layout, batches, path, locks, inode, is_writer };
        if files.is_stale() { Err(MxlError::Stale) } else { Ok(files) }
    }

    pub(super) fn is_stale(&self) -> bool {
        stat(self.path.join("data")).map_or(true, |data| data.st_ino != self.inode)
    }

    pub(crate) fn head(&self) -> u64 {
        self.data.load(HEAD)
    }

    /// Fails if a writer may have changed the grain or the samples.
    pub(crate) fn check(&self, number: u64) -> Result<(), Error> {
        // After copies.
        fence(Ordering::Acquire);
        let is_later = self.load_header(number).is_some_and(|header| header.index > number);
        if is_later || number < self.oldest(self.head()) { Err(OVERWRITTEN) } else { Ok(()) }
    }

    /// The oldest slot, and half of the samples, belong to writers.
    pub(crate) fn oldest(&self, head: u64) -> u64 {
        match self.layout {
            FlowLayout::Grains(_, slots) => head.saturating_sub(u64::from(slots).saturating_sub(2)),
            FlowLayout::Samples(layout) => head.saturating_sub(u64::from(layout.len / 2)),
        }
    }

    pub(super) fn slot(&self, index: u64) -> Option<usize> {
        let FlowLayout::Grains(layout, slots) = self.layout else { return None };
        usize::try_from(index % u64::from(slots) * layout.stride()).ok()
    }

    pub(super) fn load_header(&self, index: u64) -> Option<GrainHeader> {
        let (at, mut bytes) = (self.slot(index)?, [0; 32]);
        for (offset, word) in (at..).step_by(8).zip(bytes.chunks_exact_mut(8)) {
            word.copy_from_slice(&self.ring.load(offset).to_ne_bytes());
        }
        GrainHeader::from_bytes(bytes.first_chunk()?)
    }

    /// Bytes of the application stay.
    pub(super) fn store_header(&self, index: u64, shown: u64, valid: u16, is_invalid: bool) {
        let (FlowLayout::Grains(layout, _), Some(at)) = (self.layout, self.slot(index)) else { return };
        let is_later = |later: u64| later > shown && later != u64::MAX && self.slot(later) == Some(at);
        if self.load_header(index).is_some_and(|header| is_later(header.index)) {
            return;
        }
        let grain_size = u32::try_from(layout.payload_len()).unwrap_or(u32::MAX);
        let header = GrainHeader { index: shown, is_invalid, grain_size, total: layout.slices, valid };
        let mut bytes = [0; 32];
        put(&mut bytes, 24, self.ring.load(at + 24).to_ne_bytes());
        put(&mut bytes, 0, header.to_bytes());
        for (offset, word) in (at..).step_by(8).zip(bytes.chunks_exact(8)) {
            let word = u64::from_ne_bytes(take(word, 0));
            // A peer may write the index of a later grain meanwhile.
            if self.ring.load(offset) != word {
                self.ring.store(offset, word);
            }
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let Some(data) = self.locks.first().filter(|_| self.is_writer) else { return };
        if flock(data, FlockOperation::NonBlockingLockExclusive).is_ok() && !self.is_stale() {
            // The rest is garbage.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn path(domain: &Path, id: FlowId) -> PathBuf {
    domain.join(format!("{id}.mxl-flow"))
}

fn history_ns(domain: &Path) -> Result<u64, MxlError> {
    const KEY: &str = "urn:x-mxl:option:history_duration/v1.0";
    let json = match read(&domain.join("options.json")) {
        Err(MxlError::Stale) => return Ok(200_000_000),
        json => json?,
    };
    let options: Value = serde_json::from_str(&json).map_err(|_| MxlError::Definition("options.json"))?;
    options.get(KEY).map_or(Some(200_000_000), Value::as_u64).ok_or(MxlError::Definition(KEY))
}

/// New file, locked.
fn allocate(path: &Path, len: u64) -> Result<OwnedFd, MxlError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o664)).map_err(MxlError::system("open"))?;
    fallocate(&file, FallocateFlags::empty(), 0, len).map_err(MxlError::system("fallocate"))?;
    flock(&file, FlockOperation::NonBlockingLockShared).map_err(MxlError::system("flock"))?;
    Ok(file)
}

/// Existing file, and its inode. Writers lock it.
fn open_file(path: &Path, is_writer: bool, len: u64) -> Result<(OwnedFd, u64), MxlError> {
    let access = if is_writer { OFlags::RDWR } else { OFlags::RDONLY };
    // A pipe would block.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Err(MxlError::Stale),
        file => file.map_err(MxlError::system("open"))?,
    };
    if is_writer {
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            // Being deleted.
            Err(Errno::WOULDBLOCK) => return Err(MxlError::Stale),
            locked => locked.map_err(MxlError::system("flock"))?,
        }
    }
    let found = fstat(&file).map_err(MxlError::system("fstat"))?;
    let is_long = u64::try_from(found.st_size).is_ok_and(|size| size >= len);
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || !is_long {
        return Err(MxlError::Flow(
            "a file of the flow is too short, or not a regular file: delete its directory, and create it again",
        ));
    }
    Ok((file, found.st_ino))
}

fn read(path: &Path) -> Result<String, MxlError> {
    let (file, _) = open_file(path, false, 0)?;
    let mut text = String::new();
    match File::from(file).take(MAX_JSON).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) if error.raw_os_error().is_none() => Err(MxlError::Definition("JSON")),
        Err(error) => Err(MxlError::io("read")(error)),
    }
}

fn map(files: &[OwnedFd], layout: &FlowLayout, writable: bool) -> Result<Memory, MxlError> {
    let stride = match layout {
        FlowLayout::Grains(layout, _) => layout.stride(),
        FlowLayout::Samples(layout) => layout.bytes().next_multiple_of(rustix::param::page_size() as u64),
    };
    Memory::map(files, usize::try_from(stride).unwrap_or(0), writable)
}

/// MXL's defaults.
fn batches(definition: &FlowDefinition, layout: &FlowLayout) -> (u32, u32) {
    let batch = match layout {
        FlowLayout::Grains(layout, _) => u32::from(layout.slices),
        FlowLayout::Samples(_) => (definition.rate.numerator / definition.rate.denominator / 100).max(1),
    };
    (batch, batch)
}

fn header(definition: &FlowDefinition, layout: &FlowLayout, batches: (u32, u32), inode: u64) -> [u8; DATA_LEN] {
    let mut bytes = [0; DATA_LEN];
    let mut word = |at, value: u32| put(&mut bytes, at, value.to_ne_bytes());
    let format = match definition.format {
        FlowFormat::Video(_) => 1,
        FlowFormat::Audio { .. } => 2,
        FlowFormat::Data(_) => 3,
    };
    for (at, value) in [(0, 1), (4, 2048), (24, format), (48, batches.0), (52, batches.1), (60, u32::MAX)] {
        word(at, value);
    }
    match layout {
        FlowLayout::Grains(layout, slots) => {
            (136..).step_by(4).zip(layout.slice_len).for_each(|(at, len)| word(at, len));
            word(152, *slots);
        }
        FlowLayout::Samples(layout) => {
            word(136, layout.channels.into());
            word(140, layout.len);
        }
    }
    put(&mut bytes, 8, definition.id.0);
    put(&mut bytes, 32, i64::from(definition.rate.numerator).to_ne_bytes());
    put(&mut bytes, 40, i64::from(definition.rate.denominator).to_ne_bytes());
    put(&mut bytes, LAST_WRITE, now().to_ne_bytes());
    put(&mut bytes, LAST_WRITE + 8, now().to_ne_bytes());
    put(&mut bytes, INODE, inode.to_ne_bytes());
    bytes
}
