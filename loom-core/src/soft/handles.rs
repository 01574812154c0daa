//! Raw handles: positions in the network's storage.

#![allow(unsafe_code, reason = "refers to a network that is kept elsewhere")]

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::faults::Rules;
use super::faults::required_modes::RequiredModes;
use super::network::Net;
use super::network::endpoint_state::{EndpointState, Report};
use super::shared::queue::Queue;

use crate::storage::handle::Handle;
use crate::transport::Msg;
use crate::util::debug::debug_struct;
use crate::vocabulary::{MemoryKey, OpFlags};

/// Raw handles do not outlive the info from which they were opened.
#[derive(Clone, Copy)]
pub(super) struct NetRef<'n> {
    net: NonNull<Net>,
    memory: PhantomData<&'n Net>,
}

// SAFETY: a network is `Sync`.
unsafe impl Send for NetRef<'_> {}
// SAFETY: a network is `Sync`.
unsafe impl Sync for NetRef<'_> {}

impl Deref for NetRef<'_> {
    type Target = Net;

    #[inline]
    fn deref(&self) -> &Net {
        // SAFETY: domains keep their info, and objects opened on a domain keep the domain.
        unsafe { self.net.as_ref() }
    }
}

/// Raw info of a network.
#[derive(Clone)]
pub struct SoftInfo<'n> {
    pub(super) net: Handle<'n, Net>,
    pub(super) rules: Rules,
}

impl<'n> SoftInfo<'n> {
    pub(super) fn network(&self) -> NetRef<'n> {
        NetRef { net: self.net.value_ptr(), memory: PhantomData }
    }
}

/// Raw fabric.
pub struct SoftFabric<'n> {
    pub(super) net: NetRef<'n>,
}

/// Raw domain.
pub struct SoftDomain<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) number: u32,
    pub(super) modes: RequiredModes,
}

/// Raw address vector.
pub struct SoftAv<'n> {
    pub(super) net: NetRef<'n>,
}

/// Raw completion queue.
pub struct SoftCq<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) queue: NonNull<Queue>,
}

impl SoftCq<'_> {
    #[inline(always)]
    pub(super) fn queue(&self) -> &Queue {
        // SAFETY: `cq_open` built the queue in memory that stays until it is closed (M1), and it
        // is open (H1).
        unsafe { self.queue.as_ref() }
    }
}

/// Raw memory region.
pub struct SoftMr<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) key: MemoryKey,
    /// Not its port, which one thread uses: a region can be shared.
    pub(super) endpoint: Option<u64>,
}

/// Raw endpoint, used on the thread of its queue.
pub struct SoftEndpoint<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) port: NonNull<EndpointState>,
    /// `true` if the domain requires modes or the plan injects faults.
    pub(super) extra_checks: bool,
    /// `true` if operations posted with flags report success only if the flags request it.
    pub(super) selective: bool,
    /// Not `Sync`, unlike its port, in which peers reach the inbox.
    pub(super) one_thread: PhantomData<Cell<()>>,
}

impl SoftEndpoint<'_> {
    #[inline]
    pub(super) fn port(&self) -> &EndpointState {
        // SAFETY: ports stay as long as their network.
        unsafe { self.port.as_ref() }
    }

    pub(super) fn report(&self, msg: &Msg<'_>) -> Report {
        if self.selective && !msg.flags.contains(OpFlags::COMPLETION) { Report::Failure } else { Report::All }
    }
}

macro_rules! opaque_debug {
    ($($name:ident),*) => {$(debug_struct!($name['_], |it| network: it.net.identity);)*};
}
opaque_debug!(SoftInfo, SoftFabric, SoftDomain, SoftAv, SoftCq, SoftMr, SoftEndpoint);
