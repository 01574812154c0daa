//! Ranks that a launcher has started exchange bytes through it, and check them:
//! `mpiexec -n 4 launched`.
//!
//! With `LOOM_FLIPS` in the environment the last rank sends a wrong byte, which the others must
//! notice.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::error::Error;
use std::time::{Duration, Instant};

use loom_group::bootstrap::{Bootstrap, Pmi, Slots};

/// Beyond the protocol's longest value, several times.
const LIMIT: usize = 5000;

/// Bytes of a rank in a turn: lengths differ, from zero to the limit.
fn gift(rank: u32, turn: u32) -> Vec<u8> {
    let len = [0, 1, 483, 484, 485, 984, 985, LIMIT][((rank + turn) % 8) as usize];
    (0..len).map(|at| (at as u32 ^ rank << 5 ^ turn) as u8).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let until = &mut (Instant::now() + Duration::from_secs(20));
    // SAFETY: the first use of the descriptor in the process, and the only one.
    let mut ranks = unsafe { Pmi::from_env(LIMIT, until) }?;
    let (rank, size) = (ranks.rank(), ranks.size());
    // SAFETY: the descriptor is not taken again.
    let again = unsafe { Pmi::from_env(LIMIT, until) };
    assert!(again.is_err(), "the connection was taken twice");

    let flips = std::env::var_os("LOOM_FLIPS").is_some() && rank + 1 == size;
    let mut memory = vec![0; Slots::memory_len(size as usize, LIMIT)];
    let mut all = Slots::new(&mut memory, size);
    // The rounds go on: the launcher ends all ranks, with their output, when one ends early.
    let mut wrong = None;
    for turn in 0..8 {
        let mut mine = gift(rank, turn);
        if let (true, Some(byte)) = (flips, mine.last_mut()) {
            *byte ^= 1;
        }
        ranks.all_gather(&mine, &mut all, until)?;
        for (from, bytes) in (0..).zip(all.iter()) {
            if from != rank && bytes != gift(from, turn) {
                wrong = Some(format!("rank {from} gives other bytes in turn {turn}"));
            }
        }
    }
    for root in 0..size {
        let mut bytes = if rank == root { gift(root, 9) } else { vec![0; LIMIT] };
        let len = ranks.broadcast(root, &mut bytes, until)?;
        if bytes[..len] != gift(root, 9) {
            wrong = Some(format!("rank {root} broadcasts other bytes"));
        }
    }
    for _ in 0..3 {
        ranks.barrier(until)?;
    }
    ranks.close(until)?;
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    println!("rank {rank} of {size}: {} rounds are right", 8 + size + 3);
    Ok(())
}
