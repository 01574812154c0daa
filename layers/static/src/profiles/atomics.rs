use loom_core::atomic::{Atomic, Form};
use loom_core::vocabulary::{AtomicOp, Datatype};

/// Atomic operations: each listed operation, in its form, on each of the datatypes.
///
/// ```
/// use loom_static::profiles::AtomicSet;
/// use loom_core::vocabulary::{AtomicOp, Datatype};
///
/// // The atomic operations of a card, for a profile of the program's own.
/// const CARD: AtomicSet = AtomicSet {
///     datatypes: &[Datatype::UINT64],
///     fetch: &[AtomicOp::SUM],
///     compare: &[AtomicOp::CSWAP],
///     ..AtomicSet::NONE
/// };
/// assert_eq!(CARD.iter().count(), 2);
/// assert!(CARD.iter().all(|of_card| AtomicSet::INTEGERS.iter().any(|of_all| of_card == of_all)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicSet {
    /// Datatypes of the operands.
    pub datatypes: &'static [Datatype],
    /// Operations of the base form, which return no value.
    #[doc(alias = "fi_atomic")]
    pub base: &'static [AtomicOp],
    /// Operations of the fetch form.
    #[doc(alias = "fi_fetch_atomic")]
    pub fetch: &'static [AtomicOp],
    /// Operations of the compare form.
    #[doc(alias = "fi_compare_atomic")]
    pub compare: &'static [AtomicOp],
}

const INTEGERS: &[Datatype] = &[
    Datatype::INT8,
    Datatype::UINT8,
    Datatype::INT16,
    Datatype::UINT16,
    Datatype::INT32,
    Datatype::UINT32,
    Datatype::INT64,
    Datatype::UINT64,
];

/// All except the product.
const BASE: &[AtomicOp] = &[
    AtomicOp::MIN,
    AtomicOp::MAX,
    AtomicOp::SUM,
    AtomicOp::LOR,
    AtomicOp::LAND,
    AtomicOp::BOR,
    AtomicOp::BAND,
    AtomicOp::LXOR,
    AtomicOp::BXOR,
    AtomicOp::WRITE,
];

const FETCH: &[AtomicOp] = &[
    AtomicOp::MIN,
    AtomicOp::MAX,
    AtomicOp::SUM,
    AtomicOp::LOR,
    AtomicOp::LAND,
    AtomicOp::BOR,
    AtomicOp::BAND,
    AtomicOp::LXOR,
    AtomicOp::BXOR,
    AtomicOp::WRITE,
    AtomicOp::READ,
];

const COMPARE: &[AtomicOp] = &[
    AtomicOp::CSWAP,
    AtomicOp::CSWAP_NE,
    AtomicOp::CSWAP_LE,
    AtomicOp::CSWAP_LT,
    AtomicOp::CSWAP_GE,
    AtomicOp::CSWAP_GT,
    AtomicOp::MSWAP,
];

impl AtomicSet {
    /// Empty set.
    pub const NONE: Self = AtomicSet { datatypes: &[], base: &[], fetch: &[], compare: &[] };

    /// Every operation except the product, in all its forms, on integers of 8 to 64 bits.
    pub const INTEGERS: Self = AtomicSet { datatypes: INTEGERS, base: BASE, fetch: FETCH, compare: COMPARE };

    /// [`INTEGERS`](Self::INTEGERS) without the read.
    pub const INTEGERS_WITHOUT_READ: Self =
        AtomicSet { datatypes: INTEGERS, base: BASE, fetch: BASE, compare: COMPARE };

    /// Returns `true` if the set has no operation.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.datatypes.is_empty() || self.base.is_empty() && self.fetch.is_empty() && self.compare.is_empty()
    }

    /// Operations.
    pub fn iter(&self) -> impl Iterator<Item = Atomic> + use<> {
        let AtomicSet { datatypes, base, fetch, compare } = *self;
        [(Form::Base, base), (Form::Fetch, fetch), (Form::Compare, compare)].into_iter().flat_map(move |(form, ops)| {
            ops.iter().flat_map(move |&op| datatypes.iter().map(move |&datatype| Atomic { form, datatype, op }))
        })
    }
}
