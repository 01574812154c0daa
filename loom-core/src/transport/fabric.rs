use core::alloc::Layout;
use core::ptr::NonNull;

use super::nic::Nic;
use crate::vocabulary::{Attributes, EndpointAddr, Errno};

/// Name to read from an info.
///
/// ```
/// use loom_core::{soft::Soft, transport::{Fabrics, Name}};
/// # use loom_core::soft::{Network, NetworkAttr};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// let info = network.info();
/// let name = |name| Soft::name(info.raw(), name);
/// assert_eq!(name(Name::Provider), Some("soft"));
/// assert_eq!(name(Name::Domain), Some(info.domain()));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `fi_info.fabric_attr->prov_name`
    Provider,
    /// `fi_info.fabric_attr->name`
    Fabric,
    /// `fi_info.domain_attr->name`
    Domain,
}

/// Known behaviour of a provider where its info grants an operation. `true` means correct
/// behaviour.
///
/// ```
/// use loom_core::transport::{Claims, ProviderQuirks};
///
/// /// What a transport says of its providers.
/// fn quirks(provider: &str) -> ProviderQuirks {
///     match provider {
///         "first" => ProviderQuirks { claims: Claims::Not, mr_close: false, ..ProviderQuirks::GOOD },
///         _ => ProviderQuirks::GOOD,
///     }
/// }
///
/// assert!(!quirks("first").mr_close);
/// assert_eq!(quirks("second"), ProviderQuirks::GOOD);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderQuirks {
    /// Multi-receives stay within their buffer whatever peers send, and release it only after the
    /// last write to it.
    pub multi_recv: bool,
    /// Multi-receives of tagged messages behave like `multi_recv`.
    pub tagged_multi_recv: bool,
    /// Directed receives of untagged messages take messages of one peer only.
    pub directed_recv: bool,
    /// Tagged receives with ignored bits take messages that have arrived before.
    pub masked_recv: bool,
    /// Peeks do not receive messages.
    pub peek: bool,
    /// Storage of claims.
    pub claims: Claims,
    /// Discarding a message completes it for its sender, too.
    pub discard: bool,
    /// A region can be closed at any time, even during a peer's operation on it.
    pub mr_close: bool,
    /// An endpoint can be closed with sends and writes in flight. Their buffers are not read
    /// afterwards.
    pub close_with_sends: bool,
    /// Closing a queue closes its endpoints or stops peers' access to memory through them.
    pub ends_with_queue: bool,
}

/// Storage of a claim on a message (`FI_CLAIM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// The provider stores the operation's context, which may be any value.
    ByContext,
    /// The claim is stored in the memory that the context points to, as the man page requires.
    InContexts,
    /// The provider cannot claim messages.
    Not,
}

impl ProviderQuirks {
    /// Quirks of a provider that behaves as required.
    pub const GOOD: ProviderQuirks = ProviderQuirks {
        multi_recv: true,
        tagged_multi_recv: true,
        directed_recv: true,
        masked_recv: true,
        peek: true,
        claims: Claims::ByContext,
        discard: true,
        mr_close: true,
        close_with_sends: true,
        ends_with_queue: true,
    };

    /// Operations that loom does not request of the provider, and their replacements, each in a few
    /// words for logs.
    pub(crate) fn denied(self) -> impl Iterator<Item = &'static str> {
        [
            (self.multi_recv, "multi-receives are refused, but for the unsafe form"),
            (self.tagged_multi_recv, "multi-receives of tagged messages are refused, but for the unsafe form"),
            (self.directed_recv, "directed receives of messages without tag are refused"),
            (self.masked_recv, "tagged receives with ignored bits are refused"),
            (self.peek, "peeks are refused"),
            (self.claims != Claims::Not, "claims are refused"),
            (self.discard, "discards are refused"),
            (self.mr_close, "a region that is dropped is closed when no endpoint of the domain is open"),
            (self.close_with_sends, "an endpoint is closed when its sends and writes have ended"),
            (self.ends_with_queue, "a scope exposes no memory: an endpoint may stay open after its queue"),
        ]
        .into_iter()
        .filter_map(|(granted, otherwise)| (!granted).then_some(otherwise))
    }
}

/// Infos, and the fabrics and domains that all other objects are opened in.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
pub unsafe trait Fabrics: Sized {
    /// Cloneable description of an endpoint to open: `fi_info`.
    type Info: Clone;
    /// `fid_fabric`
    type Fabric;
    /// `fid_domain`.
    type Domain;

    /// `fi_dupinfo`
    ///
    /// # Errors
    /// `ENOMEM`.
    fn duplicate(info: &Self::Info) -> Result<Self::Info, Errno>;
    /// All numbers of an info.
    fn attributes(info: &Self::Info) -> Attributes;
    /// A name in an info, if it has one.
    fn name(info: &Self::Info, name: Name) -> Option<&str>;
    /// The local address in an info, if it has one.
    fn source_address(info: &Self::Info) -> Option<EndpointAddr>;
    /// The peer's address in an info, if it has one.
    fn destination_address(info: &Self::Info) -> Option<EndpointAddr>;
    /// The network card behind an info, if known.
    fn nic(info: &Self::Info) -> Option<Nic<'_>>;
    /// Returns `true` if a domain opened from this info is serialised as this transport type
    /// requires.
    fn serves_threading(attributes: &Attributes) -> bool;

    /// Operations that the info grants but endpoints of its domain must not use.
    fn quirks(info: &Self::Info) -> ProviderQuirks;

    /// Other workarounds of the transport for the provider of this info, each in a few words for
    /// logs and reports.
    ///
    /// ```
    /// use loom_core::{soft::{Network, NetworkAttr, Soft}, transport::Fabrics};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// assert_eq!(Soft::workarounds(network.info().raw()).count(), 0);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    fn workarounds(_info: &Self::Info) -> impl Iterator<Item = &'static str> {
        core::iter::empty()
    }

    /// Attribute to raise when opening an object fails with this number.
    ///
    /// ```
    /// use loom_core::{Errno, soft::Soft, transport::Fabrics};
    ///
    /// assert_eq!(Soft::exhausted(Errno::EMFILE), Some("NetworkAttr::endpoints"));
    /// assert_eq!(Soft::exhausted(Errno::EINVAL), None);
    /// ```
    fn exhausted(_refused: Errno) -> Option<&'static str> {
        None
    }

    /// `fi_fabric`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn fabric_open(info: &Self::Info) -> Result<Self::Fabric, Errno>;
    /// `fi_close` of a fabric.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn fabric_close(fabric: &Self::Fabric) -> Result<(), Errno>;

    /// Memory that a domain requires from the caller.
    ///
    /// # Errors
    /// `ENOMEM` if its size exceeds an address space.
    fn domain_layout(_info: &Self::Info) -> Result<Layout, Errno> {
        Ok(Layout::new::<()>())
    }
    /// `fi_domain`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn domain_open(fabric: &Self::Fabric, info: &Self::Info, memory: NonNull<u8>)
    -> Result<Self::Domain, Errno>;
    /// Returns `true` in the process that opened a domain. In its forked children, the functions of
    /// the domain's objects fail with [`Errno::OTHER_PROCESS`], and the objects are leaked.
    fn is_here(_domain: &Self::Domain) -> bool {
        true
    }
    /// `fi_close` of a domain.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn domain_close(domain: &Self::Domain) -> Result<(), Errno>;
}
