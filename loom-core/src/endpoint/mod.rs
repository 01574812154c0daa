//! [`Endpoint`]: posts messages, tagged messages, RMA and atomic operations.
//!
//! Kinds of endpoints:
//!
//! | kind | opened by | transmits to | receives from |
//! |---|---|---|---|
//! | [`Connectionless`] | [`Cq::endpoint`](crate::cq::Cq::endpoint) | a [`Peer`](crate::engine::peer_table::Peer) of its address vector | a [`Source`] |
//! | [`MulticastEndpoint`] | [`Cq::multicast_endpoint`](crate::cq::Cq::multicast_endpoint) | a peer, or a [`MulticastGroup`] | a [`Source`] |
//! | [`MsgEndpoint`] | [`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint), or a request | [`ThePeer`], when connected | [`ThePeer`] |
//! | [`SharedRx`] | [`Cq::shared_rx`](crate::cq::Cq::shared_rx) | | [`AnyConnection`] |
//! | [`TxContext`] | [`Cq::tx_context`](crate::cq::Cq::tx_context) | a peer, or its receive context ([`RxPeer`](crate::engine::peer_table::RxPeer)) | |
//! | [`RxContext`] | [`Cq::rx_context`](crate::cq::Cq::rx_context) | | a [`Source`] |
//!
//! ```
//! use loom_core::{Endpoint, PostError, Tag, Transport, endpoint::Transmits};
//!
//! /// Sends a message and a tagged message, to a peer or over a connection.
//! fn send_both<T: Transport, K: Transmits<T>>(from: &Endpoint<'_, T, Vec<u8>, K>, to: K::To) -> Result<(), PostError> {
//!     from.inject(to, b"message")?;
//!     from.tagged_inject(to, Tag(7), b"tagged message")
//! }
//! ```

mod atomic;
mod binding;
mod collective;
mod connectionless;
mod granted;
mod kind;
mod limits;
mod msg_endpoint;
mod multicast;
mod opened;
mod options;
mod park;
mod pieces;
mod post;
mod recv;
mod remote_range;
mod rma;
mod scalable;
mod send;
mod shared_rx;
mod unsignaled;

pub use self::binding::{Binding, BothWays};
pub use self::collective::CollectiveGroup;
pub use self::connectionless::Connectionless;
pub use self::granted::Granted;
pub use self::kind::{HasAddress, HasOptions, Peeks, Receives, Source, ThePeer, Transmits};
use self::limits::Limits;
pub use self::msg_endpoint::{Connecting, Established, Idle, Msg, MsgEndpoint, Requested};
pub use self::multicast::{Joined, Joining, MulticastEndpoint, MulticastGroup};
pub use self::opened::EndpointHold;
use self::opened::Opened;
pub use self::options::{AtomicOptions, CompletionLevel, ReadOptions, RecvOptions, SendOptions};
pub use self::park::Parked;
pub use self::scalable::{Contexts, RxContext, RxCtx, ScalableEndpoint, TxContext, TxCtx};
pub use self::shared_rx::{AnyConnection, SharedRx, Srx};
use crate::atomic::Atomic;
use crate::av::Av;
use crate::buffer::Buffer;
use crate::cq::Cq;
use crate::engine::op_table::OpKey;
use crate::transport::Transport;
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::vocabulary::{Attributes, EndpointAddr, EndpointOption, Errno, OptionType};

/// An endpoint, connectionless by default.
///
/// A counted handle, which keeps its queue and bound objects open.
///
/// A post moves a buffer into the queue and returns an [`OpKey`]. The completion returns the
/// buffer, as does a refused post ([`Rejected`](crate::error::Rejected)).
///
/// Closing the endpoint returns every buffer through the queue. Operations that have ended by then
/// complete with their results (unless [`PEER_EVENTS`](crate::cq::PEER_EVENTS) events of peers
/// precede them), all others with `ECANCELED`, even if a send, read or write has happened. Some
/// providers (`shm`) cannot close an endpoint while others that have communicated with it are open,
/// or during a long read. Its receives are then cancelled, its sends and reads continue, and it
/// keeps its slot until it is closed with the queue.
///
/// ```
/// use loom_core::{Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// let sent = cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// let (bytes, result) = cq.finish(received, Forever)?.into_parts();
/// assert_eq!((result?.len, &bytes[..]), (5, &b"hello"[..]));
/// cq.finish(sent, Forever)?.result()?;
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_endpoint`, `man fi_msg`, `man fi_tagged`, `man fi_rma`
#[doc(alias = "fid_ep")]
pub struct Endpoint<'m, T: Transport, B: Buffer, K = Connectionless<'m, T>> {
    opened: Opened<'m, T, B>,
    kind: K,
}

impl<'m, T: Transport, B: Buffer, K> Endpoint<'m, T, B, K> {
    /// Requests cancellation of an operation. It still completes: with `ECANCELED`, or normally if
    /// it was too late or the provider cannot cancel this kind of operation.
    ///
    /// ```
    /// use loom_core::{Errno, Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// bob.cancel(received)?;
    /// // The completion comes, and brings the buffer back.
    /// let (room, result) = cq.finish(received, Forever)?.into_parts();
    /// assert_eq!((room.len(), result.unwrap_err().errno), (5, Errno::ECANCELED));
    /// assert_eq!(bob.cancel(received), Err(Errno::ENOENT), "it is over");
    /// # cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ENOENT` for an operation not in flight on this endpoint, or an error of the provider.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.opened.cancel(key)
    }

    /// Queue that the endpoint completes into.
    #[must_use]
    pub const fn cq(&self) -> &Cq<'m, T, B> {
        self.opened.cq()
    }

    /// Attributes granted to the endpoint.
    ///
    /// ```
    /// use loom_core::{Binding, Caps};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let endpoint = cq.endpoint(&av)?;
    /// assert!(endpoint.attributes().caps.contains(Caps::MSG | Caps::RECV));
    /// // An endpoint whose receives are those of peers' writes receives no messages.
    /// let written = cq.endpoint(Binding::to(&av).remote_writes(1))?;
    /// assert!(!written.attributes().caps.contains(Caps::RECV));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let (limits, offered) = (self.limits(), self.opened.endpoint_slot().offered.get());
        let mut attributes = *self.cq().domain().attributes();
        attributes.endpoint.kind = offered.kind;
        attributes.caps = limits.caps();
        (attributes.tx.msg_order, attributes.rx.msg_order) = (offered.msg_order, offered.msg_order);
        attributes.tx.inject_size = limits.inject_size;
        attributes.domain.cq_data_size = limits.cq_data_size.into();
        attributes
    }

    /// Maximum number of elements per post of an atomic operation, which is named by values.
    ///
    /// ```
    /// use loom_core::{Caps, Errno, atomic::{Atomic, Form}, vocabulary::{AtomicOp, Datatype}};
    ///
    /// # fixture::queue!(network, domain, av, cq; Caps::MSG | Caps::ATOMIC);
    /// let endpoint = cq.endpoint(&av)?;
    /// let add = Atomic { form: Form::Base, datatype: Datatype::UINT64, op: AtomicOp::SUM };
    /// assert!(endpoint.atomic_count(add)? > 0);
    /// assert_eq!(endpoint.atomic_count(Atomic { op: AtomicOp::NOOP, ..add }), Err(Errno::EOPNOTSUPP));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Domain::query_atomic`](crate::Domain::query_atomic).
    #[doc(alias = "fi_query_atomic")]
    pub fn atomic_count(&self, atomic: Atomic) -> Result<usize, Errno> {
        self.cq().domain().atomic_count(atomic)
    }

    /// Raw handle, for posts that loom does not wrap.
    ///
    /// Events with contexts unknown to the op table are counted as strays and otherwise ignored.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &T::Endpoint {
        self.opened.raw()
    }

    pub(crate) fn keep(&self) -> EndpointHold {
        EndpointHold::endpoint(&self.opened)
    }

    #[inline]
    const fn limits(&self) -> &Limits {
        &self.opened.limits
    }
}

impl<T: Transport, B: Buffer, K: HasOptions> Endpoint<'_, T, B, K> {
    /// Value of an option.
    ///
    /// # Errors
    /// Those of the provider: `ENOPROTOOPT` for an unsupported option.
    #[doc(alias = "fi_getopt")]
    pub fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        self.opened.option(option)
    }
}

impl<T: Transport, B: Buffer, K: HasAddress> Endpoint<'_, T, B, K> {
    /// Address of the endpoint, for peers to insert into address vectors or connect to.
    ///
    /// ```
    /// use loom_core::EndpointAddr;
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let endpoint = cq.endpoint(&av)?;
    /// // The program tells the text, or the bytes (`EndpointAddr::encode`), to its peers.
    /// let text = endpoint.address()?.to_string();
    /// assert_eq!(text.parse::<EndpointAddr>()?, endpoint.address()?);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the provider.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        self.opened.address()
    }

    /// Sets an option. Most must be set [before the endpoint is enabled](Binding::option).
    ///
    /// ```
    /// use loom_core::vocabulary::EndpointOption;
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let endpoint = cq.endpoint(&av)?;
    /// endpoint.set_option(EndpointOption::MIN_MULTI_RECV, 256)?;
    /// assert_eq!(endpoint.option(EndpointOption::MIN_MULTI_RECV)?, 256_usize);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EINVAL` for a read-only option or an invalid value, or an error of the provider.
    #[doc(alias = "fi_setopt")]
    pub fn set_option<V: OptionType>(&self, option: EndpointOption<V>, value: V) -> Result<(), Errno> {
        self.opened.set_option(option, value)
    }
}

impl<'m, T: Transport, B: Buffer> Endpoint<'m, T, B> {
    /// Address vector with the endpoint's peers.
    #[must_use]
    pub const fn av(&self) -> &Av<'m, T> {
        &self.kind.av
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Maximum bytes of an inject. A required prefix and the bytes have at most 1024 bytes.
    ///
    /// ```
    /// use loom_core::{Forever, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let (message, received) = (b"hello".to_vec(), bob.recv(Source::Any, vec![0; 5])?);
    /// if message.len() <= alice.inject_size() {
    ///     // The provider copies the message, without a completion.
    ///     cq.retry(Forever, || alice.inject(to_bob, &message))?;
    /// } else {
    ///     cq.post(message, Forever, |message| alice.send(to_bob, message))?;
    /// }
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub const fn inject_size(&self) -> usize {
        self.limits().inject_size
    }
}

clone_struct!([T: Transport, B: Buffer, K: Clone] Endpoint['_, T, B, K], opened, kind);

debug_struct!([T: Transport, B: Buffer, K] Endpoint['_, T, B, K], |it| opened: it.opened);
