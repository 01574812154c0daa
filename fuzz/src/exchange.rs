//! Records that peers exchange. Any bytes are read as by a simple reader, or refused for a valid
//! reason. A decoded record encodes to the same bytes.

use arbitrary::Arbitrary;
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::{Access, AddressFormat, EndpointAddr, MemoryKey, RemoteAddr};
use loom_group::PeerError;
use loom_group::exchange::Record;

/// Length of the fields before the address.
const HEADER_LEN: usize = 27;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Any bytes behind a valid magic and version.
    Behind(Vec<u8>),
    /// Record with room behind it.
    Whole(Parts, u8),
    /// Record with one changed byte.
    Changed { parts: Parts, at: u16, to: u8 },
    /// Truncated record.
    Cut { parts: Parts, len: u16 },
    /// Record with bytes behind it.
    Followed { parts: Parts, by: Vec<u8> },
}

#[derive(Arbitrary, Debug)]
struct Parts {
    format: u32,
    address: Vec<u8>,
    width: u8,
    layout: u64,
    regions: Vec<(u64, u64, u64)>,
}

/// Plays a story and returns its number of steps: the plain bytes, then changed records.
pub fn exchange(data: &[u8]) -> usize {
    judge(data);
    1 + crate::steps::<Step>(data).map(play).count()
}

fn play(step: Step) {
    match step {
        Step::Behind(bytes) => judge(&[b"lmxr\x02\0", &bytes[..]].concat()),
        Step::Whole(parts, room) => parts.write(room.into()),
        Step::Changed { parts, at, to } => {
            let mut bytes = parts.bytes();
            let at = usize::from(at) % bytes.len();
            bytes[at] = to;
            judge(&bytes);
        }
        Step::Cut { parts, len } => {
            let bytes = parts.bytes();
            let len = usize::from(len) % bytes.len();
            judge(&bytes[..len]);
            assert!(matches!(Record::decode(&bytes[..len]), Err(PeerError::Truncated { needed }) if needed > len));
        }
        Step::Followed { parts, by } => judge(&[parts.bytes(), by].concat()),
    }
}

impl Parts {
    fn address(&self) -> EndpointAddr {
        let len = self.address.len().min(EndpointAddr::MAX_LEN);
        EndpointAddr::new(AddressFormat::from_raw(self.format), &self.address[..len]).expect("it is not longer")
    }

    fn regions(&self) -> Vec<RemoteRegion> {
        self.words().map(|[base, len, key, access]| region(base, len, key, access)).collect()
    }

    /// Words of each region. The access is derived from the key, because a story has three words.
    fn words(&self) -> impl Iterator<Item = [u64; 4]> {
        self.regions.iter().map(|&(base, len, key)| [base, len, key, key.rotate_left(9)])
    }

    /// Writes the record of the parts by the table of the format.
    fn bytes(&self) -> Vec<u8> {
        let address = self.address();
        let address = address.bytes();
        let len = HEADER_LEN + address.len() + self.regions.len() * 32;
        let mut bytes = b"lmxr\x02\0".to_vec();
        bytes.extend((address.len() as u16).to_le_bytes());
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend(self.format.to_le_bytes());
        bytes.extend(self.layout.to_le_bytes());
        bytes.extend((self.regions.len() as u16).to_le_bytes());
        bytes.push(self.width);
        bytes.extend(address);
        bytes.extend(self.words().flatten().flat_map(u64::to_le_bytes));
        bytes
    }

    /// Writes the record with room behind it, and reads it.
    fn write(&self, room: usize) {
        let regions = self.regions();
        let record = Record::new(self.address(), self.width, self.layout, &regions);
        let expected = self.bytes();
        let len = record.encoded_len();
        assert!(len == expected.len() && len <= Record::max_len(regions.len()));
        let mut out = vec![0xa5; len + room];
        assert_eq!(record.encode(&mut out), Ok(len));
        assert_eq!(out[..len], expected, "as the table says");
        assert!(out[len..].iter().all(|&byte| byte == 0xa5), "what is behind stays");
        assert_eq!(Record::decode(&out[..len]).as_ref(), Ok(&record));
        let short = room % len;
        let mut out = vec![0xa5; short];
        assert_eq!(record.encode(&mut out), Err(PeerError::BufferTooShort { needed: len }));
        assert!(out.iter().all(|&byte| byte == 0xa5), "nothing is written");
        judge(&expected);
    }
}

fn region(base: u64, len: u64, key: u64, access: u64) -> RemoteRegion {
    RemoteRegion { base: RemoteAddr(base), len, key: MemoryKey(key), access: Access::from_bits_retain(access) }
}

/// Reads bytes as a record and by the table of the format. Both find the same, or refuse the bytes.
fn judge(bytes: &[u8]) {
    let number =
        |at: usize, len: usize| (0..len).fold(0_u64, |sum, byte| sum | u64::from(bytes[at + byte]) << (8 * byte));
    let known = bytes.len() >= HEADER_LEN && bytes.starts_with(b"lmxr\x02\0");
    let fits = || {
        let (address, regions) = (number(6, 2), number(24, 2));
        let len = HEADER_LEN as u64 + address + regions * 32;
        address <= EndpointAddr::MAX_LEN as u64 && number(8, 4) == len && bytes.len() as u64 == len
    };
    let decoded = Record::decode(bytes);
    assert_eq!(decoded.is_ok(), known && fits(), "{decoded:?}");
    let record = match decoded {
        Ok(record) => record,
        Err(error) => {
            let holds = match error {
                PeerError::Truncated { needed } => bytes.len() < needed,
                PeerError::Magic => !bytes.starts_with(b"lmxr"),
                PeerError::Version(version) => version != 2 && number(4, 2) == u64::from(version),
                PeerError::AddressTooLong { len } => len > 512 && number(6, 2) == len as u64,
                PeerError::LengthMismatch { stated, parts } => stated != parts && number(8, 4) == stated as u64,
                PeerError::TrailingBytes { count } => bytes.len() as u64 == number(8, 4) + count as u64,
                _ => false,
            };
            assert!(holds, "{error:?}");
            return;
        }
    };
    let address_end = HEADER_LEN + number(6, 2) as usize;
    assert_eq!(u64::from(record.address().format().as_raw()), number(12, 4));
    assert_eq!(record.address().bytes(), &bytes[HEADER_LEN..address_end]);
    assert_eq!((record.layout(), record.cq_data_size()), (number(16, 8), bytes[26]));
    let regions = (address_end..bytes.len())
        .step_by(32)
        .map(|at| region(number(at, 8), number(at + 8, 8), number(at + 16, 8), number(at + 24, 8)));
    assert!(record.regions().eq(regions), "{record:?}");
    let mut again = vec![0; bytes.len()];
    assert_eq!((record.encode(&mut again), again.as_slice()), (Ok(bytes.len()), bytes), "it is the only way");
}
