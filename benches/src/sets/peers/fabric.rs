//! Loom, over any transport.

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Connectionless, Endpoint, Receives, Transmits};
use loom_core::engine::op_table::OpKey;
use loom_core::transport::Transport;
use loom_core::vocabulary::Tag;

use super::end::{End, Exchange, Play, check_bytes, fill};

type Buffer = Box<[u8]>;

const TAG: Tag = Tag(7);

/// Number of posted receives. A ping-pong has one or two, as one is posted again while the next
/// message is in transit.
fn posted(play: Play) -> usize {
    match play {
        Play::Answer => 2,
        Play::Stream | Play::Write => 64,
    }
}

/// Kind of send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Send with a completion, which is polled.
    Completed,
    /// Injected send, without a completion.
    Injected,
}

impl Sending {
    /// Returns the kind of send that a program would use.
    pub(crate) fn of(play: Play, len: usize, inject_size: usize) -> Self {
        match play {
            Play::Stream if len <= inject_size => Sending::Injected,
            _ => Sending::Completed,
        }
    }
}

/// An endpoint with its own queue, which exchanges messages with another one.
pub(crate) struct Loom<T: Transport, K: Transmits<T> = Connectionless<'static, T>, const TAGGED: bool = true> {
    cq: Cq<'static, T, Buffer>,
    endpoint: Endpoint<'static, T, Buffer, K>,
    to: K::To,
    sending: Sending,
    /// `None` while it is in flight.
    outbox: Option<Buffer>,
    in_flight: Option<OpKey>,
    /// Buffer of the last received message, until it is posted again.
    read: Option<Buffer>,
}

impl<T: Transport> Loom<T> {
    /// Opens an end for messages of `len` bytes.
    pub(crate) fn open(
        domain: &Domain<'static, T>,
        (play, sending): (Play, Sending),
        len: usize,
        exchange: Exchange<'_>,
    ) -> Self {
        let cq = queue(domain, play);
        let av = Av::open(domain, 1).expect("address vector");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let theirs = endpoint.address().expect("address").to_string();
        Self::over(cq, endpoint, (play, sending), len, || {
            av.insert(&exchange(&theirs).parse().expect("an address")).expect("address inserted")
        })
    }
}

/// Opens a queue for an end.
pub(crate) fn queue<T: Transport>(domain: &Domain<'static, T>, play: Play) -> Cq<'static, T, Buffer> {
    Cq::open(domain, CqAttr::new(2 * posted(play))).expect("queue")
}

impl<T: Transport, K: Transmits<T> + Receives<T>, const TAGGED: bool> Loom<T, K, TAGGED> {
    /// Posts the receives of an end. `to` then returns the other end.
    pub(crate) fn over(
        cq: Cq<'static, T, Buffer>,
        endpoint: Endpoint<'static, T, Buffer, K>,
        (play, sending): (Play, Sending),
        len: usize,
        to: impl FnOnce() -> K::To,
    ) -> Self {
        for _ in 0..posted(play) {
            Self::post(&endpoint, vec![0; len].into());
        }
        Loom { cq, endpoint, to: to(), sending, outbox: Some(vec![0; len].into()), in_flight: None, read: None }
    }

    #[inline]
    fn post(endpoint: &Endpoint<'static, T, Buffer, K>, buffer: Buffer) {
        let posted = if TAGGED { endpoint.tagged_recv(K::ANY, TAG, buffer) } else { endpoint.recv(K::ANY, buffer) };
        posted.expect("there is room");
    }

    /// Takes one completion. Returns the buffer of a receive.
    #[inline]
    fn poll(&mut self) -> Option<Buffer> {
        let Some(Completion::Op(done)) = self.cq.poll().expect("the queue works") else { return None };
        done.result().expect("the operation succeeds");
        let key = Some(done.key());
        let buffer = done.into_buf();
        if key == self.in_flight {
            (self.outbox, self.in_flight) = (Some(buffer), None);
            return None;
        }
        Some(buffer)
    }
}

impl<T: Transport, K: Transmits<T> + Receives<T>, const TAGGED: bool> End for Loom<T, K, TAGGED> {
    #[inline]
    fn send(&mut self, number: u64) {
        let mut outbox = loop {
            match self.outbox.take() {
                Some(outbox) => break outbox,
                None => assert!(self.poll().is_none(), "one message at a time"),
            }
        };
        fill(&mut outbox, number);
        if self.sending == Sending::Injected {
            let inject = |bytes: &[u8]| match TAGGED {
                true => self.endpoint.tagged_inject(self.to, TAG, bytes),
                false => self.endpoint.inject(self.to, bytes),
            };
            while let Err(error) = inject(&outbox) {
                assert!(error.is_transient(), "{error:#}");
                self.cq.progress().expect("the queue works");
            }
            self.outbox = Some(outbox);
            return;
        }
        loop {
            let sent = match TAGGED {
                true => self.endpoint.tagged_send(self.to, TAG, outbox),
                false => self.endpoint.send(self.to, outbox),
            };
            match sent {
                Ok(key) => break self.in_flight = Some(key),
                Err(rejected) => {
                    assert!(rejected.error.is_transient(), "{rejected}");
                    outbox = rejected.value;
                    self.cq.progress().expect("the queue works");
                }
            }
        }
    }

    #[inline]
    fn receive(&mut self, number: u64) {
        let buffer = loop {
            if let Some(buffer) = self.poll() {
                break buffer;
            }
        };
        check_bytes(&buffer, number);
        self.read = Some(buffer);
    }

    /// Posts the buffer of the last message again.
    #[inline]
    fn rest(&mut self) {
        if let Some(buffer) = self.read.take() {
            Self::post(&self.endpoint, buffer);
        }
    }

    fn send_last(&mut self, number: u64) {
        let sending = std::mem::replace(&mut self.sending, Sending::Completed);
        self.send(number);
        self.sending = sending;
        while self.in_flight.is_some() {
            assert!(self.poll().is_none(), "one way");
        }
    }
}
