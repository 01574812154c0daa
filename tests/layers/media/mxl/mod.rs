//! Formats and flows of MXL.

mod connectionless;
#[cfg(feature = "libfabric")]
mod connections;
mod fabric;
mod files;
mod flows;
mod formats;
#[cfg(feature = "libfabric")]
mod peers_in_c;
mod readers;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use loom_media::mxl::{FlowReader, FlowWriter};

const ID: &str = "5fbec3b1-1b0f-417d-9059-8b94a47197ed";
/// Bytes of a slot of `video` in a ring: whole pages.
const STRIDE: usize = 16_384;
/// Bytes of header and payload of `video`: no multiple of a page.
const SLOT: usize = 8192 + 17 * 256;

/// Directory of a test, which is deleted at its end.
struct Domain(PathBuf);

impl Domain {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("loom-mxl-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = Path::new("/dev/shm").join(name);
        fs::create_dir(&path).unwrap();
        Domain(path)
    }

    /// Path of a file of the flow.
    fn flow(&self, file: &str) -> PathBuf {
        self.0.join(format!("{ID}.mxl-flow")).join(file)
    }

    fn writer(&self, definition: &str) -> FlowWriter {
        FlowWriter::create(&self.0, definition).unwrap()
    }

    fn reader(&self) -> FlowReader {
        FlowReader::open(&self.0, ID.parse().unwrap()).unwrap()
    }
}

impl Deref for Domain {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn definition(rest: &str) -> String {
    format!(r#"{{"id":"{ID}","label":"a flow","tags":{{"urn:x-nmos:tag:grouphint/v1.0":["a:b"]}},{rest}}}"#)
}

/// Definition of five slots of 17 slices of 256 bytes.
fn video() -> String {
    definition(
        r#""format":"urn:x-nmos:format:video","media_type":"video/v210","grain_rate":{"numerator":25,"denominator":1},
        "frame_width":96,"frame_height":17"#,
    )
}

/// Definition of two channels of 19,456 samples of 4 bytes.
fn audio() -> String {
    definition(
        r#""format":"urn:x-nmos:format:audio","sample_rate":{"numerator":48000},"channel_count":2,"bit_depth":32"#,
    )
}

fn byte(index: u64, at: usize) -> u8 {
    (index as usize * 31 + at % 251) as u8
}

fn payload(index: u64) -> Vec<u8> {
    (0..17 * 256).map(|at| byte(index, at)).collect()
}
