//! What client and server have in common: an endpoint, its queue, and buffers of one length.

use std::error::Error;

use loom_core::vocabulary::CompletionFlags;
use loom_fabric::{
    Av, Completion, Cq, CqAttr, Domain, Endpoint, EndpointAddr, Peer, PostError, Rejected, Source, Transport,
};

use crate::runtime::Failure;

/// How many operations a queue has room for.
pub(crate) const DEPTH: usize = 128;
/// How many receives are posted on either side.
pub(crate) const RECEIVES: usize = DEPTH / 2;
/// How long every message is, in bytes.
pub(crate) const MESSAGE: usize = 64;

/// A buffer for a message. It moves into a post, and comes back out of its completion.
pub(crate) type Buffer = Box<[u8]>;

pub(crate) fn buffer() -> Buffer {
    vec![0; MESSAGE].into_boxed_slice()
}

/// A buffer that has come back.
pub(crate) enum Back {
    /// Its message was sent.
    Sent(Buffer),
    /// It has a message.
    Received(Buffer),
}

/// One side.
pub(crate) struct Fabric<T: Transport> {
    endpoint: Endpoint<'static, T, Buffer>,
}

impl<T: Transport> Fabric<T> {
    /// Opens an endpoint and its queue, with all receives posted.
    pub(crate) fn open(domain: &Domain<'static, T>, av: &Av<'static, T>) -> Result<Self, Box<dyn Error>> {
        let cq = Cq::open(domain, CqAttr::new(DEPTH).endpoints(1))?;
        let endpoint = cq.endpoint(av)?;
        for _ in 0..RECEIVES {
            endpoint.recv(Source::Any, buffer()).map_err(PostError::from)?;
        }
        Ok(Fabric { endpoint })
    }

    pub(crate) fn address(&self) -> Result<EndpointAddr, Box<dyn Error>> {
        Ok(self.endpoint.address()?)
    }

    /// Sends a message; the buffer comes back if there is no room for now.
    pub(crate) fn send(&self, to: Peer, buffer: Buffer) -> Result<Option<Buffer>, Failure> {
        match self.endpoint.send(to, buffer) {
            Ok(_) => Ok(None),
            Err(Rejected { buf, error }) if error.is_transient() => Ok(Some(buf)),
            Err(_) => Err(Failure("a send was refused")),
        }
    }

    /// Receives into a buffer, in the place of one that has come back.
    pub(crate) fn receive(&self, buffer: Buffer) -> Result<(), Failure> {
        self.endpoint.recv(Source::Any, buffer).map(drop).map_err(|_| Failure("a receive was refused"))
    }

    /// The next buffer that has come back, if there is one.
    pub(crate) fn next(&self) -> Result<Option<Back>, Failure> {
        let completion = self.endpoint.cq().poll().map_err(|_| Failure("the queue has failed"))?;
        let Some(completion) = completion else { return Ok(None) };
        let Completion::Op(done) = completion else {
            return Err(Failure("a completion of neither a send nor a receive"));
        };
        let (buffer, result) = done.into_parts();
        let transfer = result.map_err(|_| Failure("a transfer has failed"))?;
        if !transfer.flags().contains(CompletionFlags::RECV) {
            return Ok(Some(Back::Sent(buffer)));
        }
        if transfer.len() != MESSAGE {
            return Err(Failure("a message has another length"));
        }
        Ok(Some(Back::Received(buffer)))
    }
}
