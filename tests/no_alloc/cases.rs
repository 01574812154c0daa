//! What is run.

use std::fmt;

use loom_core::objects::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::Caps;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Message(Message),
    /// A message that is longer than the buffer.
    Truncated {
        tagged: bool,
    },
    Read,
    Write {
        data: bool,
        inject: bool,
    },
    /// A receive that is cancelled.
    Cancel,
    EmptyPoll,
}

/// A message: how it is sent, and how it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub tagged: bool,
    /// With immediate data.
    pub data: bool,
    pub inject: bool,
    /// Received from one peer only.
    pub directed: bool,
    /// Arrives before a receive is posted.
    pub unexpected: bool,
    /// Reaped by `wait`, not by `poll`.
    pub wait: bool,
}

impl Message {
    const PLAIN: Message =
        Message { tagged: false, data: false, inject: false, directed: false, unexpected: false, wait: false };
    const TAGGED: Message = Message { tagged: true, ..Self::PLAIN };

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
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub kind: Kind,
    /// Bytes.
    pub size: usize,
    pub rounds: u64,
}

const SHORT: usize = 64;
const LONG: usize = 1 << 20;

/// 10⁵ rounds.
const fn short(kind: Kind) -> Case {
    Case { kind, size: SHORT, rounds: 100_000 }
}

/// 10³ rounds: 10⁵ of them would move 100 GB.
const fn long(kind: Kind) -> Case {
    Case { kind, size: LONG, rounds: 1000 }
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
    short(Kind::Message(TAGGED.wait())),
    long(Kind::Message(TAGGED.wait())),
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
    short(Kind::Cancel),
    Case { kind: Kind::EmptyPoll, size: 0, rounds: 100_000 },
];

impl Case {
    /// Rounds before the measured ones.
    pub fn warm_up(&self) -> u64 {
        (self.rounds / 50).max(1)
    }

    /// Why it is not run over a transport, which may be `deaf` after a message that was truncated.
    pub fn unsuitable<T: Transport>(&self, info: &Info<T>, deaf: bool) -> Option<&'static str> {
        let inject = match self.kind {
            Kind::Message(message) => message.inject,
            Kind::Write { inject, .. } => inject,
            _ => false,
        };
        let directed = matches!(self.kind, Kind::Message(message) if message.directed);
        if inject && info.attributes().tx.inject_size < self.size {
            Some("longer than what can be injected")
        } else if directed && !info.caps().contains(Caps::DIRECTED_RECV) {
            Some("directed receive is not granted")
        } else if matches!(self.kind, Kind::Truncated { .. }) && deaf {
            Some("after a message that was truncated, this provider delivers nothing more from that peer")
        } else {
            None
        }
    }
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
                ] {
                    text.push_str(if is { word } else { "" });
                }
                text
            }
            Kind::Truncated { tagged: false } => "message truncated".into(),
            Kind::Truncated { tagged: true } => "tagged truncated".into(),
            Kind::Read => "RMA read".into(),
            Kind::Write { data, inject } => {
                format!("RMA{} write{}", if inject { " inject" } else { "" }, if data { " data" } else { "" })
            }
            Kind::Cancel => "cancel a receive".into(),
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
