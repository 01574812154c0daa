//! Registering memory: what is asked of the transport, and what its refusals mean.

#![allow(unsafe_code, reason = "opens, binds and closes raw handles")]

use core::ptr::NonNull;

use super::is_remote;
use super::region::Region;
use crate::buffer::{Buffer, Lent};
use crate::error::OpenError;
use crate::exposed::Window;
use crate::objects::counter::Counter;
use crate::objects::domain::DomainInner;
use crate::transport::{DmaBuf, MrAttr, Transport};
use crate::vocabulary::{Access, Caps, Errno, HmemIface, MemoryKey, MrFlags, MrMode};

/// How memory is to be registered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    pub(super) access: Access,
    /// The key, if it is not to be one that nobody else has.
    pub(super) key: Option<MemoryKey>,
    /// Which of the devices of a kind the memory belongs to.
    pub(super) device: i32,
    pub(super) flags: MrFlags,
    /// What of a device's exported buffer it is.
    pub(super) dmabuf: Option<DmaBuf>,
}

impl Registration {
    pub(super) const fn new(access: Access) -> Self {
        Registration { access, key: None, device: 0, flags: MrFlags::empty(), dmabuf: None }
    }
}

/// How a region is to be opened, and what it is bound to.
pub(super) struct Terms<'b, 'm, T: Transport> {
    pub(super) registration: Registration,
    /// Of peers' writes.
    pub(super) counter: Option<&'b Counter<'m, T>>,
    /// Where the domain binds regions to endpoints.
    pub(super) endpoint: Option<&'b T::Endpoint>,
}

/// Registers memory.
///
/// # Safety
/// What is lent stays valid for what the access says until the region is closed, or, if peers have no access, whenever a post
/// names the region.
pub(super) unsafe fn register<T: Transport>(
    domain: &DomainInner<T>,
    lent: &Lent,
    registration: Registration,
) -> Result<T::Mr, OpenError> {
    /// How many keys to try where the application chooses and others choose too.
    const TRIES: usize = 16;
    let Registration { access, key, device, flags, dmabuf } = registration;
    let of_device = lent.kind() != HmemIface::SYSTEM || dmabuf.is_some();
    if of_device && !domain.info().caps().contains(Caps::HMEM) {
        return Err(OpenError::DeviceMemory);
    }
    let open = |key| {
        let attr = MrAttr { access, key, device, flags, dmabuf };
        // SAFETY: the caller's promise; the domain is open.
        unsafe { T::mr_open(domain.raw(), lent, attr) }
    };
    if let Some(key) = key {
        return open(key).map_err(|errno| match errno {
            Errno::ENOKEY => OpenError::KeyTaken,
            Errno::EKEYREJECTED => OpenError::KeyNotAvailable,
            errno => OpenError::Errno(errno),
        });
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match open(domain.next_key()) {
            Err(Errno::ENOKEY) if tries < TRIES => {}
            result => return Ok(result?),
        }
    }
}

impl<T: Transport, M: Buffer + Send> Region<T, M> {
    /// Registers the memory; [`enable`](Self::enable) follows.
    pub(super) fn register(&mut self, terms: &Terms<'_, '_, T>) -> Result<(), OpenError> {
        let mut registration = terms.registration;
        let access = registration.access;
        let lent = self.memory().lend();
        let domain = &self.domain;
        // Windows read, so that memory which is not initialised cannot be exposed.
        let written = access.intersects(Access::REMOTE_WRITE | Access::RECV | Access::READ);
        if !lent.is_readable() || (written && !lent.is_writable()) {
            return Err(OpenError::Access);
        }
        if terms.endpoint.is_none() && is_bound_to_endpoint(domain, access) {
            return Err(OpenError::NeedsEndpoint);
        }
        if let Some(key) = registration.key {
            is_choosable(domain, key)?;
        }
        if let Some(counter) = terms.counter {
            counter.counts_writes_to(domain, access)?;
            if asks_for_rma_events(domain) {
                registration.flags |= MrFlags::RMA_EVENT;
            }
        }
        // SAFETY: the memory stays in its place, and nobody but peers and windows uses it, until the region is closed and no endpoint
        // can reach it: `Region::take_memory`.
        let raw = unsafe { register(domain, &lent, registration) }?;
        let range = (lent.ptr().addr().get() as u64, lent.len() as u64);
        let (ptr, len) = if lent.kind() == HmemIface::SYSTEM && registration.dmabuf.is_none() {
            (lent.ptr(), lent.len())
        } else {
            (NonNull::dangling(), 0)
        };
        // SAFETY: as above.
        let window = unsafe { Window::new(ptr, len, lent.is_writable()) };
        self.opened(raw, window, range);
        Ok(())
    }

    /// Binds the region to a counter and an endpoint, and enables it, as far as the domain asks for that. After an error it is
    /// there to be closed.
    ///
    /// # Safety
    /// Called once, after [`register`](Self::register) with these terms. The endpoint is open until the region is closed, and
    /// of its domain.
    pub(super) unsafe fn enable(&self, terms: &Terms<'_, '_, T>) -> Result<(), OpenError> {
        let Terms { registration, counter, endpoint } = terms;
        let counted = counter.is_some() && asks_for_rma_events(&self.domain);
        if let Some(counter) = counter {
            let bond = counter.bond();
            // SAFETY: registered just now.
            let raw = unsafe { self.raw_mut() };
            // SAFETY: both are open, of one domain, and the region is not enabled yet. The counter stays open: it is bound.
            unsafe { T::mr_bind_counter(raw, counter.raw()) }?;
            self.count_by(bond);
        }
        // SAFETY: as above.
        let raw = unsafe { self.raw_mut() };
        if let Some(endpoint) = endpoint {
            // SAFETY: as above; the endpoint by the caller's promise.
            unsafe { T::mr_bind_endpoint(raw, endpoint) }?;
        }
        if endpoint.is_some() || counted {
            // SAFETY: the region is open, and bound to what it needs.
            unsafe { T::mr_enable(raw) }?;
        }
        match registration.key {
            // The provider has chosen all the same.
            Some(key) if T::mr_key(raw) != key => Err(OpenError::KeyNotAvailable),
            _ => Ok(()),
        }
    }
}

/// Whether regions have to be told that they will be counted, and be enabled afterwards.
fn asks_for_rma_events<T: Transport>(domain: &DomainInner<T>) -> bool {
    domain.attributes().domain.mr_mode.contains(MrMode::RMA_EVENT)
}

/// Whether the domain binds a region with this access to an endpoint.
pub(super) fn is_bound_to_endpoint<T: Transport>(domain: &DomainInner<T>, access: Access) -> bool {
    is_remote(access) && domain.attributes().domain.mr_mode.contains(MrMode::ENDPOINT)
}

/// Whether a region of the domain can have a key that the application chooses: this one.
fn is_choosable<T: Transport>(domain: &DomainInner<T>, key: MemoryKey) -> Result<(), OpenError> {
    let attributes = &domain.attributes().domain;
    let bits = attributes.mr_key_size.saturating_mul(8);
    let fits = bits >= 64 || key.0 >> bits == 0;
    if !fits || attributes.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC) {
        return Err(OpenError::KeyNotAvailable);
    }
    Ok(())
}
