//! Allocation gate: loom's objects do not allocate after they are opened.
//!
//! Each kind of operation runs for 10^5 rounds (a hundredth of that in the dev profile) over the
//! software transport, for fewer over `loom-tcp`, and with the feature `libfabric` over `shm` and
//! the other providers in `PROVIDERS`. The two endpoints are connectionless, of datagrams, or
//! connected. Operations that a transport lacks are listed as skipped, with the reason. During the
//! rounds,
//!
//! - calls of the Rust global allocator by this thread are counted, and must be absent
//!   ([`allocators::gate`])
//! - the objects' allocator refuses and counts all calls ([`allocators`])
//! - calls of C's allocation functions by any thread are counted and printed without a limit,
//!   because they are libfabric's own ([`allocators::c_heap`], where the C library is glibc)
//!
//! Data is checked in each round: all short data, the ends of longer data, and all data in the
//! first and last measured round. Controls must be found by the same code: a planted `Box`, and a
//! late call of the objects' allocator.
//!
//! The gate with the feature `libfabric` must not run under a sanitizer with its own allocation
//! functions.

#![allow(
    missing_docs,
    unreachable_pub,
    unnameable_types,
    unsafe_code,
    reason = "a test; allocators are unsafe to implement"
)]

mod agent;
mod allocators;
mod arrivals;
mod atomics;
mod cached;
mod cases;
mod collectives;
mod connected;
mod deferred;
mod failure;
mod futures;
mod group;
mod leases;
mod media;
mod mxl;
mod payload;
mod rig;
mod round;
#[cfg(feature = "libfabric")]
use support::shared_memory;
mod count_allocations;
mod tags;
mod team;
mod transfer;
mod updates;
mod verbs;

use std::process::ExitCode;
use std::time::Instant;

use loom_alloc::{Owner, Shared};
use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr, Plan, RequiredModes};
use loom_core::transport::{Collectives, Transport};
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
use loom_tcp::{Tcp, TcpAttr};

use connected::Found as _;

use allocators::{Seal, c_heap};
use cases::{CASES, Case, Facts, Kind, ROUNDS, ends_regions, ends_sends, scaled};
use count_allocations::{Counts, Measure, Plant, run};
use failure::Failure;

/// Results of the cases that have run.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: Vec<String>,
}

/// Function that runs a case over a transport.
type Run<T> = fn(&Info<T>, Measure<'_>) -> Result<Counts, Failure>;

/// Function that runs another subject over a transport.
type Other<T> = fn(&Info<T>, &Seal, u64, Plant) -> Result<Counts, Failure>;

impl Tally {
    /// Runs every case over one transport.
    fn transport<T: Transport + 'static>(&mut self, facts: &Facts<'_>, info: &Info<T>, seal: &Seal, run: Run<T>) {
        let Facts { name, rounds, long_rounds, .. } = *facts;
        println!("{name:<18} {rounds} rounds of each case, {long_rounds} of each that moves 1 MiB");
        for case in CASES {
            if let Some(reason) = case.unsuitable(info, facts) {
                self.skipped.push(format!("{name}, {case}: {reason}"));
                continue;
            }
            let begin = Instant::now();
            let rounds = case.rounds(facts);
            let outcome = run(info, Measure { seal, case, rounds, plant: Plant::Nothing });
            let time = begin.elapsed();
            match &outcome {
                Ok(counts) => println!("{name:<18} {case:<43} {counts} in {time:>8.1?}"),
                Err(failure) => println!("{name:<18} {case:<43} FAILED after {time:.1?}: {failure:#}"),
            }
            self.judge(outcome.is_ok_and(|counts| counts.are_clean()), &format!("{name}, {case}"));
        }
        self.controls(name, info, seal, run);
    }

    /// Runs the controls: the gate must find the plant.
    fn controls<T: Transport + 'static>(&mut self, name: &str, info: &Info<T>, seal: &Seal, run: Run<T>) {
        for (plant, what) in
            [(Plant::Box, "a planted `Box` in each round"), (Plant::Late, "a late call of the objects' allocator")]
        {
            let case = &Case { kind: Kind::EmptyPoll, size: 0 };
            let caught = match run(info, Measure { seal, case, rounds: 1000, plant }) {
                Ok(counts) => {
                    println!("{name:<18} control: {what:<34} {counts}");
                    counts.has_caught(plant)
                }
                Err(failure) => {
                    println!("{name:<18} control: {what}: FAILED: {failure:#}");
                    false
                }
            };
            self.judge(caught, &format!("{name}, control: {what}"));
        }
    }

    /// Runs leases of slabs, of one thread and shared, and cached registrations, over one
    /// transport.
    fn leases<T: Transport + 'static>(&mut self, name: &str, info: &Info<T>, rounds: u64) {
        let seal = &Seal::new();
        let plants = [Plant::Box, Plant::Late].map(|plant| (plant, 100));
        for (plant, rounds) in [(Plant::Nothing, rounds)].into_iter().chain(plants) {
            let owner = leases::run::<T, Owner>(info, seal, rounds, plant);
            let shared = leases::run::<T, Shared>(info, seal, rounds, plant);
            let cached = cached::run::<T>(info, seal, rounds, plant);
            let outcomes =
                [("leases of one thread", owner), ("shared leases", shared), ("cached registrations", cached)];
            for (what, outcome) in outcomes {
                let control = match plant {
                    Plant::Nothing => "",
                    Plant::Box => ", control: a planted `Box`",
                    Plant::Late => ", control: a late call",
                };
                let what = format!("{what}{control}");
                self.outcome(name, &what, plant, outcome);
            }
        }
    }

    /// Runs a subject other than cases over one transport, with controls.
    fn other<T: Transport + 'static>(&mut self, name: &str, what: &str, info: &Info<T>, rounds: u64, run: Other<T>) {
        let controls = [(Plant::Box, ", control: a planted `Box`"), (Plant::Late, ", control: a late call")];
        for (plant, control) in [(Plant::Nothing, "")].into_iter().chain(controls) {
            let rounds = if plant == Plant::Nothing { rounds } else { 100 };
            let outcome = run(info, &Seal::new(), rounds, plant);
            self.outcome(name, &format!("{what}{control}"), plant, outcome);
        }
    }

    /// Runs atomic operations over one transport.
    fn atomics<T: Transport + 'static>(&mut self, name: &str, info: &Info<T>, rounds: u64) {
        self.other(name, "atomic operations", info, rounds, atomics::run::<T>);
    }

    /// Runs collective operations over one transport.
    fn collectives<T: Collectives + 'static>(&mut self, name: &str, info: &Info<T>, rounds: u64) {
        self.other(name, "collective operations", info, rounds, collectives::run::<T>);
    }

    /// Runs deferred work, remote updates, futures and a group of peers over one transport.
    fn deferred<T: Transport + 'static>(&mut self, name: &str, info: &Info<T>, rounds: u64) {
        self.other(name, "deferred work", info, rounds, deferred::run::<T>);
        self.other(name, "remote updates", info, rounds, updates::run::<T>);
        // A round has 32 writes and reads.
        if !info.caps().contains(Caps::RMA) {
            self.skipped.push(format!("{name}, transfers: RMA is not granted"));
        } else if !ends_regions(info) {
            self.skipped.push(format!("{name}, transfers: memory of a scope is not exposed"));
        } else {
            self.other(name, "transfers", info, (rounds / 20).max(10), transfer::run::<T>);
            if ends_sends(info) {
                self.other(name, "media flows", info, (rounds / 20).max(10), media::run::<T>);
            } else {
                self.skipped.push(format!("{name}, media flows: scopes do not end with messages in flight"));
            }
        }
        self.other(name, "futures", info, rounds, futures::run::<T>);
        // A round has more than twenty messages.
        if ends_regions(info) {
            self.other(name, "a group of peers", info, (rounds / 10).max(10), group::run::<T>);
        }
        self.other(name, "a team of two", info, (rounds / 10).max(10), team::run::<T>);
    }

    /// Checks the counts: 0, or those of the plant.
    fn outcome(&mut self, name: &str, what: &str, plant: Plant, outcome: Result<Counts, Failure>) {
        let passed = match outcome {
            Ok(counts) => {
                println!("{name:<18} {what:<43} {counts}");
                if plant == Plant::Nothing { counts.are_clean() } else { counts.has_caught(plant) }
            }
            Err(failure) => {
                println!("{name:<18} {what}: FAILED: {failure:#}");
                false
            }
        };
        self.judge(passed, &format!("{name}, {what}"));
    }

    fn judge(&mut self, passed: bool, what: &str) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("FAILED: {what}");
        }
    }
}

fn soft(tally: &mut Tally) {
    // Leaked for a network that lives until the end.
    let seal: &'static Seal = Box::leak(Box::new(Seal::new()));
    match Network::new_in(NetworkAttr::DEFAULT, seal) {
        Ok(network) => {
            let facts = Facts {
                name: "soft",
                rounds: ROUNDS,
                long_rounds: scaled(10_000),
                cancels_sends: true,
                fault: |_| None,
            };
            tally.transport(&facts, &network.info(), seal, run);
            tally.deferred("soft", &network.info(), scaled(100_000));
            tally.other("soft", "fabrics of MXL", &network.info(), scaled(10_000), mxl::run_connectionless);
            let unordered = network.info_with_faults(Plan { unordered: true, ..Plan::new(1) });
            tally.other("soft, unordered", "fabrics of MXL", &unordered, scaled(10_000), mxl::run_connectionless);
            let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::ATOMIC, ..Hints::default() };
            match network.query(&hints) {
                Ok(info) => tally.atomics("soft", &info, scaled(100_000)),
                Err(error) => tally.judge(false, &format!("soft: {error:#}")),
            }
            let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
            match network.query(&hints) {
                Ok(info) => tally.collectives("soft", &info, scaled(100_000)),
                Err(error) => tally.judge(false, &format!("soft: {error:#}")),
            }
            // Contexts are memory for the transport, as over some hardware.
            let rounds = scaled(10_000);
            let facts = Facts { name: "soft, asking", rounds, long_rounds: scaled(100), ..facts };
            tally.transport(&facts, &network.info_requiring(RequiredModes::LARGE_CONTEXTS), seal, run);
            let local = network.info_requiring(RequiredModes::LOCAL_REGISTRATION);
            tally.leases("soft, registered", &local, scaled(100_000));
        }
        Err(error) => tally.judge(false, &format!("soft: {error:#}")),
    }
}

/// Runs TCP in Rust over the loopback device.
fn tcp(tally: &mut Tally) {
    let (name, seal) = ("loom-tcp", Seal::new());
    match support::tcp::query(&Hints::default(), TcpAttr::DEFAULT) {
        Ok(info) => {
            let (rounds, long_rounds) = (scaled(20_000), scaled(1000));
            let facts = Facts { name, rounds, long_rounds, cancels_sends: false, fault: |_| None };
            tally.transport(&facts, &info, &seal, run);
            tally.deferred(name, &info, scaled(10_000));
        }
        Err(error) => tally.judge(false, &format!("{name}: {error:#}")),
    }
    let name = "loom-tcp, connected";
    let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
    match Tcp::find(&Hints { caps: Caps::MSG | Caps::RMA, endpoint_attr, ..Hints::local("loom-tcp") }) {
        Some(info) => {
            let (rounds, long_rounds) = (scaled(20_000), scaled(1000));
            let facts = Facts { name, rounds, long_rounds, cancels_sends: false, fault: |_| None };
            tally.transport(&facts, &info, &seal, connected::run);
            tally.other(name, "fabrics of MXL", &info, (rounds / 20).max(10), mxl::run);
        }
        None => tally.judge(false, &format!("{name}: not found")),
    }
}

/// Function that runs a subject without a choice of transports.
type Alone = fn(&Seal, u64, Plant) -> Result<Counts, Failure>;

fn alone(tally: &mut Tally, name: &str, what: &str, rounds: u64, run: Alone) {
    for (plant, what) in [
        (Plant::Nothing, what),
        (Plant::Box, "control: a planted `Box` in each round"),
        (Plant::Late, "control: a late call of the objects' allocator"),
    ] {
        let rounds = if plant == Plant::Nothing { scaled(rounds) } else { 100 };
        tally.outcome(name, what, plant, run(&Seal::new(), rounds, plant));
    }
}

#[cfg(feature = "libfabric")]
mod libfabric {
    use loom_core::vocabulary::{EndpointAttributes, EndpointType};
    use loom_fabric::ofi::{self, Ofi};
    use support::library_version;

    use super::{
        Caps, Facts, Hints, Kind, ROUNDS, Run, Seal, Tally, c_heap, connected, ends_regions, mxl, run, scaled,
        shared_memory,
    };

    /// Provider, and its hints.
    struct Provider {
        /// Name, with the kind of endpoint unless it is connectionless.
        name: &'static str,
        provider: &'static str,
        kind: EndpointType,
        caps: Caps,
        /// First major version of libfabric that has it for certain.
        since: u16,
        rounds: u64,
        /// Rounds of a case that moves 1 MiB.
        long_rounds: u64,
    }

    impl Provider {
        const fn new(provider: &'static str, rounds: u64, long_rounds: u64) -> Self {
            let caps = MESSAGES.union(Caps::RMA).union(Caps::DIRECTED_RECV).union(Caps::MULTI_RECV).union(Caps::SOURCE);
            Provider { name: provider, provider, kind: EndpointType::RDM, caps, since: 1, rounds, long_rounds }
        }

        const fn connected(name: &'static str, provider: &'static str, rounds: u64, long_rounds: u64) -> Self {
            let caps = Caps::MSG.union(Caps::RMA);
            Provider { name, kind: EndpointType::MSG, caps, ..Self::new(provider, rounds, long_rounds) }
        }

        const fn since(self, since: u16) -> Self {
            Provider { since, ..self }
        }

        const fn caps(self, caps: Caps) -> Self {
            Provider { caps, ..self }
        }

        const fn datagrams(self, name: &'static str) -> Self {
            Provider { name, kind: EndpointType::DGRAM, ..self }
        }
    }

    const MESSAGES: Caps = Caps::MSG.union(Caps::TAGGED);

    /// Version of a provider that only libfabric 1.17 has.
    const NEVER: u16 = u16::MAX;

    const PROVIDERS: [Provider; 11] = [
        Provider::new("shm", ROUNDS, scaled(10_000)),
        Provider::new("sm2", scaled(10_000), scaled(100)).since(2).caps(MESSAGES),
        Provider::new("tcp;ofi_rxm", scaled(20_000), scaled(1000)),
        Provider::new("tcp", scaled(10_000), scaled(100)).since(2),
        Provider::new("net", scaled(10_000), scaled(100)).since(NEVER),
        Provider::new("sockets", scaled(200), scaled(10)),
        // It names a wrong source, so loom does not grant sources.
        Provider::new("udp;ofi_rxd", scaled(10_000), scaled(10))
            .caps(MESSAGES.union(Caps::RMA).union(Caps::DIRECTED_RECV).union(Caps::MULTI_RECV)),
        Provider::new("udp", scaled(10_000), 1).caps(Caps::MSG).datagrams("udp, datagrams"),
        Provider::connected("tcp, connected", "tcp", scaled(10_000), scaled(100)),
        Provider::connected("net, connected", "net", scaled(10_000), scaled(100)).since(NEVER),
        // The only one with tags, and with buffers for several messages.
        Provider::connected("sockets, connected", "sockets", scaled(200), scaled(10))
            .caps(MESSAGES.union(Caps::RMA).union(Caps::MULTI_RECV)),
    ];

    fn fault_of(name: &str) -> fn(Kind) -> Option<&'static str> {
        match name {
            // Version 2.5.1 continues.
            "tcp;ofi_rxm" if library_version().major < 2 => |kind| {
                let truncated = matches!(kind, Kind::Truncated { .. });
                truncated.then_some("after a message that was truncated, nothing more comes from that peer")
            },
            "net" => |kind| {
                let waits = matches!(kind, Kind::Message(message) if message.unexpected);
                waits.then_some("it hangs now and then, when many messages wait for their receives")
            },
            "udp;ofi_rxd" => |kind| {
                let truncated = matches!(kind, Kind::Truncated { .. });
                truncated.then_some("it takes a truncated message for whole")
            },
            "udp, datagrams" => |kind| match kind {
                Kind::Truncated { .. } => Some("it takes a truncated message for whole"),
                Kind::CancelReceive { .. } => Some("it cancels nothing"),
                _ => None,
            },
            "tcp, connected" | "net, connected" => |kind| {
                let truncated = matches!(kind, Kind::Truncated { .. });
                truncated.then_some("a message that is truncated ends the connection")
            },
            _ => |_| None,
        }
    }

    pub fn all(tally: &mut Tally) {
        if let Some(error) = support::without_library() {
            tally.skipped.push(format!("libfabric's providers: {error}"));
            return;
        }
        shared_memory::remove_at_exit();
        for Provider { name, provider, kind, caps, since, rounds, long_rounds } in PROVIDERS {
            let before = tally.passed;
            let hints = Hints { caps, endpoint_attr: EndpointAttributes::of(kind), ..Hints::local(provider) };
            let calls = c_heap::calls();
            let found = Ofi::<ofi::Local>::query(&hints).map(|mut infos| infos.next());
            if let Some((before, after)) = calls.zip(c_heap::calls()) {
                println!("{name:<18} control: C allocations seen in fi_getinfo: {}", after - before);
                tally.judge(after > before, "calls of C's allocation functions are counted");
            }
            // Connections of untested providers have no tags.
            let hints = Hints { caps: caps.difference(Caps::TAGGED), ..hints };
            let untagged = || Ofi::<ofi::Local>::query(&hints).ok()?.find(|info| !info.raw().is_tested());
            let found = match found {
                Err(error) if error.is_no_match() => untagged().map_or(Err(error), |info| Ok(Some(info))),
                found => found,
            };
            match found {
                Ok(Some(info)) => {
                    let facts = Facts { name, rounds, long_rounds, cancels_sends: false, fault: fault_of(name) };
                    let run: Run<_> = if kind == EndpointType::MSG { connected::run } else { run };
                    tally.transport(&facts, &info, &Seal::new(), run);
                    // MXL's provider of connections.
                    if name == "tcp, connected" {
                        tally.other(name, "fabrics of MXL", &info, (rounds / 20).max(10), mxl::run);
                    }
                    if kind == EndpointType::RDM {
                        tally.leases(name, &info, rounds);
                        tally.deferred(name, &info, rounds);
                        let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::ATOMIC, ..hints };
                        match Ofi::<ofi::Local>::query(&hints).map(|mut infos| infos.next()) {
                            Ok(Some(info)) if ends_regions(&info) => tally.atomics(name, &info, rounds),
                            Err(error) if !error.is_no_match() => tally.judge(false, &format!("{name}: {error:#}")),
                            _ => tally.skipped.push(format!("{name}, atomic operations: it has none that loom grants")),
                        }
                    }
                    if provider == "tcp;ofi_rxm" && library_version().major >= 2 && info.raw().is_tested() {
                        let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..hints };
                        match Ofi::<ofi::Local>::query(&hints).map(|mut infos| infos.next()) {
                            Ok(Some(info)) => tally.collectives(name, &info, scaled(10_000)),
                            _ => tally.judge(false, &format!("{name}: it has collective operations")),
                        }
                    } else {
                        tally.skipped.push(format!("{name}, collective operations: it has none that loom uses"));
                    }
                    // Messages, injected ones and the empty poll run over every transport. The rest
                    // are controls.
                    tally.judge(tally.passed > before + 6, &format!("{name}: more than controls has been run"));
                }
                Err(error) if !error.is_no_match() => tally.judge(false, &format!("{name}: {error:#}")),
                _ if library_version().major < since => {
                    tally.skipped.push(format!("{name}: not in libfabric {}", library_version()));
                }
                _ => tally.judge(false, &format!("{name}: not on this machine")),
            }
        }
    }
}

fn main() -> ExitCode {
    println!("calls of allocators in the steady state");
    let mut tally = Tally::default();
    soft(&mut tally);
    tcp(&mut tally);
    alone(&mut tally, "tags over plain", "short and long messages, cancelled receives", 10_000, tags::run);
    alone(&mut tally, "arrivals", "encoded, decoded, counted, waited for", 100_000, arrivals::run);
    alone(&mut tally, "agent", "written, waited for, notified", 10_000, agent::run);
    #[cfg(feature = "libfabric")]
    libfabric::all(&mut tally);
    #[cfg(not(feature = "libfabric"))]
    tally.skipped.push("shm, tcp;ofi_rxm: built without the feature `libfabric`".to_owned());

    for skipped in &tally.skipped {
        println!("skipped: {skipped}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
