#![allow(unsafe_code, reason = "calls libfabric, and reads what it wrote")]

use core::ffi::{c_char, c_int};
use core::ptr::{self, NonNull};
use core::slice;

use loom_core::transport::connected::{EqAttr, EqEntry, Fault, Fid};
use loom_core::vocabulary::{CmData, Errno, EventKind};

use crate::ofi::control::{close, opened, try_wait, wait_fd};
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{entry, errno};
use crate::ofi::ffi::text;
use crate::ofi::info::RawInfo;
use crate::ofi::raw::Raw;
use crate::ofi::threading::Handle;
use crate::ofi::{quirks, sys};

/// An event queue, raw.
#[doc(alias = "fid_eq")]
#[derive(Debug)]
pub struct Eq<L>(Handle<sys::fid_eq, L>);

/// A peer's connection request, raw: the value of `fi_info.handle`.
#[derive(Debug)]
pub struct Request(pub(crate) NonNull<sys::fid>);

#[derive(Debug)]
pub(crate) enum Read {
    Request { listener: Fid, info: RawInfo, request: Request },
    Connected(Fid),
    Shutdown(Fid),
    Joined { group: Fid, context: u64 },
    Entry(EqEntry),
    Failed(Fault),
    Other(EventKind),
}

impl<L> Eq<L> {
    pub(crate) const fn of(raw: Raw<sys::fid_eq>) -> Self {
        Eq(Handle::new(raw))
    }

    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

pub(crate) fn named(fid: *const sys::fid) -> Fid {
    Fid(fid.addr() as u64)
}

pub(crate) unsafe fn open<L>(domain: &Domain<L>, attr: EqAttr) -> Result<Eq<L>, Errno> {
    if !quirks::can_sleep(attr.wait, true) {
        return Err(Errno::ENOSYS);
    }
    let fabric = domain.fabric();
    let open = entry!(fabric, ops => eq_open)?;
    let mut attributes = sys::fi_eq_attr {
        size: attr.size,
        flags: if attr.write { u64::from(sys::FI_WRITE) } else { 0 },
        wait_obj: attr.wait.as_raw(),
        ..Default::default()
    };
    let mut raw = ptr::null_mut();
    // SAFETY: open (H1). The call keeps no pointer.
    let code = unsafe { open(fabric.as_ptr(), &raw mut attributes, &raw mut raw, ptr::null_mut()) };
    opened(code, raw).map(Eq::of)
}

pub(crate) unsafe fn eq_close<L>(eq: &Eq<L>) -> Result<(), Errno> {
    // SAFETY: the queue is closed once (H1–H3).
    unsafe { close(eq.fid()) }
}

const CM_ENTRY: usize = size_of::<sys::fi_eq_cm_entry>();

/// Room for the longest entry.
#[repr(C, align(8))]
struct CmEntryBytes([u8; CmData::MAX_LEN]);

const NO_KIND: u32 = u32::MAX;

pub(crate) unsafe fn read<L>(eq: &Eq<L>, sleep: Option<i32>, data: &mut CmData) -> Result<Option<Read>, Errno> {
    const NOTHING: [Errno; 3] = [Errno::EAGAIN, Errno::ETIMEDOUT, Errno::EINTR];
    let raw = eq.0.raw();
    let mut room = CmEntryBytes([0; _]);
    let (mut kind, buffer, len) = (NO_KIND, (&raw mut room).cast(), size_of::<CmEntryBytes>());
    let code = if let Some(milliseconds) = sleep {
        let read = entry!(raw, ops => sread)?;
        // SAFETY: open (H1), with room for `len` bytes and the kind.
        unsafe { read(raw.as_ptr(), &raw mut kind, buffer, len, milliseconds, 0) }
    } else {
        let read = entry!(raw, ops => read)?;
        // SAFETY: open (H1), with room for `len` bytes and the kind.
        unsafe { read(raw.as_ptr(), &raw mut kind, buffer, len, 0) }
    };
    match usize::try_from(code) {
        Ok(0) if kind == NO_KIND => Ok(None),
        Ok(written) => {
            let bytes = room.0.get(..written).ok_or(Errno::EOTHER)?;
            // SAFETY: the provider has just written the bytes for this kind.
            let (read, rest) = unsafe { decode(EventKind::from_raw(kind), bytes) };
            *data = rest;
            Ok(Some(read))
        }
        Err(_) => match errno(code) {
            errno if NOTHING.contains(&errno) => Ok(None),
            errno => Err(errno),
        },
    }
}

/// # Safety
/// A provider has written the bytes for an event of this kind, and no other code owns the objects
/// in them.
unsafe fn decode(kind: EventKind, bytes: &[u8]) -> (Read, CmData) {
    let other = || (Read::Other(kind), CmData::new(bytes).unwrap_or(CmData::EMPTY));
    match kind {
        EventKind::CONNREQ | EventKind::CONNECTED | EventKind::SHUTDOWN => {
            // SAFETY: any bytes are such an entry. No pointer is followed yet.
            let Some(entry) = (unsafe { prefix::<sys::fi_eq_cm_entry>(bytes) }) else { return other() };
            let object = named(entry.fid);
            let read = match kind {
                EventKind::CONNECTED => Read::Connected(object),
                EventKind::SHUTDOWN => Read::Shutdown(object),
                _ => {
                    let Some(info) = NonNull::new(entry.info) else { return other() };
                    // SAFETY: the provider made the info for this event's reader.
                    let handle = NonNull::new(unsafe { info.as_ref() }.handle);
                    // SAFETY: the provider made the info for this event's reader.
                    let info = unsafe { RawInfo::adopt(info) };
                    let Some(handle) = handle else { return other() };
                    Read::Request { listener: object, info, request: Request(handle) }
                }
            };
            (read, bytes.get(CM_ENTRY..).and_then(CmData::new).unwrap_or(CmData::EMPTY))
        }
        EventKind::NOTIFY | EventKind::MR_COMPLETE | EventKind::AV_COMPLETE | EventKind::JOIN_COMPLETE => {
            // SAFETY: any bytes are such an entry. No pointer is followed.
            let Some(entry) = (unsafe { prefix::<sys::fi_eq_entry>(bytes) }) else { return other() };
            let (object, context) = (named(entry.fid), entry.context.addr() as u64);
            let read = match kind {
                // `udp` writes a longer error entry for a failed join.
                EventKind::JOIN_COMPLETE if bytes.len() > size_of::<sys::fi_eq_entry>() => {
                    // SAFETY: any bytes are such an entry. No pointer is followed.
                    let Some(entry) = (unsafe { prefix::<sys::fi_eq_err_entry>(bytes) }) else { return other() };
                    Read::Failed(fault(&entry))
                }
                EventKind::JOIN_COMPLETE => Read::Joined { group: object, context },
                _ => Read::Entry(EqEntry { kind, object, context, data: entry.data }),
            };
            (read, CmData::EMPTY)
        }
        _ => other(),
    }
}

/// # Safety
/// Any bytes are a `T`.
unsafe fn prefix<T>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: the length is checked, and the caller guarantees that any bytes are a `T`.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// With room for a newer library's fields.
#[repr(C)]
#[derive(Default)]
struct ErrorEntry {
    entry: sys::fi_eq_err_entry,
    room: [u64; 8],
}

pub(crate) unsafe fn read_error<L>(eq: &Eq<L>, data: &mut CmData) -> Result<Option<Fault>, Errno> {
    let raw = eq.0.raw();
    let read = entry!(raw, ops => readerr)?;
    let mut own = [0_u8; CmData::MAX_LEN];
    let mut error = ErrorEntry::default();
    error.entry.err_data = own.as_mut_ptr().cast();
    error.entry.err_data_size = own.len();
    // SAFETY: open (H1), with room for entry and data.
    let code = unsafe { read(raw.as_ptr(), (&raw mut error).cast(), 0) };
    match code {
        1.. => {}
        0 => return Ok(None),
        _ if errno(code) == Errno::EAGAIN => return Ok(None),
        _ => return Err(errno(code)),
    }
    let entry = &error.entry;
    let (bytes, len) = (entry.err_data.cast_const().cast::<u8>(), entry.err_data_size.min(CmData::MAX_LEN));
    let untouched = bytes == own.as_ptr() && entry.err_data_size == own.len() && own.iter().all(|byte| *byte == 0);
    if !bytes.is_null() && len > 0 && !untouched {
        // SAFETY: our own memory, or the provider's until the next read (`man fi_eq`), of this
        // length.
        let bytes = unsafe { slice::from_raw_parts(bytes, len) };
        *data = CmData::new(bytes).unwrap_or(CmData::EMPTY);
    }
    Ok(Some(fault(entry)))
}

fn fault(entry: &sys::fi_eq_err_entry) -> Fault {
    let errno = match entry.err.checked_abs() {
        None | Some(0) => Errno::EOTHER,
        Some(number) => Errno::from_raw(number),
    };
    Fault {
        object: named(entry.fid),
        context: entry.context.addr() as u64,
        data: entry.data,
        errno,
        provider_errno: entry.prov_errno,
    }
}

pub(crate) unsafe fn error_text<L>(eq: &Eq<L>, provider_errno: i32, data: &CmData, out: &mut [u8]) -> usize {
    let raw = eq.0.raw();
    let Ok(strerror) = entry!(raw, ops => strerror) else { return 0 };
    // The provider writes here, or returns a string of its own.
    let mut own = [0 as c_char; 256];
    let data = if data.is_empty() { ptr::null() } else { data.as_ptr() };
    // SAFETY: open (H1), the data came with the error, and the length is below that of `own`.
    let text = unsafe { strerror(raw.as_ptr(), provider_errno, data.cast(), own.as_mut_ptr(), own.len() - 1) };
    // SAFETY: null, or a string that ends with a zero byte: in `own`, or the provider's.
    unsafe { text::copy(text, out) }
}

pub(crate) unsafe fn notify<L>(eq: &Eq<L>, context: u64, data: u64) -> Result<(), Errno> {
    let raw = eq.0.raw();
    let write = entry!(raw, ops => write)?;
    let context = usize::try_from(context).map_err(|_| Errno::EINVAL)?;
    let entry = sys::fi_eq_entry { fid: ptr::null_mut(), context: ptr::without_provenance_mut(context), data };
    // SAFETY: the queue is open for writing (H1). The entry is copied, and its pointers are not
    // followed.
    let code =
        unsafe { write(raw.as_ptr(), EventKind::NOTIFY.as_raw(), (&raw const entry).cast(), size_of_val(&entry), 0) };
    if code < 0 { Err(errno(code)) } else { Ok(()) }
}

pub(crate) unsafe fn eq_wait_fd<L>(eq: &Eq<L>) -> Result<c_int, Errno> {
    // SAFETY: open (H1), with a file descriptor.
    unsafe { wait_fd(eq.fid()) }
}

pub(crate) unsafe fn eq_may_sleep<L>(domain: &Domain<L>, eq: &Eq<L>) -> Result<bool, Errno> {
    // SAFETY: open (H1), in the domain's fabric.
    unsafe { try_wait(domain, eq.fid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<T>(value: &T) -> &[u8] {
        // SAFETY: the entries below have no padding.
        unsafe { slice::from_raw_parts(ptr::from_ref(value).cast(), size_of::<T>()) }
    }

    #[test]
    fn entries_of_every_kind_differ() {
        let fid = ptr::without_provenance_mut(64);
        let entry = sys::fi_eq_entry { fid, context: ptr::without_provenance_mut(5), data: 6 };
        for kind in [EventKind::NOTIFY, EventKind::MR_COMPLETE, EventKind::AV_COMPLETE] {
            // SAFETY: the bytes are such an entry.
            let (read, data) = unsafe { decode(kind, bytes_of(&entry)) };
            let expected = EqEntry { kind, object: Fid(64), context: 5, data: 6 };
            assert!(matches!(read, Read::Entry(entry) if entry == expected), "{read:?}");
            assert!(data.is_empty());
        }
        // SAFETY: the bytes are such an entry.
        let (read, _) = unsafe { decode(EventKind::JOIN_COMPLETE, bytes_of(&entry)) };
        assert!(matches!(read, Read::Joined { group, context: 5 } if group == Fid(64)), "{read:?}");
        let mut connection = [0; CM_ENTRY + 5];
        connection[..8].copy_from_slice(&64_u64.to_ne_bytes());
        connection[CM_ENTRY..].copy_from_slice(b"hello");
        // SAFETY: the bytes are such an entry, without an info.
        let (read, data) = unsafe { decode(EventKind::CONNECTED, &connection) };
        assert!(matches!(read, Read::Connected(object) if object == Fid(64)), "{read:?}");
        assert_eq!(&*data, b"hello");
    }

    #[test]
    fn joins_that_failed_are_failures() {
        let (fid, context) = (ptr::without_provenance_mut(64), ptr::without_provenance_mut(5));
        let entry = sys::fi_eq_err_entry { fid, context, err: -19, prov_errno: 7, ..Default::default() };
        // SAFETY: the bytes are an error entry like `udp`'s, with a negative number.
        let (read, _) = unsafe { decode(EventKind::JOIN_COMPLETE, bytes_of(&entry)) };
        let expected = Fault { object: Fid(64), context: 5, data: 0, errno: Errno::ENODEV, provider_errno: 7 };
        assert!(matches!(read, Read::Failed(fault) if fault == expected), "{read:?}");
    }

    #[test]
    fn events_that_cannot_be_decoded_are_kept() {
        let short = [1, 2, 3];
        let without_info = [0; CM_ENTRY];
        for (kind, bytes) in [
            (EventKind::from_raw(77), &short[..]),
            (EventKind::CONNECTED, &short[..]),
            (EventKind::NOTIFY, &short[..]),
            (EventKind::SHUTDOWN, &[][..]),
            (EventKind::CONNREQ, &without_info[..]),
        ] {
            // SAFETY: the bytes are too short, or have no info.
            let (read, data) = unsafe { decode(kind, bytes) };
            assert!(matches!(read, Read::Other(other) if other == kind), "{read:?}");
            assert_eq!(&*data, bytes);
        }
    }
}
