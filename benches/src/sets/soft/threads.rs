//! The software transport between threads: latency compared with a bare cache line, rate compared
//! with a channel.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{EndpointAddr, Tag};

use crate::Failure;
use crate::contest::{Contest, Measured, Outcome};
use crate::cores::{self, Peer};
use crate::report::{Goal, Ratio, Run};
use crate::sets::machine::{Line, PingPong, ring};

type Transport = Soft<'static>;
type Buffer = Box<[u8]>;

const TAG: Tag = Tag(7);

struct Port {
    cq: Cq<'static, Transport, Buffer>,
    endpoint: Endpoint<'static, Transport, Buffer>,
    av: Av<'static, Transport>,
}

impl Port {
    fn open(domain: &Domain<'static, Transport>, depth: usize) -> Port {
        let cq = Cq::open(domain, CqAttr::new(depth)).expect("queue");
        let av = Av::open(domain, 1).expect("address vector");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        Port { cq, endpoint, av }
    }

    /// Exchanges addresses with the endpoint of the other thread.
    fn meet(&self, tell: &Sender<EndpointAddr>, learn: &Receiver<EndpointAddr>) -> peer_table::Peer {
        tell.send(self.endpoint.address().expect("address")).expect("the other thread lives");
        self.av.insert(&learn.recv().expect("the other thread lives")).expect("address inserted")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Completed,
    Injected,
}

/// One end of a ping-pong with tagged messages of 8 bytes. It has one or two posted receives.
struct End {
    port: Port,
    to: peer_table::Peer,
    sending: Sending,
    /// `None` while it is in flight.
    outbox: Option<Buffer>,
    in_flight: Option<OpKey>,
    sent: u64,
    received: u64,
}

impl End {
    fn open(
        domain: &Domain<'static, Transport>,
        sending: Sending,
        tell: &Sender<EndpointAddr>,
        learn: &Receiver<EndpointAddr>,
    ) -> End {
        let port = Port::open(domain, 16);
        for _ in 0..2 {
            port.endpoint.tagged_recv(Source::Any, TAG, vec![0; 8].into()).expect("there is room");
        }
        let to = port.meet(tell, learn);
        End { port, to, sending, outbox: Some(vec![0; 8].into()), in_flight: None, sent: 0, received: 0 }
    }

    #[inline]
    fn send(&mut self) {
        self.sent += 1;
        let bytes = self.sent.to_ne_bytes();
        if self.sending == Sending::Injected {
            while let Err(error) = self.port.endpoint.tagged_inject(self.to, TAG, &bytes) {
                assert!(error.is_transient(), "{error:#}");
                self.port.cq.progress().expect("the queue works");
            }
            return;
        }
        let mut outbox = loop {
            match self.outbox.take() {
                Some(outbox) => break outbox,
                None => assert!(self.poll().is_none(), "the other end answers first"),
            }
        };
        outbox.copy_from_slice(&bytes);
        loop {
            match self.port.endpoint.tagged_send(self.to, TAG, outbox) {
                Ok(key) => break self.in_flight = Some(key),
                Err(rejected) => {
                    assert!(rejected.error.is_transient(), "{rejected}");
                    outbox = rejected.value;
                    self.port.cq.progress().expect("the queue works");
                }
            }
        }
    }

    /// Takes one completion. Returns the buffer of a receive.
    #[inline]
    fn poll(&mut self) -> Option<Buffer> {
        let Some(Completion::Op(done)) = self.port.cq.poll().expect("the queue works") else { return None };
        done.result().expect("the operation succeeds");
        let key = Some(done.key());
        let buffer = done.into_buf();
        if key == self.in_flight {
            (self.outbox, self.in_flight) = (Some(buffer), None);
            return None;
        }
        Some(buffer)
    }

    #[inline]
    fn receive(&mut self) -> Buffer {
        loop {
            if let Some(buffer) = self.poll() {
                self.received += 1;
                assert_eq!(buffer[..], self.received.to_ne_bytes(), "messages come in order");
                return buffer;
            }
        }
    }

    #[inline]
    fn post(&mut self, buffer: Buffer) {
        self.port.endpoint.tagged_recv(Source::Any, TAG, buffer).expect("there is room");
    }

    // A separate function, so that it is compiled equally for every measurement.
    #[inline(never)]
    fn answer(&mut self, count: u32) {
        for _ in 0..count {
            let buffer = self.receive();
            self.send();
            self.post(buffer);
        }
    }
}

struct SoftPingPong {
    end: End,
    peer: Peer,
}

impl SoftPingPong {
    fn start<'s>(scope: &'s Scope<'s, '_>, domain: &'s Domain<'static, Transport>, sending: Sending) -> Self {
        let ((tell, learned), (told, learn)) = (channel(), channel());
        let peer = Peer::start(scope, 1, move |rounds| {
            let mut end = End::open(domain, sending, &told, &learned);
            rounds.for_each(|count| end.answer(count));
        });
        SoftPingPong { end: End::open(domain, sending, &tell, &learn), peer }
    }

    #[inline(never)]
    fn round_trips(&mut self, count: u32, mut after: impl FnMut()) -> Duration {
        self.peer.begin(count);
        let begin = Instant::now();
        for _ in 0..count {
            self.end.send();
            let buffer = self.end.receive();
            self.end.post(buffer);
            after();
        }
        begin.elapsed()
    }
}

/// Exchanges for a percentile.
const EXCHANGES: u32 = 1000;

/// Returns the 99th percentile of single half round trips in each round, in nanoseconds. `play`
/// calls its second argument after each.
fn percentile_99(play: &mut dyn FnMut(u32, &mut dyn FnMut())) -> f64 {
    let mut samples = Vec::with_capacity(EXCHANGES as usize);
    let mut last = Instant::now();
    play(EXCHANGES, &mut || {
        let now = Instant::now();
        samples.push((now - last).as_secs_f64() * 1e9 / 2.0);
        last = now;
    });
    // The first sample contains the peer's start.
    samples.remove(0);
    crate::statistics::Summary::of(&samples).map_or(f64::NAN, |summary| summary.p99)
}

fn latency(run: &mut Run, domain: &Domain<'static, Transport>) {
    let line = Line::default();
    std::thread::scope(|scope| {
        let mut line = PingPong::start(scope, &line);
        let mut sent = SoftPingPong::start(scope, domain, Sending::Completed);
        let mut injected = SoftPingPong::start(scope, domain, Sending::Injected);
        let outcome = Contest::new("half round trip of 8 B, tagged")
            .side_that_measures("cache line", |count| line.round_trips(count, || ()) / 2)
            .side_that_measures("soft", |count| sent.round_trips(count, || ()) / 2)
            .side_that_measures("soft, injected", |count| injected.round_trips(count, || ()) / 2)
            .run(&run.settings);
        run.contest(&outcome);
        run.figure(&outcome, ("soft.half_rtt.8B", "soft"), ("ns", Goal::Lower), |nanoseconds| nanoseconds);
        let ratio =
            Ratio { name: "soft_half_rtt_over_cacheline.8B", of: "soft", over: "cache line", goal: Goal::AtMost(1.5) };
        run.ratio(&outcome, ratio);
        let name = "soft_half_rtt_over_cacheline.inject.8B";
        run.ratio(&outcome, Ratio { name, of: "soft, injected", goal: Goal::Lower, ..ratio });

        let side = |name: &str| Measured { name: name.into(), count: EXCHANGES, rounds: Vec::new() };
        let mut singles = Outcome {
            name: "99th percentile of half round trips".into(),
            sides: vec![side("cache line"), side("soft")],
            attempts: 1,
        };
        for _ in 0..run.settings.rounds {
            singles.sides[0].rounds.push(percentile_99(&mut |count, after| _ = line.round_trips(count, after)));
            singles.sides[1].rounds.push(percentile_99(&mut |count, after| _ = sent.round_trips(count, after)));
        }
        run.contest(&singles);
        run.figure(&singles, ("soft.half_rtt_p99.8B", "soft"), ("ns", Goal::Lower), |nanoseconds| nanoseconds);
        let name = "soft_half_rtt_p99_over_cacheline.8B";
        run.ratio(&singles, Ratio { name, goal: Goal::Lower, ..ratio });
    });
}

/// Posted receives while the rate is measured.
const POSTED: usize = 64;

/// Many senders of injected messages to one receiver, which is this thread.
struct Stream {
    port: Port,
    senders: Vec<Peer>,
}

impl Stream {
    /// Starts `senders` endpoints in `threads` threads. A thread sends from its endpoints in turn.
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        domain: &'s Domain<'static, Transport>,
        (senders, threads): (usize, usize),
    ) -> Self {
        let port = Port::open(domain, POSTED * 2);
        for _ in 0..POSTED {
            port.endpoint.tagged_recv(Source::Any, TAG, vec![0; 8].into()).expect("there is room");
        }
        let address = port.endpoint.address().expect("address");
        let senders = (0..threads).map(|thread| {
            let address = address.clone();
            Peer::start(scope, 1 + thread, move |rounds| {
                let ports: Vec<Port> = (thread..senders).step_by(threads).map(|_| Port::open(domain, 16)).collect();
                let insert = |port: &Port| port.av.insert(&address).expect("address inserted");
                let ends: Vec<_> = ports.iter().map(|port| (insert(port), port)).collect();
                rounds.for_each(|count| inject(&ends, count));
            })
        });
        Stream { senders: senders.collect(), port }
    }

    /// Receives at least `count` messages. Returns the duration for `count`.
    #[inline(never)]
    fn receive(&mut self, count: u32) -> Duration {
        let threads = u32::try_from(self.senders.len()).expect("not that many");
        let each = count.div_ceil(threads);
        self.senders.iter_mut().for_each(|peer| peer.begin(each));
        let begin = Instant::now();
        let (mut missing, mut sum) = (each * threads, 0_u64);
        while missing > 0 {
            let Some(Completion::Op(done)) = self.port.cq.poll().expect("the queue works") else { continue };
            done.result().expect("the operation succeeds");
            let buffer = done.into_buf();
            sum += u64::from_ne_bytes(buffer[..].try_into().expect("8 bytes"));
            self.port.endpoint.tagged_recv(Source::Any, TAG, buffer).expect("there is room");
            missing -= 1;
        }
        let elapsed = begin.elapsed();
        let of_each = u64::from(each) * u64::from(each.wrapping_sub(1)) / 2;
        assert_eq!(sum, of_each * u64::from(threads), "each number arrives once");
        elapsed.mul_f64(f64::from(count) / f64::from(each * threads))
    }
}

/// Injects the numbers below `count`, from each endpoint in turn.
#[inline(never)]
fn inject(ends: &[(peer_table::Peer, &Port)], count: u32) {
    let mut in_turn = ends.iter().cycle();
    for number in 0..u64::from(count) {
        let (to, port) = in_turn.next().expect("there are endpoints");
        while let Err(error) = port.endpoint.tagged_inject(*to, TAG, &number.to_ne_bytes()) {
            assert!(error.is_transient(), "{error:#}");
            port.cq.progress().expect("the queue works");
        }
    }
}

/// Passes numbers through crossbeam's bounded channel.
fn channel_of_crossbeam<'s>(scope: &'s Scope<'s, '_>, capacity: usize) -> impl FnMut(u32) -> Duration + 's {
    let (into, from) = crossbeam_channel::bounded::<u64>(capacity);
    let mut peer = Peer::start(scope, 1, move |rounds| {
        for count in rounds {
            for number in 0..u64::from(count) {
                while into.try_send(number).is_err() {}
            }
        }
    });
    move |count| {
        peer.begin(count);
        let begin = Instant::now();
        for number in 0..u64::from(count) {
            while from.try_recv().map(|received| assert_eq!(received, number)).is_err() {}
        }
        begin.elapsed()
    }
}

/// Messages that may be in transit, on every side.
const CAPACITY: u32 = 1024;

fn rate(run: &mut Run, domain: &Domain<'static, Transport>) {
    let millions = |nanoseconds: f64| 1e3 / nanoseconds;
    std::thread::scope(|scope| {
        let mut soft = Stream::start(scope, domain, (1, 1));
        let outcome = Contest::new("rate of 8 B, tagged")
            .side_that_measures("crossbeam", channel_of_crossbeam(scope, CAPACITY as usize))
            .side_that_measures("ring", ring(scope, CAPACITY as usize))
            .side_that_measures("soft", |count| soft.receive(count))
            .run(&run.settings);
        run.contest(&outcome);
        run.figure(&outcome, ("soft.rate.8B", "soft"), ("M/s", Goal::Higher), millions);
        let goal = Goal::AtLeast(0.5);
        run.rate_ratio(&outcome, Ratio { name: "soft_rate_over_crossbeam.8B", of: "soft", over: "crossbeam", goal });
        let goal = Goal::Higher;
        run.rate_ratio(&outcome, Ratio { name: "soft_rate_over_ring.8B", of: "soft", over: "ring", goal });
    });
}

/// Compares eight senders with one: each in its own thread if there are enough cores, otherwise in
/// turns.
fn senders(run: &mut Run, domain: &Domain<'static, Transport>) {
    const SENDERS: usize = 8;
    std::thread::scope(|scope| {
        let mut one = Stream::start(scope, domain, (1, 1));
        let mut eight = Stream::start(scope, domain, (SENDERS, SENDERS.min(cores::count() - 1)));
        let outcome = Contest::new("rate of 8 B, tagged, to one receiver")
            .side_that_measures("1 sender", |count| one.receive(count))
            .side_that_measures("8 senders", |count| eight.receive(count))
            .run(&run.settings);
        run.contest(&outcome);
        let goal = Goal::AtLeast(0.5);
        run.rate_ratio(&outcome, Ratio { name: "growth.senders.8_over_1", of: "8 senders", over: "1 sender", goal });
    });
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("soft_threads") {
        return Ok(());
    }
    let network = Network::new(NetworkAttr { endpoints: 16, tx_depth: CAPACITY, ..NetworkAttr::DEFAULT })?;
    let domain = Domain::open(&network.info())?;
    latency(run, &domain);
    rate(run, &domain);
    senders(run, &domain);
    Ok(())
}
