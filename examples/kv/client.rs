//! [`Client`]: asks a server.

use std::fmt;

use loom_core::mr::EndpointMr;
use loom_fabric::{Access, Error, Mr, Peer, Source, Transport};
use tokio::time::timeout;

use crate::node::{Bytes, Node, PATIENCE};
use crate::wire::{MAX_MESSAGE, Op, Reply, Request, Status, is_short};

/// A client of a server. It has one region, by which long values go, and so one request at a time.
pub(crate) struct Client<T: Transport + 'static> {
    pub(crate) node: Node<T>,
    server: Peer,
    region: EndpointMr<'static, T, Bytes>,
    requests: u32,
    /// A request was not answered. The server may still reach into the region for it, so that no other may use that.
    over: bool,
}

/// Why a request was not served.
#[derive(Debug)]
pub(crate) enum KvError {
    /// The key is longer than [`MAX_KEY`](crate::wire::MAX_KEY), or the value than the client's region.
    TooLong,
    /// The server says so.
    Refused(Status),
    /// There is no answer in time, or was none before.
    NoAnswer,
    /// The answer is none of this version.
    Garbled,
    Fabric(Error),
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvError::TooLong => f.write_str("the key or the value is too long"),
            KvError::Refused(Status::TooLong) => f.write_str("the value is longer than this client has room for"),
            KvError::Refused(Status::Full) => f.write_str("the server's memory is full"),
            KvError::Refused(status) => write!(f, "the server answers: {status:?}"),
            KvError::NoAnswer => f.write_str("the server does not answer"),
            KvError::Garbled => f.write_str("the server's answer is garbled"),
            KvError::Fabric(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KvError {}

impl<E: Into<Error>> From<E> for KvError {
    fn from(error: E) -> Self {
        KvError::Fabric(error.into())
    }
}

impl<T: Transport + 'static> Client<T> {
    /// A client for values of up to `longest` bytes, whose server is a peer of its node.
    pub(crate) fn new(node: Node<T>, server: Peer, longest: usize) -> Result<Self, Error> {
        // Registered once, and not for each request.
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_for(&node.domain, &node.endpoint, vec![0; longest], access)?;
        Ok(Client { node, server, region, requests: 0, over: false })
    }

    /// The value of a key, if there is one.
    pub(crate) async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        let answer = self.call(Op::Get, key, 0, &[]).await?;
        let reply = answer.reply()?;
        match reply.status {
            Status::Done if is_short(reply.len) => Ok(Some(reply.value.to_vec())),
            Status::Done => {
                // It is in the region.
                let len = usize::try_from(reply.len).ok().filter(|_| reply.len <= self.region.remote().len());
                let mut value = vec![0; len.ok_or(KvError::Garbled)?];
                self.region.window().copy_to(0, &mut value)?;
                Ok(Some(value))
            }
            Status::NotFound => Ok(None),
            status => Err(KvError::Refused(status)),
        }
    }

    pub(crate) async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let len = value.len() as u64;
        let inline = if is_short(len) {
            value
        } else {
            self.region.window().copy_from(0, value).map_err(|_| KvError::TooLong)?;
            &[]
        };
        match self.call(Op::Put, key, len, inline).await?.reply()?.status {
            Status::Done => Ok(()),
            status => Err(KvError::Refused(status)),
        }
    }

    /// Says whether there was a value.
    pub(crate) async fn delete(&mut self, key: &[u8]) -> Result<bool, KvError> {
        match self.call(Op::Delete, key, 0, &[]).await?.reply()?.status {
            Status::Done => Ok(true),
            Status::NotFound => Ok(false),
            status => Err(KvError::Refused(status)),
        }
    }

    async fn call(&mut self, op: Op, key: &[u8], len: u64, value: &[u8]) -> Result<Answer, KvError> {
        self.requests = self.requests.wrapping_add(1);
        let request = Request { op, id: self.requests, region: self.region.remote(), key, len, value };
        let message = request.encode().ok_or(KvError::TooLong)?;
        let answer = self.exchange(message).await?;
        if answer.reply()?.id == self.requests { Ok(answer) } else { Err(KvError::Garbled) }
    }

    /// Sends a message and waits for the answer.
    pub(crate) async fn exchange(&mut self, message: Bytes) -> Result<Answer, KvError> {
        let Node { driver, endpoint, .. } = &self.node;
        if std::mem::replace(&mut self.over, true) {
            return Err(KvError::NoAnswer);
        }
        let answered = async {
            // Before the request, so that there is room for its answer.
            let room = driver.post(vec![0; MAX_MESSAGE], |room| endpoint.recv(Source::Any, room)).await?;
            driver.run(message, |message| endpoint.send(self.server, message)).await?.result()?;
            let (bytes, received) = driver.finish(room).await?.into_result()?;
            Ok::<_, Error>(Answer { bytes, len: received.len() })
        };
        let answer = timeout(PATIENCE, answered).await.map_err(|_| KvError::NoAnswer)??;
        self.over = false;
        Ok(answer)
    }
}

/// The bytes of a reply.
pub(crate) struct Answer {
    bytes: Bytes,
    len: usize,
}

impl Answer {
    pub(crate) fn reply(&self) -> Result<Reply<'_>, KvError> {
        Reply::decode(&self.bytes[..self.len]).map_err(|_| KvError::Garbled)
    }
}
