//! Remote updates of a client and its server, beside a stranger that sends anything to both. The
//! oracle reads messages by the table of the format, and memory by byte. `loom-core`'s tests of
//! atomic operations check the computations.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arbitrary::{Arbitrary, Unstructured};
use loom_core::Peer;
use loom_core::allocator_api2::alloc::Global;
use loom_core::atomic::{CompareOp, FetchOp};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Datatype;
use loom_updates::{MESSAGE_LEN, UpdateError, UpdateServer, Updates};

use crate::memory;

/// Words of memory. The window excludes the first and the last.
const WORDS: usize = 6;
const WINDOW: usize = (WORDS - 2) * 8;
const REQUEST: u32 = 0x4c55_5101;
const ANSWER: u32 = 0x4c55_4101;
/// Highest client number of the server, which is the stranger's.
const STRANGER: u32 = 1;

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Requests a sum from the client.
    Sum { word: u8, operand: u64 },
    /// Requests a swap from the client.
    Swap { word: u8, compare: u64, operand: u64 },
    /// Requests a sum from the client, which then abandons it.
    Leave { word: u8, operand: u64 },
    /// Requests of the stranger, often valid ones.
    Ask { head: [u8; 3], client: u8, number: u64, offset: u8, operand: [u8; 16], compare: [u8; 16] },
    /// Answers the client's request from the stranger.
    Answer { place: u8, turn: u8, errno: u8, value: [u8; 16] },
    /// Sends these bytes from the stranger.
    Noise { to_client: bool, bytes: &'a [u8] },
}

type SoftEndpoint<'d> = Endpoint<'d, Soft<'d>, Vec<u8>>;

struct World<'c, 'd> {
    cq: &'c Cq<'d, Soft<'d>, Vec<u8>>,
    memory: [AtomicU64; WORDS],
    server: UpdateServer<SoftEndpoint<'d>, Global>,
    updates: Updates<SoftEndpoint<'d>, Global>,
    stranger: SoftEndpoint<'d>,
    to_server: Peer,
    to_client: Peer,
    /// Requests of the client without an answer.
    left: usize,
    refused: u64,
}

pub fn updates(data: &[u8]) -> usize {
    const MOST: usize = 60;
    memory::begin();
    let attr =
        NetworkAttr { endpoints: 3, tx_depth: 8, rx_depth: 8, eager_size: 64, regions: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info()).expect("a network opens");
    let av = Av::open(&domain, 3).expect("the size is small");
    let cq = Cq::open(&domain, CqAttr::new(32)).expect("the sizes are small");
    let endpoints = [(); 3].map(|()| cq.endpoint(&av).expect("there is a place for each"));
    let [to_client, to_stranger, to_server] = endpoints
        .each_ref()
        .map(|endpoint| av.insert(&endpoint.address().expect("it is open")).expect("an address of this network"));
    let [client, stranger, server] = endpoints;
    let buffers = || core::iter::repeat_with(|| vec![0; MESSAGE_LEN]);
    let mut world = World {
        cq: &cq,
        memory: core::array::from_fn(|word| AtomicU64::new(0x0101_0101_0101_0101 * word as u64)),
        server: UpdateServer::open_in(server, [to_client, to_stranger], buffers(), 3, Global).expect("small"),
        updates: Updates::open_in(client, 0, buffers(), 4, Global).expect("small"),
        stranger,
        to_server,
        to_client,
        left: 0,
        refused: 0,
    };
    world.serve(0);
    world.hear();

    let mut bytes = Unstructured::new(data);
    let mut played = 0;
    while played < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step<'_>>() else { break };
        world.play(step);
        played += 1;
    }
    // A later request of the client gets its answer, whatever the stranger has sent.
    world.updates.give_up_all();
    world.left = 0;
    world.play(Step::Sum { word: 1, operand: 1 });
    played
}

impl World<'_, '_> {
    fn play(&mut self, step: Step<'_>) {
        let offset = |word: u8| usize::from(word) % (WORDS - 2) * 8;
        let before = self.bytes();
        match step {
            Step::Sum { word, operand } => {
                let before = self.memory[1 + offset(word) / 8].load(Relaxed);
                let asked = self.updates.fetch(self.to_server, offset(word) as u64, FetchOp::<u64>::SUM, operand);
                let Some(key) = self.asked(asked) else { return };
                self.serve(1);
                assert_eq!(self.updates.wait(key, Spins(10)), Ok(Some(before)));
                assert_eq!(self.memory[1 + offset(word) / 8].load(Relaxed), before.wrapping_add(operand));
            }
            Step::Swap { word, compare, operand } => {
                let before = self.memory[1 + offset(word) / 8].load(Relaxed);
                let compare = if compare % 2 == 0 { before } else { compare };
                let swap = CompareOp::<u64>::CSWAP;
                let asked = self.updates.compare(self.to_server, offset(word) as u64, swap, compare, operand);
                let Some(key) = self.asked(asked) else { return };
                self.serve(1);
                assert_eq!(self.updates.wait(key, Spins(10)), Ok(Some(before)));
                let now = if compare == before { operand } else { before };
                assert_eq!(self.memory[1 + offset(word) / 8].load(Relaxed), now);
            }
            Step::Leave { word, operand } => {
                let asked = self.updates.fetch(self.to_server, offset(word) as u64, FetchOp::<u64>::SUM, operand);
                let Some(_) = self.asked(asked) else { return };
                self.serve(1);
                self.left += 1;
            }
            Step::Ask { head: [form, datatype, op], client, number, offset, operand, compare } => {
                let (form, datatype, op) = (form % 3, datatype % 18, op % 20);
                let (client, offset) = (u32::from(client % 4), u64::from(offset % 40));
                let mut message = [0; MESSAGE_LEN];
                message[0..4].copy_from_slice(&REQUEST.to_ne_bytes());
                message[4..7].copy_from_slice(&[form, datatype, op]);
                message[8..12].copy_from_slice(&client.to_ne_bytes());
                message[16..24].copy_from_slice(&number.to_ne_bytes());
                message[24..32].copy_from_slice(&offset.to_ne_bytes());
                message[32..48].copy_from_slice(&operand);
                message[48..64].copy_from_slice(&compare);
                self.ask(&message, &before);
            }
            Step::Answer { place, turn, errno, value } => {
                let mut message = [0; MESSAGE_LEN];
                message[0..4].copy_from_slice(&ANSWER.to_ne_bytes());
                message[4] = errno;
                message[16..24].copy_from_slice(&(u64::from(turn) << 32 | u64::from(place % 6)).to_ne_bytes());
                message[32..48].copy_from_slice(&value);
                self.says(self.to_client, &message);
            }
            Step::Noise { to_client: true, bytes } => self.says(self.to_client, bytes),
            Step::Noise { to_client: false, bytes } => self.ask(bytes, &before),
        }
        let now = self.bytes();
        assert_eq!((&now[..8], &now[8 + WINDOW..]), (&before[..8], &before[8 + WINDOW..]), "it is not in the window");
        self.hear();
    }

    /// Returns the key of a request. Returns `None` if too many abandoned ones fill its slots.
    fn asked<K, E: core::fmt::Debug>(&self, asked: Result<K, UpdateError<E>>) -> Option<K> {
        match asked {
            Ok(key) => Some(key),
            Err(UpdateError::Full) => {
                assert_eq!(self.left, 4, "there is room for four");
                None
            }
            Err(other) => panic!("the queue has room: {other:?}"),
        }
    }

    /// Lets the client receive all messages. An answer by the stranger is valid if it arrives
    /// during a request.
    fn hear(&mut self) {
        (0..2).for_each(|_| self.updates.progress().expect("the queue works"));
    }

    fn bytes(&self) -> Vec<u8> {
        self.memory.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    /// Runs the server to the end, and checks its number of requests.
    fn serve(&mut self, requests: usize) {
        let mut done = 0;
        for _ in 0..3 {
            done += self.server.progress(&self.memory[1..WORDS - 1]).expect("the queue works");
        }
        assert_eq!((done, self.server.refused()), (requests, self.refused));
    }

    fn says(&self, to: Peer, bytes: &[u8]) {
        let message = bytes[..bytes.len().min(MESSAGE_LEN)].to_vec();
        let said = self.stranger.send(to, message).expect("the queue has room");
        let said = self.cq.wait(said, Spins(10)).expect("the queue works").expect("they are on this thread");
        assert!(said.result().is_ok(), "there is a receive for it");
    }

    /// Sends a request of the stranger, and checks the server's memory and answer by the format.
    fn ask(&mut self, bytes: &[u8], before: &[u8]) {
        let heard = self.stranger.recv(Source::Any, vec![0; MESSAGE_LEN]).expect("the queue has room");
        self.says(self.to_server, bytes);
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"));
        let is_request = bytes.len() >= MESSAGE_LEN && number(0) == REQUEST && bytes[4] < 2 && bytes[7] == 0;
        if !is_request || number(12) != 0 || number(8) > STRANGER {
            self.refused += 1;
            self.serve(0);
            assert_eq!(self.bytes(), before, "it was no request");
        } else {
            self.serve(1);
        }
        let answered = self.cq.wait(heard, Spins(10)).expect("the queue works");
        let answered = answered.map(|answer| answer.into_buf());
        if answered.is_none() {
            self.stranger.cancel(heard).expect("it is posted");
            assert!(self.cq.wait(heard, Spins(10)).expect("the queue works").is_some(), "cancelled");
        }
        if !is_request || number(12) != 0 || number(8) != STRANGER {
            assert_eq!(answered, None, "nothing was asked, or in the client's name");
            return;
        }
        let answer = answered.expect("it is answered");
        let expected =
            [&ANSWER.to_ne_bytes(), &answer[4..8], &STRANGER.to_ne_bytes(), &[0; 4], &bytes[16..24], &[0; 8]];
        assert_eq!(answer[..32], expected.concat());
        let now = self.bytes();
        if answer[4..8] != [0; 4] {
            assert_eq!((now.as_slice(), &answer[32..]), (before, &[0; 32][..]), "nothing is done");
            return;
        }
        let offset = u64::from_ne_bytes(bytes[24..32].try_into().expect("eight")) as usize;
        let size = Datatype::from_raw(bytes[5].into()).size().expect("what has a size can be done");
        assert!(offset.checked_add(size).is_some_and(|end| end <= WINDOW), "it is in the window");
        let place = 8 + offset..8 + offset + size;
        let old = [&before[place.clone()], &[0; 32][size..]].concat();
        assert_eq!(answer[32..], old, "what was there before");
        let mut rest = now.clone();
        rest[place.clone()].copy_from_slice(&before[place]);
        assert_eq!(rest, before, "nothing else changes");
    }
}
