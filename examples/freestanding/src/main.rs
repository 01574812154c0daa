//! loom's software transport with nothing underneath: no `std`, no `alloc`, no libc, no allocator of the system, and no
//! operating system if need be.
//!
//! A network, its domain, address vector and queue live in one array in a `static`. Between two endpoints each operation
//! moves bytes both ways, every one of which is checked. Then the program tells how many cycles of the time stamp counter
//! the operation takes: in a row, and one at a time with percentiles to p99.999. Two tasks of an executor do the same, with a message
//! there and back.
//!
//! One image has two entry points. Linux starts it as a process (`linux`), which makes two system calls: to print and to
//! exit. A loader of PVH images, like QEMU's, starts it on the processor alone (`pvh`), where it prints to the serial port.
//! All else is the same code.
//!
//! From this folder:
//!
//! ```text
//! cargo run --release
//! ./boot target/x86_64-unknown-linux-gnu/release/freestanding
//! ```
//!
//! From elsewhere: `cargo run --release --target x86_64-unknown-linux-gnu --manifest-path .../Cargo.toml`.
//!
//! That it links is the proof that nothing pulls `std` or `alloc` in; that it boots, that the core needs no system.
//! `./check` builds, runs and boots both profiles, looks at the binary, and sees the controls fail: the features
//! `plant-std`, `plant-alloc` and `plant-byte`.

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
#[path = "../../embedded_runtime/histogram.rs"]
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

/// What both entry points come to, on a stack that is aligned. Gives the exit code.
fn run() -> u8 {
    #[cfg(feature = "plant-alloc")]
    core::hint::black_box(alloc::boxed::Box::new(1));

    let mut out = world::stdout();
    let told = where_it_runs(&mut out)
        .map_err(Into::into)
        .and_then(|()| fabric::run(&mut out))
        .and_then(|()| Ok(writeln!(out, "freestanding: ok")?));
    match told {
        Ok(()) => 0,
        Err(failure) => {
            // There is nobody to tell if this fails too; the exit code says it.
            let _ = writeln!(world::stderr(), "freestanding: {failure}");
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
