use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use allocator_api2::alloc::Allocator;
use loom_core::error::{OpenError, PostError};
use loom_core::exposed::Window;
use loom_core::storage::Array;
use loom_core::{Access, Buffer, Domain, Error, Transport};
use loom_transfer::{Engine, Event, NotificationKey, Outcome};

use crate::attr::MediaAttr;
use crate::backlog::Part;
use crate::flow::{FlowKey, Flows, Samples, register};
use crate::layout::FlowLayout;
use crate::link::{Link, Owed, TargetKey, TargetStatus};
use crate::message::{MAX_LEN, Message, Refusal, Token};
use crate::outflow::{Outflow, Sender, Sending, has_sendings};
use crate::peer_cache::Known;
use crate::record::TargetRecord;
use crate::span::Span;

/// Event of an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "each event is reported once"]
pub enum InitiatorEvent {
    /// A target is ready, has refused the flow, or has failed. With [`MediaAttr::retry`], it is
    /// tried again.
    Target {
        /// Target.
        target: TargetKey,
        /// Reason of the failure.
        result: Result<(), Error>,
    },
    /// A transfer to a target has ended.
    Ended {
        /// Target.
        target: TargetKey,
        /// Index of the grain, or number of the first sample.
        start: u64,
        /// Exclusive end: `start` before the last slices of a grain.
        end: u64,
        /// First error.
        result: Result<(), Error>,
    },
    /// Deferred grains or samples that will not be sent: the target failed, or had no room before
    /// others took their places in the ring.
    Passed {
        /// Target.
        target: TargetKey,
        /// First.
        from: u64,
        /// Exclusive end.
        to: u64,
    },
    /// A target was removed, and all transfers to it have ended.
    Removed {
        /// Target.
        target: TargetKey,
    },
}

/// Number of a flow's targets for each result of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "targets may have been passed over"]
pub struct Fanout {
    /// Submitted: ends with [`InitiatorEvent::Ended`].
    pub submitted: usize,
    /// The target has no room, or has not yet processed earlier transfers: a later
    /// [`Initiator::poll`] submits it, or [`InitiatorEvent::Passed`] follows.
    pub deferred: usize,
    /// Passed over: the target is not ready yet.
    pub connecting: usize,
    /// Passed over: the target has failed.
    pub failed: usize,
}

struct TargetSlot<A: Allocator> {
    key: TargetKey,
    link: Option<Link>,
    /// Addresses, to connect again.
    address: Array<u8, A>,
    address_len: usize,
}

/// Sender of media flows from registered rings to many targets.
///
/// Belongs to one thread, and makes progress in [`poll`](Self::poll).
pub struct Initiator<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    engine: Engine<'m, T, M, Span, A>,
    flows: Flows<Outflow, A>,
    targets: Array<TargetSlot<A>, A>,
    sendings: Array<Option<Sending>, A>,
    known: Known<A>,
    /// Of the next attachment.
    token: Token,
    attr: MediaAttr,
    now: Option<u64>,
}

static INITIATORS: AtomicU32 = AtomicU32::new(0);

const UNKNOWN: Error = Error::Invalid("there is no such flow: use the key of `add_flow`, until its removal");

impl<'m, T, M, A> Initiator<'m, T, M, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    A: Allocator + Clone + Send + 'm,
{
    /// Opens an initiator with a rail for each domain.
    ///
    /// # Errors
    /// Those of [`Engine::open_in`].
    pub fn open_in(domains: &[Domain<'m, T>], attr: MediaAttr, alloc: A) -> Result<Self, Error> {
        if u32::try_from(attr.peers.max(attr.transfers)).is_err() {
            return Err(OpenError::Size.into());
        }
        let engine = Engine::open_in(domains, attr.engine(), alloc.clone())?;
        let targets = Array::try_new_in(attr.peers, alloc.clone(), |index| {
            let address = Array::new_in(attr.record, alloc.clone(), |_| 0)?;
            Ok::<_, OpenError>(TargetSlot { key: TargetKey::new(index), link: None, address, address_len: 0 })
        })?;
        let sendings = Array::new_in(attr.transfers, alloc.clone(), |_| None)?;
        let known = Known::new(attr.peers, alloc.clone())?;
        // Differs between processes, by random addresses.
        let instance = (sendings.as_ptr().addr() >> 4).wrapping_mul(0x9E37_79B9);
        #[expect(clippy::cast_possible_truncation, reason = "some of its bits")]
        let instance = (instance as u32).wrapping_add(INITIATORS.fetch_add(1, Ordering::Relaxed));
        let (flows, token) = (Flows::new(attr.flows, alloc)?, Token { instance, number: 1 });
        Ok(Initiator { engine, flows, targets, sendings, known, token, attr, now: None })
    }

    /// Registers memory as the ring of a flow, from grain or sample `first` on. Allocates.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`] for an empty layout or short memory, and those of
    /// [`Engine::register`].
    pub fn add_flow(&mut self, memory: M, layout: FlowLayout, first: u64) -> Result<FlowKey, Error> {
        let full = Error::Full("MediaAttr::flows");
        if !self.flows.has_room() {
            return Err(full);
        }
        let memory = register(&mut self.engine, memory, &layout, Access::empty())?;
        let flow = Outflow {
            memory,
            layout,
            next: first,
            next_slice: 0,
            #[cfg(all(feature = "mxl", target_os = "linux"))]
            source: None,
        };
        self.flows.insert(flow).ok_or(full)
    }

    #[cfg(all(feature = "mxl", target_os = "linux"))]
    pub(crate) fn set_source(&mut self, flow: FlowKey, files: std::sync::Arc<crate::mxl::Files>) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.source = Some(files);
        }
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> Initiator<'_, T, M, A> {
    /// Removes a flow, and drops its memory.
    ///
    /// # Errors
    /// [`PostError::Again`] while the flow has targets, or operations in flight.
    pub fn remove_flow(&mut self, flow: FlowKey) -> Result<(), Error> {
        self.look_at_operations();
        let memory = self.flows.get(flow).ok_or(UNKNOWN)?.memory;
        let has_targets = self.targets.iter().any(|slot| slot.link.as_ref().is_some_and(|link| link.flow == flow));
        if has_targets || self.sendings.iter().flatten().any(|sending| sending.flow == flow) {
            return Err(PostError::Again.into());
        }
        self.flows.remove(flow);
        self.engine.deregister(memory)
    }

    /// Adds a target of a flow by its record, and connects in the background
    /// ([`InitiatorEvent::Target`]).
    ///
    /// # Errors
    /// [`Error::Invalid`] for other bytes or another layout, [`PostError::Again`] for a target that
    /// was added, [`Error::Full`], and those of [`Engine::insert_peer`].
    pub fn add_target(&mut self, flow: FlowKey, record: &[u8]) -> Result<TargetKey, Error> {
        let &Outflow { layout, next, .. } = self.flows.get(flow).ok_or(UNKNOWN)?;
        let record = TargetRecord::decode(record)?;
        if !record.layout.fits(&layout) {
            return Err(Error::Invalid(
                "the target has another layout than the flow: use the same format on both sides",
            ));
        }
        if record.memory.rails() == 0 {
            return Err(Error::Invalid("the target has no rail: use the record of `Target::record`"));
        }
        let Initiator { engine, targets, known, token, .. } = self;
        let is_same = |slot: &TargetSlot<A>| {
            slot.address.get(..slot.address_len) == Some(record.address)
                && slot.link.as_ref().is_some_and(|link| link.number == record.flow)
        };
        if targets.iter().any(is_same) {
            return Err(PostError::Again.into());
        }
        let free = targets.iter().position(|slot| slot.link.is_none()).ok_or(Error::Full("MediaAttr::peers"))?;
        if record.address.len() > self.attr.record {
            return Err(Error::Full("MediaAttr::record"));
        }
        let peer = engine.insert_peer(record.address)?;
        let is_used = |peer| targets.iter().any(|slot| slot.link.as_ref().is_some_and(|link| link.peer == Some(peer)));
        known.insert(peer, is_used).map(|evicted| engine.remove_peer(evicted));
        let slot = targets.get_mut(free).ok_or(Error::Full("MediaAttr::peers"))?;
        if let Some(to) = slot.address.get_mut(..record.address.len()) {
            to.copy_from_slice(record.address);
        }
        slot.address_len = record.address.len();
        slot.link = Some(Link::new(flow, peer, &record, token.take(), next));
        Ok(slot.key)
    }

    /// Removes a target. Submitted transfers end first, deferred ones are passed over.
    /// [`InitiatorEvent::Removed`] follows.
    pub fn remove_target(&mut self, target: TargetKey) -> Result<(), Error> {
        let link = self
            .link_mut(target)
            .ok_or(Error::Invalid("there is no such target: use the key of `add_target`, until its removal"))?;
        link.leaves = true;
        link.backlog.pass_all();
        Ok(())
    }

    /// State of a target. `None` for an unknown key.
    #[must_use]
    pub fn status(&self, target: TargetKey) -> Option<TargetStatus> {
        self.link(target).map(|link| link.status)
    }

    /// Number below which a ready target has room.
    #[must_use]
    pub fn room(&self, target: TargetKey) -> Option<u64> {
        self.link(target).filter(|link| link.status == TargetStatus::Ready).map(|link| link.limit)
    }

    /// Slot of a grain, to write it. `None` while transfers of the earlier grain in the slot have
    /// not ended ([`lap`](Self::lap)).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of samples, or a grain that has been sent.
    pub fn grain(&mut self, flow: FlowKey, index: u64) -> Result<Option<Window<'_>>, Error> {
        let &Outflow { memory, layout, next, .. } = self.flows.get(flow).ok_or(UNKNOWN)?;
        let FlowLayout::Grains(layout, slots) = layout else {
            return Err(Error::Invalid("the flow has samples: use the functions for samples"));
        };
        if index < next || index == u64::MAX {
            return Err(Error::Invalid("the flow has gone beyond this grain: go on with a later one"));
        }
        if !self.free(flow, index.saturating_add(1), slots.into()) {
            return Ok(None);
        }
        let to_usize = |value| usize::try_from(value).map_err(|_| OpenError::Size);
        let (at, len) = (to_usize(index % u64::from(slots) * layout.stride())?, to_usize(layout.len())?);
        let window = self.engine.window(memory).ok_or(UNKNOWN)?;
        Ok(Some(window.slice(at, len)?))
    }

    /// Ring of samples, to write `count` samples from number `start` on. `None` while transfers of
    /// earlier samples in their places have not ended ([`lap`](Self::lap)).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of grains, more samples than the ring has, or some that have
    /// been sent.
    pub fn samples(&mut self, flow: FlowKey, start: u64, count: u32) -> Result<Option<Samples<'_>>, Error> {
        let &Outflow { memory, layout, next, .. } = self.flows.get(flow).ok_or(UNKNOWN)?;
        let FlowLayout::Samples(layout) = layout else {
            return Err(Error::Invalid("the flow has grains: use the functions for grains"));
        };
        if count > layout.len || start < next || start.checked_add(count.into()).is_none() {
            return Err(Error::Invalid(
                "the ring has fewer samples, or the flow has gone beyond these: use a shorter block of later ones",
            ));
        }
        if !self.free(flow, start.saturating_add(count.into()), layout.len.into()) {
            return Ok(None);
        }
        Ok(Some(Samples { window: self.engine.window(memory).ok_or(UNKNOWN)?, layout }))
    }

    /// Cancels transfers that keep grains or samples below `end` from their places, so that
    /// [`grain`](Self::grain) and [`samples`](Self::samples) return these. Their targets are
    /// lapped: each goes on by another attachment once its operations in flight have completed
    /// ([`Target`](crate::Target) states an exception).
    pub fn lap(&mut self, flow: FlowKey, end: u64) -> Result<(), Error> {
        let ring = self.flows.get(flow).ok_or(UNKNOWN)?.layout.ring();
        self.look_at_operations();
        let Initiator { engine, sendings, .. } = self;
        for sending in sendings.iter_mut().flatten().filter(|sending| sending.is_in_place(flow, end, ring)) {
            // If it is too late to cancel, no operation reads the ring any more.
            engine.cancel(sending.transfer);
            sending.is_lapped = true;
        }
        Ok(())
    }

    /// Passes over parts of earlier grains or samples in the places of those below `end`. Returns
    /// `true` if no transfer has these places.
    fn free(&mut self, flow: FlowKey, end: u64, ring: u64) -> bool {
        self.look_at_operations();
        for link in self.targets.iter_mut().filter_map(|slot| slot.link.as_mut()).filter(|link| link.flow == flow) {
            link.backlog.pass_below(end.saturating_sub(ring));
        }
        !self.sendings.iter().flatten().any(|sending| sending.is_in_place(flow, end, ring) && !sending.is_lapped)
    }

    /// Sends slices of a grain to all targets of its flow: those produced since the last call, or
    /// none, for a header alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of samples, an earlier index, slices that were sent, or that
    /// the layout does not have.
    pub fn send_grain(&mut self, flow: FlowKey, index: u64, slices: Range<u16>) -> Result<Fanout, Error> {
        self.send_slices(flow, index, slices, false)
    }

    /// Sends the header of a grain that is invalid.
    pub fn send_invalid(&mut self, flow: FlowKey, index: u64) -> Result<Fanout, Error> {
        self.send_slices(flow, index, 0..0, true)
    }

    fn send_slices(&mut self, key: FlowKey, index: u64, slices: Range<u16>, invalid: bool) -> Result<Fanout, Error> {
        let flow = self.flows.get_mut(key).ok_or(UNKNOWN)?;
        let FlowLayout::Grains(layout, _) = flow.layout else {
            return Err(Error::Invalid("the flow has samples: use the functions for samples"));
        };
        let Range { start, end } = slices;
        if start > end || end > layout.slices {
            return Err(Error::Invalid(
                "the grain does not have these slices: send at most those of `GrainLayout::slices`",
            ));
        }
        if index < flow.next || index == u64::MAX {
            return Err(Error::Invalid("the flow has gone beyond this grain: go on with a later one"));
        }
        if index == flow.next && start < flow.next_slice {
            return Err(Error::Invalid("these slices have been sent: go on with later ones"));
        }
        (flow.next, flow.next_slice) = (index, end);
        if invalid || end == layout.slices {
            (flow.next, flow.next_slice) = (index + 1, 0);
        }
        let ring = flow.layout.ring();
        self.free(key, index + 1, ring);
        Ok(self.send(key, Part::Slices { index, start, end, invalid }))
    }

    /// Sends a block of samples to all targets of its flow.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of grains, no sample or more than the ring has, or samples that
    /// were sent.
    pub fn send_samples(&mut self, key: FlowKey, start: u64, count: u32) -> Result<Fanout, Error> {
        let flow = self.flows.get_mut(key).ok_or(UNKNOWN)?;
        let FlowLayout::Samples(layout) = flow.layout else {
            return Err(Error::Invalid("the flow has grains: use the functions for grains"));
        };
        let end = start.checked_add(count.into()).filter(|_| count > 0 && count <= layout.len && start >= flow.next);
        flow.next =
            end.ok_or(Error::Invalid("the block is empty, longer than the ring, or before the end of an earlier one: send the samples that follow"))?;
        let end = flow.next;
        self.free(key, end, layout.len.into());
        Ok(self.send(key, Part::Samples { start, count }))
    }

    fn send(&mut self, key: FlowKey, part: Part) -> Fanout {
        let mut fanout = Fanout::default();
        let Initiator { engine, flows, targets, sendings, token, .. } = self;
        let Some(flow) = flows.get(key) else { return fanout };
        let mut sender = Sender { engine, sendings, token };
        for slot in targets.iter_mut() {
            let Some(link) = slot.link.as_mut().filter(|link| link.flow == key && !link.leaves) else { continue };
            if let TargetStatus::Ready = link.status {
                link.backlog.push(part);
                sender.submit(flow, slot.key, link);
            }
            match link.status {
                TargetStatus::Connecting => fanout.connecting += 1,
                TargetStatus::Failed(_) => fanout.failed += 1,
                TargetStatus::Ready if link.backlog.first().is_some() => fanout.deferred += 1,
                TargetStatus::Ready => fanout.submitted += 1,
            }
        }
        fanout
    }

    /// Number of transfers that have not ended, or have operations in flight.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.sendings.iter().flatten().count()
    }

    /// Makes progress, and returns the next event. `now` is the time in nanoseconds of any clock.
    ///
    /// # Errors
    /// Those of [`Engine::poll`].
    pub fn poll(&mut self, now: u64) -> Result<Option<InitiatorEvent>, Error> {
        let pause = self.now.replace(now).map_or(0, |before| now.saturating_sub(before));
        if self.attr.silence > 0 && pause > self.attr.silence / 2 {
            for link in self.targets.iter_mut().filter_map(|slot| slot.link.as_mut()) {
                link.is_stale = true;
            }
            for sending in self.sendings.iter().flatten() {
                self.engine.cancel(sending.transfer);
            }
        }
        let mut event = None;
        let Initiator { engine, flows, sendings, .. } = self;
        let check = |plan: &Span| {
            let sending = sendings.get(plan.sending as usize).and_then(Option::as_ref);
            let flow = sending.and_then(|sending| Some((flows.get(sending.flow)?, sending.start)));
            flow.map_or(Ok(()), |(flow, start)| flow.check(start))
        };
        match engine.poll_checked(now, check)? {
            Some(Event::Ended(outcome)) => event = self.ended(&outcome),
            Some(Event::Notified(key)) => self.notified(key),
            Some(Event::Peer { peer, result: Err(error) }) => {
                for link in self.targets.iter_mut().filter_map(|slot| slot.link.as_mut()) {
                    if link.peer == Some(peer) {
                        link.fail(error, false, now.saturating_add(self.attr.retry));
                        link.is_lost = true;
                    }
                }
            }
            _ => {}
        }
        self.serve();
        Ok(event.or_else(|| self.report()))
    }

    fn ended(&mut self, outcome: &Outcome<Span>) -> Option<InitiatorEvent> {
        let slot = self.sendings.get_mut(outcome.request.plan().sending as usize)?;
        let sending = slot.as_mut()?;
        sending.has_ended = true;
        let Sending { target, start, end, .. } = *sending;
        if outcome.in_flight == 0 {
            *slot = None;
        }
        let result = outcome.result().map(|_| ());
        if let Some(link) = self.link_mut(target) {
            link.active -= 1;
            if result.is_err() {
                link.fail_attachment();
            }
        }
        Some(InitiatorEvent::Ended { target, start, end, result })
    }

    /// Forgets transfers that have completed after their outcome.
    fn look_at_operations(&mut self) {
        let Initiator { engine, sendings, .. } = self;
        for slot in sendings.iter_mut() {
            let is_over =
                |sending: &Sending| sending.has_ended && engine.operations_in_flight(sending.transfer).is_none();
            if slot.as_ref().is_some_and(is_over) {
                *slot = None;
            }
        }
    }

    fn notified(&mut self, key: NotificationKey) {
        let Some(notification) = self.engine.notification(key) else { return };
        let peer = notification.peer();
        let mut bytes = [0; MAX_LEN];
        let message = notification.copy_to(&mut bytes).and_then(|bytes| Message::decode(bytes));
        drop(notification);
        let (token, reply) = match message {
            Some(Message::Granted { token, limit, processed, answers }) => (token, Ok((limit, processed, answers))),
            Some(Message::Refused { token, reason }) => (token, Err(reason)),
            _ => return,
        };
        let retry_at = self.now.unwrap_or(0).saturating_add(self.attr.retry);
        let links = self.targets.iter_mut().filter_map(|slot| slot.link.as_mut());
        for link in links.filter(|link| link.peer == Some(peer) && link.token == token) {
            match reply {
                Ok((limit, processed, answers)) => link.grant(limit, processed, answers),
                Err(reason) => {
                    let text = match reason {
                        Refusal::Unknown => "the target does not have the flow: use its newest record",
                        Refusal::Layout => {
                            "the target has another layout than the flow: use the same format on both sides"
                        }
                        Refusal::Busy => "another initiator is attached to the target: remove it there first",
                        Refusal::Protocol => "the target refused a message: use the same version of loom on both sides",
                        Refusal::Closed => "the target ends the flow: use the record of another one",
                    };
                    link.fail(Error::Invalid(text), reason == Refusal::Closed, retry_at);
                }
            }
        }
    }

    fn serve(&mut self) {
        self.look_at_operations();
        let Initiator { engine, flows, targets, sendings, known, token, attr, now, .. } = self;
        let mut sender = Sender { engine, sendings, token };
        for slot in targets.iter_mut() {
            let target = slot.key;
            let Some(link) = &mut slot.link else { continue };
            let Some(flow) = flows.get(link.flow) else { continue };
            if let (TargetStatus::Ready, false) = (link.status, link.leaves) {
                sender.submit(flow, target, link);
            }
            if let (Some(owed), Some(peer)) = (link.owed, link.peer.filter(|_| !link.is_lost)) {
                let Link { number, token, is_first, first, sequence, .. } = *link;
                let message = match owed {
                    Owed::Attach => Some(Message::Attach {
                        flow: number,
                        token,
                        is_first,
                        layout: flow.layout,
                        next: first,
                        sequence,
                    }),
                    Owed::Detach => (link.active == 0).then_some(Message::Detach { flow: number, token, sequence }),
                };
                if let Some((bytes, len)) = message.map(|message| message.encode()) {
                    match sender.engine.notify(peer, bytes.get(..len).unwrap_or(&[])) {
                        Err(Error::Full(_)) => {}
                        Err(error) if error == Error::from(PostError::Again) => {}
                        Ok(()) | Err(_) => link.sent(owed),
                    }
                }
            }
            let is_quiet = link.active == 0 && !has_sendings(sender.sendings, target);
            let now = now.unwrap_or(0);
            let is_failed = matches!(link.status, TargetStatus::Failed(_)) && link.owed.is_none();
            if is_failed && is_quiet && !link.leaves && attr.retry > 0 && now >= link.retry_at {
                link.retry_at = now.saturating_add(attr.retry);
                if link.is_lost
                    && let Some(peer) = link.peer.take()
                {
                    sender.engine.remove_peer(peer);
                    known.remove(peer);
                }
                let address = slot.address.get(..slot.address_len).unwrap_or(&[]);
                if let Ok(peer) = sender.engine.insert_peer(address) {
                    known.insert(peer, |_| true);
                    (link.peer, link.status) = (Some(peer), TargetStatus::Connecting);
                    link.renew(sender.token.take(), flow.next);
                }
            }
        }
    }

    fn report(&mut self) -> Option<InitiatorEvent> {
        let Initiator { targets, sendings, .. } = self;
        targets.iter_mut().find_map(|slot| {
            let (target, link) = (slot.key, slot.link.as_mut()?);
            if let Some((from, to)) = link.backlog.take_passed() {
                return Some(InitiatorEvent::Passed { target, from, to });
            }
            if let Some(result) = link.report.take() {
                return Some(InitiatorEvent::Target { target, result });
            }
            let is_quiet = link.active == 0 && !has_sendings(sendings, target);
            if !(link.leaves && is_quiet && link.is_detached()) {
                return None;
            }
            slot.link = None;
            slot.key = target.next();
            Some(InitiatorEvent::Removed { target })
        })
    }

    fn link(&self, target: TargetKey) -> Option<&Link> {
        self.targets.iter().find(|slot| slot.key == target)?.link.as_ref()
    }

    fn link_mut(&mut self, target: TargetKey) -> Option<&mut Link> {
        self.targets.iter_mut().find(|slot| slot.key == target)?.link.as_mut()
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> fmt::Debug for Initiator<'_, T, M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator").field("in_progress", &self.in_progress()).finish_non_exhaustive()
    }
}
