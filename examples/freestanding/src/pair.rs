use loom_core::{Av, Completion, Cq, Done, Endpoint, ImmediateData, Mr, OpKey, Peer, Source, Tag, Transport};

use crate::buffers::{Buffer, Buffers};
use crate::failure::Failure;

const TAG: Tag = Tag(7);
const DATA: ImmediateData = ImmediateData(u64::MAX - 9);

const PATIENCE: u32 = 1000;

struct Side<'m, 'b, T: Transport> {
    endpoint: Endpoint<'m, T, Buffer<'b>>,
    peer: Peer,
}

/// Endpoints of one queue: the first sends and writes, the second receives.
pub struct Pair<'m, 'b, T: Transport> {
    cq: Cq<'m, T, Buffer<'b>>,
    from: Side<'m, 'b, T>,
    to: Side<'m, 'b, T>,
    region: Mr<'m, T, Buffer<'b>>,
}

impl<'m, 'b, T: Transport> Pair<'m, 'b, T> {
    pub fn open(cq: Cq<'m, T, Buffer<'b>>, av: &Av<'m, T>, region: Mr<'m, T, Buffer<'b>>) -> Result<Self, Failure> {
        let side = || {
            let endpoint = cq.endpoint(av)?;
            let peer = av.insert(&endpoint.address()?)?;
            Ok::<_, Failure>(Side { endpoint, peer })
        };
        let (from, to) = (side()?, side()?);
        Ok(Pair { cq, from, to, region })
    }

    /// Reverses the direction of operations.
    pub fn turn(&mut self) {
        core::mem::swap(&mut self.from, &mut self.to);
    }

    #[inline(always)]
    fn completion(&self) -> Result<Completion<'_, Buffer<'b>>, Failure> {
        for _ in 0..PATIENCE {
            if let Some(completion) = self.cq.poll()? {
                return Ok(completion);
            }
        }
        Err(Failure::Wrong("an operation does not end"))
    }

    #[inline(always)]
    fn done(&self) -> Result<Done<Buffer<'b>>, Failure> {
        match self.completion()? {
            Completion::Op(done) => Ok(done),
            _ => Err(Failure::Wrong("a completion of something else")),
        }
    }

    /// In any order.
    #[inline(always)]
    fn received(&self, buffers: &mut Buffers<'b>, received: OpKey, sent: OpKey, len: usize) -> Result<(), Failure> {
        let mut dones = (self.done()?, self.done()?);
        if dones.0.key() == sent {
            dones = (dones.1, dones.0);
        }
        if (dones.0.key(), dones.1.key()) != (received, sent) {
            return Err(Failure::Wrong("a completion of another operation"));
        }
        let there = buffer_of(dones.0, Some(len))?;
        *buffers = Buffers::new(buffer_of(dones.1, None)?, there);
        Ok(())
    }

    /// From any source.
    #[inline(always)]
    pub fn tagged(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let len = here.len();
        let received = self.to.endpoint.tagged_recv(Source::Any, TAG, there)?;
        let sent = self.from.endpoint.tagged_send(self.to.peer, TAG, here)?;
        self.received(buffers, received, sent, len)
    }

    /// From the other endpoint.
    #[inline(always)]
    pub fn message(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let len = here.len();
        let received = self.to.endpoint.recv(self.from.peer, there)?;
        let sent = self.from.endpoint.send(self.to.peer, here)?;
        self.received(buffers, received, sent, len)
    }

    #[inline(always)]
    pub fn inject(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let len = here.len();
        let received = self.to.endpoint.recv(Source::Any, there)?;
        self.from.endpoint.inject(self.to.peer, here)?;
        let done = self.done()?;
        if done.key() != received {
            return Err(Failure::Wrong("a completion of another operation"));
        }
        *buffers = Buffers::new(here, buffer_of(done, Some(len))?);
        Ok(())
    }

    #[inline(always)]
    pub fn write(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let key = self.from.endpoint.write(self.to.peer, &self.region.remote(), 0, here)?;
        let done = self.done()?;
        if done.key() != key {
            return Err(Failure::Wrong("a completion of another operation"));
        }
        *buffers = Buffers::new(buffer_of(done, None)?, there);
        Ok(())
    }

    /// Also its event at the other endpoint.
    #[inline(always)]
    pub fn write_data(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        let (here, there) = buffers.take()?;
        let len = here.len();
        let key = self.from.endpoint.write_data(self.to.peer, &self.region.remote(), 0, DATA, here)?;
        let (mut here, mut told) = (None, false);
        while here.is_none() || !told {
            match self.completion()? {
                Completion::Op(done) if done.key() == key => here = Some(buffer_of(done, None)?),
                Completion::Remote(event) if event.data() == Some(DATA) && event.len == len => told = true,
                _ => return Err(Failure::Wrong("a completion of something else")),
            }
        }
        *buffers = Buffers::new(here.ok_or(Failure::Wrong("a buffer was lost"))?, there);
        Ok(())
    }

    #[inline(always)]
    pub fn poll_empty(&self) -> Result<(), Failure> {
        match self.cq.poll()? {
            None => Ok(()),
            Some(_) => Err(Failure::Wrong("a completion of nothing")),
        }
    }

    pub fn fetch(&self, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        Ok(self.region.window().copy_to(0, buffers.there()?)?)
    }
}

#[inline(always)]
fn buffer_of<'b>(done: Done<Buffer<'b>>, len: Option<usize>) -> Result<Buffer<'b>, Failure> {
    let (buffer, result) = done.into_parts();
    let arrived = result?.len;
    if len.is_some_and(|len| len != arrived) {
        return Err(Failure::Wrong("a completion has another length"));
    }
    Ok(buffer)
}
