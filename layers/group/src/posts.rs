//! Operations by a peer's number: as those of [`Endpoint`](loom_core::Endpoint), for the program that polls the queue of the group.

use allocator_api2::alloc::Allocator;
use loom_core::atomic::{BaseOp, CompareOp, Element, FetchOp};
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::error::{PostError, Rejected};
use loom_core::objects::atomic::Granted;
use loom_core::objects::endpoint::Source;
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};
use loom_core::{OpKey, Peer, Transport};

use crate::{Group, PeerIndex, PeerRegion};

/// Each returns the key of its operation on the [queue](Group::cq). A number that is no member's is refused as
/// [`UnknownPeer`](PostError::UnknownPeer), and the buffer comes back, as with everything that is refused.
impl<T: Transport, B: Buffer, A: Allocator> Group<'_, T, B, A> {
    /// The peer of that number, and what is to be lent to it.
    fn found(&self, peer: PeerIndex, buf: B) -> Result<(Peer, B), Rejected<B>> {
        match self.peer(peer) {
            Some(peer) => Ok((peer, buf)),
            None => Err(Rejected { buf, error: PostError::UnknownPeer }),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As [`Endpoint::send`](loom_core::Endpoint::send).
    #[doc(alias = "fi_send")]
    pub fn send(&self, peer: PeerIndex, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (peer, buf) = self.found(peer, buf)?;
        self.endpoint().send(peer, buf)
    }

    /// Sends a message with immediate data.
    ///
    /// # Errors
    /// As [`Endpoint::send_data`](loom_core::Endpoint::send_data).
    #[doc(alias = "fi_senddata")]
    pub fn send_data(&self, peer: PeerIndex, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (peer, buf) = self.found(peer, buf)?;
        self.endpoint().send_data(peer, data, buf)
    }

    /// Sends a copy of `bytes`, which are free when this returns.
    ///
    /// # Errors
    /// As [`Endpoint::inject`](loom_core::Endpoint::inject).
    #[doc(alias = "fi_inject")]
    pub fn inject(&self, peer: PeerIndex, bytes: &[u8]) -> Result<(), PostError> {
        self.endpoint().inject(self.peer(peer).ok_or(PostError::UnknownPeer)?, bytes)
    }

    /// Receives a message of one peer: it needs [`DIRECTED_RECV`](loom_core::vocabulary::Caps::DIRECTED_RECV), which several providers have for
    /// [tagged messages](Self::tagged_recv) alone.
    ///
    /// # Errors
    /// As [`Endpoint::recv`](loom_core::Endpoint::recv).
    #[doc(alias = "fi_recv")]
    pub fn recv(&self, peer: PeerIndex, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (peer, buf) = self.found(peer, buf)?;
        self.endpoint().recv(Source::Peer(peer), buf)
    }

    /// Receives a message of any peer.
    ///
    /// # Errors
    /// As [`Endpoint::recv`](loom_core::Endpoint::recv).
    #[doc(alias = "fi_recv")]
    pub fn recv_any(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.endpoint().recv(Source::Any, buf)
    }

    /// Sends a tagged message.
    ///
    /// # Errors
    /// As [`Endpoint::tagged_send`](loom_core::Endpoint::tagged_send).
    #[doc(alias = "fi_tsend")]
    pub fn tagged_send(&self, peer: PeerIndex, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (peer, buf) = self.found(peer, buf)?;
        self.endpoint().tagged_send(peer, tag, buf)
    }

    /// Receives a tagged message of one peer: it needs [`DIRECTED_RECV`](loom_core::vocabulary::Caps::DIRECTED_RECV).
    ///
    /// # Errors
    /// As [`Endpoint::tagged_recv`](loom_core::Endpoint::tagged_recv).
    #[doc(alias = "fi_trecv")]
    pub fn tagged_recv(&self, peer: PeerIndex, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (peer, buf) = self.found(peer, buf)?;
        self.endpoint().tagged_recv(Source::Peer(peer), tag, buf)
    }

    /// Receives a message whose tag says which peer it is of: it needs no directed receive.
    pub(crate) fn post_tagged_recv(&self, _: PeerIndex, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.endpoint().tagged_recv(Source::Any, tag, buf)
    }

    /// Cancels an operation on a peer.
    pub(crate) fn cancel(&self, _: PeerIndex, key: OpKey) -> Result<(), Errno> {
        self.endpoint().cancel(key)
    }

    /// Reads from a peer's memory, from its beginning on, as many bytes as the buffer has.
    ///
    /// # Errors
    /// As [`Endpoint::read`](loom_core::Endpoint::read).
    #[doc(alias = "fi_read")]
    pub fn read(&self, from: &PeerRegion, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (peer, buf) = self.found(from.peer(), buf)?;
        self.endpoint().read(peer, from.region(), 0, buf)
    }

    /// Writes the buffer into a peer's memory, from its beginning on.
    ///
    /// # Errors
    /// As [`Endpoint::write`](loom_core::Endpoint::write).
    #[doc(alias = "fi_write")]
    pub fn write(&self, to: &PeerRegion, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (peer, buf) = self.found(to.peer(), buf)?;
        self.endpoint().write(peer, to.region(), 0, buf)
    }

    /// As [`write`](Self::write), and tells the peer.
    ///
    /// # Errors
    /// As [`Endpoint::write_data`](loom_core::Endpoint::write_data).
    #[doc(alias = "fi_writedata")]
    pub fn write_data(&self, to: &PeerRegion, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (peer, buf) = self.found(to.peer(), buf)?;
        self.endpoint().write_data(peer, to.region(), 0, data, buf)
    }

    /// Changes elements of a peer's memory, as many as the buffer has operands.
    ///
    /// # Errors
    /// As [`Endpoint::atomic`](loom_core::Endpoint::atomic).
    #[doc(alias = "fi_atomic")]
    pub fn atomic<E: Element>(&self, at: &PeerRegion, op: Granted<BaseOp<E>>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (peer, buf) = self.found(at.peer(), buf)?;
        self.endpoint().atomic(peer, at.region(), 0, op, buf)
    }

    /// Changes an element of a peer's memory, and brings back what was there before.
    ///
    /// # Errors
    /// As [`Endpoint::fetch_value`](loom_core::Endpoint::fetch_value).
    #[doc(alias = "fi_fetch_atomic")]
    pub fn fetch_value<E: Element>(
        &self,
        at: &PeerRegion,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError> {
        let peer = self.peer(at.peer()).ok_or(PostError::UnknownPeer)?;
        self.endpoint().fetch_value(peer, at.region(), 0, op, operand)
    }

    /// Compares an element of a peer's memory, changes it if the comparison holds, and brings back what was there before.
    ///
    /// # Errors
    /// As [`Endpoint::compare_value`](loom_core::Endpoint::compare_value).
    #[doc(alias = "fi_compare_atomic")]
    pub fn compare_value<E: Element>(
        &self,
        at: &PeerRegion,
        op: Granted<CompareOp<E>>,
        compare: E,
        operand: E,
    ) -> Result<OpKey, PostError> {
        let peer = self.peer(at.peer()).ok_or(PostError::UnknownPeer)?;
        self.endpoint().compare_value(peer, at.region(), 0, op, compare, operand)
    }
}
