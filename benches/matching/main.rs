//! Cost of matching with many receives and messages: `cargo bench --bench matching`, with
//! `--features libfabric` for libfabric's providers.
//!
//! The engine alone is compared with a list that is traversed from its head, as in libfabric's
//! software providers. Times are in nanoseconds: medians of rounds that alternate between depths
//! and sides. If valgrind is installed, instructions are counted, which are the same on a busy
//! machine. Each operation takes one partner and puts it back behind all others, so that the depth
//! is constant.
//!
//! `--only SIDE CASE ORDER DEPTH SEED COUNT` runs one case without a measurement.

mod cases;
#[path = "../../loom-core/tests/it/engine/tag_matcher/world/colliding.rs"]
mod colliding;
#[cfg(feature = "libfabric")]
mod fabric;
mod instructions;
#[path = "../measure/mod.rs"]
mod measure;
mod memory;
mod sides;

use std::process::ExitCode;

use cases::{Case, Order, Run};
use measure::{median, metric, per_operation, ratio};
use memory::Lines;
use sides::{Engine, List, SEEDS};

/// Rounds of the median.
const ROUNDS: usize = 31;

/// Numbers of posted receives or waiting messages. One and four are traversed, more are in the
/// index.
const DEPTHS: [u32; 6] = [1, 4, INDEXED, 1024, 16_384, DEEPEST];

/// Depths that growth is measured between.
const INDEXED: u32 = 64;
const DEEPEST: u32 = 65_536;

/// Operations in a round.
const ROUND: u32 = 20_000;

/// Maximum steps along a list in a round.
const STEPS: u32 = 2_000_000;

/// Prints a row of the table: the medians at each depth.
fn row(name: &str, rounds: &[Vec<f64>]) {
    print!("{name:<44}");
    for at_depth in rounds {
        print!(" {:>10.1}", median(at_depth));
    }
    println!();
}

fn heading(unit: &str) {
    print!("{unit:<44}");
    for depth in DEPTHS {
        print!(" {depth:>10}");
    }
    println!();
}

fn engine_run(case: Case, order: Order, depth: u32) -> Run<Engine> {
    Run::new(case, order, depth, (|size| Engine::new(size, SEEDS[0]), SEEDS[0]))
}

/// Measures one case on the engine and on the list, at each depth.
fn measured(case: Case, order: Order) -> [Vec<Vec<f64>>; 2] {
    let mut engines = DEPTHS.map(|depth| engine_run(case, order, depth));
    let mut lists = DEPTHS.map(|depth| Run::new(case, order, depth, (List::new, SEEDS[0])));
    let mut figures = [vec![vec![]; DEPTHS.len()], vec![vec![]; DEPTHS.len()]];
    for _ in 0..ROUNDS {
        for (at, depth) in DEPTHS.into_iter().enumerate() {
            figures[0][at].push(per_operation(ROUND, |count| engines[at].run(count)));
            let count = (STEPS / depth).clamp(20, ROUND);
            figures[1][at].push(per_operation(count, |count| lists[at].run(count)));
        }
    }
    figures
}

/// Compares the cost of exact tags in random order with the cost of memory: the time with few
/// entries in the index, plus four accesses to uncached lines in the same amount of memory.
fn beside_memory(case: Case) {
    let mut few = engine_run(case, Order::Random, INDEXED);
    let mut many = engine_run(case, Order::Random, DEEPEST);
    let mut lines = Lines::new(many.footprint());
    let (mut cost, mut bound, mut access) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let line = per_operation(ROUND, |count| lines.chase(count));
        cost.push(per_operation(ROUND, |count| many.run(count)));
        bound.push(per_operation(ROUND, |count| few.run(count)) + 4.0 * line);
        access.push(line);
    }
    let name = case.name();
    println!(
        "{name} in random order at {DEEPEST}: {:.1} ns; at {INDEXED} {:.1} ns, a random line of {} KiB takes {:.1} ns",
        median(&cost),
        median(&bound) - 4.0 * median(&access),
        many.footprint() / 1024,
        median(&access)
    );
    metric(&format!("tag_match.{name}.random.{DEEPEST}_over_bound"), ratio(&cost, &bound), "ratio");
}

fn engine() {
    heading("ns, at a depth of");
    for case in Case::ALL {
        for order in case.orders() {
            let [engine, list] = measured(case, *order);
            row(&format!("{}, {}", case.description(), order.name()), &engine);
            row("    a list", &list);
            for (depth, rounds) in DEPTHS.into_iter().zip(&engine) {
                metric(&format!("tag_match.{}.{}.{depth}", case.name(), order.name()), median(rounds), "ns");
            }
            let (few, last) = (&engine[2], &engine[5]);
            if *order == Order::AsPosted {
                metric(&format!("tag_match.{}.65536_over_64", case.name()), ratio(last, few), "ratio");
            }
            metric(
                &format!("tag_match.list_over_engine.{}.{}.65536", case.name(), order.name()),
                ratio(&list[5], last),
                "ratio",
            );
        }
    }
    beside_memory(Case::Exact);
    beside_memory(Case::Unexpected);
}

fn run() -> Result<(), String> {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if !args.is_empty() {
        return instructions::only(&args);
    }
    engine();
    instructions::all();
    #[cfg(feature = "libfabric")]
    fabric::compare()?;
    #[cfg(not(feature = "libfabric"))]
    println!("libfabric's providers: skipped, the feature `libfabric` is off");
    Ok(())
}

fn main() -> ExitCode {
    // SAFETY: the only thread, and before any read of the environment.
    #[cfg(feature = "libfabric")]
    unsafe {
        fabric::allow_many_receives();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("matching: {error}");
            ExitCode::FAILURE
        }
    }
}
