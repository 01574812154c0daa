use loom_core::vocabulary::{Access, AddressFormat, EndpointAddr, MemoryKey, RemoteAddr};
use loom_core::{Error, RemoteRegion};
use loom_group::PeerError;
use loom_group::exchange::Record;
use proptest::collection::vec;
use proptest::prelude::*;

const HEADER_LEN: usize = 27;

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut bytes = vec![0; record.encoded_len()];
    assert_eq!(record.encode(&mut bytes), Ok(bytes.len()));
    bytes
}

fn sample(regions: &[RemoteRegion]) -> Record<'_> {
    Record::new(EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://1\0").unwrap(), 8, 77, regions)
}

const REGIONS: [RemoteRegion; 2] = [
    RemoteRegion { base: RemoteAddr(0), len: 64, key: MemoryKey(1), access: Access::REMOTE_READ },
    RemoteRegion { base: RemoteAddr(1 << 40), len: 4096, key: MemoryKey(2), access: Access::REMOTE_WRITE },
];

fn region() -> impl Strategy<Value = RemoteRegion> {
    any::<[u64; 4]>().prop_map(|[base, len, key, access]| RemoteRegion {
        base: RemoteAddr(base),
        len,
        key: MemoryKey(key),
        access: Access::from_bits_retain(access),
    })
}

fn address() -> impl Strategy<Value = EndpointAddr> {
    (any::<u32>(), vec(any::<u8>(), 0..=EndpointAddr::MAX_LEN))
        .prop_map(|(format, bytes)| EndpointAddr::new(AddressFormat::from_raw(format), &bytes).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_record_encodes_and_decodes_to_itself(
        address in address(), width: u8, layout: u64, regions in vec(region(), 0..40), room in 0_usize..8,
    ) {
        let record = Record::new(address.clone(), width, layout, &regions);
        let mut bytes = vec![0xa5; record.encoded_len() + room];
        let len = record.encode(&mut bytes).unwrap();
        prop_assert_eq!(len, record.encoded_len());
        prop_assert!(len <= Record::max_len(regions.len()));
        prop_assert!(bytes[len..].iter().all(|&byte| byte == 0xa5), "bytes after the record stay as they are");
        let read = Record::decode(&bytes[..len]).unwrap();
        prop_assert_eq!(&read, &record);
        prop_assert_eq!((read.address(), read.cq_data_size(), read.layout()), (&address, width, layout));
        prop_assert_eq!(read.regions().len(), regions.len());
        prop_assert_eq!(read.regions().get(0), regions.first().copied());
        prop_assert_eq!(read.regions().get(regions.len()), None);
        prop_assert_eq!(read.regions().collect::<Vec<_>>(), regions);
    }

    #[test]
    fn bytes_that_decode_encode_to_the_same_bytes(regions in vec(region(), 0..4), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)) {
        let mut bytes = encoded(&sample(&regions));
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(record) = Record::decode(&bytes) {
            prop_assert_eq!(encoded(&record), bytes);
        }
    }

    #[test]
    fn noise_behind_a_magic_decodes_to_itself_or_not_at_all(noise in vec(any::<u8>(), 0..80)) {
        let bytes = [&b"lmxr\x01\0"[..], &noise].concat();
        if let Ok(record) = Record::decode(&bytes) {
            prop_assert_eq!(encoded(&record), bytes);
        }
        prop_assert!(Record::decode(&noise).is_err(), "it has no magic");
    }

    #[test]
    fn every_prefix_is_truncated(address in address(), regions in vec(region(), 0..4)) {
        let record = Record::new(address, 4, 0, &regions);
        let bytes = encoded(&record);
        for len in 0..bytes.len() {
            let needed = if len < HEADER_LEN { HEADER_LEN } else { bytes.len() };
            prop_assert_eq!(Record::decode(&bytes[..len]), Err(PeerError::Truncated { needed }));
        }
    }

    #[test]
    fn a_short_buffer_stays_as_it_is(regions in vec(region(), 0..4), short in any::<prop::sample::Index>()) {
        let record = sample(&regions);
        let needed = record.encoded_len();
        let mut buffer = vec![0xa5; short.index(needed)];
        prop_assert_eq!(record.encode(&mut buffer), Err(PeerError::BufferTooShort { needed }));
        prop_assert!(buffer.iter().all(|&byte| byte == 0xa5));
    }
}

#[test]
fn each_defect_has_its_error() {
    let bytes = encoded(&sample(&REGIONS));
    let total = bytes.len();
    let with = |at: usize, new: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let refused = |bytes: Vec<u8>, error: PeerError| assert_eq!(Record::decode(&bytes), Err(error));
    refused(with(0, b"L"), PeerError::Magic);
    for version in [1, 3] {
        refused(with(4, &[version, 0]), PeerError::Version(version.into()));
    }
    refused(with(6, &513_u16.to_le_bytes()), PeerError::AddressTooLong { len: 513 });
    refused(with(6, &[12, 0]), PeerError::LengthMismatch { stated: total, parts: total + 1 });
    refused(with(8, &u32::MAX.to_le_bytes()), PeerError::LengthMismatch { stated: 0xffff_ffff, parts: total });
    refused(with(24, &[1, 0]), PeerError::LengthMismatch { stated: total, parts: total - RemoteRegion::WIRE_LEN });
    for count in [1, RemoteRegion::WIRE_LEN, 100] {
        refused([&bytes[..], &vec![0; count]].concat(), PeerError::TrailingBytes { count });
    }
    let mut short = with(24, &[0xff, 0xff]);
    let needed = HEADER_LEN + 11 + 65535 * RemoteRegion::WIRE_LEN;
    short[8..12].copy_from_slice(&u32::try_from(needed).unwrap().to_le_bytes());
    refused(short, PeerError::Truncated { needed });
}

#[test]
fn the_most_regions_are_written_and_one_more_is_refused() {
    let regions = vec![REGIONS[1]; Record::MAX_REGIONS + 1];
    let record = sample(&regions[1..]);
    let bytes = encoded(&record);
    assert_eq!(Record::decode(&bytes).unwrap(), record);
    let record = sample(&regions);
    let mut bytes = vec![0; record.encoded_len()];
    assert_eq!(record.encode(&mut bytes), Err(PeerError::TooManyRegions { count: 65536 }));
}

#[test]
fn errors_turn_into_the_error_of_loom() {
    fn reads(bytes: &[u8]) -> Result<u64, Error> {
        Ok(Record::decode(bytes)?.layout())
    }
    assert_eq!(reads(&encoded(&sample(&[]))), Ok(77));
    assert_eq!(reads(&[]), Err(Error::Invalid("the record of a peer ends early")));
    assert_eq!(
        Error::from(PeerError::BufferTooShort { needed: 3 }).to_string(),
        "full: the buffer for the record of a peer"
    );
    assert_eq!(PeerError::BufferTooShort { needed: 3 }.to_string(), "buffer too short: the record needs 3 bytes");
    assert_eq!(PeerError::Version(9).to_string(), "record of the unknown version 9");
}
