//! [`EndpointBuilder`]: what an endpoint is bound to before it is enabled.

#![allow(unsafe_code, reason = "opens a raw endpoint")]

use super::Endpoint;
use super::kind::Connectionless;
use super::multicast::{InGroups, MulticastEndpoint};
use super::opened::Opened;
use super::opened::Options;
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::handle::Bond;
use crate::objects::av::Av;
use crate::objects::counter::{BoundCounters, Counter};
use crate::objects::cq::Cq;
use crate::objects::cq::{Bonds, ReceiveMode};
use crate::objects::domain::DomainInner;
use crate::objects::eq::Eq;
use crate::objects::info::Info;
use crate::transport::{Bindings, EndpointError, Multicast, Transport};
use crate::vocabulary::{Caps, Counted, EndpointOption, EndpointType, OptionType};

/// Opens an endpoint: everything that it is bound to is named before it is enabled.
#[derive(Debug)]
#[must_use = "an endpoint is opened by `open`"]
pub struct EndpointBuilder<'b, 'm, T: Transport, B: Buffer> {
    cq: &'b Cq<'m, T, B>,
    av: &'b Av<'m, T>,
    info: Option<&'b Info<T>>,
    counters: BoundCounters<'b, 'm, T>,
    options: Options,
    selective: bool,
    receives: ReceiveMode,
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Begins to open an endpoint that completes into this queue and finds its peers in `av`.
    #[doc(alias = "fi_endpoint")]
    pub fn endpoint<'b>(&'b self, av: &'b Av<'m, T>) -> EndpointBuilder<'b, 'm, T, B> {
        EndpointBuilder::new(self, av)
    }
}

impl<'b, 'm, T: Transport, B: Buffer> EndpointBuilder<'b, 'm, T, B> {
    pub(crate) fn new(cq: &'b Cq<'m, T, B>, av: &'b Av<'m, T>) -> Self {
        EndpointBuilder {
            cq,
            av,
            info: None,
            counters: BoundCounters::none(),
            options: Options::none(),
            selective: false,
            receives: ReceiveMode::Itself,
        }
    }

    /// Opens it from this info instead of the domain's: with another source address, for example.
    pub fn info(mut self, info: &'b Info<T>) -> Self {
        self.info = Some(info);
        self
    }

    /// Counts these operations of it. Several counters can be given, for different operations.
    #[doc(alias = "fi_ep_bind")]
    pub fn counter(mut self, counted: Counted, counter: &'b Counter<'m, T>) -> Self {
        self.counters.add(counted, counter);
        self
    }

    /// Sets an option before the endpoint is enabled.
    #[doc(alias = "fi_setopt")]
    pub fn option<V: OptionType>(mut self, option: EndpointOption<V>, value: V) -> Self {
        self.options.set(option, value);
        self
    }

    /// For operations that do not report their success, too, such as
    /// [`send_unsignaled`](Endpoint::send_unsignaled). All others go on reporting theirs.
    ///
    /// [`open`](Self::open) refuses with `EOPNOTSUPP` over `net`, which reports them all the same.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    pub fn selective(mut self) -> Self {
        self.selective = true;
        self
    }

    /// For an endpoint whose peers write to this side's memory, and send it no messages: its receives are refused
    /// ([`PostError::NotGranted`](crate::error::PostError::NotGranted)).
    ///
    /// Where the provider has peers' writes with immediate data use up receives (`FI_RX_CQ_DATA`, as `verbs`), so many are kept
    /// posted for it, of no bytes, in as many places of the queue; each is posted again by the poll that follows. It is the
    /// number of writes that the endpoint can be told of between two polls; the next one waits, or fails at its writer, as the
    /// provider has it. Other providers need none. A message that comes all the same is lost, and reported as
    /// [`Completion::Unclaimed`](crate::completion::Completion::Unclaimed).
    ///
    /// Where the provider asks for prefixes, too, [`open`](Self::open) refuses with [`OpenError::Mode`]: no known one does.
    ///
    /// An endpoint that takes messages required_caps nothing like that: its writers use up receives of yours, which are posted again by
    /// the next poll under the same key, behind those that were posted meanwhile, and are not reported. There have to be
    /// some.
    #[doc(alias = "FI_RX_CQ_DATA")]
    pub fn remote_writes(mut self, count: u16) -> Self {
        self.receives = ReceiveMode::OfWrites(count);
        self
    }

    /// Opens the endpoint, binds it to the queue and the address vector, and enables it.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info or the address vector belongs to another domain
    /// - [`OpenError::EndpointType`] if the info describes an endpoint that has to be connected
    /// - [`OpenError::Counters`] if two counters count the same
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place for another endpoint
    /// - [`OpenError::Size`] if it has not so many for operations as [`remote_writes`](Self::remote_writes) takes
    /// - [`OpenError::Errno`] if the provider refuses, and with `EINVAL` if an option can only be read or not be set to that, or
    ///   there are more than eight
    #[doc(alias = "fi_enable")]
    #[doc(alias = "fi_ep_bind")]
    pub fn open(self) -> Result<Endpoint<'m, T, B>, OpenError> {
        let av = self.av.clone();
        let opened = self.open_bound(
            || None,
            |domain, info, bind| {
                // SAFETY: see `open`.
                unsafe { T::endpoint_open(domain, info, bind) }
            },
        )?;
        Ok(Endpoint { opened, kind: Connectionless { av } })
    }

    /// As [`open`](Self::open), for an endpoint that joins multicast groups: it is bound to an event queue, too, which
    /// tells how that went.
    ///
    /// # Errors
    /// As [`open`](Self::open), and
    /// - [`OpenError::OtherDomain`] if the event queue belongs to another domain
    /// - [`OpenError::NotGranted`] without [`Caps::MULTICAST`], which has to be asked for
    /// - [`OpenError::Errno`] with `EOPNOTSUPP` over a provider of libfabric's that is not known to leave groups; `udp` is,
    ///   unless the endpoint only sends
    #[doc(alias = "FI_MULTICAST")]
    pub fn open_multicast(self, eq: &Eq<'m, T>) -> Result<MulticastEndpoint<'m, T, B>, OpenError>
    where
        T: Multicast,
    {
        let domain = self.cq.domain();
        if !eq.domain().is(domain) {
            return Err(OpenError::OtherDomain);
        }
        let missing = Caps::MULTICAST.difference(self.info.unwrap_or_else(|| domain.info()).caps());
        if !missing.is_empty() {
            return Err(OpenError::NotGranted(missing));
        }
        let (av, eq) = (self.av.clone(), eq.clone());
        let opened = self.open_bound(
            || Some(eq.bond()),
            |domain, info, bind| {
                // SAFETY: see `open`; the event queue is open, of this domain, and stays open while it is bound.
                unsafe { T::multicast_endpoint_open(domain, info, bind, eq.raw()) }
            },
        )?;
        Ok(Endpoint { opened, kind: InGroups { av, eq } })
    }

    /// Opens the endpoint, bound to one thing more. `open` may rely on this: everything that it is given
    /// is open, of the domain, and outlives the endpoint.
    fn open_bound(
        self,
        more: impl FnOnce() -> Option<Bond>,
        open: impl FnOnce(&T::Domain, &T::Info, Bindings<'_, T>) -> Result<T::Endpoint, EndpointError>,
    ) -> Result<Opened<'m, T, B>, OpenError> {
        let EndpointBuilder { cq, av, info, counters, options, selective, receives } = self;
        let domain = cq.domain();
        let info = info.unwrap_or_else(|| domain.info());
        if !av.domain().is(domain) || !info.same_domain(domain.info()) {
            return Err(OpenError::OtherDomain);
        }
        DomainInner::check(info)?;
        if !matches!(info.attributes().endpoint.kind, EndpointType::RDM | EndpointType::DGRAM) {
            return Err(OpenError::EndpointType(info.attributes().endpoint.kind));
        }
        counters.check(domain, info.caps())?;
        let options = options.raw()?;
        let bonds = Bonds { av: Some(av.bond()), others: more().into_iter().chain(counters.bonds()).collect() };
        let opened = Opened::open(cq, info, receives, bonds, |tx, rx| {
            // Queue, vector and counters are open and of this domain, and outlive the endpoint: the queue closes it before
            // itself, and the others stay open while they are bound.
            let bind = Bindings { tx, rx, av: av.raw(), counters: &counters.raw(), selective, options };
            open(domain.raw(), info.raw(), bind)
        })?;
        Ok(opened.with_selective(selective))
    }
}
