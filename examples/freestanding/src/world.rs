use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::{linux, pvh, serial};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum World {
    Linux,
    Machine,
}

static ON_MACHINE: AtomicBool = AtomicBool::new(false);

impl World {
    pub fn begin(self) -> ! {
        ON_MACHINE.store(self == World::Machine, Ordering::Relaxed);
        exit(crate::run())
    }

    pub fn here() -> Self {
        if ON_MACHINE.load(Ordering::Relaxed) { World::Machine } else { World::Linux }
    }
}

pub fn exit(code: u8) -> ! {
    match World::here() {
        World::Linux => linux::exit(code),
        World::Machine => pvh::exit(code),
    }
}

/// Output: a file descriptor of the process, or the machine's serial port.
pub struct Output(pub i32);

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match World::here() {
            World::Linux => linux::write(self.0, text.as_bytes()),
            World::Machine => serial::write(text.as_bytes()),
        }
    }
}
