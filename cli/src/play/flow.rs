//! Message streams: rate and bandwidth.
//!
//! The initiator sends batches of tagged messages with a [window](window) of them in flight. The
//! responder answers a batch with one message.

use std::collections::VecDeque;
use std::time::Instant;

use loom_core::completion::{Completion, Done};
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};
use loom_core::transport::Transport;
use loom_core::vocabulary::Tag;

use crate::failure::Failure;
use crate::play::game::rounds_from;
use crate::play::payload::{Buffer, Pattern, Role};
use crate::play::row;
use crate::play::session::{Session, Step};
use crate::play::side::Side;
use crate::text::size_text;

pub(crate) const WINDOW: usize = 64;

/// Maximum number of bytes in flight, but at least four messages.
const BYTES: usize = 16 << 20;

/// Duration of a batch in nanoseconds, much longer than its answer's.
const BATCH: u64 = 10_000_000;

const BATCHES: u64 = 15;

const LONGEST: u64 = 100_000;

const BURST: usize = 16;

fn window(size: usize) -> usize {
    (BYTES / size.max(1)).clamp(4, WINDOW)
}

/// Tags of messages and of answers differ in one bit.
fn tag(message: u64) -> Tag {
    Tag(message & 0x7fff)
}

fn tag_of_answer(batch: u64) -> Tag {
    Tag(0x8000 | batch & 0x7fff)
}

/// Verifies a batch, chooses the length of the others by a trial, and measures them.
pub(crate) fn play<T: Transport>(
    sides: &[Side<T>],
    session: &mut Session,
    size: usize,
    messages: Option<u64>,
) -> Result<(u64, row::Flow), Failure> {
    let verified = 2 * window(size) as u64;
    play_batches(sides, session, size, (verified, 1), true)?;
    let trial = 4 * window(size) as u64;
    let took = play_batches(sides, session, size, (trial, 1), false)?.into_iter().sum::<u64>().max(1);
    let messages = messages.unwrap_or_else(|| {
        let fits = u128::from(trial) * u128::from(BATCH) / u128::from(took);
        u64::try_from(fits).unwrap_or(LONGEST).clamp(window(size) as u64, LONGEST)
    });
    let mut took = play_batches(sides, session, size, (messages, BATCHES), false)?;
    Ok((verified, row::Flow::new(messages, &mut took)))
}

/// The initiator alone measures the time of each batch, in nanoseconds.
fn play_batches<T: Transport>(
    sides: &[Side<T>],
    session: &mut Session,
    size: usize,
    (messages, batches): (u64, u64),
    verify: bool,
) -> Result<Vec<u64>, Failure> {
    session.begin(format!("messages of {} one after the other", size_text(size)));
    let mut ends: Vec<_> = sides.iter().map(|side| End::new(side, size, verify)).collect();
    let theirs = session.swap_beside(&messages.to_le_bytes(), &mut ends)?;
    let responds = sides.first().is_some_and(|side| side.role() == Role::Responder);
    let messages = if responds { rounds_from(&theirs)? } else { messages };
    for end in &mut ends {
        end.prepare(messages, batches);
    }
    session.run(&mut ends, End::is_prepared)?;
    session.swap_beside(b"ready", &mut ends)?;
    for end in &mut ends {
        end.start();
    }
    session.run(&mut ends, End::is_done)?;
    Ok(ends.swap_remove(0).took)
}

struct End<'s, T: Transport> {
    side: &'s Side<T>,
    size: usize,
    verify: bool,
    batch: u64,
    total: u64,
    started: bool,
    free: Vec<Buffer>,
    window: usize,
    posted: u64,
    in_flight: VecDeque<(OpKey, u64)>,
    arrived: u64,
    /// The buffer, the operation that uses it, the number due to be posted, and the number
    /// completed.
    answer: Option<Buffer>,
    answering: Option<OpKey>,
    answers_due: u64,
    answers: u64,
    began: Instant,
    took: Vec<u64>,
}

impl<T: Transport> Step for End<'_, T> {
    #[inline]
    fn step(&mut self) -> Result<bool, Failure> {
        let mut happened = false;
        for _ in 0..BURST {
            let polled = self.side.endpoint().cq().poll().map_err(Failure::when("polling the completion queue"))?;
            match polled {
                None => break,
                Some(Completion::Op(done)) => self.complete(done)?,
                Some(Completion::Unclaimed(error)) => return Err(self.failed(&error)),
                Some(other) => return Err(Failure::Protocol(format!("a completion of another kind: {other:?}"))),
            }
            happened = true;
        }
        happened |= self.post_answer()?;
        while self.post_message()? {
            happened = true;
        }
        Ok(happened)
    }
}

impl<'s, T: Transport> End<'s, T> {
    fn new(side: &'s Side<T>, size: usize, verify: bool) -> Self {
        let window = window(size);
        End {
            side,
            size,
            verify,
            batch: 0,
            total: 0,
            started: false,
            free: (0..window).map(|_| vec![0; size].into_boxed_slice()).collect(),
            window,
            posted: 0,
            in_flight: VecDeque::with_capacity(window),
            arrived: 0,
            answer: Some(vec![0; 1].into_boxed_slice()),
            answering: None,
            answers_due: 0,
            answers: 0,
            began: Instant::now(),
            took: Vec::new(),
        }
    }

    fn sends(&self) -> bool {
        self.side.role() == Role::Initiator
    }

    fn prepare(&mut self, messages: u64, batches: u64) {
        (self.batch, self.total) = (messages, messages.saturating_mul(batches));
        self.took.reserve(usize::try_from(batches).unwrap_or(0));
        self.answers_due = u64::from(self.sends());
    }

    fn is_prepared(&self) -> bool {
        let receives = self.total.min(self.window as u64);
        if self.sends() { self.answers_due == 0 } else { self.posted >= receives }
    }

    fn start(&mut self) {
        (self.started, self.began) = (true, Instant::now());
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.answers * self.batch == self.total && self.in_flight.is_empty()
    }

    /// This batch for the sender, all batches for the receiver.
    #[inline]
    fn limit(&self) -> u64 {
        match (self.sends(), self.started) {
            (true, true) => ((self.answers + 1) * self.batch).min(self.total),
            (true, false) => 0,
            (false, _) => self.total,
        }
    }

    #[inline]
    fn post_message(&mut self) -> Result<bool, Failure> {
        let number = self.posted;
        if number >= self.limit() {
            return Ok(false);
        }
        let Some(mut buffer) = self.free.pop() else { return Ok(false) };
        let (endpoint, peer) = (self.side.endpoint(), self.side.peer());
        let posted = if self.sends() {
            if self.verify {
                Pattern::new(self.size, number, Role::Initiator).fill(&mut buffer);
            }
            endpoint.tagged_send(peer, tag(number), buffer)
        } else {
            endpoint.tagged_recv(Source::Any, tag(number), buffer)
        };
        match posted {
            Ok(key) => {
                self.in_flight.push_back((key, number));
                self.posted += 1;
                Ok(true)
            }
            Err(Rejected { value: buf, error }) => {
                self.free.push(buf);
                self.not_now(error)
            }
        }
    }

    #[inline]
    fn post_answer(&mut self) -> Result<bool, Failure> {
        if self.answers_due == 0 {
            return Ok(false);
        }
        let Some(buffer) = self.answer.take() else { return Ok(false) };
        let (endpoint, tag) = (self.side.endpoint(), tag_of_answer(self.answers));
        let posted = if self.sends() {
            endpoint.tagged_recv(Source::Any, tag, buffer)
        } else {
            endpoint.tagged_send(self.side.peer(), tag, buffer)
        };
        match posted {
            Ok(key) => {
                (self.answering, self.answers_due) = (Some(key), self.answers_due - 1);
                Ok(true)
            }
            Err(Rejected { value: buf, error }) => {
                self.answer = Some(buf);
                self.not_now(error)
            }
        }
    }

    fn not_now(&self, error: PostError) -> Result<bool, Failure> {
        if error.is_transient() {
            return Ok(false);
        }
        Err(Failure::Operation { doing: self.doing(), text: error.to_string() })
    }

    #[inline]
    fn complete(&mut self, done: Done<Buffer>) -> Result<(), Failure> {
        let key = done.key();
        let (bytes, result) = done.into_parts();
        let transfer = result.map_err(|error| self.failed(&error))?;
        if self.answering == Some(key) {
            (self.answer, self.answering) = (Some(bytes), None);
            self.answers += 1;
            if self.sends() {
                self.took.push(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
                self.began = Instant::now();
                self.answers_due = u64::from(self.answers * self.batch < self.total);
            }
            return Ok(());
        }
        let place = self.in_flight.iter().position(|(in_flight, _)| *in_flight == key);
        let Some((_, number)) = place.and_then(|place| self.in_flight.remove(place)) else {
            return Err(Failure::Protocol(format!("a completion of no operation of this side: {key:?}")));
        };
        if !self.sends() {
            if transfer.len != self.size {
                return Err(Failure::Protocol(format!("{}: {} bytes came", self.doing(), transfer.len)));
            }
            if self.verify {
                self.check(&bytes, number)?;
            }
            self.arrived += 1;
            self.answers_due += u64::from(self.arrived.is_multiple_of(self.batch));
        }
        self.free.push(bytes);
        Ok(())
    }

    fn check(&self, bytes: &[u8], number: u64) -> Result<(), Failure> {
        Pattern::new(self.size, number, Role::Initiator).check(bytes).map_err(|wrong| Failure::Mismatch {
            doing: self.doing(),
            round: number,
            offset: wrong.offset,
            got: wrong.got,
            expected: wrong.expected,
        })
    }

    fn doing(&self) -> String {
        format!("messages of {} one after the other", size_text(self.size))
    }

    #[cold]
    fn failed(&self, error: &loom_core::completion::OpError) -> Failure {
        let text = self.side.endpoint().cq().error_text(error);
        Failure::Operation { doing: self.doing(), text: format!("{error:#}: {text}") }
    }
}
