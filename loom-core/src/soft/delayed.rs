//! Writes and reads that are done later than they were posted. Each waits in a cell of the endpoint's own, as it would in the
//! queue of a card:
//!
//! | of the cell | is of the operation |
//! |---|---|
//! | `message.flags` | whether it is a read or a write, with immediate data or without |
//! | `message.from`, `.tag`, `.len` | the peer, the address in its memory, and the region's key |
//! | `message.data`, `.bytes` | the immediate data, and where the bytes are on this side: lent, or injected into the cell |
//! | `next` | when it is done: by the number of looks |
//! | what is awaited of it (`Sending`) | context, length, and what is reported |
//! | the state | `Eager`; only here does one that is so await anything |

#![allow(unsafe_code, reason = "copies to and from memory that was lent with an operation, and regions")]

use super::address::addr_parts;
use super::cell::{MessageCell, State};
use super::endpoint_state::{EndpointState, LocalState, Report, Sending};
use super::faults::MOST_LOOKS;
use super::mr::{Counts, at_region, open_range};
use super::network::Net;
use super::send::{announce, end_offer, lose, take_cell};
use crate::exposed::{copy_in, copy_out};
use crate::transport::{Event, Refusal, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, FabricAddr, ImmediateData, MemoryKey, RemoteAddr};

/// A write or a read of one range. `context` is `None` for an injected write, whose success has no event.
#[derive(Clone, Copy, Debug)]
pub(super) struct RmaOp {
    pub(super) target: RmaTarget,
    pub(super) reads: bool,
    pub(super) bytes: *mut u8,
    pub(super) len: usize,
    pub(super) data: Option<ImmediateData>,
    pub(super) context: Option<u64>,
    pub(super) report: Report,
}

impl RmaOp {
    /// What its completion reports.
    pub(super) const fn flags(&self) -> CompletionFlags {
        CompletionFlags::RMA.union(if self.reads { CompletionFlags::READ } else { CompletionFlags::WRITE })
    }
}

/// How long an operation is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// For this number of looks of its endpoint.
    Looks(u32),
    /// Until its peer has looked, in a strict network.
    PeerLooks,
}

/// The context of what was injected, which is no operation's.
const NO_CONTEXT: u64 = u64::MAX;

const _: () = assert!(usize::BITS == 64, "a length has room for a key");

/// Takes a write or a read that is lost, or done later; `None` if it is to be done now. In a strict network, one that may be
/// reported `early`, before it is done, is, if it is short.
///
/// # Safety
/// As [`hold`].
pub(super) unsafe fn do_later(
    net: &Net,
    port: &EndpointState,
    rma: &RmaOp,
    early: bool,
) -> Option<Result<(), Refusal>> {
    let reported = rma.context.filter(|_| rma.report == Report::All);
    if let Some(lost) = lose(port.own(), reported, rma.flags()) {
        return Some(lost);
    }
    let faults = port.own().faults();
    let plan = faults.plan.get();
    let until = match (plan.strict, plan.reorder) {
        (Some(strict), _) if strict.holds_rma() => Until::PeerLooks,
        (Some(_), _) | (None, 0) => return None,
        (None, most) => match faults.draw(|random| random.up_to(most)) {
            0 => return None,
            looks => Until::Looks(looks),
        },
    };
    if rma.context.is_none() && plan.strict.is_none() {
        // It could not be refused later, when no event says how it has ended.
        let target = &rma.target;
        if let Err(errno) = open_range(net, target, rma.len, Access::REMOTE_WRITE) {
            return Some(Err(Refusal::Errno(errno)));
        }
    }
    let early = rma.context.filter(|_| early && until == Until::PeerLooks && rma.len <= net.eager_size);
    let rma = match early {
        Some(_) if !port.own().tx().reserve() => return Some(Err(Refusal::Again)),
        Some(_) => &RmaOp { context: None, report: Report::Told, ..*rma },
        None => rma,
    };
    // SAFETY: the caller's promise; the cell has room for what is reported early.
    let held = unsafe { hold(net, port, rma, until) };
    match (held, early) {
        (Ok(true), Some(context)) => port.own().end_transmit(Event::success(context, rma.flags(), rma.len)),
        (_, Some(_)) => port.own().tx().release(),
        (_, None) => {}
    }
    match held {
        Ok(true) => Some(Ok(())),
        // Those that wait in the cells have to be done first.
        Ok(false) if until == Until::PeerLooks => Some(Err(Refusal::Again)),
        Ok(false) => None,
        Err(refusal) => Some(Err(refusal)),
    }
}

/// Holds an operation back. `false` if there is no cell for it.
///
/// # Safety
/// The bytes are valid for reads, or for writes: if it was injected, during the call, and there are no more than a cell has
/// room for; else until the event of the context or until the endpoint is closed.
unsafe fn hold(net: &Net, port: &EndpointState, rma: &RmaOp, until: Until) -> Result<bool, Refusal> {
    let own = port.own();
    let Some(head) = take_cell(net, port) else { return Ok(false) };
    if rma.context.is_some() && !own.tx().reserve() {
        return Err(Refusal::Again);
    }
    let mut bytes = rma.bytes;
    if rma.context.is_none() {
        bytes = net.eager_room(head);
        // SAFETY: the caller's promise: the cell has room for them.
        unsafe { core::ptr::copy_nonoverlapping(rma.bytes, bytes, rma.len) };
    }
    let data = if rma.data.is_some() { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
    let message = &head.message;
    message.set_flags(rma.flags() | data);
    message.from.set(rma.target.to.0);
    message.tag.set(rma.target.addr.0);
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
    message.len.set(rma.target.key.0 as usize);
    message.data.set(rma.data.map_or(0, |data| data.0));
    message.bytes.set(bytes);
    head.looks.set(match until {
        Until::Looks(looks) => own.faults().looks.get().wrapping_add(looks),
        Until::PeerLooks => {
            let looks = net.looks_of(rma.target.to.0);
            net.have_look(rma.target.to.0);
            looks
        }
    });
    head.set(State::Eager);
    let report = if rma.context.is_some() || rma.report == Report::Told { rma.report } else { Report::Nothing };
    let (context, to) = (rma.context.unwrap_or(NO_CONTEXT), addr_parts(rma.target.to.0).0);
    net.sending(head).set(Some(Sending { context, to, report, len: rma.len, flags: rma.flags() }));
    // The next poll looks.
    own.look_again();
    own.faults().late.set(own.faults().late.get() + 1);
    own.faults().tally.reordered();
    Ok(true)
}

/// The cells in which operations wait, from one on that is drawn.
fn held_back<'n>(net: &'n Net, own: &'n LocalState) -> impl Iterator<Item = &'n MessageCell> {
    let first = own.faults().draw(|random| random.up_to(net.cells_each() - 1));
    let cells = (0..net.cells_each()).map(move |turn| net.cell_in_turn(own, first.wrapping_add(turn)));
    cells.filter(|head| head.is(State::Eager) && net.sending(head).get().is_some())
}

/// Does those whose time has come.
#[cold]
#[inline(never)]
pub(super) fn do_late(net: &Net, port: &EndpointState) {
    let own = port.own();
    let faults = own.faults();
    let looks = faults.looks.get().wrapping_add(1);
    faults.looks.set(looks);
    let strict = faults.strict();
    for head in held_back(net, own) {
        let due = if strict.is_some() {
            let to = head.message.from.get();
            net.looks_of(to) != head.looks.get() || net.reach(to).is_err()
        } else {
            // `hold` takes no more looks than that.
            looks.wrapping_sub(head.looks.get()) <= MOST_LOOKS
        };
        if due && let Some(sending) = end_offer(net, own, head) {
            faults.late.set(faults.late.get() - 1);
            // SAFETY: not reported yet, so that what was lent still is; or it lies in the cell.
            unsafe { do_now(net, port, head, &sending) };
        }
    }
}

/// Does an operation that was held back, and gives up its cell.
///
/// # Safety
/// What was lent with it still is.
unsafe fn do_now(net: &Net, port: &EndpointState, head: &MessageCell, sending: &Sending) {
    let (own, message, len) = (port.own(), &head.message, sending.len);
    let reads = message.flags().contains(CompletionFlags::READ);
    let target = RmaTarget {
        to: FabricAddr(message.from.get()),
        addr: RemoteAddr(message.tag.get()),
        key: MemoryKey(message.len.get() as u64),
    };
    let (access, counts) =
        if reads { (Access::REMOTE_READ, Counts::READ) } else { (Access::REMOTE_WRITE, Counts::WRITE) };
    let done = at_region(net, &target, len, access, counts, |place| {
        let bytes = message.bytes.get();
        if reads {
            // SAFETY: the region is held open and the range lies within; the caller promises the place.
            unsafe { copy_out(place, bytes.cast_mut(), len) };
        } else {
            // SAFETY: as above; the caller promises the bytes.
            unsafe { copy_in(bytes, place, len) };
        }
    });
    let done = if reads { done } else { own.faults().end_of_write(done) };
    let with_data = message.flags().contains(CompletionFlags::REMOTE_CQ_DATA);
    let result = match done {
        Ok(()) if with_data => {
            let data = ImmediateData(message.data.get());
            announce(net, own, head, (target.to.0, len, data), own.faults().delay())
        }
        other => {
            head.come_home();
            other
        }
    };
    let event = match result {
        Ok(()) => Event::success(sending.context, sending.flags, len),
        Err(errno) => Event::failure(sending.context, sending.flags, errno),
    };
    own.report(event, sending.report);
}

/// Gives operations up that are not done yet: what they were lent is not touched any more.
pub(super) fn forget_late(net: &Net, own: &LocalState) {
    if own.faults().late.replace(0) == 0 {
        return;
    }
    for head in held_back(net, own) {
        if let Some(sending) = end_offer(net, own, head) {
            if !matches!(sending.report, Report::Nothing | Report::Told) {
                own.tx().release();
            }
            head.come_home();
        }
    }
}
