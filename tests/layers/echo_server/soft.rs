//! Clients and server in one process, over the software transport. Channels replace its missing
//! connections.
//!
//! A client [knocks](Knock) with its address. The server opens an endpoint for this client alone,
//! and returns its address. Each side holds the end of a channel, and closing it notifies the other
//! side.

use std::future::pending;
use std::rc::Rc;

use loom_async::tokio::{Mode, run};
use loom_core::endpoint::Connectionless;
use loom_core::soft::{self, Network, NetworkAttr};
use loom_fabric::{Av, Cq, CqAttr, CqDriver, Domain, Endpoint, EndpointAddr, Info, Peer, Unclaimed, WaitObj};
use tokio::select;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::echo_server::Failure;
use crate::echo_server::client::{self, Plan};
use crate::echo_server::connection::{self, Bytes, Driver, Link, PATIENCE};
use crate::echo_server::self_test::{self, Fabric};
use crate::echo_server::server::{Drain, Stats, serve};

type Soft = soft::Soft<'static>;
type Connection = connection::Connection<Soft, Connectionless<'static, Soft>>;

pub(crate) fn self_test(clients: u16) -> Result<String, Failure> {
    let endpoints = clients.checked_mul(2).ok_or_else(|| Failure("too many clients".into()))?;
    let small = NetworkAttr { tx_depth: 8, rx_depth: 8, eager_size: 256, groups: 0, lanes: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(NetworkAttr { endpoints, ..small })?;
    self_test::run(&Memory { info: network.info() }, clients)
}

#[derive(Clone)]
struct Memory {
    info: Info<Soft>,
}

impl Fabric for Memory {
    type Port = mpsc::Sender<Knock>;

    async fn serve(
        &self,
        peers: u16,
        drain: Drain,
        stats: Rc<Stats>,
        listening: oneshot::Sender<Self::Port>,
    ) -> Result<(), Failure> {
        let side = Side::open(&self.info, peers)?;
        let (port, knocks) = mpsc::channel(16);
        let (arrivals, arrived) = mpsc::channel(16);
        // Without a receiver, the self-test has ended.
        let _ = listening.send(port);
        let (door, served) =
            (answer_knocks(&side, knocks, arrivals, drain.clone()), serve(&side.driver, arrived, drain, &stats));
        let both = async {
            select! { () = served => {}, () = door => {} }
        };
        Ok(run(&side.driver, side.mode, both).await?)
    }

    async fn connect(&self, port: Self::Port, plans: Vec<Plan>) -> Result<(), Failure> {
        let side = Side::open(&self.info, u16::try_from(plans.len())?)?;
        let (arrivals, arrived) = mpsc::channel(16);
        let knocks = async {
            for _ in &plans {
                // Never full, because plans limit the number.
                let _ = arrivals.send(side.knock(&port).await?).await;
            }
            pending().await
        };
        let played = client::play(&side.driver, arrived, plans.clone());
        let both = async {
            select! { () = played => Ok(()), failed = knocks => failed }
        };
        run(&side.driver, side.mode, both).await?
    }
}

#[derive(Debug)]
pub(crate) struct Knock {
    address: EndpointAddr,
    /// Receiver that ends when the client has gone.
    gone: oneshot::Receiver<()>,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
struct Answer {
    address: EndpointAddr,
    /// Receiver that ends when the server's side has gone.
    gone: oneshot::Receiver<()>,
}

/// Opens an endpoint of the server for each client.
async fn answer_knocks(
    side: &Side,
    mut knocks: mpsc::Receiver<Knock>,
    arrivals: mpsc::Sender<Connection>,
    drain: Drain,
) {
    while let Some(knock) = knocks.recv().await {
        if *drain.borrow() {
            // The client detects the missing answer.
            continue;
        }
        match side.answer(knock) {
            // Without a receiver, the server has ended.
            Ok(connection) => drop(arrivals.send(connection).await),
            Err(error) => eprintln!("a client was not connected: {error:#}"),
        }
    }
    // All clients have gone. The server continues until it drains.
    pending().await
}

struct Side {
    av: Av<'static, Soft>,
    driver: Driver<Soft>,
    mode: Mode,
}

impl Side {
    fn open(info: &Info<Soft>, peers: u16) -> Result<Self, loom_core::Error> {
        let domain = Domain::open(info)?;
        let depth = connection::depth(peers);
        let attr = CqAttr { endpoints: peers, wait: WaitObj::FD, wait_is_optional: true, ..CqAttr::new(depth) };
        let cq = Cq::open(&domain, attr)?;
        // A strict network (`LOOM_STRICT`) has no object to sleep on.
        let mode = if cq.wait_obj() == WaitObj::FD { Mode::Sleep } else { Mode::Busy };
        Ok(Side { av: Av::open(&domain, usize::from(peers))?, driver: CqDriver::open(&cq, Unclaimed::Drop)?, mode })
    }

    async fn knock(&self, port: &mpsc::Sender<Knock>) -> Result<Connection, Failure> {
        let endpoint = self.driver.cq().endpoint(&self.av)?;
        let (tell, gone) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        port.send(Knock { address: endpoint.address()?, gone, answer }).await?;
        let answer = timeout(PATIENCE, answered).await??;
        Ok(self.connection(endpoint, &answer.address, answer.gone, tell)?)
    }

    fn answer(&self, knock: Knock) -> Result<Connection, loom_core::Error> {
        let endpoint = self.driver.cq().endpoint(&self.av)?;
        let (tell, gone) = oneshot::channel();
        // Without a receiver, the client has gone, and the connection reports it.
        let _ = knock.answer.send(Answer { address: endpoint.address()?, gone });
        self.connection(endpoint, &knock.address, knock.gone, tell)
    }

    fn connection(
        &self,
        endpoint: Endpoint<'static, Soft, Bytes>,
        peer: &EndpointAddr,
        gone: oneshot::Receiver<()>,
        tell: oneshot::Sender<()>,
    ) -> Result<Connection, loom_core::Error> {
        let to = self.av.insert(peer)?;
        let inserted = Inserted { av: self.av.clone(), peer: to };
        Ok(Connection { link: Link { endpoint, to }, gone, _held: Box::new((inserted, tell)) })
    }
}

/// Address of a peer in a vector. A drop frees its place.
struct Inserted {
    av: Av<'static, Soft>,
    peer: Peer,
}

impl Drop for Inserted {
    fn drop(&mut self) {
        self.av.remove(self.peer);
    }
}
