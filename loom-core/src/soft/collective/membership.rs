use crate::soft::network::Net;
use crate::soft::network::endpoint_state::EndpointState;
use crate::soft::network::group::{Group, Usable};
use crate::soft::shared::address::addr_parts;
use crate::soft::shared::list::NIL;
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr};

pub(crate) const COLLECTIVE: CompletionFlags = CompletionFlags::COLLECTIVE;

/// Joins the group that waits for this endpoint, or a new one.
pub(crate) fn join(
    net: &Net,
    port: &EndpointState,
    members: &(impl Iterator<Item = FabricAddr> + Clone),
) -> Result<u32, Errno> {
    let own = port.own();
    let me = own.addr.get();
    let rank = members.clone().position(|member| member.0 == me).ok_or(Errno::EINVAL)?;
    let count = |number: usize| u16::try_from(number).ok().map(u32::from).ok_or(Errno::EINVAL);
    let (size, rank) = (count(members.clone().count())?, count(rank)?);
    if size > net.attr.endpoints.into() {
        return Err(Errno::EINVAL);
    }
    let _opening = net.opening.lock();
    // Under the lock, so that an endpoint that closes later finds the group.
    members.clone().try_for_each(|member| net.reach(member.0).map(|_| ()))?;
    let groups = || (0..u32::from(net.attr.groups)).map(|at| (at, net.group(at)));
    let same = |at| net.members_of(at).iter().map(|member| member.addr.get()).eq(members.clone().map(|addr| addr.0));
    let waits = |at| same(at) && !net.member(net.membership(at, rank)).is_present.get();
    // The oldest group: members that join two groups agree on the first.
    let waiting = groups().filter(|(at, group)| group.size.get() > 0 && group.is_joining() && waits(*at));
    let at = match waiting.min_by_key(|(_, group)| group.serial.get()) {
        Some((at, _)) => at,
        None => {
            let (at, free) = groups().find(|(_, group)| group.size.get() == 0).ok_or(Errno::ENOSPC)?;
            let newest = groups().map(|(_, group)| group.serial.get()).max();
            free.found(size, newest.map_or(0, |newest| newest + 1));
            net.members_of(at).iter().zip(members.clone()).for_each(|(member, addr)| member.assign(addr.0));
            at
        }
    };
    let number = net.membership(at, rank);
    let (group, member) = (net.group(at), net.member(number));
    member.is_present.set(true);
    group.present.set(group.present.get() + 1);
    if group.present.get() == group.size.get() {
        group.open();
    }
    member.next.set(own.memberships.replace(number));
    Ok(number)
}

pub(crate) fn notify(net: &Net, at: u32) {
    for member in net.members_of(at) {
        net.port(addr_parts(member.addr.get()).0).notify();
    }
}

/// No later operation of the group runs.
pub(crate) fn break_off(net: &Net, number: u32) {
    net.group(net.group_of(number)).break_off();
    notify(net, net.group_of(number));
}

fn end_calls(net: &Net, port: &EndpointState, number: u32, undone: Option<Errno>) {
    let (own, member) = (port.own(), net.member(number));
    // Read before the results, so that earlier operations are seen as done.
    let is_broken = net.group(net.group_of(number)).usable() == Usable::NoMore;
    while member.reported.get() != member.made.get() {
        let call = member.call(member.reported.get());
        let result = match call.result() {
            Some(result) => Some(result),
            None if is_broken => undone.map(Err),
            None => return,
        };
        let context = call.args().context;
        call.clear();
        member.reported.set(member.reported.get().wrapping_add(1));
        match result {
            Some(Ok(())) => own.end_transmit(Event::success(context, COLLECTIVE, 0)),
            Some(Err(errno)) => own.end_transmit(Event::failure(context, COLLECTIVE, errno)),
            None => own.tx().release(),
        }
    }
}

pub(crate) fn report_collectives(net: &Net, port: &EndpointState) {
    let mut number = port.own().memberships.get();
    while number != NIL {
        end_calls(net, port, number, Some(Errno::ECONNRESET));
        number = net.member(number).next.get();
    }
}

fn unlink(net: &Net, port: &EndpointState, number: u32) -> bool {
    let mut link = &port.own().memberships;
    while link.get() != NIL {
        let member = net.member(link.get());
        if link.get() == number {
            link.set(member.next.get());
            return true;
        }
        link = &member.next;
    }
    false
}

fn give_up(net: &Net, number: u32) {
    let _opening = net.opening.lock();
    let group: &Group = net.group(net.group_of(number));
    net.member(number).is_present.set(false);
    group.present.set(group.present.get() - 1);
    if group.present.get() == 0 {
        group.size.set(0);
    }
}

/// Calls that have not run end as cancelled.
pub(crate) fn leave(net: &Net, port: &EndpointState, number: u32) {
    if unlink(net, port, number) {
        break_off(net, number);
        end_calls(net, port, number, Some(Errno::ECANCELED));
        give_up(net, number);
    }
}

/// Leaves all groups of a closed endpoint, and breaks groups that wait for it.
pub(crate) fn leave_all(net: &Net, port: &EndpointState) {
    let own = port.own();
    loop {
        let number = own.memberships.get();
        if number == NIL {
            break;
        }
        own.memberships.set(net.member(number).next.get());
        break_off(net, number);
        end_calls(net, port, number, None);
        give_up(net, number);
    }
    let _opening = net.opening.lock();
    for at in 0..u32::from(net.attr.groups) {
        let waits = net.members_of(at).iter().any(|member| member.addr.get() == own.addr.get());
        if waits && net.group(at).is_joining() {
            net.group(at).break_off();
            notify(net, at);
        }
    }
}
