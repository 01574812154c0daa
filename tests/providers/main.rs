//! Behaviours over every provider, and over the software transport. Each section is compared with
//! its table in `tests/behaviours`.

#![cfg(feature = "std")]
#![allow(missing_docs, unsafe_code, clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::result_large_err, reason = "a refused endpoint comes back")]

#[cfg(feature = "libfabric")]
mod async_descriptors;
#[cfg(feature = "libfabric")]
mod async_over_providers;
#[cfg(feature = "libfabric")]
mod collectives;
#[cfg(feature = "libfabric")]
#[allow(clippy::duplicate_mod, reason = "the same cases at two threading levels")]
mod connected;
#[cfg(feature = "libfabric")]
mod forked_children;
#[cfg(feature = "libfabric")]
mod hosts;
#[cfg(feature = "libfabric")]
mod multicast;
#[cfg(feature = "libfabric")]
#[allow(clippy::duplicate_mod, reason = "the same cases over two transports")]
mod process_death;
#[cfg(feature = "libfabric")]
mod scalable;
#[cfg(feature = "libfabric")]
mod tcp_with_libfabric;
mod transports;

use libtest_mimic::{Arguments, Trial};
#[cfg(feature = "libfabric")]
use support::alone;
use support::report;

fn control() -> Trial {
    Trial::test("report::differences_are_noticed", || {
        report::differences_are_noticed();
        Ok(())
    })
}

#[cfg(feature = "libfabric")]
fn main() {
    if connected::plays() || process_death::plays() || hosts::plays() || scalable::plays() {
        return;
    }
    let mut arguments = Arguments::from_args();
    if alone::is_child() {
        arguments.test_threads = Some(1);
    }
    if let Some(error) = support::without_library() {
        println!("libfabric's providers: skipped, {error}");
        let mut trials = transports::section().trials;
        trials.push(control());
        libtest_mimic::run(&arguments, trials).exit();
    }
    let version = support::library_version();
    println!("libfabric {version}");
    support::shared_memory::remove_at_exit();
    let sections = vec![
        transports::section(),
        connected::section(),
        process_death::section(),
        scalable::section(),
        collectives::section(),
        multicast::section(),
    ];
    let others = [
        vec![control()],
        hosts::trials(),
        forked_children::trials(),
        async_over_providers::trials(),
        async_descriptors::trials(),
        tcp_with_libfabric::trials(),
    ];
    report::conclude(&arguments, &version.to_string(), sections, others.into_iter().flatten().collect());
}

#[cfg(not(feature = "libfabric"))]
fn main() {
    println!("libfabric's providers: skipped, the feature `libfabric` is off");
    let mut trials = transports::section().trials;
    trials.push(control());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
