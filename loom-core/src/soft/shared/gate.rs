//! [`Gate`]: counts the threads that use an object, so that its owner can close it.

use crate::util::sync::{AtomicU64, Ordering};

/// The bits below count users, the bits above hold the number.
const OPEN: u64 = 1 << 17;
const USERS: u64 = OPEN - 1;

const NUMBER: u32 = 18;

pub(crate) const NUMBER_BITS: u32 = u64::BITS - NUMBER;

const _: () = assert!(OPEN << 1 == 1 << NUMBER, "nothing lies between");
/// An operation uses one region or one endpoint's counters at a time, and an endpoint is in one
/// operation at a time.
const _: () = assert!(USERS >= u16::MAX as u64, "the users are fewer than the endpoints of a network");

/// Users of an earlier object in this place cannot enter.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU64);

impl Gate {
    pub(crate) fn new() -> Self {
        Gate(AtomicU64::new(0))
    }

    /// For the owner alone.
    pub(crate) fn open(&self, number: u64) {
        // Release: users see the object. An addition, because late users of the previous number may
        // count themselves in and out now.
        let before = self.0.load(Ordering::Relaxed) >> NUMBER << NUMBER;
        self.0.fetch_add((number << NUMBER).wrapping_sub(before).wrapping_add(OPEN), Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OPEN != 0
    }

    /// [`close`](Self::close) waits until the value is dropped.
    #[inline]
    pub(crate) fn enter(&self, number: u64) -> Option<User<'_>> {
        // Acquire: pairs with `open`. Counting comes first, so that `close` sees the user or the
        // user sees the door closed.
        let state = self.0.fetch_add(1, Ordering::Acquire);
        let user = User(self);
        (state & OPEN != 0 && state >> NUMBER == number).then_some(user)
    }

    /// For the owner alone.
    pub(crate) fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::Relaxed);
        // Acquire: pairs with the release of leaving users, so that their work has ended.
        while self.0.load(Ordering::Acquire) & USERS != 0 {
            crate::util::sync::spin_loop();
        }
    }
}

#[cfg(all(test, feature = "std", not(loom_model)))]
impl Gate {
    pub(crate) fn count_late_user(&self) -> User<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        User(self)
    }
}

#[derive(Debug)]
pub(crate) struct User<'u>(&'u Gate);

impl Drop for User<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the user's work comes before.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}
