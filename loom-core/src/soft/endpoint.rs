#![allow(unsafe_code, reason = "implements the unsafe trait `Endpoints`")]

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::collective::membership::leave_all;
use super::delivery::lane_requests::{end_lanes, refuse_lane};
use super::delivery::receive::claimed_cell;
use super::delivery::send::{end_offer, harvest, return_cell, revoke};
use super::faults::Rules;
use super::faults::required_modes::RequiredModes;
use super::handles::SoftEndpoint;
use super::network::Net;
use super::network::counter::{SoftCounter, counted_by_peers};
use super::network::endpoint_state::{EndpointState, MIN_LEFT};
use super::network::matching_memory::{KINDS, RecvBuffer, RecvKind};
use super::rma::delayed::forget_late;
use super::shared::address::{NO_PORT, fabric_addr, write_address};
use super::shared::cell::{LANE_NEWS, MessageCell, State};
use super::shared::list::NIL;
use super::shared::queue::Queue;
use super::transport::Soft;
use crate::transport::{Bindings, Closing, Context, EndpointError, Endpoints, Event, InFlight};
use crate::util::sync::Ordering;
use crate::vocabulary::{CompletionFlags, Counted, EndpointAddr, EndpointOption, Errno, OptionValue};

/// # Safety
/// This thread uses queues and counters, which stay until the endpoint is closed. Counters may go
/// earlier if the queues are not used any more.
unsafe fn open<'n>(
    net: &'n Net,
    (domain, modes, rules): (u32, RequiredModes, Rules),
    tx: NonNull<Queue>,
    rx: NonNull<Queue>,
    counters: &[(Counted, &SoftCounter)],
) -> Result<&'n EndpointState, Errno> {
    let _opening = net.opening.lock();
    let port = net.ports().iter().find(|port| !port.own().taken.get()).ok_or(Errno::EMFILE)?;
    let own = port.own();
    let index = own.index;
    own.tx.set(Some(tx));
    own.rx.set(Some(rx));
    if own.tx().is_overrun() || own.rx().is_overrun() {
        return Err(Errno::EOVERRUN);
    }
    own.taken.set(true);
    own.counters.bind(counters);
    own.modes.set(modes);
    own.attended.set(!modes.is_empty() || own.counters.any() || rules.strikes());
    own.routes.begin(modes.is_empty() && !rules.strikes());
    own.min_left.set(MIN_LEFT);
    let sleepers = [own.rx().sleeper(), own.tx().sleeper().filter(|_| tx != rx)];
    // SAFETY: queues are closed after their endpoints (H2), and `end` closes the watch.
    own.may_sleep.set(unsafe { port.watch.open(sleepers) });
    join_circle(net, port, own.tx());
    if tx != rx {
        join_circle(net, port, own.rx());
    }
    let generation = port.wire.open();
    own.addr.set(fabric_addr(index, generation));
    own.faults().begin(rules, own.addr.get());
    // SAFETY: counters stay until the endpoint is closed or left (N1), which closes
    // `peer_counters`.
    if unsafe { port.peer_counters.open(generation, counted_by_peers(counters)) } {
        net.peers_are_counted.store(true, Ordering::Relaxed);
    }
    // Last: peers may already have the address from an earlier endpoint.
    let opened = port.inbox.open();
    debug_assert_eq!(opened, generation, "both are opened and closed together");
    port.reach.open(generation, domain);
    Ok(port)
}

fn join_circle(net: &Net, port: &EndpointState, queue: &Queue) {
    let index = port.own().index;
    let next = match queue.turn.get() {
        NO_PORT => {
            queue.turn.set(index);
            index
        }
        first => net.port(first).own().next_on(queue).replace(index),
    };
    port.own().next_on(queue).set(next);
}

fn leave_circle(net: &Net, port: &EndpointState, queue: &Queue) {
    let index = port.own().index;
    let next = port.own().next_on(queue).get();
    let mut before = port.own().next_on(queue);
    while before.get() != index {
        before = net.port(before.get()).own().next_on(queue);
    }
    before.set(next);
    queue.turn.set(if next == index { NO_PORT } else { next });
    if queue.is_overrun() && next != index {
        net.port(next).own().look_again();
    }
}

/// When it returns, peers no longer touch memory lent through the endpoint.
fn close(net: &Net, port: &EndpointState) {
    let own = port.own();
    if !own.faults().dead.get() {
        end(net, port);
    }
    own.tx.set(None);
    own.rx.set(None);
    own.counters.bind(&[]);
    let _opening = net.opening.lock();
    own.taken.set(false);
}

pub(super) fn end(net: &Net, port: &EndpointState) {
    let own = port.own();

    port.reach.close();
    port.peer_counters.close();
    port.watch.close();
    let generation = own.generation();
    let arrived = [own.backlog.replace(NIL), port.inbox.close(generation)];
    let delayed = [own.faults().held.replace(NIL), port.wire.close(generation)];
    for mut cell in arrived.into_iter().chain(delayed) {
        while cell != NIL {
            let head = net.cell(cell);
            cell = head.link.load(Ordering::Relaxed);
            refuse(net, head);
        }
    }
    for unexpected in &own.unexpected {
        while let Some(at) = unexpected.first() {
            unexpected.remove(at);
            refuse(net, net.cell(at));
        }
    }

    own.arrivals.leave_all();

    end_lanes(net, own);
    forget_late(net, own);
    leave_all(net, port);
    harvest(net, port);
    for head in net.cells_of(own) {
        if !revoke(net, head) {
            head.wait_for_copy();
        }
        if end_offer(net, own, head).is_some() {
            own.tx().release();
        }
    }

    for (at, used) in own.receives_used() {
        if let Some(kind) = used.kind() {
            own.unpost(kind, at);
            own.rx().release();
            continue;
        }
        if used == RecvKind::Claimed {
            refuse(net, claimed_cell(net, own, at));
        }
        own.free_receive(at);
    }

    leave_circle(net, port, own.tx());
    if own.tx.get() != own.rx.get() {
        leave_circle(net, port, own.rx());
    }
    own.offers.set(0);
}

fn refuse(net: &Net, head: &MessageCell) {
    if head.message.flags().contains(LANE_NEWS) {
        refuse_lane(net, head);
    }
    // Either way the cell goes home.
    let _ = head.claim(State::Refused);
    return_cell(net, head);
}

fn cancel(net: &Net, port: &EndpointState, context: u64) {
    let own = port.own();
    if let Some((at, used)) = own.find_place(context, |used| used.kind().is_some())
        && let Some(kind) = used.kind()
    {
        let room = own.receive(at).room();
        own.unpost(kind, at);
        let kind = KINDS[kind] | CompletionFlags::RECV;
        let multi = if room.is_multi() { CompletionFlags::MULTI_RECV } else { CompletionFlags::empty() };
        own.end_receive(Event::failure(context, kind | multi, Errno::ECANCELED));
        return;
    }
    if own.faults().strict().is_some() {
        return;
    }
    for head in net.cells_of(own) {
        if let Some(sending) = net.sending(head).get()
            && sending.context == context
        {
            if revoke(net, head) {
                end_offer(net, own, head);
                own.end_transmit(Event::failure(context, sending.flags, Errno::ECANCELED));
            }
            return;
        }
    }
}

// SAFETY: `soft/transport.rs` lists how the promises are kept.
unsafe impl<'n> Endpoints for Soft<'n> {
    type Endpoint = SoftEndpoint<'n>;

    unsafe fn endpoint_open(
        domain: &Self::Domain,
        info: &Self::Info,
        bind: Bindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        let net = domain.net;
        if !core::ptr::eq(&*net, &*info.net) {
            return Err(Errno::EINVAL.into());
        }
        if bind.selective && info.rules.strict.is_some() {
            // Refused by the provider `net`.
            return Err(Errno::EOPNOTSUPP.into());
        }
        // SAFETY: queues are closed after their endpoints (H2), counters stay in place (N1), and
        // this thread uses all of them (T1).
        let opened = unsafe {
            open(&net, (domain.number, domain.modes, info.rules), bind.tx.queue, bind.rx.queue, bind.counters)
        };
        let extra_checks = !domain.modes.is_empty() || info.rules.strikes();
        let endpoint = SoftEndpoint {
            net,
            port: opened?.into(),
            extra_checks,
            selective: bind.selective,
            one_thread: PhantomData,
        };
        for (option, value) in bind.options {
            // SAFETY: the endpoint was just opened (H1).
            if let Err(errno) = unsafe { Self::endpoint_set_option(&endpoint, *option, *value) } {
                close(&net, endpoint.port());
                return Err(errno.into());
            }
        }
        Ok(endpoint)
    }

    unsafe fn endpoint_close(endpoint: &Self::Endpoint, _: InFlight) -> Result<Closing, Errno> {
        if endpoint.port().own().regions.get() > 0 {
            // Error of providers that bind regions to endpoints.
            return Err(Errno::EBUSY);
        }
        close(&endpoint.net, endpoint.port());
        Ok(Closing::Closed)
    }

    unsafe fn endpoint_leave(endpoint: &Self::Endpoint, for_good: bool) -> bool {
        if for_good {
            endpoint.port().peer_counters.close();
        }
        false
    }

    unsafe fn endpoint_address(endpoint: &Self::Endpoint) -> Result<EndpointAddr, Errno> {
        write_address(endpoint.net.identity, endpoint.port().own().addr.get())
    }

    unsafe fn endpoint_option(endpoint: &Self::Endpoint, option: u32, _: OptionValue) -> Result<OptionValue, Errno> {
        if option != EndpointOption::MIN_MULTI_RECV.as_raw() {
            return Err(Errno::ENOPROTOOPT);
        }
        Ok(endpoint.port().own().min_left.get().into())
    }

    unsafe fn endpoint_set_option(endpoint: &Self::Endpoint, option: u32, value: OptionValue) -> Result<(), Errno> {
        match value {
            OptionValue::Size(size) if option == EndpointOption::MIN_MULTI_RECV.as_raw() => {
                endpoint.port().own().min_left.set(size.clamp(1, RecvBuffer::MOST_LEFT));
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    unsafe fn cancel(endpoint: &Self::Endpoint, context: Context) -> Result<(), Errno> {
        cancel(&endpoint.net, endpoint.port(), context.addr());
        Ok(())
    }
}
