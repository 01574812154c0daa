//! Falling asleep: the queue's thread announces its sleep, then polls the words in which peers
//! deliver. See [`sleeper`](crate::soft::shared::sleeper).
//!
//! | action of a peer | word |
//! |---|---|
//! | sends or offers a message, announces a write with immediate data | the inbox, or the next slot of a lane |
//! | copies or discards an offer, or closes | the list of returned cells |
//! | revokes an offer, ends or breaks a collective operation, delays a message | the word of revocations |
//!
//! Other actions of peers make no event in this queue.

use crate::soft::network::Net;
use crate::soft::network::endpoint_state::EndpointState;
use crate::soft::shared::address::NO_PORT;
use crate::soft::shared::list::NIL;
use crate::soft::shared::queue::Queue;
use crate::soft::shared::sleeper::{Sleeper, Sleeps};

fn ports<'n>(net: &'n Net, queue: &'n Queue) -> impl Iterator<Item = &'n EndpointState> {
    let first = Some(queue.turn.get()).filter(|first| *first != NO_PORT);
    let next = move |port: &u16| {
        let next = net.port(*port).own().next_on(queue).get();
        Some(next).filter(|next| Some(*next) != first)
    };
    core::iter::successors(first, next).map(|port| net.port(port))
}

/// Returns `true` if it may sleep.
pub(crate) fn falls_asleep(net: &Net, queue: &Queue, sleeper: &Sleeper, how: Sleeps) -> bool {
    let quiet = sleeper.set_asleep(how);
    ports(net, queue).for_each(|port| port.watch.set_asleep());
    let asleep = quiet && !queue.is_overrun() && !ports(net, queue).any(has_something);
    if !asleep {
        sleeper.set_awake();
    }
    asleep
}

/// If it returns `false`, a step that peers see has read every word in which they deliver.
fn has_something(port: &EndpointState) -> bool {
    let own = port.own();
    let waits = own.backlog.get() != NIL;
    let awaits = own.offers.get() != 0;
    !waits && !port.inbox.is_empty_for_sleeper()
        || awaits && !port.returns.0.is_empty_for_sleeper()
        || port.revocations.are_pending_for_sleeper()
        || own.arrivals.lanes().iter().any(|arriving| arriving.lane().recheck_before_sleep(arriving.next.get()))
        || own.faults().late.get() > 0
}
