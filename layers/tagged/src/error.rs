//! Conversion of errors into [`loom_core::Error`].

use loom_core::Error;
use loom_core::vocabulary::Errno;

use crate::wire::WireError;
use crate::{AddLinkError, CreditError, LinkError, SequenceError};

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => Error::Provider(Errno::ECANCELED),
            LinkError::Carrier(error) => error.into(),
            LinkError::Post(error) => error.into(),
            LinkError::Wire(error) => error.into(),
            LinkError::Sequence(error) => error.into(),
            LinkError::Credit(error) => error.into(),
            LinkError::Hello | LinkError::Unasked => BAD_PEER,
        }
    }
}

impl From<AddLinkError> for Error {
    fn from(error: AddLinkError) -> Self {
        match error {
            AddLinkError::TooMany => Error::Full("the links of the endpoint"),
            AddLinkError::OtherQueue => Error::Invalid("the carrier has another queue than the endpoint"),
            AddLinkError::TooFewPackets { .. } => Error::Invalid("a link needs `TaggedAttr::packets_per_link` packets"),
            AddLinkError::Packet => Error::Invalid("a buffer cannot be used as a packet"),
        }
    }
}

impl From<WireError> for Error {
    fn from(_: WireError) -> Self {
        BAD_PEER
    }
}

impl From<SequenceError> for Error {
    fn from(_: SequenceError) -> Self {
        BAD_PEER
    }
}

impl From<CreditError> for Error {
    fn from(_: CreditError) -> Self {
        BAD_PEER
    }
}

const BAD_PEER: Error = Error::Invalid("the peer of a link does not follow the protocol of tagged messages");
