mod directory;
mod in_process;
#[cfg(all(feature = "pmi", unix))]
mod pmi;
mod tcp;
mod tcp_bytes;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loom_group::bootstrap::{Bootstrap, BootstrapError, Round, Slots};

/// Limit in bytes.
const LIMIT: usize = 64;
const SIZES: [u32; 5] = [1, 2, 3, 8, 33];

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn shortly() -> Instant {
    Instant::now() + Duration::from_secs(1)
}

fn each<R: Send>(ranks: impl IntoIterator<Item = u32>, play: impl Fn(u32) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let play = &play;
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || play(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn gift(rank: u32, turn: u32) -> Vec<u8> {
    let len = (rank * 7 + turn * 13) as usize % (LIMIT + 1);
    (0..len).map(|at| at as u8 ^ rank as u8 ^ (turn << 4) as u8).collect()
}

struct Story {
    size: u32,
    come: AtomicU32,
}

impl Story {
    fn new(size: u32) -> Self {
        Story { size, come: AtomicU32::new(0) }
    }

    fn play(&self, ranks: &mut dyn Bootstrap) {
        let (rank, size) = (ranks.rank(), ranks.size());
        assert_eq!(size, self.size);
        let until = &mut soon();
        let mut memory = vec![0; Slots::memory_len(size as usize, LIMIT)];
        let mut all = Slots::new(&mut memory, size);
        for turn in 0..6 {
            ranks.all_gather(&gift(rank, turn), &mut all, until).unwrap();
            for (rank, bytes) in (0..).zip(all.iter()) {
                assert_eq!(bytes, gift(rank, turn), "rank {rank} in turn {turn}");
            }
        }
        for root in 0..size {
            let mut bytes = [0xa5; LIMIT];
            let given = gift(root, 7);
            let len = if rank == root {
                ranks.broadcast(root, &mut given.clone(), until)
            } else {
                ranks.broadcast(root, &mut bytes, until)
            };
            assert_eq!(len, Ok(given.len()));
            if rank != root {
                assert_eq!(bytes[..given.len()], given);
                assert_eq!(bytes[given.len()..], [0xa5; LIMIT][given.len()..]);
            }
        }
        for turn in 1..=3 {
            self.come.fetch_add(1, Ordering::Relaxed);
            ranks.barrier(until).unwrap();
            assert!(self.come.load(Ordering::Relaxed) >= turn * size, "a rank was not waited for");
        }
        self.refuse(ranks, &mut all);
    }

    fn refuse(&self, ranks: &mut dyn Bootstrap, all: &mut Slots<'_>) {
        let (rank, size) = (ranks.rank(), ranks.size());
        let until = &mut soon();
        let too_long = BootstrapError::TooLong { rank, len: LIMIT + 1, limit: LIMIT };
        assert_eq!(ranks.all_gather(&[0; LIMIT + 1], all, until), Err(too_long));
        let mut memory = [0; 100];
        let mut others = Slots::new(&mut memory, size + 1);
        assert_eq!(ranks.all_gather(&[], &mut others, until), Err(BootstrapError::SlotCount { count: size + 1, size }));
        let unknown = Err(BootstrapError::UnknownRank { rank: size, size });
        assert_eq!(ranks.broadcast(size, &mut [0; 4], until), unknown);

        let last = size - 1;
        let mut memory = vec![0; Slots::memory_len(size as usize, 4)];
        let mut short = Slots::new(&mut memory, size);
        let mine: &[u8] = if rank == last { b"longer" } else { b"four" };
        let too_long = Err(BootstrapError::TooLong { rank: last, len: 6, limit: 4 });
        assert_eq!(ranks.all_gather(mine, &mut short, until), too_long);
        assert!((0..).zip(short.iter()).all(|(rank, bytes)| bytes == if rank == last { &b""[..] } else { b"four" }));
        if size > 1 {
            let mut bytes = [9; 2];
            let outcome = ranks.broadcast(0, &mut vec![1; if rank == 0 { 3 } else { 0 }], until);
            let too_long = Err(BootstrapError::TooLong { rank: 0, len: 3, limit: 0 });
            assert_eq!(outcome, if rank == 0 { Ok(3) } else { too_long });
            assert_eq!(ranks.broadcast(0, &mut bytes, until), Ok(2), "they are in step");
        }
        assert_eq!(ranks.barrier(until), Ok(()));
    }
}

fn idle_rank_is_named<B: Bootstrap>(size: u32, idle: u32, open: impl Fn(u32) -> B + Sync) {
    let failed = Barrier::new(size as usize);
    let began = Instant::now();
    each(0..size, |rank| {
        let mut ranks = open(rank);
        ranks.barrier(&mut soon()).unwrap();
        if rank != idle {
            let missing = Err(BootstrapError::Missing { rank: idle });
            assert_eq!(ranks.barrier(&mut shortly()), missing, "on rank {rank}");
            assert_eq!(ranks.barrier(&mut shortly()), Err(BootstrapError::Ended));
        }
        failed.wait();
    });
    assert!(began.elapsed() < Duration::from_secs(30));
}

fn another_round_is_out_of_step<B: Bootstrap>(size: u32, open: impl Fn(u32) -> B + Sync) {
    let failed = Barrier::new(size as usize);
    let outcomes = each(0..size, |rank| {
        let mut ranks = open(rank);
        let round = if rank == 1 { Round::AllGather } else { Round::Barrier };
        let outcome = ranks.round(round, b"", &mut |_, _| (), &mut soon());
        failed.wait();
        outcome
    });
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert_eq!(outcomes[0], Err(BootstrapError::OutOfStep { rank: 1 }));
}
