use std::io::{self, IsTerminal, Write};

use crate::text::size_text;

pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { is_shown: io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, what: &str, size: usize) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K{what}: {} ...", size_text(size));
        }
    }

    pub(crate) fn clear(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
