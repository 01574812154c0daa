use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::play;

pub(crate) fn members() -> Map<String, Value> {
    let system = rustix::system::uname();
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let kernel = format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy());
    let members = [
        ("time_unix_seconds", json!(time)),
        ("host", json!(system.nodename().to_string_lossy())),
        ("processor", json!(fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(model))),
        ("processors", json!(thread::available_parallelism().map_or(1, usize::from))),
        ("kernel", json!(kernel)),
        ("libfabric", json!(play::library())),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read() {
        assert_eq!(model("processor\t: 0\nmodel name\t: Fast One\nmodel name\t: Other\n"), Some("Fast One"));
        assert_eq!(model("processor\t: 0\n"), None);
    }
}
