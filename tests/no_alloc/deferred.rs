//! Deferred work in each round: a chain of messages that start each other, and work that is
//! cancelled and flushed.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::Source;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_deferred::{Deferred, DeferredEvent, Work};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const SIZE: usize = 64;
/// Number of steps of a round's chain.
const STEPS: u64 = 4;
const LIMIT: Duration = Duration::from_secs(60);

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    scope(|s| {
        let domain = s.open(info)?;
        let av = Av::open_in(&domain, 2, seal)?;
        let cq: Cq<'_, T, Box<[u8]>> = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(16) }, seal)?;
        let chain = Counter::open_in(&domain, CounterAttr::default(), seal)?;
        let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
        let to_b = av.insert(&b.address()?)?;
        let taken = seal.taken();
        let deferred = Deferred::open_in(&cq, 16, seal)?;
        if seal.taken() != taken + 2 {
            return Err(Failure::Wrong("deferred work takes two blocks from the allocator that it was given"));
        }
        let mut spare: Vec<Box<[u8]>> = (0..2 * STEPS).map(|_| vec![0; SIZE].into()).collect();
        let mut round = |number: u64| {
            let none = Failure::Wrong("a buffer of the last round is missing");
            let begin = number * 2 * STEPS;
            for step in 0..STEPS {
                let at = (&chain, begin + 2 * step);
                let [into, mut out] = [spare.pop().ok_or(none)?, spare.pop().ok_or(none)?];
                out.fill(number.to_le_bytes()[0]);
                deferred.post_then(at, &b, Work::recv(Source::Any), &chain, into).map_err(|refused| refused.error)?;
                deferred.post_then(at, &a, Work::send(to_b), &chain, out).map_err(|refused| refused.error)?;
            }
            let deadline = Instant::now() + LIMIT;
            let mut ended = 0;
            while ended < 2 * STEPS {
                match deferred.poll()? {
                    Some(DeferredEvent::Done(_, done)) => {
                        let (buf, result) = done.into_parts();
                        result?;
                        if buf.iter().any(|byte| *byte != number.to_le_bytes()[0]) {
                            return Err(Failure::Wrong("the message is another one"));
                        }
                        spare.push(buf);
                        ended += 1;
                    }
                    Some(_) => return Err(Failure::Wrong("nothing else was posted")),
                    None if Instant::now() > deadline => return Err(Failure::Late("deferred work")),
                    None => {}
                }
            }
            let mut last = |cancel: bool| {
                let key = deferred
                    .post((&chain, u64::MAX), &a, Work::send(to_b), spare.pop().ok_or(none)?)
                    .map_err(|refused| refused.error)?;
                if cancel {
                    deferred.cancel(key)?;
                } else if deferred.flush(None) != 1 {
                    return Err(Failure::Wrong("one piece of work waits"));
                }
                match deferred.poll()? {
                    Some(DeferredEvent::Returned(_, Rejected { value: buf, .. })) => spare.push(buf),
                    _ => return Err(Failure::Wrong("work that is cancelled is returned")),
                }
                Ok(())
            };
            last(true)?;
            last(false)
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
