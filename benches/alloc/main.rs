//! Cost of pooled memory: `cargo bench --bench alloc`, with `--features libfabric` for libfabric's
//! providers.
//!
//! Times are in nanoseconds: medians of rounds that alternate between the sides.

mod leases;
#[path = "../measure/mod.rs"]
mod measure;
mod mr_cache;
mod pin;
mod pools;

fn main() {
    pools::run();
    leases::run();
    mr_cache::run();
}
