//! What memory costs that is handed out in advance: `cargo bench --bench alloc`, with `--features libfabric` beside libfabric's
//! providers.
//!
//! Nanoseconds, medians of rounds that alternate between the sides.

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
