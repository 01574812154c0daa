#![allow(unsafe_code, reason = "queries the transport of an open domain")]

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;

use super::AvInner;
use crate::domain::Domain;
use crate::engine::address_table::AddressTableAttr;
use crate::error::OpenError;
use crate::storage::array;
use crate::storage::handle::Plan;
use crate::transport::{AvRoom, Transport};
use crate::vocabulary::{AddressFormat, EndpointAddr};

/// Size of an [`Av`](super::Av).
///
/// ```
/// use loom_core::{Av, AvAttr, allocator_api2::alloc::Global};
///
/// # fixture::domain!(network, domain);
/// // Addresses that a peer chooses cannot all have the same hash.
/// let attr = AvAttr { seed: 0x5eed, ..AvAttr::new(1000) };
/// let av = Av::open_in(&domain, attr, Global)?;
/// assert_eq!(av.peer_table().iter().count(), 0);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_av`, `struct fi_av_attr`
#[doc(alias = "fi_av_attr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AvAttr {
    /// Minimum number of peers at a time. A transport may need more slots
    /// ([`Peers::places`](crate::engine::peer_table::Peers::places)).
    ///
    /// A [removed](super::Av::remove) peer's slot is reused, except where the provider keeps
    /// removed addresses while an endpoint is bound to the vector:
    /// - `shm` takes 256 addresses in the lifetime of a vector. Endpoints of the process and
    ///   senders that were not inserted may count. [`OpenError::TooManyPeers`] refuses a larger
    ///   capacity, [`AddressError::TooManyPeers`](crate::AddressError::TooManyPeers) a further
    ///   address: open a new vector with new endpoints.
    /// - Over libfabric, the capacity counts for a vector's lifetime if threads share the domain
    ///   (`Ofi<Shared>`), if its info grants [`Caps::COLLECTIVE`](crate::Caps::COLLECTIVE), and
    ///   over untested providers and versions.
    pub capacity: usize,
    /// Bytes for addresses other than IPv4 sockets ([`AddressTableAttr::bytes`]). `None` for the
    /// likely need: for each peer 32 if addresses may be IPv6 sockets, or 96 for other formats,
    /// plus one address of maximum length.
    #[cfg_attr(feature = "serde", serde(default))]
    pub bytes: Option<usize>,
    /// Number of leading slots with an address of their own ([`AddressTableAttr::singles`]), fewer
    /// than all (`None`) for peers inserted by range. After a removal such a slot is reused for the
    /// same address, or needs one or two [`ranges`](Self::ranges) records. Without a free record,
    /// inserting another address there returns [`Full`](crate::AddressError::Full).
    #[cfg_attr(feature = "serde", serde(default))]
    pub singles: Option<usize>,
    /// Number of range records ([`AddressTableAttr::ranges`]), ignored where addresses are not
    /// sockets.
    #[cfg_attr(feature = "serde", serde(default = "AvAttr::default_ranges"))]
    pub ranges: usize,
    /// Seed of the address hash function ([`AddressTableAttr::seed`]).
    #[cfg_attr(feature = "serde", serde(default, with = "crate::util::serial::hexadecimal"))]
    pub seed: u64,
    /// Bits of an address for the number of a receive context: peers of a
    /// [scalable endpoint](crate::endpoint::ScalableEndpoint) have up to 2 to this power.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rx_ctx_bits: u8,
}

impl AvAttr {
    /// Maximum of [`rx_ctx_bits`](Self::rx_ctx_bits). `sockets` accepts more but sends the number
    /// in one byte.
    pub const MAX_RX_CTX_BITS: u8 = 8;

    /// Attributes for this number of addresses, with 16 ranges and a fixed seed.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        let AddressTableAttr { ranges, seed, .. } = AddressTableAttr::new(capacity);
        AvAttr { capacity, bytes: None, singles: None, ranges, seed, rx_ctx_bits: 0 }
    }

    #[cfg(feature = "serde")]
    const fn default_ranges() -> usize {
        AvAttr::new(1).ranges
    }

    /// Layout of a vector's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`] for a capacity of zero or beyond 32 bits, or too large a layout.
    pub fn layout<T: Transport, A: Allocator>(&self, domain: &Domain<'_, T>) -> Result<Layout, OpenError> {
        let room = self.room(domain)?;
        let mut plan = Plan::of::<AvInner<T>, A>()?;
        plan.add(self.table(domain, room)?.layout()?)?;
        plan.add(array::<u32>(Self::links(room))?)?;
        Ok(plan.layout())
    }

    pub(super) fn room<T: Transport>(&self, domain: &Domain<'_, T>) -> Result<AvRoom, OpenError> {
        if self.capacity == 0 || u32::try_from(self.capacity).is_err() || self.rx_ctx_bits > Self::MAX_RX_CTX_BITS {
            return Err(OpenError::Size);
        }
        // SAFETY: open (H1).
        Ok(unsafe { T::av_room(domain.raw(), self.capacity) })
    }

    pub(super) const fn links(room: AvRoom) -> usize {
        if room.reused.is_some() { room.places } else { 0 }
    }

    pub(super) fn table<T: Transport>(
        &self,
        domain: &Domain<'_, T>,
        room: AvRoom,
    ) -> Result<AddressTableAttr, OpenError> {
        let removed = if room.reused.is_some() { room.places.saturating_sub(self.capacity) } else { 0 };
        let attr = AvAttr { singles: self.singles.map(|singles| singles.saturating_add(removed)), ..*self };
        attr.of_places(room.places, domain.info().attributes().addr_format)
    }

    fn of_places(&self, places: usize, format: AddressFormat) -> Result<AddressTableAttr, OpenError> {
        let AvAttr { bytes, ranges, seed, .. } = *self;
        let singles = self.singles.unwrap_or(usize::MAX);
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
        let ranges = if sockets { ranges } else { 0 };
        Ok(AddressTableAttr { bytes, singles, ranges, seed, format, ..AddressTableAttr::new(places) })
    }
}

impl From<usize> for AvAttr {
    fn from(capacity: usize) -> Self {
        AvAttr::new(capacity)
    }
}
