#![allow(unsafe_code, reason = "passes events of queues to the op table")]

use super::{Completion, Cq, CqError, CqInner, PEER_EVENTS, RemoteEvent};
use crate::buffer::Buffer;
use crate::engine::op_table::{Direction, Message, OpError, ParkedCompletion, Peek, Resolution};
use crate::transport::{Event, Transport};
use crate::vocabulary::Errno;

pub(super) enum UnmatchedEvent {
    Message(Message),
    Peek {
        peek: Peek,
        /// Its future was dropped, so any reader may take it.
        given_up: bool,
    },
    Remote(RemoteEvent),
    Unclaimed(OpError),
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    #[cold]
    pub(super) fn take_any_kept(&self) -> Option<Completion<'m, B>> {
        let kept = self.take_kept(Direction::Receive).or_else(|| self.take_kept(Direction::Transmit));
        self.body.refresh_slow_poll();
        kept
    }

    pub(super) fn take_kept(&self, direction: Direction) -> Option<Completion<'m, B>> {
        if direction == Direction::Receive
            && let Some(event) = self.body.unmatched.borrow_mut().pop_front()
        {
            return Some(self.completion_of(event));
        }
        Some(match self.body.ops.take_parked(direction)? {
            ParkedCompletion::Done(done) => Completion::Op(done),
            ParkedCompletion::Value(fetched) => Completion::Value(fetched),
        })
    }

    pub(super) fn completion_of(&self, event: UnmatchedEvent) -> Completion<'m, B> {
        match event {
            UnmatchedEvent::Message(message) => Completion::Piece(self.piece(self.body.ops.piece(message))),
            UnmatchedEvent::Peek { peek, .. } => Completion::Peek(peek),
            UnmatchedEvent::Remote(event) => Completion::Remote(event),
            UnmatchedEvent::Unclaimed(error) => Completion::Unclaimed(error),
        }
    }
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    pub(super) fn progress(&self) -> Result<bool, CqError> {
        self.post_used_up_again();
        let mut busy = false;
        for queue in core::iter::once(&self.tx).chain(&self.rx) {
            busy |= self.keep_next(queue)?;
        }
        if !busy {
            self.ops.drained(Direction::BOTH);
        }
        Ok(busy)
    }

    /// Returns `false` if the queue is empty.
    ///
    /// # Errors
    /// [`CqError::PeerEvents`] without room for a peer event.
    pub(super) fn keep_next(&self, queue: &T::Cq) -> Result<bool, CqError> {
        if self.unmatched.borrow().is_full() {
            return Err(CqError::PeerEvents);
        }
        let event = self.next_event(queue)?;
        Ok(event.map(|event| self.keep(&event)).is_some())
    }

    /// Keeps the event of a read, or the error event that the read announces.
    pub(super) fn keep_read(&self, queue: &T::Cq, read: Result<Option<Event>, Errno>) -> Result<bool, CqError> {
        let event = self.checked(queue, read)?;
        Ok(event.map(|event| self.keep(&event)).is_some())
    }

    #[inline(never)]
    pub(super) fn keep(&self, event: &Event) {
        let kept = self.take_peer_event(event).map(UnmatchedEvent::Remote).or_else(|| {
            // SAFETY: the transport has just reported the event for this table.
            match unsafe { self.ops.park(event) } {
                Some(Resolution::Piece(piece)) => Some(UnmatchedEvent::Message(piece.into_message())),
                Some(Resolution::Peek(peek)) => Some(UnmatchedEvent::Peek { peek, given_up: false }),
                Some(Resolution::Unwanted(error)) => Some(UnmatchedEvent::Unclaimed(error)),
                Some(Resolution::Foreign) if event.is_error() => Some(UnmatchedEvent::Unclaimed(OpError::of(event))),
                _ => None,
            }
        });
        if let Some(kept) = kept {
            let pushed = self.unmatched.borrow_mut().push_back(kept);
            debug_assert!(pushed.is_ok(), "there is room, as the caller has seen");
            // A driver elsewhere checks for the event.
            self.ops.note_news();
        }
        self.ops.set_slow_poll(true);
    }

    /// Keeps the events that closed endpoints left in the provider queues.
    pub(crate) fn collect(&self) {
        for queue in core::iter::once(&self.tx).chain(&self.rx) {
            for _ in 0..self.ops.capacity() + PEER_EVENTS {
                if !matches!(self.keep_next(queue), Ok(true)) {
                    break;
                }
            }
        }
    }

    /// Recomputes whether polls are slow: always (two provider queues, prefixes, a driver), or
    /// while events are kept, or those of closed endpoints may be queued.
    #[cold]
    pub(super) fn refresh_slow_poll(&self) -> bool {
        let is_slow = self.always_slow || self.driven.get() || self.keeps_something() || self.ops.has_ghosts();
        self.ops.set_slow_poll(is_slow);
        is_slow
    }

    /// Returns `true` if the next poll has work that the provider queue does not signal.
    pub(super) fn keeps_something(&self) -> bool {
        !self.unmatched.borrow().is_empty() || self.ops.has_parked() || self.ops.has_used_up()
    }
}
