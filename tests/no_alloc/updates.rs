//! Remote updates: each round has a fetch-and-add and a compare-and-swap of one client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loom_core::Spins;
use loom_core::atomic::{CompareOp, FetchOp};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_updates::{MESSAGE_LEN, UpdateError, UpdateServer, Updates};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const LIMIT: Duration = Duration::from_secs(60);

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let memory = [AtomicU64::new(0)];
    scope(|s| {
        let domain = s.open(info)?;
        let av = Av::open_in(&domain, 2, seal)?;
        let cq: Cq<'_, T, Vec<u8>> = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(16) }, seal)?;
        let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
        let (to_a, to_b) = (av.insert(&a.address()?)?, av.insert(&b.address()?)?);
        let buffers = || std::iter::repeat_with(|| vec![0; MESSAGE_LEN]);
        let taken = seal.taken();
        let mut server = UpdateServer::open_in(b, [to_a], buffers(), 2, seal)?;
        let mut updates = Updates::open_in(a, 0, buffers(), 2, seal)?;
        if seal.taken() != taken + 4 {
            return Err(Failure::Wrong("both sides take their memory from the allocator that they were given"));
        }
        let mut round = |_: u64| {
            let wrong = |_| Failure::Wrong("an update is done");
            let deadline = Instant::now() + LIMIT;
            let expected = memory[0].load(Ordering::Relaxed);
            // One after the other, because concurrent ones take effect in any order.
            for swap in [false, true] {
                let key = loop {
                    let asked = match swap {
                        false => updates.fetch(to_b, 0, FetchOp::<u64>::SUM, 2),
                        true => updates.compare(to_b, 0, CompareOp::CSWAP, expected + 2, expected + 3),
                    };
                    match asked {
                        Err(UpdateError::Full | UpdateError::Post(PostError::Again)) => {
                            updates.progress().map_err(wrong)?
                        }
                        asked => break asked.map_err(wrong)?,
                    }
                    server.progress(&memory[..]).map_err(wrong)?;
                };
                let before = expected + if swap { 2 } else { 0 };
                loop {
                    server.progress(&memory[..]).map_err(wrong)?;
                    match updates.wait(key, Spins(0)).map_err(wrong)? {
                        Some(value) if value == before => break,
                        Some(_) => return Err(Failure::Wrong("what was there before")),
                        None if Instant::now() >= deadline => return Err(Failure::Late("an update")),
                        None => {}
                    }
                }
            }
            Ok(())
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
