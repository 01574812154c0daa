//! Faults of a story: the plan of the endpoints, and the kinds of faults that a check allows for.

use arbitrary::Arbitrary;
use loom_core::soft::{Every, Plan, RequiredModes};
use loom_core::vocabulary::Caps;

/// Capabilities that may be denied, by the bits of `less`. Higher bits deny order, wide immediate
/// data and several ranges.
const CAPS: [Caps; 5] = [Caps::TAGGED, Caps::RMA, Caps::MULTI_RECV, Caps::DIRECTED_RECV, Caps::SOURCE];
const SOURCE: usize = 4;

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Faults {
    /// One bit for each kind.
    kinds: u8,
    /// One bit for each denied capability, if `kinds` has denials.
    less: u8,
    /// One bit for each place with endpoints without faults.
    spared: u8,
    seed: u16,
    often: u8,
    /// Number of polls. The uppermost bits are the number of lanes.
    polls: u8,
}

impl Faults {
    pub const NONE: Faults = Faults { kinds: 0, less: 0, spared: 0, seed: 0, often: 0, polls: 0 };

    pub fn plan(&self, place: usize, asks: RequiredModes) -> Plan {
        let mut plan = Plan { required: asks, ..Plan::new(self.seed.into()) };
        if self.spared >> place & 1 == 1 {
            return plan;
        }
        let often = u32::from(self.often % 24);
        let every = |least: u32| if self.often < 128 { Every::Nth(least + often) } else { Every::About(least + often) };
        if self.refuses() {
            plan.refuse = every(2);
        }
        if self.delays() {
            plan.delay = self.polls();
        }
        if self.reorders() {
            plan.reorder = self.polls();
        }
        if self.fails() {
            plan.fail = every(1);
        }
        if self.loses() {
            plan.lose = every(1);
        }
        if self.overruns() {
            plan.overrun = every(1);
        }
        if self.kills() {
            plan.kill = every(1);
        }
        for (_, caps) in CAPS.into_iter().enumerate().filter(|(bit, _)| self.lacks(*bit)) {
            plan.without |= caps;
        }
        if self.lacks(5) {
            plan.unordered = true;
        }
        if self.lacks(6) {
            plan.narrow_data = true;
        }
        if self.lacks(7) {
            plan.one_range = true;
        }
        plan
    }

    fn has(&self, kind: u8) -> bool {
        self.kinds >> kind & 1 == 1
    }

    fn lacks(&self, what: usize) -> bool {
        self.grants_less() && self.less >> what & 1 == 1
    }

    pub fn refuses(&self) -> bool {
        self.has(0)
    }

    pub fn delays(&self) -> bool {
        self.has(1)
    }

    pub fn reorders(&self) -> bool {
        self.has(2)
    }

    pub fn fails(&self) -> bool {
        self.has(3)
    }

    pub fn loses(&self) -> bool {
        self.has(4)
    }

    pub fn overruns(&self) -> bool {
        self.has(5)
    }

    pub fn kills(&self) -> bool {
        self.has(6)
    }

    pub fn grants_less(&self) -> bool {
        self.has(7)
    }

    pub fn any(&self) -> bool {
        self.kinds != 0
    }

    /// Returns `true` if endpoints of a place do not report sources.
    pub fn hides_sources(&self, place: usize) -> bool {
        self.lacks(SOURCE) && self.spared >> place & 1 == 0
    }

    /// Maximum number of polls that an operation is in flight.
    pub fn polls(&self) -> u32 {
        u32::from(self.polls % 8) + 1
    }

    /// Number of lanes of an endpoint. Lanes are no fault, but they keep only the order of each
    /// sender's messages.
    pub fn lanes(&self) -> u16 {
        u16::from(self.polls >> 6)
    }

    /// Returns `true` if the posts alone determine the matching. This does not hold if messages of
    /// several senders are reordered or lost, or their arrival is not reported.
    pub fn leave_matching_alone(&self) -> bool {
        !(self.lanes() > 0 || self.delays() || self.loses() || self.overruns() || self.kills())
    }

    /// Returns `true` if writes and reads complete within their posts.
    pub fn leave_rma_alone(&self) -> bool {
        !(self.reorders() || self.loses())
    }
}
