//! Packets of tagged messages over plain ones, read by field according to the table of
//! `loom_tagged::wire`.

use arbitrary::Arbitrary;
use loom_core::vocabulary::{ImmediateData, Tag};
use loom_tagged::Violation;
use loom_tagged::wire::{Body, HEADER_LEN, Header};

/// Fields of a packet of any kind, and the bytes behind it.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Packet<'a> {
    kind: u8,
    seq: u32,
    credits: [u32; 2],
    tag: u64,
    data: Option<u64>,
    len: u64,
    sender: u64,
    receiver: u64,
    follow: &'a [u8],
}

impl Packet<'_> {
    fn body(&self) -> Body {
        let Packet { len, sender, receiver, .. } = *self;
        let (tag, data) = (Tag(self.tag), self.data.map(ImmediateData));
        match self.kind % 8 {
            0 => Body::Hello { packet_size: len },
            1 => Body::Eager { tag, data },
            2 => Body::Request { tag, data, len, sender },
            3 => Body::Clear { len, sender, receiver },
            4 => Body::Segment { receiver },
            5 => Body::Withdraw { sender },
            6 => Body::Withdrawn { sender },
            _ => Body::Credit,
        }
    }
}

/// Checks that a written packet is read back if its trailing bytes are allowed. A changed packet is
/// read as its new content.
pub fn written(packet: Packet<'_>, garbled: Option<(u8, u8)>) {
    let Packet { seq, credits, follow, .. } = packet;
    let header = Header { seq, credits, body: packet.body() };
    let len = u32::try_from(follow.len()).expect("inputs are short");
    let mut bytes = [&header.encode(len), follow].concat();
    let may_follow = match header.body {
        Body::Eager { .. } => true,
        Body::Segment { .. } => !follow.is_empty(),
        _ => follow.is_empty(),
    };
    assert_eq!(Header::decode(&bytes), if may_follow { Ok((header, follow)) } else { Err(Violation::Length) });
    if let Some((at, byte)) = garbled {
        let at = usize::from(at) % bytes.len();
        bytes[at] = byte;
        read(&bytes);
    }
}

/// Checks that any bytes are read according to the table, or refused, and that a packet that was
/// read is written alike.
pub fn read(bytes: &[u8]) {
    let wanted = meaning(bytes);
    let read = Header::decode(bytes);
    match (read, wanted) {
        (Ok((header, follow)), Some(number)) => {
            let len = u32::try_from(follow.len()).expect("inputs are short");
            assert_eq!([&header.encode(len), follow].concat(), bytes);
            let [credit, other] = header.credits;
            let words = [(4, header.seq), (8, credit), (12, other)];
            assert!(words.iter().all(|(at, word)| number(*at, 4) == u64::from(*word)));
            let (tag, data, len, sender, receiver) = match header.body {
                Body::Hello { packet_size } => (Tag(0), None, packet_size, 0, 0),
                Body::Eager { tag, data } => (tag, data, 0, 0, 0),
                Body::Request { tag, data, len, sender } => (tag, data, len, sender, 0),
                Body::Clear { len, sender, receiver } => (Tag(0), None, len, sender, receiver),
                Body::Segment { receiver } => (Tag(0), None, 0, receiver, 0),
                Body::Withdraw { sender } | Body::Withdrawn { sender } => (Tag(0), None, 0, sender, 0),
                Body::Credit => (Tag(0), None, 0, 0, 0),
            };
            let data = data.map_or(0, u64::from);
            let words = [(24, tag.0), (32, data), (40, len), (48, sender), (56, receiver)];
            assert!(words.iter().all(|(at, word)| number(*at, 8) == *word));
        }
        (Err(_), None) => {}
        (read, wanted) => panic!("{read:?}, and it is {}", if wanted.is_some() { "a packet" } else { "none" }),
    }
}

/// Returns a reader of the packet's numbers by place and length, if the bytes are a packet.
fn meaning(bytes: &[u8]) -> Option<impl Fn(usize, usize) -> u64> {
    let number = move |at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    if bytes.len() < HEADER_LEN || &bytes[..3] != b"LT\x01" {
        return None;
    }
    let [message, len, sender, receiver] = match bytes[3] {
        1 => [false, true, false, false],
        2 => [true, false, false, false],
        3 => [true, true, true, false],
        4 => [false, true, true, true],
        5..=7 => [false, false, true, false],
        8 => [false; 4],
        _ => return None,
    };
    let flags = number(20, 4);
    let unused = [(flags != 1, 32), (!message, 24), (!len, 40), (!sender, 48), (!receiver, 56)];
    let follow = bytes.len() - HEADER_LEN;
    let may_follow = match bytes[3] {
        2 => true,
        5 => follow > 0,
        _ => follow == 0,
    };
    let is_packet = flags <= u64::from(message)
        && unused.iter().all(|(unused, at)| !unused || number(*at, 8) == 0)
        && may_follow
        && number(16, 4) == follow as u64;
    is_packet.then_some(number)
}
