//! [`Call`]: a collective, with inputs and expected outputs by a plain computation.

use loom_group::CollectiveError;
use loom_group::collective::{Associative, Combine, Sum};
use loom_group::schedule::{Blocks, Commutes, Member, Op, Plan, Schedule, Table};

use crate::teams::world::{Members, Turn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier,
    Broadcast,
    Reduce,
    AllReduce,
    Scan,
    ReduceScatter,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
    AllToAllBlocks,
}

pub(crate) const KINDS: [Kind; 11] = [
    Kind::Barrier,
    Kind::Broadcast,
    Kind::Reduce,
    Kind::AllReduce,
    Kind::Scan,
    Kind::ReduceScatter,
    Kind::Gather,
    Kind::Scatter,
    Kind::AllGather,
    Kind::AllToAll,
    Kind::AllToAllBlocks,
];

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) members: u32,
    pub(crate) root: u32,
    pub(crate) count: usize,
    pub(crate) equal: bool,
    pub(crate) ordered: bool,
    pub(crate) seed: u64,
}

fn ends(lens: impl Iterator<Item = usize>) -> Vec<usize> {
    std::iter::once(0).chain(lens.scan(0, |at, len| (*at += len, Some(*at)).1)).collect()
}

/// Composes `x -> a x + b`, with `a` and `b` in the halves of an element: does not commute.
fn after(first: u64, second: u64) -> u64 {
    let halves = |both: u64| ((both >> 32) as u32, both as u32);
    let ((a, b), (c, d)) = (halves(first), halves(second));
    u64::from(a.wrapping_mul(c)) << 32 | u64::from(c.wrapping_mul(b).wrapping_add(d))
}

pub(crate) struct Bounds {
    blocks: Vec<usize>,
    sent: Vec<usize>,
    received: Vec<usize>,
}

impl Call {
    pub(crate) fn new(kind: Kind, members: u32, count: usize, seed: u64) -> Self {
        let root = (seed % u64::from(members)) as u32;
        Call { kind, members, root, count, equal: seed.is_multiple_of(2), ordered: seed.is_multiple_of(3), seed }
    }

    fn len(&self, rank: u32) -> usize {
        if self.equal { self.count } else { (rank as usize * 7 + self.seed as usize % 5) % (self.count + 1) }
    }

    fn pair(&self, from: u32, to: u32) -> usize {
        if self.kind == Kind::AllToAll { self.count } else { (from as usize * 5 + to as usize * 3) % (self.count + 1) }
    }

    fn ranks(&self) -> std::ops::Range<u32> {
        0..self.members
    }

    fn blocks(&self) -> Vec<usize> {
        ends(self.ranks().map(|rank| self.len(rank)))
    }

    pub(crate) fn bounds(&self, rank: u32) -> Bounds {
        let pairs = self.kind == Kind::AllToAllBlocks;
        let of = |lens: &dyn Fn(u32) -> usize| if pairs { ends(self.ranks().map(lens)) } else { vec![] };
        Bounds {
            blocks: self.blocks(),
            sent: of(&|to| self.pair(rank, to)),
            received: of(&|from| self.pair(from, rank)),
        }
    }

    fn value(&self, rank: u32, place: usize) -> u64 {
        (self.seed + 1 + u64::from(rank) * 0x1_0000 + place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 32
    }

    fn values(&self, rank: u32, len: usize) -> Vec<u64> {
        (0..len).map(|place| self.value(rank, place)).collect()
    }

    pub(crate) fn input(&self, rank: u32) -> Vec<u64> {
        let is_root = rank == self.root;
        self.values(
            rank,
            match self.kind {
                Kind::Barrier | Kind::Broadcast => 0,
                Kind::Reduce | Kind::AllReduce | Kind::Scan => self.count,
                Kind::ReduceScatter => self.ranks().map(|rank| self.len(rank)).sum(),
                Kind::Gather | Kind::AllGather => self.len(rank),
                Kind::Scatter if is_root => self.ranks().map(|rank| self.len(rank)).sum(),
                Kind::Scatter => 0,
                Kind::AllToAll | Kind::AllToAllBlocks => self.ranks().map(|to| self.pair(rank, to)).sum(),
            },
        )
    }

    pub(crate) fn output(&self, rank: u32, expected: &[u64]) -> Vec<u64> {
        if self.kind == Kind::Broadcast && rank == self.root { expected.to_vec() } else { vec![!0; expected.len()] }
    }

    fn combined(&self, ranks: impl Iterator<Item = u32>, place: usize) -> u64 {
        let values = ranks.map(|rank| self.value(rank, place));
        if self.ordered { values.reduce(after) } else { values.reduce(u64::wrapping_add) }.unwrap()
    }

    pub(crate) fn expected(&self) -> Vec<Vec<u64>> {
        let (n, blocks) = (self.members, self.blocks());
        let own = |rank: u32| blocks[rank as usize]..blocks[rank as usize + 1];
        let all = |places: std::ops::Range<usize>| -> Vec<u64> {
            places.map(|place| self.combined(self.ranks(), place)).collect()
        };
        let at_root = |output: Vec<u64>| {
            self.ranks().map(|rank| if rank == self.root { output.clone() } else { vec![] }).collect()
        };
        let gathered = || self.ranks().flat_map(|rank| self.values(rank, self.len(rank))).collect::<Vec<_>>();
        let each = |of: &dyn Fn(u32) -> Vec<u64>| self.ranks().map(of).collect();
        match self.kind {
            Kind::Barrier => vec![vec![]; n as usize],
            Kind::Broadcast => vec![self.values(self.root, self.count); n as usize],
            Kind::Reduce => at_root(all(0..self.count)),
            Kind::AllReduce => vec![all(0..self.count); n as usize],
            Kind::Scan => each(&|rank| (0..self.count).map(|place| self.combined(0..rank + 1, place)).collect()),
            Kind::ReduceScatter => each(&|rank| all(own(rank))),
            Kind::Gather => at_root(gathered()),
            Kind::AllGather => vec![gathered(); n as usize],
            Kind::Scatter => each(&|rank| own(rank).map(|place| self.value(self.root, place)).collect()),
            Kind::AllToAll | Kind::AllToAllBlocks => each(&|rank| {
                let block = |from: u32| {
                    let begin = (0..rank).map(|to| self.pair(from, to)).sum::<usize>();
                    (0..self.pair(from, rank)).map(move |place| self.value(from, begin + place))
                };
                self.ranks().flat_map(block).collect()
            }),
        }
    }

    pub(crate) fn sends(&self, table: &Table) -> (u64, u64) {
        let sends = self.ranks().flat_map(|rank| {
            let bounds = self.bounds(rank);
            let plan = self.plan(table, Member::new(rank, self.members).unwrap(), &bounds).unwrap();
            let ops = (0..plan.rounds()).flat_map(|round| plan.ops(round).collect::<Vec<_>>()).collect::<Vec<_>>();
            ops.into_iter().filter_map(|op| if let Op::Send { from, .. } = op { Some(from.len) } else { None })
        });
        sends.fold((0, 0), |(messages, bytes), len| (messages + 1, bytes + (len * size_of::<u64>()) as u64))
    }

    fn plan<'b>(&self, table: &Table, member: Member, bounds: &'b Bounds) -> Result<Plan<'b>, CollectiveError> {
        let (root, count, size) = (self.root, self.count, size_of::<u64>());
        let blocks = if self.equal { Blocks::Equal(count) } else { Blocks::Bounds(&bounds.blocks) };
        let commutes = if self.ordered { Commutes::No } else { Commutes::Yes };
        match self.kind {
            Kind::Barrier => Ok(table.barrier(member)),
            Kind::Broadcast => table.broadcast(member, root, count, size),
            Kind::Reduce => table.reduce(member, root, count),
            Kind::AllReduce => table.all_reduce(member, count, size, commutes),
            Kind::Scan => Ok(table.scan(member, count)),
            Kind::ReduceScatter => table.reduce_scatter(member, blocks),
            Kind::Gather => table.gather(member, root, blocks, size),
            Kind::Scatter => table.scatter(member, root, blocks, size),
            Kind::AllGather => table.all_gather(member, blocks, size),
            Kind::AllToAll => table.all_to_all(member, count, size),
            Kind::AllToAllBlocks => {
                table.all_to_all_blocks(member, Blocks::Bounds(&bounds.sent), Blocks::Bounds(&bounds.received))
            }
        }
    }

    pub(crate) fn begin<'b>(
        &'b self,
        team: &'b Members<'b>,
        bounds: &'b Bounds,
        input: &'b [u64],
        output: &'b mut [u64],
    ) -> Result<Box<dyn Turn + 'b>, CollectiveError> {
        if self.ordered {
            self.begin_with(team, bounds, input, output, Associative(after))
        } else {
            self.begin_with(team, bounds, input, output, Sum)
        }
    }

    fn begin_with<'b>(
        &'b self,
        team: &'b Members<'b>,
        bounds: &'b Bounds,
        input: &'b [u64],
        output: &'b mut [u64],
        op: impl Combine<u64> + 'b,
    ) -> Result<Box<dyn Turn + 'b>, CollectiveError> {
        let (root, blocks) = (self.root, Blocks::Bounds(&bounds.blocks));
        Ok(match self.kind {
            Kind::Barrier => Box::new(team.barrier()?),
            Kind::Broadcast => Box::new(team.broadcast(root, output)?),
            Kind::Reduce => Box::new(team.reduce(root, op, input, output)?),
            Kind::AllReduce => Box::new(team.all_reduce(op, input, output)?),
            Kind::Scan => Box::new(team.scan(op, input, output)?),
            Kind::ReduceScatter if self.equal => Box::new(team.reduce_scatter(op, input, output)?),
            Kind::ReduceScatter => Box::new(team.reduce_scatter_blocks(op, blocks, input, output)?),
            Kind::Gather if self.equal => Box::new(team.gather(root, input, output)?),
            Kind::Gather => Box::new(team.gather_blocks(root, blocks, input, output)?),
            Kind::AllGather if self.equal => Box::new(team.all_gather(input, output)?),
            Kind::AllGather => Box::new(team.all_gather_blocks(blocks, input, output)?),
            Kind::Scatter if self.equal => Box::new(team.scatter(root, input, output)?),
            Kind::Scatter => Box::new(team.scatter_blocks(root, blocks, input, output)?),
            Kind::AllToAll => Box::new(team.all_to_all(input, output)?),
            Kind::AllToAllBlocks => {
                let [sent, received] = [&bounds.sent, &bounds.received].map(|bounds| Blocks::Bounds(bounds));
                Box::new(team.all_to_all_blocks(sent, received, input, output)?)
            }
        })
    }
}

impl Turn for Box<dyn Turn + '_> {
    fn turn(&mut self) -> Result<bool, CollectiveError> {
        (**self).turn()
    }
}

pub(crate) fn check(teams: &[Members<'_>], call: &Call) {
    let expected = call.expected();
    let ranks = || call.ranks();
    let inputs: Vec<_> = ranks().map(|rank| call.input(rank)).collect();
    let bounds: Vec<_> = ranks().map(|rank| call.bounds(rank)).collect();
    let mut outputs: Vec<_> = ranks().zip(&expected).map(|(rank, expected)| call.output(rank, expected)).collect();
    let parts = teams.iter().zip(&bounds).zip(inputs.iter().zip(&mut outputs));
    crate::teams::world::finish(
        parts.map(|((team, bounds), (input, output))| call.begin(team, bounds, input, output).unwrap()).collect(),
    );
    assert!(outputs == expected, "{call:?}: {outputs:?} and not {expected:?}");
}
