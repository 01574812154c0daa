//! Lanes of the software transport. A frequent sender gets one, messages keep their order on both
//! ways, and closing frees all resources.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{CompletionFlags, EndpointAddr, Errno, ImmediateData, Tag, TagMatch};

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 8, tx_depth: 16, rx_depth: 64, eager_size: 128, regions: 0, ..NetworkAttr::DEFAULT };

/// More short messages than an endpoint sends before it gets a lane, if it may have one.
const MANY: u64 = 100;

type Bytes = Box<[u8]>;

struct Node {
    av: Av<'static, Soft<'static>>,
    cq: Cq<'static, Soft<'static>, Bytes>,
    endpoint: Endpoint<'static, Soft<'static>, Bytes>,
}

impl Node {
    fn open(network: &Network<'static>) -> Self {
        Self::with_queue(network, 256)
    }

    fn with_queue(network: &Network<'static>, depth: usize) -> Self {
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 64).unwrap();
        let cq = Cq::open(&domain, CqAttr::new(depth)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        Node { av, cq, endpoint }
    }

    fn address(&self) -> EndpointAddr {
        self.endpoint.address().unwrap()
    }

    fn knows(&self, other: &Node) -> Peer {
        self.av.insert(&other.address()).unwrap()
    }

    fn tell(&self, to: Peer, tag: u64, bytes: &[u8], receiver: &Node) {
        for _ in 0..1000 {
            match self.endpoint.tagged_inject(to, Tag(tag), bytes) {
                Ok(()) => return,
                Err(PostError::Again) => drop(receiver.cq.progress().unwrap()),
                Err(error) => panic!("{error:#}"),
            }
        }
        panic!("taken at last");
    }

    fn hear(&self, tag: TagMatch) -> (Vec<u8>, u64) {
        let key = self.endpoint.tagged_recv(Source::Any, tag, vec![0; 128].into()).unwrap();
        let done = self.cq.wait(key, Spins(1000)).unwrap().expect("there is something to hear");
        let (len, tag) = done.result().map(|it| (it.len, it.tag.unwrap().0)).unwrap();
        (done.into_buf()[..len].into(), tag)
    }

    /// Sends to a receiver until it has a lane, if it gets one.
    fn talk(&self, receiver: &Node) -> Peer {
        let to = self.knows(receiver);
        for number in 0..MANY {
            self.tell(to, number, &number.to_ne_bytes(), receiver);
            assert_eq!(receiver.hear(TagMatch::ANY), (number.to_ne_bytes().into(), number));
        }
        to
    }
}

fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number.wrapping_mul(31).wrapping_add(at * 7) % 251) as u8).collect()
}

/// Short messages by the lane, longer ones in cells, long ones from the sender's buffer, each with
/// and without a posted receive.
const LENS: [usize; 7] = [8, 0, 104, 105, 120, 1000, 64];

#[test]
fn messages_keep_their_order_whichever_way_they_go() {
    for lanes in [0, 1, 2] {
        let network = Network::new(NetworkAttr { lanes, ..ATTR }).unwrap();
        let (sender, receiver) = (Node::open(&network), Node::open(&network));
        let to = sender.talk(&receiver);
        for start in 0..LENS.len() {
            let lens = LENS.iter().cycle().skip(start).take(12);
            let sent: Vec<_> = lens.zip(0..).map(|(len, number)| message(number, *len)).collect();
            for message in &sent {
                let buf = message.clone().into();
                sender.cq.post(buf, Spins(1000), |buf| sender.endpoint.tagged_send(to, Tag(9), buf)).unwrap();
            }
            // Some messages arrive before a receive is posted.
            for _ in 0..start {
                receiver.cq.progress().unwrap();
            }
            for message in sent {
                let room = vec![0; 1000].into();
                let key = receiver.endpoint.tagged_recv(Source::Any, Tag(9), room).unwrap();
                let done = receiver.cq.finish(key, Spins(1000)).unwrap();
                let len = done.result().unwrap().len;
                assert_eq!(done.into_buf()[..len], message, "with {lanes} lanes");
            }
            while sender.cq.poll().unwrap().is_some() {}
        }
    }
}

#[test]
fn messages_without_a_receive_leave_their_lane() {
    let network = Network::new(ATTR).unwrap();
    let (sender, receiver) = (Node::open(&network), Node::open(&network));
    let to = sender.talk(&receiver);
    for round in 0..10 {
        // Fills the slots of a lane. Later messages travel by the inbox, because the slots' cells
        // are away.
        let mut sent = 0;
        while sender.endpoint.tagged_inject(to, Tag(sent), &message(sent, 20)).is_ok() {
            sent += 1;
            receiver.cq.progress().unwrap();
        }
        assert!(sent >= 2 * u64::from(ATTR.tx_depth), "round {round}: {sent}");
        // The newest first.
        for number in (0..sent).rev() {
            assert_eq!(receiver.hear(Tag(number).into()), (message(number, 20), number));
        }
    }
}

#[test]
fn full_lane_to_a_receiver_that_stands_still_gives_way_to_the_inbox() {
    let network = Network::new(NetworkAttr { tx_depth: 1024, ..ATTR }).unwrap();
    let (sender, receiver) = (Node::open(&network), Node::open(&network));
    let to = sender.talk(&receiver);
    for round in 0..3 {
        let (mut sent, mut refused, mut by_lane) = (0, 0, 0);
        while refused < 2000 {
            match sender.endpoint.tagged_inject(to, Tag(9), &message(sent, 8)) {
                Ok(()) => sent += 1,
                Err(PostError::Again) if refused == 0 => (refused, by_lane) = (1, sent),
                Err(PostError::Again) => refused += 1,
                Err(error) => panic!("{error:#}"),
            }
        }
        assert!(by_lane <= 256 && sent >= 1024, "round {round}: {by_lane} of {sent}");
        for number in 0..sent {
            assert_eq!(receiver.hear(Tag(9).into()), (message(number, 8), 9));
        }
    }
}

#[test]
fn full_lane_refuses_and_takes_again_when_its_receiver_has_polled() {
    let network = Network::new(ATTR).unwrap();
    let (sender, receiver) = (Node::open(&network), Node::open(&network));
    let to = sender.talk(&receiver);
    for round in 0..10 {
        let mut sent = 0;
        while sender.endpoint.tagged_inject(to, Tag(sent), &[7]).is_ok() {
            sent += 1;
        }
        assert!(sent >= u64::from(ATTR.tx_depth) * 3 / 4, "round {round}: {sent}");
        assert_eq!(sender.endpoint.tagged_inject(to, Tag(0), &[7]), Err(PostError::Again));
        for number in 0..sent {
            assert_eq!(receiver.hear(Tag(number).into()), (vec![7], number));
        }
    }
}

#[test]
fn short_message_is_truncated_with_an_error() {
    let network = Network::new(ATTR).unwrap();
    let (sender, receiver) = (Node::open(&network), Node::open(&network));
    let to = sender.talk(&receiver);
    for posted_first in [true, false] {
        let post = || receiver.endpoint.tagged_recv(Source::Any, Tag(1), vec![0; 5].into()).unwrap();
        let early = posted_first.then(post);
        sender.tell(to, 1, &message(3, 30), &receiver);
        receiver.cq.progress().unwrap();
        let key = early.unwrap_or_else(post);
        let done = receiver.cq.finish(key, Spins(1000)).unwrap();
        let error = done.result().unwrap_err();
        assert_eq!((error.errno, error.overflow), (Errno::ETRUNC, Some(25)));
        assert_eq!(done.into_buf()[..], message(3, 30)[..5]);
    }
}

/// A multi-receive takes more messages than the receiver's queue has places for. Messages of the
/// inbox have earlier ones in the lane.
#[test]
fn messages_keep_their_order_when_the_queue_of_their_receiver_is_full() {
    const BEFORE: u64 = 180;
    let network = Network::new(NetworkAttr { tx_depth: 256, ..ATTR }).unwrap();
    let sender = Node::open(&network);
    let receiver = Node::with_queue(&network, 4);
    let to = sender.talk(&receiver);
    let len_of = |number| if number % BEFORE == BEFORE - 1 { 105 } else { 8 };
    for round in 0..10 {
        let key = receiver.endpoint.multi_recv(Source::Any, vec![0; 10_000].into()).unwrap();
        let sent = BEFORE + 10 + round;
        for number in 0..sent {
            sender.endpoint.inject(to, &message(number, len_of(number))).unwrap();
        }
        for number in 0..sent {
            match receiver.cq.poll().unwrap() {
                Some(Completion::Piece(piece)) => assert_eq!(piece.bytes(), message(number, len_of(number))),
                other => panic!("{number} in round {round}: {other:?}"),
            }
        }
        receiver.endpoint.cancel(key).unwrap();
        assert!(matches!(receiver.cq.poll().unwrap(), Some(Completion::Op(op)) if op.key() == key));
    }
}

#[test]
fn immediate_data_and_sources_come_by_lanes() {
    let network = Network::new(ATTR).unwrap();
    let (sender, receiver) = (Node::open(&network), Node::open(&network));
    let to = sender.talk(&receiver);
    let from = receiver.knows(&sender);
    for number in 0..20 {
        sender.endpoint.inject_data(to, ImmediateData(number), &[1]).unwrap();
        let key = receiver.endpoint.recv(Source::Any, vec![0; 8].into()).unwrap();
        let done = receiver.cq.finish(key, Spins(1000)).unwrap();
        let transfer = done.result().unwrap();
        assert_eq!((transfer.len, transfer.data, transfer.tag), (1, Some(ImmediateData(number)), None));
        assert_eq!(transfer.source.and_then(|source| receiver.av.peer(source)), Some(from));
    }
}

/// More peers send than lanes exist, and than a receiver accepts.
#[test]
fn a_receiver_gets_messages_of_all_its_peers() {
    let network = Network::new(NetworkAttr { endpoints: 13, ..ATTR }).unwrap();
    let receiver = Node::open(&network);
    let senders: Vec<_> = (0..12).map(|_| Node::open(&network)).collect();
    let peers: Vec<_> = senders.iter().map(|sender| sender.talk(&receiver)).collect();
    for round in 0..50 {
        for ((sender, to), number) in senders.iter().zip(&peers).zip(0..) {
            sender.tell(*to, number, &message(round + number, 24), &receiver);
        }
        for number in 0..12 {
            assert_eq!(receiver.hear(Tag(number).into()).0, message(round + number, 24));
        }
    }
}

/// Several senders with lanes that are never empty.
#[test]
fn messages_of_a_sender_arrive_beside_lanes_that_are_never_empty() {
    let network = Network::new(ATTR).unwrap();
    let receiver = Node::open(&network);
    let senders = [0; 4].map(|_| Node::open(&network));
    let peers = senders.each_ref().map(|sender| sender.talk(&receiver));
    let send = |from: u64| {
        let at = usize::try_from(from).unwrap();
        senders[at].tell(peers[at], from, &[1], &receiver);
    };
    for quiet in 0..4 {
        (0..4).for_each(send);
        let mut polls = 0..MANY;
        let heard = polls.find(|_| {
            let (_, from) = receiver.hear(TagMatch::ANY);
            if from != quiet {
                send(from);
            }
            from == quiet
        });
        assert!(heard.is_some(), "sender {quiet}");
        (0..3).for_each(|_| drop(receiver.hear(TagMatch::ANY)));
    }
}

#[test]
fn inbox_is_read_beside_a_lane_that_is_never_empty() {
    let network = Network::new(ATTR).unwrap();
    let [receiver, talker, other] = [0; 3].map(|_| Node::open(&network));
    let to = talker.talk(&receiver);
    other.tell(other.knows(&receiver), 1, &[9], &receiver);
    talker.tell(to, 0, &[7], &receiver);
    let heard = (0..MANY).find_map(|_| {
        talker.tell(to, 0, &[7], &receiver);
        let (bytes, tag) = receiver.hear(TagMatch::ANY);
        (tag == 1).then_some(bytes)
    });
    assert_eq!(heard, Some(vec![9]));
}

#[test]
fn sender_reaches_more_peers_than_it_has_lanes() {
    let network = Network::new(ATTR).unwrap();
    let sender = Node::open(&network);
    let receivers: Vec<_> = (0..7).map(|_| Node::open(&network)).collect();
    // Repeated, so that lanes move from one receiver to another.
    for round in 0..4 {
        for receiver in &receivers {
            let to = sender.talk(receiver);
            sender.tell(to, round, &message(round, 100), receiver);
            assert_eq!(receiver.hear(Tag(round).into()).0, message(round, 100));
        }
    }
}

#[test]
fn sends_by_a_lane_fail_when_the_receiver_has_closed() {
    let network = Network::new(ATTR).unwrap();
    let senders = [0; 3].map(|_| Node::open(&network));
    for round in 0..20 {
        let receiver = Node::open(&network);
        let peers = senders.each_ref().map(|sender| sender.talk(&receiver));
        for (sender, to) in senders.iter().zip(peers) {
            // The receiver closes before it receives these messages.
            for number in 0..round % 8 {
                sender.endpoint.tagged_inject(to, Tag(number), &[1]).unwrap();
            }
        }
        drop(receiver);
        for (sender, to) in senders.iter().zip(peers) {
            assert_eq!(sender.endpoint.tagged_inject(to, Tag(1), &[1]), Err(PostError::Errno(Errno::EHOSTUNREACH)));
            let key = sender.endpoint.tagged_send(to, Tag(1), vec![1].into()).unwrap();
            let done = sender.cq.finish(key, Spins(10)).unwrap();
            assert_eq!(done.result().unwrap_err().errno, Errno::EHOSTUNREACH);
        }
    }
}

/// Each sender has sent a different number of messages. Messages of 120 bytes travel by the inbox.
#[test]
fn lanes_keep_their_messages_when_the_lane_of_another_sender_ends() {
    for leaves in 0..3 {
        let network = Network::new(ATTR).unwrap();
        let receiver = Node::open(&network);
        let mut senders = Vec::new();
        for number in 0..3 {
            let sender = Node::open(&network);
            let to = sender.talk(&receiver);
            for _ in 0..number {
                sender.tell(to, 0, &[1], &receiver);
                assert_eq!(receiver.hear(Tag(0).into()), (vec![1], 0));
            }
            senders.push((sender, to));
        }
        drop(senders.remove(leaves));
        receiver.cq.progress().unwrap();
        let lens = || [8, 30, 120, 8, 120, 8].into_iter().zip(0..);
        for ((sender, to), tag) in senders.iter().zip(1..) {
            lens().for_each(|(len, number)| sender.tell(*to, tag, &message(number, len), &receiver));
        }
        for ((sender, _), tag) in senders.iter().zip(1..) {
            let from = receiver.knows(sender);
            for (len, number) in lens() {
                let key = receiver.endpoint.tagged_recv(Source::Any, Tag(tag), vec![0; 128].into()).unwrap();
                let done = receiver.cq.finish(key, Spins(1000)).expect("no message is lost");
                let transfer = done.result().unwrap();
                assert_eq!(transfer.source.and_then(|source| receiver.av.peer(source)), Some(from));
                assert_eq!(done.buf()[..transfer.len], message(number, len));
            }
        }
    }
}

#[test]
fn messages_of_a_closed_sender_are_received() {
    let network = Network::new(ATTR).unwrap();
    let receiver = Node::open(&network);
    for round in 0..20 {
        let sender = Node::open(&network);
        let to = sender.talk(&receiver);
        for number in 0..round % 8 {
            sender.endpoint.tagged_inject(to, Tag(number), &message(number, 30)).unwrap();
        }
        drop(sender);
        // In the same port, while the previous endpoint's lane can still belong to its receiver.
        let next = Node::open(&network);
        let to = next.knows(&receiver);
        next.endpoint.tagged_inject(to, Tag(99), &[9]).unwrap();
        for number in 0..round % 8 {
            assert_eq!(receiver.hear(TagMatch::ANY), (message(number, 30), number), "round {round}");
        }
        assert_eq!(receiver.hear(TagMatch::ANY), (vec![9], 99), "round {round}");
    }
}

#[test]
fn endpoint_has_a_lane_to_itself() {
    let network = Network::new(ATTR).unwrap();
    let node = Node::open(&network);
    let to = node.talk(&node);
    node.endpoint.tagged_inject(to, Tag(1), &[1]).unwrap();
    assert_eq!(node.hear(Tag(1).into()), (vec![1], 1));
    node.endpoint.tagged_inject(to, Tag(1), &[1]).unwrap();
}

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn threads_talk_while_endpoints_come_and_go() {
    const ROUNDS: u64 = if cfg!(debug_assertions) { 40 } else { 400 };
    const MESSAGES: u64 = 200;

    let network = &Network::new(ATTR).unwrap();
    let (tell, hear) = channel::<EndpointAddr>();
    let (answer, heard) = channel::<EndpointAddr>();
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                let node = Node::open(network);
                answer.send(node.address()).unwrap();
                let to = node.av.insert(&hear.recv_timeout(LIMIT).unwrap()).unwrap();
                exchange(&node, to, MESSAGES);
            }
        });
        for _ in 0..ROUNDS {
            let node = Node::open(network);
            tell.send(node.address()).unwrap();
            let to = node.av.insert(&heard.recv_timeout(LIMIT).unwrap()).unwrap();
            exchange(&node, to, MESSAGES);
        }
    });
}

/// Sends this number of messages and receives as many, in their order. The first side closes while
/// the other one still receives.
fn exchange(node: &Node, to: Peer, messages: u64) {
    let (mut sent, mut done, mut posted, mut received) = (0, 0, 0, 0);
    let begin = Instant::now();
    while received < messages || done < messages {
        assert!(begin.elapsed() < LIMIT, "{done} of {sent} sent, {received} received");
        if sent < messages && node.endpoint.tagged_send(to, Tag(sent % 3), message(sent, len_of(sent)).into()).is_ok() {
            sent += 1;
        }
        // Now and then the receiver is late.
        while posted < messages && posted < received + 8 && (sent % 16 > 4 || sent == messages) {
            node.endpoint.tagged_recv(Source::Any, TagMatch::ANY, vec![0; 1000].into()).unwrap();
            posted += 1;
        }
        // Lets the other thread run on a single processor.
        thread::yield_now();
        while let Some(completion) = node.cq.poll().unwrap() {
            let Completion::Op(op) = completion else { panic!("{completion:?}") };
            match op.result() {
                Ok(transfer) if transfer.flags.contains(CompletionFlags::RECV) => {
                    assert_eq!(transfer.tag, Some(Tag(received % 3)));
                    let len = transfer.len;
                    assert_eq!(op.into_buf()[..len], message(received, len_of(received)));
                    received += 1;
                }
                Ok(_) => done += 1,
                Err(error) => panic!("{error:#}"),
            }
        }
    }
}

fn len_of(number: u64) -> usize {
    LENS[(number / 5 % LENS.len() as u64) as usize]
}
