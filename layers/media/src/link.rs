//! [`Link`]: state of a flow's target at the initiator.

use loom_core::Error;
use loom_transfer::{PeerKey, RemoteMemory};

use crate::backlog::Backlog;
use crate::flow::FlowKey;
use crate::layout::FlowLayout;
use crate::message::Sequence;
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

#[derive(Clone, Copy)]
pub(crate) enum Status {
    Connecting,
    Attached,
    Failed(Error),
}

/// Message to send.
#[derive(Clone, Copy)]
pub(crate) enum Owed {
    /// Begin at this number.
    Attach(u64),
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
    pub(crate) status: Status,
    /// The target has room from `first` on, below `limit`.
    pub(crate) first: u64,
    pub(crate) limit: u64,
    /// The target has not yet answered a request for room.
    pub(crate) is_waiting: bool,
    pub(crate) sequence: Sequence,
    /// Transfers that have not ended.
    pub(crate) active: u32,
    pub(crate) owed: Option<Owed>,
    pub(crate) backlog: Backlog,
    pub(crate) report: Option<Result<(), Error>>,
    pub(crate) leaves: bool,
    /// The peer has failed.
    pub(crate) is_lost: bool,
    pub(crate) retry_at: u64,
    /// The target expects the end of the flow.
    pub(crate) has_attached: bool,
}

impl Link {
    pub(crate) fn new(flow: FlowKey, peer: PeerKey, record: &TargetRecord<'_>, next: u64) -> Self {
        Link {
            flow,
            peer: Some(peer),
            memory: record.memory,
            layout: record.layout,
            number: record.flow,
            status: Status::Connecting,
            first: next,
            limit: 0,
            is_waiting: false,
            sequence: 0,
            active: 0,
            owed: Some(Owed::Attach(next)),
            backlog: Backlog::default(),
            report: None,
            leaves: false,
            is_lost: false,
            retry_at: 0,
            has_attached: false,
        }
    }

    /// Connects again.
    pub(crate) fn connect(&mut self, peer: PeerKey, next: u64) {
        (self.peer, self.status, self.is_lost) = (Some(peer), Status::Connecting, false);
        (self.owed, self.sequence, self.has_attached) = (Some(Owed::Attach(next)), 0, false);
        (self.first, self.limit, self.is_waiting) = (next, 0, false);
    }

    pub(crate) fn grant(&mut self, limit: u64, is_first: bool) {
        if is_first {
            (self.limit, self.is_waiting) = (limit, false);
            if !matches!(self.status, Status::Attached) {
                (self.status, self.report) = (Status::Attached, Some(Ok(())));
            }
        } else if !self.is_waiting {
            self.limit = self.limit.max(limit);
        }
    }

    /// Requests room from a number on. No transfer follows before the answer.
    pub(crate) const fn request_room(&mut self, first: u64) {
        (self.first, self.is_waiting, self.owed) = (first, true, Some(Owed::Attach(first)));
    }

    pub(crate) fn fail(&mut self, error: Error) {
        if !matches!(self.status, Status::Failed(_)) {
            (self.status, self.report) = (Status::Failed(error), Some(Err(error)));
            self.owed = self.has_attached.then_some(Owed::Detach);
            self.backlog.pass_all();
        }
    }

    pub(crate) const fn sent(&mut self, owed: Owed) {
        self.has_attached = matches!(owed, Owed::Attach(_));
        self.owed = None;
    }

    /// Returns `true` if the target expects no end. Requests that it is sent otherwise.
    pub(crate) const fn is_detached(&mut self) -> bool {
        if self.has_attached && !self.is_lost {
            self.owed = Some(Owed::Detach);
            return false;
        }
        true
    }
}
