//! Instructions of a case, in a child process of this program under valgrind's callgrind. The
//! figures are the same on a busy machine.

use std::process::{Command, Stdio};

use crate::cases::{Case, Order, Run};
use crate::measure::{self, metric};
use crate::sides::{Engine, List, SEEDS, Side};
use crate::{DEEPEST, DEPTHS, INDEXED, STEPS, heading};

/// Repetitions of a case.
const REPEATED: u32 = 20_000;

/// Runs the case that the arguments name.
pub(crate) fn only(args: &[String]) -> Result<(), String> {
    let usage = || "arguments: none, or --only SIDE CASE ORDER DEPTH SEED COUNT".to_owned();
    let [only, side, case, order, depth, seed, count] = args else { return Err(usage()) };
    let case = Case::ALL.into_iter().find(|it| it.name() == *case).ok_or_else(usage)?;
    let order = Order::ALL.into_iter().find(|it| it.name() == order).ok_or_else(usage)?;
    let depth = depth.parse().ok().filter(|depth| *depth > 0).ok_or_else(usage)?;
    let seed = seed.parse().map_err(|_| usage())?;
    let count = count.parse().map_err(|_| usage())?;
    match (&only[..], &side[..]) {
        ("--only", "engine") => {
            counted(&mut Run::new(case, order, depth, (|size| Engine::new(size, seed), seed)), count);
        }
        // A list has the same instructions in any order. A random order would take most of the time
        // to set up.
        ("--only", "list") => counted(&mut Run::in_order(case, order, depth, (List::new, seed)), count),
        _ => return Err(usage()),
    }
    Ok(())
}

// A separate function: callgrind counts from its first to its last instruction.
#[inline(never)]
fn counted<S: Side>(run: &mut Run<S>, count: u32) {
    run.run(count);
}

/// Counts all cases, at all depths.
pub(crate) fn all() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("instructions: skipped, there is no valgrind");
        return;
    }
    heading("instructions, at a depth of");
    for case in Case::ALL {
        let name = case.name();
        let counts = at_once(DEPTHS, |depth| count("engine", case, depth, SEEDS[0]));
        line(&case.description(), counts);
        for (depth, count) in DEPTHS.into_iter().zip(counts) {
            metric(&format!("tag_match.{name}.instructions.{depth}"), count, "instructions");
        }
        // The worst seed.
        let others = SEEDS.into_iter().skip(1).map(|seed| {
            let [few, many] = at_once([INDEXED, DEEPEST], |depth| count("engine", case, depth, seed));
            many / few
        });
        let worst = others.fold(counts[5] / counts[2], f64::max);
        metric(&format!("tag_match.{name}.instructions.65536_over_64"), worst, "ratio");
    }
    let cases = [Case::Exact, Case::Unexpected];
    let lists = at_once(cases, |case| at_once(DEPTHS, |depth| count("list", case, depth, SEEDS[0])));
    for (case, counts) in cases.into_iter().zip(lists) {
        line(&format!("    a list: {}", case.description()), counts);
    }
}

/// Prints a figure for each depth.
fn line(name: &str, figures: [f64; DEPTHS.len()]) {
    print!("{name:<44}");
    for figure in figures {
        print!(" {figure:>10.1}");
    }
    println!();
}

/// Counts several cases in parallel, which does not change the figures.
fn at_once<K: Send, V: Send, const N: usize>(things: [K; N], count: impl Fn(K) -> V + Sync) -> [V; N] {
    let count = &count;
    std::thread::scope(|scope| {
        things.map(|thing| scope.spawn(move || count(thing))).map(|counts| counts.join().expect("it was counted"))
    })
}

/// Instructions of one operation, in random order.
fn count(side: &str, case: Case, depth: u32, seed: u64) -> f64 {
    let repeated = if side == "list" { (STEPS / depth).clamp(20, REPEATED) } else { REPEATED };
    let (name, order) = (case.name(), Order::Random.name());
    let arguments = ["--only", side, &name, order, &depth.to_string(), &seed.to_string(), &repeated.to_string()];
    measure::instructions("*instructions*counted*", &arguments) / f64::from(repeated)
}
