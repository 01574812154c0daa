use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use loom_group::bootstrap::{Bootstrap, BootstrapError, Round, Tcp, TcpAttr};

use super::tcp::Meeting;
use super::{LIMIT, each, shortly, soon};

fn words(tag: &[u8; 4], words: [u32; 3]) -> Vec<u8> {
    [&tag[..], &words.map(u32::to_le_bytes).concat()].concat()
}

fn hello(attr: &TcpAttr, rank: u32) -> Vec<u8> {
    let words = [rank, attr.size, attr.limit as u32];
    [&b"lmbt"[..], &1_u32.to_le_bytes(), &attr.job.to_le_bytes(), &words.map(u32::to_le_bytes).concat()].concat()
}

fn read_to(stream: &mut TcpStream, tag: &[u8; 4]) -> bool {
    let mut frame = [0; 16];
    while stream.read_exact(&mut frame).is_ok() {
        if frame.starts_with(tag) {
            return true;
        }
    }
    false
}

fn round_with(bytes: &[u8]) -> [Result<(), BootstrapError>; 2] {
    let meeting = Meeting::new(3);
    let outcomes = each(0..3, |rank| {
        if rank == 1 {
            let mut stream = meeting.stranger();
            stream.write_all(&hello(&meeting.attr, 1)).unwrap();
            assert!(read_to(&mut stream, b"lmbj"));
            stream.write_all(bytes).unwrap();
            read_to(&mut stream, b"lmbf");
            return Ok(());
        }
        let mut ranks = meeting.join(rank, soon()).unwrap();
        let outcome = ranks.round(Round::Barrier, b"", &mut |_, _| (), &mut soon());
        assert_eq!(ranks.barrier(&mut soon()), Err(BootstrapError::Ended));
        outcome
    });
    [outcomes[0], outcomes[2]]
}

#[test]
fn bytes_that_are_no_gift_are_malformed_on_every_rank() {
    let barrier = u32::MAX - 1;
    let malformed = [Err(BootstrapError::Malformed { rank: 1 }); 2];
    let out_of_step = [Err(BootstrapError::OutOfStep { rank: 1 }); 2];
    assert_eq!(round_with(b"GET / HTTP/1.1\r\n"), malformed);
    assert_eq!(round_with(&[0; 16]), malformed);
    assert_eq!(round_with(&words(b"lmba", [1, 0, 0])), malformed);
    assert_eq!(round_with(&words(b"lmbg", [1, barrier, LIMIT as u32 + 1])), malformed);
    assert_eq!(round_with(&words(b"lmbg", [1, barrier, u32::MAX])), malformed);
    assert_eq!(round_with(&words(b"lmbg", [2, barrier, 0])), out_of_step);
    assert_eq!(round_with(&words(b"lmbg", [1, 0, 0])), out_of_step);
}

#[test]
fn introductions_of_no_rank_are_hung_up_on() {
    let meeting = Meeting::new(2);
    let attr = meeting.attr;
    each(0..2, |rank| {
        if rank == 1 {
            for rank in [0, 2, u32::MAX] {
                let mut stream = meeting.stranger();
                stream.write_all(&hello(&attr, rank)).unwrap();
                assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
            }
            let mut newer = hello(&attr, 1);
            newer[4] = 2;
            let mut stream = meeting.stranger();
            stream.write_all(&newer).unwrap();
            assert!(read_to(&mut stream, b"lmbn"));
        }
        meeting.join(rank, soon()).unwrap().barrier(&mut soon()).unwrap();
    });
}

#[test]
fn a_rank_that_left_before_the_meeting_ended_may_come_again() {
    let meeting = Meeting::new(3);
    let left = Barrier::new(2);
    each(0..3, |rank| {
        if rank == 1 {
            for _ in 0..3 {
                let mut stream = meeting.stranger();
                stream.write_all(&hello(&meeting.attr, 1)).unwrap();
                assert!(read_to(&mut stream, b"lmbw"), "it has its seat");
            }
        }
        if rank > 0 {
            left.wait();
        }
        meeting.join(rank, soon()).unwrap().barrier(&mut soon()).unwrap();
    });
}

fn rank_0_writes(bytes: &[u8]) -> Result<(), BootstrapError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let attr = TcpAttr { rendezvous: listener.local_addr().unwrap(), size: 2, limit: LIMIT, job: 0 };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.read_exact(&mut [0; 28]).unwrap();
            stream.write_all(&words(b"lmbj", [0; 3])).unwrap();
            stream.read_exact(&mut [0; 16]).unwrap();
            stream.write_all(bytes).unwrap();
        });
        let mut ranks = Tcp::open(&attr, 1, &mut soon()).unwrap();
        let outcome = ranks.barrier(&mut soon());
        assert_eq!(ranks.barrier(&mut soon()), if outcome.is_ok() { outcome } else { Err(BootstrapError::Ended) });
        outcome
    })
}

#[test]
fn bytes_of_rank_0_are_checked() {
    let malformed = Err(BootstrapError::Malformed { rank: 0 });
    let all = |len: u32, rest: &[u8]| [&words(b"lmba", [1, len, 0]), rest].concat();
    assert_eq!(rank_0_writes(b"HTTP/1.1 200 OK\r\n"), malformed);
    assert_eq!(rank_0_writes(&words(b"lmba", [1, 0, 1])), malformed, "longer than all gifts together");
    assert_eq!(rank_0_writes(&all(7, &[0; 7])), malformed, "shorter than two lengths");
    assert_eq!(rank_0_writes(&all(9, &[0; 9])), malformed, "a byte is left");
    assert_eq!(rank_0_writes(&all(8, &[1, 0, 0, 0, 0, 0, 0, 0])), malformed, "a length is cut");
    assert_eq!(rank_0_writes(&all(8, &[0xff; 8])), malformed);
    let long = [&(LIMIT as u32 + 1).to_le_bytes()[..], &[0; LIMIT + 1], &[0; 4]].concat();
    assert_eq!(rank_0_writes(&all(long.len() as u32, &long)), malformed, "one gift is beyond the limit");
    assert_eq!(rank_0_writes(&words(b"lmba", [2, 8, 0])), Err(BootstrapError::OutOfStep { rank: 0 }));
    assert_eq!(rank_0_writes(&all(8, &[0; 3])), Err(BootstrapError::Missing { rank: 0 }), "it leaves early");
    assert_eq!(rank_0_writes(&words(b"lmbf", [0, 7, 0])), Err(BootstrapError::Missing { rank: 7 }));
    let waits = [words(b"lmbw", [3, 0, 0]), words(b"lmbw", [5, 0, 0])].concat();
    assert_eq!(rank_0_writes(&waits), Err(BootstrapError::Missing { rank: 5 }), "as rank 0 said last");
}

#[test]
fn a_stranger_at_the_address_is_not_taken_for_rank_0() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let attr = TcpAttr { rendezvous: listener.local_addr().unwrap(), size: 2, limit: LIMIT, job: 0 };
    thread::scope(|scope| {
        scope.spawn(|| {
            for answer in [&b"220 mail.example ESMTP\r\n"[..], b"", &[0; 16], &words(b"lmbg", [0; 3])] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(answer).unwrap();
            }
            // The last stranger stays silent until the rank leaves.
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            assert!(stream.read_to_end(&mut Vec::new()).is_ok());
        });
        assert_eq!(Tcp::open(&attr, 1, &mut shortly()).err(), Some(BootstrapError::Missing { rank: 0 }));
        // On a busy machine the rank may leave before.
        (0..5).for_each(|_| _ = TcpStream::connect(attr.rendezvous));
    });
}
