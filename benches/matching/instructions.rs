//! How many instructions a case takes: this program again, under valgrind's callgrind, which gives the same figures on a busy machine.

use std::process::{Command, Stdio};

use crate::cases::{Case, Order, Run};
use crate::measure::metric;
use crate::sides::Engine;
use crate::{DEPTHS, heading};

/// How often a case is repeated.
const REPEATED: u32 = 20_000;

/// Runs the case that the arguments name.
pub(crate) fn only(args: &[String]) -> Result<(), String> {
    let usage = || "arguments: none, or --only CASE ORDER DEPTH COUNT".to_owned();
    let [only, case, order, depth, count] = args else { return Err(usage()) };
    let case = Case::ALL.into_iter().find(|it| it.name() == *case).ok_or_else(usage)?;
    let order = Order::ALL.into_iter().find(|it| it.name() == order).ok_or_else(usage)?;
    let depth = depth.parse().map_err(|_| usage())?;
    let count = count.parse().map_err(|_| usage())?;
    if only != "--only" || depth == 0 {
        return Err(usage());
    }
    counted(&mut Run::new(case, order, depth, Engine::new), count);
    Ok(())
}

// A function of its own: callgrind counts from its first instruction to its last.
#[inline(never)]
fn counted(run: &mut Run<Engine>, count: u32) {
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
        print!("{:<44}", case.description());
        let counts = DEPTHS.map(|depth| {
            let count = count(case, depth);
            print!(" {count:>10.1}");
            count
        });
        println!();
        let name = case.name();
        for (depth, count) in DEPTHS.into_iter().zip(counts) {
            metric(&format!("tag_match.{name}.instructions.{depth}"), count, "instructions");
        }
        metric(&format!("tag_match.{name}.instructions.65536_over_1"), counts[4] / counts[0], "ratio");
    }
}

/// The instructions of one operation, in random order.
fn count(case: Case, depth: u32) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*instructions*counted*"])
        .arg(program)
        .args(["--only", &case.name(), Order::Random.name(), &depth.to_string(), &REPEATED.to_string()])
        .output()
        .expect("valgrind starts");
    let log = String::from_utf8_lossy(&output.stderr);
    let collected =
        log.lines().find_map(|line| line.split_once("Collected : ")).and_then(|(_, all)| all.trim().parse().ok());
    let all: f64 = collected.unwrap_or_else(|| panic!("valgrind counted nothing: {log}"));
    assert!(all > 0.0, "valgrind counted nothing: {log}");
    all / f64::from(REPEATED)
}
