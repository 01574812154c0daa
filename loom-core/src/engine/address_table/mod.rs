//! The address table: from peers to their addresses and back.
//!
//! An [`AddressTable`] holds the address of each peer of an address vector, and finds peers by it: whether an address is there
//! already, it knows itself. Handles ([`Peer`]) and fabric addresses are those of the [peer table](super::peer_table) that it
//! keeps, so that they are found without a lock while somebody inserts.
//!
//! | | |
//! |---|---|
//! | `fi_av_insert` | [`insert`](AddressTable::insert), [`insert_all`](AddressTable::insert_all); [`insert_at`](AddressTable::insert_at), where a provider chooses the place |
//! | `fi_av_insertsym` | [`insert_symmetric`](AddressTable::insert_symmetric) |
//! | `fi_av_remove` | [`remove`](AddressTable::remove) |
//! | `fi_av_lookup` | [`address`](AddressTable::address) of [`peers().peer(addr)`](super::peer_table::Peers::peer) |
//! | `FI_AV_TABLE` | fabric addresses are places, the lowest that is free; a range's member that was removed gets its own again |
//! | `FI_AV_MAP` | they carry the generation of the place too: one that was removed is recognised |
//! | `fi_av_set` | [`AddressSet`] |
//!
//! # Which addresses are the same
//!
//! - IPv4 sockets (`struct sockaddr_in`) whose address and port are. The eight bytes of padding do not count, and come back as zeros.
//! - IPv6 sockets (`struct sockaddr_in6`) whose address, port, flow information and scope are. All of that is on the wire, or
//!   chooses it. An IPv4-mapped address (`::ffff:10.0.0.1`) is not the IPv4 address: not every stack sends it as one, and a
//!   domain of IPv6 addresses could not take the other.
//! - Under which of the formats for sockets one is given does not matter. It comes back as `FI_SOCKADDR_IN` or `FI_SOCKADDR_IN6`, or in the
//!   [table's format](AddressTableAttr::format) if that is a format of both.
//! - All others, and whatever is not laid out as its format says, if format and bytes are. `FI_FORMAT_UNSPEC` is the table's
//!   format.
//!
//! # What it costs
//!
//! - An IPv4 peer takes 30.1 bytes: 8 in the peer table, 6 for the address, 16 for the index, and one bit. An IPv6
//!   peer takes 32 more, others as many as [`AddressTableAttr::bytes_for`] says. A [symmetric range](SymmetricRange) takes one
//!   record of 64 bytes, and with [`AddressTableAttr::singles`] below the number of places 8 bytes for each of its members.
//! - Finding the peer of an address reads a cache line of the index, the address and the place in the peer table, whatever number of
//!   peers there is; two in a hundred are found a line or two later. Addresses that were chosen to collide by
//!   somebody who knows the [seed](AddressTableAttr::seed) are found after about the logarithm of how many do, and after no more
//!   steps than 64 and the bits of the address: there is never a walk along all of them. Who does not know the seed cannot choose them
//!   (the hash function is SipHash-1-3).
//! - Each look-up of a socket that is not found otherwise looks at all ranges, of which there are not more than
//!   [`AddressTableAttr::ranges`].
//! - Inserting and removing cost one look-up more. Nothing is ever rebuilt. Only a member of a range that gets the place which one of
//!   another range has left, beyond [`singles`](AddressTableAttr::singles), cuts that in two, and goes through the shorter part.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::net::SocketAddr;
//!
//! use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory, Inserted};
//!
//! let mut memory = AddressTableMemory::new(AddressTableAttr::new(1000))?;
//! let mut table = memory.table();
//! let there: SocketAddr = "10.0.0.1:7471".parse()?;
//! let Inserted::New(peer) = table.insert(there)? else { panic!("it is new") };
//! assert_eq!(table.insert(there)?, Inserted::Known(peer));
//! assert_eq!((table.find(there), table.socket(peer)), (Some(peer), Some(there)));
//! table.remove(peer);
//! assert_eq!((table.find(there), table.socket(peer)), (None, None));
//! # }
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```
//!
//! # References
//! - `man fi_av`, `man fi_av_set`

mod bucket;
mod free;
mod hash;
mod index;
mod key;
mod memory;
mod set;
mod store;
mod symmetric;
mod table;

use core::fmt;

pub use self::key::AddressRef;
pub(crate) use self::memory::fill;
pub use self::memory::{AddressTableAttr, AddressTableMemory};
pub use self::set::{AddressSet, SetFull};
pub use self::symmetric::{RangePeer, SymmetricRange};
pub use self::table::AddressTable;
use super::peer_table::Peer;

/// No place, and no cell.
const NIL: u32 = u32::MAX;

/// What has become of an address.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::net::SocketAddr;
///
/// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory, Inserted};
///
/// let mut memory = AddressTableMemory::new(AddressTableAttr::new(8))?;
/// let mut table = memory.table();
/// let addresses: [SocketAddr; 3] = ["10.0.0.1:1".parse()?, "10.0.0.2:1".parse()?, "10.0.0.1:1".parse()?];
/// let mut peers = Vec::new();
/// table.insert_all(addresses, |inserted| peers.extend(inserted));
/// // The third address is that of the first peer.
/// assert_eq!(peers[2], Inserted::Known(peers[0].peer()));
/// assert_eq!(peers.iter().filter(|inserted| inserted.is_new()).count(), 2);
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It was not there: this is a new peer.
    New(Peer),
    /// It was there, and is this peer.
    Known(Peer),
}

impl Inserted {
    /// The peer that has the address.
    #[must_use]
    pub const fn peer(self) -> Peer {
        match self {
            Inserted::New(peer) | Inserted::Known(peer) => peer,
        }
    }

    /// Whether it was not there.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Inserted::New(_))
    }
}

/// Why an address is not in.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::net::SocketAddr;
///
/// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory, Full};
///
/// let mut memory = AddressTableMemory::new(AddressTableAttr { bytes: 0, ..AddressTableAttr::new(1) })?;
/// let mut table = memory.table();
/// // There is room for one IPv4 address, and for no other address.
/// assert_eq!(table.insert("[::1]:7471".parse::<SocketAddr>()?), Err(Full::Bytes));
/// table.insert("10.0.0.1:7471".parse::<SocketAddr>()?)?;
/// assert_eq!(table.insert("10.0.0.2:7471".parse::<SocketAddr>()?), Err(Full::Places));
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There is no place for it ([`AddressTableAttr::places`], [`AddressTableAttr::singles`]).
    Places,
    /// There are not enough bytes for it ([`AddressTableAttr::bytes`]).
    Bytes,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Places => "the address table has no place left",
            Full::Bytes => "the address table has no room for the bytes of the address",
        })
    }
}

impl core::error::Error for Full {}
