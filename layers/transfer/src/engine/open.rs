//! Opening of an engine, and its layout of immediate data.

use core::sync::atomic::{AtomicU32, Ordering};

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::mr::EndpointMr;
use loom_core::storage::Array;
use loom_core::vocabulary::RangeError;
use loom_core::{Access, Arrivals, Buffer, Caps, Domain, Error, Transport};

use super::Engine;
use super::posting::Turn;
use super::waits::Waits;
use crate::attr::EngineAttr;
use crate::control::{Bytes, Control};
use crate::link::{MAX_NUMBERS, SCRATCH};
use crate::memory::{Memories, Shared};
use crate::peers::Peers;
use crate::plan::Plan;
use crate::rail::{Rail, RailSet};
use crate::remote::MAX_RAILS;
use crate::transfers::Transfers;

static ENGINES: AtomicU32 = AtomicU32::new(0);

/// Layout of immediate data: a value, or a generation above a notification.
pub(super) struct DataLayout {
    /// Bits of a value or notification.
    pub(super) bits: u32,
    /// Bytes that all rails carry, up to 8.
    pub(super) bytes: u8,
}

impl DataLayout {
    /// Bits for the generation of a notification, at least.
    pub(super) const GENERATION_BITS: u32 = 4;

    /// Bits that this engine carries, and a peer of so many bytes.
    pub(super) fn common_width(&self, bytes: u8) -> u32 {
        8 * u32::from(bytes.min(self.bytes))
    }

    fn of<T: Transport>(attr: &EngineAttr, domains: &[Domain<'_, T>]) -> Result<Self, Error> {
        let control = attr.message > 0;
        let numbers = if control { attr.peers.saturating_mul(attr.notifications.into()) } else { 0 };
        let last = attr.values.saturating_add(numbers).saturating_sub(1);
        let bits = usize::BITS - last.leading_zeros();
        let width = bits + if control { Self::GENERATION_BITS } else { 0 };
        let limits = domains.iter().map(|domain| domain.info().attributes().domain.cq_data_size);
        let limit = limits.min().unwrap_or(0);
        if width as usize > limit.saturating_mul(8) {
            return Err(RangeError::TooWide { width, limit }.into());
        }
        if control && width > 32 {
            return Err(OpenError::Size.into());
        }
        Ok(DataLayout { bits, bytes: u8::try_from(limit.min(8)).unwrap_or(8) })
    }
}

fn check_attr<T: Transport>(attr: &EngineAttr, domains: &[Domain<'_, T>]) -> Result<(), OpenError> {
    let control = attr.message > 0;
    let numbers = 1..=MAX_NUMBERS;
    let sizes = [attr.depth, attr.peer_depth, attr.batch, attr.budget];
    if !(1..=MAX_RAILS).contains(&domains.len())
        || attr.piece == 0
        || sizes.contains(&0)
        || control && !(numbers.contains(&attr.notifications.into()) && (1..=64).contains(&attr.fragments))
    {
        return Err(OpenError::Size);
    }
    let needed = if control { Caps::RMA | Caps::MSG } else { Caps::RMA };
    let mut missing = domains.iter().map(|domain| needed.difference(domain.info().caps()));
    missing.find(|missing| !missing.is_empty()).map_or(Ok(()), |missing| Err(OpenError::NotGranted(missing)))
}

impl<'m, T, M, P, A> Engine<'m, T, M, P, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    /// Opens an engine with one rail for each domain.
    ///
    /// # Errors
    /// - [`OpenError::Size`] without a domain, with more than [`MAX_RAILS`], or for a piece, depth,
    ///   batch or budget of 0. With control messages, also for other sizes than those of
    ///   [`EngineAttr`]
    /// - [`OpenError::NotGranted`] if a domain does not grant [`RMA`](loom_core::Caps::RMA), or
    ///   [`MSG`](loom_core::Caps::MSG) for control messages
    /// - [`RangeError::TooWide`] if a provider carries too few bytes of immediate data for
    ///   [`values`](EngineAttr::values), and the generations of
    ///   [`notifications`](EngineAttr::notifications)
    /// - [`Error::Invalid`] if [`message`](EngineAttr::message) is too short for an address
    /// - those of [`Cq::open_in`](loom_core::Cq::open_in) and of endpoints
    pub fn open_in(domains: &[Domain<'m, T>], attr: EngineAttr, alloc: A) -> Result<Self, Error> {
        check_attr(&attr, domains)?;
        let data = DataLayout::of(&attr, domains)?;
        let rails = Array::try_new_in(domains.len(), alloc.clone(), |number| {
            Rail::open(domains.get(number).ok_or(OpenError::Size)?, &attr, &alloc)
        })?;
        let piece = rails.iter().map(Rail::max_msg_size).fold(attr.piece, u64::min);
        let (mut scratch, mut control) = (None, None);
        if let (true, [domain, ..]) = (attr.message > 0, domains) {
            let memory = Shared::new(Bytes::new(SCRATCH, alloc.clone())?, alloc.clone())?;
            scratch = Some(Array::try_new_in(rails.len(), alloc.clone(), |number| {
                let (rail, access) = (rails.get(number).ok_or(OpenError::Size)?, Access::REMOTE_WRITE);
                EndpointMr::open_for_in(&rail.domain, &rail.endpoint, memory.clone(), access, alloc.clone())
            })?);
            control = Some(Control::open(domain, &attr, &alloc)?);
        }
        let number = ENGINES.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9);
        let engine = Engine {
            failed: RailSet::EMPTY,
            turn: Turn::default(),
            control,
            next_beat: 0,
            scratch,
            memories: Memories::new(attr.memories, number, &alloc)?,
            peers: Peers::new(attr.peers, rails.len(), number, &alloc)?,
            own_peer: None,
            transfers: Transfers::new(attr.transfers, number, &alloc)?,
            next_deadline: u64::MAX,
            data,
            arrivals: Arrivals::open_in(attr.values, attr.waits, alloc.clone())?,
            waits: Waits::new(attr.waits, &alloc)?,
            strays: 0,
            now: 0,
            number,
            attr: EngineAttr { piece, ..attr },
            rails,
            alloc,
        };
        engine.check_message_len()?;
        Ok(engine)
    }
}
