use core::fmt;

use loom_core::engine::op_table::{OpError, Transfer};
use loom_core::engine::tag_matcher::{MessageId, ReceiveId};
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

use crate::error::LinkError;
use crate::packet::{LinkId, Packet};
use crate::slab::Key;

/// Operation of a [`TaggedEndpoint`](crate::TaggedEndpoint) until its completion is taken.
///
/// ```
/// use loom_core::deadline::Spins;
/// use loom_tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, WithPeer};
/// use loom_core::{Errno, Tag};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     if a.link_error(link).is_some() {
/// #         // Receives cannot be directed here.
/// #         return Ok(());
/// #     }
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// # let _: &TaggedEndpoint<_, Vec<u8>, _> = &a;
/// let key = b.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
/// b.cancel(key)?;
/// let done = b.wait(key, Spins(1000))?.expect("a cancelled receive is over");
/// assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
/// // The key names nothing any more.
/// assert!(b.cancel(key).is_err());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaggedKey(pub(crate) Key);

impl fmt::Debug for TaggedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaggedKey(#{}.{})", self.0.index(), self.0.generation())
    }
}

/// Selects the messages that a receive accepts, by link.
///
/// ```
/// use loom_tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, WithPeer};
/// use loom_core::{Tag, TagMatch};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     if a.link_error(link).is_some() {
/// #         // Receives cannot be directed here.
/// #         return Ok(());
/// #     }
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// # let _: &TaggedEndpoint<_, Vec<u8>, _> = &b;
/// a.tagged_send(link, Tag(7), b"hello".to_vec())?;
/// # while b.waiting() == 0 {
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// // The message waits, and came over the only link.
/// for source in [Source::Any, Source::Link(back)] {
///     assert_eq!(b.tagged_peek(source, TagMatch::ANY).map(|found| found.len), Some(5));
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Every link.
    Any,
    /// One link.
    #[doc(alias = "FI_DIRECTED_RECV")]
    Link(LinkId),
}

impl From<LinkId> for Source {
    fn from(link: LinkId) -> Self {
        Source::Link(link)
    }
}

impl Source {
    pub(crate) fn addr(self) -> FabricAddr {
        match self {
            Source::Any => FabricAddr::UNSPEC,
            Source::Link(LinkId(link)) => FabricAddr(link.into()),
        }
    }
}

/// Event reported by a layer.
///
/// ```
/// use loom_tagged::{LinkError, Packet, Source, TaggedAttr, TaggedEndpoint, TaggedEvent, WithPeer};
/// use loom_core::{Errno, Tag};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     assert_eq!(a.link_error(link), None, "as where receives cannot be directed");
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// # let _: &TaggedEndpoint<_, Vec<u8>, _> = &a;
/// b.tagged_recv(Source::Link(back), Tag(7), vec![0; 5])?;
/// b.close_link(back);
/// let Some(TaggedEvent::LinkFailed { link: ended, error }) = b.poll()? else { panic!("another event") };
/// assert_eq!((ended, error), (back, LinkError::Closed));
/// // The operations of the link end, and their buffers come back.
/// let Some(TaggedEvent::Op(done)) = b.poll()? else { panic!("another event") };
/// assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it may hold a buffer"]
#[non_exhaustive]
pub enum TaggedEvent<B> {
    /// An operation has completed.
    Op(TaggedDone<B>),
    /// A link has failed or was closed. Its operations complete with the errno of `error`,
    /// earlier completions are unaffected.
    LinkFailed {
        /// Link.
        link: LinkId,
        /// Cause.
        error: LinkError,
    },
}

/// A completed operation: its key, buffer and result.
///
/// ```
/// use loom_core::Tag;
/// use loom_core::deadline::Spins;
/// use loom_tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, WithPeer};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     if a.link_error(link).is_some() {
/// #         // Receives cannot be directed here.
/// #         return Ok(());
/// #     }
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// a.tagged_send(link, Tag(7), b"hello".to_vec())?;
/// let received = b.tagged_recv(Source::Any, Tag(7), vec![0; 64])?;
/// # while a.progress()? || b.progress()? {}
/// let done = b.wait(received, Spins(1000))?.expect("the message has arrived");
/// assert_eq!((done.key(), done.link()), (received, Some(back)));
/// let (mut buf, result) = done.into_parts();
/// buf.truncate(result?.len);
/// assert_eq!(buf, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it holds the buffer, and reports whether the operation succeeded"]
pub struct TaggedDone<B> {
    pub(crate) key: TaggedKey,
    pub(crate) buf: B,
    pub(crate) link: Option<LinkId>,
    pub(crate) result: Result<Transfer, OpError>,
}

impl<B> TaggedDone<B> {
    /// Key of the post.
    pub const fn key(&self) -> TaggedKey {
        self.key
    }

    /// Link of the message, if any.
    pub const fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Result of the operation.
    ///
    /// # Errors
    /// `ETRUNC` with the number of bytes that did not fit, `ECANCELED`, or the error of the link.
    pub const fn result(&self) -> Result<Transfer, OpError> {
        self.result
    }

    /// Buffer.
    pub const fn buf(&self) -> &B {
        &self.buf
    }

    /// Returns the buffer.
    pub fn into_buf(self) -> B {
        self.buf
    }

    /// Returns the buffer and the result.
    pub fn into_parts(self) -> (B, Result<Transfer, OpError>) {
        (self.buf, self.result)
    }
}

impl<B> fmt::Debug for TaggedDone<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedDone")
            .field("key", &self.key)
            .field("link", &self.link)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

/// A message that waits, or was discarded.
///
/// ```
/// use loom_core::deadline::Spins;
/// use loom_tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, WithPeer};
/// use loom_core::{Tag, TagMatch};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     assert_eq!(a.link_error(link), None, "as where receives cannot be directed");
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// a.tagged_send(link, Tag(7), b"hello".to_vec())?;
/// // The message waits at `b`, which claims it: no other receive takes the message.
/// let (found, claim) = loop {
///     a.progress()?;
///     b.progress()?;
///     if let Some(found) = b.tagged_peek_claim(Source::Any, TagMatch::ANY) {
///         break found;
///     }
/// };
/// assert_eq!((found.tag, found.len, found.link), (Tag(7), 5, back));
/// let fetched = b.tagged_claim(claim, vec![0; 5])?;
/// assert_eq!(b.wait(fetched, Spins(1000))?.expect("it is here").into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedFound {
    /// Link.
    pub link: LinkId,
    /// Tag.
    pub tag: Tag,
    /// Immediate data.
    pub data: Option<ImmediateData>,
    /// Bytes of the whole message.
    pub len: u64,
}

/// A claimed message: plain data, for one fetch or discard. If it is lost, the message keeps its
/// packet.
///
/// ```
/// use loom_tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, WithPeer};
/// use loom_core::{Tag, TagMatch};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     if a.link_error(link).is_some() {
/// #         // Receives cannot be directed here.
/// #         return Ok(());
/// #     }
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// # let _: &TaggedEndpoint<_, Vec<u8>, _> = &b;
/// a.tagged_send(link, Tag(7), b"hello".to_vec())?;
/// # while b.waiting() == 0 {
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// let (_, claim) = b.tagged_peek_claim(Source::Any, TagMatch::ANY).expect("the message waits");
/// // No other receive gets the message, which the program does not want.
/// assert!(b.tagged_peek(Source::Any, TagMatch::ANY).is_none());
/// b.tagged_discard(claim)?;
/// // A claim is good for one use.
/// assert!(b.tagged_discard(claim).is_err());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaggedClaim(pub(crate) Key);

impl fmt::Debug for TaggedClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaggedClaim(#{}.{})", self.0.index(), self.0.generation())
    }
}

/// Not received yet.
#[derive(Debug)]
pub(crate) struct Message<P> {
    pub(crate) found: TaggedFound,
    pub(crate) packet: Packet<P>,
    /// The sender's operation, if the message does not fit.
    pub(crate) request: Option<u64>,
    /// Absent if claimed.
    pub(crate) id: Option<MessageId>,
}

pub(crate) struct Op<B> {
    pub(crate) buf: B,
    pub(crate) link: Option<LinkId>,
    /// Packets being sent.
    pub(crate) packets: u32,
    pub(crate) state: State,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// Waits for a message.
    Posted(ReceiveId),
    /// Waits for the bytes from `got` to `wanted`.
    Arriving { message: TaggedFound, got: usize, wanted: usize },
    /// All packets of a send are posted.
    Leaving { len: usize },
    /// Waits for the receiver's answer.
    Requested { len: usize },
    /// A cancelled send waits for the receiver's answer. `told` follows the withdrawal.
    Withdrawing { len: usize, announced: bool },
    /// Has its bytes from `at` to `end` still to post.
    Streaming { receiver: u64, at: usize, end: usize, len: usize },
    /// Not taken yet.
    Done(Result<Transfer, OpError>),
}

impl State {
    pub(crate) const fn flags(&self) -> CompletionFlags {
        let kind = match self {
            State::Posted(_) | State::Arriving { .. } => CompletionFlags::RECV,
            _ => CompletionFlags::SEND,
        };
        CompletionFlags::TAGGED.union(kind)
    }
}

pub(crate) fn sent(len: usize) -> Transfer {
    Transfer { flags: CompletionFlags::TAGGED | CompletionFlags::SEND, len, tag: None, data: None, source: None }
}

/// All that fits has been received.
pub(crate) fn received(message: &TaggedFound, len: usize) -> Result<Transfer, OpError> {
    let data = if message.data.is_some() { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
    let flags = CompletionFlags::TAGGED | CompletionFlags::RECV | data;
    let overflow = message.len.saturating_sub(len as u64);
    if overflow == 0 {
        return Ok(Transfer { flags, len, tag: Some(message.tag), data: message.data, source: None });
    }
    Err(OpError {
        errno: Errno::ETRUNC,
        provider_errno: Errno::ETRUNC.as_raw(),
        len: Some(len),
        overflow: Some(usize::try_from(overflow).unwrap_or(usize::MAX)),
        flags,
        tag: message.tag,
        data: message.data.unwrap_or_default(),
    })
}

pub(crate) fn failed(state: &State, errno: Errno) -> OpError {
    let (len, tag) = match state {
        State::Arriving { message, got, .. } => (Some(*got), message.tag),
        _ => (None, Tag(0)),
    };
    OpError {
        errno,
        provider_errno: errno.as_raw(),
        len,
        overflow: None,
        flags: state.flags(),
        tag,
        data: ImmediateData(0),
    }
}
