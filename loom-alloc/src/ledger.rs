#![allow(unsafe_code, reason = "forwards an unsafe trait, and writes names once")]

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::hint;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use allocator_api2::alloc::{AllocError, Allocator};
use loom_core::Error;

use crate::counted::Tally;

/// Memory use by name, with at most `N` accounts. Each object gets an allocator that books
/// requested bytes. Threads may share the ledger.
///
/// ```
/// use loom_alloc::{Arena, Ledger, Locked};
/// use loom_core::scope;
/// use loom_core::soft::{Network, NetworkAttr};
///
/// let mut memory = vec![core::mem::MaybeUninit::uninit(); 8 << 20];
/// let arena = Locked::new(Arena::new(&mut memory));
/// let ledger = Ledger::<8>::new();
/// let network = Network::new_in(NetworkAttr::default(), ledger.account("network", &arena)?)?;
/// scope(|s| {
///     let _domain = s.open_in(&network.info(), ledger.account("domain", &arena)?)?;
///     for entry in ledger.entries() {
///         println!("{:>10} bytes in {} blocks: {}", entry.bytes, entry.blocks, entry.name);
///     }
/// #   assert_eq!(ledger.entries().map(|entry| entry.name).collect::<Vec<_>>(), ["network", "domain"]);
/// #   assert!(ledger.entries().all(|entry| entry.bytes > 0 && entry.blocks > 0));
///     Ok::<_, Box<dyn core::error::Error>>(())
/// })?;
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct Ledger<const N: usize> {
    accounts: [Booked; N],
}

/// Memory of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Name.
    pub name: &'static str,
    /// Bytes allocated.
    pub bytes: usize,
    /// Blocks allocated, without empty ones.
    pub blocks: usize,
    /// Maximum of `bytes`, like [`Budget::high_water`](crate::Budget::high_water).
    pub high_water: usize,
}

impl<const N: usize> Ledger<N> {
    /// Creates a ledger.
    #[must_use]
    pub const fn new() -> Self {
        Ledger { accounts: [const { Booked::new() }; N] }
    }

    /// Books memory of `alloc` under a name, or adds to its account.
    ///
    /// # Errors
    /// [`Error::Full`] if `N` accounts have other names.
    pub fn account<A: Allocator>(&self, name: &'static str, alloc: A) -> Result<Account<'_, A>, Error> {
        let booked = self.accounts.iter().find(|booked| booked.is_called(name)).ok_or(FULL)?;
        Ok(Account { tally: &booked.tally, alloc })
    }

    /// Entries of all accounts, in opening order.
    pub fn entries(&self) -> impl Iterator<Item = LedgerEntry> {
        self.accounts.iter().filter_map(|booked| {
            let tally = &booked.tally;
            let (bytes, blocks, high_water) = (tally.bytes(), tally.blocks(), tally.high_water());
            Some(LedgerEntry { name: booked.name()?, bytes, blocks, high_water })
        })
    }
}

impl<const N: usize> Default for Ledger<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Debug for Ledger<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

/// Books blocks under a name of a [`Ledger`].
#[derive(Clone, Copy, Debug)]
pub struct Account<'l, A> {
    tally: &'l Tally,
    alloc: A,
}

// SAFETY: blocks come from the owned inner allocator, which may be moved or cloned.
unsafe impl<A: Allocator> Allocator for Account<'_, A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Ok(self.tally.allocate(usize::MAX, layout, || self.alloc.allocate(layout))?)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Ok(self.tally.allocate(usize::MAX, layout, || self.alloc.allocate_zeroed(layout))?)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds `Allocator::deallocate`.
        unsafe { self.tally.deallocate(&self.alloc, block, layout) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow`.
        Ok(self.tally.grow(usize::MAX, old, new, || unsafe { self.alloc.grow(block, old, new) })?)
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::grow_zeroed`.
        Ok(self.tally.grow(usize::MAX, old, new, || unsafe { self.alloc.grow_zeroed(block, old, new) })?)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller upholds `Allocator::shrink`.
        unsafe { self.tally.shrink(&self.alloc, block, old, new) }
    }
}

struct Booked {
    state: AtomicU8,
    /// Written once, by the thread that set `NAMING`.
    name: UnsafeCell<&'static str>,
    tally: Tally,
}

const FULL: Error = Error::Full("the accounts of the ledger: raise `N` of `Ledger`");

const FREE: u8 = 0;
const NAMING: u8 = 1;
const NAMED: u8 = 2;

// SAFETY: one thread writes the name before `NAMED`. It is read after that.
unsafe impl Sync for Booked {}

impl Booked {
    const fn new() -> Self {
        Booked { state: AtomicU8::new(FREE), name: UnsafeCell::new(""), tally: Tally::new() }
    }

    fn name(&self) -> Option<&'static str> {
        // Acquire: pairs with the release of `NAMED`.
        if self.state.load(Ordering::Acquire) != NAMED {
            return None;
        }
        // SAFETY: `NAMED`, so no longer written.
        Some(unsafe { *self.name.get() })
    }

    fn is_called(&self, name: &'static str) -> bool {
        // Relaxed: the winner reads no memory. Others acquire the name.
        if self.state.compare_exchange(FREE, NAMING, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // SAFETY: it was `FREE` and never is again: this thread alone writes, and none reads
            // yet.
            unsafe { *self.name.get() = name };
            // Release: publishes the name.
            self.state.store(NAMED, Ordering::Release);
            return true;
        }
        loop {
            match self.name() {
                Some(own) => return own == name,
                None => hint::spin_loop(),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::std_instead_of_alloc, reason = "tests fail by panicking, and have std")]
mod tests {
    use std::thread;
    use std::vec::Vec;

    use allocator_api2::alloc::System;
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec as VecIn;

    use super::*;

    #[test]
    fn each_name_has_its_bytes() {
        let ledger = Ledger::<2>::new();
        assert_eq!(ledger.entries().count(), 0);
        let queue = ledger.account("queue", System).unwrap();
        let vector = ledger.account("vector", System).unwrap();
        assert_eq!(ledger.account("third", System).unwrap_err(), FULL);
        let one = Box::try_new_in([0_u8; 100], queue).unwrap();
        let mut numbers = VecIn::new_in(vector);
        numbers.try_reserve_exact(10).unwrap();
        numbers.push(1_u32);
        let two = Box::try_new_in([0_u8; 11], ledger.account("queue", System).unwrap()).unwrap();
        let entry = |name, bytes, blocks, high_water| LedgerEntry { name, bytes, blocks, high_water };
        assert!(ledger.entries().eq([entry("queue", 111, 2, 111), entry("vector", 40, 1, 40)]));
        numbers.shrink_to_fit();
        drop(one);
        assert!(ledger.entries().eq([entry("queue", 11, 1, 111), entry("vector", 4, 1, 40)]));
        drop((two, numbers));
        assert!(ledger.entries().eq([entry("queue", 0, 0, 111), entry("vector", 0, 0, 40)]));
    }

    #[test]
    fn blocks_without_bytes_are_not_counted() {
        let ledger = Ledger::<1>::new();
        let account = ledger.account("list", System).unwrap();
        let booked = || ledger.entries().next().map(|entry| (entry.bytes, entry.blocks)).unwrap();
        for _ in 0..3 {
            let mut list = VecIn::new_in(account);
            list.push(7_u64);
            assert_eq!(booked().1, 1);
            list.clear();
            list.shrink_to_fit();
            assert_eq!(booked(), (0, 0));
            list.push(8_u64);
            assert_eq!(booked().1, 1);
            drop(list);
            assert_eq!(booked(), (0, 0));
        }
        let nothing = Box::try_new_in([0_u8; 0], account).unwrap();
        assert_eq!(booked(), (0, 0));
        drop(nothing);
        let empty = account.allocate(Layout::new::<()>()).unwrap().cast();
        let (none, some) = (Layout::new::<()>(), Layout::new::<u8>());
        // SAFETY: allocated with this layout.
        let grown = unsafe { account.grow(empty, none, some) }.unwrap().cast();
        assert_eq!(booked(), (1, 1));
        // SAFETY: grown to this layout.
        unsafe { account.deallocate(grown, some) };
        assert_eq!(booked(), (0, 0));
    }

    #[test]
    fn threads_that_open_accounts_at_once_agree_on_them() {
        for _ in 0..200 {
            static NAMES: [&str; 4] = ["a", "b", "c", "d"];
            let ledger = Ledger::<4>::new();
            thread::scope(|scope| {
                let threads = [0, 1, 2, 3].map(|first| {
                    let ledger = &ledger;
                    scope.spawn(move || {
                        for name in NAMES.iter().cycle().skip(first).take(4) {
                            let account = ledger.account(name, System).unwrap();
                            drop(Box::try_new_in(1_u64, account).unwrap());
                            assert!(ledger.entries().any(|entry| entry.name == *name));
                        }
                    })
                });
                for thread in threads {
                    thread.join().expect("no panic");
                }
            });
            let mut names: Vec<_> = ledger.entries().map(|entry| entry.name).collect();
            names.sort_unstable();
            assert_eq!(names, NAMES);
            assert!(ledger.entries().all(|entry| (entry.bytes, entry.blocks) == (0, 0) && entry.high_water >= 8));
        }
    }
}
