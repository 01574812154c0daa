//! Regions of several ranges (`fi_mr_regv`), and raw keys (`FI_MR_RAW`).

use std::ptr;
use std::time::Duration;

use loom_core::transport::{MemoryRegions, RegionAttr, Rma, RmaTarget};
use loom_core::vocabulary::{Access, MemoryKey, MrMode, RemoteAddr};
use loom_fabric::ofi::Mr;

use super::*;

const LEN: usize = 64;

fn infos() -> Vec<Info<T>> {
    shared_memory::remove_at_exit();
    let infos = super::infos_with(Caps::MSG | Caps::TAGGED | Caps::RMA);
    assert!(infos.len() >= 4, "no more than {}", infos.len());
    infos
}

/// Writes to a place of the peer, and returns `true` if the operation is reported as successful.
///
/// # Safety
/// The queue is the endpoint's only one, and the peer's memory is not used meanwhile.
unsafe fn write(cq: &Queue, endpoint: &Endpoint<Local>, target: RmaTarget, bytes: &[u8]) -> bool {
    let end = Instant::now() + LIMIT;
    let from = crate::raw::source(bytes);
    // SAFETY: the caller's promise.
    let nothing = || assert_eq!(unsafe { cq.read(&mut [CqTaggedEntry::default()]) }, Ok(0));
    // SAFETY: the bytes outlive the event, which is waited for below.
    retry(nothing, || unsafe { T::write(endpoint, target, &from, None, word(9)) });
    loop {
        assert!(Instant::now() < end, "no event");
        let mut entries = [CqTaggedEntry::default(); 2];
        // SAFETY: the caller's promise.
        match unsafe { cq.read(&mut entries) } {
            Ok(0) => {}
            Ok(_) => return true,
            Err(errno) => {
                assert_eq!(errno, Errno::EAVAIL);
                // SAFETY: as above.
                let error = unsafe { cq.read_error() }.unwrap().expect("an error");
                println!("  refused: {error:?}");
                return false;
            }
        }
    }
}

#[test]
fn peers_reach_the_first_range_of_a_region() {
    let mut ran = Vec::new();
    for info in infos() {
        let provider = info.provider().to_owned();
        let opened_all = Opened::new(&info);
        let domain = opened_all.domain.as_ptr();
        // SAFETY: the info is only read.
        let attributes = unsafe { (*info.raw().as_ptr()).domain_attr };
        // SAFETY: as above.
        let limit = unsafe { (*attributes).mr_iov_limit };
        println!("{provider}: up to {limit} ranges");
        if limit < 2 {
            assert!(!["shm", "sockets"].contains(&&*provider));
            opened_all.close_unused();
            continue;
        }
        let cq = open_queue(&opened_all.domain);
        // SAFETY: named in bindings.
        let queue = unsafe { cq.for_bindings() };
        let (endpoint, own) = opened_all.endpoint((queue, queue), &[]);
        let mut memory = [[0_u8; LEN]; 3];
        let start = ptr::from_mut(&mut memory).cast::<[u8; LEN]>();
        // SAFETY: within the memory.
        let places = [start, unsafe { start.add(2) }];
        let ranges = places.map(|place| sys::iovec { iov_base: place.cast(), iov_len: LEN });
        let (mut raw, register) = (ptr::null_mut(), entry!(domain, mr => regv).unwrap());
        let access = u64::from(sys::FI_REMOTE_WRITE);
        // SAFETY: the domain is open. The memory outlives the region. It goes to `raw`.
        let code =
            unsafe { register(domain.cast(), ranges.as_ptr(), 2, access, 0, 7, 0, &raw mut raw, ptr::null_mut()) };
        // SAFETY: just opened, of memory that outlives it.
        let region = unsafe { Mr::<Local>::from_ptr(opened(code, raw).unwrap()) };
        let by_address = info.attributes().domain.mr_mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC);
        let target = |range: usize| {
            let addr = if by_address { places[range].addr() } else { range * LEN };
            RmaTarget { to: own, addr: RemoteAddr(addr as u64), key: T::mr_key(&region) }
        };
        let sent = pattern(51, LEN);
        // SAFETY: the queue is the endpoint's only one, and the memory is not read.
        assert!(unsafe { write(&cq, &endpoint, target(0), &sent) });
        // SAFETY: as above.
        let second = unsafe { write(&cq, &endpoint, target(1), &sent) };
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            // SAFETY: the queue is open, and this thread is its only user.
            let _ = unsafe { cq.read(&mut [CqTaggedEntry::default()]) };
        }
        // SAFETY: the operations have ended.
        let there = unsafe { start.cast::<[[u8; LEN]; 3]>().read_volatile() };
        println!("{provider}: the second range: reported {second}, there {}", there[2] == *sent);
        assert_eq!(there[0], *sent);
        assert_eq!(there[1], [0; LEN], "between the ranges");
        assert_eq!(there[2], [0; LEN], "the second range can be reached: the documentation says otherwise");
        ran.push(provider);
        // SAFETY: open, and used no more, with no operation in flight.
        unsafe { T::mr_close(&region) }.unwrap();
        // SAFETY: open, without endpoints, and used no more.
        opened_all.close(&endpoint, || unsafe { cq.close() }.unwrap());
    }
    assert_eq!(ran, ["shm", "sockets"]);
}

/// `fi_control`
///
/// # Safety
/// The object is open, and the argument fits the command.
unsafe fn control<F, A>(object: *mut F, command: u32, argument: &mut A) -> Result<(), Errno> {
    let fid = object.cast::<sys::fid>();
    let control = entry!(fid, ops => control).unwrap();
    // SAFETY: the caller's promise. Every object begins with its `fid`.
    done(unsafe { control(fid, command.cast_signed(), ptr::from_mut(argument).cast()) })
}

#[test]
fn no_provider_here_has_raw_keys() {
    for info in infos() {
        assert!(!info.attributes().domain.mr_mode.contains(MrMode::RAW));
        let opened_all = Opened::new(&info);
        let mut memory = [0_u8; LEN];
        let attr = RegionAttr { access: Access::REMOTE_WRITE, key: MemoryKey(7), ..Default::default() };
        // SAFETY: the memory outlives the region.
        let region = unsafe { T::mr_open(&opened_all.domain, &crate::raw::target(&mut memory), attr) }.unwrap();
        let (mut bytes, mut key_size, mut base_addr, mut key) = ([0_u8; 64], 64, 0, 0);
        let raw_key = bytes.as_mut_ptr();
        let mut get =
            sys::fi_mr_raw_attr { flags: 0, base_addr: &raw mut base_addr, raw_key, key_size: &raw mut key_size };
        // SAFETY: the region is open. The argument fits the command.
        let got = unsafe { control(region.as_ptr(), sys::FI_GET_RAW_MR, &mut get) };
        let mut map = sys::fi_mr_map_raw { flags: 0, base_addr: 0, raw_key, key_size: 8, key: &raw mut key };
        // SAFETY: the domain is open. The argument fits the command.
        let mapped = unsafe { control(opened_all.domain.as_ptr(), sys::FI_MAP_RAW_MR, &mut map) };
        println!("{}: {got:?}, {mapped:?}", info.provider());
        assert_eq!((got, mapped), (Err(Errno::ENOSYS), Err(Errno::ENOSYS)));
        // SAFETY: open, and used no more.
        unsafe { T::mr_close(&region) }.unwrap();
        opened_all.close_unused();
    }
}
