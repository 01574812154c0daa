//! Free lists of numbers from 0, of blocks or buffers.
//!
//! A list keeps numbers in its storage `S`, an entry for each, at most `u32::MAX`. It hands out the
//! last number put, which is still cached.
//!
//! # Zeroed storage
//! Entries are relative to their index, so a zeroed list has all numbers free.
//!
//! # Contract
//! A taken number belongs to the taker until it is put. Numbers are within the storage.

mod owner;
mod shared;

#[cfg(all(test, loom_model))]
mod model;
#[cfg(all(test, not(loom_model)))]
mod tests;

pub(crate) use owner::OwnerList;
pub(crate) use shared::SharedList;

pub(crate) trait FreeList {
    fn take(&self) -> Option<u32>;

    fn put(&self, number: u32);
}
