use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Opened before the measurement, so that a wrong path is reported at once.
pub(crate) struct Drawing {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl Drawing {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let (file, is_new) = match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Includes a link to a file that does not exist yet.
                (OpenOptions::new().write(true).create(true).truncate(false).open(path), false)
            }
            file => (file, true),
        };
        let file = file.map_err(|error| failed(path, &error))?;
        Ok(Drawing { path: path.to_owned(), file, is_new })
    }

    pub(crate) fn write(mut self, page: &str) -> Result<(), Failure> {
        let mut write = || -> io::Result<()> {
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(page.as_bytes())
        };
        write().map_err(|error| failed(&self.path, &error))?;
        self.is_new = false;
        Ok(())
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Unavailable(format!("cannot write the drawing to {} (--svg): {error}", path.display()))
}
