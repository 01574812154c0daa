//! Registering memory: what is asked of the transport, and what its refusals mean.

#![allow(unsafe_code, reason = "opens, binds and closes raw handles")]

use core::ptr::NonNull;

use super::{Mr, is_remote};
use crate::buffer::Lent;
use crate::error::OpenError;
use crate::exposed::Window;
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
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
pub(super) struct Terms<'e, 'd, T: Transport> {
    pub(super) registration: Registration,
    /// Of peers' writes.
    pub(super) counter: Option<&'d Counter<'d, T>>,
    /// Where the domain binds regions to endpoints.
    pub(super) endpoint: Option<&'e T::Endpoint>,
}

/// Registers memory.
///
/// # Safety
/// What is lent stays valid for what the access says until the region is closed, or, if peers have no access, whenever a post
/// names the region.
pub(super) unsafe fn register<T: Transport>(
    domain: &Domain<T>,
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

impl<'d, T: Transport> Mr<'d, T> {
    /// Registers memory; [`enable`](Self::enable) follows.
    ///
    /// # Safety
    /// What is lent stays valid, and nobody but peers and windows accesses it, until [`deregister`](Self::deregister)
    /// succeeded and no endpoint can reach it any more.
    pub(super) unsafe fn register(
        domain: &'d Domain<T>,
        lent: &Lent,
        terms: &Terms<'_, 'd, T>,
    ) -> Result<Self, OpenError> {
        let mut registration = terms.registration;
        let access = registration.access;
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
        // SAFETY: the caller's promise.
        let raw = unsafe { register(domain, lent, registration) }?;
        domain.child_opened();
        let memory = (lent.ptr().addr().get() as u64, lent.len() as u64);
        let (ptr, len) = if lent.kind() == HmemIface::SYSTEM && registration.dmabuf.is_none() {
            (lent.ptr(), lent.len())
        } else {
            (NonNull::dangling(), 0)
        };
        // SAFETY: the caller's promise.
        let window = unsafe { Window::new(ptr, len, lent.is_writable()) };
        Ok(Mr { raw, domain, window, memory, fenced: Self::is_fenced(access), counter: None })
    }

    /// Binds the region to a counter and an endpoint, and enables it, as far as the domain asks for that. After an error it is
    /// there to be closed.
    ///
    /// # Safety
    /// Called once, after [`register`](Self::register) with these terms. The endpoint is open until the region is closed, and
    /// of its domain.
    pub(super) unsafe fn enable(&mut self, terms: &Terms<'_, 'd, T>) -> Result<(), OpenError> {
        let Terms { registration, counter, endpoint } = terms;
        if let Some(counter) = counter {
            counter.users().opened();
            // SAFETY: both are open, of one domain, and the region is not enabled yet. The counter stays open: it has a user.
            if let Err(errno) = unsafe { T::mr_bind_counter(&mut self.raw, counter.raw()) } {
                counter.users().closed();
                return Err(errno.into());
            }
            self.counter = Some(counter.users());
        }
        if let Some(endpoint) = endpoint {
            // SAFETY: as above; the endpoint by the caller's promise.
            unsafe { T::mr_bind_endpoint(&mut self.raw, endpoint) }?;
        }
        if endpoint.is_some() || (counter.is_some() && asks_for_rma_events(self.domain)) {
            // SAFETY: the region is open, and bound to what it needs.
            unsafe { T::mr_enable(&mut self.raw) }?;
        }
        match registration.key {
            // The provider has chosen all the same.
            Some(key) if self.key() != key => Err(OpenError::KeyNotAvailable),
            _ => Ok(()),
        }
    }
}

/// Whether regions have to be told that they will be counted, and be enabled afterwards.
fn asks_for_rma_events<T: Transport>(domain: &Domain<T>) -> bool {
    domain.attributes().domain.mr_mode.contains(MrMode::RMA_EVENT)
}

/// Whether the domain binds a region with this access to an endpoint.
pub(super) fn is_bound_to_endpoint<T: Transport>(domain: &Domain<T>, access: Access) -> bool {
    is_remote(access) && domain.attributes().domain.mr_mode.contains(MrMode::ENDPOINT)
}

/// Whether a region of the domain can have a key that the application chooses: this one.
fn is_choosable<T: Transport>(domain: &Domain<T>, key: MemoryKey) -> Result<(), OpenError> {
    let attributes = &domain.attributes().domain;
    let bits = attributes.mr_key_size.saturating_mul(8);
    let fits = bits >= 64 || key.0 >> bits == 0;
    if !fits || attributes.mr_mode.intersects(MrMode::PROV_KEY | MrMode::BASIC) {
        return Err(OpenError::KeyNotAvailable);
    }
    Ok(())
}
