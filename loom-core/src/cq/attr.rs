use core::alloc::Layout;

use allocator_api2::alloc::Allocator;

use super::EndpointSlot;
use super::{CqInner, PEER_EVENTS};
use crate::buffer::Buffer;
use crate::engine::op_table::NO_SLOT;
use crate::error::OpenError;
use crate::storage::array;
use crate::storage::handle::Plan;
use crate::transport::Transport;
use crate::vocabulary::WaitObj;

/// Options of a queue.
///
/// ```
/// use loom_core::{Av, Cq, CqAttr, Forever, Source, allocator_api2::alloc::Global, soft::Soft};
/// use loom_core::engine::op_table::Direction;
///
/// # fixture::domain!(network, domain);
/// # let av = Av::open(&domain, 2)?;
/// // 64 operations in flight, two endpoints, and a provider queue for each direction.
/// let attr = CqAttr { endpoints: 2, separate: true, ..CqAttr::new(64) };
/// // The queue takes this memory from its allocator.
/// assert!(attr.layout::<Soft<'_>, Vec<u8>, Global>()?.size() > 64 * size_of::<Vec<u8>>());
/// let cq = Cq::open(&domain, attr)?;
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// // The program polls each direction alone.
/// while cq.poll_direction(Direction::Transmit)?.is_none() {}
/// while cq.poll_direction(Direction::Receive)?.is_none() {}
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct CqAttr {
    /// Maximum number of operations in flight.
    #[doc(alias = "size")]
    pub depth: usize,
    /// Maximum number of open endpoints, below `u16::MAX`.
    #[cfg_attr(feature = "serde", serde(default = "CqAttr::default_endpoints"))]
    pub endpoints: u16,
    /// Opens separate provider queues for transmits and receives, to poll each alone.
    #[cfg_attr(feature = "serde", serde(default))]
    pub separate: bool,
    /// Wait object to sleep on, with one provider queue for both directions. [`WaitObj::FD`] for
    /// [`Cq::poll_for`](super::Cq::poll_for) and [`Cq::wait_fd`](super::Cq::wait_fd). Only
    /// [`WaitObj::NONE`] works over `shm`, and over the software transport without the feature
    /// `std`, on non-Unix systems and in a strict network.
    ///
    /// ```
    /// use loom_core::{Cq, CqAttr, Errno, OpenError, WaitObj, allocator_api2::alloc::Global};
    ///
    /// # fixture::domain!(network, domain);
    /// let attr = CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) };
    /// match Cq::<_, Vec<u8>>::open_in(&domain, attr, Global) {
    ///     Ok(cq) => assert!(cq.wait_fd().is_ok()),
    ///     // There is nothing to sleep on: over `shm`, and in a strict network.
    ///     Err(error) => assert_eq!(error, OpenError::Errno(Errno::ENOSYS)),
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "wait_obj")]
    #[cfg_attr(feature = "serde", serde(default))]
    pub wait: WaitObj,
    /// Opens the queue without the wait object if the provider lacks it
    /// ([`Cq::wait_obj`](super::Cq::wait_obj)).
    #[cfg_attr(feature = "serde", serde(default))]
    pub wait_is_optional: bool,
    /// Allows claims
    /// ([`Endpoint::tagged_peek_claim`](crate::endpoint::Endpoint::tagged_peek_claim)) also where
    /// the provider keeps them in operation contexts (`struct fi_context`).
    #[cfg_attr(feature = "serde", serde(default))]
    pub claims: bool,
}

impl CqAttr {
    /// Options for `depth` operations in flight, 16 endpoints and one provider queue.
    #[must_use]
    pub const fn new(depth: usize) -> Self {
        CqAttr { depth, endpoints: 16, separate: false, wait: WaitObj::NONE, wait_is_optional: false, claims: false }
    }

    #[cfg(feature = "serde")]
    const fn default_endpoints() -> u16 {
        Self::new(1).endpoints
    }

    pub(super) const fn events(&self) -> usize {
        self.depth.saturating_add(PEER_EVENTS)
    }

    /// Layout of a queue's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::OutOfRange`] if the depth is zero or a number is too large, and
    /// [`OpenError::Size`].
    pub fn layout<T: Transport, B: Buffer, A: Allocator>(&self) -> Result<Layout, OpenError> {
        Ok(self.parts::<T, B, A>()?.plan.layout())
    }

    pub(super) fn parts<T: Transport, B: Buffer, A: Allocator>(&self) -> Result<Parts, OpenError> {
        let depth = u32::try_from(self.depth).ok().filter(|depth| (1..NO_SLOT).contains(depth));
        let depth = depth.ok_or(OpenError::OutOfRange("CqAttr::depth"))?;
        if self.endpoints == u16::MAX {
            return Err(OpenError::OutOfRange("CqAttr::endpoints"));
        }
        let mut plan = Plan::of_place::<A>(CqInner::<T, B>::place_layout(self.depth)?)?;
        let endpoint_slots = plan.add(array::<EndpointSlot<T>>(self.endpoints.into())?)?;
        let tx = plan.add(T::cq_layout(self.events()))?;
        let rx = if self.separate { plan.add(T::cq_layout(self.events()))? } else { tx };
        Ok(Parts { plan, depth, endpoint_slots, tx, rx })
    }
}

impl From<usize> for CqAttr {
    fn from(depth: usize) -> Self {
        CqAttr::new(depth)
    }
}

pub(super) struct Parts {
    pub(super) plan: Plan,
    pub(super) depth: u32,
    pub(super) endpoint_slots: usize,
    pub(super) tx: usize,
    pub(super) rx: usize,
}
