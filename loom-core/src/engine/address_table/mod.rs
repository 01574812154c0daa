//! Table that maps peers to raw addresses and back, beside the [`peer_table`](super::peer_table).
//!
//! | | |
//! |---|---|
//! | `fi_av_insert` | [`insert`](AddressTable::insert), or [`insert_at`](AddressTable::insert_at) if a provider chooses the slot |
//! | `fi_av_insertsym` | [`insert_symmetric`](AddressTable::insert_symmetric) |
//! | `fi_av_remove` | [`remove`](AddressTable::remove) |
//! | `fi_av_lookup` | [`address`](AddressTable::address) of [`peers().peer(addr)`](super::peer_table::Peers::peer) |
//! | `FI_AV_TABLE` | fabric addresses are slot indices: the lowest free one, or that of a removed member of a range |
//! | `FI_AV_MAP` | fabric addresses also carry a generation, so removed ones are recognised |
//! | `fi_av_set` | [`AddressSet`] |
//!
//! # Equal addresses
//!
//! - IPv4 sockets (`struct sockaddr_in`) with equal address and port. The 8 bytes of padding are
//!   ignored, and returned as zeros.
//! - IPv6 sockets (`struct sockaddr_in6`) with equal address, port, flow information and scope.
//! - Sockets in any of the socket formats.
//! - Others with equal format and bytes. `FI_FORMAT_UNSPEC` means the table's format.
//!
//! # Cost
//!
//! - An IPv4 peer takes 30.1 bytes: 8 in the peer table, 6 for the address, 16 for the index, and
//!   one bit. An IPv6 peer takes 32 more, others [`AddressTableAttr::bytes_for`] more.
//!
//! ```
//! use std::net::SocketAddr;
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory, Inserted};
//!
//! let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(1000), Global)?;
//! let mut table = memory.table();
//! let there: SocketAddr = "10.0.0.1:7471".parse()?;
//! let Inserted::New(peer) = table.insert(there)? else { panic!("it is new") };
//! assert_eq!(table.insert(there)?, Inserted::Known(peer));
//! assert_eq!((table.find(there), table.socket(peer)), (Some(peer), Some(there)));
//! table.remove(peer);
//! assert_eq!((table.find(there), table.socket(peer)), (None, None));
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

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

pub use self::key::AddressRef;
pub use self::memory::{AddressTableAttr, AddressTableMemory};
pub use self::set::AddressSet;
pub use self::symmetric::{RangePeer, SymmetricRange};
pub use self::table::AddressTable;
use super::peer_table::Peer;

const NIL: u32 = u32::MAX;

/// Outcome of an insertion.
///
/// ```
/// use std::net::SocketAddr;
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory, Inserted};
///
/// let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(8), Global)?;
/// let mut table = memory.table();
/// let addresses: [SocketAddr; 3] = ["10.0.0.1:1".parse()?, "10.0.0.2:1".parse()?, "10.0.0.1:1".parse()?];
/// let peers = addresses.into_iter().map(|address| table.insert(address)).collect::<Result<Vec<_>, _>>()?;
/// // The third address is that of the first peer.
/// assert_eq!(peers[2], Inserted::Known(peers[0].peer()));
/// assert_eq!(peers.iter().filter(|inserted| matches!(inserted, Inserted::New(_))).count(), 2);
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The address was inserted as this new peer.
    New(Peer),
    /// The address already belongs to this peer.
    Known(Peer),
}

impl Inserted {
    /// Peer that has the address.
    #[must_use]
    pub const fn peer(self) -> Peer {
        match self {
            Inserted::New(peer) | Inserted::Known(peer) => peer,
        }
    }
}
