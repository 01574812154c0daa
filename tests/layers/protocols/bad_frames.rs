//! Invalid frames. Each ends as its own error, which returns the buffer.

use loom_core::deadline::Spins;
use loom_core::error::PostError;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Errno;
use loom_core::{Av, Cq, CqAttr, Domain, Endpoint, Peer};
use loom_fabric::loom_core;
use loom_static::protocol::{Completes, Inject, MsgRecv, MsgSend, Receiver};

use crate::protocols::example::{FrameError, TRAILER, open, seal};
use crate::protocols::framed::Framed;
use crate::protocols::generic::{outcome, post};
use support::posting::pattern;

type Below = Endpoint<'static, Soft<'static>, Vec<u8>>;

/// Returns two ends on a queue of this many operations, and the second one's peer.
fn ends(depth: usize, longest: usize) -> (Framed<Below>, Framed<Below>, Peer) {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, CqAttr::new(depth)).unwrap());
    let (alice, bob) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_bob = av.insert(&bob.address().unwrap()).unwrap();
    (Framed::new(alice, longest), Framed::new(bob, longest), to_bob)
}

/// Returns the result of a receive of `room` bytes for a stranger's bytes.
fn received(bytes: Vec<u8>, room: usize) -> Result<Vec<u8>, FrameError<loom_core::completion::OpError>> {
    let (mut alice, mut bob, to_bob) = ends(8, 1000);
    let key = post((&mut bob, &mut alice), vec![0xee; room], |bob, buf| bob.recv(Framed::<Below>::ANY, buf));
    let sent = post((&mut alice.below, &mut bob), bytes, |alice, buf| MsgSend::send(alice, to_bob, buf));
    assert!(alice.below.cq().wait(sent, loom_core::Forever).unwrap().is_some());
    let outcome = outcome(&mut bob, &mut alice, key);
    assert_eq!(outcome.buf.len(), room, "the buffer comes back as long as it was");
    outcome.result.map(|transfer| outcome.buf[..transfer.len].to_vec())
}

#[test]
fn whole_frames_are_received_and_no_others() {
    for len in [0, 1, 5, 300] {
        let (message, frame) = (pattern(len, 1), seal(pattern(len, 1)));
        assert_eq!(frame.len(), len + TRAILER);
        assert_eq!(received(frame.clone(), 300), Ok(message));
        for at in 0..frame.len() {
            for bit in [1, 0x80] {
                let mut flipped = frame.clone();
                flipped[at] ^= bit;
                let error = received(flipped, 300).unwrap_err();
                match at.checked_sub(len) {
                    Some(0..4) => assert!(matches!(error, FrameError::Length { .. }), "{error:?}"),
                    _ => assert!(matches!(error, FrameError::Checksum), "{error:?}"),
                }
            }
            let error = received(frame[..at].to_vec(), 300).unwrap_err();
            match at {
                0..TRAILER => assert_eq!(error, FrameError::Short { len: at }),
                _ => assert!(matches!(error, FrameError::Length { .. }), "{error:?}"),
            }
        }
    }
}

#[test]
fn a_length_of_more_than_there_is_is_refused_also_with_the_right_checksum() {
    for stated in [6, u32::MAX, 0] {
        let mut bytes = [b"hello", &stated.to_le_bytes()[..]].concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        assert_eq!(open::<()>(&bytes), Err(FrameError::Length { stated, len: 5 }));
        assert_eq!(received(bytes, 64), Err(FrameError::Length { stated, len: 5 }));
    }
}

#[test]
fn a_frame_for_a_buffer_that_is_too_short_fails_below() {
    let error = received(seal(pattern(65, 1)), 64).unwrap_err();
    let FrameError::Below(error) = error else { panic!("{error:#}") };
    assert_eq!((error.errno, error.overflow), (Errno::ETRUNC, Some(1)));
}

#[test]
fn refused_messages_come_back_as_they_were() {
    let (mut alice, mut bob, to_bob) = ends(1, 100);
    let refused = alice.send(to_bob, pattern(101, 1)).unwrap_err();
    assert_eq!((refused.error, refused.value), (FrameError::TooLong { limit: 100 }, pattern(101, 1)));
    assert_eq!(alice.inject(to_bob, &pattern(101, 1)), Err(FrameError::TooLong { limit: 100 }));

    // The queue has one slot.
    let key = bob.recv(Framed::<Below>::ANY, vec![0; 100]).unwrap();
    let refused = alice.send(to_bob, pattern(100, 2)).unwrap_err();
    assert_eq!((refused.error, refused.value), (FrameError::Below(PostError::Full), pattern(100, 2)));
    let refused = bob.recv(Framed::<Below>::ANY, vec![3; 50]).unwrap_err();
    assert_eq!((refused.error, refused.value), (FrameError::Below(PostError::Full), vec![3; 50]));

    // A provided method passes on transient errors alone, and ends.
    let refused = alice.post(pattern(9, 1), Spins(3), |alice, buf| alice.send(to_bob, buf)).unwrap_err();
    assert_eq!((refused.error, refused.value), (FrameError::Below(PostError::Full), pattern(9, 1)));
    assert!(bob.wait(key, Spins(3)).unwrap().is_none(), "nothing has come");
}
