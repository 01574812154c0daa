//! This side of each case: two endpoints, processes that play parts, and one process that stays and
//! answers.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use loom_core::av::Av;
use loom_core::completion::{Completion, Done, OpError, Transfer};
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::endpoint::{self, Binding, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::info::Info;
use loom_core::mr::RemoteRegion;
use loom_core::scope;
use loom_core::vocabulary::{EndpointAddr, EndpointOption, Tag};
use support::library_version;

pub(crate) use crate::process_death::posting::{LIMIT, post};
use crate::process_death::watched::{Watch, Watched};

/// Environment variable of a peer's process: the provider, the part, the tag of the hello, and the
/// addresses of this side.
pub(crate) const ROLE: &str = "LOOM_KILLED_PEER";

/// Length that takes many polls.
pub(crate) const LONG: usize = 4 << 20;
/// Number of long messages in sequence. They exceed the buffers of sockets, and the amount that
/// passes unobserved.
pub(crate) const TRAIN: usize = 12;

pub(crate) const LEFT: usize = 256 << 10;

/// Number of short messages that a process receives before it kills itself.
pub(crate) const TAKEN: u64 = 100;

pub(crate) const LONGEST_ANSWER: usize = 100_000;

/// Exit status of a process that had to kill itself during an operation, and missed it because it
/// was not running.
pub(crate) const MISSED: i32 = 77;

/// Maximum length of messages for a multi-receive. Over `tcp;ofi_rxm` of libfabric 1.17, the buffer
/// is released too early with longer ones (`rxm-multi-receive-is-released-too-early`).
pub(crate) fn piece_len(provider: &str) -> usize {
    if provider == "tcp;ofi_rxm" && library_version().major < 2 { 8 << 10 } else { LONG }
}

/// Tag of answered messages, which begin with the number of the sending endpoint.
pub(crate) const ECHO: Tag = Tag(1);
pub(crate) const RECEIVED: Tag = Tag(2);
/// Tag of the signal to a sender to begin.
pub(crate) const BEGIN: Tag = Tag(3);
pub(crate) const NEW: Tag = Tag(4);
pub(crate) const DONE: Tag = Tag(5);
/// Minimum tag of peers' first messages, which carry their region and address.
const HELLO: Tag = Tag(16);

pub(crate) use super::T;
pub(crate) use crate::connected::Found;
pub(crate) type Endpoint<'d> = endpoint::Endpoint<'d, T, Watched>;

pub(crate) fn room(len: usize) -> Watched {
    vec![0; len].into()
}

pub(crate) fn full(len: usize) -> Watched {
    vec![1; len].into()
}

/// A process that plays a part. Drop kills it.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a process. Its input ends with this process, also if this process is killed.
    fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::null());
        Process(command.spawn().expect("another process"))
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("kills");
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a process of this one")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Player {
    pub(crate) process: Process,
    pub(crate) peer: Peer,
    pub(crate) region: RemoteRegion,
}

/// Two endpoints on one queue. The processes use their numbers, 0 and 1.
pub(crate) struct Scene<'q, 'd> {
    pub(crate) info: &'q Info<T>,
    pub(crate) domain: &'q Domain<'d, T>,
    pub(crate) cq: &'q Cq<'d, T, Watched>,
    pub(crate) av: &'q Av<'d, T>,
    pub(crate) a: Endpoint<'d>,
    pub(crate) b: Endpoint<'d>,
    /// Process that answers both endpoints.
    pub(crate) other: Player,
}

pub(crate) struct Question {
    bytes: Vec<u8>,
    sent: OpKey,
    answer: OpKey,
}

/// Opens the objects, with processes for these parts, and closes them. Checks then that every
/// buffer that `test` returns is dropped.
pub(crate) fn with_scene<const N: usize>(
    info: &Info<T>,
    parts: [&str; N],
    test: impl FnOnce(Scene<'_, '_>, [Player; N]) -> Vec<Watch>,
) {
    let watches = play(&Domain::open(info).expect("domain"), info, parts, test);
    // Over an untested provider, an operation that has not ended keeps its buffer.
    assert!(watches.iter().all(Watch::is_dropped) || !T::is_tested(info), "buffers have leaked");
}

/// Runs `test` in a scope, which closes the objects that it forgets. Checks that as many buffers
/// leak as `test` returns as in flight.
pub(crate) fn with_scene_in_a_scope<const N: usize>(
    info: &Info<T>,
    parts: [&str; N],
    test: impl FnOnce(Scene<'_, '_>, [Player; N]) -> (Vec<Watch>, usize),
) {
    let (watches, in_flight) = scope(|s| play(&s.open(info).expect("domain"), info, parts, test));
    assert_eq!(watches.iter().filter(|watch| !watch.is_dropped()).count(), in_flight);
}

fn play<R, const N: usize>(
    domain: &Domain<'_, T>,
    info: &Info<T>,
    parts: [&str; N],
    test: impl FnOnce(Scene<'_, '_>, [Player; N]) -> R,
) -> R {
    let av = Av::open(domain, 32).expect("address vector");
    let cq = Cq::open(domain, CqAttr { endpoints: 32, ..CqAttr::new(256) }).expect("queue");
    let mut bind = Binding::to(&av);
    if T::is_tested(info) {
        bind = bind.option(EndpointOption::MIN_MULTI_RECV, piece_len(info.provider()));
    }
    let a = cq.endpoint(bind).expect("endpoint a");
    let b = cq.endpoint(&av).expect("endpoint b");
    let addresses = [&a, &b].map(|endpoint| endpoint.address().expect("its address").to_string()).join(" ");
    let mut number = HELLO.0;
    let mut start = |part: &str| {
        number += 1;
        let hello = post(&cq, room(256), |buf| a.tagged_recv(Source::Any, Tag(number), buf));
        (hello, Process::start(&format!("{} {part} {number} {addresses}", info.provider())))
    };
    let (other, others) = (start("answers"), parts.map(start));
    let meet = |(hello, process)| {
        let (bytes, transfer) = finish(&cq, hello);
        let (region, address) = bytes[..transfer.len].split_first_chunk().expect("as long as a region");
        let address: EndpointAddr = std::str::from_utf8(address).expect("text").parse().expect("an address");
        let peer = av.insert(&address).expect("the peer in the vector");
        Player { process, peer, region: RemoteRegion::from_bytes(region) }
    };
    let (other, others) = (meet(other), others.map(meet));
    test(Scene { info, domain, cq: &cq, av: &av, a, b, other }, others)
}

impl Scene<'_, '_> {
    pub(crate) fn is(&self, provider: &str) -> bool {
        self.info.provider() == provider
    }

    pub(crate) fn exchange(&self, rounds: u8) {
        for round in 0..rounds {
            for len in [64, LONGEST_ANSWER] {
                self.exchange_from(&self.a, 0, len, round);
                self.exchange_from(&self.b, 1, len, round);
            }
        }
    }

    pub(crate) fn exchange_from(&self, from: &Endpoint<'_>, number: u8, len: usize, seed: u8) {
        self.is_answered(self.ask(from, number, len, seed));
    }

    pub(crate) fn ask(&self, from: &Endpoint<'_>, number: u8, len: usize, seed: u8) -> Question {
        let question = |at: usize| u8::try_from((at * 31 + at / 251 + usize::from(seed)) % 251).expect("small");
        let bytes: Vec<u8> = (0..len).map(|at| if at == 0 { number } else { question(at) }).collect();
        let answer = post(self.cq, room(len), |buf| from.tagged_recv(Source::Any, ECHO, buf));
        let sent = post(self.cq, bytes.clone().into(), |buf| from.tagged_send(self.other.peer, ECHO, buf));
        Question { bytes, sent, answer }
    }

    pub(crate) fn is_answered(&self, question: Question) {
        let Question { bytes, sent, answer } = question;
        assert!(*finish(self.cq, sent).0 == bytes, "what was sent comes back as it was");
        let (answer, transfer) = finish(self.cq, answer);
        assert_eq!(transfer.len, bytes.len());
        assert!(
            answer.iter().zip(&bytes).all(|(answer, byte)| *answer == byte + 1),
            "an answer of {} bytes",
            bytes.len()
        );
    }

    pub(crate) fn take(&self, left: &mut Vec<OpKey>) -> Vec<Done<Watched>> {
        let mut ended = Vec::new();
        while let Some(completion) = self.cq.poll().expect("the queue works") {
            match completion {
                Completion::Op(done) => {
                    let at = left.iter().position(|key| *key == done.key()).expect("each once");
                    left.swap_remove(at);
                    ended.push(done);
                }
                other => pass_over(other),
            }
        }
        ended
    }
}

/// Passes over completions that are not ends of operations.
fn pass_over(completion: Completion<'_, Watched>) {
    match completion {
        // A message for the buffer of a multi-receive. The last one may have failed.
        Completion::Piece(piece) => drop(piece),
        // Failures of injected messages, and failures for which some providers do not name the
        // operation.
        Completion::Unclaimed(error) => println!("of nothing: {error:?}"),
        other => panic!("not expected: {other:?}"),
    }
}

pub(crate) fn finish(cq: &Cq<'_, T, Watched>, key: OpKey) -> (Box<[u8]>, Transfer) {
    let (bytes, result) = end(cq, key);
    (bytes, result.expect("the operation succeeds"))
}

fn end(cq: &Cq<'_, T, Watched>, key: OpKey) -> (Box<[u8]>, Result<Transfer, OpError>) {
    let until = Instant::now() + LIMIT;
    let done = loop {
        match cq.wait(key, until) {
            Ok(done) => break done.expect("the operation ends in time"),
            // Failures of injected messages to dead peers, if they exceed the queue, are reported
            // first.
            Err(CqError::PeerEvents) => pass_over(cq.poll().expect("the queue works").expect("what is in the way")),
            Err(error) => panic!("the queue works: {error:?}"),
        }
    };
    let (buf, result) = done.into_parts();
    (buf.into_bytes(), result)
}
