//! What atomics and collectives compute: [`Datatype`] and [`AtomicOp`].

use super::enumerations::enumeration;

enumeration! {
    /// What the elements are that an atomic operation or a collective computes with.
    ///
    /// ```
    /// use loom_core::vocabulary::Datatype;
    ///
    /// // Bytes of a buffer for 100 elements, where the datatype is known only at run time.
    /// let bytes = |datatype: Datatype| Some(100 * datatype.size()?);
    /// assert_eq!(bytes(Datatype::DOUBLE), Some(800));
    /// // The size of C's `long double` differs between processors.
    /// assert_eq!(bytes(Datatype::LONG_DOUBLE), None);
    /// ```
    ///
    /// # References
    ///
    /// - `fi_atomic(3)`, section *Atomic Data Types*
    #[doc(alias = "fi_datatype")]
    Datatype {
        /// `i8`
        INT8 = 0, "FI_INT8";
        /// `u8`
        UINT8 = 1, "FI_UINT8";
        /// `i16`
        INT16 = 2, "FI_INT16";
        /// `u16`
        UINT16 = 3, "FI_UINT16";
        /// `i32`
        INT32 = 4, "FI_INT32";
        /// `u32`
        UINT32 = 5, "FI_UINT32";
        /// `i64`
        INT64 = 6, "FI_INT64";
        /// `u64`
        UINT64 = 7, "FI_UINT64";
        /// `f32`
        FLOAT = 8, "FI_FLOAT";
        /// `f64`
        DOUBLE = 9, "FI_DOUBLE";
        /// Two `f32`: real and imaginary part.
        FLOAT_COMPLEX = 10, "FI_FLOAT_COMPLEX";
        /// Two `f64`: real and imaginary part.
        DOUBLE_COMPLEX = 11, "FI_DOUBLE_COMPLEX";
        /// C's `long double`, which Rust has no type for.
        LONG_DOUBLE = 12, "FI_LONG_DOUBLE";
        /// Two `long double`.
        LONG_DOUBLE_COMPLEX = 13, "FI_LONG_DOUBLE_COMPLEX";
        /// `i128`
        INT128 = 14, "FI_INT128";
        /// `u128`
        UINT128 = 15, "FI_UINT128";
        /// IEEE 754 half precision. Libfabric 2.
        FLOAT16 = 16, "FI_FLOAT16";
        /// The upper half of an `f32`. Libfabric 2.
        BFLOAT16 = 17, "FI_BFLOAT16";
        /// Eight bits, four of them exponent. Libfabric 2.
        FLOAT8_E4M3 = 18, "FI_FLOAT8_E4M3";
        /// Eight bits, five of them exponent. Libfabric 2.
        FLOAT8_E5M2 = 19, "FI_FLOAT8_E5M2";
        /// No elements: for barriers.
        VOID = 256, "FI_VOID";
    }
}

enumeration! {
    /// What an atomic operation or a collective computes.
    ///
    /// ```
    /// use loom_core::vocabulary::AtomicOp;
    ///
    /// // An operation by its name, as on a command line.
    /// let named = |text: &str| AtomicOp::NAMED.iter().copied().find(|op| op.name() == Some(text));
    /// assert_eq!(named("CSWAP"), Some(AtomicOp::CSWAP));
    /// assert_eq!(named("DIVIDE"), None);
    /// ```
    ///
    /// # References
    ///
    /// - `fi_atomic(3)`, section *Atomic Operations*
    #[doc(alias = "fi_op")]
    AtomicOp {
        /// The lesser.
        MIN = 0, "FI_MIN";
        /// The greater.
        MAX = 1, "FI_MAX";
        /// The sum; of integers, without what does not fit.
        SUM = 2, "FI_SUM";
        /// The product; of integers, without what does not fit.
        PROD = 3, "FI_PROD";
        /// One if either is not zero, else zero.
        LOR = 4, "FI_LOR";
        /// One if neither is zero, else zero.
        LAND = 5, "FI_LAND";
        /// Bits that either has.
        BOR = 6, "FI_BOR";
        /// Bits that both have.
        BAND = 7, "FI_BAND";
        /// One if exactly one is not zero, else zero.
        LXOR = 8, "FI_LXOR";
        /// Bits that exactly one has.
        BXOR = 9, "FI_BXOR";
        /// The value is read.
        READ = 10, "FI_ATOMIC_READ";
        /// The value is replaced.
        WRITE = 11, "FI_ATOMIC_WRITE";
        /// The value is replaced if it equals the one that is compared.
        CSWAP = 12, "FI_CSWAP";
        /// ... if it does not equal the one that is compared.
        CSWAP_NE = 13, "FI_CSWAP_NE";
        /// ... if the one that is compared is less or equal.
        CSWAP_LE = 14, "FI_CSWAP_LE";
        /// ... if the one that is compared is less.
        CSWAP_LT = 15, "FI_CSWAP_LT";
        /// ... if the one that is compared is greater or equal.
        CSWAP_GE = 16, "FI_CSWAP_GE";
        /// ... if the one that is compared is greater.
        CSWAP_GT = 17, "FI_CSWAP_GT";
        /// Those of the bits are replaced that are set in what is compared.
        MSWAP = 18, "FI_MSWAP";
        /// The difference. Libfabric 2.
        DIFF = 19, "FI_DIFF";
        /// Nothing: for barriers.
        NOOP = 256, "FI_NOOP";
    }
}

impl Datatype {
    /// Bytes of an element, where it is the same everywhere.
    #[inline]
    #[must_use]
    pub const fn size(self) -> Option<usize> {
        Some(match self {
            Datatype::INT8 | Datatype::UINT8 | Datatype::FLOAT8_E4M3 | Datatype::FLOAT8_E5M2 => 1,
            Datatype::INT16 | Datatype::UINT16 | Datatype::FLOAT16 | Datatype::BFLOAT16 => 2,
            Datatype::INT32 | Datatype::UINT32 | Datatype::FLOAT => 4,
            Datatype::INT64 | Datatype::UINT64 | Datatype::DOUBLE | Datatype::FLOAT_COMPLEX => 8,
            Datatype::INT128 | Datatype::UINT128 | Datatype::DOUBLE_COMPLEX => 16,
            _ => return None,
        })
    }
}
