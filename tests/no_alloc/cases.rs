//! Cases of the gate.

use std::fmt;

use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, EndpointType};
use support::behaviours::pair::is_tested;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Message(Message),
    /// Message that exceeds the buffer.
    Truncated {
        tagged: bool,
    },
    /// Buffer for two messages.
    MultiReceive {
        tagged: bool,
    },
    Read,
    Write {
        data: bool,
        inject: bool,
    },
    /// Cancelled receive.
    CancelReceive {
        tagged: bool,
    },
    /// Cancelled tagged send, before the receiver has seen it, or after its arrival.
    CancelSend {
        arrived: bool,
    },
    EmptyPoll,
}

/// Message, with its ways of sending and receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub tagged: bool,
    /// Carries immediate data.
    pub data: bool,
    pub inject: bool,
    /// Uses a receive from one peer only.
    pub directed: bool,
    /// Arrives before its receive is posted. Without a later message that overtakes it, it is only
    /// sent before.
    pub unexpected: bool,
    /// Uses `wait` for its completion, and not `poll`.
    pub wait: bool,
    /// Uses the calls with options for send and receive.
    pub msg: bool,
}

impl Message {
    pub const PLAIN: Message = Message {
        tagged: false,
        data: false,
        inject: false,
        directed: false,
        unexpected: false,
        wait: false,
        msg: false,
    };
    pub const TAGGED: Message = Message { tagged: true, ..Self::PLAIN };

    const fn unexpected(self) -> Self {
        Message { unexpected: true, ..self }
    }

    const fn data(self) -> Self {
        Message { data: true, ..self }
    }

    const fn inject(self) -> Self {
        Message { inject: true, ..self }
    }

    const fn directed(self) -> Self {
        Message { directed: true, ..self }
    }

    const fn wait(self) -> Self {
        Message { wait: true, ..self }
    }

    const fn msg(self) -> Self {
        Message { msg: true, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub kind: Kind,
    /// Size in bytes.
    pub size: usize,
}

/// Facts of a transport that its info does not contain.
pub struct Facts<'n> {
    pub name: &'n str,
    /// Rounds of a case that moves few bytes.
    pub rounds: u64,
    /// Rounds of a case that moves 1 MiB. [`ROUNDS`] rounds would move 100 GB.
    pub long_rounds: u64,
    /// A long send that was not received can be cancelled.
    pub cancels_sends: bool,
    /// Reason for the known failure of a kind.
    pub fault: fn(Kind) -> Option<&'static str>,
}

/// Number of rounds for the profile. In the dev profile, `cargo test` runs a hundredth of many, and
/// a tenth of few.
pub const fn scaled(rounds: u64) -> u64 {
    match rounds {
        _ if cfg!(not(debug_assertions)) => rounds,
        0..2_000 => rounds / 10,
        _ => rounds / 100,
    }
}

/// Rounds of every other case, over the transports with the most measurements.
pub const ROUNDS: u64 = scaled(100_000);

const SHORT: usize = 64;
const LONG: usize = 1 << 20;

const fn short(kind: Kind) -> Case {
    Case { kind, size: SHORT }
}

const fn long(kind: Kind) -> Case {
    Case { kind, size: LONG }
}

const MESSAGE: Message = Message::PLAIN;
const TAGGED: Message = Message::TAGGED;

pub const CASES: &[Case] = &[
    short(Kind::Message(MESSAGE)),
    short(Kind::Message(MESSAGE.unexpected())),
    long(Kind::Message(MESSAGE)),
    long(Kind::Message(MESSAGE.unexpected())),
    short(Kind::Message(TAGGED)),
    short(Kind::Message(TAGGED.unexpected())),
    long(Kind::Message(TAGGED)),
    long(Kind::Message(TAGGED.unexpected())),
    short(Kind::Message(MESSAGE.data())),
    short(Kind::Message(TAGGED.data())),
    short(Kind::Message(MESSAGE.inject())),
    short(Kind::Message(MESSAGE.inject().unexpected())),
    short(Kind::Message(TAGGED.inject())),
    short(Kind::Message(TAGGED.inject().unexpected())),
    short(Kind::Message(MESSAGE.inject().data())),
    short(Kind::Message(TAGGED.inject().data())),
    short(Kind::Message(MESSAGE.directed())),
    short(Kind::Message(TAGGED.directed())),
    short(Kind::Message(TAGGED.directed().unexpected())),
    short(Kind::Message(MESSAGE.wait())),
    short(Kind::Message(TAGGED.wait())),
    long(Kind::Message(TAGGED.wait())),
    short(Kind::Message(MESSAGE.msg())),
    short(Kind::Message(TAGGED.msg().data())),
    long(Kind::Message(TAGGED.msg())),
    short(Kind::MultiReceive { tagged: false }),
    short(Kind::MultiReceive { tagged: true }),
    short(Kind::Read),
    long(Kind::Read),
    short(Kind::Write { data: false, inject: false }),
    long(Kind::Write { data: false, inject: false }),
    short(Kind::Write { data: true, inject: false }),
    long(Kind::Write { data: true, inject: false }),
    short(Kind::Write { data: false, inject: true }),
    short(Kind::Write { data: true, inject: true }),
    short(Kind::Truncated { tagged: false }),
    short(Kind::Truncated { tagged: true }),
    short(Kind::CancelReceive { tagged: false }),
    short(Kind::CancelReceive { tagged: true }),
    long(Kind::CancelSend { arrived: false }),
    long(Kind::CancelSend { arrived: true }),
    Case { kind: Kind::EmptyPoll, size: 0 },
];

impl Case {
    /// Number of rounds over a transport.
    pub fn rounds(&self, facts: &Facts<'_>) -> u64 {
        // A cancelled message is not moved, whatever its length.
        let moves = !matches!(self.kind, Kind::CancelSend { .. });
        if self.size == LONG && moves { facts.long_rounds } else { facts.rounds }
    }

    /// Required capabilities, except those with their own reason for a skip.
    pub fn needs(&self) -> Caps {
        match self.kind {
            Kind::Read | Kind::Write { .. } => Caps::RMA,
            Kind::Message(Message { tagged: true, .. })
            | Kind::Truncated { tagged: true }
            | Kind::CancelReceive { tagged: true }
            | Kind::MultiReceive { tagged: true }
            | Kind::CancelSend { .. } => Caps::TAGGED,
            _ => Caps::MSG,
        }
    }

    /// Returns the reason to skip the case over a transport.
    pub fn unsuitable<T: Transport + 'static>(&self, info: &Info<T>, facts: &Facts<'_>) -> Option<&'static str> {
        let (inject, data) = match self.kind {
            Kind::Message(message) => (message.inject, message.data),
            Kind::Write { inject, data } => (inject, data),
            _ => (false, false),
        };
        let directed = matches!(self.kind, Kind::Message(message) if message.directed);
        let plain = matches!(self.kind, Kind::Message(message) if !message.tagged);
        let attributes = info.attributes();
        if self.needs() == Caps::RMA && !ends_regions(info) {
            Some("endpoints of a provider that is not tested stay open, and reach what a scope lends")
        } else if !info.caps().contains(self.needs()) {
            Some(if self.needs() == Caps::RMA { "RMA is not granted" } else { "tagged messages are not granted" })
        } else if self.size > attributes.endpoint.max_msg_size {
            Some("longer than a message can be")
        } else if data && attributes.domain.cq_data_size == 0 {
            Some("there is no immediate data")
        } else if inject && attributes.tx.inject_size < self.size {
            Some("longer than what can be injected")
        } else if directed && attributes.endpoint.kind == EndpointType::MSG {
            Some("a connection has one peer only")
        } else if directed && !info.caps().contains(Caps::DIRECTED_RECV) {
            Some("directed receive is not granted")
        } else if directed && plain && !T::quirks(info.raw()).directed_recv {
            Some("directed receive of messages without tag is refused")
        } else if self.kind == (Kind::MultiReceive { tagged: false }) && !takes_many(info) {
            Some("multi-receive is not granted, or the provider is not tested")
        } else if self.kind == (Kind::MultiReceive { tagged: true }) && !info.caps().contains(Caps::TAGGED_MULTI_RECV) {
            Some("multi-receive of tagged messages is not granted")
        } else if matches!(self.kind, Kind::CancelSend { .. }) && !facts.cancels_sends {
            Some("this provider cancels receives only")
        } else {
            (facts.fault)(self.kind)
        }
    }
}

/// Returns `true` if an endpoint receives several messages into one buffer.
pub fn takes_many<T: Transport + 'static>(info: &Info<T>) -> bool {
    info.caps().contains(Caps::MULTI_RECV) && is_tested(info)
}

/// Returns `true` if a scope can end with messages in flight. Sends of `ofi_rxd` complete when the
/// peer is polled.
pub fn ends_sends<T: Transport + 'static>(info: &Info<T>) -> bool {
    info.provider() != "udp;ofi_rxd" || is_tested(info)
}

/// Returns `true` if memory of a scope can be exposed.
pub fn ends_regions<T: Transport + 'static>(info: &Info<T>) -> bool {
    info.provider() != "shm" || is_tested(info)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = match self.kind {
            Kind::Message(message) => {
                let mut text = String::from(if message.tagged { "tagged" } else { "message" });
                for (is, word) in [
                    (message.inject, " inject"),
                    (message.data, " data"),
                    (message.directed, " directed"),
                    (message.wait, " wait"),
                    (message.msg, " msg"),
                ] {
                    text.push_str(if is { word } else { "" });
                }
                text
            }
            Kind::Truncated { tagged: false } => "message truncated".into(),
            Kind::Truncated { tagged: true } => "tagged truncated".into(),
            Kind::MultiReceive { tagged: false } => "multi-receive of two".into(),
            Kind::MultiReceive { tagged: true } => "tagged multi-receive".into(),
            Kind::Read => "RMA read".into(),
            Kind::Write { data, inject } => {
                format!("RMA{} write{}", if inject { " inject" } else { "" }, if data { " data" } else { "" })
            }
            Kind::CancelReceive { tagged: false } => "cancel a receive".into(),
            Kind::CancelReceive { tagged: true } => "cancel a tagged receive".into(),
            Kind::CancelSend { arrived: false } => "cancel a send".into(),
            Kind::CancelSend { arrived: true } => "cancel an arrived send".into(),
            Kind::EmptyPoll => "poll of an empty queue".into(),
        };
        if self.size > 0 {
            let (size, unit) = if self.size == LONG { (1, "MiB") } else { (self.size, "B") };
            text = format!("{text:<22} {size:>3} {unit:<3}");
        }
        if let Kind::Message(message) = self.kind {
            text.push_str(if message.unexpected { " unexpected" } else { " expected" });
        }
        f.pad(&text)
    }
}
