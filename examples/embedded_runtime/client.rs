//! The client: sends a request whenever one is due, and measures how long its answer takes.

use std::time::{Duration, Instant};

use heapless::Vec;
use loom_fabric::{Peer, Transport};

use crate::fabric::{Back, Buffer, DEPTH, Fabric, RECEIVES, buffer};
use crate::runtime::{Failure, Task};
use crate::times::Times;

/// Requests that are due and not answered yet.
const OUTSTANDING: usize = 1024;
/// Buffers to send from.
const SENDS: usize = DEPTH - RECEIVES;

pub(crate) struct Client<T: Transport> {
    fabric: Fabric<T>,
    server: Peer,
    /// How many completions it takes in one turn, and how often that was not all.
    budget: u32,
    exhausted: u64,
    interval: Duration,
    next: Option<Instant>,
    /// When each request was due, by its number.
    due: Box<[Instant]>,
    /// How many requests were due, sent, and answered.
    asked: u64,
    sent: u64,
    answered: u64,
    /// How often one that was due had to wait for room.
    delayed: u64,
    /// How many were due while so many were outstanding already, and were left out.
    left_out: u64,
    spare: Vec<Buffer, SENDS>,
    times: Times,
}

impl<T: Transport> Client<T> {
    pub(crate) fn new(fabric: Fabric<T>, server: Peer, interval: Duration, budget: u32) -> Self {
        let now = Instant::now();
        Client {
            fabric,
            server,
            budget,
            exhausted: 0,
            interval,
            next: Some(now),
            due: vec![now; OUTSTANDING].into_boxed_slice(),
            asked: 0,
            sent: 0,
            answered: 0,
            delayed: 0,
            left_out: 0,
            spare: (0..SENDS).map(|_| buffer()).collect(),
            times: Times::new(),
        }
    }

    pub(crate) const fn exhausted(&self) -> u64 {
        self.exhausted
    }

    pub(crate) const fn answered(&self) -> u64 {
        self.answered
    }

    pub(crate) const fn delayed(&self) -> u64 {
        self.delayed
    }

    pub(crate) const fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) const fn times(&self) -> &Times {
        &self.times
    }

    /// Where the time of a request is.
    fn place(number: u64) -> usize {
        usize::try_from(number % OUTSTANDING as u64).unwrap_or(0)
    }

    /// Sends what is due, as far as there is room.
    fn send(&mut self) -> Result<(), Failure> {
        while self.sent < self.asked {
            let Some(mut buffer) = self.spare.pop() else { break };
            fill(&mut buffer, self.sent);
            if let Some(buffer) = self.fabric.send(self.server, buffer)? {
                self.put_back(buffer)?;
                break;
            }
            self.sent += 1;
        }
        Ok(())
    }

    fn put_back(&mut self, buffer: Buffer) -> Result<(), Failure> {
        self.spare.push(buffer).map_err(|_| Failure("there is a buffer too many"))
    }

    /// Answers come in the order of the requests.
    fn answer(&mut self, buffer: Buffer) -> Result<(), Failure> {
        if !is_filled(&buffer, self.answered) {
            return Err(Failure("an answer is not what was asked for"));
        }
        self.times.record(self.due[Self::place(self.answered)].elapsed());
        self.answered += 1;
        self.fabric.receive(buffer)
    }
}

/// What stands in each word of a request: a number that follows from its own.
fn words(number: u64) -> impl Iterator<Item = [u8; 8]> {
    (0..).map(move |word: u64| number.wrapping_mul(2 * word + 1).to_le_bytes())
}

fn fill(buffer: &mut [u8], number: u64) {
    buffer.chunks_exact_mut(8).zip(words(number)).for_each(|(chunk, word)| chunk.copy_from_slice(&word));
}

fn is_filled(buffer: &[u8], number: u64) -> bool {
    buffer.chunks_exact(8).zip(words(number)).all(|(chunk, word)| chunk == word)
}

impl<T: Transport> Task for Client<T> {
    fn turn(&mut self, _: Instant) -> Result<(), Failure> {
        self.send()?;
        for _ in 0..self.budget {
            match self.fabric.next()? {
                Some(Back::Sent(buffer)) => self.put_back(buffer)?,
                Some(Back::Received(buffer)) => self.answer(buffer)?,
                None => return Ok(()),
            }
        }
        self.exhausted += 1;
        Ok(())
    }

    fn timer(&mut self, due: Instant, now: Instant) -> Result<(), Failure> {
        if self.asked - self.answered < OUTSTANDING as u64 {
            self.due[Self::place(self.asked)] = due;
            self.asked += 1;
            self.delayed += u64::from(self.asked - self.sent > SENDS as u64);
            self.next = Some(due + self.interval);
        } else {
            // As many as it keeps times of: what was due until now is left out, and the schedule begins anew.
            let missed = (now - due).as_nanos() / self.interval.as_nanos();
            self.left_out += 1 + u64::try_from(missed).unwrap_or(u64::MAX - 1);
            self.next = Some(now + self.interval);
        }
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    fn stop(&mut self) {
        self.next = None;
    }

    fn is_idle(&self) -> bool {
        self.asked == self.answered && self.spare.is_full()
    }
}
