use super::all_gather::{AllGatherBruck, AllGatherRing};
use super::all_reduce::{AllReduceDoubling, AllReduceRing};
use super::all_to_all::{AllToAllBruck, AllToAllPairwise};
use super::barrier::Barrier;
use super::blocks::{Blocks, Layout};
use super::broadcast::{BroadcastRing, BroadcastTree};
use super::gather::{GatherLinear, GatherTree};
use super::member::{Member, wide};
use super::op::Op;
use super::reduce::ReduceTree;
use super::reduce_scatter::ReduceScatter;
use super::scan::Scan;
use super::scatter::{ScatterLinear, ScatterTree};
use super::{Needs, Schedule};
use crate::CollectiveError;

/// Minimum for the long-message algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Bytes.
    pub bytes: usize,
    /// Members.
    pub members: u32,
}

impl Switch {
    /// Always selects the long-message algorithm.
    pub const ALWAYS: Switch = Switch { bytes: 0, members: 0 };
    /// Never selects the long-message algorithm.
    pub const NEVER: Switch = Switch { bytes: usize::MAX, members: u32::MAX };

    const fn is_long(self, bytes: usize, member: Member) -> bool {
        bytes >= self.bytes && member.members() >= self.members
    }
}

/// Commutativity of a combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Commutes {
    /// `a ⊕ b` is `b ⊕ a`.
    Yes,
    /// Operands keep rank order.
    #[default]
    No,
}

/// Choice of algorithms by the numbers of bytes and members, equal on all members of a group.
/// `size` is the bytes of an element.
///
/// ```
/// use loom_group::schedule::{Commutes, Member, Plan, Schedule, Switch, Table};
///
/// let table = Table { all_reduce: Switch { bytes: 4096, members: 4 }, ..Table::DEFAULT };
/// let member = Member::new(3, 16)?;
/// assert!(matches!(table.all_reduce(member, 100, 8, Commutes::Yes)?, Plan::AllReduceDoubling(_)));
/// let long = table.all_reduce(member, 1000, 8, Commutes::Yes)?;
/// assert!(matches!(long, Plan::AllReduceRing(_)));
/// assert_eq!(long.rounds(), 30);
/// # Ok::<_, loom_group::CollectiveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// Start of [`BroadcastRing`], by message bytes.
    pub broadcast: Switch,
    /// Start of [`AllReduceRing`], by bytes of one member, if the operation commutes and each
    /// member has a block.
    pub all_reduce: Switch,
    /// Start of [`GatherLinear`], by mean bytes of a block.
    pub gather: Switch,
    /// Start of [`ScatterLinear`], by mean bytes of a block.
    pub scatter: Switch,
    /// Start of [`AllGatherRing`], by bytes of all blocks.
    pub all_gather: Switch,
    /// Start of [`AllToAllPairwise`], by bytes of one block.
    pub all_to_all: Switch,
}

impl Table {
    /// Limits of the magnitude of MPI libraries on fast networks: measure with the example
    /// `tune_collectives`.
    pub const DEFAULT: Table = Table {
        broadcast: Switch { bytes: 128 << 10, members: 8 },
        all_reduce: Switch { bytes: 64 << 10, members: 2 },
        gather: Switch { bytes: 8 << 10, members: 1 },
        scatter: Switch { bytes: 8 << 10, members: 1 },
        all_gather: Switch { bytes: 64 << 10, members: 1 },
        all_to_all: Switch { bytes: 256, members: 1 },
    };

    /// Table with one limit for all collectives.
    #[must_use]
    pub const fn of(switch: Switch) -> Self {
        Table {
            broadcast: switch,
            all_reduce: switch,
            gather: switch,
            scatter: switch,
            all_gather: switch,
            all_to_all: switch,
        }
    }

    /// Plan of a barrier.
    pub const fn barrier(&self, member: Member) -> Plan<'static> {
        Plan::Barrier(Barrier::new(member))
    }

    /// Plan of a broadcast of `count` elements.
    ///
    /// # Errors
    /// See [`BroadcastTree::new`] and [`BroadcastRing::new`].
    pub fn broadcast(
        &self,
        member: Member,
        root: u32,
        count: usize,
        size: usize,
    ) -> Result<Plan<'static>, CollectiveError> {
        Ok(if self.broadcast.is_long(count.saturating_mul(size), member) {
            Plan::BroadcastRing(BroadcastRing::new(member, root, count)?)
        } else {
            Plan::BroadcastTree(BroadcastTree::new(member, root, count)?)
        })
    }

    /// Plan of a reduce of `count` elements of each member.
    ///
    /// # Errors
    /// See [`ReduceTree::new`].
    pub fn reduce(&self, member: Member, root: u32, count: usize) -> Result<Plan<'static>, CollectiveError> {
        Ok(Plan::ReduceTree(ReduceTree::new(member, root, count)?))
    }

    /// Plan of an all-reduce of `count` elements of each member.
    ///
    /// # Errors
    /// See [`AllReduceRing::new`].
    pub fn all_reduce(
        &self,
        member: Member,
        count: usize,
        size: usize,
        commutes: Commutes,
    ) -> Result<Plan<'static>, CollectiveError> {
        let long = self.all_reduce.is_long(count.saturating_mul(size), member);
        Ok(if long && commutes == Commutes::Yes && count >= wide(member.members()) {
            Plan::AllReduceRing(AllReduceRing::new(member, count)?)
        } else {
            Plan::AllReduceDoubling(AllReduceDoubling::new(member, count))
        })
    }

    /// Plan of an inclusive scan of `count` elements of each member.
    pub const fn scan(&self, member: Member, count: usize) -> Plan<'static> {
        Plan::Scan(Scan::new(member, count))
    }

    /// Plan of a reduce-scatter.
    ///
    /// # Errors
    /// See [`ReduceScatter::new`].
    pub fn reduce_scatter<'a>(&self, member: Member, blocks: Blocks<'a>) -> Result<Plan<'a>, CollectiveError> {
        Ok(Plan::ReduceScatter(ReduceScatter::new(member, blocks)?))
    }

    /// Plan of a gather.
    ///
    /// # Errors
    /// See [`GatherTree::new`].
    pub fn gather<'a>(
        &self,
        member: Member,
        root: u32,
        blocks: Blocks<'a>,
        size: usize,
    ) -> Result<Plan<'a>, CollectiveError> {
        Ok(if self.gather.is_long(bytes(member, blocks, size)? / wide(member.members()), member) {
            Plan::GatherLinear(GatherLinear::new(member, root, blocks)?)
        } else {
            Plan::GatherTree(GatherTree::new(member, root, blocks)?)
        })
    }

    /// Plan of a scatter.
    ///
    /// # Errors
    /// See [`ScatterTree::new`].
    pub fn scatter<'a>(
        &self,
        member: Member,
        root: u32,
        blocks: Blocks<'a>,
        size: usize,
    ) -> Result<Plan<'a>, CollectiveError> {
        Ok(if self.scatter.is_long(bytes(member, blocks, size)? / wide(member.members()), member) {
            Plan::ScatterLinear(ScatterLinear::new(member, root, blocks)?)
        } else {
            Plan::ScatterTree(ScatterTree::new(member, root, blocks)?)
        })
    }

    /// Plan of an all-gather.
    ///
    /// # Errors
    /// See [`AllGatherBruck::new`].
    pub fn all_gather<'a>(&self, member: Member, blocks: Blocks<'a>, size: usize) -> Result<Plan<'a>, CollectiveError> {
        Ok(if self.all_gather.is_long(bytes(member, blocks, size)?, member) {
            Plan::AllGatherRing(AllGatherRing::new(member, blocks)?)
        } else {
            Plan::AllGatherBruck(AllGatherBruck::new(member, blocks)?)
        })
    }

    /// Plan of an all-to-all of blocks of `count` elements.
    ///
    /// # Errors
    /// See [`AllToAllBruck::new`].
    pub fn all_to_all(&self, member: Member, count: usize, size: usize) -> Result<Plan<'static>, CollectiveError> {
        if self.all_to_all.is_long(count.saturating_mul(size), member) {
            return self.all_to_all_blocks(member, Blocks::Equal(count), Blocks::Equal(count));
        }
        Ok(Plan::AllToAllBruck(AllToAllBruck::new(member, count)?))
    }

    /// Plan of an all-to-all of any blocks, always pairwise, because a member lacks the others'
    /// blocks.
    ///
    /// # Errors
    /// See [`AllToAllPairwise::new`].
    pub fn all_to_all_blocks<'a>(
        &self,
        member: Member,
        sent: Blocks<'a>,
        received: Blocks<'a>,
    ) -> Result<Plan<'a>, CollectiveError> {
        Ok(Plan::AllToAllPairwise(AllToAllPairwise::new(member, sent, received)?))
    }
}

impl Default for Table {
    fn default() -> Self {
        Table::DEFAULT
    }
}

/// Schedule of any algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the algorithm of its name")]
pub enum Plan<'a> {
    Barrier(Barrier),
    BroadcastTree(BroadcastTree),
    BroadcastRing(BroadcastRing),
    ReduceTree(ReduceTree),
    AllReduceDoubling(AllReduceDoubling),
    AllReduceRing(AllReduceRing),
    Scan(Scan),
    ReduceScatter(ReduceScatter<'a>),
    GatherTree(GatherTree<'a>),
    GatherLinear(GatherLinear<'a>),
    ScatterTree(ScatterTree<'a>),
    ScatterLinear(ScatterLinear<'a>),
    AllGatherBruck(AllGatherBruck<'a>),
    AllGatherRing(AllGatherRing<'a>),
    AllToAllBruck(AllToAllBruck),
    AllToAllPairwise(AllToAllPairwise<'a>),
}

impl Plan<'_> {
    fn schedule(&self) -> &dyn Schedule {
        match self {
            Plan::Barrier(it) => it,
            Plan::BroadcastTree(it) => it,
            Plan::BroadcastRing(it) => it,
            Plan::ReduceTree(it) => it,
            Plan::AllReduceDoubling(it) => it,
            Plan::AllReduceRing(it) => it,
            Plan::Scan(it) => it,
            Plan::ReduceScatter(it) => it,
            Plan::GatherTree(it) => it,
            Plan::GatherLinear(it) => it,
            Plan::ScatterTree(it) => it,
            Plan::ScatterLinear(it) => it,
            Plan::AllGatherBruck(it) => it,
            Plan::AllGatherRing(it) => it,
            Plan::AllToAllBruck(it) => it,
            Plan::AllToAllPairwise(it) => it,
        }
    }
}

impl Schedule for Plan<'_> {
    fn needs(&self) -> Needs {
        self.schedule().needs()
    }

    fn rounds(&self) -> u32 {
        self.schedule().rounds()
    }

    fn width(&self, round: u32) -> u32 {
        self.schedule().width(round)
    }

    fn op(&self, round: u32, index: u32) -> Option<Op> {
        self.schedule().op(round, index)
    }
}

fn bytes(member: Member, blocks: Blocks<'_>, size: usize) -> Result<usize, CollectiveError> {
    Ok(Layout::new(blocks, member)?.total().saturating_mul(size))
}
