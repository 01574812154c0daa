//! Tagged messages over links that carry plain ones.

mod arrive;
mod attr;
mod carrier;
mod credit;
mod endpoint;
mod link;
mod operation;
mod packet;
mod post;
mod sequence;
mod slab;
pub mod wire;

pub use self::attr::TaggedAttr;
pub use self::carrier::{Carrier, Ended, WithPeer};
pub use self::credit::CreditError;
pub use self::endpoint::{AddLinkError, TaggedEndpoint};
pub use self::link::{LinkError, LinkId};
pub use self::operation::{Source, TaggedClaim, TaggedDone, TaggedEvent, TaggedFound, TaggedKey};
pub use self::packet::Packet;
pub use self::sequence::SequenceError;
