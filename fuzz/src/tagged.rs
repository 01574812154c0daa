//! Tagged messages over plain ones, in order and out of it, against their oracle.

use arbitrary::{Arbitrary, Unstructured};

use crate::tagged_world::nodes::FITS;
use crate::tagged_world::{Action, NODES, Then, play};

/// Step. Its numbers select among the existing operations.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Send { from: u8, to: u8, tag: u8, len: Len, data: Option<u64> },
    Receive { at: u8, from: Option<u8>, tag: u8, ignore: Ignored, room: Len },
    Peek { at: u8, from: Option<u8>, tag: u8, ignore: Ignored, then: u8 },
    Fetch { at: u8, nth: u8, room: Len },
    Discard { at: u8, nth: u8 },
    CancelReceive { at: u8, nth: u8 },
    CancelSend { at: u8, nth: u8 },
    Settle,
}

/// Length of about one packet, or of several.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Len {
    Short(u8),
    Fits,
    Long(u16),
}

impl From<Len> for usize {
    fn from(len: Len) -> Self {
        match len {
            Len::Short(len) => usize::from(len) % (FITS + 2),
            Len::Fits => FITS,
            Len::Long(len) => usize::from(len) % (10 * FITS),
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Ignored {
    Nothing,
    Some(u8),
    Everything,
}

impl From<Ignored> for u64 {
    fn from(ignored: Ignored) -> Self {
        match ignored {
            Ignored::Nothing => 0,
            Ignored::Some(bits) => (bits % 4).into(),
            Ignored::Everything => u64::MAX,
        }
    }
}

impl From<Step> for Action {
    fn from(step: Step) -> Self {
        let node = |number: u8| usize::from(number) % NODES;
        let tag = |tag: u8| u64::from(tag % 4);
        let source = |from: Option<u8>| from.map(usize::from);
        match step {
            Step::Send { from, to, tag: of, len, data } => {
                Action::Send { from: node(from), to: to.into(), tag: tag(of), len: len.into(), data }
            }
            Step::Receive { at, from, tag: of, ignore, room } => Action::Receive {
                at: node(at),
                from: source(from),
                tag: tag(of),
                ignore: ignore.into(),
                room: room.into(),
            },
            Step::Peek { at, from, tag: of, ignore, then } => Action::Peek {
                at: node(at),
                from: source(from),
                tag: tag(of),
                ignore: ignore.into(),
                then: match then % 3 {
                    0 => Then::Nothing,
                    1 => Then::Claim,
                    _ => Then::Discard,
                },
            },
            Step::Fetch { at, nth, room } => Action::Fetch { at: node(at), nth: nth.into(), room: room.into() },
            Step::Discard { at, nth } => Action::Discard { at: node(at), nth: nth.into() },
            Step::CancelReceive { at, nth } => Action::CancelReceive { at: node(at), nth: nth.into() },
            Step::CancelSend { at, nth } => Action::CancelSend { at: node(at), nth: nth.into() },
            Step::Settle => Action::Settle,
        }
    }
}

/// Plays three nodes that send to each other, peek, claim, discard and cancel.
pub fn tagged(data: &[u8]) -> usize {
    const MOST: usize = 100;
    let mut bytes = Unstructured::new(data);
    let Ok(shuffled) = bytes.arbitrary::<Option<u16>>() else { return 0 };
    let mut story = Vec::new();
    while story.len() < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step>() else { break };
        story.push(step);
    }
    let steps = story.len();
    play(shuffled.map(usize::from), story.into_iter().map(Action::from));
    steps
}
