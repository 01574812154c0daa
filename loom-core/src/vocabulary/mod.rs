//! Vocabulary: the words that loom and libfabric share.
//!
//! Flags, error numbers, enumerations, addresses, tags, keys and attributes. Everything here is plain data: nothing in
//! this layer allocates, calls a provider, or knows about endpoints and queues.
//!
//! Two rules hold for all of it:
//!
//! * **libfabric's own numbers.** A constant has the value that the C header gives it, so a number crosses the boundary
//!   to a provider unchanged, in both directions and without a table. Constants of newer headers are here too; that an
//!   installed library grants them is for its `Info` to say.
//! * **Unknown numbers are kept.** Flags retain unknown bits, and what C calls an `enum` is a newtype over the number:
//!   a provider newer than this crate loses nothing, and never causes a panic.
//!
//! Names are the C names without `FI_` (and, inside a type, without the prefix that its members share); every constant
//! carries the C name as a search alias.
//!
//! # The form of values with `serde`
//!
//! With the feature `serde`, formats that people read (JSON, TOML) have text, and others (postcard, bincode) have numbers and bytes:
//!
//! | value | text | binary |
//! |---|---|---|
//! | [`EndpointAddr`] | `"fi_sockaddr_in://127.0.0.1:4242"`, its [`Display`](core::fmt::Display) | the bytes of [`encode`](EndpointAddr::encode) |
//! | [`RemoteRegion`](crate::RemoteRegion) | `{"base": "0x0", "len": 4096, "key": "0x7", "access": "REMOTE_READ"}` | the bytes of [`to_bytes`](crate::RemoteRegion::to_bytes) |
//! | [`Tag`], [`ImmediateData`], [`MemoryKey`], [`RemoteAddr`], seeds | `"0x2a"`; numbers are read, too | the number |
//! | flags ([`Caps`], [`Access`], ...) | `"MSG \| TAGGED"`, what has no name as `0x...`, and `""` for none | the number |
//! | enumerations ([`EndpointType`], [`WaitObj`], ...) | `"EP_RDM"`, or the number | the number |
//! | [`Version`] | `"1.17"` | the number |
//! | attributes | their fields by name; what is left out is the default, and other names are refused | their fields in order |
//!
//! Bits and numbers that this crate does not know are kept, as everywhere; names that it does not know are refused. What is read may come
//! from a peer: an address that is too long, or bytes that are more or fewer than they say, are errors. Later versions of this crate read the
//! text that this one writes, and the binary form of all but attributes, whose fields may become more.
//!
//! What borrows has no form: [`Hints`](crate::Hints), [`MrAttr`](crate::MrAttr), [`Binding`](crate::Binding), and options of single operations. A
//! program keeps the parts and puts them together. Neither has what a process alone knows: a [`FabricAddr`], a [`Peer`](crate::Peer).

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
pub use excerpt::Excerpt;
pub use flags::{Access, Caps, CompOrder, CompletionFlags, Counted, Mode, MrFlags, MrMode, MsgOrder, OpFlags};
pub use values::{FabricAddr, ImmediateData, MemoryKey, RemoteAddr, Tag, TagMatch};
pub use version::Version;
