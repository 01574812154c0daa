//! An echo server of connections (`FI_EP_MSG`), with a plain TCP socket in the same tokio thread.
//!
//! ```text
//! echo_server [--listen ADDRESS:PORT] [--admin ADDRESS:PORT]      until Ctrl-C
//! echo_server --connect ADDRESS:PORT                              verifies echoes
//! nc 127.0.0.1 47611                                              number of messages
//! ```
//!
//! `echo_server` is `cargo run --release --example echo_server --`. Each peer
//! has a task. Ctrl-C drains the server: it rejects new peers, and closes silent connections.

mod common;

use std::cell::Cell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use loom_async::tokio::{Mode, run};
use loom_fabric::loom_core::driver::EqDriver;
use loom_fabric::loom_core::eq::EndpointId;
use loom_fabric::{
    Caps, Cq, CqAttr, CqDriver, Domain, EndpointAddr, EndpointAttributes, EndpointType, EqAttr, EqEvent, Error,
    EventQueue, Hints, Info, MsgEndpoint, ThePeer, Unclaimed, WaitObj,
};
use loom_tcp::{Tcp, TcpAttr};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::select;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet, spawn_local};
use tokio::time::{sleep, timeout};

use common::Failure;

type Connection = MsgEndpoint<'static, Tcp, Vec<u8>>;

const PEERS: u16 = 600;
const MAX_MESSAGE: usize = 64 << 10;
const MESSAGES: u32 = 100;
/// For a connection attempt, or an echo.
const PATIENCE: Duration = Duration::from_secs(30);
/// A peer that is silent for so long has no message in flight.
const QUIET: Duration = Duration::from_millis(500);

struct Queues {
    cq: CqDriver<'static, Tcp, Vec<u8>>,
    eq: EqDriver<'static, Tcp>,
    messages: Cell<u64>,
}

impl Queues {
    fn open(info: &Info<Tcp>) -> Result<Self, Error> {
        let domain = Domain::open(info)?;
        let attr = CqAttr { endpoints: PEERS, wait: WaitObj::FD, ..CqAttr::new(4 * usize::from(PEERS)) };
        let cq = CqDriver::open(&Cq::open(&domain, attr)?, Unclaimed::Drop)?;
        let eq = EqDriver::open(&EventQueue::open(&domain, EqAttr { wait: WaitObj::FD, ..EqAttr::default() })?, 64)?;
        Ok(Queues { cq, eq, messages: Cell::new(0) })
    }

    async fn send(&self, connection: &Connection, message: Vec<u8>) -> Result<Vec<u8>, Error> {
        Ok(self.cq.run(message, |message| connection.send(ThePeer, message)).await?.into_result()?.0)
    }

    async fn receive(&self, connection: &Connection, mut room: Vec<u8>) -> Result<Vec<u8>, Error> {
        room.resize(MAX_MESSAGE, 0);
        let (mut message, transfer) = self.cq.run(room, |room| connection.recv(ThePeer, room)).await?.into_result()?;
        message.truncate(transfer.len);
        Ok(message)
    }

    /// Ends when the peer leaves, or is quiet while the server drains.
    async fn echo(&self, connection: Connection, mut drain: watch::Receiver<bool>) -> Result<(), Failure> {
        let mut buf = Vec::new();
        loop {
            let quiet = async { (drain.wait_for(|drains| *drains).await.is_ok(), sleep(QUIET).await) };
            let received = select! {
                // A message that has arrived is echoed.
                biased;
                received = self.receive(&connection, buf) => received,
                _ = quiet => return Ok(()),
            };
            // The receive fails if the peer has left.
            let Ok(message) = received else { return Ok(()) };
            buf = self.send(&connection, message).await?;
            self.messages.set(self.messages.get() + 1);
        }
    }

    async fn serve(self: Rc<Self>, mut drain: watch::Receiver<bool>) -> Result<String, Failure> {
        let mut tasks = JoinSet::<Result<(), Failure>>::new();
        let mut peers: Vec<(EndpointId, AbortHandle)> = Vec::new();
        while !(*drain.borrow() && tasks.is_empty()) {
            let draining = *drain.borrow();
            let event = select! {
                event = self.eq.next_event() => event?,
                Some(ended) = tasks.join_next() => {
                    if let Ok(Err(error)) = ended {
                        eprintln!("a connection failed: {error:#}");
                    }
                    peers.retain(|(_, task)| !task.is_finished());
                    continue;
                }
                _ = drain.changed(), if !draining => continue,
            };
            let ended = |is_of: &dyn Fn(EndpointId) -> bool| {
                peers.iter().filter(|(id, _)| is_of(*id)).for_each(|(_, task)| task.abort());
            };
            match event {
                // A dropped request is rejected.
                EqEvent::Request(_) if draining || tasks.len() == usize::from(PEERS) => {}
                EqEvent::Request(request) => {
                    let Ok(endpoint) = request.endpoint(self.cq.cq(), self.eq.eq()) else { continue };
                    let (here, drain, id) = (Rc::clone(&self), drain.clone(), endpoint.id());
                    let task = tasks.spawn_local(async move {
                        let connection =
                            timeout(PATIENCE, here.eq.accept(endpoint, &[])).await?.map_err(|refused| refused.error)?;
                        here.echo(connection, drain).await
                    });
                    peers.push((id, task));
                }
                EqEvent::Shutdown(event) => ended(&|id| event.is_of(id)),
                EqEvent::Failed(failure) => ended(&|id| failure.is_of(id)),
                _ => {}
            }
        }
        Ok(format!("drained: {} messages\n", self.messages.get()))
    }
}

fn find(hints: &Hints<'_>) -> Result<Info<Tcp>, Failure> {
    let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
    let attr = TcpAttr { endpoints: PEERS + 1, connections: PEERS, ..TcpAttr::DEFAULT };
    Ok(loom_tcp::query(&Hints { caps: Caps::MSG, endpoint_attr, ..*hints }, attr)?)
}

async fn serve(at: SocketAddr, admin: SocketAddr) -> Result<String, Failure> {
    let info = find(&Hints { source: Some(&at.into()), ..Hints::default() })?;
    let queues = Rc::new(Queues::open(&info)?);
    let _listener = queues.eq.eq().listen(&info)?;
    let (socket, server) = (TcpListener::bind(admin).await?, Rc::clone(&queues).serve(common::ctrl_c()?));
    println!("listening at {at}, number of messages at {admin}, Ctrl-C drains");
    let here = Rc::clone(&queues);
    spawn_local(async move {
        while let Ok((mut stream, _)) = socket.accept().await {
            let _ = stream.write_all(format!("{} messages\n", here.messages.get()).as_bytes()).await;
        }
    });
    run((&queues.cq, &queues.eq), Mode::Sleep, server).await?
}

async fn connect(to: EndpointAddr) -> Result<String, Failure> {
    let info = find(&Hints { destination: Some(&to), ..Hints::default() })?;
    let queues = Queues::open(&info)?;
    let play = async {
        let endpoint = queues.cq.cq().msg_endpoint(queues.eq.eq(), &info)?;
        let (connection, _) =
            timeout(PATIENCE, queues.eq.connect(endpoint, &to, &[])).await?.map_err(|refused| refused.error)?;
        for number in 0..MESSAGES {
            let len = [1, 100, 10_000, MAX_MESSAGE][usize::try_from(number % 4)?];
            let message: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(len).collect();
            // Both at once: a long message may wait for the receive of its echo.
            let (sent, echo) = (queues.send(&connection, message.clone()), queues.receive(&connection, vec![]));
            if timeout(PATIENCE, async { tokio::try_join!(sent, echo) }).await??.1 != message {
                return Err(format!("message {number} has another echo").into());
            }
        }
        Ok(format!("{MESSAGES} echoes verified\n"))
    };
    run((&queues.cq, &queues.eq), Mode::Sleep, play).await?
}

fn main() -> ExitCode {
    common::exit("echo_server", run_options())
}

fn run_options() -> Result<String, Failure> {
    use lexopt::prelude::*;

    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (mut listen, mut admin, mut to) = (local(47610), local(47611), None);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("listen") => listen = parser.value()?.parse()?,
            Long("admin") => admin = parser.value()?.parse()?,
            Long("connect") => to = Some(parser.value()?.parse::<SocketAddr>()?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    match to {
        None => common::block_on(serve(listen, admin)),
        Some(to) => common::block_on(connect(to.into())),
    }
}
