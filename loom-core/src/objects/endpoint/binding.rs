//! [`Binding`], [`ContextBinding`]: what an endpoint or context is bound to besides its completion queue.

use super::opened::Options;
use super::record::{Bound, Receiving};
use super::scalable::{ScalableEndpoint, same_domain};
use crate::error::OpenError;
use crate::objects::counter::{Counter, Counters};
use crate::objects::domain::Domain;
use crate::objects::eq::Eq;
use crate::transport::{Connected, Scalable};
use crate::vocabulary::{Counted, EndpointOption, OptionType};

/// What an endpoint is bound to besides its completion queue: an event queue, and counters if it has any. Where there are
/// none, a reference to the event queue is enough.
#[derive(Debug)]
pub struct Binding<'d, T: Connected> {
    pub(super) eq: &'d Eq<'d, T>,
    pub(super) counters: Counters<'d, T>,
    pub(super) options: Options,
    pub(super) receives: Receiving,
    pub(super) selective: bool,
}

impl<'d, T: Connected> Binding<'d, T> {
    /// To an event queue, and no counter.
    #[must_use]
    pub const fn to(eq: &'d Eq<'d, T>) -> Self {
        Binding {
            eq,
            counters: Counters::none(),
            options: Options::none(),
            receives: Receiving::Itself,
            selective: false,
        }
    }

    /// Counts these operations of the endpoint. Several counters can be given, for different operations.
    #[doc(alias = "fi_ep_bind")]
    #[must_use]
    pub fn counter(mut self, counted: Counted, counter: &'d Counter<'d, T>) -> Self {
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
    /// [`send_unreported`](super::Endpoint::send_unreported). All others go on reporting theirs. Opening the endpoint is
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
        self.receives = Receiving::OfWrites(count);
        self
    }
}

impl<'d, T: Connected> From<&'d Eq<'d, T>> for Binding<'d, T> {
    fn from(eq: &'d Eq<'d, T>) -> Self {
        Binding::to(eq)
    }
}

/// Of which scalable endpoint a context is, and its counters and options if it has any. Where it has none, a reference to the
/// endpoint is enough.
#[derive(Debug)]
pub struct ContextBinding<'d, T: Scalable> {
    pub(super) endpoint: &'d ScalableEndpoint<'d, T>,
    pub(super) counters: Counters<'d, T>,
    pub(super) options: Options,
}

impl<'d, T: Scalable> ContextBinding<'d, T> {
    /// Of this endpoint, without counters and options.
    #[must_use]
    pub const fn of(endpoint: &'d ScalableEndpoint<'d, T>) -> Self {
        ContextBinding { endpoint, counters: Counters::none(), options: Options::none() }
    }

    /// Counts these operations of the context, which are of its direction. Several counters can be given, for different
    /// operations.
    #[doc(alias = "fi_ep_bind")]
    #[must_use]
    pub fn counter(mut self, counted: Counted, counter: &'d Counter<'d, T>) -> Self {
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
    pub(super) fn check(&self, domain: &Domain<T>, countable: Counted) -> Result<(), OpenError> {
        same_domain(self.endpoint, domain)?;
        self.counters.check(domain, self.endpoint.info.caps())?;
        let all = self.counters.raw().iter().fold(Counted::empty(), |all, (counted, _)| all | *counted);
        if countable.contains(all) { Ok(()) } else { Err(OpenError::Counters) }
    }

    /// Counts a context that is about to be opened.
    pub(super) fn bind(&self) -> Bound<'d> {
        self.endpoint.users.opened();
        self.counters.bind(&self.endpoint.users)
    }
}

impl<'d, T: Scalable> From<&'d ScalableEndpoint<'d, T>> for ContextBinding<'d, T> {
    fn from(endpoint: &'d ScalableEndpoint<'d, T>) -> Self {
        ContextBinding::of(endpoint)
    }
}
