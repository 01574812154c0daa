//! [`AvAttr`]: how large an address vector is.

#![allow(unsafe_code, reason = "asks the transport of an open domain")]

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;

use super::AvInner;
use crate::domain::Domain;
use crate::engine::address_table::AddressTableAttr;
use crate::error::OpenError;
use crate::handle::Plan;
use crate::storage::array;
use crate::transport::{AvRoom, Transport};
use crate::vocabulary::{AddressFormat, EndpointAddr};

/// How large an [`Av`](super::Av) is. All of its memory is taken when it is opened.
///
/// ```
/// # #[cfg(feature = "std")] {
/// # use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Av, AvAttr, Domain};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// // Addresses that a peer chooses cannot all have the same hash.
/// let attr = AvAttr { seed: 0x5eed, ..AvAttr::new(1000) };
/// let av = Av::open_in(&domain, attr, Global)?;
/// assert_eq!(av.peers().count(), 0);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_av`, `struct fi_av_attr`
#[doc(alias = "fi_av_attr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(from = "Parts", into = "Parts"))]
pub struct AvAttr {
    /// Number of peers that the vector has room for at a time, at least: a transport may need more places
    /// ([`Av::places`](super::Av::places)).
    ///
    /// A [removed](super::Av::remove) peer's place returns, with these exceptions, where the provider keeps removed addresses as long as an
    /// endpoint is bound to the vector:
    /// - `shm` takes 256 addresses, whatever the capacity is, in the lifetime of a vector. Endpoints of the process and
    ///   peers that were not inserted and have sent a message may count. A capacity above 256 is refused with
    ///   [`OpenError::TooManyPeers`], an address after the last with
    ///   [`InsertError::TooManyPeers`](super::InsertError::TooManyPeers): close the vector and its endpoints, and open others.
    /// - Over libfabric, the capacity counts for the lifetime of a vector if threads share the domain (`Ofi<Shared>`), if its info grants
    ///   [`Caps::COLLECTIVE`](crate::Caps::COLLECTIVE), and over providers and versions that are not tested.
    pub capacity: usize,
    /// How many bytes there are for addresses other than IPv4 sockets, as
    /// [`AddressTableAttr::bytes`] has it; `None` for what addresses of the domain's format are likely to need: 32 for
    /// each peer if they may be IPv6 sockets, 96 if they are something else (as 72 bytes take), and one of the longest more.
    pub bytes: Option<usize>,
    /// How many of the first places can have an address of their own, as [`AddressTableAttr::singles`] has it: fewer than all for
    /// peers that are inserted by range. The place of one of these that was removed is for the same address again, or takes a
    /// record or two of [`ranges`](Self::ranges): where they are used up, and the provider gives the place to another address, that is
    /// [full](super::InsertError::Full).
    pub singles: usize,
    /// How many pieces of ranges are kept as such, as [`AddressTableAttr::ranges`] has it: none where addresses are no sockets.
    pub ranges: usize,
    /// The seed of the hash function of addresses: [`AddressTableAttr::seed`].
    pub seed: u64,
}

impl AvAttr {
    /// This number of peers, each with an address of its own, in memory as the format of their addresses has it; up to 16 ranges; and a
    /// seed that is the same for all.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        let AddressTableAttr { singles, ranges, seed, .. } = AddressTableAttr::new(capacity);
        AvAttr { capacity, bytes: None, singles, ranges, seed }
    }

    /// The memory that a vector of this domain takes from an allocator of type `A`, in one block. It depends on the domain: on the format of
    /// its addresses, and on the number of places that its transport needs for them.
    ///
    /// # Errors
    /// [`OpenError::Size`] if the capacity is zero or more than an address has room for, or all of it more than an address space
    /// holds.
    pub fn layout<T: Transport, A: Allocator>(&self, domain: &Domain<'_, T>) -> Result<Layout, OpenError> {
        let room = self.room(domain)?;
        let mut plan = Plan::of::<AvInner<T>, A>()?;
        plan.add(self.table(domain, room)?.layout()?)?;
        plan.add(array::<u32>(Self::links(room))?)?;
        Ok(plan.layout())
    }

    /// The room that a vector of this domain needs.
    pub(super) fn room<T: Transport>(&self, domain: &Domain<'_, T>) -> Result<AvRoom, OpenError> {
        if self.capacity == 0 || u32::try_from(self.capacity).is_err() {
            return Err(OpenError::Size);
        }
        // SAFETY: the domain is open (C1).
        Ok(unsafe { T::av_room(domain.raw(), self.capacity) })
    }

    /// Number of places that can be those of removed peers.
    pub(super) const fn links(room: AvRoom) -> usize {
        if room.reused.is_some() { room.places } else { 0 }
    }

    /// The attributes of the table of a vector of this domain.
    pub(super) fn table<T: Transport>(
        &self,
        domain: &Domain<'_, T>,
        room: AvRoom,
    ) -> Result<AddressTableAttr, OpenError> {
        // Those of removed peers have an address of their own, too.
        let removed = if room.reused.is_some() { room.places.saturating_sub(self.capacity) } else { 0 };
        let attr = AvAttr { singles: self.singles.saturating_add(removed), ..*self };
        attr.of_places(room.places, domain.attributes().addr_format)
    }

    /// The attributes of the table, of which the transport has said how many places it needs.
    fn of_places(&self, places: usize, format: AddressFormat) -> Result<AddressTableAttr, OpenError> {
        let AvAttr { bytes, singles, ranges, seed, .. } = *self;
        let (sockets, cells) = match format {
            AddressFormat::SOCKADDR_IN => (true, 0),
            AddressFormat::SOCKADDR_IN6 | AddressFormat::SOCKADDR_IP | AddressFormat::SOCKADDR => (true, 1),
            _ => (false, 3),
        };
        let likely = || {
            let all = places.checked_mul(cells * AddressTableAttr::bytes_for(0))?;
            all.checked_add(AddressTableAttr::bytes_for(EndpointAddr::MAX_LEN))
        };
        let bytes = bytes.or_else(likely).ok_or(OpenError::Size)?;
        // Others have no ranges.
        let ranges = if sockets { ranges } else { 0 };
        Ok(AddressTableAttr { bytes, singles, ranges, seed, format, ..AddressTableAttr::new(places) })
    }
}

/// The form of [`AvAttr`] with the feature `serde`: what a configuration leaves out is as in [`AvAttr::new`].
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename = "AvAttr", deny_unknown_fields)]
struct Parts {
    capacity: usize,
    #[serde(default)]
    bytes: Option<usize>,
    /// `None` for the number of the default, which is more than some formats have.
    #[serde(default)]
    singles: Option<usize>,
    #[serde(default = "Parts::default_ranges")]
    ranges: usize,
    #[serde(default, with = "crate::serial::hexadecimal")]
    seed: u64,
}

#[cfg(feature = "serde")]
impl Parts {
    const fn default_ranges() -> usize {
        AvAttr::new(1).ranges
    }
}

#[cfg(feature = "serde")]
impl From<Parts> for AvAttr {
    fn from(Parts { capacity, bytes, singles, ranges, seed }: Parts) -> Self {
        let singles = singles.unwrap_or(AvAttr::new(capacity).singles);
        AvAttr { capacity, bytes, singles, ranges, seed }
    }
}

#[cfg(feature = "serde")]
impl From<AvAttr> for Parts {
    fn from(AvAttr { capacity, bytes, singles, ranges, seed }: AvAttr) -> Self {
        let singles = (singles != AvAttr::new(capacity).singles).then_some(singles);
        Parts { capacity, bytes, singles, ranges, seed }
    }
}

/// That number of peers: [`AvAttr::new`].
impl From<usize> for AvAttr {
    fn from(capacity: usize) -> Self {
        AvAttr::new(capacity)
    }
}
