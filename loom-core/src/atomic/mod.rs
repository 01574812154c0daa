//! What atomic operations are of: elements ([`Element`]) and what can be done with them ([`BaseOp`], [`FetchOp`],
//! [`ReadOp`], [`CompareOp`]).
//!
//! The type of the elements decides libfabric's datatype, and has only those operations as constants that the datatype admits:
//! `BaseOp::<u64>::BOR` is one, `BaseOp::<f64>::BOR` does not compile.
//!
//! ```compile_fail,E0599
//! use loom_core::atomic::BaseOp;
//! let bits_of_a_float = BaseOp::<f64>::BOR;
//! ```
//!
//! C's `long double` has no type here, because Rust has none.

#![allow(unsafe_code, reason = "an unsafe trait says which types are elements")]

mod compute;
mod datatype;
mod word;

use core::fmt;
use core::marker::PhantomData;

pub(crate) use self::compute::Compute;
pub(crate) use self::datatype::by_datatype;
pub(crate) use self::word::Word;
use crate::vocabulary::{AtomicOp, Datatype};

/// A type that atomic operations compute with: integers of 8 to 128 bits, `f32`, `f64`, and [`Complex`] of these.
///
/// # Safety
/// The type has the size and representation of its datatype; each pattern of its bits is a value; it has no padding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a datatype of `fi_atomic`",
    note = "integers of 8 to 128 bits, `f32`, `f64`, and `Complex` of the two are"
)]
#[expect(private_bounds, reason = "other crates do not implement it")]
pub unsafe trait Element: Compute + Copy + fmt::Debug + Send + Sync + 'static {
    /// libfabric's name for it.
    const DATATYPE: Datatype;
}

/// An element that has a lesser and a greater: every one but complex numbers.
#[diagnostic::on_unimplemented(message = "`{Self}` has no order, or is no datatype of `fi_atomic`")]
pub trait Ordered: Element {}

/// An element that consists of bits: integers.
#[diagnostic::on_unimplemented(message = "`{Self}` is no integer that is a datatype of `fi_atomic`")]
pub trait Integer: Ordered {}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<F> {
    /// Real part.
    pub re: F,
    /// Imaginary part.
    pub im: F,
}

macro_rules! elements {
    ($($Type:ty => $DATATYPE:ident: $($Trait:ident),*;)+) => {$(
        // SAFETY: a number of that many bits, all of whose patterns are values.
        unsafe impl Element for $Type {
            const DATATYPE: Datatype = Datatype::$DATATYPE;
        }
        $(impl $Trait for $Type {})*
    )+};
}

elements! {
    i8 => INT8: Ordered, Integer;
    u8 => UINT8: Ordered, Integer;
    i16 => INT16: Ordered, Integer;
    u16 => UINT16: Ordered, Integer;
    i32 => INT32: Ordered, Integer;
    u32 => UINT32: Ordered, Integer;
    i64 => INT64: Ordered, Integer;
    u64 => UINT64: Ordered, Integer;
    i128 => INT128: Ordered, Integer;
    u128 => UINT128: Ordered, Integer;
    f32 => FLOAT: Ordered;
    f64 => DOUBLE: Ordered;
    Complex<f32> => FLOAT_COMPLEX:;
    Complex<f64> => DOUBLE_COMPLEX:;
}

/// Which of `fi_atomic`'s three forms an operation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Changes the peer's memory: `fi_atomic`.
    #[doc(alias = "fi_atomicvalid")]
    Base,
    /// The same, and brings what was there before: `fi_fetch_atomic`.
    #[doc(alias = "FI_FETCH_ATOMIC")]
    Fetch,
    /// Compares first, and brings what was there before: `fi_compare_atomic`.
    #[doc(alias = "FI_COMPARE_ATOMIC")]
    Compare,
}

/// What an atomic operation is: its form, the datatype, and what it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atomic {
    /// Its form.
    pub form: Form,
    /// What the elements are.
    pub datatype: Datatype,
    /// What it computes.
    pub op: AtomicOp,
}

/// An operation whose type says what its elements are: [`BaseOp`], [`FetchOp`], [`ReadOp`] and [`CompareOp`].
///
/// ```
/// use loom_core::atomic::{Atomic, BaseOp, Form, Operation};
/// use loom_core::vocabulary::{AtomicOp, Datatype};
///
/// let sum = BaseOp::<u32>::SUM;
/// assert_eq!(sum.atomic(), Atomic { form: Form::Base, datatype: Datatype::UINT32, op: AtomicOp::SUM });
/// ```
#[expect(private_bounds, reason = "other crates do not implement it")]
pub trait Operation: Copy + fmt::Debug + Sealed {
    /// What it computes with.
    type Element: Element;

    /// What it is for a transport.
    fn atomic(self) -> Atomic;

    /// Bytes of an element.
    #[doc(hidden)]
    #[inline]
    fn element_size(self) -> usize {
        size_of::<Self::Element>()
    }
}

/// Any of those, without the type of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnyOperation {
    atomic: Atomic,
    element_size: usize,
}

impl AnyOperation {
    pub(crate) fn of(op: impl Operation) -> Self {
        AnyOperation { atomic: op.atomic(), element_size: op.element_size() }
    }
}

impl Sealed for AnyOperation {}

impl Operation for AnyOperation {
    /// Of no meaning.
    type Element = u8;

    fn atomic(self) -> Atomic {
        self.atomic
    }

    fn element_size(self) -> usize {
        self.element_size
    }
}

trait Sealed {}

macro_rules! operations {
    ($(
        $(#[$attribute:meta])*
        $Type:ident is $Form:ident { $($Bound:ident: $($NAME:ident),+;)+ }
    )+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $Type<E> {
            op: AtomicOp,
            element: PhantomData<fn() -> E>,
        }

        $(
            #[expect(missing_docs, reason = "the constants of the same names in `AtomicOp` are documented")]
            impl<E: $Bound> $Type<E> {
                $(pub const $NAME: Self = $Type { op: AtomicOp::$NAME, element: PhantomData };)+
            }
        )+

        impl<E> Sealed for $Type<E> {}

        impl<E: Element> Operation for $Type<E> {
            type Element = E;

            #[inline]
            fn atomic(self) -> Atomic {
                Atomic { form: Form::$Form, datatype: E::DATATYPE, op: self.op }
            }
        }

        impl<E> fmt::Debug for $Type<E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($Type), "({})"), self.op)
            }
        }
    )+};
}

operations! {
    /// An operation that changes the peer's memory and brings nothing back. The constants are those of [`AtomicOp`].
    #[doc(alias = "fi_atomic")]
    BaseOp is Base {
        Element: SUM, PROD, LOR, LAND, LXOR, WRITE;
        Ordered: MIN, MAX;
        Integer: BOR, BAND, BXOR;
    }
    /// An operation that changes the peer's memory, and brings back what was there before.
    #[doc(alias = "fi_fetch_atomic")]
    FetchOp is Fetch {
        Element: SUM, PROD, LOR, LAND, LXOR, WRITE;
        Ordered: MIN, MAX;
        Integer: BOR, BAND, BXOR;
    }
    /// The operation that brings back what is there, and takes no operands.
    #[doc(alias = "FI_ATOMIC_READ")]
    ReadOp is Fetch {
        Element: READ;
    }
    /// An operation that changes the peer's memory if a comparison says so, and brings back what was there before.
    #[doc(alias = "fi_compare_atomic")]
    CompareOp is Compare {
        Element: CSWAP, CSWAP_NE;
        Ordered: CSWAP_LE, CSWAP_LT, CSWAP_GE, CSWAP_GT;
        Integer: MSWAP;
    }
}
