use allocator_api2::alloc::Allocator;
use loom_core::Transport;
use loom_core::vocabulary::CollectiveOp;

use super::provider::Wanted;
use super::{Combine, Element, Packet, Running, Team};
use crate::CollectiveError;
use crate::schedule::{Blocks, Plan, Schedule};

/// Combination of collectives that only move elements.
#[derive(Clone, Copy, Debug)]
pub struct Moves;

impl<E> Combine<E> for Moves {
    const COMMUTES: crate::schedule::Commutes = crate::schedule::Commutes::Yes;

    fn combine(&self, left: E, _: E) -> E {
        left
    }
}

/// Each collective posts its first messages (under a driver, at the first await). `n` is the number
/// of members, a *block* the elements from one member to one other.
///
/// # Errors
/// [`CollectiveError::Busy`], [`CollectiveError::Lengths`], [`CollectiveError::Scratch`],
/// [`CollectiveError::Packets`], [`CollectiveError::TooLong`], [`CollectiveError::Root`],
/// [`CollectiveError::Bounds`], [`CollectiveError::Size`] or [`CollectiveError::Over`] before a
/// message is posted.
///
/// Errors of the first messages are those of [`Running::turn`], and end the team.
impl<'m, T: Transport, B: Packet, A: Allocator> Team<'_, 'm, T, B, A> {
    /// Completes after all members have called it.
    #[doc(alias = "MPI_Ibarrier")]
    #[doc(alias = "fi_barrier")]
    pub fn barrier(&self) -> Result<Running<'_, '_, 'm, T, B, A, u8, Moves>, CollectiveError> {
        self.run(self.attr.table.barrier(self.member), of(CollectiveOp::BARRIER, 0, 0), &[], &mut [], Moves)
    }

    /// Copies the root's elements to all members.
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

    /// Combines the elements of all members at the root. The output has the input's length at the
    /// root, else it is empty.
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

    /// Combines the elements of all members, for all. The output has the input's length.
    ///
    /// All members, and all runs with the same table, get the same bits, also of floating-point
    /// numbers, unless the [provider](Team::with_provider) runs it.
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

    /// Combines the elements of the members up to this one. The output has the input's length.
    #[doc(alias = "MPI_Iscan")]
    pub fn scan<'b, E: Element, C: Combine<E>>(
        &self,
        combine: C,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, C>, CollectiveError> {
        self.run(self.attr.table.scan(self.member, input.len()), None, input, output, combine)
    }

    /// Combines the elements of all members, and gives each member its block. The input is `n`
    /// blocks, the output one.
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

    /// Like [`reduce_scatter`](Self::reduce_scatter), with any `blocks`, equal on all members.
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

    /// Gathers the elements of all members at the root. The input is a block, the output `n` blocks
    /// at the root, else empty.
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

    /// Like [`gather`](Self::gather), with any `blocks`, equal on all members.
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

    /// Gives each member its block from the root. The input is `n` blocks at the root, else empty,
    /// the output a block.
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

    /// Like [`scatter`](Self::scatter), with any `blocks`, equal on all members.
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

    /// Gathers the elements of all members at all members. The input is a block, the output `n`
    /// blocks.
    #[doc(alias = "MPI_Iallgather")]
    #[doc(alias = "fi_allgather")]
    pub fn all_gather<'b, E: Element>(
        &self,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        self.all_gather_blocks(Blocks::Equal(input.len()), input, output)
    }

    /// Like [`all_gather`](Self::all_gather), with any `blocks`, equal on all members.
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

    /// Exchanges blocks between all members. Input and output are `n` blocks.
    #[doc(alias = "MPI_Ialltoall")]
    #[doc(alias = "fi_alltoall")]
    pub fn all_to_all<'b, E: Element>(
        &self,
        input: &'b [E],
        output: &'b mut [E],
    ) -> Result<Running<'_, 'b, 'm, T, B, A, E, Moves>, CollectiveError> {
        let members = usize::try_from(self.size()).map_err(|_| CollectiveError::Size)?;
        let count = input.len() / members;
        let plan = self.attr.table.all_to_all(self.member, count, size_of::<E>())?;
        self.run(plan, of(CollectiveOp::ALLTOALL, 0, count), input, output, Moves)
    }

    /// Like [`all_to_all`](Self::all_to_all), with any blocks, equal at both members: `sent` by
    /// rank of the receiver, `received` by rank of the sender.
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
}

#[expect(clippy::unnecessary_wraps, reason = "as of what no provider has")]
const fn of(op: CollectiveOp, root: u32, count: usize) -> Option<Wanted> {
    Some(Wanted { op, root, count })
}

/// Providers support only blocks of equal length.
const fn of_blocks(op: CollectiveOp, root: u32, blocks: Blocks<'_>) -> Option<Wanted> {
    match blocks {
        Blocks::Equal(count) => of(op, root, count),
        _ => None,
    }
}
