use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::engine::tag_matcher::{MessageId, Want};
use loom_core::error::{PostError, Rejected};
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};

use crate::carrier::Carrier;
use crate::endpoint::TaggedEndpoint;
use crate::error::LinkError;
use crate::operation::{Message, Op, Source, State, TaggedClaim, TaggedFound, TaggedKey, failed};
use crate::packet::{LinkId, copy_out, source_len, target_len};
use crate::slab::Key;
use crate::wire::Body;

impl<C: Carrier, B: Buffer, A: Allocator> TaggedEndpoint<C, B, A> {
    /// Sends a tagged message. The operation completes when its packets are sent: for an
    /// [eager](Self::eager_size) message at once, for others after the receiver's answer.
    ///
    /// # Errors
    /// The buffer is returned.
    /// - [`PostError::Full`] at the maximum number of operations
    /// - [`PostError::Again`] if the peer has no room or has not answered, or all packets are in
    ///   flight
    /// - [`PostError::UnknownPeer`] without the link
    /// - [`PostError::Errno`] if the link has failed
    /// - [`PostError::Access`], [`PostError::DeviceMemory`] if the buffer cannot be read
    /// - Any other error of the carrier, which [ends](crate::TaggedEvent::LinkFailed) the link
    #[doc(alias = "fi_tsend")]
    pub fn tagged_send(&mut self, to: LinkId, tag: Tag, buf: B) -> Result<TaggedKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.send(to, tag, None, buf)
    }

    /// Sends a tagged message with 8 bytes of immediate data.
    ///
    /// # Errors
    /// See [`tagged_send`](Self::tagged_send).
    #[doc(alias = "fi_tsenddata")]
    pub fn tagged_send_data(
        &mut self,
        to: LinkId,
        tag: Tag,
        data: ImmediateData,
        buf: B,
    ) -> Result<TaggedKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.send(to, tag, Some(data), buf)
    }

    /// Sends a copy of `bytes`. Success is not reported, failure ends the link.
    ///
    /// # Errors
    /// See [`tagged_send`](Self::tagged_send), and [`PostError::TooLong`] beyond
    /// [`eager_size`](Self::eager_size).
    #[doc(alias = "fi_tinject")]
    pub fn tagged_inject(&mut self, to: LinkId, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        self.inject(to, tag, None, bytes)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// See [`tagged_inject`](Self::tagged_inject).
    #[doc(alias = "fi_tinjectdata")]
    pub fn tagged_inject_data(
        &mut self,
        to: LinkId,
        tag: Tag,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.inject(to, tag, Some(data), bytes)
    }

    /// Receives the oldest message that `tag` accepts, from any peer or over one link.
    ///
    /// A longer message completes with the part that fits, and `ETRUNC` with the number of other
    /// bytes.
    ///
    /// # Errors
    /// The buffer is returned.
    /// - [`PostError::Full`] at the maximum number of operations
    /// - [`PostError::UnknownPeer`] without the link
    /// - [`PostError::Errno`] if the link has failed without a waiting match
    /// - [`PostError::Access`], [`PostError::DeviceMemory`] if the buffer cannot be written
    #[doc(alias = "fi_trecv")]
    pub fn tagged_recv(
        &mut self,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
        mut buf: B,
    ) -> Result<TaggedKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let from = from.into();
        let want = Want { tag: tag.into(), source: from.addr() };
        let message = self.matcher.message_for(&want);
        let link = match from {
            Source::Any => None,
            Source::Link(link) => Some(link),
        };
        let checked = target_len(&mut buf).and(match link {
            Some(link) if message.is_none() => match self.payload(link) {
                Err(PostError::Again) | Ok(_) => Ok(()),
                Err(error) => Err(error),
            },
            _ => Ok(()),
        });
        if let Err(error) = checked {
            return Err(Rejected { value: buf, error });
        }
        let key = self.start(link, buf)?;
        match message.and_then(|message| self.take_message(message)) {
            Some(message) => self.deliver(key, message),
            None => {
                // The matcher has as many slots as the endpoint.
                if let (Some(receive), Some(op)) = (self.matcher.post(want), self.ops.get_mut(key)) {
                    op.state = State::Posted(receive);
                    if let Some(of_receive) = self.receives.get_mut(receive.index()) {
                        *of_receive = key;
                    }
                }
            }
        }
        self.flush();
        Ok(TaggedKey(key))
    }

    /// Returns the oldest waiting message that a receive would get, among those
    /// [polled](Self::poll) from the queue.
    #[doc(alias = "FI_PEEK")]
    #[must_use]
    pub fn tagged_peek(&self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Option<TaggedFound> {
        let key = self.waiting.get(self.look(from.into(), tag.into())?.index())?;
        Some(self.messages.get(*key)?.found)
    }

    /// Claims a waiting message for [`tagged_claim`](Self::tagged_claim).
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(
        &mut self,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Option<(TaggedFound, TaggedClaim)> {
        let id = self.look(from.into(), tag.into())?;
        let key = *self.waiting.get(id.index())?;
        self.matcher.remove_message(id)?;
        self.keep_from_sender(key);
        let message = self.messages.get_mut(key)?;
        message.id = None;
        Some((message.found, TaggedClaim(key)))
    }

    /// Discards a waiting message. Its send completes.
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&mut self, from: impl Into<Source>, tag: impl Into<TagMatch>) -> Option<TaggedFound> {
        let id = self.look(from.into(), tag.into())?;
        let message = self.take_message(id)?;
        let found = message.found;
        self.discard(message);
        self.flush();
        Some(found)
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    /// The buffer is returned, and the claim stays valid.
    /// - [`PostError::UnknownClaim`] after a fetch or discard
    /// - [`PostError::Full`], [`PostError::Access`], [`PostError::DeviceMemory`]
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_claim(&mut self, claim: TaggedClaim, mut buf: B) -> Result<TaggedKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let checked = match self.claimed(claim) {
            Some(_) => target_len(&mut buf).map(drop),
            None => Err(PostError::UnknownClaim),
        };
        if let Err(error) = checked {
            return Err(Rejected { value: buf, error });
        }
        let key = self.start(None, buf)?;
        if let Some(message) = self.messages.remove(claim.0) {
            self.deliver(key, message);
        }
        self.flush();
        Ok(TaggedKey(key))
    }

    /// Discards a claimed message.
    ///
    /// # Errors
    /// [`PostError::UnknownClaim`] after a fetch or discard.
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_discard(&mut self, claim: TaggedClaim) -> Result<(), PostError> {
        self.claimed(claim).ok_or(PostError::UnknownClaim)?;
        if let Some(message) = self.messages.remove(claim.0) {
            self.discard(message);
        }
        self.flush();
        Ok(())
    }

    /// Requests cancellation of an operation, which still completes: a receive without a message at
    /// once, a send that waits for its receiver when the receiver agrees. Transfers in progress
    /// cannot be cancelled.
    ///
    /// # Errors
    /// `ENOENT` if the completion was taken.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&mut self, key: TaggedKey) -> Result<(), Errno> {
        let key = key.0;
        let op = self.ops.get_mut(key).ok_or(Errno::ENOENT)?;
        match op.state {
            State::Posted(receive) => {
                let error = failed(&op.state, Errno::ECANCELED);
                self.matcher.remove_receive(receive);
                self.finish(key, Err(error));
            }
            State::Requested { len } => {
                op.state = State::Withdrawing { len, announced: false };
                if let Some(id) = op.link
                    && let Some(link) = self.links.get_mut(id.index())
                {
                    link.streams.append(&mut self.ops, key);
                    self.look_after(id);
                    self.flush();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn send(&mut self, to: LinkId, tag: Tag, data: Option<ImmediateData>, mut buf: B) -> Result<TaggedKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let checked = source_len(&mut buf).and_then(|len| self.payload(to).map(|payload| (len, payload)));
        let (len, payload) = match checked {
            Ok(checked) => checked,
            Err(error) => return Err(Rejected { value: buf, error }),
        };
        let is_eager = len <= payload;
        let state = if is_eager { State::Leaving { len } } else { State::Requested { len } };
        let key = match self.ops.insert(Op { buf, link: Some(to), packets: 1, state }) {
            Ok(key) => key,
            Err(op) => return Err(Rejected { value: op.buf, error: PostError::Full }),
        };
        let body = match is_eager {
            true => Body::Eager { tag, data },
            false => Body::Request { tag, data, len: len as u64, sender: key.to_word() },
        };
        let (Some(op), Some(link)) = (self.ops.get_mut(key), self.links.get_mut(to.index())) else {
            return Ok(TaggedKey(key));
        };
        let buf = &mut op.buf;
        match link.send(key, body, if is_eager { len } else { 0 }, |bytes| copy_out(buf, 0, bytes)) {
            Ok(()) => Ok(TaggedKey(key)),
            Err(error) => match self.ops.remove(key) {
                Some(op) => {
                    self.refused(to, error);
                    Err(Rejected { value: op.buf, error })
                }
                None => Ok(TaggedKey(key)),
            },
        }
    }

    /// Fails the link if the carrier's refusal is permanent.
    fn refused(&mut self, to: LinkId, error: PostError) {
        if error != PostError::Again {
            self.fail(to, LinkError::Post(error));
        }
    }

    fn inject(&mut self, to: LinkId, tag: Tag, data: Option<ImmediateData>, bytes: &[u8]) -> Result<(), PostError> {
        let limit = self.payload(to)?;
        if bytes.len() > limit {
            return Err(PostError::TooLong { limit });
        }
        let link = self.links.get_mut(to.index()).ok_or(PostError::UnknownPeer)?;
        link.send(Key::NONE, Body::Eager { tag, data }, bytes.len(), |packet| packet.copy_from_slice(bytes))
            .inspect_err(|error| self.refused(to, *error))
    }

    /// Bytes of a packet to this peer.
    fn payload(&self, to: LinkId) -> Result<usize, PostError> {
        let link = self.links.get(to.index()).filter(|link| link.identity > 0).ok_or(PostError::UnknownPeer)?;
        match (link.error, link.payload) {
            (Some(error), _) => Err(PostError::Errno(error.errno())),
            (None, 0) => Err(PostError::Again),
            (None, payload) => Ok(payload),
        }
    }

    /// The caller sets the receive's state.
    fn start(&mut self, link: Option<LinkId>, buf: B) -> Result<Key, Rejected<B>> {
        let op = Op { buf, link, packets: 0, state: State::Leaving { len: 0 } };
        self.ops.insert(op).map_err(|op| Rejected { value: op.buf, error: PostError::Full })
    }

    fn look(&self, from: Source, tag: TagMatch) -> Option<MessageId> {
        self.matcher.message_for(&Want { tag, source: from.addr() })
    }

    fn claimed(&self, claim: TaggedClaim) -> Option<&Message<C::Buf>> {
        self.messages.get(claim.0).filter(|message| message.id.is_none())
    }
}
