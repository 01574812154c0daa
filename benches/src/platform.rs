//! The machine and the versions, which are part of the figures.

use std::fmt;
use std::fs;
use std::process::Command;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Machine, versions and settings of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    /// Date and time in UTC.
    pub date: String,
    /// Name of the processor.
    pub cpu: String,
    /// Number of cores that the process could use.
    pub cores: usize,
    /// `true` if threads were bound to cores.
    pub pinned: bool,
    /// Operating system and its version.
    pub kernel: String,
    /// Version of loom.
    pub loom: String,
    /// Commit, with a `+` if the files differ from it. `unknown` outside of a repository.
    pub commit: String,
    /// Version of libfabric at run time. `None` without the feature `libfabric`.
    pub libfabric: Option<String>,
    /// Version of the compiler.
    pub rustc: String,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Platform { date, cpu, cores, pinned, kernel, loom, commit, libfabric, rustc } = self;
        let libfabric = libfabric.as_deref().unwrap_or("none: the feature `libfabric` is off, its sets are skipped");
        write!(f, "{cpu}, {cores} cores, {kernel}, {date}\nloom {loom} ({commit}), {rustc}, libfabric {libfabric}")?;
        if *pinned { Ok(()) } else { f.write_str("\nthe threads cannot be kept on a core each") }
    }
}

const UNKNOWN: &str = "unknown";

fn first_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(str::to_owned)
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
    Some(format!("{commit}{}", if changed { "+" } else { "" }))
}

impl Platform {
    /// Returns the day of [`date`](Platform::date).
    #[must_use]
    pub fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }

    /// Returns the platform of this process, now.
    #[must_use]
    pub fn here(pinned: bool) -> Platform {
        #[cfg(feature = "libfabric")]
        let libfabric = loom_fabric::ofi::Library::get().ok().map(|library| library.version().to_string());
        #[cfg(not(feature = "libfabric"))]
        let libfabric = None;
        let kernel = first_line("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}"));
        Platform {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            cpu: cpu().unwrap_or_else(|| UNKNOWN.into()),
            cores: crate::cores::count(),
            pinned,
            kernel: kernel.unwrap_or_else(|| std::env::consts::OS.into()),
            loom: env!("LOOM_VERSION").into(),
            commit: commit().unwrap_or_else(|| UNKNOWN.into()),
            libfabric,
            rustc: env!("LOOM_RUSTC").into(),
        }
    }
}
