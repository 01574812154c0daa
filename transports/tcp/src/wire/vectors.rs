//! Bytes captured between programs over libfabric 1.17, 2.5 and 2.6, on little-endian machines.

use std::format;

use heapless::Vec;

use super::{
    ByteOrder, ConnectKind, ConnectMessage, Frame, FrameFlags, MAX_CONNECT_MESSAGE, MAX_HEADER, Operation, RdmData,
    RemoteRange, Violation,
};

fn bytes(hex: &str) -> std::vec::Vec<u8> {
    let digits: std::vec::Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks_exact(2).map(|pair| core::str::from_utf8(pair).expect("digits"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

const ZEROS: &str = "0000000000000000 0000000000000000";

/// Connect messages: first 8 bytes, order, data.
#[test]
fn connect_messages_are_those_of_libfabric() {
    let rdm = |version, port, pid| RdmData { version, features: 0, port, pid }.encode();
    let cases: [(&str, ConnectKind, &[u8]); 7] = [
        ("03000008 00000000 ZEROS 0100000000000000 434c494441544121", ConnectKind::Request, b"CLIDATA!"),
        ("03010007 00000000 ZEROS 0100000000000000 53525644415441", ConnectKind::Response, b"SRVDATA"),
        ("03060004 00000000 ZEROS 0000000000000000 4e4f5045", ConnectKind::Reject, b"NOPE"),
        ("03000008 00000000 ZEROS 0100000000000000 010089a500001c5c", ConnectKind::Request, &rdm(1, 35237, 0x1c5c)),
        ("03010008 00000000 ZEROS 0100000000000000 810089a500001c5a", ConnectKind::Response, &rdm(0x81, 35237, 0x1c5a)),
        ("03000008 00000000 ZEROS 0100000000000000 00008f6300004043", ConnectKind::Request, &rdm(0, 0x8f63, 0x4043)),
        ("03060008 00000000 ZEROS 0000000000000000 010007cf00000063", ConnectKind::Reject, &rdm(1, 1999, 0x63)),
    ];
    for (hex, kind, data) in cases {
        let wire = bytes(&hex.replace("ZEROS", ZEROS));
        let message = ConnectMessage { kind, data };
        let mut out = [0xee; MAX_CONNECT_MESSAGE];
        let len = message.encode(&mut out).expect("at most 256 bytes");
        assert_eq!(out[..len], wire[..], "{hex}");
        let order = if kind == ConnectKind::Reject { ByteOrder::Big } else { ByteOrder::NATIVE };
        assert_eq!(ConnectMessage::parse(&wire), Ok(Some((message, order, wire.len()))));
        for cut in 0..wire.len() {
            assert_eq!(ConnectMessage::parse(&wire[..cut]), Ok(None), "{cut} bytes of {hex}");
        }
    }
}

fn parts(ranges: &[(u64, u64)]) -> Vec<RemoteRange, 4> {
    ranges.iter().map(|(addr, len)| RemoteRange { addr: *addr, len: *len, key: 0x1122_3344_5566_7788 }).collect()
}

#[test]
fn frames_are_those_of_libfabric() {
    let (none, delivery, commit) = (FrameFlags::empty(), FrameFlags::DELIVERY_COMPLETE, FrameFlags::COMMIT_COMPLETE);
    let message = |data| Operation::Message { data };
    let tagged = |tag, data| Operation::Tagged { tag, data };
    let announced = |tag, data| Operation::ReadyToSend { id: 1, tag, len: 20_000, data };
    let write = |data, ranges: &[(u64, u64)]| Operation::Write { data, parts: parts(ranges) };
    let read = |ranges: &[(u64, u64)]| Operation::ReadRequest { parts: parts(ranges) };
    let two = [(0x400, 8), (0x500, 8)];
    const KEY: &str = "8877665544332211";
    let cases = [
        ("03000000 00001000 1800000000000000", message(None), none, 8),
        ("03000100 00001800 2000000000000000 0807060504030201", message(Some(0x0102_0304_0506_0708)), none, 8),
        ("03000000 00001000 1000000000000000", message(None), none, 0),
        ("03000000 00001000 1400000000000000", message(None), none, 4),
        ("03000400 00001000 1800000000000000", message(None), delivery, 8),
        ("03000000 02001000 1000000000000000", Operation::Acknowledgement, none, 0),
        ("03010000 00001800 2000000000000000 01000000ddccbbaa", tagged(0xaabb_ccdd_0000_0001, None), none, 8),
        (
            "03010100 00002000 2800000000000000 8877665544332211 02000000ddccbbaa",
            tagged(0xaabb_ccdd_0000_0002, Some(0x1122_3344_5566_7788)),
            none,
            8,
        ),
        (
            "03040000 00012800 3000000000000000 0001000000000000 0800000000000000 KEY",
            write(None, &[(0x100, 8)]),
            none,
            8,
        ),
        (
            "03040100 00013000 3800000000000000 0df0fecaefbeadde 0002000000000000 0800000000000000 KEY",
            write(Some(0xdead_beef_cafe_f00d), &[(0x200, 8)]),
            none,
            8,
        ),
        (
            "03040400 00024000 5000000000000000 0004000000000000 0800000000000000 KEY 0005000000000000 0800000000000000 KEY",
            write(None, &two),
            delivery,
            16,
        ),
        (
            "03040900 00024800 5800000000000000 5500000000000000 0004000000000000 0800000000000000 KEY 0005000000000000 0800000000000000 KEY",
            write(Some(0x55), &two),
            commit,
            16,
        ),
        ("03020000 00012800 2800000000000000 0001000000000000 0800000000000000 KEY", read(&[(0x100, 8)]), none, 0),
        ("03030000 00001000 1800000000000000", Operation::ReadResponse, none, 8),
        ("03020000 00012800 2800000000000000 0001000000000000 0000000000000000 KEY", read(&[(0x100, 0)]), none, 0),
        (
            "03050000 01002000 2000000000000000 03000000ddccbbaa 204e000000000000",
            announced(0xaabb_ccdd_0000_0003, None),
            none,
            0,
        ),
        ("03060000 01001000 1000000000000000", Operation::ClearToSend { id: 1 }, none, 0),
        ("03070000 01001000 304e000000000000", Operation::Rendezvous { id: 1 }, none, 20_000),
        (
            "03050100 01002800 2800000000000000 8877665544332211 04000000ddccbbaa 204e000000000000",
            announced(0xaabb_ccdd_0000_0004, Some(0x1122_3344_5566_7788)),
            none,
            0,
        ),
    ];
    for (hex, operation, flags, payload) in cases {
        let wire = bytes(&hex.replace("KEY", KEY));
        let frame = Frame { operation, flags, payload };
        let mut out = [0xee; MAX_HEADER];
        let len = frame.encode(ByteOrder::Little, 0, &mut out);
        assert_eq!(out[..len], wire[..], "{hex}");
        assert_eq!(Frame::parse(&wire, ByteOrder::Little), Ok(Some((frame, wire.len()))));
        for cut in 0..wire.len() {
            assert_eq!(Frame::parse(&wire[..cut], ByteOrder::Little), Ok(None), "{cut} bytes of {hex}");
        }
    }
}

#[test]
fn bytes_that_libfabric_recycles_are_ignored() {
    let message = Frame { operation: Operation::Message { data: None }, flags: FrameFlags::empty(), payload: 8 };
    // Any version, count of ranges, and number of the frame, and unknown flags.
    let wire = bytes("0900f000 00091033 1800000000000000");
    assert_eq!(Frame::parse(&wire, ByteOrder::Little), Ok(Some((message, 16))));
    // Rendezvous data has the flag of immediate data, and no word.
    let wire = bytes("03070100 01001000 304e000000000000");
    let data = Frame { operation: Operation::Rendezvous { id: 1 }, flags: FrameFlags::empty(), payload: 20_000 };
    assert_eq!(Frame::parse(&wire, ByteOrder::Little), Ok(Some((data, 16))));
    // A header may be longer than required.
    let wire = bytes("03000000 00001800 2000000000000000 ffffffffffffffff");
    let message = Frame { operation: Operation::Message { data: None }, flags: FrameFlags::empty(), payload: 8 };
    assert_eq!(Frame::parse(&wire, ByteOrder::Little), Ok(Some((message, 24))));
}

#[test]
fn peers_of_the_other_byte_order_write_big_endian() {
    let request = bytes(&"03000000 00000000 ZEROS 0000000000000001".replace("ZEROS", ZEROS));
    let expected = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::NATIVE };
    let message = ConnectMessage { kind: ConnectKind::Request, data: &[] };
    assert_eq!(ConnectMessage::parse(&request), Ok(Some((message, expected, 32))));
    let wire = bytes("03000004 00001000 0000000000000018");
    let frame =
        Frame { operation: Operation::Message { data: None }, flags: FrameFlags::DELIVERY_COMPLETE, payload: 8 };
    assert_eq!(Frame::parse(&wire, ByteOrder::Big), Ok(Some((frame.clone(), 16))));
    let mut out = [0; MAX_HEADER];
    assert_eq!(frame.encode(ByteOrder::Big, 0, &mut out), 16);
    assert_eq!(out[..16], wire[..]);
    let wire = bytes("03020000 00012800 0000000000000028 0000000000000100 0000000000000008 1122334455667788");
    let read = Operation::ReadRequest { parts: parts(&[(0x100, 8)]) };
    let frame = Frame { operation: read, flags: FrameFlags::empty(), payload: 0 };
    assert_eq!(Frame::parse(&wire, ByteOrder::Big), Ok(Some((frame, 40))));
}

#[test]
fn frames_are_numbered_for_debug_builds() {
    let empty = Frame { operation: Operation::Message { data: None }, flags: FrameFlags::empty(), payload: 0 };
    let mut out = [0; MAX_HEADER];
    assert_eq!(empty.encode(ByteOrder::Little, 2, &mut out), 16);
    assert_eq!(out[..16], bytes("03000000 00001002 1000000000000000")[..]);
}

#[test]
fn violations_are_distinguished() {
    let cases = [
        ("03080000 00001000 1000000000000000", Violation::Operation(8)),
        ("03000000 00000f00 1000000000000000", Violation::HeaderSize(15)),
        ("03000000 00007900 7900000000000000", Violation::HeaderSize(0x79)),
        ("03010000 00001000 1000000000000000", Violation::HeaderSize(16)),
        ("03000000 00001000 0f00000000000000", Violation::FrameSize(15)),
        ("03000000 02001000 1100000000000000", Violation::FrameSize(17)),
        ("03020000 00051000 1000000000000000", Violation::Parts(5)),
        ("03040000 00001000 1800000000000000", Violation::PartLengths),
        ("03050000 00002000 2000000000000000 0300000000000000 204e000000000000", Violation::Unsolicited(5)),
        ("03060000 ff001000 1000000000000000", Violation::Unsolicited(6)),
    ];
    for (hex, violation) in cases {
        assert_eq!(Frame::parse(&bytes(hex), ByteOrder::Little), Err(violation), "{hex}");
    }
    let parse = |hex: &str| ConnectMessage::parse(&bytes(hex)).map(|_| ());
    assert_eq!(parse("04"), Err(Violation::Version(4)));
    let with = |first: &str| format!("{first} 00000000 {ZEROS} 0100000000000000");
    assert_eq!(parse(&with("03020000")), Err(Violation::ConnectKind(2)));
    assert_eq!(parse(&with("03000101")), Err(Violation::ConnectData(257)));
    assert_eq!(RdmData::parse(&[0; 7]), Err(Violation::RdmData(7)));
    // Lengths with a sum that wraps.
    let wrapping = "03020000 00024000 4000000000000000 0000000000000000 ffffffffffffffff 00 00000000000000 \
                    0000000000000000 0200000000000000 0000000000000000";
    assert_eq!(Frame::parse(&bytes(wrapping), ByteOrder::Little), Err(Violation::PartLengths));
}

/// Every header of random bytes is parsed or refused, and what is parsed is written back alike.
#[test]
fn parsed_headers_are_written_back() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut parsed = 0;
    for _ in 0..100_000 {
        let mut wire = [0_u8; MAX_HEADER];
        for word in wire.chunks_mut(8) {
            word.copy_from_slice(&(random() & random() & 0x0f0f_0f0f_0f0f_0f0f).to_le_bytes());
        }
        wire[1] &= 7;
        wire[6] = 16 + 8 * (wire[6] % 14);
        for (order, at) in [(ByteOrder::Little, 8), (ByteOrder::Big, 15)] {
            wire[8..16].fill(0);
            wire[at] = wire[6].wrapping_add(wire[7] & 1);
            let Ok(Some((frame, len))) = Frame::parse(&wire, order) else { continue };
            parsed += 1;
            let mut out = [0; MAX_HEADER];
            let written = frame.encode(order, wire[7], &mut out);
            assert!(written <= len);
            assert_eq!(Frame::parse(&out[..written], order), Ok(Some((frame, written))));
        }
    }
    assert!(parsed > 1_000, "{parsed}");
}
