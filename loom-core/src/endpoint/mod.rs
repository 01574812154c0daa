//! [`Endpoint`]: posts messages, tagged messages, RMA and atomic operations.
//!
//! Kinds of endpoints share these operations and differ in opening and peers:
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
//! Code for several kinds is generic in the kind. The package `loom-fabric-static` narrows most
//! kinds to the operations of a query, checked by the compiler.
//!
//! ```
//! use loom_core::buffer::SourceBuffer;
//! use loom_core::error::Rejected;
//! use loom_core::endpoint::{Endpoint, Transmits};
//! use loom_core::transport::Transport;
//! use loom_core::vocabulary::Tag;
//!
//! /// A message and its tag, to a peer or over a connection.
//! fn send_both<T, B, K>(endpoint: &Endpoint<'_, T, B, K>, to: K::To, first: B, second: B) -> Result<(), Rejected<B>>
//! where
//!     T: Transport,
//!     B: SourceBuffer,
//!     K: Transmits<T>,
//! {
//!     endpoint.send(to, first)?;
//!     endpoint.tagged_send(to, Tag(7), second)?;
//!     Ok(())
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
mod op;
mod opened;
mod options;
mod park;
mod post;
mod recv;
mod rma;
mod scalable;
mod send;
mod shared_rx;
mod unsignaled;

use core::fmt;

pub use self::binding::{Binding, BothWays};
pub use self::collective::CollectiveGroup;
pub use self::connectionless::Connectionless;
pub use self::granted::{AnyAtomic, Granted};
pub use self::kind::{HasAddress, HasOptions, Peeks, Receives, Source, ThePeer, Transmits};
use self::limits::Limits;
pub use self::msg_endpoint::{Connecting, Established, Idle, Msg, MsgEndpoint, Requested};
pub use self::multicast::{InGroups, Joined, Joining, MulticastEndpoint, MulticastGroup};
pub use self::opened::Kept;
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
use crate::error::PostError;
use crate::transport::Transport;
use crate::vocabulary::{Attributes, EndpointAddr, EndpointOption, Errno, FabricAddr, OptionType};

/// An endpoint, connectionless by default.
///
/// A counted handle: the endpoint closes when its last clone is dropped. It keeps its queue and
/// bound objects open, in whichever order they are dropped.
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
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// let sent = cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// let (bytes, result) = cq.finish(received, Forever)?.into_parts();
/// assert_eq!((result?.len(), &bytes[..]), (5, &b"hello"[..]));
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
    /// use loom_core::{Av, Cq, Domain, Errno, Forever, Source};
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

    /// Attributes granted to the endpoint: those of its domain, with the endpoint's own type,
    /// capabilities, orders, inject size and width of immediate data.
    ///
    /// ```
    /// use loom_core::endpoint::Binding;
    /// use loom_core::{Av, Caps, Cq, Domain};
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
        let (limits, offered) = (self.limits(), self.opened.endpoint_slot().offered().get());
        let mut attributes = *self.cq().domain().attributes();
        attributes.endpoint.kind = offered.kind;
        attributes.caps = limits.caps();
        (attributes.tx.msg_order, attributes.rx.msg_order) = (offered.msg_order, offered.msg_order);
        attributes.tx.inject_size = limits.inject_size;
        attributes.domain.cq_data_size = limits.cq_data_size();
        attributes
    }

    /// Maximum number of elements per post of an atomic operation, which is named by values.
    ///
    /// ```
    /// use loom_core::atomic::{Atomic, Form};
    /// use loom_core::vocabulary::{AtomicOp, Datatype};
    /// use loom_core::{Av, Caps, Cq, Domain, Errno, Hints};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let hints = Hints { caps: Caps::MSG | Caps::ATOMIC, ..Hints::default() };
    /// let domain = Domain::open(&network.query(&hints)?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
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

    pub(crate) fn keep(&self) -> Kept {
        Kept::endpoint(&self.opened)
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
    /// use loom_core::{Av, Cq, Domain, EndpointAddr};
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
    /// use loom_core::{Av, Cq, Domain};
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
    /// Maximum bytes of an inject. With a provider that requires prefixes, loom adds the prefix,
    /// and both have at most 1024 bytes.
    ///
    /// ```
    /// use loom_core::{Av, Cq, Domain, Error, Forever, Peer, Source, Transport};
    ///
    /// /// Sends a copy where the provider takes one, and else the buffer, for whose completion the program waits.
    /// fn send<T: Transport>(endpoint: &loom_core::Endpoint<'_, T, Vec<u8>>, to: Peer, message: Vec<u8>) -> Result<(), Error> {
    ///     let cq = endpoint.cq();
    ///     if message.len() <= endpoint.inject_size() {
    ///         cq.retry(Forever, || endpoint.inject(to, &message))?;
    ///     } else {
    ///         let sent = cq.post(message, Forever, |message| endpoint.send(to, message))?;
    ///         cq.finish(sent, Forever)?.result()?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// send(&alice, to_bob, b"hello".to_vec())?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub const fn inject_size(&self) -> usize {
        self.limits().inject_size
    }

    #[inline]
    fn destination(&self, to: K::To) -> Result<FabricAddr, PostError> {
        self.kind.destination(self.limits(), to)
    }
}

impl<T: Transport, B: Buffer, K: Receives<T>> Endpoint<'_, T, B, K> {
    #[inline]
    fn source(&self, from: K::From) -> Result<FabricAddr, PostError> {
        self.kind.source(self.limits(), from)
    }
}

impl<T: Transport, B: Buffer, K: Clone> Clone for Endpoint<'_, T, B, K> {
    fn clone(&self) -> Self {
        Endpoint { opened: self.opened.clone(), kind: self.kind.clone() }
    }
}

impl<T: Transport, B: Buffer, K> fmt::Debug for Endpoint<'_, T, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("opened", &self.opened).finish_non_exhaustive()
    }
}
