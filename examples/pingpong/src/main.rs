//! Ping-pong of two threads: verifies every byte of messages, tagged messages and RMA writes, and
//! measures half round trips.
//!
//! ```text
//! cargo run --release -p pingpong                                         the software transport
//! cargo run --release -p pingpong --features tcp -- loom-tcp              TCP in Rust
//! cargo run --release -p pingpong --features libfabric -- 'tcp;ofi_rxm'   a provider of libfabric
//! ```
//!
//! `loom pingpong` of the command (`cli`) measures between processes and hosts, too.

use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;

use loom_fabric::{AnyInfo, Caps, Hints, Info, Transport};

use side::{Side, VERIFIED};

#[path = "../../../cli/src/play/cores.rs"]
mod cores;
mod side;

const CAPS: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA);

type Failure = Box<dyn Error + Send + Sync>;

fn play<T: Transport + 'static>(info: &Info<T>) -> Result<(), Failure>
where
    Info<T>: Sync,
{
    let pair = cores::two();
    let is_shared = pair.is_none();
    match pair {
        Some([one, other]) => println!("{}: two threads, on the processors {one} and {other}", info.provider()),
        None => eprintln!("warning: both threads run on one processor: the times are those of its scheduler"),
    }
    println!("half round trips in ns; every byte of {VERIFIED} rounds of each size is checked");
    println!("{:<8}{:>9}{:>9}{:>12}{:>12}{:>10}", "", "bytes", "rounds", "min", "median", "GB/s");
    let ((to_other, from_one), (to_one, from_other)) = (channel(), channel());
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let mut side = Side::open(info, is_shared, &to_one, &from_one)?;
            let _bound = pair.and_then(|[_, core]| cores::bind(core));
            side.play_all(false)?;
            // The peer closes first, after the last message has arrived.
            while !matches!(from_one.try_recv(), Err(TryRecvError::Disconnected)) {
                side.cq.poll()?;
            }
            Ok::<_, Failure>(())
        });
        let one = Side::open(info, is_shared, &to_other, &from_other).and_then(|mut side| {
            let _bound = pair.and_then(|[core, _]| cores::bind(core));
            side.play_all(true)
        });
        drop(to_other);
        let other = other.join().map_err(|_| "the other thread has panicked")?;
        one.and(other)
    })
}

fn run() -> Result<(), Failure> {
    let provider = std::env::args().nth(1).unwrap_or_else(|| "soft".into());
    match &AnyInfo::query(&Hints { caps: CAPS, ..Hints::local(&provider) })?[0] {
        #[cfg(feature = "libfabric")]
        AnyInfo::Libfabric(info) => {
            use loom_fabric::ofi::Library;

            if provider == "shm" && Library::get()?.version().major >= 2 {
                return Err("shm of libfabric 2 crashes between two endpoints of one process: `loom pingpong --listen` plays between two".into());
            }
            play(info)
        }
        #[cfg(feature = "tcp")]
        AnyInfo::Tcp(info) => play(info),
        AnyInfo::Soft(info) => play(info),
        other => Err(format!("{other:?} is of a transport that this program does not use").into()),
    }
}

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("pingpong: {error:#}");
    ExitCode::FAILURE
}
