//! [`Server`]: answers requests.

use std::cell::RefCell;
use std::convert::Infallible;

use futures_util::future::try_join_all;
use loom_fabric::{CompletionLevel, Done, Errno, Error, Peer, RunError, SendOptions, Source, Transport};
use tokio::time::timeout;

use crate::node::{Bytes, Node, PATIENCE};
use crate::store::Store;
use crate::wire::{MAX_MESSAGE, Op, Reply, Request, Status, is_short};

/// How many requests are served at a time. A client that is slow holds up one of them.
const AT_ONCE: usize = 16;

pub(crate) struct Server<T: Transport + 'static> {
    pub(crate) node: Node<T>,
    pub(crate) store: RefCell<Store>,
}

/// What a reply says besides the number of its request: the status, the length of the value, and a short value.
type Answer = (Status, u64, Bytes);

impl<T: Transport + 'static> Server<T> {
    /// A server whose keys and values have at most `memory` bytes. Values that are on their way to clients come on top, one for each request that is
    /// served at a time.
    pub(crate) fn new(node: Node<T>, memory: usize) -> Self {
        Server { node, store: RefCell::new(Store::new(memory)) }
    }

    /// Serves until the queue fails.
    pub(crate) async fn serve(&self) -> Result<Infallible, Error> {
        try_join_all((0..AT_ONCE).map(|_| self.serve_one_by_one())).await?;
        // Not reached: none of them ends without an error.
        Err(Errno::ECANCELED.into())
    }

    async fn serve_one_by_one(&self) -> Result<Infallible, Error> {
        let Node { driver, endpoint, av, .. } = &self.node;
        let mut buf = vec![0; MAX_MESSAGE];
        loop {
            buf.resize(MAX_MESSAGE, 0);
            let received = driver.run(buf, |buf| endpoint.recv(Source::Any, buf)).await?;
            let (message, result) = received.into_parts();
            buf = message;
            // A message that is too long is not answered, and neither is one of a peer that has left.
            let Ok(transfer) = result else { continue };
            let Some(client) = transfer.source().and_then(|source| av.peer(source)) else { continue };
            let reply = self.reply(&buf[..transfer.len()], client).await;
            buf = match within(driver.run(reply, |reply| endpoint.send(client, reply))).await {
                Ok(sent) => sent.into_buf(),
                // The client has left, or does not receive.
                Err(_) => Bytes::new(),
            };
        }
    }

    async fn reply(&self, message: &[u8], client: Peer) -> Bytes {
        let (id, (status, len, value)) = match Request::decode(message) {
            Ok(request) => (request.id, self.answer(&request, client).await),
            Err(malformed) => (malformed.id, (Status::Malformed, 0, Bytes::new())),
        };
        Reply { status, id, len, value: &value }.encode()
    }

    async fn answer(&self, request: &Request<'_>, client: Peer) -> Answer {
        match request.op {
            Op::Get => self.get(request, client).await,
            Op::Put => (self.put(request, client).await, 0, Bytes::new()),
            Op::Delete => {
                let was_there = self.store.borrow_mut().remove(request.key);
                (if was_there { Status::Done } else { Status::NotFound }, 0, Bytes::new())
            }
        }
    }

    async fn get(&self, request: &Request<'_>, client: Peer) -> Answer {
        let Node { driver, endpoint, .. } = &self.node;
        // A copy: the value may be replaced while it is on its way.
        let found = self.store.borrow().get(request.key).cloned();
        let Some(value) = found else { return (Status::NotFound, 0, Bytes::new()) };
        let len = value.len() as u64;
        if is_short(len) {
            return (Status::Done, len, value);
        }
        // A long value goes into the client's region. It is there before the reply is sent.
        let Some(part) = request.region.part(0, value.len()) else { return (Status::TooLong, len, Bytes::new()) };
        let delivered = SendOptions::new().level(CompletionLevel::Delivery);
        let written = driver.run(value, |value| endpoint.write_with(client, &[part], delivered, value));
        let status = if within(written).await.is_ok() { Status::Done } else { Status::NotMoved };
        (status, len, Bytes::new())
    }

    async fn put(&self, request: &Request<'_>, client: Peer) -> Status {
        let Node { driver, endpoint, .. } = &self.node;
        let Ok(len) = usize::try_from(request.len) else { return Status::Full };
        let reserved = self.store.borrow_mut().reserve(request.key, len);
        let Some(reserved) = reserved else { return Status::Full };
        let value = if is_short(request.len) {
            request.value.to_vec()
        } else {
            // A long value is fetched from the client's region.
            let read = driver.run(vec![0; len], |room| endpoint.read(client, &request.region, 0, room));
            let Ok(read) = within(read).await else {
                self.store.borrow_mut().release(reserved);
                return Status::NotMoved;
            };
            read.into_buf()
        };
        self.store.borrow_mut().insert(reserved, request.key, value);
        Status::Done
    }
}

/// Waits for an operation with a client, which may be slow or gone, and for its success.
async fn within(operation: impl Future<Output = Result<Done<Bytes>, RunError<Bytes>>>) -> Result<Done<Bytes>, Error> {
    let done = timeout(PATIENCE, operation).await.map_err(|_| Errno::ETIMEDOUT)??;
    done.result()?;
    Ok(done)
}
