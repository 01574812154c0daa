//! Awaited operations in each round: a message, a post that waits for room, and a dropped future.

use std::cell::RefCell;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures_util::join;
use loom_async::block_on;
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::driver::{CqDriver, Drive, RunError, Unclaimed};
use loom_core::endpoint::Source;
use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Transport;

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const SIZE: usize = 64;
const LIMIT: Duration = Duration::from_secs(60);

impl<B> From<RunError<B>> for Failure {
    fn from(error: RunError<B>) -> Self {
        match error {
            RunError::Rejected(rejected) => rejected.error.into(),
            RunError::Queue { error, .. } => error.into(),
        }
    }
}

/// Driver with a time limit.
struct Bounded<'d, D>(&'d D, Instant);

impl<D: Drive> Drive for Bounded<'_, D> {
    fn turn(&self, budget: usize) -> usize {
        assert!(self.1.elapsed() < LIMIT, "a round ends within {LIMIT:?}");
        self.0.turn(budget)
    }
}

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    scope(|s| {
        let domain = s.open(info)?;
        let av = Av::open_in(&domain, 2, seal)?;
        // Few slots, so that the third post of a round waits for room.
        let cq: Cq<'_, T, Box<[u8]>> = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(2) }, seal)?;
        let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
        let to_b = av.insert(&b.address()?)?;
        let taken = seal.taken();
        let driver = CqDriver::open_in(&cq, Unclaimed::Keep, seal)?;
        if seal.taken() != taken + 1 {
            return Err(Failure::Wrong("a driver takes one block from the allocator that it was given"));
        }
        let spare = RefCell::new((0..4).map(|_| vec![0; SIZE].into()).collect::<Vec<Box<[u8]>>>());
        let buffer = || spare.borrow_mut().pop().ok_or(Failure::Wrong("a buffer of the last round is missing"));
        let round = |number: u64| {
            let byte = number.to_le_bytes()[0];
            let receives = async {
                for _ in 0..2 {
                    let (buf, result) = driver.run(buffer()?, |buf| b.recv(Source::Any, buf)).await?.into_parts();
                    result?;
                    if buf.iter().any(|it| *it != byte) {
                        return Err(Failure::Wrong("the message is another one"));
                    }
                    spare.borrow_mut().push(buf);
                }
                Ok(())
            };
            let sends = || async {
                let mut buf = buffer()?;
                buf.fill(byte);
                let (buf, result) = driver.run(buf, |buf| a.send(to_b, buf)).await?.into_parts();
                result?;
                spare.borrow_mut().push(buf);
                Ok::<_, Failure>(())
            };
            block_on(&Bounded(&driver, Instant::now()), async {
                let (received, first, second) = join!(receives, sends(), sends());
                received.and(first).and(second)?;
                // Dropped before completion, and taken back.
                {
                    let mut dropped = pin!(driver.run(buffer()?, |buf| b.recv(Source::Any, buf)));
                    let _ = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                }
                sends().await?;
                let back = driver.next_unclaimed().await?.into_buf();
                spare.borrow_mut().push(back);
                Ok(())
            })
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
