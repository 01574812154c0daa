//! The language of the inputs: the steps of a story. Whatever a number names, it is taken modulo how many there are.

use arbitrary::Arbitrary;

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    Open { place: u8 },
    Close { place: u8 },
    Send { from: u8, to: u8, len: u8, tag: Option<u8>, data: Option<u64> },
    Inject { from: u8, to: u8, len: u8, tag: Option<u8>, data: Option<u64> },
    Receive { at: u8, from: Option<u8>, tag: Option<Wanted>, len: u8 },
    Cancel { nth: u8 },
    Poll { queue: u8, side: Side },
    Wait { nth: u8, spins: u8 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Wanted {
    Any,
    Exact(u8),
    Masked(u8, u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Side {
    Both,
    Transmit,
    Receive,
}
