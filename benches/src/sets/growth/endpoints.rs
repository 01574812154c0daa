//! Open endpoints of the software transport, and the number of senders to one endpoint.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::soft::{Network, NetworkAttr, Soft};

use super::{Buffer, Growth, Labels, Random, TAG, completed, rate_ratio, ratio};
use crate::Failure;
use crate::report::{Goal, Run};

type Transport = Soft<'static>;
type Queue = Cq<'static, Transport, Buffer>;

/// Numbers of endpoints. A transfer requires two.
const ENDPOINTS: [u16; 6] = [2, 4, 16, 64, 256, 1024];

/// Operations that a queue has room for.
const DEPTH: usize = 64;

/// Opens a small network: only the number of endpoints is measured.
fn network(endpoints: u16) -> Result<Domain<'static, Transport>, Failure> {
    let attr = NetworkAttr { endpoints, tx_depth: 64, rx_depth: 64, eager_size: 64, ..NetworkAttr::DEFAULT };
    Ok(Domain::open(&Network::new(attr)?.info())?)
}

/// Open endpoints. One sends to one drawn from some of the others.
struct Opened {
    from: (Queue, Endpoint<'static, Transport, Buffer>, Peer),
    /// Targets, each with a posted receive.
    to: Vec<(Queue, Endpoint<'static, Transport, Buffer>, Peer)>,
    /// Number of targets in the draw.
    drawn: u32,
    random: Random,
    sent: u64,
    outbox: Option<Buffer>,
}

impl Opened {
    /// Opens this number of endpoints, each on its own queue or all on one.
    fn open(endpoints: u16, one_queue: bool, drawn: u32) -> Result<Self, Failure> {
        let domain = network(endpoints)?;
        let av = Av::open(&domain, usize::from(endpoints))?;
        let shared = Cq::open(&domain, CqAttr { endpoints, ..CqAttr::new(DEPTH + usize::from(endpoints)) })?;
        let open = |_| -> Result<_, Failure> {
            let cq = if one_queue {
                shared.clone()
            } else {
                Cq::open(&domain, CqAttr { endpoints: 1, ..CqAttr::new(DEPTH) })?
            };
            let endpoint = cq.endpoint(&av)?;
            let peer = av.insert(&endpoint.address()?)?;
            Ok((cq, endpoint, peer))
        };
        let from = open(0)?;
        let to = (1..endpoints).map(open).collect::<Result<Vec<_>, Failure>>()?;
        for (_, endpoint, _) in &to {
            endpoint.tagged_recv(Source::Any, TAG, vec![0; 8].into())?;
        }
        Ok(Opened { from, to, drawn, random: Random::new(), sent: 0, outbox: Some(vec![0; 8].into()) })
    }

    #[inline(never)]
    fn exchange(&mut self, count: u32) -> Duration {
        let begin = Instant::now();
        let (cq, endpoint, _) = &self.from;
        for _ in 0..count {
            let (to_cq, to, peer) = &self.to[self.random.below(self.drawn) as usize];
            self.sent += 1;
            let mut message = self.outbox.take().expect("at hand");
            message.copy_from_slice(&self.sent.to_ne_bytes());
            endpoint.tagged_send(*peer, TAG, message).expect("there is room");
            let (one, other) = (completed(cq), completed(to_cq));
            assert!(one == other && *one == self.sent.to_ne_bytes(), "the message arrives");
            to.tagged_recv(Source::Any, TAG, one).expect("there is room");
            self.outbox = Some(other);
        }
        begin.elapsed()
    }
}

pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
    const OWN: &str = "a queue for each";
    const SHARED: &str = "all on one queue";
    const DRAWN: &str = "to any of them, on one queue";
    let mut growth = Growth::new("endpoints");
    for (curve, one_queue) in [(OWN, false), (SHARED, true), (DRAWN, true)] {
        for endpoints in ENDPOINTS {
            let drawn = if curve == DRAWN { u32::from(endpoints) - 1 } else { 1 };
            let mut opened = Opened::open(endpoints, one_queue, drawn)?;
            growth = growth.point(curve, endpoints.into(), move |count| opened.exchange(count));
        }
    }
    let labels = Labels {
        name: "endpoints",
        title: "A tagged message of 8 B and its receive, by the number of open endpoints (software transport)",
        note: "One pair exchanges messages; or one endpoint sends to any of the others. An endpoint takes 64 messages and 64 receives. Two are the least there can be.",
        x: "open endpoints",
        y: "ns per message",
    };
    let outcome = growth.run(run, labels);
    ratio(run, &outcome, "growth.endpoints.1024_over_1", (OWN, 1024, 2), Goal::AtMost(1.5));
    ratio(run, &outcome, "growth.endpoints.one_queue.1024_over_1", (SHARED, 1024, 2), Goal::Lower);
    ratio(run, &outcome, "growth.endpoints.any.1024_over_1", (DRAWN, 1024, 2), Goal::Lower);
    Ok(())
}

/// Messages sent before the first is received.
const BATCH: usize = 32;

/// Endpoints that inject to one in turn, on one thread.
struct Senders {
    cq: Queue,
    to: Endpoint<'static, Transport, Buffer>,
    from: Vec<Endpoint<'static, Transport, Buffer>>,
    peer: Peer,
}

impl Senders {
    fn open(senders: u16) -> Result<Self, Failure> {
        let domain = network(senders + 1)?;
        let av = Av::open(&domain, 1)?;
        let (cq, idle) =
            (Cq::open(&domain, DEPTH)?, Cq::open(&domain, CqAttr { endpoints: senders, ..CqAttr::new(DEPTH) })?);
        let to = cq.endpoint(&av)?;
        let peer = av.insert(&to.address()?)?;
        let from = (0..senders).map(|_| idle.endpoint(&av)).collect::<Result<_, _>>()?;
        for _ in 0..BATCH {
            to.tagged_recv(Source::Any, TAG, vec![0; 8].into())?;
        }
        Ok(Senders { cq, to, from, peer })
    }

    #[inline(never)]
    fn send(&mut self, count: u32) -> Duration {
        let batches = (count as usize).div_ceil(BATCH);
        let begin = Instant::now();
        for _ in 0..batches {
            for (number, from) in (0..BATCH as u64).zip(self.from.iter().cycle()) {
                while let Err(error) = from.tagged_inject(self.peer, TAG, &number.to_ne_bytes()) {
                    assert!(error.is_transient(), "{error:#}");
                    self.cq.progress().expect("the queue works");
                }
            }
            let mut sum = 0;
            for _ in 0..BATCH {
                let buffer = completed(&self.cq);
                sum += u64::from_ne_bytes(buffer[..].try_into().expect("8 bytes"));
                self.to.tagged_recv(Source::Any, TAG, buffer).expect("there is room");
            }
            assert_eq!(sum, (BATCH * (BATCH - 1) / 2) as u64, "each number arrives once");
        }
        begin.elapsed().mul_f64(f64::from(count) / (batches * BATCH) as f64)
    }
}

pub(super) fn measure_senders(run: &mut Run) -> Result<(), Failure> {
    const CURVE: &str = "in turns, on one thread";
    let mut growth = Growth::new("senders");
    for senders in [1, 2, 4, 8, 16, 64] {
        let mut opened = Senders::open(senders)?;
        growth = growth.point(CURVE, senders.into(), move |count| opened.send(count));
    }
    let labels = Labels {
        name: "senders",
        title: "Endpoints that inject tagged messages of 8 B to one, 32 before it receives them (software transport)",
        note: "Senders have no completions: the time is that of 32 injects and 32 receives, for each.",
        x: "senders",
        y: "ns per message",
    };
    let outcome = growth.run(run, labels);
    rate_ratio(run, &outcome, "growth.senders.in_turns.8_over_1", (CURVE, 8, 1), Goal::AtLeast(0.5));
    Ok(())
}
