use allocator_api2::alloc::Allocator;
use loom_core::atomic::{BaseOp, CompareOp, Element, FetchOp};
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::endpoint::Granted;
use loom_core::endpoint::{Source, ThePeer};
use loom_core::error::{PostError, Rejected};
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};
use loom_core::{OpKey, Transport};

use crate::operation::{self, Verb, What};
use crate::request_slot::Waiting;
use crate::routes::{Links, To};
use crate::scope::NOWHERE;
use crate::{Group, PeerIndex, PeerRegion};

macro_rules! by_peer {
    ($group:expr, $peer:expr, |$endpoint:ident, $to:ident| $post:expr, else $unknown:expr) => {
        match &$group.links {
            Links::One(shared) => match $group.links.to($peer) {
                Some(To::Peer($to)) => {
                    let $endpoint = &shared.endpoint;
                    $post
                }
                _ => Err($unknown),
            },
            Links::Each(_) => match $group.connection($peer) {
                Some($endpoint) => {
                    let $to = ThePeer;
                    $post
                }
                None => Err($unknown),
            },
        }
    };
}

#[cold]
fn unknown<B>(buf: B) -> Rejected<B> {
    Rejected { value: buf, error: PostError::UnknownPeer }
}

/// Each operation returns its key on the [queue](Group::cq), or the buffer with the refusal. Errors
/// are those of the same function of [`Endpoint`](loom_core::Endpoint), and
/// [`UnknownPeer`](PostError::UnknownPeer) for an absent member.
impl<'m, T: Transport, B: Buffer, A: Allocator> Group<'m, T, B, A> {
    #[inline(always)]
    pub(crate) fn post<V: Verb<T, B>>(&self, to: To, what: What<'_>, buf: B) -> Result<OpKey, Rejected<B>> {
        match (&self.links, to) {
            (Links::One(shared), To::Peer(peer)) => V::post(&shared.endpoint, peer, Source::Peer(peer), what, buf),
            (_, To::Connection { place, serial }) => match self.links.same_connection(place, serial) {
                Some(connection) => V::post(&connection, ThePeer, ThePeer, what, buf),
                None => Err(unknown(buf)),
            },
            _ => Err(unknown(buf)),
        }
    }

    pub(crate) fn post_waiting(&self, waiting: &Waiting<'m, T, B>, buf: B) -> Result<OpKey, Rejected<B>> {
        let what = What { region: &waiting.region, word: waiting.word };
        match (&self.links, waiting.to) {
            (Links::One(shared), To::Peer(peer)) => {
                (waiting.post.shared)(&shared.endpoint, peer, Source::Peer(peer), what, buf)
            }
            (_, To::Connection { place, serial }) => match self.links.same_connection(place, serial) {
                Some(connection) => (waiting.post.connected)(&connection, ThePeer, ThePeer, what, buf),
                None => Err(unknown(buf)),
            },
            _ => Err(unknown(buf)),
        }
    }

    fn post_to<V: Verb<T, B>>(&self, peer: PeerIndex, what: What<'_>, buf: B) -> Result<OpKey, Rejected<B>> {
        match self.links.to(peer) {
            Some(to) => self.post::<V>(to, what, buf),
            None => Err(unknown(buf)),
        }
    }

    /// Sends a message.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Domain, Forever};
    /// use loom_group::{PeerIndex, Prepared};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let prepared = Prepared::open(&domain, 2, 16)?;
    /// # let itself = prepared.address()?;
    /// // Both members are this side.
    /// let group = prepared.connect([&itself; 2])?;
    /// let received = group.recv_any(vec![0; 5])?;
    /// let sent = group.cq().post(b"hello".to_vec(), Forever, |message| group.send(PeerIndex(1), message))?;
    /// assert_eq!(group.cq().finish(received, Forever)?.into_buf(), b"hello");
    /// group.cq().finish(sent, Forever)?.result()?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_send")]
    pub fn send(&self, peer: PeerIndex, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_to::<operation::Send>(peer, What { region: &NOWHERE, word: 0 }, buf)
    }

    /// Sends a message with immediate data.
    #[doc(alias = "fi_senddata")]
    pub fn send_data(&self, peer: PeerIndex, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_to::<operation::SendData>(peer, What { region: &NOWHERE, word: data.0 }, buf)
    }

    /// Sends a copy of `bytes`, which can be reused on return.
    #[doc(alias = "fi_inject")]
    pub fn inject(&self, peer: PeerIndex, bytes: &[u8]) -> Result<(), PostError> {
        by_peer!(self, peer, |endpoint, to| endpoint.inject(to, bytes), else PostError::UnknownPeer)
    }

    /// Receives a message from one peer. Without connections it requires
    /// [`DIRECTED_RECV`](loom_core::vocabulary::Caps::DIRECTED_RECV), which several providers have
    /// only for [tagged messages](Self::tagged_recv).
    #[doc(alias = "fi_recv")]
    pub fn recv(&self, peer: PeerIndex, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_to::<operation::Recv>(peer, What { region: &NOWHERE, word: 0 }, buf)
    }

    /// Receives a message from any peer.
    ///
    /// # Errors
    /// See [`Endpoint::recv`](loom_core::Endpoint::recv). `EOPNOTSUPP` over connections.
    #[doc(alias = "fi_recv")]
    pub fn recv_any(&self, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        match &self.links {
            Links::One(shared) => shared.endpoint.recv(Source::Any, buf),
            Links::Each(_) => Err(Rejected { value: buf, error: PostError::Errno(Errno::EOPNOTSUPP) }),
        }
    }

    /// Sends a tagged message.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Domain, Forever, Tag};
    /// use loom_group::{PeerIndex, Prepared};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let prepared = Prepared::open(&domain, 2, 16)?;
    /// # let itself = prepared.address()?;
    /// # let group = prepared.connect([&itself; 2])?;
    /// // Both members are this side. Each tag has a receive of its own.
    /// let high = group.tagged_recv(PeerIndex(0), Tag(2), vec![0; 4])?;
    /// let low = group.tagged_recv(PeerIndex(0), Tag(1), vec![0; 3])?;
    /// group.cq().post(b"low".to_vec(), Forever, |message| group.tagged_send(PeerIndex(1), Tag(1), message))?;
    /// group.cq().post(b"high".to_vec(), Forever, |message| group.tagged_send(PeerIndex(1), Tag(2), message))?;
    /// assert_eq!(group.cq().finish(high, Forever)?.into_buf(), b"high");
    /// assert_eq!(group.cq().finish(low, Forever)?.into_buf(), b"low");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_tsend")]
    pub fn tagged_send(&self, peer: PeerIndex, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_to::<operation::TaggedSend>(peer, What { region: &NOWHERE, word: tag.0 }, buf)
    }

    /// Receives a tagged message from one peer. Requires
    /// [`DIRECTED_RECV`](loom_core::vocabulary::Caps::DIRECTED_RECV).
    #[doc(alias = "fi_trecv")]
    pub fn tagged_recv(&self, peer: PeerIndex, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        by_peer!(self, peer, |endpoint, to| endpoint.tagged_recv(to, tag, buf), else unknown(buf))
    }

    /// Receives without a directed receive: the tag identifies the sender.
    pub(crate) fn recv_by_tag(&self, from: To, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        match &self.links {
            Links::One(shared) => shared.endpoint.tagged_recv(Source::Any, tag, buf),
            Links::Each(_) => self.post::<operation::TaggedRecv>(from, What { region: &NOWHERE, word: tag.0 }, buf),
        }
    }

    pub(crate) fn cancel(&self, peer: PeerIndex, key: OpKey) -> Result<(), Errno> {
        match &self.links {
            Links::One(shared) => shared.endpoint.cancel(key),
            Links::Each(_) => self.connection(peer).ok_or(Errno::ENOENT)?.cancel(key),
        }
    }

    /// Fills the buffer from the start of a peer's region.
    #[doc(alias = "fi_read")]
    pub fn read(&self, from: &PeerRegion, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.post_to::<operation::Read>(from.peer(), What { region: from.region(), word: 0 }, buf)
    }

    /// Writes the buffer to the start of a peer's region.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Access, Domain, Forever, Mr};
    /// use loom_group::{PeerIndex, PeerRegion, Prepared};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let prepared = Prepared::open(&domain, 2, 16)?;
    /// # let itself = prepared.address()?;
    /// # let group = prepared.connect([&itself; 2])?;
    /// let region = Mr::open(group.domain(), vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// // The peer has told this side of its region, by a record or a message. Here both are this side.
    /// let part = PeerRegion::new(PeerIndex(1), region.remote()).slice(8..16).expect("it lies within the region");
    /// let written = group.cq().post(b"8 bytes.".to_vec(), Forever, |bytes| group.write(&part, bytes))?;
    /// group.cq().finish(written, Forever)?.result()?;
    /// let read = group.cq().post(vec![0; 8], Forever, |room| group.read(&part, room))?;
    /// assert_eq!(group.cq().finish(read, Forever)?.into_buf(), b"8 bytes.");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_write")]
    pub fn write(&self, to: &PeerRegion, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_to::<operation::Write>(to.peer(), What { region: to.region(), word: 0 }, buf)
    }

    /// Writes the buffer, and notifies the peer.
    #[doc(alias = "fi_writedata")]
    pub fn write_data(&self, to: &PeerRegion, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_to::<operation::WriteData>(to.peer(), What { region: to.region(), word: data.0 }, buf)
    }

    /// Applies the buffer's operands to elements of a peer's region.
    #[doc(alias = "fi_atomic")]
    pub fn atomic<E: Element>(&self, at: &PeerRegion, op: Granted<BaseOp<E>>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        by_peer!(self, at.peer(), |endpoint, to| endpoint.atomic(to, at.region(), 0, op, buf), else unknown(buf))
    }

    /// Changes an element of a peer's region. The completion returns the former value.
    #[doc(alias = "fi_fetch_atomic")]
    pub fn fetch_value<E: Element>(
        &self,
        at: &PeerRegion,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError> {
        by_peer!(
            self,
            at.peer(),
            |endpoint, to| endpoint.fetch_value(to, at.region(), 0, op, operand),
            else PostError::UnknownPeer
        )
    }

    /// Changes an element of a peer's region if a comparison holds. The completion returns the
    /// former value.
    #[doc(alias = "fi_compare_atomic")]
    pub fn compare_value<E: Element>(
        &self,
        at: &PeerRegion,
        op: Granted<CompareOp<E>>,
        compare: E,
        operand: E,
    ) -> Result<OpKey, PostError> {
        by_peer!(
            self,
            at.peer(),
            |endpoint, to| endpoint.compare_value(to, at.region(), 0, op, compare, operand),
            else PostError::UnknownPeer
        )
    }
}
