//! Lists of the free ones among things that are numbered from 0 on: blocks of a pool, buffers of a registered slab.
//!
//! A list keeps numbers in storage of its own (`S`: an array, so that it can stand in a `static`, a slice, or a
//! `Box` of
//! an allocator), and touches nothing of what they name. The storage has one entry for each number, `u32::MAX` at most.
//! No operation allocates, and each is a handful of instructions.
//!
//! - [`OwnerList`]: one thread uses it.
//! - [`SharedList`]: any number of threads, lock-free.
//!
//! Both give back first what was put last, which the caches still have; the shared one what was put last by the thread that takes,
//! as long as that has put any.
//!
//! # Nothing but zeros
//!
//! Entries are stored relative to their place, such that a list of zeros is the one in which everything is free. So storage
//! that is zeroed is ready, and a pool in a `static` takes no room in the program's file.
//!
//! # Contract
//!
//! A number that was taken belongs to the taker until it is put. Putting one that is not taken gives it to two takers afterwards:
//! what is built on a list has to see to it. The list itself stays sound: it hands out no number beyond its storage.

mod owner;
mod shared;

#[cfg(all(test, loom_model))]
mod model;
#[cfg(all(test, not(loom_model)))]
mod tests;

pub(crate) use owner::OwnerList;
pub(crate) use shared::SharedList;

/// What both lists do.
pub(crate) trait FreeList {
    /// Takes a free number; `None` if there is none.
    fn take(&self) -> Option<u32>;

    /// Gives a number back that was taken.
    fn put(&self, number: u32);
}
