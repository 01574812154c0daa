//! [`Send`]: operation of an endpoint in flight.

use loom_core::transport::Context;
use loom_core::vocabulary::CompletionFlags;

use super::list::Linked;
use crate::memory::Spans;
use crate::wire::{Frame, Operation};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Message,
    Tagged,
    Read,
    Write,
}

impl Verb {
    pub(super) fn flags(self) -> CompletionFlags {
        match self {
            Verb::Message => CompletionFlags::SEND | CompletionFlags::MSG,
            Verb::Tagged => CompletionFlags::SEND | CompletionFlags::TAGGED,
            Verb::Read => CompletionFlags::READ | CompletionFlags::RMA,
            Verb::Write => CompletionFlags::WRITE | CompletionFlags::RMA,
        }
    }
}

/// Operation to post.
pub(crate) struct Post<'a> {
    pub(crate) peer: u64,
    pub(crate) verb: Verb,
    pub(crate) frame: Frame,
    pub(crate) spans: Spans,
    /// Bytes to copy, instead of spans.
    pub(crate) inject: Option<&'a [u8]>,
    /// `None` for an injected operation.
    pub(crate) context: Option<Context>,
    /// Success is reported, too.
    pub(crate) reports_success: bool,
    /// More operations follow at once (`FI_MORE`).
    pub(crate) more: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SendReport {
    pub(super) endpoint: u16,
    pub(super) verb: Verb,
    /// `None` for an injected operation.
    pub(super) context: Option<u64>,
    pub(super) reports_success: bool,
    /// Length of the operation in bytes.
    pub(super) len: u64,
}

impl SendReport {
    pub(super) fn of(endpoint: u16, post: &Post<'_>) -> Self {
        let Post { verb, reports_success, .. } = *post;
        let len = if verb == Verb::Read { post.spans.left() } else { post.frame.payload };
        SendReport { endpoint, verb, context: post.context.map(Context::addr), reports_success, len }
    }
}

/// Operation in flight.
#[derive(Debug)]
pub(crate) struct Send {
    pub(super) next: u32,
    pub(super) frame: Option<Frame>,
    pub(super) spans: Spans,
    /// Number of injected bytes.
    pub(super) injected: u8,
    pub(super) report: SendReport,
}

impl Send {
    pub(super) fn free(next: u32) -> Self {
        let report = SendReport { endpoint: 0, verb: Verb::Message, context: None, reports_success: false, len: 0 };
        Send { next, frame: None, spans: Spans::default(), injected: 0, report }
    }
}

impl Send {
    /// Returns `true` if the frame announces the message.
    pub(super) fn is_announced(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| matches!(frame.operation, Operation::ReadyToSend { .. }))
    }

    /// Returns `true` if the bytes of the operation follow its header.
    pub(super) fn has_payload(&self) -> bool {
        self.report.verb != Verb::Read && !self.is_announced()
    }
}

impl Linked for Send {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}
