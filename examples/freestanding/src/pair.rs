//! Two endpoints, and the traffic between them: the safe objects alone.

use loom_core::completion::Completion;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::objects::av::Av;
use loom_core::objects::cq::Cq;
use loom_core::objects::deadline::Spins;
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{ImmediateData, Tag};

use crate::failure::Failure;

const PING: Tag = Tag(1);
const PONG: Tag = Tag(2);

/// How many looks at an empty queue are enough: everything here is over at the first.
const PATIENCE: Spins = Spins(1000);

type Buffer<'b> = &'b mut [u8];

/// Two buffers of one length, whenever they are not in flight.
pub struct Buffers<'b> {
    here: Option<Buffer<'b>>,
    there: Option<Buffer<'b>>,
}

impl<'b> Buffers<'b> {
    /// Both.
    pub fn new(here: Buffer<'b>, there: Buffer<'b>) -> Self {
        Buffers { here: Some(here), there: Some(there) }
    }

    fn take(&mut self) -> Result<(Buffer<'b>, Buffer<'b>), Failure> {
        self.here.take().zip(self.there.take()).ok_or(Failure::Wrong("a buffer was lost"))
    }
}

/// Two endpoints on one queue.
pub struct Pair<'m, 'b, T: Transport> {
    cq: Cq<'m, T, Buffer<'b>>,
    a: Endpoint<'m, T, Buffer<'b>>,
    b: Endpoint<'m, T, Buffer<'b>>,
    to_a: Peer,
    to_b: Peer,
    /// Memory of `b`, to which `a` writes.
    region: Mr<'m, T, Buffer<'b>>,
}

impl<'m, 'b, T: Transport> Pair<'m, 'b, T> {
    /// Opens both endpoints.
    pub fn open(cq: Cq<'m, T, Buffer<'b>>, av: &Av<'m, T>, region: Mr<'m, T, Buffer<'b>>) -> Result<Self, Failure> {
        let (a, b) = (cq.endpoint(av)?, cq.endpoint(av)?);
        let (to_a, to_b) = (av.insert(&a.address()?)?, av.insert(&b.address()?)?);
        Ok(Pair { cq, a, b, to_a, to_b, region })
    }

    /// The buffer of an operation that succeeded with so many bytes.
    fn finish(&self, key: OpKey, len: usize) -> Result<Buffer<'b>, Failure> {
        let done = self.cq.wait(key, PATIENCE)?.ok_or(Failure::Wrong("an operation does not end"))?;
        let (buffer, result) = done.into_parts();
        if result?.len() != len {
            return Err(Failure::Wrong("a completion has another length"));
        }
        Ok(buffer)
    }

    /// A message from `a` to `b` and one back, of whatever `here` holds. It is then in both buffers.
    fn exchange(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let len = here.len();
        let received = self.b.tagged_recv(Source::Any, PING, there)?;
        let sent = self.a.tagged_send(self.to_b, PING, here)?;
        let there = self.finish(received, len)?;
        let here = self.finish(sent, len)?;
        // What comes back shall not be what was there before.
        if let Some(byte) = here.first_mut() {
            *byte = !*byte;
        }
        let received = self.a.tagged_recv(Source::Peer(self.to_b), PONG, here)?;
        let sent = self.b.tagged_send(self.to_a, PONG, there)?;
        let here = self.finish(received, len)?;
        let there = self.finish(sent, len)?;
        *buffers = Buffers::new(here, there);
        Ok(())
    }

    /// Writes `here` into the region, and sees that `b` is told so.
    fn write_there(&self, buffers: &mut Buffers<'b>, data: ImmediateData) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let len = here.len();
        let key = self.a.write_data(self.to_b, &self.region.remote(), 0, data, here)?;
        let (mut here, mut told) = (None, false);
        for _ in 0..PATIENCE.0 {
            match self.cq.poll()? {
                Some(Completion::Op(done)) if done.key() == key => {
                    let (buffer, result) = done.into_parts();
                    result?;
                    here = Some(buffer);
                }
                Some(Completion::Remote(event)) if event.data() == Some(data) && event.len() == len => told = true,
                Some(_) => return Err(Failure::Wrong("a completion of something else")),
                None => {}
            }
            if told && here.is_some() {
                break;
            }
        }
        *buffers = Buffers { here, there: Some(there) };
        if told { Ok(()) } else { Err(Failure::Wrong("the peer was not told of a write")) }
    }

    /// A round of ping-pong; the first bytes are different every time, and looked at.
    pub fn ping_pong(&self, buffers: &mut Buffers<'b>, round: u64) -> Result<(), Failure> {
        stamp(&mut buffers.here, round)?;
        self.exchange(buffers)?;
        let stamps = (stamped(&buffers.here)?, stamped(&buffers.there)?);
        if stamps == (round, round) { Ok(()) } else { Err(Failure::Wrong("a message holds other bytes")) }
    }

    /// A write with immediate data; the first bytes are different every time, and looked at.
    pub fn write(&self, buffers: &mut Buffers<'b>, round: u64) -> Result<(), Failure> {
        stamp(&mut buffers.here, round)?;
        self.write_there(buffers, ImmediateData(round))?;
        let mut first = [0; 8];
        self.region.window().copy_to(0, &mut first)?;
        if u64::from_le_bytes(first) == round { Ok(()) } else { Err(Failure::Wrong("the region holds other bytes")) }
    }

    /// A poll that finds nothing.
    pub fn poll_empty(&self) -> Result<(), Failure> {
        match self.cq.poll()? {
            None => Ok(()),
            Some(_) => Err(Failure::Wrong("a completion of nothing")),
        }
    }

    /// A message there and back and a write, of which every byte is looked at.
    pub fn check(&self, buffers: &mut Buffers<'b>, seed: u8) -> Result<(), Failure> {
        fill(&mut buffers.here, seed)?;
        fill(&mut buffers.there, !seed)?;
        self.exchange(buffers)?;
        if !filled(&buffers.here, seed)? || !filled(&buffers.there, seed)? {
            return Err(Failure::Wrong("a message holds other bytes"));
        }
        fill(&mut buffers.here, seed.wrapping_add(100))?;
        self.write_there(buffers, ImmediateData(u64::MAX - u64::from(seed)))?;
        let there = buffers.there.as_deref_mut().ok_or(LOST)?;
        self.region.window().copy_to(0, there)?;
        if !filled(&buffers.there, seed.wrapping_add(100))? {
            return Err(Failure::Wrong("the region holds other bytes"));
        }
        self.poll_empty()
    }
}

const LOST: Failure = Failure::Wrong("a buffer was lost");

fn stamp(buffer: &mut Option<Buffer<'_>>, stamp: u64) -> Result<(), Failure> {
    let first = buffer.as_deref_mut().and_then(<[u8]>::first_chunk_mut).ok_or(LOST)?;
    *first = stamp.to_le_bytes();
    Ok(())
}

fn stamped(buffer: &Option<Buffer<'_>>) -> Result<u64, Failure> {
    buffer.as_deref().and_then(<[u8]>::first_chunk).map(|first| u64::from_le_bytes(*first)).ok_or(LOST)
}

/// A different byte for every place within 251, and for every seed.
fn pattern(seed: u8) -> impl Iterator<Item = u8> {
    (0..251).cycle().map(move |place: u8| place.wrapping_mul(3).wrapping_add(seed))
}

fn fill(buffer: &mut Option<Buffer<'_>>, seed: u8) -> Result<(), Failure> {
    for (byte, value) in buffer.as_deref_mut().ok_or(LOST)?.iter_mut().zip(pattern(seed)) {
        *byte = value;
    }
    Ok(())
}

fn filled(buffer: &Option<Buffer<'_>>, seed: u8) -> Result<bool, Failure> {
    Ok(buffer.as_deref().ok_or(LOST)?.iter().zip(pattern(seed)).all(|(byte, value)| *byte == value))
}
