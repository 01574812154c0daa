//! Receives of several messages in one buffer (`FI_MULTI_RECV`), without tags.
//!
//! Each message takes the next part of the buffer when its header arrives. The last event has the
//! flag `MULTI_RECV`.

use loom_core::engine::tag_matcher::Want;
use loom_core::transport::{Event, Refusal};
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::matching::{Receive, ReceiveReport};
use super::rendezvous::NEVER;
use super::{Engine, MessageKind};
use crate::memory::Spans;

const KIND: MessageKind = MessageKind::Untagged;

/// State of a buffer, in the place of its receive.
#[derive(Debug)]
pub(super) struct Multi {
    /// Address of the buffer.
    first: usize,
    /// Minimum of bytes left for the next message.
    min_left: u64,
    /// Number of messages that are arriving.
    arriving: u32,
    /// No further message takes a part.
    is_full: bool,
}

/// Part of a buffer that a message takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Place of the receive with the buffer.
    buffer: usize,
    /// Address of the part.
    address: usize,
}

impl Engine {
    /// Posts a buffer, and moves waiting messages to it.
    pub(crate) fn post_multi_receive(
        &mut self,
        endpoint: u16,
        want: Want,
        spans: Spans,
        context: u64,
    ) -> Result<(), Refusal> {
        let own = &mut self.endpoints[usize::from(endpoint)];
        let (rx, has_ended, min_left) = (own.bound.rx, own.has_ended, own.min_multi_recv);
        if has_ended && own.matchers[KIND as usize].message_for(&want).is_none() {
            return Err(Errno::ENOTCONN.into());
        }
        if !self.reserve(rx) {
            return Err(Refusal::Again);
        }
        let Some(id) = self.endpoints[usize::from(endpoint)].matchers[KIND as usize].post(want) else {
            self.release(rx);
            return Err(Refusal::Again);
        };
        let multi = Multi { first: spans.address(), min_left, arriving: 0, is_full: false };
        let room = spans.left();
        let at = self.receive_at(endpoint, KIND, id);
        self.receives[at] = Receive {
            id: Some(id),
            multi: Some(multi),
            report: ReceiveReport { context, room, part: None },
            spans,
            ..Receive::default()
        };
        while self.receives[at].multi.as_ref().is_some_and(|multi| !multi.is_full) {
            let Some(message) = self.endpoints[usize::from(endpoint)].matchers[KIND as usize].message_for(&want) else {
                break;
            };
            let from = self.unexpected_at(endpoint, KIND, message);
            let Some(part) = self.take_part(endpoint, at, self.unexpected[from].payload()) else {
                // Messages keep their order: without room for its event, no later one may pass it.
                self.end_buffer(endpoint, at);
                break;
            };
            self.endpoints[usize::from(endpoint)].matchers[KIND as usize].remove_message(message);
            self.hand_over(endpoint, KIND, from, part);
        }
        self.try_paused |= self.paused > 0;
        Ok(())
    }

    /// Part of a buffer for a message, or `None` without room for its event.
    pub(super) fn take_part(&mut self, endpoint: u16, at: usize, len: u64) -> Option<Receive> {
        let rx = self.endpoints[usize::from(endpoint)].bound.rx;
        let Receive { multi: Some(multi), spans, report, .. } = &self.receives[at] else { return None };
        let (left, taken) = (spans.left(), len.min(spans.left()));
        let is_last = left - taken < multi.min_left;
        #[expect(clippy::cast_possible_truncation, reason = "less than the buffer has")]
        let address = multi.first + (report.room - left) as usize;
        // The last message has the event of the post.
        if !is_last && !self.reserve(rx) {
            return None;
        }
        let buffer = &mut self.receives[at];
        let spans = buffer.spans.split_front(taken);
        if let Some(multi) = &mut buffer.multi {
            multi.arriving += 1;
        }
        let context = buffer.report.context;
        if is_last {
            self.close_buffer(endpoint, at);
        }
        let report = ReceiveReport { context, room: taken, part: Some(Part { buffer: at, address }) };
        Some(Receive { report, spans, ..Receive::default() })
    }

    /// Lets no further message take a part. The buffer keeps its place until its last event.
    fn close_buffer(&mut self, endpoint: u16, at: usize) {
        let matcher = &mut self.endpoints[usize::from(endpoint)].matchers[KIND as usize];
        let receive = &mut self.receives[at];
        let Some(multi) = &mut receive.multi else { return };
        multi.is_full = true;
        // The matcher gives back the place that was freed.
        if let Some(id) = receive.id
            && matcher.remove_receive(id).is_some()
        {
            receive.id = matcher.post(NEVER);
        }
    }

    /// Completes the event of a message in a buffer. Returns `false` if the event is not reported.
    pub(super) fn finish_part(&mut self, endpoint: u16, part: Option<Part>, event: &mut Event) -> bool {
        let Some(Part { buffer, address }) = part else { return true };
        let Some(multi) = &mut self.receives[buffer].multi else { return true };
        multi.arriving -= 1;
        let is_last = multi.is_full && multi.arriving == 0;
        let has_arrived = !event.is_error() || event.errno == Errno::ETRUNC;
        if !event.is_error() {
            event.overflow_or_place = address;
        }
        if is_last {
            self.free_buffer(endpoint, buffer);
            if has_arrived {
                event.flags |= CompletionFlags::MULTI_RECV;
            } else {
                *event = Event::success(event.context, CompletionFlags::MULTI_RECV, 0);
            }
        }
        // A message that was lost on its way is not one of the buffer.
        is_last || has_arrived
    }

    fn free_buffer(&mut self, endpoint: u16, at: usize) {
        let freed = core::mem::take(&mut self.receives[at]);
        if let Some(id) = freed.id {
            self.endpoints[usize::from(endpoint)].matchers[KIND as usize].remove_receive(id);
        }
    }

    /// Ends a buffer that has no room for the event of a message.
    fn end_buffer(&mut self, endpoint: u16, at: usize) {
        let context = self.receives[at].report.context;
        self.end_with(endpoint, at, Event::success(context, CompletionFlags::MULTI_RECV, 0));
    }

    /// Cancels a buffer, unless its last message is arriving.
    pub(super) fn cancel_buffer(&mut self, endpoint: u16, at: usize) {
        let flags = CompletionFlags::RECV | CompletionFlags::MSG | CompletionFlags::MULTI_RECV;
        self.end_with(endpoint, at, Event::failure(self.receives[at].report.context, flags, Errno::ECANCELED));
    }

    /// Reports the last event of a buffer, unless messages are arriving, one of which has it.
    fn end_with(&mut self, endpoint: u16, at: usize, event: Event) {
        let rx = self.endpoints[usize::from(endpoint)].bound.rx;
        match self.receives[at].multi {
            Some(Multi { is_full: false, arriving: 0, .. }) => {
                self.free_buffer(endpoint, at);
                self.report(rx, event);
            }
            Some(Multi { is_full: false, .. }) => {
                self.close_buffer(endpoint, at);
                self.release(rx);
            }
            _ => {}
        }
    }

    /// Returns `true` if the event of the post belongs to a message that is arriving.
    pub(super) fn is_full_buffer(&self, at: usize) -> bool {
        self.receives[at].multi.as_ref().is_some_and(|multi| multi.is_full)
    }
}
