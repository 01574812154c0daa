//! Finds libfabric and generates its bindings, when the feature `libfabric` is on; does nothing otherwise.
//!
//! The bindings are made from the headers of the machine, so that structures have the layout of the library that is
//! linked. No C is compiled: the C headers' static inline functions are not wrapped, `src/ofi` calls the providers'
//! operation tables itself, as those functions do.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "libfabric")]
    if let Err(message) = libfabric::generate() {
        // One line per message: cargo shows them as errors of the build, without a panic's backtrace.
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

#[cfg(feature = "libfabric")]
mod libfabric {
    use std::env;
    use std::fs;
    use std::panic;
    use std::path::PathBuf;

    use bindgen::callbacks::ParseCallbacks;

    /// The oldest version whose operation tables have every entry that `src/ofi` calls.
    const OLDEST: &str = "1.17";

    /// Fields that `src/ofi` reads and that only some versions of the headers have.
    const FIELDS: [&str; 7] = [
        "total_buffered_recv", // fi_rx_attr, libfabric 1
        "max_ep_auth_key",     // fi_domain_attr, from 1.20 on
        "max_group_id",        // fi_domain_attr, libfabric 2
        "progress",            // fi_domain_attr, libfabric 2, in a union with `data_progress`
        "dmabuf",              // fi_mr_attr, from 1.20 on: then in a union with the ranges
        "poll_open",           // fi_ops_domain, deprecated in libfabric 2
        "wait_open",           // fi_ops_fabric, as well
    ];

    const HELP: &str = "install them (Debian and Ubuntu: `apt-get install libfabric-dev libclang-dev pkg-config`), \
                        or build without the feature `libfabric`: the software transport needs none of them";

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

    /// What bindgen makes of the headers of libfabric 1.17 on x86_64, for documentation alone: `.ci/run packages` compares.
    const FOR_DOCUMENTATION: &str = "bindings/libfabric-1.17.rs";

    pub(crate) fn generate() -> Result<(), String> {
        println!("cargo::rerun-if-env-changed=DOCS_RS");
        // docs.rs has no libfabric, and links nothing.
        if env::var_os("DOCS_RS").is_some() {
            println!("cargo::rerun-if-changed={FOR_DOCUMENTATION}");
            let bindings = fs::read_to_string(FOR_DOCUMENTATION)
                .map_err(|error| format!("cannot read {FOR_DOCUMENTATION}: {error}"))?;
            return write(&bindings);
        }
        let library = pkg_config::Config::new().atleast_version(OLDEST).probe("libfabric").map_err(|error| {
            format!(
                "the feature `libfabric` needs libfabric {OLDEST} or newer with its headers, libclang and pkg-config; \
                 {HELP} ({})",
                first_sentence(&error)
            )
        })?;
        load_libclang()?;
        let bindings = bindings(&library.include_paths)
            .map_err(|error| format!("bindgen cannot read the headers of libfabric {}: {error}", library.version))?
            .to_string();
        write(&bindings)
    }

    /// Hands the bindings to `src/ofi/sys.rs`, and says which fields they have.
    fn write(bindings: &str) -> Result<(), String> {
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?).join("libfabric.rs");
        fs::write(&out, bindings).map_err(|error| format!("cannot write {}: {error}", out.display()))?;
        for field in FIELDS {
            println!("cargo::rustc-check-cfg=cfg(libfabric_has_{field})");
            if bindings.contains(&format!("pub {field} :")) {
                println!("cargo::rustc-cfg=libfabric_has_{field}");
            }
        }
        // For `tests/libfabric/headers.rs`, which compares our constants with the generated ones.
        println!("cargo::rustc-env=LOOM_LIBFABRIC_BINDINGS={}", out.display());
        Ok(())
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
                "the feature `libfabric` needs libclang, which was not found (LIBCLANG_PATH: {}); {HELP}",
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
}
