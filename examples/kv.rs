//! A key-value server and its clients: requests and replies are messages, values move by RMA.
//!
//! `cargo run --release --features tcp --example kv -- serve` serves over `loom-tcp`, or over
//! `--provider NAME`, until Ctrl-C. With `put KEY < VALUE`, `get KEY > VALUE` and `delete KEY` the
//! program is a client. The server introduces clients at `--at ADDRESS:PORT`.

mod common;
#[path = "common/introduction.rs"]
mod introduction;

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use loom_fabric::loom_core::mr::EndpointMr;
use loom_fabric::{
    Access, Caps, CompletionLevel, Domain, Errno, Error, Hints, Info, Mr, Peer, Program, RemoteRegion, SendOptions,
    Source, Transport,
};
use tokio::net::TcpListener;
use tokio::time::timeout;

use common::{Failure, Node};
use introduction::{Introduction, introduce};

/// Each message names its sender, to which the reply goes.
const CAPS: Caps = Caps::MSG.union(Caps::SOURCE).union(Caps::RMA);
const MAX_VALUE: usize = 16 << 20;
/// Operation, region, and key of at most 1 KiB.
const MAX_REQUEST: usize = 1 + RemoteRegion::WIRE_LEN + 1024;
const GET: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(10);

type Values = RefCell<HashMap<Vec<u8>, Vec<u8>>>;

async fn serve<T: Transport>(node: &Node<T>, values: &Values) -> Result<Infallible, Error> {
    let Node { driver, endpoint, av, .. } = node;
    loop {
        let received = driver.run(vec![0; MAX_REQUEST], |room| endpoint.recv(Source::Any, room)).await?;
        // A request that is too long, or of a client that has left, has no reply.
        let Ok((request, transfer)) = received.into_result() else { continue };
        let Some(client) = transfer.source.and_then(|source| av.peer(source)) else { continue };
        let answer = timeout(PATIENCE, answer(node, values, client, &request[..transfer.len])).await;
        // Length of the value, or a negative error number.
        let answer = answer.unwrap_or(Err(Errno::ETIMEDOUT)).unwrap_or_else(|errno| -i64::from(errno.as_raw()));
        let reply = driver.run(answer.to_le_bytes().to_vec(), |reply| endpoint.send(client, reply));
        let _ = timeout(PATIENCE, reply).await;
    }
}

/// Serves a request. Returns the length of the value.
async fn answer<T: Transport>(node: &Node<T>, values: &Values, client: Peer, request: &[u8]) -> Result<i64, Errno> {
    let Node { driver, endpoint, .. } = node;
    let (op, rest) = request.split_first().ok_or(Errno::EINVAL)?;
    let (region, key) = rest.split_first_chunk().ok_or(Errno::EINVAL)?;
    let (region, failed) = (RemoteRegion::from_bytes(region), |_| Errno::EIO);
    let len = match *op {
        // Writes the value into the client's region, before the reply.
        GET => {
            let value = values.borrow().get(key).cloned().ok_or(Errno::ENOENT)?;
            let part = region.part(0, value.len()).ok_or(Errno::EMSGSIZE)?;
            let delivered = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
            let write = |value| endpoint.write_with(client, &[part], delivered, value);
            driver.run(value, write).await.map_err(failed)?.result().map_err(|error| error.errno)?;
            part.len
        }
        // Reads the value from the client's region.
        PUT => {
            let len = usize::try_from(region.len).ok().filter(|len| *len <= MAX_VALUE).ok_or(Errno::EMSGSIZE)?;
            let read = |room| endpoint.read(client, &region, 0, room);
            let read = driver.run(vec![0; len], read).await.map_err(failed)?;
            values.borrow_mut().insert(key.to_vec(), read.into_result().map_err(|error| error.errno)?.0);
            region.len
        }
        DELETE => values.borrow_mut().remove(key).map(|_| 0).ok_or(Errno::ENOENT)?,
        _ => return Err(Errno::EINVAL),
    };
    i64::try_from(len).map_err(|_| Errno::EMSGSIZE)
}

struct Client<T: Transport + 'static> {
    node: Node<T>,
    server: Peer,
    /// Registered once for all requests.
    region: EndpointMr<'static, T, Vec<u8>>,
}

impl<T: Transport> Client<T> {
    fn new(server: Peer, node: Node<T>) -> Result<Self, Error> {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Mr::open_for(&node.domain, &node.endpoint, vec![0; MAX_VALUE], access)?;
        Ok(Client { node, server, region })
    }

    /// Returns the length of the value. An error closes the client, because the server may still
    /// access the region.
    async fn call(&self, op: u8, key: &[u8], len: usize) -> Result<usize, Error> {
        let Node { driver, endpoint, .. } = &self.node;
        let region = self.region.remote().part(0, len).ok_or(Errno::EMSGSIZE)?;
        // Posted before the request, so that the reply has a receive.
        let reply = driver.finish(driver.post(vec![0; 8], |room| endpoint.recv(Source::Any, room)).await?);
        let request = [&[op][..], &region.to_bytes(), key].concat();
        driver.run(request, |request| endpoint.send(self.server, request)).await?.result()?;
        let (reply, transfer) = timeout(2 * PATIENCE, reply).await.map_err(|_| Errno::ETIMEDOUT)??.into_result()?;
        let reply = reply[..transfer.len].try_into().map(i64::from_le_bytes);
        let reply = reply.map_err(|_| Error::Invalid("a reply has 8 bytes"))?;
        usize::try_from(reply)
            .map_err(|_| i32::try_from(reply.unsigned_abs()).map_or(Errno::EIO, Errno::from_raw).into())
    }

    async fn get(&self, key: &[u8]) -> Result<Vec<u8>, Error> {
        let mut value = vec![0; self.call(GET, key, MAX_VALUE).await?.min(MAX_VALUE)];
        self.region.window().copy_to(0, &mut value)?;
        Ok(value)
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.region.window().copy_from(0, value)?;
        self.call(PUT, key, value.len()).await.map(drop)
    }
}

struct Server(SocketAddr);

impl Program for Server {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        let (node, values) = (Node::open(&Domain::open(info)?)?, Values::default());
        node.block_on(async {
            let (listener, mut interrupted) = (TcpListener::bind(self.0).await?, common::ctrl_c()?);
            tokio::select! {
                failed = serve(&node, &values) => match failed? {},
                failed = introduce(listener, info.provider(), &node) => match failed? {},
                _ = interrupted.changed() => Ok(format!("{} values\n", values.borrow().len())),
            }
        })
    }
}

struct Request<'a> {
    op: &'a str,
    key: &'a [u8],
    introduction: Introduction,
}

impl Program for Request<'_> {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(mut self, info: &Info<T>) -> Self::Output {
        let node = Node::open(&Domain::open(info)?)?;
        let client = Client::new(self.introduction.finish(&node)?, node)?;
        client.node.block_on(async {
            match self.op {
                "get" => std::io::stdout().write_all(&client.get(self.key).await?)?,
                "put" => client.put(self.key, &std::io::stdin().lock().bytes().collect::<Result<Vec<_>, _>>()?).await?,
                _ => drop(client.call(DELETE, self.key, 0).await?),
            }
            Ok(String::new())
        })
    }
}

fn main() -> ExitCode {
    common::exit("kv", run_options())
}

fn run_options() -> Result<String, Failure> {
    use lexopt::prelude::*;

    let (mut provider, mut at) = ("loom-tcp".to_owned(), SocketAddr::from(([127, 0, 0, 1], 47620)));
    let (mut parser, mut words) = (lexopt::Parser::from_env(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("at") => at = parser.value()?.parse()?,
            Value(word) => words.push(word.string()?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => common::over(&Hints { caps: CAPS, ..Hints::at(&provider, &at.ip().to_string()) }, Server(at)),
        [op @ ("get" | "put" | "delete"), key] => {
            let introduction = Introduction::begin(at)?;
            introduction.server_offer(CAPS)?.run(Request { op, key: key.as_bytes(), introduction })
        }
        _ => Err("kv serve [--provider NAME] | get KEY | put KEY | delete KEY [--at ADDRESS:PORT]".into()),
    }
}

#[cfg(test)]
#[path = "../tests/examples/kv.rs"]
mod tests;
