//! Kind and elements of collective operations ([`Collective`]), and functions of reductions
//! ([`ReduceOp`]).

use core::fmt;
use core::marker::PhantomData;

use crate::atomic::{Atomic, Element, Form, Integer, Operation, OperationIn, Ordered, Sealed, by_datatype, operations};
use crate::buffer::SourceBuffer;
use crate::vocabulary::{AtomicOp, CollectiveOp, Datatype, Errno};

/// Kind, element type and reduction of a collective operation, for
/// [`Domain::query_collective`](crate::domain::Domain::query_collective).
///
/// ```
/// use loom_core::{collective::{Collective, ReduceOp}, vocabulary::{CollectiveOp, Datatype}};
///
/// let sum = Collective::all_reduce(ReduceOp::<f64>::SUM);
/// assert_eq!((sum.op(), sum.datatype()), (CollectiveOp::ALLREDUCE, Datatype::DOUBLE));
/// // The buffer of each member has its elements, and room for as many results.
/// assert_eq!(sum.parts(4, false), (1, 1));
/// // The root of a gather has its elements, and room for those of every member.
/// assert_eq!(Collective::gather::<f64>().parts(4, true), (1, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "fi_collective_attr")]
pub struct Collective {
    op: CollectiveOp,
    datatype: Datatype,
    reduction: AtomicOp,
}

impl Collective {
    /// Barrier, which has no elements.
    pub const BARRIER: Self = Self::plain(CollectiveOp::BARRIER, Datatype::VOID);

    /// Builds an operation from its numbers. `None` if the typed functions cannot build it: sums
    /// and products take any [`Element`], minimum and maximum take ordered types, bitwise
    /// reductions take integers.
    ///
    /// ```
    /// use loom_core::{collective::{Collective, ReduceOp}, vocabulary::{AtomicOp, CollectiveOp, Datatype}};
    ///
    /// let sum = Collective::new(CollectiveOp::ALLREDUCE, Datatype::DOUBLE, AtomicOp::SUM);
    /// assert_eq!(sum, Some(Collective::all_reduce(ReduceOp::<f64>::SUM)));
    /// assert_eq!(Collective::new(CollectiveOp::ALLREDUCE, Datatype::DOUBLE, AtomicOp::BOR), None);
    /// ```
    #[must_use]
    pub fn new(op: CollectiveOp, datatype: Datatype, reduction: AtomicOp) -> Option<Self> {
        fn admits<E: Element>(op: AtomicOp) -> Result<bool, Errno> {
            Ok(E::admits(op))
        }
        let needed = match op {
            CollectiveOp::BARRIER if datatype == Datatype::VOID && reduction == AtomicOp::NOOP => {
                return Some(Self::BARRIER);
            }
            CollectiveOp::BROADCAST
            | CollectiveOp::ALLTOALL
            | CollectiveOp::ALLGATHER
            | CollectiveOp::GATHER
            | CollectiveOp::SCATTER
                if reduction == AtomicOp::NOOP =>
            {
                AtomicOp::WRITE
            }
            CollectiveOp::ALLREDUCE | CollectiveOp::REDUCE | CollectiveOp::REDUCE_SCATTER
                if reduction <= AtomicOp::BXOR =>
            {
                reduction
            }
            _ => return None,
        };
        by_datatype!(datatype, admits(needed)).ok()?.then_some(Collective { op, datatype, reduction })
    }

    const fn plain(op: CollectiveOp, datatype: Datatype) -> Self {
        Collective { op, datatype, reduction: AtomicOp::NOOP }
    }

    /// Broadcast of the root's elements.
    #[doc(alias = "fi_broadcast")]
    #[must_use]
    pub const fn broadcast<E: Element>() -> Self {
        Self::plain(CollectiveOp::BROADCAST, E::DATATYPE)
    }

    /// Exchange: each member receives, from every member, the part with its rank.
    #[doc(alias = "fi_alltoall")]
    #[must_use]
    pub const fn all_to_all<E: Element>() -> Self {
        Self::plain(CollectiveOp::ALLTOALL, E::DATATYPE)
    }

    /// Gather of all members' elements at every member.
    #[doc(alias = "fi_allgather")]
    #[must_use]
    pub const fn all_gather<E: Element>() -> Self {
        Self::plain(CollectiveOp::ALLGATHER, E::DATATYPE)
    }

    /// Gather of all members' elements at the root.
    #[doc(alias = "fi_gather")]
    #[must_use]
    pub const fn gather<E: Element>() -> Self {
        Self::plain(CollectiveOp::GATHER, E::DATATYPE)
    }

    /// Scatter of the root's elements: each member receives the part with its rank.
    #[doc(alias = "fi_scatter")]
    #[must_use]
    pub const fn scatter<E: Element>() -> Self {
        Self::plain(CollectiveOp::SCATTER, E::DATATYPE)
    }

    const fn reduction<E: Element>(op: CollectiveOp, reduction: ReduceOp<E>) -> Self {
        Collective { op, datatype: E::DATATYPE, reduction: reduction.op }
    }

    /// Reduction of all members' elements, with the result at every member. The software transport
    /// combines in rank order.
    #[doc(alias = "fi_allreduce")]
    #[must_use]
    pub const fn all_reduce<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::ALLREDUCE, op)
    }

    /// Reduction with the result at the root.
    #[doc(alias = "fi_reduce")]
    #[must_use]
    pub const fn reduce<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::REDUCE, op)
    }

    /// Reduction with the part of the result with its rank at each member.
    #[doc(alias = "fi_reduce_scatter")]
    #[must_use]
    pub const fn reduce_scatter<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::REDUCE_SCATTER, op)
    }

    /// Numbers of parts of operands and of results in a member's buffer
    /// ([`CollectiveGroup`](crate::endpoint::CollectiveGroup)).
    #[must_use]
    pub const fn parts(self, members: usize, is_root: bool) -> (usize, usize) {
        match (self.op, is_root) {
            (CollectiveOp::BROADCAST, _) => (0, 1),
            (CollectiveOp::ALLREDUCE, _) | (CollectiveOp::REDUCE, true) => (1, 1),
            (CollectiveOp::REDUCE | CollectiveOp::GATHER, false) => (1, 0),
            (CollectiveOp::REDUCE_SCATTER, _) | (CollectiveOp::SCATTER, true) => (members, 1),
            (CollectiveOp::ALLGATHER, _) | (CollectiveOp::GATHER, true) => (1, members),
            (CollectiveOp::SCATTER, false) => (0, 1),
            (CollectiveOp::ALLTOALL, _) => (members, members),
            _ => (0, 0),
        }
    }

    /// Kind of operation.
    #[must_use]
    pub const fn op(self) -> CollectiveOp {
        self.op
    }

    /// Type of the elements, or [`Datatype::VOID`] for a barrier.
    #[must_use]
    pub const fn datatype(self) -> Datatype {
        self.datatype
    }

    /// Function of the reduction, or [`AtomicOp::NOOP`] for other operations.
    #[must_use]
    pub const fn reduce_op(self) -> AtomicOp {
        self.reduction
    }
}

operations! {
    /// Function of two elements that a reduction computes.
    ///
    /// The element type determines the available constants:
    ///
    /// ```compile_fail,E0277
    /// use loom_core::collective::ReduceOp;
    /// let bits_of_a_float = ReduceOp::<f64>::BOR;
    /// ```
    ReduceOp is Base in SourceBuffer {
        Element: SUM, PROD, LOR, LAND, LXOR;
        Ordered: MIN, MAX;
        Integer: BOR, BAND, BXOR;
    }
}
