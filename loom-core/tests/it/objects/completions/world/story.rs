//! Language of the inputs. Numbers are taken modulo the number of choices.

use arbitrary::Arbitrary;

/// Parameters of the queue.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Setting {
    /// A provider queue for each direction.
    pub separate: bool,
    /// Contexts are addresses.
    pub spaces: bool,
    pub prefixes: bool,
    /// Peers' writes use up receives.
    pub consumes: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    Post {
        endpoint: bool,
        what: Posting,
        len: u8,
    },
    Fetch {
        nth: u8,
        discard: bool,
        len: u8,
    },
    /// Adds an event to a provider's queue, which the next polls find.
    Event {
        queue: bool,
        of: Of,
        says: Says,
    },
    /// Adds this number of peers' events.
    Crowd {
        queue: bool,
        count: u8,
    },
    /// A provider's queue fails, or announces an error without one.
    Failure {
        queue: bool,
        errno: Option<u8>,
    },
    Poll(Side),
    Progress,
    Wait {
        nth: u8,
        spins: u8,
    },
    WaitPeek {
        nth: u8,
    },
    DropPiece {
        nth: u8,
    },
    /// The next post is refused.
    Refuse {
        errno: Option<u8>,
    },
    Cancel {
        nth: u8,
    },
    Close {
        endpoint: bool,
    },
    Open {
        endpoint: bool,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    Send,
    Gather,
    Write,
    Read,
    Receive,
    Scatter,
    TaggedReceive,
    MultiReceive,
    Peek,
    PeekClaim,
    PeekDiscard,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Of {
    /// An operation in flight.
    Live(u8),
    /// An ended operation.
    Past(u8),
    /// A context that was not posted.
    Nobody(u64),
}

/// Fields of an event.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Says {
    pub flags: Flags,
    pub len: Len,
    /// Offset of a message from the first lent byte, or the length that did not fit.
    pub place: Place,
    pub tag: u8,
    pub data: u8,
    pub source: Option<u8>,
    pub error: Option<Failed>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Failed {
    /// Zero is a success where an error was announced.
    pub errno: Number,
    pub provider_errno: i32,
    /// Announced by `EAVAIL`.
    pub announced: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Number {
    Truncated,
    Cancelled,
    NoMessage,
    Any(u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Flags {
    /// Usual flags of the kind.
    Usual,
    /// Usual flags with these bits inverted.
    But(u32),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Len {
    /// Difference from the lent length.
    Lent(i8),
    Part(u8),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Place {
    Offset(i8),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Side {
    Both,
    Transmit,
    Receive,
}
