use core::fmt;

use loom_core::Error;
use loom_core::atomic::{Atomic, Form};
use loom_core::error::OpenError;
use loom_core::vocabulary::{Caps, EndpointType, Mode, MrMode, MsgOrder, Progress};

/// Promise of a profile that an info or an endpoint does not keep.
///
/// ```
/// use loom_static::profiles::{Profile, ProfileError, Shm, Software};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::Hints;
///
/// // The network injects less than the profile says, and the hints do not ask for an inject size.
/// let network = Network::new(NetworkAttr { eager_size: 32, ..NetworkAttr::DEFAULT })?;
/// let hints = Hints { tx_attr: Default::default(), ..Software::hints() };
/// let info = network.query(&hints)?;
/// assert_eq!(Software::check(&info), Err(ProfileError::InjectSize { asked: 64, granted: 32 }));
/// assert_eq!(Shm::check(&info), Err(ProfileError::Provider { asked: "shm" }));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// Another provider.
    Provider {
        /// The profile's name.
        asked: &'static str,
    },
    /// Another endpoint type.
    EndpointType {
        /// The profile's.
        asked: EndpointType,
        /// The endpoint's.
        granted: EndpointType,
    },
    /// Capabilities are not granted.
    Caps {
        /// Capabilities.
        missing: Caps,
    },
    /// The provider requires more modes.
    Mode {
        /// Additional modes.
        excess: Mode,
    },
    /// The provider requires more registration modes.
    MrMode {
        /// Additional modes.
        excess: MrMode,
    },
    /// Orders are not granted, on the transmit or the receive side.
    MsgOrder {
        /// Orders.
        missing: MsgOrder,
    },
    /// The inject size is smaller.
    InjectSize {
        /// The profile's, in bytes.
        asked: usize,
        /// The endpoint's, in bytes.
        granted: usize,
    },
    /// Immediate data is narrower.
    CqDataSize {
        /// The profile's, in bytes.
        asked: usize,
        /// The endpoint's, in bytes.
        granted: usize,
    },
    /// The caller has to drive control operations.
    ControlProgress {
        /// The profile's.
        asked: Progress,
        /// The endpoint's.
        granted: Progress,
    },
    /// The caller has to drive transfers.
    DataProgress {
        /// The profile's.
        asked: Progress,
        /// The endpoint's.
        granted: Progress,
    },
    /// The domain lacks an atomic operation.
    Atomic {
        /// First one.
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
            ProfileError::Mode { excess } => write!(f, "the provider requires modes beyond the profile's: {excess}"),
            ProfileError::MrMode { excess } => {
                write!(f, "the provider requires registration modes beyond the profile's: {excess}")
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

impl From<ProfileError> for Error {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Provider { .. } => Error::Invalid("the profile is of another provider"),
            ProfileError::EndpointType { granted, .. } => OpenError::EndpointType(granted).into(),
            ProfileError::Caps { missing } => OpenError::NotGranted(missing).into(),
            ProfileError::Mode { excess } => OpenError::Mode(excess).into(),
            ProfileError::MrMode { excess } => OpenError::MrMode(excess).into(),
            ProfileError::MsgOrder { .. } => Error::Invalid("the profile has orders that are not granted"),
            ProfileError::InjectSize { granted, .. } => OpenError::InjectSize { limit: granted }.into(),
            ProfileError::CqDataSize { .. } => Error::Invalid("the profile has wider immediate data than the provider"),
            ProfileError::ControlProgress { .. } | ProfileError::DataProgress { .. } => {
                Error::Invalid("the profile has automatic progress, and the provider does not")
            }
            ProfileError::Atomic { .. } => OpenError::NotGranted(Caps::ATOMIC).into(),
        }
    }
}
