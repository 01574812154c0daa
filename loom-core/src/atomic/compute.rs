#![allow(unsafe_code, reason = "changes memory that others change meanwhile")]

use super::{Complex, Word};
use crate::vocabulary::AtomicOp;

pub(crate) trait Compute: Copy {
    type Word: Word;

    const ZERO: Self;

    fn from_word(word: Self::Word) -> Self;
    fn to_word(self) -> Self::Word;

    /// The new value, or `None` if the value stays or the type lacks the operation.
    fn changed(self, op: AtomicOp, operand: Self, compare: Self) -> Option<Self>;

    fn admits(op: AtomicOp) -> bool;

    /// Changes the element in one step, and returns the previous value.
    ///
    /// # Safety
    /// The requirements of [`Word::compare_exchange`]. For [`AtomicOp::READ`] of fewer than 16
    /// bytes the memory may be read-only.
    #[inline]
    unsafe fn change_at(at: *mut u8, op: AtomicOp, operand: Self, compare: Self) -> Self {
        let at = at.cast::<Self::Word>();
        let old = match op {
            // SAFETY: the caller keeps the rules of `load`.
            AtomicOp::READ => unsafe { Self::Word::load(at) },
            // SAFETY: the caller keeps the rules of `swap`.
            AtomicOp::WRITE => unsafe { Self::Word::swap(at, operand.to_word()) },
            // SAFETY: the caller keeps the rules of `fetch_add`.
            AtomicOp::SUM if Self::ADDS_AS_WORD => unsafe { Self::Word::fetch_add(at, operand.to_word()) },
            // SAFETY: the caller keeps the rules of `update`.
            _ => unsafe { Self::update(at, op, operand, compare) },
        };
        Self::from_word(old)
    }

    /// Out of line, so that [`change_at`](Self::change_at) is inlined.
    ///
    /// # Safety
    /// The requirements of [`Word::update`].
    #[inline(never)]
    unsafe fn update(at: *mut Self::Word, op: AtomicOp, operand: Self, compare: Self) -> Self::Word {
        // SAFETY: the caller keeps the rules of `update`.
        unsafe { Self::Word::update(at, |word| Self::from_word(word).changed(op, operand, compare).map(Self::to_word)) }
    }

    /// `true` if the sum of two values is the sum of their words.
    const ADDS_AS_WORD: bool;
}

fn swaps<E: PartialOrd>(op: AtomicOp, compare: E, value: E) -> bool {
    match op {
        AtomicOp::CSWAP => compare == value,
        AtomicOp::CSWAP_NE => compare != value,
        AtomicOp::CSWAP_LE => compare <= value,
        AtomicOp::CSWAP_LT => compare < value,
        AtomicOp::CSWAP_GE => compare >= value,
        AtomicOp::CSWAP_GT => compare > value,
        _ => false,
    }
}

fn logical(op: AtomicOp, one: bool, other: bool) -> Option<bool> {
    match op {
        AtomicOp::LOR => Some(one || other),
        AtomicOp::LAND => Some(one && other),
        AtomicOp::LXOR => Some(one != other),
        _ => None,
    }
}

const fn is_integers(op: AtomicOp) -> bool {
    matches!(op, AtomicOp::BOR | AtomicOp::BAND | AtomicOp::BXOR | AtomicOp::MSWAP)
}

const fn is_ordered(op: AtomicOp) -> bool {
    matches!(
        op,
        AtomicOp::MIN
            | AtomicOp::MAX
            | AtomicOp::CSWAP_LE
            | AtomicOp::CSWAP_LT
            | AtomicOp::CSWAP_GE
            | AtomicOp::CSWAP_GT
    )
}

const fn is_known(op: AtomicOp) -> bool {
    op.as_raw() <= AtomicOp::MSWAP.as_raw()
}

macro_rules! integers {
    ($($Type:ty, $Word:ty;)+) => {$(
        impl Compute for $Type {
            type Word = $Word;

            const ZERO: Self = 0;
            const ADDS_AS_WORD: bool = true;

            #[inline]
            fn from_word(word: $Word) -> Self {
                <$Type>::from_ne_bytes(word.to_ne_bytes())
            }

            #[inline]
            fn to_word(self) -> $Word {
                <$Word>::from_ne_bytes(self.to_ne_bytes())
            }

            #[inline]
            fn changed(self, op: AtomicOp, operand: Self, compare: Self) -> Option<Self> {
                Some(match op {
                    AtomicOp::MIN => self.min(operand),
                    AtomicOp::MAX => self.max(operand),
                    AtomicOp::SUM => self.wrapping_add(operand),
                    AtomicOp::PROD => self.wrapping_mul(operand),
                    AtomicOp::BOR => self | operand,
                    AtomicOp::BAND => self & operand,
                    AtomicOp::BXOR => self ^ operand,
                    AtomicOp::WRITE => operand,
                    AtomicOp::MSWAP => (operand & compare) | (self & !compare),
                    AtomicOp::LOR | AtomicOp::LAND | AtomicOp::LXOR => {
                        <$Type>::from(logical(op, self != 0, operand != 0)?)
                    }
                    _ if swaps(op, compare, self) => operand,
                    _ => return None,
                })
            }

            fn admits(op: AtomicOp) -> bool {
                is_known(op)
            }
        }
    )+};
}

integers! {
    i8, u8;
    u8, u8;
    i16, u16;
    u16, u16;
    i32, u32;
    u32, u32;
    i64, u64;
    u64, u64;
    i128, u128;
    u128, u128;
}

macro_rules! floats {
    ($($Type:ty, $Word:ty, $PairWord:ty;)+) => {$(
        impl Compute for $Type {
            type Word = $Word;

            const ZERO: Self = 0.0;
            const ADDS_AS_WORD: bool = false;

            #[inline]
            fn from_word(word: $Word) -> Self {
                <$Type>::from_bits(word)
            }

            #[inline]
            fn to_word(self) -> $Word {
                self.to_bits()
            }

            #[inline]
            fn changed(self, op: AtomicOp, operand: Self, compare: Self) -> Option<Self> {
                Some(match op {
                    // C's comparison: NaN is neither less nor greater.
                    AtomicOp::MIN if operand < self => operand,
                    AtomicOp::MAX if operand > self => operand,
                    AtomicOp::SUM => self + operand,
                    AtomicOp::PROD => self * operand,
                    AtomicOp::WRITE => operand,
                    AtomicOp::LOR | AtomicOp::LAND | AtomicOp::LXOR => {
                        <$Type>::from(logical(op, self != 0.0, operand != 0.0)?)
                    }
                    _ if swaps(op, compare, self) => operand,
                    _ => return None,
                })
            }

            fn admits(op: AtomicOp) -> bool {
                is_known(op) && !is_integers(op)
            }
        }

        impl Compute for Complex<$Type> {
            type Word = $PairWord;

            const ZERO: Self = Complex { re: 0.0, im: 0.0 };
            const ADDS_AS_WORD: bool = false;

            #[inline]
            fn from_word(word: $PairWord) -> Self {
                const HALF: usize = size_of::<$Type>();
                let (mut re, mut im) = ([0; HALF], [0; HALF]);
                let bytes = word.to_ne_bytes();
                let (first, second) = bytes.split_at(HALF);
                re.copy_from_slice(first);
                im.copy_from_slice(second);
                Complex { re: <$Type>::from_ne_bytes(re), im: <$Type>::from_ne_bytes(im) }
            }

            #[inline]
            fn to_word(self) -> $PairWord {
                const HALF: usize = size_of::<$Type>();
                let mut bytes = [0; 2 * HALF];
                let (first, second) = bytes.split_at_mut(HALF);
                first.copy_from_slice(&self.re.to_ne_bytes());
                second.copy_from_slice(&self.im.to_ne_bytes());
                <$PairWord>::from_ne_bytes(bytes)
            }

            #[inline]
            fn changed(self, op: AtomicOp, operand: Self, compare: Self) -> Option<Self> {
                let is_one = |value: Self| value.re != 0.0 || value.im != 0.0;
                Some(match op {
                    AtomicOp::SUM => Complex { re: self.re + operand.re, im: self.im + operand.im },
                    AtomicOp::PROD => Complex {
                        re: self.re * operand.re - self.im * operand.im,
                        im: self.re * operand.im + self.im * operand.re,
                    },
                    AtomicOp::WRITE => operand,
                    AtomicOp::CSWAP if self == compare => operand,
                    AtomicOp::CSWAP_NE if self != compare => operand,
                    _ => {
                        let one = logical(op, is_one(self), is_one(operand))?;
                        Complex { re: <$Type>::from(one), im: 0.0 }
                    }
                })
            }

            fn admits(op: AtomicOp) -> bool {
                is_known(op) && !is_integers(op) && !is_ordered(op)
            }
        }
    )+};
}

floats! {
    f32, u32, u64;
    f64, u64, u128;
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "results that have an exact representation")]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_of_the_operand_with_the_stored_value() {
        let swapped = |op, compare: i32, value: i32| value.changed(op, 99, compare) == Some(99);
        let table = [
            (AtomicOp::CSWAP, [false, true, false]),
            (AtomicOp::CSWAP_NE, [true, false, true]),
            (AtomicOp::CSWAP_LE, [true, true, false]),
            (AtomicOp::CSWAP_LT, [true, false, false]),
            (AtomicOp::CSWAP_GE, [false, true, true]),
            (AtomicOp::CSWAP_GT, [false, false, true]),
        ];
        for (op, expected) in table {
            assert_eq!([4, 5, 6].map(|compare| swapped(op, compare, 5)), expected, "{op}");
        }
        assert_eq!(0b1100_u8.changed(AtomicOp::MSWAP, 0b1010, 0b0110), Some(0b1010));
    }

    #[test]
    fn integers_wrap_and_floats_compare_as_in_c() {
        assert_eq!(i8::MAX.changed(AtomicOp::SUM, 1, 0), Some(i8::MIN));
        assert_eq!(200_u8.changed(AtomicOp::PROD, 3, 0), Some(88));
        assert_eq!(1.0_f32.changed(AtomicOp::MIN, f32::NAN, 0.0), None, "not less: it stays");
        assert_eq!(0.0_f64.changed(AtomicOp::CSWAP, 2.0, -0.0), Some(2.0), "both are zero");
        assert_eq!(0.5_f64.changed(AtomicOp::LAND, 2.0, 0.0), Some(1.0));
        let i = Complex { re: 0.0_f64, im: 1.0 };
        assert_eq!(i.changed(AtomicOp::PROD, i, i), Some(Complex { re: -1.0, im: 0.0 }));
        assert_eq!(
            Complex::<f32>::from_word(Complex { re: 1.5_f32, im: -2.0 }.to_word()),
            Complex { re: 1.5_f32, im: -2.0 }
        );
    }

    #[test]
    fn types_admit_their_operations() {
        assert!(u8::admits(AtomicOp::MSWAP) && !f32::admits(AtomicOp::MSWAP));
        assert!(f32::admits(AtomicOp::MIN) && !Complex::<f32>::admits(AtomicOp::MIN));
        assert!(Complex::<f64>::admits(AtomicOp::CSWAP_NE) && !u8::admits(AtomicOp::NOOP));
    }
}
