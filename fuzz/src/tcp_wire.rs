//! Bytes of the tcp transport. Any bytes are read alike whole and in pieces, or refused. Bytes that
//! were read are written to bytes with the same meaning. Every valid frame and connect message is
//! read back.

use arbitrary::{Arbitrary, Unstructured};
use loom_tcp::wire::{
    ByteOrder, ConnectKind, ConnectMessage, Frame, FrameFlags, MAX_CONNECT_DATA, MAX_CONNECT_MESSAGE, MAX_HEADER,
    MAX_PARTS, Operation, RdmData, RemoteRange, Violation,
};

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

#[derive(Arbitrary, Debug)]
enum Step {
    Bytes(Vec<u8>),
    /// Bytes with a header that may be valid: operation, second byte, number of ranges, length, and
    /// payload.
    Header {
        head: [u8; 4],
        len: u8,
        payload: u16,
        words: Vec<u8>,
    },
    Frame(AnyFrame, u8),
    /// A frame with one byte changed.
    Changed {
        frame: AnyFrame,
        at: u8,
        to: u8,
    },
    Connect {
        kind: u8,
        data: Vec<u8>,
        changed: Option<(u8, u8)>,
    },
    Rdm {
        version: u8,
        features: u8,
        port: u16,
        pid: u32,
    },
}

/// Frame of any values within its types.
#[derive(Debug)]
pub struct AnyFrame(pub Frame);

impl<'d> Arbitrary<'d> for AnyFrame {
    fn arbitrary(bytes: &mut Unstructured<'d>) -> arbitrary::Result<Self> {
        let parts = |bytes: &mut Unstructured<'d>| -> arbitrary::Result<heapless::Vec<RemoteRange, MAX_PARTS>> {
            let count = bytes.int_in_range(0..=MAX_PARTS)?;
            let range =
                |_| Ok(RemoteRange { addr: bytes.arbitrary()?, len: bytes.arbitrary()?, key: bytes.arbitrary()? });
            (0..count).map(range).collect()
        };
        let operation = match bytes.int_in_range(0..=8)? {
            0 => Operation::Message { data: bytes.arbitrary()? },
            1 => Operation::Tagged { tag: bytes.arbitrary()?, data: bytes.arbitrary()? },
            2 => Operation::Acknowledgement,
            3 => Operation::ReadRequest { parts: parts(bytes)? },
            4 => Operation::ReadResponse,
            5 => Operation::Write { data: bytes.arbitrary()?, parts: parts(bytes)? },
            6 => Operation::ReadyToSend {
                id: bytes.arbitrary()?,
                tag: bytes.arbitrary()?,
                len: bytes.arbitrary()?,
                data: bytes.arbitrary()?,
            },
            7 => Operation::ClearToSend { id: bytes.arbitrary()? },
            _ => Operation::Rendezvous { id: bytes.arbitrary()? },
        };
        let flags = FrameFlags::from_bits_truncate(bytes.arbitrary()?);
        Ok(AnyFrame(Frame { operation, flags, payload: bytes.arbitrary::<u32>()?.into() }))
    }
}

/// Plays a story and returns its number of steps: the plain bytes, then changed frames and
/// messages.
pub fn tcp_wire(data: &[u8]) -> usize {
    judge(data);
    1 + crate::steps::<Step>(data).map(play).count()
}

fn play(step: Step) {
    match step {
        Step::Bytes(bytes) => judge(&bytes),
        Step::Header { head: [op, flags, second, count], len, payload, words } => {
            let size = u64::from(len) + u64::from(payload);
            for order in ORDERS {
                let (flags, size) = match order {
                    ByteOrder::Little => ([flags, 0], size.to_le_bytes()),
                    ByteOrder::Big => ([0, flags], size.to_be_bytes()),
                };
                let base = [3, op % 9, flags[0], flags[1], second, count % 6, len, 0];
                judge(&[&base[..], &size, &words].concat());
            }
        }
        Step::Frame(AnyFrame(frame), id) => written(&frame, id),
        Step::Changed { frame: AnyFrame(frame), at, to } => {
            for order in ORDERS {
                let mut bytes = [0; MAX_HEADER];
                let len = frame.encode(order, 0, &mut bytes);
                bytes[usize::from(at) % len] = to;
                judge(&bytes[..len]);
            }
        }
        Step::Connect { kind, data, changed } => {
            let kind = [ConnectKind::Request, ConnectKind::Response, ConnectKind::Reject][usize::from(kind % 3)];
            let message = ConnectMessage { kind, data: &data };
            let mut bytes = [0xee; MAX_CONNECT_MESSAGE];
            let Some(len) = message.encode(&mut bytes) else { return assert!(data.len() > MAX_CONNECT_DATA) };
            // A rejection has no byte order.
            let order = if kind == ConnectKind::Reject { ByteOrder::Big } else { ByteOrder::NATIVE };
            assert_eq!(ConnectMessage::parse(&bytes[..len]), Ok(Some((message, order, len))));
            assert!(bytes[len..].iter().all(|byte| *byte == 0xee), "bytes behind are left alone");
            if let Some((at, to)) = changed {
                bytes[usize::from(at) % len] = to;
            }
            judge(&bytes[..len]);
        }
        Step::Rdm { version, features, port, pid } => {
            let data = RdmData { version, features, port, pid };
            assert_eq!(RdmData::parse(&data.encode()), Ok(data));
        }
    }
}

/// Checks that a written frame is read back, if peers may send it.
fn written(frame: &Frame, id: u8) {
    for order in ORDERS {
        let mut bytes = [0xee; MAX_HEADER];
        let len = frame.encode(order, id, &mut bytes);
        assert!(bytes[len..].iter().all(|byte| *byte == 0xee), "bytes behind are left alone");
        let payload_allowed = !matches!(
            frame.operation,
            Operation::Acknowledgement
                | Operation::ReadRequest { .. }
                | Operation::ReadyToSend { .. }
                | Operation::ClearToSend { .. }
        );
        let sum = match &frame.operation {
            Operation::ReadRequest { parts } | Operation::Write { parts, .. } => {
                parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.len))
            }
            _ => Some(0),
        };
        let expected = match &frame.operation {
            _ if frame.payload > 0 && !payload_allowed => Err(Violation::FrameSize(len as u64 + frame.payload)),
            Operation::ReadyToSend { id: 0 | 255, .. } => Err(Violation::Unsolicited(5)),
            Operation::ClearToSend { id: 0 | 255 } => Err(Violation::Unsolicited(6)),
            Operation::Rendezvous { id: 0 | 255 } => Err(Violation::Unsolicited(7)),
            Operation::ReadRequest { .. } if sum.is_none() => Err(Violation::PartLengths),
            Operation::Write { .. } if sum != Some(frame.payload) => Err(Violation::PartLengths),
            // Acknowledgements are not acknowledged.
            Operation::Acknowledgement => Ok(Some((Frame { flags: FrameFlags::empty(), ..frame.clone() }, len))),
            _ => Ok(Some((frame.clone(), len))),
        };
        assert_eq!(Frame::parse(&bytes[..len], order), expected, "{order:?}");
        judge(&bytes[..len]);
    }
}

/// Reads bytes with all readers.
fn judge(bytes: &[u8]) {
    for order in ORDERS {
        frame(bytes, order);
    }
    connect(bytes);
    let rdm = RdmData::parse(bytes);
    match <&[u8; 8]>::try_from(bytes) {
        Ok(bytes) => assert_eq!(rdm.map(|data| data.encode()), Ok(*bytes)),
        Err(_) => assert_eq!(rdm, Err(Violation::RdmData(bytes.len()))),
    }
}

fn frame(bytes: &[u8], order: ByteOrder) {
    let whole = Frame::parse(bytes, order);
    for cut in 0..bytes.len().min(MAX_HEADER + 1) {
        match (Frame::parse(&bytes[..cut], order), &whole) {
            (Ok(None), Ok(Some((_, len)))) => assert!(cut < *len, "a header of {len} bytes"),
            (Ok(None), _) => assert!(cut < MAX_HEADER, "it is long enough"),
            (part, _) => assert_eq!(&part, &whole, "{cut} bytes"),
        }
    }
    let Ok(Some((frame, len))) = whole else { return };
    assert!(len <= bytes.len() && len <= MAX_HEADER && len == usize::from(bytes[6]));
    let size: [u8; 8] = bytes[8..16].try_into().expect("eight bytes");
    let size = if order == ByteOrder::Little { u64::from_le_bytes(size) } else { u64::from_be_bytes(size) };
    assert_eq!(frame.payload + len as u64, size);
    let mut again = [0; MAX_HEADER];
    let written = frame.encode(order, bytes[7], &mut again);
    assert!(written <= len, "it is the shortest form");
    assert_eq!(Frame::parse(&again[..written], order), Ok(Some((frame.clone(), written))));
    if written == len {
        // All but the version, unused bytes and unknown flags.
        assert_eq!((again[1], again[6..].get(..len - 6)), (bytes[1], bytes.get(6..len)));
    }
}

fn connect(bytes: &[u8]) {
    let whole = ConnectMessage::parse(bytes);
    for cut in 0..bytes.len().min(MAX_CONNECT_MESSAGE + 1) {
        match (ConnectMessage::parse(&bytes[..cut]), &whole) {
            (Ok(None), Ok(Some((_, _, len)))) => assert!(cut < *len, "a message of {len} bytes"),
            (Ok(None), _) => assert!(cut < MAX_CONNECT_MESSAGE, "it is long enough"),
            (part, _) => assert_eq!(&part, &whole, "{cut} bytes"),
        }
    }
    let Ok(Some((message, _, len))) = whole else { return };
    assert!(len <= bytes.len() && message.data == &bytes[len - message.data.len()..len]);
    let mut again = [0; MAX_CONNECT_MESSAGE];
    assert_eq!(message.encode(&mut again), Some(len), "all that is read can be written");
    assert_eq!(again[..4], bytes[..4]);
    let read = ConnectMessage::parse(&again[..len]).map(|read| read.map(|(message, _, len)| (message, len)));
    assert_eq!(read, Ok(Some((message, len))));
}
