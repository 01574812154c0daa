//! Addresses: their text and bytes, the address table, and the address vector over it.

mod table;
mod vector;
/// The oracle of the address table is the one of loom-core's own tests.
#[path = "../../../loom-core/tests/it/engine/address_table/world/mod.rs"]
mod world;

/// The first byte says which story follows: of three in four, one of the table alone.
pub fn address_vector(data: &[u8]) -> usize {
    match data.split_first() {
        Some((kind, story)) if kind % 4 == 0 => vector::play(story),
        Some((_, story)) => table::play(story),
        None => 0,
    }
}
