//! Finds libfabric to link, and generates its bindings with bindgen, so that structures have the
//! layout of the library that is linked.

use std::env;
use std::fs;
use std::panic;
use std::path::PathBuf;

use bindgen::callbacks::ParseCallbacks;

/// The oldest version whose operation tables have every entry that `src/ofi` calls.
const OLDEST: &str = "1.17";

const HELP: &str = "install them (Debian and Ubuntu: `apt-get install libfabric-dev libclang-dev pkg-config`), \
                    or use the feature `libfabric`, which loads the library at run time and needs none of them";

const HEADERS: &str = "\
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_trigger.h>
#include <rdma/fi_collective.h>
";

/// Returns the file of the bindings, and its text.
pub(crate) fn generate() -> Result<(String, String), String> {
    let library = pkg_config::Config::new().atleast_version(OLDEST).probe("libfabric").map_err(|error| {
        format!(
            "the feature `libfabric-linked` needs libfabric {OLDEST} or newer with its headers, libclang and pkg-config; \
             {HELP} ({})",
            first_sentence(&error)
        )
    })?;
    load_libclang()?;
    let bindings = bindings(&library.include_paths)
        .map_err(|error| format!("bindgen cannot read the headers of libfabric {}: {error}", library.version))?
        .to_string();
    let out = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let path = format!("{out}/libfabric.rs");
    fs::write(&path, &bindings).map_err(|error| format!("cannot write {path}: {error}"))?;
    Ok((path, bindings))
}

/// What pkg-config missed, without its advice on environment variables.
fn first_sentence(error: &pkg_config::Error) -> String {
    let missing = match error {
        pkg_config::Error::Command { cause, .. } => return format!("pkg-config cannot be run: {cause}"),
        pkg_config::Error::Failure { output, .. } | pkg_config::Error::ProbeFailure { output, .. } => {
            String::from_utf8_lossy(&output.stderr).into_owned()
        }
        other => other.to_string(),
    };
    let line = missing.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no reason given");
    format!("pkg-config says: {line}")
}

/// bindgen panics where it finds no libclang; this asks for it first, quietly.
fn load_libclang() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let loaded = panic::catch_unwind(bindgen::clang_version);
    panic::set_hook(hook);
    match loaded {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "the feature `libfabric-linked` needs libclang, which was not found (LIBCLANG_PATH: {}); {HELP}",
            env::var("LIBCLANG_PATH").as_deref().unwrap_or("not set")
        )),
    }
}

fn bindings(include_paths: &[PathBuf]) -> Result<bindgen::Bindings, bindgen::BindgenError> {
    bindgen::Builder::default()
        .header_contents("libfabric.h", HEADERS)
        .clang_args(include_paths.iter().map(|path| format!("-I{}", path.display())))
        .allowlist_function("fi_.*")
        .blocklist_function("fi_log.*|fi_param_.*") // for providers
        .allowlist_type("fi_.*|fid.*")
        // Only pointed to. Without their fields, bindings of x86_64 and aarch64 are the same.
        .blocklist_type(".*pthread.*")
        .raw_line("pub type pthread_mutex_t = ::core::ffi::c_void ; pub type pthread_cond_t = ::core::ffi::c_void ;")
        .allowlist_var("FI_.*")
        .use_core()
        .ctypes_prefix("::core::ffi")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .derive_default(true)
        .generate_comments(false)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(Rerun))
        .generate()
}

/// Tells cargo which headers and variables the bindings depend on.
#[derive(Debug)]
struct Rerun;

impl ParseCallbacks for Rerun {
    fn include_file(&self, path: &str) {
        println!("cargo::rerun-if-changed={path}");
    }

    fn read_env_var(&self, name: &str) {
        println!("cargo::rerun-if-env-changed={name}");
    }
}
