//! How to fuzz your own protocol: the [protocol], independent of fuzzing, a story of events, and
//! invariants. Two sides send each other data over the software network. Receives run short, sends
//! are cancelled and repeated, and a stranger sends anything. All data arrives once and unchanged.

mod protocol;

use arbitrary::{Arbitrary, Unstructured};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::FabricAddr;
use loom_core::{Av, Completion, Cq, CqAttr, Domain};

use crate::memory::{self, Memory};
use protocol::{HEADER, LONGEST, Link, MOST_CHUNK, Refused};

/// Events.
#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Offer {
        side: bool,
        len: u8,
        chunk: u8,
    },
    Drive {
        side: bool,
        receives: u8,
    },
    Poll {
        times: u8,
    },
    Impatient {
        side: bool,
    },
    Cancel {
        side: bool,
        nth: u8,
    },
    /// Sends these bytes from the stranger.
    Stranger {
        to: bool,
        bytes: &'a [u8],
    },
    /// Begins transfers that the stranger never ends.
    Begins {
        to: bool,
        number: u8,
        whole: u8,
        offset: u8,
    },
}

/// Data that one side has offered, with `true` for data that has arrived.
type Offered = Vec<(Vec<u8>, bool)>;

pub fn example_protocol(data: &[u8]) -> usize {
    const MOST: usize = 60;
    memory::begin();
    let attr =
        NetworkAttr { endpoints: 3, tx_depth: 4, rx_depth: 4, eager_size: 16, regions: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info()).expect("a network opens");
    let av = Av::open(&domain, 3).expect("the size is small");
    let played = {
        let cq = Cq::open(&domain, CqAttr::new(24)).expect("the sizes are small");
        let endpoints = [(); 3].map(|()| cq.endpoint(&av).expect("there is a place for each"));
        let peers = endpoints
            .each_ref()
            .map(|endpoint| av.insert(&endpoint.address().expect("it is open")).expect("an address of this network"));
        let addrs = peers.map(|peer| av.peer_table().addr(peer).expect("just inserted"));
        let [one, two, stranger] = endpoints;
        let mut world = World {
            sides: [Link::new(one, peers[1]), Link::new(two, peers[0])],
            addrs,
            offered: [Vec::new(), Vec::new()],
        };

        let mut bytes = Unstructured::new(data);
        let mut played = 0;
        while played < MOST && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step<'_>>() else { break };
            match step {
                Step::Offer { side, len, chunk } => world.offer(side.into(), len.into(), chunk.into()),
                Step::Drive { side, receives } => world.sides[usize::from(side)].drive(usize::from(receives % 4)),
                Step::Poll { times } => (0..times % 8).for_each(|_| {
                    world.poll(cq.poll().expect("the queue works"));
                }),
                Step::Impatient { side } => world.sides[usize::from(side)].is_impatient(),
                Step::Cancel { side, nth } => {
                    let side = &world.sides[usize::from(side)];
                    // It may have completed already.
                    let _ = side.some_send(nth.into()).map(|key| side.endpoint.cancel(key));
                }
                Step::Stranger { to, bytes } => {
                    let bytes = &bytes[..bytes.len().min(stranger.inject_size())];
                    // Without room, the message is not sent.
                    let _ = stranger.inject(peers[usize::from(to)], bytes);
                }
                Step::Begins { to, number, whole, offset } => {
                    let header = [number, whole, offset].map(|number| u32::from(number).to_le_bytes());
                    let _ = stranger.inject(peers[usize::from(to)], &[header.as_flattened(), &[7]].concat());
                }
            }
            played += 1;
        }

        // Without further disturbance, all data arrives.
        let mut quiet = 0;
        while quiet < 3 {
            quiet += 1;
            world.sides.iter_mut().for_each(|side| side.drive(2));
            while world.poll(cq.poll().expect("the queue works")) {
                quiet = 0;
            }
        }
        assert!(world.sides.iter().all(Link::is_idle), "something is never sent");
        assert!(world.offered.iter().flatten().all(|(_, arrived)| *arrived), "something is lost");
        played
    };
    memory::assert_dropped_once();
    played
}

struct World {
    sides: [Link<Soft<'static>>; 2],
    /// Addresses of the two sides and the stranger.
    addrs: [FabricAddr; 3],
    offered: [Offered; 2],
}

impl World {
    fn offer(&mut self, side: usize, len: usize, chunk: usize) {
        let number = self.offered[side].len();
        let data: Vec<u8> = (0..len % LONGEST).map(|at| (at + 31 * number + 7 * side) as u8).collect();
        self.sides[side].offer(&data, 1 + chunk % MOST_CHUNK);
        self.offered[side].push((data, false));
    }

    /// Takes a completion. Returns `false` without one.
    fn poll(&mut self, completion: Option<Completion<'_, Memory>>) -> bool {
        let Some(completion) = completion else { return false };
        let Completion::Op(done) = completion else { panic!("nobody posted for {completion:?}") };
        let (at, said) = (0..2)
            .find_map(|side| self.sides[side].on(&done).map(|said| (side, said)))
            .expect("the completion of one of the sides");
        // Only completed receives have a source. Failed ones count as those of a stranger.
        let from = done.result().ok().and_then(|transfer| transfer.source);
        let of_peer = from == Some(self.addrs[1 - at]);
        match said {
            Ok(Some(data)) if of_peer => {
                // Each offer has its own content, except empty ones.
                let is_it = |(offered, arrived): &&mut (Vec<u8>, bool)| *offered == data && !*arrived;
                let arrived = self.offered[1 - at].iter_mut().find(is_it);
                arrived.expect("it was offered, and has not arrived before").1 = true;
            }
            Ok(Some(data)) => assert!(from == Some(self.addrs[2]) && data.len() <= LONGEST),
            Ok(None) => {}
            Err(error) => {
                assert!(!of_peer, "a chunk was refused: {error:?}");
                assert!(error != Refused::TooLong || done.buf().bytes().len() == HEADER + MOST_CHUNK);
            }
        }
        true
    }
}
