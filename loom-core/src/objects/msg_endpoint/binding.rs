//! [`Binding`]: what a connection-oriented endpoint is bound to besides its completion queue.

use crate::objects::counter::{Counter, Counters};
use crate::objects::endpoint_options::Options;
use crate::objects::eq::Eq;
use crate::objects::port::Receives;
use crate::transport::Connected;
use crate::vocabulary::{Counted, EndpointOption, OptionType};

/// What an endpoint is bound to besides its completion queue: an event queue, and counters if it has any. Where there are
/// none, a reference to the event queue is enough.
#[derive(Debug)]
pub struct Binding<'d, T: Connected> {
    pub(super) eq: &'d Eq<'d, T>,
    pub(super) counters: Counters<'d, T>,
    pub(super) options: Options,
    pub(super) receives: Receives,
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
            receives: Receives::Itself,
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
    /// [`send_unreported`](super::MsgEndpoint::send_unreported). All others go on reporting theirs. Opening the endpoint is
    /// refused with `EOPNOTSUPP` over `net` and libfabric 1's `tcp`, which report them all the same.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    #[must_use]
    pub const fn selective(mut self) -> Self {
        self.selective = true;
        self
    }

    /// For an endpoint whose peer writes to this side's memory, and sends no messages: see
    /// [`EndpointBuilder::remote_writes`](crate::objects::endpoint::EndpointBuilder::remote_writes). Not for one that receives
    /// through a [`SharedRx`](super::SharedRx), which is refused with `EINVAL`.
    #[doc(alias = "FI_RX_CQ_DATA")]
    #[must_use]
    pub const fn remote_writes(mut self, count: u16) -> Self {
        self.receives = Receives::OfWrites(count);
        self
    }
}

impl<'d, T: Connected> From<&'d Eq<'d, T>> for Binding<'d, T> {
    fn from(eq: &'d Eq<'d, T>) -> Self {
        Binding::to(eq)
    }
}
