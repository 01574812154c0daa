//! What loom adds to libfabric, and what the software transport costs beside it: `cargo bench --bench overhead`, with
//! `--features libfabric` for the comparisons.
//!
//! Everything runs on one thread, both endpoints on one queue (and, for the software transport, also on two), in short
//! rounds that alternate between the sides, so that a noisy machine hurts all of them alike. The times are medians of the
//! rounds, and the ratios are medians of the ratios of each round. The C side is `raw.c`, compiled here with `cc -O2`, over
//! the same libfabric and the same provider. libfabric's providers are a little slower in a process that has ever
//! had a second thread, so that this program starts none.
//!
//! `--only SIDE OPERATION COUNT` runs one operation and measures nothing.

mod apart;
#[path = "../measure/mod.rs"]
mod measure;
mod only;
#[cfg(feature = "libfabric")]
mod raw;
mod sides;

use std::process::ExitCode;

#[cfg(feature = "libfabric")]
use loom_core::objects::info::Hints;
use loom_core::objects::info::Info;
use loom_core::soft::{Network, NetworkAttr, Soft};
#[cfg(feature = "libfabric")]
use loom_core::vocabulary::{Caps, MsgOrder};
#[cfg(feature = "libfabric")]
use loom_fabric::ofi::{Local, Ofi, library_version};

use apart::on_two_queues;
use measure::{median, metric, per_operation, ratio};
use only::Only;
use sides::{LongSide, Operation, Side, on_transport};

/// Rounds of which the median is taken.
const ROUNDS: usize = 61;

/// Times of each operation, in nanoseconds, a round each.
#[derive(Default)]
struct Figures([Vec<f64>; Operation::ALL.len()]);

impl Figures {
    /// One round of every operation, `count` times each.
    fn round(&mut self, side: &mut dyn Side, count: u32) {
        for (operation, rounds) in Operation::ALL.into_iter().zip(&mut self.0) {
            rounds.push(per_operation(count, |count| side.run(operation, count)));
        }
    }

    fn each(&self) -> impl Iterator<Item = (Operation, &[f64])> {
        Operation::ALL.into_iter().zip(&self.0).map(|(operation, rounds)| (operation, &rounds[..]))
    }

    fn of(&self, wanted: Operation) -> &[f64] {
        self.each().find(|(operation, _)| *operation == wanted).map_or(&[], |(_, rounds)| rounds)
    }
}

/// How often an operation is repeated in a round.
const SHORT_ROUND: u32 = 5_000;
/// The same over TCP, where each takes some microseconds.
#[cfg(feature = "libfabric")]
const TCP_ROUND: u32 = 300;

/// A 4 MiB message beside one `memcpy` of as many bytes, both between buffers which are not in the cache.
fn bandwidth(side: &mut dyn LongSide) {
    const LEN: usize = 4 << 20;
    let (from, mut into) = (vec![1u8; LEN], vec![0u8; LEN]);
    let (mut message, mut memcpy) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        message.push(per_operation(5, |count| side.large(count)));
        memcpy.push(per_operation(5, |count| {
            for _ in 0..count {
                std::hint::black_box(&mut into[..]).copy_from_slice(std::hint::black_box(&from[..]));
            }
        }));
    }
    let gigabytes = |nanoseconds: f64| LEN as f64 / nanoseconds;
    let (of_message, of_memcpy) = (gigabytes(median(&message)), gigabytes(median(&memcpy)));
    println!("4 MiB message over soft: {of_message:.2} GB/s; one memcpy: {of_memcpy:.2} GB/s");
    metric("soft_bw.4MiB_over_memcpy", ratio(&memcpy, &message), "ratio");
}

fn table(columns: &[(&str, &Figures)]) {
    print!("{:<20}", "ns per operation");
    for (name, _) in columns {
        print!(" {name:>20}");
    }
    println!();
    for operation in Operation::ALL {
        print!("{:<20}", operation.name());
        for (_, figures) in columns {
            print!(" {:>20.1}", median(figures.of(operation)));
        }
        println!();
    }
}

fn two_queues_row(rounds: &[f64]) {
    println!("tagged.64B over soft between two queues: {:.1} ns", median(rounds));
}

#[cfg(not(feature = "libfabric"))]
fn compare(soft: &mut dyn LongSide, two_queues: &mut dyn FnMut(u32)) -> Result<(), String> {
    let (mut figures, mut of_two_queues) = (Figures::default(), Vec::new());
    for _ in 0..ROUNDS {
        figures.round(soft, SHORT_ROUND);
        of_two_queues.push(per_operation(SHORT_ROUND, &mut *two_queues));
    }
    table(&[("loom over soft", &figures)]);
    two_queues_row(&of_two_queues);
    println!("C and loom over libfabric: skipped, the feature `libfabric` is off");
    Ok(())
}

/// What both sides over libfabric are opened from.
#[cfg(feature = "libfabric")]
fn info(provider: &str, node: Option<&str>) -> Result<Info<Ofi<Local>>, String> {
    let caps = Caps::MSG | Caps::TAGGED | Caps::RMA;
    // The order that loom asks shm for anyway: with it, RMA goes through the peer's queue, where keys are checked.
    let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
    let mut infos =
        Ofi::<Local>::query(&hints.with_msg_order(MsgOrder::WAW)).map_err(|error| format!("{provider}: {error}"))?;
    infos.next().ok_or_else(|| format!("libfabric offers no {provider}"))
}

#[cfg(feature = "libfabric")]
fn compare(soft: &mut dyn LongSide, two_queues: &mut dyn FnMut(u32)) -> Result<(), String> {
    let mut c = raw::Raw::open("shm", None, 4096)?;
    println!("libfabric {}, provider shm, FI_THREAD_DOMAIN", library_version());
    let (mut of_soft, mut of_shm, mut of_c) = (Figures::default(), Figures::default(), Figures::default());
    let mut of_two_queues = Vec::new();
    on_transport(&info("shm", None)?, |shm| {
        for _ in 0..ROUNDS {
            of_c.round(&mut c, SHORT_ROUND);
            of_shm.round(shm, SHORT_ROUND);
            of_soft.round(soft, SHORT_ROUND);
            of_two_queues.push(per_operation(SHORT_ROUND, &mut *two_queues));
        }
    });
    table(&[("C over shm", &of_c), ("loom over shm", &of_shm), ("loom over soft", &of_soft)]);
    two_queues_row(&of_two_queues);
    for (((operation, c), (_, shm)), (_, soft)) in of_c.each().zip(of_shm.each()).zip(of_soft.each()) {
        metric(&format!("loom_over_c.shm.{}", operation.name()), ratio(shm, c), "ratio");
        metric(&format!("soft_over_c_shm.{}", operation.name()), ratio(soft, c), "ratio");
    }
    metric("soft_over_c_shm.tagged_two_queues.64B", ratio(&of_two_queues, of_c.of(Operation::Tagged)), "ratio");
    compare_over_tcp()
}

#[cfg(feature = "libfabric")]
fn compare_over_tcp() -> Result<(), String> {
    const PROVIDER: &str = "tcp;ofi_rxm";
    let node = Some("127.0.0.1");
    let mut c = raw::Raw::open(PROVIDER, node, 4096)?;
    let (mut of_tcp, mut of_c) = (Figures::default(), Figures::default());
    on_transport(&info(PROVIDER, node)?, |tcp| {
        for _ in 0..ROUNDS {
            of_c.round(&mut c, TCP_ROUND);
            of_tcp.round(tcp, TCP_ROUND);
        }
    });
    table(&[("C over tcp;ofi_rxm", &of_c), ("loom over it", &of_tcp)]);
    for ((operation, c), (_, tcp)) in of_c.each().zip(of_tcp.each()) {
        metric(&format!("loom_over_c.tcp_rxm.{}", operation.name()), ratio(tcp, c), "ratio");
    }
    Ok(())
}

/// Everything, beside everything else.
fn all(soft: &Info<Soft<'_>>) -> Result<(), String> {
    let mut result = Ok(());
    on_transport(soft, |side| {
        on_two_queues(soft, |two_queues| result = compare(side, two_queues));
        bandwidth(side);
    });
    result
}

fn run() -> Result<(), String> {
    let only = Only::from_args()?;
    let attr = NetworkAttr { eager_size: 4096, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).map_err(|error| format!("the software network: {error}"))?;
    only.map_or_else(|| all(&network.info()), |only| only.run(&network.info()))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overhead: {error}");
            ExitCode::FAILURE
        }
    }
}
