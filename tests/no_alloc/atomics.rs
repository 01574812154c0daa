//! Atomic operations in each round, on values, on the elements of a buffer, and injected. Counters
//! of peers' operations are checked.

use std::time::{Duration, Instant};

use loom_core::atomic::{BaseOp, CompareOp, FetchOp, ReadOp};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::Binding;
use loom_core::engine::op_table::Fetched;
use loom_core::info::Info;
use loom_core::mr::{Mr, MrAttr};
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Counted};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted, counter};
use crate::failure::Failure;

/// Number of elements of a list.
const COUNT: usize = 4;
const WORD: usize = 8;
const LIMIT: Duration = Duration::from_secs(60);

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let mut memory = vec![0_u64; 1 + COUNT];
    // SAFETY: the same memory, with all bytes initialised.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), WORD * (1 + COUNT)) };
    scope(|s| {
        let domain = s.open(info)?;
        let av = Av::open_in(&domain, 2, seal)?;
        let cq: Cq<'_, T, Box<[u8]>> = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(16) }, seal)?;
        let counters = [counter(&domain)?, counter(&domain)?];
        let counted_there = match &counters {
            [Some(reads), Some(writes)] if domain.info().caps().contains(Caps::RMA_EVENT) => Some([reads, writes]),
            _ => None,
        };
        let to = counted_there.map_or_else(
            || Binding::to(&av),
            |[reads, writes]| {
                Binding::to(&av).counter(Counted::REMOTE_READ, reads).counter(Counted::REMOTE_WRITE, writes)
            },
        );
        let [a, b] = [cq.endpoint(&av)?, cq.endpoint(to)?];
        let to_b = av.insert(&b.address()?)?;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_in(&domain, bytes, MrAttr::new(access), seal)?;
        let remote = region.remote();
        let add = domain.query_atomic(FetchOp::<u64>::SUM)?;
        let swap = domain.query_atomic(CompareOp::<u64>::CSWAP)?;
        let read = domain.query_atomic(ReadOp::<u64>::READ)?;
        let base = domain.query_atomic(BaseOp::<u64>::SUM)?;
        // Operands, and room for the same number of results.
        let mut list: Option<Box<[u8]>> = Some(vec![0; 2 * COUNT * WORD].into());
        let value = |fetched: Option<Fetched>| {
            fetched
                .ok_or(Failure::Late("an atomic operation"))?
                .value::<u64>()?
                .ok_or(Failure::Wrong("it fetches a word"))
        };
        let mut round = |number: u64| {
            let until = Instant::now() + LIMIT;
            let key = cq.retry(until, || a.fetch_value(to_b, &remote, 0, add, 1))?;
            if value(cq.wait_value(key, until)?)? != 3 * number {
                return Err(Failure::Wrong("what was there before is another value"));
            }
            let key = cq.retry(until, || a.compare_value(to_b, &remote, 0, swap, 3 * number + 1, 3 * number + 2))?;
            if value(cq.wait_value(key, until)?)? != 3 * number + 1 {
                return Err(Failure::Wrong("the comparison found another value"));
            }
            cq.retry(until, || a.inject_atomic(to_b, &remote, 0, base, &[1]))?;
            let key = cq.retry(until, || a.atomic_value(to_b, &remote, WORD as u64, base, 1))?;
            cq.wait_value(key, until)?.ok_or(Failure::Late("an atomic operation"))?.result()?;
            let mut buf = list.take().ok_or(Failure::Wrong("the buffer of the last round is missing"))?;
            for (at, word) in buf.chunks_exact_mut(WORD).enumerate() {
                word.copy_from_slice(&[at as u64, 0][usize::from(at >= COUNT)].to_ne_bytes());
            }
            let post = |buf| a.atomic(to_b, &remote, WORD as u64, add, buf);
            let key = cq.post(buf, until, post).map_err(|refused| refused.error)?;
            let (buf, result) = cq.finish(key, until)?.into_parts();
            result?;
            // `atomic_value` also added to the first.
            for (at, word) in buf.chunks_exact(WORD).skip(COUNT).enumerate() {
                let expected = number * at as u64 + if at == 0 { number + 1 } else { 0 };
                if word != expected.to_ne_bytes() {
                    return Err(Failure::Wrong("the list fetches other values"));
                }
            }
            list = Some(buf);
            let key = cq.retry(until, || a.read_value(to_b, &remote, 0, read))?;
            let mut seen = value(cq.wait_value(key, until)?)?;
            // Injected operations may take effect later.
            while seen == 3 * number + 2 && Instant::now() < until {
                let key = cq.retry(until, || a.read_value(to_b, &remote, 0, read))?;
                seen = value(cq.wait_value(key, until)?)?;
            }
            if seen != 3 * (number + 1) {
                return Err(Failure::Wrong("what was injected has not come"));
            }
            // Each round has at least four operations that fetch or read, and two others.
            if let Some([reads, writes]) = counted_there.filter(|_| info.provider() == "soft") {
                let expected = [4 * (number + 1), 2 * (number + 1)];
                if writes.read() != expected[1] || reads.read() < expected[0] {
                    return Err(Failure::Wrong("peers' operations are counted"));
                }
            }
            Ok(())
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
