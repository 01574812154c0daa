use heapless::Vec;

use crate::av::Av;
use crate::counter::{BoundCounters, Counter};
use crate::cq::{Bonds, ReceiveMode};
use crate::eq::EventQueue;
use crate::error::OpenError;
use crate::info::Info;
use crate::transport::{Connected, Transport};
use crate::vocabulary::{Counted, EndpointOption, Errno, OptionType, OptionValue};

/// Handles of the objects that an endpoint is bound to, which keep them open, and options set
/// before it is enabled.
///
/// The main object `W` is an address vector ([`Cq::endpoint`](crate::cq::Cq::endpoint)), an event
/// queue ([`Cq::msg_endpoint`](crate::cq::Cq::msg_endpoint)) or a
/// [`ScalableEndpoint`](super::ScalableEndpoint)
/// ([`Cq::tx_context`](crate::cq::Cq::tx_context)). A reference to it converts into a binding.
///
/// ```
/// use loom_core::{Av, Binding, Counted, Counter, CounterAttr, Cq};
///
/// # fixture::domain!(network, domain);
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 4)?);
/// let sent = Counter::open(&domain, CounterAttr::default())?;
/// let plain = cq.endpoint(&av)?;
/// let counted = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &sent))?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "fi_ep_bind")]
#[derive(Debug)]
pub struct Binding<'m, T: Transport, W> {
    pub(super) to: W,
    /// Info of the endpoint instead of the domain's.
    pub info: Option<Info<T>>,
    pub(super) counters: BoundCounters<'m, T>,
    pub(super) selective: bool,
    pub(super) receives: ReceiveMode,
    options: Vec<(u32, OptionValue), MAX_OPTIONS>,
    wrong_options: bool,
}

const MAX_OPTIONS: usize = 8;

/// Objects of endpoints that transmit and receive.
pub trait BothWays: super::kind::Sealed {}

impl<T: Transport> super::kind::Sealed for Av<'_, T> {}
impl<T: Transport> BothWays for Av<'_, T> {}
impl<T: Connected> super::kind::Sealed for EventQueue<'_, T> {}
impl<T: Connected> BothWays for EventQueue<'_, T> {}

impl<'m, T: Transport, W> Binding<'m, T, W> {
    /// Binds to this object alone.
    #[must_use]
    pub fn to(to: &W) -> Self
    where
        W: Clone,
    {
        Binding {
            to: to.clone(),
            info: None,
            counters: BoundCounters::none(),
            selective: false,
            receives: ReceiveMode::Itself,
            options: Vec::new(),
            wrong_options: false,
        }
    }

    /// Counts these operations of the endpoint, for a context those of its direction.
    #[must_use]
    pub fn counter(mut self, counted: Counted, counter: &Counter<'m, T>) -> Self {
        self.counters.add(counted, counter.clone());
        self
    }

    /// Sets an option before the endpoint is enabled, at most eight.
    #[doc(alias = "fi_setopt")]
    #[must_use]
    pub fn option<V: OptionType>(mut self, option: EndpointOption<V>, value: V) -> Self {
        let set = is_sane(option, value) && self.options.push((option.as_raw(), value.into())).is_ok();
        self.wrong_options |= !set;
        self
    }

    pub(super) fn options(&self) -> Result<&[(u32, OptionValue)], OpenError> {
        if self.wrong_options { Err(Errno::EINVAL.into()) } else { Ok(&self.options) }
    }

    /// Bonds that the endpoint keeps, including `more`, without its address vector.
    pub(super) fn bonds(&self, more: Option<crate::storage::handle::Bond>) -> Bonds {
        Bonds { av: None, others: more.into_iter().chain(self.counters.bonds()).collect() }
    }
}

impl<W: BothWays, T: Transport> Binding<'_, T, W> {
    /// Allows operations that do not report success, such as
    /// [`send_unsignaled`](super::Endpoint::send_unsignaled). Opening fails with `EOPNOTSUPP` over
    /// `net` and libfabric 1's `tcp`, which report them regardless.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    #[must_use]
    pub const fn selective(mut self) -> Self {
        self.selective = true;
        self
    }

    /// Opens an endpoint for peers' writes, without messages: its receives are refused
    /// ([`PostError::NotGranted`](crate::error::PostError::NotGranted)).
    ///
    /// If writes with immediate data consume receives (`FI_RX_CQ_DATA`, as over `verbs`), `count`
    /// receives of zero bytes stay posted in operation slots of the queue, and the next poll
    /// reposts consumed ones. Beyond `count` writes between two polls, the next waits or fails at
    /// its writer. A message is lost and reported as
    /// [`Completion::Unclaimed`](crate::completion::Completion::Unclaimed).
    ///
    /// Opening fails with [`OpenError::Mode`] if the provider also requires prefixes, and with
    /// `EINVAL` for receives through a [`SharedRx`](super::SharedRx).
    ///
    /// On endpoints that take messages, writes consume the program's receives, which must exist.
    /// The next poll reposts them under the same key, after receives posted meanwhile.
    #[doc(alias = "FI_RX_CQ_DATA")]
    #[must_use]
    pub const fn remote_writes(mut self, count: u16) -> Self {
        self.receives = ReceiveMode::OfWrites(count);
        self
    }
}

impl<'m, T: Transport> Binding<'m, T, Av<'m, T>> {
    /// Opens the endpoint from this info ([`Info::try_clone`]) instead of the domain's.
    #[must_use]
    pub fn info(mut self, info: Info<T>) -> Self {
        self.info = Some(info);
        self
    }
}

impl<T: Transport, W: Clone> From<&W> for Binding<'_, T, W> {
    fn from(to: &W) -> Self {
        Binding::to(to)
    }
}

/// Returns `true` if an option can have this value. With `MIN_MULTI_RECV` zero, providers would
/// continue a multi-receive without space.
pub(super) fn is_sane<V: OptionType>(option: EndpointOption<V>, value: V) -> bool {
    let nothing_left =
        option.as_raw() == EndpointOption::MIN_MULTI_RECV.as_raw() && value.into() == OptionValue::Size(0);
    option.is_settable() && !nothing_left
}
