use loom_core::vocabulary::{ImmediateData, Tag, TagMatch};

use super::{Posted, Receiver, Transmitter};

/// Sends messages.
///
/// ```
/// use loom_static::protocol::{MsgSend, Posted};
/// use loom_core::{Av, Cq, Domain, Forever, ImmediateData, Source};
///
/// /// Sends a message with its number as immediate data.
/// fn send_numbered<P: MsgSend>(protocol: &mut P, to: P::To, number: u32, message: P::Buf) -> Posted<P> {
///     protocol.post(message, Forever, |protocol, message| {
///         protocol.send_data(to, ImmediateData(number.into()), message)
///     })
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// send_numbered(&mut alice.clone(), to_bob, 7, b"hello".to_vec())?;
/// assert_eq!(cq.finish(received, Forever)?.result()?.data, Some(ImmediateData(7)));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_MSG")]
pub trait MsgSend: Transmitter {
    /// Sends a message.
    #[doc(alias = "fi_send")]
    fn send(&mut self, to: Self::To, buf: Self::Buf) -> Posted<Self>;

    /// Sends a message with immediate data.
    #[doc(alias = "fi_senddata")]
    fn send_data(&mut self, to: Self::To, data: ImmediateData, buf: Self::Buf) -> Posted<Self>;
}

/// Receives messages.
///
/// ```
/// use loom_static::protocol::{MsgRecv, Posted};
///
/// /// Posts a receive for a message of any peer.
/// fn listen<P: MsgRecv>(protocol: &mut P, room: P::Buf) -> Posted<P> {
///     protocol.recv(P::ANY, room)
/// }
/// ```
#[doc(alias = "FI_MSG")]
pub trait MsgRecv: Receiver {
    /// Receives a message.
    #[doc(alias = "fi_recv")]
    fn recv(&mut self, from: Self::From, buf: Self::Buf) -> Posted<Self>;
}

/// Sends tagged messages.
///
/// ```
/// use loom_core::Tag;
/// use loom_static::protocol::{Posted, TaggedSend};
///
/// /// Sends part `number` of a file: over an endpoint, a connection, or tags over plain messages.
/// fn send_part<P: TaggedSend>(protocol: &mut P, to: P::To, number: u32, part: P::Buf) -> Posted<P> {
///     protocol.tagged_send(to, Tag(number.into()), part)
/// }
/// ```
#[doc(alias = "FI_TAGGED")]
pub trait TaggedSend: Transmitter {
    /// Sends a tagged message.
    #[doc(alias = "fi_tsend")]
    fn tagged_send(&mut self, to: Self::To, tag: Tag, buf: Self::Buf) -> Posted<Self>;

    /// Sends a tagged message with immediate data.
    #[doc(alias = "fi_tsenddata")]
    fn tagged_send_data(&mut self, to: Self::To, tag: Tag, data: ImmediateData, buf: Self::Buf) -> Posted<Self>;
}

/// Receives tagged messages.
///
/// ```
/// use loom_static::protocol::{Posted, TaggedRecv};
/// use loom_core::{Tag, TagMatch};
///
/// /// Posts a receive for any part of transfer `number`, whose parts are numbered by the lower 32 bits of the tag.
/// fn listen_for<P: TaggedRecv>(protocol: &mut P, number: u32, room: P::Buf) -> Posted<P> {
///     protocol.tagged_recv(P::ANY, TagMatch { tag: Tag(u64::from(number) << 32), ignore: 0xffff_ffff }, room)
/// }
/// ```
#[doc(alias = "FI_TAGGED")]
pub trait TaggedRecv: Receiver {
    /// Receives the oldest message that `tag` accepts.
    #[doc(alias = "fi_trecv")]
    fn tagged_recv(&mut self, from: Self::From, tag: TagMatch, buf: Self::Buf) -> Posted<Self>;
}

/// Sends copies of messages, without completions on success.
///
/// ```
/// use loom_static::protocol::Inject;
///
/// /// Sends a short message as a copy, and says whether it was short enough.
/// fn try_inject<P: Inject>(protocol: &mut P, to: P::To, message: &[u8]) -> Result<bool, P::PostError> {
///     if message.len() > protocol.inject_size(to) {
///         return Ok(false);
///     }
///     protocol.inject(to, message)?;
///     Ok(true)
/// }
/// ```
#[doc(alias = "fi_inject")]
pub trait Inject: MsgSend {
    /// Maximum bytes of an inject to this peer.
    fn inject_size(&self, to: Self::To) -> usize;

    /// Sends a copy of `bytes`.
    ///
    /// # Errors
    /// The refusal, also beyond [`inject_size`](Self::inject_size) bytes.
    fn inject(&mut self, to: Self::To, bytes: &[u8]) -> Result<(), Self::PostError>;
}

/// Sends copies of tagged messages, without completions on success.
///
/// ```
/// use loom_core::Tag;
/// use loom_static::protocol::TaggedInject;
/// # use loom_core::{Av, Cq, Domain, Forever};
///
/// /// Sends a message as a copy. Returns `false` if it is too long.
/// fn inject<P: TaggedInject>(protocol: &mut P, to: P::To, message: &[u8]) -> Result<bool, P::PostError> {
///     let fits = message.len() <= protocol.tagged_inject_size(to);
///     if fits {
///         protocol.tagged_inject(to, Tag(7), message)?;
///     }
///     Ok(fits)
/// }
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let cq: Cq<'_, _, Vec<u8>> = cq;
/// # // A strict network refuses the first message between two endpoints.
/// # cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(1), b""))?;
/// assert!(inject(&mut alice.clone(), to_bob, b"hello")?);
/// assert!(!inject(&mut alice.clone(), to_bob, &vec![1; alice.inject_size() + 1])?);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "fi_tinject")]
pub trait TaggedInject: TaggedSend {
    /// Maximum bytes of an inject to this peer.
    fn tagged_inject_size(&self, to: Self::To) -> usize;

    /// Sends a tagged copy of `bytes`.
    ///
    /// # Errors
    /// The refusal, also beyond [`tagged_inject_size`](Self::tagged_inject_size) bytes.
    fn tagged_inject(&mut self, to: Self::To, tag: Tag, bytes: &[u8]) -> Result<(), Self::PostError>;
}
