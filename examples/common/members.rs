//! Members of a group: threads over memory, processes over a provider of libfabric.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use loom_fabric::{Cq, Deadline, Domain, EndpointAddr, Hints, Info, Network, NetworkAttr, Program, Transport};
use loom_group::bootstrap::{Board, Bootstrap, InProcess, Slots, Tcp, TcpAttr};
use loom_group::exchange::Record;

use crate::common::{self, Failure};

const LIMIT: Duration = Duration::from_secs(60);

/// Yields the processor, because there may be more members than cores.
#[derive(Clone, Copy)]
pub(crate) struct Until(Instant);

pub(crate) fn soon() -> Until {
    Until(Instant::now() + LIMIT)
}

impl Deadline for Until {
    fn passed(&mut self) -> bool {
        thread::yield_now();
        self.0.passed()
    }
}

pub(crate) trait Member: Sync {
    fn run<T: Transport + 'static>(
        &self,
        domain: &Domain<'static, T>,
        ranks: &mut dyn Bootstrap,
    ) -> Result<String, Failure>;
}

#[derive(Clone, Copy)]
pub(crate) struct Ranks {
    pub(crate) size: u32,
    /// Without one, this process is rank 0 and starts the others.
    pub(crate) rank: Option<u32>,
    /// Listening address of rank 0.
    pub(crate) at: SocketAddr,
}

pub(crate) fn run(hints: &Hints<'_>, ranks: Ranks, member: &impl Member) -> Result<String, Failure> {
    if hints.provider != Some("soft") {
        return common::over(hints, Process { ranks, member });
    }
    let network = Network::new(NetworkAttr { endpoints: u16::try_from(ranks.size)?, ..NetworkAttr::DEFAULT })?;
    let domain = &Domain::open(&network.query(hints)?)?;
    let board = &Board::open(ranks.size, Record::max_len(0))?;
    let run = |rank| member.run(domain, &mut InProcess::join(board, rank)?);
    thread::scope(|threads| {
        let run = |rank| threads.spawn(move || run(rank).map_err(|error: Failure| format!("{error:#}")));
        let members: Vec<_> = (0..ranks.size).map(run).collect();
        let texts = members.into_iter().map(|member| member.join().map_err(|_| "a member has panicked")?);
        Ok(texts.collect::<Result<Vec<_>, String>>()?.swap_remove(0))
    })
}

pub(crate) fn exchange(ranks: &mut dyn Bootstrap, address: EndpointAddr) -> Result<Vec<EndpointAddr>, Failure> {
    let mut mine = [0; Record::max_len(0)];
    let len = Record::new(address, 0, 0, &[]).encode(&mut mine)?;
    let mut memory = vec![0; Slots::memory_len(usize::try_from(ranks.size())?, Record::max_len(0))];
    let mut all = Slots::new(&mut memory, ranks.size());
    ranks.all_gather(&mine[..len], &mut all, &mut soon())?;
    all.iter().map(|bytes| Ok(Record::decode(bytes)?.address().clone())).collect()
}

/// Progress on the queue delivers the last messages to the other members.
pub(crate) fn part<T: Transport + 'static>(
    ranks: &mut dyn Bootstrap,
    cq: &Cq<'static, T, Vec<u8>>,
) -> Result<(), Failure> {
    struct Progress<'c, T: Transport + 'static>(Until, &'c Cq<'static, T, Vec<u8>>);
    impl<T: Transport> Deadline for Progress<'_, T> {
        fn passed(&mut self) -> bool {
            self.1.progress().is_err() || self.0.passed()
        }
    }
    Ok(ranks.barrier(&mut Progress(soon(), cq))?)
}

struct Process<'m, M> {
    ranks: Ranks,
    member: &'m M,
}

impl<M: Member> Program for Process<'_, M> {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        let Ranks { size, rank, at } = self.ranks;
        let mut attr = TcpAttr { rendezvous: at, size, limit: Record::max_len(0), job: 0 };
        // Dropped after the bootstrap: the others end when its connections close.
        let mut others = Others(Vec::new());
        let mut bootstrap = match rank {
            Some(rank) => Tcp::open(&attr, rank, &mut soon())?,
            None => {
                let listener = TcpListener::bind(at)?;
                attr.rendezvous = listener.local_addr()?;
                (1..size).try_for_each(|rank| others.start(rank, attr.rendezvous))?;
                Tcp::host(listener, &attr, &mut soon())?
            }
        };
        let text = self.member.run(&Domain::open(info)?, &mut bootstrap)?;
        for other in &mut others.0 {
            if !other.wait()?.success() {
                return Err("a member has failed".into());
            }
        }
        Ok(if bootstrap.rank() == 0 { text } else { String::new() })
    }
}

struct Others(Vec<Child>);

impl Others {
    /// Starts this program again with a rank.
    fn start(&mut self, rank: u32, at: SocketAddr) -> Result<(), Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1));
        command.args(["--rank", &rank.to_string(), "--at", &at.to_string()]);
        self.0.push(command.stdin(Stdio::null()).spawn()?);
        Ok(())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // A killed process leaves its shared memory behind.
        let deadline = Instant::now() + Duration::from_secs(5);
        for other in &mut self.0 {
            while matches!(other.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}
