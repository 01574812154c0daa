use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::text::count;

/// Bytes for some endpoints of `shm`, with a reserve.
const SHARED_MEMORY: u64 = 256 << 20;
const LOCKED_MEMORY: u64 = 64 << 20;
const DESCRIPTORS: u64 = 4096;

pub(super) fn look() -> Vec<Finding> {
    let mut findings = vec![shared_memory()];
    findings.extend(leftovers());
    findings.push(locked_memory());
    findings.push(descriptors());
    findings.extend(ptrace_scope());
    findings
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn shared_memory() -> Finding {
    const SUBJECT: &str = "/dev/shm";
    match rustix::fs::statvfs("/dev/shm") {
        Err(error) => {
            let advice = "`shm` and `sm2` need it: mount a tmpfs there";
            Finding::wrong(SUBJECT, format!("is not there: {error}"), advice)
        }
        Ok(system) => {
            let (free, all) = (system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize);
            let text = format!("{} free of {}", mib(free), mib(all));
            if free < SHARED_MEMORY {
                let advice = "`shm` takes some 16 MiB for each endpoint: remove leftovers, or make it larger (containers: `--shm-size=1g`)";
                Finding::wrong(SUBJECT, text, advice)
            } else {
                Finding::good(SUBJECT, text)
            }
        }
    }
}

/// Named `fi_shm://PID:…` or `…/PID:…`. They keep their memory.
fn leftovers() -> Option<Finding> {
    let entries = fs::read_dir("/dev/shm").ok()?;
    let (mut names, mut bytes) = (Vec::new(), 0);
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if process_of(&name).is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            bytes += entry.metadata().map_or(0, |data| data.len());
            names.push(name);
        }
    }
    let first = names.first()?;
    let text = format!(
        "{} of processes that are gone, {} in all, the first of them {first}",
        count(names.len() as u64, "file"),
        mib(bytes)
    );
    Some(Finding::note("/dev/shm", text, "remove them: they keep their memory until then"))
}

fn process_of(name: &str) -> Option<u32> {
    let name = name.strip_prefix("fi_shm_").or_else(|| name.strip_prefix("fi_shm:")).unwrap_or(name);
    let (process, rest) = name.split_once([':', '_'])?;
    rest.chars().next().filter(char::is_ascii_digit)?;
    process.trim_start_matches('/').parse().ok()
}

fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

fn locked_memory() -> Finding {
    const SUBJECT: &str = "memlock";
    match limit(Resource::Memlock) {
        Some(bytes) if bytes < LOCKED_MEMORY => Finding::note(
            SUBJECT,
            format!("this process may lock {} of memory", mib(bytes)),
            "network cards lock what is registered: raise it for them (`ulimit -l unlimited`, /etc/security/limits.conf)",
        ),
        Some(bytes) => Finding::good(SUBJECT, format!("this process may lock {} of memory", mib(bytes))),
        None => Finding::good(SUBJECT, "this process may lock as much memory as there is"),
    }
}

fn descriptors() -> Finding {
    const SUBJECT: &str = "descriptors";
    match limit(Resource::Nofile) {
        Some(most) if most < DESCRIPTORS => Finding::note(
            SUBJECT,
            format!("this process may open {}", count(most, "file")),
            "providers over sockets take one or two for each peer: `ulimit -n 65536` for many peers",
        ),
        Some(most) => Finding::good(SUBJECT, format!("this process may open {}", count(most, "file"))),
        None => Finding::good(SUBJECT, "this process may open any number of files"),
    }
}

/// `shm` copies long messages from the peer's memory.
fn ptrace_scope() -> Option<Finding> {
    const SUBJECT: &str = "yama";
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?;
    Some(match scope.trim() {
        "0" => Finding::good(
            SUBJECT,
            "kernel.yama.ptrace_scope is 0: processes of one user may copy from each other's memory",
        ),
        scope => Finding::note(
            SUBJECT,
            format!("kernel.yama.ptrace_scope is {scope}: most processes may not copy from each other's memory"),
            "between processes `shm` then moves long messages through shared memory, which is slower: `sysctl kernel.yama.ptrace_scope=0` allows the direct way",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_from_names_of_files() {
        assert_eq!(process_of("4242:0:1"), Some(4242));
        assert_eq!(process_of("fi_shm_17_1"), Some(17));
        for other in ["sem.x", "fi_sm2_mmaps", "pulse-shm-1", "", ":", "x:1", "12"] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }
}
