//! Elements of atomic operations ([`Element`]), and the operations ([`BaseOp`], [`FetchOp`],
//! [`ReadOp`], [`CompareOp`]).
//!
//! ```compile_fail,E0599
//! use loom_core::atomic::BaseOp;
//! let bits_of_a_float = BaseOp::<f64>::BOR;
//! ```

mod compute;
mod dispatch;
mod element;
mod operation;
mod word;

pub(crate) use self::compute::Compute;
pub(crate) use self::dispatch::by_datatype;
pub use self::element::{Complex, Element, Integer, Ordered};
pub use self::operation::{AnyOperation, Atomic, BaseOp, CompareOp, FetchOp, Form, Operation, OperationIn, ReadOp};
pub(crate) use self::operation::{Sealed, operations};
pub(crate) use self::word::Word;
