//! Connections over libfabric: `tcp`, with connection-oriented endpoints.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::process::Command;
use std::rc::Rc;

use loom_async::tokio::{Mode, run};
use loom_core::driver::EqDriver;
use loom_core::endpoint::{Established, Msg};
use loom_core::eq::{ConnectionRequest, EndpointId};
use loom_core::transport::connected::Fid;
use loom_fabric::{
    Caps, Cq, CqAttr, CqDriver, Domain, EndpointAddr, EndpointAttributes, EndpointType, EqAttr, EqEvent, EventQueue,
    Hints, Info, Local, Ofi, ThePeer, Unclaimed, WaitObj,
};
use tokio::select;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::echo_server::client::{self, Plan};
use crate::echo_server::connection::{self, Driver, Link, PATIENCE};
use crate::echo_server::self_test::{self, Fabric, on_this_thread};
use crate::echo_server::server::{Drain, Stats, serve};
use crate::echo_server::{Failure, SERVER};

type Tcp = Ofi<Local>;
type Connection = connection::Connection<Tcp, Msg<Established>>;

/// Number of untaken events of connections. The provider keeps further ones.
const EVENTS: usize = 64;

/// Runs a client in its own process, which exchanges messages until it is killed.
pub(crate) fn run_client(to: SocketAddr) -> Result<(), Failure> {
    on_this_thread(with_connections(to, 1, async |driver, mut connections| {
        let Some(connection) = connections.recv().await else { return Ok(()) };
        for round in 0.. {
            client::exchange(driver, &connection.link, 0, round).await?;
        }
        Ok(())
    }))
}

/// Runs the self-test over loopback. Some clients are processes.
pub(crate) fn self_test(clients: u16) -> Result<String, Failure> {
    self_test::run(&Sockets { listen: SocketAddr::from(([127, 0, 0, 1], 0)) }, clients)
}

#[derive(Clone)]
struct Sockets {
    listen: SocketAddr,
}

impl Fabric for Sockets {
    type Port = SocketAddr;

    async fn serve(
        &self,
        peers: u16,
        drain: Drain,
        stats: Rc<Stats>,
        listening: oneshot::Sender<SocketAddr>,
    ) -> Result<(), Failure> {
        let info = find(&Hints { source: Some(&self.listen.into()), ..hints() })?;
        let side = Side::open(&info, peers)?;
        let listener = side.eq.eq().listen(&info)?;
        // Without a receiver, the address is not needed.
        let _ = listening.send(SocketAddr::try_from(&listener.address()?)?);
        let (arrivals, arrived) = mpsc::channel(16);
        let (door, served) = (side.accept(arrivals, drain.clone()), serve(&side.cq, arrived, drain, &stats));
        let both = async {
            select! { () = served => Ok(()), failed = door => failed }
        };
        run((&side.cq, &side.eq), Mode::Sleep, both).await?
    }

    async fn connect(&self, port: SocketAddr, plans: Vec<Plan>) -> Result<(), Failure> {
        with_connections(port, u16::try_from(plans.len())?, async |driver, connections| {
            client::play(driver, connections, plans).await;
            Ok(())
        })
        .await
    }

    fn process(&self, port: &SocketAddr) -> Option<Command> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.args(["--ignored", "--exact", "echo_server::role_client"]).env(SERVER, port.to_string());
        Some(command)
    }
}

fn hints() -> Hints<'static> {
    let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
    Hints { caps: Caps::MSG, provider: Some("tcp"), endpoint_attr, ..Hints::default() }
}

pub(crate) fn is_tested() -> bool {
    find(&hints()).is_ok_and(|info| info.raw().is_tested())
}

fn find(hints: &Hints<'_>) -> Result<Info<Tcp>, Failure> {
    match Tcp::query(hints) {
        Ok(mut infos) => infos.next(),
        Err(error) if error.is_no_match() => None,
        Err(error) => return Err(error.into()),
    }
    .ok_or_else(|| Failure("libfabric has no connections over `tcp` at this address".into()))
}

/// Connects to a server this number of times, and passes the connections to `play`.
async fn with_connections(
    to: SocketAddr,
    count: u16,
    play: impl AsyncFnOnce(&Driver<Tcp>, mpsc::Receiver<Connection>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let to = EndpointAddr::from(to);
    let info = find(&Hints { destination: Some(&to), ..hints() })?;
    let side = Side::open(&info, count)?;
    let (arrivals, arrived) = mpsc::channel(16);
    let connects = async {
        for _ in 0..count {
            // Without a receiver, the player has ended.
            let _ = arrivals.send(side.connect(&info, &to).await?).await;
        }
        pending().await
    };
    let events = async {
        loop {
            side.ends.tell(&side.eq.next_event().await?);
        }
    };
    let all = async {
        select! {
            played = play(&side.cq, arrived) => played,
            failed = connects => failed,
            failed = events => failed,
        }
    };
    run((&side.cq, &side.eq), Mode::Sleep, all).await?
}

struct Side {
    cq: Driver<Tcp>,
    eq: EqDriver<'static, Tcp>,
    ends: Ends,
}

impl Side {
    fn open(info: &Info<Tcp>, peers: u16) -> Result<Self, Failure> {
        let domain = Domain::open(info)?;
        let cq =
            Cq::open(&domain, CqAttr { endpoints: peers, wait: WaitObj::FD, ..CqAttr::new(connection::depth(peers)) })?;
        let eq = EventQueue::open(&domain, EqAttr { wait: WaitObj::FD, ..EqAttr::default() })?;
        Ok(Side { cq: CqDriver::open(&cq, Unclaimed::Drop)?, eq: EqDriver::open(&eq, EVENTS)?, ends: Ends::default() })
    }

    async fn connect(&self, info: &Info<Tcp>, to: &EndpointAddr) -> Result<Connection, Failure> {
        let endpoint = self.cq.cq().msg_endpoint(self.eq.eq(), info)?;
        let (gone, held) = self.ends.of(endpoint.id());
        let (endpoint, _) =
            timeout(PATIENCE, self.eq.connect(endpoint, to, &[])).await?.map_err(|refused| refused.error)?;
        Ok(Connection { link: Link { endpoint, to: ThePeer }, gone, _held: Box::new(held) })
    }

    /// Accepts requests at the server until it drains, and notifies connections of their ends.
    async fn accept(&self, arrivals: mpsc::Sender<Connection>, drain: Drain) -> Result<(), Failure> {
        let mut accepting = JoinSet::new();
        loop {
            let event = select! {
                event = self.eq.next_event() => event?,
                Some(_) = accepting.join_next() => continue,
            };
            self.ends.tell(&event);
            match event {
                // Dropping a request rejects it.
                EqEvent::Request(request) if *drain.borrow() => drop(request),
                EqEvent::Request(request) => self.answer(request, &arrivals, &mut accepting),
                _ => {}
            }
        }
    }

    /// Begins to accept a request. A server with its maximum number of peers rejects it.
    fn answer(
        &self,
        request: ConnectionRequest<'static, Tcp>,
        arrivals: &mpsc::Sender<Connection>,
        accepting: &mut JoinSet<()>,
    ) {
        let endpoint = match request.endpoint(self.cq.cq(), self.eq.eq()) {
            Ok(endpoint) => endpoint,
            Err(error) => return eprintln!("a peer was rejected: {error:#}"),
        };
        let (gone, held) = self.ends.of(endpoint.id());
        let (eq, arrivals) = (self.eq.clone(), arrivals.clone());
        accepting.spawn_local(async move {
            match timeout(PATIENCE, eq.accept(endpoint, &[])).await {
                Ok(Ok(endpoint)) => {
                    let connection = Connection { link: Link { endpoint, to: ThePeer }, gone, _held: Box::new(held) };
                    // Without a receiver, the server has drained.
                    let _ = arrivals.send(connection).await;
                }
                Ok(Err(refused)) => eprintln!("a peer was not accepted: {:#}", refused.error),
                Err(_) => eprintln!("a peer asked for a connection, and went silent"),
            }
        });
    }
}

/// Connections that are notified of the end of their peer.
#[derive(Clone, Default)]
struct Ends(Rc<RefCell<HashMap<Fid, Waits>>>);

/// Connection that is notified of the end of its endpoint's peer.
type Waits = (EndpointId, oneshot::Sender<()>);

/// Registration for notification, which a drop ends.
struct Told {
    ends: Ends,
    endpoint: Fid,
}

impl Ends {
    /// Returns a receiver that ends when the peer of an endpoint has gone.
    fn of(&self, endpoint: EndpointId) -> (oneshot::Receiver<()>, Told) {
        let (tell, gone) = oneshot::channel();
        self.0.borrow_mut().insert(endpoint.fid, (endpoint, tell));
        (gone, Told { ends: self.clone(), endpoint: endpoint.fid })
    }

    fn tell(&self, event: &EqEvent<'_, Tcp>) {
        let named = match event {
            EqEvent::Shutdown(event) => event.endpoint,
            EqEvent::Failed(failure) => failure.fault.object,
            _ => return,
        };
        let is_of = |endpoint: EndpointId| match event {
            EqEvent::Shutdown(event) => event.is_of(endpoint),
            EqEvent::Failed(failure) => failure.is_of(endpoint),
            _ => false,
        };
        let mut connections = self.0.borrow_mut();
        // The endpoint must not be an earlier one with the same address. Dropping the sender
        // notifies the receiver.
        if connections.get(&named).is_some_and(|(endpoint, _)| is_of(*endpoint)) {
            connections.remove(&named);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.ends.0.borrow_mut().remove(&self.endpoint);
    }
}
