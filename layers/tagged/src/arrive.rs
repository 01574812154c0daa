use allocator_api2::alloc::Allocator;
use loom_core::buffer::Buffer;
use loom_core::engine::tag_matcher::{Envelope, MessageId};
use loom_core::vocabulary::FabricAddr;

use crate::carrier::{Carrier, Ended};
use crate::credit::Class;
use crate::endpoint::TaggedEndpoint;
use crate::error::{LinkError, Violation};
use crate::link::Arrival;
use crate::operation::{Message, State, TaggedFound, failed, received, sent};
use crate::packet::{LinkId, Owner, Packet, Purpose, copy_in};
use crate::slab::Key;
use crate::wire::{Body, HEADER_LEN, Header};

impl<C: Carrier, B: Buffer, A: Allocator> TaggedEndpoint<C, B, A> {
    pub(crate) fn ended(&mut self, Ended { packet, result }: Ended<C::Buf>) {
        let Owner { link: id, identity } = packet.owner;
        // Drops packets of a failed link or of another endpoint.
        let Some(link) = self.links.get_mut(id.index()).filter(|link| link.identity == identity) else { return };
        if link.error.is_some() {
            return;
        }
        let went = match (result, packet.purpose) {
            (Err(error), _) => Err(LinkError::Carrier(error)),
            (Ok(_), Purpose::Send(op)) => {
                link.sent(packet);
                self.packet_sent(op);
                Ok(())
            }
            (Ok(len), Purpose::Receive(_)) => self.arrived(id, packet, len).map_err(LinkError::Protocol),
        };
        match went {
            Ok(()) => self.look_after(id),
            Err(error) => self.fail(id, error),
        }
    }

    fn arrived(&mut self, id: LinkId, mut packet: Packet<C::Buf>, len: usize) -> Result<(), Violation> {
        let bytes = packet.bytes();
        let (header, follow) = Header::decode(bytes.get(..len).unwrap_or(bytes))?;
        let follow = follow.len();
        let Some(link) = self.links.get_mut(id.index()) else { return Ok(()) };
        link.sequence.arrive(header.seq, Arrival { packet, header, follow })?;
        while let Some(link) = self.links.get_mut(id.index())
            && let Some(arrival) = link.sequence.take()
        {
            link.accept(&arrival.header)?;
            self.accept(id, arrival)?;
        }
        Ok(())
    }

    fn accept(&mut self, id: LinkId, Arrival { mut packet, header, follow }: Arrival<C::Buf>) -> Result<(), Violation> {
        match header.body {
            Body::Eager { tag, data } => {
                let found = TaggedFound { link: id, tag, data, len: follow as u64 };
                return self.message(Message { found, packet, request: None, id: None });
            }
            Body::Request { tag, data, len, sender } => {
                let found = TaggedFound { link: id, tag, data, len };
                return self.message(Message { found, packet, request: Some(sender), id: None });
            }
            Body::Clear { len, sender, receiver } => self.cleared(id, Key::from_word(sender), len, receiver)?,
            Body::Segment { receiver } => {
                let bytes = packet.bytes().get(HEADER_LEN..HEADER_LEN + follow).unwrap_or_default();
                self.segment(id, Key::from_word(receiver), bytes)?;
            }
            Body::Withdraw { sender } => self.withdraw(id, sender),
            Body::Withdrawn { sender } => self.withdrawn(id, Key::from_word(sender))?,
            Body::Hello { .. } | Body::Credit => {}
        }
        self.release(id, packet, Some(Class::Control));
        Ok(())
    }

    pub(crate) fn release(&mut self, id: LinkId, packet: Packet<C::Buf>, frees: Option<Class>) {
        if let Some(link) = self.links.get_mut(id.index()).filter(|link| link.error.is_none()) {
            link.recycle(packet, frees);
            self.look_after(id);
        }
    }

    fn message(&mut self, message: Message<C::Buf>) -> Result<(), Violation> {
        let envelope = Envelope { tag: message.found.tag, source: FabricAddr(message.found.link.0.into()) };
        if let Some(receive) = self.matcher.receive_for(&envelope) {
            self.matcher.remove_receive(receive);
            let op = self.receives.get(receive.index()).copied().unwrap_or(Key::NONE);
            self.deliver(op, message);
            return Ok(());
        }
        // Both have room for as many messages as all peers have credit for, so neither call fails.
        let id = self.matcher.keep(envelope).ok_or(Violation::Unasked)?;
        let (of, is_request) = (message.found.link, message.request.is_some());
        let kept = self.messages.insert(Message { id: Some(id), ..message }).map_err(|_| Violation::Unasked)?;
        if let Some(link) = self.links.get_mut(of.index()).filter(|_| is_request) {
            link.requests.append(&mut self.messages, kept);
        }
        if let Some(waiting) = self.waiting.get_mut(id.index()) {
            *waiting = kept;
        }
        Ok(())
    }

    pub(crate) fn take_message(&mut self, id: MessageId) -> Option<Message<C::Buf>> {
        self.matcher.remove_message(id)?;
        let key = self.waiting.get(id.index()).copied()?;
        self.keep_from_sender(key);
        self.messages.remove(key)
    }

    /// The sender can no longer withdraw a message that is about to stop waiting.
    pub(crate) fn keep_from_sender(&mut self, key: Key) {
        let Some(message) = self.messages.get(key).filter(|message| message.request.is_some()) else { return };
        // Announced messages of a failed link do not wait.
        if let Some(link) = self.links.get_mut(message.found.link.index()) {
            link.requests.remove(&mut self.messages, key);
        }
    }

    pub(crate) fn deliver(&mut self, key: Key, message: Message<C::Buf>) {
        let Message { found, mut packet, request, id: _ } = message;
        let Some(op) = self.ops.get_mut(key) else { return };
        op.link = Some(found.link);
        let room = op.buf.lend().len;
        let wanted = usize::try_from(found.len).unwrap_or(usize::MAX).min(room);
        let Some(sender) = request else {
            copy_in(&mut op.buf, 0, packet.bytes().get(HEADER_LEN..HEADER_LEN + wanted).unwrap_or_default());
            self.finish(key, received(&found, wanted));
            return self.release(found.link, packet, Some(Class::Message));
        };
        op.state = State::Arriving { message: found, got: 0, wanted };
        match self.links.get_mut(found.link.index()) {
            Some(link) if link.error.is_none() => {
                link.answer(Body::Clear { len: wanted as u64, sender, receiver: key.to_word() });
                if wanted == 0 {
                    self.finish(key, received(&found, 0));
                }
                // The answer frees its credit.
                self.release(found.link, packet, None);
            }
            other => {
                // The message was claimed before its link failed.
                let errno =
                    other.and_then(|link| link.error).map_or(loom_core::vocabulary::Errno::EIO, |error| error.errno());
                let error = failed(&State::Arriving { message: found, got: 0, wanted }, errno);
                self.finish(key, Err(error));
            }
        }
    }

    pub(crate) fn discard(&mut self, Message { found, packet, request, .. }: Message<C::Buf>) {
        let frees = match (request, self.links.get_mut(found.link.index())) {
            (Some(sender), Some(link)) if link.error.is_none() => {
                link.answer(Body::Clear { len: 0, sender, receiver: 0 });
                None
            }
            _ => Some(Class::Message),
        };
        self.release(found.link, packet, frees);
    }

    fn segment(&mut self, id: LinkId, key: Key, bytes: &[u8]) -> Result<(), Violation> {
        let op = self.ops.get_mut(key).filter(|op| op.link == Some(id)).ok_or(Violation::Unasked)?;
        let State::Arriving { message, got, wanted } = op.state else { return Err(Violation::Unasked) };
        if bytes.len() > wanted - got {
            return Err(Violation::Unasked);
        }
        copy_in(&mut op.buf, got, bytes);
        let got = got + bytes.len();
        op.state = State::Arriving { message, got, wanted };
        if got == wanted {
            self.finish(key, received(&message, got));
        }
        Ok(())
    }

    fn cleared(&mut self, id: LinkId, key: Key, end: u64, receiver: u64) -> Result<(), Violation> {
        let op = self.ops.get_mut(key).filter(|op| op.link == Some(id)).ok_or(Violation::Unasked)?;
        let (len, listed) = match op.state {
            State::Requested { len } => (len, false),
            // The cancellation was too late.
            State::Withdrawing { len, announced } => (len, !announced),
            _ => return Err(Violation::Unasked),
        };
        let end = usize::try_from(end).ok().filter(|end| *end <= len).ok_or(Violation::Unasked)?;
        let Some(link) = self.links.get_mut(id.index()) else { return Ok(()) };
        if end > 0 {
            op.state = State::Streaming { receiver, at: 0, end, len };
            if !listed {
                link.streams.append(&mut self.ops, key);
            }
            return Ok(());
        }
        op.state = State::Leaving { len };
        let over = op.packets == 0;
        if listed {
            link.streams.remove(&mut self.ops, key);
        }
        if over {
            self.finish(key, Ok(sent(len)));
        }
        Ok(())
    }

    /// The sender will see an answer that was already given. Only the sender's own requests
    /// are searched: its credit limits them, and not the withdrawals.
    fn withdraw(&mut self, id: LinkId, sender: u64) {
        let Some(link) = self.links.get(id.index()) else { return };
        let requested = link.requests.find(&self.messages, |message| message.request == Some(sender));
        if let Some(waiting) = requested.and_then(|key| self.messages.get(key)?.id)
            && let Some(message) = self.take_message(waiting)
        {
            if let Some(link) = self.links.get_mut(id.index()) {
                link.answer(Body::Withdrawn { sender });
            }
            self.release(id, message.packet, None);
        }
    }

    fn withdrawn(&mut self, id: LinkId, key: Key) -> Result<(), Violation> {
        let op = self.ops.get_mut(key).filter(|op| op.link == Some(id)).ok_or(Violation::Unasked)?;
        let State::Withdrawing { announced: true, .. } = op.state else { return Err(Violation::Unasked) };
        let error = failed(&op.state, loom_core::vocabulary::Errno::ECANCELED);
        self.finish(key, Err(error));
        Ok(())
    }
}
