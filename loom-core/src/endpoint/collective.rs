#![allow(unsafe_code, reason = "joins, uses and leaves raw groups")]

use allocator_api2::alloc::Allocator;

use super::Endpoint;
use super::opened::Opened;
use super::post::{Op, Use};
use crate::atomic::Element;
use crate::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use crate::collective::{Collective, ReduceOp};
use crate::cq::Cq;
use crate::domain::Domain;
use crate::engine::address_table::AddressSet;
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, PostError, Rejected};
use crate::transport::{CollectiveAttr, CollectiveCall, Collectives, Context};
use crate::util::debug::debug_struct;
use crate::vocabulary::{Caps, CollectiveOp, Errno, FabricAddr};

impl<T: Collectives> Domain<'_, T> {
    /// Queries a collective operation's support and maximum number of members in this domain.
    ///
    /// # Errors
    /// `EOPNOTSUPP` without [`Caps::COLLECTIVE`] or without the operation for this type, or another
    /// error of the provider.
    ///
    /// # References
    /// - `man fi_collective`, section *Query Collective*
    #[doc(alias = "fi_query_collective")]
    pub fn query_collective(&self, collective: Collective) -> Result<CollectiveAttr, Errno> {
        if !self.info().attributes().caps.contains(Caps::COLLECTIVE) {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: this handle keeps the domain open (H1).
        unsafe { T::query_collective(self.raw(), collective) }
    }
}

impl<'m, T: Collectives, B: Buffer> Endpoint<'m, T, B> {
    /// Joins a set's members, including this endpoint, for collective operations. Every member
    /// joins with the same members in the same order, which gives their ranks.
    ///
    /// Until the last member has joined ([`CollectiveGroup::is_joined`]), operations are refused
    /// with [`PostError::Again`]. Groups may share members, if these join them in the same order.
    ///
    /// # Errors
    /// [`OpenError::NotGranted`] without [`Caps::COLLECTIVE`], [`OpenError::UnknownPeer`],
    /// [`OpenError::NotMember`], [`OpenError::Limit`] at the software network's
    /// [`NetworkAttr::groups`](crate::soft::NetworkAttr::groups), or [`OpenError::Errno`]:
    /// `EHOSTUNREACH` if a member is known to have gone, `ENOSPC` over `tcp;ofi_rxm` without space
    /// for another group, or another error of the provider.
    ///
    /// # References
    /// - `man fi_collective`, section *Join Collective*
    #[doc(alias = "fi_join_collective")]
    pub fn join_collective<A: Allocator>(&self, set: &AddressSet<A>) -> Result<CollectiveGroup<'m, T, B>, OpenError> {
        self.limits().admit(Caps::COLLECTIVE, None).map_err(|_| OpenError::NotGranted(Caps::COLLECTIVE))?;
        let av = self.av();
        let me = av.find(&self.address()?).ok_or(OpenError::NotMember)?;
        let rank = set.rank(me).ok_or(OpenError::NotMember)?;
        let joined = av.with_addrs(set, |members| {
            // SAFETY: handles keep H1 and T1. The members are addresses of the vector (O1) and stay
            // there during the call. A set yields each once, and the same each time.
            unsafe { T::join_collective(self.raw(), members) }
        });
        let raw = joined.ok_or(OpenError::UnknownPeer)?.map_err(OpenError::refused::<T>)?;
        Ok(CollectiveGroup { endpoint: self.clone(), raw, rank, size: set.len() })
    }
}

/// An endpoint's membership in a group for collective operations.
///
/// Every member calls the same operations in the same order, with the same types, reductions, roots
/// and elements per part. Several operations may be in flight.
///
/// A buffer holds operands, then space for results, in parts. A *part* is the elements that one
/// member sends to or receives from one other, *n* the number of members:
///
/// | operation | operands + results | at members that are not the root |
/// |---|---|---|
/// | [`broadcast`](Collective::broadcast) | 1, overwritten by the root's | the same |
/// | [`all_reduce`](Collective::all_reduce) | 1 + 1 | |
/// | [`reduce`](Collective::reduce) | 1 + 1 | 1 + 0 |
/// | [`reduce_scatter`](Collective::reduce_scatter) | *n* + 1 | |
/// | [`all_gather`](Collective::all_gather) | 1 + *n* | |
/// | [`gather`](Collective::gather) | 1 + *n* | 1 + 0 |
/// | [`scatter`](Collective::scatter) | *n* + 1 | 0 + 1 |
/// | [`all_to_all`](Collective::all_to_all) | *n* + *n* | |
///
/// Parts are in rank order. [`barrier`](Self::barrier) and operations on one value need no buffer
/// and complete as a [`Completion::Value`](crate::completion::Completion::Value)
/// ([`Cq::wait_value`](crate::cq::Cq::wait_value)).
///
/// Also a handle of the endpoint. Dropping it leaves the group. Over the software transport,
/// operations that have not run then end with `ECANCELED`, and the other members' with
/// `ECONNRESET`. `tcp;ofi_rxm` keeps groups until the endpoint closes, and does not notify members
/// (`docs/providers/tcp-ofi_rxm.md`).
///
/// A member that leaves before all have joined must not join another group of these members until
/// they have.
///
/// ```
/// use loom_core::{Caps, Forever, allocator_api2::alloc::Global, collective::ReduceOp};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::COLLECTIVE);
/// let mut set = av.set_in(2, Global)?;
/// set.insert(av.insert(&alice.address()?)?)?;
/// set.insert(to_bob)?;
/// // In most programs, each member is a process or a thread of its own.
/// let groups = [alice.join_collective(&set)?, bob.join_collective(&set)?];
/// let keys = groups.each_ref().map(|group| cq.retry(Forever, || group.all_reduce_value(ReduceOp::SUM, 2_u64)));
/// for key in keys {
///     assert_eq!(cq.finish_value(key?, Forever)?.value::<u64>()?, Some(2 + 2));
/// }
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
    /// Rank of this member.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Number of members.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Returns `true` if every member has joined, which requires polls of all.
    ///
    /// # Errors
    /// The group is unusable: `ECONNRESET` over the software transport if a member has gone, or an
    /// error of the provider.
    #[doc(alias = "FI_JOIN_COMPLETE")]
    pub fn is_joined(&self) -> Result<bool, Errno> {
        // SAFETY: handles keep H1 and T1, and the endpoint has joined the group (K1).
        unsafe { T::collective_joined(self.endpoint.raw(), &self.raw) }
    }

    /// Queue of the endpoint and the group's completions.
    #[must_use]
    pub const fn cq(&self) -> &Cq<'m, T, B> {
        self.endpoint.cq()
    }

    /// Checks that the group has an operation on parts of `count` elements each. The result is
    /// equal at every member, also before all have joined.
    ///
    /// # Errors
    /// Those of posting the operation: `EOPNOTSUPP`, `ENOSYS`, `EMSGSIZE`, `EINVAL` or another.
    pub fn admits(&self, collective: Collective, count: usize) -> Result<(), Errno> {
        // SAFETY: handles keep H1 and T1, and the endpoint has joined the group (K1).
        let most = unsafe { T::admits_collective(self.endpoint.raw(), &self.raw, collective, count) }?.max_members;
        if self.size <= most { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
    }

    /// Completes when every member has called it.
    ///
    /// ```
    /// # use loom_core::{Caps, Forever};
    /// # fixture::queue!(network, domain, av, cq; Caps::MSG | Caps::COLLECTIVE);
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
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`PostError::Again`] until every member has joined, or with too many operations in flight
    /// - [`PostError::Errno`]: `ECONNRESET` over the software transport if a member has gone, or
    ///   another error of the provider
    /// - [`PostError::NotRegistered`] for operations on a value, under `FI_MR_LOCAL`
    #[doc(alias = "fi_barrier")]
    #[doc(alias = "fi_barrier2")]
    pub fn barrier(&self) -> Result<OpKey, PostError> {
        self.post_value::<u8>(Collective::BARRIER, 0, 0)
    }

    /// Sends the root's value to every member. Other members' values are ignored.
    ///
    /// # Errors
    /// Those of [`barrier`](Self::barrier), and [`PostError::NotMember`].
    #[doc(alias = "fi_broadcast")]
    pub fn broadcast_value<E: Element>(&self, root: usize, value: E) -> Result<OpKey, PostError> {
        self.post_value(Collective::broadcast::<E>(), root, value)
    }

    /// Combines all members' values and sends the result to every member.
    ///
    /// # Errors
    /// Those of [`barrier`](Self::barrier).
    #[doc(alias = "fi_allreduce")]
    pub fn all_reduce_value<E: Element>(&self, op: ReduceOp<E>, value: E) -> Result<OpKey, PostError> {
        self.post_value(Collective::all_reduce(op), 0, value)
    }

    #[inline]
    fn post_value<E: Element>(&self, collective: Collective, root: usize, value: E) -> Result<OpKey, PostError> {
        let opened = &self.endpoint.opened;
        opened.limits.admit(Op::Collective.caps(), None)?;
        let elements = usize::from(collective.op() != CollectiveOp::BARRIER);
        if elements > 0 && opened.limits.local {
            return Err(PostError::NotRegistered);
        }
        let call = self.call(collective, elements, root)?;
        opened.cq().ops().post_values(opened.index, (value, value), elements > 0, |lent, context| {
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

    fn submit(
        &self,
        call: &CollectiveCall,
        operands: &Lent,
        results: &Lent,
        context: Context,
    ) -> Result<(), PostError> {
        let raw = self.endpoint.raw();
        // SAFETY: handles keep H1 and T1, and the endpoint has joined the group (K1). The caller
        // has checked root and lengths (K2). The ranges allow their access, are registered where
        // required (L3), and stay in the op table until the event or the endpoint's close (L1, L2).
        Ok(unsafe { T::collective(raw, &self.raw, call, operands, results, context) }?)
    }
}

impl<T: Collectives, B: SourceBuffer + TargetBuffer> CollectiveGroup<'_, T, B> {
    /// Posts an operation. `root` is zero for operations without a root, and the buffer of a
    /// barrier is ignored.
    ///
    /// ```
    /// use loom_core::collective::{Collective, ReduceOp};
    /// # use loom_core::{Caps, Forever};
    ///
    /// # fixture::queue!(network, domain, av, cq; Caps::MSG | Caps::COLLECTIVE);
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
    ///     keys.push(cq.post(buf, Forever, |buf| group.post(Collective::all_reduce(ReduceOp::<u8>::MAX), 0, buf))?);
    /// }
    /// for key in keys {
    ///     assert_eq!(cq.finish(key, Forever)?.into_buf()[2..], [5, 9]);
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The buffer, with those of [`barrier`](Self::barrier), [`PostError::NotMember`],
    /// [`PostError::NotElements`] for a buffer not shaped as in the [table](CollectiveGroup), or
    /// any other of a read.
    pub fn post(&self, collective: Collective, root: usize, buf: B) -> Result<OpKey, Rejected<B>> {
        let opened = &self.endpoint.opened;
        let posting = opened.prepare(Op::Collective, buf, FabricAddr::UNSPEC)?;
        let submitted = self.cut(opened, &posting.lent, collective, root).and_then(|(count, operands, results)| {
            let call = self.call(collective, count, root)?;
            // A broadcast overwrites its operands.
            let operands = if collective.op() == CollectiveOp::BROADCAST { posting.lent } else { operands };
            self.submit(&call, &operands, &results, posting.context)
        });
        opened.submitted(posting, submitted)
    }

    /// Operands, space for results, and number of elements in a part.
    fn cut(
        &self,
        opened: &Opened<'_, T, B>,
        lent: &Lent,
        collective: Collective,
        root: usize,
    ) -> Result<(usize, Lent, Lent), PostError> {
        // `prepare` has checked the whole buffer as a target only.
        opened.check_range(lent, Use::ReadFrom)?;
        if collective.op() == CollectiveOp::BARRIER {
            return Ok((0, lent.first(0), lent.first(0)));
        }
        let size = collective.datatype().size().unwrap_or(0);
        let (operands, results) = collective.parts(self.size, self.rank == root);
        let unit = operands.checked_add(results).and_then(|parts| parts.checked_mul(size));
        let unit = unit.filter(|unit| lent.len > 0 && lent.len.is_multiple_of(*unit));
        let unit = unit.ok_or(PostError::NotElements { size })?;
        let count = lent.len / unit;
        let length = operands * count * size;
        Ok((count, lent.first(length), lent.behind(length)))
    }
}

impl<T: Collectives, B: Buffer> Drop for CollectiveGroup<'_, T, B> {
    fn drop(&mut self) {
        // SAFETY: joined on this endpoint, which is open (H1), on this thread (T1), and left once
        // (K1).
        unsafe { T::leave_collective(self.endpoint.raw(), &self.raw) };
    }
}

debug_struct!([T: Collectives, B: Buffer] CollectiveGroup['_, T, B], |it| rank: it.rank, size: it.size);
