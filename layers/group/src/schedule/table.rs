//! [`Table`]: which algorithm runs, by the number of bytes and of members; and [`Plan`], a schedule of any of them.

use super::all_gather::{AllGatherBruck, AllGatherRing};
use super::all_reduce::{AllReduceDoubling, AllReduceRing};
use super::all_to_all::{AllToAllBruck, AllToAllPairwise};
use super::barrier::Barrier;
use super::blocks::{Blocks, Layout};
use super::broadcast::{BroadcastRing, BroadcastTree};
use super::gather::{GatherLinear, GatherTree};
use super::member::{Member, ScheduleError, wide};
use super::op::Op;
use super::reduce::ReduceTree;
use super::reduce_scatter::ReduceScatter;
use super::scan::Scan;
use super::scatter::{ScatterLinear, ScatterTree};
use super::{Needs, Schedule};

/// From where on the algorithm for long messages runs: from this number of bytes on, if there are this many members or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    /// The fewest bytes.
    pub bytes: usize,
    /// The fewest members.
    pub members: u32,
}

impl Switch {
    /// The algorithm for long messages always runs.
    pub const ALWAYS: Switch = Switch { bytes: 0, members: 0 };
    /// The algorithm for long messages never runs.
    pub const NEVER: Switch = Switch { bytes: usize::MAX, members: u32::MAX };

    const fn is_long(self, bytes: usize, member: Member) -> bool {
        bytes >= self.bytes && member.members() >= self.members
    }
}

/// Whether the operands of a combination may change places.
///
/// Every operation must be associative, or nearly so, as the sum of floating-point numbers is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Commutes {
    /// `a ⊕ b` is `b ⊕ a`.
    Yes,
    /// The operands keep the order of the ranks.
    #[default]
    No,
}

/// Chooses an algorithm by the number of bytes and of members. All members of a group must have the same table.
///
/// `size` is always the number of bytes of an element.
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
/// # Ok::<_, loom_group::schedule::ScheduleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// From where on [`BroadcastRing`] runs: by the bytes of the message.
    pub broadcast: Switch,
    /// From where on [`AllReduceRing`] runs, if the operation commutes and each member has a block: by the bytes of one member.
    pub all_reduce: Switch,
    /// From where on [`GatherLinear`] runs: by the bytes of all blocks, divided by the members.
    pub gather: Switch,
    /// From where on [`ScatterLinear`] runs: by the bytes of all blocks, divided by the members.
    pub scatter: Switch,
    /// From where on [`AllGatherRing`] runs: by the bytes of all blocks.
    pub all_gather: Switch,
    /// From where on [`AllToAllPairwise`] runs: by the bytes of one block.
    pub all_to_all: Switch,
}

impl Table {
    /// Limits of the order that MPI libraries use on fast networks. That two members all-reduce long messages in a ring is measured, over the
    /// software transport, `shm` and `tcp;ofi_rxm`; of more members nothing is. The example `tune_collectives` measures a table.
    pub const DEFAULT: Table = Table {
        broadcast: Switch { bytes: 128 << 10, members: 8 },
        all_reduce: Switch { bytes: 64 << 10, members: 2 },
        gather: Switch { bytes: 8 << 10, members: 1 },
        scatter: Switch { bytes: 8 << 10, members: 1 },
        all_gather: Switch { bytes: 64 << 10, members: 1 },
        all_to_all: Switch { bytes: 256, members: 1 },
    };

    /// The same limit for all collectives.
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

    /// A barrier.
    pub const fn barrier(&self, member: Member) -> Plan<'static> {
        Plan::Barrier(Barrier::new(member))
    }

    /// A broadcast of `count` elements.
    ///
    /// # Errors
    /// As of [`BroadcastTree::new`] and [`BroadcastRing::new`].
    pub fn broadcast(
        &self,
        member: Member,
        root: u32,
        count: usize,
        size: usize,
    ) -> Result<Plan<'static>, ScheduleError> {
        Ok(if self.broadcast.is_long(count.saturating_mul(size), member) {
            Plan::BroadcastRing(BroadcastRing::new(member, root, count)?)
        } else {
            Plan::BroadcastTree(BroadcastTree::new(member, root, count)?)
        })
    }

    /// A reduce of `count` elements of each member.
    ///
    /// # Errors
    /// As of [`ReduceTree::new`].
    pub fn reduce(&self, member: Member, root: u32, count: usize) -> Result<Plan<'static>, ScheduleError> {
        Ok(Plan::ReduceTree(ReduceTree::new(member, root, count)?))
    }

    /// An all-reduce of `count` elements of each member.
    ///
    /// # Errors
    /// As of [`AllReduceRing::new`].
    pub fn all_reduce(
        &self,
        member: Member,
        count: usize,
        size: usize,
        commutes: Commutes,
    ) -> Result<Plan<'static>, ScheduleError> {
        let long = self.all_reduce.is_long(count.saturating_mul(size), member);
        Ok(if long && commutes == Commutes::Yes && count >= wide(member.members()) {
            Plan::AllReduceRing(AllReduceRing::new(member, count)?)
        } else {
            Plan::AllReduceDoubling(AllReduceDoubling::new(member, count))
        })
    }

    /// An inclusive scan of `count` elements of each member.
    pub const fn scan(&self, member: Member, count: usize) -> Plan<'static> {
        Plan::Scan(Scan::new(member, count))
    }

    /// A reduce-scatter of these blocks of each member.
    ///
    /// # Errors
    /// As of [`ReduceScatter::new`].
    pub fn reduce_scatter<'a>(&self, member: Member, blocks: Blocks<'a>) -> Result<Plan<'a>, ScheduleError> {
        Ok(Plan::ReduceScatter(ReduceScatter::new(member, blocks)?))
    }

    /// A gather of these blocks.
    ///
    /// # Errors
    /// As of [`GatherTree::new`].
    pub fn gather<'a>(
        &self,
        member: Member,
        root: u32,
        blocks: Blocks<'a>,
        size: usize,
    ) -> Result<Plan<'a>, ScheduleError> {
        Ok(if self.gather.is_long(bytes(member, blocks, size)? / wide(member.members()), member) {
            Plan::GatherLinear(GatherLinear::new(member, root, blocks)?)
        } else {
            Plan::GatherTree(GatherTree::new(member, root, blocks)?)
        })
    }

    /// A scatter of these blocks.
    ///
    /// # Errors
    /// As of [`ScatterTree::new`].
    pub fn scatter<'a>(
        &self,
        member: Member,
        root: u32,
        blocks: Blocks<'a>,
        size: usize,
    ) -> Result<Plan<'a>, ScheduleError> {
        Ok(if self.scatter.is_long(bytes(member, blocks, size)? / wide(member.members()), member) {
            Plan::ScatterLinear(ScatterLinear::new(member, root, blocks)?)
        } else {
            Plan::ScatterTree(ScatterTree::new(member, root, blocks)?)
        })
    }

    /// An all-gather of these blocks.
    ///
    /// # Errors
    /// As of [`AllGatherBruck::new`].
    pub fn all_gather<'a>(&self, member: Member, blocks: Blocks<'a>, size: usize) -> Result<Plan<'a>, ScheduleError> {
        Ok(if self.all_gather.is_long(bytes(member, blocks, size)?, member) {
            Plan::AllGatherRing(AllGatherRing::new(member, blocks)?)
        } else {
            Plan::AllGatherBruck(AllGatherBruck::new(member, blocks)?)
        })
    }

    /// An all-to-all of blocks of `count` elements.
    ///
    /// # Errors
    /// As of [`AllToAllBruck::new`].
    pub fn all_to_all(&self, member: Member, count: usize, size: usize) -> Result<Plan<'static>, ScheduleError> {
        if self.all_to_all.is_long(count.saturating_mul(size), member) {
            return self.all_to_all_blocks(member, Blocks::Equal(count), Blocks::Equal(count));
        }
        Ok(Plan::AllToAllBruck(AllToAllBruck::new(member, count)?))
    }

    /// An all-to-all of blocks that can differ in length, always in pairs: a member does not know the blocks of the others.
    ///
    /// # Errors
    /// As of [`AllToAllPairwise::new`].
    pub fn all_to_all_blocks<'a>(
        &self,
        member: Member,
        sent: Blocks<'a>,
        received: Blocks<'a>,
    ) -> Result<Plan<'a>, ScheduleError> {
        Ok(Plan::AllToAllPairwise(AllToAllPairwise::new(member, sent, received)?))
    }
}

impl Default for Table {
    fn default() -> Self {
        Table::DEFAULT
    }
}

/// The bytes of all blocks.
fn bytes(member: Member, blocks: Blocks<'_>, size: usize) -> Result<usize, ScheduleError> {
    Ok(Layout::new(blocks, member)?.total().saturating_mul(size))
}

/// A schedule of any of the algorithms.
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
