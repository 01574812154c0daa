use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use super::Finding;

struct Kind {
    subject: &'static str,
    folder: &'static str,
    prefix: &'static str,
    providers: &'static str,
    advice: &'static str,
}

const INFINIBAND: Kind = Kind {
    subject: "infiniband",
    folder: "/dev/infiniband",
    prefix: "uverbs",
    providers: "`verbs` and `efa`",
    advice: "a udev rule or a group for this user (often `rdma`) opens them",
};

const OTHERS: [Kind; 2] = [
    Kind {
        subject: "omni-path",
        folder: "/dev",
        prefix: "hfi1_",
        providers: "`psm2` and `opx`",
        advice: "a udev rule or a group for this user opens them",
    },
    Kind {
        subject: "slingshot",
        folder: "/dev",
        prefix: "cxi",
        providers: "`cxi`",
        advice: "a udev rule or a group for this user opens them",
    },
];

pub(super) fn look() -> Vec<Finding> {
    let look = |kind: &Kind| kind.look_in(Path::new(kind.folder));
    let mut findings = vec![look(&INFINIBAND).unwrap_or_else(|| {
        Finding::note(
            INFINIBAND.subject,
            "/dev/infiniband has no device: there is no such card, or its driver is not loaded",
            "with such a card: load its driver, and start a container with `--device /dev/infiniband`",
        )
    })];
    findings.extend(OTHERS.iter().filter_map(look));
    findings
}

impl Kind {
    fn look_in(&self, folder: &Path) -> Option<Finding> {
        let names = devices(folder, self.prefix);
        let paths: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
        let list =
            |paths: &[&PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let (open, closed): (Vec<_>, Vec<_>) =
            paths.iter().partition(|path| OpenOptions::new().read(true).write(true).open(path).is_ok());
        if !closed.is_empty() {
            let text =
                format!("{} need to open for reading and writing, and cannot: {}", self.providers, list(&closed));
            return Some(Finding::wrong(self.subject, text, self.advice));
        }
        (!open.is_empty()).then(|| Finding::good(self.subject, format!("{} can open {}", self.providers, list(&open))))
    }
}

fn devices(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> =
        names.filter(|name| name.strip_prefix(prefix).is_some_and(|number| number.parse::<u32>().is_ok())).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn devices_are_found_and_opened() {
        let folder = std::env::temp_dir().join(format!("loom-cards-{}", std::process::id()));
        assert!(fs::create_dir_all(&folder).is_ok());
        for name in ["cxi1", "cxi0", "cxi_service", "hfi1_0"] {
            assert!(fs::write(folder.join(name), "").is_ok());
        }
        assert_eq!(devices(&folder, "cxi"), ["cxi0", "cxi1"]);
        let [omni_path, slingshot] = OTHERS;
        let found = slingshot.look_in(&folder);
        assert!(found.is_some_and(|it| it.level == Level::Good && it.text.contains("cxi1")));
        assert!(std::os::unix::fs::symlink("/no/such/device", folder.join("hfi1_1")).is_ok());
        let found = omni_path.look_in(&folder);
        assert!(found.is_some_and(|it| it.level == Level::Wrong && it.text.ends_with("hfi1_1")));
        assert!(INFINIBAND.look_in(&folder).is_none());
        assert!(fs::remove_dir_all(&folder).is_ok());
    }
}
