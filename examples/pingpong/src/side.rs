use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use loom_fabric::{
    Access, Av, Completion, Cq, Deadline, Domain, Endpoint, EndpointAddr, ImmediateData, Info, Mr, OpKey, Peer,
    RemoteRegion, Source, Tag, Transport,
};

use crate::Failure;

const SIZES: [usize; 6] = [1, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20];
pub(crate) const VERIFIED: usize = 16;
const MEASURED: usize = 2000;

pub(crate) type Card = (EndpointAddr, RemoteRegion);

#[derive(Clone, Copy, Debug)]
enum Op {
    Message,
    Tagged,
    Write,
}

/// Bound of a wait. The clock is read once in 1,024 polls.
#[derive(Clone, Copy)]
struct Patience {
    until: Instant,
    polls: u32,
    /// Both threads run on one processor.
    is_shared: bool,
}

impl Deadline for Patience {
    fn passed(&mut self) -> bool {
        self.polls += 1;
        if self.is_shared {
            thread::yield_now();
        }
        self.polls.is_multiple_of(1024) && Instant::now() > self.until
    }
}

pub(crate) struct Side<T: Transport> {
    pub(crate) cq: Cq<'static, T, Vec<u8>>,
    endpoint: Endpoint<'static, T, Vec<u8>>,
    peer: Peer,
    mine: Mr<'static, T, Vec<u8>>,
    theirs: RemoteRegion,
    patience: Patience,
}

impl<T: Transport + 'static> Side<T> {
    pub(crate) fn open(
        info: &Info<T>,
        is_shared: bool,
        to: &Sender<Card>,
        from: &Receiver<Card>,
    ) -> Result<Self, Failure> {
        let domain = Domain::open(info)?;
        let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, 16)?);
        let mine = Mr::open(&domain, vec![0; SIZES[SIZES.len() - 1]], Access::REMOTE_WRITE)?;
        let endpoint = cq.endpoint(&av)?;
        to.send((endpoint.address()?, mine.remote()))?;
        let (address, theirs) = from.recv()?;
        let patience = Patience { until: Instant::now(), polls: 0, is_shared };
        Ok(Side { peer: av.insert(&address)?, cq, endpoint, mine, theirs, patience })
    }

    /// Writes have no receive.
    fn expect(&self, op: Op, room: &mut Vec<u8>) -> Result<Option<OpKey>, Failure> {
        let receive = |room| match op {
            Op::Tagged => self.endpoint.tagged_recv(Source::Any, Tag(7), room),
            _ => self.endpoint.recv(Source::Any, room),
        };
        let is_write = matches!(op, Op::Write);
        Ok(if is_write { None } else { Some(self.cq.post(std::mem::take(room), self.patience, receive)?) })
    }

    fn send(&self, op: Op, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        let key = self.cq.post(std::mem::take(bytes), self.patience, |bytes| match op {
            Op::Message => self.endpoint.send(self.peer, bytes),
            Op::Tagged => self.endpoint.tagged_send(self.peer, Tag(7), bytes),
            Op::Write => self.endpoint.write_data(self.peer, &self.theirs, 0, ImmediateData(7), bytes),
        })?;
        let (sent, result) = self.cq.finish(key, self.patience)?.into_parts();
        result?;
        *bytes = sent;
        Ok(())
    }

    /// Waits for the peer's message, or for the event of its write.
    fn receive(&self, expected: Option<OpKey>, room: &mut Vec<u8>) -> Result<(), Failure> {
        let Some(key) = expected else {
            let mut patience = self.patience;
            while !matches!(self.cq.poll()?, Some(Completion::Remote(_))) {
                if patience.passed() {
                    return Err("no write has arrived".into());
                }
            }
            return Ok(());
        };
        let (bytes, result) = self.cq.finish(key, self.patience)?.into_parts();
        result?;
        *room = bytes;
        Ok(())
    }

    fn play(&mut self, op: Op, size: usize, begins: bool) -> Result<Vec<Duration>, Failure> {
        self.patience.until = Instant::now() + Duration::from_secs(60);
        let (mut bytes, mut room, mut copy) = (vec![0; size], vec![0; size], vec![0; size]);
        let mut trips = Vec::with_capacity(MEASURED);
        let rounds = VERIFIED + (MEASURED * 64 / (64 + size / 256)).max(50);
        let mut expected = self.expect(op, &mut room)?;
        for round in 0..rounds {
            let (verified, begun) = (round < VERIFIED, Instant::now());
            if verified {
                fill(&mut bytes, round, begins);
            }
            if begins {
                self.send(op, &mut bytes)?;
            }
            self.receive(expected, &mut room)?;
            if verified {
                fill(&mut copy, round, !begins);
                if expected.is_none() {
                    self.mine.window().copy_to(0, &mut room)?;
                }
                if copy != room {
                    return Err(format!("{op:?} of {size} B, round {round}: other bytes have arrived").into());
                }
            }
            if round + 1 < rounds {
                expected = self.expect(op, &mut room)?;
            }
            if !begins {
                self.send(op, &mut bytes)?;
            }
            if !verified {
                trips.push(begun.elapsed());
            }
        }
        Ok(trips)
    }

    pub(crate) fn play_all(&mut self, begins: bool) -> Result<(), Failure> {
        for op in [Op::Message, Op::Tagged, Op::Write] {
            for size in SIZES {
                let mut trips = self.play(op, size, begins)?;
                trips.sort_unstable();
                let half = |at: usize| trips[at].as_nanos() as f64 / 2.0;
                let (min, median) = (half(0), half(trips.len() / 2));
                if begins {
                    let (name, rate) = (format!("{op:?}").to_lowercase(), size as f64 / median);
                    println!("{name:<8}{size:>9}{:>9}{min:>12.0}{median:>12.0}{rate:>10.3}", trips.len());
                }
            }
        }
        Ok(())
    }
}

/// Fills bytes by round and sender.
fn fill(bytes: &mut [u8], round: usize, begins: bool) {
    let [low, ..] = round.to_le_bytes();
    let mut next = low ^ if begins { 0x5a } else { 0 };
    for byte in bytes {
        *byte = next;
        next = next.wrapping_mul(5).wrapping_add(17);
    }
}
