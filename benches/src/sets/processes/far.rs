//! A second process of this program, which plays the far end of a side on another core.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

#[cfg(feature = "iceoryx2")]
use iceoryx2::service::ipc::Service;

use super::frames::Tokio;
use super::offers::{caps, open_info, provider, provider_connections, shared, tcp, tcp_connections};
use super::writes::Writes;
use super::{connections, idle, sockets};
use crate::Failure;
use crate::cores;
use crate::sets::peers::end::{End, Exchange, Play, Round};
#[cfg(feature = "iceoryx2")]
use crate::sets::peers::iceoryx::Iceoryx;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Unix stream socket.
    Unix,
    /// TCP over the loopback device.
    Tcp,
    /// Tokio's TCP, with frames.
    Tokio,
    /// libfabric's shm, driven by loom.
    Shm,
    /// libfabric's endpoints directly over TCP, of version 1.17, driven by loom.
    Net,
    /// libfabric's endpoints directly over TCP, from version 1.18 on, driven by loom.
    FabricTcp,
    /// libfabric's endpoints over TCP endpoints with connections, driven by loom.
    Rxm,
    /// libfabric's TCP endpoints with connections, driven by loom.
    FabricConnection,
    /// Loom's transport over TCP.
    LoomTcp,
    /// As above, over memory that both share.
    LoomShared,
    /// As above, with idle connections beside.
    LoomIdle,
    /// As above, endpoints with connections.
    LoomConnection,
    /// iceoryx2's services for processes.
    #[cfg(feature = "iceoryx2")]
    Iceoryx,
}

impl Kind {
    const ALL: &[Kind] = &[
        Kind::Unix,
        Kind::Tcp,
        Kind::Tokio,
        Kind::Shm,
        Kind::Net,
        Kind::FabricTcp,
        Kind::Rxm,
        Kind::FabricConnection,
        Kind::LoomTcp,
        Kind::LoomShared,
        Kind::LoomIdle,
        Kind::LoomConnection,
        #[cfg(feature = "iceoryx2")]
        Kind::Iceoryx,
    ];

    pub(crate) fn provider(self) -> Option<&'static str> {
        match self {
            Kind::Shm => Some("shm"),
            Kind::Net => Some("net"),
            Kind::FabricTcp | Kind::FabricConnection => Some("tcp"),
            Kind::Rxm => Some("tcp;ofi_rxm"),
            _ => None,
        }
    }

    fn of(name: &str) -> Result<Self, Failure> {
        Ok(*Kind::ALL.iter().find(|known| known.name() == name).ok_or("no such kind")?)
    }

    /// Returns the name in contests, metrics and the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Unix => "unix",
            Kind::Tcp => "tcp",
            Kind::Tokio => "tokio",
            Kind::Shm => "shm",
            Kind::Net => "net",
            Kind::FabricTcp => "libfabric_tcp",
            Kind::Rxm => "tcp_rxm",
            Kind::FabricConnection => "libfabric_tcp_msg",
            Kind::LoomTcp => "loom_tcp",
            Kind::LoomShared => "loom_shared",
            Kind::LoomIdle => "loom_tcp_idle",
            Kind::LoomConnection => "loom_tcp_msg",
            #[cfg(feature = "iceoryx2")]
            Kind::Iceoryx => "iceoryx2",
        }
    }
}

/// Arguments of a far end, and their plays.
const PLAYS: [(&str, Play); 3] = [("answer", Play::Answer), ("stream", Play::Stream), ("write", Play::Write)];

impl Play {
    fn name(self) -> &'static str {
        PLAYS.iter().find(|(_, named)| *named == self).map_or("", |(name, _)| name)
    }

    fn of(name: &str) -> Result<Self, Failure> {
        Ok(PLAYS.iter().find(|(known, _)| *known == name).ok_or("no such play")?.1)
    }
}

/// The other process. It sleeps between the rounds, and spins in them.
struct Far {
    /// Standard input of the process, which ends when it is closed.
    into: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    watch: Option<JoinHandle<()>>,
}

impl Far {
    fn start(kind: Kind, play: Play, len: usize, name: &str) -> Result<Far, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["far", kind.name(), play.name(), &len.to_string(), name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = on_the_other_core(|| command.spawn())?;
        let (into, from) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        // Without its far end a side would poll forever.
        let watch = std::thread::spawn(move || {
            let status = child.wait().expect("the other process can be waited for");
            if !status.success() {
                eprintln!("the other process: {status}");
                std::process::exit(101);
            }
        });
        Ok(Far { into, from: BufReader::new(from), watch: Some(watch) })
    }

    fn exchange(&mut self, text: &str) -> String {
        self.tell(text);
        self.learn()
    }

    fn tell(&mut self, text: &str) {
        let into = self.into.as_mut().expect("open until the end");
        writeln!(into, "{text}").expect("the other process lives");
    }

    /// Begins a round.
    fn begin(&mut self, count: u32) {
        self.exchange(&count.to_string());
    }

    fn learn(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the other process lives");
        line.truncate(line.trim_end().len());
        line
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.into = None;
        // The thread does not panic.
        let _ = self.watch.take().map(JoinHandle::join);
    }
}

/// Starts a process on the second core: it inherits the affinity of this thread.
pub(super) fn on_the_other_core<T>(start: impl FnOnce() -> T) -> T {
    cores::pin(1);
    let started = start();
    cores::pin(0);
    started
}

/// Returns the rounds of two ends in two processes, for messages of `WORDS` words.
pub(crate) fn between_processes<const WORDS: usize>(kind: Kind, play: Play) -> Result<Round<'static>, Failure> {
    let len = 8 * WORDS;
    let name = format!("{}.{play:?}.{len}", std::process::id());
    let mut far = Far::start(kind, play, len, &name)?;
    let exchange: Exchange<'_> = &mut |text| far.exchange(text);
    Ok(match kind {
        Kind::Unix => near(opened(sockets::unix_near(&name, len, exchange)), far, play),
        Kind::Tcp => near(opened(sockets::tcp_near(len, exchange)), far, play),
        Kind::Tokio => {
            let mut end = opened(Tokio::near(len, exchange));
            Box::new(move |count| {
                far.begin(count);
                end.play_near(play, count)
            })
        }
        Kind::FabricConnection => {
            let info = provider_connections(kind.provider().unwrap_or_default());
            near(opened(connections::near(&info, play, len, exchange)), far, play)
        }
        Kind::LoomConnection => near(opened(connections::near(&tcp_connections(), play, len, exchange)), far, play),
        Kind::LoomIdle => near(opened(idle::near(play, len, exchange)), far, play),
        Kind::LoomTcp | Kind::LoomShared => {
            let info = if kind == Kind::LoomTcp { tcp() } else { shared() };
            match play {
                Play::Write => near(Writes::open(&info, len, exchange), far, play),
                _ => near(open_info(&info, play, len, exchange), far, play),
            }
        }
        Kind::Shm | Kind::Net | Kind::FabricTcp | Kind::Rxm => {
            let info = provider(kind.provider().unwrap_or_default(), caps(play));
            match play {
                Play::Write => near(Writes::open(&info, len, exchange), far, play),
                _ => near(open_info(&info, play, len, exchange), far, play),
            }
        }
        #[cfg(feature = "iceoryx2")]
        Kind::Iceoryx => near(Iceoryx::<Service, WORDS>::open(&name, true, play, exchange), far, play),
    })
}

/// Ends both processes if an end fails.
fn opened<E>(end: Result<E, impl Into<Failure>>) -> E {
    end.map_err(Into::into).unwrap_or_else(|error| {
        eprintln!("the end of this process: {error:#}");
        std::process::exit(101)
    })
}

fn near(mut end: impl End + 'static, mut far: Far, play: Play) -> Round<'static> {
    Box::new(move |count| {
        far.begin(count);
        play.near(&mut end, count)
    })
}

/// Runs one round between two processes: `between KIND PLAY LEN COUNT`. Prints the memory of this
/// one.
///
/// # Errors
/// If an argument is unknown, or an end cannot be opened.
pub fn between([kind, play, len, count]: &[String; 4]) -> Result<(), Failure> {
    cores::end_on_panic();
    cores::pin(0);
    let (kind, play) = (Kind::of(kind)?, Play::of(play)?);
    let mut round = match len.as_str() {
        "64" => between_processes::<8>(kind, play)?,
        "1048576" => between_processes::<{ 1 << 17 }>(kind, play)?,
        _ => return Err("no such length".into()),
    };
    round(count.parse()?);
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?.trim());
    Ok(())
}

/// Arguments of [`between`].
pub(in crate::sets) fn between_arguments(kind: Kind, play: Play, len: usize, count: u32) -> [String; 5] {
    ["between".into(), kind.name().into(), play.name().into(), len.to_string(), count.to_string()]
}

/// Runs the other process: `far KIND PLAY LEN NAME`. It ends with its standard input, or with its
/// parent process.
///
/// # Errors
/// If an argument is unknown, or the end cannot be opened.
pub fn far([kind, play, len, name]: &[String; 4]) -> Result<(), Failure> {
    cores::end_on_panic();
    #[cfg(target_os = "linux")]
    // SAFETY: takes a number, and accesses no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    let (kind, play, len) = (Kind::of(kind)?, Play::of(play)?, len.parse()?);
    let exchange: Exchange<'_> = &mut |text| {
        println!("{text}");
        read_line().expect("the first process lives")
    };
    let rounds = std::iter::from_fn(|| {
        let count = read_line()?.parse().expect("a number");
        println!();
        Some(count)
    });
    match kind {
        Kind::Unix => play.far(sockets::unix_far(name, len, exchange)?, rounds),
        Kind::Tcp => play.far(sockets::tcp_far(len, exchange)?, rounds),
        Kind::Tokio => Tokio::far(len, exchange)?.play_far(play, rounds)?,
        Kind::FabricConnection => {
            let info = provider_connections(kind.provider().unwrap_or_default());
            play.far(connections::far(&info, play, len, exchange)?, rounds);
        }
        Kind::LoomConnection => play.far(connections::far(&tcp_connections(), play, len, exchange)?, rounds),
        Kind::LoomIdle => play.far(idle::far(play, len, exchange)?, rounds),
        Kind::LoomTcp | Kind::LoomShared => {
            let info = if kind == Kind::LoomTcp { tcp() } else { shared() };
            match play {
                Play::Write => play.far(Writes::open(&info, len, exchange), rounds),
                _ => play.far(open_info(&info, play, len, exchange), rounds),
            }
        }
        Kind::Shm | Kind::Net | Kind::FabricTcp | Kind::Rxm => {
            let info = provider(kind.provider().unwrap_or_default(), caps(play));
            match play {
                Play::Write => play.far(Writes::open(&info, len, exchange), rounds),
                _ => play.far(open_info(&info, play, len, exchange), rounds),
            }
        }
        #[cfg(feature = "iceoryx2")]
        Kind::Iceoryx => match len {
            8 => play.far(Iceoryx::<Service, 1>::open(name, false, play, exchange), rounds),
            1024 => play.far(Iceoryx::<Service, 128>::open(name, false, play, exchange), rounds),
            65536 => play.far(Iceoryx::<Service, 8192>::open(name, false, play, exchange), rounds),
            _ => return Err("no such length".into()),
        },
    }
    Ok(())
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}
