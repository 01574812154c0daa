//! Language of the inputs: the network, and the steps of a story. Each number is taken modulo the
//! count of its subjects.

use arbitrary::Arbitrary;
use loom_core::soft::RequiredModes;

use super::faults::Faults;

/// Network: requirements of its domains, and faults.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Setting {
    pub asked: Asked,
    pub faults: Option<Faults>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Asked {
    Nothing,
    /// Room in front of messages and in contexts. Both are used.
    Prefixes,
    Contexts,
}

impl Asked {
    pub fn asks(self) -> RequiredModes {
        match self {
            Asked::Nothing => RequiredModes::empty(),
            Asked::Prefixes => RequiredModes::PREFIXES | RequiredModes::LARGE_CONTEXTS,
            Asked::Contexts => RequiredModes::CONTEXTS,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    Open {
        place: u8,
    },
    Close {
        place: u8,
    },
    /// Sends out of one buffer, or out of two with a `cut`.
    Send {
        from: u8,
        to: u8,
        len: u8,
        tag: Option<u8>,
        data: Option<u64>,
        cut: Option<u8>,
    },
    Inject {
        from: u8,
        to: u8,
        len: u8,
        tag: Option<u8>,
        data: Option<u64>,
    },
    Receive {
        at: u8,
        from: Option<u8>,
        tag: Option<Wanted>,
        len: u8,
        cut: Option<u8>,
    },
    MultiReceive {
        at: u8,
        from: Option<u8>,
        len: u8,
    },
    Peek {
        at: u8,
        from: Option<u8>,
        tag: Wanted,
        what: Look,
    },
    Fetch {
        nth: u8,
        len: u8,
    },
    DiscardClaim {
        nth: u8,
    },
    Cancel {
        nth: u8,
    },
    Poll {
        queue: u8,
        side: Side,
    },
    Wait {
        nth: u8,
        spins: u8,
    },
    DropPiece {
        nth: u8,
    },
    OpenRegion {
        place: u8,
    },
    CloseRegion {
        place: u8,
    },
    Rma {
        from: u8,
        to: u8,
        region: u8,
        offset: u8,
        len: u8,
        what: Access,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Wanted {
    Any,
    Exact(u8),
    Masked(u8, u8),
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Only,
    Claim,
    Discard,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Side {
    Both,
    Transmit,
    Receive,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Access {
    Read,
    /// Reads two parts of the region into two buffers.
    ReadParts(u8),
    Write,
    WriteData(u64),
    WriteParts(u8),
    Inject,
    InjectData(u64),
}
