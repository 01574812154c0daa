//! What a transport can open, and what to ask for: [`Info`] and [`Hints`].

mod hints;

use core::fmt;

pub use self::hints::Hints;
pub use crate::transport::nic::{Nic, NicBus, NicDevice, NicLink};

use crate::error::OpenError;
use crate::immediate::{Layout, LayoutError};
use crate::profiles::{Profile, ProfileError, Promise};
use crate::transport::{Name, Transport};
use crate::vocabulary::{Attributes, Caps, EndpointAddr, Mode};

/// Something that can be opened: a provider's offer of one fabric, domain and kind of endpoint.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::Domain;
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::Caps;
///
/// let network = Network::new(NetworkAttr::default())?;
/// let info = network.info();
/// assert!(info.caps().contains(Caps::MSG | Caps::TAGGED));
/// let domain = Domain::open(&info)?;
/// # }
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

/// What a provider wants in front of messages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefixes {
    pub(crate) tx: usize,
    pub(crate) rx: usize,
}

impl Prefixes {
    fn of(attributes: &Attributes) -> Self {
        let Attributes { mode, tx, rx, endpoint, .. } = attributes;
        let size = |side: Mode, other: Mode| {
            // Who asks for it on one side only says so there; others may say it once.
            let asked = side.union(mode.difference(other)).contains(Mode::MSG_PREFIX);
            if asked { endpoint.msg_prefix_size } else { 0 }
        };
        Prefixes { tx: size(tx.mode, rx.mode), rx: size(rx.mode, tx.mode) }
    }
}

impl<T: Transport> Info<T> {
    /// Wraps what a transport found. Transports call this; users get infos from a transport's query.
    #[must_use]
    pub fn from_raw(raw: T::Info) -> Self {
        let attributes = with_arrays_of_the_call(T::attributes(&raw));
        Info { raw, attributes }
    }

    /// The transport's own description.
    #[must_use]
    pub fn raw(&self) -> &T::Info {
        &self.raw
    }

    /// Every attribute. Where the provider asks for [`Mode::ASYNC_IOV`], with limits of one buffer in an operation, and one part of
    /// a peer's memory, which that is served with.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let info = Network::new(NetworkAttr { eager_size: 128, ..NetworkAttr::DEFAULT })?.info();
    /// let (tx, endpoint) = (info.attributes().tx, info.attributes().endpoint);
    /// assert!(tx.inject_size > 0 && tx.inject_size <= 128);
    /// // A longer message has to be sent in parts.
    /// assert!(endpoint.max_msg_size > tx.inject_size);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// What is granted.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Caps;
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let info = Network::new(NetworkAttr::default())?.info();
    /// // A program that can do without takes the faster way where it is granted.
    /// let reads = if info.caps().contains(Caps::RMA | Caps::READ) { "RMA" } else { "messages" };
    /// assert_eq!(reads, "RMA");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.attributes.caps
    }

    /// Whether the provider carries immediate data of this layout whole.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::data_layout;
    /// use loom_core::immediate::LayoutError;
    /// use loom_core::soft::{Network, NetworkAttr};
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
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooWide`]: posts of its values would be refused, those that happen to be small aside.
    #[doc(alias = "cq_data_size")]
    pub fn carries<L: Layout>(&self) -> Result<(), LayoutError> {
        let limit = self.attributes.domain.cq_data_size;
        if L::BYTES <= limit { Ok(()) } else { Err(LayoutError::TooWide { width: L::WIDTH, limit }) }
    }

    /// Whether the info keeps what a [profile](crate::profiles) says. What it says of atomic operations, the domain knows
    /// ([`Endpoint::with_profile`](crate::Endpoint::with_profile)).
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::profiles::{ProfileError, Shm, Software};
    /// use loom_core::Hints;
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let info = network.query(&Hints::of_profile::<Software>())?;
    /// assert_eq!(info.meets::<Software>(), Ok(()));
    /// assert_eq!(info.meets::<Shm>(), Err(ProfileError::Provider { asked: "shm" }));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first difference.
    pub fn meets<P: Profile>(&self) -> Result<(), ProfileError> {
        self.keeps(&Promise::of::<P>())
    }

    /// [`meets`](Self::meets), with the profile as a value.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Hints;
    /// use loom_core::profiles::{ALL, Software};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let info = network.query(&Hints::of_profile::<Software>())?;
    /// // The profiles that this provider keeps.
    /// let kept: Vec<_> = ALL.iter().filter(|promise| info.keeps(promise).is_ok()).map(|promise| promise.name).collect();
    /// assert_eq!(kept, ["soft"]);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first difference.
    pub fn keeps(&self, promise: &Promise) -> Result<(), ProfileError> {
        promise.check(self.provider(), &self.attributes)
    }

    /// Provider's name, or an empty string.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::soft::{Network, NetworkAttr};
    ///
    /// let info = Network::new(NetworkAttr::default())?.info();
    /// // What a program logs of the fabric that it runs over.
    /// let log = format!("{} ({}, {})", info.provider(), info.fabric(), info.domain());
    /// assert!(log.starts_with("soft ("));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn provider(&self) -> &str {
        T::name(&self.raw, Name::Provider).unwrap_or("")
    }

    /// Fabric's name, or an empty string.
    #[must_use]
    pub fn fabric(&self) -> &str {
        T::name(&self.raw, Name::Fabric).unwrap_or("")
    }

    /// Domain's name, or an empty string.
    #[must_use]
    pub fn domain(&self) -> &str {
        T::name(&self.raw, Name::Domain).unwrap_or("")
    }

    /// The address that an endpoint opened from this info will ask for, if it asks for one.
    #[must_use]
    pub fn source_address(&self) -> Option<EndpointAddr> {
        T::source_address(&self.raw)
    }

    /// The peer's address, if `node` and `service` named one.
    #[must_use]
    pub fn destination_address(&self) -> Option<EndpointAddr> {
        T::destination_address(&self.raw)
    }

    /// The network card behind it, where the provider knows one.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
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
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fid_nic")]
    #[must_use]
    pub fn nic(&self) -> Option<Nic<'_>> {
        T::nic(&self.raw)
    }

    /// Whether both infos are of one provider and fabric.
    fn same_fabric(&self, other: &Self) -> bool {
        self.provider() == other.provider() && self.fabric() == other.fabric()
    }

    /// What there has to be in front of messages.
    pub(crate) fn prefixes(&self) -> Prefixes {
        Prefixes::of(&self.attributes)
    }

    /// The memory that contexts of operations have to have: `CONTEXT` and `CONTEXT2`.
    pub(crate) fn contexts(&self) -> Mode {
        let Attributes { mode, tx, rx, .. } = &self.attributes;
        mode.union(tx.mode).union(rx.mode).intersection(Mode::CONTEXT | Mode::CONTEXT2)
    }

    /// Whether peers' writes with immediate data use up receives.
    pub(crate) fn consumes_receives(&self) -> bool {
        self.attributes.mode.union(self.attributes.rx.mode).contains(Mode::RX_CQ_DATA)
    }

    /// Whether both infos are of one provider, fabric and domain, and ask for the same of a queue.
    pub(crate) fn same_domain(&self, other: &Self) -> bool {
        self.same_fabric(other) && self.domain() == other.domain() && self.same_modes(other)
    }

    /// Whether this info, which came with a request to the other's fabric, is of the other's domain. Not every provider
    /// names itself and its fabric there.
    pub(crate) fn requests(&self, other: &Self) -> bool {
        self.domain() == other.domain() && self.same_modes(other)
    }

    /// Whether a queue can serve both.
    fn same_modes(&self, other: &Self) -> bool {
        self.contexts() == other.contexts()
            && self.prefixes() == other.prefixes()
            && self.consumes_receives() == other.consumes_receives()
    }

    /// A copy of it.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`] if there is no memory for one.
    #[doc(alias = "fi_dupinfo")]
    pub fn try_clone(&self) -> Result<Self, OpenError> {
        let raw = T::duplicate(&self.raw).map_err(|_| OpenError::OutOfMemory)?;
        Ok(Info { raw, attributes: self.attributes })
    }
}

/// Panics where the C library has no memory for a copy; [`Info::try_clone`] says so instead.
impl<T: Transport> Clone for Info<T> {
    fn clone(&self) -> Self {
        Info { raw: self.raw.clone(), attributes: self.attributes }
    }
}

/// With the limits that loom has where a provider goes on reading the arrays of ranges after a call that has posted them
/// (`FI_ASYNC_IOV`): one range. Arrays of one are exempt.
///
/// The other way would be an array in each slot of a queue, several hundred bytes of it, for everybody who uses one, or in a
/// table of their own: no provider of libfabric asks for this, and each of them takes one range.
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

impl<T: Transport> fmt::Debug for Info<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("provider", &self.provider())
            .field("fabric", &self.fabric())
            .field("domain", &self.domain())
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}

/// One line: provider, fabric, domain, kind of endpoint and capabilities.
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
    fn a_prefix_may_be_asked_for_on_one_side_only() {
        let asked = Mode::MSG_PREFIX;
        let none = Mode::CONTEXT;
        for (mode, tx, rx, sizes) in [
            (none, none, none, (0, 0)),
            (asked, none, none, (40, 40)),
            (asked, asked, asked, (40, 40)),
            (asked, none, asked, (0, 40)),
            (asked, asked, none, (40, 0)),
            (none, none, asked, (0, 40)),
        ] {
            let mut attributes = Attributes { mode, ..Attributes::default() };
            (attributes.tx.mode, attributes.rx.mode) = (tx, rx);
            attributes.endpoint.msg_prefix_size = 40;
            let prefixes = Prefixes::of(&attributes);
            assert_eq!((prefixes.tx, prefixes.rx), sizes, "{mode}, {tx}, {rx}");
        }
    }
}
