use core::fmt;
use core::str::FromStr;

use loom_core::Error;

/// Address of a PCI function.
///
/// ```
/// use loom_transfer::topology::PciAddress;
///
/// let address: PciAddress = "0000:3B:00.1".parse()?;
/// assert_eq!(address, PciAddress::from((0, 0x3b, 0, 1)));
/// assert_eq!(address.to_string(), "0000:3b:00.1");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain. Some controllers make wide ones.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device.
    pub device: u8,
    /// Function.
    pub function: u8,
}

impl From<(u16, u8, u8, u8)> for PciAddress {
    fn from((domain, bus, device, function): (u16, u8, u8, u8)) -> Self {
        PciAddress { domain: domain.into(), bus, device, function }
    }
}

fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let is_number = (1..=digits).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_number { u32::from_str_radix(text, 16).ok() } else { None }
}

fn byte(text: &str) -> Option<u8> {
    u8::try_from(hexadecimal(text, 2)?).ok()
}

fn address(text: &str) -> Option<PciAddress> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let (device, function) = (byte(device)?, byte(function)?);
    let address = PciAddress { domain: hexadecimal(domain, 8)?, bus: byte(bus)?, device, function };
    (device < 32 && function < 8).then_some(address)
}

impl FromStr for PciAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        address(text).ok_or(Error::Invalid("not a PCI address: write it like 0000:3b:00.1"))
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// Maximum number of steps.
const DEPTH: usize = 16;
/// Device and function of a host bridge. No address has them.
const BRIDGE: u8 = 0xff;

/// Host bridge, ports and switches on the way to a PCI function, and the function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PciPath {
    len: usize,
    steps: [PciAddress; DEPTH],
}

impl PciPath {
    /// Path of a folder. Empty if it is too long.
    pub(super) fn of(folder: &str) -> Self {
        let mut path = PciPath::default();
        for step in folder.split('/').filter_map(|name| bridge(name).or_else(|| address(name))) {
            match path.steps.get_mut(path.len) {
                Some(place) => *place = step,
                None => return PciPath::default(),
            }
            path.len += 1;
        }
        path
    }

    fn steps(&self) -> &[PciAddress] {
        self.steps.get(..self.len).unwrap_or_default()
    }

    pub(super) fn address(&self) -> Option<PciAddress> {
        self.steps().last().copied().filter(|step| step.device != BRIDGE)
    }

    pub(super) fn common(&self, other: &Self) -> usize {
        self.steps().iter().zip(other.steps()).take_while(|(step, other)| step == other).count()
    }

    pub(super) fn shares_port(&self, other: &Self) -> bool {
        self.steps().iter().take(2).eq(other.steps().iter().take(2))
    }
}

/// Host bridge, such as `pci0000:3a`.
fn bridge(name: &str) -> Option<PciAddress> {
    let (domain, bus) = name.strip_prefix("pci")?.split_once(':')?;
    Some(PciAddress { domain: hexadecimal(domain, 8)?, bus: byte(bus)?, device: BRIDGE, function: BRIDGE })
}
