//! Kinds of transfers: one function each, which both sides call.

use std::time::Instant;

use loom_core::completion::Completion;
use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::transport::{Claims, Fabrics};
use loom_core::vocabulary::{Caps, Errno, ImmediateData, Tag};

use crate::hosts::link::{Link, T};
use crate::hosts::opening::{LONGEST_PIECE, Way};
use crate::hosts::posting::{LIMIT, post};
use crate::hosts::side::{LONG, Outcome, Part, Side, Told};

type Kind = fn(&Side<'_, '_>) -> Outcome;

const SHORT: usize = 300;
const INJECTED: usize = 32;
const TAG: Tag = Tag(0x1234_5678);
const DATA: ImmediateData = ImmediateData(0x0765_4321);
const PLAIN: Told = Told { tag: None, data: None };
const WITH_DATA: Told = Told { tag: None, data: Some(DATA) };
const TAGGED: Told = Told { tag: Some(TAG), data: None };

/// Kinds of every way. The counted kind is first, because it requires that no message was sent
/// before.
const KINDS: [(&str, Kind); 18] = [
    ("counted message", counted_message),
    ("message", |side| message(side, SHORT)),
    ("long message", |side| message(side, LONG)),
    ("message with immediate data", message_with_data),
    ("injected message", injected_message),
    ("message of several buffers", message_of_several_buffers),
    ("tagged message", |side| tagged_message(side, SHORT)),
    ("long tagged message", |side| tagged_message(side, LONG)),
    ("injected tagged message", injected_tagged_message),
    ("multi-receive", multi_receive),
    ("write", |side| write(side, SHORT)),
    ("long write", |side| write(side, LONG)),
    ("write with immediate data", write_with_data),
    ("injected write", injected_write),
    ("write of several buffers", write_of_several_buffers),
    ("read of several buffers", read_of_several_buffers),
    ("read", |side| side.read(SHORT, |buf| side.link.read(&side.remote, buf))),
    ("long read", |side| side.read(LONG, |buf| side.link.read(&side.remote, buf))),
];

/// Kinds that require endpoints with several peers.
const AMONG_PEERS: [(&str, Kind); 3] = [("directed receive", directed_receive), ("peek", peek), ("claim", claim)];

/// Returns the kinds of a way.
pub(crate) fn of(way: Way) -> impl Iterator<Item = (&'static str, Kind)> {
    let more: &[_] = if way == Way::Peers { &AMONG_PEERS } else { &[] };
    KINDS.iter().chain(more).copied()
}

fn message(side: &Side<'_, '_>, len: usize) -> Outcome {
    side.message(len, &PLAIN, || side.posts(len, |buf| side.link.send(buf)), |buf| side.link.recv(buf))
}

fn counted_message(side: &Side<'_, '_>) -> Outcome {
    let Some(counter) = side.counter else {
        assert_eq!(side.info().attributes().domain.cntr_cnt, 0, "a provider without counters says so");
        return Outcome::NotGranted;
    };
    let outcome = message(side, SHORT);
    let deadline = Instant::now() + LIMIT;
    while counter.read() == 0 {
        assert!(Instant::now() < deadline, "it is not counted");
        side.cq.progress().expect("the queue works");
    }
    assert_eq!((counter.read(), counter.read_error()), (1, 0));
    outcome
}

fn message_with_data(side: &Side<'_, '_>) -> Outcome {
    let send = || side.posts(SHORT, |buf| side.link.send_data(DATA, buf));
    side.message(SHORT, &WITH_DATA, send, |buf| side.link.recv(buf))
}

fn injected_message(side: &Side<'_, '_>) -> Outcome {
    let send = || side.injects(INJECTED, |bytes| side.link.inject(bytes));
    side.message(INJECTED, &PLAIN, send, |buf| side.link.recv(buf))
}

fn message_of_several_buffers(side: &Side<'_, '_>) -> Outcome {
    let send = || side.posts(SHORT, |buf| side.link.send_with(buf));
    side.message(SHORT, &PLAIN, send, |buf| side.link.recv_with(buf))
}

fn tagged_message(side: &Side<'_, '_>, len: usize) -> Outcome {
    if !side.grants(Caps::TAGGED) {
        return side.refused(Caps::TAGGED, |buf| side.link.tagged_send(TAG, buf));
    }
    let send = || side.posts(len, |buf| side.link.tagged_send(TAG, buf));
    side.message(len, &TAGGED, send, |buf| side.link.tagged_recv(TAG, buf))
}

fn injected_tagged_message(side: &Side<'_, '_>) -> Outcome {
    if !side.grants(Caps::TAGGED) {
        assert_eq!(side.link.tagged_inject(TAG, b"bytes"), Err(PostError::NotGranted(Caps::TAGGED)));
        return Outcome::NotGranted;
    }
    let send = || side.injects(INJECTED, |bytes| side.link.tagged_inject(TAG, bytes));
    side.message(INJECTED, &TAGGED, send, |buf| side.link.tagged_recv(TAG, buf))
}

/// Fills the buffer with two messages so far that it is returned.
fn multi_receive(side: &Side<'_, '_>) -> Outcome {
    if !side.info().raw().is_tested() {
        // The remaining room of a returned buffer is unknown: the safe form is refused.
        let safe = side.link.safe_multi_recv(Side::room(8)).map_err(|rejected| rejected.error);
        assert!(matches!(safe, Err(PostError::NotSafe | PostError::NotGranted(_))), "{safe:?}");
        return Outcome::NotGranted;
    }
    const PIECE: usize = LONGEST_PIECE * 2 / 3;
    if !side.grants(Caps::MULTI_RECV) {
        return side.refused(Caps::MULTI_RECV, |buf| side.link.multi_recv(buf));
    }
    if side.part == Part::Sends {
        side.meet("posted");
        for _ in 0..2 {
            side.posts(PIECE, |buf| side.link.send(buf));
        }
        return Outcome::Played;
    }
    let key = post(side.cq, Side::room(2 * LONGEST_PIECE), |buf| side.link.multi_recv(buf));
    side.meet("posted");
    let mut outcome = Outcome::Played;
    for _ in 0..2 {
        let Completion::Piece(piece) = side.next() else { panic!("a piece") };
        piece.result().expect("it arrives");
        if side.check(piece.bytes(), PIECE) == Outcome::Differs {
            outcome = Outcome::Differs;
        }
    }
    side.finish(key);
    outcome
}

fn write(side: &Side<'_, '_>, len: usize) -> Outcome {
    side.write(len, None, || side.posts(len, |buf| side.link.write(&side.remote, buf)))
}

fn write_with_data(side: &Side<'_, '_>) -> Outcome {
    side.write(SHORT, Some(DATA), || side.posts(SHORT, |buf| side.link.write_data(&side.remote, DATA, buf)))
}

fn injected_write(side: &Side<'_, '_>) -> Outcome {
    side.write(INJECTED, None, || side.injects(INJECTED, |bytes| side.link.inject_write(&side.remote, bytes)))
}

fn write_of_several_buffers(side: &Side<'_, '_>) -> Outcome {
    let part = side.remote.part(0, SHORT).expect("within the region");
    side.write(SHORT, None, || side.posts(SHORT, |buf| side.link.write_with(part, buf)))
}

fn read_of_several_buffers(side: &Side<'_, '_>) -> Outcome {
    let part = side.remote.part(0, SHORT).expect("within the region");
    side.read(SHORT, |buf| side.link.read_with(part, buf))
}

fn directed_receive(side: &Side<'_, '_>) -> Outcome {
    let Link::Peer(endpoint, peer) = &side.link else { unreachable!("among peers") };
    let receive = |buf| endpoint.tagged_recv(*peer, TAG, buf);
    if !side.grants(Caps::DIRECTED_RECV) {
        return side.refused(Caps::DIRECTED_RECV, receive);
    }
    side.message(SHORT, &TAGGED, || side.posts(SHORT, |buf| side.link.tagged_send(TAG, buf)), receive)
}

/// Peeks at a message before its receive.
fn peek(side: &Side<'_, '_>) -> Outcome {
    let quirks = T::quirks(side.info().raw());
    looked_for(side, quirks.peek, false)
}

/// Claims a message before its receive.
fn claim(side: &Side<'_, '_>) -> Outcome {
    let quirks = T::quirks(side.info().raw());
    looked_for(side, quirks.peek && quirks.claims != Claims::Not, true)
}

fn looked_for(side: &Side<'_, '_>, granted: bool, claims: bool) -> Outcome {
    let Link::Peer(endpoint, _) = &side.link else { unreachable!("among peers") };
    let look = || {
        if claims { endpoint.tagged_peek_claim(Source::Any, TAG) } else { endpoint.tagged_peek(Source::Any, TAG) }
    };
    if !granted {
        assert_eq!(look(), Err(PostError::Errno(Errno::EOPNOTSUPP)));
        return Outcome::NotGranted;
    }
    if side.part == Part::Sends {
        side.posts(SHORT, |buf| side.link.tagged_send(TAG, buf));
        return Outcome::Played;
    }
    let deadline = Instant::now() + LIMIT;
    let found = loop {
        let key = look().expect("a peek");
        let answer = side.cq.wait_peek(key, deadline).expect("the queue works").expect("an answer in time");
        if let Some(found) = answer.message().expect("the peek works") {
            break found;
        }
        assert!(Instant::now() < deadline, "nothing is found");
    };
    assert_eq!((found.len, found.tag, found.claim.is_some()), (SHORT, TAG, claims));
    let key = post(side.cq, Side::room(SHORT), |buf| match found.claim {
        Some(claim) => endpoint.tagged_claim(claim, buf),
        None => side.link.tagged_recv(TAG, buf),
    });
    side.check(&side.finish(key).0, SHORT)
}
