//! Free lists of things numbered from 0, like blocks of a pool or buffers of a slab.
//!
//! A list keeps numbers in its storage `S`, with one entry for each number, at most `u32::MAX`. It
//! does not allocate.
//! - [`OwnerList`]: for one thread.
//! - [`SharedList`]: for any number of threads, lock-free.
//!
//! Both hand out the number put last, which is still cached.
//!
//! # Zeroed storage
//! Entries are relative to their index, so a zeroed list has all numbers free. A pool in a `static`
//! takes no room in the program's file.
//!
//! # Contract
//! A taken number belongs to the taker until it is put. The list hands out no number beyond its
//! storage in any case.

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
