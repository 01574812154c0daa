//! The language of the inputs. Whatever a number names, it is taken modulo how many there are.

use arbitrary::Arbitrary;

/// How the queue is opened.
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
    /// A provider's queue has an event, which the next polls find.
    Event {
        queue: bool,
        of: Of,
        says: Says,
    },
    /// As many events of peers.
    Crowd {
        queue: bool,
        count: u8,
    },
    /// A provider's queue fails, or says that there is an error where there is none.
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
    /// One that is over.
    Past(u8),
    /// A context that nobody has posted.
    Nobody(u64),
}

/// What an event says.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Says {
    pub flags: Flags,
    pub len: Len,
    /// Where a message lies, counted from the first byte that was lent; or what did not fit.
    pub place: Place,
    pub tag: u8,
    pub data: u8,
    pub source: Option<u8>,
    pub error: Option<Failed>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Failed {
    /// None is a success where an error was announced.
    pub errno: Number,
    pub provider_errno: i32,
    /// By way of `EAVAIL`.
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
    /// Those of its kind.
    Usual,
    /// Those, but for these.
    But(u32),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Len {
    /// So many more than were lent, or fewer.
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
