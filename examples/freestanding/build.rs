//! Links the program, and nothing else (no build script), without libc and without its start files.

fn main() {
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
