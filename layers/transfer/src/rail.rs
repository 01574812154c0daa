//! [`Rail`]: objects of one network card.

use loom_core::endpoint::{Binding, CompletionLevel, ReadOptions, SendOptions};
use loom_core::error::{OpenError, PostError};
use loom_core::vocabulary::{ImmediateData, MrMode};
use loom_core::{Av, AvAttr, Cq, CqAttr, Domain, Endpoint, OpKey, Peer, RemoteRegion, Transport};

use allocator_api2::alloc::Allocator;

use crate::attr::EngineAttr;
use crate::event::TransferKey;
use crate::memory::{LentPart, MemoryKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RailSet(u32);

impl RailSet {
    pub(crate) const EMPTY: Self = RailSet(0);

    #[inline]
    pub(crate) const fn all(rails: usize) -> Self {
        RailSet((1 << rails) - 1)
    }

    #[inline]
    pub(crate) const fn contains(self, rail: usize) -> bool {
        self.0 & 1 << rail != 0
    }

    #[inline]
    pub(crate) const fn insert(&mut self, rail: usize) {
        self.0 |= 1 << rail;
    }

    pub(crate) const fn remove(&mut self, rail: usize) {
        self.0 &= !(1 << rail);
    }

    #[inline]
    pub(crate) const fn union(self, other: Self) -> Self {
        RailSet(self.0 | other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

pub(crate) struct Rail<'m, T: Transport> {
    pub(crate) endpoint: Endpoint<'m, T, LentPart>,
    pub(crate) av: Av<'m, T>,
    pub(crate) cq: Cq<'m, T, LentPart>,
    pub(crate) domain: Domain<'m, T>,
    /// Maximum number of operations in flight, including receives for peers' writes.
    limit: usize,
    /// Number of operations for which the provider's queue certainly has room.
    batch_limit: usize,
    /// Last operation, if it announced another one (`FI_MORE`).
    pub(crate) unflushed: Option<Unflushed>,
}

#[derive(Clone, Copy)]
pub(crate) struct Unflushed {
    pub(crate) peer: Peer,
    pub(crate) region: RemoteRegion,
    pub(crate) local: MemoryKey,
    pub(crate) reads: bool,
    pub(crate) transfer: TransferKey,
}

impl<'m, T: Transport> Rail<'m, T> {
    pub(crate) fn open<A: Allocator + Clone + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: &EngineAttr,
        alloc: &A,
    ) -> Result<Self, OpenError> {
        let av = Av::open_in(domain, AvAttr::new(attr.vector_len()), alloc.clone())?;
        let receives = usize::from(attr.remote_writes);
        let depth = attr.depth.checked_add(receives).ok_or(OpenError::Size)?;
        let cq = Cq::open_in(domain, CqAttr { endpoints: 1, ..CqAttr::new(depth) }, alloc.clone())?;
        let endpoint = cq.endpoint(Binding::to(&av).remote_writes(attr.remote_writes))?;
        let receives = cq.in_flight();
        let limit = attr.depth.saturating_add(receives);
        let batch_limit = domain.info().attributes().tx.size.saturating_add(receives).min(limit);
        Ok(Rail { endpoint, av, cq, domain: domain.clone(), limit, batch_limit, unflushed: None })
    }

    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.cq.in_flight())
    }

    pub(crate) fn has_room_for_two(&self) -> bool {
        self.cq.in_flight() + 2 <= self.batch_limit
    }

    pub(crate) const fn events(&self, attr: &EngineAttr) -> usize {
        self.limit.saturating_add(attr.remote_writes as usize)
    }

    pub(crate) fn binds_regions(&self) -> bool {
        self.domain.info().attributes().domain.mr_mode.contains(MrMode::ENDPOINT)
    }

    pub(crate) fn max_msg_size(&self) -> u64 {
        self.domain.info().attributes().endpoint.max_msg_size as u64
    }
}

pub(crate) struct Target {
    pub(crate) peer: Peer,
    pub(crate) region: RemoteRegion,
    pub(crate) offset: u64,
}

/// Kind of an operation.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) reads: bool,
    pub(crate) data: Option<ImmediateData>,
    /// With `FI_MORE`.
    pub(crate) more: bool,
    /// Completes after delivery.
    pub(crate) delivers: bool,
}

impl<T: Transport> Rail<'_, T> {
    #[inline(never)]
    pub(crate) fn post(&self, to: &Target, how: How, part: LentPart) -> Result<OpKey, PostError> {
        let Target { peer, region, offset } = to;
        let posted = match how.data {
            _ if how.more || how.delivers => return self.post_with(to, how, part),
            _ if how.reads => self.endpoint.read(*peer, region, *offset, part),
            Some(data) => self.endpoint.write_data(*peer, region, *offset, data, part),
            None => self.endpoint.write(*peer, region, *offset, part),
        };
        posted.map_err(|rejected| rejected.error)
    }

    #[inline(never)]
    fn post_with(&self, to: &Target, how: How, part: LentPart) -> Result<OpKey, PostError> {
        let How { reads, data, more, delivers } = how;
        let len = usize::try_from(part.len()).map_err(|_| PostError::OutOfBounds)?;
        let target = [to.region.part(to.offset, len).ok_or(PostError::OutOfBounds)?];
        let posted = if reads {
            self.endpoint.read_with(to.peer, &target, ReadOptions { more, ..ReadOptions::default() }, part)
        } else {
            let level = delivers.then_some(CompletionLevel::Delivery);
            self.endpoint.write_with(
                to.peer,
                &target,
                SendOptions { data, more, level, ..SendOptions::default() },
                part,
            )
        };
        posted.map_err(|rejected| rejected.error)
    }
}
