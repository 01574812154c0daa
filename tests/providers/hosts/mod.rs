//! One transfer of each kind between processes, over every provider of libfabric. The processes use
//! the loopback interface, or two hosts, which `.ci/run hosts` makes of network namespaces. The
//! receiver compares each byte.
//!
//! This process starts the two of a trial, possibly on different hosts. Their standard inputs are
//! the ends of a socket, which exchanges their addresses and keeps them in step.

mod kinds;
mod line;
mod link;
mod opening;
use support::posting;
use support::report::turn_of;
mod side;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use libtest_mimic::{Failed, Trial};
use support::library_version;

use opening::Way;
use side::Part;

/// Environment variable of one of the two processes: its part, its way, and its address.
const ROLE: &str = "LOOM_HOSTS_SIDE";
/// Environment variable of the two hosts: network namespaces with the addresses below.
const HOSTS: &str = "LOOM_HOSTS";
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
/// Environment variable of the controls: the kind of transfer for which the sender changes a byte,
/// or [`EVERY`].
const FLIPS: &str = "LOOM_FLIPS";
const EVERY: &str = "every";

/// Ways, each with the providers of every libfabric, and those that may be missing.
const WAYS: [(Way, &[&str], &[&str]); 2] = [
    (Way::Peers, &["shm", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"], &["tcp", "net"]),
    (Way::Connection, &["tcp", "sockets"], &["net"]),
];

/// The two processes of a trial. Drop ends them.
struct Players([Child; 2]);

impl Drop for Players {
    fn drop(&mut self) {
        for player in &mut self.0 {
            let _ = player.kill();
            let _ = player.wait();
        }
    }
}

/// Places of the two: both here, or one on each host.
#[derive(Clone, Copy)]
enum Place {
    Here,
    Hosts,
}

impl Place {
    fn program(self, number: usize) -> (Command, &'static str) {
        let program = std::env::current_exe().expect("this program");
        match self {
            Place::Here => (Command::new(program), "127.0.0.1"),
            Place::Hosts => {
                let hosts = std::env::var(HOSTS).expect("LOOM_HOSTS names two network namespaces");
                let host = hosts.split(',').nth(number).expect("two of them");
                let mut command = Command::new("ip");
                command.args(["netns", "exec", host]).arg(program);
                (command, ADDRESSES[number])
            }
        }
    }

    fn start(self, number: usize, way: Way, provider: &str, flips: Option<&str>, line: UnixStream) -> Child {
        let (mut command, address) = self.program(number);
        let role = format!("{} {way} {address} {provider}", [Part::Sends, Part::Receives][number]);
        // Without the handlers for signals that libraries of other providers install.
        command.env("IPATH_NO_BACKTRACE", "1").env("HFI_NO_BACKTRACE", "1").env(ROLE, role);
        if let Some(flips) = flips {
            command.env(FLIPS, flips);
        }
        let command = command.stdin(OwnedFd::from(line)).stdout(Stdio::piped());
        command.spawn().expect("another process")
    }
}

/// Report of the receiver: kinds that were played, kinds that are not granted, and kinds with bytes
/// that differ.
struct Report {
    played: String,
    not_granted: String,
    differs: String,
}

fn play(place: Place, way: Way, provider: &str, flips: Option<&str>) -> Result<Report, Failed> {
    let _turn = turn_of(provider);
    let (one, other) = UnixStream::pair()?;
    let mut players =
        Players([(0, one), (1, other)].map(|(number, line)| place.start(number, way, provider, flips, line)));
    let [sender, receiver] = &mut players.0;
    let said = std::io::read_to_string(receiver.stdout.take().expect("piped"))?;
    for player in [receiver, sender] {
        let status = player.wait()?;
        if !status.success() {
            return Err(format!("{status}: {said}").into());
        }
    }
    let line = |begin: &str| said.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default().to_owned();
    Ok(Report { played: line(side::PLAYED), not_granted: line(side::NOT_GRANTED), differs: line(side::DIFFERS) })
}

fn arrives(place: Place, way: Way, provider: &str) -> Result<(), Failed> {
    let report = play(place, way, provider, None)?;
    let not_granted = if report.not_granted.is_empty() { "nothing" } else { &report.not_granted };
    println!("{provider}, {way}: {}; not granted: {not_granted}", report.played);
    if !report.differs.is_empty() {
        return Err(format!("{provider}, {way}: something else arrives than was sent: {}", report.differs).into());
    }
    if report.played.is_empty() { Err("nothing was played".into()) } else { Ok(()) }
}

/// Checks, as a control, that no kind passes if a byte is changed in each.
fn every_kind_is_checked(way: Way, provider: &str) -> Result<(), Failed> {
    let report = play(Place::Here, way, provider, Some(EVERY))?;
    if !report.played.is_empty() && report.differs == report.played {
        return Ok(());
    }
    Err(format!("played with a byte changed: {}; noticed: {}", report.played, report.differs).into())
}

/// Plays a side in a process that a trial has started.
pub(crate) fn plays() -> bool {
    std::env::var(ROLE).is_ok_and(|role| {
        side::play(&role);
        true
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (way, everywhere, elsewhere) in WAYS {
        for provider in everywhere.iter().chain(elsewhere).copied() {
            if elsewhere.contains(&provider) && opening::info(way, provider, "127.0.0.1").is_none() {
                println!("{provider}, {way}: not in libfabric {}", library_version());
                continue;
            }
            trials.push(Trial::test(format!("hosts::loopback::{way}::{provider}"), move || {
                arrives(Place::Here, way, provider)
            }));
            if provider != "shm" {
                let between = move || arrives(Place::Hosts, way, provider);
                let trial = Trial::test(format!("hosts::between::{way}::{provider}"), between);
                trials.push(trial.with_ignored_flag(std::env::var_os(HOSTS).is_none()));
            }
        }
    }
    for (way, provider) in [(Way::Peers, "tcp;ofi_rxm"), (Way::Connection, "tcp")] {
        trials.push(Trial::test(format!("hosts::control::{way}"), move || every_kind_is_checked(way, provider)));
    }
    trials
}
