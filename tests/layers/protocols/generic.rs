//! Tests that run over every protocol.

use loom_core::atomic::{CompareOp, FetchOp};
use loom_core::deadline::{Deadline, Spins};
use loom_core::endpoint::Granted;
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::{ImmediateData, Tag};
use loom_fabric::loom_core;
use loom_static::protocol::{
    Atomics, Completes, Inject, MsgRecv, MsgSend, Outcome, Posted, RmaRead, RmaWrite, TaggedInject, TaggedRecv,
    TaggedSend,
};

use support::posting::{Limit, pattern};

pub(crate) type Bytes = Vec<u8>;

/// Lengths: empty, one byte, and more than a packet or an injection.
const LENGTHS: [usize; 4] = [0, 1, 64, 20_000];

fn room(len: usize) -> Bytes {
    vec![0xee; len]
}

/// Posts on one side until the operation is accepted. The other side makes progress, too.
pub(crate) fn post<P: Completes, O: Completes>(
    (side, other): (&mut P, &mut O),
    buf: P::Buf,
    mut post: impl FnMut(&mut P, P::Buf) -> Posted<P>,
) -> P::Key {
    let (mut buf, mut limit) = (buf, Limit::new());
    loop {
        match side.post(buf, Spins(8), &mut post) {
            Ok(key) => return key,
            Err(refused) => {
                assert!(!limit.passed(), "not posted: {}", refused.error);
                buf = refused.value;
                other.progress().unwrap();
            }
        }
    }
}

/// Returns the outcome of an operation of one side. The other side makes progress, too.
pub(crate) fn outcome<P: Completes, O: Completes>(
    side: &mut P,
    other: &mut O,
    key: P::Key,
) -> Outcome<P::Buf, P::OpError> {
    let mut limit = Limit::new();
    loop {
        if let Some(outcome) = side.wait(key, Spins(8)).unwrap() {
            return outcome;
        }
        assert!(!limit.passed(), "it ends in time");
        other.progress().unwrap();
    }
}

/// Waits for a successful operation, and checks that its buffer is unchanged.
fn sent<P: Completes<Buf = Bytes>, O: Completes>(side: &mut P, other: &mut O, key: P::Key, bytes: &[u8]) {
    let outcome = outcome(side, other, key);
    outcome.result.unwrap();
    assert!(outcome.buf == bytes, "the buffer comes back as it was");
}

/// Waits for a receive, and checks that it has these bytes.
fn received<P: Completes<Buf = Bytes>, O: Completes>(
    side: &mut P,
    other: &mut O,
    key: P::Key,
    bytes: &[u8],
    data: Option<ImmediateData>,
) {
    let outcome = outcome(side, other, key);
    let transfer = outcome.result.unwrap();
    assert_eq!((transfer.len, transfer.data), (bytes.len(), data));
    assert!(outcome.buf == bytes, "{} bytes arrive", bytes.len());
}

/// Sends messages from one end to the other, with immediate data where the provider carries it.
pub(crate) fn messages<S: MsgSend<Buf = Bytes>, R: MsgRecv<Buf = Bytes>>(
    (from, to): (&mut S, S::To),
    receiver: &mut R,
    carries_data: bool,
) {
    for (seed, len) in LENGTHS.into_iter().enumerate() {
        let bytes = pattern(len, seed);
        let key = post((receiver, from), room(len), |side, buf| side.recv(R::ANY, buf));
        let send = post((from, receiver), bytes.clone(), |side, buf| side.send(to, buf));
        received(receiver, from, key, &bytes, None);
        sent(from, receiver, send, &bytes);
        if carries_data {
            let data = ImmediateData(0xab00 + seed as u64);
            let key = post((receiver, from), room(len), |side, buf| side.recv(R::ANY, buf));
            let send = post((from, receiver), bytes.clone(), |side, buf| side.send_data(to, data, buf));
            received(receiver, from, key, &bytes, Some(data));
            sent(from, receiver, send, &bytes);
        }
    }
}

/// Sends tagged messages, and receives them in another order.
pub(crate) fn tagged<S: TaggedSend<Buf = Bytes>, R: TaggedRecv<Buf = Bytes>>(
    (from, to): (&mut S, S::To),
    receiver: &mut R,
) {
    for (seed, len) in LENGTHS.into_iter().enumerate() {
        let [first, second] = [seed, seed + 100].map(|seed| pattern(len, seed));
        let later = post((receiver, from), room(len), |side, buf| side.tagged_recv(R::ANY, Tag(2).into(), buf));
        let key = post((receiver, from), room(len), |side, buf| side.tagged_recv(R::ANY, Tag(1).into(), buf));
        let sends = [(1, &first), (2, &second)].map(|(tag, bytes)| {
            post((from, receiver), bytes.clone(), |side, buf| match tag {
                1 => side.tagged_send(to, Tag(tag), buf),
                _ => side.tagged_send_data(to, Tag(tag), ImmediateData(9), buf),
            })
        });
        received(receiver, from, key, &first, None);
        received(receiver, from, later, &second, Some(ImmediateData(9)));
        for (key, bytes) in sends.into_iter().zip([&first, &second]) {
            sent(from, receiver, key, bytes);
        }
    }
}

/// Sends injected messages of all lengths up to the maximum. A longer one is refused.
pub(crate) fn injected<S: Inject<Buf = Bytes>, R: MsgRecv<Buf = Bytes>>((from, to): (&mut S, S::To), receiver: &mut R) {
    let limit = from.inject_size(to);
    assert!(limit > 0);
    for len in [0, 1, limit] {
        let bytes = pattern(len, len);
        let key = post((receiver, from), room(len), |side, buf| side.recv(R::ANY, buf));
        inject(from, receiver, |side| side.inject(to, &bytes));
        received(receiver, from, key, &bytes, None);
    }
    let refused = from.inject(to, &pattern(limit + 1, 1)).unwrap_err();
    assert!(!loom_static::protocol::PostFailure::is_transient(&refused), "{refused:#}");
}

/// Sends injected messages with tags.
pub(crate) fn tagged_injected<S: TaggedInject<Buf = Bytes>, R: TaggedRecv<Buf = Bytes>>(
    (from, to): (&mut S, S::To),
    receiver: &mut R,
) {
    let limit = from.tagged_inject_size(to);
    assert!(limit > 0);
    for len in [0, limit] {
        let bytes = pattern(len, len);
        let key = post((receiver, from), room(len), |side, buf| side.tagged_recv(R::ANY, Tag(5).into(), buf));
        inject(from, receiver, |side| side.tagged_inject(to, Tag(5), &bytes));
        received(receiver, from, key, &bytes, None);
    }
    assert!(from.tagged_inject(to, Tag(5), &pattern(limit + 1, 1)).is_err());
}

fn inject<S: Completes, O: Completes>(
    side: &mut S,
    other: &mut O,
    inject: impl Fn(&mut S) -> Result<(), S::PostError>,
) {
    let mut limit = Limit::new();
    while let Err(error) = inject(side) {
        assert!(loom_static::protocol::PostFailure::is_transient(&error) && !limit.passed(), "{error:#}");
        side.progress().unwrap();
        other.progress().unwrap();
    }
}

/// Writes a peer's region, and reads it. The other end only makes progress.
pub(crate) fn remote_memory<P: RmaRead<Buf = Bytes> + RmaWrite<Buf = Bytes>, O: Completes>(
    (side, peer): (&mut P, P::To),
    other: &mut O,
    region: &RemoteRegion,
) {
    let len = usize::try_from(region.len).unwrap() - 8;
    let bytes = pattern(len, 3);
    let key = post((side, other), bytes.clone(), |side, buf| side.write(peer, region, 8, buf));
    sent(side, other, key, &bytes);
    let key = post((side, other), room(len), |side, buf| side.read(peer, region, 8, buf));
    sent(side, other, key, &bytes);
    let refused = side.write(peer, region, 9, bytes.clone()).unwrap_err();
    assert!(refused.value == bytes, "what lies beyond the region is not taken: {}", refused.error);
}

/// Updates a counter in a peer's memory with fetch-and-add and compare-and-swap, of one element and
/// of a list. `offset` is the place of eight zero words.
pub(crate) fn atomics<P: Atomics<Buf = Bytes>, O: Completes>(
    (side, peer): (&mut P, P::To),
    other: &mut O,
    (region, offset): (&RemoteRegion, u64),
    (add, swap): (Granted<FetchOp<u64>>, Granted<CompareOp<u64>>),
) {
    for before in 0..5 {
        let value = value(side, other, |side| side.fetch_value(peer, region, offset, add, 1));
        assert_eq!(value, before);
    }
    assert_eq!(value(side, other, |side| side.compare_value(peer, region, offset, swap, 5, 40)), 5);
    assert_eq!(value(side, other, |side| side.compare_value(peer, region, offset, swap, 5, 50)), 40);
    // The operand, and room for the result.
    let words = [2_u64, 0].map(u64::to_le_bytes).concat();
    let key = post((side, other), words, |side, buf| side.atomic(peer, region, offset, add, buf));
    let outcome = outcome(side, other, key);
    outcome.result.unwrap();
    assert_eq!(outcome.buf[8..], 40_u64.to_le_bytes());
    assert_eq!(value(side, other, |side| side.fetch_value(peer, region, offset, add, 0)), 42);
}

fn value<P: Atomics, O: Completes>(
    side: &mut P,
    other: &mut O,
    mut post: impl FnMut(&mut P) -> Result<P::Key, P::PostError>,
) -> u64 {
    let mut limit = Limit::new();
    let key = loop {
        match post(side) {
            Ok(key) => break key,
            Err(error) => assert!(!limit.passed(), "{error:#}"),
        }
        side.progress().unwrap();
        other.progress().unwrap();
    };
    loop {
        if let Some(fetched) = side.wait_value(key, Spins(8)).unwrap() {
            return fetched.value().unwrap().expect("a word");
        }
        assert!(!limit.passed(), "it ends in time");
        other.progress().unwrap();
    }
}

/// Runs operations to the one peer of a connection, which they do not name.
#[cfg(feature = "libfabric")]
pub(crate) fn connection<S: loom_static::protocol::Connection + MsgSend<Buf = Bytes>, R: MsgRecv<Buf = Bytes>>(
    from: &mut S,
    receiver: &mut R,
) {
    from.peer_address().unwrap();
    messages((from, S::PEER), receiver, false);
}
