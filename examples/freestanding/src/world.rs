//! Where the program runs, and what it takes from there: a place to print to, and an end.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::{linux, pvh, serial};

/// Where the program runs. The entry point says it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// A process of Linux.
    Linux,
    /// The processor alone, without an operating system.
    Machine,
}

static ON_MACHINE: AtomicBool = AtomicBool::new(false);

impl World {
    /// Runs the program in this world, and ends.
    pub fn begin(self) -> ! {
        ON_MACHINE.store(self == World::Machine, Ordering::Relaxed);
        exit(crate::run())
    }

    /// The world that the entry point said.
    pub fn here() -> Self {
        if ON_MACHINE.load(Ordering::Relaxed) { World::Machine } else { World::Linux }
    }
}

/// Ends the program with an exit code, 0 for success.
pub fn exit(code: u8) -> ! {
    match World::here() {
        World::Linux => linux::exit(code),
        World::Machine => pvh::exit(code),
    }
}

/// A place to print to: a file descriptor of the process, or the machine's serial port.
pub struct Output {
    descriptor: i32,
}

/// Standard output.
pub const fn stdout() -> Output {
    Output { descriptor: 1 }
}

/// Standard error.
pub const fn stderr() -> Output {
    Output { descriptor: 2 }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match World::here() {
            World::Linux => linux::write(self.descriptor, text.as_bytes()),
            World::Machine => serial::write(text.as_bytes()),
        }
    }
}
