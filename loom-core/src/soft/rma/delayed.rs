//! Delayed writes and reads.
//!
//! | cell | operation |
//! |---|---|
//! | `message.flags` | read or write, with or without immediate data, `FI_MORE` until the doorbell |
//! | `message.from`, `.tag`, `.len` | the peer, the address in its memory, and the region's key |
//! | `message.data`, `.bytes` | the immediate data, and the local bytes: lent, or injected into the cell |
//! | `looks` | number of looks at which it is done |
//! | `Sending` | context, length, and report |
//! | state | `Eager`: no other eager cell has a `Sending` |

#![allow(unsafe_code, reason = "copies to and from memory that was lent with an operation, and regions")]

use super::{copy, remote_access};
use crate::exposed::copy_exposed;
use crate::soft::delivery::send::{announce, end_offer, lose, take_cell};
use crate::soft::faults::{Fault, MOST_LOOKS};
use crate::soft::mr::{at_region, open_range};
use crate::soft::network::Net;
use crate::soft::network::endpoint_state::{EndpointState, LocalState, Report, Sending};
use crate::soft::shared::address::addr_parts;
use crate::soft::shared::cell::{MessageCell, State};
use crate::transport::{Event, Refusal, RmaTarget};
use crate::vocabulary::{Access, CompletionFlags, FabricAddr, ImmediateData, MemoryKey, OpFlags, RemoteAddr};

/// Write or read of one range. `context` is `None` for an injected write, which reports no success.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RmaOp {
    pub(crate) target: RmaTarget,
    pub(crate) reads: bool,
    pub(crate) bytes: *mut u8,
    pub(crate) len: usize,
    pub(crate) data: Option<ImmediateData>,
    pub(crate) context: Option<u64>,
    pub(crate) report: Report,
    /// With `FI_MORE`.
    pub(crate) more: bool,
}

impl RmaOp {
    pub(crate) const fn flags(&self) -> CompletionFlags {
        CompletionFlags::RMA.union(if self.reads { CompletionFlags::READ } else { CompletionFlags::WRITE })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// After this number of looks of its endpoint.
    Looks(u32),
    /// After a look of its peer, in a strict network.
    PeerLooks,
    /// After the endpoint's next operation without `FI_MORE`.
    Doorbell,
}

/// Flag of a cell that waits for the doorbell.
const ANNOUNCES: CompletionFlags = CompletionFlags::from_bits_retain(OpFlags::MORE.bits());

/// Context of injected operations.
const NO_CONTEXT: u64 = u64::MAX;

const _: () = assert!(usize::BITS == 64, "a length has room for a key");

/// # Safety
/// The requirements of [`hold`].
pub(crate) unsafe fn do_later(
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
    let rules = faults.rules.get();
    let until = match (rules.strict, rules.plan.most_looks()) {
        (Some(strict), _) if strict.holds_rma() => Until::PeerLooks,
        (None, _) if rma.more && rules.plan.doorbell => Until::Doorbell,
        (Some(_), _) | (None, 0) => return None,
        (None, most) => match faults.draw(|random| random.up_to(most)) {
            0 => return None,
            looks => Until::Looks(looks),
        },
    };
    if rma.context.is_none() && rules.strict.is_none() {
        let target = &rma.target;
        if let Err(errno) = open_range(net, target, rma.len, Access::REMOTE_WRITE) {
            return Some(Err(Refusal::Errno(errno)));
        }
    }
    let early = rma.context.filter(|_| early && until == Until::PeerLooks && rma.len <= net.eager_size);
    let rma = match early {
        Some(_) if !port.own().tx().reserve() => return Some(Err(Refusal::Again)),
        Some(_) => &RmaOp { context: None, report: Report::Reported, ..*rma },
        None => rma,
    };
    // SAFETY: the caller guarantees the bytes, and an operation reported early fits into the cell.
    let held = unsafe { hold(net, port, rma, until) };
    match (held, early) {
        (Ok(true), Some(context)) => port.own().end_transmit(Event::success(context, rma.flags(), rma.len)),
        (_, Some(_)) => port.own().tx().release(),
        (_, None) => {}
    }
    match held {
        Ok(true) => Some(Ok(())),
        Ok(false) if until == Until::PeerLooks => Some(Err(Refusal::Again)),
        Ok(false) => None,
        Err(refusal) => Some(Err(refusal)),
    }
}

/// # Safety
/// The bytes are valid for reads or writes: with a context, until its event or until the endpoint
/// is closed. Without one, during the call, and they fit into a cell.
unsafe fn hold(net: &Net, port: &EndpointState, rma: &RmaOp, until: Until) -> Result<bool, Refusal> {
    let own = port.own();
    let Some(head) = take_cell(net, port) else { return Ok(false) };
    own.reserve_transmit(rma.context)?;
    let mut bytes = rma.bytes;
    if rma.context.is_none() {
        bytes = net.eager_room(head);
        // SAFETY: the caller guarantees that bytes without a context are readable and fit into the
        // cell.
        unsafe { copy_exposed(rma.bytes, bytes, rma.len) };
    }
    let data = if rma.data.is_some() { CompletionFlags::REMOTE_CQ_DATA } else { CompletionFlags::empty() };
    let announces = if until == Until::Doorbell { ANNOUNCES } else { CompletionFlags::empty() };
    let message = &head.message;
    message.set_flags(rma.flags() | data | announces);
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
        Until::Doorbell => 0,
    });
    head.set(State::Eager);
    let report = if rma.context.is_some() || rma.report == Report::Reported { rma.report } else { Report::Nothing };
    let (context, to) = (rma.context.unwrap_or(NO_CONTEXT), addr_parts(rma.target.to.0).0);
    net.sending(head).set(Some(Sending { context, to, report, len: rma.len, flags: rma.flags() }));
    own.look_again();
    own.faults().late.set(own.faults().late.get() + 1);
    own.faults().tally.count(Fault::Reordered);
    Ok(true)
}

fn held_back<'n>(net: &'n Net, own: &'n LocalState) -> impl Iterator<Item = &'n MessageCell> {
    let first = own.faults().draw(|random| random.up_to(net.cells_each() - 1));
    let cells = (0..net.cells_each()).map(move |turn| net.cell_in_turn(own, first.wrapping_add(turn)));
    cells.filter(|head| head.is(State::Eager) && net.sending(head).get().is_some())
}

/// Ends the delay of announced operations, unless the next operation has no room.
pub(crate) fn ring(net: &Net, own: &LocalState) {
    if own.faults().rules.get().plan.doorbell && own.faults().late.get() > 0 && own.tx().reserve() {
        own.tx().release();
        for head in held_back(net, own).filter(|head| head.message.flags().contains(ANNOUNCES)) {
            head.message.set_flags(head.message.flags().difference(ANNOUNCES));
            head.looks.set(own.faults().looks.get());
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn do_late(net: &Net, port: &EndpointState) {
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
            !head.message.flags().contains(ANNOUNCES) && looks.wrapping_sub(head.looks.get()) <= MOST_LOOKS
        };
        if due && let Some(sending) = end_offer(net, own, head) {
            faults.late.set(faults.late.get() - 1);
            // SAFETY: the bytes are lent until the report, or lie in the cell.
            unsafe { do_now(net, port, head, &sending) };
        }
    }
}

/// # Safety
/// Lent memory is still lent.
unsafe fn do_now(net: &Net, port: &EndpointState, head: &MessageCell, sending: &Sending) {
    let (own, message, len) = (port.own(), &head.message, sending.len);
    let reads = message.flags().contains(CompletionFlags::READ);
    let target = RmaTarget {
        to: FabricAddr(message.from.get()),
        addr: RemoteAddr(message.tag.get()),
        key: MemoryKey(message.len.get() as u64),
    };
    let (access, counts) = remote_access(reads);
    let done = at_region(net, &target, len, access, counts, |place| {
        // SAFETY: the region is held open and the range lies within. The caller guarantees the
        // bytes.
        unsafe { copy(reads, place, message.bytes.get().cast_mut(), len) };
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

pub(crate) fn forget_late(net: &Net, own: &LocalState) {
    if own.faults().late.replace(0) == 0 {
        return;
    }
    for head in held_back(net, own) {
        if let Some(sending) = end_offer(net, own, head) {
            if !matches!(sending.report, Report::Nothing | Report::Reported) {
                own.tx().release();
            }
            head.come_home();
        }
    }
}
