//! The allocation gate: what loom's objects do after they are opened takes no memory.
//!
//! Each kind of operation runs for 10^5 rounds (a tenth of that in the dev profile) over the software transport and, with the
//! feature `libfabric`, over `shm` and `tcp;ofi_rxm`, and for fewer over the other providers named in `PROVIDERS`. What a
//! transport cannot do is listed as skipped, with the reason. While the rounds run,
//!
//! - every call of the Rust global allocator by this thread is counted, and has to be absent ([`gate`]);
//! - the allocator that the objects were opened with refuses, and counts, whatever it is asked ([`seal`]);
//! - every call of C's allocation functions, by any thread, is counted and printed, but not judged: it is libfabric's
//!   own ([`c_heap`], where the C library is glibc).
//!
//! Data is checked in each round: all of it if it is short, else its ends, and all of it in the first and the last
//! measured round. Controls, which must be caught by the same code, run along: a planted `Box`, and a late call of the
//! objects' allocator.
//!
//! Not for use under a sanitizer that brings allocation functions of its own, with the feature `libfabric`.

#![allow(
    missing_docs,
    unreachable_pub,
    unnameable_types,
    unsafe_code,
    reason = "a test; allocators are unsafe to implement"
)]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "a test")]

#[cfg(feature = "libfabric")]
#[cfg(target_env = "gnu")]
mod c_heap;
#[cfg(not(all(feature = "libfabric", target_env = "gnu")))]
mod c_heap {
    /// Nothing is counted.
    pub fn calls() -> Option<u64> {
        None
    }
}
mod cases;
mod failure;
mod gate;
mod payload;
mod rig;
mod round;
mod seal;
mod steady;

use std::process::ExitCode;
use std::time::Instant;

use loom_core::objects::info::Info;
use loom_core::soft::{Asks, Network, NetworkAttr};
use loom_core::transport::Transport;

use cases::{CASES, Case, Facts, Kind, ROUNDS, scaled};
use seal::Seal;
use steady::{Plant, run};

/// What was run, and how it ended.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: Vec<String>,
}

impl Tally {
    /// Every case over one transport.
    fn transport<T: Transport>(&mut self, facts: &Facts<'_>, info: &Info<T>, seal: &Seal) {
        let Facts { name, rounds, long_rounds, .. } = *facts;
        println!("{name:<12} {rounds} rounds of each case, {long_rounds} of each that moves 1 MiB");
        for case in CASES {
            if let Some(reason) = case.unsuitable(info, facts) {
                self.skipped.push(format!("{name}, {case}: {reason}"));
                continue;
            }
            let begin = Instant::now();
            let outcome = run(info, seal, case, case.rounds(facts), Plant::Nothing);
            let time = begin.elapsed();
            match &outcome {
                Ok(counts) => println!("{name:<12} {case:<43} {counts} in {time:>8.1?}"),
                Err(failure) => println!("{name:<12} {case:<43} FAILED after {time:.1?}: {failure}"),
            }
            self.judge(outcome.is_ok_and(|counts| counts.are_clean()), &format!("{name}, {case}"));
        }
        self.controls(name, info, seal);
    }

    /// What has to be caught is planted.
    fn controls<T: Transport>(&mut self, name: &str, info: &Info<T>, seal: &Seal) {
        for (plant, what) in
            [(Plant::Box, "a planted `Box` in each round"), (Plant::Late, "a late call of the objects' allocator")]
        {
            let case = &Case { kind: Kind::EmptyPoll, size: 0 };
            let caught = match run(info, seal, case, 1000, plant) {
                Ok(counts) => {
                    println!("{name:<12} control: {what:<34} {counts}");
                    counts.has_caught(plant)
                }
                Err(failure) => {
                    println!("{name:<12} control: {what}: FAILED: {failure}");
                    false
                }
            };
            self.judge(caught, &format!("{name}, control: {what}"));
        }
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
    let seal = Seal::new();
    match Network::new_in(NetworkAttr::DEFAULT, &seal) {
        Ok(network) => {
            let facts = Facts {
                name: "soft",
                rounds: ROUNDS,
                long_rounds: scaled(10_000),
                cancels_sends: true,
                fault: |_| None,
            };
            tally.transport(&facts, &network.info(), &seal);
            // Where contexts are memory for the transport, as over some hardware.
            let rounds = scaled(10_000);
            let facts = Facts { name: "soft, asking", rounds, long_rounds: scaled(100), ..facts };
            tally.transport(&facts, &network.info_that_asks(Asks::nothing().for_larger_contexts()), &seal);
        }
        Err(error) => tally.judge(false, &format!("soft: {error}")),
    }
}

#[cfg(feature = "libfabric")]
mod libfabric {
    use loom_core::objects::info::Hints;
    use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
    use loom_fabric::ofi::{Local, Ofi, QueryError, library_version};

    use super::{Facts, Kind, ROUNDS, Seal, Tally, c_heap, scaled};

    /// Name, the node that endpoints listen on, and rounds of a case that moves little, and of one that moves 1 MiB.
    const PROVIDERS: [(&str, Option<&str>, u64, u64); 6] = [
        ("shm", None, ROUNDS, scaled(10_000)),
        ("tcp;ofi_rxm", NODE, ROUNDS, scaled(1000)),
        ("tcp", NODE, scaled(10_000), scaled(100)),
        ("net", NODE, scaled(10_000), scaled(100)),
        ("sockets", NODE, scaled(200), scaled(10)),
        ("udp;ofi_rxd", NODE, scaled(10_000), scaled(10)),
    ];

    const NODE: Option<&str> = Some("127.0.0.1");

    fn fault_of(provider: &str) -> fn(Kind) -> Option<&'static str> {
        match provider {
            // 2.5.1 goes on.
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
            _ => |_| None,
        }
    }

    pub fn all(tally: &mut Tally) {
        let before = tally.passed + tally.failed;
        for (name, node, rounds, long_rounds) in PROVIDERS {
            // It names a wrong one, which loom does not grant.
            let source = if name == "udp;ofi_rxd" { Caps::empty() } else { Caps::SOURCE };
            let hints = Hints {
                caps: Caps::MSG | Caps::TAGGED | Caps::RMA | source | Caps::DIRECTED_RECV | Caps::MULTI_RECV,
                provider: Some(name),
                endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
                node,
                listen: node.is_some(),
                ..Hints::default()
            };
            let calls = c_heap::calls();
            let found = Ofi::<Local>::query(&hints).map(|mut infos| infos.next());
            if let Some((before, after)) = calls.zip(c_heap::calls()) {
                println!("{name:<12} control: C allocations seen in fi_getinfo: {}", after - before);
                tally.judge(after > before, "calls of C's allocation functions are counted");
            }
            match found {
                Ok(Some(info)) => {
                    let facts = Facts { name, rounds, long_rounds, cancels_sends: false, fault: fault_of(name) };
                    tally.transport(&facts, &info, &Seal::new());
                }
                // One of libfabric 1, the other of libfabric 2.
                Ok(None) | Err(QueryError::NoMatch) if ["tcp", "net"].contains(&name) => {
                    tally.skipped.push(format!("{name}: not in libfabric {}", library_version()));
                }
                Ok(None) => tally.judge(false, &format!("{name}: not on this machine")),
                Err(error) => tally.judge(false, &format!("{name}: {error}")),
            }
        }
        tally.judge(tally.passed + tally.failed > before + PROVIDERS.len(), "some provider was there");
    }
}

fn main() -> ExitCode {
    println!("calls of allocators in the steady state");
    let mut tally = Tally::default();
    soft(&mut tally);
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
