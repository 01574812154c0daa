//! [`RawInfo`]: one `fi_info`, owned.

#![allow(unsafe_code, reason = "owns memory that libfabric allocated")]

use core::fmt::{self, Write};
use core::ptr::{self, NonNull};

use heapless::Vec;
use loom_core::transport::Name;
use loom_core::transport::scalable::Contexts;
use loom_core::vocabulary::{AddressFormat, Attributes, Caps, EndpointAddr, MsgOrder, Threading};

use super::known_behaviour::Facts;
use super::process::getpid;
use super::query::{headers_version, library_version};
use super::{decode, quirks, sys, text};

/// One `fi_info`, with everything that it points to.
///
/// # References
/// - `man fi_getinfo`
#[doc(alias = "fi_info")]
pub struct RawInfo {
    /// Allocated by libfabric, owned, the only element of its list. It refers to no other object: the pointers to open
    /// objects (`handle`, `fabric_attr->fabric`, `domain_attr->domain`) are null.
    raw: NonNull<sys::fi_info>,
}

// SAFETY: the structure is plain memory of the C allocator, which may be freed on any thread; it refers to no open
// object (see the field).
unsafe impl Send for RawInfo {}
// SAFETY: nothing writes to it through a shared reference: libfabric takes infos to read them, whatever the pointer's type says.
unsafe impl Sync for RawInfo {}

impl RawInfo {
    /// Takes ownership of one `fi_info`, which becomes a list of its own.
    ///
    /// # Safety
    /// `raw` was allocated by libfabric; nothing else frees or uses it from now on. Its `next` is not followed: a caller that
    /// needs the rest of the list has taken it before.
    pub(super) unsafe fn adopt(raw: NonNull<sys::fi_info>) -> Self {
        let info = raw.as_ptr();
        // SAFETY: owned and valid, by contract.
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

    /// An empty `fi_info`, to be filled with hints; `None` without memory.
    #[doc(alias = "fi_allocinfo")]
    pub(super) fn empty() -> Option<Self> {
        // SAFETY: null asks for an empty info, as `fi_allocinfo` does.
        let raw = NonNull::new(unsafe { sys::fi_dupinfo(ptr::null()) })?;
        // SAFETY: just allocated for us.
        Some(unsafe { Self::adopt(raw) })
    }

    /// `fi_dupinfo`; `None` without memory.
    pub(super) fn try_clone(&self) -> Option<Self> {
        // SAFETY: valid, and only read.
        let copy = NonNull::new(unsafe { sys::fi_dupinfo(self.as_ptr()) })?;
        // SAFETY: just allocated for us.
        Some(unsafe { Self::adopt(copy) })
    }

    /// A copy with a source address that ends with a zero byte. If the address named a parent process, it names this process. `None` without
    /// memory.
    pub(super) fn named_by_this_process(&self) -> Option<Self> {
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
        // SAFETY: its parts are those of this info, and a text that is there; they are read only, and copied.
        let copy = NonNull::new(unsafe { sys::fi_dupinfo(&raw const lent) })?;
        // SAFETY: just allocated for us.
        Some(unsafe { Self::adopt(copy) })
    }

    /// A copy for opening an endpoint, that is not to be kept: it refers to the request which the endpoint accepts, if there
    /// is one, and says whether it receives through a shared context, whatever this info says of that: `tcp` and `net` crash
    /// where that is not so. `None` without memory.
    pub(super) fn for_endpoint(&self, request: Option<NonNull<sys::fid>>, shared_rx: bool) -> Option<Self> {
        /// `FI_SHARED_CONTEXT`
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

    /// A copy for opening a scalable endpoint with this number of contexts. `None` without memory.
    pub(super) fn for_scalable_endpoint(&self, contexts: Contexts) -> Option<Self> {
        let mut copy = self.try_clone()?;
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { copy.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(endpoint) = unsafe { fields.ep_attr.as_mut() } {
            (endpoint.tx_ctx_cnt, endpoint.rx_ctx_cnt) = (contexts.tx.into(), contexts.rx.into());
        }
        Some(copy)
    }

    /// The `fi_info`, for a call which reads it: one of [`sys`] that opens an object, or `fi_dupinfo` for a copy that the program
    /// may change and have adopted ([`from_ptr`](Self::from_ptr)). Nothing may be written through the pointer.
    #[inline]
    #[must_use]
    pub const fn as_ptr(&self) -> *mut sys::fi_info {
        self.raw.as_ptr()
    }

    /// Whether loom's tests have run over this version of the provider. If not, loom relies on nothing that providers are known to
    /// differ in from the manual pages: endpoints are closed when nothing is in flight on them, and
    /// [some features](super#providers-that-are-not-tested) are refused.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        Facts::of(self).contains(Facts::TESTED)
    }

    /// The fields. Pointers in it are null or belong to the info.
    pub(super) const fn fields(&self) -> &sys::fi_info {
        // SAFETY: owned and valid until `self` is dropped, and not written meanwhile.
        unsafe { self.raw.as_ref() }
    }

    /// Asks for an order of transmits, in addition to what the info says.
    pub(super) fn ask_for_order(&mut self, order: MsgOrder) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(tx) = unsafe { fields.tx_attr.as_mut() } {
            tx.msg_order |= order.bits();
        }
    }

    /// Has sends, reads and writes report their success by default, where endpoints are bound so that they need not.
    pub(super) fn report_by_default(&mut self) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(tx) = unsafe { fields.tx_attr.as_mut() } {
            tx.op_flags |= u64::from(sys::FI_COMPLETION);
        }
    }

    /// Takes immediate data back.
    pub(super) fn carry_no_data(&mut self) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(domain) = unsafe { fields.domain_attr.as_mut() } {
            domain.cq_data_size = 0;
        }
    }

    /// Changes the threading model that a domain is opened with.
    pub(super) fn be_threaded(&mut self, model: Threading) {
        // SAFETY: owned, and borrowed exclusively.
        let fields = unsafe { self.raw.as_mut() };
        // SAFETY: null, or owned by the info.
        if let Some(domain) = unsafe { fields.domain_attr.as_mut() } {
            domain.threading = model.as_raw();
        }
    }

    /// Takes something back that the info grants.
    pub(super) fn withdraw(&mut self, caps: Caps) {
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

    /// Whether all names that are asked for are those of this info, without regard to case, as libfabric compares them.
    pub(super) fn is_named(&self, provider: Option<&str>, fabric: Option<&str>, domain: Option<&str>) -> bool {
        [(Name::Provider, provider), (Name::Fabric, fabric), (Name::Domain, domain)].into_iter().all(
            |(name, wanted)| {
                wanted.is_none_or(|wanted| self.name(name).is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
            },
        )
    }

    /// A name, if there is one and it is UTF-8.
    pub(super) fn name(&self, name: Name) -> Option<&str> {
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
        // SAFETY: a C string that the info owns, or null; `&self` keeps it.
        unsafe { text::read(text) }
    }

    /// All numbers.
    pub(super) fn attributes(&self) -> Attributes {
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

    /// The local address, if there is one.
    pub(super) fn source_address(&self) -> Option<EndpointAddr> {
        let fields = self.fields();
        // SAFETY: the info owns `src_addr`, of this length.
        unsafe { address(fields.addr_format, fields.src_addr.cast(), fields.src_addrlen) }
    }

    /// The peer's address, if there is one.
    pub(super) fn destination_address(&self) -> Option<EndpointAddr> {
        let fields = self.fields();
        // SAFETY: the info owns `dest_addr`, of this length.
        unsafe { address(fields.addr_format, fields.dest_addr.cast(), fields.dest_addrlen) }
    }
}

/// Copies an address, byte for byte.
///
/// # Safety
/// `bytes` is null or points to `len` readable bytes.
unsafe fn address(format: u32, bytes: *const u8, len: usize) -> Option<EndpointAddr> {
    if bytes.is_null() || len == 0 {
        return None;
    }
    // SAFETY: not null; the rest is promised by the caller.
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
        // SAFETY: owned, allocated by libfabric, and freed here only; `next` is null, so nothing else goes with it.
        unsafe { sys::fi_freeinfo(self.as_ptr()) };
    }
}

/// Everything in it, in libfabric's words (`fi_tostr`): what `fi_info -v` prints. With a library that is newer than the
/// headers at build time in loom's, because that function knows the newer structures only, and reads beyond the end of older
/// ones.
impl fmt::Display for RawInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if library_version() != headers_version() {
            return write!(f, "{self:?}\n{:#?}", self.attributes());
        }
        // As large as libfabric's own.
        let mut out = [0; 8192];
        // SAFETY: `out` has the length that is passed; the info is valid and only read.
        let text = unsafe { sys::fi_tostr_r(out.as_mut_ptr(), out.len(), self.as_ptr().cast(), sys::FI_TYPE_INFO) };
        // SAFETY: null, or `out`, which ends with a zero byte and lives until the end of this function.
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
