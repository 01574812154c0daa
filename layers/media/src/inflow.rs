//! [`Inflow`]: state of a flow at its target.
//!
//! Numbers (of grains, or of samples) below `kept` are released, and those below the granted limit may be
//! written. The ring has a place for each of them. `kept` does not pass a number whose transfer has not
//! ended.

use allocator_api2::alloc::Allocator;
use heapless::Vec;
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::{Errno, Error};
use loom_transfer::PeerKey;

use crate::layout::FlowLayout;
use crate::message::{Refusal, Sequence};
use crate::ranges::Ranges;
use crate::target::Release;

/// Slot of a grain.
struct Slot {
    /// `u64::MAX` for none.
    index: u64,
    arrived: Ranges,
    is_invalid: bool,
}

/// Event of a flow beside those of its messages.
pub(crate) enum Report {
    Attached,
    Detached(Option<Error>),
    Lapped(u64, u64),
    NoRoom,
}

/// Request of an initiator to begin at a number, after so many transfers.
#[derive(Clone, Copy)]
struct Attach {
    next: u64,
    sequence: Sequence,
}

pub(crate) struct Inflow<A: Allocator> {
    layout: FlowLayout,
    release: Release,
    slots: Array<Slot, A>,
    initiator: Option<PeerKey>,
    attach: Option<Attach>,
    detach: Option<Sequence>,
    /// Numbers from `kept` on, below `seen`, are kept. `released` is that of the program.
    kept: u64,
    seen: u64,
    released: u64,
    /// What has arrived whole.
    arrived: Ranges,
    /// Transfers in order end below these.
    expected: Sequence,
    early: Vec<(Sequence, u64), { Ranges::MAX }>,
    /// Transfers of numbers below it have ended.
    floor: u64,
    /// Limit that the initiator has, and whether it has been informed of its attachment.
    limit: u64,
    is_attached: bool,
    /// Late writes may arrive.
    held: bool,
    has_begun: bool,
    attached_report: bool,
    detached_report: Option<Option<Error>>,
    no_room_report: bool,
}

impl<A: Allocator> Inflow<A> {
    pub(crate) fn new(layout: FlowLayout, release: Release, alloc: A) -> Result<Self, OpenError> {
        let slots = if let FlowLayout::Grains(_, slots) = layout { slots as usize } else { 0 };
        let slots =
            Array::new_in(slots, alloc, |_| Slot { index: u64::MAX, arrived: Ranges::new(0), is_invalid: false })?;
        Ok(Inflow {
            layout,
            release,
            slots,
            initiator: None,
            attach: None,
            detach: None,
            kept: 0,
            seen: 0,
            released: 0,
            arrived: Ranges::new(0),
            expected: 0,
            early: Vec::new(),
            floor: 0,
            limit: 0,
            is_attached: false,
            held: false,
            has_begun: false,
            attached_report: false,
            detached_report: None,
            no_room_report: false,
        })
    }

    pub(crate) const fn layout(&self) -> &FlowLayout {
        &self.layout
    }

    pub(crate) const fn initiator(&self) -> Option<PeerKey> {
        self.initiator
    }

    pub(crate) fn attach(
        &mut self,
        peer: PeerKey,
        layout: &FlowLayout,
        next: u64,
        sequence: Sequence,
        is_first: bool,
    ) -> Result<(), Refusal> {
        if !self.layout.fits(layout) {
            return Err(Refusal::Layout);
        }
        if is_first {
            // It has begun anew.
            self.fail(peer, Error::Provider(Errno::ECONNRESET));
        }
        match self.initiator {
            Some(initiator) if initiator != peer => return Err(Refusal::Busy),
            Some(_) => {}
            None => {
                self.initiator = Some(peer);
                self.expected = sequence;
                self.early.clear();
                self.detach = None;
                self.attached_report = true;
            }
        }
        self.attach = Some(Attach { next, sequence });
        self.begin();
        self.no_room_report = self.attach.is_some() && self.keeps();
        Ok(())
    }

    /// Begins at the number of the initiator once earlier transfers have ended, and all is released.
    fn begin(&mut self) {
        let attach = self.attach.filter(|attach| attach.sequence == self.expected && !self.held);
        let Some(Attach { next, .. }) = attach else { return };
        if self.has_begun && next >= self.seen && next < self.kept.saturating_add(self.layout.ring()) {
            // There is room: what is kept stays.
            (self.attach, self.is_attached) = (None, false);
            return;
        }
        if self.keeps() {
            return;
        }
        if !self.has_begun || next.saturating_add(self.layout.ring()) < self.arrived.start() {
            // Before the first initiator, and in the numbers of another source, there is no gap. What was
            // reported shortly before is not reported again.
            self.arrived = Ranges::new(next);
        }
        self.has_begun = true;
        for slot in self.slots.iter_mut() {
            slot.index = u64::MAX;
        }
        self.attach = None;
        (self.kept, self.seen, self.floor, self.released) = (next, next, next, next);
        self.is_attached = false;
    }

    /// Returns `true` if the program has to release something.
    fn keeps(&self) -> bool {
        self.release == Release::Explicit && self.released < self.seen
    }

    pub(crate) fn fail(&mut self, peer: PeerKey, error: Error) {
        if self.initiator == Some(peer) {
            self.end(Some(error));
        }
    }

    pub(crate) fn detach(&mut self, sequence: Sequence) {
        self.detach = Some(sequence);
        self.advance();
    }

    fn end(&mut self, error: Option<Error>) {
        (self.initiator, self.attach, self.detach) = (None, None, None);
        self.detached_report = Some(error);
        self.floor = self.seen;
    }

    /// Late writes of a failed transfer may arrive, or do not any more.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
        if !held {
            self.advance();
        }
    }

    pub(crate) fn release(&mut self, below: u64) {
        self.released = self.released.max(below.min(self.seen));
        self.advance();
    }

    /// Takes the place of a transfer in the order of the initiator, who does not write below `floor`
    /// afterwards. Returns `None` if the initiator breaks the rules.
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

    fn advance(&mut self) {
        let released = match self.release {
            Release::Keep(keep) => self.seen.saturating_sub(keep),
            Release::Explicit => self.released,
        };
        if !self.held {
            self.kept = self.kept.max(released.min(self.floor));
        }
        self.begin();
        if self.detach == Some(self.expected) {
            self.end(None);
        }
    }

    /// Range that the initiator may write to.
    fn is_granted(&self, from: u64, to: u64) -> bool {
        from >= self.kept && from < to && to <= self.limit
    }

    /// Slices of a grain. Returns the number of valid slices if it has grown, and `None` if the initiator
    /// breaks the rules.
    pub(crate) fn slices(
        &mut self,
        index: u64,
        start: u16,
        end: u16,
        is_invalid: bool,
        sequence: Sequence,
        failed: bool,
    ) -> Option<Option<u16>> {
        let FlowLayout::Grains(layout, slots) = self.layout else { return None };
        if start > end || end > layout.slices || !self.is_granted(index, index.checked_add(1)?) {
            return None;
        }
        let slot = self.slots.get_mut(usize::try_from(index % u64::from(slots)).ok()?)?;
        if slot.index != index {
            *slot = Slot { index, arrived: Ranges::new(0), is_invalid: false };
        }
        let (mut valid, is_news) = (None, index >= self.arrived.start());
        if !failed {
            let before = slot.arrived.start();
            if !slot.arrived.insert(start.into(), end.into()) {
                return None;
            }
            let now = slot.arrived.start();
            let is_new = is_invalid && !slot.is_invalid;
            slot.is_invalid |= is_invalid;
            let is_whole = now == u64::from(layout.slices) || slot.is_invalid;
            if is_news && (now > before || is_new) {
                valid = u16::try_from(now).ok();
            }
            if is_whole && !self.arrived.insert(index, index + 1) {
                return None;
            }
        }
        self.seen = self.seen.max(index + 1);
        self.ended(sequence, index)?;
        self.advance();
        Some(valid)
    }

    /// A block of samples. Returns `false` if it was reported before, and `None` if the initiator breaks
    /// the rules.
    pub(crate) fn samples(&mut self, start: u64, count: u32, sequence: Sequence, failed: bool) -> Option<bool> {
        let is_news = start >= self.arrived.start();
        let end = start.checked_add(count.into())?;
        if !matches!(self.layout, FlowLayout::Samples(_)) || !self.is_granted(start, end) {
            return None;
        }
        if !failed && !self.arrived.insert(start, end) {
            return None;
        }
        self.seen = self.seen.max(end);
        self.ended(sequence, end)?;
        self.advance();
        Some(is_news)
    }

    /// Number of valid slices of a grain, and whether it is invalid.
    pub(crate) fn grain(&self, index: u64) -> Option<(u16, bool)> {
        let at = usize::try_from(index.checked_rem(self.slots.len() as u64)?).ok()?;
        let slot = self.slots.get(at).filter(|slot| slot.index == index && index >= self.kept)?;
        Some((u16::try_from(slot.arrived.start()).ok()?, slot.is_invalid))
    }

    pub(crate) fn is_complete(&self, index: u64) -> bool {
        let FlowLayout::Grains(layout, _) = self.layout else { return false };
        let at = usize::try_from(index.checked_rem(self.slots.len() as u64).unwrap_or(0)).unwrap_or(0);
        self.slots.get(at).is_some_and(|slot| slot.index == index && slot.arrived.start() == layout.slices.into())
    }

    pub(crate) fn report(&mut self) -> Option<Report> {
        if core::mem::take(&mut self.attached_report) {
            return Some(Report::Attached);
        }
        if let Some((from, to)) = self.arrived.give_up(self.floor) {
            return Some(Report::Lapped(from, to));
        }
        if let Some(error) = self.detached_report.take() {
            return Some(Report::Detached(error));
        }
        core::mem::take(&mut self.no_room_report).then_some(Report::NoRoom)
    }

    /// Peer and limit of which it has to be informed, and whether it is the first after an attachment.
    pub(crate) fn grant(&self, is_idle: bool) -> Option<(PeerKey, u64, bool)> {
        let peer = self.initiator.filter(|_| self.attach.is_none())?;
        let limit = self.kept.saturating_add(self.layout.ring());
        let is_first = !self.is_attached;
        // Not for each transfer under load, but before the initiator has no room left.
        let is_low = self.limit.saturating_sub(self.seen) <= (limit - self.seen.min(limit)) / 2;
        let is_due = limit > self.limit && (is_idle || is_low);
        (is_first || is_due).then_some((peer, limit, is_first))
    }

    pub(crate) const fn granted(&mut self, limit: u64) {
        (self.limit, self.is_attached) = (limit, true);
    }
}
