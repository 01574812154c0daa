//! Schedules of collectives: operations of each member, by round.
//!
//! Each [`Op`] is a function of a round and an index.
//!
//! # Rules
//! 1. A round has receives, then sends, then local operations ([`Op::Combine`], [`Op::Copy`]).
//! 2. The messages of a round may all be in flight together. After them the local operations run in
//!    order, then the next round begins, without waiting for other members.
//! 3. A send in round `k` matches a receive of the same length in round `k` of the peer. A member
//!    sends at most one message to each peer in a round: sender and round identify it.
//! 4. No member sends to itself.
//! 5. Only [`GatherLinear`] and [`ScatterLinear`] have rounds of several receives or sends, without
//!    messages in the other direction.
//! 6. The target of a receive overlaps no other part of the messages of its round. The input is
//!    never written. Output and scratch are written before they are read, except a broadcast's
//!    message in the root's output.
//! 7. Only [`Barrier`] has empty messages: a collective of no elements does not synchronize.
//! 8. All members have the same algorithm, root and lengths. [`AllToAllPairwise`] has its own rule.
//!
//! Equal inputs give equal bits in every run. All keep rank order except **[`AllReduceRing`], which
//! needs a commutative operation.**
//!
//! # Algorithms
//! Rounds of each member, and messages and elements of all, without empty blocks. `n` is the number
//! of members, `L` is `ceil(log2 n)`, `p` is `2^floor(log2 n)`, `c` is the count of each member,
//! `E` the elements of all blocks.
//!
//! | schedule | rounds | messages | elements |
//! |---|---|---|---|
//! | [`Barrier`] | `L` | `n L` | 0 |
//! | [`BroadcastTree`] | `L` | `n - 1` | `(n - 1) c` |
//! | [`BroadcastRing`] | `L + n - 1` | `n (n - 1)` | `T + (n - 2) c` + the root's block |
//! | [`ReduceTree`] | `L + 1` | `n - 1` | `(n - 1) c` |
//! | [`AllReduceDoubling`] | `log2 p + 1`, and 2 if `p < n` | `p log2 p + 2 (n - p)` | `c` for each message |
//! | [`AllReduceRing`] | `2 (n - 1)`, at least 1 | `2 n (n - 1)` | `2 (n - 1) c` |
//! | [`Scan`] | `L + 1` | `n L - (2^L - 1)` | `c` for each message |
//! | [`ReduceScatter`] | `n` | `n (n - 1)` | `(n - 1) E` |
//! | [`GatherTree`], [`ScatterTree`] | `L + 1` | `n - 1` | `T` |
//! | [`GatherLinear`], [`ScatterLinear`] | 1 | `n - 1` | `E` - the root's block |
//! | [`AllGatherBruck`] | `L + 2` | `n L` | `(n - 1) E` |
//! | [`AllGatherRing`] | `n` | `n (n - 1)` | `(n - 1) E` |
//! | [`AllToAllBruck`] | `L + 1` | `n L` | `n c` for each bit set in the numbers from 0 to `n - 1` |
//! | [`AllToAllPairwise`] | `n` | `n (n - 1)` | all blocks except those from a member to itself |
//!
//! `T` is the tree traffic: each member's block, once for each edge from the root.
//!
//! ```
//! use loom_group::schedule::{Member, Op, Schedule, Table};
//!
//! // Member 2 of 5 in a broadcast of 10 elements from member 0.
//! let plan = Table::DEFAULT.broadcast(Member::new(2, 5)?, 0, 10, 8)?;
//! let mut ops = (0..plan.rounds()).flat_map(|round| plan.ops(round).map(move |op| (round, op)));
//! assert!(matches!(ops.next(), Some((1, Op::Recv { peer: 0, into })) if into.range() == (0..10)));
//! assert!(matches!(ops.next(), Some((2, Op::Send { peer: 3, .. }))));
//! assert_eq!(ops.next(), None);
//! # Ok::<_, loom_group::CollectiveError>(())
//! ```

mod all_gather;
mod all_reduce;
mod all_to_all;
mod barrier;
mod blocks;
mod broadcast;
mod gather;
mod member;
mod op;
mod reduce;
mod reduce_scatter;
mod ring;
mod scan;
mod scatter;
mod table;
mod tree;

pub use self::all_gather::{AllGatherBruck, AllGatherRing};
pub use self::all_reduce::{AllReduceDoubling, AllReduceRing};
pub use self::all_to_all::{AllToAllBruck, AllToAllPairwise};
pub use self::barrier::Barrier;
pub use self::blocks::Blocks;
pub use self::broadcast::{BroadcastRing, BroadcastTree};
pub use self::gather::{GatherLinear, GatherTree};
pub use self::member::Member;
pub use self::op::{Op, Part, Side, Which};
pub use self::reduce::ReduceTree;
pub use self::reduce_scatter::ReduceScatter;
pub use self::scan::Scan;
pub use self::scatter::{ScatterLinear, ScatterTree};
pub use self::table::{Commutes, Plan, Switch, Table};

/// Lengths of a member's buffers, in elements.
///
/// ```
/// use loom_group::schedule::{Blocks, AllGatherBruck, Member, Needs, Schedule};
///
/// let gather = AllGatherBruck::new(Member::new(1, 4)?, Blocks::Equal(10))?;
/// let Needs { input, output, scratch } = gather.needs();
/// assert_eq!((input, output), (10, 40));
/// // A program allocates the scratch once for all schedules that it runs.
/// let room = vec![0_u64; scratch];
/// assert_eq!(room.len(), gather.needs().scratch);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Input length.
    pub input: usize,
    /// Output length.
    pub output: usize,
    /// Scratch length.
    pub scratch: usize,
}

/// Role of one member in a collective.
///
/// ```
/// use loom_group::schedule::{Barrier, BroadcastTree, Member, Op, Schedule};
///
/// /// How many messages all members of a group send together: without any memory or network.
/// fn messages<S: Schedule>(schedules: impl Iterator<Item = S>) -> usize {
///     let sends = |schedule: S| {
///         let ops = (0..schedule.rounds()).flat_map(|round| schedule.ops(round).collect::<Vec<_>>());
///         ops.filter(|op| matches!(op, Op::Send { .. })).count()
///     };
///     schedules.map(sends).sum()
/// }
///
/// let members: Vec<_> = (0..8).map(|rank| Member::new(rank, 8)).collect::<Result<_, _>>()?;
/// let broadcasts: Vec<_> = members.iter().map(|member| BroadcastTree::new(*member, 0, 100)).collect::<Result<_, _>>()?;
/// assert_eq!(messages(broadcasts.into_iter()), 7);
/// assert_eq!(messages(members.into_iter().map(Barrier::new)), 8 * 3);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Schedule {
    /// Lengths of the buffers.
    ///
    /// ```
    /// use loom_group::schedule::{Member, ReduceTree, Schedule};
    ///
    /// let [root, other] = [0, 3].map(|rank| Member::new(rank, 4).and_then(|member| ReduceTree::new(member, 0, 10)));
    /// // The root alone has a result.
    /// assert_eq!((root?.needs().output, other?.needs().output), (10, 0));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    fn needs(&self) -> Needs;

    /// Number of rounds, equal on all members.
    ///
    /// ```
    /// use loom_group::schedule::{AllReduceDoubling, AllReduceRing, Member, Schedule};
    ///
    /// let member = Member::new(3, 16)?;
    /// // The ring has more rounds, and moves fewer elements in each.
    /// assert_eq!((AllReduceDoubling::new(member, 1000).rounds(), AllReduceRing::new(member, 1000)?.rounds()), (5, 30));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    fn rounds(&self) -> u32;

    /// Upper bound of the operation indices of a round.
    fn width(&self, round: u32) -> u32;

    /// Operation of a round at an index below [`width`](Self::width). After a `None`, later indices
    /// may have one.
    ///
    /// ```
    /// use loom_group::schedule::{Barrier, Member, Op, Schedule};
    ///
    /// // An executor can stop after each operation: it stores the two numbers.
    /// let barrier = Barrier::new(Member::new(0, 4)?);
    /// let mut peers = Vec::new();
    /// for round in 0..barrier.rounds() {
    ///     for index in 0..barrier.width(round) {
    ///         if let Some(Op::Send { peer, .. }) = barrier.op(round, index) {
    ///             peers.push(peer);
    ///         }
    ///     }
    /// }
    /// assert_eq!(peers, [1, 2]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    fn op(&self, round: u32, index: u32) -> Option<Op>;

    /// Operations of a round, in order.
    ///
    /// ```
    /// use loom_group::schedule::{BroadcastTree, Member, Op, Schedule};
    ///
    /// // The root of four members has sent to two of them when the second round is over.
    /// let root = BroadcastTree::new(Member::new(0, 4)?, 0, 10)?;
    /// let sends = |round| root.ops(round).filter(|op| matches!(op, Op::Send { .. })).count();
    /// assert_eq!((0..root.rounds()).map(sends).sum::<usize>(), 2);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    fn ops(&self, round: u32) -> Ops<'_, Self>
    where
        Self: Sized,
    {
        Ops { schedule: self, round, index: 0, end: self.width(round) }
    }
}

/// Iterator of [`Schedule::ops`].
#[derive(Clone, Copy, Debug)]
pub struct Ops<'s, S> {
    schedule: &'s S,
    round: u32,
    index: u32,
    end: u32,
}

impl<S: Schedule> Iterator for Ops<'_, S> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        while self.index < self.end {
            let op = self.schedule.op(self.round, self.index);
            self.index += 1;
            if op.is_some() {
                return op;
            }
        }
        None
    }
}
