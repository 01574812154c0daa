//! [`Ledger`]: operations of a side, and their results. Each ends once, with its buffer.

use std::format;
use std::string::String;
use std::vec::Vec;

use loom_core::completion::Transfer;
use loom_core::{Completion, Cq, Errno, OpKey, PostError, Rejected};

use super::plan::Step;
use crate::Tcp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    Step(Step),
    /// Receive for this message.
    Receive(usize),
}

struct Pending {
    key: OpKey,
    posted: Posted,
    /// Address and length of the buffer.
    buffer: (usize, usize),
}

pub(super) struct Outcome {
    pub(super) posted: Posted,
    pub(super) result: Result<Transfer, Errno>,
    pub(super) buf: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Ledger {
    pending: Vec<Pending>,
    pub(super) outcomes: Vec<Outcome>,
    /// Immediate data of writes by the peer.
    pub(super) events: Vec<u64>,
}

fn place(buf: &[u8]) -> (usize, usize) {
    (buf.as_ptr().addr(), buf.len())
}

impl Ledger {
    /// Posts. A refusal is a result, too.
    pub(super) fn post(
        &mut self,
        posted: Posted,
        buf: Vec<u8>,
        post: impl FnOnce(Vec<u8>) -> Result<OpKey, Rejected<Vec<u8>>>,
    ) -> Result<(), String> {
        let buffer = place(&buf);
        match post(buf) {
            Ok(key) => self.pending.push(Pending { key, posted, buffer }),
            Err(Rejected { value, error }) => {
                let PostError::Errno(errno) = error else { return Err(format!("{posted:?}: {error}")) };
                if place(&value) != buffer {
                    return Err(format!("{posted:?}: another buffer"));
                }
                self.outcomes.push(Outcome { posted, result: Err(errno), buf: value });
            }
        }
        Ok(())
    }

    pub(super) fn poll(&mut self, cq: &Cq<'_, Tcp, Vec<u8>>) -> Result<(), String> {
        match cq.poll() {
            Ok(None) => Ok(()),
            Ok(Some(Completion::Op(done))) => {
                let key = done.key();
                let found = self.pending.iter().position(|pending| pending.key == key);
                let Some(found) = found else { return Err(format!("a completion of no operation: {key:?}")) };
                let Pending { posted, buffer, .. } = self.pending.remove(found);
                let (buf, result) = done.into_parts();
                if place(&buf) != buffer {
                    return Err(format!("{posted:?}: another buffer"));
                }
                self.outcomes.push(Outcome { posted, result: result.map_err(|failed| failed.errno), buf });
                Ok(())
            }
            Ok(Some(Completion::Remote(event))) => {
                self.events.extend(event.data().map(|data| data.0));
                Ok(())
            }
            Ok(Some(other)) => Err(format!("another completion: {other:?}")),
            Err(error) => Err(format!("the queue: {error}")),
        }
    }

    pub(super) fn receives(&self) -> Vec<OpKey> {
        let receives = self.pending.iter().filter(|pending| matches!(pending.posted, Posted::Receive(_)));
        receives.map(|pending| pending.key).collect()
    }

    pub(super) fn steps(&self) -> usize {
        self.pending.len() - self.receives().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn has_succeeded(&self, posted: Posted) -> bool {
        self.outcomes.iter().any(|outcome| outcome.posted == posted && outcome.result.is_ok())
    }

    /// Receives, in the order of their posts.
    pub(super) fn received(&self) -> Vec<(usize, &Outcome)> {
        let mut received: Vec<_> = self
            .outcomes
            .iter()
            .filter_map(|outcome| match outcome.posted {
                Posted::Receive(index) => Some((index, outcome)),
                Posted::Step(_) => None,
            })
            .collect();
        received.sort_by_key(|(index, _)| *index);
        received
    }
}
