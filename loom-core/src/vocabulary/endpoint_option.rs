use core::marker::PhantomData;

/// Value of an option, with its type in C.
///
/// ```
/// use loom_core::{Errno, vocabulary::{EndpointOption, OptionValue}};
///
/// /// Sets the only option of a transport.
/// fn set(minimum: &mut usize, option: u32, value: OptionValue) -> Result<(), Errno> {
///     match value {
///         OptionValue::Size(bytes) if option == EndpointOption::MIN_MULTI_RECV.as_raw() => Ok(*minimum = bytes),
///         _ => Err(Errno::ENOPROTOOPT),
///     }
/// }
/// let mut minimum = 64;
/// set(&mut minimum, EndpointOption::MIN_MULTI_RECV.as_raw(), 256_usize.into())?;
/// assert_eq!(minimum, 256);
/// # Ok::<_, Errno>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// `size_t`
    Size(usize),
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i32),
}

/// Type of an option: `usize`, `bool` or `i32`.
///
/// ```
/// use loom_core::{Endpoint, Transport, vocabulary::{EndpointOption, OptionType}};
///
/// /// Returns an option of any type, if the provider has it.
/// fn option<T: Transport, V: OptionType>(from: &Endpoint<'_, T, Vec<u8>>, option: EndpointOption<V>) -> Option<V> {
///     from.option(option).ok()
/// }
/// # fixture::queue!(network, domain, av, cq);
/// let endpoint = cq.endpoint(&av)?;
/// assert!(option(&endpoint, EndpointOption::MIN_MULTI_RECV) > Some(0));
/// assert_eq!(option(&endpoint, EndpointOption::CUDA_API_PERMITTED), None, "software has no devices");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait OptionType: Copy + Into<OptionValue> {
    /// Arbitrary value of this type.
    const ANY: Self;

    /// Extracts the value, if it has this type.
    fn of(value: OptionValue) -> Option<Self>;
}

macro_rules! option_type {
    ($type:ty, $variant:ident, $any:expr) => {
        impl From<$type> for OptionValue {
            fn from(value: $type) -> Self {
                OptionValue::$variant(value)
            }
        }
        impl OptionType for $type {
            const ANY: Self = $any;

            fn of(value: OptionValue) -> Option<Self> {
                match value {
                    OptionValue::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    };
}
option_type!(usize, Size, 0);
option_type!(bool, Bool, false);
option_type!(i32, Int, 0);

/// Option of an endpoint (`FI_OPT_ENDPOINT`), and the type of its value. Providers return
/// `ENOPROTOOPT` for options that they lack.
///
/// ```
/// use loom_core::{Binding, vocabulary::EndpointOption};
///
/// # fixture::queue!(network, domain, av, cq);
/// // A multi-receive gives its buffer back when fewer than 256 bytes are left.
/// let endpoint = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, 256))?;
/// assert_eq!(endpoint.option(EndpointOption::MIN_MULTI_RECV)?, 256_usize);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_endpoint`, `fi_setopt`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointOption<V> {
    number: u32,
    value: PhantomData<V>,
}

impl<V> EndpointOption<V> {
    /// libfabric's number.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self.number
    }

    /// Limits cannot be set: posts are checked against the limits in the info.
    pub(crate) const fn is_settable(&self) -> bool {
        !matches!(self.number, 1 | 12..=19)
    }
}

/// Defines the options by type, each with its number and the name in C without `FI_OPT_`.
macro_rules! options {
    ($($type:ty { $($(#[$doc:meta])* $name:ident = $number:literal,)* })*) => {
        $(impl EndpointOption<$type> {
            $($(#[$doc])* pub const $name: Self = EndpointOption { number: $number, value: PhantomData };)*
        })*

        /// Names and numbers of all options.
        pub const ENDPOINT_OPTIONS: &[(&str, u32)] = &[$($((stringify!($name), $number)),*),*];
    };
}

options! {
    usize {
        /// A multi-receive buffer is released when fewer than this number of bytes are left. A new
        /// value applies to later posts. Zero is refused.
        #[doc(alias = "FI_OPT_MIN_MULTI_RECV")]
        MIN_MULTI_RECV = 0,
        /// Bytes carried by connecting and accepting. Read only.
        #[doc(alias = "FI_OPT_CM_DATA_SIZE")]
        CM_DATA_SIZE = 1,
        /// Minimum number of reported bytes of a buffered message.
        #[doc(alias = "FI_OPT_BUFFERED_MIN")]
        BUFFERED_MIN = 2,
        /// Longest message, in bytes, that is reported in a buffer of the provider.
        #[doc(alias = "FI_OPT_BUFFERED_LIMIT")]
        BUFFERED_LIMIT = 3,
        /// Longest message in bytes (libfabric 2). Read only, like all limits.
        #[doc(alias = "FI_OPT_MAX_MSG_SIZE")]
        MAX_MSG_SIZE = 12,
        /// Longest tagged message in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_MAX_TAGGED_SIZE")]
        MAX_TAGGED_SIZE = 13,
        /// Longest RMA operation in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_MAX_RMA_SIZE")]
        MAX_RMA_SIZE = 14,
        /// Longest atomic operation in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_MAX_ATOMIC_SIZE")]
        MAX_ATOMIC_SIZE = 15,
        /// Longest injected message in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_INJECT_MSG_SIZE")]
        INJECT_MSG_SIZE = 16,
        /// Longest injected tagged message in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_INJECT_TAGGED_SIZE")]
        INJECT_TAGGED_SIZE = 17,
        /// Longest injected write in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_INJECT_RMA_SIZE")]
        INJECT_RMA_SIZE = 18,
        /// Longest injected atomic operation in bytes (libfabric 2).
        #[doc(alias = "FI_OPT_INJECT_ATOMIC_SIZE")]
        INJECT_ATOMIC_SIZE = 19,
    }
    i32 {
        /// Peer-to-peer transfers between devices' memories: enabled, required, preferred,
        /// disabled.
        #[doc(alias = "FI_OPT_FI_HMEM_P2P")]
        FI_HMEM_P2P = 8,
        /// Nonzero if the endpoint is behind a firewall and peers cannot connect to it (libfabric
        /// 2.2).
        #[doc(alias = "FI_OPT_FIREWALL_ADDR")]
        FIREWALL_ADDR = 20,
    }
    bool {
        /// `true` if the provider may call CUDA (libfabric 1.18).
        #[doc(alias = "FI_OPT_CUDA_API_PERMITTED")]
        CUDA_API_PERMITTED = 10,
        /// `true` if the provider may use shared memory (libfabric 2).
        #[doc(alias = "FI_OPT_SHARED_MEMORY_PERMITTED")]
        SHARED_MEMORY_PERMITTED = 11,
    }
}
