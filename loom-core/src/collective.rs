//! What collective operations are of: which operation, on which elements ([`Collective`]), and what reductions compute ([`ReduceOp`]).

use core::fmt;
use core::marker::PhantomData;

use crate::atomic::{Element, Integer, Ordered};
use crate::vocabulary::{AtomicOp, CollectiveOp, Datatype};

/// A collective operation: which one, what its elements are, and what it computes of them. It is what
/// [`Domain::query_collective`](crate::objects::domain::Domain::query_collective) asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "fi_collective_attr")]
pub struct Collective {
    op: CollectiveOp,
    datatype: Datatype,
    reduction: AtomicOp,
}

impl Collective {
    /// The operation that has no elements.
    pub const BARRIER: Self = Self::plain(CollectiveOp::BARRIER, Datatype::VOID);

    const fn plain(op: CollectiveOp, datatype: Datatype) -> Self {
        Collective { op, datatype, reduction: AtomicOp::NOOP }
    }

    /// A broadcast of elements.
    #[must_use]
    pub const fn broadcast<E: Element>() -> Self {
        Self::plain(CollectiveOp::BROADCAST, E::DATATYPE)
    }

    /// An exchange between all members.
    #[must_use]
    pub const fn all_to_all<E: Element>() -> Self {
        Self::plain(CollectiveOp::ALLTOALL, E::DATATYPE)
    }

    /// A gather of elements at every member.
    #[must_use]
    pub const fn all_gather<E: Element>() -> Self {
        Self::plain(CollectiveOp::ALLGATHER, E::DATATYPE)
    }

    /// A gather of elements at the root.
    #[must_use]
    pub const fn gather<E: Element>() -> Self {
        Self::plain(CollectiveOp::GATHER, E::DATATYPE)
    }

    /// A scatter of the root's elements.
    #[must_use]
    pub const fn scatter<E: Element>() -> Self {
        Self::plain(CollectiveOp::SCATTER, E::DATATYPE)
    }

    const fn reduction<E: Element>(op: CollectiveOp, reduction: ReduceOp<E>) -> Self {
        Collective { op, datatype: E::DATATYPE, reduction: reduction.op }
    }

    /// A reduction whose result every member gets.
    #[must_use]
    pub const fn all_reduce<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::ALLREDUCE, op)
    }

    /// A reduction whose result the root gets.
    #[must_use]
    pub const fn reduce<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::REDUCE, op)
    }

    /// A reduction of whose result each member gets a part.
    #[must_use]
    pub const fn reduce_scatter<E: Element>(op: ReduceOp<E>) -> Self {
        Self::reduction(CollectiveOp::REDUCE_SCATTER, op)
    }

    /// Which operation it is.
    #[must_use]
    pub const fn op(self) -> CollectiveOp {
        self.op
    }

    /// What its elements are; [`Datatype::VOID`] of a barrier.
    #[must_use]
    pub const fn datatype(self) -> Datatype {
        self.datatype
    }

    /// What it computes; [`AtomicOp::NOOP`] if it is no reduction.
    #[must_use]
    pub const fn reduce_op(self) -> AtomicOp {
        self.reduction
    }
}

/// What a reduction computes of two elements. The constants are those of [`AtomicOp`] that a reduction can have.
///
/// The type decides which there are:
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
