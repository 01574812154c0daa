//! Members of groups: joining and leaving, and reporting what has ended.

use super::address::addr_parts;
use super::endpoint_state::EndpointState;
use super::group::Group;
use super::list::NIL;
use super::network::Net;
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno, FabricAddr};

/// What a completion of a collective operation reports.
pub(super) const COLLECTIVE: CompletionFlags = CompletionFlags::COLLECTIVE;

/// Joins the group of these members: the one that waits for this endpoint, or else a new one. Returns the number of the membership.
pub(super) fn join(
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
    // Under the lock: an endpoint that closes later finds the group.
    members.clone().try_for_each(|member| net.reach(member.0).map(|_| ()))?;
    let groups = || (0..u32::from(net.attr.groups)).map(|at| (at, net.group(at)));
    let same = |at| net.members_of(at).iter().map(|member| member.addr.get()).eq(members.clone().map(|addr| addr.0));
    let waits = |at| same(at) && !net.member(net.membership(at, rank)).is_present.get();
    // The oldest: members that join two groups mean the same by the first.
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

/// The members of a group are to look at it.
fn tell(net: &Net, at: u32) {
    for member in net.members_of(at) {
        // Another endpoint may have the member's place by now: it looks in vain, once.
        net.port(addr_parts(member.addr.get()).0).tell();
    }
}

/// Tells the members of a group that an operation is over.
pub(super) fn tell_members(net: &Net, number: u32) {
    tell(net, net.group_of(number));
}

/// A member takes no part any more: no operation of the group runs from now on. Its own calls are still to be ended.
pub(super) fn break_off(net: &Net, number: u32) {
    net.group(net.group_of(number)).break_off();
    tell(net, net.group_of(number));
}

/// Ends what has ended of a member's calls; in a broken group, all of them: those that have not run with this error, or without an event.
fn end_calls(net: &Net, port: &EndpointState, number: u32, undone: Option<Errno>) {
    let (own, member) = (port.own(), net.member(number));
    // Before the calls are looked at: what ran before is seen to be done.
    let is_broken = net.group(net.group_of(number)).is_broken();
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

/// Reports what has ended of the collective operations of an endpoint.
#[cold]
#[inline(never)]
pub(super) fn report_collectives(net: &Net, port: &EndpointState) {
    let mut number = port.own().memberships.get();
    while number != NIL {
        end_calls(net, port, number, Some(Errno::ECONNRESET));
        number = net.member(number).next.get();
    }
}

/// Takes a membership off the list of its endpoint, if it is on it.
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

/// Gives a place in a group up, and the group's if it was the last.
fn give_up(net: &Net, number: u32) {
    let _opening = net.opening.lock();
    let group: &Group = net.group(net.group_of(number));
    net.member(number).is_present.set(false);
    group.present.set(group.present.get() - 1);
    if group.present.get() == 0 {
        group.size.set(0);
    }
}

/// An endpoint leaves a group. Its calls that have not run end as cancelled.
pub(super) fn leave(net: &Net, port: &EndpointState, number: u32) {
    // An endpoint that was killed has left already.
    if unlink(net, port, number) {
        break_off(net, number);
        end_calls(net, port, number, Some(Errno::ECANCELED));
        give_up(net, number);
    }
}

/// An endpoint is closed: it leaves its groups, and those that wait for it wait in vain. Its calls that have not run have no event.
pub(super) fn leave_all(net: &Net, port: &EndpointState) {
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
            tell(net, at);
        }
    }
}
