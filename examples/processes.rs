//! Messages between two processes of a host through memory that they share, without libfabric.
//!
//! ```text
//! cargo run --release --example processes [ROUNDS]
//! ```

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use loom_fabric::{Av, Cq, Domain, Endpoint, EndpointAddr, Error, Hints, Peer, Source, Tag};
use loom_tcp::{Tcp, TcpAttr, query};

const TAG: Tag = Tag(1);
const LIMIT: Duration = Duration::from_secs(20);

struct End {
    endpoint: Endpoint<'static, Tcp, Vec<u8>>,
    cq: Cq<'static, Tcp, Vec<u8>>,
    av: Av<'static, Tcp>,
}

impl End {
    fn open() -> Result<Self, Error> {
        // Rings of 256 KiB in each direction. A peer that cannot share them uses the socket.
        let attr = TcpAttr { shared_memory: 1 << 18, ..TcpAttr::DEFAULT };
        let domain = Domain::open(&query(&Hints::default(), attr)?)?;
        let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, 16)?);
        Ok(End { endpoint: cq.endpoint(&av)?, cq, av })
    }

    fn send(&self, to: Peer, message: u64) -> Result<(), Error> {
        let until = Instant::now() + LIMIT;
        let message = message.to_le_bytes().to_vec();
        let sent = self.cq.post(message, until, |message| self.endpoint.tagged_send(to, TAG, message))?;
        self.cq.finish(sent, until)?.result()?;
        Ok(())
    }

    fn recv(&self) -> Result<u64, Error> {
        let until = Instant::now() + LIMIT;
        let received = self.cq.post(vec![0; 8], until, |room| self.endpoint.tagged_recv(Source::Any, TAG, room))?;
        let bytes = self.cq.finish(received, until)?.into_buf();
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }
}

/// The second process.
fn answer(first: &EndpointAddr, rounds: u64) -> Result<(), Box<dyn std::error::Error>> {
    let end = End::open()?;
    let to = end.av.insert(first)?;
    println!("{}", end.endpoint.address()?);
    for _ in 0..rounds {
        let message = end.recv()?;
        end.send(to, message + 1)?;
    }
    Ok(())
}

/// The first process. Returns the median of half round trips, and the other process's exit.
fn run(child: &mut Child, end: &End, rounds: u64) -> Result<(Duration, ExitStatus), Box<dyn std::error::Error>> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
    let to = end.av.insert(&line.trim().parse()?)?;
    let mut times = Vec::new();
    for round in 0..rounds {
        let begin = Instant::now();
        end.send(to, 2 * round)?;
        assert_eq!(end.recv()?, 2 * round + 1);
        times.push(begin.elapsed() / 2);
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], child.wait()?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [rounds, address] = &arguments[..] {
        return answer(&address.parse()?, rounds.parse()?);
    }
    let rounds = arguments.first().map_or(Ok(10_000), |rounds| rounds.parse())?;
    let end = End::open()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([rounds.to_string(), end.endpoint.address()?.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let outcome = run(&mut child, &end, rounds);
    // Without its peer, it waits for a message.
    let _ = child.kill();
    let (median, status) = outcome?;
    println!("{rounds} round trips, half of one takes {median:?} (median), the second process: {status}");
    Ok(())
}
