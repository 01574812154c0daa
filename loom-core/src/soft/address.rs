//! Addresses of the software transport, as text.

use core::fmt::{self, Write};

use super::{addr_parts, fabric_addr};
use crate::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

/// The text of an address: `soft://network/place.generation`.
struct AddressText {
    bytes: [u8; 64],
    len: usize,
}

impl Write for AddressText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The address of an endpoint, by its fabric address.
pub(super) fn write_address(network: u32, addr: u64) -> Result<EndpointAddr, Errno> {
    let (index, generation) = addr_parts(addr);
    let mut name = AddressText { bytes: [0; 64], len: 0 };
    write!(name, "soft://{network}/{index}.{generation}\0").map_err(|_| Errno::ETOOSMALL)?;
    let bytes = name.bytes.get(..name.len).ok_or(Errno::ETOOSMALL)?;
    EndpointAddr::new(AddressFormat::ADDR_STR, bytes).map_err(|_| Errno::ETOOSMALL)
}

/// The fabric address that an address means, in a network of so many places.
pub(super) fn parse_address(network: u32, places: u16, address: &EndpointAddr) -> Option<FabricAddr> {
    if address.format() != AddressFormat::ADDR_STR {
        return None;
    }
    parse_text(network, places, core::str::from_utf8(address.bytes()).ok()?)
}

/// The same of its text, with the zero byte at its end or without.
pub(super) fn parse_text(network: u32, places: u16, text: &str) -> Option<FabricAddr> {
    let text = text.strip_suffix('\0').unwrap_or(text).strip_prefix("soft://")?;
    let (of, endpoint) = text.split_once('/')?;
    let (index, generation) = endpoint.split_once('.')?;
    let (index, generation) = (index.parse::<u16>().ok()?, generation.parse::<u32>().ok()?);
    (of.parse::<u32>().ok()? == network && index < places && generation != 0)
        .then(|| FabricAddr(fabric_addr(index, generation)))
}
