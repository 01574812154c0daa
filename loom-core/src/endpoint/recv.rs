#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::{Peeks, Receives};
use super::options::RecvOptions;
use super::post::{Address, Op};
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::{Claim, ContextKind, Kind, OpKey};
use crate::error::{PostError, Rejected};
use crate::transport::{Claims, Context, Msg, Transport};
use crate::vocabulary::{Errno, FabricAddr, OpFlags, TagMatch};

impl<'m, T: Transport, B: Buffer, K: Receives<T>> Endpoint<'m, T, B, K> {
    /// Receives a message.
    ///
    /// A message longer than the buffer completes with `ETRUNC`, which reports the missing bytes.
    ///
    /// # Errors
    /// Any [`PostError`], with the buffer. [`PostError::NotGranted`] for a directed receive if the
    /// provider has none, or none for untagged messages (`net` and `tcp` accept any peer's, `shm`
    /// and `tcp;ofi_rxm` of libfabric 2 crash).
    #[doc(alias = "fi_recv")]
    // Always inlined, like `lend`.
    #[inline(always)]
    pub fn recv(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_recv(from.into(), None, buf)
    }

    /// [`recv`](Self::recv) into one or several buffers, each filled before the next
    /// ([`send_with`](Self::send_with)).
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv), and [`PostError::TooManyPieces`].
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recv_with(&self, from: impl Into<K::From>, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_recv_msg(from.into(), None, options, buf)
    }

    /// Receives the oldest tagged message that `tag` accepts.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv), and [`PostError::MaskedTag`] over a provider that mishandles
    /// ignored bits.
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_recv(from.into(), Some(tag.into()), buf)
    }

    /// [`tagged_recv`](Self::tagged_recv) into one or several buffers.
    ///
    /// # Errors
    /// Those of [`recv_with`](Self::recv_with), and [`PostError::MaskedTag`].
    #[doc(alias = "fi_trecvmsg")]
    #[doc(alias = "fi_trecvv")]
    pub fn tagged_recv_with(
        &self,
        from: impl Into<K::From>,
        tag: impl Into<TagMatch>,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_recv_msg(from.into(), Some(tag.into()), options, buf)
    }

    /// Receives messages into one buffer, one after the other, until its rest is smaller than the
    /// endpoint's [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV). Each is a
    /// [`Completion::Piece`](crate::completion::Completion::Piece), which shows it in place. Once
    /// the provider has released the buffer and all pieces were dropped, the operation completes
    /// with length zero. The software transport releases a buffer earlier if its queue has no slot
    /// for all earlier arrivals.
    ///
    /// A message longer than the rest is truncated, and its piece has failed. Setting
    /// `MIN_MULTI_RECV` to the maximum message length prevents this.
    ///
    /// Waiting for one operation without taking pieces fails, as with peers' events
    /// ([`PEER_EVENTS`](crate::cq::PEER_EVENTS)). Waiting for the multi-receive ends with
    /// [`CqError::PiecesOut`](crate::cq::CqError::PiecesOut) if only its pieces are outstanding.
    ///
    /// ```
    /// use loom_core::{Binding, Completion, Source, vocabulary::EndpointOption};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// # let alice = cq.endpoint(&av)?;
    /// let bob = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, 400))?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let key = bob.multi_recv(Source::Any, vec![0; 1000])?;
    /// for message in [&[1; 300][..], &[2; 20], &[3; 300]] {
    ///     alice.inject(to_bob, message)?;
    ///     let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
    ///     assert_eq!(piece.bytes(), message);
    /// }
    /// // Fewer than 400 bytes are left.
    /// let Some(Completion::Op(done)) = cq.poll()? else { panic!("the buffer") };
    /// assert_eq!((done.key(), done.buf().len()), (key, 1000));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv), and
    /// - [`PostError::NotGranted`] without
    ///   [`Caps::MULTI_RECV`](crate::vocabulary::Caps::MULTI_RECV), which hints must request
    /// - [`PostError::DeviceMemory`]
    /// - [`PostError::NotSafe`] except over the software transport and libfabric 2's `tcp`. Other
    ///   providers may write behind the buffer, or later:
    ///   [`multi_recv_unchecked`](Self::multi_recv_unchecked)
    #[doc(alias = "FI_MULTI_RECV")]
    pub fn multi_recv(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_multi_recv(from, None, self.limits().quirks.multi_recv, buf)
    }

    /// [`multi_recv`](Self::multi_recv) or [`tagged_multi_recv`](Self::tagged_multi_recv) over any
    /// provider that grants it.
    ///
    /// # Errors
    /// Those of [`multi_recv`](Self::multi_recv), except `NotSafe`.
    ///
    /// # Safety
    /// The provider writes only to the buffer, and only until it has come back. Those of libfabric
    /// 1.17 and 2.5 do if
    /// - [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV) was set [when the
    ///   endpoint was opened](super::Binding::option), and no peer sends a longer message.
    ///   Otherwise `shm`, `sockets`, `tcp;ofi_rxm` and `udp;ofi_rxd` write it, or later ones,
    ///   behind the buffer
    /// - neither the operation is cancelled nor its endpoint closed while a message arrives.
    ///   Otherwise `net`, `tcp;ofi_rxm` (1.17), `udp;ofi_rxd` and `shm` (1.17) continue to write
    /// - messages over `tcp;ofi_rxm` (1.17) have at most 16 KiB, and only one peer sends over `net`
    ///   and `udp;ofi_rxd`. Otherwise these release a buffer before it is complete
    #[doc(alias = "FI_MULTI_RECV")]
    #[doc(alias = "FI_TAGGED_MULTI_RECV")]
    pub unsafe fn multi_recv_unchecked(
        &self,
        from: impl Into<K::From>,
        tag: Option<TagMatch>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let from = from.into();
        // No prefix: multi-receives are not granted with prefixes.
        let op = self.opened.prepare(Op::MultiRecv { tag }, buf, self.source(from, tag))?;
        let (address, pieces, context) = (op.address, core::slice::from_ref(&op.lent), op.context);
        let flags = OpFlags::MULTI_RECV | OpFlags::COMPLETION;
        let msg = Msg { address, pieces, data: None, context, flags };
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1, and the caller P6 (O3).
        let submitted = unsafe { T::recvmsg(op.raw, &msg, tag) };
        self.opened.submitted(op, submitted)
    }

    /// [`multi_recv`](Self::multi_recv) of tagged messages that `tag` accepts. Each
    /// [`Completion::Piece`](crate::completion::Completion::Piece) reports its tag. A
    /// [claimed](Self::tagged_peek_claim) message uses no space in the buffer.
    ///
    /// ```
    /// use loom_core::{Completion, Source, Tag, TagMatch};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// // Whatever is in the lower four bits.
    /// bob.tagged_multi_recv(Source::Any, TagMatch { tag: Tag(0x70), ignore: 0xf }, vec![0; 1000])?;
    /// for tag in [0x71, 0x7f] {
    ///     alice.tagged_inject(to_bob, Tag(tag), b"hello")?;
    ///     let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
    ///     assert_eq!((piece.result()?.tag, piece.bytes()), (Some(Tag(tag)), &b"hello"[..]));
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`multi_recv`](Self::multi_recv), with
    /// [`Caps::TAGGED_MULTI_RECV`](crate::vocabulary::Caps::TAGGED_MULTI_RECV) for `MULTI_RECV`.
    /// The tested libfabric providers do not grant it. Others get [`PostError::NotSafe`].
    #[doc(alias = "FI_TAGGED_MULTI_RECV")]
    pub fn tagged_multi_recv(
        &self,
        from: impl Into<K::From>,
        tag: impl Into<TagMatch>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_multi_recv(from, Some(tag.into()), self.limits().quirks.tagged_multi_recv, buf)
    }

    #[inline(always)]
    fn source(&self, from: K::From, tag: Option<TagMatch>) -> ReceiveFrom<'_, 'm, T, B, K> {
        ReceiveFrom { endpoint: self, from, tag }
    }

    #[inline(always)]
    fn post_recv(&self, from: K::From, tag: Option<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>> {
        let op = self.opened.prepare(Op::Recv { tag }, buf, self.source(from, tag))?;
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = unsafe { T::recv(op.raw, op.address, &op.lent, tag, op.context) };
        self.opened.submitted(op, submitted)
    }

    fn post_recv_msg(
        &self,
        from: K::From,
        tag: Option<TagMatch>,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let (source, limit) = (self.source(from, tag), self.limits().rx_iov_limit);
        let op = self.opened.prepare_pieces(Op::Recv { tag }, options.flags(), buf, source, limit)?;
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = unsafe { T::recvmsg(op.raw, &op.msg(None, options.flags()), tag) };
        self.opened.submitted(op, submitted)
    }

    fn post_multi_recv(
        &self,
        from: impl Into<K::From>,
        tag: Option<TagMatch>,
        safe: bool,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        if !safe && self.limits().admit(Op::MultiRecv { tag }.caps(), None).is_ok() {
            return Err(Rejected { value: buf, error: PostError::NotSafe });
        }
        // SAFETY: the transport's quirks state that it keeps to the buffer, or the post is refused.
        unsafe { self.multi_recv_unchecked(from, tag, buf) }
    }
}

impl<T: Transport, B: Buffer, K: Peeks<T>> Endpoint<'_, T, B, K> {
    /// Looks for a tagged message without receiving it.
    ///
    /// Completes as a [`Completion::Peek`](crate::completion::Completion::Peek)
    /// ([`Cq::wait_peek`](crate::cq::Cq::wait_peek)): it reports the oldest message that a receive
    /// would take, or none. An arrived message may be invisible until the queue is polled once
    /// more.
    ///
    /// ```
    /// use loom_core::{Av, Cq, CqAttr, Forever, PostError, Source, Tag, TagMatch, soft::Soft};
    ///
    /// # fixture::domain!(network, domain);
    /// let av = Av::open(&domain, 2)?;
    /// let cq = Cq::<Soft<'_>, Vec<u8>>::open(&domain, CqAttr::new(16))?;
    /// let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    /// alice.tagged_inject(av.insert(&bob.address()?)?, Tag(7), b"hello")?;
    ///
    /// let key = bob.tagged_peek(Source::Any, TagMatch::ANY)?;
    /// let found = cq.finish_peek(key, Forever)?.message()?.expect("a message");
    /// let room = vec![0; found.len];
    /// let received = bob.tagged_recv(Source::Any, found.tag, room).map_err(PostError::from)?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`tagged_recv`](Self::tagged_recv), and `EOPNOTSUPP` over a provider without peeks
    /// (`shm` of libfabric 1).
    #[doc(alias = "FI_PEEK")]
    pub fn tagged_peek(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from.into(), tag.into(), OpFlags::empty())
    }

    /// Looks for a tagged message and claims it: only [`tagged_claim`](Self::tagged_claim) receives
    /// it, with the claim in the [result](crate::completion::Found).
    ///
    /// # Errors
    /// Those of [`tagged_peek`](Self::tagged_peek). `EOPNOTSUPP` also for a queue opened without
    /// [claims](crate::cq::CqAttr::claims), if the provider keeps them in contexts, and over
    /// `ofi_rxd` and libfabric 2's `ofi_rxm`, where claims are unreliable.
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from.into(), tag.into(), OpFlags::CLAIM)
    }

    /// Looks for a tagged message and discards it.
    ///
    /// # Errors
    /// Those of [`tagged_peek_claim`](Self::tagged_peek_claim). `EOPNOTSUPP` also over `ofi_rxm`
    /// and `ofi_rxd`, where the sender of a discarded long message waits for ever.
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from.into(), tag.into(), OpFlags::DISCARD)
    }

    /// Receives a claimed message, under the peek's key.
    ///
    /// # Errors
    /// [`PostError::UnknownClaim`] for a message already received or discarded, or claimed through
    /// another endpoint. After any other [`PostError`] the claim remains valid.
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_claim(&self, claim: Claim, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let opened = &self.opened;
        opened.cq().ops().post_claim(opened.index, claim, buf, |lent, context| {
            let (tag, address) = (Some(claim.tag.into()), FabricAddr::UNSPEC);
            let lent = opened.check_memory(lent, Op::Recv { tag }, context, address)?;
            let pieces = core::slice::from_ref(&lent);
            let flags = OpFlags::CLAIM | OpFlags::COMPLETION;
            let msg = Msg { address, pieces, data: None, context, flags };
            // SAFETY: open (H1), a message is claimed under the context (O3, rule 9 of the op
            // table), and the memory is writable and stays in the op table until the event or the
            // endpoint's close (L1).
            Ok(unsafe { T::recvmsg(opened.raw(), &msg, tag) }?)
        })
    }

    /// Discards a claimed message. Completes as a peek with the same key.
    ///
    /// # Errors
    /// Those of [`tagged_claim`](Self::tagged_claim), and `EOPNOTSUPP` as in
    /// [`tagged_peek_discard`](Self::tagged_peek_discard).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_discard(&self, claim: Claim) -> Result<OpKey, PostError> {
        self.peeks(OpFlags::DISCARD)?;
        let (cq, index) = (self.cq(), self.opened.index);
        cq.ops().post_discard(index, claim, |context| {
            self.receive_empty(FabricAddr::UNSPEC, claim.tag.into(), OpFlags::CLAIM | OpFlags::DISCARD, context)
        })
    }

    fn peek(&self, from: K::From, tag: TagMatch, flags: OpFlags) -> Result<OpKey, PostError> {
        self.limits().admit(Op::Recv { tag: Some(tag) }.caps(), None)?;
        self.peeks(flags)?;
        let (cq, index, address) = (self.cq(), self.opened.index, self.source(from, Some(tag)).resolve()?);
        let kind = if flags.contains(OpFlags::CLAIM) { Kind::PeekClaim } else { Kind::Peek };
        cq.ops().post_empty(index, kind, |context| self.receive_empty(address, tag, flags | OpFlags::PEEK, context))
    }

    fn peeks(&self, flags: OpFlags) -> Result<(), PostError> {
        let (limits, quirks) = (self.limits(), self.limits().quirks);
        let by_number = self.cq().ops().context_kind() == ContextKind::Word;
        let cannot = !quirks.peek
            // libfabric does not define whether the reported length includes the prefix.
            || limits.prefixes.rx > 0
            || flags.contains(OpFlags::DISCARD) && !quirks.discard
            || flags.contains(OpFlags::CLAIM) && quirks.claims == Claims::Not
            // These providers discard by a claim.
            || flags.intersects(OpFlags::CLAIM | OpFlags::DISCARD) && by_number && quirks.claims == Claims::InContexts;
        if cannot { Err(PostError::Errno(Errno::EOPNOTSUPP)) } else { Ok(()) }
    }

    fn receive_empty(
        &self,
        address: FabricAddr,
        tag: TagMatch,
        flags: OpFlags,
        context: Context,
    ) -> Result<(), PostError> {
        let msg = Msg { address, pieces: &[], data: None, context, flags: flags | OpFlags::COMPLETION };
        // SAFETY: open (H1), the address is of the vector or `UNSPEC` (O1), and only the context's
        // space is lent, until the event or the endpoint's close (L2).
        Ok(unsafe { T::recvmsg(self.raw(), &msg, Some(tag)) }?)
    }
}

/// Source of a receive.
struct ReceiveFrom<'e, 'm, T: Transport, B: Buffer, K: Receives<T>> {
    endpoint: &'e Endpoint<'m, T, B, K>,
    from: K::From,
    tag: Option<TagMatch>,
}

impl<T: Transport, B: Buffer, K: Receives<T>> Address for ReceiveFrom<'_, '_, T, B, K> {
    #[inline(always)]
    fn resolve(self) -> Result<FabricAddr, PostError> {
        let ReceiveFrom { endpoint, from, tag } = self;
        let limits = endpoint.limits();
        if tag.is_some_and(|tag| tag.ignore != 0) && !limits.quirks.masked_recv {
            return Err(PostError::MaskedTag.cold());
        }
        let address = endpoint.kind.source(limits, from)?;
        if tag.is_some() { Ok(address) } else { limits.directs(address) }
    }
}
