use core::fmt::Write;

use heapless::String;

use crate::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

pub(crate) const NO_PORT: u16 = u16::MAX;

pub(crate) const fn fabric_addr(index: u16, generation: u32) -> u64 {
    (generation as u64) << 32 | index as u64
}

/// Splits a fabric address into port and generation.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the parts of the word, the low one after a look")]
pub(crate) const fn addr_parts(addr: u64) -> (u16, u32) {
    let place = addr as u32;
    (if place < NO_PORT as u32 { place as u16 } else { NO_PORT }, (addr >> 32) as u32)
}

pub(crate) fn write_address(network: u32, addr: u64) -> Result<EndpointAddr, Errno> {
    let (index, generation) = addr_parts(addr);
    let mut name = String::<64>::new();
    write!(name, "soft://{network}/{index}.{generation}\0").map_err(|_| Errno::ETOOSMALL)?;
    EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).map_err(|_| Errno::ETOOSMALL)
}

pub(crate) fn parse_address(network: u32, places: u16, address: &EndpointAddr) -> Option<FabricAddr> {
    if address.format() != AddressFormat::ADDR_STR {
        return None;
    }
    parse_text(network, places, core::str::from_utf8(address.bytes()).ok()?)
}

pub(crate) fn parse_text(network: u32, places: u16, text: &str) -> Option<FabricAddr> {
    let text = text.strip_suffix('\0').unwrap_or(text).strip_prefix("soft://")?;
    let (of, endpoint) = text.split_once('/')?;
    let (index, generation) = endpoint.split_once('.')?;
    let (index, generation) = (index.parse::<u16>().ok()?, generation.parse::<u32>().ok()?);
    (of.parse::<u32>().ok()? == network && index < places && generation != 0)
        .then(|| FabricAddr(fabric_addr(index, generation)))
}
