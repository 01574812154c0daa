//! Leases of registered slabs, in each round taken, filled, split, rejoined, posted and returned.

use std::time::{Duration, Instant};

use loom_alloc::Sharing;
use loom_alloc::registered::{Lease, RegisteredSlab, SlabAttr};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Transport;

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const SIZE: usize = 256;
const LIMIT: Duration = Duration::from_secs(60);

type Queue<'d, 's, T, L> = Cq<'d, T, Lease<'s, L>>;

fn posted<'s, T: Transport + 'static, L: Sharing>(
    cq: &Queue<'_, 's, T, L>,
    mut lease: Lease<'s, L>,
    post: impl Fn(Lease<'s, L>) -> Result<OpKey, Rejected<Lease<'s, L>>>,
) -> Result<OpKey, Failure> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match post(lease) {
            Ok(key) => return Ok(key),
            Err(Rejected { value: buf, error }) if error.is_transient() && Instant::now() < deadline => lease = buf,
            Err(Rejected { error, .. }) => return Err(error.into()),
        }
        cq.progress()?;
    }
}

fn finished<'s, T: Transport + 'static, L: Sharing>(
    cq: &Queue<'_, 's, T, L>,
    key: OpKey,
) -> Result<(Lease<'s, L>, usize), Failure> {
    let done = cq.wait(key, Instant::now() + LIMIT)?.ok_or(Failure::Late("a lease"))?;
    let (lease, result) = done.into_parts();
    Ok((lease, result?.len))
}

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static, L: Sharing>(
    info: &Info<T>,
    seal: &Seal,
    rounds: u64,
    plant: Plant,
) -> Result<Counts, Failure> {
    let wrong = |_| Failure::Wrong("a lease has fewer bytes than it says");
    let domain = Domain::open(info)?;
    let taken = seal.taken();
    let slab = RegisteredSlab::<'_, _, _, _, L>::open_in(&domain, SlabAttr::new(2, SIZE), seal)?;
    if seal.taken() != taken + 2 {
        return Err(Failure::Wrong("a slab takes its buffers and its table from the allocator that it was given"));
    }
    scope(|s| {
        let domain = s.domain(&domain);
        let av = Av::open_in(&domain, 2, seal)?;
        let cq: Queue<'_, '_, T, L> = Cq::open_in(&domain, CqAttr { endpoints: 2, ..CqAttr::new(16) }, seal)?;
        let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
        let to_b = av.insert(&b.address()?)?;
        let round = |number: u64| {
            let none = Failure::Wrong("a lease of the last round is missing");
            let [into, mut out] = [slab.lease().ok_or(none)?, slab.lease().ok_or(none)?];
            if slab.lease().is_some() {
                return Err(Failure::Wrong("there are more leases than buffers"));
            }
            out.append(&number.to_le_bytes()).map_err(wrong)?;
            out.prepare(SIZE - 8).map_err(wrong)?.fill(number.to_le_bytes()[0]);
            out.commit(SIZE - 8).map_err(wrong)?;
            let (head, body) = out.split(100).map_err(|_| Failure::Wrong("a lease is not split"))?;
            let out = body.rejoin(head).map_err(|_| Failure::Wrong("a lease is not rejoined"))?;
            let received = posted(&cq, into, |into| b.recv(Source::Any, into))?;
            let sent = posted(&cq, out, |out| a.send(to_b, out))?;
            let (mut into, len) = finished(&cq, received)?;
            into.set_len(len).map_err(wrong)?;
            drop(finished(&cq, sent)?);
            let (begin, rest) = into.split_at(8.min(len));
            if *begin != number.to_le_bytes() || rest.len() != SIZE - 8 || rest.iter().any(|byte| *byte != begin[0]) {
                return Err(Failure::Wrong("the message is another one"));
            }
            Ok(())
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
