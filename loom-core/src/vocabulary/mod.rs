//! Types that loom and libfabric share: flags, error numbers, enumerations, addresses, tags, keys
//! and attributes.
//!
//! Rules:
//! * **libfabric's own numbers.** A constant has the value of the C header.
//! * **Unknown numbers are kept.** Flags retain unknown bits, and a C `enum` is a newtype over the
//!   number.
//!
//! Names are the C names without `FI_` and without the common prefix of a type.
//!
//! # The form of values with `serde`
//! With the feature `serde`, formats for people (JSON, TOML) contain text, and others (postcard,
//! bincode) numbers and bytes:
//!
//! | value | text | binary |
//! |---|---|---|
//! | [`EndpointAddr`] | `"fi_sockaddr_in://127.0.0.1:4242"`, its [`Display`](core::fmt::Display) | the bytes of [`encode`](EndpointAddr::encode) |
//! | [`RemoteRegion`](crate::RemoteRegion) | `{"base": "0x0", "len": 4096, "key": "0x7", "access": "REMOTE_READ"}` | the bytes of [`to_bytes`](crate::RemoteRegion::to_bytes) |
//! | [`Tag`], [`ImmediateData`], [`MemoryKey`], [`RemoteAddr`], seeds | `"0x2a"` (numbers are accepted) | the number |
//! | flags ([`Caps`], [`Access`], ...) | `"MSG \| TAGGED"`, unnamed bits as `0x...`, and `""` if empty | the number |
//! | enumerations ([`EndpointType`], [`WaitObj`], ...) | `"EP_RDM"`, or the number | the number |
//! | [`Version`] | `"1.17"` | the number |
//! | attributes | fields by name, with defaults for missing fields; other names are refused | fields in order |
//!
//! Unknown names are refused. Input may come from a peer: a wrong length is an error. Later
//! versions of this crate read the text of this version, and the binary form of all but attributes,
//! which may gain fields.
//!
//! Types that borrow, and values with a meaning in one process only ([`FabricAddr`],
//! [`Peer`](crate::Peer)), have no form.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "the crate never names `alloc`: its tests use `std`, and fail by panicking")
)]

mod atomics;
mod attributes;
mod cm_data;
mod collectives;
mod endpoint_addr;
mod endpoint_option;
mod entries;
mod enumerations;
mod errno;
mod excerpt;
mod flags;
pub mod immediate;
mod range_error;
pub(crate) mod remote_region;
mod values;
mod version;

pub use atomics::{AtomicOp, Datatype};
pub use attributes::{Attributes, DomainAttributes, EndpointAttributes, RxAttributes, TxAttributes};
pub use cm_data::CmData;
pub use collectives::CollectiveOp;
pub use endpoint_addr::{AddressError, EndpointAddr};
pub use endpoint_option::{ENDPOINT_OPTIONS, EndpointOption, OptionType, OptionValue};
pub use entries::{CqDataEntry, CqEntry, CqErrEntry, CqMsgEntry, CqTaggedEntry};
pub use enumerations::{
    AddressFormat, AvType, BusType, CqFormat, EndpointType, EventKind, HmemIface, LinkState, ParamType, Progress,
    Protocol, ResourceMgmt, Threading, TrafficClass, WaitObj,
};
pub use errno::Errno;
pub(crate) use errno::{OTHER_PROCESS, with_cause};
pub use excerpt::Excerpt;
pub use flags::{Access, Caps, CompOrder, CompletionFlags, Counted, Mode, MrFlags, MrMode, MsgOrder, OpFlags};
pub use range_error::RangeError;
pub use values::{FabricAddr, ImmediateData, MemoryKey, RemoteAddr, Tag, TagMatch};
pub use version::Version;
