//! Looking at tagged messages that have arrived and not been received.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::Peeks;
use super::post::{OpKind, map_refusal, required_caps};
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::Claim;
use crate::engine::op_table::{ContextKind, OpKey};
use crate::error::{PostError, Rejected};
use crate::transport::{Claims, Context, Msg, Transport};
use crate::vocabulary::{Errno, FabricAddr, OpFlags, TagMatch};

impl<T: Transport, B: Buffer, K: Peeks<T>> Endpoint<'_, T, B, K> {
    /// Looks for a tagged message, and leaves it where it is.
    ///
    /// A peek is answered by a [`Completion::Peek`](crate::completion::Completion::Peek), or
    /// [`Cq::wait_peek`](crate::objects::cq::Cq::wait_peek). It does not wait for a message: the answer says that there is
    /// none, or which one is the oldest that would be received. A message may have arrived and not be seen before the queue was
    /// polled once more.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::PostError;
    /// use loom_core::objects::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, domain::Domain, endpoint::Source};
    /// use loom_core::soft::{Network, NetworkAttr, Soft};
    /// use loom_core::vocabulary::{Tag, TagMatch};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let av = Av::open(&domain, 2)?;
    /// let cq = Cq::<Soft<'_>, Vec<u8>>::open(&domain, CqAttr::new(16))?;
    /// let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    /// alice.tagged_inject(av.insert(&bob.address()?)?, Tag(7), b"hello")?;
    ///
    /// let key = bob.tagged_peek(Source::Any, TagMatch::any())?;
    /// let found = cq.wait_peek(key, Forever)?.expect("there is no deadline").message()?.expect("a message");
    /// let room = vec![0; found.len];
    /// let received = bob.tagged_recv(Source::Any, found.tag, room).map_err(PostError::from)?;
    /// assert_eq!(cq.wait(received, Forever)?.expect("there is no deadline").into_buf(), b"hello");
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`tagged_recv`](Self::tagged_recv), and `EOPNOTSUPP` over a provider that cannot peek (`shm` of libfabric 1).
    #[doc(alias = "FI_PEEK")]
    pub fn tagged_peek(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from.into(), tag.into(), OpFlags::empty())
    }

    /// Looks for a tagged message, and claims it: no other receive takes it. It is fetched with
    /// [`tagged_claim`](Self::tagged_claim), by the claim in the [answer](crate::completion::Found).
    ///
    /// # Errors
    /// As [`tagged_peek`](Self::tagged_peek); `EOPNOTSUPP` also if the provider keeps claims in contexts, and the queue was not
    /// opened [for that](crate::objects::cq::CqAttr::with_claims), and over `ofi_rxd` and libfabric 2's `ofi_rxm`, which
    /// cannot be trusted with claims.
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from.into(), tag.into(), OpFlags::CLAIM)
    }

    /// Looks for a tagged message, and throws it away.
    ///
    /// # Errors
    /// As [`tagged_peek_claim`](Self::tagged_peek_claim); `EOPNOTSUPP` also over `ofi_rxm` and `ofi_rxd`, where the sender of a
    /// long message that is discarded waits for ever.
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from.into(), tag.into(), OpFlags::DISCARD)
    }

    /// Receives a message that was claimed. The operation has the peek's key.
    ///
    /// # Errors
    /// [`PostError::UnknownClaim`] if it was fetched or discarded already, or claimed through another endpoint; or any other
    /// [`PostError`], and the claim stands.
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_claim(&self, claim: Claim, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let opened = &self.opened;
        opened.cq().ops().post_claim(opened.index(), claim, buf, |lent, context| {
            opened.submit_checked(lent, OpKind::TaggedReceive, (context, FabricAddr::UNSPEC), |lent| {
                let (address, pieces) = (FabricAddr::UNSPEC, core::slice::from_ref(lent));
                let flags = OpFlags::CLAIM | OpFlags::COMPLETION;
                let msg = Msg { address, pieces, data: None, context, flags };
                // SAFETY: the endpoint is open, a message is claimed under the context (rule 9 of the op table), and what is
                // lent is writable and stays in the op table until its event or the endpoint's close.
                map_refusal(unsafe { T::tagged_recvmsg(opened.raw(), &msg, claim.tag().into()) })
            })
        })
    }

    /// Throws a message away that was claimed. The answer is that of a peek, with the same key.
    ///
    /// # Errors
    /// As [`tagged_claim`](Self::tagged_claim), and `EOPNOTSUPP` as [`tagged_peek_discard`](Self::tagged_peek_discard).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_discard(&self, claim: Claim) -> Result<OpKey, PostError> {
        self.peeks(OpFlags::DISCARD)?;
        let (cq, index) = (self.cq(), self.opened.index());
        cq.ops().post_discard(index, claim, |context| {
            self.ask(FabricAddr::UNSPEC, claim.tag().into(), OpFlags::CLAIM | OpFlags::DISCARD, context)
        })
    }

    /// Looks for the oldest message that `tag` accepts. With `CLAIM` or `DISCARD`, that is done to it, too.
    fn peek(&self, from: K::From, tag: TagMatch, flags: OpFlags) -> Result<OpKey, PostError> {
        self.limits().granted(required_caps::TAGGED_RECV)?;
        self.peeks(flags)?;
        let (cq, index, address) = (self.cq(), self.opened.index(), self.source(from)?);
        cq.ops().post_peek(index, flags.contains(OpFlags::CLAIM), |context| {
            self.ask(address, tag, flags | OpFlags::PEEK, context)
        })
    }

    /// Whether the transport peeks as it should, with these flags besides.
    fn peeks(&self, flags: OpFlags) -> Result<(), PostError> {
        let (limits, quirks) = (self.limits(), self.limits().quirks);
        let by_number = self.cq().ops().context_kind() == ContextKind::Word;
        let cannot = !quirks.peek
            // Nobody says whether the length that is told is with the prefix or without.
            || limits.prefixes.rx > 0
            || flags.contains(OpFlags::DISCARD) && !quirks.discard
            || flags.contains(OpFlags::CLAIM) && quirks.claims == Claims::Not
            // Discarding goes by way of a claim, in such providers.
            || flags.intersects(OpFlags::CLAIM | OpFlags::DISCARD) && by_number && quirks.claims == Claims::InContexts;
        if cannot { Err(PostError::Errno(Errno::EOPNOTSUPP)) } else { Ok(()) }
    }

    /// Posts what has no buffer.
    fn ask(&self, address: FabricAddr, tag: TagMatch, flags: OpFlags, context: Context) -> Result<(), PostError> {
        let msg = Msg { address, pieces: &[], data: None, context, flags: flags | OpFlags::COMPLETION };
        // SAFETY: the endpoint is open, the address one of its vector or none in particular, and nothing is lent but the
        // context's space, which stays until the event or the endpoint's close.
        map_refusal(unsafe { T::tagged_recvmsg(self.raw(), &msg, tag) })
    }
}
