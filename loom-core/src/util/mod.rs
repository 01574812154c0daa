pub(crate) mod abort;
pub(crate) mod clone;
pub(crate) mod count;
pub(crate) mod debug;
pub(crate) mod index_list;
pub(crate) mod log;
pub(crate) mod on_drop;
pub(crate) mod random;
#[cfg(feature = "serde")]
pub(crate) mod serial;
pub(crate) mod siphash;
pub(crate) mod sync;
#[cfg(test)]
#[path = "../../tests/models/visibility.rs"]
pub(crate) mod visibility;
