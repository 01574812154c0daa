//! Addresses: their text and bytes, the address table, and the address vector over it.

mod table;
mod vector;
/// Oracle of the address table, from the tests of loom-core.
#[path = "../../../loom-core/tests/it/engine/address_table/world/mod.rs"]
mod world;

/// Plays a story that the first byte selects: in three of four, one of the table alone.
pub fn address_vector(data: &[u8]) -> usize {
    match data.split_first() {
        Some((kind, story)) if kind % 4 == 0 => vector::play(story),
        Some((_, story)) => table::play(story),
        None => 0,
    }
}
