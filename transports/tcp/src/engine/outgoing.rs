//! Frames to the socket, or to shared memory.
//!
//! Acknowledgements and read responses go before operations.

use heapless::Vec;
use loom_core::vocabulary::{CompletionFlags, Errno};
use rustix::event::epoll::EventFlags;
use rustix::fd::AsFd;
use rustix::io;

use super::connection::{Connection, Item, Partial, RESPONSES, State};
use super::loss::Loss;
use super::send::{Send, Verb};
use super::socket::{self, errno};
use super::{BATCH, Engine, Injected, NIL};
use crate::memory::Gather;
use crate::tls::Session;
use crate::wire::{ByteOrder, Frame, FrameFlags, MAX_HEADER, Operation};

/// Reads of a connection that its peer has ended, for the bytes that the kernel may have.
const LAST_READS: usize = 1024;

const ACKNOWLEDGEMENT: Frame = Frame { operation: Operation::Acknowledgement, flags: FrameFlags::empty(), payload: 0 };

fn response_frame(payload: u64) -> Frame {
    Frame { operation: Operation::ReadResponse, flags: FrameFlags::empty(), payload }
}

fn request_frame(id: u8) -> Frame {
    Frame { operation: Operation::ClearToSend { id }, flags: FrameFlags::empty(), payload: 0 }
}

/// Result of a send. The default without a sent byte.
pub(super) fn unless_full<V: Default>(sent: io::Result<V>) -> Result<V, Loss> {
    match sent {
        Err(io::Errno::AGAIN | io::Errno::INTR) => Ok(V::default()),
        sent => sent.map_err(|error| Loss::Ended(errno(error))),
    }
}

/// Origin of a frame that is still queued.
#[derive(Clone, Copy)]
enum Queued {
    Acknowledgement,
    Request,
    Response,
    Requested(u32),
    Send(u32),
}

#[derive(Clone, Copy)]
struct Planned {
    queued: Queued,
    /// Position behind the frame in the bytes of the system call.
    end: u64,
}

/// Frames of one system call that begin in it.
struct Batch {
    frames: Vec<Planned, BATCH>,
    order: ByteOrder,
    /// Number of the next frame.
    number: u8,
}

impl Batch {
    fn has_room(&self, gather: &Gather<'_>) -> bool {
        !self.frames.is_full() && !gather.is_full()
    }

    fn add_header(&mut self, frame: &Frame, gather: &mut Gather<'_>) {
        gather.encode(|out| frame.encode(self.order, self.number, out));
        self.number = self.number.wrapping_add(1);
    }

    fn end_frame(&mut self, queued: Queued, gather: &Gather<'_>) {
        let _ = self.frames.push(Planned { queued, end: gather.len() });
    }

    #[inline]
    fn add_acknowledgements(&mut self, connection: &Connection, gather: &mut Gather<'_>) {
        for _ in 0..connection.acknowledgements {
            if !self.has_room(gather) {
                return;
            }
            self.add_header(&ACKNOWLEDGEMENT, gather);
            self.end_frame(Queued::Acknowledgement, gather);
        }
    }

    #[inline]
    fn add_requests(&mut self, connection: &Connection, gather: &mut Gather<'_>) {
        for number in &connection.requests {
            if !self.has_room(gather) {
                return;
            }
            self.add_header(&request_frame(*number), gather);
            self.end_frame(Queued::Request, gather);
        }
    }

    #[inline]
    fn add_responses<'a>(&mut self, connection: &'a Connection, gather: &mut Gather<'a>) {
        for response in &connection.responses {
            if !self.has_room(gather) {
                return;
            }
            self.add_header(&response_frame(response.len), gather);
            gather.spans(&response.spans);
            self.end_frame(Queued::Response, gather);
        }
    }

    #[inline]
    fn add_operations<'a>(
        &mut self,
        (first, queued): (Option<u32>, fn(u32) -> Queued),
        mut reading: usize,
        (sends, injected): (&'a [Send], &[Injected]),
        gather: &mut Gather<'a>,
    ) {
        let mut next = first.unwrap_or(NIL);
        while next != NIL && self.has_room(gather) {
            let send = &sends[next as usize];
            let Some(frame) = &send.frame else { return };
            if send.report.verb == Verb::Read {
                if reading == RESPONSES {
                    return;
                }
                reading += 1;
            }
            self.add_header(frame, gather);
            gather.copy(injected[next as usize].get(..usize::from(send.injected)).unwrap_or_default());
            if send.has_payload() {
                gather.spans(&send.spans);
            }
            self.end_frame(queued(next), gather);
            next = send.next;
        }
    }
}

impl Partial {
    /// Adds the unsent bytes of the frame.
    #[inline]
    fn add_rest<'a>(&'a self, sends: &'a [Send], injected: &[Injected], gather: &mut Gather<'a>) {
        gather.copy(self.header.get(self.sent..self.len).unwrap_or_default());
        match &self.item {
            Item::Send(send) => {
                let (bytes, send) = (&injected[*send as usize], &sends[*send as usize]);
                let skipped = self.sent.saturating_sub(self.len);
                gather.copy(bytes.get(skipped..usize::from(send.injected)).unwrap_or_default());
                if send.has_payload() {
                    gather.spans(&send.spans);
                }
            }
            Item::Response(response) => gather.spans(&response.spans),
            Item::Acknowledgement | Item::Request(_) => {}
        }
    }
}

impl Engine {
    /// Notes that a connection has frames to send.
    pub(super) fn mark_dirty(&mut self, index: u32) {
        let Self { connections, sends, .. } = self;
        let connection = &mut connections[index as usize];
        if !connection.is_dirty
            && !connection.is_full
            && connection.has_frames(sends)
            && connection.state == State::Open
        {
            connection.is_dirty = true;
            connection.next_dirty = self.dirty;
            self.dirty = index;
        }
    }

    /// Marks a connection for which the next poll looks for room.
    fn mark_retried(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !connection.is_dirty {
            connection.is_dirty = true;
            connection.next_dirty = self.retried;
            self.retried = index;
        }
    }

    pub(super) fn unmark_dirty(&mut self, index: u32, next: u32) {
        if self.dirty == index {
            self.dirty = next;
        } else if self.retried == index {
            self.retried = next;
        } else {
            let before = self.connections.iter_mut().find(|before| before.is_dirty && before.next_dirty == index);
            if let Some(before) = before {
                before.next_dirty = next;
            }
        }
    }

    /// Returns `true` if frames wait for [`send_dirty`](Self::send_dirty).
    #[inline]
    pub(crate) const fn is_dirty(&self) -> bool {
        self.dirty != NIL
    }

    /// Sends the frames of all connections, as far as the kernel takes them.
    pub(crate) fn send_dirty(&mut self) {
        while self.dirty != NIL {
            let index = self.dirty;
            let connection = &mut self.connections[index as usize];
            self.dirty = connection.next_dirty;
            connection.is_dirty = false;
            self.flush(index);
        }
        self.dirty = core::mem::replace(&mut self.retried, NIL);
    }

    /// Sends frames, and lets the kernel or the peer report room for the others, before this side
    /// sleeps. Returns `false` with bytes or room in shared memory, or a socket that is not
    /// watched.
    pub(super) fn leave_dirty(&mut self) -> bool {
        let is_watched = self.watch_last();
        self.send_dirty();
        self.arm_shared() && is_watched
    }

    /// Sends the frames of a connection, as far as the kernel takes them.
    pub(super) fn flush(&mut self, index: u32) {
        while self.connections[index as usize].state == State::Open
            && !self.connections[index as usize].is_full
            && self.connections[index as usize].has_frames(&self.sends)
        {
            match self.send_batch(index) {
                Ok(true) => {}
                Ok(false) => return self.await_room(index),
                Err(loss) => self.fail_sending(index, loss),
            }
        }
    }

    /// The kernel reports room in a socket. Polls look for room in shared memory.
    pub(super) fn await_room(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if connection.pipe.is_some() {
            return self.mark_retried(index);
        }
        connection.is_full = true;
        self.watch_open(index);
        let connection = &mut self.connections[index as usize];
        if connection.watched.is_none() {
            connection.is_full = false;
            self.mark_retried(index);
        }
    }

    pub(super) fn fail_sending(&mut self, index: u32, loss: Loss) {
        match loss {
            Loss::Ended(errno) => self.end_sends(index, errno),
            loss => self.lose(index, loss),
        }
    }

    /// Ends the send side of a connection. Frames that the peer has sent before are received.
    fn end_sends(&mut self, index: u32, errno: Errno) {
        let loss = Loss::Ended(errno);
        let connection = &mut self.connections[index as usize];
        connection.is_broken = true;
        // Answers cannot be sent any more, and make room for frames that have arrived.
        connection.acknowledgements = 0;
        connection.requests.clear();
        connection.responses.clear();
        self.try_paused |= self.paused > 0;
        // Later operations open another connection. Those that were sent may still be answered.
        self.forget_routes(index);
        self.fail_unsent(index, loss);
        for _ in 0..LAST_READS {
            let before = self.connections[index as usize].received;
            self.read(index);
            let connection = &self.connections[index as usize];
            if !connection.is_broken || connection.is_paused {
                return;
            }
            if connection.received == before {
                break;
            }
        }
        self.lose(index, loss);
    }

    /// Events of an open connection to wait for.
    pub(super) fn watch_open(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        let mut flags = EventFlags::empty();
        // A byte of a peer may concern room in shared memory.
        if !connection.is_paused || connection.pipe.is_some() {
            flags |= EventFlags::IN;
        }
        if connection.is_full {
            flags |= EventFlags::OUT;
        }
        self.watch(index, flags);
    }

    /// Sends many frames in one system call. Returns `false` if the kernel did not take all bytes.
    fn send_batch(&mut self, index: u32) -> Result<bool, Loss> {
        let Self { connections, records, .. } = self;
        let connection = &mut connections[index as usize];
        if let (Some(session), Some(socket)) = (&mut connection.session, &connection.socket) {
            if !unless_full(session.flush(&records[index as usize], socket.as_fd()))? {
                return Ok(false);
            }
            self.finish_sealed(index);
        }
        let Self { connections, sends, injected, outbox, ranges, records, .. } = self;
        // The frames borrow the connection.
        let place = &mut connections[index as usize];
        let (mut session, mut pipe) = (place.session.take(), place.pipe.take());
        let connection = &connections[index as usize];
        let mut gather = Gather::over(outbox, ranges);
        if let Some(partial) = &connection.current {
            partial.add_rest(sends, injected, &mut gather);
        }
        let first = gather.len();
        let mut batch = Batch { frames: Vec::new(), order: connection.order, number: connection.frame_number };
        batch.add_acknowledgements(connection, &mut gather);
        batch.add_requests(connection, &mut gather);
        batch.add_responses(connection, &mut gather);
        for list in [
            (connection.requested.first(), Queued::Requested as fn(u32) -> _),
            (connection.queue.first(), Queued::Send),
        ] {
            batch.add_operations(list, connection.reading, (sends, injected), &mut gather);
        }
        let total = gather.len();
        let sent = match (&mut session, &connection.socket) {
            (_, None) => Ok((0, false)),
            (None, Some(_)) if let Some(pipe) = &mut pipe => {
                pipe.send(gather).map(|sent| (sent, true)).map_err(|error| Loss::Violation(error.into()))
            }
            (None, Some(socket)) => unless_full(gather.send(socket.as_fd()).map(|sent| (sent, true))),
            (Some(session), Some(socket)) => {
                unless_full(session.send(&mut records[index as usize], socket.as_fd(), gather.gathered()))
            }
        };
        if let (Some(pipe), Some(socket)) = (&pipe, &connection.socket) {
            pipe.wake_reader(|| socket::send_byte(socket));
        }
        let place = &mut self.connections[index as usize];
        (place.session, place.pipe) = (session, pipe);
        let (sent, flushed) = sent?;
        if flushed {
            self.finish_sealed(index);
        }
        self.record_sent(index, sent, first, &batch);
        Ok(sent == total && flushed)
    }

    /// Ends operations after the kernel has taken their last bytes.
    fn finish_sealed(&mut self, index: u32) {
        while let Some(send) = self.connections[index as usize].sealed.pop(&mut self.sends) {
            self.finish_send(send);
        }
    }

    /// Records the bytes that the kernel took: `first` of the frame begun before, then the batch.
    fn record_sent(&mut self, index: u32, sent: u64, first: u64, batch: &Batch) {
        if let Some(mut partial) = self.connections[index as usize].current.take() {
            if sent >= first {
                self.finish_frame(index, partial.item);
            } else {
                self.advance(&mut partial, sent);
                self.connections[index as usize].current = Some(partial);
                return;
            }
        }
        let mut begin = first;
        for frame in &batch.frames {
            if sent <= begin {
                return;
            }
            let connection = &mut self.connections[index as usize];
            let (order, number) = (connection.order, connection.frame_number);
            connection.frame_number = number.wrapping_add(1);
            let item = match frame.queued {
                Queued::Acknowledgement => {
                    connection.acknowledgements -= 1;
                    Item::Acknowledgement
                }
                Queued::Request => match connection.requests.pop_front() {
                    Some(number) => Item::Request(number),
                    None => return,
                },
                Queued::Response => match connection.responses.pop_front() {
                    Some(response) => Item::Response(response),
                    None => return,
                },
                Queued::Requested(send) => {
                    connection.requested.pop(&mut self.sends);
                    Item::Send(send)
                }
                Queued::Send(send) => {
                    connection.queue.pop(&mut self.sends);
                    connection.reading += usize::from(self.sends[send as usize].report.verb == Verb::Read);
                    Item::Send(send)
                }
            };
            if sent >= frame.end {
                self.finish_frame(index, item);
            } else {
                let mut partial = self.partial(item, order, number);
                self.advance(&mut partial, sent - begin);
                self.connections[index as usize].current = Some(partial);
                return;
            }
            begin = frame.end;
        }
    }

    /// State of a frame without a recorded byte, with the header that was sent.
    pub(super) fn partial(&self, item: Item, order: ByteOrder, number: u8) -> Partial {
        let mut header = [0; MAX_HEADER];
        let len = match &item {
            Item::Acknowledgement => ACKNOWLEDGEMENT.encode(order, number, &mut header),
            Item::Request(id) => request_frame(*id).encode(order, number, &mut header),
            Item::Response(response) => response_frame(response.len).encode(order, number, &mut header),
            Item::Send(send) => {
                self.sends[*send as usize].frame.as_ref().map_or(0, |frame| frame.encode(order, number, &mut header))
            }
        };
        Partial { item, header, len, sent: 0 }
    }

    /// Records bytes of a frame that is not sent whole.
    pub(super) fn advance(&mut self, partial: &mut Partial, sent: u64) {
        let injected = match partial.item {
            Item::Send(send) => usize::from(self.sends[send as usize].injected),
            _ => 0,
        };
        let front = (partial.len + injected).saturating_sub(partial.sent) as u64;
        let of_front = sent.min(front);
        #[expect(clippy::cast_possible_truncation, reason = "less than a header and injected bytes")]
        let of_front_len = of_front as usize;
        partial.sent += of_front_len;
        match &mut partial.item {
            Item::Send(send) => self.sends[*send as usize].spans.advance(sent - of_front),
            Item::Response(response) => response.spans.advance(sent - of_front),
            Item::Acknowledgement | Item::Request(_) => {}
        }
    }

    /// Finishes a frame that the kernel has taken whole.
    fn finish_frame(&mut self, index: u32, item: Item) {
        match item {
            Item::Acknowledgement | Item::Request(_) => self.try_paused |= self.paused > 0,
            Item::Response(response) => {
                let endpoint = self.connections[index as usize].endpoint;
                if !response.regions.is_empty() {
                    self.count(endpoint, CompletionFlags::REMOTE_READ, true);
                }
                self.try_paused |= self.paused > 0;
                drop(response);
            }
            Item::Send(send) => {
                let connection = &mut self.connections[index as usize];
                let operation = &self.sends[send as usize];
                let awaits = operation.frame.as_ref().is_some_and(|frame| !frame.flags.is_empty());
                if operation.is_announced() {
                    connection.announced.push(&mut self.sends, send);
                } else if operation.report.verb == Verb::Read {
                    connection.reads.push(&mut self.sends, send);
                } else if awaits {
                    connection.unacknowledged.push(&mut self.sends, send);
                } else if connection.session.as_ref().is_some_and(Session::has_output) {
                    connection.sealed.push(&mut self.sends, send);
                } else {
                    self.finish_send(send);
                }
            }
        }
    }
}
