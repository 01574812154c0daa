//! Operations: their posts, and how they end.
//!
//! The first operation on a connection after a poll is sent at once if its queue is empty, and all
//! over shared memory. Polls send others when the queue is empty, many in one system call.

use loom_core::transport::{Event, Refusal};
use loom_core::vocabulary::Errno;
use rustix::fd::AsFd;

use super::connection::{Connection, Item, State};
use super::loss::Loss;
use super::outgoing::unless_full;
use super::send::{Post, Send, SendReport, Verb};
use super::{Engine, NIL, socket};
use crate::memory::Gather;
use crate::wire::{Frame, Operation};

/// Bytes of a frame that were taken.
enum Sent {
    Whole,
    /// Number of bytes, of the header too.
    Part(u64),
}

impl Engine {
    pub(crate) fn post(&mut self, endpoint: u16, post: Post<'_>) -> Result<(), Refusal> {
        let index = self.route(endpoint, post.peer)?;
        let own = &self.endpoints[usize::from(endpoint)];
        let (tx, has_place) = (own.bound.tx, own.free_sends.count() > 0);
        if !has_place || post.context.is_some() && !self.reserve(tx) {
            return Err(Refusal::Again);
        }
        let at_once = !post.more && self.sends_at_once(index, tx);
        if !at_once || !self.is_next(index, &post) {
            self.queue(endpoint, index, post);
            if at_once {
                self.flush(index);
            } else {
                self.mark_dirty(index);
            }
            return Ok(());
        }
        match self.send_one(index, &post) {
            Ok(Sent::Whole) => self.finish(&SendReport::of(endpoint, &post)),
            Ok(Sent::Part(sent)) => {
                self.queue(endpoint, index, post);
                self.record_part(index, sent);
                self.await_room(index);
            }
            Err(loss) => {
                self.queue(endpoint, index, post);
                self.fail_sending(index, loss);
            }
        }
        Ok(())
    }

    /// Returns `true` for the first operation of a turn without events, and with shared memory.
    #[inline]
    fn sends_at_once(&mut self, index: u32, tx: u16) -> bool {
        let is_first = self.connections[index as usize].sent_in != self.turn && self.first_event(tx).is_none();
        let connection = &mut self.connections[index as usize];
        if connection.state != State::Open || connection.is_full {
            return false;
        }
        if is_first {
            connection.sent_in = self.turn;
        }
        is_first || connection.pipe.is_some() && !connection.is_dirty
    }

    /// Returns `true` if no frame goes before a post, which ends with its last sent byte.
    #[inline]
    fn is_next(&self, index: u32, post: &Post<'_>) -> bool {
        let connection = &self.connections[index as usize];
        let is_short = !connection.announces || post.frame.payload <= u64::from(self.attr.rendezvous_size);
        let ends = is_short && post.frame.flags.is_empty() && post.verb != Verb::Read;
        let is_quiet = connection.queue.is_empty() && !connection.is_broken && connection.session.is_none();
        ends && is_quiet && !connection.has_frames(&self.sends)
    }

    #[inline]
    fn send_one(&mut self, index: u32, post: &Post<'_>) -> Result<Sent, Loss> {
        let Self { connections, outbox, ranges, .. } = self;
        let Connection { order, frame_number, socket, pipe, .. } = &mut connections[index as usize];
        let Some(socket) = socket else { return Ok(Sent::Part(0)) };
        let mut gather = Gather::over(outbox, ranges);
        gather.encode(|out| post.frame.encode(*order, *frame_number, out));
        gather.copy(post.inject.unwrap_or_default());
        gather.spans(&post.spans);
        let total = gather.len();
        let sent = match pipe {
            None => unless_full(gather.send(socket.as_fd()))?,
            Some(pipe) => {
                let sent = pipe.send(gather).map_err(|error| Loss::Violation(error.into()))?;
                pipe.wake_reader(|| socket::send_byte(socket));
                sent
            }
        };
        *frame_number = frame_number.wrapping_add((sent > 0).into());
        Ok(if sent == total { Sent::Whole } else { Sent::Part(sent) })
    }

    fn queue(&mut self, endpoint: u16, connection: u32, post: Post<'_>) {
        let free_sends = &mut self.endpoints[usize::from(endpoint)].free_sends;
        let Some(index) = free_sends.take(&mut self.sends) else { return };
        let mut injected = 0;
        if let Some(bytes) = post.inject
            && let Some(room) = self.injected[index as usize].get_mut(..bytes.len())
        {
            room.copy_from_slice(bytes);
            injected = bytes.len();
        }
        let report = SendReport::of(endpoint, &post);
        self.sends[index as usize] = Send {
            next: NIL,
            frame: Some(post.frame),
            spans: post.spans,
            #[expect(clippy::cast_possible_truncation, reason = "at most `INJECT_SIZE`")]
            injected: injected as u8,
            report,
        };
        let connection_of = &mut self.connections[connection as usize];
        connection_of.queue.push(&mut self.sends, index);
        if connection_of.state == State::Open {
            self.announce(connection, index);
        }
    }

    /// Records the sent bytes of the only operation in the queue.
    fn record_part(&mut self, index: u32, sent: u64) {
        let connection = &mut self.connections[index as usize];
        if sent > 0
            && let Some(send) = connection.queue.pop(&mut self.sends)
        {
            let (order, number) = (connection.order, connection.frame_number.wrapping_sub(1));
            let mut partial = self.partial(Item::Send(send), order, number);
            self.advance(&mut partial, sent);
            self.connections[index as usize].current = Some(partial);
        }
    }

    pub(super) fn finish_send(&mut self, send: u32) {
        let report = self.free_send(send);
        self.finish(&report);
    }

    #[inline]
    fn finish(&mut self, report: &SendReport) {
        let SendReport { endpoint, verb, context, reports_success, len } = *report;
        self.count(endpoint, verb.flags(), true);
        let tx = self.endpoints[usize::from(endpoint)].bound.tx;
        if let Some(context) = context {
            if reports_success {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                self.report(tx, Event::success(context, verb.flags(), len));
            } else {
                self.release(tx);
            }
        }
    }

    /// Ends an operation with an error, or without an event.
    pub(super) fn fail_send(&mut self, send: u32, errno: Errno, code: i32, quietly: bool) {
        let SendReport { endpoint, verb, context, .. } = self.free_send(send);
        let tx = self.endpoints[usize::from(endpoint)].bound.tx;
        self.count(endpoint, verb.flags(), false);
        if let Some(context) = context {
            if quietly {
                self.release(tx);
            } else {
                let mut event = Event::failure(context, verb.flags(), errno);
                event.provider_errno = code;
                self.report(tx, event);
            }
        }
    }

    fn free_send(&mut self, send: u32) -> SendReport {
        let report = self.sends[send as usize].report;
        self.endpoints[usize::from(report.endpoint)].free_sends.give_back(&mut self.sends, send);
        report
    }

    /// Cancels an operation before its first byte is sent, or a receive.
    pub(crate) fn cancel(&mut self, endpoint: u16, context: u64) {
        if self.cancel_receive(endpoint, context) {
            return;
        }
        let Self { connections, sends, .. } = self;
        let of_endpoint = connections.iter_mut().filter(|connection| connection.endpoint == endpoint);
        let mut found = of_endpoint.filter_map(|connection| {
            let send = connection.queue.remove(sends, |send| send.report.context == Some(context))?;
            if let Some(Frame { operation: Operation::ReadyToSend { id, .. }, .. }) = sends[send as usize].frame {
                connection.numbers.give_back(id);
            }
            Some(send)
        });
        if let Some(send) = found.next() {
            self.fail_send(send, Errno::ECANCELED, 0, false);
        }
    }
}
