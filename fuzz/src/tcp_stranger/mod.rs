//! An endpoint over TCP sockets beside a stranger that sends anything. The endpoint stays usable,
//! and peers write only where they may. Messages of honest connections arrive unchanged, and
//! answers follow the protocol.

mod guarded;
mod line;
mod world;

use arbitrary::Arbitrary;

use self::world::World;
use crate::tcp_wire::AnyFrame;

/// Connections of a story.
const LINES: usize = 7;

/// Bytes of a region, and of the longest payload: more than the receive buffer, and than the limit
/// for payloads that bypass it.
const REGION: usize = 3000;
const PAYLOAD: usize = 5000;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Opens a connection, and requests to be accepted.
    Connect {
        port: Port,
        pid: u8,
        version: u8,
        is_foreign: bool,
    },
    /// Opens a connection.
    Dial,
    /// Accepts a connection of the endpoint.
    PickUp,
    /// Sends a connect message, expected or unexpected.
    Greet {
        line: u8,
        kind: u8,
        port: Port,
        pid: u8,
    },
    Frame {
        line: u8,
        frame: Sent,
        is_held: bool,
    },
    /// Writes a frame of any kind, with this number of bytes.
    AnyFrame {
        line: u8,
        frame: AnyFrame,
        payload: u16,
    },
    Raw {
        line: u8,
        bytes: Vec<u8>,
    },
    Flip {
        line: u8,
        back: u8,
        mask: u8,
    },
    /// Sends a part of the held bytes.
    Send {
        line: u8,
        count: u16,
    },
    Close {
        line: u8,
        how: End,
    },
    Poll(u8),
    /// The endpoint posts an operation.
    Receive {
        tag: Option<(u8, u8)>,
        len: u16,
        cut: u16,
        from_known: bool,
    },
    Post {
        verb: Verb,
        len: u16,
        cut: u16,
        level: u8,
        data: Option<u64>,
    },
    Cancel(u8),
}

/// Port that the stranger claims as its own.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Port {
    /// A port without an earlier claim.
    New,
    /// Port of the stranger's listener, which is in the endpoint's vector.
    Known,
    /// Port of the endpoint.
    Own,
    /// Port of another connection.
    Of(u8),
    Any(u16),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum End {
    Reset,
    Linger,
    ShutDown,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Verb {
    Send,
    Tagged(u8),
    Inject,
    Read,
    Write,
}

#[derive(Arbitrary, Debug)]
enum Sent {
    Message {
        tag: Option<u8>,
        data: Option<u64>,
        flags: u8,
        len: u16,
    },
    Acknowledgement,
    Read {
        parts: Vec<Part>,
        flags: u8,
    },
    /// Bytes that the endpoint has requested, or this number of others.
    Response {
        other: Option<u16>,
    },
    Write {
        parts: Vec<Part>,
        data: Option<u64>,
        flags: u8,
    },
}

/// Range of remote memory.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Part {
    region: u8,
    at: u16,
    len: u16,
    /// Replaces the address, or the length.
    wild: Option<(bool, u64)>,
}

pub fn tcp_stranger(data: &[u8]) -> usize {
    let mut world = World::open();
    let steps = crate::steps::<Step>(data).map(|step| world.play(step)).count();
    world.settle();
    world.part();
    world.exchange();
    world.close();
    steps
}
