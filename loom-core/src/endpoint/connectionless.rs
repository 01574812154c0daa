#![allow(unsafe_code, reason = "opens a raw endpoint")]

use super::Endpoint;
use super::binding::Binding;
use super::kind::{HasAddress, HasOptions, Peeks, Receives, Sealed, Source, Transmits};
use super::limits::Limits;
use super::opened::Opened;
use crate::av::Av;
use crate::buffer::Buffer;
use crate::cq::{Bonds, Cq};
use crate::engine::peer_table::Peer;
use crate::error::{OpenError, PostError};
use crate::storage::handle::Bond;
use crate::transport::{Bindings, EndpointError, Transport};
use crate::util::clone::clone_struct;
use crate::util::log::note;
use crate::vocabulary::{EndpointType, FabricAddr};

/// Connectionless endpoint kind, with peers in an address vector, and the event queue `E` of a
/// [`MulticastEndpoint`](super::MulticastEndpoint).
///
/// ```
/// use loom_core::{Endpoint, EndpointAddr, Error, Forever, Source, Transport, endpoint::Connectionless};
///
/// /// Sends to an address, which the endpoint adds to its address vector at any time.
/// fn tell<'m, T: Transport>(
///     from: &Endpoint<'m, T, Vec<u8>, Connectionless<'m, T>>, to: &EndpointAddr,
/// ) -> Result<(), Error> {
///     let peer = from.av().insert(to)?;
///     Ok(from.cq().retry(Forever, || from.inject(peer, b"hello"))?)
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// tell(&alice, &bob.address()?)?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Connectionless<'m, T: Transport, E = ()> {
    pub(super) av: Av<'m, T>,
    pub(super) eq: E,
}

clone_struct!([T: Transport, E: Clone] Connectionless['_, T, E], av, eq);

impl<T: Transport, E> Sealed for Connectionless<'_, T, E> {}
impl<T: Transport, E> HasOptions for Connectionless<'_, T, E> {}
impl<T: Transport, E> HasAddress for Connectionless<'_, T, E> {}
impl<T: Transport, E> Peeks<T> for Connectionless<'_, T, E> {}

impl<T: Transport, E> Transmits<T> for Connectionless<'_, T, E> {
    type To = Peer;

    #[inline]
    fn destination(&self, _: &Limits, to: Peer) -> Result<FabricAddr, PostError> {
        self.av.peer_table().addr(to).ok_or_else(|| PostError::UnknownPeer.cold())
    }
}

impl<T: Transport, E> Receives<T> for Connectionless<'_, T, E> {
    type From = Source;

    const ANY: Source = Source::Any;

    #[inline]
    fn source(&self, limits: &Limits, from: Source) -> Result<FabricAddr, PostError> {
        from.address(limits, &self.av)
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Opens a connectionless endpoint, with completions in this queue and peers in an address
    /// vector: `&av`, or a [`Binding`] with options.
    ///
    /// ```
    /// use loom_core::{Binding, Counted, Counter, CounterAttr};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// # let sent = Counter::open(&domain, CounterAttr::default())?;
    /// let alice = cq.endpoint(&av)?;
    /// // A `Binding` adds a counter.
    /// let bob = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &sent))?;
    /// assert_ne!(alice.address()?, bob.address()?);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`], [`OpenError::EndpointType`], [`OpenError::Counters`],
    ///   [`OpenError::TooManyEndpoints`]
    /// - [`OpenError::NotGranted`] for collectives or device memory that the domain's info lacks
    /// - [`OpenError::Size`] without operation slots for [`remote_writes`](Binding::remote_writes)
    /// - [`OpenError::Limit`] at the software network's
    ///   [`NetworkAttr::endpoints`](crate::soft::NetworkAttr::endpoints)
    /// - [`OpenError::Errno`] of the provider, or `EINVAL` for a read-only option, an invalid
    ///   value, or more than eight options
    #[doc(alias = "fi_endpoint")]
    #[doc(alias = "fi_ep_bind")]
    #[doc(alias = "fi_enable")]
    pub fn endpoint(&self, bind: impl Into<Binding<'m, T, Av<'m, T>>>) -> Result<Endpoint<'m, T, B>, OpenError> {
        let bind = bind.into();
        let opened = bind.open_connectionless(self, None, |domain, info, bind| {
            // SAFETY: `open_connectionless` guarantees H1, H2, H4 and N1.
            unsafe { T::endpoint_open(domain, info, bind) }
        })?;
        Ok(Endpoint { opened, kind: Connectionless { av: bind.to.clone(), eq: () } })
    }
}

impl<'m, T: Transport> Binding<'m, T, Av<'m, T>> {
    /// Opens a connectionless endpoint, bound to `more` as well. `open` may rely on H1, H2, H4 and
    /// N1.
    pub(super) fn open_connectionless<B: Buffer>(
        &self,
        cq: &Cq<'m, T, B>,
        more: Option<Bond>,
        open: impl FnOnce(&T::Domain, &T::Info, Bindings<'_, T>) -> Result<T::Endpoint, EndpointError>,
    ) -> Result<Opened<'m, T, B>, OpenError> {
        let domain = cq.domain();
        let info = self.info.as_ref().unwrap_or_else(|| domain.info());
        if !self.to.domain().is(domain) {
            return Err(OpenError::OtherDomain);
        }
        domain.admits(info, &[EndpointType::RDM, EndpointType::DGRAM])?;
        self.counters.check(domain, info.caps())?;
        let (options, selective) = (self.options()?, self.selective);
        let bonds = Bonds { av: Some(self.to.bond()), ..self.bonds(more) };
        let opened = Opened::open(cq, info, self.receives, bonds, |tx, rx| {
            // Queue, vector and counters are open (H1), of this domain (H4), and outlive the
            // endpoint. The queue closes the endpoint before itself (H2). The others stay open, at
            // their addresses, while bound (H2, N1).
            let bind = Bindings { tx, rx, av: self.to.raw(), counters: &self.counters.raw(), selective, options };
            open(domain.raw(), info.raw(), bind)
        })?;
        note!(debug, "open", "endpoint {} on {} is at {}", opened.index, **domain, opened.shown_address());
        Ok(opened.with_selective(selective))
    }
}
