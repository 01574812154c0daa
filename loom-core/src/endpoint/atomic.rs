//! Atomic operations on a peer's memory: what `man fi_atomic` describes.
//!
//! Each takes the operation as the domain has [granted](crate::granted::Granted) it. There are forms for one value, which needs
//! no buffer, and for as many elements as a buffer holds. A buffer of an operation that fetches holds several lists of elements, one
//! behind the other and of the same length:
//!
//! | operation | the buffer holds |
//! |---|---|
//! | [`atomic`](Endpoint::atomic) | operands |
//! | [`fetch_atomic`](Endpoint::fetch_atomic) | operands, then room for the results |
//! | [`atomic_read`](Endpoint::atomic_read) | room for the results |
//! | [`compare_atomic`](Endpoint::compare_atomic) | operands, then what is compared, then room for the results |
//!
//! Results are what was in the peer's memory before. They are there when the operation has completed with success; the length of that
//! completion is the buffer's. Room for results is initialised memory: a provider was seen to report success without results
//! (`sm2-atomic-read-brings-nothing`), and a program must not read uninitialised memory then.
//!
//! The peer's memory must be aligned to the size of an element. Where addresses in a region are offsets, only the peer can see to that;
//! the software transport fails such an operation with `EINVAL`.
//!
//! An operation on an element is atomic with respect to others that the same provider does. That peers' operations are so with
//! respect to what the owner of the memory does, or another provider, only the software transport promises
//! ([`Window::element`](crate::exposed::Window::element)).

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use heapless::Vec;

use super::Endpoint;
use super::kind::{Has, Transmits};
use super::opened::Opened;
use super::post::{OpKind, map_refusal, remote, required_caps};
use crate::atomic::{Atomic, BaseOp, CompareOp, Element, FetchOp, Form, Operation, ReadOp};
use crate::buffer::{Buffer, IoVecs, Lent, SourceBuffer, TargetBuffer};
use crate::engine::op_table::{LentValues, OpKey};
use crate::error::{PostError, Rejected};
use crate::granted::Granted;
use crate::options::AtomicOptions;
use crate::query::{AtomicOps, Injects};
use crate::remote_region::RemoteRegion;
use crate::transport::{AtomicRanges, Context, Msg, RmaTarget, Transport};
use crate::vocabulary::{Access, AtomicOp, Caps, Errno, FabricAddr, OpFlags};

/// The lists that the buffer of an operation holds: how many, and whether the first are operands.
const fn lists(Atomic { form, op, .. }: Atomic) -> usize {
    match (form, op) {
        (Form::Base, _) | (Form::Fetch, AtomicOp::READ) => 1,
        (Form::Fetch, _) => 2,
        (Form::Compare, _) => 3,
    }
}

const fn caps(Atomic { form, op, .. }: Atomic) -> Caps {
    match (form, op) {
        (Form::Base, _) => required_caps::ATOMIC,
        (Form::Fetch, AtomicOp::READ) => required_caps::ATOMIC_READ,
        (Form::Fetch | Form::Compare, _) => required_caps::ATOMIC_FETCH,
    }
}

/// Access to the peer's memory.
const fn access(Atomic { form, op, .. }: Atomic) -> Access {
    match (form, op) {
        (Form::Base, _) => Access::REMOTE_WRITE,
        (Form::Fetch, AtomicOp::READ) => Access::REMOTE_READ,
        (Form::Fetch | Form::Compare, _) => Access::REMOTE_READ.union(Access::REMOTE_WRITE),
    }
}

/// What the op table takes the operation for.
const fn kind(form: Form) -> OpKind {
    match form {
        Form::Base => OpKind::Write,
        Form::Fetch | Form::Compare => OpKind::Read,
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Changes elements of a peer's region, from `offset` bytes into it, as many as the buffer has operands.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::atomic::BaseOp;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::{Access, Av, Caps, Cq, Domain, Forever, Hints, Mr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let hints = Hints { caps: Caps::MSG | Caps::ATOMIC, ..Hints::default() };
    /// # let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![1, 2, 3, 4], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let max = domain.query_atomic(BaseOp::<u8>::MAX)?;
    /// // The buffer has one operand for each element.
    /// let post = |operands| alice.atomic(to_bob, &region.remote(), 0, max, operands);
    /// let changed = cq.post(vec![3; 4], Forever, post)?;
    /// cq.finish(changed, Forever)?.result()?;
    /// let mut bytes = [0; 4];
    /// // The memory may change only when the owner polls.
    /// while bytes != [3, 3, 3, 4] {
    ///     cq.progress()?;
    ///     region.window().copy_to(0, &mut bytes)?;
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`PostError::ForeignOperation`] if another domain has granted the operation;
    /// - [`PostError::RemoteAccess`] if the region does not grant the access;
    /// - [`PostError::NotElements`], [`PostError::TooManyElements`], [`PostError::Misaligned`];
    /// - any other [`PostError`] of an RMA write. The buffer comes back. What the peer refuses is an error completion.
    #[doc(alias = "fi_atomic")]
    pub fn atomic<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<BaseOp<E>>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer,
    {
        self.post_atomic(peer.into(), (region, offset), op, buf)
    }

    /// As [`atomic`](Self::atomic), and brings back what was there before. The buffer holds the operands, and behind them room for as
    /// many results.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::atomic::FetchOp;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::{Access, Av, Caps, Cq, Domain, Forever, Hints, Mr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let hints = Hints { caps: Caps::MSG | Caps::ATOMIC, ..Hints::default() };
    /// # let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![1, 2], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let add = domain.query_atomic(FetchOp::<u8>::SUM)?;
    /// // The buffer has two operands, and room for two results.
    /// let post = |buf| alice.fetch_atomic(to_bob, &region.remote(), 0, add, buf);
    /// let added = cq.post(vec![10, 20, 0, 0], Forever, post)?;
    /// let (buf, result) = cq.finish(added, Forever)?.into_parts();
    /// result?;
    /// assert_eq!(buf[2..], [1, 2]);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic).
    #[doc(alias = "fi_fetch_atomic")]
    pub fn fetch_atomic<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer + TargetBuffer,
    {
        self.post_atomic(peer.into(), (region, offset), op, buf)
    }

    /// Reads elements of a peer's region, each in one step, as many as the buffer has room for.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic).
    #[doc(alias = "fi_fetch_atomic")]
    #[doc(alias = "FI_ATOMIC_READ")]
    pub fn atomic_read<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<ReadOp<E>>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer + TargetBuffer,
    {
        self.post_atomic(peer.into(), (region, offset), op, buf)
    }

    /// Changes elements of a peer's region that compare as the operation says, and brings back what was there before. The buffer holds
    /// the operands, behind them what is compared, and behind that room for the results.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic).
    #[doc(alias = "fi_compare_atomic")]
    pub fn compare_atomic<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<E>>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer + TargetBuffer,
    {
        self.post_atomic(peer.into(), (region, offset), op, buf)
    }

    /// As [`atomic`](Self::atomic), of parts of a peer's memory ([`RemoteRegion::part`]), and out of one buffer or several.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic), [`PostError::TooManyPieces`] of either side, and [`PostError::NotElements`] if a piece or part holds
    /// some of an element.
    #[doc(alias = "fi_atomicmsg")]
    #[doc(alias = "fi_atomicv")]
    pub fn atomic_with<E: Element>(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        op: Granted<BaseOp<E>>,
        options: AtomicOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer,
    {
        self.post_atomic_msg(peer.into(), remote, op, options, buf)
    }

    /// As [`fetch_atomic`](Self::fetch_atomic), of parts and pieces as [`atomic_with`](Self::atomic_with). The pieces are taken as one
    /// range, which holds the operands and then room for the results.
    ///
    /// # Errors
    /// As [`atomic_with`](Self::atomic_with).
    #[doc(alias = "fi_fetch_atomicmsg")]
    #[doc(alias = "fi_fetch_atomicv")]
    pub fn fetch_atomic_with<E: Element>(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        op: Granted<FetchOp<E>>,
        options: AtomicOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer + TargetBuffer,
    {
        self.post_atomic_msg(peer.into(), remote, op, options, buf)
    }

    /// As [`atomic_read`](Self::atomic_read), of parts and pieces as [`atomic_with`](Self::atomic_with).
    ///
    /// # Errors
    /// As [`atomic_with`](Self::atomic_with).
    #[doc(alias = "fi_fetch_atomicmsg")]
    pub fn atomic_read_with<E: Element>(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        op: Granted<ReadOp<E>>,
        options: AtomicOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer + TargetBuffer,
    {
        self.post_atomic_msg(peer.into(), remote, op, options, buf)
    }

    /// As [`compare_atomic`](Self::compare_atomic), of parts and pieces as [`atomic_with`](Self::atomic_with). The pieces are taken as one
    /// range, which holds the operands, then what is compared, and then room for the results.
    ///
    /// # Errors
    /// As [`atomic_with`](Self::atomic_with).
    #[doc(alias = "fi_compare_atomicmsg")]
    #[doc(alias = "fi_compare_atomicv")]
    pub fn compare_atomic_with<E: Element>(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        op: Granted<CompareOp<E>>,
        options: AtomicOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<AtomicOps>,
        B: SourceBuffer + TargetBuffer,
    {
        self.post_atomic_msg(peer.into(), remote, op, options, buf)
    }

    /// Changes elements of a peer's region by a copy of `operands`. Nothing reports success.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::atomic::BaseOp;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::{Access, Av, Caps, Cq, Domain, Forever, Hints, Mr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let hints = Hints { caps: Caps::MSG | Caps::ATOMIC, ..Hints::default() };
    /// # let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![0; 4], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let add = domain.query_atomic(BaseOp::<u8>::SUM)?;
    /// // The operands are copied: there is no completion.
    /// cq.retry(Forever, || alice.inject_atomic(to_bob, &region.remote(), 2, add, &[7, 8]))?;
    /// let mut bytes = [0; 4];
    /// while bytes != [0, 0, 7, 8] {
    ///     cq.progress()?;
    ///     region.window().copy_to(0, &mut bytes)?;
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the [`inject_size`](Self::inject_size), or as [`atomic`](Self::atomic); `EOPNOTSUPP` where
    /// [writes](Self::inject_write) cannot be injected.
    #[doc(alias = "fi_inject_atomic")]
    pub fn inject_atomic<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<BaseOp<E>>,
        operands: &[E],
    ) -> Result<(), PostError>
    where
        K: Has<AtomicOps> + Has<Injects>,
    {
        if !self.kind.injects_writes() {
            return Err(PostError::Errno(Errno::EOPNOTSUPP));
        }
        // SAFETY: elements have no padding, so that their bytes are initialised.
        let bytes = unsafe { core::slice::from_raw_parts(operands.as_ptr().cast::<u8>(), size_of_val(operands)) };
        let peer = peer.into();
        let peer = self.opened.injectable(required_caps::ATOMIC, || self.destination(peer), None, bytes)?;
        let (target, atomic) = self.opened.target(peer, (region, offset), &op, bytes.len())?;
        // SAFETY: the endpoint is open (C1), on this thread (C5), the address one that it may write to (C13), the length and what C28 asks
        // for checked.
        map_refusal(unsafe { T::inject_atomic(self.raw(), target, bytes, atomic) })
    }

    /// Changes one element of a peer's region, `offset` bytes into it. Completes as a
    /// [`Completion::Value`](crate::completion::Completion::Value); [`Cq::wait_value`](crate::cq::Cq::wait_value) waits for it.
    ///
    /// # Errors
    /// As [`atomic`](Self::atomic); [`PostError::NotRegistered`] where the provider asks for local registration (`FI_MR_LOCAL`).
    #[doc(alias = "fi_atomic")]
    #[inline]
    pub fn atomic_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<BaseOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError>
    where
        K: Has<AtomicOps>,
    {
        self.post_value(peer.into(), (region, offset), op, (operand, operand), |raw, target, lent, atomic, context| {
            // SAFETY: see `post_value`.
            map_refusal(unsafe { T::atomic(raw, target, &lent.operand, atomic, context) })
        })
    }

    /// As [`atomic_value`](Self::atomic_value), and brings back what was there before: fetch-and-add, for one.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
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
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`atomic_value`](Self::atomic_value).
    #[doc(alias = "fi_fetch_atomic")]
    #[inline]
    pub fn fetch_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError>
    where
        K: Has<AtomicOps>,
    {
        self.post_value(peer.into(), (region, offset), op, (operand, operand), |raw, target, lent, atomic, context| {
            // SAFETY: see `post_value`.
            map_refusal(unsafe { T::fetch_atomic(raw, target, &lent.operand, &lent.result, atomic, context) })
        })
    }

    /// Reads one element of a peer's region in one step, as [`fetch_value`](Self::fetch_value).
    ///
    /// # Errors
    /// As [`atomic_value`](Self::atomic_value).
    #[doc(alias = "fi_fetch_atomic")]
    #[doc(alias = "FI_ATOMIC_READ")]
    #[inline]
    pub fn read_value<E: Element>(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<ReadOp<E>>,
    ) -> Result<OpKey, PostError>
    where
        K: Has<AtomicOps>,
    {
        self.post_value(peer.into(), (region, offset), op, (E::ZERO, E::ZERO), |raw, target, lent, atomic, context| {
            // SAFETY: see `post_value`.
            map_refusal(unsafe { T::fetch_atomic(raw, target, &lent.operand.first(0), &lent.result, atomic, context) })
        })
    }

    /// Replaces one element of a peer's region by `operand`, if `compare` and the element compare as the operation says, and brings
    /// back what was there before: compare-and-swap, for one.
    ///
    /// # Errors
    /// As [`atomic_value`](Self::atomic_value).
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
    ) -> Result<OpKey, PostError>
    where
        K: Has<AtomicOps>,
    {
        self.post_value(peer.into(), (region, offset), op, (operand, compare), |raw, target, lent, atomic, context| {
            let ranges = [&lent.operand, &lent.compare, &lent.result];
            // SAFETY: see `post_value`.
            map_refusal(unsafe { T::compare_atomic(raw, target, ranges, atomic, context) })
        })
    }

    /// Posts an operation on a value. `submit` may rely on this: the endpoint is open (C1), on this thread (C5), the address is one that it
    /// may transmit to (C13), what C28 asks for was checked, and the values stay in the op table until the event or the endpoint's close
    /// (C9, C10).
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
        let to = self.opened.check(caps(atomic), || self.destination(peer), None)?;
        if self.limits().local {
            return Err(PostError::NotRegistered);
        }
        let (target, atomic) = self.opened.target(to, place, &op, size_of::<E>())?;
        let fetches = atomic.form != Form::Base;
        self.opened.cq().ops().post_values(self.opened.index(), values, fetches, |lent, context| {
            submit(self.raw(), target, lent, atomic, context)
        })
    }

    /// Posts an operation on elements that lie in one range on both sides.
    pub(crate) fn post_atomic<O: Operation>(
        &self,
        peer: K::To,
        place: (&RemoteRegion, u64),
        op: Granted<O>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let atomic = op.op().atomic();
        let how = (caps(atomic), kind(atomic.form));
        let posting = self.opened.lend(how, || self.destination(peer), None, buf)?;
        let submitted = self.submit_atomic(place, op, (&posting.lent, posting.address, posting.context));
        self.opened.settle(posting, submitted)
    }

    /// Submits such an operation of what a posting has lent.
    fn submit_atomic<O: Operation>(
        &self,
        place: (&RemoteRegion, u64),
        op: Granted<O>,
        (lent, address, context): (&Lent, FabricAddr, Context),
    ) -> Result<(), PostError> {
        let atomic = op.op().atomic();
        let lists = lists(atomic);
        if !lent.len().is_multiple_of(lists) {
            return Err(PostError::NotElements { size: op.op().element_size() });
        }
        let bytes = lent.len() / lists;
        let (target, atomic) = self.opened.target(address, place, &op, bytes)?;
        if lists > 1 {
            // The whole was looked at as room for results.
            self.opened.lendable(&lent.first((lists - 1) * bytes), OpKind::Write)?;
        }
        let part = |at: usize| lent.behind(at * bytes).first(bytes);
        let raw = self.raw();
        // SAFETY: see `Posting`, which the parts lie in; what C28 asks for was checked.
        map_refusal(match atomic.form {
            // SAFETY: as above.
            Form::Base => unsafe { T::atomic(raw, target, lent, atomic, context) },
            // SAFETY: as above.
            Form::Fetch if lists == 1 => unsafe { T::fetch_atomic(raw, target, &lent.first(0), lent, atomic, context) },
            // SAFETY: as above.
            Form::Fetch => unsafe { T::fetch_atomic(raw, target, &part(0), &part(1), atomic, context) },
            // SAFETY: as above.
            Form::Compare => unsafe { T::compare_atomic(raw, target, [&part(0), &part(1), &part(2)], atomic, context) },
        })
    }

    /// Posts an operation on elements that lie in several ranges.
    fn post_atomic_msg<O: Operation>(
        &self,
        peer: K::To,
        remote: &[RemoteRegion],
        op: Granted<O>,
        options: AtomicOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let (atomic, limits) = (op.op().atomic(), self.limits());
        let flags = match atomic.form {
            Form::Base => limits.with_default(options.flags),
            Form::Fetch | Form::Compare => options.flags | limits.tx_flags.intersection(OpFlags::FENCE),
        };
        // Rule 7 of the op table. The buffer is not to be copied: there may be more than can be injected.
        let flags = flags.difference(OpFlags::INJECT) | OpFlags::COMPLETION;
        let caps = Opened::<T, B>::with_fence(caps(atomic), flags);
        if let Err(error) = self.opened.granted(caps, None) {
            return Err(Rejected { buf, error });
        }
        let (index, kind) = (self.opened.index(), kind(atomic.form).kind());
        self.opened.cq().ops().post_pieces(index, kind, buf, |pieces, context| {
            // After the buffer's own code (rule 6 of the op table), which may remove the peer.
            let address = self.destination(peer)?;
            let limit = limits.tx_iov_limit.min(IoVecs::MOST);
            let (all, total) = pieces.get().zip(pieces.total()).ok_or(PostError::TooManyPieces { limit })?;
            let lists = lists(atomic);
            let not_elements = PostError::NotElements { size: size_of::<O::Element>() };
            let bytes = if total.is_multiple_of(lists) { total / lists } else { return Err(not_elements) };
            let parts = self.opened.parts(remote, bytes, access(atomic))?;
            op.checked(self.opened.domain_identity(), 0, bytes)?;
            for part in &parts {
                op.checked(self.opened.domain_identity(), part.addr.0, part.len)?;
            }
            let mut rest = Cut { pieces: all, used: 0 };
            let mut list =
                |purpose: OpKind| self.opened.list(&mut rest, bytes, size_of::<O::Element>(), limit, purpose);
            let operands = if lists > 1 || atomic.form == Form::Base { list(OpKind::Write)? } else { List::new() };
            let compare = if lists > 2 { list(OpKind::Write)? } else { List::new() };
            let results = if atomic.form == Form::Base { List::new() } else { list(OpKind::Read)? };
            let nothing = [().lend()];
            let pieces: &[Lent] = if operands.is_empty() { &nothing } else { &operands };
            let msg = Msg { address, pieces, data: None, context, flags };
            let ranges = AtomicRanges { compare: &compare, results: &results };
            // SAFETY: the endpoint is open (C1), on this thread (C5), the address one that it may transmit to (C13); the ranges allow what
            // they are for, are registered where that is asked for (C11), and stay in the op table until the event or the endpoint's close
            // (C9, C10). What C14 and C28 ask for was checked.
            map_refusal(unsafe { T::atomicmsg(self.raw(), &msg, ranges, &parts, atomic) })
        })
    }
}

/// Ranges of one list of elements.
type List = Vec<Lent, { IoVecs::MOST }>;

/// What is left of a buffer's pieces: those, without the first bytes of the first.
struct Cut<'p> {
    pieces: &'p [Lent],
    used: usize,
}

impl Cut<'_> {
    /// The next range, of `most` bytes at most.
    fn next(&mut self, most: usize) -> Option<Lent> {
        loop {
            let (first, others) = self.pieces.split_first()?;
            let rest = first.behind(self.used);
            if rest.len() > most {
                self.used += most;
                return Some(rest.first(most));
            }
            (self.pieces, self.used) = (others, 0);
            if rest.len() > 0 {
                return Some(rest);
            }
        }
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// Where an operation on `bytes` bytes goes, and what it is.
    #[inline]
    fn target<O: Operation>(
        &self,
        to: FabricAddr,
        place: (&RemoteRegion, u64),
        op: &Granted<O>,
        bytes: usize,
    ) -> Result<(RmaTarget, Atomic), PostError> {
        let target = remote(to, place, bytes, access(op.op().atomic()))?;
        let atomic = op.checked(self.domain_identity(), target.addr.0, bytes)?;
        Ok((target, atomic))
    }

    fn domain_identity(&self) -> u64 {
        self.cq().domain().identity()
    }

    /// The next `bytes` bytes of a buffer's pieces, for this purpose.
    fn list(
        &self,
        rest: &mut Cut<'_>,
        bytes: usize,
        size: usize,
        limit: usize,
        purpose: OpKind,
    ) -> Result<List, PostError> {
        let mut list = List::new();
        let mut left = bytes;
        while left > 0 {
            let piece = rest.next(left).ok_or(PostError::OutOfBounds)?;
            left -= piece.len();
            if !piece.len().is_multiple_of(size) {
                return Err(PostError::NotElements { size });
            }
            self.lendable(&piece, purpose)?;
            let piece = if self.limits.extra_checks { self.apply_modes(piece, purpose, None)? } else { piece };
            if list.len() >= limit || list.push(piece).is_err() {
                return Err(PostError::TooManyPieces { limit });
            }
        }
        Ok(list)
    }
}
