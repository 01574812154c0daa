//! [`Binding`]: what an endpoint is bound to, and set to, when it opens.

use heapless::Vec;

use super::scalable::ScalableEndpoint;
use crate::av::Av;
use crate::counter::{BoundCounters, Counter};
use crate::cq::{Bonds, ReceiveMode};
use crate::eq::Eq;
use crate::error::OpenError;
use crate::info::Info;
use crate::transport::{Connected, Scalable, Transport};
use crate::vocabulary::{Counted, EndpointOption, Errno, OptionType, OptionValue};

/// What an endpoint is bound to, and set to, before it is enabled.
///
/// The main thing is of type `W`: the address vector of a connectionless endpoint ([`Cq::endpoint`](crate::cq::Cq::endpoint)),
/// the event queue of a connection-oriented one ([`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint)), the
/// [`ScalableEndpoint`] of a context ([`Cq::tx_context`](crate::cq::Cq::tx_context)). Where there is nothing else to say, a
/// reference to it is enough.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::counter::{Counter, CounterAttr};
/// use loom_core::endpoint::Binding;
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::Counted;
/// use loom_core::{Av, Cq, Domain};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 4)?);
/// let sent = Counter::open(&domain, CounterAttr::default())?;
/// let plain = cq.endpoint(&av)?;
/// let counted = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &sent))?;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "fi_ep_bind")]
#[derive(Debug)]
pub struct Binding<'b, 'm, T: Transport, W> {
    pub(super) to: &'b W,
    pub(super) info: Option<&'b Info<T>>,
    pub(super) counters: BoundCounters<'b, 'm, T>,
    pub(super) selective: bool,
    pub(super) receives: ReceiveMode,
    options: Vec<(u32, OptionValue), MAX_OPTIONS>,
    /// An option cannot be set to that, or there were too many.
    wrong_options: bool,
}

/// How many options can be set before an endpoint is enabled.
const MAX_OPTIONS: usize = 8;

/// What endpoints are bound to that have completions of both directions.
pub trait BothWays: super::kind::Sealed {}

impl<T: Transport> super::kind::Sealed for Av<'_, T> {}
impl<T: Transport> BothWays for Av<'_, T> {}
impl<T: Connected> super::kind::Sealed for Eq<'_, T> {}
impl<T: Connected> BothWays for Eq<'_, T> {}

impl<'b, 'm, T: Transport, W> Binding<'b, 'm, T, W> {
    /// To this, and nothing else.
    #[must_use]
    pub const fn to(to: &'b W) -> Self {
        Binding {
            to,
            info: None,
            counters: BoundCounters::none(),
            selective: false,
            receives: ReceiveMode::Itself,
            options: Vec::new(),
            wrong_options: false,
        }
    }

    /// Counts these operations of the endpoint. Several counters can be given, for different operations; those of a context count
    /// operations of its direction.
    #[must_use]
    pub fn counter(mut self, counted: Counted, counter: &'b Counter<'m, T>) -> Self {
        self.counters.add(counted, counter);
        self
    }

    /// Sets an option before the endpoint is enabled; at most eight.
    #[doc(alias = "fi_setopt")]
    #[must_use]
    pub fn option<V: OptionType>(mut self, option: EndpointOption<V>, value: V) -> Self {
        let set = is_sane(option, value) && self.options.push((option.as_raw(), value.into())).is_ok();
        self.wrong_options |= !set;
        self
    }

    /// The options, for the transport.
    pub(super) fn options(&self) -> Result<&[(u32, OptionValue)], OpenError> {
        if self.wrong_options { Err(Errno::EINVAL.into()) } else { Ok(&self.options) }
    }

    /// Everything but the address vector that the endpoint will keep open, and `more`.
    pub(super) fn bonds(&self, more: Option<crate::handle::Bond>) -> Bonds {
        Bonds { av: None, others: more.into_iter().chain(self.counters.bonds()).collect() }
    }
}

impl<W: BothWays, T: Transport> Binding<'_, '_, T, W> {
    /// For operations that do not report their success, too, such as
    /// [`send_unsignaled`](super::Endpoint::send_unsignaled). All others go on reporting theirs. Opening the endpoint is refused with
    /// `EOPNOTSUPP` over `net` and libfabric 1's `tcp`, which report them all the same.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    #[must_use]
    pub const fn selective(mut self) -> Self {
        self.selective = true;
        self
    }

    /// For an endpoint whose peers write to this side's memory, and send it no messages: its receives are refused
    /// ([`PostError::NotGranted`](crate::error::PostError::NotGranted)).
    ///
    /// Where the provider has peers' writes with immediate data use up receives (`FI_RX_CQ_DATA`, as `verbs`), `count` are kept
    /// posted for it, of no bytes, in as many places of the queue; each is posted again by the poll that follows. It is the
    /// number of writes that the endpoint can be told of between two polls; the next one waits, or fails at its writer, as the
    /// provider has it. Other providers need none. A message that comes all the same is lost, and reported as
    /// [`Completion::Unclaimed`](crate::completion::Completion::Unclaimed).
    ///
    /// Where the provider asks for prefixes, too, opening is refused with [`OpenError::Mode`]: no known one does. So is an endpoint
    /// that receives through a [`SharedRx`](super::SharedRx), with `EINVAL`.
    ///
    /// An endpoint that takes messages needs nothing like that: its writers use up receives of yours, which are posted again by
    /// the next poll under the same key, behind those that were posted meanwhile, and are not reported. There have to be
    /// some.
    #[doc(alias = "FI_RX_CQ_DATA")]
    #[must_use]
    pub const fn remote_writes(mut self, count: u16) -> Self {
        self.receives = ReceiveMode::OfWrites(count);
        self
    }
}

impl<'b, 'm, T: Transport> Binding<'b, 'm, T, Av<'m, T>> {
    /// Opens the endpoint from this info instead of the domain's: with another source address, for example.
    #[must_use]
    pub const fn info(mut self, info: &'b Info<T>) -> Self {
        self.info = Some(info);
        self
    }
}

impl<'b, 'm, T: Transport> From<&'b Av<'m, T>> for Binding<'b, 'm, T, Av<'m, T>> {
    fn from(av: &'b Av<'m, T>) -> Self {
        Binding::to(av)
    }
}

impl<'b, 'm, T: Connected> From<&'b Eq<'m, T>> for Binding<'b, 'm, T, Eq<'m, T>> {
    fn from(eq: &'b Eq<'m, T>) -> Self {
        Binding::to(eq)
    }
}

impl<'b, 'm, T: Scalable> From<&'b ScalableEndpoint<'m, T>> for Binding<'b, 'm, T, ScalableEndpoint<'m, T>> {
    fn from(endpoint: &'b ScalableEndpoint<'m, T>) -> Self {
        Binding::to(endpoint)
    }
}

/// Whether an option can be set to this. Providers go on with multi-receives of which nothing is left, if that is not too
/// little.
pub(super) fn is_sane<V: OptionType>(option: EndpointOption<V>, value: V) -> bool {
    let nothing_left =
        option.as_raw() == EndpointOption::MIN_MULTI_RECV.as_raw() && value.into() == OptionValue::Size(0);
    option.is_settable() && !nothing_left
}
