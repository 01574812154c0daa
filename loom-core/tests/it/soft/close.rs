//! Resources of closed endpoints and cancelled sends. Slots in the queue, cells, places for
//! receives and ports are all returned, in every round.

use loom_core::av::Av;
use loom_core::buffer::Lent;
use loom_core::completion::{Completion, OpError};
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr, CqError, PEER_EVENTS};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::endpoint::{ReadOptions, SendOptions};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::{PostError, Rejected};
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Counted, Errno, ImmediateData, Tag, TagMatch};

const DEPTH: usize = 4;
/// More than the places of the raw queue.
const ROUNDS: usize = 2 * (DEPTH + PEER_EVENTS);
const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 2, rx_depth: 2, eager_size: 8, regions: 0, ..NetworkAttr::DEFAULT };

type Queue = Cq<'static, Soft<'static>, Box<[u8]>>;

type Poll = fn(&Queue) -> Result<Option<Completion<'static, Box<[u8]>>>, CqError>;

fn any(cq: &Queue) -> Result<Option<Completion<'static, Box<[u8]>>>, CqError> {
    cq.poll()
}

fn each(cq: &Queue) -> Result<Option<Completion<'static, Box<[u8]>>>, CqError> {
    match cq.poll_direction(Direction::Transmit)? {
        None => cq.poll_direction(Direction::Receive),
        some => Ok(some),
    }
}

fn take_cancelled(cq: &Queue, poll: Poll) -> usize {
    let mut count = 0;
    while let Some(completion) = poll(cq).unwrap() {
        let Completion::Op(done) = completion else { panic!("{completion:?}") };
        assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
        count += 1;
    }
    count
}

/// Repeatedly opens an endpoint, lets `post` post unanswered operations, closes it, and takes the
/// cancelled ones.
fn again_and_again(attr: CqAttr, poll: Poll, post: impl Fn(&Closing<'_>) -> usize) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let owner = Queue::open(&domain, attr).unwrap();
    let idle = owner.endpoint(&av).unwrap();
    for round in 0..ROUNDS {
        // The idle endpoint keeps its port, and receives the messages of earlier rounds.
        let peer = av.insert(&idle.address().unwrap()).unwrap();
        let endpoint = owner.endpoint(&av).unwrap();
        let posted = post(&Closing { endpoint: &endpoint, peer });
        drop(endpoint);
        assert_eq!(take_cancelled(&owner, poll), posted, "round {round}");
        assert_eq!(owner.in_flight(), 0);
    }
}

struct Closing<'c> {
    endpoint: &'c Endpoint<'static, Soft<'static>, Box<[u8]>>,
    peer: Peer,
}

fn bytes(len: usize) -> Box<[u8]> {
    vec![0; len].into()
}

fn receives(closing: &Closing<'_>) -> usize {
    closing.endpoint.recv(Source::Any, bytes(8)).unwrap();
    closing.endpoint.tagged_recv(Source::Peer(closing.peer), Tag(1), bytes(8)).unwrap();
    2
}

#[test]
fn unanswered_receives_are_cancelled() {
    again_and_again(CqAttr::new(DEPTH), any, receives);
}

#[test]
fn unanswered_receives_are_cancelled_on_separate_queues() {
    again_and_again(CqAttr { separate: true, ..CqAttr::new(DEPTH) }, any, receives);
}

#[test]
fn unanswered_receives_are_cancelled_if_each_direction_is_polled() {
    again_and_again(CqAttr::new(DEPTH), each, receives);
}

#[test]
fn unanswered_receives_are_cancelled_if_each_separate_queue_is_polled() {
    again_and_again(CqAttr { separate: true, ..CqAttr::new(DEPTH) }, each, receives);
}

#[test]
fn offers_to_a_receiver_that_stays() {
    for attr in [CqAttr::new(DEPTH), CqAttr { separate: true, ..CqAttr::new(DEPTH) }] {
        again_and_again(attr, any, offers);
        again_and_again(attr, any, offers_that_have_arrived);
    }
}

fn offers_that_have_arrived(closing: &Closing<'_>) -> usize {
    closing.endpoint.send(closing.peer, bytes(9)).unwrap();
    closing.endpoint.tagged_send(closing.peer, Tag(1), bytes(9)).unwrap();
    // The receiver is on the same queue.
    assert!(closing.endpoint.cq().poll().unwrap().is_none());
    2
}

/// Messages too long for cells, so that they are offers. One is cancelled first.
fn offers(closing: &Closing<'_>) -> usize {
    let key = closing.endpoint.send(closing.peer, bytes(9)).unwrap();
    closing.endpoint.cancel(key).unwrap();
    closing.endpoint.tagged_send(closing.peer, Tag(1), bytes(100)).unwrap();
    2
}

#[test]
fn untaken_offers_return_their_cells() {
    for attr in [CqAttr::new(DEPTH), CqAttr { separate: true, ..CqAttr::new(DEPTH) }] {
        let network = Network::new(ATTR).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let owner = Queue::open(&domain, attr).unwrap();
        for round in 0..ROUNDS {
            // Both close, so that both sides return cells: the sender first, or the receiver.
            let (sender, receiver) = (owner.endpoint(&av).unwrap(), owner.endpoint(&av).unwrap());
            let peer = av.insert(&receiver.address().unwrap()).unwrap();
            let posted = offers(&Closing { endpoint: &sender, peer });
            if round % 2 == 0 {
                drop(sender);
                assert_eq!(take_cancelled(&owner, any), posted, "round {round}");
            } else {
                drop(receiver);
                let mut ends = Vec::new();
                while let Some(Completion::Op(done)) = owner.poll().unwrap() {
                    ends.push(done.result().unwrap_err().errno);
                }
                ends.sort_by_key(|errno| errno.as_raw());
                let mut wanted = [Errno::ECANCELED, Errno::ECONNRESET];
                wanted.sort_by_key(|errno| errno.as_raw());
                assert_eq!(ends, wanted, "round {round}");
            }
            assert_eq!(owner.in_flight(), 0);
        }
    }
}

struct Apart {
    sender: Endpoint<'static, Soft<'static>, Box<[u8]>>,
    receiver: Endpoint<'static, Soft<'static>, Box<[u8]>>,
    to: Peer,
}

impl Apart {
    fn offer(&self, tag: u64) -> Result<OpKey, Rejected<Box<[u8]>>> {
        self.sender.tagged_send(self.to, Tag(tag), vec![tag.try_into().unwrap(); 100].into())
    }

    fn poll_receiver(&self) {
        assert!(self.receiver.cq().poll().unwrap().is_none(), "nothing that it has asked for");
    }

    fn received(&self) -> (Box<[u8]>, u64) {
        let Some(Completion::Op(done)) = self.receiver.cq().poll().unwrap() else { panic!("a message is there") };
        let tag = done.result().unwrap().tag.unwrap().0;
        (done.into_buf(), tag)
    }
}

fn apart_with(network: NetworkAttr, test: impl Fn(&Apart)) {
    for attr in [CqAttr::new(DEPTH), CqAttr { separate: true, ..CqAttr::new(DEPTH) }] {
        let network = Network::new(network).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let sends = Queue::open(&domain, attr).unwrap();
        let receives = Queue::open(&domain, attr).unwrap();
        let (sender, receiver) = (sends.endpoint(&av).unwrap(), receives.endpoint(&av).unwrap());
        let to = av.insert(&receiver.address().unwrap()).unwrap();
        test(&Apart { sender, receiver, to });
    }
}

#[test]
fn cancelled_sends_return_their_cells() {
    // Without lanes a short message requires a cell.
    apart_with(NetworkAttr { lanes: 0, ..ATTR }, |apart| {
        for round in 0..ROUNDS {
            // As many as the sender has cells. In every second round they arrive before they are
            // revoked.
            let keys = [7, 7].map(|tag| apart.offer(tag).unwrap());
            if round % 2 == 0 {
                apart.poll_receiver();
            }
            for key in keys {
                apart.sender.cancel(key).unwrap();
            }
            assert_eq!(take_cancelled(apart.sender.cq(), any), 2);
            assert_eq!(apart.offer(7).unwrap_err().error, PostError::Again, "round {round}");
            assert_eq!(apart.sender.inject(apart.to, &[1]), Err(PostError::Again), "round {round}");
            apart.poll_receiver();
            apart.sender.tagged_inject(apart.to, Tag(8), &[8]).unwrap();
            apart.receiver.tagged_recv(Source::Any, Tag(8), bytes(1)).unwrap();
            assert_eq!(apart.received(), ([8].into(), 8), "round {round}");
        }
    });
}

/// The other sends stay, in their order.
#[test]
fn cancelled_sends_between_others() {
    for cancelled in 0..4 {
        apart_with(NetworkAttr { tx_depth: 4, ..ATTR }, |apart| {
            let keys: Vec<_> = (0..4).map(|tag| apart.offer(tag).unwrap()).collect();
            apart.poll_receiver();
            apart.sender.cancel(keys[cancelled]).unwrap();
            assert_eq!(take_cancelled(apart.sender.cq(), any), 1);
            apart.poll_receiver();
            // Into the returned cell.
            apart.offer(4).unwrap();
            for tag in (0..5).filter(|tag| *tag != cancelled as u64) {
                apart.receiver.tagged_recv(Source::Any, TagMatch::ANY, bytes(100)).unwrap();
                assert_eq!(apart.received().1, tag, "without {cancelled}");
            }
        });
    }
}

/// Limits come from an info, so an info of another network must not open an object.
#[test]
fn an_info_of_another_network_is_refused() {
    let small = Network::new(NetworkAttr { eager_size: 64, ..NetworkAttr::DEFAULT }).unwrap();
    let large = Network::new(NetworkAttr { eager_size: 4096, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&small.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let owner = Queue::open(&domain, CqAttr::new(DEPTH)).unwrap();
    assert!(owner.endpoint(Binding::to(&av).info(large.info())).is_err());
    assert!(owner.endpoint(Binding::to(&av).info(small.info())).is_ok());
}

/// RMA of every kind through the handle of a closed endpoint. Another endpoint has its port, and
/// the address of that one is not in the vector.
#[test]
fn rma_to_a_closed_endpoint_does_not_reach_the_next_one_in_its_place() {
    let network = Network::new(NetworkAttr { regions: 1, ..ATTR }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let writes = Queue::open(&domain, CqAttr::new(8)).unwrap();
    let peers = Queue::open(&domain, CqAttr::new(8)).unwrap();
    let a = writes.endpoint(&av).unwrap();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let region = Mr::open(&domain, Box::<[u8]>::from(vec![1; 8]), access).unwrap();
    let remote = region.remote();
    let first = peers.endpoint(&av).unwrap();
    let to_first = av.insert(&first.address().unwrap()).unwrap();
    let end = |key| writes.wait(key, Spins(10)).unwrap().expect("it ends").into_parts();
    let reads = || end(a.read(to_first, &remote, 0, bytes(8)).unwrap());
    assert_eq!(*reads().0, [1; 8], "as long as the endpoint is open");
    let all_fail = || {
        let gone = |(buf, result): (Box<[u8]>, Result<_, OpError>)| {
            assert_eq!(result.unwrap_err().errno, Errno::EHOSTUNREACH);
            buf
        };
        assert_eq!(*gone(reads()), [0; 8]);
        gone(end(a.write(to_first, &remote, 0, bytes(8)).unwrap()));
        gone(end(a.write_data(to_first, &remote, 0, ImmediateData(7), bytes(8)).unwrap()));
        assert_eq!(a.inject_write(to_first, &remote, 0, &[2; 8]), Err(PostError::Errno(Errno::EHOSTUNREACH)));
        let data = a.inject_write_data(to_first, &remote, 0, ImmediateData(7), &[2; 8]);
        assert_eq!(data, Err(PostError::Errno(Errno::EHOSTUNREACH)));
        let part = [remote.part(0, 8).unwrap()];
        gone(end(a.write_with(to_first, &part, SendOptions::default(), bytes(8)).unwrap()));
        gone(end(a.read_with(to_first, &part, ReadOptions::default(), bytes(8)).unwrap()));
    };
    drop(first);
    all_fail();
    // Of two ports, the other one is taken.
    let _second = peers.endpoint(&av).unwrap();
    all_fail();
    assert!(peers.poll().unwrap().is_none(), "the second endpoint is told of nothing");
    let mut memory = [0; 8];
    region.window().copy_to(0, &mut memory).unwrap();
    assert_eq!(memory, [1; 8], "nothing was written");
}

/// A successful unsignaled send has no completion.
#[test]
#[allow(unsafe_code, reason = "posts operations that no completion gives the memory of back")]
fn an_unsignaled_send_that_fails_is_counted_and_frees_its_resources() {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    let owner = Queue::open(&domain, CqAttr::new(DEPTH)).unwrap();
    let a = owner.endpoint(Binding::to(&av).counter(Counted::SEND, &counter).selective()).unwrap();
    let bytes = [7; 100];
    let lend = |len| Lent::source(core::ptr::NonNull::from_ref(&bytes).cast(), len);
    for round in 1..=ROUNDS as u64 {
        let b = owner.endpoint(&av).unwrap();
        let to_b = av.insert(&b.address().unwrap()).unwrap();
        // An offer without a receive.
        // SAFETY: the bytes are read only, and outlive the queue.
        unsafe { a.send_unsignaled(to_b, None, SendOptions::default(), &lend(100)) }.unwrap();
        drop(b);
        let Some(Completion::Unclaimed(error)) = owner.poll().unwrap() else { panic!("its failure") };
        assert_eq!(error.errno, Errno::ECONNRESET);
        assert_eq!((counter.read(), counter.read_error(), owner.strays()), (0, round, round));
        // Detected at once.
        // SAFETY: as above.
        let refused = unsafe { a.send_unsignaled(to_b, None, SendOptions::default(), &lend(8)) };
        assert_eq!(refused, Err(PostError::Errno(Errno::EHOSTUNREACH)));
        assert!(av.remove(to_b));
    }
}
