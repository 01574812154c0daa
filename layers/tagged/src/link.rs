//! [`Link`]: one peer, and the packets in flight to and from it.

use core::alloc::Layout;

use allocator_api2::alloc::Allocator;
use loom_core::error::{OpenError, PostError};

use crate::attr::TaggedAttr;
use crate::carrier::Carrier;
use crate::credit::{Allowance, Class, Grant, LEAST_CONTROL, may_control};
use crate::error::{LinkError, Violation};
use crate::packet::Packet;
use crate::sequence::Sequence;
use crate::slab::{Key, List, Ring};
use crate::wire::{Body, HEADER_LEN, Header};

/// Perhaps early.
#[derive(Debug)]
pub(crate) struct Arrival<P> {
    pub(crate) packet: Packet<P>,
    pub(crate) header: Header,
    /// Bytes behind the header.
    pub(crate) follow: usize,
}

pub(crate) struct Link<C: Carrier, A: Allocator> {
    /// Absent before addition and after failure.
    pub(crate) carrier: Option<C>,
    pub(crate) identity: u64,
    pub(crate) error: Option<LinkError>,
    /// Maximum bytes behind a header, zero before the peer's hello.
    pub(crate) payload: usize,
    packet_size: usize,
    greeted: bool,
    /// Credit by class.
    allowed: [Allowance; 2],
    granted: [Grant; 2],
    next: u32,
    pub(crate) sequence: Sequence<Arrival<C::Buf>, A>,
    idle: Ring<Packet<C::Buf>, A>,
    spare: Ring<Packet<C::Buf>, A>,
    /// At most one for each request that the peer has credit for.
    answers: Ring<Body, A>,
    pub(crate) streams: List,
    pub(crate) requests: List,
    /// `true` in the endpoint's queue of pending links.
    pub(crate) pending: bool,
}

impl<C: Carrier, A: Allocator + Clone> Link<C, A> {
    pub(crate) fn layouts(attr: &TaggedAttr) -> Result<[Layout; 4], OpenError> {
        let (messages, control) = (attr.messages as usize, attr.control as usize);
        Ok([
            Sequence::<Arrival<C::Buf>, A>::layout(messages + control)?,
            Ring::<Packet<C::Buf>, A>::layout(messages + control)?,
            Ring::<Packet<C::Buf>, A>::layout(attr.sends as usize)?,
            Ring::<Body, A>::layout(messages)?,
        ])
    }

    pub(crate) fn new_in(attr: &TaggedAttr, alloc: &A) -> Result<Self, OpenError> {
        let (messages, control) = (attr.messages as usize, attr.control as usize);
        Ok(Link {
            carrier: None,
            identity: 0,
            error: None,
            payload: 0,
            packet_size: attr.packet_size as usize,
            greeted: false,
            // One control packet each way: a greeting may arrive before this side has sent its own.
            allowed: [Allowance::new(0), Allowance::new(1)],
            granted: [Grant::new(attr.messages, 0), Grant::new(attr.control, 1)],
            next: 0,
            sequence: Sequence::new_in(messages + control, alloc.clone())?,
            idle: Ring::new_in(messages + control, alloc.clone())?,
            spare: Ring::new_in(attr.sends as usize, alloc.clone())?,
            answers: Ring::new_in(messages, alloc.clone())?,
            streams: List::new(),
            requests: List::new(),
            pending: false,
        })
    }
}

impl<C: Carrier, A: Allocator> Link<C, A> {
    /// Adds a packet to send from or, once enough, to receive into.
    pub(crate) fn store(&mut self, packet: Packet<C::Buf>) {
        if let Err(packet) = self.spare.push(packet) {
            self.recycle(packet, None);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.carrier = None;
        self.sequence.clear();
        while self.idle.pop().or_else(|| self.spare.pop()).is_some() {}
        while self.answers.pop().is_some() {}
        self.streams = List::new();
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.payload > 0 && self.greeted && self.error.is_none()
    }

    pub(crate) fn recycle(&mut self, mut packet: Packet<C::Buf>, frees: Option<Class>) {
        packet.prepare_receive(self.packet_size, frees);
        // The ring has room for all receive packets.
        let _ = self.idle.push(packet);
    }

    pub(crate) fn sent(&mut self, packet: Packet<C::Buf>) {
        let _ = self.spare.push(packet);
    }

    pub(crate) fn answer(&mut self, body: Body) {
        // The credit of a request returns only after its answer.
        let _ = self.answers.push(body);
    }

    pub(crate) fn accept(&mut self, header: &Header) -> Result<(), Violation> {
        let [messages, control] = header.credits;
        if let Body::Hello { packet_size } = header.body {
            if self.payload > 0 || packet_size <= HEADER_LEN as u64 {
                return Err(Violation::Hello);
            }
            self.allowed[0].open(messages, 1)?;
            self.allowed[1].open(control, LEAST_CONTROL)?;
            let size = usize::try_from(packet_size).unwrap_or(usize::MAX).min(self.packet_size);
            self.payload = size - HEADER_LEN;
        } else if self.payload == 0 {
            return Err(Violation::Hello);
        } else {
            self.allowed[0].raise(messages)?;
            self.allowed[1].raise(control)?;
        }
        self.granted[class(&header.body) as usize].receive()
    }

    fn may_send(&self, body: &Body) -> bool {
        let ([messages, control], [_, granted]) = (&self.allowed, &self.granted);
        match body {
            Body::Hello { .. } => control.left() > 0,
            // The greeting is this side's first packet.
            _ if !self.greeted => false,
            Body::Eager { .. } | Body::Request { .. } => messages.left() > 0,
            _ => may_control(control, granted, matches!(body, Body::Credit)),
        }
    }

    /// # Errors
    /// [`PostError::Again`], or any other error, after which the link is unusable.
    pub(crate) fn send(
        &mut self,
        op: Key,
        body: Body,
        follow: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), PostError> {
        let Some(carrier) = self.carrier.as_ref().filter(|_| self.may_send(&body)) else {
            return Err(PostError::Again);
        };
        let Some(mut packet) = self.spare.pop() else { return Err(PostError::Again) };
        let credits = match body {
            Body::Hello { .. } => self.granted.map(|granted| granted.window()),
            _ => self.granted.map(|granted| granted.limit()),
        };
        packet.prepare_send(&Header { seq: self.next, credits, body }, follow, write, op);
        match carrier.send(packet) {
            Ok(()) => {
                self.next = self.next.wrapping_add(1);
                self.allowed[class(&body) as usize].send();
                for (granted, limit) in self.granted.iter_mut().zip(credits) {
                    granted.announce(limit);
                }
                Ok(())
            }
            Err(rejected) => {
                let _ = self.spare.push(rejected.value);
                Err(if rejected.error.is_transient() { PostError::Again } else { rejected.error })
            }
        }
    }

    /// Returns `false` if it cannot be sent now.
    pub(crate) fn send_control(&mut self, body: Body) -> Result<bool, LinkError> {
        taken(self.send(Key::NONE, body, 0, |_| {}))
    }

    pub(crate) fn flush(&mut self) -> Result<(), LinkError> {
        while let Some(packet) = self.idle.pop() {
            let Some(carrier) = &self.carrier else { return Ok(()) };
            let crate::packet::Purpose::Receive(frees) = packet.purpose else { continue };
            if let Err(rejected) = carrier.recv(packet) {
                let _ = self.idle.push(rejected.value);
                // Before the greeting, `Full` and `Kept` are permanent: the queue has too few
                // slots.
                let full = matches!(rejected.error, PostError::Full | PostError::Kept);
                let later = rejected.error.is_transient() && (self.greeted || !full);
                if later {
                    break;
                }
                return Err(LinkError::Post(rejected.error));
            }
            if let Some(class) = frees {
                self.granted[class as usize].free();
            }
        }
        if !self.greeted {
            // After all receives are posted, so that the peer's answer finds one.
            let hello = Body::Hello { packet_size: self.packet_size as u64 };
            if self.idle.len() > 0 || !self.send_control(hello)? {
                return Ok(());
            }
            self.greeted = true;
        }
        while let Some(answer) = self.answers.first().copied() {
            if !self.send_control(answer)? {
                break;
            }
            let _ = self.answers.pop();
            self.granted[Class::Message as usize].free();
        }
        Ok(())
    }

    pub(crate) fn flush_credit(&mut self) -> Result<(), LinkError> {
        if self.has_credit_to_announce() {
            self.send_control(Body::Credit)?;
        }
        Ok(())
    }

    fn has_credit_to_announce(&self) -> bool {
        let [messages, control] = &self.granted;
        self.payload > 0
            && self.greeted
            && (messages.is_half_unannounced() || messages.is_starving() || control.is_half_unannounced())
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.error.is_none()
            && (self.idle.len() > 0
                || !self.greeted
                || self.answers.len() > 0
                || !self.streams.is_empty()
                || self.has_credit_to_announce())
    }
}

const fn class(body: &Body) -> Class {
    match body {
        Body::Eager { .. } | Body::Request { .. } => Class::Message,
        _ => Class::Control,
    }
}

/// [`PostError::Again`] is `false`.
pub(crate) const fn taken(sent: Result<(), PostError>) -> Result<bool, LinkError> {
    match sent {
        Ok(()) => Ok(true),
        Err(PostError::Again) => Ok(false),
        Err(error) => Err(LinkError::Post(error)),
    }
}
