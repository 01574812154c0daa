#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use loom_core::buffer::Lent;
use loom_core::transport::{DmaBuf, MemoryRegions, RegionAttr};
use loom_core::vocabulary::{Access, Errno, HmemIface, MemoryKey, MrFlags, Version};

use super::control::{bind, close, opened};
use super::counter::Counter;
use super::endpoint::Endpoint;
use super::fabric::Domain;
use super::ffi::call::{done, entry};
use super::library::Library;
use super::raw::Raw;
use super::sys;
use super::threading::{Handle, Level};
use super::transport::Ofi;

/// A memory region, raw.
#[doc(alias = "fid_mr")]
#[derive(Debug)]
pub struct Mr<L> {
    fid: Handle<sys::fid_mr, L>,
    /// A copy, so that access does not touch libfabric's memory.
    key: MemoryKey,
    /// `fi_mr_desc` as a number, with exposed provenance.
    descriptor: usize,
}

impl<L> Mr<L> {
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    #[inline]
    pub(crate) const fn key(&self) -> MemoryKey {
        self.key
    }

    #[inline]
    pub(crate) const fn descriptor(&self) -> usize {
        self.descriptor
    }

    /// # Safety
    /// The region is open.
    pub(crate) unsafe fn of(region: Raw<sys::fid_mr>) -> Self {
        // SAFETY: the caller keeps the region open.
        let fields = unsafe { region.pointer().as_ref() };
        let (key, descriptor) = (MemoryKey(fields.key), fields.mem_desc.expose_provenance());
        Mr { fid: Handle::new(region), key, descriptor }
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> MemoryRegions for Ofi<L> {
    type Mr = Mr<L>;

    const MR_CLOSE_FENCES: bool = false;

    #[inline]
    unsafe fn mr_open(domain: &Domain<L>, memory: &Lent, attr: RegionAttr) -> Result<Mr<L>, Errno> {
        if memory.kind.name().is_none() {
            // libfabric looks the kind up in a table without a check.
            return Err(Errno::EOPNOTSUPP);
        }
        let raw_domain = domain.raw();
        let fid = domain.fid().as_ptr();
        let start = memory.ptr.as_ptr().cast();
        let flags = attr.flags.bits();
        let mut raw = ptr::null_mut();
        let code = if domain.has_devices() {
            let register = entry!(raw_domain, mr => regattr)?;
            let range = sys::iovec { iov_base: start, iov_len: memory.len };
            let buffer;
            let (range, flags) = match attr.dmabuf {
                None => ((&raw const range).cast(), flags),
                // Older libraries would take the buffer for ranges.
                Some(_) if Library::of_object().version() < Version::new(1, 20) => return Err(Errno::EOPNOTSUPP),
                Some(DmaBuf { fd, offset }) => {
                    // Begin of the whole buffer: providers add the offset.
                    let distance = usize::try_from(offset).map_err(|_| Errno::EINVAL)?;
                    if distance > start.addr() {
                        return Err(Errno::EINVAL);
                    }
                    let base_addr = start.wrapping_byte_sub(distance);
                    buffer = ExportedBuffer { fd, offset, len: memory.len, base_addr };
                    ((&raw const buffer).cast(), flags | MrFlags::DMABUF.bits())
                }
            };
            let attributes = Attributes::new(range, memory.kind, attr);
            // SAFETY: the domain is open and the memory kept until the region is closed (H1, M2,
            // M3). The attributes, the range and the buffer are not kept, and `raw` receives the
            // region.
            unsafe { register(fid, attributes.as_ptr(), flags, &raw mut raw) }
        } else if memory.kind == HmemIface::SYSTEM && attr.dmabuf.is_none() {
            let register = entry!(raw_domain, mr => reg)?;
            let (access, key) = (attr.access.bits(), attr.key.0);
            // SAFETY: the domain is open and the memory is kept (H1, M2, M3), and `raw` receives
            // the region.
            unsafe { register(fid, start, memory.len, access, 0, key, flags, &raw mut raw, ptr::null_mut()) }
        } else {
            return Err(Errno::EOPNOTSUPP);
        };
        let region = opened(code, raw)?;
        // SAFETY: the region was just opened.
        Ok(unsafe { Mr::of(region) })
    }

    unsafe fn mr_bind_endpoint(mr: &mut Mr<L>, endpoint: &Endpoint<L>) -> Result<(), Errno> {
        // SAFETY: region and endpoint are open, on their thread (H1, T2).
        unsafe { bind(mr.fid.fid(), endpoint.fid(), 0) }
    }

    unsafe fn mr_bind_counter(mr: &mut Mr<L>, counter: &Counter<L>) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { bind(mr.fid.fid(), counter.fid(), u64::from(sys::FI_REMOTE_WRITE)) }
    }

    unsafe fn mr_enable(mr: &mut Mr<L>) -> Result<(), Errno> {
        // SAFETY: open (H1), and the command takes no argument.
        unsafe { control(mr, sys::FI_ENABLE, ptr::null_mut()) }?;
        // Some providers choose the key only now.
        // SAFETY: open (H1).
        *mr = unsafe { Mr::of(mr.fid.raw()) };
        Ok(())
    }

    unsafe fn mr_refresh(mr: &Mr<L>, first: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let range = sys::iovec { iov_base: first.as_ptr().cast(), iov_len: len };
        let modify = Attributes::new(
            (&raw const range).cast(),
            HmemIface::SYSTEM,
            RegionAttr { access: Access::empty(), key: MemoryKey(0), ..Default::default() },
        );
        let mut modify = Modify { flags: 0, attributes: modify };
        // SAFETY: open (H1), and the range is read and not kept.
        unsafe { control(mr, sys::FI_REFRESH, (&raw mut modify).cast()) }
    }

    fn mr_key(mr: &Mr<L>) -> MemoryKey {
        mr.key()
    }

    fn mr_descriptor(mr: &Mr<L>) -> usize {
        mr.descriptor()
    }

    #[inline]
    unsafe fn mr_close(mr: &Mr<L>) -> Result<(), Errno> {
        // SAFETY: the region is closed once (H1–H3).
        unsafe { close(mr.fid.fid()) }
    }
}

/// `fi_mr_dmabuf`, from libfabric 1.20 on.
#[repr(C)]
struct ExportedBuffer {
    fd: c_int,
    offset: u64,
    len: usize,
    base_addr: *mut c_void,
}

const _: () = assert!(core::mem::offset_of!(sys::fi_mr_attr, iov_count) == size_of::<*const c_void>());

#[cfg(libfabric_has_dmabuf)]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ExportedBuffer>() == size_of::<sys::fi_mr_dmabuf>());
    assert!(offset_of!(ExportedBuffer, fd) == offset_of!(sys::fi_mr_dmabuf, fd));
    assert!(offset_of!(ExportedBuffer, offset) == offset_of!(sys::fi_mr_dmabuf, offset));
    assert!(offset_of!(ExportedBuffer, len) == offset_of!(sys::fi_mr_dmabuf, len));
    assert!(offset_of!(ExportedBuffer, base_addr) == offset_of!(sys::fi_mr_dmabuf, base_addr));
};

/// Zeros follow: a newer library may read more fields.
#[repr(C)]
struct Attributes {
    attributes: sys::fi_mr_attr,
    more: [u64; 16],
}

impl Attributes {
    fn new(range: *const c_void, kind: HmemIface, attr: RegionAttr) -> Self {
        let mut attributes = sys::fi_mr_attr {
            iov_count: 1,
            access: attr.access.bits(),
            requested_key: attr.key.0,
            iface: kind.as_raw(),
            ..Default::default()
        };
        // SAFETY: the structure begins with this pointer, from 1.20 on in a union.
        unsafe { (&raw mut attributes).cast::<*const c_void>().write(range) };
        attributes.device.reserved = 0;
        if kind != HmemIface::SYSTEM {
            attributes.device.cuda = attr.device;
        }
        Attributes { attributes, more: [0; _] }
    }

    const fn as_ptr(&self) -> *const sys::fi_mr_attr {
        ptr::from_ref(self).cast()
    }
}

#[repr(C)]
struct Modify {
    flags: u64,
    attributes: Attributes,
}

const _: () = assert!(core::mem::offset_of!(Modify, attributes) == core::mem::offset_of!(sys::fi_mr_modify, attr));

/// `fi_control`
///
/// # Safety
/// Contract of callers. The command takes this argument.
unsafe fn control<L>(mr: &Mr<L>, command: u32, argument: *mut c_void) -> Result<(), Errno> {
    let fid = mr.fid.fid();
    let control = entry!(fid, ops => control)?;
    let command = c_int::try_from(command).map_err(|_| Errno::EOTHER)?;
    // SAFETY: open (H1), and the caller guarantees the argument.
    done(unsafe { control(fid.as_ptr(), command, argument) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::ofi::Local;

    fn range(attributes: &sys::fi_mr_attr) -> *const c_void {
        // SAFETY: the structure begins with this pointer.
        unsafe { ptr::from_ref(attributes).cast::<*const c_void>().read() }
    }

    #[test]
    fn attributes_store_interface_and_device() {
        let range = sys::iovec { iov_base: ptr::null_mut(), iov_len: 8 };
        let access = Access::SEND | Access::REMOTE_WRITE;
        for (kind, device) in [
            (HmemIface::SYSTEM, 0),
            (HmemIface::CUDA, 3),
            (HmemIface::ROCR, 1),
            (HmemIface::ZE, 0x0002_0001),
            (HmemIface::NEURON, 5),
            (HmemIface::SYNAPSEAI, 6),
        ] {
            let attr = RegionAttr { device, flags: MrFlags::empty(), access, key: MemoryKey(77), ..Default::default() };
            let attributes = Attributes::new((&raw const range).cast(), kind, attr);
            let given = &attributes.attributes;
            assert_eq!((self::range(given), given.iov_count), ((&raw const range).cast(), 1));
            assert_eq!((given.access, given.offset, given.requested_key), (access.bits(), 0, 77));
            assert!(given.context.is_null() && given.auth_key.is_null() && given.auth_key_size == 0);
            assert_eq!(given.iface, kind.as_raw());
            // SAFETY: every member of the union is a number.
            assert_eq!(unsafe { given.device.cuda }, device);
            // SAFETY: every member of the union is a number.
            assert_eq!(unsafe { given.device.ze }, device);
            // SAFETY: every member of the union is a number.
            assert_eq!(unsafe { given.device.neuron }, device);
            // SAFETY: every member of the union is a number.
            assert_eq!(unsafe { given.device.synapseai }, device);
            // SAFETY: every member of the union is a number.
            assert_eq!(unsafe { given.device.reserved }, u64::from(device.cast_unsigned()));
            assert_eq!(attributes.more, [0; 16], "what a newer library reads");
            assert_eq!(attributes.as_ptr().cast(), &raw const attributes.attributes);
        }
    }

    #[test]
    fn the_hosts_memory_has_no_device() {
        let attr = RegionAttr { device: 9, access: Access::RECV, key: MemoryKey(0), ..Default::default() };
        let attributes = Attributes::new(ptr::null(), HmemIface::SYSTEM, attr);
        // SAFETY: every member of the union is a number.
        assert_eq!(unsafe { attributes.attributes.device.reserved }, 0);
    }

    #[repr(C)]
    struct Fake {
        region: sys::fid_mr,
        commands: std::vec::Vec<u32>,
    }

    unsafe extern "C" fn control_it(fid: *mut sys::fid, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the test's region, which is not borrowed.
        let fake = unsafe { &mut *fid.cast::<Fake>() };
        fake.commands.push(command.cast_unsigned());
        match command.cast_unsigned() {
            sys::FI_ENABLE => {
                assert!(argument.is_null());
                fake.region.key = 42;
                0
            }
            sys::FI_REFRESH => {
                // SAFETY: the command takes this argument.
                let modify = unsafe { &*argument.cast::<sys::fi_mr_modify>() };
                assert_eq!((modify.flags, modify.attr.iov_count), (0, 1));
                // SAFETY: the count gives one range.
                let range = unsafe { &*range(&modify.attr).cast::<sys::iovec>() };
                assert_eq!((range.iov_base.addr(), range.iov_len), (0x1000, 24));
                0
            }
            _ => -38,
        }
    }

    /// Software providers do not enable or refresh regions.
    #[test]
    fn regions_are_enabled_and_refreshed() {
        let mut ops = sys::fi_ops { control: Some(control_it), ..Default::default() };
        let fid = sys::fid { ops: &raw mut ops, ..Default::default() };
        let region = sys::fid_mr { fid, key: u64::MAX, ..Default::default() };
        let mut fake = Fake { region, commands: std::vec::Vec::new() };
        let raw = Raw::opened(NonNull::from_mut(&mut fake).cast());
        // SAFETY: the simulated region is valid.
        let mut mr = unsafe { Mr::<Local>::of(raw) };
        assert_eq!(mr.key(), MemoryKey(u64::MAX));
        // SAFETY: the simulated region is valid.
        unsafe { Ofi::mr_enable(&mut mr) }.unwrap();
        assert_eq!(mr.key(), MemoryKey(42), "which is known only now");
        let first = NonNull::new(ptr::without_provenance_mut(0x1000)).unwrap();
        // SAFETY: the simulated region is valid.
        unsafe { Ofi::mr_refresh(&mr, first, 24) }.unwrap();
        assert_eq!(fake.commands, [sys::FI_ENABLE, sys::FI_REFRESH]);
    }

    #[test]
    fn a_part_of_an_exported_buffer_takes_the_place_of_the_range() {
        let buffer = ExportedBuffer { fd: 7, offset: 4096, len: 8, base_addr: ptr::null_mut() };
        let attr = RegionAttr { access: Access::RECV, key: MemoryKey(0), ..Default::default() };
        let Attributes { attributes, .. } = Attributes::new((&raw const buffer).cast(), HmemIface::CUDA, attr);
        assert_eq!((range(&attributes), attributes.iov_count), ((&raw const buffer).cast(), 1));
    }
}
