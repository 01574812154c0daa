//! Path of posts: reserve a slot, validate, submit.
//!
//! [`Opened::reserve`] moves the buffer into a slot of the op table, which lends it.
//! [`Reserved::validate`] checks the lent memory and the address. The caller submits the
//! [`Posting`] to the transport, and [`Opened::submitted`] returns the key.

use heapless::Vec;

use super::op::{Op, Use};
use super::opened::Opened;
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::engine::op_table::{Lending, OpKey, Slot};
use crate::error::{PostError, Rejected};
use crate::transport::{Context, Msg, RemotePart, RmaTarget, Transport};
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, Caps, FabricAddr, HmemIface, ImmediateData, OpFlags};

/// Operation with its buffer in a reserved slot, before validation. `L` is [`Lent`] or [`IoVecs`].
///
/// Without `Drop`, which would keep it in memory: a dropped one leaves the buffer in the op table.
#[must_use]
pub(super) struct Reserved<'e, 'm, T: Transport, B: Buffer, L = Lent> {
    opened: &'e Opened<'m, T, B>,
    slot: &'e Slot<B>,
    op: Op,
    lent: L,
    context: Context,
}

/// Operation to submit, which guarantees an open endpoint (H1) on this thread (T1), the validated
/// address (O1), and memory that stays in the op table until the event or the endpoint's close (L1,
/// L2). From [`validate`](Reserved::validate) and [`validate_pieces`](Reserved::validate_pieces),
/// the memory also allows the operation and has the required prefix and registration (L3, L4). After
/// [`aim`](Reserved::aim) the caller checks that.
///
/// Dropping it leaves the buffer in the op table, because the transport may use it.
#[must_use]
pub(super) struct Posting<'e, T: Transport, B: Buffer, L = Lent> {
    slot: &'e Slot<B>,
    pub(super) raw: &'e T::Endpoint,
    pub(super) address: FabricAddr,
    pub(super) lent: L,
    pub(super) context: Context,
}

// Always inlined, without closures, so that the lent range and the key stay in registers.
impl<'m, T: Transport, B: Buffer> Opened<'m, T, B> {
    #[inline(always)]
    pub(super) fn reserve(&self, op: Op, buf: B) -> Result<Reserved<'_, 'm, T, B>, Rejected<B>> {
        if let Err(error) = self.limits.admit(op.caps(), op.data()) {
            return Err(Rejected { value: buf, error });
        }
        let Lending { lent, context, slot } = self.cq().ops().lend(self.index, op.kind(), buf)?;
        Ok(Reserved { opened: self, slot, op, lent, context })
    }
}

impl<'e, 'm, T: Transport, B: Buffer> Reserved<'e, 'm, T, B> {
    /// Checks the address and the memory. The caller evaluates `address` after
    /// [`reserve`](Opened::reserve): `lend` is user code (rule 6 of the op table) and may remove the
    /// peer.
    #[inline(always)]
    pub(super) fn validate(self, address: Result<FabricAddr, PostError>) -> Result<Posting<'e, T, B>, Rejected<B>> {
        let Reserved { opened, slot, op, lent, context } = self;
        let error = match address {
            Ok(address) => match opened.check_memory(&lent, op, context, address) {
                Ok(lent) => return Ok(Posting { slot, raw: opened.raw(), address, lent, context }),
                Err(error) => error,
            },
            Err(error) => error,
        };
        Err(Rejected { value: opened.take_back(slot), error })
    }
}

impl<'e, 'm, T: Transport, B: Buffer, L> Reserved<'e, 'm, T, B, L> {
    /// Takes the address. The caller validates the memory.
    #[inline(always)]
    pub(super) fn aim(self, address: Result<FabricAddr, PostError>) -> Result<Posting<'e, T, B, L>, Rejected<B>> {
        let Reserved { opened, slot, op: _, lent, context } = self;
        match address {
            Ok(address) => Ok(Posting { slot, raw: opened.raw(), address, lent, context }),
            Err(error) => Err(Rejected { value: opened.take_back(slot), error }),
        }
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// Returns the key of an operation in flight, or a refused one's buffer.
    #[inline(always)]
    pub(super) fn submitted<L>(
        &self,
        posting: Posting<'_, T, B, L>,
        submitted: Result<(), impl Into<PostError>>,
    ) -> Result<OpKey, Rejected<B>> {
        match submitted {
            Ok(()) => Ok(posting.slot.key()),
            Err(error) => Err(self.refused(posting, error.into())),
        }
    }

    /// Returns the buffer of an operation that was not submitted.
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

    /// Checks lent memory and returns it in the form that the provider requires.
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
        let source_to_store = matches!(op, Op::Recv { tag: None }).then_some((context, address));
        // Takes scalars, so that the lent memory and `op` stay in registers.
        Ok(lent.with_range_of(&self.apply_modes(*lent, op.prefix(self.limits.prefixes), source_to_store)?))
    }

    /// Checks lent memory, except for [modes](Self::apply_modes) of some providers.
    #[inline(always)]
    pub(super) fn check_range(&self, lent: &Lent, purpose: Use) -> Result<(), PostError> {
        let source = purpose == Use::Source;
        let allowed = if source { lent.readable } else { lent.writable };
        if !allowed {
            return Err(PostError::Access.cold());
        }
        if lent.kind != HmemIface::SYSTEM {
            self.limits.takes_of_device(lent)?;
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
            && self.limits.consumes
        {
            // To post the receive again.
            self.cq().ops().note_source(context, from);
        }
        let lent = lent.with_prefix(needed).ok_or(PostError::NoPrefix { needed })?;
        self.limits.takes_unregistered(&lent)?;
        Ok(lent)
    }
}

// Several pieces.

impl<'m, T: Transport, B: Buffer> Opened<'m, T, B> {
    /// [`reserve`](Self::reserve) for an operation with several pieces and with flags.
    pub(super) fn reserve_pieces(
        &self,
        op: Op,
        flags: OpFlags,
        buf: B,
    ) -> Result<Reserved<'_, 'm, T, B, IoVecs>, Rejected<B>> {
        if let Err(error) = self.limits.admit(with_fence(op.caps(), flags), op.data()) {
            return Err(Rejected { value: buf, error });
        }
        let Lending { lent, context, slot } = self.cq().ops().lend_pieces(self.index, op.kind(), buf)?;
        Ok(Reserved { opened: self, slot, op, lent, context })
    }

    /// Checks all pieces of an operation, and puts them in the form that the provider requires.
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
        if total.ok_or(too_long)? > self.limits.max_msg_size && op.buffer_use() == Use::Source {
            return Err(too_long);
        }
        if self.limits.extra_checks
            && let Some((first, others)) = list.split_first_mut()
        {
            let source_to_store = matches!(op, Op::Recv { tag: None }).then_some((context, address));
            *first = self.apply_modes(*first, op.prefix(self.limits.prefixes), source_to_store)?;
            others.iter().try_for_each(|piece| self.limits.takes_unregistered(piece))?;
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
            granted_by(region, needed)?;
            let len = usize::try_from(region.len).map_err(|_| PostError::OutOfBounds)?;
            left = left.checked_sub(len).ok_or(PostError::OutOfBounds)?;
            let part = RemotePart { addr: region.base, len, key: region.key };
            parts.push(part).map_err(|_| too_many)?;
        }
        if left == 0 { Ok(parts) } else { Err(PostError::OutOfBounds) }
    }
}

impl<'e, 'm, T: Transport, B: Buffer> Reserved<'e, 'm, T, B, IoVecs> {
    /// [`validate`](Reserved::validate) for at most `iov_limit` pieces.
    pub(super) fn validate_pieces(
        self,
        address: Result<FabricAddr, PostError>,
        iov_limit: usize,
    ) -> Result<Posting<'e, T, B, IoVecs>, Rejected<B>> {
        let (opened, op) = (self.opened, self.op);
        let mut posting = self.aim(address)?;
        match opened.check_pieces(&mut posting.lent, op, iov_limit, (posting.context, posting.address)) {
            Ok(()) => Ok(posting),
            Err(error) => Err(Rejected { value: opened.take_back(posting.slot), error }),
        }
    }
}

impl<T: Transport, B: Buffer> Posting<'_, T, B, IoVecs> {
    /// Number of bytes in all pieces.
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

/// Target of an operation on `len` bytes of a region that must grant `needed`.
#[inline(always)]
pub(super) fn rma_target(
    to: FabricAddr,
    (region, offset): (&RemoteRegion, u64),
    len: usize,
    needed: Access,
) -> Result<RmaTarget, PostError> {
    granted_by(region, needed)?;
    let addr = region.range(offset, len as u64).ok_or_else(|| PostError::OutOfBounds.cold())?;
    Ok(RmaTarget { to, addr, key: region.key })
}

#[inline]
fn granted_by(region: &RemoteRegion, needed: Access) -> Result<(), PostError> {
    let missing = needed.difference(region.access);
    if missing.is_empty() { Ok(()) } else { Err(PostError::RemoteAccess(missing).cold()) }
}
