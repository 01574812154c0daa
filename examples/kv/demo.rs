//! The demo: a server and several clients in one thread, over the software transport, which needs nothing but memory.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use loom_async::tokio::run;
use loom_fabric::{Domain, Error, Hints, Network, NetworkAttr, Soft};
use tokio::select;

use crate::client::{Client, KvError};
use crate::node::{Bytes, CAPS, Node};
use crate::server::Server;

type Memory = Soft<'static>;

/// What the demo does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demo {
    pub(crate) clients: u16,
    /// How many values of each length a client puts and gets, one in place of the other.
    pub(crate) rounds: u32,
    /// The server's memory, in bytes.
    pub(crate) memory: usize,
}

const SHORT: usize = 100;
const LONG: usize = 256 << 10;

/// The server, and clients that know it.
pub(crate) fn open(clients: u16, memory: usize) -> Result<(Server<Memory>, Vec<Client<Memory>>), Error> {
    let endpoints = clients.saturating_add(1);
    let network = Network::new(NetworkAttr { endpoints, regions: endpoints, ..NetworkAttr::DEFAULT })?;
    let hints = Hints { caps: CAPS, ..Hints::default() };
    let info = network.query(&hints)?;
    let domain = Domain::open(&info)?;
    let server = Node::open(&domain, clients.into())?;
    let mut all = Vec::new();
    for _ in 0..clients {
        let node = Node::open(&domain, 1)?;
        server.av.insert(&node.address()?)?;
        let to_server = node.av.insert(&server.address()?)?;
        all.push(Client::new(node, to_server, LONG)?);
    }
    Ok((Server::new(server, memory), all))
}

/// Has `use_them` use the clients while the server serves.
pub(crate) async fn with<O>(
    server: &Server<Memory>,
    clients: &mut [Client<Memory>],
    use_them: impl AsyncFnOnce(&mut [Client<Memory>]) -> Result<O, KvError>,
) -> Result<O, KvError> {
    // A driver for each queue, all of this thread.
    let drivers: Vec<_> =
        clients.iter().map(|client| &client.node).chain([&server.node]).map(|node| node.driver.clone()).collect();
    let both = async {
        select! {
            used = use_them(clients) => used,
            failed = server.serve() => match failed? {},
        }
    };
    run(&drivers[..], server.node.mode, both).await?
}

pub(crate) async fn play(demo: Demo) -> Result<String, KvError> {
    let (server, mut clients) = open(demo.clients, demo.memory)?;
    let mut text = String::new();
    with(&server, &mut clients, async |clients| {
        for (name, len) in [("100 B", SHORT), ("256 KiB", LONG)] {
            let (mut puts, mut gets) = (Duration::ZERO, Duration::ZERO);
            for round in 0..demo.rounds {
                let values: Vec<_> = (0..clients.len()).map(|number| pattern(number, round, len)).collect();
                puts += timed(clients, async |number, client| client.put(&key(number), &values[number]).await).await?;
                gets += timed(clients, async |number, client| {
                    let value = client.get(&key(number)).await?;
                    if value.as_ref() == Some(&values[number]) { Ok(()) } else { Err(KvError::Garbled) }
                })
                .await?;
            }
            let rate = |time: Duration| f64::from(demo.rounds) * f64::from(demo.clients) / time.as_secs_f64();
            text += &format!("values of {name}: {:.0} puts/s, {:.0} gets/s\n", rate(puts), rate(gets));
        }
        timed(clients, async |number, client| {
            let gone = client.delete(&key(number)).await? && client.get(&key(number)).await?.is_none();
            if gone { Ok(()) } else { Err(KvError::Garbled) }
        })
        .await
    })
    .await?;
    let (clients, store) = (demo.clients, server.store.borrow());
    let kept = format!("the server keeps {} of {} bytes", store.len(), store.used());
    Ok(text + &format!("{clients} clients found every value as it was put, and deleted it; {kept}"))
}

/// Has all clients do something at the same time.
async fn timed(
    clients: &mut [Client<Memory>],
    what: impl AsyncFn(usize, &mut Client<Memory>) -> Result<(), KvError>,
) -> Result<Duration, KvError> {
    let begin = Instant::now();
    try_join_all(clients.iter_mut().enumerate().map(|(number, client)| what(number, client))).await?;
    Ok(begin.elapsed())
}

fn key(client: usize) -> Bytes {
    format!("of client {client}").into_bytes()
}

/// Bytes that tell whose they are.
fn pattern(client: usize, value: u32, len: usize) -> Bytes {
    let seed = (client as u64).wrapping_mul(0x9e37_79b9).wrapping_add(value.into());
    (0..len as u64)
        .map(|at| (seed.wrapping_add(at).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 56).to_le_bytes()[0])
        .collect()
}
