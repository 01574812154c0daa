//! [`Inflow`]: state of a flow at its target.
//!
//! Numbers (of grains, or of samples) below `kept` are released, and those below the granted limit
//! may be written. The ring has a slot for each number between them. `kept` does not pass a number
//! with a transfer that has not ended. Numbers below `floor` that have not arrived are *lapped*.

use allocator_api2::alloc::Allocator;
use heapless::Vec;
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::{Errno, Error};
use loom_transfer::PeerKey;

use crate::layout::FlowLayout;
use crate::message::{Message, Refusal, Sequence, Token};
use crate::ranges::Ranges;
use crate::target::Release;

struct GrainSlot {
    /// `u64::MAX` for none.
    index: u64,
    arrived: Ranges,
    is_invalid: bool,
}

pub(crate) enum Report {
    Attached,
    Detached(Option<Error>),
    Lapped(u64, u64),
    NoRoom,
}

#[derive(Clone, Copy)]
pub(crate) enum Written {
    Slices { index: u64, start: u16, end: u16, invalid: bool },
    Samples { start: u64, count: u32 },
}

pub(crate) enum News {
    /// The same slices are valid, or later numbers have arrived.
    Old,
    Slices(u16),
    Complete,
    Invalid,
    Samples,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) peer: PeerKey,
    pub(crate) token: Token,
}

/// Request for room from a number on, after so many transfers.
#[derive(Clone, Copy)]
struct Request {
    next: u64,
    sequence: Sequence,
}

pub(crate) struct Inflow<A: Allocator> {
    layout: FlowLayout,
    release: Release,
    slots: Array<GrainSlot, A>,
    attachment: Option<Attachment>,
    request: Option<Request>,
    detach: Option<Sequence>,
    has_failed: bool,
    is_closing: bool,
    has_begun: bool,
    /// Numbers from `kept` on, below `seen`, are kept. `released` is that of the program.
    kept: u64,
    seen: u64,
    released: u64,
    /// Numbers that have arrived whole, or were reported as lapped.
    arrived: Ranges,
    /// Transfers of this sequence and later ones have not ended, except for the `early` ones. Those
    /// of numbers below `floor` have.
    expected: Sequence,
    early: Vec<(Sequence, u64), { Ranges::MAX }>,
    floor: u64,
    limit: u64,
    informed: Sequence,
    /// The accepted request is to be answered.
    answers: bool,
    attached_report: bool,
    detached_report: Option<Option<Error>>,
    no_room_report: bool,
}

impl<A: Allocator> Inflow<A> {
    pub(crate) fn new(layout: FlowLayout, release: Release, alloc: A) -> Result<Self, OpenError> {
        let slots = if let FlowLayout::Grains(_, slots) = layout { slots as usize } else { 0 };
        let slots =
            Array::new_in(slots, alloc, |_| GrainSlot { index: u64::MAX, arrived: Ranges::new(0), is_invalid: false })?;
        Ok(Inflow {
            layout,
            release,
            slots,
            attachment: None,
            request: None,
            detach: None,
            has_failed: false,
            is_closing: false,
            has_begun: false,
            kept: 0,
            seen: 0,
            released: 0,
            arrived: Ranges::new(0),
            expected: 0,
            early: Vec::new(),
            floor: 0,
            limit: 0,
            informed: 0,
            answers: false,
            attached_report: false,
            detached_report: None,
            no_room_report: false,
        })
    }

    pub(crate) const fn layout(&self) -> &FlowLayout {
        &self.layout
    }

    pub(crate) fn is_of(&self, peer: PeerKey) -> bool {
        self.attachment.is_some_and(|attachment| attachment.peer == peer)
    }

    pub(crate) fn is_of_attachment(&self, attachment: Attachment) -> bool {
        self.attachment == Some(attachment)
    }

    pub(crate) const fn close(&mut self) -> Option<Attachment> {
        self.is_closing = true;
        self.attachment
    }

    pub(crate) fn attach(
        &mut self,
        new: Attachment,
        is_first: bool,
        layout: &FlowLayout,
        next: u64,
        sequence: Sequence,
    ) -> Result<(), Refusal> {
        if !self.layout.fits(layout) {
            return Err(Refusal::Layout);
        }
        if self.is_closing {
            return Err(Refusal::Closed);
        }
        match self.attachment {
            Some(current) if current == new => {}
            // It has begun anew at its address.
            Some(current) if current.peer == new.peer && current.token.instance != new.token.instance => {
                self.end(Some(Error::Provider(Errno::ECONNRESET)));
                self.enter(new, sequence);
            }
            // Missing parts will not arrive.
            Some(current) if current.peer == new.peer => {
                self.floor = self.seen;
                if is_first {
                    self.end(None);
                    self.enter(new, sequence);
                } else {
                    let attached_report = self.attached_report;
                    self.enter(new, sequence);
                    self.attached_report = attached_report;
                }
            }
            Some(_) => return Err(Refusal::Busy),
            None => self.enter(new, sequence),
        }
        self.request = Some(Request { next, sequence });
        self.begin();
        self.no_room_report = self.request.is_some() && self.keeps();
        Ok(())
    }

    fn enter(&mut self, attachment: Attachment, sequence: Sequence) {
        self.attachment = Some(attachment);
        (self.expected, self.informed, self.has_failed) = (sequence, sequence, false);
        (self.detach, self.attached_report) = (None, true);
        self.early.clear();
        // Until it is answered.
        self.limit = 0;
    }

    /// Accepts the request once earlier transfers have ended, gaps have been reported, and there is
    /// room.
    fn begin(&mut self) {
        let Some(Request { next, .. }) = self.request.filter(|request| request.sequence == self.expected) else {
            return;
        };
        if self.detached_report.is_some() || self.arrived.start() < self.floor {
            return;
        }
        let ring = self.layout.ring();
        if self.has_begun && next >= self.seen && next < self.end_of_ring() {
            // Kept numbers stay.
            self.floor = self.floor.max(self.seen);
        } else if self.keeps() {
            return;
        } else {
            // Other numbers have no gap, and are not reported again.
            if !self.has_begun || next.saturating_add(ring) < self.arrived.start() {
                self.arrived = Ranges::new(next);
            }
            for slot in self.slots.iter_mut() {
                slot.index = u64::MAX;
            }
            self.has_begun = true;
            (self.kept, self.seen, self.floor, self.released) = (next, next, next, next);
            self.limit = 0;
        }
        (self.request, self.answers) = (None, true);
    }

    fn keeps(&self) -> bool {
        self.release == Release::Explicit && self.released < self.seen
    }

    pub(crate) fn fail(&mut self, peer: PeerKey, error: Error) {
        if self.is_of(peer) {
            self.end(Some(error));
        }
    }

    pub(crate) fn detach(&mut self, sequence: Sequence) {
        self.detach = Some(sequence);
        self.advance();
    }

    fn end(&mut self, error: Option<Error>) {
        (self.attachment, self.request, self.detach, self.answers) = (None, None, None, false);
        // An initiator that has not been reported is not reported as detached.
        if !core::mem::take(&mut self.attached_report) {
            self.detached_report = Some(error);
        }
        self.floor = self.seen;
    }

    pub(crate) fn release(&mut self, below: u64) {
        self.released = self.released.max(below.min(self.seen));
        self.give_room();
    }

    pub(crate) fn poll(&mut self) {
        if let Release::Keep(keep) = self.release {
            self.released = self.released.max(self.seen.saturating_sub(keep));
        }
        self.give_room();
    }

    /// Ends a transfer, after which the initiator does not write below `floor`. Returns `None` if
    /// it breaks the rules.
    fn ended(&mut self, sequence: Sequence, floor: u64) -> Option<()> {
        let ahead = sequence.wrapping_sub(self.expected) as usize;
        let is_known = self.early.iter().any(|early| early.0 == sequence);
        if ahead >= Ranges::MAX || is_known || self.early.push((sequence, floor)).is_err() {
            return None;
        }
        while let Some(at) = self.early.iter().position(|early| early.0 == self.expected) {
            let (_, floor) = self.early.swap_remove(at);
            self.floor = self.floor.max(floor);
            self.expected = self.expected.wrapping_add(1);
        }
        Some(())
    }

    /// Gives room to the initiator, but not in the call that reports a transfer.
    fn give_room(&mut self) {
        if !self.has_failed {
            self.kept = self.kept.max(self.released.min(self.floor));
        }
        self.advance();
    }

    fn advance(&mut self) {
        self.begin();
        if self.detach == Some(self.expected) || self.detach.is_some() && self.has_failed {
            self.end(None);
        }
    }

    /// Slices or samples of a transfer that has arrived, or has `failed`. Returns `None` if the
    /// initiator breaks the rules.
    pub(crate) fn written(&mut self, written: Written, sequence: Sequence, failed: bool) -> Option<News> {
        let (from, to) = match written {
            Written::Slices { index, .. } => (index, index.checked_add(1)?),
            Written::Samples { start, count } => (start, start.checked_add(count.into())?),
        };
        if from < self.kept || from >= to || to > self.limit {
            return None;
        }
        let is_news = to > self.arrived.start();
        let (news, floor) = match (written, self.layout) {
            (Written::Slices { index, start, end, invalid }, FlowLayout::Grains(layout, slots)) => {
                if start > end || end > layout.slices {
                    return None;
                }
                let slot = self.slots.get_mut(usize::try_from(index % u64::from(slots)).ok()?)?;
                if slot.index != index {
                    *slot = GrainSlot { index, arrived: Ranges::new(0), is_invalid: false };
                }
                let is_last = invalid || end == layout.slices;
                let floor = if is_last { to } else { from };
                let before = slot.arrived.start();
                if failed {
                    (News::Old, floor)
                } else if !slot.arrived.insert(start.into(), end.into()) {
                    return None;
                } else {
                    let valid = slot.arrived.start();
                    slot.is_invalid |= invalid;
                    let is_whole = valid == u64::from(layout.slices);
                    if (is_whole || invalid) && !self.arrived.insert(index, to) {
                        return None;
                    }
                    let news = match u16::try_from(valid).ok()? {
                        _ if invalid => News::Invalid,
                        _ if is_whole => News::Complete,
                        valid if u64::from(valid) > before => News::Slices(valid),
                        _ => News::Old,
                    };
                    (news, floor)
                }
            }
            (Written::Samples { .. }, FlowLayout::Samples(_)) => {
                if !failed && !self.arrived.insert(from, to) {
                    return None;
                }
                (if failed { News::Old } else { News::Samples }, to)
            }
            _ => return None,
        };
        self.seen = self.seen.max(to);
        self.has_failed |= failed;
        self.ended(sequence, floor)?;
        self.advance();
        Some(if is_news { news } else { News::Old })
    }

    /// Number of valid slices of a grain, and whether it is invalid.
    pub(crate) fn grain(&self, index: u64) -> Option<(u16, bool)> {
        let at = usize::try_from(index.checked_rem(self.slots.len() as u64)?).ok()?;
        let slot = self.slots.get(at).filter(|slot| slot.index == index && index >= self.kept)?;
        Some((u16::try_from(slot.arrived.start()).ok()?, slot.is_invalid))
    }

    /// Gaps and ends come before another initiator.
    pub(crate) fn report(&mut self) -> Option<Report> {
        if let Some((from, to)) = self.arrived.give_up(self.floor) {
            return Some(Report::Lapped(from, to));
        }
        if let Some(error) = self.detached_report.take() {
            return Some(Report::Detached(error));
        }
        if core::mem::take(&mut self.attached_report) {
            return Some(Report::Attached);
        }
        core::mem::take(&mut self.no_room_report).then_some(Report::NoRoom)
    }

    pub(crate) fn grant(&self, is_idle: bool) -> Option<(PeerKey, Message)> {
        let ready = self.request.is_none() && !self.has_failed && !self.is_closing;
        let Attachment { peer, token } = self.attachment.filter(|_| ready)?;
        let (limit, answers) = (self.end_of_ring(), self.answers);
        // Not for each transfer under load, but before the initiator has no room left.
        let is_low = self.limit.saturating_sub(self.seen) <= limit.saturating_sub(self.seen) / 2;
        let processed = self.expected.wrapping_sub(self.informed) as usize;
        let has_more = limit > self.limit || processed > 0;
        let is_due = has_more && (is_idle || is_low || processed >= Ranges::MAX / 4);
        let grant = Message::Granted { token, limit, processed: self.expected, answers };
        (answers || is_due).then_some((peer, grant))
    }

    pub(crate) const fn granted(&mut self) {
        (self.limit, self.informed, self.answers) = (self.end_of_ring(), self.expected, false);
    }

    const fn end_of_ring(&self) -> u64 {
        self.kept.saturating_add(self.layout.ring())
    }
}
