#![allow(unsafe_code, reason = "an unsafe trait names the types of elements")]

use core::fmt;

use super::Compute;
use crate::vocabulary::Datatype;

/// Type that atomic operations compute with: integers of 8 to 128 bits, `f32`, `f64`, and
/// [`Complex`] of these.
///
/// ```
/// use loom_core::{Domain, Transport, atomic::{BaseOp, Element}};
///
/// /// How many elements of a type peers can add to with one operation, if they can.
/// fn most_added<E: Element>(domain: &Domain<'_, impl Transport>) -> Option<usize> {
///     Some(domain.query_atomic(BaseOp::<E>::SUM).ok()?.max_count())
/// }
///
/// # use loom_core::{Caps, Hints};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # fixture::domain!(network, domain; Caps::MSG | Caps::ATOMIC);
/// assert!(most_added::<u64>(&domain) >= Some(1) && most_added::<f32>(&domain) >= Some(1));
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Safety
/// The type has the size and representation of its datatype. Each bit pattern is a value. The type
/// has no padding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a datatype of `fi_atomic`",
    note = "integers of 8 to 128 bits, `f32`, `f64`, and `Complex` of the two are"
)]
#[expect(private_bounds, reason = "other crates do not implement it")]
pub unsafe trait Element: Compute + Copy + fmt::Debug + Send + Sync + 'static {
    /// libfabric's datatype.
    const DATATYPE: Datatype;
}

/// Element with an order: all but complex numbers.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use loom_core::{atomic::{FetchOp, Ordered}, exposed::{ExposedElement, Window}};
///
/// /// Raises an element to `least`, and returns the value before.
/// fn raise<E: Ordered>(element: ExposedElement<'_, E>, least: E) -> E {
///     element.fetch(FetchOp::MAX, least)
/// }
///
/// let words = [AtomicU64::new(7)];
/// assert_eq!(raise(Window::from(&words[..]).element(0)?, 10_u64), 7);
/// assert_eq!(words[0].load(Ordering::Relaxed), 10);
/// # Ok::<_, loom_core::RangeError>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` has no order, or is no datatype of `fi_atomic`")]
pub trait Ordered: Element {}

/// Element with bitwise operations: integers.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use loom_core::{atomic::{FetchOp, Integer}, exposed::{ExposedElement, Window}};
///
/// /// Sets bits of an element, and returns whether they were set before.
/// fn set<E: Integer + core::ops::BitAnd<Output = E> + PartialEq>(flags: ExposedElement<'_, E>, bits: E) -> bool {
///     flags.fetch(FetchOp::BOR, bits) & bits == bits
/// }
///
/// let words = [AtomicU64::new(0)];
/// let flags = Window::from(&words[..]).element::<u64>(0)?;
/// assert!(!set(flags, 0b101) && set(flags, 0b100));
/// # Ok::<_, loom_core::RangeError>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is no integer that is a datatype of `fi_atomic`")]
pub trait Integer: Ordered {}

/// Complex number.
///
/// ```
/// use loom_core::atomic::{Complex, FetchOp};
/// # use loom_core::{Access, Caps, Forever, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
/// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// # let offset = memory.window().as_ptr().align_offset(8) as u64;
/// let i = Complex { re: 0.0_f32, im: 1.0 };
/// let add = domain.query_atomic(FetchOp::<Complex<f32>>::SUM)?;
/// let times = domain.query_atomic(FetchOp::<Complex<f32>>::PROD)?;
/// // The element is 0, then `i`, then `i` times `i`.
/// for (op, before) in [(add, Complex::default()), (times, i), (times, Complex { re: -1.0, im: 0.0 })] {
///     let key = cq.retry(Forever, || alice.fetch_value(to_bob, &memory.remote(), offset, op, i))?;
///     assert_eq!(cq.finish_value(key, Forever)?.value()?, Some(before));
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
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
        // SAFETY: the type is a number of the datatype's size, and each of its bit patterns is a
        // value.
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
