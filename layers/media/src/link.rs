//! [`Link`]: state of a flow's target at the initiator.

use loom_core::Error;
use loom_transfer::{PeerKey, RemoteMemory};

use crate::backlog::Backlog;
use crate::flow::FlowKey;
use crate::layout::FlowLayout;
use crate::message::{Sequence, Token};
use crate::record::TargetRecord;

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

/// Message to send.
#[derive(Clone, Copy)]
pub(crate) enum Owed {
    /// Request for room from `Link::first` on.
    Attach,
    /// After the last transfer.
    Detach,
}

pub(crate) struct Link {
    pub(crate) flow: FlowKey,
    pub(crate) peer: Option<PeerKey>,
    pub(crate) memory: RemoteMemory,
    pub(crate) layout: FlowLayout,
    /// Number of the flow at the target.
    pub(crate) number: u32,
    pub(crate) status: TargetStatus,
    pub(crate) token: Token,
    /// It does not go on from another one.
    pub(crate) is_first: bool,
    /// The target has room from `first` on, below `limit`.
    pub(crate) first: u64,
    pub(crate) limit: u64,
    /// The target has not yet answered a request for room.
    pub(crate) is_waiting: bool,
    /// Number of transfers of the attachment, and of those that the target has processed.
    pub(crate) sequence: Sequence,
    pub(crate) processed: Sequence,
    /// Transfers that have not ended.
    pub(crate) active: u32,
    /// A transfer has failed, and the next one belongs to another attachment.
    pub(crate) is_dirty: bool,
    /// This side has not run for so long that the target may have ended the attachment.
    pub(crate) is_stale: bool,
    pub(crate) owed: Option<Owed>,
    pub(crate) backlog: Backlog,
    pub(crate) report: Option<Result<(), Error>>,
    pub(crate) leaves: bool,
    /// The peer has failed.
    pub(crate) is_lost: bool,
    pub(crate) retry_at: u64,
    /// The target may have attached this side.
    pub(crate) has_asked: bool,
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
            token,
            is_first: true,
            first,
            limit: 0,
            is_waiting: false,
            sequence: 0,
            processed: 0,
            active: 0,
            is_dirty: false,
            is_stale: false,
            owed: None,
            backlog: Backlog::default(),
            report: None,
            leaves: false,
            is_lost: false,
            retry_at: 0,
            has_asked: false,
        };
        link.request_room(first);
        link
    }

    /// Begins another attachment.
    pub(crate) fn renew(&mut self, token: Token, first: u64) {
        self.is_first = false;
        (self.token, self.sequence, self.processed, self.limit) = (token, 0, 0, 0);
        (self.is_dirty, self.is_lost) = (false, false);
        self.request_room(first);
    }

    /// Requests room from a number on. No transfer follows before the answer.
    pub(crate) fn request_room(&mut self, first: u64) {
        (self.first, self.is_waiting, self.is_stale, self.owed) = (first, true, false, Some(Owed::Attach));
    }

    pub(crate) fn grant(&mut self, limit: u64, processed: Sequence, answers: bool) {
        if matches!(self.status, TargetStatus::Failed(_)) || self.is_waiting && !answers {
            return;
        }
        if answers {
            self.limit = limit;
            if matches!(self.status, TargetStatus::Connecting) {
                (self.status, self.report) = (TargetStatus::Ready, Some(Ok(())));
            }
        }
        (self.limit, self.is_waiting) = (self.limit.max(limit), false);
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
        self.is_waiting = false;
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
