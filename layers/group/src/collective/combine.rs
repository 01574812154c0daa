use loom_core::vocabulary::AtomicOp;

use crate::schedule::Commutes;

/// Combination of two elements, associative at least nearly, like a sum of floating-point numbers.
///
/// [`Associative`] and [`Commutative`] wrap functions.
///
/// ```
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Domain, Forever};
/// # use loom_group::{PeerIndex, Prepared};
/// use loom_group::collective::{Combine, Team, TeamAttr};
/// use loom_group::schedule::Commutes;
///
/// /// A sum that stops at the greatest number.
/// struct Saturating;
///
/// impl Combine<u8> for Saturating {
///     const COMMUTES: Commutes = Commutes::Yes;
///
///     fn combine(&self, left: u8, right: u8) -> u8 {
///         left.saturating_add(right)
///     }
/// }
///
/// assert_eq!(Saturating.combine(200, 100), 255);
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let prepared = Prepared::open(&domain, 1, 32)?;
/// # let itself = prepared.address()?;
/// # let group = prepared.connect([&itself])?;
/// # let packets = std::iter::repeat_with(|| Vec::with_capacity(4096));
/// # let team = Team::open(&group, TeamAttr::new(1), (0..1).map(PeerIndex), 0, packets)?;
/// let mut of_all = [0];
/// team.all_reduce(Saturating, &[7], &mut of_all)?.wait(Forever)?;
/// assert_eq!(of_all, [7]);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Combine<E> {
    /// Commutativity, which permits more algorithms of long messages.
    const COMMUTES: Commutes;

    /// Provider's name. `None`: the [provider](super::Team::with_provider) never runs its
    /// collectives.
    const PROVIDER_OP: Option<AtomicOp> = None;

    /// Combines an element with one of a member of higher rank.
    fn combine(&self, left: E, right: E) -> E;
}

/// Associative function. Operands keep rank order.
///
/// ```
/// use loom_group::collective::{Associative, Combine};
/// use loom_group::schedule::Commutes;
///
/// /// The composition of `x -> a * x + b`, which is applied in the order of the ranks.
/// fn compose<C: Combine<(u64, u64)>>(parts: &[(u64, u64)], combine: &C) -> (u64, u64) {
///     parts.iter().copied().reduce(|left, right| combine.combine(left, right)).unwrap_or((1, 0))
/// }
///
/// let affine = Associative(|(a, b): (u64, u64), (c, d): (u64, u64)| (a * c, b * c + d));
/// assert_eq!(compose(&[(2, 1), (3, 0)], &affine), (6, 3));
/// assert_eq!(compose(&[(3, 0), (2, 1)], &affine), (6, 1), "the order matters");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Associative<F>(pub F);

/// Associative and commutative function.
///
/// ```
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Domain, Forever};
/// # use loom_group::{PeerIndex, Prepared};
/// use loom_group::collective::{Commutative, Team, TeamAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let prepared = Prepared::open(&domain, 1, 32)?;
/// # let itself = prepared.address()?;
/// # let group = prepared.connect([&itself])?;
/// # let packets = std::iter::repeat_with(|| Vec::with_capacity(4096));
/// let team = Team::open(&group, TeamAttr::new(1), (0..1).map(PeerIndex), 0, packets)?;
/// // The greatest common divisor of what the members have.
/// let divisor = Commutative(|mut a: u64, mut b: u64| {
///     while b != 0 {
///         (a, b) = (b, a % b);
///     }
///     a
/// });
/// let mut of_all = [0];
/// team.all_reduce(divisor, &[12], &mut of_all)?.wait(Forever)?;
/// assert_eq!(of_all, [12]);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Commutative<F>(pub F);

impl<E, F: Fn(E, E) -> E> Combine<E> for Associative<F> {
    const COMMUTES: Commutes = Commutes::No;

    fn combine(&self, left: E, right: E) -> E {
        (self.0)(left, right)
    }
}

impl<E, F: Fn(E, E) -> E> Combine<E> for Commutative<F> {
    const COMMUTES: Commutes = Commutes::Yes;

    fn combine(&self, left: E, right: E) -> E {
        (self.0)(left, right)
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($op:ident): $($number:ty)* => $combine:expr;)*) => {$(
        operations!(@ $(#[$doc])* $name, Some(AtomicOp::$op); $($number)* => $combine);
    )*};
    (@ $(#[$doc:meta])* $name:ident, $op:expr; $($number:ty)* => $combine:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;
        operations!(@@ $name, $op; $($number)* => $combine);
    };
    (@@ $name:ident, $op:expr; $($number:ty)* => $combine:expr) => {$(
        impl Combine<$number> for $name {
            const COMMUTES: Commutes = Commutes::Yes;
            const PROVIDER_OP: Option<AtomicOp> = $op;

            #[inline]
            fn combine(&self, left: $number, right: $number) -> $number {
                let combine: fn($number, $number) -> $number = $combine;
                combine(left, right)
            }
        }
    )*};
}

operations! {
    /// Sum. Integers wrap around.
    #[doc(alias = "MPI_SUM")]
    #[doc(alias = "FI_SUM")]
    Sum(SUM): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left.wrapping_add(right);
    /// Product. Integers wrap around.
    #[doc(alias = "MPI_PROD")]
    #[doc(alias = "FI_PROD")]
    Product(PROD): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left.wrapping_mul(right);
    /// Minimum. If one floating-point operand is not a number, the other.
    #[doc(alias = "MPI_MIN")]
    #[doc(alias = "FI_MIN")]
    Min(MIN): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left.min(right);
    /// Maximum. If one floating-point operand is not a number, the other.
    #[doc(alias = "MPI_MAX")]
    #[doc(alias = "FI_MAX")]
    Max(MAX): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left.max(right);
    /// Bitwise and.
    #[doc(alias = "MPI_BAND")]
    #[doc(alias = "FI_BAND")]
    BitAnd(BAND): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left & right;
    /// Bitwise or.
    #[doc(alias = "MPI_BOR")]
    #[doc(alias = "FI_BOR")]
    BitOr(BOR): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left | right;
    /// Bitwise exclusive or.
    #[doc(alias = "MPI_BXOR")]
    #[doc(alias = "FI_BXOR")]
    BitXor(BXOR): u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 => |left, right| left ^ right;
}

operations!(@@ Sum, Some(AtomicOp::SUM); f32 f64 => |left, right| left + right);
operations!(@@ Product, Some(AtomicOp::PROD); f32 f64 => |left, right| left * right);
// For other operands than numbers, providers specify no result.
operations!(@@ Min, None; f32 f64 => |left, right| left.min(right));
operations!(@@ Max, None; f32 f64 => |left, right| left.max(right));
