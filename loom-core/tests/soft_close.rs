//! What a closed endpoint of the software transport leaves behind: nothing. Places in its queue, cells, places for
//! receives and for the endpoint itself all come back, however often.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use loom_core::completion::Completion;
use loom_core::engine::peer_table::Peer;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr, CqError, CqOwner, PEER_EVENTS};
use loom_core::objects::domain::{Domain, Fabric};
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Errno, Tag};

const DEPTH: usize = 4;
/// More than the raw queue has places for.
const ROUNDS: usize = 2 * (DEPTH + PEER_EVENTS);
const ATTR: NetworkAttr = NetworkAttr { endpoints: 2, tx_depth: 2, rx_depth: 2, eager_size: 8, regions: 0 };

type Queue<'d, 'n> = Cq<'d, Soft<'n>, Box<[u8]>>;

/// Which of the queue's functions takes completions.
type Poll = for<'d, 'n> fn(&Queue<'d, 'n>) -> Result<Option<Completion<Box<[u8]>>>, CqError>;

fn any(cq: &Queue<'_, '_>) -> Result<Option<Completion<Box<[u8]>>>, CqError> {
    cq.poll()
}

fn each(cq: &Queue<'_, '_>) -> Result<Option<Completion<Box<[u8]>>>, CqError> {
    match cq.poll_tx()? {
        None => cq.poll_rx(),
        some => Ok(some),
    }
}

/// Takes everything, and checks that all of it was cancelled.
fn take_cancelled(cq: &Queue<'_, '_>, poll: Poll) -> usize {
    let mut count = 0;
    while let Some(completion) = poll(cq).unwrap() {
        let Completion::Op(done) = completion else { panic!("{completion:?}") };
        assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
        count += 1;
    }
    count
}

/// Opens an endpoint, lets `post` post what nobody answers, closes it, and takes what comes back; again and again.
fn again_and_again(attr: CqAttr<DEPTH>, poll: Poll, post: impl Fn(&Closing<'_, '_, '_>) -> usize) {
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let owner: CqOwner<'_, _, Box<[u8]>, _, DEPTH> = Cq::open(&domain, attr).unwrap();
    let idle = owner.endpoint(&av).enable().unwrap();
    for round in 0..ROUNDS {
        // Its address changes places with nobody, but it takes in what earlier rounds have sent.
        let peer = av.insert(&idle.address().unwrap()).unwrap();
        let endpoint = owner.endpoint(&av).enable().unwrap();
        let posted = post(&Closing { endpoint: &endpoint, peer });
        drop(endpoint);
        assert_eq!(take_cancelled(&owner, poll), posted, "round {round}");
        assert_eq!(owner.in_flight(), 0);
    }
}

struct Closing<'c, 'd, 'n> {
    endpoint: &'c Endpoint<'c, 'd, Soft<'n>, Box<[u8]>>,
    peer: Peer,
}

fn bytes(len: usize) -> Box<[u8]> {
    vec![0; len].into()
}

fn receives(closing: &Closing<'_, '_, '_>) -> usize {
    closing.endpoint.recv(Source::Any, bytes(8)).unwrap();
    closing.endpoint.tagged_recv(Source::Peer(closing.peer), Tag(1), bytes(8)).unwrap();
    2
}

#[test]
fn receives_that_nobody_answered() {
    again_and_again(CqAttr::new(), any, receives);
}

#[test]
fn receives_that_nobody_answered_on_separate_queues() {
    again_and_again(CqAttr::new().separate(), any, receives);
}

#[test]
fn receives_that_nobody_answered_where_each_direction_is_polled() {
    again_and_again(CqAttr::new(), each, receives);
}

#[test]
fn receives_that_nobody_answered_on_separate_queues_where_each_is_polled() {
    again_and_again(CqAttr::new().separate(), each, receives);
}

/// More than are copied into cells, so that they are offers; one is cancelled first.
fn offers(closing: &Closing<'_, '_, '_>) -> usize {
    let key = closing.endpoint.send(closing.peer, bytes(9)).unwrap();
    closing.endpoint.cancel(key).unwrap();
    closing.endpoint.tagged_send(closing.peer, Tag(1), bytes(100)).unwrap();
    2
}

#[test]
fn offers_that_nobody_took() {
    for attr in [CqAttr::new(), CqAttr::new().separate()] {
        let network = Network::new(ATTR).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let owner: CqOwner<'_, _, Box<[u8]>, _, DEPTH> = Cq::open(&domain, attr).unwrap();
        for round in 0..ROUNDS {
            // Both close, so that both sides give the cells back: the sender first, or the receiver.
            let (sender, receiver) = (owner.endpoint(&av).enable().unwrap(), owner.endpoint(&av).enable().unwrap());
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

/// Limits come from an info, so that one of another network must not open anything on this one.
#[test]
fn an_info_of_another_network_is_refused() {
    let small = Network::new(NetworkAttr { eager_size: 64, ..NetworkAttr::DEFAULT }).unwrap();
    let large = Network::new(NetworkAttr { eager_size: 4096, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&small.info()).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let owner: CqOwner<'_, _, Box<[u8]>, _, DEPTH> = Cq::open(&domain, CqAttr::new()).unwrap();
    assert!(owner.endpoint(&av).info(&large.info()).enable().is_err());
    assert!(owner.endpoint(&av).info(&small.info()).enable().is_ok());
    assert!(Fabric::open(&small.info()).unwrap().into_domain(&large.info()).is_err());
}
