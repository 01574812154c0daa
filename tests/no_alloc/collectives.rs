//! Collective operations of three members. Each round has every operation of the domain.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::CollectiveGroup;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Collectives;

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const MEMBERS: usize = 3;
/// Number of elements of a part.
const COUNT: usize = 6;
const SUM: ReduceOp<u64> = ReduceOp::SUM;
const LIMIT: Duration = Duration::from_secs(60);

type Buf = Vec<u8>;
type Group<'m, T> = CollectiveGroup<'m, T, Buf>;
type Post<T> = fn(&Group<'_, T>, Buf) -> Result<OpKey, Rejected<Buf>>;

/// Collective operation of a round.
struct Operation<T: Collectives> {
    collective: Collective,
    /// Number of parts in the buffer of the root, and in others.
    parts: [usize; 2],
    post: Post<T>,
    /// Number of parts in the root's results, and `true` if they are sums.
    results: usize,
    sums: bool,
}

fn operations<T: Collectives>() -> Vec<Operation<T>> {
    let operation =
        |collective, parts, post: Post<T>, results, sums| Operation { collective, parts, post, results, sums };
    vec![
        operation(
            Collective::broadcast::<u64>(),
            [1, 1],
            |group, buf| group.post(Collective::broadcast::<u64>(), 0, buf),
            1,
            false,
        ),
        operation(
            Collective::all_reduce(SUM),
            [2, 2],
            |group, buf| group.post(Collective::all_reduce(SUM), 0, buf),
            1,
            true,
        ),
        operation(Collective::reduce(SUM), [2, 1], |group, buf| group.post(Collective::reduce(SUM), 0, buf), 1, true),
        operation(
            Collective::reduce_scatter(SUM),
            [4, 4],
            |group, buf| group.post(Collective::reduce_scatter(SUM), 0, buf),
            1,
            true,
        ),
        operation(
            Collective::all_gather::<u64>(),
            [4, 4],
            |group, buf| group.post(Collective::all_gather::<u64>(), 0, buf),
            3,
            false,
        ),
        operation(
            Collective::gather::<u64>(),
            [4, 1],
            |group, buf| group.post(Collective::gather::<u64>(), 0, buf),
            3,
            false,
        ),
        operation(
            Collective::scatter::<u64>(),
            [4, 1],
            |group, buf| group.post(Collective::scatter::<u64>(), 0, buf),
            1,
            false,
        ),
        operation(
            Collective::all_to_all::<u64>(),
            [6, 6],
            |group, buf| group.post(Collective::all_to_all::<u64>(), 0, buf),
            3,
            false,
        ),
    ]
}

/// Opens everything, warms up, and counts.
pub fn run<T: Collectives + 'static>(
    info: &Info<T>,
    seal: &Seal,
    rounds: u64,
    plant: Plant,
) -> Result<Counts, Failure> {
    scope(|s| {
        let domain = s.open(info)?;
        let av = Av::open_in(&domain, MEMBERS, seal)?;
        let cq: Cq<'_, T, Buf> = Cq::open_in(&domain, CqAttr { endpoints: 3, ..CqAttr::new(16) }, seal)?;
        let endpoints = [cq.endpoint(&av)?, cq.endpoint(&av)?, cq.endpoint(&av)?];
        let mut set = av.set_in(MEMBERS, seal)?;
        for endpoint in &endpoints {
            let peer = av.insert(&endpoint.address()?)?;
            set.insert(peer).map_err(|_| Failure::Wrong("a set has room for its members"))?;
        }
        let join = |at: usize| endpoints[at].join_collective(&set);
        let groups = [join(0)?, join(1)?, join(2)?];
        let mut granted = operations::<T>();
        granted.retain(|operation| domain.query_collective(operation.collective).is_ok());
        if granted.is_empty() {
            return Err(Failure::Wrong("there are collective operations"));
        }
        let until = Instant::now() + LIMIT + Duration::from_millis(rounds);
        let mut spare: Vec<Vec<u8>> = (0..MEMBERS).map(|_| Vec::with_capacity(6 * COUNT * 8)).collect();
        let mut round = |number: u64| {
            let none = Failure::Wrong("a buffer of the last round is missing");
            let mut keys = [None; MEMBERS];
            for (group, key) in groups.iter().zip(&mut keys) {
                *key = Some(cq.retry(until, || group.barrier())?);
            }
            for key in keys.iter().flatten() {
                cq.wait_value(*key, until)?.ok_or(Failure::Late("a barrier"))?.result()?;
            }
            for (group, key) in groups.iter().zip(&mut keys) {
                *key = Some(cq.retry(until, || group.all_reduce_value(SUM, number))?);
            }
            for key in keys.iter().flatten() {
                let sum = cq.wait_value(*key, until)?.ok_or(Failure::Late("a sum"))?.value::<u64>()?;
                if sum != Some(MEMBERS as u64 * number) {
                    return Err(Failure::Wrong("the sum of values"));
                }
            }
            for Operation { parts: [at_root, elsewhere], post, results, sums, .. } in &granted {
                for (group, key) in groups.iter().zip(&mut keys) {
                    let mut buf = spare.pop().ok_or(none)?;
                    let parts = if group.rank() == 0 { *at_root } else { *elsewhere };
                    buf.clear();
                    (0..parts * COUNT).for_each(|_| buf.extend(number.to_ne_bytes()));
                    let posted = cq.post(buf, until, |buf| post(group, buf));
                    *key = Some(posted.map_err(|refused| refused.error)?);
                }
                for (rank, key) in keys.into_iter().flatten().enumerate() {
                    let (buf, result) = cq.finish(key, until)?.into_parts();
                    result?;
                    let first = buf.len().saturating_sub(results * COUNT * 8);
                    let expected = if *sums { MEMBERS as u64 * number } else { number };
                    let wrong = |word: &[u8]| word != expected.to_ne_bytes();
                    if rank == 0 && buf.get(first..).unwrap_or(&[]).chunks(8).any(wrong) {
                        return Err(Failure::Wrong("the result of a collective operation"));
                    }
                    spare.push(buf);
                }
            }
            Ok(())
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
