//! Features without a safe form: opened through the C objects, adopted, and used with the
//! transport's raw functions.
//!
//! If a provider lacks one, the tests check that it is refused, and print it. Run with
//! `--nocapture` to see it.

mod buffered;
mod by_hand;
mod endpoints;
mod regions;
mod user_ids;
mod vector_events;
mod vectors;
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
mod waiting;

use std::ptr::NonNull;
use std::time::Instant;

use loom_core::info::{Hints, Info};
use loom_core::transport::Messages;
use loom_core::vocabulary::{
    Caps, CqTaggedEntry, EndpointAddr, EndpointAttributes, EndpointType, Errno, FabricAddr, TagMatch, WaitObj,
};
use loom_fabric::ofi::{Av, Domain, Endpoint, EntryCq, Local, Ofi, sys};
use support::library_version;

use super::loopback::{DATA, Opened, T, TAG, are_tested, infos, retry};
use super::{LIMIT, PROVIDERS, pattern, shared_memory, word};

/// Looks up a function in an object's operation table, like libfabric's static inline functions.
macro_rules! entry {
    ($object:expr, $($table:ident).+ => $function:ident) => {{
        // SAFETY: the object is open.
        let table = unsafe { (*$object).$($table).+ };
        // SAFETY: null, or the table of an open object.
        unsafe { table.as_ref() }.and_then(|table| table.$function)
    }};
}
use entry;

type Queue = EntryCq<CqTaggedEntry, Local>;

fn done(code: i32) -> Result<(), Errno> {
    if code == 0 { Ok(()) } else { Err(Errno::from_ret(code as isize).expect("an error")) }
}

fn opened<F>(code: i32, raw: *mut F) -> Result<NonNull<F>, Errno> {
    done(code).map(|()| NonNull::new(raw).expect("an object"))
}

/// `fi_bind` of two objects.
///
/// # Safety
/// Both are open.
unsafe fn bind<F, O>(object: *mut F, to: *mut O, flags: u64) -> Result<(), Errno> {
    let fid = object.cast::<sys::fid>();
    let bind = entry!(fid, ops => bind).unwrap();
    // SAFETY: the caller's promise. Every object begins with its `fid`.
    done(unsafe { bind(fid, to.cast(), flags) })
}

/// `fi_enable`
///
/// # Safety
/// The endpoint is open, with its required bindings.
unsafe fn enable(endpoint: *mut sys::fid_ep) -> Result<(), Errno> {
    let fid = endpoint.cast::<sys::fid>();
    let control = entry!(fid, ops => control).unwrap();
    // SAFETY: the caller's promise. The command takes no argument.
    done(unsafe { control(fid, sys::FI_ENABLE.cast_signed(), std::ptr::null_mut()) })
}

/// `fi_close` of an object without a handle of loom.
///
/// # Safety
/// It is open, without children, and used no more.
unsafe fn close<F>(object: *mut F) -> Result<(), Errno> {
    let fid = object.cast::<sys::fid>();
    let close = entry!(fid, ops => close).unwrap();
    // SAFETY: the caller's promise. Every object begins with its `fid`.
    done(unsafe { close(fid) })
}

/// `fi_av_open`, adopted.
fn open_vector(domain: &Domain<Local>, mut attr: sys::fi_av_attr) -> Result<Av<Local>, Errno> {
    let (raw_domain, mut raw) = (domain.as_ptr(), std::ptr::null_mut());
    let open = entry!(raw_domain, ops => av_open).unwrap();
    // SAFETY: the domain is open. The vector goes to `raw`.
    let code = unsafe { open(raw_domain, &raw mut attr, &raw mut raw, std::ptr::null_mut()) };
    // SAFETY: a vector of this domain. The callers keep the other promises.
    opened(code, raw).map(|raw| unsafe { Av::from_ptr(domain, raw) })
}

fn open_queue(domain: &Domain<Local>) -> Queue {
    // SAFETY: the domain is open.
    unsafe { EntryCq::open(domain, 16, WaitObj::NONE) }.unwrap()
}

/// Returns addresses one behind the other in memory, with room after them: of an address, providers
/// read as many bytes as the format has.
fn together(addresses: &[&EndpointAddr]) -> Vec<u8> {
    let mut bytes: Vec<u8> = addresses.iter().flat_map(|address| address.bytes()).copied().collect();
    bytes.resize(bytes.len() + 512, 0);
    bytes
}

fn infos_with(caps: Caps) -> Vec<Info<T>> {
    let info = |(provider, node): &(&'static str, Option<&'static str>)| {
        let hints = Hints {
            caps,
            provider: Some(provider),
            endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
            node: *node,
            listen: node.is_some(),
            ..Hints::default()
        };
        match Ofi::<Local>::query(&hints) {
            Ok(mut infos) => infos.next(),
            Err(error) if error.is_no_match() => {
                println!("{provider}: none with {caps}");
                None
            }
            Err(error) => panic!("{provider}: {error:#}"),
        }
    };
    PROVIDERS.iter().filter_map(info).collect()
}

/// Returns `true` if sources are granted, and reliable.
fn has_sources(info: &Info<T>) -> bool {
    info.caps().contains(Caps::SOURCE)
}

/// Sends a tagged message from an endpoint to itself or to another with the same queue. Returns its
/// source.
fn moves(cq: &Queue, from: &Endpoint<Local>, (into, to): (&Endpoint<Local>, FabricAddr), seed: u8) -> FabricAddr {
    let end = Instant::now() + LIMIT;
    let (sent, mut room) = (pattern(seed, 100), vec![0; 100]);
    let nothing = || {
        // SAFETY: the queue is open, and this thread is its only user.
        assert_eq!(unsafe { cq.read(&mut [CqTaggedEntry::default()]) }, Ok(0));
    };
    let (lent, target) = (super::source(&sent), super::target(&mut room));
    // SAFETY: the bytes outlive the events, which are waited for below. Words are no pointers.
    retry(nothing, || unsafe { T::recv(into, FabricAddr::UNSPEC, &target, Some(TagMatch::exact(TAG)), word(1)) });
    // SAFETY: as above. The peer is in the vector.
    retry(nothing, || unsafe { T::send(from, to, &lent, Some(TAG), Some(DATA), word(2)) });
    let mut found = Vec::new();
    while found.len() < 2 {
        assert!(Instant::now() < end, "{found:?}");
        let (mut entries, mut sources) = ([CqTaggedEntry::default(); 2], [FabricAddr::UNSPEC; 2]);
        // SAFETY: as above.
        let count = unsafe { cq.read_from(&mut entries, &mut sources) }.unwrap();
        found.extend(entries.into_iter().zip(sources).take(count));
    }
    let (received, source) = found
        .iter()
        .find(|(entry, _)| entry.op_context.map_or(0, |context| context.addr().get()) as u64 == word(1).addr())
        .expect("the receive");
    assert_eq!((received.len, received.tag, received.data), (100, TAG, DATA));
    assert_eq!(room, sent);
    *source
}
