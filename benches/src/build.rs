//! Compiles the C side, and stores the versions of the compiler and of loom.

use std::process::Command;
use std::{env, fs};

fn main() {
    let rustc = env::var_os("RUSTC").expect("cargo names the compiler");
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    println!("cargo::rustc-env=LOOM_RUSTC={}", version.as_deref().unwrap_or("unknown").trim());

    let manifest = fs::read_to_string("../Cargo.toml").expect("loom's manifest");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).expect("loom has a version");
    println!("cargo::rustc-env=LOOM_VERSION={}", version.trim_matches('"'));
    println!("cargo::rerun-if-changed=../Cargo.toml");
    println!("cargo::rerun-if-changed=src/build.rs");

    #[cfg(feature = "libfabric")]
    {
        // The C sides are linked with it.
        let libfabric = pkg_config::probe_library("libfabric").expect("libfabric's headers");
        let mut c = cc::Build::new();
        c.includes(libfabric.include_paths).opt_level(2).warnings_into_errors(true);
        c.clone().file("src/sides/raw.c").compile("raw");
        c.clone().file("src/sides/raw.c").file("src/sides/shim.c").define("SHIM", None).compile("shim");
        for file in ["raw.c", "shim.c", "shim.h"] {
            println!("cargo::rerun-if-changed=src/sides/{file}");
        }
    }
}
