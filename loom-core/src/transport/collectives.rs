use super::{Context, Refusal, Transport};
use crate::buffer::Lent;
use crate::collective::Collective;
use crate::vocabulary::{Errno, FabricAddr};

/// Limits of a collective operation: `struct fi_collective_attr`.
///
/// ```
/// use loom_core::{Caps, collective::{Collective, ReduceOp}};
///
/// # fixture::domain!(network, domain; Caps::MSG | Caps::COLLECTIVE);
/// // The program asks before it makes groups.
/// let granted = domain.query_collective(Collective::all_reduce(ReduceOp::<f64>::SUM))?;
/// assert!(granted.max_members >= 2);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_collective_attr")]
pub struct CollectiveAttr {
    /// Maximum number of members of a group.
    pub max_members: usize,
}

/// Collective operation of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    /// The operation.
    pub collective: Collective,
    /// Number of elements in one part, which one member sends to, or receives from, one other
    /// member. Zero for a barrier.
    pub count: usize,
    /// Rank of the member that has the elements or gets the result. Zero for operations without a
    /// root.
    pub root: usize,
}

/// A transport with collective operations (`FI_COLLECTIVE`).
///
/// ```
/// use loom_core::{Cq, Error, Forever, endpoint::CollectiveGroup, transport::Collectives};
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
/// ```
///
/// # Contract of callers
///
/// [H1 to H4, T1, T2, N1, N2, L1 to L4, O1 to O3, M1 to M3, and O4, K1,
/// K2](super#contract-of-callers).
///
/// # Safety
///
/// The promises of [`Transport`], and [P18 and P19](super#promises-of-implementations).
pub unsafe trait Collectives: Transport {
    /// `fid_mc` of a collective group.
    type CollectiveGroup;

    /// `fi_query_collective`
    ///
    /// # Errors
    /// `EOPNOTSUPP` or another number for operations that endpoints of the domain lack.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn query_collective(domain: &Self::Domain, collective: Collective) -> Result<CollectiveAttr, Errno>;
    /// `fi_av_set` of these members in the order of their ranks, and `fi_join_collective`. Only
    /// begins to join: [`collective_joined`](Self::collective_joined) reports the result.
    ///
    /// # Errors
    /// `EINVAL` if the endpoint is not a member, `EHOSTUNREACH` if a member is known to be gone,
    /// `ENOSPC` for lack of room for another group.
    ///
    /// # Safety
    /// Contract of callers. The members are addresses of the endpoint's vector (O1), each once,
    /// and every iteration yields the same members.
    unsafe fn join_collective(
        endpoint: &Self::Endpoint,
        members: impl Iterator<Item = FabricAddr> + Clone,
    ) -> Result<Self::CollectiveGroup, Errno>;
    /// Returns `true` if every member has joined.
    ///
    /// # Errors
    /// The group cannot form or no longer exists: a member is gone, or the provider failed.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn collective_joined(endpoint: &Self::Endpoint, group: &Self::CollectiveGroup) -> Result<bool, Errno>;
    /// Returns the limits of an operation on parts of `count` elements in the group. Every member
    /// gets the same result at all times.
    ///
    /// # Errors
    /// The number with which [`collective`](Self::collective) refuses the operation.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn admits_collective(
        endpoint: &Self::Endpoint,
        group: &Self::CollectiveGroup,
        collective: Collective,
        count: usize,
    ) -> Result<CollectiveAttr, Errno>;
    /// `fi_close` of a group: the endpoint no longer takes part in it. Its operations in the group
    /// complete as usual, with an event.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn leave_collective(endpoint: &Self::Endpoint, group: &Self::CollectiveGroup);
    /// `fi_barrier`, `fi_broadcast`, `fi_alltoall`, `fi_allreduce`, `fi_allgather`,
    /// `fi_reduce_scatter`, `fi_reduce`, `fi_scatter` or `fi_gather`. In a broadcast, the operands
    /// are the root's elements, and `results` receives them at every member.
    ///
    /// # Errors
    /// [`Refusal::Again`] also until every member has joined. `EOPNOTSUPP` or another number for
    /// operations that [`query_collective`](Self::query_collective) denies.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn collective(
        endpoint: &Self::Endpoint,
        group: &Self::CollectiveGroup,
        call: &CollectiveCall,
        operands: &Lent,
        results: &Lent,
        context: Context,
    ) -> Result<(), Refusal>;
}
