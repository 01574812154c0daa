//! Server with a task for each peer, and draining.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use loom_fabric::{Error, Transport};
use tokio::select;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::echo_server::connection::{Bytes, Connection, Driver, Kind};

/// Signal that ends the server. It turns to `true` once.
pub(crate) type Drain = watch::Receiver<bool>;

/// Time without messages after which, in a draining server, a peer has no messages in flight.
const QUIET: Duration = Duration::from_millis(500);

/// Time within which the end of a peer is reported after its receives fail.
const TOLD: Duration = Duration::from_secs(1);

/// Maximum time of draining, for peers that never stop sending.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Counts of the server, which stay on its thread.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Number of connected peers.
    pub(crate) peers: Cell<u64>,
    /// Number of all peers so far.
    pub(crate) served: Cell<u64>,
    /// Number of peers with a connection that failed during an echo.
    pub(crate) failed: Cell<u64>,
    pub(crate) messages: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { peers, served, failed, messages, bytes } = self;
        let (peers, served, failed) = (peers.get(), served.get(), failed.get());
        write!(f, "peers {peers} served {served} failed {failed} messages {} bytes {}", messages.get(), bytes.get())
    }
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

enum End {
    Left,
    /// The server drains, and the peer was quiet.
    Drained,
}

pub(crate) async fn serve<T: Transport, K: Kind<T>>(
    driver: &Driver<T>,
    mut arrivals: mpsc::Receiver<Connection<T, K>>,
    mut drain: Drain,
    stats: &Rc<Stats>,
) {
    let (mut peers, for_peers) = (JoinSet::new(), drain.clone());
    loop {
        select! {
            arrival = arrivals.recv() => {
                let Some(connection) = arrival else { break };
                let (driver, drain, counts) = (driver.clone(), for_peers.clone(), Rc::clone(stats));
                add(&stats.peers, 1);
                add(&stats.served, 1);
                peers.spawn_local(async move { echo(&driver, connection, drain, &counts).await });
            }
            Some(ended) = peers.join_next() => account_for(ended, stats),
            _ = drain.wait_for(|drains| *drains) => break,
        }
    }
    // Connections without a task are closed here.
    drop(arrivals);
    let all_end = async {
        while let Some(ended) = peers.join_next().await {
            account_for(ended, stats);
        }
    };
    if timeout(DRAIN_LIMIT, all_end).await.is_err() {
        eprintln!("{} peers never stopped sending; they are cut off", peers.len());
        add(&stats.failed, peers.len() as u64);
        peers.shutdown().await;
        stats.peers.set(0);
    }
}

/// Counts the end of one peer's task. A failure or panic does not affect the others.
fn account_for(ended: Result<Result<End, Error>, JoinError>, stats: &Stats) {
    stats.peers.set(stats.peers.get() - 1);
    match ended {
        Ok(Ok(End::Left | End::Drained)) => return,
        Ok(Err(error)) => eprintln!("a peer's connection failed: {error:#}"),
        Err(error) => eprintln!("a peer's task failed: {error:#}"),
    }
    add(&stats.failed, 1);
}

async fn echo<T: Transport, K: Kind<T>>(
    driver: &Driver<T>,
    mut connection: Connection<T, K>,
    mut drain: Drain,
    stats: &Stats,
) -> Result<End, Error> {
    let mut buf = Bytes::new();
    loop {
        // A received message is not dropped if the peer goes or the server drains meanwhile.
        let message = select! {
            biased;
            message = connection.link.receive(driver, buf) => match message {
                Ok(message) => message,
                // A receive may end before the close of the connection is reported.
                Err(_) if timeout(TOLD, &mut connection.gone).await.is_ok() => return Ok(End::Left),
                Err(error) => return Err(error),
            },
            _ = &mut connection.gone => return Ok(End::Left),
            () = quiet(&mut drain) => return Ok(End::Drained),
        };
        let len = message.len();
        buf = select! {
            biased;
            buf = connection.link.send(driver, message) => buf?,
            _ = &mut connection.gone => return Ok(End::Left),
        };
        add(&stats.messages, 1);
        add(&stats.bytes, len as u64);
    }
}

/// Waits until the server drains, and then for the time that a peer may be quiet.
async fn quiet(drain: &mut Drain) {
    // If the sender has gone, the server ends, too.
    let _ = drain.wait_for(|drains| *drains).await;
    sleep(QUIET).await;
}
