//! Kind and elements of collective operations ([`Collective`]), and functions of reductions
//! ([`ReduceOp`]).

use core::fmt;
use core::marker::PhantomData;

use crate::atomic::{Element, Integer, Ordered};
use crate::vocabulary::{AtomicOp, CollectiveOp, Datatype};

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
    pub const fn new(op: CollectiveOp, datatype: Datatype, reduction: AtomicOp) -> Option<Self> {
        let (is_integer, is_ordered) = match datatype {
            Datatype::INT8 | Datatype::INT16 | Datatype::INT32 | Datatype::INT64 | Datatype::INT128 => (true, true),
            Datatype::UINT8 | Datatype::UINT16 | Datatype::UINT32 | Datatype::UINT64 | Datatype::UINT128 => {
                (true, true)
            }
            Datatype::FLOAT | Datatype::DOUBLE => (false, true),
            Datatype::FLOAT_COMPLEX | Datatype::DOUBLE_COMPLEX => (false, false),
            Datatype::VOID => {
                return match (op, reduction) {
                    (CollectiveOp::BARRIER, AtomicOp::NOOP) => Some(Self::BARRIER),
                    _ => None,
                };
            }
            _ => return None,
        };
        let is_there = match op {
            CollectiveOp::BROADCAST
            | CollectiveOp::ALLTOALL
            | CollectiveOp::ALLGATHER
            | CollectiveOp::GATHER
            | CollectiveOp::SCATTER => matches!(reduction, AtomicOp::NOOP),
            CollectiveOp::ALLREDUCE | CollectiveOp::REDUCE | CollectiveOp::REDUCE_SCATTER => match reduction {
                AtomicOp::SUM | AtomicOp::PROD | AtomicOp::LOR | AtomicOp::LAND | AtomicOp::LXOR => true,
                AtomicOp::MIN | AtomicOp::MAX => is_ordered,
                AtomicOp::BOR | AtomicOp::BAND | AtomicOp::BXOR => is_integer,
                _ => false,
            },
            _ => false,
        };
        if is_there { Some(Collective { op, datatype, reduction }) } else { None }
    }

    const fn plain(op: CollectiveOp, datatype: Datatype) -> Self {
        Collective { op, datatype, reduction: AtomicOp::NOOP }
    }

    /// Broadcast of elements.
    #[must_use]
    pub const fn broadcast<E: Element>() -> Self {
        Self::plain(CollectiveOp::BROADCAST, E::DATATYPE)
    }

    /// Exchange between all members.
    #[must_use]
    pub const fn all_to_all<E: Element>() -> Self {
        Self::plain(CollectiveOp::ALLTOALL, E::DATATYPE)
    }

    /// Gather of elements at every member.
    #[must_use]
    pub const fn all_gather<E: Element>() -> Self {
        Self::plain(CollectiveOp::ALLGATHER, E::DATATYPE)
    }

    /// Gather of elements at the root.
    #[must_use]
    pub const fn gather<E: Element>() -> Self {
        Self::plain(CollectiveOp::GATHER, E::DATATYPE)
    }

    /// Scatter of the root's elements.
    #[must_use]
    pub const fn scatter<E: Element>() -> Self {
        Self::plain(CollectiveOp::SCATTER, E::DATATYPE)
    }

    const fn reduction<E: Element>(op: CollectiveOp, reduction: ReduceOp<E>) -> Self {
        Collective { op, datatype: E::DATATYPE, reduction: reduction.op }
    }

    /// Reduction with the result at every member.
    #[must_use]
    pub const fn all_reduce<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::ALLREDUCE, op)
    }

    /// Reduction with the result at the root.
    #[must_use]
    pub const fn reduce<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::REDUCE, op)
    }

    /// Reduction with a part of the result at each member.
    #[must_use]
    pub const fn reduce_scatter<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::REDUCE_SCATTER, op)
    }

    /// Numbers of parts of operands and of results in a member's buffer, for a group of `members`,
    /// as in the table of [`CollectiveGroup`](crate::endpoint::CollectiveGroup).
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

/// Function of two elements that a reduction computes. The constants are those of [`AtomicOp`] that
/// reductions support.
///
/// The element type determines the available constants:
///
/// ```compile_fail,E0277
/// use loom_core::collective::ReduceOp;
/// let bits_of_a_float = ReduceOp::<f64>::BOR;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReduceOp<E> {
    op: AtomicOp,
    element: PhantomData<fn() -> E>,
}

impl<E> ReduceOp<E> {
    const fn new(op: AtomicOp) -> Self {
        ReduceOp { op, element: PhantomData }
    }
}

#[expect(missing_docs, reason = "the constants of the same names in `AtomicOp` are documented")]
impl<E: Element> ReduceOp<E> {
    pub const SUM: Self = Self::new(AtomicOp::SUM);
    pub const PROD: Self = Self::new(AtomicOp::PROD);
    pub const LOR: Self = Self::new(AtomicOp::LOR);
    pub const LAND: Self = Self::new(AtomicOp::LAND);
    pub const LXOR: Self = Self::new(AtomicOp::LXOR);
}

#[expect(missing_docs, reason = "as above")]
impl<E: Ordered> ReduceOp<E> {
    pub const MIN: Self = Self::new(AtomicOp::MIN);
    pub const MAX: Self = Self::new(AtomicOp::MAX);
}

#[expect(missing_docs, reason = "as above")]
impl<E: Integer> ReduceOp<E> {
    pub const BOR: Self = Self::new(AtomicOp::BOR);
    pub const BAND: Self = Self::new(AtomicOp::BAND);
    pub const BXOR: Self = Self::new(AtomicOp::BXOR);
}

impl<E> fmt::Debug for ReduceOp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReduceOp({})", self.op)
    }
}
