//! Path of a post: [`Opened::prepare`] (for several pieces, [`Opened::prepare_pieces`]), a call of
//! the transport with the [`Posting`], and [`Opened::submitted`]. A refusal at any step returns the
//! buffer.

use super::Endpoint;
use super::kind::Transmits;
use super::opened::Opened;
use crate::atomic::{Atomic, Form};
use crate::buffer::{Buffer, Lent};
use crate::engine::op_table::{Kind, Lending, OpKey, Slot};
use crate::error::{PostError, Rejected};
use crate::info::Prefixes;
use crate::transport::{Context, Transport};
use crate::vocabulary::{AtomicOp, Caps, FabricAddr, HmemIface, ImmediateData, Tag, TagMatch};

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

pub(super) struct Destination<'e, 'm, T: Transport, B: Buffer, K: Transmits<T>> {
    endpoint: &'e Endpoint<'m, T, B, K>,
    to: K::To,
}

impl<'m, T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'m, T, B, K> {
    #[inline(always)]
    pub(super) fn destination(&self, to: K::To) -> Destination<'_, 'm, T, B, K> {
        Destination { endpoint: self, to }
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T>> Address for Destination<'_, '_, T, B, K> {
    #[inline(always)]
    fn resolve(self) -> Result<FabricAddr, PostError> {
        self.endpoint.kind.destination(self.endpoint.limits(), self.to)
    }
}

/// Operation to submit. It guarantees:
///
/// - an open endpoint (H1), on this thread (T1), and a validated address (O1)
/// - memory that stays in the op table until the event or the endpoint's close (L1, L2)
/// - memory that allows the operation, with the required prefix and registration (L3, L4), which
///   the caller of [`prepare_unchecked_pieces`](Opened::prepare_unchecked_pieces) checks
/// - at most as many pieces as the info permits (O2), which that caller checks, too
///
/// A dropped one leaves its buffer in the op table, because the transport may use it. (`Drop` would
/// keep it out of registers.)
#[must_use]
pub(super) struct Posting<'e, T: Transport, B: Buffer, L = Lent> {
    pub(super) slot: &'e Slot<B>,
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
    pub(super) fn take_back(&self, slot: &Slot<B>) -> B {
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
        if !self.limits.has_modes {
            return Ok(*lent);
        }
        let receive_from = op.may_repost().then_some((context, address));
        // Takes scalars, so that the lent memory and `op` stay in registers.
        Ok(lent.with_range_of(&self.apply_modes(*lent, op.prefix(self.limits.prefixes), receive_from)?))
    }

    /// Checks lent memory, except for [modes](Self::apply_modes) of some providers.
    #[inline(always)]
    pub(super) fn check_range(&self, lent: &Lent, purpose: Use) -> Result<(), PostError> {
        let allowed = match purpose {
            Use::ReadFrom => lent.readable,
            Use::WrittenTo => lent.writable,
        };
        if !allowed {
            return Err(PostError::Access.cold());
        }
        if lent.kind != HmemIface::SYSTEM {
            self.limits.check_device_memory(lent)?;
        }
        if let Some(descriptor) = lent.descriptor
            && descriptor.domain != self.limits.domain
        {
            return Err(PostError::ForeignDescriptor.cold());
        }
        if purpose == Use::ReadFrom && lent.len > self.limits.max_msg_size {
            return Err(PostError::TooLong { limit: self.limits.max_msg_size }.cold());
        }
        Ok(())
    }

    /// Applies the provider's modes to the first piece: a message's prefix, and registration.
    /// `receive_from` is the source of an untagged receive, which may be reposted.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_modes(
        &self,
        lent: Lent,
        needed: usize,
        receive_from: Option<(Context, FabricAddr)>,
    ) -> Result<Lent, PostError> {
        if let Some((context, from)) = receive_from
            && self.limits.writes_consume_receives
        {
            self.cq().ops().note_source(context, from);
        }
        let lent = lent.with_prefix(needed).ok_or(PostError::NoPrefix { needed })?;
        self.limits.check_registration(&lent)?;
        Ok(lent)
    }
}

/// Operation of a post, which decides its capabilities, the access to its buffer, and its kind of
/// slot.
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
            // Atomic operations and collectives write the buffer, too.
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
    pub(super) const fn may_repost(self) -> bool {
        matches!(self, Op::Recv { tag: None })
    }

    #[inline(always)]
    pub(super) const fn buffer_use(self) -> Use {
        if matches!(self.kind(), Kind::Send) { Use::ReadFrom } else { Use::WrittenTo }
    }
}

/// Access of an operation to its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    ReadFrom,
    WrittenTo,
}
