//! [`CollectiveGroup`]: endpoints that act together.

#![allow(unsafe_code, reason = "joins, uses and leaves raw groups")]

use core::fmt;

use allocator_api2::alloc::Allocator;

use super::Endpoint;
use super::opened::Opened;
use super::post::{OpKind, map_refusal};
use crate::atomic::Element;
use crate::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use crate::collective::{Collective, ReduceOp};
use crate::cq::Cq;
use crate::domain::Domain;
use crate::engine::address_table::AddressSet;
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, PostError, Rejected};
use crate::transport::{CollectiveAttr, CollectiveCall, Collectives, Context};
use crate::vocabulary::{Caps, CollectiveOp, Errno, FabricAddr};

impl<T: Collectives> Domain<'_, T> {
    /// Asks whether endpoints of this domain have a collective operation, and of how many members.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the domain's info does not grant [`Caps::COLLECTIVE`], or the provider does not have the operation for this type;
    /// or any other number of the provider's.
    ///
    /// # References
    /// - `man fi_collective`, section *Query Collective*
    #[doc(alias = "fi_query_collective")]
    pub fn query_collective(&self, collective: Collective) -> Result<CollectiveAttr, Errno> {
        if !self.attributes().caps.contains(Caps::COLLECTIVE) {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: a domain is open as long as there is a handle (C1).
        unsafe { T::query_collective(self.raw(), collective) }
    }
}

impl<'m, T: Collectives, B: Buffer> Endpoint<'m, T, B> {
    /// Joins the members of a set, of which this endpoint is one, for collective operations. Each of them joins, with a set of the same
    /// members in the same order: their ranks.
    ///
    /// It takes until the last has joined. Until then operations in the group are refused with [`PostError::Again`], so that
    /// [`Cq::retry`](crate::cq::Cq::retry) and [`Cq::post`](crate::cq::Cq::post) wait for the members;
    /// [`CollectiveGroup::is_joined`] asks. An endpoint may be in several groups, also of the same members, which join them in the same order.
    ///
    /// # Errors
    /// - [`OpenError::NotGranted`] without [`Caps::COLLECTIVE`]
    /// - [`OpenError::UnknownPeer`] if a member is not in the endpoint's address vector any more
    /// - [`OpenError::NotMember`] if the set does not have this endpoint
    /// - [`OpenError::Errno`] with `EHOSTUNREACH` if a member is known to be gone, or another number of the provider's; over
    ///   `tcp;ofi_rxm`, `ENOSPC` if there is no room for another group
    /// - [`OpenError::Limit`] if the software network has no room for another group
    ///   ([`NetworkAttr::groups`](crate::soft::NetworkAttr::groups))
    ///
    /// # References
    /// - `man fi_collective`, section *Join Collective*
    #[doc(alias = "fi_join_collective")]
    pub fn join_collective<A: Allocator>(&self, set: &AddressSet<A>) -> Result<CollectiveGroup<'m, T, B>, OpenError> {
        self.limits().granted(Caps::COLLECTIVE).map_err(|_| OpenError::NotGranted(Caps::COLLECTIVE))?;
        let av = self.av();
        let me = av.find(&self.address()?).ok_or(OpenError::NotMember)?;
        let rank = set.rank(me).ok_or(OpenError::NotMember)?;
        let joined = av.with_addrs(set.members(), |members| {
            // SAFETY: the endpoint is open (C1), on this thread (C5); the members are addresses of its vector (C13), and stay there meanwhile:
            // each once, because a set has a peer once, and the same each time.
            unsafe { T::join_collective(self.raw(), members) }
        });
        let raw = joined.ok_or(OpenError::UnknownPeer)?.map_err(OpenError::refused::<T>)?;
        Ok(CollectiveGroup { endpoint: self.clone(), raw, rank, size: set.len() })
    }
}

/// Endpoints that act together: an endpoint's membership among others.
///
/// Every member calls the same operations, in the same order, with the same types, reductions and roots, and parts of the same number
/// of elements. An operation is over for a member when its completion comes. Several may be under way.
///
/// A buffer holds the operands, and behind them room for the results. With *part* for the elements that one member gives to, or gets of,
/// one other, and a group of *n* members:
///
/// | operation | the buffer holds | at members that are not the root |
/// |---|---|---|
/// | [`broadcast`](Self::broadcast) | one part, which is the root's afterwards | the same |
/// | [`all_reduce`](Self::all_reduce) | one part, and one of results | |
/// | [`reduce`](Self::reduce) | one part, and one of results | one part |
/// | [`reduce_scatter`](Self::reduce_scatter) | *n* parts, and one of results | |
/// | [`all_gather`](Self::all_gather) | one part, and *n* of results | |
/// | [`gather`](Self::gather) | one part, and *n* of results | one part |
/// | [`scatter`](Self::scatter) | *n* parts, and one of results | one part, of results |
/// | [`all_to_all`](Self::all_to_all) | *n* parts, and *n* of results | |
///
/// Parts are in the order of the ranks. [`barrier`](Self::barrier), and the operations on one value, need no buffer; their completion is a
/// [`Completion::Value`](crate::completion::Completion::Value), which [`Cq::wait_value`](crate::cq::Cq::wait_value) waits for.
///
/// It is a handle of the endpoint, too. Dropping it leaves the group, and so does closing the endpoint. Over the software transport, operations
/// that have not run by then end with `ECANCELED`, and those of the other members with `ECONNRESET`. (`tcp;ofi_rxm` keeps groups until the
/// endpoint is closed, and does not tell others: `docs/limits.md`.)
///
/// A member that leaves before all have joined does not join another group of the same members until they have: theirs would meet that one.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::collective::ReduceOp;
/// use loom_core::{av::Av, cq::Cq, deadline::Forever, domain::Domain};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Caps, Hints};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
/// let domain = Domain::open(&network.query(&hints)?)?;
/// let (av, cq) = (Av::open(&domain, 3)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// // Mostly each member is a process or a thread of its own.
/// let endpoints = [cq.endpoint(&av)?, cq.endpoint(&av)?, cq.endpoint(&av)?];
/// let mut set = av.set_in(3, allocator_api2::alloc::Global)?;
/// for endpoint in &endpoints {
///     set.insert(av.insert(&endpoint.address()?)?)?;
/// }
/// let mut groups = Vec::new();
/// for endpoint in &endpoints {
///     groups.push(endpoint.join_collective(&set)?);
/// }
/// let mut keys = Vec::new();
/// for group in &groups {
///     let value = group.rank() as u64 + 1;
///     keys.push(cq.retry(Forever, || group.all_reduce_value(ReduceOp::SUM, value))?);
/// }
/// for key in keys {
///     let sum = cq.finish_value(key, Forever)?;
///     assert_eq!(sum.value::<u64>()?, Some(1 + 2 + 3));
/// }
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// - `man fi_collective`
#[doc(alias = "fid_mc")]
#[doc(alias = "FI_COLLECTIVE")]
pub struct CollectiveGroup<'m, T: Collectives, B: Buffer> {
    endpoint: Endpoint<'m, T, B>,
    raw: T::CollectiveGroup,
    rank: usize,
    size: usize,
}

impl<'m, T: Collectives, B: Buffer> CollectiveGroup<'m, T, B> {
    /// This member's rank.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// How many members there are.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Whether every member has joined. It is so after the queue was polled often enough, here and at the others.
    ///
    /// # Errors
    /// The group never will be, or is no more: `ECONNRESET` over the software transport if a member has gone, or a number of the provider's.
    #[doc(alias = "FI_JOIN_COMPLETE")]
    pub fn is_joined(&self) -> Result<bool, Errno> {
        // SAFETY: the endpoint is open (C1), on this thread (C5), and has joined the group (C29).
        unsafe { T::collective_joined(self.endpoint.raw(), &self.raw) }
    }

    /// The queue of the endpoint, which operations of the group complete into.
    #[must_use]
    pub const fn cq(&self) -> &Cq<'m, T, B> {
        self.endpoint.cq()
    }

    /// Asks whether the group has an operation on parts of `count` elements each. The answer depends on these, on the provider and on its
    /// parameters alone: every member gets the same, also before all have joined. An operation that is admitted may still be refused because
    /// of the buffer, or because of what has become of the group.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENOSYS`, `EMSGSIZE`, `EINVAL` or another number: posts of it are refused with the same.
    pub fn admits(&self, collective: Collective, count: usize) -> Result<(), Errno> {
        // SAFETY: the endpoint is open (C1), on this thread (C5), and has joined the group (C29).
        let most = unsafe { T::admits_collective(self.endpoint.raw(), &self.raw, collective, count) }?.max_members;
        if self.size <= most { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
    }

    /// Completes when every member has called it.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::{Av, Caps, Cq, Domain, Forever, Hints};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
    /// # let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let endpoints = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let mut set = av.set_in(2, loom_core::allocator_api2::alloc::Global)?;
    /// # for endpoint in &endpoints {
    /// #     set.insert(av.insert(&endpoint.address()?)?)?;
    /// # }
    /// # let groups = [endpoints[0].join_collective(&set)?, endpoints[1].join_collective(&set)?];
    /// let mut keys = Vec::new();
    /// for group in &groups {
    ///     keys.push(cq.retry(Forever, || group.barrier())?);
    /// }
    /// // The barrier completes when every member has posted it.
    /// for key in keys {
    ///     cq.finish_value(key, Forever)?.result()?;
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError::Again`] until every member has joined, or if too many operations are under way; [`PostError::Errno`] with
    /// `ECONNRESET` over the software transport if a member has gone, or with another number of the provider's. Of a value:
    /// [`PostError::NotRegistered`] where the provider asks for local registration (`FI_MR_LOCAL`).
    #[doc(alias = "fi_barrier")]
    #[doc(alias = "fi_barrier2")]
    pub fn barrier(&self) -> Result<OpKey, PostError> {
        self.post_value::<u8>(Collective::BARRIER, 0, 0)
    }

    /// Brings the root's value to every member. Other members' values are not looked at.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`PostError::NotMember`] if no member has the root's rank.
    #[doc(alias = "fi_broadcast")]
    pub fn broadcast_value<E: Element>(&self, root: usize, value: E) -> Result<OpKey, PostError> {
        self.post_value(Collective::broadcast::<E>(), root, value)
    }

    /// Combines the values of all members, and brings every member the result.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    #[doc(alias = "fi_allreduce")]
    pub fn all_reduce_value<E: Element>(&self, op: ReduceOp<E>, value: E) -> Result<OpKey, PostError> {
        self.post_value(Collective::all_reduce(op), 0, value)
    }

    /// Posts an operation on one element or none.
    fn post_value<E: Element>(&self, collective: Collective, root: usize, value: E) -> Result<OpKey, PostError> {
        let opened = &self.endpoint.opened;
        opened.check(Caps::COLLECTIVE, || Ok(FabricAddr::UNSPEC), None)?;
        let elements = usize::from(collective.op() != CollectiveOp::BARRIER);
        if elements > 0 && opened.limits.local {
            return Err(PostError::NotRegistered);
        }
        let call = self.call(collective, elements, root)?;
        opened.cq().ops().post_values(opened.index(), (value, value), elements > 0, |lent, context| {
            let range = |lent: &Lent| lent.first(elements * size_of::<E>());
            self.submit(&call, &range(&lent.operand), &range(&lent.result), context)
        })
    }

    fn call(&self, collective: Collective, count: usize, root: usize) -> Result<CollectiveCall, PostError> {
        if root >= self.size {
            return Err(PostError::NotMember);
        }
        Ok(CollectiveCall { collective, count, root })
    }

    /// Submits an operation whose lengths are right, and whose memory stays in the op table.
    fn submit(
        &self,
        call: &CollectiveCall,
        operands: &Lent,
        results: &Lent,
        context: Context,
    ) -> Result<(), PostError> {
        let raw = self.endpoint.raw();
        // SAFETY: the endpoint is open (C1), on this thread (C5), and has joined the group (C29); the root is a member, and the lengths are
        // right (C30); what is lent allows it, is registered where that is asked for (C11), and stays in the op table until the event or the
        // endpoint's close (C9, C10).
        map_refusal(unsafe { T::collective(raw, &self.raw, call, operands, results, context) })
    }
}

impl<T: Collectives, B: SourceBuffer + TargetBuffer> CollectiveGroup<'_, T, B> {
    /// Brings the root's elements to every member: what other members' buffers hold is overwritten.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::{Av, Caps, Cq, Domain, Forever, Hints};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
    /// # let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let endpoints = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let mut set = av.set_in(2, loom_core::allocator_api2::alloc::Global)?;
    /// # for endpoint in &endpoints {
    /// #     set.insert(av.insert(&endpoint.address()?)?)?;
    /// # }
    /// # let groups = [endpoints[0].join_collective(&set)?, endpoints[1].join_collective(&set)?];
    /// let mut keys = Vec::new();
    /// for group in &groups {
    ///     // Member 0 has the elements.
    ///     let elements = if group.rank() == 0 { vec![1, 2, 3] } else { vec![0; 3] };
    ///     keys.push(cq.post(elements, Forever, |elements| group.broadcast::<u8>(0, elements))?);
    /// }
    /// for key in keys {
    ///     assert_eq!(cq.finish(key, Forever)?.into_buf(), [1, 2, 3]);
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), with the buffer, and
    /// - [`PostError::NotMember`] if no member has the root's rank;
    /// - [`PostError::NotElements`] if the buffer does not hold what the [table](CollectiveGroup) says;
    /// - any other [`PostError`] of a read.
    #[doc(alias = "fi_broadcast")]
    pub fn broadcast<E: Element>(&self, root: usize, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::broadcast::<E>(), root, buf)
    }

    /// Combines the elements of all members, one by one, and brings every member the result. Over the software transport it is the same at
    /// every member, bit by bit, because elements are combined in the order of the ranks.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::collective::ReduceOp;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::{Av, Caps, Cq, Domain, Forever, Hints};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
    /// # let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let endpoints = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let mut set = av.set_in(2, loom_core::allocator_api2::alloc::Global)?;
    /// # for endpoint in &endpoints {
    /// #     set.insert(av.insert(&endpoint.address()?)?)?;
    /// # }
    /// # let groups = [endpoints[0].join_collective(&set)?, endpoints[1].join_collective(&set)?];
    /// let mut keys = Vec::new();
    /// for elements in [vec![1, 9], vec![5, 2]] {
    ///     let group = &groups[keys.len()];
    ///     // The buffer has this member's elements, and room for the results.
    ///     let buf = [elements, vec![0; 2]].concat();
    ///     keys.push(cq.post(buf, Forever, |buf| group.all_reduce(ReduceOp::<u8>::MAX, buf))?);
    /// }
    /// for key in keys {
    ///     assert_eq!(cq.finish(key, Forever)?.into_buf()[2..], [5, 9]);
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_allreduce")]
    pub fn all_reduce<E: Element>(&self, op: ReduceOp<E>, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::all_reduce(op), 0, buf)
    }

    /// As [`all_reduce`](Self::all_reduce), for the root alone.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_reduce")]
    pub fn reduce<E: Element>(&self, op: ReduceOp<E>, root: usize, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::reduce(op), root, buf)
    }

    /// As [`all_reduce`](Self::all_reduce), and brings each member the part of the result that has its rank.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_reduce_scatter")]
    pub fn reduce_scatter<E: Element>(&self, op: ReduceOp<E>, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::reduce_scatter(op), 0, buf)
    }

    /// Brings the elements of all members to every member.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_allgather")]
    pub fn all_gather<E: Element>(&self, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::all_gather::<E>(), 0, buf)
    }

    /// Brings the elements of all members to the root.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_gather")]
    pub fn gather<E: Element>(&self, root: usize, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::gather::<E>(), root, buf)
    }

    /// Brings each member the part of the root's elements that has its rank.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_scatter")]
    pub fn scatter<E: Element>(&self, root: usize, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::scatter::<E>(), root, buf)
    }

    /// Brings each member the part that has its rank of every member's elements.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    #[doc(alias = "fi_alltoall")]
    pub fn all_to_all<E: Element>(&self, buf: B) -> Result<OpKey, Rejected<B>> {
        self.post(Collective::all_to_all::<E>(), 0, buf)
    }

    /// Posts an operation whose type is not known to the program's: for what stands on groups. The functions above are for all else.
    ///
    /// Of a barrier, the buffer is not looked at: it comes back with the completion.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn post(&self, collective: Collective, root: usize, buf: B) -> Result<OpKey, Rejected<B>> {
        let opened = &self.endpoint.opened;
        let posting = opened.lend((Caps::COLLECTIVE, OpKind::Read), || Ok(FabricAddr::UNSPEC), None, buf)?;
        let submitted = self.cut(opened, &posting.lent, collective, root).and_then(|(count, operands, results)| {
            let call = self.call(collective, count, root)?;
            // A broadcast overwrites its operands.
            let operands = if collective.op() == CollectiveOp::BROADCAST { posting.lent } else { operands };
            self.submit(&call, &operands, &results, posting.context)
        });
        opened.settle(posting, submitted)
    }

    /// The elements of a part, the operands, and the place for the results, of what a buffer has lent.
    fn cut(
        &self,
        opened: &Opened<'_, T, B>,
        lent: &Lent,
        collective: Collective,
        root: usize,
    ) -> Result<(usize, Lent, Lent), PostError> {
        // The whole was looked at as room for results.
        opened.lendable(lent, OpKind::Write)?;
        if collective.op() == CollectiveOp::BARRIER {
            return Ok((0, lent.first(0), lent.first(0)));
        }
        // Every other has a size: `Collective` is made of elements.
        let size = collective.datatype().size().unwrap_or(0);
        let (operands, results) = collective.parts(self.size, self.rank == root);
        let unit = operands.checked_add(results).and_then(|parts| parts.checked_mul(size));
        let unit = unit.filter(|unit| lent.len() > 0 && lent.len().is_multiple_of(*unit));
        let unit = unit.ok_or(PostError::NotElements { size })?;
        let count = lent.len() / unit;
        let length = operands * count * size;
        Ok((count, lent.first(length), lent.behind(length)))
    }
}

impl<T: Collectives, B: Buffer> Drop for CollectiveGroup<'_, T, B> {
    fn drop(&mut self) {
        // SAFETY: joined on this endpoint, which is open (C1), on this thread (C5), and left once (C29).
        unsafe { T::leave_collective(self.endpoint.raw(), &self.raw) };
    }
}

impl<T: Collectives, B: Buffer> fmt::Debug for CollectiveGroup<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectiveGroup").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}
