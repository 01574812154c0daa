//! The file of a drawing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file that is open before anything is measured: a wrong path is found at once.
pub(super) struct Drawing {
    path: PathBuf,
    file: File,
}

impl Drawing {
    /// What the file has is kept until there is something to draw.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| failed(path, &error))?;
        Ok(Drawing { path: path.to_owned(), file })
    }

    pub(super) fn write(mut self, page: &str) -> Result<(), Failure> {
        let mut write = || -> io::Result<()> {
            // A pipe has no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(page.as_bytes())
        };
        write().map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Unavailable(format!("cannot write the drawing to {} (--svg): {error}", path.display()))
}
