//! Carriers that refuse or lose packets, and stories under a plan of faults.

use std::cell::Cell;
use std::collections::HashMap;

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::error::{PostError, Rejected};
use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::{Errno, Tag, TagMatch};
use loom_tagged::{
    Carrier, Ended, LinkError, LinkId, Packet, Source, TaggedAttr, TaggedEndpoint, TaggedEvent, TaggedKey, WithPeer,
};

use super::world::nodes::{Buf, FITS, SMALL, packets, pattern, room};

type Queue = Cq<'static, Soft<'static>, Packet<Buf>>;

/// Carrier that refuses to send while `refuses` is set.
struct Refusing<'r> {
    inner: WithPeer<'static, Soft<'static>, Buf>,
    refuses: &'r Cell<Option<PostError>>,
}

impl Carrier for Refusing<'_> {
    type Buf = Buf;
    type Queue = Queue;

    fn queue(&self) -> &Self::Queue {
        self.inner.queue()
    }

    fn send(&self, packet: Packet<Buf>) -> Result<(), Rejected<Packet<Buf>>> {
        match self.refuses.get() {
            Some(error) => Err(Rejected { value: packet, error }),
            None => self.inner.send(packet),
        }
    }

    fn recv(&self, packet: Packet<Buf>) -> Result<(), Rejected<Packet<Buf>>> {
        self.inner.recv(packet)
    }

    fn poll(queue: &Self::Queue) -> Result<Option<Ended<Buf>>, CqError> {
        WithPeer::poll(queue)
    }
}

type Layer<'r> = TaggedEndpoint<Refusing<'r>, Vec<u8>, loom_core::allocator_api2::alloc::Global>;

/// Two linked endpoints over a network with a plan of faults, before any progress.
fn with_two<R>(
    plan: Plan,
    attr: TaggedAttr,
    refuses: &[Cell<Option<PostError>>; 2],
    test: impl FnOnce([Layer<'_>; 2], LinkId) -> R,
) -> Result<R, LinkError> {
    let sizes = NetworkAttr { tx_depth: 64, rx_depth: 64, eager_size: 128, regions: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(NetworkAttr { endpoints: 2, ..sizes }).unwrap();
    let domain = Domain::open(&network.info_with_faults(plan)).unwrap();
    let av = Av::open(&domain, 2).unwrap();
    let queues = [(); 2].map(|()| Queue::open(&domain, CqAttr::new(128)).unwrap());
    let ends = [0, 1].map(|at: usize| queues[at].endpoint(&av).unwrap());
    let peers = [1, 0].map(|at: usize| av.insert(&ends[at].address().unwrap()).unwrap());
    let mut links = Vec::new();
    let layers = [0, 1].map(|at: usize| {
        let mut layer = Layer::open(queues[at].clone(), attr).unwrap();
        let carrier = Refusing { inner: WithPeer::new(&ends[at], peers[at]), refuses: &refuses[at] };
        links.push(layer.add_link(carrier, packets(&attr)));
        layer
    });
    let links = links.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(test(layers, links[0]))
}

#[test]
fn no_message_is_sent_before_the_greeting() {
    let refuses = [Cell::new(Some(PostError::Again)), Cell::new(None)];
    with_two(Plan::new(0), SMALL, &refuses, |[mut a, mut b], link| {
        for _ in 0..4 {
            a.progress().unwrap();
            b.progress().unwrap();
        }
        // `a` has received the greeting of `b`, but could not send its own yet.
        assert!(a.eager_size(link) == FITS && b.eager_size(link) == 0 && !a.is_up(link));
        refuses[0].set(None);
        let refused = a.tagged_send(link, Tag(1), pattern(9, 1)).unwrap_err();
        assert_eq!((refused.error, refused.value.len()), (PostError::Again, 9));
        assert_eq!(a.tagged_inject(link, Tag(1), b"bytes"), Err(PostError::Again));
        a.progress().unwrap();
        assert!(a.is_up(link));
        a.tagged_send(link, Tag(1), pattern(9, 1)).unwrap();
        b.progress().unwrap();
        assert!(b.is_up(link) && b.tagged_peek(link, Tag(1)).is_some(), "{:?}", b.link_error(link));
    })
    .unwrap();
}

#[test]
fn a_carrier_that_refuses_a_message_for_good_ends_its_link() {
    for inject in [false, true] {
        let refuses = [Cell::new(None), Cell::new(None)];
        with_two(Plan::new(0), SMALL, &refuses, |[mut a, mut b], link| {
            for _ in 0..4 {
                a.progress().unwrap();
                b.progress().unwrap();
            }
            let waits = a.tagged_recv(link, Tag(7), room(9)).unwrap();
            let gone = PostError::Errno(Errno::ESHUTDOWN);
            refuses[0].set(Some(gone));
            if inject {
                assert_eq!(a.tagged_inject(link, Tag(1), b"bytes"), Err(gone));
            } else {
                let refused = a.tagged_send(link, Tag(1), pattern(9, 1)).unwrap_err();
                assert_eq!((refused.error, refused.value), (gone, pattern(9, 1)));
            }
            let Some(TaggedEvent::LinkFailed { link: of, error }) = a.poll().unwrap() else { panic!("the link's end") };
            assert_eq!((of, error), (link, LinkError::Post(gone)));
            let Some(TaggedEvent::Op(done)) = a.poll().unwrap() else { panic!("the end of what has waited") };
            assert_eq!((done.key(), done.result().unwrap_err().errno), (waits, Errno::ESHUTDOWN));
            assert!(a.poll().unwrap().is_none() && a.in_flight() == 0);
        })
        .unwrap();
    }
}

const MESSAGES: usize = 24;
const LENGTHS: [usize; 8] = [0, 1, FITS, FITS + 1, 200, 1000, FITS - 1, 5000];

/// Sends and receives on both sides in all ways, and checks that bytes match their message and
/// every operation ends, except receives from any source. Returns the number of received messages,
/// and `true` if the link failed.
fn story(plan: Plan, attr: TaggedAttr, seed: u64) -> (usize, bool) {
    let mut state = seed;
    let mut choose = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let skew = usize::try_from(seed).unwrap();
    let len = |nth: usize| LENGTHS[(nth + skew) % LENGTHS.len()];
    let refuses = [Cell::new(None), Cell::new(None)];
    with_two(plan, attr, &refuses, |mut layers, link| {
        let (mut sent, mut asked, mut received, mut quiet) = ([0; 2], [0; 2], 0, 0);
        let mut failed = [false; 2];
        let mut open = [(); 2].map(|()| HashMap::<TaggedKey, (bool, usize)>::new());
        while quiet < 20_000 {
            for at in 0..2 {
                let layer = &mut layers[at];
                let nth = sent[at];
                if nth < MESSAGES && choose() % 3 == 0 {
                    match layer.tagged_send(link, Tag(nth as u64), pattern(len(nth), nth + at)) {
                        Ok(key) => {
                            open[at].insert(key, (true, nth));
                            sent[at] += 1;
                        }
                        Err(refused) => assert!(
                            refused.error.is_transient() || layer.link_error(link).is_some(),
                            "{} and goes on",
                            refused.error
                        ),
                    }
                }
                let nth = asked[at];
                if nth < MESSAGES && choose() % 3 == 0 {
                    let (tag, buf) = (Tag(nth as u64), room(len(nth)));
                    let posted = if choose() % 2 == 0 {
                        layer.tagged_recv(Source::Any, TagMatch::exact(tag), buf).ok()
                    } else {
                        layer.tagged_peek_claim(link, tag).map(|(_, claim)| layer.tagged_claim(claim, buf).unwrap())
                    };
                    if let Some(key) = posted {
                        open[at].insert(key, (false, nth));
                        asked[at] += 1;
                    }
                }
                quiet += 1;
                match layer.poll().unwrap() {
                    Some(TaggedEvent::Op(done)) => {
                        quiet = 0;
                        let (is_sent, nth) = open[at].remove(&done.key()).expect("an operation");
                        let (bytes, result) = done.into_parts();
                        match result {
                            Ok(_) => {
                                let from = if is_sent { at } else { 1 - at };
                                assert!(bytes == pattern(len(nth), nth + from), "the {nth}th message");
                                received += usize::from(!is_sent);
                            }
                            Err(error) => assert!(layer.link_error(link).is_some(), "{error}"),
                        }
                    }
                    Some(TaggedEvent::LinkFailed { .. }) => (failed[at], quiet) = (true, 0),
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
                // The layer does not detect a lost peer: the survivor closes its link.
                if quiet > 2000 && failed[1 - at] {
                    layers[at].close_link(link);
                }
            }
            let all = [sent, asked] == [[MESSAGES; 2]; 2] && open.iter().all(HashMap::is_empty);
            if all && failed == [false; 2] || quiet > 10 && failed == [true; 2] {
                break;
            }
        }
        let left = || open.iter().flat_map(HashMap::values);
        if failed == [true; 2] {
            assert!(left().all(|(is_sent, _)| !is_sent), "sends have ended");
        } else {
            assert!(left().next().is_none() && !failed.contains(&true), "{failed:?}, and {open:?} is left");
        }
        (received, failed != [false; 2])
    })
    .unwrap_or((0, true))
}

fn sizes() -> impl Iterator<Item = TaggedAttr> {
    let sizes = [(4, 4, 3), (1, 4, 1), (2, 5, 1), (1, 4, 8)];
    sizes.into_iter().map(|(messages, control, sends)| TaggedAttr { operations: 64, messages, control, sends, ..SMALL })
}

#[test]
fn packets_that_are_refused_for_the_moment_and_come_late_are_all_there() {
    for attr in sizes() {
        for seed in 0..6 {
            let plan = Plan { refuse: Every::About(3), delay: 5, ..Plan::new(seed) };
            assert_eq!(story(plan, attr, seed), (2 * MESSAGES, false), "with seed {seed}, {attr:?}");
        }
    }
}

#[test]
fn everything_ends_where_packets_are_lost_or_an_endpoint_is() {
    let mut failed = 0;
    for attr in sizes() {
        for seed in 0..4 {
            let plan = Plan::new(seed);
            let plans = [
                Plan { fail: Every::About(40), ..plan },
                Plan { lose: Every::About(40), ..plan },
                Plan { kill: Every::About(60), ..plan },
                Plan { refuse: Every::About(4), delay: 3, fail: Every::About(90), ..plan },
            ];
            failed += plans.into_iter().filter(|plan| story(*plan, attr, seed).1).count();
        }
    }
    assert!(failed > 30, "the control: {failed} links have failed");
}
