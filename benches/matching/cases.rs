//! Cases: the posted receives or waiting messages, and the order of requests.

use loom_core::engine::tag_matcher::{Envelope, Want};
use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};

use crate::ROUND;
use crate::colliding::Colliding;
use crate::sides::{Side, Size};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Exact receives are posted, messages arrive.
    Exact,
    /// Exact receives with unrelated tags.
    Scattered,
    /// Exact receives that name a source.
    Directed,
    /// Exact receives behind this number of receives with other masks, which accept no message.
    Mixed(u32),
    /// Messages wait, exact receives are posted.
    Unexpected,
    /// Messages wait, receives of one mask are posted.
    UnexpectedMask,
    /// Messages wait, receives that accept any message are posted.
    UnexpectedAny,
    /// Exact receives with tags chosen to collide by an attacker who assumes another seed.
    Adversarial,
    /// Exact receives with tags chosen to collide by an attacker with the right seed.
    SeedKnown,
}

/// Order in which partners are requested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Order of posts or arrivals: the best case of a list.
    AsPosted,
    Random,
}

impl Case {
    pub(crate) const ALL: [Case; 11] = [
        Case::Exact,
        Case::Scattered,
        Case::Directed,
        Case::Mixed(1),
        Case::Mixed(8),
        Case::Mixed(64),
        Case::Unexpected,
        Case::UnexpectedMask,
        Case::UnexpectedAny,
        Case::Adversarial,
        Case::SeedKnown,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Case::Exact => "exact".into(),
            Case::Scattered => "scattered".into(),
            Case::Directed => "directed".into(),
            Case::Mixed(patterns) => format!("mixed_{patterns}"),
            Case::Unexpected => "unexpected".into(),
            Case::UnexpectedMask => "unexpected_mask".into(),
            Case::UnexpectedAny => "unexpected_any".into(),
            Case::Adversarial => "adversarial".into(),
            Case::SeedKnown => "seed_known".into(),
        }
    }

    pub(crate) fn description(self) -> String {
        match self {
            Case::Exact => "posted, exact".into(),
            Case::Scattered => "posted, exact, tags by chance".into(),
            Case::Directed => "posted, exact, from one source".into(),
            Case::Mixed(patterns) => format!("posted, exact, and {patterns} masks"),
            Case::Unexpected => "unexpected, exact".into(),
            Case::UnexpectedMask => "unexpected, one mask".into(),
            Case::UnexpectedAny => "unexpected, any".into(),
            Case::Adversarial => "chosen tags, seed unknown".into(),
            Case::SeedKnown => "chosen tags, seed known".into(),
        }
    }

    /// A list has its best case in this one order, so the other order gives no more information.
    pub(crate) const fn orders(self) -> &'static [Order] {
        match self {
            Case::Exact | Case::Scattered | Case::Unexpected => &[Order::AsPosted, Order::Random],
            // The oldest message is taken in any order.
            Case::UnexpectedAny => &[Order::AsPosted],
            _ => &[Order::Random],
        }
    }

    const fn waits(self) -> bool {
        matches!(self, Case::Unexpected | Case::UnexpectedMask | Case::UnexpectedAny)
    }

    fn tags(self, seed: u64, depth: u32) -> Tags {
        let colliding = |seed| (0..depth.into()).map(|nth| Colliding::new(seed).tag(nth)).collect();
        match self {
            Case::Scattered => Tags::Scattered,
            Case::Adversarial => Tags::Colliding(colliding(!seed)),
            Case::SeedKnown => Tags::Colliding(colliding(seed)),
            _ => Tags::InARow,
        }
    }

    fn want(self, tag: Tag) -> Want {
        let source = if self == Case::Directed { SENDER } else { FabricAddr::UNSPEC };
        let ignore = match self {
            Case::UnexpectedMask => 0xff << 48,
            Case::UnexpectedAny => u64::MAX,
            _ => 0,
        };
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

/// Tags of a case.
enum Tags {
    /// Consecutive tags.
    InARow,
    Scattered,
    /// Precomputed tags.
    Colliding(Vec<Tag>),
}

impl Tags {
    #[inline]
    fn tag(&self, nth: u64) -> Tag {
        match self {
            Tags::InARow => Tag(nth),
            Tags::Scattered => {
                let mixed = (nth ^ nth << 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                Tag((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 1)
            }
            Tags::Colliding(tags) => tags[usize::try_from(nth).expect("there are as many")],
        }
    }
}

/// A side in the middle of a case.
pub(crate) struct Run<S> {
    case: Case,
    order: Order,
    depth: u32,
    side: S,
    tags: Tags,
    next: u32,
    random: Random,
}

impl<S: Side> Run<S> {
    pub(crate) fn new(case: Case, order: Order, depth: u32, side: (impl FnOnce(Size) -> S, u64)) -> Self {
        let mut run = Self::in_order(case, order, depth, side);
        // After this, one-time work is done, and the order of requests is no longer the order of
        // creation.
        run.run(if order == Order::Random { depth.min(ROUND) } else { 1 });
        run
    }

    /// Returns a run with all entries in the order of creation.
    pub(crate) fn in_order(case: Case, order: Order, depth: u32, (side, seed): (impl FnOnce(Size) -> S, u64)) -> Self {
        let others = if let Case::Mixed(patterns) = case { patterns } else { 0 };
        let size = if case.waits() {
            Size { receives: 1, messages: depth }
        } else {
            Size { receives: depth + others, messages: 1 }
        };
        let mut side = side(size);
        for other in 0..others {
            // A bit that no tag has set. Each ignores other bits.
            let tag = TagMatch { tag: Tag(1 << 63), ignore: u64::from(other) + 1 };
            side.post(Want { tag, source: FabricAddr::UNSPEC });
        }
        let tags = case.tags(seed, depth);
        for nth in 0..depth {
            let tag = tags.tag(nth.into());
            if case.waits() {
                side.keep(Envelope { tag, source: SENDER });
            } else {
                side.post(case.want(tag));
            }
        }
        Run { case, order, depth, side, tags, next: 0, random: Random::new() }
    }

    /// Does a number of operations.
    #[inline(never)]
    pub(crate) fn run(&mut self, count: u32) {
        for _ in 0..count {
            let nth = match self.order {
                Order::AsPosted => self.next,
                Order::Random => self.random.below(self.depth),
            };
            self.next = if self.next + 1 == self.depth { 0 } else { self.next + 1 };
            let tag = self.tags.tag(nth.into());
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

    /// Approximate bytes of the engine that the operations of this run access. The engine has more,
    /// some of it for masks.
    pub(crate) fn footprint(&self) -> usize {
        // Of a posted receive: the record, its slot, and four bytes for each of eight buckets. Of a
        // message: the record, its slot, two links and sixteen buckets.
        let of_each = if self.case.waits() { 40 + 8 + 2 * 24 + 16 * 4 } else { 64 + 8 + 8 * 4 };
        self.depth as usize * of_each
    }
}

/// Reproducible pseudorandom numbers.
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
