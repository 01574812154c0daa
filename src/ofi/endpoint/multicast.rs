//! Multicast groups, and the implementation of [`Multicast`].
//!
//! Only `udp` has them, with these faults:
//! - It reports a failed join as a success with a longer entry: see `event_queue`.
//! - It closes a group by leaving it in the system. That fails for a group that was not joined, and
//!   then for its endpoint. So a socket of loom's own tries each join first. For endpoints that
//!   only send, see `quirks::multicasts`.
//! - Leaving also fails while no interface leads to the group, which then stays joined.

#![allow(unsafe_code, reason = "implements the unsafe trait `Multicast`, and calls libfabric")]

use core::cell::RefCell;
use core::net::{Ipv4Addr, SocketAddr};
use core::ptr::{self, NonNull};

use heapless::Vec;
use loom_core::transport::connected::Fid;
use loom_core::transport::{Bindings, EndpointError, Multicast};
use loom_core::vocabulary::{EndpointAddr, Errno, FabricAddr};

use super::Endpoint;
use crate::ofi::av::{Padded, takes};
use crate::ofi::control::close;
use crate::ofi::endpoint::open;
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{done, entry, later_entry};
use crate::ofi::info::RawInfo;
use crate::ofi::queue::event_queue::{Eq, named};
use crate::ofi::raw::Raw;
use crate::ofi::threading::{Handle, Level};
use crate::ofi::transport::Ofi;
use crate::ofi::{quirks, sys};

const GROUPS: usize = 8;

/// A joined multicast group, raw.
#[doc(alias = "fid_mc")]
#[derive(Debug)]
pub struct Group<L>(Handle<sys::fid_mc, L>);

/// All are left before the endpoint is closed, even with leaked handles.
#[derive(Debug)]
pub(crate) struct Groups<L>(RefCell<Vec<(Handle<sys::fid_mc, L>, Ipv4Addr), GROUPS>>);

impl<L> Group<L> {
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.0.fid()
    }
}

impl<L> Groups<L> {
    pub(crate) const fn none() -> Self {
        Groups(RefCell::new(Vec::new()))
    }

    /// Tries with a socket whether the system permits one more join.
    #[cfg(feature = "std")]
    fn check_join(&self, group: Ipv4Addr) -> Result<(), Errno> {
        let errno = |error: std::io::Error| error.raw_os_error().map_or(Errno::EOTHER, Errno::from_raw);
        let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(errno)?;
        let groups = self.0.borrow();
        groups
            .iter()
            .map(|(_, group)| *group)
            .chain([group])
            .try_for_each(|group| socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).map_err(errno))
    }

    #[cfg(not(feature = "std"))]
    fn check_join(&self, _: Ipv4Addr) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// # Safety
    /// Contract of callers: the endpoint of these groups is open.
    unsafe fn leave(&self, group: Raw<sys::fid>) -> Result<(), Errno> {
        let mut groups = self.0.borrow_mut();
        let place = groups.iter().position(|(other, _)| other.fid() == group).ok_or(Errno::EINVAL)?;
        // SAFETY: listed groups are open. If this fails, `udp` leaves the group as it was.
        unsafe { close(group) }?;
        groups.swap_remove(place);
        Ok(())
    }

    /// # Safety
    /// That of [`leave`](Self::leave).
    pub(crate) unsafe fn leave_all(&self) -> Result<(), Errno> {
        loop {
            let Some(group) = self.0.borrow().last().map(|(group, _)| group.fid()) else { return Ok(()) };
            // SAFETY: the caller keeps the endpoint open.
            unsafe { self.leave(group) }?;
        }
    }
}

unsafe fn join<L>(endpoint: &Endpoint<L>, address: &EndpointAddr, context: u64) -> Result<Group<L>, Errno> {
    let group = match SocketAddr::try_from(address) {
        Ok(socket) if !socket.ip().is_multicast() || !takes(endpoint.addr_format(), address) => Err(Errno::EINVAL),
        Ok(SocketAddr::V4(socket)) => Ok(*socket.ip()),
        Ok(SocketAddr::V6(_)) => Err(Errno::ENOSYS),
        Err(_) => Err(Errno::EINVAL),
    }?;
    let context = usize::try_from(context).map_err(|_| Errno::EINVAL)?;
    let groups = endpoint.groups();
    if groups.0.borrow().is_full() {
        return Err(Errno::ENOBUFS);
    }
    groups.check_join(group)?;
    let raw = endpoint.raw();
    let join = later_entry!(raw, cm: sys::fi_ops_cm => join)?;
    let padded = Padded::new(address);
    let mut joined = ptr::null_mut();
    // SAFETY: the endpoint is open and has an event queue (G1). The address has enough memory, and
    // is copied. `joined` receives the group, and the context is not followed.
    let code = unsafe {
        join(raw.as_ptr(), (&raw const padded).cast(), 0, &raw mut joined, ptr::without_provenance_mut(context))
    };
    // `udp` joins first and may then have no room for the event.
    let opened = NonNull::new(joined).map(Raw::opened);
    if let Some(opened) = opened {
        let _ = groups.0.borrow_mut().push((Handle::new(opened), group));
    }
    match (done(code), opened) {
        (Ok(()), Some(opened)) => Ok(Group(Handle::new(opened))),
        (Ok(()), None) => Err(Errno::EOTHER),
        (Err(errno), opened) => {
            // SAFETY: just joined. If it cannot be left, the close of the endpoint tries again, or
            // fails.
            let _ = opened.map(|opened| unsafe { groups.leave(opened.cast()) });
            Err(errno)
        }
    }
}

// SAFETY: open groups are in their endpoint's list, and `endpoint_close` closes them first. Only
// providers known to keep the promises join (`quirks::multicasts`): `udp` reads a group's address
// only in the send call, and its events carry the context.
unsafe impl<L: Level> Multicast for Ofi<L> {
    type Group = Group<L>;

    unsafe fn multicast_endpoint_open(
        domain: &Domain<L>,
        info: &RawInfo,
        bind: Bindings<'_, Self>,
        eq: &Eq<L>,
    ) -> Result<Endpoint<L>, EndpointError> {
        if !quirks::multicasts(domain.facts(), info) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let Bindings { tx, rx, av, counters, selective, options } = bind;
        let (vector_and_events, queues) = ([Some(av.fid()), Some(eq.fid())], (tx, rx));
        let bound = open::EndpointSetup { vector_and_events, queues, shared_rx: None, counters, selective, options };
        // SAFETY: open (H1).
        unsafe { open::open(domain, info, av.turn(), &bound) }
    }

    unsafe fn join(endpoint: &Endpoint<L>, address: &EndpointAddr, context: u64) -> Result<Group<L>, Errno> {
        // SAFETY: open with an event queue (H1, G1).
        unsafe { join(endpoint, address, context) }
    }

    fn group_fid(group: &Group<L>) -> Fid {
        named(group.0.fid().as_ptr())
    }

    unsafe fn group_address(group: &Group<L>) -> FabricAddr {
        // SAFETY: the group is joined (G2).
        FabricAddr(unsafe { group.0.raw().pointer().as_ref() }.fi_addr)
    }

    unsafe fn leave(endpoint: &Endpoint<L>, group: &Group<L>) -> Result<(), Errno> {
        // SAFETY: the endpoint is open, and the group joined (H1, G2).
        unsafe { endpoint.groups().leave(group.0.fid()) }
    }
}
