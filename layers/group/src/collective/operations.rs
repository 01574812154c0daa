//! The collectives of a [`Team`].

use allocator_api2::alloc::Allocator;
use loom_core::Transport;
use loom_core::vocabulary::CollectiveOp;

use super::provider::Wanted;
use super::{CollectiveError, Combine, Element, Packet, Running, Team};
use crate::schedule::{Blocks, Plan, Schedule, ScheduleError};

/// What collectives without a combination have in its place.
#[derive(Clone, Copy, Debug)]
pub struct Moves;

impl<E> Combine<E> for Moves {
    const COMMUTES: crate::schedule::Commutes = crate::schedule::Commutes::Yes;

    fn combine(&self, left: E, _: E) -> E {
        left
    }
}

/// What the provider may do, if it does parts of this number of elements.
#[expect(clippy::unnecessary_wraps, reason = "as of what no provider has")]
const fn of(op: CollectiveOp, root: u32, count: usize) -> Option<Wanted> {
    Some(Wanted { op, root, count })
}

/// As [`of`], of blocks: providers have those of one length.
const fn of_blocks(op: CollectiveOp, root: u32, blocks: Blocks<'_>) -> Option<Wanted> {
    match blocks {
        Blocks::Equal(count) => of(op, root, count),
        _ => None,
    }
}

/// Each posts its first messages (under a driver, when it is first awaited), and returns the collective as it is under way: to be [waited for](Running::wait), [turned](Running::turn) or
/// [awaited](Running::finish). `n` is the number of members, and *block* is the elements that one member gives to, or gets of, one other.
///
/// # Errors
/// All of them, before anything is posted:
/// - [`CollectiveError::Busy`]: too many are under way.
/// - [`CollectiveError::Lengths`]: the buffers have other lengths than it says here.
/// - [`CollectiveError::Scratch`], [`CollectiveError::Packets`]: the team was opened with too little room.
/// - [`CollectiveError::TooLong`]: a message has more pieces than tags can number.
/// - [`CollectiveError::Schedule`]: no member has the root's rank, or blocks do not fit.
/// - [`CollectiveError::Over`]: a collective before it has failed.
///
/// Those that come of the first messages are as of [`Running::turn`]: the team is over.
impl<'m, T: Transport, B: Packet, A: Allocator> Team<'_, 'm, T, B, A> {
    fn run<'b, E: Element, C: Combine<E>>(
        &self,
        plan: Plan<'b>,
        wanted: Option<Wanted>,
        input: &'b [E],
        output: &'b mut [E],
        combine: C,
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        let needs = plan.needs();
        if input.len() != needs.input || output.len() != needs.output {
            return Err(CollectiveError::Lengths);
        }
        Running::begin(self, plan, self.provided::<E, C>(wanted), input, output, combine)
    }

    /// Is over when all members have called it.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ibarrier")]
    #[doc(alias = "fi_barrier")]
    pub fn barrier(&self) -> Result<Running<'_, '_, 'm, T, B, A, u8, Moves>, CollectiveError> {
        self.run(self.attr.table.barrier(self.member), of(CollectiveOp::BARRIER, 0, 0), &[], &mut [], Moves)
    }

    /// Brings the root's elements to all members: what the others have there is overwritten.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ibcast")]
    #[doc(alias = "fi_broadcast")]
    pub fn broadcast<'b, E: Element>(
        &self,
        root: u32,
        elements: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        let plan = self.attr.table.broadcast(self.member, root, elements.len(), size_of::<E>())?;
        let wanted = of(CollectiveOp::BROADCAST, root, elements.len());
        self.run(plan, wanted, &[], elements, Moves)
    }

    /// Combines the elements of all members, one by one, for the root. The output is as long as the input at the root, and empty elsewhere.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ireduce")]
    #[doc(alias = "fi_reduce")]
    pub fn reduce<'b, E: Element, C: Combine<E>>(
        &self,
        root: u32,
        combine: C,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        let wanted = of(CollectiveOp::REDUCE, root, input.len());
        self.run(self.attr.table.reduce(self.member, root, input.len())?, wanted, input, output, combine)
    }

    /// Combines the elements of all members, one by one, and brings the result to all. The output is as long as the input.
    ///
    /// All members get the same bits. So do all runs with the same table, also of floating-point numbers. Where the
    /// [provider](Team::with_provider) does it, their bits are the provider's.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Iallreduce")]
    #[doc(alias = "fi_allreduce")]
    pub fn all_reduce<'b, E: Element, C: Combine<E>>(
        &self,
        combine: C,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        let plan = self.attr.table.all_reduce(self.member, input.len(), size_of::<E>(), C::COMMUTES)?;
        self.run(plan, of(CollectiveOp::ALLREDUCE, 0, input.len()), input, output, combine)
    }

    /// Combines the elements of the members up to this one, this one too. The output is as long as the input.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Iscan")]
    pub fn scan<'b, E: Element, C: Combine<E>>(
        &self,
        combine: C,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        self.run(self.attr.table.scan(self.member, input.len()), None, input, output, combine)
    }

    /// Combines the elements of all members, and brings each member the block of its rank. The input is `n` blocks, the output is one.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ireduce_scatter_block")]
    #[doc(alias = "fi_reduce_scatter")]
    pub fn reduce_scatter<'b, E: Element, C: Combine<E>>(
        &self,
        combine: C,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        self.reduce_scatter_blocks(combine, Blocks::Equal(output.len()), input, output)
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), of blocks that can differ: all members say the same.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ireduce_scatter")]
    pub fn reduce_scatter_blocks<'b, E: Element, C: Combine<E>>(
        &self,
        combine: C,
        blocks: Blocks<'b>,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        let wanted = of_blocks(CollectiveOp::REDUCE_SCATTER, 0, blocks);
        self.run(self.attr.table.reduce_scatter(self.member, blocks)?, wanted, input, output, combine)
    }

    /// Brings the elements of all members to the root. The input is a block; the output is `n` blocks at the root, and empty elsewhere.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Igather")]
    #[doc(alias = "fi_gather")]
    pub fn gather<'b, E: Element>(
        &self,
        root: u32,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        self.gather_blocks(root, Blocks::Equal(input.len()), input, output)
    }

    /// As [`gather`](Self::gather), of blocks that can differ: all members say the same.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Igatherv")]
    pub fn gather_blocks<'b, E: Element>(
        &self,
        root: u32,
        blocks: Blocks<'b>,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        let plan = self.attr.table.gather(self.member, root, blocks, size_of::<E>())?;
        self.run(plan, of_blocks(CollectiveOp::GATHER, root, blocks), input, output, Moves)
    }

    /// Brings each member the block of its rank of the root's elements. The input is `n` blocks at the root, and empty elsewhere; the output is a
    /// block.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Iscatter")]
    #[doc(alias = "fi_scatter")]
    pub fn scatter<'b, E: Element>(
        &self,
        root: u32,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        self.scatter_blocks(root, Blocks::Equal(output.len()), input, output)
    }

    /// As [`scatter`](Self::scatter), of blocks that can differ: all members say the same.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Iscatterv")]
    pub fn scatter_blocks<'b, E: Element>(
        &self,
        root: u32,
        blocks: Blocks<'b>,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        let plan = self.attr.table.scatter(self.member, root, blocks, size_of::<E>())?;
        self.run(plan, of_blocks(CollectiveOp::SCATTER, root, blocks), input, output, Moves)
    }

    /// Brings the elements of all members to all. The input is a block, the output is `n` blocks.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Iallgather")]
    #[doc(alias = "fi_allgather")]
    pub fn all_gather<'b, E: Element>(
        &self,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        self.all_gather_blocks(Blocks::Equal(input.len()), input, output)
    }

    /// As [`all_gather`](Self::all_gather), of blocks that can differ: all members say the same.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Iallgatherv")]
    pub fn all_gather_blocks<'b, E: Element>(
        &self,
        blocks: Blocks<'b>,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        let plan = self.attr.table.all_gather(self.member, blocks, size_of::<E>())?;
        self.run(plan, of_blocks(CollectiveOp::ALLGATHER, 0, blocks), input, output, Moves)
    }

    /// Brings each member the block of its rank of the elements of all. Input and output are `n` blocks.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ialltoall")]
    #[doc(alias = "fi_alltoall")]
    pub fn all_to_all<'b, E: Element>(
        &self,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        let members = usize::try_from(self.size()).map_err(|_| ScheduleError::Size)?;
        let count = input.len() / members;
        let plan = self.attr.table.all_to_all(self.member, count, size_of::<E>())?;
        self.run(plan, of(CollectiveOp::ALLTOALL, 0, count), input, output, Moves)
    }

    /// As [`all_to_all`](Self::all_to_all), of blocks that can differ: a member says which blocks it sends, by the rank of the receiver, and which it
    /// receives, by the rank of the sender. They are the same on both.
    ///
    /// # Errors
    /// As [all of them](Team#errors).
    #[doc(alias = "MPI_Ialltoallv")]
    pub fn all_to_all_blocks<'b, E: Element>(
        &self,
        sent: Blocks<'b>,
        received: Blocks<'b>,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        self.run(self.attr.table.all_to_all_blocks(self.member, sent, received)?, None, input, output, Moves)
    }
}
