//! [`Nic`]: the network card behind an info.

use crate::vocabulary::{BusType, LinkState};

/// A network card, as its provider describes it. What the provider does not say is absent.
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
