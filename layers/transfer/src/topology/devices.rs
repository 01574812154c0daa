use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;

use super::nodes::Nodes;
use super::pci::{PciAddress, PciPath};
use super::sys_fs::{List, SysFs, collect, number, resolved, text};

/// Maximum length of a name.
const NAME: usize = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    len: usize,
    bytes: [u8; NAME],
}

impl Default for Name {
    fn default() -> Self {
        Name { len: 0, bytes: [0; NAME] }
    }
}

impl Name {
    fn of(name: &str) -> Option<Self> {
        let mut this = Name { len: name.len(), ..Name::default() };
        this.bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(this)
    }

    pub(super) fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// RDMA device or network interface. Those of one PCI function are one card.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Device {
    pub(super) name: Name,
    rdma: bool,
    path: PciPath,
    node: Option<u32>,
    bits_per_second: u64,
    pub(super) card: usize,
}

impl Device {
    fn is_beside(&self, other: &Self) -> bool {
        self.path.address().is_some() && self.path.address() == other.path.address()
    }
}

/// Network card: RDMA device, network interface, or both of one PCI function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Card {
    /// PCI function, or that of its controller.
    pub pci: Option<PciAddress>,
    /// NUMA node, if it is known or the only one.
    pub node: Option<u32>,
    /// Bits per second of the fastest link, 0 if unknown.
    pub bits_per_second: u64,
    /// Has an RDMA device.
    pub rdma: bool,
    /// Place of the accelerator to whose [group](super::Topology::group) the card belongs.
    pub accelerator: Option<usize>,
    name: Name,
    pub(super) path: PciPath,
    /// Number of earlier cards behind the same port of the processor.
    pub(super) turn: usize,
    /// Number of nearest accelerators.
    pub(super) ties: usize,
}

impl Card {
    fn of(devices: &[Device]) -> Self {
        let first = devices.first().copied().unwrap_or_default();
        Card {
            pci: first.path.address(),
            node: first.node,
            bits_per_second: devices.iter().map(|device| device.bits_per_second).max().unwrap_or(0),
            rdma: first.rdma,
            name: first.name,
            path: first.path,
            ..Card::default()
        }
    }

    /// Name of its RDMA device, or otherwise of its network interface.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_transfer::topology::Topology;
    ///
    /// let sys = [("class/infiniband/mlx5_0/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0")];
    /// let topology = Topology::read_in(&sys[..], Global)?;
    /// assert_eq!(topology.cards()[0].name(), "mlx5_0");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// Processor of graphics or of another kind, on a PCI bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accelerator {
    /// PCI function.
    pub pci: PciAddress,
    /// NUMA node, if it is known or the only one.
    pub node: Option<u32>,
    /// PCI vendor, such as `0x10de`.
    pub vendor: u16,
    pub(super) path: PciPath,
    pub(super) cards: usize,
}

fn node<A: Allocator>(sys: &(impl SysFs + ?Sized), pci: PciAddress, nodes: &Nodes<A>) -> Option<u32> {
    nodes.known(number(sys, format_args!("bus/pci/devices/{pci}/numa_node")))
}

pub(super) fn devices<A: Allocator + Clone>(
    sys: &(impl SysFs + ?Sized),
    nodes: &Nodes<A>,
    alloc: A,
) -> Result<List<Device, A>, OpenError> {
    let mut devices = collect(alloc, |found| {
        for (folder, rdma) in [("class/infiniband", true), ("class/net", false)] {
            sys.list(folder, &mut |name| {
                let path = resolved(sys, format_args!("{folder}/{name}/device"), PciPath::of);
                // A loopback or bridge has no device.
                let (Some(path), Some(kept)) = (path, Name::of(name)) else { return };
                let node = match path.address() {
                    Some(pci) => node(sys, pci, nodes),
                    None => nodes.known(number(sys, format_args!("{folder}/{name}/device/numa_node"))),
                };
                let bits_per_second = if rdma { rate(sys, name) } else { speed(sys, name) }.unwrap_or(0);
                found(Device { name: kept, rdma, path, node, bits_per_second, card: 0 });
            });
        }
    })?;
    devices.sort_unstable_by(|one, other| {
        let key = |device: &Device| (device.path.address().is_none(), device.path.address(), !device.rdma);
        key(one).cmp(&key(other)).then_with(|| one.name.as_str().cmp(other.name.as_str()))
    });
    for (card, devices) in devices.chunk_by_mut(Device::is_beside).enumerate() {
        devices.iter_mut().for_each(|device| device.card = card);
    }
    Ok(devices)
}

pub(super) fn cards<A: Allocator>(devices: &[Device], alloc: A) -> Result<List<Card, A>, OpenError> {
    collect(alloc, |found| devices.chunk_by(Device::is_beside).map(Card::of).for_each(found))
}

/// Megabits per second, or -1.
fn speed(sys: &(impl SysFs + ?Sized), interface: &str) -> Option<u64> {
    number::<u64>(sys, format_args!("class/net/{interface}/speed"))?.checked_mul(1_000_000)
}

/// Such as `2.5 Gb/sec (1X SDR)`.
fn rate(sys: &(impl SysFs + ?Sized), device: &str) -> Option<u64> {
    let mut buffer = [0; 64];
    let text = text(sys, format_args!("class/infiniband/{device}/ports/1/rate"), &mut buffer)?;
    let (number, unit) = text.split_once(' ')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut bits = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let mut place = 100_000_000;
    for digit in fraction.chars() {
        bits = bits.checked_add(u64::from(digit.to_digit(10)?) * place)?;
        place /= 10;
    }
    unit.starts_with("Gb/sec").then_some(bits)
}

pub(super) fn accelerators<A: Allocator + Clone>(
    sys: &(impl SysFs + ?Sized),
    nodes: &Nodes<A>,
    alloc: A,
) -> Result<List<Accelerator, A>, OpenError> {
    let mut accelerators = collect(alloc, |found| {
        sys.list("bus/pci/devices", &mut |name| {
            let Ok(pci) = name.parse::<PciAddress>() else { return };
            let Some(class) = hexadecimal(sys, name, "class") else { return };
            let vendor = hexadecimal(sys, name, "vendor").and_then(|vendor| u16::try_from(vendor).ok()).unwrap_or(0);
            if !accelerates(class >> 8, vendor, || hexadecimal(sys, name, "device")) {
                return;
            }
            let path = resolved(sys, format_args!("bus/pci/devices/{name}"), PciPath::of).unwrap_or_default();
            found(Accelerator { pci, node: node(sys, pci, nodes), vendor, path, cards: 0 });
        });
    })?;
    accelerators.sort_unstable_by_key(|accelerator| accelerator.pci);
    Ok(accelerators)
}

fn hexadecimal(sys: &(impl SysFs + ?Sized), device: &str, file: &str) -> Option<u32> {
    let mut buffer = [0; 32];
    let text = text(sys, format_args!("bus/pci/devices/{device}/{file}"), &mut buffer)?;
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

const AMD: u16 = 0x1002;
const AMAZON: u16 = 0x1d0f;
const INTEL: u16 = 0x8086;
const NVIDIA: u16 = 0x10de;

/// Consoles are displays, too.
fn accelerates(class: u32, vendor: u16, device: impl FnOnce() -> Option<u32>) -> bool {
    match class {
        0x1200 => true,
        // Neuron devices are system peripherals.
        0x0880 => vendor == AMAZON && device().is_some_and(|device| device & 0xf0fc == 0x7064),
        0x0300 => matches!(vendor, NVIDIA | AMD),
        0x0302 | 0x0380 => matches!(vendor, NVIDIA | AMD | INTEL),
        _ => false,
    }
}
