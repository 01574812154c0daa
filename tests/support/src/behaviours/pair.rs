//! Two endpoints on one queue, with their operations in tests.

use std::cell::Cell;
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::completion::{OpError, RemoteEvent, Transfer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, Tag};

use crate::behaviours::needs::tags;
use crate::memory::allocator;
pub use crate::posting::{LIMIT, Limit, OrCut, fails_with, post as post_on};

pub type Bytes = Box<[u8]>;

/// Returns a deadline that a working transport never reaches.
pub fn limit() -> Limit {
    Limit::new()
}

/// Returns `true` for a provider of libfabric 1, with faults that are not loom's.
pub fn is_old<T: Transport + 'static>(info: &Info<T>, provider: &str) -> bool {
    #[cfg(feature = "libfabric")]
    let old = crate::library_version().major < 2;
    #[cfg(not(feature = "libfabric"))]
    let old = false;
    old && info.provider() == provider
}

pub fn is_strict<T: Transport + 'static>(info: &Info<T>) -> bool {
    (info.provider(), info.domain()) == ("soft", "strict")
}

/// Returns `true` if closing a region ends the operations of peers there.
pub fn fences<T: Transport + 'static>(info: &Info<T>) -> bool {
    T::MR_CLOSE_FENCES && T::quirks(info.raw()).mr_close
}

/// Returns `true` if tagged receives may ignore bits.
pub fn masks<T: Transport + 'static>(info: &Info<T>) -> bool {
    T::quirks(info.raw()).masked_recv
}

/// Returns `true` if the tests have run over the provider. Otherwise they may require less of it.
pub fn is_tested<T: Transport + 'static>(info: &Info<T>) -> bool {
    T::quirks(info.raw()).close_with_sends
}

/// Bytes that identify their message and place.
pub fn pattern(len: usize, seed: usize) -> Bytes {
    crate::posting::pattern(len, seed).into()
}

pub fn room(len: usize) -> Bytes {
    vec![0xee; len].into()
}

/// Lengths that are sent at once, and one that is not.
pub const SIZES: [usize; 4] = [0, 1, 64, 1 << 20];

/// Returns a length, at most that of one message.
pub fn most<T: Transport + 'static>(info: &Info<T>, len: usize) -> usize {
    len.min(info.attributes().endpoint.max_msg_size)
}

/// Returns `true` if messages carry immediate data of four bytes or more.
pub fn carries_data<T: Transport + 'static>(info: &Info<T>) -> bool {
    let width = info.attributes().domain.cq_data_size;
    assert!(width >= 4 || (width == 0 && ["udp", "sm2"].contains(&info.provider())), "{width} bytes");
    width > 0
}

pub struct Pair<'q, 'd, T: Transport> {
    pub cq: &'q Cq<'d, T, Bytes>,
    pub av: &'q Av<'d, T>,
    pub domain: &'q Domain<'d, T>,
    pub a: Endpoint<'d, T, Bytes>,
    pub b: Endpoint<'d, T, Bytes>,
    pub to_a: Peer,
    pub to_b: Peer,
}

impl<'q, 'd, T: Transport + 'static> Pair<'q, 'd, T> {
    pub fn open(domain: &'q Domain<'d, T>, cq: &'q Cq<'d, T, Bytes>, av: &'q Av<'d, T>) -> Self {
        let a = cq.endpoint(av).expect("endpoint a");
        let b = cq.endpoint(av).expect("endpoint b");
        let to_a = av.insert(&a.address().expect("address of a")).expect("a in the vector");
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        Pair { cq, av, domain, a, b, to_a, to_b }
    }

    /// Sends from `a` to `b`, with a tag if tags are granted.
    pub fn send(&self, tag: u64, buf: Bytes) -> OpKey {
        self.post(buf, |buf| match tags(self.domain.info()) {
            true => self.a.tagged_send(self.to_b, Tag(tag), buf),
            false => self.a.send(self.to_b, buf),
        })
    }

    /// Receives the message of `send` at `b`, or without tags the next one.
    pub fn receive(&self, tag: u64, len: usize) -> OpKey {
        self.post(room(len), |buf| match tags(self.domain.info()) {
            true => self.b.tagged_recv(Source::Any, Tag(tag), buf),
            false => self.b.recv(Source::Any, buf),
        })
    }

    pub fn post(&self, buf: Bytes, post: impl Fn(Bytes) -> Result<OpKey, Rejected<Bytes>>) -> OpKey {
        post_on(self.cq, buf, post)
    }

    pub fn finish(&self, key: OpKey) -> (Bytes, Transfer) {
        let (buf, result) = self.end(key);
        (buf, result.or_cut("the operation succeeds"))
    }

    /// Waits for an operation that must fail with this number.
    pub fn fail(&self, key: OpKey, errno: Errno) -> (Bytes, OpError) {
        let (buf, result) = self.end(key);
        (buf, fails_with(result, errno))
    }

    pub fn end(&self, key: OpKey) -> (Bytes, Result<Transfer, OpError>) {
        let done = self.cq.wait(key, limit()).or_cut("the queue works").expect("the operation ends in time");
        assert_eq!(done.key(), key);
        done.into_parts()
    }

    /// Returns the result of an operation after the close of its endpoint. Returns `None` if the
    /// operation does not end by itself, and the provider cannot close the endpoint: one of several
    /// in a process, or one with an operation in flight. Then the queue drops the buffer.
    pub fn end_after_close(&self, key: OpKey) -> Option<(Bytes, Result<Transfer, OpError>)> {
        if self.domain.info().provider() != "shm" && is_tested(self.domain.info()) {
            return Some(self.end(key));
        }
        let soon = Instant::now() + Duration::from_millis(300);
        Some(self.cq.wait(key, soon).or_cut("the queue works")?.into_parts())
    }

    pub fn remote_event(&self) -> RemoteEvent {
        let mut deadline = limit();
        while !deadline.passed() {
            match self.cq.poll_direction(Direction::Receive).or_cut("the queue works") {
                Some(Completion::Remote(event)) => return event,
                Some(other) => panic!("a peer's event, not {other:?}"),
                None => {}
            }
        }
        panic!("no event of a peer within {LIMIT:?}");
    }

    /// Sends enough short messages both ways that each endpoint has a lane to the other.
    fn talk(&self) {
        for number in 0..100 {
            for (from, to, into) in [(&self.a, self.to_b, &self.b), (&self.b, self.to_a, &self.a)] {
                let received = self.post(room(8), |buf| into.recv(Source::Any, buf));
                let sent = self.post(pattern(8, number), |buf| from.send(to, buf));
                assert_eq!(self.finish(received).0, pattern(8, number));
                self.finish(sent);
            }
        }
    }

    /// Sends and compares one message from `a` to `b`, so that later ones have a connection.
    pub fn warm_up(&self) {
        let received = self.post(room(8), |buf| self.b.recv(Source::Any, buf));
        let sent = self.post(pattern(8, 99), |buf| self.a.send(self.to_b, buf));
        assert_eq!(self.finish(received).0, pattern(8, 99));
        self.finish(sent);
    }
}

thread_local! {
    pub static TALKS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Retries a call without a buffer, such as an injected message.
pub fn retry<T: Transport + 'static, V>(
    cq: &Cq<'_, T, Bytes>,
    post: impl Fn() -> Result<V, loom_core::error::PostError>,
) -> V {
    let mut deadline = limit();
    loop {
        match post() {
            Ok(posted) => return posted,
            Err(error) if error.is_transient() && !deadline.passed() => {
                cq.progress().or_cut("the queue works");
            }
            Err(error) => return Err(error).or_cut("not posted"),
        }
    }
}

/// Opens a pair on a queue of 64 operations.
pub fn on_pair<T: Transport + 'static>(info: &Info<T>, test: impl FnOnce(&Pair<'_, '_, T>)) {
    on_pair_with(info, CqAttr::new(64), test);
}

pub fn on_pair_with<T: Transport + 'static>(info: &Info<T>, attr: CqAttr, test: impl FnOnce(&Pair<'_, '_, T>)) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::open_in(&domain, attr, allocator()).expect("queue");
    let pair = Pair::open(&domain, &cq, &av);
    if TALKS_FIRST.get() {
        pair.talk();
    }
    test(&pair);
}
