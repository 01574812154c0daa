#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::ptr;

use loom_core::transport::{AddressVectors, AvRoom};
use loom_core::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

use super::control::{close, opened};
use super::fabric::Domain;
use super::ffi::call::{done, entry, errno};
use super::ffi::text::CText;
use super::quirks::av_lock::AvLock;
use super::quirks::removal::{self, Removal};
use super::quirks::shm_registry::{self, Group};
use super::raw::Raw;
use super::sys;
use super::threading::{Handle, Level};
use super::transport::Ofi;

const AF_IB: u16 = 27;

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

// SAFETY: see `Transport`.
unsafe impl<L: Level> AddressVectors for Ofi<L> {
    type Av = Av<L>;

    unsafe fn av_room(domain: &Domain<L>, capacity: usize) -> AvRoom {
        // Vectors are tables (`FI_AV_TABLE`): providers return the lowest free index.
        domain.removal().room(capacity)
    }

    #[inline]
    unsafe fn av_open(domain: &Domain<L>, capacity: usize, rx_ctx_bits: u8) -> Result<Av<L>, Errno> {
        let raw_domain = domain.raw();
        let open = entry!(raw_domain, ops => av_open)?;
        let rx_ctx_bits = rx_ctx_bits.into();
        let count = domain.removal().count(capacity);
        let mut attributes = sys::fi_av_attr { type_: sys::FI_AV_TABLE, count, rx_ctx_bits, ..Default::default() };
        let mut raw = ptr::null_mut();
        // SAFETY: open (H1). The call keeps no pointer.
        let code = unsafe { open(raw_domain.as_ptr(), &raw mut attributes, &raw mut raw, ptr::null_mut()) };
        let av = Av::of(domain, opened(code, raw)?);
        // SAFETY: open, and not shared yet.
        if let Err(errno) = unsafe { removal::reserve(&av) } {
            // SAFETY: open, and has no endpoint.
            let _ = unsafe { Self::av_close(&av) };
            return Err(errno);
        }
        Ok(av)
    }

    #[inline]
    unsafe fn av_close(av: &Av<L>) -> Result<(), Errno> {
        // SAFETY: the vector is closed once (H1–H3).
        unsafe { close(av.fid()) }
    }

    #[inline]
    unsafe fn av_insert(av: &Av<L>, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
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
            // SAFETY: open (H1), the address has enough memory, and `peer` receives one number.
            // Without an event queue, the call completes here.
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

    unsafe fn av_insert_service(av: &Av<L>, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
        // Providers follow null for a missing name, and take empty names for this host's.
        let text = |text: &str| CText::new(text).ok().filter(|_| !text.is_empty()).ok_or(Errno::EINVAL);
        let node = text(node)?;
        let Some(service) = service else {
            let address = EndpointAddr::new(AddressFormat::ADDR_STR, node.with_zero()).map_err(|_| Errno::EINVAL)?;
            // SAFETY: open (H1).
            return unsafe { Self::av_insert(av, &address) };
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
            // SAFETY: open (H1), both strings end with a zero byte, and `peer` receives one number.
            // Without an event queue, the call completes here.
            inserted =
                unsafe { insert(raw.as_ptr(), node.as_ptr(), service.as_ptr(), &raw mut peer, 0, ptr::null_mut()) };
            Ok(())
        };
        match av.group {
            Some(group) => group.meets_unseen(insert),
            None => av.turn().take(insert),
        }?;
        found(inserted, peer)
    }

    #[inline]
    unsafe fn av_remove(av: &Av<L>, peer: FabricAddr) -> Result<(), Errno> {
        let remove = || {
            // SAFETY: open, with the address (H1, O1). Other threads wait for the lock.
            unsafe { removal::remove(av, peer) }
        };
        match av.group {
            Some(_) => shm_registry::alone(remove),
            None => av.turn().take(remove),
        }
    }

    #[inline]
    unsafe fn av_lookup(av: &Av<L>, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
        // SAFETY: the vector is open (H1), and the caller guarantees that it has the address.
        unsafe { removal::lookup(av, peer) }
    }
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

pub(crate) fn found(inserted: c_int, peer: u64) -> Result<FabricAddr, Errno> {
    match inserted {
        1 if peer != FabricAddr::NOTAVAIL.0 => Ok(FabricAddr(peer)),
        0 | 1 => Err(Errno::EADDRNOTAVAIL),
        other => Err(errno(other as isize)),
    }
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
    use core::ptr::NonNull;
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
        assert_eq!(unsafe { Ofi::av_insert(&av, &address) }, Ok(FabricAddr(0)));
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
