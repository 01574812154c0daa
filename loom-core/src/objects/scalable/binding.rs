//! [`ContextBinding`]: what a context of a scalable endpoint is bound to besides its queue.

use super::ScalableEndpoint;
use crate::error::OpenError;
use crate::objects::counter::{Counter, Counters};
use crate::objects::domain::Domain;
use crate::objects::endpoint_options::Options;
use crate::objects::port::Bound;
use crate::transport::Scalable;
use crate::vocabulary::{Counted, EndpointOption, OptionType};

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
        super::same_domain(self.endpoint, domain)?;
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
