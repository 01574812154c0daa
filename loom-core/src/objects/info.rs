//! What a transport can open, and what to ask for: [`Info`] and [`Hints`].

use core::fmt;

use crate::transport::{Name, Transport};
use crate::vocabulary::{
    AddressFormat, Attributes, Caps, EndpointAddr, EndpointType, Mode, MrMode, MsgOrder, Progress, ResourceMgmt,
};

/// What the caller needs from a transport; the hints of `fi_getinfo`.
///
/// Every field that is left at its default means "no preference". Capabilities are requirements: only what grants
/// all of them is returned.
///
/// # References
/// - `man fi_getinfo`
#[derive(Clone, Debug, Default)]
#[doc(alias = "fi_getinfo")]
#[doc(alias = "fi_allocinfo")]
pub struct Hints<'a> {
    /// Capabilities which must be granted. Empty: whatever there is.
    pub caps: Caps,
    /// Provider by name, as `fi_info` prints it: `shm`, `tcp;ofi_rxm`.
    pub provider: Option<&'a str>,
    /// Fabric by name.
    pub fabric: Option<&'a str>,
    /// Domain by name.
    pub domain: Option<&'a str>,
    /// Kind of endpoint; unspecified means any.
    pub endpoint: EndpointType,
    /// Format of addresses; unspecified means any.
    pub addr_format: AddressFormat,
    /// Order that messages and RMA operations must keep.
    pub msg_order: MsgOrder,
    /// Who drives control operations.
    pub control_progress: Progress,
    /// Who drives data transfers.
    pub data_progress: Progress,
    /// Whether the provider must guard its queues against overrun.
    pub resource_mgmt: ResourceMgmt,
    /// Memory registration modes that the caller is ready for, beyond those that loom serves by itself.
    pub mr_mode: MrMode,
    /// Host name or address: of this side with [`Hints::listen`], else of the peer.
    pub node: Option<&'a str>,
    /// Port number or service name.
    pub service: Option<&'a str>,
    /// `node` and `service` name this side's own address (`FI_SOURCE`).
    #[doc(alias = "FI_SOURCE")]
    pub listen: bool,
}

/// Something that can be opened: a provider's offer of one fabric, domain and kind of endpoint.
///
/// # References
/// - `man fi_getinfo`
#[doc(alias = "fi_info")]
pub struct Info<T: Transport> {
    raw: T::Info,
    attributes: Attributes,
}

impl<T: Transport> Info<T> {
    /// Wraps what a transport found. Transports call this; users get infos from a transport's query.
    #[must_use]
    pub fn from_raw(raw: T::Info) -> Self {
        let attributes = T::attributes(&raw);
        Info { raw, attributes }
    }

    /// The transport's own description.
    #[must_use]
    pub fn raw(&self) -> &T::Info {
        &self.raw
    }

    /// Every attribute.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// What is granted.
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.attributes.caps
    }

    /// Provider's name, or an empty string.
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

    /// Whether both infos are of one provider and fabric.
    pub(crate) fn same_fabric(&self, other: &Self) -> bool {
        self.provider() == other.provider() && self.fabric() == other.fabric()
    }

    /// Whether both infos are of one provider, fabric and domain, and want contexts of one kind.
    pub(crate) fn same_domain(&self, other: &Self) -> bool {
        let contexts = |info: &Self| info.attributes.mode.intersection(Mode::CONTEXT | Mode::CONTEXT2);
        self.same_fabric(other) && self.domain() == other.domain() && contexts(self) == contexts(other)
    }
}

impl<T: Transport> Clone for Info<T> {
    fn clone(&self) -> Self {
        Info { raw: self.raw.clone(), attributes: self.attributes }
    }
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
