//! Messages: their order and content.

use std::time::{Duration, Instant};

use loom_core::transport::Connected;
use loom_fabric::{Completion, Cq, OpKey, PostError, Rejected};

use crate::control::LIMIT;
use crate::line::Line;

const UNDER_WAY: &str = "a message is still under way";

const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Returns byte `at` of message number `message`.
fn byte(message: u64, at: usize) -> u8 {
    let start = usize::try_from(message * 7 % 62).unwrap_or(0);
    ALPHABET[(start + at) % ALPHABET.len()]
}

pub(crate) type Outcome<V> = Result<V, Box<dyn std::error::Error>>;

/// Way of exchanging messages.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) is_client: bool,
    pub(crate) tagged: bool,
    pub(crate) check: bool,
    /// Length below which messages are injected, like those of the other side.
    pub(crate) inject_size: usize,
}

/// One side.
pub(crate) struct Player<T: Connected> {
    cq: Cq<'static, T, Vec<u8>>,
    line: Line<T>,
    rules: Rules,
    /// Buffer of a send. `None` while it is in flight.
    outbox: Option<Vec<u8>>,
    sending: Option<OpKey>,
    /// Number of messages of all sizes. The pattern continues from one size to the next.
    sent: u64,
    received: u64,
    /// Size of arriving messages. `None` for the end.
    size: Option<usize>,
    over: bool,
}

impl<T: Connected> Player<T> {
    pub(crate) fn new(cq: Cq<'static, T, Vec<u8>>, line: Line<T>, rules: Rules, outbox: Vec<u8>) -> Self {
        let outbox = Some(outbox);
        Player { cq, line, rules, outbox, sending: None, sent: 0, received: 0, size: None, over: false }
    }

    /// Exchanges all messages of a size, and returns the time.
    pub(crate) fn exchange(&mut self, size: usize, iterations: u64) -> Outcome<Duration> {
        self.size = Some(size);
        let first = self.received;
        let begin = Instant::now();
        for round in 0..iterations {
            if self.rules.is_client {
                self.send(size)?;
            }
            self.until("a message", |player| player.received > first + round)?;
            if !self.rules.is_client {
                self.send(size)?;
            }
        }
        let took = begin.elapsed();
        self.size = None;
        Ok(took)
    }

    /// Number of received messages.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Sends the final message, and waits for that of the other side.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        let outbox = self.outbox.as_mut().ok_or(UNDER_WAY)?;
        outbox.clear();
        outbox.extend_from_slice(b"fin\0");
        self.post_send()?;
        self.until("the end of the last message", |player| player.sending.is_none())?;
        self.until("the other side's end", |player| player.over)
    }

    /// Drives progress, so that the other side receives the rest.
    pub(crate) fn progress(&mut self) -> Outcome<()> {
        self.step()
    }

    fn send(&mut self, size: usize) -> Outcome<()> {
        let outbox = self.outbox.as_mut().ok_or(UNDER_WAY)?;
        // The size is within the capacity, and the length of the buffer is that of the message.
        outbox.resize(size, 0);
        if self.rules.check {
            for (at, place) in outbox.iter_mut().enumerate() {
                *place = byte(self.sent, at);
            }
        }
        self.sent += 1;
        if size >= self.rules.inject_size {
            self.post_send()?;
            return self.until("the end of a message", |player| player.sending.is_none());
        }
        let deadline = Instant::now() + LIMIT;
        loop {
            let bytes = self.outbox.as_deref().ok_or(UNDER_WAY)?;
            match self.line.inject(self.rules.tagged, bytes) {
                Ok(()) => return Ok(()),
                Err(error) => self.wait_for_room(error, deadline)?,
            }
        }
    }

    fn post_send(&mut self) -> Outcome<()> {
        let deadline = Instant::now() + LIMIT;
        let mut outbox = self.outbox.take().ok_or(UNDER_WAY)?;
        loop {
            match self.line.send(self.rules.tagged, outbox) {
                Ok(key) => {
                    self.sending = Some(key);
                    return Ok(());
                }
                Err(Rejected { value: buf, error }) => {
                    outbox = buf;
                    self.wait_for_room(error, deadline)?;
                }
            }
        }
    }

    /// Drives the provider after a transient error of a post.
    fn wait_for_room(&mut self, error: PostError, deadline: Instant) -> Outcome<()> {
        if !error.is_transient() || Instant::now() > deadline {
            return Err(error.into());
        }
        self.step()
    }

    /// Posts a buffer for the next message.
    pub(crate) fn receive(&mut self, mut inbox: Vec<u8>) -> Outcome<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.line.recv(self.rules.tagged, inbox) {
                Ok(_) => return Ok(()),
                Err(Rejected { value: buf, error }) => {
                    inbox = buf;
                    self.wait_for_room(error, deadline)?;
                }
            }
        }
    }

    fn until(&mut self, what: &str, is_there: impl Fn(&Self) -> bool) -> Outcome<()> {
        let deadline = Instant::now() + LIMIT;
        while !is_there(self) {
            if Instant::now() > deadline {
                return Err(format!("{what} did not come within {} s", LIMIT.as_secs()).into());
            }
            self.step()?;
        }
        Ok(())
    }

    /// Takes one completion.
    fn step(&mut self) -> Outcome<()> {
        let Some(completion) = self.cq.poll()? else { return Ok(()) };
        let Completion::Op(done) = completion else { return Err(format!("not expected: {completion:?}").into()) };
        let key = done.key();
        let (buf, result) = done.into_parts();
        let transfer = result?;
        if self.sending == Some(key) {
            (self.sending, self.outbox) = (None, Some(buf));
            return Ok(());
        }
        let message = &buf[..transfer.len];
        let Some(size) = self.size else {
            if message != b"fin\0" {
                return Err(format!("{} bytes where the end was due", message.len()).into());
            }
            self.over = true;
            return Ok(());
        };
        if message.len() != size {
            return Err(format!("{} bytes arrived, and not {size}", message.len()).into());
        }
        if self.rules.check
            && let Some(at) = (0..size).find(|at| message[*at] != byte(self.received, *at))
        {
            return Err(format!("byte {at} of message {} is wrong", self.received).into());
        }
        self.received += 1;
        self.receive(buf)
    }
}
