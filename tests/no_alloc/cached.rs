//! Buffers with cached registrations: found, merged, evicted and forgotten in each round.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use loom_alloc::mr_cache::{Cached, MrCache, MrCacheAttr, Notified};
use loom_core::av::Av;
use loom_core::buffer::bytes_mut;
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Transport;

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

/// Size that does not divide a page, so that buffers share pages.
const SIZE: usize = 1000;
const BUFS: usize = 32;
const LIMIT: Duration = Duration::from_secs(60);

type Buf<'c, 'd, 'm, T> = Cached<'c, 'd, T, &'m mut [u8]>;
type Queue<'s, 'c, 'd, 'm, T> = Cq<'s, T, Buf<'c, 'd, 'm, T>>;

fn posted<'c, 'd, 'm, T: Transport + 'static>(
    cq: &Queue<'_, 'c, 'd, 'm, T>,
    mut buf: Buf<'c, 'd, 'm, T>,
    post: impl Fn(Buf<'c, 'd, 'm, T>) -> Result<OpKey, Rejected<Buf<'c, 'd, 'm, T>>>,
) -> Result<OpKey, Failure> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match post(buf) {
            Ok(key) => return Ok(key),
            Err(Rejected { value: back, error }) if error.is_transient() && Instant::now() < deadline => buf = back,
            Err(Rejected { error, .. }) => return Err(error.into()),
        }
        cq.progress()?;
    }
}

fn finished<'m, T: Transport + 'static>(cq: &Queue<'_, '_, '_, 'm, T>, key: OpKey) -> Result<&'m mut [u8], Failure> {
    let done = cq.wait(key, Instant::now() + LIMIT)?.ok_or(Failure::Late("a cached buffer"))?;
    let (buf, result) = done.into_parts();
    result?;
    Ok(buf.into_inner())
}

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let mut memory = vec![0; BUFS * SIZE];
    let mut bufs: Vec<Option<&mut [u8]>> = memory.chunks_mut(SIZE).map(Some).collect();
    let bufs = RefCell::new(&mut bufs[..]);
    // The cache borrows the buffers, and the queue uses the cache's.
    scope(|s| {
        let domain = s.open(info)?;
        let taken = seal.taken();
        // SAFETY: the memory outlives the cache.
        let monitor = unsafe { Notified::new() };
        let cache = MrCache::open_in(&domain, MrCacheAttr::new(4), monitor, seal)?;
        if seal.taken() != taken + 1 {
            return Err(Failure::Wrong("a cache takes one block from the allocator that it was given"));
        }
        scope(|s| {
            let domain = s.domain(&domain);
            let av = Av::open_in(&domain, 2, seal)?;
            let cq: Queue<'_, '_, '_, '_, T> = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(16) }, seal)?;
            let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
            let to_b = av.insert(&b.address()?)?;
            let take = |at: usize| {
                let buf =
                    bufs.borrow_mut()[at].take().ok_or(Failure::Wrong("a buffer of the last round is missing"))?;
                cache.register(buf).map_err(|_| Failure::Wrong("a buffer is not registered"))
            };
            let round = |number: u64| {
                let numbers = number.to_le_bytes();
                let at = usize::from(numbers[0]) / 3;
                let (into_at, out_at) = (2 * at % BUFS, (2 * at + 2 * usize::from(numbers[0] % 7) + 1) % BUFS);
                let (into, mut out) = (take(into_at)?, take(out_at)?);
                let bytes = bytes_mut(&mut out).ok_or(Failure::Wrong("a buffer of bytes"))?;
                bytes.fill(numbers[0]);
                if number.is_multiple_of(64) {
                    cache.monitor().notices().give(bytes.as_ptr().addr(), 1);
                }
                let received = posted(&cq, into, |into| b.recv(Source::Any, into))?;
                let sent = posted(&cq, out, |out| a.send(to_b, out))?;
                let into = finished(&cq, received)?;
                if into.iter().any(|byte| *byte != numbers[0]) {
                    return Err(Failure::Wrong("the message is another one"));
                }
                let mut bufs = bufs.borrow_mut();
                (bufs[into_at], bufs[out_at]) = (Some(into), Some(finished(&cq, sent)?));
                Ok(())
            };
            let begin = (rounds / 50).max(1);
            (0..begin).try_for_each(round)?;
            let before = cache.stats();
            let counts = counted(seal, plant, begin..begin + rounds, round)?;
            let after = cache.stats();
            let used =
                [after.hits - before.hits, after.merges - before.merges, after.invalidations - before.invalidations];
            if rounds >= 1000 && used.contains(&0) {
                return Err(Failure::Wrong("the cache was not used in every way"));
            }
            Ok(counts)
        })
    })
}
