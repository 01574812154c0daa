#![allow(unsafe_code, reason = "implements the unsafe trait `MemoryRegions`")]

use core::ptr::NonNull;

use super::faults::required_modes::RequiredModes;
use super::handles::SoftMr;
use super::network::Net;
use super::network::counter::SoftCounter;
use super::network::region::{Exposed, Guard, NO_DOMAIN};
use super::shared::address::addr_parts;
use super::transport::Soft;
use crate::buffer::Lent;
use crate::transport::{MemoryRegions, RegionAttr, RmaTarget};
use crate::util::sync::{AtomicU64, Ordering};
use crate::vocabulary::{Access, Counted, Errno, FabricAddr, HmemIface, MemoryKey};

#[derive(Clone, Copy)]
pub(super) struct Counts {
    /// Kind of the endpoint's counters that count the completed operation.
    endpoint: Option<Counted>,
    /// `true` if the counter of the region counts it.
    region: bool,
}

impl Counts {
    pub(super) const NOTHING: Counts = Counts { endpoint: None, region: false };
    pub(super) const READ: Counts = Counts { endpoint: Some(Counted::REMOTE_READ), region: false };
    pub(super) const WRITE: Counts = Counts { endpoint: Some(Counted::REMOTE_WRITE), region: true };
    pub(super) const FETCH: Counts = Counts { region: true, ..Counts::READ };

    #[inline]
    pub(super) fn of_range(self, is_last: bool) -> Self {
        Counts { endpoint: self.endpoint.filter(|_| is_last), ..self }
    }

    #[cold]
    #[inline(never)]
    fn count(self, net: &Net, to: FabricAddr, region: &Guard<'_>) {
        let (index, generation) = addr_parts(to.0);
        if let Some(counted) = self.endpoint
            && let Some(port) = net.ports().get(usize::from(index))
        {
            port.peer_counters.count(generation, counted);
        }
        if self.region {
            region.count_write();
        }
    }
}

/// Range of a region, which stays open until this is dropped.
pub(super) struct OpenRange<'n> {
    net: &'n Net,
    region: Guard<'n>,
    pub(super) place: *mut u8,
}

impl OpenRange<'_> {
    #[inline]
    pub(super) fn count(&self, counts: Counts, to: FabricAddr) {
        // Relaxed: see `peers_are_counted`.
        if self.net.peers_are_counted.load(Ordering::Relaxed) {
            counts.count(self.net, to, &self.region);
        }
    }
}

#[inline]
pub(super) fn open_range<'n>(
    net: &'n Net,
    target: &RmaTarget,
    len: usize,
    access: Access,
) -> Result<OpenRange<'n>, Errno> {
    let domain = net.reach(target.to.0)?;
    let region = net.region(target.key).ok_or(Errno::ENOKEY)?.enter(target.key)?;
    let place = region.remote_range(target.addr.0, len, access, domain, target.to.0)?.as_ptr();
    Ok(OpenRange { net, region, place })
}

#[inline(always)]
pub(super) fn at_region(
    net: &Net,
    target: &RmaTarget,
    len: usize,
    access: Access,
    counts: Counts,
    copy: impl FnOnce(*mut u8),
) -> Result<(), Errno> {
    let range = open_range(net, target, len, access)?;
    copy(range.place);
    range.count(counts, target.to);
    Ok(())
}

// SAFETY: see the implementation of `Transport`.
unsafe impl<'n> MemoryRegions for Soft<'n> {
    type Mr = SoftMr<'n>;

    const MR_CLOSE_FENCES: bool = true;

    unsafe fn mr_open(domain: &Self::Domain, memory: &Lent, attr: RegionAttr) -> Result<Self::Mr, Errno> {
        if memory.kind != HmemIface::SYSTEM || !attr.flags.is_empty() || attr.dmabuf.is_some() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (net, access) = (domain.net, attr.access);
        let of_endpoint = domain.modes.contains(RequiredModes::ENDPOINT_REGIONS);
        let reached_in = if of_endpoint { NO_DOMAIN } else { domain.number };
        let (ptr, len, endpoint) = (memory.ptr, memory.len, AtomicU64::new(u64::MAX));
        let exposed = Exposed { ptr, len, access, domain: domain.number, reached_in, endpoint };
        let mut numbers = net.opening.lock();
        let (index, region) =
            (0u16..).zip(net.regions()).find(|(_, region)| !region.taken.get()).ok_or(Errno::ENOMR)?;
        Ok(SoftMr { net, key: region.open(index, numbers.key(), exposed), endpoint: None })
    }

    unsafe fn mr_bind_endpoint(mr: &mut Self::Mr, endpoint: &Self::Endpoint) -> Result<(), Errno> {
        if mr.endpoint.is_some() || !core::ptr::eq(&*mr.net, &*endpoint.net) {
            return Err(Errno::EINVAL);
        }
        let own = endpoint.port().own();
        own.regions.set(own.regions.get() + 1);
        mr.endpoint = Some(own.addr.get());
        Ok(())
    }

    unsafe fn mr_bind_counter(mr: &mut Self::Mr, counter: &SoftCounter) -> Result<(), Errno> {
        let region = mr.net.region(mr.key).ok_or(Errno::EINVAL)?;
        // SAFETY: the counter stays open, and in place, until the region is closed (N2). Closing
        // does not fail below.
        unsafe { region.count_by(counter.by_peers()) };
        mr.net.peers_are_counted.store(true, Ordering::Relaxed);
        Ok(())
    }

    unsafe fn mr_enable(mr: &mut Self::Mr) -> Result<(), Errno> {
        let endpoint = mr.endpoint.ok_or(Errno::EINVAL)?;
        mr.net.region(mr.key).ok_or(Errno::EINVAL)?.enable(mr.key, endpoint)
    }

    unsafe fn mr_refresh(_: &Self::Mr, _: NonNull<u8>, _: usize) -> Result<(), Errno> {
        Ok(())
    }

    fn mr_key(mr: &Self::Mr) -> MemoryKey {
        mr.key
    }

    fn mr_descriptor(mr: &Self::Mr) -> usize {
        const { assert!(usize::BITS == 64, "a key is a descriptor") };
        #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
        {
            mr.key.0 as usize
        }
    }

    unsafe fn mr_close(mr: &Self::Mr) -> Result<(), Errno> {
        let region = mr.net.region(mr.key).ok_or(Errno::EINVAL)?;
        region.close();
        let opening = mr.net.opening.lock();
        // The lock orders the users' reads before the next owner.
        region.taken.set(false);
        drop(opening);
        if let Some(endpoint) = mr.endpoint {
            let regions = &mr.net.port(addr_parts(endpoint).0).own().regions;
            regions.set(regions.get() - 1);
        }
        Ok(())
    }
}
