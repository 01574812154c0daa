//! Path of a post:
//!
//! 1. [`Opened::prepare`] checks the capabilities, moves the buffer into a slot of the op table,
//!    which lends it, then looks the address up and checks the lent memory.
//! 2. The caller submits the [`Posting`] to the transport.
//! 3. [`Opened::submitted`] returns the key. A refusal at any step returns the buffer.

use heapless::Vec;

use super::Endpoint;
use super::kind::Transmits;
use super::opened::Opened;
use crate::atomic::{Atomic, Form};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::engine::op_table::{Kind, Lending, OpKey, Slot};
use crate::error::{PostError, Rejected};
use crate::info::Prefixes;
use crate::transport::{Context, Msg, RemotePart, RmaTarget, Transport};
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, AtomicOp, Caps, FabricAddr, HmemIface, ImmediateData, OpFlags, Tag, TagMatch};

#[derive(Clone, Copy)]
pub(super) enum Op {
    Send { tag: Option<Tag>, data: Option<ImmediateData> },
    Multicast { data: Option<ImmediateData> },
    Recv { tag: Option<TagMatch> },
    MultiRecv { tag: Option<TagMatch> },
    Write { data: Option<ImmediateData> },
    Read,
    Atomic(Atomic),
    Collective,
}

impl Op {
    #[inline(always)]
    pub(super) const fn caps(self) -> Caps {
        const FETCH: Caps = Caps::ATOMIC.union(Caps::WRITE).union(Caps::READ);
        match self {
            Op::Send { tag: None, .. } => Caps::MSG.union(Caps::SEND),
            Op::Send { tag: Some(_), .. } => Caps::TAGGED.union(Caps::SEND),
            Op::Multicast { .. } => Caps::MSG.union(Caps::SEND).union(Caps::MULTICAST),
            Op::Recv { tag: None } => Caps::MSG.union(Caps::RECV),
            Op::Recv { tag: Some(_) } => Caps::TAGGED.union(Caps::RECV),
            Op::MultiRecv { tag: None } => Caps::MSG.union(Caps::RECV).union(Caps::MULTI_RECV),
            Op::MultiRecv { tag: Some(_) } => Caps::TAGGED.union(Caps::RECV).union(Caps::TAGGED_MULTI_RECV),
            Op::Write { .. } => Caps::RMA.union(Caps::WRITE),
            Op::Read => Caps::RMA.union(Caps::READ),
            Op::Atomic(Atomic { form: Form::Base, .. }) => Caps::ATOMIC.union(Caps::WRITE),
            Op::Atomic(Atomic { form: Form::Fetch, op: AtomicOp::READ, .. }) => Caps::ATOMIC.union(Caps::READ),
            Op::Atomic(Atomic { form: Form::Fetch | Form::Compare, .. }) => FETCH,
            Op::Collective => Caps::COLLECTIVE,
        }
    }

    #[inline(always)]
    pub(super) const fn data(self) -> Option<ImmediateData> {
        match self {
            Op::Send { data, .. } | Op::Multicast { data } | Op::Write { data } => data,
            _ => None,
        }
    }

    #[inline(always)]
    pub(super) const fn kind(self) -> Kind {
        match self {
            Op::Send { .. } | Op::Multicast { .. } | Op::Write { .. } => Kind::Send,
            Op::Recv { tag: None } => Kind::Receive,
            Op::Recv { tag: Some(_) } => Kind::TaggedReceive,
            Op::MultiRecv { .. } => Kind::MultiReceive,
            Op::Atomic(Atomic { form: Form::Base, .. }) => Kind::Send,
            Op::Read | Op::Atomic(_) | Op::Collective => Kind::Read,
        }
    }

    /// Required bytes in front of the buffer.
    #[inline(always)]
    pub(super) const fn prefix(self, prefixes: Prefixes) -> usize {
        match self {
            Op::Send { .. } | Op::Multicast { .. } => prefixes.tx,
            Op::Recv { .. } | Op::MultiRecv { .. } => prefixes.rx,
            Op::Write { .. } | Op::Read | Op::Atomic(_) | Op::Collective => 0,
        }
    }

    /// Peers' writes may consume the receive, which is then posted again, with its stored source.
    #[inline(always)]
    const fn may_repost(self) -> bool {
        matches!(self, Op::Recv { tag: None })
    }

    #[inline(always)]
    pub(super) const fn buffer_use(self) -> Use {
        if matches!(self.kind(), Kind::Send) { Use::ReadFrom } else { Use::WrittenTo }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    ReadFrom,
    WrittenTo,
}

/// Address of a post, looked up after the loan: `lend` is user code (rule 6 of the op table) and
/// may remove the peer.
pub(super) trait Address {
    fn resolve(self) -> Result<FabricAddr, PostError>;
}

impl Address for FabricAddr {
    #[inline(always)]
    fn resolve(self) -> Result<FabricAddr, PostError> {
        Ok(self)
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T>> Address for (&Endpoint<'_, T, B, K>, K::To) {
    #[inline(always)]
    fn resolve(self) -> Result<FabricAddr, PostError> {
        let (endpoint, to) = self;
        endpoint.kind.destination(endpoint.limits(), to)
    }
}

/// Operation to submit. It guarantees:
///
/// - an open endpoint (H1), on this thread (T1), and a validated address (O1)
/// - memory that stays in the op table until the event or the endpoint's close (L1, L2)
/// - memory that allows the operation, with the required prefix and registration (L3, L4), which
///   the caller of [`prepare_unchecked_pieces`](Opened::prepare_unchecked_pieces) checks
///
/// A dropped one leaves its buffer in the op table, because the transport may use it. (`Drop` would
/// keep it out of registers.)
#[must_use]
pub(super) struct Posting<'e, T: Transport, B: Buffer, L = Lent> {
    slot: &'e Slot<B>,
    pub(super) raw: &'e T::Endpoint,
    pub(super) address: FabricAddr,
    pub(super) lent: L,
    pub(super) context: Context,
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    // Always inlined, without closures, so that the lent range and the key stay in registers.
    #[inline(always)]
    pub(super) fn prepare(&self, op: Op, buf: B, address: impl Address) -> Result<Posting<'_, T, B>, Rejected<B>> {
        if let Err(error) = self.limits.admit(op.caps(), op.data()) {
            return Err(Rejected { value: buf, error });
        }
        let Lending { lent, context, slot } = self.cq().ops().lend(self.index, op.kind(), buf)?;
        let error = match address.resolve() {
            Ok(address) => match self.check_memory(&lent, op, context, address) {
                Ok(lent) => return Ok(Posting { slot, raw: self.raw(), address, lent, context }),
                Err(error) => error,
            },
            Err(error) => error,
        };
        Err(Rejected { value: self.take_back(slot), error })
    }

    #[inline(always)]
    pub(super) fn submitted<L>(
        &self,
        posting: Posting<'_, T, B, L>,
        outcome: Result<(), impl Into<PostError>>,
    ) -> Result<OpKey, Rejected<B>> {
        match outcome {
            Ok(()) => Ok(posting.slot.key()),
            Err(error) => Err(self.refused(posting, error.into())),
        }
    }

    #[inline(always)]
    pub(super) fn refused<L>(&self, posting: Posting<'_, T, B, L>, error: PostError) -> Rejected<B> {
        Rejected { value: self.take_back(posting.slot), error }
    }

    // Takes the endpoint, so that the op table occupies no registers during submission.
    #[cold]
    #[inline(never)]
    fn take_back(&self, slot: &Slot<B>) -> B {
        self.cq().ops().take_back(slot)
    }

    #[inline(always)]
    pub(super) fn check_memory(
        &self,
        lent: &Lent,
        op: Op,
        context: Context,
        address: FabricAddr,
    ) -> Result<Lent, PostError> {
        if matches!(op, Op::MultiRecv { .. }) && lent.kind != HmemIface::SYSTEM {
            // A multi-receive hands out references into the buffer.
            return Err(PostError::DeviceMemory);
        }
        self.check_range(lent, op.buffer_use())?;
        if !self.limits.extra_checks {
            return Ok(*lent);
        }
        let source_to_store = op.may_repost().then_some((context, address));
        // Takes scalars, so that the lent memory and `op` stay in registers.
        Ok(lent.with_range_of(&self.apply_modes(*lent, op.prefix(self.limits.prefixes), source_to_store)?))
    }

    /// Checks lent memory, except for [modes](Self::apply_modes) of some providers.
    #[inline(always)]
    pub(super) fn check_range(&self, lent: &Lent, purpose: Use) -> Result<(), PostError> {
        let source = purpose == Use::ReadFrom;
        let allowed = if source { lent.readable } else { lent.writable };
        if !allowed {
            return Err(PostError::Access.cold());
        }
        if lent.kind != HmemIface::SYSTEM {
            self.limits.check_device_memory(lent)?;
        }
        if let Some(descriptor) = lent.descriptor
            && descriptor.domain != self.cq().domain().identity()
        {
            return Err(PostError::ForeignDescriptor.cold());
        }
        if source && lent.len > self.limits.max_msg_size {
            return Err(PostError::TooLong { limit: self.limits.max_msg_size }.cold());
        }
        Ok(())
    }

    /// Applies the provider's modes to the first piece: a message's prefix, and registration. The
    /// source of an untagged receive is `source_to_store`.
    #[cold]
    #[inline(never)]
    fn apply_modes(
        &self,
        lent: Lent,
        needed: usize,
        source_to_store: Option<(Context, FabricAddr)>,
    ) -> Result<Lent, PostError> {
        if let Some((context, from)) = source_to_store
            && self.limits.writes_consume_receives
        {
            self.cq().ops().note_source(context, from);
        }
        let lent = lent.with_prefix(needed).ok_or(PostError::NoPrefix { needed })?;
        self.limits.check_registration(&lent)?;
        Ok(lent)
    }
}

// Several pieces.

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    pub(super) fn prepare_unchecked_pieces(
        &self,
        op: Op,
        flags: OpFlags,
        buf: B,
        address: impl Address,
    ) -> Result<Posting<'_, T, B, IoVecs>, Rejected<B>> {
        if let Err(error) = self.limits.admit(with_fence(op.caps(), flags), op.data()) {
            return Err(Rejected { value: buf, error });
        }
        let Lending { lent, context, slot } = self.cq().ops().lend_pieces(self.index, op.kind(), buf)?;
        match address.resolve() {
            Ok(address) => Ok(Posting { slot, raw: self.raw(), address, lent, context }),
            Err(error) => Err(Rejected { value: self.take_back(slot), error }),
        }
    }

    /// [`prepare`](Self::prepare) for at most `iov_limit` pieces.
    pub(super) fn prepare_pieces(
        &self,
        (op, flags): (Op, OpFlags),
        buf: B,
        iov_limit: usize,
        address: impl Address,
    ) -> Result<Posting<'_, T, B, IoVecs>, Rejected<B>> {
        let mut posting = self.prepare_unchecked_pieces(op, flags, buf, address)?;
        match self.check_pieces(&mut posting.lent, op, iov_limit, (posting.context, posting.address)) {
            Ok(()) => Ok(posting),
            Err(error) => Err(self.refused(posting, error)),
        }
    }

    fn check_pieces(
        &self,
        pieces: &mut IoVecs,
        op: Op,
        iov_limit: usize,
        (context, address): (Context, FabricAddr),
    ) -> Result<(), PostError> {
        let too_many = PostError::TooManyPieces { limit: iov_limit.min(IoVecs::MOST) };
        if pieces.get().is_some_and(<[Lent]>::is_empty) {
            pieces.push(().lend());
        }
        let total = pieces.total();
        let list = pieces.get_mut().ok_or(too_many)?;
        if list.len() > iov_limit {
            return Err(too_many);
        }
        for piece in &*list {
            self.check_range(piece, op.buffer_use())?;
        }
        let too_long = PostError::TooLong { limit: self.limits.max_msg_size };
        if total.ok_or(too_long)? > self.limits.max_msg_size && op.buffer_use() == Use::ReadFrom {
            return Err(too_long);
        }
        if self.limits.extra_checks
            && let Some((first, others)) = list.split_first_mut()
        {
            let source_to_store = op.may_repost().then_some((context, address));
            *first = self.apply_modes(*first, op.prefix(self.limits.prefixes), source_to_store)?;
            others.iter().try_for_each(|piece| self.limits.check_registration(piece))?;
        }
        Ok(())
    }

    /// Checks a peer's parts: at most `rma_iov_limit`, together as long as the buffer, each with
    /// access `needed`.
    pub(super) fn remote_parts(
        &self,
        remote: &[RemoteRegion],
        total: usize,
        needed: Access,
    ) -> Result<Parts, PostError> {
        let limit = self.limits.rma_iov_limit.min(IoVecs::MOST);
        let too_many = PostError::TooManyPieces { limit };
        if remote.is_empty() || remote.len() > limit {
            return Err(too_many);
        }
        let (mut parts, mut left) = (Parts::new(), total);
        for region in remote {
            check_grant(region, needed)?;
            let len = usize::try_from(region.len).map_err(|_| PostError::OutOfBounds)?;
            left = left.checked_sub(len).ok_or(PostError::OutOfBounds)?;
            let part = RemotePart { addr: region.base, len, key: region.key };
            parts.push(part).map_err(|_| too_many)?;
        }
        if left == 0 { Ok(parts) } else { Err(PostError::OutOfBounds) }
    }
}

impl<T: Transport, B: Buffer> Posting<'_, T, B, IoVecs> {
    pub(super) fn total(&self) -> usize {
        self.lent.total().unwrap_or(usize::MAX)
    }

    pub(super) fn msg(&self, data: Option<ImmediateData>, flags: OpFlags) -> Msg<'_> {
        let pieces = self.lent.get().unwrap_or(&[]);
        // Rule 7 of the op table.
        let flags = flags | OpFlags::COMPLETION;
        Msg { address: self.address, pieces, data, context: self.context, flags }
    }
}

pub(super) type Parts = Vec<RemotePart, { IoVecs::MOST }>;

pub(super) const fn with_fence(caps: Caps, flags: OpFlags) -> Caps {
    if flags.contains(OpFlags::FENCE) { caps.union(Caps::FENCE) } else { caps }
}

#[inline(always)]
pub(super) fn rma_target(
    to: FabricAddr,
    (region, offset): (&RemoteRegion, u64),
    len: usize,
    needed: Access,
) -> Result<RmaTarget, PostError> {
    check_grant(region, needed)?;
    let addr = region.range(offset, len as u64).ok_or_else(|| PostError::OutOfBounds.cold())?;
    Ok(RmaTarget { to, addr, key: region.key })
}

#[inline]
fn check_grant(region: &RemoteRegion, needed: Access) -> Result<(), PostError> {
    let missing = needed.difference(region.access);
    if missing.is_empty() { Ok(()) } else { Err(PostError::RemoteAccess(missing).cold()) }
}
