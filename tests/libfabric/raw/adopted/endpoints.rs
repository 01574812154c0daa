//! Aliases of endpoints, and contexts that endpoints without connections share.

use std::ptr;

use loom_core::transport::{AddressVectors, Closing, EndpointError, Endpoints, InFlight, Messages};
use loom_fabric::ofi::RawInfo;

use super::by_hand::open_endpoint;
use super::*;
use loom_fabric::ofi::Library;

/// Closes an endpoint over a provider other than `shm`.
fn close_endpoint(endpoint: &Endpoint<Local>) {
    // SAFETY: open, and used no more.
    assert_eq!(unsafe { T::endpoint_close(endpoint, InFlight::NOTHING) }, Ok(Closing::Closed));
}

fn insert(opened: &Opened<'_>, endpoint: &Endpoint<Local>) -> FabricAddr {
    // SAFETY: the endpoint is open.
    let address = unsafe { T::endpoint_address(endpoint) }.unwrap();
    // SAFETY: the vector is open.
    unsafe { T::av_insert(&opened.av, &address) }.unwrap()
}

/// Returns a copy of an info for endpoints that share contexts.
fn sharing(info: &Info<T>, change: impl FnOnce(&mut sys::fi_ep_attr)) -> RawInfo {
    // SAFETY: the info is only read.
    let copy = NonNull::new(unsafe { Library::get().unwrap().fi_dupinfo(info.raw().as_ptr()) }).unwrap();
    // SAFETY: the copy is ours.
    let attributes = unsafe { (*copy.as_ptr()).ep_attr };
    // SAFETY: the copy owns them, and has them as the info has.
    change(unsafe { &mut *attributes });
    // SAFETY: libfabric has allocated it, and the changed fields may change.
    unsafe { RawInfo::from_ptr(copy) }.unwrap()
}

#[test]
fn an_alias_posts_with_flags_of_its_own() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened_all = Opened::new(&info);
        let domain = &opened_all.domain;
        let (tx, rx) = (open_queue(domain), open_queue(domain));
        let bound = || {
            let transmit = u64::from(sys::FI_TRANSMIT) | sys::FI_SELECTIVE_COMPLETION;
            let to = [
                (opened_all.av.as_ptr().cast(), 0),
                (tx.as_ptr().cast(), transmit),
                (rx.as_ptr().cast(), u64::from(sys::FI_RECV)),
            ];
            // SAFETY: all are open, of this domain.
            unsafe { open_endpoint(domain.as_ptr(), info.raw().as_ptr(), &to) }
        };
        // SAFETY: opened with this info, bound to objects of this domain, and enabled.
        let endpoint = unsafe { Endpoint::from_fn(domain, info.raw(), true, bound) }.unwrap();
        let own = insert(&opened_all, &endpoint);
        let fid = endpoint.as_ptr().cast::<sys::fid>();
        let mut alias = ptr::null_mut();
        let mut asked = sys::fi_alias { fid: &raw mut alias, flags: u64::from(sys::FI_TRANSMIT | sys::FI_COMPLETION) };
        let control = entry!(fid, ops => control).unwrap();
        // SAFETY: the endpoint is open. The argument fits the command.
        let code = unsafe { control(fid, sys::FI_ALIAS.cast_signed(), (&raw mut asked).cast()) };
        match opened(code, alias) {
            Ok(raw) => {
                // SAFETY: an alias of the endpoint, which is closed after it.
                let alias = unsafe { Endpoint::from_ptr(domain, raw.cast(), true) };
                // The endpoint's own sends do not report their success, those of the alias do.
                for (from, reports) in [(&endpoint, 0), (&alias, 1)] {
                    sends(from, (&endpoint, own), (&tx, &rx), reports);
                }
                println!("{provider}: a message through an alias");
                close_endpoint(&alias);
                ran.push(provider);
            }
            Err(errno) => {
                println!("{provider}: no alias: {errno}");
                assert_eq!(errno, Errno::ENOSYS);
            }
        }
        opened_all.close(&endpoint, || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { tx.close() }.unwrap();
            // SAFETY: as above.
            unsafe { rx.close() }.unwrap();
        });
    }
    assert_eq!(ran, ["sockets"]);
}

/// Transfers a message, and checks the sender's number of completions.
fn sends(
    from: &Endpoint<Local>,
    (into, to): (&Endpoint<Local>, FabricAddr),
    (tx, rx): (&Queue, &Queue),
    reports: usize,
) {
    let end = Instant::now() + LIMIT;
    let (sent, mut room) = (pattern(41, 100), vec![0; 100]);
    let (lent, target) = (crate::raw::source(&sent), crate::raw::target(&mut room));
    // SAFETY: the bytes outlive the operations: their message is waited for below. Words are no
    // pointers.
    retry(|| (), || unsafe { T::recv(into, FabricAddr::UNSPEC, &target, None, word(1)) });
    // SAFETY: as above. The peer is in the vector.
    retry(|| (), || unsafe { T::send(from, to, &lent, None, None, word(2)) });
    let (mut of_rx, mut of_tx) = (0, 0);
    let mut idle = None;
    // Unexpected completions would arrive soon after the rest.
    while idle.is_none_or(|since: Instant| since.elapsed() < std::time::Duration::from_millis(200)) {
        assert!(Instant::now() < end, "no message");
        // SAFETY: the queue is open, and this thread is its only user.
        of_rx += unsafe { rx.read(&mut [CqTaggedEntry::default()]) }.unwrap();
        // SAFETY: as above.
        of_tx += unsafe { tx.read(&mut [CqTaggedEntry::default()]) }.unwrap();
        idle = idle.or((of_rx > 0 && of_tx >= reports).then(Instant::now));
    }
    assert_eq!((of_rx, of_tx, &room), (1, reports, &sent));
}

#[test]
fn endpoints_share_a_transmit_context() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened_all = Opened::new(&info);
        let domain = &opened_all.domain;
        let raw_domain = domain.as_ptr();
        let (mut stx, open) = (ptr::null_mut(), entry!(raw_domain, ops => stx_ctx).unwrap());
        // SAFETY: the info is only read.
        let attributes = unsafe { (*info.raw().as_ptr()).tx_attr };
        // SAFETY: the domain is open. The context goes to `stx`.
        let code = unsafe { open(raw_domain, attributes, &raw mut stx, ptr::null_mut()) };
        if let Err(errno) = opened(code, stx) {
            println!("{provider}: no shared transmit context: {errno}");
            assert_eq!(errno, Errno::ENOSYS);
            opened_all.close_unused();
            continue;
        }
        let cq = open_queue(domain);
        let raw_info = sharing(&info, |attributes| attributes.tx_ctx_cnt = usize::MAX);
        let endpoint = || {
            let to = [
                (opened_all.av.as_ptr().cast(), 0),
                (stx.cast(), 0),
                (cq.as_ptr().cast(), u64::from(sys::FI_TRANSMIT | sys::FI_RECV)),
            ];
            // SAFETY: all are open, of this domain.
            unsafe { open_endpoint(raw_domain, raw_info.as_ptr(), &to) }
        };
        let two = [(); 2].map(|()| {
            // SAFETY: opened with this info, bound to objects of this domain, and enabled.
            unsafe { Endpoint::from_fn(domain, &raw_info, false, endpoint) }.unwrap()
        });
        let peers = two.each_ref().map(|endpoint| insert(&opened_all, endpoint));
        for (from, into) in [(0, 1), (1, 0), (0, 1)] {
            let source = moves(&cq, &two[from], (&two[into], peers[into]), 42);
            println!("{provider}: from {from} to {into} through a shared context");
            assert_eq!(source, peers[from]);
        }
        close_endpoint(&two[1]);
        opened_all.close(&two[0], || {
            // SAFETY: open, without endpoints, and used no more.
            unsafe { close(stx) }.unwrap();
            // SAFETY: as above.
            unsafe { cq.close() }.unwrap();
        });
        ran.push(provider);
    }
    assert_eq!(ran, ["sockets"]);
}

#[test]
fn endpoints_without_connections_share_their_receives() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened_all = Opened::new(&info);
        let domain = &opened_all.domain;
        let raw_domain = domain.as_ptr();
        let (mut srx, open) = (ptr::null_mut(), entry!(raw_domain, ops => srx_ctx).unwrap());
        // SAFETY: the info is only read.
        let attributes = unsafe { (*info.raw().as_ptr()).rx_attr };
        // SAFETY: the domain is open. The context goes to `srx`.
        let code = unsafe { open(raw_domain, attributes, &raw mut srx, ptr::null_mut()) };
        let raw = match opened(code, srx) {
            Ok(raw) => raw,
            Err(errno) => {
                println!("{provider}: no shared receive context: {errno}");
                assert!([Errno::ENOSYS, Errno::EINVAL].contains(&errno), "{errno}");
                opened_all.close_unused();
                continue;
            }
        };
        let cq = open_queue(domain);
        // Those of `sockets` use the queues of their endpoints.
        // SAFETY: both are open.
        let queued = unsafe { bind(srx, cq.as_ptr(), u64::from(sys::FI_RECV)) };
        assert_eq!(queued.err(), (provider == "sockets").then_some(Errno::EINVAL));
        // SAFETY: of this domain, and closed after the endpoints.
        let shared = unsafe { Endpoint::from_ptr(domain, raw, false) };
        let raw_info = sharing(&info, |attributes| {
            // `shm` refuses a count of shared contexts.
            if provider == "sockets" {
                attributes.rx_ctx_cnt = usize::MAX;
            }
        });
        let endpoint = || {
            let to = [
                (opened_all.av.as_ptr().cast(), 0),
                (srx.cast(), 0),
                (cq.as_ptr().cast(), u64::from(sys::FI_TRANSMIT | sys::FI_RECV)),
            ];
            // SAFETY: all are open, of this domain.
            unsafe { open_endpoint(raw_domain, raw_info.as_ptr(), &to) }
        };
        // SAFETY: opened with this info, bound to objects of this domain, and enabled.
        let open = || unsafe { Endpoint::from_fn(domain, &raw_info, false, endpoint) };
        let one = match open() {
            Ok(one) => one,
            Err(error) => {
                println!(
                    "{provider}: a shared receive context, and no endpoint without connections for it: {}",
                    error.errno
                );
                assert_eq!(error, EndpointError { errno: Errno::EINVAL, left_open: false });
                assert!(["tcp", "net"].contains(&&*provider));
                // SAFETY: open, without endpoints, and used no more.
                opened_all.close(&shared, || unsafe { cq.close() }.unwrap());
                continue;
            }
        };
        let two = [one, open().unwrap()];
        let peers = two.each_ref().map(|endpoint| insert(&opened_all, endpoint));
        for (from, into) in [(0, 1), (1, 0), (0, 0)] {
            let source = moves(&cq, &two[from], (&shared, peers[into]), 43);
            println!("{provider}: from {from} to {into}, received from the shared context");
            assert_eq!(source, peers[from]);
        }
        ran.push(provider);
        if info.provider() == "shm" {
            // Each outlives the other.
            continue;
        }
        close_endpoint(&two[1]);
        close_endpoint(&two[0]);
        // SAFETY: open, without endpoints, and used no more.
        opened_all.close(&shared, || unsafe { cq.close() }.unwrap());
    }
    assert_eq!(ran, if library_version().major < 2 { vec!["shm", "sockets"] } else { vec!["sockets"] });
}
