//! Self-test: a server, clients in threads, and clients in processes that are killed. Every wait
//! has a limit.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::echo_server::Failure;
use crate::echo_server::admin;
use crate::echo_server::client::{self, Plan, Report};
use crate::echo_server::server::{Drain, Stats};

/// Limit of the whole test.
const LIMIT: Duration = Duration::from_secs(120);

/// Number of threads of clients.
const THREADS: usize = 4;

/// Number of processes, which are killed.
const PROCESSES: usize = 2;

/// Time for which a process sends before it is killed.
const LIFE: Duration = Duration::from_millis(200);

/// Fabric of the connections.
pub(crate) trait Fabric: Clone + Send + 'static {
    /// Address of a server.
    type Port: Clone + Send + 'static;

    /// Serves up to `peers` clients until the server has drained.
    async fn serve(
        &self,
        peers: u16,
        drain: Drain,
        stats: Rc<Stats>,
        listening: oneshot::Sender<Self::Port>,
    ) -> Result<(), Failure>;

    /// Connects a client for each plan in this thread, and runs them.
    async fn connect(&self, port: Self::Port, plans: Vec<Plan>) -> Result<(), Failure>;

    /// Returns the command of a process that is a client, if the fabric permits processes.
    fn process(&self, _: &Self::Port) -> Option<Command> {
        None
    }
}

/// Runs a future in a runtime of this thread, which can spawn local tasks.
pub(crate) fn on_this_thread<O>(future: impl Future<Output = Result<O, Failure>>) -> Result<O, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(future))
}

pub(crate) fn run(fabric: &impl Fabric, clients: u16) -> Result<String, Failure> {
    on_this_thread(async { timeout(LIMIT, referee(fabric.clone(), clients)).await? })
}

async fn referee<F: Fabric>(fabric: F, clients: u16) -> Result<String, Failure> {
    let stats = Rc::<Stats>::default();
    let admin = TcpListener::bind("127.0.0.1:0").await?;
    let admin_at = admin.local_addr()?;
    spawn_local(admin::answer(admin, Rc::clone(&stats)));
    let (begin_drain, drain) = watch::channel(false);
    let (listening, port) = oneshot::channel();
    let server = spawn_local({
        let (fabric, stats) = (fabric.clone(), Rc::clone(&stats));
        let peers = clients.saturating_add(u16::try_from(PROCESSES)?);
        async move { fabric.serve(peers, drain, stats, listening).await }
    });
    let Ok(port) = port.await else {
        server.await??;
        return Err(failed("the server has ended before it listened"));
    };

    let processes = Processes::start(&fabric, &port)?;
    let (told, reports) = mpsc::unbounded_channel();
    let (all_verified, wait) = watch::channel(false);
    let plans: Vec<_> = (0..u64::from(clients)).map(|number| Plan::new(number, told.clone(), wait.clone())).collect();
    let dying = plans.iter().filter(|plan| plan.dies()).count();
    let living = plans.len() - dying;
    let threads: Vec<_> = plans
        .chunks(plans.len().div_ceil(THREADS))
        .map(|plans| {
            let (fabric, port, plans, told) = (fabric.clone(), port.clone(), plans.to_vec(), told.clone());
            thread::spawn(move || {
                if let Err(failure) = on_this_thread(async { fabric.connect(port, plans).await }) {
                    // Without a receiver, the self-test has failed already.
                    let _ = told.send(Err(format!("{failure:?}")));
                }
            })
        })
        .collect();

    let mut reports = Reports { reports, seen: HashMap::new() };
    reports.until(Report::Verified, living).await?;
    reports.until(Report::Died, dying).await?;
    peers_are(admin_at, living + processes.len()).await?;
    sleep(LIFE).await;
    let killed = processes.len();
    drop(processes);
    // Dead clients have ended their own tasks alone.
    peers_are(admin_at, living).await?;

    all_verified.send(true)?;
    reports.until(Report::InFlight, living).await?;
    begin_drain.send(true)?;
    server.await??;
    reports.until(Report::Ended, living).await?;
    for thread in threads {
        thread.join().map_err(|_| failed("a thread of clients has panicked"))?;
    }
    let wanted = u64::try_from(living)? * client::MESSAGES;
    if stats.messages.get() < wanted {
        return Err(failed(format!("{} messages were echoed, of {wanted} at least", stats.messages.get())));
    }
    Ok(format!(
        "{living} clients had every byte echoed, {dying} died and {killed} were killed in between; drained: {stats}"
    ))
}

fn failed(text: impl Into<String>) -> Failure {
    Failure(text.into())
}

struct Reports {
    reports: mpsc::UnboundedReceiver<Result<Report, String>>,
    seen: HashMap<Report, usize>,
}

impl Reports {
    /// Waits until `count` clients have sent this report, or one has failed.
    async fn until(&mut self, report: Report, count: usize) -> Result<(), Failure> {
        while self.seen.get(&report).copied().unwrap_or_default() < count {
            match self.reports.recv().await {
                Some(Ok(report)) => *self.seen.entry(report).or_default() += 1,
                Some(Err(text)) => return Err(failed(format!("a client: {text}"))),
                None => return Err(failed("the clients have ended")),
            }
        }
        Ok(())
    }
}

/// Polls the admin port until the server has this number of peers. The limit of the whole test
/// bounds it.
async fn peers_are(admin: SocketAddr, wanted: usize) -> Result<(), Failure> {
    loop {
        let mut socket = TcpStream::connect(admin).await?;
        socket.write_all(b"stats\n").await?;
        socket.shutdown().await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        if answer.split(' ').nth(1) == Some(&wanted.to_string()) {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Clients in processes, which a drop kills.
struct Processes(Vec<Child>);

impl Processes {
    fn start<F: Fabric>(fabric: &F, port: &F::Port) -> Result<Self, Failure> {
        let mut processes = Processes(Vec::new());
        for mut command in (0..PROCESSES).filter_map(|_| fabric.process(port)) {
            processes.0.push(command.spawn()?);
        }
        Ok(processes)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // A process that cannot be killed has ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
