//! Peer process that is killed during sends and receives of contexts of this side. The endpoint's
//! other contexts continue, and these are closed and opened again.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use loom_core::av::{Av, AvAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::ScalableEndpoint;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::vocabulary::{EndpointAddr, Tag};
use loom_fabric::loom_core;
use loom_fabric::ofi::Local;

use crate::scalable::posting::{LIMIT, post};
use crate::scalable::{Bytes, LONG, Queue, end, exchange, finish, info, two_of_each};

/// Environment variable of a peer's process: its kind, and this side's address.
pub(crate) const ROLE: &str = "LOOM_SCALABLE_PEER";

/// Number of long messages in flight in each direction.
const TRAIN: usize = 4;
const LONGEST: usize = 16 << 20;

const HELLO: Tag = Tag(1);
const BEGIN: Tag = Tag(2);

pub(crate) fn cases() -> crate::scalable::report::Cases {
    vec![
        ("contexts_go_on_when_a_peer_with_contexts_is_killed", contexts_of_a_killed_peer),
        ("contexts_go_on_when_an_ordinary_peer_is_killed", an_ordinary_endpoint_of_a_killed_peer),
    ]
}

/// A peer process. Drop kills it.
struct Peer(Child);

impl Peer {
    /// Starts a process. Its input ends with this process, also if this process is killed.
    fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, role);
        Peer(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a second process"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("it has not ended");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn play(role: &str) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let (kind, address) = role.split_once(' ').unwrap();
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let to = av.insert(&address.parse().unwrap()).unwrap();
    let endpoint = ScalableEndpoint::open(&av, &info, two_of_each()).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(64)).unwrap();
    if kind == "contexts" {
        // The others are not open.
        let (tx, rx) = (cq.tx_context(&endpoint, 0).unwrap(), cq.rx_context(&endpoint, 0).unwrap());
        let begins = post(cq, vec![0], |buf| rx.tagged_recv(Source::Any, BEGIN, buf));
        let hello = endpoint.address().unwrap().to_string().into_bytes();
        finish(cq, post(cq, hello, |buf| tx.tagged_send(to, HELLO, buf)));
        goes_on(cq, begins, |buf| rx.recv(Source::Any, buf), |buf| tx.send(to, buf));
    } else {
        let endpoint = cq.endpoint(&av).unwrap();
        let begins = post(cq, vec![0], |buf| endpoint.tagged_recv(Source::Any, BEGIN, buf));
        let hello = endpoint.address().unwrap().to_string().into_bytes();
        finish(cq, post(cq, hello, |buf| endpoint.tagged_send(to, HELLO, buf)));
        goes_on(cq, begins, |buf| endpoint.recv(Source::Any, buf), |buf| endpoint.send(to, buf));
    }
}

fn goes_on(
    cq: &Queue<'_>,
    begins: OpKey,
    recv: impl Fn(Bytes) -> Result<OpKey, Rejected<Bytes>>,
    send: impl Fn(Bytes) -> Result<OpKey, Rejected<Bytes>>,
) {
    for _ in 0..TRAIN {
        post(cq, vec![0; LONGEST], &recv);
    }
    let messages = [(); TRAIN].map(|()| vec![1; LONGEST]);
    finish(cq, begins);
    for message in messages {
        post(cq, message, &send);
    }
    // Longer than the test, as a limit for a forgotten peer.
    let deadline = Instant::now() + 3 * LIMIT;
    while Instant::now() < deadline {
        cq.progress().unwrap();
    }
}

/// Returns `false` if every message had arrived before the kill.
fn is_killed_in_the_middle(kind: &str) -> bool {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, stays] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(64)).unwrap();
    let [(tx, rx), (other_tx, other_rx)] =
        [0, 1].map(|index| (cq.tx_context(&a, index).unwrap(), cq.rx_context(&a, index).unwrap()));
    let (stays_tx, stays_rx) = (cq.tx_context(&stays, 0).unwrap(), cq.rx_context(&stays, 0).unwrap());
    let (to_a, to_stays) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&stays.address().unwrap()).unwrap());
    let others_go_on = |seed| {
        exchange(&other_tx, (to_stays, 0), &stays_rx, LONG, seed);
        exchange(&stays_tx, (to_a, 1), &other_rx, LONG, seed);
    };
    let hello = post(cq, vec![0; 128], |buf| rx.tagged_recv(Source::Any, HELLO, buf));
    let mut killed = Peer::start(&format!("{kind} {}", a.address().unwrap()));
    let (bytes, transfer) = finish(cq, hello);
    let address: EndpointAddr = std::str::from_utf8(&bytes[..transfer.len]).unwrap().parse().unwrap();
    let to = av.insert(&address).unwrap();
    others_go_on(1);

    let incoming: Vec<_> = (0..TRAIN).map(|_| post(cq, vec![0; LONGEST], |buf| rx.recv(Source::Any, buf))).collect();
    let messages = [(); TRAIN].map(|()| vec![7; LONGEST]);
    let begins = post(cq, vec![1], |buf| tx.tagged_send(to, BEGIN, buf));
    let outgoing = messages.map(|message| post(cq, message, |buf| tx.send(to, buf)));
    let unopened = (kind == "contexts").then(|| post(cq, vec![7; 300], |buf| tx.send(to.rx_context(1), buf)));
    assert!(end(cq, incoming[0]).0 == vec![1; LONGEST], "the first has come");
    killed.kill();
    others_go_on(2);

    let failed = outgoing.into_iter().filter(|key| end(cq, *key).1.is_err()).count();
    if let Some(key) = unopened {
        end(cq, key).1.expect_err("nobody has received it");
    }
    finish(cq, begins);
    others_go_on(3);
    drop((tx, rx));
    let mut missing = 0;
    for key in &incoming[1..] {
        let (buf, result) = end(cq, *key);
        assert!(result.is_err() || buf == vec![1; LONGEST], "a message that has come");
        missing += usize::from(result.is_err());
    }
    let (tx, rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&a, 0).unwrap());
    exchange(&tx, (to_stays, 0), &stays_rx, LONG, 4);
    exchange(&stays_tx, (to_a, 0), &rx, LONG, 5);
    others_go_on(6);
    assert_eq!((cq.in_flight(), cq.strays()), (0, 0));
    println!("{failed} were not sent, {missing} have not come");
    failed > 0 && missing > 0
}

fn contexts_of_a_killed_peer() {
    assert!((0..5).any(|_| is_killed_in_the_middle("contexts")), "never in the middle");
}

fn an_ordinary_endpoint_of_a_killed_peer() {
    assert!((0..5).any(|_| is_killed_in_the_middle("ordinary")), "never in the middle");
}
