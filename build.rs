//! Reports which fields libfabric's structures have, when the feature `libfabric` is on. With
//! `libfabric-linked`, finds libfabric, and generates bindings from its headers.
//!
//! No C is compiled: the C headers' static inline functions are not wrapped, `src/ofi` calls the
//! providers' operation tables itself, as those functions do.

#[cfg(feature = "libfabric-linked")]
#[path = "build/linked.rs"]
mod linked;

/// Declarations of libfabric 1.17, which later versions keep (`.ci/run bindings`).
#[cfg(feature = "libfabric")]
const BINDINGS: &str = "bindings/libfabric-1.17.rs";

/// Fields that `src/ofi` reads and that only some versions of the headers have.
#[cfg(feature = "libfabric")]
const FIELDS: [&str; 7] = [
    "total_buffered_recv", // fi_rx_attr, libfabric 1
    "max_ep_auth_key",     // fi_domain_attr, from 1.20 on
    "max_group_id",        // fi_domain_attr, libfabric 2
    "progress",            // fi_domain_attr, libfabric 2, in a union with `data_progress`
    "dmabuf",              // fi_mr_attr, from 1.20 on: then in a union with the ranges
    "poll_open",           // fi_ops_domain, deprecated in libfabric 2
    "wait_open",           // fi_ops_fabric, as well
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(libfabric_linked)");
    #[cfg(feature = "libfabric")]
    if let Err(message) = libfabric() {
        // One line per message: cargo shows them as errors of the build, without a panic's
        // backtrace.
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

#[cfg(feature = "libfabric")]
fn libfabric() -> Result<(), String> {
    let (path, bindings) = bindings()?;
    for field in FIELDS {
        println!("cargo::rustc-check-cfg=cfg(libfabric_has_{field})");
        if bindings.contains(&format!("pub {field} :")) {
            println!("cargo::rustc-cfg=libfabric_has_{field}");
        }
    }
    // For `tests/libfabric/headers.rs`, which compares our constants with the generated ones.
    println!("cargo::rustc-env=LOOM_LIBFABRIC_BINDINGS={path}");
    Ok(())
}

/// The file of the declarations, and its text.
#[cfg(feature = "libfabric")]
fn bindings() -> Result<(String, String), String> {
    #[cfg(feature = "libfabric-linked")]
    {
        println!("cargo::rerun-if-env-changed=DOCS_RS");
        // docs.rs has no libfabric, and links nothing.
        if std::env::var_os("DOCS_RS").is_none() {
            println!("cargo::rustc-cfg=libfabric_linked");
            return linked::generate();
        }
    }
    println!("cargo::rerun-if-changed={BINDINGS}");
    let folder = std::env::var("CARGO_MANIFEST_DIR").map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(BINDINGS).map_err(|error| format!("cannot read {BINDINGS}: {error}"))?;
    Ok((format!("{folder}/{BINDINGS}"), text))
}
