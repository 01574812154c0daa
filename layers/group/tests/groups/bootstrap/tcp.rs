use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use loom_group::bootstrap::{Bootstrap, BootstrapError, Mismatch, Tcp, TcpAttr};

use super::{LIMIT, SIZES, Story, another_round_is_out_of_step, each, idle_rank_is_named, shortly, soon};

pub(super) struct Meeting {
    listener: Mutex<Option<TcpListener>>,
    pub(super) attr: TcpAttr,
}

impl Meeting {
    pub(super) fn new(size: u32) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let rendezvous = listener.local_addr().unwrap();
        let attr = TcpAttr { rendezvous, size, limit: LIMIT, job: 0x1234_5678_9abc_def0 };
        Meeting { listener: Mutex::new(Some(listener)), attr }
    }

    pub(super) fn join(&self, rank: u32, mut until: Instant) -> Result<Tcp, BootstrapError> {
        if rank > 0 {
            return Tcp::open(&self.attr, rank, &mut until);
        }
        let listener = self.listener.lock().unwrap().take().expect("rank 0 joins once");
        Tcp::host(listener, &self.attr, &mut until)
    }

    pub(super) fn stranger(&self) -> TcpStream {
        let stream = TcpStream::connect(self.attr.rendezvous).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

#[test]
fn ranks_exchange_over_tcp() {
    for size in SIZES {
        let (meeting, story) = (Meeting::new(size), Story::new(size));
        each(0..size, |rank| story.play(&mut meeting.join(rank, soon()).unwrap()));
    }
}

#[test]
fn ranks_that_come_before_rank_0_listens_wait_for_it() {
    // No other test uses this address, so the port stays free.
    let free = TcpListener::bind(("127.0.0.2", 0)).unwrap();
    let attr = TcpAttr { rendezvous: free.local_addr().unwrap(), ..Meeting::new(3).attr };
    drop(free);
    let early = Tcp::open(&attr, 1, &mut shortly()).err();
    assert_eq!(early, Some(BootstrapError::Missing { rank: 0 }));
    let story = Story::new(3);
    each(0..3, |rank| story.play(&mut Tcp::open(&attr, rank, &mut soon()).unwrap()));
}

#[test]
fn bytes_far_beyond_the_buffers_of_the_system_are_exchanged() {
    const LONG: usize = 8 << 20;
    let mut meeting = Meeting::new(3);
    meeting.attr.limit = LONG;
    each(0..3, |rank| {
        let mut ranks = meeting.join(rank, soon()).unwrap();
        let mut lengths = Vec::new();
        let mine = vec![rank as u8; LONG - rank as usize];
        let mut visit = |rank: u32, bytes: &[u8]| {
            assert!(bytes.iter().all(|&byte| u32::from(byte) == rank));
            lengths.push(bytes.len());
        };
        ranks.round(loom_group::bootstrap::Round::AllGather, &mine, &mut visit, &mut soon()).unwrap();
        assert_eq!(lengths, [LONG, LONG - 1, LONG - 2]);
    });
}

#[test]
fn a_rank_that_does_not_come_is_named_on_every_rank() {
    for absent in 0..4 {
        let meeting = Meeting::new(4);
        if absent == 0 {
            drop(meeting.listener.lock().unwrap().take());
        }
        let began = Instant::now();
        let outcomes = each((0..4).filter(|&rank| rank != absent), |rank| meeting.join(rank, shortly()).err());
        assert_eq!(outcomes, [Some(BootstrapError::Missing { rank: absent }); 3]);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_rank_that_does_not_play_is_named_on_every_rank() {
    for idle in [0, 2, 3] {
        let meeting = Meeting::new(4);
        idle_rank_is_named(4, idle, |rank| meeting.join(rank, soon()).unwrap());
    }
}

#[test]
fn a_rank_that_leaves_is_missing_at_once() {
    for leaver in [0, 2] {
        let meeting = Meeting::new(4);
        let began = Instant::now();
        each(0..4, |rank| {
            let mut ranks = meeting.join(rank, soon()).unwrap();
            ranks.barrier(&mut soon()).unwrap();
            if rank != leaver {
                let missing = Err(BootstrapError::Missing { rank: leaver });
                assert_eq!(ranks.barrier(&mut soon()), missing, "on rank {rank}");
            }
        });
        assert!(began.elapsed() < Duration::from_secs(30), "before the deadline");
    }
}

#[test]
fn a_rank_in_another_round_is_out_of_step() {
    let meeting = Meeting::new(3);
    another_round_is_out_of_step(3, |rank| meeting.join(rank, soon()).unwrap());
}

#[test]
fn strangers_do_not_end_the_meeting() {
    let meeting = Meeting::new(3);
    let noise: [&[u8]; 5] = [b"", b"x", b"GET / HTTP/1.1\r\nHost: loom\r\n\r\n", &[0; 28], b"lmbt\x01\0\0\0"];
    let mut strangers = Vec::new();
    for bytes in noise {
        let mut stranger = meeting.stranger();
        stranger.write_all(bytes).unwrap();
        strangers.push(stranger);
        meeting.stranger().write_all(bytes).unwrap();
    }
    let story = Story::new(3);
    each(0..3, |rank| story.play(&mut meeting.join(rank, soon()).unwrap()));
}

#[test]
fn strangers_that_stay_in_large_numbers_do_not_keep_ranks_out() {
    let meeting = Meeting::new(2);
    let story = Story::new(2);
    each(0..3, |rank| {
        if rank < 2 {
            return story.play(&mut meeting.join(rank, soon()).unwrap());
        }
        let strangers: Vec<_> = (0..200).map_while(|_| TcpStream::connect(meeting.attr.rendezvous).ok()).collect();
        drop(strangers);
    });
}

#[test]
fn oldest_of_the_strangers_are_closed_when_there_are_too_many() {
    let meeting = Meeting::new(2);
    let story = Story::new(2);
    each(0..2, |rank| {
        let mut strangers: Vec<_> = (0..130 * rank).map(|_| meeting.stranger()).collect();
        let (oldest, others) = strangers.split_at_mut(2.min(rank as usize * 2));
        for stranger in oldest {
            assert_eq!(stranger.read(&mut [0]).unwrap(), 0, "it is closed");
        }
        for stranger in others {
            stranger.set_nonblocking(true).unwrap();
            assert_eq!(stranger.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        story.play(&mut meeting.join(rank, soon()).unwrap());
    });
}

#[test]
fn a_rank_that_comes_twice_is_refused() {
    let meeting = Meeting::new(3);
    let story = Story::new(3);
    // Rank 2 keeps the meeting open until then.
    let refused = Barrier::new(2);
    let outcomes = each([1, 1, 0, 2], |rank| {
        if rank == 2 {
            refused.wait();
        }
        match meeting.join(rank, soon()) {
            Ok(mut ranks) => {
                story.play(&mut ranks);
                None
            }
            Err(error) => {
                refused.wait();
                Some(error)
            }
        }
    });
    assert_eq!(outcomes.iter().flatten().collect::<Vec<_>>(), [&BootstrapError::Taken { rank: 1 }]);
}

#[test]
fn ranks_with_other_attributes_are_refused_and_the_meeting_goes_on() {
    let meeting = Meeting::new(2);
    let attr = meeting.attr;
    let story = Story::new(2);
    each(0..2, |rank| {
        if rank == 1 {
            let refused = [
                (TcpAttr { size: 3, ..attr }, Mismatch::Size),
                (TcpAttr { limit: LIMIT - 1, ..attr }, Mismatch::Limit),
                (TcpAttr { job: 1, ..attr }, Mismatch::Job),
            ];
            for (attr, what) in refused {
                assert_eq!(Tcp::open(&attr, 1, &mut soon()).err(), Some(BootstrapError::Mismatch(what)));
            }
        }
        story.play(&mut meeting.join(rank, soon()).unwrap());
    });
}

#[test]
fn attributes_out_of_range_are_refused() {
    let attr = Meeting::new(2).attr;
    let open = |attr: &TcpAttr, rank| Tcp::open(attr, rank, &mut shortly()).err();
    assert_eq!(open(&attr, 2), Some(BootstrapError::UnknownRank { rank: 2, size: 2 }));
    assert_eq!(open(&TcpAttr { size: 0, ..attr }, 0), Some(BootstrapError::Size { size: 0 }));
    let limit = usize::MAX;
    assert_eq!(open(&TcpAttr { limit, ..attr }, 1), Some(BootstrapError::Limit { limit }));
    let taken = Meeting::new(2);
    assert!(matches!(open(&taken.attr, 0), Some(BootstrapError::System { call: "bind", .. })));
}
