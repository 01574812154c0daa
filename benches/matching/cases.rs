//! The cases: what is posted or waits, and in which order it is asked for.

use loom_core::engine::tag_matcher::{Envelope, Want};
use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};

use crate::ROUND;
use crate::colliding::colliding_tags;
use crate::sides::{SEED, Side, Size};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Exact receives are posted, messages arrive.
    Exact,
    /// Exact receives that name a source.
    Directed,
    /// Exact receives behind so many receives of other masks, which accept nothing.
    Mixed(u32),
    /// Messages wait, exact receives are posted.
    Unexpected,
    /// Messages wait, receives of one mask are posted.
    UnexpectedMask,
    /// Exact receives whose tags were chosen to collide, by somebody who takes the seed for another one.
    Adversarial,
    /// The same by somebody who knows it.
    SeedKnown,
}

/// In which order partners are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// That in which they were posted or have arrived: the best of a list.
    AsPosted,
    Random,
}

impl Case {
    pub(crate) const ALL: [Case; 9] = [
        Case::Exact,
        Case::Directed,
        Case::Mixed(1),
        Case::Mixed(8),
        Case::Mixed(64),
        Case::Unexpected,
        Case::UnexpectedMask,
        Case::Adversarial,
        Case::SeedKnown,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Case::Exact => "exact".into(),
            Case::Directed => "directed".into(),
            Case::Mixed(patterns) => format!("mixed_{patterns}"),
            Case::Unexpected => "unexpected".into(),
            Case::UnexpectedMask => "unexpected_mask".into(),
            Case::Adversarial => "adversarial".into(),
            Case::SeedKnown => "seed_known".into(),
        }
    }

    pub(crate) fn description(self) -> String {
        match self {
            Case::Exact => "posted, exact".into(),
            Case::Directed => "posted, exact, from one source".into(),
            Case::Mixed(patterns) => format!("posted, exact, and {patterns} masks"),
            Case::Unexpected => "unexpected, exact".into(),
            Case::UnexpectedMask => "unexpected, one mask".into(),
            Case::Adversarial => "chosen tags, seed unknown".into(),
            Case::SeedKnown => "chosen tags, seed known".into(),
        }
    }

    /// A list is always at its best in the one order, and what is compared with it says nothing else either.
    pub(crate) const fn orders(self) -> &'static [Order] {
        match self {
            Case::Exact | Case::Unexpected => &[Order::AsPosted, Order::Random],
            _ => &[Order::Random],
        }
    }

    const fn waits(self) -> bool {
        matches!(self, Case::Unexpected | Case::UnexpectedMask)
    }

    /// The tag of this number.
    fn tag(self, nth: u64) -> Tag {
        match self {
            Case::Adversarial => colliding_tags(!SEED)(nth),
            Case::SeedKnown => colliding_tags(SEED)(nth),
            // The low bits are for masks.
            _ => Tag(nth << 8),
        }
    }

    fn want(self, tag: Tag) -> Want {
        let source = if self == Case::Directed { SENDER } else { FabricAddr::UNSPEC };
        let ignore = if self == Case::UnexpectedMask { 0xff } else { 0 };
        Want { tag: TagMatch { tag, ignore }, source }
    }
}

const SENDER: FabricAddr = FabricAddr(3);

impl Order {
    pub(crate) const ALL: [Order; 2] = [Order::AsPosted, Order::Random];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Order::AsPosted => "as_posted",
            Order::Random => "random",
        }
    }
}

/// A side in the middle of a case.
pub(crate) struct Run<S> {
    case: Case,
    order: Order,
    depth: u32,
    side: S,
    /// The first tag, and how far each is from the one before.
    tags: (u64, u64),
    next: u32,
    random: Random,
}

impl<S: Side> Run<S> {
    pub(crate) fn new(case: Case, order: Order, depth: u32, side: impl FnOnce(Size) -> S) -> Self {
        let others = if let Case::Mixed(patterns) = case { patterns } else { 0 };
        let size = if case.waits() {
            Size { receives: 1, messages: depth }
        } else {
            Size { receives: depth + others, messages: 1 }
        };
        let mut side = side(size);
        for other in 0..others {
            // Of a bit that no tag has set; and each ignores others.
            let tag = TagMatch { tag: Tag(1 << 63), ignore: u64::from(other) + 1 };
            side.post(Want { tag, source: FabricAddr::UNSPEC });
        }
        let first = case.tag(0).0;
        let tags = (first, case.tag(1).0.wrapping_sub(first));
        for nth in 0..depth {
            let tag = case.tag(nth.into());
            if case.waits() {
                side.keep(Envelope { tag, source: SENDER });
            } else {
                side.post(case.want(tag));
            }
        }
        let mut run = Run { case, order, depth, side, tags, next: 0, random: Random::new() };
        // Whatever is done once is done; and those that are asked for are no more in the order in which they were made.
        run.run(if order == Order::Random { depth.min(ROUND) } else { 1 });
        run
    }

    /// So many operations.
    #[inline(never)]
    pub(crate) fn run(&mut self, count: u32) {
        for _ in 0..count {
            let nth = match self.order {
                Order::AsPosted => self.next,
                Order::Random => self.random.below(self.depth),
            };
            self.next = if self.next + 1 == self.depth { 0 } else { self.next + 1 };
            let tag = Tag(self.tags.0.wrapping_add(self.tags.1.wrapping_mul(nth.into())));
            let (want, envelope) = (self.case.want(tag), Envelope { tag, source: SENDER });
            if self.case.waits() {
                self.side.take_message(&want);
                self.side.keep(envelope);
            } else {
                self.side.take_receive(&envelope);
                self.side.post(want);
            }
        }
    }

    pub(crate) fn footprint(&self) -> usize {
        self.side.footprint()
    }
}

/// Numbers that nothing foresees, and which are always the same.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new() -> Self {
        Random(1)
    }

    #[inline]
    pub(crate) const fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * bound as u64) >> 32) as u32
    }
}
