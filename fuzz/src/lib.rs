//! Bodies of the fuzz targets.
//!
//! Each makes a story of its bytes (`arbitrary`), plays it against loom and a naive oracle, and
//! panics on a difference. Each returns the number of steps, which a replay checks for progress.
//!
//! They are independent of the fuzzer: `tests/replay.rs` runs them on stable over `seeds/` and
//! `regressions/`.

mod address_vector;
mod arrivals;
#[path = "../../loom-core/tests/it/engine/arrivals/world.rs"]
mod arriving;
#[path = "../../loom-alloc/tests/allocators/stories/world/mod.rs"]
mod blocks;
mod bootstrap_wire;
#[path = "../../loom-alloc/tests/allocators/mr_cache/world/mod.rs"]
mod cache_world;
#[path = "../../loom-core/tests/it/objects/completions/world/mod.rs"]
mod completions;
mod example_protocol;
mod exchange;
#[path = "../../layers/async/tests/runtime/stories/world/mod.rs"]
mod futures_world;
#[path = "../../loom-alloc/tests/allocators/registered/world/mod.rs"]
mod leases;
#[path = "../../loom-core/tests/it/engine/tag_matcher/world/mod.rs"]
mod matching;
mod media;
#[path = "../../loom-core/tests/it/memory.rs"]
mod memory;
mod mr_cache;
mod mxl_formats;
mod notifications;
mod op_table;
mod registered;
#[path = "../../loom-core/tests/it/scripted.rs"]
mod scripted;
mod soft_network;
mod tag_matching;
mod tagged;
#[allow(dead_code, reason = "some of it is for those tests alone")]
#[path = "../../tests/layers/tagged/world/mod.rs"]
mod tagged_world;
mod tcp_stranger;
mod tcp_wire;
mod transfer;
mod updates;
mod work_table;
#[path = "../../tests/layers/deferred/work_table/world.rs"]
mod works;
#[allow(dead_code, reason = "some of it is for those tests alone")]
#[path = "../../loom-core/tests/it/engine/op_table/world/mod.rs"]
mod world;

use arbitrary::{Arbitrary, Unstructured};

pub use address_vector::address_vector;
pub use arrivals::arrivals;
pub use blocks::{arena, pool};
pub use bootstrap_wire::bootstrap_wire;
pub use completions::play as completion_decode;
pub use example_protocol::example_protocol;
pub use exchange::exchange;
pub use futures_world::play as futures;
pub use media::media;
pub use mr_cache::mr_cache;
pub use mxl_formats::mxl_formats;
pub use notifications::notifications;
pub use op_table::op_table;
pub use registered::registered;
pub use soft_network::soft_network;
pub use tag_matching::tag_matching;
pub use tagged::tagged;
pub use tcp_stranger::tcp_stranger;
pub use tcp_wire::tcp_wire;
pub use transfer::transfer;
pub use updates::updates;
pub use work_table::work_table;

fn steps<S: for<'d> Arbitrary<'d>>(data: &[u8]) -> impl Iterator<Item = S> {
    const MOST: usize = 100;
    let mut bytes = Unstructured::new(data);
    core::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.arbitrary().ok()).flatten()).take(MOST)
}

pub type Body = fn(&[u8]) -> usize;

pub const TARGETS: [(&str, Body); 23] = [
    ("address_vector", address_vector),
    ("arrivals", arrivals),
    ("work_table", work_table),
    ("arena", arena),
    ("bootstrap_wire", bootstrap_wire),
    ("completion_decode", completion_decode),
    ("example_protocol", example_protocol),
    ("exchange", exchange),
    ("futures", futures),
    ("media", media),
    ("mr_cache", mr_cache),
    ("mxl_formats", mxl_formats),
    ("notifications", notifications),
    ("op_table", op_table),
    ("pool", pool),
    ("registered", registered),
    ("soft_network", soft_network),
    ("tag_matching", tag_matching),
    ("tagged", tagged),
    ("tcp_stranger", tcp_stranger),
    ("tcp_wire", tcp_wire),
    ("transfer", transfer),
    ("updates", updates),
];
