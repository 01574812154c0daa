//! [`Nic`]: the network card behind an info.

use crate::vocabulary::{BusType, LinkState};

/// Network card, as its provider describes it.
///
/// ```
/// use loom_core::{transport::nic::{Nic, NicLink}, vocabulary::LinkState};
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
    /// Identity.
    pub device: NicDevice<'i>,
    /// Position on its bus.
    pub bus: NicBus,
    /// Link.
    pub link: NicLink<'i>,
}

/// Identity of a network card.
///
/// ```
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
/// ```
#[doc(alias = "fi_device_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicDevice<'i> {
    /// Name in the operating system.
    pub name: Option<&'i str>,
    /// Vendor's number of the model.
    pub device_id: Option<&'i str>,
    /// Version of the model.
    pub device_version: Option<&'i str>,
    /// Number of the vendor.
    pub vendor_id: Option<&'i str>,
    /// Name of the driver.
    pub driver: Option<&'i str>,
    /// Version of the firmware.
    pub firmware: Option<&'i str>,
}

/// Position of a network card on its bus.
///
/// ```
/// use loom_core::{transport::nic::NicBus, vocabulary::BusType};
///
/// /// Where Linux tells to which processors a card is near.
/// fn numa_node(bus: &NicBus) -> Option<String> {
///     let (domain, bus, device, function) = bus.pci?;
///     Some(format!("/sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.{function:x}/numa_node"))
/// }
///
/// let bus = NicBus { kind: BusType::PCI, pci: Some((0, 0x3b, 0, 1)) };
/// assert_eq!(numa_node(&bus).as_deref(), Some("/sys/bus/pci/devices/0000:3b:00.1/numa_node"));
/// ```
#[doc(alias = "fi_bus_attr")]
#[doc(alias = "fi_pci_attr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicBus {
    /// Kind of bus.
    pub kind: BusType,
    /// PCI domain, bus, device and function, such as `0000:3b:00.1`.
    pub pci: Option<(u16, u8, u8, u8)>,
}

/// Link of a network card.
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
    /// Address on the link.
    pub address: Option<&'i str>,
    /// Longest frame in bytes, zero if unknown.
    pub mtu: usize,
    /// Bits per second, zero if unknown.
    pub speed: usize,
    /// State of the link.
    pub state: LinkState,
    /// Kind of network: `Ethernet`, `InfiniBand`.
    pub network_type: Option<&'i str>,
}
