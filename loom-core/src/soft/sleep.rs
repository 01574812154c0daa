//! Falling asleep: the thread of a queue says that it sleeps, and then looks at everything that peers may have brought to the ports of
//! the queue ([`sleeper`](super::sleeper) has the protocol).
//!
//! | what peers do | where it is brought |
//! |---|---|
//! | send a message, offer one, tell of a write with immediate data | the inbox, or the next slot of a lane |
//! | copy what was offered, discard it, or close without | the list of returned cells |
//! | revoke an offer, end or break a collective operation, delay a message | the word of revocations |
//!
//! Nothing else that peers do makes an event of this side's queue: their writes without immediate data, reads and atomic operations are
//! counted and no more, and what an operation did to their memory is reported by the post itself.

use super::address::NO_PORT;
use super::endpoint_state::EndpointState;
use super::list::NIL;
use super::network::Net;
use super::queue::Queue;
use super::sleeper::{Sleeper, Sleeps};

/// The ports of a queue.
fn ports<'n>(net: &'n Net, queue: &'n Queue) -> impl Iterator<Item = &'n EndpointState> {
    let first = Some(queue.turn.get()).filter(|first| *first != NO_PORT);
    let next = move |port: &u16| {
        let next = net.port(*port).own().next_on(queue).get();
        Some(next).filter(|next| Some(*next) != first)
    };
    core::iter::successors(first, next).map(|port| net.port(port))
}

/// The thread of an empty queue says how it is about to sleep: whether it may. If not, there may be something for a poll, or there was
/// a signal, of which this is the only word.
pub(super) fn falls_asleep(net: &Net, queue: &Queue, sleeper: &Sleeper, how: Sleeps) -> bool {
    let quiet = sleeper.say_asleep(how);
    ports(net, queue).for_each(|port| port.watch.say_asleep());
    let asleep = quiet && !queue.is_overrun() && !ports(net, queue).any(has_something);
    if !asleep {
        sleeper.say_awake();
    }
    asleep
}

/// Whether a poll might find something at a port of an empty queue, which the last one has not found. If not, each of the words where
/// peers bring something has been looked at by a step that they see.
fn has_something(port: &EndpointState) -> bool {
    let own = port.own();
    // A message that was taken from the inbox waits for what this thread does, and younger ones wait behind it.
    let waits = own.backlog.get() != NIL;
    // Cells without an awaited end come back, too.
    let awaits = own.offers.get() != 0;
    !waits && !port.inbox.is_empty_for_sleeper()
        || awaits && !port.returns.0.is_empty_for_sleeper()
        || port.revocations.are_told_for_sleeper()
        || own.arrivals.lanes().iter().any(|arriving| arriving.lane().has_for_sleeper(arriving.next.get()))
        // They count polls.
        || own.faults().are_late()
}
