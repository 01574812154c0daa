//! Ids of the user in completions, in place of addresses (`FI_AV_USER_ID`).

use super::*;
use loom_core::transport::{AddressVectors, Endpoints};

#[test]
fn completions_have_the_id_that_the_user_gave_an_address() {
    const ID: u64 = 0x51de;
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened = Opened::new(&info);
        let av = open_vector(&opened.domain, sys::fi_av_attr { count: 4, ..Default::default() }).unwrap();
        let cq = open_queue(&opened.domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let endpoint = opened.endpoint_of(&av, (queue, queue), &[]);
        // SAFETY: the endpoint is open.
        let address = unsafe { T::endpoint_address(&endpoint) }.unwrap();
        let (raw, bytes, mut own) = (av.as_ptr(), together(&[&address]), ID);
        let insert = entry!(raw, ops => insert).unwrap();
        // SAFETY: the vector is open, and has no event queue. It gets one address, and one number:
        // the id, and then the address.
        let code =
            unsafe { insert(raw, bytes.as_ptr().cast(), 1, &raw mut own, sys::FI_AV_USER_ID, std::ptr::null_mut()) };
        if code == 1 {
            assert_ne!(own, ID, "posts are for the address");
            let source = moves(&cq, &endpoint, (&endpoint, FabricAddr(own)), 34);
            println!("{provider}: the id of {own:#x} is {ID:#x}, and a message from there is from {source:?}");
            match (library_version().major, provider.as_str()) {
                // They accept the flag, and ignore it.
                (_, "sockets") | (1, "shm") => assert_eq!(source, FabricAddr(own)),
                (_, "udp;ofi_rxd") => assert!(!has_sources(&info)),
                _ => {
                    assert_eq!(source, FabricAddr(ID));
                    ran.push(provider);
                }
            }
        } else {
            println!("{provider}: no ids: {code}");
            assert_eq!((Errno::from_ret(code as isize), library_version().major), (Some(Errno::EBADFLAGS), 1));
        }
        opened.close(&endpoint, || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { cq.close() }.unwrap();
            // SAFETY: as above.
            unsafe { T::av_close(&av) }.unwrap();
        });
    }
    println!("over {ran:?}");
    assert_eq!(ran.is_empty(), library_version().major < 2);
}
