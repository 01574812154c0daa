use core::marker::PhantomData;

use super::Query;
use super::requirement::{AtomicOps, Injects, Messages, Reads, Tagged, Writes};

/// Restricts queries to loom's requirements and their tuples.
#[expect(unnameable_types, reason = "only loom implements it")]
pub trait Sealed {}

/// Membership of a group in a set: [`Yes`] or [`No`].
pub trait Flag: Sealed {
    /// Membership in a union.
    type Or<O: Flag>: Flag;
}

/// Member.
#[derive(Clone, Copy, Debug)]
pub enum Yes {}

/// No member.
#[derive(Clone, Copy, Debug)]
pub enum No {}

impl Sealed for Yes {}
impl Sealed for No {}

impl Flag for Yes {
    type Or<O: Flag> = Yes;
}

impl Flag for No {
    type Or<O: Flag> = O;
}

/// Set of groups, with a flag for each.
pub trait GroupSet: Sealed {
    /// [`Messages`]
    type Messages: Flag;
    /// [`Tagged`]
    type Tagged: Flag;
    /// [`Reads`]
    type Reads: Flag;
    /// [`Writes`]
    type Writes: Flag;
    /// [`AtomicOps`]
    type AtomicOps: Flag;
    /// [`Injects`]
    type Injects: Flag;
    /// Union.
    type Union<S: GroupSet>: GroupSet;
}

/// Set of groups, in the order of [`GroupSet`].
#[derive(Clone, Copy, Debug)]
pub struct Set<M = No, T = No, R = No, W = No, A = No, I = No>(PhantomData<(M, T, R, W, A, I)>);

impl<M, T, R, W, A, I> Sealed for Set<M, T, R, W, A, I> {}

impl<M: Flag, T: Flag, R: Flag, W: Flag, A: Flag, I: Flag> GroupSet for Set<M, T, R, W, A, I> {
    type Messages = M;
    type Tagged = T;
    type Reads = R;
    type Writes = W;
    type AtomicOps = A;
    type Injects = I;
    type Union<S: GroupSet> = Set<
        M::Or<S::Messages>,
        T::Or<S::Tagged>,
        R::Or<S::Reads>,
        W::Or<S::Writes>,
        A::Or<S::AtomicOps>,
        I::Or<S::Injects>,
    >;
}

/// Group of operations in queries, with [protocol traits](crate::protocol) of its own.
///
/// ```
/// use loom_static::query::{Asked, Group, Messages, Query, Rdm, Tagged};
///
/// /// Compiles for queries that ask for tagged messages.
/// const fn has_tags<Q: Query>()
/// where
///     <Tagged as Group>::In<Q>: Asked<Tagged>,
/// {
/// }
///
/// has_tags::<(Rdm, Messages, Tagged)>();
/// ```
pub trait Group: Sealed {
    /// Membership in a query.
    type In<Q: Query>: Flag;
}

macro_rules! groups {
    ($($Group:ident),*) => {$(
        impl Group for $Group {
            type In<Q: Query> = <Q::Groups as GroupSet>::$Group;
        }
    )*};
}

groups!(Messages, Tagged, Reads, Writes, AtomicOps, Injects);

/// Flag of a group that a query contains.
#[diagnostic::on_unimplemented(
    message = "the query does not ask for `{G}`",
    label = "this operation needs `{G}` in the query",
    note = "add `{G}` to the query: an endpoint that is opened through a query has the operations that it asks for"
)]
pub trait Asked<G>: Flag {}

impl<G: Group> Asked<G> for Yes {}
