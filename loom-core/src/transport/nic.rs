//! [`Nic`]: the network card behind an info.

use crate::vocabulary::{BusType, LinkState};

/// A network card, as its provider describes it. What the provider does not say is absent.
///
/// ```
/// use loom_core::transport::nic::{Nic, NicLink};
/// use loom_core::vocabulary::LinkState;
///
/// /// The bits per second of a card that can be used. What the provider does not tell counts as up.
/// fn speed(nic: &Nic<'_>) -> Option<usize> {
///     (nic.link.state != LinkState::DOWN && nic.link.speed > 0).then_some(nic.link.speed)
/// }
///
/// let card = |state| Nic { link: NicLink { speed: 100_000_000_000, state, ..NicLink::default() }, ..Nic::default() };
/// assert_eq!(speed(&card(LinkState::UNKNOWN)), Some(100_000_000_000));
/// assert_eq!(speed(&card(LinkState::DOWN)), None);
/// ```
///
/// # References
/// - `man fi_nic`
#[doc(alias = "fid_nic")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nic<'i> {
    /// What it is.
    pub device: NicDevice<'i>,
    /// Where it sits.
    pub bus: NicBus,
    /// What it is connected to.
    pub link: NicLink<'i>,
}

/// What a network card is.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::transport::nic::NicDevice;
///
/// /// A card in a line of a log, as far as the provider tells.
/// fn text(device: &NicDevice<'_>) -> String {
///     let parts = [device.name, device.driver, device.firmware];
///     parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
/// }
///
/// let device = NicDevice { name: Some("mlx5_0"), firmware: Some("20.35.1012"), ..NicDevice::default() };
/// assert_eq!(text(&device), "mlx5_0, 20.35.1012");
/// # }
/// ```
#[doc(alias = "fi_device_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicDevice<'i> {
    /// The operating system's name for it.
    pub name: Option<&'i str>,
    /// The vendor's number for the model.
    pub device_id: Option<&'i str>,
    /// The model's version.
    pub device_version: Option<&'i str>,
    /// The vendor's number.
    pub vendor_id: Option<&'i str>,
    /// The driver's name.
    pub driver: Option<&'i str>,
    /// The firmware's version.
    pub firmware: Option<&'i str>,
}

/// Where a network card sits.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::transport::nic::NicBus;
/// use loom_core::vocabulary::BusType;
///
/// /// Where Linux tells to which processors a card is near.
/// fn numa_node(bus: &NicBus) -> Option<String> {
///     let (domain, bus, device, function) = bus.pci?;
///     Some(format!("/sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.{function:x}/numa_node"))
/// }
///
/// let bus = NicBus { kind: BusType::PCI, pci: Some((0, 0x3b, 0, 1)) };
/// assert_eq!(numa_node(&bus).as_deref(), Some("/sys/bus/pci/devices/0000:3b:00.1/numa_node"));
/// # }
/// ```
#[doc(alias = "fi_bus_attr")]
#[doc(alias = "fi_pci_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicBus {
    /// The kind of bus.
    pub kind: BusType,
    /// On a PCI bus: domain, bus, device and function, as in `0000:3b:00.1`.
    pub pci: Option<(u16, u8, u8, u8)>,
}

/// What a network card is connected to.
///
/// ```
/// use loom_core::transport::nic::NicLink;
///
/// /// Whether a message goes in one frame. `None` where the provider does not tell the longest.
/// fn in_one_frame(link: &NicLink<'_>, len: usize) -> Option<bool> {
///     (link.mtu > 0).then_some(len <= link.mtu)
/// }
///
/// assert_eq!(in_one_frame(&NicLink { mtu: 4096, ..NicLink::default() }, 5000), Some(false));
/// assert_eq!(in_one_frame(&NicLink::default(), 5000), None);
/// ```
#[doc(alias = "fi_link_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicLink<'i> {
    /// Its address on the link.
    pub address: Option<&'i str>,
    /// Longest frame, in bytes; zero if unknown.
    pub mtu: usize,
    /// Bits per second; zero if unknown.
    pub speed: usize,
    /// Whether it is up.
    pub state: LinkState,
    /// The kind of network: `Ethernet`, `InfiniBand`.
    pub network_type: Option<&'i str>,
}
