use loom_core::{Buffer, Completion, EndpointAddr, Error, Transport};

use super::super::TargetInfo;
use super::initiator::FabricsInitiator;
use super::posting::Posting;
use super::{Source, has_connections};
use crate::InitiatorEvent;
use crate::backlog::Backlog;
use crate::link::TargetStatus;

pub(super) struct Link {
    pub(super) info: TargetInfo,
    pub(super) address: EndpointAddr,
    pub(super) is_open: bool,
    pub(super) status: TargetStatus,
    pub(super) report: Option<Result<(), Error>>,
    pub(super) retry_at: u64,
    pub(super) due: Option<u64>,
    pub(super) leaves: bool,
    pub(super) backlog: Backlog,
    pub(super) posting: Option<Posting>,
    /// Entry of the next block of samples.
    pub(super) entry: u64,
    /// Grain of the last slices on this endpoint, and their end.
    pub(super) position: Option<(u64, u16)>,
}

#[derive(Clone, Copy)]
pub(super) struct Sending {
    pub(super) target: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) in_flight: usize,
    pub(super) is_posted: bool,
    /// With writes in flight.
    pub(super) is_reported: bool,
    pub(super) result: Result<(), Error>,
}

impl Sending {
    pub(super) fn has_ended(&self) -> bool {
        self.is_posted && self.in_flight == 0
    }

    pub(super) fn is_in_progress(&self) -> bool {
        !self.has_ended() && !self.is_reported
    }
}

impl<T: Transport, M: Buffer + Send> FabricsInitiator<'_, T, M> {
    pub(super) fn reach(&mut self, index: usize) {
        let Some((_, Some(link))) = self.links.get_mut(index) else { return };
        (link.status, link.report, link.position) = (TargetStatus::Ready, Some(Ok(())), None);
    }

    /// Closes the endpoint. Operations in flight complete with an error.
    pub(super) fn fail(&mut self, index: usize, error: Error, now: Option<u64>) {
        let Some((_, Some(link))) = self.links.get_mut(index) else { return };
        self.outgoing.close(index);
        (link.is_open, link.due, self.has_failed) = (false, None, true);
        link.retry_at = now.map_or(0, |now| now.saturating_add(self.attr.retry));
        if !matches!(link.status, TargetStatus::Failed(_)) {
            (link.status, link.report) = (TargetStatus::Failed(error), Some(Err(error)));
        }
        link.backlog.pass_all();
        if let Some(posting) = link.posting.take()
            && let Some(Some(sending)) = self.sendings.get_mut(posting.sending)
        {
            (sending.is_posted, sending.result) = (true, sending.result.and(Err(error)));
        }
    }

    pub(super) fn complete(&mut self) -> Result<(), Error> {
        loop {
            let (number, result) = match self.cq.poll()? {
                Some(Completion::Op(done)) => (done.buf().sending, done.result().map(|_| ())),
                // Failures of a connection that ends.
                Some(_) => continue,
                None => return Ok(()),
            };
            let Some(slot) = self.sendings.get_mut(number) else { continue };
            let Some(sending) = slot else { continue };
            sending.in_flight -= 1;
            if sending.is_reported {
                slot.take_if(|sending| sending.in_flight == 0);
                continue;
            }
            if let (Source::Ring(_), Some(files)) = (&self.from, &self.source) {
                sending.result = sending.result.and(files.check(sending.start));
            }
            let target = sending.target;
            if let Err(error) = result {
                sending.result = sending.result.and(Err(error.into()));
                let error = sending.result.err().unwrap_or(error.into());
                self.fail(target, error, None);
            } else if let Some((_, Some(link))) = self.links.get_mut(target) {
                link.due = None;
            }
        }
    }

    pub(super) fn connect(&mut self, index: usize, now: u64) {
        let (is_quiet, is_awaited) = (self.is_quiet(index), self.is_awaited(index));
        let FabricsInitiator { links, outgoing, attr, .. } = self;
        let Some((_, Some(link))) = links.get_mut(index) else { return };
        if link.is_open {
            let due = *link.due.get_or_insert(now.saturating_add(attr.connect));
            if !is_awaited {
                link.due = None;
            } else if attr.connect > 0 && now >= due {
                self.fail(index, UNANSWERED, Some(now));
            }
            return;
        }
        // Failed in a call without the time.
        if link.retry_at == 0 && matches!(link.status, TargetStatus::Failed(_)) {
            link.retry_at = now.saturating_add(attr.retry);
        }
        let is_due = link.status == TargetStatus::Connecting || attr.retry > 0 && now >= link.retry_at;
        if !is_due || !is_quiet || link.leaves || link.report.is_some() {
            return;
        }
        match outgoing.open(index, &link.address) {
            Ok(is_reached) => {
                (link.is_open, link.status) = (true, TargetStatus::Connecting);
                link.due = Some(now.saturating_add(attr.connect));
                if is_reached {
                    self.reach(index);
                }
            }
            Err(error) => self.fail(index, error, Some(now)),
        }
    }

    /// Returns `true` while [`FabricsAttr::connect`](super::FabricsAttr::connect) limits the time.
    fn is_awaited(&self, index: usize) -> bool {
        let Some((_, Some(link))) = self.links.get(index) else { return false };
        let mut sendings = self.sendings.iter().flatten();
        link.status == TargetStatus::Connecting
            || !has_connections(&self.domain) && sendings.any(|of| of.target == index && of.is_in_progress())
    }

    pub(super) fn is_quiet(&self, index: usize) -> bool {
        !self.sendings.iter().flatten().any(|sending| sending.target == index)
    }

    pub(super) fn report(&mut self) -> Option<InitiatorEvent> {
        let FabricsInitiator { links, sendings, outgoing, .. } = self;
        for slot in sendings.iter_mut() {
            let Some(sending) = slot.as_mut().filter(|sending| !sending.is_reported) else { continue };
            let Sending { target, start, end, result, .. } = *sending;
            let found = links.get(target).and_then(|(key, link)| Some((*key, link.as_ref()?.status)));
            let result = match found {
                _ if sending.has_ended() => {
                    *slot = None;
                    result
                }
                // The provider cannot end these.
                Some((_, TargetStatus::Failed(error))) => {
                    sending.is_reported = true;
                    result.and(Err(error))
                }
                _ => continue,
            };
            if let Some((target, _)) = found {
                return Some(InitiatorEvent::Ended { target, start, end, result });
            }
        }
        let is_busy =
            |index: usize| sendings.iter().flatten().any(|sending| sending.target == index && !sending.is_reported);
        (0..).zip(links.iter_mut()).find_map(|(index, (key, slot))| {
            let (target, link) = (*key, slot.as_mut()?);
            if let Some((from, to)) = link.backlog.take_passed() {
                return Some(InitiatorEvent::Passed { target, from, to });
            }
            if let Some(result) = link.report.take() {
                return Some(InitiatorEvent::Target { target, result });
            }
            if !link.leaves || is_busy(index) || link.posting.is_some() {
                return None;
            }
            outgoing.release(index);
            (*slot, *key) = (None, target.next());
            Some(InitiatorEvent::Removed { target })
        })
    }
}

const UNANSWERED: Error =
    Error::Invalid("the target does not answer in time: restart it, or raise `FabricsAttr::connect`");
