//! One of the two processes: its objects, and the parts of every kind of transfer.

use std::cell::RefCell;
use std::fmt;
use std::time::{Duration, Instant};

use loom_core::completion::{Completion, Transfer};
use loom_core::counter::Counter;
use loom_core::cq::Cq;
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::vocabulary::{Caps, ImmediateData, Tag};

use crate::hosts::line::Line;
use crate::hosts::link::{Halves, Link, Posted, T};
use crate::hosts::opening::{Way, with_side};
use crate::hosts::posting::{LIMIT, pattern, post};
use crate::hosts::{EVERY, FLIPS, kinds};

pub(crate) const PLAYED: &str = "played: ";
pub(crate) const NOT_GRANTED: &str = "not granted: ";
pub(crate) const DIFFERS: &str = "differs: ";

pub(crate) const LONG: usize = 1 << 20;

/// Byte that is never sent.
const UNTOUCHED: u8 = 0xff;

/// Part of a process: bytes always go from the first to the second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Sends,
    Receives,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Sends => "sends",
            Part::Receives => "receives",
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Played,
    /// The kind is not granted, and requests for it are refused.
    NotGranted,
    Differs,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) tag: Option<Tag>,
    pub(crate) data: Option<ImmediateData>,
}

pub(crate) struct Side<'q, 'd> {
    pub(crate) part: Part,
    pub(crate) link: Link<'d>,
    info: &'q Info<T>,
    pub(crate) cq: &'q Cq<'d, T, Halves>,
    /// Counter of this side's sends or receives, if it can count.
    pub(crate) counter: Option<&'q Counter<'d, T>>,
    pub(crate) remote: RemoteRegion,
    region: &'q Mr<'d, T, Vec<u8>>,
    line: RefCell<Line>,
    /// Number of the current kind. With `flips`, its sender changes a byte.
    seed: usize,
    flips: bool,
}

pub(crate) fn play(role: &str) {
    // A call of a provider that does not return can only be ended with the process.
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT + Duration::from_secs(30));
        eprintln!("a call does not return");
        std::process::abort();
    });
    let [part, way, address, provider] = role.split(' ').collect::<Vec<_>>().try_into().expect("four words");
    let part = if part == Part::Sends.to_string() { Part::Sends } else { Part::Receives };
    let way = if way == Way::Peers.to_string() { Way::Peers } else { Way::Connection };
    with_side(part, way, address, provider, |side| {
        let flips = std::env::var(FLIPS).unwrap_or_default();
        let mut outcomes = Vec::new();
        for (seed, (name, kind)) in kinds::of(way).enumerate() {
            let _playing = Playing(name);
            side.seed = seed;
            side.flips = flips == name || flips == EVERY;
            outcomes.push((name, kind(side)));
            side.meet(name);
        }
        if part == Part::Receives {
            report(&outcomes);
        }
    });
}

struct Playing(&'static str);

impl Drop for Playing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in: {}", self.0);
        }
    }
}

fn report(outcomes: &[(&str, Outcome)]) {
    let that = |is: fn(Outcome) -> bool| -> String {
        let names: Vec<_> = outcomes.iter().filter(|(_, outcome)| is(*outcome)).map(|(name, _)| *name).collect();
        names.join(", ")
    };
    println!("{PLAYED}{}", that(|outcome| outcome != Outcome::NotGranted));
    println!("{NOT_GRANTED}{}", that(|outcome| outcome == Outcome::NotGranted));
    println!("{DIFFERS}{}", that(|outcome| outcome == Outcome::Differs));
}

impl<'q, 'd> Side<'q, 'd> {
    pub(crate) fn new(
        part: Part,
        link: Link<'d>,
        info: &'q Info<T>,
        cq: &'q Cq<'d, T, Halves>,
        region: &'q Mr<'d, T, Vec<u8>>,
        counter: Option<&'q Counter<'d, T>>,
        mut line: Line,
    ) -> Self {
        let own = region.remote().to_bytes().map(|byte| byte.to_string()).join(" ");
        let remote: Vec<u8> = line.exchange(&own).split(' ').map(|byte| byte.parse().expect("a byte")).collect();
        let remote = RemoteRegion::from_bytes(&remote.try_into().expect("as long as a region"));
        Side { part, link, info, cq, counter, remote, region, line: RefCell::new(line), seed: 0, flips: false }
    }

    pub(crate) fn info(&self) -> &Info<T> {
        self.info
    }

    pub(crate) fn grants(&self, caps: Caps) -> bool {
        self.info().caps().contains(caps)
    }

    /// Waits until the other side arrives here, and serves it meanwhile.
    pub(crate) fn meet(&self, place: &str) {
        let mut line = self.line.borrow_mut();
        line.say(place);
        let other = line.hear(|| {
            self.cq.progress().expect("the queue works");
        });
        assert_eq!(other, place, "the other side is elsewhere");
    }

    fn content(&self, len: usize) -> Box<[u8]> {
        pattern(len, self.seed).into()
    }

    /// Bytes to send, with one changed for a control.
    pub(crate) fn bytes(&self, len: usize) -> Halves {
        let mut bytes = self.content(len);
        bytes[len / 2] ^= u8::from(self.flips);
        Halves(bytes)
    }

    pub(crate) fn room(len: usize) -> Halves {
        Halves(vec![UNTOUCHED; len].into())
    }

    pub(crate) fn check(&self, bytes: &[u8], len: usize) -> Outcome {
        if *bytes == *self.content(len) { Outcome::Played } else { Outcome::Differs }
    }

    pub(crate) fn finish(&self, key: OpKey) -> (Box<[u8]>, Transfer) {
        let done = self.cq.wait(key, Instant::now() + LIMIT).expect("the queue works").expect("it ends in time");
        let (buf, result) = done.into_parts();
        (buf.0, result.expect("the operation succeeds"))
    }

    pub(crate) fn posts(&self, len: usize, call: impl Fn(Halves) -> Posted) {
        self.finish(post(self.cq, self.bytes(len), call));
    }

    /// Injects the kind's bytes, and overwrites their memory at once.
    pub(crate) fn injects(&self, len: usize, call: impl Fn(&[u8]) -> Result<(), PostError>) {
        assert!(len <= self.link.inject_size(), "{len} bytes can be injected");
        let Halves(mut bytes) = self.bytes(len);
        let deadline = Instant::now() + LIMIT;
        while let Err(error) = call(&bytes) {
            assert!(error.is_transient() && Instant::now() < deadline, "not injected: {error:#}");
            self.cq.progress().expect("the queue works");
        }
        bytes.fill(UNTOUCHED);
    }

    /// Transfers a message: its receive is posted before the send.
    pub(crate) fn message(
        &self,
        len: usize,
        told: &Told,
        send: impl FnOnce(),
        receive: impl Fn(Halves) -> Posted,
    ) -> Outcome {
        match self.part {
            Part::Sends => {
                self.meet("posted");
                send();
                Outcome::Played
            }
            Part::Receives => {
                let key = post(self.cq, Self::room(len), receive);
                self.meet("posted");
                let (bytes, transfer) = self.finish(key);
                assert_eq!(transfer.len, len);
                assert_eq!(*told, Told { tag: transfer.tag, data: transfer.data });
                self.check(&bytes, len)
            }
        }
    }

    /// Writes, and the receiver checks its memory.
    pub(crate) fn write(&self, len: usize, data: Option<ImmediateData>, write: impl FnOnce()) -> Outcome {
        if self.part == Part::Sends {
            self.meet("prepared");
            write();
            return Outcome::Played;
        }
        let Halves(mut bytes) = Self::room(len);
        self.region.window().copy_from(0, &bytes).expect("within the region");
        self.meet("prepared");
        if data.is_some() {
            let Completion::Remote(event) = self.next() else { panic!("a peer's event") };
            assert_eq!(event.data(), data);
        }
        let deadline = Instant::now() + LIMIT;
        while bytes.contains(&UNTOUCHED) {
            assert!(Instant::now() < deadline, "not all of it arrives");
            self.cq.progress().expect("the queue works");
            self.region.window().copy_to(0, &mut bytes).expect("within the region");
        }
        self.check(&bytes, len)
    }

    /// Reads: the receiver fetches the sender's bytes.
    pub(crate) fn read(&self, len: usize, read: impl Fn(Halves) -> Posted) -> Outcome {
        if self.part == Part::Sends {
            self.region.window().copy_from(0, &self.bytes(len).0).expect("within the region");
            self.meet("prepared");
            return Outcome::Played;
        }
        self.meet("prepared");
        let (bytes, transfer) = self.finish(post(self.cq, Self::room(len), read));
        assert_eq!(transfer.len, len);
        self.check(&bytes, len)
    }

    pub(crate) fn next(&self) -> Completion<'d, Halves> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(completion) = self.cq.poll_direction(Direction::Receive).expect("the queue works") {
                return completion;
            }
        }
        panic!("nothing comes");
    }

    /// Checks that a post that is not granted is refused, and returns its buffer.
    pub(crate) fn refused(&self, caps: Caps, call: impl FnOnce(Halves) -> Posted) -> Outcome {
        let rejected = call(Self::room(8)).expect_err("it is not granted");
        assert_eq!((rejected.error, rejected.value), (PostError::NotGranted(caps), Self::room(8)));
        Outcome::NotGranted
    }
}
