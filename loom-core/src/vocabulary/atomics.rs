use super::enumerations::enumeration;

enumeration! {
    /// Element type of an atomic operation or a collective.
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
        /// C's `long double`, which Rust lacks.
        LONG_DOUBLE = 12, "FI_LONG_DOUBLE";
        /// Two `long double`.
        LONG_DOUBLE_COMPLEX = 13, "FI_LONG_DOUBLE_COMPLEX";
        /// `i128`
        INT128 = 14, "FI_INT128";
        /// `u128`
        UINT128 = 15, "FI_UINT128";
        /// IEEE 754 half precision (libfabric 2).
        FLOAT16 = 16, "FI_FLOAT16";
        /// Upper half of an `f32` (libfabric 2).
        BFLOAT16 = 17, "FI_BFLOAT16";
        /// Eight bits with a four-bit exponent (libfabric 2).
        FLOAT8_E4M3 = 18, "FI_FLOAT8_E4M3";
        /// Eight bits with a five-bit exponent (libfabric 2).
        FLOAT8_E5M2 = 19, "FI_FLOAT8_E5M2";
        /// No elements, for barriers.
        VOID = 256, "FI_VOID";
    }
}

enumeration! {
    /// Computation of an atomic operation or a collective.
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
        /// Lesser value.
        MIN = 0, "FI_MIN";
        /// Greater value.
        MAX = 1, "FI_MAX";
        /// Sum, wrapping for integers.
        SUM = 2, "FI_SUM";
        /// Product, wrapping for integers.
        PROD = 3, "FI_PROD";
        /// One if at least one value is nonzero, else zero.
        LOR = 4, "FI_LOR";
        /// One if both values are nonzero, else zero.
        LAND = 5, "FI_LAND";
        /// Bitwise or.
        BOR = 6, "FI_BOR";
        /// Bitwise and.
        BAND = 7, "FI_BAND";
        /// One if exactly one value is nonzero, else zero.
        LXOR = 8, "FI_LXOR";
        /// Bitwise exclusive or.
        BXOR = 9, "FI_BXOR";
        /// Reads the value.
        READ = 10, "FI_ATOMIC_READ";
        /// Replaces the value.
        WRITE = 11, "FI_ATOMIC_WRITE";
        /// Replaces the value if it equals the compared one.
        CSWAP = 12, "FI_CSWAP";
        /// Replaces the value if it differs from the compared one.
        CSWAP_NE = 13, "FI_CSWAP_NE";
        /// Replaces the value if the compared one is less or equal.
        CSWAP_LE = 14, "FI_CSWAP_LE";
        /// Replaces the value if the compared one is less.
        CSWAP_LT = 15, "FI_CSWAP_LT";
        /// Replaces the value if the compared one is greater or equal.
        CSWAP_GE = 16, "FI_CSWAP_GE";
        /// Replaces the value if the compared one is greater.
        CSWAP_GT = 17, "FI_CSWAP_GT";
        /// Replaces the bits that are set in the compared value.
        MSWAP = 18, "FI_MSWAP";
        /// Difference (libfabric 2).
        DIFF = 19, "FI_DIFF";
        /// No computation, for barriers.
        NOOP = 256, "FI_NOOP";
    }
}

impl Datatype {
    /// Bytes per element, or `None` if the size varies between platforms.
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
