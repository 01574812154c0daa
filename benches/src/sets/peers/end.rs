//! A message to and fro, or many messages in one direction, between two ends over any channel.

use std::sync::mpsc::channel;
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::cores::Peer;

/// One end, for one thread. A message repeats its number.
pub(crate) trait End {
    /// Sends the message of this number. Polls while the channel has no room.
    fn send(&mut self, number: u64);

    /// Polls until the next message arrives, reads all of it, and checks its number.
    fn receive(&mut self, number: u64);

    /// Makes progress while a message is in transit.
    #[inline]
    fn rest(&mut self) {}

    /// Sends the last message of many, and polls until it is sent.
    fn send_last(&mut self, number: u64) {
        self.send(number);
    }
}

/// Checks that every word of a message is its number.
#[inline]
pub(crate) fn check<'w>(words: impl IntoIterator<Item = &'w u64>, number: u64) {
    let differing = words.into_iter().fold(0, |differing, word| differing | (word ^ number));
    assert_eq!(differing, 0, "the message {number} arrives whole and in its order");
}

#[inline]
pub(crate) fn check_bytes(bytes: &[u8], number: u64) {
    let (words, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "whole words");
    let differing = words.iter().fold(0, |differing, word| differing | (u64::from_ne_bytes(*word) ^ number));
    assert_eq!(differing, 0, "the message {number} arrives whole and in its order");
}

#[inline]
pub(crate) fn fill(bytes: &mut [u8], number: u64) {
    bytes.as_chunks_mut().0.fill(number.to_ne_bytes());
}

/// Part of the far end in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Play {
    /// Returns each message, with another number.
    Answer,
    Stream,
    #[cfg_attr(not(feature = "libfabric"), expect(dead_code, reason = "only sets of libfabric write"))]
    Write,
}

impl Play {
    pub(crate) fn far(self, mut end: impl End, rounds: impl Iterator<Item = u32>) {
        for count in rounds {
            match self {
                Play::Answer => answer(&mut end, count),
                Play::Stream | Play::Write => stream(&mut end, count),
            }
        }
    }

    /// Plays the near end. Returns the duration of a round of `count` messages, each to the other
    /// end.
    #[inline]
    pub(crate) fn near(self, end: &mut impl End, count: u32) -> Duration {
        match self {
            Play::Answer => round_trips(end, count) / 2,
            Play::Stream | Play::Write => receive(end, count),
        }
    }
}

// Each is a separate function, so that it is compiled equally for every measurement.
#[inline(never)]
fn answer(end: &mut impl End, count: u32) {
    for number in 0..u64::from(count) {
        end.receive(number);
        end.send(!number);
        end.rest();
    }
}

#[inline(never)]
fn stream(end: &mut impl End, count: u32) {
    let last = u64::from(count) - 1;
    (0..last).for_each(|number| end.send(number));
    end.send_last(last);
}

#[inline(never)]
fn round_trips(end: &mut impl End, count: u32) -> Duration {
    let begin = Instant::now();
    for number in 0..u64::from(count) {
        end.send(number);
        end.rest();
        end.receive(!number);
    }
    begin.elapsed()
}

#[inline(never)]
fn receive(end: &mut impl End, count: u32) -> Duration {
    let begin = Instant::now();
    for number in 0..u64::from(count) {
        end.receive(number);
        end.rest();
    }
    begin.elapsed()
}

pub(crate) type Exchange<'e> = &'e mut dyn FnMut(&str) -> String;

pub(crate) type Round<'s> = Box<dyn FnMut(u32) -> Duration + 's>;

/// Runs rounds of two ends in two threads. Each end is opened in its thread.
pub(crate) fn between_threads<'s, N: End + 's, F: End>(
    scope: &'s Scope<'s, '_>,
    play: Play,
    near: impl FnOnce(Exchange<'_>) -> N,
    far: impl FnOnce(Exchange<'_>) -> F + Send + 's,
) -> Round<'s> {
    let ((tell, learned), (told, learn)) = (channel::<String>(), channel::<String>());
    let mut peer = Peer::start(scope, 1, move |rounds| {
        let mut exchange = |text: &str| {
            told.send(text.into()).expect("the other thread lives");
            learned.recv().expect("the other thread lives")
        };
        let end = far(&mut exchange);
        play.far(end, rounds);
    });
    let mut end = near(&mut |text| {
        tell.send(text.into()).expect("the other thread lives");
        learn.recv().expect("the other thread lives")
    });
    Box::new(move |count| {
        peer.begin(count);
        play.near(&mut end, count)
    })
}
