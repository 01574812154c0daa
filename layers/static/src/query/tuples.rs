use loom_core::vocabulary::Caps;

use super::Query;
use super::requirement::Joins;
use super::set::{GroupSet, Sealed};

impl<A: Sealed, B: Sealed> Sealed for (A, B) {}

impl<A: Query, B: Query> Query for (A, B)
where
    A::Kind: Joins<B::Kind>,
{
    type Kind = <A::Kind as Joins<B::Kind>>::Is;
    type Groups = <A::Groups as GroupSet>::Union<B::Groups>;
    const CAPS: Caps = A::CAPS.union(B::CAPS);
    const INJECT_SIZE: usize = if A::INJECT_SIZE > B::INJECT_SIZE { A::INJECT_SIZE } else { B::INJECT_SIZE };
}

/// A longer tuple is the pair of its first element and the tuple of the others.
macro_rules! tuple {
    ($First:ident, $($Other:ident),+) => {
        impl<$First: Sealed, $($Other: Sealed),+> Sealed for ($First, $($Other),+) {}
        impl<$First: Query, $($Other: Query),+> Query for ($First, $($Other),+)
        where
            ($($Other),+): Query,
            ($First, ($($Other),+)): Query,
        {
            type Kind = <($First, ($($Other),+)) as Query>::Kind;
            type Groups = <($First, ($($Other),+)) as Query>::Groups;
            const CAPS: Caps = <($First, ($($Other),+)) as Query>::CAPS;
            const INJECT_SIZE: usize = <($First, ($($Other),+)) as Query>::INJECT_SIZE;
        }
    };
}

tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, F);
tuple!(A, B, C, D, E, F, G);
tuple!(A, B, C, D, E, F, G, H);
