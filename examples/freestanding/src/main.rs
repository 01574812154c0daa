//! loom's software transport without `std`, `alloc` and libc, as a process of Linux or without an
//! operating system.
//!
//! A network, its domain, address vector and queue are in a `static`. Every byte is verified. The
//! program prints the cycles of each operation.
//!
//! Entry points: `linux`, and `pvh` for loaders of PVH images.
//!
//! ```text
//! cargo run --release
//! ./boot target/x86_64-unknown-linux-gnu/release/freestanding
//! ```
//!
//! `./check` builds, runs and boots both profiles, reads the symbols of the binary, and verifies
//! the controls: the features `plant-std`, `plant-alloc` and `plant-byte`.

#![no_std]
#![no_main]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("written for x86-64, and Linux's calls where it runs as a process");

#[cfg(feature = "plant-alloc")]
extern crate alloc;

mod buffers;
mod fabric;
mod failure;
mod figures;
#[path = "../../common/histogram.rs"]
mod histogram;
mod linux;
mod operations;
mod pair;
mod processor;
mod pvh;
mod runtime;
mod serial;
mod tasks;
mod world;

use core::fmt::{self, Write};

use crate::world::World;

/// Returns the exit code.
fn run() -> u8 {
    #[cfg(feature = "plant-alloc")]
    core::hint::black_box(alloc::boxed::Box::new(1));

    let mut out = world::Output(1);
    let told = where_it_runs(&mut out)
        .map_err(Into::into)
        .and_then(|()| fabric::run(&mut out))
        .and_then(|()| Ok(writeln!(out, "freestanding: ok")?));
    match told {
        Ok(()) => 0,
        Err(failure) => {
            // If this fails, the exit code still reports the failure.
            let _ = writeln!(world::Output(2), "freestanding: {failure:#}");
            1
        }
    }
}

fn where_it_runs(out: &mut impl Write) -> fmt::Result {
    let system = match World::here() {
        World::Linux => "a process of Linux",
        World::Machine => "no operating system",
    };
    match processor::hypervisor() {
        None => writeln!(out, "{system}, on a processor of its own"),
        Some(name) => {
            let name = name.split(|byte| *byte == 0).next().unwrap_or(&name);
            writeln!(out, "{system}, on a processor of {}", name.escape_ascii())
        }
    }
}
