#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::ptr::{self, NonNull};

use loom_core::vocabulary::{AddressFormat, Caps, EndpointAddr, Errno, FabricAddr};

use super::ffi::call::{done, entry, errno};
use super::ffi::text::CText;
use super::info::RawInfo;
use super::library::Library;
use super::process::{self, Raw};
use super::quirks;
use super::quirks::av_lock::AvLock;
use super::quirks::known_behaviour::Facts;
use super::quirks::nap;
use super::quirks::removal::{self, Removal};
use super::quirks::shm_registry::{self, Group};
use super::quirks::table_entry::{self, Unlisted};
use super::sys;
use super::threading::{Handle, Level};

const AF_IB: u16 = 27;

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
    addr_format: AddressFormat,
    /// Lacking in the info of a connection request.
    facts: Facts,
    group: Option<Group>,
    sleeps: bool,
    /// `true` if descriptors of its queues stay readable until the provider sleeps.
    leaves_readable: bool,
    has_devices: bool,
    has_contexts: bool,
    /// `true` if atomic reads return the value.
    reads_atomically: bool,
    /// `true` if insertions read strings in place instead of through pointers.
    takes_strings_in_place: bool,
    removal: Removal,
    /// `true` if receives of its adopted endpoints have a last piece for longer messages.
    overruns: bool,
    unlisted: Unlisted,
}

/// An address vector, raw.
#[doc(alias = "fid_av")]
#[derive(Debug)]
pub struct Av<L> {
    fid: Handle<sys::fid_av, L>,
    addr_format: AddressFormat,
    group: Option<Group>,
    takes_strings_in_place: bool,
    removal: Removal,
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

impl<L> Av<L> {
    pub(crate) fn of(domain: &Domain<L>, raw: Raw<sys::fid_av>) -> Self {
        let Domain { addr_format, group, takes_strings_in_place, removal, .. } = *domain;
        Av { fid: Handle::new(raw), addr_format, group, takes_strings_in_place, removal }
    }

    #[inline]
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    pub(crate) const fn raw(&self) -> Raw<sys::fid_av> {
        self.fid.raw()
    }

    pub(crate) const fn addr_format(&self) -> AddressFormat {
        self.addr_format
    }

    pub(crate) const fn removal(&self) -> Removal {
        self.removal
    }

    pub(crate) fn turn(&self) -> AvLock {
        AvLock::of(self.fid.raw())
    }
}

/// `fi_close`
///
/// # Safety
/// Contract of callers. The object is not used again, whatever this returns.
pub(crate) unsafe fn close(fid: Raw<sys::fid>) -> Result<(), Errno> {
    let close = entry!(fid, ops => close)?;
    // SAFETY: the object is open, without open children (H2), and closed once (H3).
    done(unsafe { close(fid.as_ptr()) })
}

/// `fi_ep_bind`, `fi_pep_bind`
///
/// # Safety
/// Contract of callers: both objects are open.
pub(crate) unsafe fn bind(fid: Raw<sys::fid>, object: Raw<sys::fid>, flags: u64) -> Result<(), Errno> {
    let bind = entry!(fid, ops => bind)?;
    // SAFETY: both objects are open (H1).
    done(unsafe { bind(fid.as_ptr(), object.as_ptr(), flags) })
}

/// `fi_control` with `FI_GETWAIT`. Returns `ENOSYS` for wait objects of other kinds.
///
/// # Safety
/// Contract of callers: the object is open.
pub(crate) unsafe fn wait_fd(fid: Raw<sys::fid>) -> Result<c_int, Errno> {
    let control = entry!(fid, ops => control)?;
    #[repr(C)]
    struct Wait {
        fd: c_int,
        room: [u64; 8],
    }
    let mut wait = Wait { fd: -1, room: [0; 8] };
    // SAFETY: the object is open (H1), and `wait` has room for wait objects of every kind.
    done(unsafe { control(fid.as_ptr(), sys::FI_GETWAIT.cast_signed(), (&raw mut wait).cast()) })?;
    if wait.fd < 0 || wait.room != [0; 8] { Err(Errno::ENOSYS) } else { Ok(wait.fd) }
}

/// `fi_trywait` of one object.
///
/// # Safety
/// Contract of callers. The object belongs to this domain or its fabric.
pub(crate) unsafe fn try_wait<L>(domain: &Domain<L>, fid: Raw<sys::fid>) -> Result<bool, Errno> {
    let fabric = domain.fabric();
    let try_wait = entry!(fabric, ops => trywait)?;
    let mut fid = fid.as_ptr();
    // SAFETY: fabric and object are open (H1), and the count is that of the pointers.
    match done(unsafe { try_wait(fabric.as_ptr(), &raw mut fid, 1) }) {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn opened<F>(code: i32, raw: *mut F) -> Result<Raw<F>, Errno> {
    done(code)?;
    NonNull::new(raw).map(Raw::opened).ok_or(Errno::EOTHER)
}

pub(crate) unsafe fn fabric_open<L>(info: &RawInfo) -> Result<Fabric<L>, Errno> {
    let attributes = info.fields().fabric_attr;
    if attributes.is_null() {
        return Err(Errno::EINVAL);
    }
    process::notice_fork();
    let mut raw = ptr::null_mut();
    // SAFETY: the info's attributes are only read, and `raw` receives the fabric.
    let code = unsafe { Library::of_object().fi_fabric(attributes, &raw mut raw, ptr::null_mut()) };
    opened(code, raw).map(Fabric::of)
}

pub(crate) unsafe fn fabric_close<L>(fabric: &Fabric<L>) -> Result<(), Errno> {
    // SAFETY: the fabric is closed once (H1–H3).
    unsafe { close(fabric.0.fid()) }
}

pub(crate) unsafe fn domain_open<L: Level>(fabric: &Fabric<L>, info: &RawInfo) -> Result<Domain<L>, Errno> {
    let raw_fabric = fabric.0.raw();
    let open = entry!(raw_fabric, ops => domain)?;
    let mut raw = ptr::null_mut();
    // SAFETY: the fabric is open (H1), the info only read.
    let code = unsafe { open(raw_fabric.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
    Ok(Domain::of(opened(code, raw)?, fabric, info))
}

pub(crate) unsafe fn domain_close<L>(domain: &Domain<L>) -> Result<(), Errno> {
    // SAFETY: the domain is open (H1).
    unsafe { table_entry::close_unlisted(domain) }?;
    if domain.unlisted().has_leaked() {
        return Err(Errno::EBUSY);
    }
    // SAFETY: the domain is closed once (H1–H3).
    unsafe { close(domain.fid.fid()) }
}

pub(crate) unsafe fn av_open<L>(domain: &Domain<L>, capacity: usize, rx_ctx_bits: u8) -> Result<Av<L>, Errno> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => av_open)?;
    let rx_ctx_bits = rx_ctx_bits.into();
    let count = domain.removal.count(capacity);
    let mut attributes = sys::fi_av_attr { type_: sys::FI_AV_TABLE, count, rx_ctx_bits, ..Default::default() };
    let mut raw = ptr::null_mut();
    // SAFETY: the domain is open (H1). The call keeps no pointer.
    let code = unsafe { open(raw_domain.as_ptr(), &raw mut attributes, &raw mut raw, ptr::null_mut()) };
    let av = Av::of(domain, opened(code, raw)?);
    // SAFETY: the vector is open, and not shared yet.
    if let Err(errno) = unsafe { removal::reserve(&av) } {
        // SAFETY: the vector is open, and has no endpoint.
        let _ = unsafe { av_close(&av) };
        return Err(errno);
    }
    Ok(av)
}

pub(crate) unsafe fn av_close<L>(av: &Av<L>) -> Result<(), Errno> {
    // SAFETY: the vector is closed once (H1–H3).
    unsafe { close(av.fid()) }
}

/// `fi_av_insert` and `fi_connect` take no length: the zeros bound reads of short addresses and of
/// strings without zero byte.
#[repr(C, align(16))]
pub(crate) struct Padded([u8; EndpointAddr::MAX_LEN + 64]);

impl Padded {
    pub(crate) fn new(address: &EndpointAddr) -> Self {
        let mut padded = Padded([0; _]);
        for (to, from) in padded.0.iter_mut().zip(address.bytes()) {
            *to = *from;
        }
        padded
    }
}

/// Zeros follow, for a provider that reads in place.
#[repr(C)]
struct Pointed {
    /// Fills the gap before the zeros, which are aligned to 16 bytes.
    text: [*const Padded; 2],
    zeros: Padded,
}

pub(crate) unsafe fn av_insert<L>(av: &Av<L>, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
    if !takes(av.addr_format, address) {
        return Err(Errno::EINVAL);
    }
    let padded = Padded::new(address);
    let pointed = Pointed { text: [&raw const padded, ptr::null()], zeros: Padded([0; _]) };
    let given: *const c_void = if av.addr_format == AddressFormat::ADDR_STR && !av.takes_strings_in_place {
        (&raw const pointed).cast()
    } else {
        (&raw const padded).cast()
    };
    let raw = av.fid.raw();
    let insert = entry!(raw, ops => insert)?;
    let mut peer = FabricAddr::NOTAVAIL.0;
    let insert = || {
        // SAFETY: the vector is open (H1), the address has enough memory, and `peer` receives one
        // number. Without an event queue, the call completes here.
        unsafe { insert(raw.as_ptr(), given, 1, &raw mut peer, 0, ptr::null_mut()) }
    };
    let inserted = match av.group {
        Some(group) => group.meets(address, insert)?,
        None => av.turn().take(insert),
    };
    // `shm` inserts no address after its last.
    if inserted == 0 && av.removal.room(1).limit.is_some() {
        return Err(Errno::ENOSPC);
    }
    found(inserted, peer)
}

pub(crate) fn found(inserted: c_int, peer: u64) -> Result<FabricAddr, Errno> {
    match inserted {
        1 if peer != FabricAddr::NOTAVAIL.0 => Ok(FabricAddr(peer)),
        0 | 1 => Err(Errno::EADDRNOTAVAIL),
        other => Err(errno(other as isize)),
    }
}

pub(crate) unsafe fn av_insert_service<L>(av: &Av<L>, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
    // Providers follow null for a missing name, and take empty names for this host's.
    let text = |text: &str| CText::new(text).ok().filter(|_| !text.is_empty()).ok_or(Errno::EINVAL);
    let node = text(node)?;
    let Some(service) = service else {
        let address = EndpointAddr::new(AddressFormat::ADDR_STR, node.with_zero()).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the vector is open (H1).
        return unsafe { av_insert(av, &address) };
    };
    let service = text(service)?;
    if av.addr_format == AddressFormat::ADDR_STR {
        return Err(Errno::EINVAL);
    }
    let raw = av.fid.raw();
    let insert = entry!(raw, ops => insertsvc)?;
    let mut peer = FabricAddr::NOTAVAIL.0;
    let mut inserted = 0;
    let insert = || {
        // SAFETY: the vector is open (H1), both strings end with a zero byte, and `peer` receives
        // one number. Without an event queue, the call completes here.
        inserted = unsafe { insert(raw.as_ptr(), node.as_ptr(), service.as_ptr(), &raw mut peer, 0, ptr::null_mut()) };
        Ok(())
    };
    match av.group {
        Some(group) => group.meets_unseen(insert),
        None => av.turn().take(insert),
    }?;
    found(inserted, peer)
}

/// The family must belong to both formats. After one of an unknown family, `ofi_rxm` finds no other
/// address, and `ofi_rxd` takes every other for its first.
pub(crate) fn takes(format: AddressFormat, address: &EndpointAddr) -> bool {
    const ANY_SOCKET: [AddressFormat; 2] = [AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IP];
    const SOCKET: [AddressFormat; 2] = [AddressFormat::SOCKADDR_IN, AddressFormat::SOCKADDR_IN6];
    let given = address.format();
    let is_socket = |format| ANY_SOCKET.contains(&format) || SOCKET.contains(&format);
    let fits = given == format
        || [given, format].contains(&AddressFormat::UNSPEC)
        || (is_socket(given) && is_socket(format) && !(SOCKET.contains(&given) && SOCKET.contains(&format)));
    fits && [given, format].into_iter().all(|format| is_whole(format, address.bytes()))
}

fn is_whole(format: AddressFormat, bytes: &[u8]) -> bool {
    let is_ip = || EndpointAddr::new(format, bytes).is_ok_and(|address| SocketAddr::try_from(&address).is_ok());
    match format {
        AddressFormat::SOCKADDR_IN | AddressFormat::SOCKADDR_IN6 | AddressFormat::SOCKADDR_IP => is_ip(),
        AddressFormat::SOCKADDR => is_ip() || bytes.starts_with(&AF_IB.to_ne_bytes()),
        _ => !bytes.is_empty(),
    }
}

pub(crate) unsafe fn av_remove<L>(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
    let remove = || {
        // SAFETY: the vector is open and has the address (H1, O1). Other threads wait for the lock.
        unsafe { removal::remove(av, peer) }
    };
    match av.group {
        Some(_) => shm_registry::alone(remove),
        None => av.turn().take(remove),
    }
}

pub(crate) fn read_address(
    format: AddressFormat,
    read: impl FnOnce(*mut c_void, *mut usize) -> i32,
) -> Result<EndpointAddr, Errno> {
    let mut padded = Padded([0; _]);
    let mut len = EndpointAddr::MAX_LEN;
    done(read((&raw mut padded).cast(), &raw mut len))?;
    // Some functions succeed with a part, and return the full length.
    let bytes = padded.0.get(..len).ok_or(Errno::ETOOSMALL)?;
    EndpointAddr::new(format, bytes).map_err(|_| Errno::ETOOSMALL)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use core::cell::RefCell;
    use core::ffi::CStr;
    use std::string::String;

    use super::super::threading::Local;
    use super::*;

    #[test]
    fn addresses_of_another_kind_are_refused() {
        let (any, ip, text) = (AddressFormat::SOCKADDR, AddressFormat::SOCKADDR_IP, AddressFormat::ADDR_STR);
        let (v4, v6) = (AddressFormat::SOCKADDR_IN, AddressFormat::SOCKADDR_IN6);
        let of = |format, socket: &str| {
            let address = EndpointAddr::from(socket.parse::<SocketAddr>().unwrap());
            EndpointAddr::new(format, address.bytes()).unwrap()
        };
        let (four, six) = ("127.0.0.1:7", "[::1]:7");
        assert!(takes(v4, &of(v4, four)));
        assert!(takes(any, &of(v4, four)));
        assert!(takes(v4, &of(any, four)));
        assert!(takes(any, &of(ip, six)));
        assert!(takes(AddressFormat::UNSPEC, &of(v4, four)));
        assert!(takes(v4, &of(AddressFormat::UNSPEC, four)));
        assert!(takes(AddressFormat::UNSPEC, &EndpointAddr::new(text, b"fi_shm://1\0").unwrap()));
        assert!(!takes(text, &of(v4, four)));
        assert!(!takes(text, &EndpointAddr::new(text, b"").unwrap()));
        assert!(!takes(v6, &of(v4, four)));
        assert!(!takes(v4, &EndpointAddr::new(text, b"fi_shm://1\0").unwrap()));
        assert!(!takes(v4, &of(v4, six)));
        assert!(!takes(v6, &of(v6, four)));
        assert!(!takes(v4, &of(any, six)));
        assert!(!takes(v6, &of(AddressFormat::UNSPEC, four)));
        assert!(!takes(v4, &EndpointAddr::new(v4, &of(v4, four).bytes()[..15]).unwrap()));
        let infiniband = |format| EndpointAddr::new(format, &[27, 0, 1, 1]).unwrap();
        assert!(takes(any, &infiniband(any)));
        assert!(!takes(any, &infiniband(ip)));
        assert!(!takes(v4, &infiniband(v4)));
        assert!(!takes(any, &EndpointAddr::new(any, &[99; 16]).unwrap()));
    }

    fn inserted(takes_strings_in_place: bool, address: &str) -> String {
        std::thread_local! {
            static SEEN: RefCell<String> = const { RefCell::new(String::new()) };
        }
        /// # Safety
        /// The address is a string.
        unsafe fn see(address: *const c_void) {
            // SAFETY: the caller guarantees a string.
            let text = unsafe { CStr::from_ptr(address.cast()) };
            SEEN.set(text.to_str().unwrap().into());
        }
        unsafe extern "C" fn in_place(
            _: *mut sys::fid_av,
            address: *const c_void,
            _: usize,
            peer: *mut u64,
            _: u64,
            _: *mut c_void,
        ) -> c_int {
            // SAFETY: `av_insert` passes an address.
            unsafe { see(address) };
            // SAFETY: `av_insert` passes room for a number.
            unsafe { peer.write(0) };
            1
        }
        unsafe extern "C" fn pointed(
            av: *mut sys::fid_av,
            addresses: *const c_void,
            count: usize,
            peers: *mut u64,
            flags: u64,
            context: *mut c_void,
        ) -> c_int {
            // SAFETY: `av_insert` passes a pointer to the string (`man fi_av`).
            let address = unsafe { addresses.cast::<*const c_void>().read() };
            // SAFETY: the address is a string, and the other arguments are those of `av_insert`.
            unsafe { in_place(av, address, count, peers, flags, context) }
        }
        let insert = if takes_strings_in_place { in_place } else { pointed };
        let mut ops = sys::fi_ops_av { insert: Some(insert), ..Default::default() };
        let mut raw = sys::fid_av { ops: &raw mut ops, ..Default::default() };
        let av = Av::<Local> {
            fid: Handle::new(Raw::opened(NonNull::from(&mut raw))),
            addr_format: AddressFormat::ADDR_STR,
            group: None,
            takes_strings_in_place,
            removal: Removal::NOT,
        };
        let address = EndpointAddr::new(AddressFormat::ADDR_STR, address.as_bytes()).unwrap();
        // SAFETY: the vector has the table that the call uses.
        assert_eq!(unsafe { av_insert(&av, &address) }, Ok(FabricAddr(0)));
        SEEN.take()
    }

    #[test]
    fn strings_are_given_as_the_provider_reads_them() {
        for in_place in [true, false] {
            assert_eq!(inserted(in_place, "fi_addr://a/long/name"), "fi_addr://a/long/name");
        }
    }

    #[test]
    fn an_address_that_does_not_fit_is_an_error() {
        let read = |len: usize, code: i32| {
            read_address(AddressFormat::ADDR_STR, move |_, out| {
                // SAFETY: `read_address` passes a valid pointer.
                unsafe { *out = len };
                code
            })
        };
        assert_eq!(read(EndpointAddr::MAX_LEN, 0).unwrap().bytes().len(), EndpointAddr::MAX_LEN);
        assert_eq!(read(EndpointAddr::MAX_LEN + 1, 0).unwrap_err(), Errno::ETOOSMALL);
        assert_eq!(read(usize::MAX, 0).unwrap_err(), Errno::ETOOSMALL);
        assert_eq!(read(4, -257).unwrap_err(), Errno::ETOOSMALL);
    }
}
