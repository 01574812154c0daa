//! Requirements of a behaviour beside endpoints, and the refusals of capabilities that are not
//! granted.

use loom_core::atomic::FetchOp;
use loom_core::endpoint::Source;
use loom_core::error::{PostError, Rejected};
use loom_core::info::Info;
use loom_core::mr::RemoteRegion;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Errno, MemoryKey, RemoteAddr, Tag};

use crate::behaviours::pair::{Bytes, Pair, on_pair, pattern, room};

/// Case of a behaviour, over any info.
pub type Case<T> = fn(&Info<T>);

/// Name of a behaviour, required capabilities, and its case. A case that checks grants itself
/// requires less.
pub type Behaviour<T> = (&'static str, Caps, Case<T>);

pub const MSG: Caps = Caps::MSG;
pub const TAGGED: Caps = MSG.union(Caps::TAGGED);
pub const SOURCE: Caps = MSG.union(Caps::SOURCE);
pub const RMA: Caps = MSG.union(Caps::RMA);
pub const ATOMIC: Caps = MSG.union(Caps::ATOMIC);
pub const TAGGED_MULTI: Caps = TAGGED.union(Caps::TAGGED_MULTI_RECV);
pub const TAGGED_AND_RMA: Caps = TAGGED.union(RMA);
pub const RMA_EVENT: Caps = RMA.union(Caps::RMA_EVENT);
pub const ATOMIC_EVENT: Caps = ATOMIC.union(Caps::RMA_EVENT);

/// Runs a case, or checks that its required capabilities are refused if they are not granted.
pub fn run<T: Transport + 'static>((_, needs, case): Behaviour<T>, info: &Info<T>) {
    let missing = needs.difference(info.caps());
    if missing.is_empty() {
        return case(info);
    }
    crate::report::not_granted();
    on_pair(info, |pair| {
        if missing.contains(Caps::TAGGED) {
            tags_are_refused(pair);
        }
        if missing.contains(Caps::RMA) {
            reads_and_writes_are_refused(pair);
        }
        if missing.contains(Caps::ATOMIC) {
            let refused = pair.domain.query_atomic(FetchOp::<u64>::SUM);
            assert_eq!(refused, Err(Errno::EOPNOTSUPP));
        }
        if missing.contains(Caps::TAGGED_MULTI_RECV) {
            super::messages::tagged_multi::tagged_multi_receives_are_refused(pair, missing);
        }
        if missing.contains(Caps::RMA_EVENT) {
            crate::behaviours::counters::counters_of_peers_are_refused(pair);
        }
        assert_eq!(pair.cq.in_flight(), 0);
        pair.warm_up();
    });
}

/// Returns `true` if messages have tags.
pub fn tags<T: Transport + 'static>(info: &Info<T>) -> bool {
    info.caps().contains(Caps::TAGGED)
}

/// Checks that the buffer returns, with an error that names the capability.
fn is_refused<K: std::fmt::Debug>(asked: Result<K, Rejected<Bytes>>, missing: Caps) {
    let rejected = asked.expect_err("it is not granted");
    assert_eq!((rejected.error, rejected.value), (PostError::NotGranted(missing), pattern(8, 1)));
}

fn tags_are_refused<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    is_refused(pair.a.tagged_send(pair.to_b, Tag(1), pattern(8, 1)), Caps::TAGGED);
    is_refused(pair.b.tagged_recv(Source::Any, Tag(1), pattern(8, 1)), Caps::TAGGED);
    let refused = Err(PostError::NotGranted(Caps::TAGGED));
    assert_eq!(pair.a.tagged_inject(pair.to_b, Tag(1), &room(8)), refused);
    assert_eq!(pair.b.tagged_peek(Source::Any, Tag(1)).map(drop), refused);
}

fn reads_and_writes_are_refused<T: Transport + 'static>(pair: &Pair<'_, '_, T>) {
    let remote = RemoteRegion {
        base: RemoteAddr(0),
        len: 64,
        key: MemoryKey(1),
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
    };
    // If atomics are granted, they have the modifiers of reads and writes, too.
    let granted =
        if pair.domain.info().caps().contains(Caps::ATOMIC) { Caps::READ | Caps::WRITE } else { Caps::empty() };
    let missing = |modifier: Caps| Caps::RMA | modifier.difference(granted);
    is_refused(pair.a.write(pair.to_b, &remote, 0, pattern(8, 1)), missing(Caps::WRITE));
    is_refused(pair.a.read(pair.to_b, &remote, 0, pattern(8, 1)), missing(Caps::READ));
    let refused = Err(PostError::NotGranted(missing(Caps::WRITE)));
    assert_eq!(pair.a.inject_write(pair.to_b, &remote, 0, &room(8)), refused);
}
