//! Collectives of a team of two: each round has an all-reduce, and a barrier beside a scan.

use std::time::{Duration, Instant};

use loom_core::info::Info;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::Caps;
use loom_group::CollectiveError;
use loom_group::collective::{Combine, Element, Packet, Running, Sum, Team, TeamAttr};
use loom_group::{PeerIndex, Prepared};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

/// Short size, because long messages both ways between two endpoints of one process end `shm` of
/// libfabric 2.5.
const PACKET: usize = 64;
const LIMIT: Duration = Duration::from_secs(60);
const COUNT: usize = 20;

impl From<CollectiveError> for Failure {
    fn from(error: CollectiveError) -> Self {
        match error {
            CollectiveError::Open(error) => error.into(),
            CollectiveError::Post { error, .. } => error.into(),
            CollectiveError::Operation { error, .. } => error.into(),
            CollectiveError::Queue(error) => error.into(),
            CollectiveError::TimedOut { .. } => Failure::Late("a member of the team"),
            _ => Failure::Wrong("a collective is refused"),
        }
    }
}

/// Turns both until they complete.
fn finish<T: Transport, B: Packet, A: loom_core::allocator_api2::alloc::Allocator, E: Element, C: Combine<E>>(
    mut both: [Running<'_, '_, '_, T, B, A, E, C>; 2],
) -> Result<(), Failure> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let [first, second] = &mut both;
        if first.turn()? & second.turn()? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Failure::Late("a collective"));
        }
    }
}

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    scope(|s| {
        let domain = s.open(info)?;
        if !domain.info().caps().contains(Caps::TAGGED) {
            return Err(Failure::Wrong("teams need tagged messages"));
        }
        let taken = seal.taken();
        let prepared = [Prepared::open_in(&domain, 2, 32, seal)?, Prepared::open_in(&domain, 2, 32, seal)?];
        let addresses = [prepared[0].address()?, prepared[1].address()?];
        let [first, second] = prepared;
        let groups = [first.connect(&addresses)?, second.connect(&addresses)?];
        let open = |rank: u32, group| {
            let packets = std::iter::repeat_with(|| Vec::with_capacity(PACKET));
            let attr = TeamAttr::new(1).with_at_once(2).with_packets(4).with_scratch(8 * COUNT);
            Team::open_in(group, attr, (0..2).map(PeerIndex), rank, packets, seal)
        };
        let [one, other] = [open(0, &groups[0])?, open(1, &groups[1])?];
        if seal.taken() < taken + 4 {
            return Err(Failure::Wrong("a team takes its memory from the allocator that it was given"));
        }
        let round = |number: u64| {
            let given = [[number; COUNT], [number + 1; COUNT]];
            let mut sums = [[0; COUNT]; 2];
            let [a, b] = &mut sums;
            finish([one.all_reduce(Sum, &given[0], a)?, other.all_reduce(Sum, &given[1], b)?])?;
            let mut parts = [[0; COUNT]; 2];
            let [c, d] = &mut parts;
            // Two of a team are in progress at a time.
            let barriers = [one.barrier()?, other.barrier()?];
            finish([one.scan(Sum, &given[0], c)?, other.scan(Sum, &given[1], d)?])?;
            finish(barriers)?;
            let sum = 2 * number + 1;
            let right = sums == [[sum; COUNT]; 2] && parts == [[number; COUNT], [sum; COUNT]];
            if right { Ok(()) } else { Err(Failure::Wrong("a sum is another one")) }
        };
        // These rounds pass the first barrier that precedes a collective.
        (0..70).try_for_each(round)?;
        counted(seal, plant, 70..70 + rounds, round)
    })
}
