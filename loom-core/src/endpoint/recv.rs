//! Receiving messages, and peeking at tagged ones: what `man fi_msg` and `man fi_tagged` describe.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::{Has, Peeks, Receives};
use super::post::{OpKind, map_refusal, required_caps};
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::{Claim, ContextKind, OpKey};
use crate::error::{PostError, Rejected};
use crate::options::RecvOptions;
use crate::query::{Messages, MultiRecvs, Tagged, TaggedMultiRecvs};
use crate::transport::{Claims, Context, Msg, Refusal, Transport};
use crate::vocabulary::{Caps, Errno, FabricAddr, HmemIface, OpFlags, TagMatch};

impl<T: Transport, B: Buffer, K: Receives<T>> Endpoint<'_, T, B, K> {
    /// The address that messages without tag come from.
    #[inline]
    fn plain_source(&self, from: K::From) -> Result<FabricAddr, PostError> {
        self.limits().directs(self.source(from)?)
    }

    /// Address that tagged messages come from, if the provider matches the tag as it should.
    #[inline]
    fn tagged_source(&self, from: K::From, tag: TagMatch) -> Result<FabricAddr, PostError> {
        if tag.ignore != 0 && !self.limits().quirks.masked_recv {
            return Err(PostError::MaskedTag.cold());
        }
        self.source(from)
    }

    /// Receives a message.
    ///
    /// A message that is longer than the buffer completes with `ETRUNC`: what fits is there, and the error says how
    /// much did not.
    ///
    /// # Errors
    /// [`PostError::NotGranted`] for a directed receive where the provider has none, or has none that works for messages
    /// without tag (`net` and `tcp` take anybody's, `shm` and `tcp;ofi_rxm` of libfabric 2 crash), or any other [`PostError`];
    /// the buffer comes back.
    #[doc(alias = "fi_recv")]
    // Always: see `lend`.
    #[inline(always)]
    pub fn recv(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Messages>,
        B: TargetBuffer,
    {
        let (from, how) = (from.into(), (required_caps::RECV, OpKind::Receive));
        let posting = self.opened.lend(how, || self.plain_source(from), None, buf)?;
        // SAFETY: see `Posting`.
        let submitted = unsafe { T::recv(posting.raw, posting.address, &posting.lent, posting.context) };
        self.opened.settle(posting, map_refusal(submitted))
    }

    /// Receives a message into one buffer or several, each filled before the next: see [`send_with`](Self::send_with).
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`PostError::TooManyPieces`].
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recv_with(&self, from: impl Into<K::From>, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Messages>,
        B: TargetBuffer,
    {
        let (from, how) = (from.into(), (required_caps::RECV, OpKind::Receive, self.limits().rx_iov_limit));
        self.opened.post_msg(
            how,
            || self.plain_source(from),
            (None, options.flags),
            buf,
            |raw, msg, _| {
                // SAFETY: see `post_msg`.
                map_refusal(unsafe { T::recvmsg(raw, msg) })
            },
        )
    }

    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`PostError::MaskedTag`] over a provider that fails at ignored bits.
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Tagged>,
        B: TargetBuffer,
    {
        let (from, tag, how) = (from.into(), tag.into(), (required_caps::TAGGED_RECV, OpKind::TaggedReceive));
        let posting = self.opened.lend(how, || self.tagged_source(from, tag), None, buf)?;
        // SAFETY: see `Posting`.
        let submitted = unsafe { T::tagged_recv(posting.raw, posting.address, &posting.lent, tag, posting.context) };
        self.opened.settle(posting, map_refusal(submitted))
    }

    /// Receives a tagged message into one buffer or several: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv_with`](Self::recv_with).
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
        K: Has<Tagged>,
        B: TargetBuffer,
    {
        let (from, tag) = (from.into(), tag.into());
        let how = (required_caps::TAGGED_RECV, OpKind::TaggedReceive, self.limits().rx_iov_limit);
        self.opened.post_msg(
            how,
            || self.tagged_source(from, tag),
            (None, options.flags),
            buf,
            |raw, msg, _| {
                // SAFETY: see `post_msg`.
                map_refusal(unsafe { T::tagged_recvmsg(raw, msg, tag) })
            },
        )
    }

    /// Receives messages into one buffer, one behind the other, until less is left of it than the endpoint's
    /// [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV). Each is a
    /// [`Completion::Piece`](crate::completion::Completion::Piece), which shows the message where it lies. When the provider
    /// has released the buffer and all its pieces were dropped, the operation is over and the buffer comes back like any
    /// other's, with a length of zero. (The software transport releases one earlier if its queue has no place for all that has
    /// arrived before.)
    ///
    /// A message that is longer than what is left is truncated: a piece that has failed. So that none is, set that option to
    /// the length of the longest message.
    ///
    /// Messages of a multi-receive are events that no post of this side is behind, like those of peers'
    /// ([`PEER_EVENTS`](crate::cq::PEER_EVENTS)): a program that waits for one operation and lets them lie gets an error that says to
    /// take them first. Waiting for the multi-receive itself ends with
    /// [`CqError::PiecesOut`](crate::cq::CqError::PiecesOut) where nothing but its pieces is missing.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::completion::Completion;
    /// use loom_core::{av::Av, cq::Cq, domain::Domain, endpoint::{Binding, Source}};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::EndpointOption;
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// let alice = cq.endpoint(&av)?;
    /// let bob = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, 400))?;
    /// let to_bob = av.insert(&bob.address()?)?;
    /// let key = bob.multi_recv(Source::Any, vec![0; 1000])?;
    /// for message in [&[1; 300][..], &[2; 20], &[3; 300]] {
    ///     alice.inject(to_bob, message)?;
    ///     let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
    ///     assert_eq!(piece.bytes(), message);
    /// }
    /// // Fewer than 400 bytes are left.
    /// let Some(Completion::Op(done)) = cq.poll()? else { panic!("the buffer") };
    /// assert_eq!((done.key(), done.buf().len()), (key, 1000));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and
    /// - [`PostError::NotGranted`] without
    ///   [`Caps::MULTI_RECV`](crate::vocabulary::Caps::MULTI_RECV), which has to be asked for;
    /// - [`PostError::DeviceMemory`] for any memory of a device: messages are shown where
    ///   they lie;
    /// - [`PostError::NotSafe`] over providers that may write behind the buffer, or to it when
    ///   it has come back. Those that are known not to are the software transport and, of libfabric 2, `tcp`. For the others
    ///   there is [`multi_recv_unchecked`](Self::multi_recv_unchecked).
    #[doc(alias = "FI_MULTI_RECV")]
    pub fn multi_recv(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Messages> + Has<MultiRecvs>,
        B: TargetBuffer,
    {
        let limits = self.limits();
        if !limits.quirks.multi_recv && limits.granted(required_caps::MULTI_RECV).is_ok() {
            return Err(Rejected { buf, error: PostError::NotSafe });
        }
        // SAFETY: the transport keeps to the buffer.
        unsafe { self.multi_recv_unchecked(from, buf) }
    }

    /// [`multi_recv`](Self::multi_recv) over any provider that grants it.
    ///
    /// # Errors
    /// As [`multi_recv`](Self::multi_recv), but for `NotSafe`.
    ///
    /// # Safety
    /// The provider keeps to the buffer. Those of libfabric 1.17 and 2.5 do (but for what is said below) as long as
    /// - [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV) was set
    ///   [when the endpoint was opened](super::Binding::option), and no peer sends a longer message: `shm`, `sockets`,
    ///   `tcp;ofi_rxm` and `udp;ofi_rxd` write it, or those that come after it, behind the buffer;
    /// - it is not cancelled, nor its endpoint closed, while a message is coming in: `net`, `tcp;ofi_rxm` (1.17), `udp;ofi_rxd`
    ///   and `shm` (1.17) go on writing to the buffer.
    ///
    /// Three release a buffer before all of it is there: `tcp;ofi_rxm` (1.17) if a message is longer than 16 KiB, `net` and
    /// `udp;ofi_rxd` if more than one peer sends. No peer sends so, then.
    #[doc(alias = "FI_MULTI_RECV")]
    pub unsafe fn multi_recv_unchecked(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Messages> + Has<MultiRecvs>,
        B: TargetBuffer,
    {
        let from = from.into();
        self.multi(
            required_caps::MULTI_RECV,
            || self.plain_source(from),
            buf,
            |raw, msg| {
                // SAFETY: see `multi`.
                unsafe { T::recvmsg(raw, msg) }
            },
        )
    }

    /// Receives tagged messages into one buffer: those that `tag` accepts. What is said of [`multi_recv`](Self::multi_recv) holds for
    /// this: each message is a [`Completion::Piece`](crate::completion::Completion::Piece), which tells its tag, and the buffer comes
    /// back when little of it is left. A message that is [claimed](Self::tagged_peek_claim) takes no room from it.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::completion::Completion;
    /// use loom_core::{av::Av, cq::Cq, domain::Domain, endpoint::Source};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::{Tag, TagMatch};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    /// let to_bob = av.insert(&bob.address()?)?;
    /// // Whatever is in the lower four bits.
    /// bob.tagged_multi_recv(Source::Any, TagMatch::masked(Tag(0x70), 0xf), vec![0; 1000])?;
    /// for tag in [0x71, 0x7f] {
    ///     alice.tagged_inject(to_bob, Tag(tag), b"hello")?;
    ///     let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
    ///     assert_eq!((piece.result()?.tag(), piece.bytes()), (Some(Tag(tag)), &b"hello"[..]));
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`multi_recv`](Self::multi_recv), with [`Caps::TAGGED_MULTI_RECV`](crate::vocabulary::Caps::TAGGED_MULTI_RECV) in place of
    /// `MULTI_RECV`. Of the tested providers of libfabric none grants it; over others it is [`PostError::NotSafe`].
    #[doc(alias = "FI_TAGGED_MULTI_RECV")]
    pub fn tagged_multi_recv(
        &self,
        from: impl Into<K::From>,
        tag: impl Into<TagMatch>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Tagged> + Has<TaggedMultiRecvs>,
        B: TargetBuffer,
    {
        let limits = self.limits();
        if !limits.quirks.tagged_multi_recv && limits.granted(required_caps::TAGGED_MULTI_RECV).is_ok() {
            return Err(Rejected { buf, error: PostError::NotSafe });
        }
        // SAFETY: the transport keeps to the buffer.
        unsafe { self.tagged_multi_recv_unchecked(from, tag, buf) }
    }

    /// [`tagged_multi_recv`](Self::tagged_multi_recv) over any provider that grants it.
    ///
    /// # Errors
    /// As [`tagged_multi_recv`](Self::tagged_multi_recv), but for `NotSafe`.
    ///
    /// # Safety
    /// The provider keeps to the buffer: it writes nothing behind it, and not to it when it has come back. See
    /// [`multi_recv_unchecked`](Self::multi_recv_unchecked) for what providers do with messages without tag.
    #[doc(alias = "FI_TAGGED_MULTI_RECV")]
    pub unsafe fn tagged_multi_recv_unchecked(
        &self,
        from: impl Into<K::From>,
        tag: impl Into<TagMatch>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Tagged> + Has<TaggedMultiRecvs>,
        B: TargetBuffer,
    {
        let (from, tag) = (from.into(), tag.into());
        self.multi(
            required_caps::TAGGED_MULTI_RECV,
            || self.tagged_source(from, tag),
            buf,
            |raw, msg| {
                // SAFETY: see `multi`.
                unsafe { T::tagged_recvmsg(raw, msg, tag) }
            },
        )
    }

    /// Posts a multi-receive. `post` is called with an open endpoint (C1), and a message whose address is one of its vector or none in
    /// particular (C13); what is lent is writable and stays in the op table until the event that releases it or the endpoint's
    /// close (C9, C10).
    fn multi(
        &self,
        caps: Caps,
        address: impl FnOnce() -> Result<FabricAddr, PostError>,
        buf: B,
        post: impl FnOnce(&T::Endpoint, &Msg<'_>) -> Result<(), Refusal>,
    ) -> Result<OpKey, Rejected<B>> {
        let opened = &self.opened;
        if let Err(error) = opened.granted(caps, None) {
            return Err(Rejected { buf, error });
        }
        opened.cq().ops().post_multi(opened.index(), buf, |lent, context| {
            // After the buffer's own code (rule 6 of the op table), which may remove the peer.
            let address = address()?;
            // Its messages are shown where they lie.
            if lent.kind() != HmemIface::SYSTEM {
                return Err(PostError::DeviceMemory);
            }
            // No prefix: these are not granted where one is asked for.
            let lent = opened.checked(lent, OpKind::Receive, (context, address))?;
            let pieces = core::slice::from_ref(&lent);
            let flags = OpFlags::MULTI_RECV | OpFlags::COMPLETION;
            let msg = Msg { address, pieces, data: None, context, flags };
            map_refusal(post(opened.raw(), &msg))
        })
    }
}

impl<T: Transport, B: Buffer, K: Peeks<T>> Endpoint<'_, T, B, K> {
    /// Looks for a tagged message, and leaves it where it is.
    ///
    /// A peek is answered by a [`Completion::Peek`](crate::completion::Completion::Peek), or
    /// [`Cq::wait_peek`](crate::cq::Cq::wait_peek). It does not wait for a message: the answer says that there is
    /// none, or which one is the oldest that would be received. A message may have arrived and not be seen before the queue was
    /// polled once more.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::PostError;
    /// use loom_core::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, domain::Domain, endpoint::Source};
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
    /// let found = cq.finish_peek(key, Forever)?.message()?.expect("a message");
    /// let room = vec![0; found.len];
    /// let received = bob.tagged_recv(Source::Any, found.tag, room).map_err(PostError::from)?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`tagged_recv`](Self::tagged_recv), and `EOPNOTSUPP` over a provider that cannot peek (`shm` of libfabric 1).
    #[doc(alias = "FI_PEEK")]
    pub fn tagged_peek(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError>
    where
        K: Has<Tagged>,
    {
        self.peek(from.into(), tag.into(), OpFlags::empty())
    }

    /// Looks for a tagged message, and claims it: no other receive takes it. It is fetched with
    /// [`tagged_claim`](Self::tagged_claim), by the claim in the [answer](crate::completion::Found).
    ///
    /// # Errors
    /// As [`tagged_peek`](Self::tagged_peek); `EOPNOTSUPP` also if the provider keeps claims in contexts, and the queue was not
    /// opened [for that](crate::cq::CqAttr::with_claims), and over `ofi_rxd` and libfabric 2's `ofi_rxm`, which
    /// cannot be trusted with claims.
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError>
    where
        K: Has<Tagged>,
    {
        self.peek(from.into(), tag.into(), OpFlags::CLAIM)
    }

    /// Looks for a tagged message, and throws it away.
    ///
    /// # Errors
    /// As [`tagged_peek_claim`](Self::tagged_peek_claim); `EOPNOTSUPP` also over `ofi_rxm` and `ofi_rxd`, where the sender of a
    /// long message that is discarded waits for ever.
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>) -> Result<OpKey, PostError>
    where
        K: Has<Tagged>,
    {
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
        K: Has<Tagged>,
        B: TargetBuffer,
    {
        let opened = &self.opened;
        opened.cq().ops().post_claim(opened.index(), claim, buf, |lent, context| {
            let lent = opened.checked(lent, OpKind::TaggedReceive, (context, FabricAddr::UNSPEC))?;
            let (address, pieces) = (FabricAddr::UNSPEC, core::slice::from_ref(&lent));
            let flags = OpFlags::CLAIM | OpFlags::COMPLETION;
            let msg = Msg { address, pieces, data: None, context, flags };
            // SAFETY: the endpoint is open (C1), a message is claimed under the context (C15; rule 9 of the op table), and what is
            // lent is writable and stays in the op table until its event or the endpoint's close (C9).
            map_refusal(unsafe { T::tagged_recvmsg(opened.raw(), &msg, claim.tag().into()) })
        })
    }

    /// Throws a message away that was claimed. The answer is that of a peek, with the same key.
    ///
    /// # Errors
    /// As [`tagged_claim`](Self::tagged_claim), and `EOPNOTSUPP` as [`tagged_peek_discard`](Self::tagged_peek_discard).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_discard(&self, claim: Claim) -> Result<OpKey, PostError>
    where
        K: Has<Tagged>,
    {
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
        let (cq, index, address) = (self.cq(), self.opened.index(), self.tagged_source(from, tag)?);
        cq.ops().post_peek(index, flags.contains(OpFlags::CLAIM), |context| {
            self.ask(address, tag, flags | OpFlags::PEEK, context)
        })
    }

    /// Whether the transport peeks as it should, with these flags besides.
    fn peeks(&self, flags: OpFlags) -> Result<(), PostError> {
        let (limits, quirks) = (self.limits(), self.limits().quirks);
        let by_number = self.cq().ops().context_kind() == ContextKind::Word;
        let cannot = !quirks.peek
            // libfabric does not define whether the length that is reported counts the prefix.
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
        // SAFETY: the endpoint is open (C1), the address one of its vector or none in particular (C13), and nothing is lent but the
        // context's space, which stays until the event or the endpoint's close (C10).
        map_refusal(unsafe { T::tagged_recvmsg(self.raw(), &msg, tag) })
    }
}
