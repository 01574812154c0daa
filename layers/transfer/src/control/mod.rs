//! Control messages between engines: hellos, notifications, failures, signs of life.

mod inbox;
mod message_buffer;
mod wire;

use allocator_api2::alloc::Allocator;
use loom_core::error::{OpenError, PostError};
use loom_core::{
    Av, AvAttr, Completion, Cq, CqAttr, CqError, Domain, Endpoint, EndpointAddr, Error, OpError, Peer, Source,
    Transport,
};

use self::inbox::Inbox;
use self::message_buffer::{MessageBuffer, MessageBuffers};
use crate::attr::EngineAttr;
use crate::link::{MAX_NUMBERS, Number};
use crate::peers::PeerKey;

use self::inbox::fragments;
pub use self::inbox::{Notification, NotificationKey};
pub(crate) use self::message_buffer::{Bytes, Destination, List};
use self::wire::HEADER;
pub(crate) use self::wire::{
    EndingCode, Header, Hello, Kind, Layout, NotificationHead, RailBody, Refusal, UNCOUNTED, VERSION,
};

/// Buffers for messages that are not notifications.
const RESERVE: usize = 8;

pub(crate) struct Control<'m, T: Transport, A: Allocator> {
    endpoint: Endpoint<'m, T, MessageBuffer<'m, T, A>>,
    pub(crate) av: Av<'m, T>,
    cq: Cq<'m, T, MessageBuffer<'m, T, A>>,
    buffers: MessageBuffers<'m, T, A>,
    outbox: List,
    unposted: List,
    pub(crate) inbox: Inbox<A>,
    pub(crate) layout: Layout,
    /// Address that a refusal is sent to, until it has been sent. Others wait in `refusable`.
    refused: Option<Peer>,
    refusable: List,
    is_closed: bool,
}

pub(crate) struct Sent {
    pub(crate) to: Destination,
    pub(crate) error: Option<Error>,
    /// Route to an engine that was refused.
    pub(crate) refused: Option<Peer>,
}

pub(crate) enum Incoming {
    Received(u32),
    Sent(Sent),
}

impl<'m, T: Transport + 'm, A: Allocator + Clone + Send + 'm> Control<'m, T, A> {
    pub(crate) fn open(domain: &Domain<'m, T>, attr: &EngineAttr, alloc: &A) -> Result<Self, OpenError> {
        let limit = domain.info().attributes().endpoint.max_msg_size;
        let layout = Layout {
            notifications: attr.notifications,
            fragments: attr.fragments,
            message: u32::try_from(attr.message).map_err(|_| OpenError::Size)?,
        };
        if attr.message <= HEADER || attr.message > limit {
            return Err(OpenError::Size);
        }
        // A receive for each fragment that peers may send, and for messages that the engine
        // answers.
        let receives = attr.peers.checked_mul(usize::from(attr.fragments) + 1).ok_or(OpenError::Size)?;
        let receives = receives.checked_add(RESERVE).ok_or(OpenError::Size)?;
        let sends = attr.messages.checked_add(RESERVE).ok_or(OpenError::Size)?;
        let av = Av::open_in(domain, AvAttr::new(attr.vector_len().saturating_add(1)), alloc.clone())?;
        let depth = receives.checked_add(sends).ok_or(OpenError::Size)?;
        let cq = Cq::open_in(domain, CqAttr { endpoints: 1, ..CqAttr::new(depth) }, alloc.clone())?;
        let buffers = MessageBuffers::new(domain, (sends, receives), attr.message, alloc)?;
        let endpoint = cq.endpoint(&av)?;
        let inbox = Inbox::new(attr.peers, layout, alloc)?;
        let (outbox, mut unposted, refusable) = (List::EMPTY, List::EMPTY, List::EMPTY);
        let (refused, is_closed) = (None, false);
        let mut control =
            Control { endpoint, av, cq, buffers, outbox, unposted, inbox, layout, refused, refusable, is_closed };
        for index in control.buffers.receives() {
            control.buffers.push(&mut unposted, index);
        }
        control.unposted = unposted;
        control.post_receives();
        Ok(control)
    }
}

impl<'m, T: Transport, A: Allocator> Control<'m, T, A> {
    pub(crate) fn address(&self) -> Result<EndpointAddr, Error> {
        self.endpoint.address().map_err(Error::Provider)
    }

    pub(crate) const fn room(&self) -> usize {
        self.layout.message as usize - HEADER
    }

    fn post_receives(&mut self) {
        while let Some(index) = self.buffers.pop(&mut self.unposted) {
            let Some(mut buffer) = self.buffers.remove(index) else { continue };
            buffer.set_len(usize::MAX);
            if let Err(rejected) = self.endpoint.recv(Source::Any, buffer) {
                let index = self.buffers.restore(rejected.value);
                self.buffers.push(&mut self.unposted, index);
                break;
            }
        }
    }

    pub(crate) fn poll(&mut self) -> Result<Option<Incoming>, CqError> {
        if self.is_closed {
            return Ok(None);
        }
        loop {
            let done = match self.cq.poll() {
                Ok(None) => return Ok(None),
                Ok(Some(Completion::Op(done))) => done,
                Ok(Some(_)) => continue,
                Err(error) => {
                    self.is_closed = true;
                    return Err(error);
                }
            };
            let (mut buffer, result) = done.into_parts();
            if let Ok(transfer) = &result {
                buffer.set_len(transfer.len);
            }
            let index = self.buffers.restore(buffer);
            if let Some(to) = self.buffers.destination(index) {
                self.buffers.give_back(index);
                return Ok(Some(Incoming::Sent(self.sent(to, result.err().map(OpError::into)))));
            }
            match result {
                Ok(_) => return Ok(Some(Incoming::Received(index))),
                Err(_) => self.recycle(index),
            }
        }
    }

    fn sent(&mut self, to: Destination, error: Option<Error>) -> Sent {
        let is_refused = to.peer.is_none() && self.refused == Some(to.route);
        let refused = if is_refused { self.refused.take() } else { None };
        Sent { to, error, refused }
    }

    pub(crate) fn message(&self, index: u32) -> Option<(Header, &[u8])> {
        Header::decode(self.buffers.get(index)?.bytes())
    }

    pub(crate) fn body(&self, index: u32) -> Option<&[u8]> {
        self.message(index).map(|(_, body)| body)
    }

    pub(crate) fn recycle(&mut self, index: u32) {
        self.buffers.push(&mut self.unposted, index);
    }

    pub(crate) fn store(&mut self, index: u32) -> bool {
        let found = self.message(index).map(|(header, body)| (header, body.len()));
        found.is_some_and(|(header, len)| self.inbox.fragment(header, len, index, &mut self.buffers))
    }

    pub(crate) fn reset(&mut self, peer: PeerKey, now: u64) -> u32 {
        let (epoch, fragments) = self.inbox.reset(peer.index, now, &mut self.buffers);
        self.buffers.append(&mut self.unposted, fragments);
        epoch
    }

    pub(crate) fn fragments(&self, len: usize) -> u32 {
        u32::try_from(fragments(len, self.room())).unwrap_or(u32::MAX)
    }

    pub(crate) fn can_stage(&self, bytes: &[u8]) -> bool {
        fragments(bytes.len(), self.room()) + RESERVE <= self.buffers.free()
    }

    pub(crate) fn stage(&mut self, bytes: &[u8]) -> Option<List> {
        if !self.can_stage(bytes) {
            return None;
        }
        let room = self.room();
        let count = fragments(bytes.len(), room);
        let mut list = List::EMPTY;
        for number in 0..count {
            let index = self.buffers.take()?;
            let body = &bytes[number * room..bytes.len().min((number + 1) * room)];
            let buffer = self.buffers.get_mut(index)?;
            buffer.bytes_mut()[HEADER..HEADER + body.len()].copy_from_slice(body);
            buffer.set_len(HEADER + body.len());
            self.buffers.push(&mut list, index);
        }
        Some(list)
    }

    pub(crate) fn discard(&mut self, staged: List) {
        self.buffers.give_back_all(staged);
    }

    pub(crate) fn send_staged(
        &mut self,
        mut staged: List,
        to: Destination,
        (name, number): (PeerKey, Number),
        head: NotificationHead,
    ) {
        let mut fragment = 0;
        while let Some(index) = self.buffers.pop(&mut staged) {
            let header = Header { to: name, kind: Kind::Notify { number, fragment, head } }.encode();
            if let Some(buffer) = self.buffers.get_mut(index) {
                buffer.bytes_mut()[..HEADER].copy_from_slice(&header);
            }
            self.buffers.set_destination(index, to);
            self.buffers.push(&mut self.outbox, index);
            fragment += 1;
        }
    }

    pub(crate) fn send(&mut self, head: &Header, to: Destination, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(index) = self.buffers.take() else { return false };
        self.buffers.set_destination(index, to);
        if let Some(buffer) = self.buffers.get_mut(index) {
            let (header, body) = buffer.bytes_mut().split_at_mut(HEADER);
            header.copy_from_slice(&head.encode());
            let len = HEADER + write(body);
            buffer.set_len(len);
        }
        self.buffers.push(&mut self.outbox, index);
        true
    }

    /// Keeps a hello that cannot be refused yet. Returns `false` beyond [`RESERVE`].
    pub(crate) fn refuse_later(&mut self, index: u32) -> bool {
        let has_room = (self.refusable.len() as usize) < RESERVE;
        if has_room {
            self.buffers.push(&mut self.refusable, index);
        }
        has_room
    }

    /// Drops a kept hello from the address of this one.
    pub(crate) fn forget_older_hello(&mut self, index: u32) {
        let address_of = |control: &Self, index| Some(Hello::decode(control.body(index)?)?.1);
        if self.refusable.len() == 0
            || self.message(index).is_none_or(|(header, _)| !matches!(header.kind, Kind::Hello))
        {
            return;
        }
        let address = address_of(self, index);
        for _ in 0..self.refusable.len() {
            let Some(kept) = self.buffers.pop(&mut self.refusable) else { return };
            if address_of(self, kept) == address {
                self.recycle(kept);
            } else {
                self.buffers.push(&mut self.refusable, kept);
            }
        }
    }

    pub(crate) fn next_refusable(&mut self) -> Option<u32> {
        if self.refused.is_some() || self.buffers.free() == 0 { None } else { self.buffers.pop(&mut self.refusable) }
    }

    /// Refuses the hello of an engine that is no peer. Returns `false` while another is refused, or
    /// without a buffer.
    pub(crate) fn refuse(&mut self, address: &EndpointAddr, name: PeerKey, reason: Refusal) -> bool {
        if self.refused.is_some() {
            return false;
        }
        let known = self.av.find(address);
        // An address that is no address cannot be refused.
        let Some(route) = known.or_else(|| self.av.insert(address).ok()) else { return true };
        let head = Header { to: name, kind: Kind::Refuse(reason) };
        let sent = self.send(&head, Destination { peer: None, route, transfer: None }, |_| 0);
        match known {
            None if sent => self.refused = Some(route),
            None => {
                self.av.remove(route);
            }
            Some(_) => {}
        }
        sent
    }

    /// `from` begins at 0.
    pub(crate) fn next_release(&self, from: &mut usize) -> Option<u32> {
        if self.inbox.due == 0 || self.buffers.free() == 0 { None } else { self.inbox.next_due(from) }
    }

    /// Informs a peer of released numbers, up to one message. Returns `false` without any.
    pub(crate) fn send_releases(&mut self, peer: u32, to: Destination, name: PeerKey) -> bool {
        let mut released = [Number { index: 0, generation: 0 }; MAX_NUMBERS];
        let room = MAX_NUMBERS.min(1 + self.room() / Number::LEN);
        let mut count = 0;
        while count < room
            && let Some(number) = self.inbox.take_released(peer)
        {
            released[count] = number;
            count += 1;
        }
        let Some((&first, others)) = released[..count].split_first() else { return false };
        let head = Header { to: name, kind: Kind::Release(first) };
        self.send(&head, to, |body| {
            for (number, out) in others.iter().zip(body.chunks_exact_mut(Number::LEN)) {
                out.copy_from_slice(&number.encode());
            }
            others.len() * Number::LEN
        })
    }

    /// Posts receives, and messages until the endpoint has no room. Returns a message that the
    /// provider refuses.
    pub(crate) fn flush(&mut self) -> Option<Sent> {
        if self.is_closed {
            return None;
        }
        self.post_receives();
        for _ in 0..self.outbox.len() {
            let index = self.buffers.pop(&mut self.outbox)?;
            let Some(to) = self.buffers.destination(index) else { continue };
            let Some(buffer) = self.buffers.remove(index) else { continue };
            let Err(rejected) = self.endpoint.send(to.route, buffer) else { continue };
            let index = self.buffers.restore(rejected.value);
            match rejected.error {
                // Others may have other peers.
                PostError::Again => self.buffers.push(&mut self.outbox, index),
                error if error.is_transient() => {
                    self.buffers.push(&mut self.outbox, index);
                    return None;
                }
                error => {
                    self.buffers.give_back(index);
                    return Some(self.sent(to, Some(error.into())));
                }
            }
        }
        None
    }
}

/// Message of a transfer to its peer, after its last operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// Staged notification.
    Message(List),
    /// Failure of writes with the request's immediate data.
    Failure,
}
