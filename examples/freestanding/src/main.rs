//! loom's software transport with nothing underneath: no `std`, no `alloc`, no libc, no allocator of the system.
//!
//! A network, its domain, address vector and queue live in one array in a `static`. Two endpoints play tagged ping-pong
//! and write into each other's memory with immediate data; every byte is checked. Then the program tells how many
//! cycles of the time stamp counter an operation takes: the median of many rounds. It talks to the kernel by two system calls of its own, to print and to exit.
//!
//! From this folder:
//!
//! ```text
//! cargo run --release
//! ```
//!
//! From elsewhere: `cargo run --release --target x86_64-unknown-linux-gnu --manifest-path .../Cargo.toml`.
//!
//! That it links is the proof that nothing pulls `std` or `alloc` in. `./check` builds and runs both profiles, looks at
//! the binary, and sees the two controls fail: the features `plant-std` and `plant-alloc`.

#![no_std]
#![no_main]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("written for x86-64 Linux: it makes that system's calls");

#[cfg(feature = "plant-alloc")]
extern crate alloc;

mod bare;
mod fabric;
mod failure;
mod figures;
mod pair;

use core::fmt::Write;

/// Where the program begins, on a stack that is aligned.
fn run() -> i32 {
    #[cfg(feature = "plant-alloc")]
    core::hint::black_box(alloc::boxed::Box::new(1));

    let mut out = bare::Output::stdout();
    let told = fabric::run(&mut out).and_then(|()| Ok(writeln!(out, "freestanding: ok")?));
    match told {
        Ok(()) => 0,
        Err(failure) => {
            // There is nobody to tell if this fails too; the exit status says it.
            let _ = writeln!(bare::Output::stderr(), "freestanding: {failure}");
            1
        }
    }
}
