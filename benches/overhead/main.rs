//! What loom adds to libfabric, and what the software transport costs beside it: `cargo bench --bench overhead`, with
//! `--features libfabric` for the comparisons.
//!
//! Everything runs on one thread, both endpoints on one queue (and, for the software transport, also on two), in short
//! rounds that alternate between the sides, so that a noisy machine hurts all of them alike. The times are medians of the
//! rounds, and the ratios are medians of the ratios of each round. The C side is `raw.c`, compiled here with `cc -O2`, over
//! the same libfabric and the same provider. libfabric's providers are a little slower in a process that has ever
//! had a second thread, so that this program starts none.

mod apart;
#[cfg(feature = "libfabric")]
mod raw;
mod sides;

use std::process::ExitCode;
use std::time::Instant;

use loom_core::soft::{Network, NetworkAttr};

use apart::on_two_queues;
use sides::{Side, on_transport};

/// Rounds of which the median is taken.
const ROUNDS: usize = 61;

/// What is measured of each side, in nanoseconds per operation.
#[derive(Default)]
struct Figures {
    tagged: Vec<f64>,
    write: Vec<f64>,
    poll_empty: Vec<f64>,
}

impl Figures {
    /// One round: 64-byte tagged send, receive and both completions; 64-byte write and its completion; an empty poll.
    fn round(&mut self, side: &mut dyn Side) {
        self.tagged.push(per_operation(5_000, |count| side.tagged(count)));
        self.write.push(per_operation(5_000, |count| side.write(count)));
        self.poll_empty.push(per_operation(20_000, |count| side.poll_empty(count)));
    }

    fn each(&self) -> [(&'static str, &[f64]); 3] {
        [("tagged.64B", &self.tagged), ("write.64B", &self.write), ("poll_empty", &self.poll_empty)]
    }
}

fn per_operation(count: u32, run: impl FnOnce(u32)) -> f64 {
    let begin = Instant::now();
    run(count);
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of the rounds' ratios.
fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(&of.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>())
}

fn metric(name: &str, value: f64, unit: &str) {
    println!("metric {name} {value:.3} {unit}");
}

/// A 4 MiB message beside one `memcpy` of as many bytes, both between buffers which are not in the cache.
fn bandwidth(side: &mut dyn Side) {
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

fn table(rows: &[(&str, &Figures)]) {
    println!("{:<24} {:>14} {:>14} {:>14}", "ns per operation", "tagged 64 B", "write 64 B", "empty poll");
    for (name, figures) in rows {
        let [tagged, write, poll] = figures.each().map(|(_, rounds)| median(rounds));
        println!("{name:<24} {tagged:>14.1} {write:>14.1} {poll:>14.1}");
    }
}

fn two_queue_row(rounds: &[f64]) {
    println!("{:<24} {:>14.1}", "the same, two queues", median(rounds));
}

#[cfg(not(feature = "libfabric"))]
fn compare(soft: &mut dyn Side, two_queues: &mut dyn FnMut(u32)) -> Result<(), String> {
    let (mut figures, mut of_two_queues) = (Figures::default(), Vec::new());
    for _ in 0..ROUNDS {
        figures.round(soft);
        of_two_queues.push(per_operation(5_000, &mut *two_queues));
    }
    table(&[("loom over soft", &figures)]);
    two_queue_row(&of_two_queues);
    println!("C over shm, loom over shm: skipped, the feature `libfabric` is off");
    Ok(())
}

#[cfg(feature = "libfabric")]
fn compare(soft: &mut dyn Side, two_queues: &mut dyn FnMut(u32)) -> Result<(), String> {
    use loom_core::objects::info::Hints;
    use loom_core::vocabulary::{Caps, MsgOrder};
    use loom_fabric::ofi::{Local, Ofi, library_version};

    let caps = Caps::MSG | Caps::TAGGED | Caps::RMA;
    // The order that loom asks shm for anyway: with it, RMA goes through the peer's queue, where keys are checked.
    let hints = Hints { caps, provider: Some("shm"), ..Hints::default() }.with_msg_order(MsgOrder::WAW);
    let info = Ofi::<Local>::query(&hints)
        .map_err(|error| format!("shm: {error}"))?
        .next()
        .ok_or("libfabric offers no shm")?;
    let mut c = raw::Raw::open("shm", 4096)?;
    println!("libfabric {}, provider shm, FI_THREAD_DOMAIN", library_version());

    let (mut of_soft, mut of_shm, mut of_c) = (Figures::default(), Figures::default(), Figures::default());
    let mut of_two_queues = Vec::new();
    on_transport(&info, |shm| {
        for _ in 0..ROUNDS {
            of_c.round(&mut c);
            of_shm.round(shm);
            of_soft.round(soft);
            of_two_queues.push(per_operation(5_000, &mut *two_queues));
        }
    });
    table(&[("C over shm", &of_c), ("loom over shm", &of_shm), ("loom over soft", &of_soft)]);
    two_queue_row(&of_two_queues);
    for (((name, c), (_, shm)), (_, soft)) in of_c.each().into_iter().zip(of_shm.each()).zip(of_soft.each()) {
        metric(&format!("loom_over_c.shm.{name}"), ratio(shm, c), "ratio");
        metric(&format!("soft_over_c_shm.{name}"), ratio(soft, c), "ratio");
    }
    metric("soft_over_c_shm.tagged_two_queues.64B", ratio(&of_two_queues, &of_c.tagged), "ratio");
    Ok(())
}

fn main() -> ExitCode {
    let attr = NetworkAttr { eager_size: 4096, ..NetworkAttr::DEFAULT };
    let network = match Network::new(attr) {
        Ok(network) => network,
        Err(error) => {
            eprintln!("overhead: the software network: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut result = Ok(());
    on_transport(&network.info(), |soft| {
        on_two_queues(&network.info(), |two_queues| result = compare(soft, two_queues));
        bandwidth(soft);
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overhead: {error}");
            ExitCode::FAILURE
        }
    }
}
