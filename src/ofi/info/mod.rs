#![allow(unsafe_code, reason = "owns memory that libfabric allocated")]

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod list;
pub(crate) mod names;
pub(crate) mod nic;
pub(crate) mod params;
pub(crate) mod providers;
pub(crate) mod query;
pub(crate) mod request;

use core::fmt::{self, Write};
use core::ptr::{self, NonNull};

use heapless::Vec;
use loom_core::transport::Name;
use loom_core::transport::scalable::Contexts;
use loom_core::vocabulary::{AddressFormat, Attributes, Caps, EndpointAddr, MsgOrder, Threading};

use self::query::headers_version;
use super::ffi::text;
use super::fork::getpid;
use super::library::Library;
use super::quirks::known_behaviour::Facts;
use super::{quirks, sys};

/// `fi_info` with all its parts.
///
/// # References
/// - `man fi_getinfo`
#[doc(alias = "fi_info")]
pub struct RawInfo {
    /// Allocated by libfabric, owned, the only element of its list. Its pointers to open objects
    /// are null.
    raw: NonNull<sys::fi_info>,
}

// SAFETY: plain memory of the C allocator, which any thread may free. It refers to no open object
// (see the field).
unsafe impl Send for RawInfo {}
// SAFETY: shared references do not write: libfabric only reads infos, whatever the pointer's type.
unsafe impl Sync for RawInfo {}

impl RawInfo {
    /// # Safety
    /// libfabric has allocated `raw`, and no other code frees or uses it from now on. `next` is
    /// cleared.
    pub(crate) unsafe fn adopt(raw: NonNull<sys::fi_info>) -> Self {
        let info = raw.as_ptr();
        // SAFETY: the caller guarantees that `raw` is valid and owned.
        let fields = unsafe { &mut *info };
        fields.next = ptr::null_mut();
        fields.handle = ptr::null_mut();
        // SAFETY: null, or owned by the info.
        if let Some(fabric) = unsafe { fields.fabric_attr.as_mut() } {
            fabric.fabric = ptr::null_mut();
        }
        // SAFETY: null, or owned by the info.
        if let Some(domain) = unsafe { fields.domain_attr.as_mut() } {
            domain.domain = ptr::null_mut();
        }
        RawInfo { raw }
    }

    #[doc(alias = "fi_allocinfo")]
    pub(crate) fn empty() -> Option<Self> {
        // SAFETY: null requests an empty info, as `fi_allocinfo` does.
        let raw = NonNull::new(unsafe { Library::of_object().fi_dupinfo(ptr::null()) })?;
        // SAFETY: just allocated for us.
        Some(unsafe { Self::adopt(raw) })
    }

    pub(crate) fn try_clone(&self) -> Option<Self> {
        // SAFETY: valid, and only read.
        let copy = NonNull::new(unsafe { Library::of_object().fi_dupinfo(self.as_ptr()) })?;
        // SAFETY: just allocated for us.
        Some(unsafe { Self::adopt(copy) })
    }

    /// The copy has a zero byte after its source address, and names this process instead of a
    /// parent.
    pub(crate) fn named_by_this_process(&self) -> Option<Self> {
        let Some(source) = self.source_address() else { return self.try_clone() };
        // `fi_shm://123`, with or without the zero byte.
        let source = source.bytes().split(|byte| *byte == 0).next().unwrap_or_default();
        let begin = source.windows(3).position(|at| at == b"://").map_or(0, |at| at + 3);
        let (prefix, name) = source.split_at(begin);
        let mut text = Vec::<u8, { EndpointAddr::MAX_LEN + 16 }>::new();
        let written = text.extend_from_slice(prefix).is_ok()
            && match !name.is_empty() && name.iter().all(u8::is_ascii_digit) {
                true => write!(text, "{}", getpid()).is_ok(),
                false => text.extend_from_slice(name).is_ok(),
            }
            && text.push(0).is_ok();
        if !written {
            return self.try_clone();
        }
        let lent = sys::fi_info { src_addr: text.as_mut_ptr().cast(), src_addrlen: text.len(), ..*self.fields() };
        // SAFETY: the parts are this info's and a local text, which are only copied.
        let copy = NonNull::new(unsafe { Library::of_object().fi_dupinfo(&raw const lent) })?;
        // SAFETY: just allocated for us.
        Some(unsafe { Self::adopt(copy) })
    }

    /// Not to be kept: the copy refers to the accepted request. `tcp` and `net` crash on a wrong
    /// `shared_rx`.
    pub(crate) fn for_endpoint(&self, request: Option<NonNull<sys::fid>>, shared_rx: bool) -> Option<Self> {
        const SHARED: usize = usize::MAX;
        let mut copy = self.try_clone()?;
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { copy.raw.as_mut() };
        if let Some(request) = request {
            fields.handle = request.as_ptr();
        }
        // SAFETY: null, or owned by the info.
        if let Some(endpoint) = unsafe { fields.ep_attr.as_mut() } {
            match (shared_rx, endpoint.rx_ctx_cnt) {
                (true, _) => endpoint.rx_ctx_cnt = SHARED,
                (false, SHARED) => endpoint.rx_ctx_cnt = 1,
                (false, _) => {}
            }
        }
        Some(copy)
    }

    pub(crate) fn for_scalable_endpoint(&self, contexts: Contexts) -> Option<Self> {
        let mut copy = self.try_clone()?;
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { copy.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(endpoint) = unsafe { fields.ep_attr.as_mut() } {
            (endpoint.tx_ctx_cnt, endpoint.rx_ctx_cnt) = (contexts.tx.into(), contexts.rx.into());
        }
        Some(copy)
    }

    /// `fi_info` for a call that reads it: one of [`sys`] that opens an object, or `fi_dupinfo` for
    /// a copy to adopt ([`from_ptr`](Self::from_ptr)). Must not be written.
    #[inline]
    #[must_use]
    pub const fn as_ptr(&self) -> *mut sys::fi_info {
        self.raw.as_ptr()
    }

    /// Returns `true` if loom's tests have run over this version of the provider. Otherwise [some
    /// features](crate::ofi#providers-that-are-not-tested) are refused.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        Facts::of(self).contains(Facts::TESTED)
    }

    /// Pointers are null or belong to the info.
    pub(crate) const fn fields(&self) -> &sys::fi_info {
        // SAFETY: owned and valid until `self` is dropped, and not written meanwhile.
        unsafe { self.raw.as_ref() }
    }

    pub(crate) fn request_order(&mut self, order: MsgOrder) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(tx) = unsafe { fields.tx_attr.as_mut() } {
            tx.msg_order |= order.bits();
        }
    }

    pub(crate) fn report_by_default(&mut self) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(tx) = unsafe { fields.tx_attr.as_mut() } {
            tx.op_flags |= u64::from(sys::FI_COMPLETION);
        }
    }

    pub(crate) fn carry_no_data(&mut self) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(domain) = unsafe { fields.domain_attr.as_mut() } {
            domain.cq_data_size = 0;
        }
    }

    pub(crate) fn be_threaded(&mut self, model: Threading) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(domain) = unsafe { fields.domain_attr.as_mut() } {
            domain.threading = model.as_raw();
        }
    }

    pub(crate) fn withdraw(&mut self, caps: Caps) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        fields.caps &= !caps.bits();
        // SAFETY: null, or owned by the info.
        if let Some(tx) = unsafe { fields.tx_attr.as_mut() } {
            tx.caps &= !caps.bits();
        }
        // SAFETY: null, or owned by the info.
        if let Some(rx) = unsafe { fields.rx_attr.as_mut() } {
            rx.caps &= !caps.bits();
        }
    }

    /// Without regard to case, like libfabric.
    pub(crate) fn is_named(&self, provider: Option<&str>, fabric: Option<&str>, domain: Option<&str>) -> bool {
        [(Name::Provider, provider), (Name::Fabric, fabric), (Name::Domain, domain)].into_iter().all(
            |(name, wanted)| {
                wanted.is_none_or(|wanted| self.name(name).is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
            },
        )
    }

    pub(crate) fn name(&self, name: Name) -> Option<&str> {
        let fields = self.fields();
        let text = match name {
            Name::Domain => {
                // SAFETY: null, or owned by the info.
                unsafe { fields.domain_attr.as_ref() }?.name
            }
            Name::Fabric => {
                // SAFETY: null, or owned by the info.
                unsafe { fields.fabric_attr.as_ref() }?.name
            }
            Name::Provider => {
                // SAFETY: null, or owned by the info.
                unsafe { fields.fabric_attr.as_ref() }?.prov_name
            }
        };
        // SAFETY: null, or a C string that the info owns as long as `self` is borrowed.
        unsafe { text::read(text) }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let mut attributes = decode::attributes(self);
        let untrue = quirks::untrue_caps(self);
        attributes.caps.remove(untrue);
        attributes.tx.caps.remove(untrue);
        attributes.rx.caps.remove(untrue);
        // The last piece is not the program's.
        if quirks::overruns(self) {
            attributes.rx.iov_limit -= 1;
        }
        attributes
    }

    pub(crate) fn source_address(&self) -> Option<EndpointAddr> {
        let fields = self.fields();
        // SAFETY: the info owns `src_addr`, of this length.
        unsafe { address(fields.addr_format, fields.src_addr.cast(), fields.src_addrlen) }
    }

    pub(crate) fn destination_address(&self) -> Option<EndpointAddr> {
        let fields = self.fields();
        // SAFETY: the info owns `dest_addr`, of this length.
        unsafe { address(fields.addr_format, fields.dest_addr.cast(), fields.dest_addrlen) }
    }
}

/// # Safety
/// `bytes` is null or points to `len` readable bytes.
unsafe fn address(format: u32, bytes: *const u8, len: usize) -> Option<EndpointAddr> {
    if bytes.is_null() || len == 0 {
        return None;
    }
    // SAFETY: not null, and the caller guarantees `len` readable bytes.
    let bytes = unsafe { core::slice::from_raw_parts(bytes, len) };
    EndpointAddr::new(AddressFormat::from_raw(format), bytes).ok()
}

/// `fi_dupinfo`
///
/// # Panics
/// The C allocator has no memory left.
impl Clone for RawInfo {
    fn clone(&self) -> Self {
        match self.try_clone() {
            Some(copy) => copy,
            None => panic!("no memory for a copy of an fi_info"),
        }
    }
}

impl Drop for RawInfo {
    fn drop(&mut self) {
        // SAFETY: owned, allocated by libfabric, and freed here. `next` is null, so that no other
        // info is freed.
        unsafe { Library::of_object().fi_freeinfo(self.as_ptr()) };
    }
}

/// All fields in libfabric's format (`fi_tostr`), or in loom's if the library is newer than the
/// [headers](headers_version).
impl fmt::Display for RawInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if Library::of_object().version() != headers_version() {
            return write!(f, "{self:?}\n{:#?}", self.attributes());
        }
        let mut out = [0; 8192];
        // SAFETY: `out` has the passed length, and the info is valid and only read.
        let text = unsafe {
            Library::of_object().fi_tostr_r(out.as_mut_ptr(), out.len(), self.as_ptr().cast(), sys::FI_TYPE_INFO)
        };
        // SAFETY: null, or `out`, which ends with a zero byte and outlives the text.
        f.write_str(unsafe { text::read(text) }.unwrap_or("").trim_end())
    }
}

impl fmt::Debug for RawInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawInfo")
            .field("provider", &self.name(Name::Provider))
            .field("fabric", &self.name(Name::Fabric))
            .field("domain", &self.name(Name::Domain))
            .finish_non_exhaustive()
    }
}
