//! [`Collectives`]: transports in which groups of endpoints act together.

use super::{Context, Refusal, Transport};
use crate::buffer::Lent;
use crate::collective::Collective;
use crate::vocabulary::{Errno, FabricAddr};

/// What a domain grants of a collective operation: `struct fi_collective_attr`.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::collective::{Collective, ReduceOp};
/// use loom_core::{Caps, Domain, Hints};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
/// let domain = Domain::open(&network.query(&hints)?)?;
/// // The program asks before it makes groups.
/// let granted = domain.query_collective(Collective::all_reduce(ReduceOp::<f64>::SUM))?;
/// assert!(granted.max_members >= 2);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_collective_attr")]
pub struct CollectiveAttr {
    /// The most members of a group.
    pub max_members: usize,
}

/// One collective operation of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// The operation.
    pub collective: Collective,
    /// The elements of one part: what one member gives to, or gets of, one other. Zero of a barrier.
    pub count: usize,
    /// The rank of the member that has the elements, or gets the result; zero where there is none.
    pub root: usize,
}

/// A transport with collective operations (`FI_COLLECTIVE`).
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::CollectiveGroup;
/// use loom_core::transport::Collectives;
/// use loom_core::{Cq, Error, Forever};
///
/// /// Returns when every member of the group has called it.
/// fn meet<T: Collectives>(
///     cq: &Cq<'_, T, Vec<u8>>,
///     group: &CollectiveGroup<'_, T, Vec<u8>>,
/// ) -> Result<(), Error> {
///     let key = cq.retry(Forever, || group.barrier())?;
///     cq.finish_value(key, Forever)?.result()?;
///     Ok(())
/// }
/// # }
/// ```
///
/// # Contract of callers
///
/// [C1 to C18, and C28 to C30](super#contract-of-callers).
///
/// # Safety
///
/// Implementations promise what [`Transport`] does, and [P18 and P19](super#promises-of-implementations).
pub unsafe trait Collectives: Transport {
    /// `fid_mc`, of a collective group.
    type CollectiveGroup;

    /// `fi_query_collective`
    ///
    /// # Errors
    /// `EOPNOTSUPP` or another number for what endpoints of the domain do not have.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn query_collective(domain: &Self::Domain, collective: Collective) -> Result<CollectiveAttr, Errno>;
    /// `fi_av_set` of these members, in the order of their ranks, and `fi_join_collective`. It begins; how it went says
    /// [`collective_joined`](Self::collective_joined).
    ///
    /// # Errors
    /// `EINVAL` if the endpoint is not among the members; `EHOSTUNREACH` if one of them is known to be gone; `ENOSPC` if there is no
    /// room for another group.
    ///
    /// # Safety
    /// The contract of callers; the members are addresses of the endpoint's vector (C13), each once, and the same each time that they are
    /// iterated.
    unsafe fn join_collective(
        endpoint: &Self::Endpoint,
        members: impl Iterator<Item = FabricAddr> + Clone,
    ) -> Result<Self::CollectiveGroup, Errno>;
    /// Whether every member has joined.
    ///
    /// # Errors
    /// The group will never be, or is no more: a member is gone, or the provider has failed.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn collective_joined(endpoint: &Self::Endpoint, group: &Self::CollectiveGroup) -> Result<bool, Errno>;
    /// Whether the group has an operation on parts of `count` elements, and of how many members: the same for every member and at all times.
    ///
    /// # Errors
    /// The number with which [`collective`](Self::collective) refuses it.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn admits_collective(
        endpoint: &Self::Endpoint,
        group: &Self::CollectiveGroup,
        collective: Collective,
        count: usize,
    ) -> Result<CollectiveAttr, Errno>;
    /// The endpoint takes no part in the group any more: `fi_close` of a group. Its operations in the group end as others do, with an
    /// event.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn leave_collective(endpoint: &Self::Endpoint, group: &Self::CollectiveGroup);
    /// `fi_barrier`, `fi_broadcast`, `fi_alltoall`, `fi_allreduce`, `fi_allgather`, `fi_reduce_scatter`, `fi_reduce`, `fi_scatter` or
    /// `fi_gather`. Of a broadcast, the root's elements are the operands, and every member's place for them is `results`, which may be
    /// the same range.
    ///
    /// # Errors
    /// [`Refusal::Again`] also as long as not every member has joined; `EOPNOTSUPP` or another number for what
    /// [`query_collective`](Self::query_collective) denies.
    ///
    /// # Safety
    /// The contract of callers.
    unsafe fn collective(
        endpoint: &Self::Endpoint,
        group: &Self::CollectiveGroup,
        call: &CollectiveCall,
        operands: &Lent,
        results: &Lent,
        context: Context,
    ) -> Result<(), Refusal>;
}
