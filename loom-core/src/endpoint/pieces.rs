use super::opened::Opened;
use super::post::{Address, Op, Posting, Use};
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::engine::op_table::Lending;
use crate::error::{PostError, Rejected};
use crate::transport::{Context, Msg, Transport};
use crate::vocabulary::{Caps, FabricAddr, ImmediateData, OpFlags};

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// [`prepare`](Self::prepare) for several pieces, which the caller checks.
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
        op: Op,
        flags: OpFlags,
        buf: B,
        address: impl Address,
        iov_limit: usize,
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
        if self.limits.has_modes
            && let Some((first, others)) = list.split_first_mut()
        {
            let receive_from = op.may_repost().then_some((context, address));
            *first = self.apply_modes(*first, op.prefix(self.limits.prefixes), receive_from)?;
            others.iter().try_for_each(|piece| self.limits.check_registration(piece))?;
        }
        Ok(())
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

pub(super) const fn with_fence(caps: Caps, flags: OpFlags) -> Caps {
    if flags.contains(OpFlags::FENCE) { caps.union(Caps::FENCE) } else { caps }
}
