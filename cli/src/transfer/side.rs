use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::domain::Domain;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, EndpointAddr};
use loom_transfer::{Block, Engine, EngineAttr, Event, MemoryKey, PeerKey, Plan as _, RemoteMemory, Request, Wait};

use super::Plan;
use crate::failure::Failure;
use crate::play::payload::{Pattern, Role};
use crate::play::session::Step;
use crate::text::size_text;

/// Immediate data of pages, and of the receiver's answer that it has counted those of a round.
const PAGE: u64 = 0;
const ANSWER: u64 = 1;

/// Operations in flight on a rail, and twice as many writes of the peer between two polls.
const DEPTH: u16 = 256;

type Pages<T> = Engine<'static, T, Vec<u8>, Block, Global>;

#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) size: usize,
    pub(super) window: usize,
    pub(super) places: usize,
    pub(super) seed: usize,
}

impl Round {
    fn pattern(&self, place: usize) -> Pattern {
        Pattern::new(self.size, (self.seed + place) as u64, Role::Initiator)
    }

    fn block(&self, page: u64) -> Block {
        let (len, places) = (self.size as u64, self.places as u64);
        let place = page % places * len;
        Block { local: place, remote: place, len }
    }
}

pub(super) struct Opened<T: Transport + 'static> {
    role: Role,
    reads: bool,
    corrupt: Option<usize>,
    engine: Pages<T>,
    memory: MemoryKey,
}

impl<T: Transport + 'static> Opened<T> {
    pub(super) fn open(info: &Info<T>, rails: usize, plan: &Plan, role: Role) -> Result<Self, Failure> {
        let domains = (0..rails).map(|_| Domain::open(info)).collect::<Result<Vec<_>, _>>();
        let domains = domains.map_err(Failure::when("opening the domains"))?;
        let attr = EngineAttr {
            peers: 1,
            memories: 1,
            transfers: plan.window() + 1,
            depth: DEPTH.into(),
            peer_depth: rails * usize::from(DEPTH),
            values: 2,
            waits: 2,
            remote_writes: 2 * DEPTH,
            ..EngineAttr::default()
        };
        let opening = if plan.setup.node.is_some() {
            "opening the engine at the address of --node"
        } else {
            "opening the engine"
        };
        let mut engine = Engine::open_in(&domains, attr, Global).map_err(Failure::when(opening))?;
        let area = plan.setup.sizes.iter().map(|size| size * plan.places(*size)).max().unwrap_or(0);
        let memory = engine.register(vec![0; area], Access::REMOTE_READ | Access::REMOTE_WRITE);
        let memory = memory.map_err(Failure::when("registering memory"))?;
        Ok(Opened { role, reads: plan.reads, corrupt: plan.setup.corrupt, engine, memory })
    }

    /// Record of the memory, then that of the addresses.
    pub(super) fn card(&self) -> Result<Vec<u8>, Failure> {
        let remote = self.engine.remote(self.memory).map_err(Failure::when("describing the memory"))?;
        let mut card = remote.to_bytes().to_vec();
        let mut addresses = vec![0; 16 + self.engine.rails() * EndpointAddr::MAX_LEN];
        let len = self.engine.address(&mut addresses).map_err(Failure::when("describing the addresses"))?;
        card.extend_from_slice(&addresses[..len]);
        Ok(card)
    }

    pub(super) fn meet(mut self, card: &[u8]) -> Result<Side<T>, Failure> {
        let bad = |error: loom_core::Error| Failure::OtherSide(format!("sent no memory and addresses: {error:#}"));
        let (remote, addresses) = card.split_at(card.len().min(RemoteMemory::WIRE_LEN));
        let remote = RemoteMemory::from_bytes(remote).map_err(bad)?;
        let peer = self.engine.insert_peer(addresses).map_err(bad)?;
        let Opened { role, reads, corrupt, engine, memory } = self;
        let round = Round { size: 0, window: 0, places: 1, seed: 0 };
        Ok(Side {
            role,
            reads,
            corrupt,
            engine,
            memory,
            peer,
            remote,
            round,
            pages: 0,
            submitted: 0,
            ended: 0,
            expected: 0,
            arrived: true,
            began: Instant::now(),
            took: 0,
        })
    }
}

pub(super) struct Side<T: Transport + 'static> {
    role: Role,
    reads: bool,
    corrupt: Option<usize>,
    engine: Pages<T>,
    memory: MemoryKey,
    peer: PeerKey,
    remote: RemoteMemory,
    round: Round,
    /// Pages of the initiator, or the answer of the responder.
    pages: u64,
    submitted: u64,
    ended: u64,
    /// Total of arrivals at the end of this round.
    expected: u64,
    arrived: bool,
    began: Instant,
    took: u64,
}

impl<T: Transport + 'static> Side<T> {
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Nanoseconds of the last round.
    pub(super) fn took(&self) -> u64 {
        self.took
    }

    pub(super) fn counted(&self) -> u64 {
        self.engine.arrived(PAGE)
    }

    fn is_source(&self) -> bool {
        self.reads == (self.role == Role::Responder)
    }

    pub(super) fn fill(&mut self, round: &Round, place: usize) -> Result<(), Failure> {
        let Some(window) = self.engine.window(self.memory).filter(|_| self.is_source()) else { return Ok(()) };
        let mut page = vec![0; round.size];
        round.pattern(place).fill(&mut page);
        if let Some(byte) = self.corrupt.and_then(|offset| page.get_mut(offset)) {
            *byte ^= 0xff;
            self.corrupt = None;
        }
        window.copy_from(place * round.size, &page).map_err(Failure::when("writing the memory"))
    }

    pub(super) fn verify(&self, round: &Round, place: usize) -> Result<(), Failure> {
        let Some(window) = self.engine.window(self.memory).filter(|_| !self.is_source()) else { return Ok(()) };
        let mut page = vec![0; round.size];
        window.copy_to(place * round.size, &mut page).map_err(Failure::when("reading the memory"))?;
        round.pattern(place).check(&page).map_err(|wrong| Failure::Mismatch {
            doing: format!("pages of {}", size_text(round.size)),
            round: place as u64,
            offset: wrong.offset,
            got: wrong.got,
            expected: wrong.expected,
        })
    }

    pub(super) fn begin(&mut self, round: &Round, pages: u64) -> Result<(), Failure> {
        let is_initiator = self.role == Role::Initiator;
        self.round = *round;
        (self.submitted, self.ended, self.arrived) = (0, 0, self.reads);
        self.pages = if is_initiator { pages } else { u64::from(!self.reads) };
        if !self.reads {
            let (value, count) = match self.role {
                Role::Initiator => (ANSWER, 1),
                Role::Responder => (PAGE, pages * round.block(0).operations(self.engine.piece())),
            };
            self.expected += count;
            let wait = self.engine.wait(Wait::new(value, self.expected));
            wait.map_err(Failure::when("waiting for arrivals"))?;
        }
        self.began = Instant::now();
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended == self.pages && self.arrived
    }

    fn window(&self) -> u64 {
        match self.role {
            Role::Initiator => self.round.window as u64,
            Role::Responder => u64::from(self.arrived),
        }
    }

    fn submit(&mut self) -> Result<(), Failure> {
        let (block, to) = (self.round.block(self.submitted), &self.remote);
        let request = match (self.role, self.reads) {
            (Role::Responder, _) => Request::write(self.peer, self.memory, to, Block::default()).data(ANSWER),
            (Role::Initiator, false) => Request::write(self.peer, self.memory, to, block).data(PAGE),
            (Role::Initiator, true) => Request::read(self.peer, self.memory, to, block),
        };
        let submitted = self.engine.submit(request);
        submitted.map_err(|rejected| Failure::doing("submitting a page", rejected.error))?;
        self.submitted += 1;
        Ok(())
    }
}

impl<T: Transport + 'static> Step for Side<T> {
    #[inline]
    fn step(&mut self) -> Result<bool, Failure> {
        let event = self.engine.poll(0).map_err(Failure::when("polling the engine"))?;
        let mut happened = event.is_some();
        match event {
            Some(Event::Ended(outcome)) => {
                outcome.result().map_err(Failure::when("moving a page"))?;
                self.ended += 1;
            }
            Some(Event::Arrived(_)) => self.arrived = true,
            Some(Event::WaitFailed { error, .. }) => return Err(Failure::doing("waiting for arrivals", error)),
            Some(_) | None => {}
        }
        if happened && self.is_done() {
            self.took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
        while self.submitted < self.pages && self.submitted - self.ended < self.window() {
            self.submit()?;
            happened = true;
        }
        Ok(happened)
    }
}
