//! [`ProfileError`]: how an info falls short of a profile.

use core::fmt;

use crate::atomic::{Atomic, Form};
use crate::vocabulary::{Caps, EndpointType, Mode, MrMode, MsgOrder, Progress};

/// What an info, or an endpoint, does not keep of what a profile says.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::profiles::{ProfileError, Shm, Software};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::Hints;
///
/// // The network injects less than the profile says, and the hints do not ask for an inject size.
/// let network = Network::new(NetworkAttr { eager_size: 32, ..NetworkAttr::DEFAULT })?;
/// let hints = Hints { tx_attr: Default::default(), ..Hints::of_profile::<Software>() };
/// let info = network.query(&hints)?;
/// assert_eq!(info.meets::<Software>(), Err(ProfileError::InjectSize { asked: 64, granted: 32 }));
/// assert_eq!(info.meets::<Shm>(), Err(ProfileError::Provider { asked: "shm" }));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is of another provider.
    Provider {
        /// The profile's.
        asked: &'static str,
    },
    /// The endpoint is of another kind.
    EndpointType {
        /// The profile's.
        asked: EndpointType,
        /// What it is.
        granted: EndpointType,
    },
    /// Capabilities of the profile are not granted.
    Caps {
        /// Those.
        missing: Caps,
    },
    /// The provider asks for modes that the profile does not have.
    Mode {
        /// Those.
        excess: Mode,
    },
    /// The provider asks for registration modes that the profile does not have.
    MrMode {
        /// Those.
        excess: MrMode,
    },
    /// Orders of the profile are not granted, on the transmit or the receive side.
    MsgOrder {
        /// Those.
        missing: MsgOrder,
    },
    /// Less can be injected, in bytes.
    InjectSize {
        /// The profile's.
        asked: usize,
        /// What is granted.
        granted: usize,
    },
    /// Immediate data is narrower, in bytes.
    CqDataSize {
        /// The profile's.
        asked: usize,
        /// What is granted.
        granted: usize,
    },
    /// The caller has to drive connections and the like.
    ControlProgress {
        /// The profile's.
        asked: Progress,
        /// What is granted.
        granted: Progress,
    },
    /// The caller has to drive transfers.
    DataProgress {
        /// The profile's.
        asked: Progress,
        /// What is granted.
        granted: Progress,
    },
    /// The domain does not have an atomic operation of the profile.
    Atomic {
        /// The first one.
        missing: Atomic,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::Provider { asked } => {
                write!(f, "the profile is of the provider {asked}, and this is another")
            }
            ProfileError::EndpointType { asked, granted } => {
                write!(f, "the profile has endpoints of type {asked}, and this one is of type {granted}")
            }
            ProfileError::Caps { missing } => write!(f, "the profile has capabilities that are not granted: {missing}"),
            ProfileError::Mode { excess } => write!(f, "the provider asks for modes beyond the profile's: {excess}"),
            ProfileError::MrMode { excess } => {
                write!(f, "the provider asks for registration modes beyond the profile's: {excess}")
            }
            ProfileError::MsgOrder { missing } => write!(f, "the profile has orders that are not granted: {missing}"),
            ProfileError::InjectSize { asked, granted } => {
                write!(f, "the profile injects {asked} bytes, and the provider takes {granted}")
            }
            ProfileError::CqDataSize { asked, granted } => {
                write!(f, "the profile has {asked} bytes of immediate data, and the provider carries {granted}")
            }
            ProfileError::ControlProgress { asked, granted } => {
                write!(f, "the profile's control progress is {asked}, and the provider's {granted}")
            }
            ProfileError::DataProgress { asked, granted } => {
                write!(f, "the profile's data progress is {asked}, and the provider's {granted}")
            }
            ProfileError::Atomic { missing: Atomic { form, datatype, op } } => {
                let form = match form {
                    Form::Base => "base",
                    Form::Fetch => "fetch",
                    Form::Compare => "compare",
                };
                write!(f, "the profile has the atomic operation {op} of {datatype} ({form}), and the domain does not")
            }
        }
    }
}

impl core::error::Error for ProfileError {}
