use core::fmt;
use core::marker::PhantomData;

use super::{Element, Integer, Ordered};
use crate::buffer::{SourceBuffer, TargetBuffer};
use crate::vocabulary::{AtomicOp, Datatype};

/// Form of an operation of `fi_atomic`.
///
/// ```
/// use loom_core::atomic::{BaseOp, Form, Operation, ReadOp};
///
/// /// Whether an operation needs room for results.
/// fn has_results(op: impl Operation) -> bool {
///     match op.atomic().form {
///         Form::Base => false,
///         Form::Fetch | Form::Compare => true,
///     }
/// }
///
/// assert!(has_results(ReadOp::<u64>::READ) && !has_results(BaseOp::<u64>::WRITE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Changes the peer's memory: `fi_atomic`.
    #[doc(alias = "fi_atomicvalid")]
    Base,
    /// Changes the peer's memory and returns the previous value: `fi_fetch_atomic`.
    #[doc(alias = "FI_FETCH_ATOMIC")]
    Fetch,
    /// Compares first, and returns the previous value: `fi_compare_atomic`.
    #[doc(alias = "FI_COMPARE_ATOMIC")]
    Compare,
}

/// Form, datatype and computation of an atomic operation.
///
/// ```
/// use loom_core::{atomic::{Atomic, BaseOp, FetchOp, Operation, ReadOp}, vocabulary::{AtomicOp, Datatype}};
///
/// /// What a transport says that only adds to integers of 64 bits, and reads them.
/// fn is_there(atomic: Atomic) -> bool {
///     atomic.datatype == Datatype::UINT64 && matches!(atomic.op, AtomicOp::SUM | AtomicOp::READ)
/// }
///
/// assert!(is_there(FetchOp::<u64>::SUM.atomic()) && is_there(ReadOp::<u64>::READ.atomic()));
/// assert!(!is_there(BaseOp::<f64>::SUM.atomic()) && !is_there(BaseOp::<u64>::PROD.atomic()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atomic {
    /// Form.
    pub form: Form,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Computation.
    pub op: AtomicOp,
}

/// Operation with a typed element: [`BaseOp`], [`FetchOp`], [`ReadOp`] and [`CompareOp`].
///
/// ```
/// use loom_core::{atomic::{Atomic, BaseOp, Form, Operation}, vocabulary::{AtomicOp, Datatype}};
///
/// let sum = BaseOp::<u32>::SUM;
/// assert_eq!(sum.atomic(), Atomic { form: Form::Base, datatype: Datatype::UINT32, op: AtomicOp::SUM });
/// ```
#[expect(private_bounds, reason = "other crates do not implement it")]
pub trait Operation: Copy + fmt::Debug + Sealed {
    /// Element type.
    type Element: Element;

    /// Untyped form for a transport.
    fn atomic(self) -> Atomic;

    /// Size of an element in bytes.
    #[doc(hidden)]
    #[inline]
    fn element_size(self) -> usize {
        size_of::<Self::Element>()
    }
}

/// Operation with operands and results in a buffer of type `B`, which is a
/// [source](SourceBuffer), and a [target](TargetBuffer) for results.
pub trait OperationIn<B>: Operation {}

/// Operation without the type of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyOperation {
    atomic: Atomic,
    element_size: usize,
}

impl AnyOperation {
    pub(crate) fn of(op: impl Operation) -> Self {
        AnyOperation { atomic: op.atomic(), element_size: op.element_size() }
    }
}

impl Sealed for AnyOperation {}
impl<B: SourceBuffer + TargetBuffer> OperationIn<B> for AnyOperation {}

impl Operation for AnyOperation {
    type Element = u8;

    fn atomic(self) -> Atomic {
        self.atomic
    }

    fn element_size(self) -> usize {
        self.element_size
    }
}

pub(crate) trait Sealed {}

macro_rules! operations {
    ($(
        $(#[$attribute:meta])*
        $Type:ident is $Form:ident in $Buffer:ident $(+ $Target:ident)? { $($Bound:ident: $($NAME:ident),+;)+ }
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
        impl<E: Element, B: $Buffer $(+ $Target)?> OperationIn<B> for $Type<E> {}

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

pub(crate) use operations;

operations! {
    /// Operation that changes the peer's memory and returns no value.
    ///
    /// ```
    /// use loom_core::atomic::BaseOp;
    /// # use loom_core::{Access, Caps, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// # let at = memory.window().as_ptr().align_offset(8);
    /// let set = domain.query_atomic(BaseOp::<u64>::BOR)?;
    /// // Two bits of the peer's flags. There is no completion, because the operand is copied.
    /// for bit in [0, 5] {
    ///     cq.retry(Forever, || alice.inject_atomic(to_bob, &memory.remote(), at as u64, set, &[1 << bit]))?;
    /// }
    /// let flags = memory.window().element::<u64>(at)?;
    /// // The memory may change only when the owner polls.
    /// while flags.load() != 0b10_0001 {
    ///     cq.progress()?;
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_atomic")]
    BaseOp is Base in SourceBuffer {
        Element: SUM, PROD, LOR, LAND, LXOR, WRITE;
        Ordered: MIN, MAX;
        Integer: BOR, BAND, BXOR;
    }
    /// Operation that changes the peer's memory and returns the previous value.
    ///
    /// ```
    /// use loom_core::atomic::FetchOp;
    /// # use loom_core::{Access, Caps, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// # let offset = memory.window().as_ptr().align_offset(8) as u64;
    /// let next = domain.query_atomic(FetchOp::<u64>::SUM)?;
    /// // Each number is given out once, whichever peer asks.
    /// for (asker, number) in [(&alice, 0), (&bob, 1), (&alice, 2)] {
    ///     let key = cq.retry(Forever, || asker.fetch_value(to_bob, &memory.remote(), offset, next, 1))?;
    ///     assert_eq!(cq.finish_value(key, Forever)?.value::<u64>()?, Some(number));
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_fetch_atomic")]
    FetchOp is Fetch in SourceBuffer + TargetBuffer {
        Element: SUM, PROD, LOR, LAND, LXOR, WRITE;
        Ordered: MIN, MAX;
        Integer: BOR, BAND, BXOR;
    }
    /// Operation that returns the current value and takes no operands.
    ///
    /// ```
    /// use loom_core::atomic::ReadOp;
    /// # use loom_core::{Access, Caps, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// # let at = memory.window().as_ptr().align_offset(8);
    /// memory.window().element::<u64>(at)?.store(42);
    /// let read = domain.query_atomic(ReadOp::<u64>::READ)?;
    /// // The element is read as a whole, also while other peers change it.
    /// let key = cq.retry(Forever, || alice.read_value(to_bob, &memory.remote(), at as u64, read))?;
    /// assert_eq!(cq.finish_value(key, Forever)?.value::<u64>()?, Some(42));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "FI_ATOMIC_READ")]
    ReadOp is Fetch in SourceBuffer + TargetBuffer {
        Element: READ;
    }
    /// Operation that changes the peer's memory if a comparison holds, and returns the previous
    /// value.
    ///
    /// ```
    /// use loom_core::atomic::CompareOp;
    /// # use loom_core::{Access, Caps, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// # let at = memory.window().as_ptr().align_offset(8);
    /// # memory.window().element::<u64>(at)?.store(20);
    /// // The element is replaced if what is compared is greater than the element.
    /// let raise = domain.query_atomic(CompareOp::<u64>::CSWAP_GT)?;
    /// for (value, before) in [(10, 20), (30, 20), (25, 30)] {
    ///     let key = cq.retry(Forever, || alice.compare_value(to_bob, &memory.remote(), at as u64, raise, value, value))?;
    ///     assert_eq!(cq.finish_value(key, Forever)?.value::<u64>()?, Some(before));
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_compare_atomic")]
    CompareOp is Compare in SourceBuffer + TargetBuffer {
        Element: CSWAP, CSWAP_NE;
        Ordered: CSWAP_LE, CSWAP_LT, CSWAP_GE, CSWAP_GT;
        Integer: MSWAP;
    }
}
