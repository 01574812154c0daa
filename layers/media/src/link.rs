//! [`Link`]: state of a flow's target at the initiator.

use loom_core::Error;
use loom_transfer::{PeerKey, RemoteMemory};

use crate::backlog::{Backlog, Part};
use crate::flow::FlowKey;
use crate::layout::FlowLayout;
use crate::message::{Message, Sequence, Token};
use crate::outflow::Outflow;
use crate::ranges::Ranges;
use crate::record::TargetRecord;
use crate::span::Blocks;

/// Name of a target of an initiator's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetKey {
    index: u32,
    generation: u32,
}

impl TargetKey {
    #[expect(clippy::cast_possible_truncation, reason = "the number of targets is a `u32`")]
    pub(crate) const fn new(index: usize) -> Self {
        TargetKey { index: index as u32, generation: 0 }
    }

    pub(crate) const fn next(self) -> Self {
        TargetKey { generation: self.generation.wrapping_add(1), ..self }
    }
}

/// State of a target at its initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetStatus {
    /// Not ready yet.
    Connecting,
    /// It receives the flow.
    Ready,
    /// It has failed, or has refused the flow.
    Failed(Error),
}

#[derive(Clone, Copy)]
pub(crate) enum Owed {
    /// Request for room from `Link::first` on.
    Attach,
    /// After the last transfer.
    Detach,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttachmentState {
    Requested,
    Granted,
    Failed,
}

pub(crate) struct Link {
    pub(crate) flow: FlowKey,
    pub(crate) peer: Option<PeerKey>,
    pub(crate) memory: RemoteMemory,
    pub(crate) layout: FlowLayout,
    pub(crate) number: u32,
    pub(crate) status: TargetStatus,
    pub(crate) report: Option<Result<(), Error>>,
    pub(crate) retry_at: u64,
    /// The peer has failed, and expects no message.
    pub(crate) is_lost: bool,
    pub(crate) leaves: bool,

    pub(crate) token: Token,
    pub(crate) is_first: bool,
    attachment: AttachmentState,
    /// The attachment may have ended meanwhile.
    pub(crate) is_stale: bool,
    has_asked: bool,
    pub(crate) owed: Option<Owed>,

    /// The target has room from `first` on, below `limit`.
    pub(crate) first: u64,
    pub(crate) limit: u64,
    pub(crate) sequence: Sequence,
    /// Number of these that the target has processed.
    processed: Sequence,
    pub(crate) active: u32,
    pub(crate) backlog: Backlog,
}

impl Link {
    pub(crate) fn new(flow: FlowKey, peer: PeerKey, record: &TargetRecord<'_>, token: Token, first: u64) -> Self {
        let mut link = Link {
            flow,
            peer: Some(peer),
            memory: record.memory,
            layout: record.layout,
            number: record.flow,
            status: TargetStatus::Connecting,
            report: None,
            retry_at: 0,
            is_lost: false,
            leaves: false,
            token,
            is_first: true,
            attachment: AttachmentState::Requested,
            is_stale: false,
            has_asked: false,
            owed: None,
            first,
            limit: 0,
            sequence: 0,
            processed: 0,
            active: 0,
            backlog: Backlog::default(),
        };
        link.request_room(first);
        link
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.attachment != AttachmentState::Failed && !self.is_stale
    }

    pub(crate) fn needs_attachment(&self) -> bool {
        let is_stale = self.attachment == AttachmentState::Granted && self.is_stale;
        let is_over = self.attachment == AttachmentState::Failed || is_stale && self.backlog.first().is_some();
        is_over && self.active == 0
    }

    /// `next` follows the backlog.
    pub(crate) fn attach(&mut self, token: &mut Token, next: u64) {
        let first = self.backlog.first().map_or(next, |part| part.range().0);
        if self.attachment == AttachmentState::Failed {
            self.renew(token.take(), first);
        } else {
            self.request_room(first);
        }
    }

    pub(crate) fn renew(&mut self, token: Token, first: u64) {
        (self.token, self.is_first, self.is_lost) = (token, false, false);
        (self.sequence, self.processed, self.limit) = (0, 0, 0);
        self.request_room(first);
    }

    fn request_room(&mut self, first: u64) {
        (self.attachment, self.is_stale, self.owed) = (AttachmentState::Requested, false, Some(Owed::Attach));
        self.first = first;
    }

    pub(crate) const fn fail_attachment(&mut self) {
        self.attachment = AttachmentState::Failed;
    }

    pub(crate) fn next_part(&mut self, flow: &Outflow) -> Option<Part> {
        let is_full = self.sequence.wrapping_sub(self.processed) as usize >= Ranges::MAX;
        if self.attachment == AttachmentState::Requested || self.owed.is_some() || is_full {
            return None;
        }
        let part = self.backlog.first()?;
        let start = part.range().0;
        let part = part.below(self.limit.min(flow.end_of_part(&self.layout, start)));
        if part.is_none() && self.active == 0 {
            self.request_room(start);
        }
        part
    }

    /// Blocks of a part, and their message. `None` for layouts of different kinds.
    pub(crate) fn describe(&self, flow: &Outflow, part: Part) -> Option<(Blocks, Message)> {
        let Link { number, token, sequence, .. } = *self;
        match (part, flow.layout, self.layout) {
            (
                Part::Slices { index, start, end, invalid },
                FlowLayout::Grains(layout, from),
                FlowLayout::Grains(to, slots),
            ) => {
                let (local, remote) =
                    (index % u64::from(from) * layout.stride(), index % u64::from(slots) * to.stride());
                let message = Message::Slices { flow: number, token, index, start, end, invalid, sequence };
                Some((Blocks::Slices { layout, local, remote, start, end }, message))
            }
            (Part::Samples { start, count }, FlowLayout::Samples(from), FlowLayout::Samples(to)) => {
                let message = Message::Samples { flow: number, token, start, count, sequence };
                Some((Blocks::Samples { from, to, start, count }, message))
            }
            _ => None,
        }
    }

    pub(crate) fn submitted(&mut self, part: Part) {
        self.sequence = self.sequence.wrapping_add(1);
        self.active += 1;
        self.backlog.remove(part);
    }

    pub(crate) fn grant(&mut self, limit: u64, processed: Sequence, answers: bool) {
        let is_requested = self.attachment == AttachmentState::Requested;
        if matches!(self.status, TargetStatus::Failed(_)) || is_requested && !answers {
            return;
        }
        if answers && self.status == TargetStatus::Connecting {
            (self.status, self.report) = (TargetStatus::Ready, Some(Ok(())));
        }
        if is_requested {
            self.attachment = AttachmentState::Granted;
        }
        self.limit = if answers { limit } else { self.limit.max(limit) };
        // Messages may overtake each other.
        if processed.wrapping_sub(self.processed) <= self.sequence.wrapping_sub(self.processed) {
            self.processed = processed;
        }
    }

    /// Fails the target. `has_asked` if it expects the end of the attachment.
    pub(crate) fn fail(&mut self, error: Error, has_asked: bool, retry_at: u64) {
        self.has_asked = has_asked;
        self.owed = has_asked.then_some(Owed::Detach);
        if !matches!(self.status, TargetStatus::Failed(_)) {
            (self.status, self.report, self.retry_at) = (TargetStatus::Failed(error), Some(Err(error)), retry_at);
        }
        self.backlog.pass_all();
    }

    pub(crate) const fn sent(&mut self, owed: Owed) {
        self.has_asked = matches!(owed, Owed::Attach);
        self.owed = None;
    }

    /// Returns `true` if the target expects no end. Requests that it is sent otherwise.
    pub(crate) const fn is_detached(&mut self) -> bool {
        let expects = self.has_asked && !self.is_lost;
        if expects {
            self.owed = Some(Owed::Detach);
        }
        !expects
    }
}
