//! [`Info`], a transport's offer, and [`Hints`], requirements of a query.

mod hints;
mod satisfies;

use core::fmt;

pub use self::hints::Hints;
pub use crate::transport::nic::{Nic, NicBus, NicDevice, NicLink};

use crate::error::OpenError;
use crate::transport::{Name, Transport};
use crate::util::debug::debug_struct;
use crate::vocabulary::immediate::Layout;
use crate::vocabulary::{Attributes, Caps, EndpointAddr, Mode, RangeError};

/// A provider's offer of one fabric, domain and kind of endpoint.
///
/// ```
/// use loom_core::{Caps, Domain, soft::{Network, NetworkAttr}};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let info = network.info();
/// assert!(info.caps().contains(Caps::MSG | Caps::TAGGED));
/// let domain = Domain::open(&info)?;
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_getinfo`
#[doc(alias = "fi_info")]
pub struct Info<T: Transport> {
    raw: T::Info,
    attributes: Attributes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefixes {
    pub(crate) tx: usize,
    pub(crate) rx: usize,
}

impl Prefixes {
    fn of(attributes: &Attributes) -> Self {
        let Attributes { mode, tx, rx, endpoint, .. } = attributes;
        let size = |side: Mode, other: Mode| {
            // A mode set on one side alone applies to that side. Otherwise the info's mode applies
            // to both.
            let requested = side.union(mode.difference(other)).contains(Mode::MSG_PREFIX);
            if requested { endpoint.msg_prefix_size } else { 0 }
        };
        Prefixes { tx: size(tx.mode, rx.mode), rx: size(rx.mode, tx.mode) }
    }
}

impl<T: Transport> Info<T> {
    /// Wraps an info that a transport found. Transports call this.
    #[must_use]
    pub fn from_raw(raw: T::Info) -> Self {
        let attributes = with_arrays_of_the_call(T::attributes(&raw));
        Info { raw, attributes }
    }

    /// Checks that the info grants the demands of hints, and has no demand that names an address or
    /// a key. Transports that answer queries call this.
    ///
    /// # Errors
    /// [`OpenError::NotGranted`] with the missing capabilities, or [`OpenError::NotOffered`] with
    /// another field of the hints.
    pub fn satisfies(&self, hints: &Hints<'_>) -> Result<(), OpenError> {
        satisfies::satisfies(self, hints)
    }

    /// The transport's own description.
    #[must_use]
    pub fn raw(&self) -> &T::Info {
        &self.raw
    }

    /// All attributes. If the provider requires [`Mode::ASYNC_IOV`], limited to one buffer and one
    /// part of a peer's memory per operation.
    ///
    /// ```
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let info = Network::new(NetworkAttr { eager_size: 128, ..NetworkAttr::DEFAULT })?.info();
    /// let (tx, endpoint) = (info.attributes().tx, info.attributes().endpoint);
    /// assert!(tx.inject_size > 0 && tx.inject_size <= 128);
    /// // A longer message has to be sent in parts.
    /// assert!(endpoint.max_msg_size > tx.inject_size);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Granted capabilities.
    ///
    /// ```
    /// use loom_core::{Caps, soft::{Network, NetworkAttr}};
    ///
    /// let info = Network::new(NetworkAttr::default())?.info();
    /// // A program that can do without takes the faster way where it is granted.
    /// let reads = if info.caps().contains(Caps::RMA | Caps::READ) { "RMA" } else { "messages" };
    /// assert_eq!(reads, "RMA");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.attributes.caps
    }

    /// Checks that the provider carries immediate data of this layout whole.
    ///
    /// ```
    /// use loom_core::{RangeError, data_layout, soft::{Network, NetworkAttr}};
    ///
    /// data_layout! {
    ///     struct Part {
    ///         transfer: u32 = 20,
    ///         index: u32 = 20,
    ///     }
    /// }
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// // The software transport carries 8 bytes. Of 4, as some hardware has, the 40 bits would lose some.
    /// assert_eq!(network.info().carries::<Part>(), Ok(()));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`RangeError::TooWide`]: posts would be refused, except for small values.
    #[doc(alias = "cq_data_size")]
    pub fn carries<L: Layout>(&self) -> Result<(), RangeError> {
        let limit = self.attributes.domain.cq_data_size;
        if L::BYTES <= limit { Ok(()) } else { Err(RangeError::TooWide { width: L::WIDTH, limit }) }
    }

    /// Provider name, or an empty string.
    ///
    /// ```
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let info = Network::new(NetworkAttr::default())?.info();
    /// // What a program logs of the fabric that it runs over.
    /// let log = format!("{} ({}, {})", info.provider(), info.fabric(), info.domain());
    /// assert!(log.starts_with("soft ("));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn provider(&self) -> &str {
        T::name(&self.raw, Name::Provider).unwrap_or("")
    }

    /// Fabric name, or an empty string.
    #[must_use]
    pub fn fabric(&self) -> &str {
        T::name(&self.raw, Name::Fabric).unwrap_or("")
    }

    /// Domain name, or an empty string.
    #[must_use]
    pub fn domain(&self) -> &str {
        T::name(&self.raw, Name::Domain).unwrap_or("")
    }

    /// Address that an endpoint opened from this info requests, if any.
    #[must_use]
    pub fn source_address(&self) -> Option<EndpointAddr> {
        T::source_address(&self.raw)
    }

    /// The peer's address, if `node` and `service` named one.
    #[must_use]
    pub fn destination_address(&self) -> Option<EndpointAddr> {
        T::destination_address(&self.raw)
    }

    /// Network card, if the provider reports one.
    ///
    /// ```
    /// use loom_core::{Info, Transport};
    ///
    /// /// The speed of the network card in gigabits per second, where the provider tells.
    /// fn speed<T: Transport>(info: &Info<T>) -> Option<usize> {
    ///     let speed = info.nic()?.link.speed;
    ///     (speed > 0).then_some(speed / 1_000_000_000)
    /// }
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// assert_eq!(speed(&network.info()), None, "software has no card");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fid_nic")]
    #[must_use]
    pub fn nic(&self) -> Option<Nic<'_>> {
        T::nic(&self.raw)
    }

    fn same_fabric(&self, other: &Self) -> bool {
        self.provider() == other.provider() && self.fabric() == other.fabric()
    }

    pub(crate) fn prefixes(&self) -> Prefixes {
        Prefixes::of(&self.attributes)
    }

    pub(crate) fn contexts(&self) -> Mode {
        let Attributes { mode, tx, rx, .. } = &self.attributes;
        mode.union(tx.mode).union(rx.mode).intersection(Mode::CONTEXT | Mode::CONTEXT2)
    }

    pub(crate) fn consumes_receives(&self) -> bool {
        self.attributes.mode.union(self.attributes.rx.mode).contains(Mode::RX_CQ_DATA)
    }

    pub(crate) fn same_domain(&self, other: &Self) -> bool {
        self.same_fabric(other) && self.domain() == other.domain() && self.same_modes(other)
    }

    /// Not every provider fills in its name and fabric for a request.
    pub(crate) fn requests(&self, other: &Self) -> bool {
        self.domain() == other.domain() && self.same_modes(other)
    }

    fn same_modes(&self, other: &Self) -> bool {
        self.contexts() == other.contexts()
            && self.prefixes() == other.prefixes()
            && self.consumes_receives() == other.consumes_receives()
    }

    /// Copies the info.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`]
    #[doc(alias = "fi_dupinfo")]
    pub fn try_clone(&self) -> Result<Self, OpenError> {
        let raw = T::duplicate(&self.raw).map_err(|_| OpenError::OutOfMemory)?;
        Ok(Info { raw, attributes: self.attributes })
    }
}

/// Panics if the C library is out of memory.
impl<T: Transport> Clone for Info<T> {
    fn clone(&self) -> Self {
        Info { raw: self.raw.clone(), attributes: self.attributes }
    }
}

/// Limits operations to one range under `FI_ASYNC_IOV`, because arrays of one are exempt.
fn with_arrays_of_the_call(mut attributes: Attributes) -> Attributes {
    let Attributes { mode, tx, rx, .. } = &mut attributes;
    if mode.union(tx.mode).contains(Mode::ASYNC_IOV) {
        tx.iov_limit = tx.iov_limit.min(1);
        tx.rma_iov_limit = tx.rma_iov_limit.min(1);
    }
    if mode.union(rx.mode).contains(Mode::ASYNC_IOV) {
        rx.iov_limit = rx.iov_limit.min(1);
    }
    attributes
}

debug_struct!(
    [T: Transport] Info[T],
    |it| provider: it.provider(), fabric: it.fabric(), domain: it.domain(), attributes: it.attributes
);

/// Formats one line: provider, fabric, domain, kind of endpoint and capabilities.
impl<T: Transport> fmt::Display for Info<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (fabric {}, domain {}) {}: {}",
            self.provider(),
            self.fabric(),
            self.domain(),
            self.attributes.endpoint.kind,
            self.caps()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_may_require_a_prefix() {
        let requested = Mode::MSG_PREFIX;
        let none = Mode::CONTEXT;
        for (mode, tx, rx, sizes) in [
            (none, none, none, (0, 0)),
            (requested, none, none, (40, 40)),
            (requested, requested, requested, (40, 40)),
            (requested, none, requested, (0, 40)),
            (requested, requested, none, (40, 0)),
            (none, none, requested, (0, 40)),
        ] {
            let mut attributes = Attributes { mode, ..Attributes::default() };
            (attributes.tx.mode, attributes.rx.mode) = (tx, rx);
            attributes.endpoint.msg_prefix_size = 40;
            let prefixes = Prefixes::of(&attributes);
            assert_eq!((prefixes.tx, prefixes.rx), sizes, "{mode}, {tx}, {rx}");
        }
    }
}
