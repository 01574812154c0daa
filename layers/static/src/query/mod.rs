//! Compile-time queries: a program's requirements of an endpoint, as a type.
//!
//! A requirement is an endpoint type ([`Rdm`]), a group of operations ([`Messages`]), another
//! capability ([`Capable`]), or a tuple of up to eight requirements. It determines
//!
//! - the hints: [`Query::HINTS`] and [`Query::CAPS`], also in a `const`
//! - one endpoint type: a query for two does not compile
//! - the operations of an endpoint opened through the query ([`Only`]), without run time or space.
//!   Others do not compile
//!
//! ```
//! use loom_static::query::{Query, Rdm, Tagged, Writes};
//! use loom_core::{Av, Caps, Cq, Domain, Forever, Source, Tag};
//! use loom_static::protocol::{TaggedRecv, TaggedSend};
//! # use loom_core::soft::{Network, NetworkAttr};
//! # let network = Network::new(NetworkAttr::default())?;
//!
//! type Wanted = (Rdm, Tagged, Writes);
//! const CAPS: Caps = Wanted::CAPS;
//! assert!(CAPS.contains(Caps::TAGGED) && !CAPS.contains(Caps::READ));
//!
//! // Over libfabric: `Ofi::<Local>::query(&Hints { provider: Some("shm"), ..Wanted::HINTS })?`
//! let info = Wanted::ranked(network.query(&Wanted::HINTS)).first().expect("all capabilities");
//! # let domain = Domain::open(&info)?;
//! # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (mut alice, mut bob) = (Wanted::endpoint(&cq, &av)?, Wanted::endpoint(&cq, &av)?);
//! let to_bob = av.insert(&bob.whole().address()?)?;
//! let received = cq.post(vec![0; 5], Forever, |room| bob.tagged_recv(Source::Any, Tag(7).into(), room))?;
//! cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
//! assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! Untagged messages are not in this query:
//!
//! ```compile_fail,E0599
//! # use loom_static::{OnlyEndpoint, protocol::MsgSend, query::{Query, Rdm, Tagged, Writes}};
//! # use loom_core::{Peer, soft::Soft};
//! # type Wanted = (Rdm, Tagged, Writes);
//! fn hello(alice: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, to_bob: Peer) {
//!     // error: the query does not ask for `Messages` (`No: Asked<Messages>`)
//!     alice.send(to_bob, b"hello".to_vec());
//! }
//! ```
//!
//! An endpoint has one type:
//!
//! ```compile_fail,E0277
//! # use loom_static::query::{Messages, Msg, Query, Rdm};
//! # use loom_core::info::Hints;
//! // error: a query asks for one type of endpoint, not for `Rdm` and `Msg`
//! const HINTS: Hints<'static> = <(Rdm, Messages, Msg) as Query>::HINTS;
//! ```
//!
//! Other kinds of endpoints (connections, contexts of scalable endpoints) are opened without a
//! query and narrowed by [`Query::only`].
//!
//! Checked at run time: directed receives (`FI_DIRECTED_RECV`), fences (`FI_FENCE`), the width of
//! immediate data, receives of a [`SharedRx`](loom_core::endpoint::SharedRx), and defects of
//! providers.
//!
//! # References
//! - `man fi_getinfo`

mod requirement;
mod set;
mod tuples;

use core::fmt;
use core::marker::PhantomData;

use loom_core::av::Av;
use loom_core::buffer::Buffer;
use loom_core::cq::Cq;
use loom_core::endpoint::{Binding, Endpoint};
use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType, TxAttributes};

pub use self::requirement::{
    AnyType, AtomicOps, Capable, CollectiveOps, Dgram, EndpointKind, Injects, Joins, Messages, Msg, MultiRecvs, Rdm,
    Reads, Tagged, TaggedMultiRecvs, Writes,
};
use self::set::Sealed;
pub use self::set::{Asked, Flag, Group, GroupSet, No, Set, Yes};
use crate::only::{Narrows, Only, OnlyEndpoint, WithoutConnections};

/// Requirements of an endpoint. See the [module](self).
///
/// ```
/// use loom_static::query::{Injects, Messages, Query, Rdm, Writes};
/// use loom_core::soft::{Network, NetworkAttr};
///
/// /// What one part of a program needs: short messages as copies.
/// type Control = (Messages, Injects<64>);
/// /// What another part needs.
/// type Data = Writes;
/// /// What the program opens its endpoints for.
/// type Wanted = (Rdm, Control, Data);
///
/// assert!(Wanted::CAPS.contains(Control::CAPS | Data::CAPS));
/// assert_eq!(Wanted::INJECT_SIZE, 64);
/// let network = Network::new(NetworkAttr::default())?;
/// let info = network.query(&Wanted::HINTS)?;
/// assert_eq!(Wanted::check(&info), Ok(()));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no query",
    note = "a query is one of the requirements in `loom_static::query`, or a tuple of up to eight queries"
)]
pub trait Query: Sealed + Sized {
    /// Type of endpoint.
    type Kind: EndpointKind;

    /// Groups of operations.
    type Groups: GroupSet;

    /// Capabilities, with modifiers (`FI_SEND`, `FI_REMOTE_WRITE`).
    const CAPS: Caps;

    /// Minimum inject size in bytes.
    const INJECT_SIZE: usize = 0;

    /// Type of endpoint, [`EndpointType::UNSPEC`] for any.
    const ENDPOINT_TYPE: EndpointType = Self::Kind::TYPE;

    /// Hints, with other fields to fill in: `Hints { provider: Some("shm"), ..Wanted::HINTS }`.
    const HINTS: Hints<'static> = Hints {
        caps: Self::CAPS,
        endpoint_attr: EndpointAttributes::of(Self::ENDPOINT_TYPE),
        tx_attr: TxAttributes { inject_size: Self::INJECT_SIZE, ..TxAttributes::UNSPEC },
        ..Hints::UNSPEC
    };

    /// Checks that an info meets the query.
    ///
    /// ```
    /// use loom_core::error::OpenError;
    /// use loom_static::query::{Messages, Msg, Query};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::EndpointType;
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// assert_eq!(Messages::check(&network.info()), Ok(()));
    /// let connected = <(Msg, Messages)>::check(&network.info());
    /// assert_eq!(connected, Err(OpenError::EndpointType(EndpointType::RDM)));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError::EndpointType`], [`OpenError::NotGranted`], [`OpenError::InjectSize`].
    fn check<T: Transport>(info: &Info<T>) -> Result<(), OpenError> {
        let attributes = info.attributes();
        meets::<Self>(attributes.endpoint.kind, attributes.caps.with_modifiers(), attributes.tx.inject_size)
    }

    /// Opens an endpoint with the query's operations.
    ///
    /// ```
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::{Av, Cq, Domain, Forever, Source, Tag};
    /// use loom_static::protocol::{TaggedRecv, TaggedSend};
    /// use loom_static::query::{Messages, Query, Tagged};
    ///
    /// type Wanted = (Messages, Tagged);
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// let [mut alice, mut bob] = [Wanted::endpoint(&cq, &av)?, Wanted::endpoint(&cq, &av)?];
    /// let to_bob = av.insert(&bob.whole().address()?)?;
    /// let received = bob.tagged_recv(Source::Any, Tag(7).into(), vec![0; 5])?;
    /// // `alice.write` does not compile: the query does not ask for it.
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Cq::endpoint`] and, with the endpoint closed, [`only`](Self::only).
    #[doc(alias = "fi_endpoint")]
    fn endpoint<'m, T: Transport, B: Buffer>(
        cq: &Cq<'m, T, B>,
        bind: impl Into<Binding<'m, T, Av<'m, T>>>,
    ) -> Result<OnlyEndpoint<'m, T, B, Self>, OpenError>
    where
        Self::Kind: WithoutConnections,
    {
        let bind = bind.into();
        // Before opening: over `shm` a closed endpoint may keep its memory.
        Self::check(bind.info.as_ref().unwrap_or_else(|| cq.info()))?;
        Self::only(&cq.endpoint(bind)?)
    }

    /// Another handle of an endpoint, with the query's operations.
    ///
    /// ```
    /// use loom_core::error::OpenError;
    /// use loom_core::soft::{Network, NetworkAttr, Plan};
    /// use loom_core::{Av, Caps, Cq, Domain};
    /// use loom_static::query::{AtomicOps, Messages, Query};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // As over a provider that has no atomic operations.
    /// let domain = Domain::open(&network.info_with_faults(Plan { without: Caps::ATOMIC, ..Plan::new(0) }))?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// let endpoint = cq.endpoint(&av)?;
    /// let messages = Messages::only(&endpoint)?;
    /// assert!(matches!(AtomicOps::only(&endpoint), Err(OpenError::NotGranted(_))));
    /// // `whole` has every operation.
    /// assert_eq!(messages.whole().address()?, endpoint.address()?);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError::EndpointType`], [`OpenError::NotGranted`], [`OpenError::InjectSize`].
    fn only<'m, T: Transport, B: Buffer, K: Clone + Narrows<Self::Kind>>(
        endpoint: &Endpoint<'m, T, B, K>,
    ) -> Result<Only<Endpoint<'m, T, B, K>, Self>, OpenError> {
        let granted = endpoint.attributes();
        meets::<Self>(granted.endpoint.kind, granted.caps.union(K::ELSEWHERE), granted.tx.inject_size)?;
        Ok(Only::new(endpoint.clone()))
    }

    /// Filters a transport's infos for [`HINTS`](Self::HINTS) by the query, in the transport's
    /// order.
    fn ranked<T: Transport, I: IntoIterator<Item = Info<T>>>(infos: I) -> Ranked<I::IntoIter, Self> {
        Ranked { infos: infos.into_iter(), query: PhantomData }
    }
}

fn meets<Q: Query>(kind: EndpointType, caps: Caps, inject_size: usize) -> Result<(), OpenError> {
    if Q::ENDPOINT_TYPE != EndpointType::UNSPEC && Q::ENDPOINT_TYPE != kind {
        return Err(OpenError::EndpointType(kind));
    }
    let missing = Q::CAPS.difference(caps);
    if !missing.is_empty() {
        return Err(OpenError::NotGranted(missing));
    }
    if inject_size < Q::INJECT_SIZE { Err(OpenError::InjectSize { limit: inject_size }) } else { Ok(()) }
}

/// Infos that meet a query, best first. See [`Query::ranked`].
///
/// ```
/// use loom_static::query::{Messages, Query, Rdm};
/// use loom_core::soft::{Network, NetworkAttr};
///
/// type Wanted = (Rdm, Messages);
/// // A transport may answer with many infos. Here are two.
/// let small = Network::new(NetworkAttr { eager_size: 32, ..NetworkAttr::DEFAULT })?;
/// let large = Network::new(NetworkAttr { eager_size: 64, ..NetworkAttr::DEFAULT })?;
/// let infos = || [&small, &large].into_iter().filter_map(|network| network.query(&Wanted::HINTS).ok());
/// // The program takes the first info, or the one with the largest inject size.
/// let first = Wanted::ranked(infos()).first().expect("both have messages");
/// let most = Wanted::ranked(infos()).greatest(|info| info.attributes().tx.inject_size).expect("both have messages");
/// assert_eq!((first.attributes().tx.inject_size, most.attributes().tx.inject_size), (32, 64));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it asks nothing before it is iterated"]
pub struct Ranked<I, Q> {
    infos: I,
    query: PhantomData<fn() -> Q>,
}

impl<T: Transport, I: Iterator<Item = Info<T>>, Q: Query> Iterator for Ranked<I, Q> {
    type Item = Info<T>;

    fn next(&mut self) -> Option<Info<T>> {
        self.infos.find(|info| Q::check(info).is_ok())
    }
}

impl<T: Transport, I: Iterator<Item = Info<T>>, Q: Query> Ranked<I, Q> {
    /// Returns the best info.
    pub fn first(mut self) -> Option<Info<T>> {
        self.next()
    }

    /// Returns the best info for which `wanted` holds.
    ///
    /// ```
    /// use loom_static::query::{Messages, Query};
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let networks = [32, 64].map(|eager_size| Network::new(NetworkAttr { eager_size, ..NetworkAttr::DEFAULT }));
    /// let infos = networks.iter().flatten().filter_map(|network| network.query(&Messages::HINTS).ok());
    /// // The first one that injects the program's headers.
    /// let info = Messages::ranked(infos).first_where(|info| info.attributes().tx.inject_size >= 50);
    /// assert_eq!(info.map(|info| info.attributes().tx.inject_size), Some(64));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn first_where(mut self, mut wanted: impl FnMut(&Info<T>) -> bool) -> Option<Info<T>> {
        self.find(|info| wanted(info))
    }

    /// Returns the info with the greatest key, for example the inject size, the best one among
    /// equals.
    pub fn greatest<K: Ord>(self, mut key: impl FnMut(&Info<T>) -> K) -> Option<Info<T>> {
        self.map(|info| (key(&info), info))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, info)| info)
    }
}

impl<I, Q> fmt::Debug for Ranked<I, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranked").finish_non_exhaustive()
    }
}
