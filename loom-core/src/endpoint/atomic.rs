//! Atomic operations on a peer's memory (`man fi_atomic`).
//!
//! Results are the previous contents of the peer's memory, valid once the operation has completed
//! with success. The completion's length is the buffer's. Space for results is initialised
//! (`sm2-atomic-read-brings-nothing`).

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use heapless::Vec;

use super::Endpoint;
use super::granted::Granted;
use super::kind::Transmits;
use super::opened::Opened;
use super::options::AtomicOptions;
use super::post::{Op, Posting, Use};
use super::remote_range::rma_target;
use crate::atomic::{Atomic, BaseOp, CompareOp, Element, FetchOp, Form, Operation, OperationIn, ReadOp};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::engine::op_table::{LentValues, OpKey};
use crate::error::{PostError, Rejected};
use crate::transport::{AtomicRanges, Context, Msg, RmaTarget, Transport};
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, AtomicOp, FabricAddr, OpFlags};

const fn lists(Atomic { form, op, .. }: Atomic) -> usize {
    match (form, op) {
        (Form::Base, _) | (Form::Fetch, AtomicOp::READ) => 1,
        (Form::Fetch, _) => 2,
        (Form::Compare, _) => 3,
    }
}

const fn access(Atomic { form, op, .. }: Atomic) -> Access {
    match (form, op) {
        (Form::Base, _) => Access::REMOTE_WRITE,
        (Form::Fetch, AtomicOp::READ) => Access::REMOTE_READ,
        (Form::Fetch | Form::Compare, _) => Access::REMOTE_READ.union(Access::REMOTE_WRITE),
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Applies `op` to elements of a peer's region, from byte `offset`. The buffer holds as many
    /// operands, then comparison values, then space for the previous elements, as far as the
    /// operation has them:
    ///
    /// | operation | buffer |
    /// |---|---|
    /// | [`BaseOp`] | operands |
    /// | [`FetchOp`] | operands, results |
    /// | [`ReadOp`] | results |
    /// | [`CompareOp`] | operands, comparison values, results |
    ///
    /// An operation that the program determines at run time is a [`Granted::any`].
    ///
    /// ```
    /// use loom_core::{Access, Caps, Forever, Mr, atomic::{BaseOp, FetchOp}};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// let region = Mr::open(&domain, vec![1, 2, 3, 4], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let max = domain.query_atomic(BaseOp::<u8>::MAX)?;
    /// // The buffer has one operand for each element.
    /// let changed = cq.post(vec![3; 4], Forever, |operands| alice.atomic(to_bob, &region.remote(), 0, max, operands))?;
    /// cq.finish(changed, Forever)?.result()?;
    /// # let mut bytes = [0; 4];
    /// # while bytes != [3, 3, 3, 4] {
    /// #     cq.progress()?;
    /// #     region.window().copy_to(0, &mut bytes)?;
    /// # }
    /// let add = domain.query_atomic(FetchOp::<u8>::SUM)?;
    /// // The buffer has two operands, and room for two results.
    /// let post = |buf| alice.atomic(to_bob, &region.remote(), 2, add, buf);
    /// let added = cq.post(vec![10, 20, 0, 0], Forever, post)?;
    /// let (buf, result) = cq.finish(added, Forever)?.into_parts();
    /// result?;
    /// assert_eq!(buf[2..], [3, 4]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The buffer, with [`PostError::ForeignOperation`], [`PostError::RemoteAccess`],
    /// [`PostError::NotElements`], [`PostError::TooManyElements`], [`PostError::Misaligned`] or any
    /// other of an RMA write. An operation that the peer refuses completes with an error.
    #[doc(alias = "fi_atomic")]
    #[doc(alias = "fi_fetch_atomic")]
    #[doc(alias = "fi_compare_atomic")]
    #[doc(alias = "FI_ATOMIC_READ")]
    pub fn atomic<O: OperationIn<B>>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<O>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let peer = peer.into();
        let posting = self.opened.prepare(Op::Atomic(op.op().atomic()), buf, self.destination(peer))?;
        let submitted = self.submit_atomic((region, offset), op, &posting);
        self.opened.submitted(posting, submitted)
    }

    /// [`atomic`](Self::atomic) on parts of a peer's memory ([`RemoteRegion::part`]), from one or
    /// several buffers, which form one range of operands, comparison values and results.
    ///
    /// # Errors
    /// Those of [`atomic`](Self::atomic), [`PostError::TooManyPieces`] for either side, and
    /// [`PostError::NotElements`] for a piece or part that splits an element.
    #[doc(alias = "fi_atomicmsg")]
    #[doc(alias = "fi_atomicv")]
    #[doc(alias = "fi_fetch_atomicmsg")]
    #[doc(alias = "fi_fetch_atomicv")]
    #[doc(alias = "fi_compare_atomicmsg")]
    #[doc(alias = "fi_compare_atomicv")]
    pub fn atomic_with<O: OperationIn<B>>(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        op: Granted<O>,
        options: AtomicOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let (peer, atomic, limits) = (peer.into(), op.op().atomic(), self.limits());
        let flags = match atomic.form {
            Form::Base => limits.with_default(options.flags()),
            Form::Fetch | Form::Compare => options.flags() | limits.tx_flags.intersection(OpFlags::FENCE),
        };
        // Rule 7 of the op table. No `INJECT`: the buffer may exceed the inject size.
        let flags = flags.difference(OpFlags::INJECT) | OpFlags::COMPLETION;
        let posting = self.opened.prepare_unchecked_pieces(Op::Atomic(atomic), flags, buf, self.destination(peer))?;
        let submitted = self.submit_atomic_msg(remote, op, flags, &posting);
        self.opened.submitted(posting, submitted)
    }

    /// [`atomic`](Self::atomic) with a copy of `operands`. Success is not reported.
    ///
    /// ```
    /// use loom_core::atomic::BaseOp;
    /// # use loom_core::{Access, Caps, Forever, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
    /// let region = Mr::open(&domain, vec![0; 4], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let add = domain.query_atomic(BaseOp::<u8>::SUM)?;
    /// // The operands are copied: there is no completion.
    /// cq.retry(Forever, || alice.inject_atomic(to_bob, &region.remote(), 2, add, &[7, 8]))?;
    /// let mut bytes = [0; 4];
    /// while bytes != [0, 0, 7, 8] {
    ///     cq.progress()?;
    ///     region.window().copy_to(0, &mut bytes)?;
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the [`inject_size`](Self::inject_size), `EOPNOTSUPP` where
    /// [writes](Self::inject_write) cannot be injected, or those of [`atomic`](Self::atomic).
    #[doc(alias = "fi_inject_atomic")]
    pub fn inject_atomic<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<BaseOp<E>>,
        operands: &[E],
    ) -> Result<(), PostError> {
        // SAFETY: elements have no padding, so all of their bytes are initialised.
        let bytes = unsafe { core::slice::from_raw_parts(operands.as_ptr().cast::<u8>(), size_of_val(operands)) };
        let peer = peer.into();
        self.admits_injected(Op::Atomic(op.op().atomic()), bytes.len())?;
        let (target, atomic) =
            self.opened.target(self.kind.destination(self.limits(), peer)?, (region, offset), &op, bytes.len())?;
        // SAFETY: handles keep H1 and T1, the address is of the vector (O1), the length is at most
        // `inject_size`, and `target` has checked O4.
        Ok(unsafe { T::inject_atomic(self.raw(), target, bytes, atomic) }?)
    }

    /// Changes one element of a peer's region, at byte `offset`. Completes as a
    /// [`Completion::Value`](crate::completion::Completion::Value), for which
    /// [`Cq::wait_value`](crate::cq::Cq::wait_value) waits.
    ///
    /// # Errors
    /// Those of [`atomic`](Self::atomic), and [`PostError::NotRegistered`] where the provider
    /// requires local registration (`FI_MR_LOCAL`).
    #[doc(alias = "fi_atomic")]
    #[inline]
    pub fn atomic_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<BaseOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError> {
        self.post_value(peer.into(), (region, offset), op, (operand, operand), |raw, target, lent, atomic, context| {
            // SAFETY: `post_value` guarantees H1, T1, L1, L2, O1 and O4.
            Ok(unsafe { T::atomic(raw, target, &lent.operand, atomic, context) }?)
        })
    }

    /// [`atomic_value`](Self::atomic_value) that returns the previous element, for example
    /// fetch-and-add.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::atomic::FetchOp;
    /// use loom_core::{Access, Av, Caps, Cq, Domain, Forever, Hints, Mr};
    ///
    /// let hints = Hints { caps: Caps::MSG | Caps::ATOMIC, ..Hints::default() };
    /// let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let add = domain.query_atomic(FetchOp::<u64>::SUM)?;
    /// for before in [0, 5] {
    ///     let added = cq.retry(Forever, || alice.fetch_value(to_bob, &region.remote(), 0, add, 5))?;
    ///     let fetched = cq.finish_value(added, Forever)?;
    ///     assert_eq!(fetched.value::<u64>()?, Some(before));
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_fetch_atomic")]
    #[inline]
    pub fn fetch_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError> {
        self.post_value(peer.into(), (region, offset), op, (operand, operand), |raw, target, lent, atomic, context| {
            // SAFETY: `post_value` guarantees H1, T1, L1, L2, O1 and O4.
            Ok(unsafe { T::fetch_atomic(raw, target, &lent.operand, &lent.result, atomic, context) }?)
        })
    }

    /// Reads one element of a peer's region atomically.
    ///
    /// # Errors
    /// Those of [`atomic_value`](Self::atomic_value).
    #[doc(alias = "fi_fetch_atomic")]
    #[doc(alias = "FI_ATOMIC_READ")]
    #[inline]
    pub fn read_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<ReadOp<E>>,
    ) -> Result<OpKey, PostError> {
        self.post_value(peer.into(), (region, offset), op, (E::ZERO, E::ZERO), |raw, target, lent, atomic, context| {
            // SAFETY: `post_value` guarantees H1, T1, L1, L2, O1 and O4.
            Ok(unsafe { T::fetch_atomic(raw, target, &lent.operand.first(0), &lent.result, atomic, context) }?)
        })
    }

    /// Replaces one element of a peer's region by `operand` if its comparison with `compare` holds,
    /// and returns the previous element, for example compare-and-swap.
    ///
    /// # Errors
    /// Those of [`atomic_value`](Self::atomic_value).
    #[doc(alias = "fi_compare_atomic")]
    #[doc(alias = "FI_CSWAP")]
    #[inline]
    pub fn compare_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<E>>,
        compare: E,
        operand: E,
    ) -> Result<OpKey, PostError> {
        self.post_value(peer.into(), (region, offset), op, (operand, compare), |raw, target, lent, atomic, context| {
            let ranges = [&lent.operand, &lent.compare, &lent.result];
            // SAFETY: `post_value` guarantees H1, T1, L1, L2, O1 and O4.
            Ok(unsafe { T::compare_atomic(raw, target, ranges, atomic, context) }?)
        })
    }

    /// Posts an operation on a value. `submit` may rely on an open endpoint (H1) on this thread
    /// (T1), a valid destination (O1), O4, and values that stay in the op table until the event
    /// or the endpoint's close (L1, L2).
    #[inline(always)]
    fn post_value<O: Operation<Element = E>, E: Element>(
        &self,
        peer: K::To,
        place: (&RemoteRegion, u64),
        op: Granted<O>,
        values: (E, E),
        submit: impl FnOnce(&T::Endpoint, RmaTarget, &LentValues, Atomic, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, PostError> {
        let atomic = op.op().atomic();
        self.limits().admit(Op::Atomic(atomic).caps(), None)?;
        let to = self.kind.destination(self.limits(), peer)?;
        if self.limits().local {
            return Err(PostError::NotRegistered);
        }
        let (target, atomic) = self.opened.target(to, place, &op, size_of::<E>())?;
        let fetches = atomic.form != Form::Base;
        self.opened.cq().ops().post_values(self.opened.index, values, fetches, |lent, context| {
            submit(self.raw(), target, lent, atomic, context)
        })
    }

    fn submit_atomic<O: Operation>(
        &self,
        place: (&RemoteRegion, u64),
        op: Granted<O>,
        posting: &Posting<'_, T, B>,
    ) -> Result<(), PostError> {
        let (lent, context, atomic) = (&posting.lent, posting.context, op.op().atomic());
        let lists = lists(atomic);
        if !lent.len.is_multiple_of(lists) {
            return Err(PostError::NotElements { size: op.op().element_size() });
        }
        let bytes = lent.len / lists;
        let (target, atomic) = self.opened.target(posting.address, place, &op, bytes)?;
        if lists > 1 {
            // `validate` has checked the whole buffer as a target only.
            self.opened.check_range(&lent.first((lists - 1) * bytes), Use::ReadFrom)?;
        }
        let part = |at: usize| lent.behind(at * bytes).first(bytes);
        let raw = posting.raw;
        // SAFETY: the parts lie in the posting's memory (L1 to L4). `Posting` guarantees H1, T1
        // and O1, `target` O4.
        Ok(match atomic.form {
            // SAFETY: H1, T1, L1 to L4, O1 and O4.
            Form::Base => unsafe { T::atomic(raw, target, lent, atomic, context) },
            // SAFETY: H1, T1, L1 to L4, O1 and O4.
            Form::Fetch if lists == 1 => unsafe { T::fetch_atomic(raw, target, &lent.first(0), lent, atomic, context) },
            // SAFETY: H1, T1, L1 to L4, O1 and O4.
            Form::Fetch => unsafe { T::fetch_atomic(raw, target, &part(0), &part(1), atomic, context) },
            // SAFETY: H1, T1, L1 to L4, O1 and O4.
            Form::Compare => unsafe { T::compare_atomic(raw, target, [&part(0), &part(1), &part(2)], atomic, context) },
        }?)
    }

    fn submit_atomic_msg<O: Operation>(
        &self,
        remote: &[RemoteRegion],
        op: Granted<O>,
        flags: OpFlags,
        posting: &Posting<'_, T, B, IoVecs>,
    ) -> Result<(), PostError> {
        let (atomic, size) = (op.op().atomic(), op.op().element_size());
        let limit = self.limits().tx_iov_limit.min(IoVecs::MOST);
        let (all, total) = posting.lent.get().zip(posting.lent.total()).ok_or(PostError::TooManyPieces { limit })?;
        let lists = lists(atomic);
        let bytes =
            if total.is_multiple_of(lists) { total / lists } else { return Err(PostError::NotElements { size }) };
        let parts = self.opened.remote_parts(remote, bytes, access(atomic))?;
        op.checked(self.opened.domain_identity(), 0, bytes)?;
        for part in &parts {
            op.checked(self.opened.domain_identity(), part.addr.0, part.len)?;
        }
        let mut rest = Cut { pieces: all, used: 0 };
        let mut list = |purpose: Use| self.opened.list(&mut rest, bytes, size, limit, purpose);
        let operands = if lists > 1 || atomic.form == Form::Base { list(Use::ReadFrom)? } else { List::new() };
        let compare = if lists > 2 { list(Use::ReadFrom)? } else { List::new() };
        let results = if atomic.form == Form::Base { List::new() } else { list(Use::WrittenTo)? };
        let nothing = [().lend()];
        let pieces: &[Lent] = if operands.is_empty() { &nothing } else { &operands };
        let msg = Msg { address: posting.address, pieces, data: None, context: posting.context, flags };
        let ranges = AtomicRanges { compare: &compare, results: &results };
        // SAFETY: `posting` guarantees H1, T1 and O1. The ranges allow their access, are registered
        // where required (L3), and stay in the op table until the event or the endpoint's close
        // (L1, L2). O2 and O4 are checked above.
        Ok(unsafe { T::atomicmsg(posting.raw, &msg, ranges, &parts, atomic) }?)
    }
}

type List = Vec<Lent, { IoVecs::MOST }>;

/// Rest of a buffer's pieces, without the first `used` bytes of the first piece.
struct Cut<'p> {
    pieces: &'p [Lent],
    used: usize,
}

impl Cut<'_> {
    fn next(&mut self, most: usize) -> Option<Lent> {
        loop {
            let (first, others) = self.pieces.split_first()?;
            let rest = first.behind(self.used);
            if rest.len > most {
                self.used += most;
                return Some(rest.first(most));
            }
            (self.pieces, self.used) = (others, 0);
            if rest.len > 0 {
                return Some(rest);
            }
        }
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    #[inline]
    fn target<O: Operation>(
        &self,
        to: FabricAddr,
        place: (&RemoteRegion, u64),
        op: &Granted<O>,
        bytes: usize,
    ) -> Result<(RmaTarget, Atomic), PostError> {
        let target = rma_target(to, place, bytes, access(op.op().atomic()))?;
        let atomic = op.checked(self.domain_identity(), target.addr.0, bytes)?;
        Ok((target, atomic))
    }

    fn domain_identity(&self) -> u64 {
        self.cq().domain().identity()
    }

    fn list(
        &self,
        rest: &mut Cut<'_>,
        bytes: usize,
        size: usize,
        limit: usize,
        purpose: Use,
    ) -> Result<List, PostError> {
        let mut list = List::new();
        let mut left = bytes;
        while left > 0 {
            let piece = rest.next(left).ok_or(PostError::OutOfBounds)?;
            left -= piece.len;
            if !piece.len.is_multiple_of(size) {
                return Err(PostError::NotElements { size });
            }
            self.check_range(&piece, purpose)?;
            self.limits.check_registration(&piece)?;
            if list.len() >= limit || list.push(piece).is_err() {
                return Err(PostError::TooManyPieces { limit });
            }
        }
        Ok(list)
    }
}
