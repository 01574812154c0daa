//! Address vectors that are maps, or shared by name, and sets of addresses in them.

use std::ffi::CString;
use std::ptr;

use loom_core::transport::{AddressVectors, Closing, Endpoints, InFlight};

use super::*;

/// Returns an address without the additions of some providers: `fi_shm://` in front, a zero byte at
/// the end.
fn name_of(address: &EndpointAddr) -> &[u8] {
    let bytes = address.bytes().strip_prefix(b"fi_shm://").unwrap_or(address.bytes());
    bytes.strip_suffix(b"\0").unwrap_or(bytes)
}

#[test]
fn a_message_goes_by_the_addresses_of_a_map_and_of_a_table() {
    for info in infos() {
        for (name, type_) in [("map", sys::FI_AV_MAP), ("table", sys::FI_AV_TABLE)] {
            let opened = Opened::new(&info);
            let av = open_vector(&opened.domain, sys::fi_av_attr { type_, count: 4, ..Default::default() }).unwrap();
            let cq = open_queue(&opened.domain);
            // SAFETY: named in bindings.
            let queue = unsafe { cq.for_bindings() };
            let endpoint = opened.endpoint_of(&av, (queue, queue), &[]);
            // SAFETY: the endpoint is open.
            let address = unsafe { T::endpoint_address(&endpoint) }.unwrap();
            // SAFETY: the vector is open, and has the address here and below.
            let own = unsafe { T::av_insert(&av, &address) }.unwrap();
            println!("{}: a {name}, {own:?}", info.provider());
            let source = moves(&cq, &endpoint, (&endpoint, own), 31);
            assert!(source == own || !has_sources(&info), "{source:?} instead of {own:?}");
            // SAFETY: as above.
            match unsafe { T::av_lookup(&av, own) } {
                Ok(found) => assert_eq!(name_of(&found), name_of(&address)),
                Err(errno) => {
                    assert_eq!((errno, info.provider(), library_version().major), (Errno::ENODATA, "udp;ofi_rxd", 1));
                }
            }
            // SAFETY: as above. No later post uses it.
            unsafe { T::av_remove(&av, own) }.unwrap();
            opened.close(&endpoint, || {
                // SAFETY: open, without endpoints, and used no more.
                unsafe { cq.close() }.unwrap();
                // SAFETY: as above.
                unsafe { T::av_close(&av) }.unwrap();
            });
        }
    }
}

#[test]
fn a_vector_is_shared_by_its_name() {
    let mut shared = Vec::new();
    for info in infos() {
        let opened = Opened::new(&info);
        let domain = &opened.domain;
        let name = CString::new(format!("/loom-vector-{}", std::process::id())).unwrap();
        let attr = |flags| sys::fi_av_attr { count: 4, name: name.as_ptr(), flags, ..Default::default() };
        let first = match open_vector(domain, attr(0)) {
            Ok(av) => av,
            Err(errno) => {
                println!("{}: no vector under a name: {errno}", info.provider());
                assert_eq!(errno, Errno::ENOSYS, "{}", info.provider());
                opened.close_unused();
                continue;
            }
        };
        let cq = open_queue(domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let writer = opened.endpoint_of(&first, (queue, queue), &[]);
        // SAFETY: the endpoint is open.
        let address = unsafe { T::endpoint_address(&writer) }.unwrap();
        // SAFETY: the vector is open.
        let own = unsafe { T::av_insert(&first, &address) }.unwrap();

        // The second one finds the addresses of the first.
        let second = open_vector(domain, attr(u64::from(sys::FI_READ))).unwrap();
        // SAFETY: the vector is open and has the address, as the first one has.
        assert_eq!(unsafe { T::av_lookup(&second, own) }.unwrap().bytes(), address.bytes());
        let reader = opened.endpoint_of(&second, (queue, queue), &[]);
        moves(&cq, &reader, (&writer, own), 32);
        println!("{}: a message by an address that another vector has inserted", info.provider());
        shared.push(info.provider().to_owned());

        // SAFETY: open, and used no more.
        assert_eq!(unsafe { T::endpoint_close(&reader, InFlight::NOTHING) }, Ok(Closing::Closed));
        opened.close(&writer, || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { cq.close() }.unwrap();
            // SAFETY: as above.
            unsafe { T::av_close(&second) }.unwrap();
            // SAFETY: as above.
            unsafe { T::av_close(&first) }.unwrap();
        });
    }
    assert_eq!(shared, ["sockets"]);
}

/// Opens an `fi_av_set` of the addresses from one to another.
fn open_set(av: *mut sys::fid_av, from: FabricAddr, to: FabricAddr) -> Result<*mut sys::fid_av_set, Errno> {
    let mut attr =
        sys::fi_av_set_attr { count: 4, start_addr: from.0, end_addr: to.0, stride: 1, ..Default::default() };
    let (mut raw, open) = (ptr::null_mut(), entry!(av, ops => av_set).unwrap());
    // SAFETY: the vector is open. The set goes to `raw`.
    let code = unsafe { open(av, &raw mut attr, &raw mut raw, ptr::null_mut()) };
    opened(code, raw).map(NonNull::as_ptr)
}

#[test]
fn addresses_are_members_of_a_set() {
    let mut made = Vec::new();
    for info in infos_with(Caps::MSG | Caps::COLLECTIVE) {
        let opened_all = Opened::new(&info);
        let av = opened_all.av.as_ptr();
        let cq = open_queue(&opened_all.domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let (endpoint, own) = opened_all.endpoint((queue, queue), &[]);
        // A set of all addresses, and an empty one, for which 1.17 reads before the begin of an
        // array.
        let sets = [(own, true), (FabricAddr::NOTAVAIL, false)];
        for (at, is_in) in sets.into_iter().take(if library_version().major < 2 { 1 } else { 2 }) {
            let set = open_set(av, at, at).unwrap();
            let insert = entry!(set, ops => insert).unwrap();
            let remove = entry!(set, ops => remove).unwrap();
            let change = |function: unsafe extern "C" fn(*mut sys::fid_av_set, u64) -> i32| {
                // SAFETY: the set is open, and the vector has the address.
                done(unsafe { function(set, own.0) })
            };
            if !is_in {
                assert_eq!(change(remove), Err(Errno::EINVAL), "it is no member");
                assert_eq!(change(insert), Ok(()));
            }
            assert_eq!(change(insert), Err(Errno::EINVAL), "it is a member");
            assert_eq!(change(remove), Ok(()));
            assert_eq!(change(remove), Err(Errno::EINVAL), "it is none any more");
            assert_eq!(change(insert), Ok(()));
            println!("{}: a set of the addresses from {at:?} on", info.provider());
            // SAFETY: open, and used no more.
            unsafe { close(set) }.unwrap();
        }
        made.push(info.provider().to_owned());
        // SAFETY: open, without endpoints, and used no more.
        opened_all.close(&endpoint, || unsafe { cq.close() }.unwrap());
    }
    assert_eq!(made, ["tcp;ofi_rxm"]);
}
