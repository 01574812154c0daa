//! Completion queues of each format, read without the op table over each provider.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::Instant;

use loom_core::info::Info;
use loom_core::transport::{Endpoints, Messages};
use loom_core::vocabulary::{
    Caps, CompletionFlags, CqDataEntry, CqEntry, CqMsgEntry, CqTaggedEntry, Errno, FabricAddr, Tag, TagMatch, WaitObj,
};
use loom_fabric::ofi::{EntryCq, Local, QueueEntry};

use super::loopback::{DATA, Opened, T, TAG, infos, message, retry};
use super::{LIMIT, pattern, target, word};

const LEN: usize = 100;

/// Fields of an entry for the tagged receive of a message.
trait Says: QueueEntry + Default {
    fn context(&self) -> Option<NonNull<c_void>>;
    fn check(&self);
}

const RECEIVED: CompletionFlags = CompletionFlags::TAGGED.union(CompletionFlags::RECV);

impl Says for CqEntry {
    fn context(&self) -> Option<NonNull<c_void>> {
        self.op_context
    }
    fn check(&self) {}
}

impl Says for CqMsgEntry {
    fn context(&self) -> Option<NonNull<c_void>> {
        self.op_context
    }
    fn check(&self) {
        assert!(self.flags.contains(RECEIVED) && self.len == LEN, "{self:?}");
    }
}

impl Says for CqDataEntry {
    fn context(&self) -> Option<NonNull<c_void>> {
        self.op_context
    }
    fn check(&self) {
        assert!(self.flags.contains(RECEIVED | CompletionFlags::REMOTE_CQ_DATA), "{self:?}");
        assert_eq!((self.len, self.data), (LEN, DATA));
    }
}

impl Says for CqTaggedEntry {
    fn context(&self) -> Option<NonNull<c_void>> {
        self.op_context
    }
    fn check(&self) {
        assert!(self.flags.contains(RECEIVED | CompletionFlags::REMOTE_CQ_DATA), "{self:?}");
        assert_eq!((self.len, self.data, self.tag), (LEN, DATA, TAG));
    }
}

#[derive(Clone, Copy, Debug)]
enum Read {
    Now,
    NowFrom,
    Sleep,
    SleepFrom,
}

fn read<E: Says>(cq: &EntryCq<E, Local>, how: Read) -> Result<Vec<(E, FabricAddr)>, Errno> {
    let (mut entries, mut sources) = ([E::default(); 3], [FabricAddr::UNSPEC; 2]);
    let count = match how {
        // SAFETY: the queue is open, and this thread is its only user.
        Read::Now => unsafe { cq.read(&mut entries) },
        // SAFETY: as above.
        Read::NowFrom => unsafe { cq.read_from(&mut entries, &mut sources) },
        // SAFETY: as above.
        Read::Sleep => unsafe { cq.sread(&mut entries, 100) },
        // SAFETY: as above.
        Read::SleepFrom => unsafe { cq.sread_from(&mut entries, &mut sources, 100) },
    }?;
    let sources = sources.into_iter().chain([FabricAddr::UNSPEC]);
    Ok(entries.into_iter().zip(sources).take(count).collect())
}

/// Reads a message, and a cancelled receive, from a queue of these entries.
fn moves<E: Says>(info: &Info<T>, wait: WaitObj, how: Read) {
    let end = Instant::now() + LIMIT;
    let opened = Opened::new(info);
    // SAFETY: the domain is open.
    let cq = unsafe { EntryCq::<E, Local>::open(&opened.domain, 16, wait) }.unwrap();
    // SAFETY: named in bindings.
    let queue = unsafe { cq.for_bindings() };
    let (endpoint, own) = opened.endpoint((queue, queue), &[]);
    let nothing = || assert!(read(&cq, Read::Now).unwrap().is_empty());
    let (sent, mut room) = (pattern(3, LEN), vec![0; LEN]);
    // SAFETY: the bytes outlive the events, which are waited for below.
    unsafe { message((&endpoint, own), &sent, &mut room, nothing) };
    let mut found = Vec::new();
    while found.len() < 2 {
        assert!(Instant::now() < end, "{} entries", found.len());
        found.extend(read(&cq, how).unwrap());
    }
    assert_eq!(found.len(), 2, "each once");
    let by_context = |context: u64| {
        found.iter().find(|(entry, _)| entry.context().map_or(0, |context| context.addr().get()) as u64 == context)
    };
    assert!(by_context(word(2).addr()).is_some(), "the send");
    let (received, source) = by_context(word(1).addr()).expect("the receive");
    received.check();
    if matches!(how, Read::NowFrom | Read::SleepFrom) {
        let granted = info.caps().contains(Caps::SOURCE);
        assert!(*source == own || !granted, "{source:?} instead of {own:?}");
    }
    assert_eq!(room, sent);

    // A failure has the same entry in every format.
    let into = target(&mut room);
    // SAFETY: the room outlives the event, which is waited for below.
    retry(nothing, || unsafe {
        T::recv(&endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(Tag(99))), word(3))
    });
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
    assert_eq!(
        (error.op_context.map_or(0, |context| context.addr().get()) as u64, error.err),
        (word(3).addr(), Errno::ECANCELED)
    );
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

    // SAFETY: open, without endpoints, and used no more.
    opened.close(&endpoint, || unsafe { cq.close() }.unwrap());
}

fn sleeps(info: &Info<T>) -> bool {
    use loom_core::{cq::Cq, cq::CqAttr, domain::Domain};

    let domain = Domain::open(info).unwrap();
    Cq::<T, ()>::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(4) }).is_ok()
}

#[test]
fn entries_are_read_in_every_format() {
    for info in infos() {
        println!("{info}");
        for how in [Read::Now, Read::NowFrom] {
            moves::<CqEntry>(&info, WaitObj::NONE, how);
            moves::<CqMsgEntry>(&info, WaitObj::NONE, how);
            moves::<CqDataEntry>(&info, WaitObj::NONE, how);
            moves::<CqTaggedEntry>(&info, WaitObj::NONE, how);
        }
        if sleeps(&info) {
            for how in [Read::Sleep, Read::SleepFrom] {
                moves::<CqEntry>(&info, WaitObj::FD, how);
                moves::<CqTaggedEntry>(&info, WaitObj::FD, how);
            }
        }
    }
}
