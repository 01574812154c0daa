//! [`Binding`], [`ContextBinding`]: what an endpoint or context is bound to besides its completion queue.

use super::opened::Options;
use super::scalable::ScalableEndpoint;
use crate::error::OpenError;
use crate::handle::Handle;
use crate::objects::counter::{BoundCounters, Counter};
use crate::objects::cq::{Bonds, ReceiveMode};
use crate::objects::domain::DomainInner;
use crate::objects::eq::Eq;
use crate::transport::{Connected, Scalable};
use crate::vocabulary::{Counted, EndpointOption, OptionType};

/// What an endpoint is bound to besides its completion queue: an event queue, and counters if it has any. Where there are
/// none, a reference to the event queue is enough.
#[derive(Debug)]
pub struct Binding<'b, 'm, T: Connected> {
    pub(super) eq: &'b Eq<'m, T>,
    pub(super) counters: BoundCounters<'b, 'm, T>,
    pub(super) options: Options,
    pub(super) receives: ReceiveMode,
    pub(super) selective: bool,
}

impl<'b, 'm, T: Connected> Binding<'b, 'm, T> {
    /// To an event queue, and no counter.
    #[must_use]
    pub const fn to(eq: &'b Eq<'m, T>) -> Self {
        Binding {
            eq,
            counters: BoundCounters::none(),
            options: Options::none(),
            receives: ReceiveMode::Itself,
            selective: false,
        }
    }

    /// Counts these operations of the endpoint. Several counters can be given, for different operations.
    #[doc(alias = "fi_ep_bind")]
    #[must_use]
    pub fn counter(mut self, counted: Counted, counter: &'b Counter<'m, T>) -> Self {
        self.counters.add(counted, counter);
        self
    }

    /// Sets an option before the endpoint is enabled.
    #[doc(alias = "fi_setopt")]
    #[must_use]
    pub fn option<V: OptionType>(mut self, option: EndpointOption<V>, value: V) -> Self {
        self.options.set(option, value);
        self
    }

    /// For operations that do not report their success, too, such as
    /// [`send_unsignaled`](super::Endpoint::send_unsignaled). All others go on reporting theirs. Opening the endpoint is
    /// refused with `EOPNOTSUPP` over `net` and libfabric 1's `tcp`, which report them all the same.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    #[must_use]
    pub const fn selective(mut self) -> Self {
        self.selective = true;
        self
    }

    /// For an endpoint whose peer writes to this side's memory, and sends no messages: see
    /// [`EndpointBuilder::remote_writes`](super::EndpointBuilder::remote_writes). Not for one that receives
    /// through a [`SharedRx`](super::SharedRx), which is refused with `EINVAL`.
    #[doc(alias = "FI_RX_CQ_DATA")]
    #[must_use]
    pub const fn remote_writes(mut self, count: u16) -> Self {
        self.receives = ReceiveMode::OfWrites(count);
        self
    }
}

impl<'b, 'm, T: Connected> From<&'b Eq<'m, T>> for Binding<'b, 'm, T> {
    fn from(eq: &'b Eq<'m, T>) -> Self {
        Binding::to(eq)
    }
}

/// Of which scalable endpoint a context is, and its counters and options if it has any. Where it has none, a reference to the
/// endpoint is enough.
#[derive(Debug)]
pub struct ContextBinding<'b, 'm, T: Scalable> {
    pub(super) endpoint: &'b ScalableEndpoint<'m, T>,
    pub(super) counters: BoundCounters<'b, 'm, T>,
    pub(super) options: Options,
}

impl<'b, 'm, T: Scalable> ContextBinding<'b, 'm, T> {
    /// Of this endpoint, without counters and options.
    #[must_use]
    pub const fn of(endpoint: &'b ScalableEndpoint<'m, T>) -> Self {
        ContextBinding { endpoint, counters: BoundCounters::none(), options: Options::none() }
    }

    /// Counts these operations of the context, which are of its direction. Several counters can be given, for different
    /// operations.
    #[doc(alias = "fi_ep_bind")]
    #[must_use]
    pub fn counter(mut self, counted: Counted, counter: &'b Counter<'m, T>) -> Self {
        self.counters.add(counted, counter);
        self
    }

    /// Sets an option before the context is enabled.
    #[doc(alias = "fi_setopt")]
    #[must_use]
    pub fn option<V: OptionType>(mut self, option: EndpointOption<V>, value: V) -> Self {
        self.options.set(option, value);
        self
    }

    /// Whether a context of `domain` can be bound so, if these are the operations that it can count.
    pub(super) fn check(&self, domain: &Handle<'_, DomainInner<T>>, countable: Counted) -> Result<(), OpenError> {
        if !self.endpoint.body.domain().is(domain) {
            return Err(OpenError::OtherDomain);
        }
        self.counters.check(domain, self.endpoint.body.info.caps())?;
        let all = self.counters.raw().iter().fold(Counted::empty(), |all, (counted, _)| all | *counted);
        if countable.contains(all) { Ok(()) } else { Err(OpenError::Counters) }
    }

    /// For a context that is about to be opened.
    pub(super) fn bind(&self) -> Bonds {
        let others = core::iter::once(self.endpoint.body.bond()).chain(self.counters.bonds()).collect();
        Bonds { av: None, others }
    }
}

impl<'b, 'm, T: Scalable> From<&'b ScalableEndpoint<'m, T>> for ContextBinding<'b, 'm, T> {
    fn from(endpoint: &'b ScalableEndpoint<'m, T>) -> Self {
        ContextBinding::of(endpoint)
    }
}
