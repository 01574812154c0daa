//! Looking at tagged messages that have arrived, claiming and discarding them: `FI_PEEK`, `FI_CLAIM`, `FI_DISCARD`.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Port;
use super::post::{Use, needs, taken};
use crate::buffer::Buffer;
use crate::engine::op_table::{Claim, ContextKind, OpKey};
use crate::error::{PostError, Rejected};
use crate::transport::{Claims, Context, Msg, Transport};
use crate::vocabulary::{Errno, FabricAddr, OpFlags, TagMatch};

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// Whether the transport peeks as it should, with these flags besides.
    fn peeks(&self, flags: OpFlags) -> Result<(), PostError> {
        let conduct = self.limits.conduct;
        let by_number = self.cq().ops().context_kind() == ContextKind::Word;
        let cannot = !conduct.peek
            // Nobody says whether the length that is told is with the prefix or without.
            || self.limits.prefixes.rx > 0
            || flags.contains(OpFlags::DISCARD) && !conduct.discard
            || flags.contains(OpFlags::CLAIM) && conduct.claims == Claims::Not
            // Discarding goes by way of a claim, in such providers.
            || flags.intersects(OpFlags::CLAIM | OpFlags::DISCARD) && by_number && conduct.claims == Claims::InContexts;
        if cannot { Err(PostError::Errno(Errno::EOPNOTSUPP)) } else { Ok(()) }
    }

    /// Posts what has no buffer.
    fn ask(&self, address: FabricAddr, tag: TagMatch, flags: OpFlags, context: Context) -> Result<(), PostError> {
        let msg = Msg { address, pieces: &[], data: None, context, flags: flags | OpFlags::COMPLETION };
        // SAFETY: the endpoint is open, the address one of its vector or none in particular, and nothing is lent but the
        // context's space, which stays until the event or the endpoint's close.
        taken(unsafe { T::tagged_recvmsg(self.raw(), &msg, tag) })
    }

    /// Looks for the oldest message that `tag` accepts. With `CLAIM` or `DISCARD`, that is done to it, too.
    pub(crate) fn tagged_peek(
        &self,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: TagMatch,
        flags: OpFlags,
    ) -> Result<OpKey, PostError> {
        self.granted(needs::TAGGED_RECV)?;
        self.peeks(flags)?;
        let address = from()?;
        self.cq().ops().post_peek(self.index, flags.contains(OpFlags::CLAIM), |context| {
            self.ask(address, tag, flags | OpFlags::PEEK, context)
        })
    }

    /// Receives a message that was claimed.
    pub(crate) fn tagged_claim(&self, claim: Claim, buf: B) -> Result<OpKey, Rejected<B>> {
        self.cq().ops().post_claim(self.index, claim, buf, |lent, context| {
            self.hand_in(lent, Use::TaggedReceive, (context, FabricAddr::UNSPEC), |lent| {
                let pieces = core::slice::from_ref(lent);
                let msg = Msg {
                    address: FabricAddr::UNSPEC,
                    pieces,
                    data: None,
                    context,
                    flags: OpFlags::CLAIM | OpFlags::COMPLETION,
                };
                // SAFETY: the endpoint is open, a message is claimed under the context (rule 9 of the op table), and what is
                // lent is writable and stays in the op table until its event or the endpoint's close.
                taken(unsafe { T::tagged_recvmsg(self.raw(), &msg, claim.tag().into()) })
            })
        })
    }

    /// Discards a message that was claimed.
    pub(crate) fn tagged_discard(&self, claim: Claim) -> Result<OpKey, PostError> {
        self.peeks(OpFlags::DISCARD)?;
        self.cq().ops().post_discard(self.index, claim, |context| {
            self.ask(FabricAddr::UNSPEC, claim.tag().into(), OpFlags::CLAIM | OpFlags::DISCARD, context)
        })
    }
}
