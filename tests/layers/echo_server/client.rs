//! Clients that send messages and verify every byte of the echoes.

use std::time::Duration;

use loom_fabric::Transport;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::echo_server::Failure;
use crate::echo_server::connection::{Bytes, Connection, Driver, Kind, Link, MAX_MESSAGE, PATIENCE};

/// Number of messages that a client of the self-test has echoed.
pub(crate) const MESSAGES: u64 = ONE_BY_ONE + AT_ONCE;

/// Number of messages that are sent one after the other.
const ONE_BY_ONE: u64 = 20;

/// Number of messages that are sent while the server begins to drain.
const AT_ONCE: u64 = 4;

/// Time for which a dying client sends without receives. By its end, its messages and their echoes
/// are stuck.
const LIFE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Report {
    /// The single messages came back unchanged.
    Verified,
    /// The client has closed its endpoint with messages in flight.
    Died,
    /// The client has sent messages, and has not received their echoes.
    InFlight,
    /// All echoes have arrived, and then the end of the connection.
    Ended,
}

#[derive(Clone)]
pub(crate) struct Plan {
    number: u64,
    told: mpsc::UnboundedSender<Result<Report, String>>,
    all_verified: watch::Receiver<bool>,
}

impl Plan {
    pub(crate) fn new(
        number: u64,
        told: mpsc::UnboundedSender<Result<Report, String>>,
        all_verified: watch::Receiver<bool>,
    ) -> Self {
        Plan { number, told, all_verified }
    }

    /// Returns `true` if the client closes its endpoint with messages in flight: one in ten.
    pub(crate) fn dies(&self) -> bool {
        self.number % 10 == 3
    }

    fn tell(&self, what: Result<Report, String>) {
        // Without a receiver, the self-test has failed already.
        let _ = self.told.send(what);
    }
}

/// Runs clients by their plans, each over one of the connections.
pub(crate) async fn play<T: Transport, K: Kind<T>>(
    driver: &Driver<T>,
    mut connections: mpsc::Receiver<Connection<T, K>>,
    plans: Vec<Plan>,
) {
    let mut clients = JoinSet::new();
    for plan in plans {
        let Some(connection) = connections.recv().await else { break };
        let driver = driver.clone();
        clients.spawn_local(async move {
            if let Err(failure) = play_one(&driver, connection, &plan).await {
                plan.tell(Err(format!("number {}: {failure:?}", plan.number)));
            }
        });
    }
    clients.join_all().await;
}

async fn play_one<T: Transport, K: Kind<T>>(
    driver: &Driver<T>,
    mut connection: Connection<T, K>,
    plan: &Plan,
) -> Result<(), Failure> {
    let link = &connection.link;
    if plan.dies() {
        // Without receives the server's echoes get stuck, and then these messages.
        let sends = async { while link.send(driver, pattern(0, 0, MAX_MESSAGE)).await.is_ok() {} };
        let _ = timeout(LIFE, sends).await;
        drop(connection);
        plan.tell(Ok(Report::Died));
        return Ok(());
    }
    for round in 0..ONE_BY_ONE {
        exchange(driver, link, plan.number, round).await?;
    }
    plan.tell(Ok(Report::Verified));
    let mut all_verified = plan.all_verified.clone();
    timeout(2 * PATIENCE, all_verified.wait_for(|all| *all)).await??;

    let sent = (ONE_BY_ONE..MESSAGES).map(|round| pattern(plan.number, round, 100));
    let sends = futures_util::future::try_join_all(sent.map(|message| link.send(driver, message)));
    let receives = async {
        plan.tell(Ok(Report::InFlight));
        for round in ONE_BY_ONE..MESSAGES {
            check(driver, link, &pattern(plan.number, round, 100)).await?;
        }
        Ok::<_, Failure>(())
    };
    // The first is polled first, so all messages are sent before the report.
    let (sent, received) = futures_util::join!(sends, receives);
    sent?;
    received?;
    // The end is reported without a reason.
    let _ = timeout(PATIENCE, &mut connection.gone).await?;
    plan.tell(Ok(Report::Ended));
    Ok(())
}

pub(crate) async fn exchange<T: Transport, K: Kind<T>>(
    driver: &Driver<T>,
    link: &Link<T, K>,
    client: u64,
    round: u64,
) -> Result<(), Failure> {
    let len = LENS[usize::try_from(round)? % LENS.len()];
    let message = pattern(client, round, len);
    let expected = message.clone();
    // At once, because a long message may wait for its receive.
    let (sent, received) = futures_util::join!(link.send(driver, message), check(driver, link, &expected));
    sent?;
    received
}

const LENS: [usize; 5] = [1, 100, 1000, 10_000, MAX_MESSAGE];

async fn check<T: Transport, K: Kind<T>>(
    driver: &Driver<T>,
    link: &Link<T, K>,
    expected: &[u8],
) -> Result<(), Failure> {
    let echo = timeout(PATIENCE, link.receive(driver, Bytes::new())).await??;
    if echo == expected {
        return Ok(());
    }
    let place = echo.iter().zip(expected).position(|(got, expected)| got != expected);
    Err(Failure(format!("an echo of {} bytes for {}, which differ at {place:?}", echo.len(), expected.len())))
}

/// Bytes that identify their client and message.
fn pattern(client: u64, round: u64, len: usize) -> Bytes {
    let seed = client.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(round);
    (0..len as u64)
        .map(|at| (seed.wrapping_add(at).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 56).to_le_bytes()[0])
        .collect()
}
