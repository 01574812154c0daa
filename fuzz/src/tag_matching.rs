//! The tag matcher against its oracle.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::engine::tag_matcher::{Envelope, TagMatcherAttr, Want};
use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};

use crate::matching::{Action, Colliding, World};

/// Tag from a small set. Some differ in one bit, some collide in the matcher.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Kind {
    Small(u8),
    Bit(u8),
    Colliding(u8),
    Whatever(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Ignored {
    Nothing,
    Everything,
    /// Mask of this number of the lowest bits.
    Low(u8),
    /// Mask of all bits except this number of the highest.
    High(u8),
    Whatever(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Message {
    tag: Kind,
    source: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Receive {
    tag: Kind,
    ignored: Ignored,
    source: u8,
}

/// Step before its numbers are resolved to existing operations.
#[derive(Arbitrary, Debug)]
enum Step {
    Arrive { message: Message, multi: bool },
    Post(Receive),
    Peek { receive: Receive, claim: bool },
    Cancel(u8),
    Revoke(u8),
    Stale(u8),
}

/// Source of a message, which may be unknown, or of a receive, which may be any.
fn source(number: u8) -> FabricAddr {
    match number % 4 {
        0 => FabricAddr::UNSPEC,
        known => FabricAddr(known.into()),
    }
}

impl Kind {
    fn tag(self, seed: u64) -> Tag {
        match self {
            Kind::Small(tag) => Tag((tag % 8).into()),
            Kind::Bit(bit) => Tag(1 << (bit % 64)),
            Kind::Colliding(nth) => Colliding::new(seed).tag(nth.into()),
            Kind::Whatever(tag) => Tag(tag),
        }
    }
}

impl Ignored {
    fn mask(self) -> u64 {
        match self {
            Ignored::Nothing => 0,
            Ignored::Everything => u64::MAX,
            Ignored::Low(bits) => (1 << (bits % 64)) - 1,
            Ignored::High(bits) => u64::MAX >> (bits % 64),
            Ignored::Whatever(mask) => mask,
        }
    }
}

impl Step {
    fn action(&self, seed: u64) -> Action {
        let want = |receive: &Receive| {
            let tag = TagMatch { tag: receive.tag.tag(seed), ignore: receive.ignored.mask() };
            Want { tag, source: source(receive.source) }
        };
        match self {
            Step::Arrive { message, multi } => {
                let envelope = Envelope { tag: message.tag.tag(seed), source: source(message.source) };
                Action::Arrive { envelope, multi: *multi }
            }
            Step::Post(receive) => Action::Post(want(receive)),
            Step::Peek { receive, claim } => Action::Peek { want: want(receive), claim: *claim },
            Step::Cancel(nth) => Action::Cancel { nth: (*nth).into() },
            Step::Revoke(nth) => Action::Revoke { nth: (*nth).into() },
            Step::Stale(nth) => Action::Stale { nth: (*nth).into() },
        }
    }
}

/// Plays messages and receives, with and without masks and sources, in matchers of one to
/// thirty-two places. They arrive, are posted, peeked, claimed, cancelled and withdrawn.
pub fn tag_matching(data: &[u8]) -> usize {
    /// Limit of steps, because the oracle searches all messages.
    const MOST: usize = 250;
    let mut bytes = Unstructured::new(data);
    let Ok((receives, messages, masks, seed)) = bytes.arbitrary::<(u8, u8, u8, u8)>() else { return 0 };
    let attr = TagMatcherAttr {
        receives: u32::from(receives % 32) + 1,
        messages: u32::from(messages % 32) + 1,
        masks: (masks % 4).into(),
        seed: seed.into(),
    };
    let mut world = World::new(attr);
    let mut played = 0;
    while played < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step>() else { break };
        world.apply(step.action(attr.seed));
        played += 1;
    }
    world.close();
    played
}
