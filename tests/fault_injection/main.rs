//! Behaviours of `tests/providers/transports` over the software transport with faults: each under
//! every fault, with many seeds. `faults.rs` has the permitted results under a fault.
//!
//! A run takes a tenth of two hundred seeds, another one each day. A failure prints the variables
//! that repeat it:
//!
//! - `LOOM_FAULT` runs one fault, `LOOM_SEED` one seed
//! - `LOOM_SEEDS` runs so many instead of twenty, from the first one on
//! - `LOOM_TENTH` runs another tenth than that of the day
//!
//! Without optimisation it is two of the twenty.
//!
//! If one thread of a behaviour is cut short, so are its other threads.

mod faults;
mod runs;
mod tally;

use support::posting;

use libtest_mimic::{Arguments, Trial};

use support::behaviours::needs;
use support::behaviours::soft_cases_under_faults;

#[global_allocator]
static ALLOCATIONS: tally::Counting = tally::Counting;

fn main() {
    let arguments = Arguments::from_args();
    let seeds = runs::seeds();
    println!("{seeds}");
    let mut trials = Vec::new();
    for fault in faults::FAULTS.iter().filter(|fault| runs::is_selected(fault.name)) {
        let (alone, threaded) = soft_cases_under_faults();
        let alone = alone.into_iter().map(|case| (case, false));
        let threaded = threaded.into_iter().map(|case| (case, true));
        for (case, threaded) in alone.chain(threaded) {
            let (seeds, name) = (seeds.clone(), case.0);
            let Some(with) = fault.with(name, threaded) else { continue };
            trials.push(Trial::test(format!("{}::{name}", fault.name), move || {
                runs::run(fault, with, &seeds, name, |info| needs::run(case, info))
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
    // Some behaviours may not meet a fault, but those that were selected for one must meet it.
    let whole = arguments.filter.is_none() && arguments.skip.is_empty();
    let judged = !arguments.list && (whole || runs::is_about_one_fault());
    let conclusion = libtest_mimic::run(&arguments, trials);
    if judged && !conclusion.has_failed() && !runs::every_fault_was_injected() {
        std::process::exit(101);
    }
    conclusion.exit();
}
