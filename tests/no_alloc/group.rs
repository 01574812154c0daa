//! Group of several peers. Each round runs each operation on many peers.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use loom_core::Peer;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::completion::Done;
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, EndpointAddr};
use loom_group::{ConnectError, Group, Outcome, PeerError, PeerIndex, PeerRegion, Place, Prepared, Summary};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const PEERS: usize = 3;
/// Number of members: the peers, and the root.
const MEMBERS: usize = PEERS + 1;
/// Short size, because long messages both ways between two endpoints of one process end `shm` of
/// libfabric 2.5.
const SIZE: usize = 64;
const LIMIT: Duration = Duration::from_secs(60);

/// Messages for clones, one for each byte.
static MESSAGES: [[u8; SIZE]; 256] = {
    let mut messages = [[0; SIZE]; 256];
    let mut byte = 0;
    while byte < 256 {
        messages[byte] = [byte.to_le_bytes()[0]; SIZE];
        byte += 1;
    }
    messages
};

/// Buffer with clones that do not allocate, if it is shared.
#[derive(Clone)]
enum Message {
    Own(Box<[u8]>),
    Shared(&'static [u8]),
}

// SAFETY: the range belongs to a box or a static, and does not depend on the place of the value.
unsafe impl Buffer for Message {
    fn lend(&mut self) -> Lent {
        match self {
            Message::Own(bytes) => bytes.lend(),
            Message::Shared(bytes) => bytes.lend(),
        }
    }
}
impl SourceBuffer for Message {}
// A shared one is lent for reading only.
impl TargetBuffer for Message {}

impl<P> From<Rejected<P, ConnectError>> for Failure {
    fn from(rejected: Rejected<P, ConnectError>) -> Self {
        rejected.error.error.into()
    }
}

impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Insert(error) => error.into(),
            _ => Failure::Wrong("the group has a place for each member"),
        }
    }
}

/// Buffers outside of operations.
struct Spare(RefCell<Vec<Message>>);

impl Spare {
    /// Returns a buffer that is full of this byte.
    fn filled(&self, byte: u8) -> Message {
        let mut buf = self.0.borrow_mut().pop().expect("each round returns its buffers");
        if let Message::Own(bytes) = &mut buf {
            bytes.fill(byte);
        }
        buf
    }

    fn give(&self, buf: Message) {
        if let Message::Own(_) = buf {
            self.0.borrow_mut().push(buf);
        }
    }

    /// Takes back a received message, and checks that it is full of this byte.
    fn check(&self, buf: Message, byte: u8) -> Result<(), Failure> {
        let right = matches!(&buf, Message::Own(bytes) if bytes.iter().all(|it| *it == byte));
        self.give(buf);
        if right { Ok(()) } else { Err(Failure::Wrong("the message is another one")) }
    }
}

/// The group, and the endpoints of the peers on the same queue, so that each wait drives all of
/// them.
struct Rig<'r, 'm, T: Transport> {
    group: Group<'m, T, Message, &'m Seal>,
    peers: [Endpoint<'m, T, Message>; PEERS],
    /// Root, as a peer of the others.
    root: Peer,
    spare: &'r Spare,
}

type Places<'m, T> = [Place<'m, T, Message>; 2 * PEERS];

impl<'m, T: Transport + 'static> Rig<'_, 'm, T> {
    fn cq(&self) -> &Cq<'m, T, Message> {
        self.group.cq()
    }

    fn posted(
        &self,
        mut buf: Message,
        post: impl Fn(Message) -> Result<OpKey, Rejected<Message>>,
    ) -> Result<OpKey, Failure> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match post(buf) {
                Ok(key) => return Ok(key),
                Err(Rejected { value: back, error }) if error.is_transient() && Instant::now() < deadline => buf = back,
                Err(Rejected { error, .. }) => return Err(error.into()),
            }
            self.cq().progress()?;
        }
    }

    fn receives(&self) -> Result<[OpKey; PEERS], Failure> {
        each(|peer| self.posted(self.spare.filled(0), |buf| self.peers[peer].recv(Source::Any, buf)))
    }

    fn sends(&self, byte: u8) -> Result<[OpKey; PEERS], Failure> {
        each(|peer| self.posted(self.spare.filled(of(byte, peer)), |buf| self.peers[peer].send(self.root, buf)))
    }

    fn finished(&self, key: OpKey) -> Result<Message, Failure> {
        let done: Done<_> = self.cq().wait(key, Instant::now() + LIMIT)?.ok_or(Failure::Late("a peer"))?;
        let (buf, result) = done.into_parts();
        result?;
        Ok(buf)
    }

    /// Takes the messages of the peers.
    fn received(&self, keys: [OpKey; PEERS], byte: impl Fn(usize) -> u8) -> Result<(), Failure> {
        (0..).zip(keys).try_for_each(|(peer, key)| self.spare.check(self.finished(key)?, byte(peer)))
    }

    fn sent(&self, keys: [OpKey; PEERS]) -> Result<(), Failure> {
        keys.into_iter().try_for_each(|key| {
            self.spare.give(self.finished(key)?);
            Ok(())
        })
    }

    /// Sends a message to each peer, and one message to all of them.
    fn scatters(&self, places: &mut Places<'m, T>, byte: u8) -> Result<(), Failure> {
        let keys = self.receives()?;
        let work = members().map(|(peer, index)| (index, self.spare.filled(of(byte, peer))));
        complete(self.group.scatter_send(work, places, Instant::now() + LIMIT)?, places)?;
        self.return_sent(places);
        self.received(keys, |peer| of(byte, peer))?;

        let keys = self.receives()?;
        let message = Message::Shared(&MESSAGES[usize::from(byte)]);
        let peers = members().map(|(_, index)| index);
        complete(self.group.multicast_send(peers, &message, places, Instant::now() + LIMIT)?, places)?;
        self.return_sent(places);
        self.received(keys, |_| byte)
    }

    /// Receives a message of each peer, then sends and receives one.
    fn gathers(&self, places: &mut Places<'m, T>, byte: u8) -> Result<(), Failure> {
        let keys = self.sends(byte)?;
        let work = members().map(|(_, index)| (index, self.spare.filled(0)));
        complete(self.group.gather_recv(work, places, Instant::now() + LIMIT)?, places)?;
        for (peer, place) in places.iter_mut().take(PEERS).enumerate() {
            self.spare.check(buf_of(place)?, of(byte, peer))?;
        }
        self.sent(keys)?;

        let (received, sent) = (self.receives()?, self.sends(!byte)?);
        let work = members().map(|(peer, index)| (index, self.spare.filled(of(byte, peer)), self.spare.filled(0)));
        complete(self.group.exchange(work, places, Instant::now() + LIMIT)?, places)?;
        for (peer, pair) in places.chunks_exact_mut(2).enumerate() {
            self.spare.check(buf_of(&mut pair[0])?, of(!byte, peer))?;
            self.spare.give(buf_of(&mut pair[1])?);
        }
        self.sent(sent)?;
        self.received(received, |peer| of(byte, peer))
    }

    /// Writes to memory of each peer, and reads it.
    fn writes_and_reads(
        &self,
        regions: &[PeerRegion; PEERS],
        places: &mut Places<'m, T>,
        byte: u8,
    ) -> Result<(), Failure> {
        let work = regions.iter().enumerate().map(|(peer, region)| (*region, self.spare.filled(of(byte, peer))));
        complete(self.group.scatter_write(work, places, Instant::now() + LIMIT)?, places)?;
        self.return_sent(places);
        // A completed write may still be on its way to the memory.
        let deadline = Instant::now() + LIMIT;
        loop {
            let work = regions.iter().map(|region| (*region, self.spare.filled(!byte)));
            complete(self.group.gather_read(work, places, deadline)?, places)?;
            let mut arrived = true;
            for (peer, place) in places.iter_mut().take(PEERS).enumerate() {
                arrived &= self.spare.check(buf_of(place)?, of(byte, peer)).is_ok();
            }
            if arrived {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Failure::Late("what was written"));
            }
        }
    }

    fn return_sent(&self, places: &mut Places<'m, T>) {
        places.iter_mut().filter_map(|place| place.take().into_buf()).for_each(|buf| self.spare.give(buf));
    }
}

/// Byte of a peer.
fn of(byte: u8, peer: usize) -> u8 {
    byte.wrapping_add(peer.to_le_bytes()[0])
}

fn members() -> impl Iterator<Item = (usize, PeerIndex)> {
    (0..PEERS).zip((0..).map(PeerIndex))
}

fn each<R: Copy>(mut make: impl FnMut(usize) -> Result<R, Failure>) -> Result<[R; PEERS], Failure> {
    let mut all = [make(0)?; PEERS];
    for (peer, one) in all.iter_mut().enumerate().skip(1) {
        *one = make(peer)?;
    }
    Ok(all)
}

fn buf_of<T: Transport>(place: &mut Place<'_, T, Message>) -> Result<Message, Failure> {
    place.take().into_buf().ok_or(Failure::Wrong("a buffer was lost"))
}

/// Returns the first failed request as an error.
fn complete<T: Transport>(summary: Summary, places: &Places<'_, T>) -> Result<(), Failure> {
    if summary.is_complete() && summary.requests() >= PEERS {
        return Ok(());
    }
    for place in places {
        match place.outcome() {
            Outcome::Failed { error, .. } => return Err((*error).into()),
            Outcome::NotPosted { error, .. } => return Err((*error).into()),
            _ => {}
        }
    }
    Err(Failure::Late("an operation on many peers"))
}

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let mut memory = [0; PEERS * SIZE];
    let spare = Spare(RefCell::new((0..4 * PEERS).map(|_| Message::Own(vec![0; SIZE].into())).collect()));
    scope(|s| {
        let domain = s.open(info)?;
        let caps = domain.info().caps();
        let region = match caps.contains(Caps::RMA) {
            true => Some(Mr::open(&domain, &mut memory[..], Access::REMOTE_READ | Access::REMOTE_WRITE)?),
            false => None,
        };
        let taken = seal.taken();
        let endpoints = u16::try_from(MEMBERS).unwrap_or(u16::MAX);
        let prepared = Prepared::open_in(&domain, MEMBERS, CqAttr { endpoints, ..CqAttr::new(32) }, seal)?;
        if seal.taken() < taken + 3 {
            return Err(Failure::Wrong("a group takes its memory from the allocator that it was given"));
        }
        let itself = prepared.address()?;
        let group = prepared.connect([] as [EndpointAddr; 0])?;
        let vector = group.av().ok_or(Failure::Wrong("the vector of a group"))?;
        let open = || group.cq().endpoint(vector);
        let peers = [open()?, open()?, open()?];
        for ((_, index), peer) in members().zip(&peers) {
            group.set(index, &peer.address()?)?;
        }
        let last = PeerIndex(u32::from(endpoints) - 1);
        group.set(last, &itself)?;
        let root = group.peer(last).ok_or(Failure::Wrong("a member that was set"))?;
        let regions = region.as_ref().map(|region| {
            let whole = region.remote();
            each(|peer| {
                let begin = (peer * SIZE) as u64;
                let index = PeerIndex(u32::try_from(peer).unwrap_or(u32::MAX));
                let part = PeerRegion::new(index, whole).slice(begin..begin + SIZE as u64);
                part.ok_or(Failure::Wrong("a part of a region"))
            })
        });
        let regions = regions.transpose()?;
        let directed = caps.contains(Caps::DIRECTED_RECV) && T::quirks(domain.info().raw()).directed_recv;
        let rig = Rig { group, peers, root, spare: &spare };
        let mut places: Places<'_, T> = [const { Place::EMPTY }; 2 * PEERS];
        let mut round = |number: u64| {
            let byte = number.to_le_bytes()[0];
            rig.scatters(&mut places, byte)?;
            if directed {
                rig.gathers(&mut places, byte)?;
            }
            match &regions {
                Some(regions) => rig.writes_and_reads(regions, &mut places, byte),
                None => Ok(()),
            }
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        counted(seal, plant, begin..begin + rounds, round)
    })
}
