//! [`EndpointOption`]: what can be asked of an endpoint, and set, besides its attributes.

use core::fmt;
use core::marker::PhantomData;

/// The value of an option, with its type in C.
///
/// ```
/// use loom_core::vocabulary::{EndpointOption, Errno, OptionValue};
///
/// /// What a transport does that has one option.
/// fn set(minimum: &mut usize, option: u32, value: OptionValue) -> Result<(), Errno> {
///     match value {
///         OptionValue::Size(bytes) if option == EndpointOption::MIN_MULTI_RECV.as_raw() => *minimum = bytes,
///         _ => return Err(Errno::ENOPROTOOPT),
///     }
///     Ok(())
/// }
///
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

/// A type that options have: `usize`, `bool` and `i32`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::vocabulary::{EndpointOption, OptionType};
/// use loom_core::{Endpoint, Transport};
///
/// /// An option of any type, where the provider has it.
/// fn option<T: Transport, V: OptionType>(
///     endpoint: &Endpoint<'_, T, Vec<u8>>,
///     option: EndpointOption<V>,
/// ) -> Option<V> {
///     endpoint.option(option).ok()
/// }
///
/// # use loom_core::{Av, Cq, Domain};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// assert!(option(&endpoint, EndpointOption::MIN_MULTI_RECV) > Some(0));
/// assert_eq!(option(&endpoint, EndpointOption::CUDA_API_PERMITTED), None, "software has no devices");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait OptionType: Copy + Into<OptionValue> {
    /// Anything of this type.
    const ANY: Self;

    /// The value, if it is of this type.
    fn of(value: OptionValue) -> Option<Self>;
}

/// What turns a type into a value, and back.
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

/// An option of an endpoint (`FI_OPT_ENDPOINT`), and the type of its value. What a provider does not have it answers with
/// `ENOPROTOOPT`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::vocabulary::EndpointOption;
/// use loom_core::{Av, Binding, Cq, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// // A multi-receive gives its buffer back when fewer than 256 bytes are left.
/// let endpoint = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, 256))?;
/// assert_eq!(endpoint.option(EndpointOption::MIN_MULTI_RECV)?, 256_usize);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_endpoint`, `fi_setopt`
#[derive(PartialEq, Eq, Hash)]
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

    /// Whether it can be set: posts are checked against the limits that the info told, so that none of them may move.
    pub(crate) const fn is_settable(self) -> bool {
        !matches!(self.number, 1 | 12..=19)
    }
}

impl<V> Clone for EndpointOption<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for EndpointOption<V> {}

impl<V> fmt::Debug for EndpointOption<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndpointOption").field(&self.number).finish()
    }
}

/// The options by type, each with its number and the name in C without `FI_OPT_`.
macro_rules! options {
    ($($type:ty { $($(#[$doc:meta])* $name:ident = $number:literal,)* })*) => {
        $(impl EndpointOption<$type> {
            $($(#[$doc])* pub const $name: Self = EndpointOption { number: $number, value: PhantomData };)*
        })*

        /// Every option's name and number.
        pub const ENDPOINT_OPTIONS: &[(&str, u32)] = &[$($((stringify!($name), $number)),*),*];
    };
}

options! {
    usize {
        /// Bytes: when fewer are left of the buffer of a multi-receive, it is released. What is set counts for those posted
        /// afterwards. Zero is refused.
        #[doc(alias = "FI_OPT_MIN_MULTI_RECV")]
        MIN_MULTI_RECV = 0,
        /// Bytes that connecting and accepting carry. Read only.
        #[doc(alias = "FI_OPT_CM_DATA_SIZE")]
        CM_DATA_SIZE = 1,
        /// Bytes at least that are reported of a buffered message.
        #[doc(alias = "FI_OPT_BUFFERED_MIN")]
        BUFFERED_MIN = 2,
        /// Bytes of the longest message that is reported in a buffer of the provider's.
        #[doc(alias = "FI_OPT_BUFFERED_LIMIT")]
        BUFFERED_LIMIT = 3,
        /// Bytes of the longest message; libfabric 2. Read only, as all limits are.
        #[doc(alias = "FI_OPT_MAX_MSG_SIZE")]
        MAX_MSG_SIZE = 12,
        /// Bytes of the longest tagged message; libfabric 2.
        #[doc(alias = "FI_OPT_MAX_TAGGED_SIZE")]
        MAX_TAGGED_SIZE = 13,
        /// Bytes of the longest RMA operation; libfabric 2.
        #[doc(alias = "FI_OPT_MAX_RMA_SIZE")]
        MAX_RMA_SIZE = 14,
        /// Bytes of the longest atomic operation; libfabric 2.
        #[doc(alias = "FI_OPT_MAX_ATOMIC_SIZE")]
        MAX_ATOMIC_SIZE = 15,
        /// Bytes of the longest injected message; libfabric 2.
        #[doc(alias = "FI_OPT_INJECT_MSG_SIZE")]
        INJECT_MSG_SIZE = 16,
        /// Bytes of the longest injected tagged message; libfabric 2.
        #[doc(alias = "FI_OPT_INJECT_TAGGED_SIZE")]
        INJECT_TAGGED_SIZE = 17,
        /// Bytes of the longest injected write; libfabric 2.
        #[doc(alias = "FI_OPT_INJECT_RMA_SIZE")]
        INJECT_RMA_SIZE = 18,
        /// Bytes of the longest injected atomic operation; libfabric 2.
        #[doc(alias = "FI_OPT_INJECT_ATOMIC_SIZE")]
        INJECT_ATOMIC_SIZE = 19,
    }
    i32 {
        /// How transfers between devices' memories go: enabled, required, preferred, disabled.
        #[doc(alias = "FI_OPT_FI_HMEM_P2P")]
        FI_HMEM_P2P = 8,
        /// Not zero: the endpoint is behind a firewall, and peers cannot connect to it; libfabric 2.2.
        #[doc(alias = "FI_OPT_FIREWALL_ADDR")]
        FIREWALL_ADDR = 20,
    }
    bool {
        /// Whether the provider may call CUDA; libfabric 1.18.
        #[doc(alias = "FI_OPT_CUDA_API_PERMITTED")]
        CUDA_API_PERMITTED = 10,
        /// Whether the provider may go through shared memory; libfabric 2.
        #[doc(alias = "FI_OPT_SHARED_MEMORY_PERMITTED")]
        SHARED_MEMORY_PERMITTED = 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_type_of_its_option() {
        assert_eq!(OptionValue::from(5_usize), OptionValue::Size(5));
        assert_eq!(usize::of(OptionValue::Size(5)), Some(5));
        assert_eq!(usize::of(OptionValue::Int(5)), None);
        assert_eq!(bool::of(true.into()), Some(true));
        assert_eq!(EndpointOption::MIN_MULTI_RECV.as_raw(), 0);
    }
}
