use crate::soft::faults::strict;

/// Size of a network.
///
/// ```
/// use loom_core::{Av, Cq, Domain, OpenError, allocator_api2::alloc::Global, soft::{Network, NetworkAttr}};
///
/// // Two endpoints, eight messages of each under way, and no regions.
/// let attr = NetworkAttr { endpoints: 2, tx_depth: 8, rx_depth: 8, regions: 0, ..NetworkAttr::DEFAULT };
/// assert!(attr.layout::<Global>()?.size() < NetworkAttr::DEFAULT.layout::<Global>()?.size());
/// let network = Network::new(attr)?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// let [_alice, _bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// assert_eq!(cq.endpoint(&av).err(), Some(OpenError::Limit("NetworkAttr::endpoints")));
/// assert_eq!(Network::new(NetworkAttr { endpoints: 0, ..attr }).err(), Some(OpenError::OutOfRange("NetworkAttr::endpoints")));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct NetworkAttr {
    /// Maximum number of open endpoints.
    pub endpoints: u16,
    /// Maximum number of messages of an endpoint in flight (sent and not yet received), rounded up
    /// to a power of two.
    pub tx_depth: u32,
    /// Maximum number of receives posted on an endpoint. A receive into several buffers counts for
    /// each buffer, and once more.
    pub rx_depth: u32,
    /// Maximum length, in bytes, of an injected message, and of one that is copied into its cell,
    /// which completes the send at once. Longer messages are copied once, when they are received.
    pub eager_size: u32,
    /// Maximum number of open memory regions.
    pub regions: u16,
    /// Maximum number of groups for collective operations, each about half a KiB for each of the
    /// `endpoints`.
    pub groups: u16,
    /// Seed for hashing tags and for the keys of memory regions. The default is public: set a
    /// random seed if peers are not trusted.
    ///
    /// - Without the seed, a peer cannot choose tags that slow a receiver down.
    /// - Without the seed, a peer cannot compute a key that it did not receive. A key has 46 bits
    ///   to guess, without a limit of attempts. With any seed, the key of a closed region does not
    ///   open any of the next 2^46 regions.
    /// - The seed does not protect against code in this process.
    #[cfg_attr(feature = "serde", serde(with = "crate::util::serial::hexadecimal"))]
    pub seed: u64,
    /// Number of peers for which an endpoint has a *lane*, a ring with several times the message
    /// rate between threads. Lanes carry messages of at most 104 bytes to peers that get many. A
    /// lane takes about 550 bytes for each of its `tx_depth` messages (256 at most).
    pub lanes: u16,
    /// Limits the network to the [least of the tested providers](crate::soft#strict-networks).
    pub strict: bool,
}

impl NetworkAttr {
    /// Size for two to eight endpoints, about 4 MiB. Two endpoints with eight messages each and
    /// without regions take 47 KB.
    pub const DEFAULT: NetworkAttr = NetworkAttr {
        endpoints: 8,
        tx_depth: 128,
        rx_depth: 1024,
        eager_size: 1024,
        regions: 64,
        groups: 4,
        seed: 0,
        lanes: 2,
        strict: false,
    };

    pub(super) fn in_environment(self) -> Self {
        NetworkAttr { strict: self.strict || strict::is_requested(), ..self }
    }
}

impl Default for NetworkAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}
