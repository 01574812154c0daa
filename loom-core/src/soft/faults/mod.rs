//! Faults: what goes wrong at endpoints whose info has a [`Plan`].
//!
//! An endpoint without one pays nothing for it: where a plan can strike, what is done already for [demands](super::extra_checks) or
//! for counters is done for it, too, or the way there is one that only a plan opens.
//!
//! - Posts come by [`SoftEndpoint::gate`], and go on as `posts.rs` has it.
//! - What ends comes by [`Faults::note_end`].
//! - Messages that are delayed wait in a second inbox of their receiver (`wire.rs`).
//! - Writes and reads that are not done at once wait in cells of the endpoint's own (`late.rs`).
//! - An endpoint that is killed is closed but for its place (`Net::end_port`).

mod injected;
mod late;
mod plan;
mod posts;
mod wire;

use core::cell::Cell;

pub use self::injected::Injected;
use self::injected::Tally;
pub use self::plan::{Every, Plan};
use super::list::NIL;
use super::queue::Queue;
use super::strict::{self, Strict};
use crate::random::Random;
use crate::transport::Event;
use crate::vocabulary::{Errno, FabricAddr};

/// What a port keeps for the plan of its endpoint.
#[derive(Debug)]
pub(super) struct Faults {
    plan: Cell<Plan>,
    random: Cell<Random>,
    /// How many more until it strikes; zero for never.
    refuse: Cell<u32>,
    fail: Cell<u32>,
    lose: Cell<u32>,
    overrun: Cell<u32>,
    kill: Cell<u32>,
    /// The endpoint was killed.
    dead: Cell<bool>,
    /// How many writes and reads are held, and how often was looked at them.
    late: Cell<u32>,
    looks: Cell<u32>,
    /// Messages for this port that have not arrived yet, oldest first, linked.
    pub(super) held: Cell<u32>,
    /// What was done to the endpoints of this place.
    tally: Tally,
}

/// Counts one down: whether it strikes now.
fn strikes(left: &Cell<u32>) -> bool {
    let before = left.get();
    left.set(before.saturating_sub(1));
    before == 1
}

impl Faults {
    pub(super) fn none() -> Self {
        let zero = || Cell::new(0);
        Faults {
            plan: Cell::new(Plan::new(0)),
            random: Cell::new(Random::new(0)),
            refuse: zero(),
            fail: zero(),
            lose: zero(),
            overrun: zero(),
            kill: zero(),
            dead: Cell::new(false),
            late: zero(),
            looks: zero(),
            held: Cell::new(NIL),
            tally: Tally::new(),
        }
    }

    /// An endpoint begins, with this fabric address.
    pub(super) fn begin(&self, plan: Plan, addr: u64) {
        // Neighbours in seed and address draw nothing alike.
        let mut random = Random::new(plan.seed ^ Random::new(addr).next());
        self.refuse.set(plan.refuse.draw(&mut random));
        self.fail.set(plan.fail.draw(&mut random));
        self.lose.set(plan.lose.draw(&mut random));
        self.overrun.set(plan.overrun.draw(&mut random));
        self.kill.set(plan.kill.draw(&mut random));
        self.random.set(random);
        self.plan.set(plan);
        self.dead.set(false);
    }

    fn draw(&self, draw: impl FnOnce(&mut Random) -> u32) -> u32 {
        let mut random = self.random.get();
        let drawn = draw(&mut random);
        self.random.set(random);
        drawn
    }

    /// For how many polls the next message is on its way; `None` if messages of this endpoint arrive at once.
    pub(super) fn delay(&self) -> Option<u32> {
        let most = self.plan.get().delay;
        (most > 0).then(|| self.draw(|random| random.up_to(most)))
    }

    /// Whether there are writes and reads that are held.
    pub(super) fn are_late(&self) -> bool {
        self.late.get() > 0
    }

    /// Whether the endpoint was killed.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// Counts one down: whether it strikes now. It is drawn when it does so the next time.
    fn strikes_again(&self, left: &Cell<u32>, every: impl FnOnce(&Plan) -> Every) -> bool {
        let now = strikes(left);
        if now {
            left.set(self.draw(|random| every(&self.plan.get()).draw(random)));
        }
        now
    }

    /// What a strict network grants the endpoint; `None` in others.
    pub(super) fn strict(&self) -> Option<Strict> {
        self.plan.get().strict
    }

    /// Leaves out of an event where a message or write comes from, if the info does not grant that it is told.
    fn hide_source(&self, event: &mut Event) {
        if self.plan.get().hides_sources() {
            event.source = FabricAddr::UNSPEC;
        }
    }

    /// The newest event of the queue is no end of an operation.
    #[cold]
    #[inline(never)]
    pub(super) fn note_news(&self, event: &mut Event, queue: &Queue) {
        self.hide_source(event);
        if self.strict().is_some() {
            strict::hide_length(event);
        }
        if queue.is_overrun() {
            queue.lose_newest();
        }
    }

    /// An operation of the endpoint has ended with this event, the newest of the queue; `false` if it is lost.
    pub(super) fn note_end(&self, event: &mut Event, queue: &Queue) -> bool {
        self.hide_source(event);
        if !event.is_error() && self.strikes_again(&self.fail, |plan| plan.fail) {
            self.tally.failed();
            (event.errno, event.provider_errno) = (Errno::EIO, Errno::EIO.as_raw());
            // If there is an error, it says by how much a message was too long.
            event.overflow_or_place = 0;
        }
        if strikes(&self.overrun) && !queue.is_overrun() {
            self.tally.overrun();
            queue.overrun();
        }
        !queue.is_overrun()
    }
}
