#![allow(unsafe_code, reason = "copies from memory that was lent with a send")]

use core::ptr;

use super::lane_requests::consider;
use crate::soft::faults::Fault;
use crate::soft::lane::{Lane, Room, SLOT_BYTES, SlotWord, Tried};
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::{EndpointState, LocalState, Report, Sending};
use crate::soft::shared::address::addr_parts;
use crate::soft::shared::cell::{MessageCell, State};
use crate::soft::shared::copy::{LIMIT, List, NOTHING, at_most, copy_message, copy_ranges, ranges, send_limit, total};
use crate::soft::shared::list::NIL;
use crate::transport::{Event, Msg, Refusal};
use crate::util::sync::Ordering;
use crate::vocabulary::{CompletionFlags, Errno, ImmediateData, OpFlags, Tag};

/// Message to send. `context` is `None` for an injected message, which has no event on success.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: u64,
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<ImmediateData>,
    pub(crate) bytes: *const u8,
    pub(crate) len: usize,
    pub(crate) context: Option<u64>,
    /// Number of the receiver's polls after which a delayed message arrives.
    pub(crate) delay: Option<u32>,
}

impl Outgoing {
    #[inline]
    pub(crate) fn at_once(self, report: Report) -> Self {
        Outgoing { context: self.context.filter(|_| report == Report::All), ..self }
    }

    const fn kind(&self) -> CompletionFlags {
        if self.tag.is_some() { CompletionFlags::TAGGED } else { CompletionFlags::MSG }
    }

    pub(crate) const fn sent(&self) -> CompletionFlags {
        self.kind().union(CompletionFlags::SEND)
    }

    const fn received(&self) -> CompletionFlags {
        let data = if self.data.is_some() { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
        self.kind().union(CompletionFlags::RECV).union(data)
    }
}

#[inline]
pub(crate) fn take_cell<'n>(net: &'n Net, port: &EndpointState) -> Option<&'n MessageCell> {
    let own = port.own();
    let turn = own.turn.get();
    let head = net.cell_in_turn(own, turn);
    if !head.is(State::Home) {
        return search_cell(net, port);
    }
    own.turn.set(turn.wrapping_add(1));
    Some(head)
}

#[cold]
fn search_cell<'n>(net: &'n Net, port: &EndpointState) -> Option<&'n MessageCell> {
    const LOOKS: u32 = 64;
    harvest(net, port);
    let own = port.own();
    let looks = LOOKS.min(net.cells_each());
    for _ in 0..looks {
        let turn = own.turn.get();
        own.turn.set(turn.wrapping_add(1));
        let head = net.cell_in_turn(own, turn);
        if head.is(State::Home) {
            return Some(head);
        }
    }
    None
}

#[inline(never)]
pub(crate) fn harvest(net: &Net, port: &EndpointState) {
    let own = port.own();
    let mut cell = port.returns.0.take();
    while cell != NIL {
        let head = net.cell(cell);
        cell = head.link.load(Ordering::Relaxed);
        if let Some(sending) = end_offer(net, own, head) {
            let event = if head.is(State::Done) {
                Event::success(sending.context, sending.flags, sending.len)
            } else {
                Event::failure(sending.context, sending.flags, Errno::ECONNRESET)
            };
            own.report(event, sending.report);
        }
        head.come_home();
    }
}

pub(crate) fn end_offer(net: &Net, own: &LocalState, head: &MessageCell) -> Option<Sending> {
    let sending = net.sending(head).take();
    if sending.is_some() {
        own.offers.set(own.offers.get() - 1);
    }
    sending
}

pub(crate) fn revoke(net: &Net, head: &MessageCell) -> bool {
    let revoked = head.claim(State::Revoked);
    if revoked
        && let Some(sending) = net.sending(head).get()
        && let Some(receiver) = net.ports().get(usize::from(sending.to))
    {
        receiver.notify();
    }
    revoked
}

#[inline]
pub(crate) fn return_cell(net: &Net, head: &MessageCell) {
    if head.is(State::Eager) {
        head.come_home();
    } else {
        net.owner_of(head).give_back(head);
    }
}

pub(crate) fn lose(own: &LocalState, context: Option<u64>, flags: CompletionFlags) -> Option<Result<(), Refusal>> {
    let faults = own.faults();
    let context = context.filter(|_| faults.strikes_again(&faults.lose, |plan| plan.lose))?;
    if !own.tx().reserve() {
        return Some(Err(Refusal::Again));
    }
    faults.tally.count(Fault::Lost);
    own.end_transmit(Event::failure(context, flags, Errno::ECONNABORTED));
    Some(Ok(()))
}

/// # Safety
/// The bytes are valid for reads: up to the eager size, during the call. Above it, until the event
/// of the context or until the endpoint is closed.
#[inline(always)]
pub(crate) unsafe fn send(net: &Net, port: &EndpointState, outgoing: Outgoing, report: Report) -> Result<(), Refusal> {
    if outgoing.len > net.eager_size {
        return offer(net, port, outgoing, report);
    }
    let outgoing = outgoing.at_once(report);
    let (bytes, len) = (outgoing.bytes, outgoing.len);
    send_eager(net, port, outgoing, move |room| {
        // SAFETY: the port's cell has room for a short message. The caller guarantees the bytes.
        unsafe { copy_message(bytes, room, len) };
    })
}

#[inline(always)]
fn send_eager(
    net: &Net,
    port: &EndpointState,
    outgoing: Outgoing,
    fill: impl FnOnce(*mut u8) + Copy,
) -> Result<(), Refusal> {
    let own = port.own();
    let short = outgoing.len <= SLOT_BYTES;
    if short && let Some(lane) = own.routes.last_lane(outgoing.to) {
        let begin = || outgoing.context.is_none() || own.tx().reserve();
        let room = match lane.try_send((outgoing.len, outgoing.tag, outgoing.data), begin, fill) {
            Tried::Sent => {
                end_eager(own, &outgoing);
                return Ok(());
            }
            Tried::Refused => return Err(Refusal::Again),
            Tried::Watched => room_of_watched(lane),
            Tried::NoRoom(room) => room,
        };
        match room {
            Room::Free => return send_watched(net, own, lane, &{ outgoing }, fill),
            Room::Full if refuses(net, own, lane) => return Err(Refusal::Again),
            Room::Full | Room::Occupied => {}
        }
    }
    let head = begin_send(net, port, outgoing.context)?;
    if short && own.routes.is_time() {
        consider(net, own, outgoing.to);
    }
    let room = net.eager_room(head);
    fill(room);
    write_message(head, own, &outgoing, room);
    head.set(State::Eager);
    match push(net, own, outgoing.to, head, outgoing.delay) {
        Ok(()) => {
            end_eager(own, &outgoing);
            Ok(())
        }
        Err(errno) => unsent(own, head, outgoing.context, outgoing.sent(), errno),
    }
}

#[cold]
#[inline(never)]
fn refuses(net: &Net, own: &LocalState, full: &Lane) -> bool {
    full.slot_count() >= net.cells_each().into() || !own.may_sleep.get() && full.has_patience()
}

#[cold]
#[inline(never)]
fn room_of_watched(lane: &Lane) -> Room {
    if lane.is_open() { lane.room() } else { Room::Occupied }
}

#[cold]
#[inline(never)]
fn send_watched(
    net: &Net,
    own: &LocalState,
    lane: &Lane,
    outgoing: &Outgoing,
    fill: impl FnOnce(*mut u8),
) -> Result<(), Refusal> {
    if outgoing.context.is_some() && !own.tx().reserve() {
        return Err(Refusal::Again);
    }
    let (word, tag_and_data) = SlotWord::of(outgoing.len, outgoing.tag, outgoing.data);
    lane.send(true, word, tag_and_data, fill);
    wake_receiver(net, lane);
    end_eager(own, outgoing);
    Ok(())
}

#[inline]
fn wake_receiver(net: &Net, lane: &Lane) {
    if let Some(receiver) = net.ports().get(usize::from(addr_parts(lane.to()).0)) {
        receiver.watch.wake();
    }
}

#[inline(always)]
fn end_eager(own: &LocalState, outgoing: &Outgoing) {
    match outgoing.context {
        Some(context) => own.end_transmit(Event::success(context, outgoing.sent(), outgoing.len)),
        None => own.count_unsignaled(outgoing.sent(), outgoing.len),
    }
}

#[inline(never)]
fn offer(net: &Net, port: &EndpointState, outgoing: Outgoing, report: Report) -> Result<(), Refusal> {
    offer_from(net, port, outgoing, report, |_| outgoing.bytes.cast_mut())
}

#[inline(always)]
fn offer_from(
    net: &Net,
    port: &EndpointState,
    outgoing: Outgoing,
    report: Report,
    place: impl FnOnce(*mut u8) -> *mut u8,
) -> Result<(), Refusal> {
    let context = outgoing.context.ok_or(Refusal::Errno(Errno::EMSGSIZE))?;
    let own = port.own();
    let head = begin_send(net, port, outgoing.context)?;
    let bytes = place(net.eager_room(head));
    write_message(head, own, &outgoing, bytes);
    head.set(State::Offered);
    let (to, flags) = (addr_parts(outgoing.to).0, outgoing.sent());
    net.sending(head).set(Some(Sending { context, to, report, len: outgoing.len, flags }));
    own.offers.set(own.offers.get() + 1);
    match push(net, own, outgoing.to, head, outgoing.delay) {
        Ok(()) => Ok(()),
        Err(errno) => {
            end_offer(net, own, head);
            unsent(own, head, outgoing.context, flags, errno)
        }
    }
}

#[inline]
pub(crate) fn begin_send<'n>(
    net: &'n Net,
    port: &EndpointState,
    context: Option<u64>,
) -> Result<&'n MessageCell, Refusal> {
    let tx = port.own().tx();
    if context.is_some() && !tx.reserve() {
        return Err(Refusal::Again);
    }
    let cell = take_cell(net, port);
    if cell.is_none() && context.is_some() {
        tx.release();
    }
    cell.ok_or(Refusal::Again)
}

#[inline]
fn write_message(head: &MessageCell, own: &LocalState, outgoing: &Outgoing, bytes: *const u8) {
    let message = &head.message;
    message.set_flags(outgoing.received());
    message.from.set(own.addr.get());
    message.tag.set(outgoing.tag.unwrap_or(0));
    message.data.set(outgoing.data.map_or(0, |data| data.0));
    message.len.set(outgoing.len);
    message.bytes.set(bytes);
}

#[cold]
fn unsent(
    own: &LocalState,
    head: &MessageCell,
    context: Option<u64>,
    flags: CompletionFlags,
    errno: Errno,
) -> Result<(), Refusal> {
    head.come_home();
    match context {
        Some(context) => {
            own.end_transmit(Event::failure(context, flags, errno));
            Ok(())
        }
        None => Err(Refusal::Errno(errno)),
    }
}

#[inline]
fn push(net: &Net, own: &LocalState, to: u64, head: &MessageCell, delay: Option<u32>) -> Result<(), Errno> {
    let (index, generation) = addr_parts(to);
    let port = net.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
    head.message.set_number(own.routes.lane_to(to).map(Lane::take_number));
    if let Some(looks) = delay {
        return push_late(net, (port, generation), head, looks);
    }
    if port.push(generation, head) { Ok(()) } else { Err(Errno::EHOSTUNREACH) }
}

#[cold]
#[inline(never)]
fn push_late(
    net: &Net,
    (port, generation): (&EndpointState, u32),
    head: &MessageCell,
    looks: u32,
) -> Result<(), Errno> {
    head.looks.set(looks);
    let sender = net.owner_of(head);
    if !port.wire.push(generation, head.number, &head.link) {
        return Err(Errno::EHOSTUNREACH);
    }
    if looks > 0 {
        sender.own().faults().tally.count(Fault::Delayed);
    }
    port.notify();
    Ok(())
}

pub(crate) enum News<'n> {
    Slot(&'n Lane),
    Cell(&'n MessageCell),
}

#[inline]
pub(crate) fn begin_news<'n>(
    net: &'n Net,
    port: &'n EndpointState,
    to: u64,
    context: Option<u64>,
) -> Result<News<'n>, Refusal> {
    let own = port.own();
    match own.routes.lane_to(to).filter(|lane| lane.room() == Room::Free) {
        None => begin_send(net, port, context).map(News::Cell),
        Some(_) if context.is_some() && !own.tx().reserve() => Err(Refusal::Again),
        Some(lane) => Ok(News::Slot(lane)),
    }
}

#[inline(always)]
pub(crate) fn announce_by_lane(net: &Net, lane: &Lane, len: usize, data: ImmediateData) -> Result<(), Errno> {
    if !lane.is_open_unwatched() {
        return announce_watched(net, lane, len, data);
    }
    lane.send(false, SlotWord::RMA_NOTICE, (len as u64, data.0), |_| {});
    Ok(())
}

#[cold]
#[inline(never)]
fn announce_watched(net: &Net, lane: &Lane, len: usize, data: ImmediateData) -> Result<(), Errno> {
    if !lane.is_open() {
        return Err(Errno::EHOSTUNREACH);
    }
    lane.send(true, SlotWord::RMA_NOTICE, (len as u64, data.0), |_| {});
    wake_receiver(net, lane);
    Ok(())
}

#[inline(always)]
pub(crate) fn announce(
    net: &Net,
    own: &LocalState,
    head: &MessageCell,
    (to, len, data): (u64, usize, ImmediateData),
    delay: Option<u32>,
) -> Result<(), Errno> {
    head.message.set_written(own.addr.get(), len, data.0);
    head.set(State::Eager);
    if own.routes.is_time() {
        consider(net, own, to);
    }
    let pushed = push(net, own, to, head, delay);
    if pushed.is_err() {
        head.come_home();
    }
    pushed
}

/// # Safety
/// See [`send`], for each buffer. With delivery completion, every message counts as long.
pub(crate) unsafe fn send_msg(
    net: &Net,
    port: &EndpointState,
    msg: &Msg<'_>,
    tag: Option<Tag>,
    report: Report,
) -> Result<(), Refusal> {
    let bytes = match msg.pieces {
        [only] => only.ptr.as_ptr(),
        several => {
            at_most(send_limit(net.eager_size), several)?;
            ptr::null_mut()
        }
    };
    let outgoing = Outgoing {
        to: msg.address.0,
        tag: tag.map(|tag| tag.0),
        data: msg.data,
        bytes,
        len: total(msg),
        context: Some(msg.context.addr()),
        delay: port.own().faults().delay(),
    };
    if let Some(lost) = lose(port.own(), outgoing.at_once(report).context, outgoing.sent()) {
        return lost;
    }
    let offered = outgoing.len > net.eager_size || msg.flags.contains(OpFlags::DELIVERY_COMPLETE);
    match (msg.pieces.len(), offered) {
        (1, true) => offer(net, port, outgoing, report),
        // SAFETY: the caller guarantees the bytes.
        (1, false) => unsafe { send(net, port, outgoing, report) },
        (_, true) => offer_from(net, port, outgoing, report, |room| {
            let mut list: List = [NOTHING; LIMIT];
            list.iter_mut().zip(ranges(msg)).for_each(|(to, from)| *to = from);
            // SAFETY: `send_limit` ensures room for a list in the cell, which has its alignment.
            unsafe { room.cast::<List>().write(list) };
            room
        }),
        (_, false) => send_eager(net, port, outgoing.at_once(report), |room| {
            // SAFETY: the cell has room for a short message. The caller guarantees the bytes.
            unsafe { copy_ranges(ranges(msg), core::iter::once((room, outgoing.len))) };
        }),
    }
}
