//! The behaviours of `tests/providers/transports` over the software transport, while things go wrong: each under every fault, with many
//! seeds. What may be observed under a fault says `faults.rs`.
//!
//! A run takes a tenth of two hundred seeds, another one each day. What fails prints how to repeat it:
//!
//! - `LOOM_FAULT` runs one fault, `LOOM_SEED` one seed
//! - `LOOM_SEEDS` runs so many instead of twenty, from the first one on; `LOOM_TENTH` another tenth than that of the day
//!
//! Without optimisation it is two of the twenty.
//!
//! What cuts one thread of a behaviour short cuts its other threads short as well.

mod faults;
mod runs;
mod tally;

use support::posting;

use libtest_mimic::{Arguments, Trial};
use loom_core::soft::Soft;

use support::behaviours::messages::{multi, peek, pieces, tagged_multi, tags, truncated, unsignaled};
use support::behaviours::needs::{self, Behaviour};
use support::behaviours::{
    addresses, atomics, cached, counters, futures, groups, leases, lifecycle, messages, regions, registered, rma,
    sleeping, threads, waiting,
};

#[global_allocator]
static ALLOCATIONS: tally::Counting = tally::Counting;

/// The behaviours that one thread shows.
fn cases() -> Vec<Behaviour<Soft<'static>>> {
    [
        messages::cases(),
        truncated::cases(),
        futures::cases(),
        groups::cases(),
        rma::cases(),
        regions::cases(),
        registered::cases(),
        leases::cases(),
        pieces::cases(),
        multi::cases(),
        tagged_multi::cases(),
        peek::cases(),
        counters::cases(),
        unsignaled::cases(),
        waiting::cases(),
        sleeping::cases(),
        lifecycle::cases(),
        addresses::cases(),
        tags::cases(),
        cached::cases(),
        atomics::cases(),
    ]
    .concat()
}

/// Those for which it takes several.
fn threaded_cases() -> Vec<Behaviour<Soft<'static>>> {
    [threads::cases(), sleeping::threaded_cases()].concat()
}

fn main() {
    let arguments = Arguments::from_args();
    let seeds = runs::seeds();
    println!("{seeds}");
    let mut trials = Vec::new();
    for fault in faults::FAULTS.iter().filter(|fault| runs::is_asked_for(fault.name)) {
        let alone = cases().into_iter().enumerate().map(|(at, (name, ..))| (name, false, at));
        let threaded = threaded_cases().into_iter().enumerate().map(|(at, (name, ..))| (name, true, at));
        for (name, threaded, at) in alone.chain(threaded) {
            let seeds = seeds.clone();
            let Some(with) = fault.with(name, threaded) else { continue };
            trials.push(Trial::test(format!("{}::{name}", fault.name), move || {
                runs::run(fault, with, &seeds, name, |info| {
                    // Looked up again, for the lifetime of this network.
                    let case = if threaded { threaded_cases()[at] } else { cases()[at] };
                    needs::run(case, info);
                })
            }));
        }
    }
    assert!(!trials.is_empty(), "a run under no fault proves nothing");
    trials.push(Trial::test("control::a_fault_that_is_not_explained_fails", || {
        runs::control();
        Ok(())
    }));
    trials.push(Trial::test("control::wrong_bytes_fail_under_each_fault", || {
        runs::control_of_wrong_bytes();
        Ok(())
    }));
    posting::be_short();
    runs::watch_panics();
    // Some behaviours may know nothing of a fault; those that were chosen for one are to meet it.
    let whole = arguments.filter.is_none() && arguments.skip.is_empty();
    let judged = !arguments.list && (whole || runs::is_about_one_fault());
    let conclusion = libtest_mimic::run(&arguments, trials);
    if judged && !conclusion.has_failed() && !runs::every_fault_was_injected() {
        std::process::exit(101);
    }
    conclusion.exit();
}
