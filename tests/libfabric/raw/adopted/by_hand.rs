//! Objects that are all opened through the C objects.

use std::alloc::Layout;
use std::ptr;

use loom_core::transport::connected::Notice;
use loom_core::transport::{
    AddressVectors, Closing, CompletionQueues, Connected, Counters, Endpoints, Fabrics, InFlight, MemoryRegions,
    Messages, RegionAttr,
};
use loom_core::vocabulary::{Access, CmData, CqFormat, MemoryKey};
use loom_fabric::ofi::{Counter, Cq, Eq, Fabric, Mr, RawInfo};

use super::*;
use crate::raw::{source, target};
use loom_fabric::ofi::Library;

fn open(info: &RawInfo) -> (Fabric<Local>, Domain<Local>) {
    let (mut raw_fabric, mut raw_domain) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the info is only read.
    let attributes = unsafe { (*info.as_ptr()).fabric_attr };
    // SAFETY: the attributes are the info's, and only read.
    let code = unsafe { Library::get().unwrap().fi_fabric(attributes, &raw mut raw_fabric, ptr::null_mut()) };
    let raw = opened(code, raw_fabric).unwrap();
    // SAFETY: just opened.
    let fabric = unsafe { Fabric::from_ptr(raw) };
    let open = entry!(raw_fabric, ops => domain).unwrap();
    // SAFETY: the fabric is open. The info is only read.
    let code = unsafe { open(raw_fabric, info.as_ptr(), &raw mut raw_domain, ptr::null_mut()) };
    let raw = opened(code, raw_domain).unwrap();
    // SAFETY: a domain of this fabric, opened with this info, which was found at this level.
    let domain = unsafe { Domain::from_ptr(&fabric, info, raw) };
    assert_eq!((fabric.as_ptr(), domain.as_ptr()), (raw_fabric, raw_domain));
    (fabric, domain)
}

fn open_cq(domain: *mut sys::fid_domain) -> NonNull<sys::fid_cq> {
    let mut raw = ptr::null_mut();
    let mut attr = sys::fi_cq_attr { size: 16, format: CqFormat::TAGGED.as_raw(), ..Default::default() };
    let open = entry!(domain, ops => cq_open).unwrap();
    // SAFETY: the domain is open. The queue goes to `raw`.
    let code = unsafe { open(domain, &raw mut attr, &raw mut raw, ptr::null_mut()) };
    opened(code, raw).unwrap()
}

fn open_counter(domain: *mut sys::fid_domain) -> NonNull<sys::fid_cntr> {
    let (mut raw, mut attr) = (ptr::null_mut(), sys::fi_cntr_attr::default());
    let open = entry!(domain, ops => cntr_open).unwrap();
    // SAFETY: the domain is open. The counter goes to `raw`.
    let code = unsafe { open(domain, &raw mut attr, &raw mut raw, ptr::null_mut()) };
    opened(code, raw).unwrap()
}

/// Opens an endpoint, binds it to these objects with these flags, and enables it.
///
/// # Safety
/// All are open, of this domain.
pub(super) unsafe fn open_endpoint(
    domain: *mut sys::fid_domain,
    info: *mut sys::fi_info,
    to: &[(*mut sys::fid, u64)],
) -> Result<NonNull<sys::fid_ep>, Errno> {
    let mut raw = ptr::null_mut();
    let open = entry!(domain, ops => endpoint).unwrap();
    // SAFETY: the domain is open. The info is only read.
    let code = unsafe { open(domain, info, &raw mut raw, ptr::null_mut()) };
    let endpoint = opened(code, raw)?;
    let ready = to.iter().try_for_each(|(object, flags)| {
        // SAFETY: the caller's promise.
        unsafe { bind(raw, *object, *flags) }
    });
    // SAFETY: as above.
    match ready.and_then(|()| unsafe { enable(raw) }) {
        Ok(()) => Ok(endpoint),
        Err(errno) => {
            // SAFETY: open, not shared, and used no more.
            unsafe { close(raw) }.unwrap();
            Err(errno)
        }
    }
}

#[test]
fn everything_that_was_opened_by_hand_is_adopted_used_and_closed() {
    let mut ran = Vec::new();
    for info in infos() {
        println!("{info}");
        // SAFETY: the info is only read.
        let copy = NonNull::new(unsafe { Library::get().unwrap().fi_dupinfo(info.raw().as_ptr()) }).unwrap();
        // SAFETY: libfabric has allocated it, as a copy of an info that it has found.
        let raw_info = unsafe { RawInfo::from_ptr(copy) }.unwrap();
        assert_eq!(T::attributes(&raw_info), *info.attributes());
        let (fabric, domain) = open(&raw_info);
        let raw_domain = domain.as_ptr();
        let av = open_vector(&domain, sys::fi_av_attr { count: 4, ..Default::default() }).unwrap();
        let layout: Layout = T::cq_layout(16);
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
        // SAFETY: just opened, in this format, without a wait object. The memory stays until the
        // queue is closed.
        let tx = unsafe { Cq::from_ptr(&domain, open_cq(raw_domain), false, WaitObj::NONE, memory) }.unwrap();
        // SAFETY: as above.
        let rx: Queue = unsafe { EntryCq::from_ptr(&domain, open_cq(raw_domain), WaitObj::NONE) }.unwrap();
        // SAFETY: just opened.
        let counter = unsafe { Counter::from_ptr(open_counter(raw_domain)) };
        let endpoint = || {
            let to = [
                (av.as_ptr().cast(), 0),
                (tx.as_ptr().cast(), u64::from(sys::FI_TRANSMIT)),
                (rx.as_ptr().cast(), u64::from(sys::FI_RECV)),
                (Counter::as_ptr(&counter).cast(), u64::from(sys::FI_SEND)),
            ];
            // SAFETY: all are open, of this domain.
            unsafe { open_endpoint(raw_domain, raw_info.as_ptr(), &to) }
        };
        shared_memory::remove_at_exit();
        // SAFETY: opened with this info, bound to objects of this domain, and enabled.
        let endpoint = unsafe { Endpoint::from_fn(&domain, &raw_info, false, endpoint) }.unwrap();
        // SAFETY: the endpoint is open.
        let address = unsafe { T::endpoint_address(&endpoint) }.unwrap();
        // SAFETY: the vector is open.
        let own = unsafe { T::av_insert(&av, &address) }.unwrap();
        let (sent, mut room) = (pattern(21, 100), vec![0; 100]);
        let (from, into) = (source(&sent), target(&mut room));
        let mut received = [CqTaggedEntry::default(); 2];
        // SAFETY: the queue is open, and this thread is its only user, here and below.
        let nothing = || assert_eq!(unsafe { rx.read(&mut [CqTaggedEntry::default()]) }, Ok(0));
        // SAFETY: the bytes outlive the events, which are waited for below. Words are no pointers.
        retry(nothing, || unsafe {
            T::recv(&endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(TAG)), word(1))
        });
        // SAFETY: as above. The peer is in the vector.
        retry(nothing, || unsafe { T::send(&endpoint, own, &from, Some(TAG), Some(DATA), word(2)) });
        let (end, mut of_rx, mut of_tx) = (Instant::now() + LIMIT, 0, None);
        while of_rx == 0 || of_tx.is_none() {
            assert!(Instant::now() < end, "{of_rx} and {of_tx:?}");
            // SAFETY: as above.
            of_rx += unsafe { rx.read(&mut received) }.unwrap();
            // SAFETY: as above.
            of_tx = of_tx.or(unsafe { T::cq_poll(&tx) }.unwrap());
        }
        assert_eq!((of_rx, received[0].len, received[0].tag, of_tx.unwrap().context), (1, 100, TAG, word(2).addr()));
        assert_eq!(room, sent);
        // SAFETY: the counter is open.
        while unsafe { T::counter_read(&counter) } != Ok(1) {
            assert!(Instant::now() < end, "nothing is counted");
        }
        // SAFETY: open, and used no more, as are those below, without children.
        let closing = unsafe { T::endpoint_close(&endpoint, InFlight::NOTHING) }.unwrap();
        ran.push(info.provider().to_owned());
        if closing != Closing::Closed {
            // Over shm, one may have to wait for those of other tests, and outlives them.
            assert_eq!((info.provider(), closing), ("shm", Closing::Retired));
            continue;
        }
        // SAFETY: as above.
        unsafe { T::counter_close(&counter) }.unwrap();
        // SAFETY: as above.
        unsafe { T::cq_close(&tx) }.unwrap();
        // SAFETY: the queue is closed. The layout is that of the allocation.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
        // SAFETY: as above.
        unsafe { rx.close() }.unwrap();
        // SAFETY: as above.
        unsafe { T::av_close(&av) }.unwrap();
        // SAFETY: as above.
        unsafe { T::domain_close(&domain) }.unwrap();
        // SAFETY: as above.
        unsafe { T::fabric_close(&fabric) }.unwrap();
    }
    assert!(ran.len() >= 4, "over {ran:?} only");
}

#[test]
fn an_endpoint_that_does_not_open_leaves_its_place_free() {
    for info in infos() {
        let opened = Opened::new(&info);
        let refuse = || Err(Errno::ECANCELED);
        // SAFETY: no object is opened.
        let error = unsafe { Endpoint::from_fn(&opened.domain, info.raw(), false, refuse) }.unwrap_err();
        assert_eq!((error.errno, error.left_open), (Errno::ECANCELED, false));
        // Its place is free.
        let cq = open_queue(&opened.domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let (endpoint, own) = opened.endpoint((queue, queue), &[]);
        moves(&cq, &endpoint, (&endpoint, own), 4);
        // SAFETY: open, without endpoints, and used no more.
        opened.close(&endpoint, || unsafe { cq.close() }.unwrap());
    }
}

#[test]
fn a_region_and_an_event_queue_are_adopted() {
    for info in infos() {
        println!("{info}");
        let opened_all = Opened::new(&info);
        let domain = opened_all.domain.as_ptr();
        let mut bytes = [0_u8; 64];
        let mut raw = ptr::null_mut();
        let register = entry!(domain, mr => reg).unwrap();
        let access = u64::from(sys::FI_SEND | sys::FI_RECV);
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: the domain is open. The memory outlives the region.
        let code = unsafe { register(domain.cast(), at, 64, access, 0, 5, 0, &raw mut raw, ptr::null_mut()) };
        let raw = opened(code, raw).unwrap();
        // SAFETY: just opened, and closed below.
        let region = unsafe { Mr::from_ptr(raw) };
        // SAFETY: a region that is open.
        let fields = unsafe { raw.as_ref() };
        assert_eq!((T::mr_key(&region), T::mr_descriptor(&region)), (MemoryKey(fields.key), fields.mem_desc.addr()));
        // SAFETY: open, and used no more.
        unsafe { T::mr_close(&region) }.unwrap();
        let again = RegionAttr { access: Access::SEND, key: MemoryKey(5), ..Default::default() };
        // SAFETY: the memory outlives the region.
        let region = unsafe { T::mr_open(&opened_all.domain, &target(&mut bytes), again) }.unwrap();
        // SAFETY: open, and used no more.
        unsafe { T::mr_close(&region) }.unwrap();

        let (mut raw, mut attr) =
            (ptr::null_mut(), sys::fi_eq_attr { flags: u64::from(sys::FI_WRITE), ..Default::default() });
        let fabric = opened_all.fabric.as_ptr();
        let open = entry!(fabric, ops => eq_open).unwrap();
        // SAFETY: the fabric is open. The queue goes to `raw`.
        let code = unsafe { open(fabric, &raw mut attr, &raw mut raw, ptr::null_mut()) };
        // SAFETY: just opened.
        let eq = unsafe { Eq::<Local>::from_ptr(opened(code, raw).unwrap()) };
        // SAFETY: open, and this thread is its only user.
        unsafe { T::eq_notify(&eq, 7, 8) }.unwrap();
        let mut data = CmData::EMPTY;
        // SAFETY: as above.
        match unsafe { T::eq_read(&eq, None, &mut data) }.unwrap() {
            Some(Notice::Entry(entry)) => assert_eq!((entry.context, entry.data), (7, 8)),
            other => panic!("{other:?}"),
        }
        // SAFETY: open, and used no more.
        unsafe { T::eq_close(&eq) }.unwrap();
        opened_all.close_unused();
    }
}
