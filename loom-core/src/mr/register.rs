#![allow(unsafe_code, reason = "opens, binds and closes raw handles")]

use core::ptr::NonNull;

use super::attr::MrAttr;
use super::is_remote;
use super::region::Region;
use crate::buffer::{Buffer, Lent};
use crate::domain::DomainInner;
use crate::error::OpenError;
use crate::exposed::Window;
use crate::transport::{self, Transport};
use crate::vocabulary::{Access, Caps, Errno, HmemIface, MemoryKey, MrFlags, MrMode};

/// # Safety
/// Lent memory stays valid for the access until the region is closed or, without remote access,
/// whenever a post names the region.
pub(super) unsafe fn register<T: Transport>(
    domain: &DomainInner<T>,
    lent: &Lent,
    attr: &MrAttr<'_, T>,
    flags: MrFlags,
) -> Result<T::Mr, OpenError> {
    /// Number of keys to try, because the application may have chosen some of them.
    const TRIES: usize = 16;
    let MrAttr { access, key, device, dmabuf, counter: _ } = *attr;
    let of_device = lent.kind != HmemIface::SYSTEM || dmabuf.is_some();
    if of_device && !domain.info().caps().contains(Caps::HMEM) {
        return Err(OpenError::DeviceMemory);
    }
    let open = |key| {
        let attr = transport::RegionAttr { access, key, device, flags, dmabuf };
        // SAFETY: open (H1). The caller guarantees that the memory stays (M2, M3).
        unsafe { T::mr_open(domain.raw(), lent, attr) }
    };
    if let Some(key) = key {
        return open(key).map_err(|errno| match errno {
            Errno::ENOKEY => OpenError::KeyTaken,
            Errno::EKEYREJECTED => OpenError::KeyNotAvailable,
            errno => OpenError::refused::<T>(errno),
        });
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match open(domain.next_key()) {
            Err(Errno::ENOKEY) if tries < TRIES => {}
            result => return result.map_err(OpenError::refused::<T>),
        }
    }
}

impl<T: Transport, M: Buffer + Send> Region<T, M> {
    pub(super) fn register(&mut self, attr: &MrAttr<'_, T>, will_be_bound: bool) -> Result<(), OpenError> {
        let access = attr.access;
        let mut flags = MrFlags::empty();
        let lent = self.memory.get_mut().lend();
        let domain = &self.domain;
        // Windows read, so uninitialised memory cannot be exposed.
        let written = access.intersects(Access::REMOTE_WRITE | Access::RECV | Access::READ);
        if !lent.readable || (written && !lent.writable) {
            return Err(OpenError::Access);
        }
        if !will_be_bound && is_bound_to_endpoint(domain, access) {
            return Err(OpenError::NeedsEndpoint);
        }
        if let Some(key) = attr.key {
            is_choosable(domain, key)?;
        }
        if let Some(counter) = &attr.counter {
            counter.counts_writes_to(domain, access)?;
            if requires_rma_events(domain) {
                flags |= MrFlags::RMA_EVENT;
            }
        }
        // SAFETY: the memory stays in place, and only peers and windows use it, until the region is
        // closed and no endpoint can reach it (M3, `Region::take_memory`).
        let raw = unsafe { register(domain, &lent, attr, flags) }?;
        let range = (lent.ptr.addr().get() as u64, lent.len as u64);
        let (ptr, len) = if lent.kind == HmemIface::SYSTEM && attr.dmabuf.is_none() {
            (lent.ptr, lent.len)
        } else {
            (NonNull::dangling(), 0)
        };
        // SAFETY: until the region is closed, the memory stays in place, and only peers and windows
        // use it.
        let window = unsafe { Window::new(ptr, len, lent.writable) };
        self.opened(raw, window, range, attr.access);
        Ok(())
    }

    /// After an error the region must be closed.
    ///
    /// # Safety
    /// Called once, after [`register`](Self::register) with these attributes. The endpoint belongs
    /// to the region's domain and stays open until the region is closed.
    pub(super) unsafe fn enable(&self, attr: &MrAttr<'_, T>, endpoint: Option<&T::Endpoint>) -> Result<(), OpenError> {
        let counted = attr.counter.is_some() && requires_rma_events(&self.domain);
        if let Some(counter) = &attr.counter {
            let bond = counter.bond();
            // SAFETY: the region is registered, and `&mut` is used only here.
            let raw = unsafe { self.raw_mut() };
            // SAFETY: region and counter are open (H1), of one domain (H4), and the region is not
            // enabled yet. The bond keeps the counter open (N2).
            unsafe { T::mr_bind_counter(raw, counter.raw()) }?;
            self.counter.set(Some(bond));
        }
        // SAFETY: the region is registered, and the earlier `&mut` has ended.
        let raw = unsafe { self.raw_mut() };
        if let Some(endpoint) = endpoint {
            // SAFETY: the region is open (H1). The caller guarantees that the endpoint belongs to
            // its domain and outlives it (H2, H4).
            unsafe { T::mr_bind_endpoint(raw, endpoint) }?;
        }
        if endpoint.is_some() || counted {
            // SAFETY: the region is open (H1), completely bound, and on its endpoint's thread (T2).
            unsafe { T::mr_enable(raw) }?;
        }
        match attr.key {
            Some(key) if T::mr_key(raw) != key => Err(OpenError::KeyNotAvailable),
            _ => Ok(()),
        }
    }
}

fn requires_rma_events<T: Transport>(domain: &DomainInner<T>) -> bool {
    domain.attributes().domain.mr_mode.contains(MrMode::RMA_EVENT)
}

pub(super) fn is_bound_to_endpoint<T: Transport>(domain: &DomainInner<T>, access: Access) -> bool {
    is_remote(access) && domain.attributes().domain.mr_mode.contains(MrMode::ENDPOINT)
}

fn is_choosable<T: Transport>(domain: &DomainInner<T>, key: MemoryKey) -> Result<(), OpenError> {
    let attributes = &domain.attributes().domain;
    let bits = attributes.mr_key_size.saturating_mul(8);
    let fits = bits >= 64 || key.0 >> bits == 0;
    if !fits || attributes.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC) {
        return Err(OpenError::KeyNotAvailable);
    }
    Ok(())
}
