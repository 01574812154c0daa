use loom_core::RemoteRegion;
use loom_core::vocabulary::{AddressFormat, EndpointAddr};

use super::Regions;
use crate::PeerError;

const MAGIC: [u8; 4] = *b"lmxr";
const VERSION: u16 = 2;
const HEADER_LEN: usize = 27;

/// Description of an endpoint for its peers: its address, and the regions that they may access.
///
/// Wire format, with little-endian numbers:
///
/// | at | length | |
/// |---|---|---|
/// | 0 | 4 | `lmxr` |
/// | 4 | 2 | version, 2 |
/// | 6 | 2 | length of the address |
/// | 8 | 4 | length of the whole record |
/// | 12 | 4 | format of the address |
/// | 16 | 8 | layout number |
/// | 24 | 2 | number of regions |
/// | 26 | 1 | width of immediate data in bytes |
/// | 27 | | the address, then for each region base, length, key and access, eight bytes each |
///
/// The encoding is unique: bytes accepted by [`decode`](Self::decode) encode to the same bytes.
///
/// ```
/// use loom_core::RemoteRegion;
/// use loom_core::vocabulary::{Access, AddressFormat, EndpointAddr, MemoryKey, RemoteAddr};
/// use loom_group::exchange::Record;
///
/// let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://1\0").expect("it is short");
/// let regions = [7, 9].map(|key| RemoteRegion { base: RemoteAddr(0), len: 4096, key: MemoryKey(key), access: Access::REMOTE_READ });
/// let record = Record::new(address, 4, 0x5eed, &regions);
/// let mut bytes = vec![0; record.encoded_len()];
/// record.encode(&mut bytes)?;
/// // The peer finds the regions in the order in which they were listed.
/// let read = Record::decode(&bytes)?;
/// assert_eq!(read.regions().get(1), Some(regions[1]));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'r> {
    address: EndpointAddr,
    cq_data_size: u8,
    layout: u64,
    regions: Regions<'r>,
}

impl<'r> Record<'r> {
    /// Maximum number of regions.
    pub const MAX_REGIONS: usize = u16::MAX as usize;

    /// Record of these parts.
    ///
    /// `cq_data_size` is the width of immediate data in bytes. `layout` is an application number
    /// for peers to compare.
    #[must_use]
    pub const fn new(address: EndpointAddr, cq_data_size: u8, layout: u64, regions: &'r [RemoteRegion]) -> Self {
        Record { address, cq_data_size, layout, regions: Regions::listed(regions) }
    }

    /// Endpoint address.
    #[must_use]
    pub const fn address(&self) -> &EndpointAddr {
        &self.address
    }

    /// Width of immediate data in bytes.
    #[must_use]
    pub const fn cq_data_size(&self) -> u8 {
        self.cq_data_size
    }

    /// Layout number of the application.
    #[must_use]
    pub const fn layout(&self) -> u64 {
        self.layout
    }

    /// Regions that peers may access.
    #[must_use]
    pub const fn regions(&self) -> Regions<'r> {
        self.regions
    }

    /// Maximum bytes of a record with this number of regions.
    #[must_use]
    pub const fn max_len(regions: usize) -> usize {
        len_of(EndpointAddr::MAX_LEN, regions)
    }

    /// Bytes that [`encode`](Self::encode) writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        len_of(self.address.bytes().len(), self.regions.len())
    }

    /// Writes the record to the start of `out`, and returns its bytes.
    ///
    /// # Errors
    ///
    /// [`PeerError::TooManyRegions`], [`PeerError::BufferTooShort`], before any write.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, PeerError> {
        let count = self.regions.len();
        let too_many = PeerError::TooManyRegions { count };
        let regions = u16::try_from(count).map_err(|_| too_many)?;
        let needed = self.encoded_len();
        let mut out = Writer(out.get_mut(..needed).ok_or(PeerError::BufferTooShort { needed })?);
        let address = self.address.bytes();
        let address_len = u16::try_from(address.len()).unwrap_or(u16::MAX);
        let total = u32::try_from(needed).map_err(|_| too_many)?;
        out.put(&MAGIC);
        out.put(&VERSION.to_le_bytes());
        out.put(&address_len.to_le_bytes());
        out.put(&total.to_le_bytes());
        out.put(&self.address.format().as_raw().to_le_bytes());
        out.put(&self.layout.to_le_bytes());
        out.put(&regions.to_le_bytes());
        out.put(&[self.cq_data_size]);
        out.put(address);
        self.regions.for_each(|region| out.put(&region.to_bytes()));
        Ok(needed)
    }

    /// Reads a record from all of `bytes`, with its regions in place.
    ///
    /// # Errors
    ///
    /// The first that applies: [`PeerError::Truncated`], [`PeerError::Magic`],
    /// [`PeerError::Version`], [`PeerError::AddressTooLong`], [`PeerError::LengthMismatch`],
    /// [`PeerError::TrailingBytes`].
    pub fn decode(bytes: &'r [u8]) -> Result<Self, PeerError> {
        let mut rest = Reader(bytes);
        let magic: [u8; 4] = rest.array()?;
        let version = u16::from_le_bytes(rest.array()?);
        let address_len = usize::from(u16::from_le_bytes(rest.array()?));
        let stated = usize::try_from(u32::from_le_bytes(rest.array()?)).unwrap_or(usize::MAX);
        let format = AddressFormat::from_raw(u32::from_le_bytes(rest.array()?));
        let layout = u64::from_le_bytes(rest.array()?);
        let regions = usize::from(u16::from_le_bytes(rest.array()?));
        let [cq_data_size] = rest.array()?;
        if magic != MAGIC {
            return Err(PeerError::Magic);
        }
        if version != VERSION {
            return Err(PeerError::Version(version));
        }
        if address_len > EndpointAddr::MAX_LEN {
            return Err(PeerError::AddressTooLong { len: address_len });
        }
        let parts = len_of(address_len, regions);
        if stated != parts {
            return Err(PeerError::LengthMismatch { stated, parts });
        }
        let truncated = PeerError::Truncated { needed: parts };
        let (address, encoded) = rest.0.split_at_checked(address_len).ok_or(truncated)?;
        let address = EndpointAddr::new(format, address).map_err(|_| PeerError::AddressTooLong { len: address_len })?;
        let (encoded, _) = encoded.as_chunks::<{ RemoteRegion::WIRE_LEN }>();
        let regions = Regions::encoded(encoded.get(..regions).ok_or(truncated)?);
        match bytes.len().saturating_sub(parts) {
            0 => Ok(Record { address, cq_data_size, layout, regions }),
            count => Err(PeerError::TrailingBytes { count }),
        }
    }
}

const fn len_of(address: usize, regions: usize) -> usize {
    HEADER_LEN.saturating_add(address).saturating_add(regions.saturating_mul(RemoteRegion::WIRE_LEN))
}

struct Writer<'o>(&'o mut [u8]);

impl Writer<'_> {
    /// The caller ensures that the bytes fit.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.0.split_off_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

struct Reader<'r>(&'r [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], PeerError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(PeerError::Truncated { needed: HEADER_LEN })?;
        self.0 = rest;
        Ok(*array)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use loom_core::vocabulary::{Access, MemoryKey, RemoteAddr};

    use super::*;

    #[test]
    fn the_encoded_form_is_fixed() {
        let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"a\0").expect("it is short");
        let regions = [RemoteRegion { base: RemoteAddr(1), len: 2, key: MemoryKey(3), access: Access::REMOTE_WRITE }];
        let record = Record::new(address, 4, 5, &regions);
        let mut bytes = [0xff; 62];
        assert_eq!(record.encode(&mut bytes), Ok(61));
        let expected = [
            &b"lmxr\x02\0\x02\0\x3d\0\0\0\x09\0\0\0\x05\0\0\0\0\0\0\0\x01\0\x04a\0"[..],
            b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\xff",
        ];
        assert_eq!(bytes[..], expected.concat());
        let read = Record::decode(&bytes[..61]).expect("it is a record");
        assert_eq!((&read, read.regions().collect::<Vec<_>>()), (&record, regions.to_vec()));
    }
}
