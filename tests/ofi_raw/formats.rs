//! Completion queues of each format, read by hand over each provider.

use std::ffi::c_void;
use std::time::Instant;

use loom_core::objects::info::{Hints, Info};
use loom_core::transport::{Bindings, Closing, InFlight, Refusal, Transport};
use loom_core::vocabulary::{
    Caps, CompletionFlags, CqDataEntry, CqEntry, CqMsgEntry, CqTaggedEntry, EndpointAttributes, EndpointType, Errno,
    FabricAddr, ImmediateData, Tag, TagMatch, WaitObj,
};
use loom_fabric::ofi::{Entry, EntryCq, Local, Ofi, QueryError};

use super::{LIMIT, PROVIDERS, pattern, shared_memory, source, target, word};

type T = Ofi<Local>;

const DATA: ImmediateData = ImmediateData(0x1234_5678);
const TAG: Tag = Tag(0x77_0001);
const LEN: usize = 100;

/// What an entry says of the tagged receive of a message.
trait Says: Entry + Default {
    fn context(&self) -> *mut c_void;
    fn check(&self);
}

const RECEIVED: CompletionFlags = CompletionFlags::TAGGED.union(CompletionFlags::RECV);

impl Says for CqEntry {
    fn context(&self) -> *mut c_void {
        self.op_context
    }
    fn check(&self) {}
}

impl Says for CqMsgEntry {
    fn context(&self) -> *mut c_void {
        self.op_context
    }
    fn check(&self) {
        assert!(self.flags.contains(RECEIVED) && self.len == LEN, "{self:?}");
    }
}

impl Says for CqDataEntry {
    fn context(&self) -> *mut c_void {
        self.op_context
    }
    fn check(&self) {
        assert!(self.flags.contains(RECEIVED | CompletionFlags::REMOTE_CQ_DATA), "{self:?}");
        assert_eq!((self.len, self.data), (LEN, DATA));
    }
}

impl Says for CqTaggedEntry {
    fn context(&self) -> *mut c_void {
        self.op_context
    }
    fn check(&self) {
        assert!(self.flags.contains(RECEIVED | CompletionFlags::REMOTE_CQ_DATA), "{self:?}");
        assert_eq!((self.len, self.data, self.tag), (LEN, DATA, TAG));
    }
}

/// By which call entries are read.
#[derive(Clone, Copy, Debug)]
enum Read {
    Now,
    NowFrom,
    Sleep,
    SleepFrom,
}

fn read<E: Says>(cq: &EntryCq<E, Local>, how: Read) -> Result<Vec<(E, FabricAddr)>, Errno> {
    let (mut entries, mut sources) = ([E::default(); 3], [FabricAddr::UNSPEC; 2]);
    // SAFETY: the queue is open, and this thread is its only user.
    let count = match how {
        Read::Now => unsafe { cq.read(&mut entries) },
        Read::NowFrom => unsafe { cq.read_from(&mut entries, &mut sources) },
        Read::Sleep => unsafe { cq.sread(&mut entries, 100) },
        Read::SleepFrom => unsafe { cq.sread_from(&mut entries, &mut sources, 100) },
    }?;
    let sources = sources.into_iter().chain([FabricAddr::UNSPEC]);
    Ok(entries.into_iter().zip(sources).take(count).collect())
}

/// An endpoint that sends to itself, and a queue of these entries.
fn moves<E: Says>(info: &Info<T>, wait: WaitObj, how: Read) {
    let end = Instant::now() + LIMIT;
    // SAFETY: no demands.
    let fabric = unsafe { T::fabric_open(info.raw()) }.unwrap();
    // SAFETY: the fabric is open.
    let domain = unsafe { T::domain_open(&fabric, info.raw()) }.unwrap();
    // SAFETY: the domain is open.
    let av = unsafe { T::av_open(&domain, 4) }.unwrap();
    // SAFETY: the domain is open.
    let cq = unsafe { EntryCq::<E, Local>::open(&domain, 16, wait) }.unwrap();
    // SAFETY: named in bindings.
    let queue = unsafe { cq.for_bindings() };
    let bind = Bindings { tx: queue, rx: queue, av: &av, counters: &[], selective: false, options: &[] };
    // SAFETY: everything is open and of one domain.
    let endpoint = unsafe { T::endpoint_open(&domain, info.raw(), bind) }.unwrap();
    // SAFETY: the endpoint is open.
    let address = unsafe { T::endpoint_address(&endpoint) }.unwrap();
    // SAFETY: the vector is open.
    let own = unsafe { T::av_insert(&av, &address) }.unwrap();

    let (sent, mut room) = (pattern(3, LEN), vec![0; LEN]);
    let (from, into) = (source(&sent), target(&mut room));
    let post = |post: &dyn Fn() -> Result<(), Refusal>| {
        while let Err(refusal) = post() {
            assert!(refusal == Refusal::Again && Instant::now() < end, "{refusal:?}");
            assert!(read(&cq, Read::Now).unwrap().is_empty());
        }
    };
    let any = FabricAddr::UNSPEC;
    // SAFETY: memory outlives the events; the peer is in the vector; words are no pointers.
    post(&|| unsafe { T::tagged_recv(&endpoint, any, &into, TagMatch::exact(TAG), word(1)) });
    // SAFETY: as above.
    post(&|| unsafe { T::tagged_send(&endpoint, own, &from, Some(DATA), TAG, word(2)) });
    let mut found = Vec::new();
    while found.len() < 2 {
        assert!(Instant::now() < end, "{} entries", found.len());
        found.extend(read(&cq, how).unwrap());
    }
    assert_eq!(found.len(), 2, "each once");
    let by_context = |context: u64| found.iter().find(|(entry, _)| entry.context().addr() as u64 == context);
    assert!(by_context(word(2).addr()).is_some(), "the send");
    let (received, source) = by_context(word(1).addr()).expect("the receive");
    received.check();
    if matches!(how, Read::NowFrom | Read::SleepFrom) {
        let granted = info.caps().contains(Caps::SOURCE);
        assert!(*source == own || !granted, "{source:?} instead of {own:?}");
    }
    assert_eq!(room, sent);

    // One that fails says the same in every format.
    let into = target(&mut room);
    // SAFETY: as above.
    post(&|| unsafe { T::tagged_recv(&endpoint, any, &into, TagMatch::exact(Tag(99)), word(3)) });
    // SAFETY: the endpoint is open.
    unsafe { T::cancel(&endpoint, word(3)) }.unwrap();
    let error = loop {
        assert!(Instant::now() < end, "no error");
        match read(&cq, how) {
            Ok(entries) => assert!(entries.is_empty()),
            Err(errno) => {
                assert_eq!(errno, Errno::EAVAIL);
                // SAFETY: the queue is open, and this thread is its only user.
                break unsafe { cq.read_error() }.unwrap().expect("an error");
            }
        }
    };
    assert_eq!((error.op_context.addr() as u64, error.err), (word(3).addr(), Errno::ECANCELED));
    // SAFETY: as above.
    assert!(unsafe { cq.read_error() }.unwrap().is_none());
    let mut text = [0; 64];
    // SAFETY: as above.
    assert!(unsafe { cq.error_text(error.prov_errno, &mut text) } > 0);

    match wait {
        // SAFETY: as above.
        WaitObj::NONE => assert_eq!(unsafe { cq.signal() }, Err(Errno::ENOSYS)),
        _ => {
            // SAFETY: as above.
            unsafe { cq.signal() }.unwrap();
            assert!(read(&cq, how).unwrap().is_empty());
        }
    }

    // SAFETY: open, and used no more.
    let closing = unsafe { T::endpoint_close(&endpoint, InFlight::NOTHING) }.unwrap();
    if closing != Closing::Closed {
        // Over shm, one may have to wait for those of other tests, which it then outlives.
        return;
    }
    // SAFETY: open, without children, and used no more; and so are those below.
    unsafe { cq.close() }.unwrap();
    // SAFETY: as above.
    unsafe { T::av_close(&av) }.unwrap();
    // SAFETY: as above.
    unsafe { T::domain_close(&domain) }.unwrap();
    // SAFETY: as above.
    unsafe { T::fabric_close(&fabric) }.unwrap();
}

/// Whether queues of an info can be slept on.
fn sleeps(info: &Info<T>) -> bool {
    use loom_core::objects::{cq::Cq, cq::CqAttr, domain::Domain};

    let domain = Domain::open(info).unwrap();
    Cq::<T, ()>::open(&domain, CqAttr::<4>::new().with_fd()).is_ok()
}

#[test]
fn entries_are_read_in_every_format() {
    shared_memory::remove_at_exit();
    let mut ran = Vec::new();
    for (provider, node) in PROVIDERS {
        // `ofi_rxd` has no sources that could be believed.
        let found = [Caps::SOURCE, Caps::empty()].into_iter().find_map(|more| {
            let hints = Hints {
                caps: Caps::MSG | Caps::TAGGED | more,
                provider: Some(provider),
                endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
                node: *node,
                listen: node.is_some(),
                ..Hints::default()
            };
            match Ofi::<Local>::query(&hints) {
                Ok(mut infos) => infos.next(),
                Err(QueryError::NoMatch) => None,
                Err(error) => panic!("{provider}: {error}"),
            }
        });
        let Some(info) = found else { continue };
        for how in [Read::Now, Read::NowFrom] {
            println!("{provider}: {how:?}");
            moves::<CqEntry>(&info, WaitObj::NONE, how);
            moves::<CqMsgEntry>(&info, WaitObj::NONE, how);
            moves::<CqDataEntry>(&info, WaitObj::NONE, how);
            moves::<CqTaggedEntry>(&info, WaitObj::NONE, how);
        }
        if sleeps(&info) {
            for how in [Read::Sleep, Read::SleepFrom] {
                println!("{provider}: {how:?}");
                moves::<CqEntry>(&info, WaitObj::FD, how);
                moves::<CqTaggedEntry>(&info, WaitObj::FD, how);
            }
        }
        ran.push(*provider);
    }
    println!("ran over {ran:?}");
    assert!(ran.len() >= 4, "no more than {ran:?}");
}
