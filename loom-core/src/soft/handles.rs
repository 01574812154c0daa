//! The raw handles of the software transport: where they are in the network's storage.

#![allow(unsafe_code, reason = "refers to a network that is kept elsewhere")]

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::endpoint_state::{EndpointState, Report};
use super::faults::Plan;
use super::network::Net;
use super::queue::Queue;
use super::required_modes::RequiredModes;

use crate::handle::Handle;
use crate::transport::Msg;
use crate::vocabulary::{MemoryKey, OpFlags};

/// A network that some handle keeps: a raw handle is used as long as the info that it was opened from.
pub(super) struct NetRef<'n> {
    net: NonNull<Net>,
    memory: PhantomData<&'n Net>,
}

// SAFETY: a network is `Sync`.
unsafe impl Send for NetRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for NetRef<'_> {}

impl Copy for NetRef<'_> {}

impl Clone for NetRef<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Deref for NetRef<'_> {
    type Target = Net;

    #[inline]
    fn deref(&self) -> &Net {
        // SAFETY: domains keep their info, and everything that is opened on them keeps the domain.
        unsafe { self.net.as_ref() }
    }
}

/// A network, as something that can be opened.
#[derive(Clone)]
pub struct SoftInfo<'n> {
    /// Keeps the network.
    pub(super) net: Handle<'n, Net>,
    /// What goes wrong, and what its domains ask of the application.
    pub(super) plan: Plan,
}

impl<'n> SoftInfo<'n> {
    pub(super) fn new(net: Handle<'n, Net>, plan: Plan) -> Self {
        SoftInfo { net, plan }
    }

    pub(super) fn network(&self) -> NetRef<'n> {
        NetRef { net: self.net.value_ptr(), memory: PhantomData }
    }
}

/// The raw fabric of a network.
pub struct SoftFabric<'n> {
    pub(super) net: NetRef<'n>,
}

/// A raw domain.
pub struct SoftDomain<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) number: u32,
    pub(super) modes: RequiredModes,
}

/// A raw address vector. Fabric addresses say themselves where an endpoint is.
pub struct SoftAv<'n> {
    pub(super) net: NetRef<'n>,
}

/// A raw completion queue.
pub struct SoftCq<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) queue: NonNull<Queue>,
}

impl SoftCq<'_> {
    #[inline(always)]
    pub(super) fn queue(&self) -> &Queue {
        // SAFETY: built by `cq_open`, in memory that stays until the queue is closed (C16); and it is open (C1).
        unsafe { self.queue.as_ref() }
    }
}

/// A raw memory region.
pub struct SoftMr<'n> {
    pub(super) net: NetRef<'n>,
    pub(super) key: MemoryKey,
    /// The fabric address of the endpoint that it is bound to. Not its port, which is one thread's: a region can be shared.
    pub(super) endpoint: Option<u64>,
}

/// A raw endpoint. It stays on the thread of its queue: what its port keeps for itself is in cells.
pub struct SoftEndpoint<'n> {
    pub(super) net: NetRef<'n>,
    /// In the network.
    pub(super) port: NonNull<EndpointState>,
    /// Its domain asks for something, or something goes wrong.
    pub(super) extra_checks: bool,
    /// Sends, reads and writes that are posted with flags report their success if the flags ask for it.
    pub(super) selective: bool,
    /// A port is `Sync`, because peers reach its inbox; its endpoint is not.
    pub(super) one_thread: PhantomData<Cell<()>>,
}

impl SoftEndpoint<'_> {
    #[inline]
    pub(super) fn port(&self) -> &EndpointState {
        // SAFETY: ports are there as long as their network.
        unsafe { self.port.as_ref() }
    }

    /// What an operation tells that is posted with flags.
    pub(super) fn report(&self, msg: &Msg<'_>) -> Report {
        if self.selective && !msg.flags.contains(OpFlags::COMPLETION) { Report::Failure } else { Report::All }
    }
}

macro_rules! opaque_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("network", &self.net.identity).finish_non_exhaustive()
            }
        }
    )*};
}
opaque_debug!(SoftInfo, SoftFabric, SoftDomain, SoftAv, SoftCq, SoftMr, SoftEndpoint);
