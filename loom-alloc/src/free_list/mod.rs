//! Free lists of things numbered from 0, like blocks of a pool or buffers of a slab.
//!
//! A list keeps numbers in its storage `S`, an array, a slice or a `Box` of an allocator, with one
//! entry for each number, at most `u32::MAX`. It does not touch the things, nor allocate.
//! Operations take a few instructions.
//!
//! - [`OwnerList`]: for one thread.
//! - [`SharedList`]: for any number of threads, lock-free.
//!
//! Both hand out the number put last, which is still cached. The shared list prefers those put by
//! the taking thread.
//!
//! # Zeroed storage
//!
//! Entries are relative to their index, so a zeroed list has all numbers free. A pool in a `static`
//! takes no room in the program's file.
//!
//! # Contract
//!
//! A taken number belongs to the taker until it is put. Users must not put a number that is not
//! taken, which two takers would get. The list hands out no number beyond its storage in any case.

mod owner;
mod shared;

#[cfg(all(test, loom_model))]
mod model;
#[cfg(all(test, not(loom_model)))]
mod tests;

pub(crate) use owner::OwnerList;
pub(crate) use shared::SharedList;

pub(crate) trait FreeList {
    /// Takes a free number, if any.
    fn take(&self) -> Option<u32>;

    fn put(&self, number: u32);
}
