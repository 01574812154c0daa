#![allow(unsafe_code, reason = "calls libfabric")]

use core::ptr::{self, NonNull};

use loom_core::info::Nic;
use loom_core::transport::{Fabrics, Name, ProviderQuirks};
use loom_core::vocabulary::{AddressFormat, Attributes, Caps, EndpointAddr, Errno};

use super::control::{close, opened, wait_fd};
use super::ffi::call::entry;
use super::fork;
use super::info::{RawInfo, nic};
use super::library::Library;
use super::quirks::known_behaviour::Facts;
use super::quirks::removal::Removal;
use super::quirks::shm_registry::Group;
use super::quirks::sm2_table::{self, Unlisted};
use super::quirks::{self, nap};
use super::raw::Raw;
use super::sys;
use super::threading::{Handle, Level};
use super::transport::Ofi;

/// A fabric, raw.
#[doc(alias = "fid_fabric")]
#[derive(Debug)]
pub struct Fabric<L>(Handle<sys::fid_fabric, L>);

/// A domain, raw.
#[doc(alias = "fid_domain")]
#[derive(Debug)]
pub struct Domain<L> {
    fid: Handle<sys::fid_domain, L>,
    /// Closed after the domain.
    fabric: Handle<sys::fid_fabric, L>,
    pub(super) addr_format: AddressFormat,
    /// Lacking in the info of a connection request.
    facts: Facts,
    pub(super) group: Option<Group>,
    sleeps: bool,
    /// `true` if descriptors of its queues stay readable until the provider sleeps.
    leaves_readable: bool,
    has_devices: bool,
    has_contexts: bool,
    /// `true` if atomic reads return the value.
    reads_atomically: bool,
    /// `true` if insertions read strings in place instead of through pointers.
    pub(super) takes_strings_in_place: bool,
    pub(super) removal: Removal,
    /// `true` if receives of its adopted endpoints have a last piece for longer messages.
    overruns: bool,
    unlisted: Unlisted,
}

impl<L> Fabric<L> {
    pub(crate) fn of(raw: Raw<sys::fid_fabric>) -> Self {
        Fabric(Handle::new(raw))
    }

    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

impl<L> Domain<L> {
    pub(crate) fn of(raw: Raw<sys::fid_domain>, fabric: &Fabric<L>, info: &RawInfo) -> Self
    where
        L: Level,
    {
        let facts = Facts::of(info);
        let addr_format = AddressFormat::from_raw(info.fields().addr_format);
        Domain {
            fid: Handle::new(raw),
            fabric: Handle::new(fabric.0.raw()),
            addr_format,
            removal: Removal::of::<L>(facts, info, addr_format),
            overruns: quirks::overruns(info),
            facts,
            group: quirks::may_share_memory(facts, info).then(|| Group::of(facts)),
            sleeps: quirks::sleeps(facts, info),
            leaves_readable: quirks::leaves_readable(info),
            has_devices: info.attributes().caps.contains(Caps::HMEM),
            has_contexts: quirks::has_contexts(facts, info),
            reads_atomically: quirks::reads_atomically(info),
            takes_strings_in_place: quirks::takes_strings_in_place(info),
            unlisted: Unlisted::none(),
        }
    }

    #[inline]
    pub(crate) const fn raw(&self) -> Raw<sys::fid_domain> {
        self.fid.raw()
    }

    #[inline]
    pub(crate) const fn fabric(&self) -> Raw<sys::fid_fabric> {
        self.fabric.raw()
    }

    #[inline]
    pub(crate) const fn addr_format(&self) -> AddressFormat {
        self.addr_format
    }

    pub(crate) const fn overruns(&self) -> bool {
        self.overruns
    }

    pub(crate) const fn group(&self) -> Option<Group> {
        self.group
    }

    pub(crate) const fn removal(&self) -> Removal {
        self.removal
    }

    pub(crate) const fn facts(&self) -> Facts {
        self.facts
    }

    pub(crate) const fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Returns `true` if the descriptor may stay readable until the provider sleeps.
    ///
    /// # Safety
    /// Contract of callers: the object is open.
    pub(crate) unsafe fn is_left_readable(&self, fid: Raw<sys::fid>) -> bool {
        // SAFETY: the caller keeps the object open (H1).
        self.leaves_readable && unsafe { wait_fd(fid) }.is_ok_and(nap::is_readable)
    }

    pub(crate) const fn has_devices(&self) -> bool {
        self.has_devices
    }

    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    pub(crate) const fn has_contexts(&self) -> bool {
        self.has_contexts
    }

    pub(crate) const fn unlisted(&self) -> &Unlisted {
        &self.unlisted
    }

    pub(crate) const fn reads_atomically(&self) -> bool {
        self.reads_atomically
    }
}

// SAFETY: see `Transport`.
unsafe impl<L: Level> Fabrics for Ofi<L> {
    type Info = RawInfo;
    type Fabric = Fabric<L>;
    type Domain = Domain<L>;

    fn duplicate(info: &RawInfo) -> Result<RawInfo, Errno> {
        info.try_clone().ok_or(Errno::ENOMEM)
    }

    fn attributes(info: &RawInfo) -> Attributes {
        info.attributes()
    }

    fn name(info: &RawInfo, name: Name) -> Option<&str> {
        info.name(name)
    }

    fn source_address(info: &RawInfo) -> Option<EndpointAddr> {
        info.source_address()
    }

    fn destination_address(info: &RawInfo) -> Option<EndpointAddr> {
        info.destination_address()
    }

    fn nic(info: &RawInfo) -> Option<Nic<'_>> {
        nic::nic(info)
    }

    fn serves_threading(attributes: &Attributes) -> bool {
        L::is_served_by(attributes.domain.threading)
    }

    fn quirks(info: &RawInfo) -> ProviderQuirks {
        quirks::quirks(info)
    }

    fn workarounds(info: &RawInfo) -> impl Iterator<Item = &'static str> {
        quirks::workarounds(info)
    }

    fn exhausted(refused: Errno) -> Option<&'static str> {
        (refused == sm2_table::FULL).then_some("/dev/shm/fi_sm2_mmaps")
    }

    #[inline]
    unsafe fn fabric_open(info: &RawInfo) -> Result<Fabric<L>, Errno> {
        let attributes = info.fields().fabric_attr;
        if attributes.is_null() {
            return Err(Errno::EINVAL);
        }
        fork::notice_fork();
        let mut raw = ptr::null_mut();
        // SAFETY: the info's attributes are only read, and `raw` receives the fabric.
        let code = unsafe { Library::of_object().fi_fabric(attributes, &raw mut raw, ptr::null_mut()) };
        opened(code, raw).map(Fabric::of)
    }

    #[inline]
    unsafe fn fabric_close(fabric: &Fabric<L>) -> Result<(), Errno> {
        // SAFETY: the fabric is closed once (H1–H3).
        unsafe { close(fabric.0.fid()) }
    }

    #[inline]
    unsafe fn domain_open(fabric: &Fabric<L>, info: &RawInfo, _: NonNull<u8>) -> Result<Domain<L>, Errno> {
        let raw_fabric = fabric.0.raw();
        let open = entry!(raw_fabric, ops => domain)?;
        let mut raw = ptr::null_mut();
        // SAFETY: open (H1), the info only read.
        let code = unsafe { open(raw_fabric.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
        Ok(Domain::of(opened(code, raw)?, fabric, info))
    }

    fn is_here(domain: &Domain<L>) -> bool {
        fork::notice_fork();
        domain.raw().is_here()
    }

    #[inline]
    unsafe fn domain_close(domain: &Domain<L>) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { sm2_table::close_unlisted(domain) }?;
        if domain.unlisted().has_leaked() {
            return Err(Errno::EBUSY);
        }
        // SAFETY: the domain is closed once (H1–H3).
        unsafe { close(domain.fid.fid()) }
    }
}
