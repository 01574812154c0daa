//! Faults, and the permitted results under each.

use loom_core::soft::{Every, Injected, Plan, RequiredModes};
use loom_core::vocabulary::{Caps, Errno};

use crate::posting::Cut;

pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) plan: fn(u64) -> Plan,
    /// Number of injections, from the network's count and the grants that the info lacks.
    pub(crate) count: fn(Injected, Less) -> u64,
    /// Permitted causes of a behaviour that is cut short. The list is empty for a fault after which
    /// an application only has to retry: every behaviour is shown.
    pub(crate) cut_short_by: &'static [Cut],
}

/// Number of grants of a network that were left out.
#[derive(Clone, Copy)]
pub(crate) struct Less(pub(crate) u64);

/// Parameters of a behaviour's run.
#[derive(Clone, Copy)]
pub(crate) struct With {
    /// The behaviour has threads: waits are bounded by time, because others may not be running.
    pub(crate) threads: bool,
}

/// Behaviours that do not run if operations have pointers for contexts, for the reason in
/// `tests/providers/transports`.
const NOT_WITH_POINTERS: [&str; 2] =
    ["slots_of_a_closed_endpoint_can_be_used_again", "thread_that_polls_lets_go_of_cancelled_sends"];

/// Name of the fault with a strict network.
pub(crate) const STRICT: &str = "weather-strict";

pub(crate) const FAULTS: [Fault; 12] = [
    // A control, which runs only on request: it is never injected.
    Fault { name: "none", plan: Plan::new, count: |injected, _| injected.total(), cut_short_by: &[] },
    Fault {
        name: "refuse",
        plan: |seed| {
            let count = 2 + u32::try_from(seed % 6).unwrap_or(0);
            Plan {
                refuse: if seed.is_multiple_of(2) { Every::Nth(count) } else { Every::About(count) },
                ..Plan::new(seed)
            }
        },
        count: |injected, _| injected.refused,
        cut_short_by: &[],
    },
    Fault {
        name: "delay",
        plan: |seed| Plan { delay: 1 + u32::try_from(seed % 7).unwrap_or(0), ..Plan::new(seed) },
        count: |injected, _| injected.delayed,
        cut_short_by: &[],
    },
    Fault {
        name: "reorder",
        plan: |seed| Plan { reorder: 1 + u32::try_from(seed % 7).unwrap_or(0), ..Plan::new(seed) },
        count: |injected, _| injected.reordered,
        cut_short_by: &[],
    },
    Fault {
        name: "fail",
        plan: |seed| Plan { fail: Every::About(1 + u32::try_from(seed % 9).unwrap_or(0)), ..Plan::new(seed) },
        count: |injected, _| injected.failed,
        cut_short_by: &[Cut::Error(Errno::EIO), Cut::InVain],
    },
    Fault {
        name: "lose",
        plan: |seed| Plan { lose: Every::About(1 + u32::try_from(seed % 9).unwrap_or(0)), ..Plan::new(seed) },
        count: |injected, _| injected.lost,
        cut_short_by: &[Cut::Error(Errno::ECONNABORTED), Cut::InVain],
    },
    Fault {
        name: "overrun",
        plan: |seed| Plan { overrun: Every::About(1 + u32::try_from(seed % 15).unwrap_or(0)), ..Plan::new(seed) },
        count: |injected, _| injected.overrun,
        cut_short_by: &[Cut::Error(Errno::EOVERRUN), Cut::InVain],
    },
    Fault {
        name: "kill",
        plan: |seed| Plan { kill: Every::About(1 + u32::try_from(seed % 15).unwrap_or(0)), ..Plan::new(seed) },
        count: |injected, _| injected.killed,
        cut_short_by: &[
            Cut::Error(Errno::ESHUTDOWN),
            Cut::Error(Errno::EHOSTUNREACH),
            Cut::Error(Errno::ECONNRESET),
            Cut::InVain,
        ],
    },
    // No random faults, but some sets of left-out grants.
    Fault { name: "grant-less", plan: granting_less, count: |_, less| less.0, cut_short_by: &[] },
    Fault {
        name: "weather",
        plan: |seed| Plan { refuse: Every::About(5), delay: 3, reorder: 3, narrow_data: true, ..Plan::new(seed) },
        count: |injected, _| injected.refused.min(injected.delayed).min(injected.reordered),
        cut_short_by: &[],
    },
    // A message that is held back until the peer polls counts as reordered.
    Fault {
        name: STRICT,
        plan: |seed| Plan { refuse: Every::About(5), delay: 3, narrow_data: true, ..Plan::new(seed) },
        count: |injected, _| injected.refused.min(injected.delayed).min(injected.reordered),
        cut_short_by: &[],
    },
    // The transport checks that contexts stay unchanged until an operation has completed.
    Fault {
        name: "weather-asking",
        plan: |seed| Plan {
            refuse: Every::About(5),
            delay: 3,
            reorder: 3,
            required: RequiredModes::LARGE_CONTEXTS,
            ..Plan::new(seed)
        },
        count: |injected, _| injected.refused.min(injected.delayed).min(injected.reordered),
        cut_short_by: &[],
    },
];

/// Plan without grants that a card may lack, one by one and together.
fn granting_less(seed: u64) -> Plan {
    const CAPS: [Caps; 5] = [Caps::TAGGED, Caps::RMA, Caps::MULTI_RECV, Caps::DIRECTED_RECV, Caps::SOURCE];
    // Each number below 256 comes before one comes twice.
    let bits = seed.wrapping_mul(0x9d) % 256;
    let has = |bit: u32| bits >> bit & 1 == 1;
    let mut plan = Plan::new(seed);
    for (bit, caps) in (0..).zip(CAPS) {
        if has(bit) {
            plan.without |= caps;
        }
    }
    if has(5) {
        plan.unordered = true;
    }
    if has(6) {
        plan.narrow_data = true;
    }
    if has(7) {
        plan.one_range = true;
    }
    plan
}

impl Fault {
    /// Returns the parameters of a behaviour under this fault, or `None` if it does not run.
    pub(crate) fn with(&self, behaviour: &str, threads: bool) -> Option<With> {
        if self.name == "weather-asking" && NOT_WITH_POINTERS.contains(&behaviour) {
            return None;
        }
        // Cut short, it would panic during a panic.
        if behaviour.starts_with("destructors_that_panic") && self.cuts() {
            return None;
        }
        Some(With { threads })
    }

    /// Returns `true` if it may cut behaviours short.
    pub(crate) fn cuts(&self) -> bool {
        !self.cut_short_by.is_empty()
    }
}
