//! Build requirements of the feature `libfabric`, found without linking any of them.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::Finding;

const WITH_LIBFABRIC: &str =
    "`cargo install --path cli --features libfabric` in loom's folder installs the command with it";

/// Besides those of /etc/ld.so.conf.d.
const LIBRARIES: [&str; 6] = ["/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib64"];

pub(super) struct Parts {
    library: Option<PathBuf>,
    is_chosen: bool,
    pkg_config: Option<PathBuf>,
    described: Option<String>,
    headers: Option<PathBuf>,
    libclang: Option<PathBuf>,
}

impl Parts {
    pub(super) fn look() -> Self {
        let folders = libraries();
        let chosen = env::var_os("PKG_CONFIG").map(PathBuf::from);
        let is_chosen = chosen.is_some();
        let pkg_config = chosen.or_else(|| {
            let paths = paths("PATH");
            first(&paths, |name| name == "pkg-config").or_else(|| first(&paths, |name| name == "pkgconf"))
        });
        let pkg_config = pkg_config.filter(|program| output(program, &["--version"]).is_some());
        let asked = |question: &str| ask(pkg_config.as_deref()?, question);
        let mut includes = paths("CPATH");
        includes.extend(paths("C_INCLUDE_PATH"));
        includes.extend(asked("--variable=includedir").map(PathBuf::from));
        includes.extend(["/usr/local/include", "/usr/include"].map(PathBuf::from));
        let headers = includes.iter().map(|folder| folder.join("rdma/fabric.h")).find(|file| file.exists());
        Parts {
            library: first(&folders, |name| name == "libfabric.so.1"),
            described: asked("--modversion"),
            headers,
            libclang: libclang(&folders),
            is_chosen,
            pkg_config,
        }
    }

    fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let pkg_config =
            if self.is_chosen { "pkg-config (what PKG_CONFIG names does not start)" } else { "pkg-config" };
        let parts = [
            (self.library.is_some(), "libfabric.so.1", "libfabric-dev"),
            (self.headers.is_some(), "the header rdma/fabric.h", "libfabric-dev"),
            (self.pkg_config.is_some(), pkg_config, "pkg-config"),
            // Only pkg-config can find this file.
            (
                self.described.is_some() || self.pkg_config.is_none(),
                "libfabric.pc, which pkg-config reads",
                "libfabric-dev",
            ),
            (self.libclang.is_some(), "libclang", "libclang-dev"),
        ];
        parts.into_iter().filter(|(is_here, ..)| !is_here).map(|(_, part, package)| (part, package)).collect()
    }

    pub(super) fn finding(&self) -> Finding {
        const SUBJECT: &str = "building";
        let missing = self.missing();
        if missing.is_empty() {
            let version = self.described.as_deref().unwrap_or_default();
            let files = [&self.headers, &self.libclang].map(|file| file.as_deref().unwrap_or(Path::new("")).display());
            let [headers, libclang] = files;
            return Finding::good(
                SUBJECT,
                format!("the feature `libfabric` can be built: libfabric {version}, {headers}, {libclang}"),
            );
        }
        let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        packages.sort_unstable();
        packages.dedup();
        let names: Vec<_> = missing.iter().map(|(part, _)| *part).collect();
        Finding::note(
            SUBJECT,
            format!("the feature `libfabric` cannot be built here; missing: {}", names.join(", ")),
            format!("Debian and Ubuntu: `apt-get install {}`", packages.join(" ")),
        )
    }

    #[cfg_attr(feature = "libfabric", allow(dead_code, reason = "this command has libfabric"))]
    pub(super) fn without(&self) -> Finding {
        let library = match &self.library {
            Some(file) => format!("{} is here", file.display()),
            None => "there is no libfabric.so.1 here".to_owned(),
        };
        let advice = if self.missing().is_empty() {
            WITH_LIBFABRIC.to_owned()
        } else {
            format!("install what `building` says is missing, then {WITH_LIBFABRIC}")
        };
        Finding::note(
            "libfabric",
            format!("this command was built without libfabric, and does not use it; {library}"),
            advice,
        )
    }
}

fn paths(variable: &str) -> Vec<PathBuf> {
    let value = env::var_os(variable).unwrap_or_default();
    env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
}

fn libraries() -> Vec<PathBuf> {
    let mut folders = paths("LD_LIBRARY_PATH");
    for file in fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten() {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        folders.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    folders.extend(LIBRARIES.map(PathBuf::from));
    folders
}

fn first(folders: &[PathBuf], wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    folders.iter().find_map(|folder| {
        let files = fs::read_dir(folder).ok()?.flatten();
        let mut names: Vec<_> =
            files.map(|file| file.file_name()).filter(|name| name.to_str().is_some_and(&wanted)).collect();
        names.sort_unstable();
        names.first().map(|name| folder.join(name))
    })
}

/// libclang, searched as bindgen does.
fn libclang(libraries: &[PathBuf]) -> Option<PathBuf> {
    let mut folders = paths("LIBCLANG_PATH");
    if let Some(file) = folders.iter().find(|path| path.is_file()) {
        return Some(file.clone());
    }
    folders.extend(libraries.iter().cloned());
    for parent in ["/usr/lib", "/usr/local", "/usr/lib/llvm", "/opt"] {
        let children = fs::read_dir(parent).into_iter().flatten().flatten().map(|child| child.path());
        let mut llvm: Vec<_> = children.filter(|path| is_llvm(path)).collect();
        llvm.sort_unstable();
        folders.extend(llvm.iter().flat_map(|path| ["lib", "lib64"].map(|lib| path.join(lib))));
    }
    first(&folders, is_libclang)
}

fn is_llvm(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with("llvm") || path.starts_with("/usr/lib/llvm/")
}

/// Accepts `libclang.so`, `libclang.so.1`, `libclang-14.so.1`, and not `libclang-cpp.so.14`.
fn is_libclang(name: &str) -> bool {
    let version = name.strip_prefix("libclang").and_then(|rest| rest.split_once(".so"));
    version.is_some_and(|(version, _)| {
        version.is_empty()
            || version.strip_prefix('-').is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    })
}

fn ask(pkg_config: &Path, question: &str) -> Option<String> {
    let output = output(pkg_config, &[question, "libfabric"])?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn output(program: &Path, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Parts {
        let file = || Some(PathBuf::from("/some/file"));
        Parts {
            library: file(),
            is_chosen: false,
            pkg_config: file(),
            described: Some("2.5".into()),
            headers: file(),
            libclang: file(),
        }
    }

    #[test]
    fn only_what_is_missing_is_to_be_installed() {
        assert!(all().finding().advice.is_none());
        assert!(all().without().advice.is_some_and(|advice| advice.starts_with("`cargo install")));
        let finding = Parts { libclang: None, ..all() }.finding();
        assert!(finding.text.ends_with("missing: libclang"), "{}", finding.text);
        assert!(finding.advice.is_some_and(|advice| advice.ends_with("`apt-get install libclang-dev`")));
        let parts = Parts { library: None, headers: None, pkg_config: None, described: None, ..all() };
        assert!(parts.finding().advice.is_some_and(|advice| advice.ends_with("install libfabric-dev pkg-config`")));
        assert!(parts.without().text.contains("there is no libfabric.so.1"));
        let parts = Parts { described: None, ..all() };
        assert!(parts.finding().text.contains("libfabric.pc"));
    }

    #[test]
    fn libclang_is_known_by_its_name() {
        for name in ["libclang.so", "libclang.so.1", "libclang-14.so", "libclang-14.so.14.0.6"] {
            assert!(is_libclang(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclang_rt.so", "libclangAST.a", "libclang.a"] {
            assert!(!is_libclang(name), "{name}");
        }
    }
}
