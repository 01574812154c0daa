use crate::soft::lane::{Lane, LaneUse};
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::LocalState;
use crate::soft::shared::address::addr_parts;
use crate::soft::shared::cell::{LANE_NEWS, MessageCell, State};
use crate::vocabulary::CompletionFlags;

/// Reviews lanes when a short message uses the inbox. If the peer has accepted a lane, this is the
/// first numbered message, in the inbox behind all unnumbered ones.
#[cold]
#[inline(never)]
pub(crate) fn consider(net: &Net, own: &LocalState, to: u64) {
    let routes = &own.routes;
    routes.forget();
    let mut refused = false;
    for lane in routes.lanes().filter(|lane| lane.is_idle()) {
        refused |= lane.used() == LaneUse::Requested;
        lane.set_used(LaneUse::None);
    }
    routes.wait_on(refused);
    if !routes.granted.get() || refused {
        return;
    }
    let mut requested = false;
    for lane in routes.lanes() {
        if lane.to() == to && matches!(lane.used(), LaneUse::Requested | LaneUse::Numbered) {
            requested = true;
            if lane.is_open() {
                lane.set_used(LaneUse::Numbered);
            }
        }
    }
    if requested {
        return;
    }
    let at_home = |lane: &&Lane| lane.request_cell().is(State::Home) && lane.ending_cell().is(State::Home);
    match routes.lanes().find(|lane| lane.used() == LaneUse::None && at_home(lane)) {
        Some(lane) => request_lane(net, own, lane, to),
        None if routes.candidate.replace(to) != to => {}
        None => {
            let in_use = routes.lanes().filter(|lane| matches!(lane.used(), LaneUse::Requested | LaneUse::Numbered));
            let quiet = in_use.filter(|lane| lane.take_quiet()).last();
            quiet.into_iter().for_each(|lane| end_lane(net, own, lane));
        }
    }
}

fn request_lane(net: &Net, own: &LocalState, lane: &Lane, to: u64) {
    let first = lane.request(to);
    if !notify(net, own, (lane.request_cell(), to), (lane.index, first), None) {
        lane.cancel_request();
    }
}

fn end_lane(net: &Net, own: &LocalState, lane: &Lane) {
    match lane.used() {
        LaneUse::None | LaneUse::Done => return,
        LaneUse::Requested if lane.withdraw() => {}
        LaneUse::Requested | LaneUse::Numbered => {
            let number = lane.take_number();
            let _ = notify(net, own, (lane.ending_cell(), lane.to()), (0, 0), Some(number));
        }
    }
    lane.set_used(LaneUse::Done);
}

pub(crate) fn end_lanes(net: &Net, own: &LocalState) {
    own.routes.forget();
    own.routes.granted.set(false);
    own.routes.lanes().for_each(|lane| end_lane(net, own, lane));
}

/// Returns `false` if the peer is gone.
fn notify(
    net: &Net,
    own: &LocalState,
    (head, to): (&MessageCell, u64),
    (lane, first): (u32, u64),
    ends: Option<u64>,
) -> bool {
    let message = &head.message;
    message.set_flags(LANE_NEWS | CompletionFlags::RECV);
    message.from.set(own.addr.get());
    message.tag.set(first);
    message.data.set(lane.into());
    message.set_number(ends);
    head.set(State::Eager);
    let (index, generation) = addr_parts(to);
    let port = net.ports().get(usize::from(index));
    let delivered = port.is_some_and(|port| port.push(generation, head));
    if !delivered {
        head.come_home();
    }
    delivered
}

#[cold]
#[inline(never)]
pub(crate) fn answer(net: &Net, own: &LocalState, head: &MessageCell) {
    let message = &head.message;
    let lane = net.lane(message.data.get());
    if own.routes.granted.get() {
        own.arrivals.accept(lane, (message.from.get(), message.tag.get()), own.may_sleep.get());
    } else {
        lane.leave();
    }
    head.come_home();
}

#[cold]
pub(crate) fn refuse_lane(net: &Net, head: &MessageCell) {
    if head.message.in_pair.get() == 0 {
        net.lane(head.message.data.get()).leave();
    }
}
