//! [`Gate`]: how many threads are at something that its owner closes.

use crate::sync::{AtomicU64, Ordering};

/// Set while it is open; below it, how many use it; above it, its number.
const OPEN: u64 = 1 << 17;
const USERS: u64 = OPEN - 1;

/// Where the number begins.
const NUMBER: u32 = 18;

/// How many bits a number has.
pub(super) const NUMBER_BITS: u32 = u64::BITS - NUMBER;

const _: () = assert!(OPEN << 1 == 1 << NUMBER, "nothing lies between");
// An operation uses one region or one endpoint's counters at a time, and an endpoint is in one operation at a time.
const _: () = assert!(USERS >= u16::MAX as u64, "the users are fewer than the endpoints of a network");

/// A door that the owner of something opens and closes. It has a number while it is open, by which users say what they mean: one
/// that was opened before, in the same place, lets none of them in.
#[derive(Debug)]
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// A closed door.
    pub(super) fn new() -> Self {
        Gate(AtomicU64::new(0))
    }

    /// Opens a closed door under a number of [`NUMBER_BITS`] bits. For the owner alone.
    pub(super) fn open(&self, number: u64) {
        // Release: who enters sees what lies behind. An addition, because a user that came too late for the number before may be
        // adding and taking back its own count at this moment.
        let before = self.0.load(Ordering::Relaxed) >> NUMBER << NUMBER;
        self.0.fetch_add((number << NUMBER).wrapping_sub(before).wrapping_add(OPEN), Ordering::Release);
    }

    /// Whether the door is open, under whichever number: a hint.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OPEN != 0
    }

    /// Begins to use what lies behind; the owner waits in [`close`](Self::close) until the value is dropped.
    #[inline]
    pub(super) fn enter(&self, number: u64) -> Option<User<'_>> {
        // Acquire: pairs with `open`. Counting comes first, so that `close` either sees the user or the user sees that the door is
        // closed.
        let state = self.0.fetch_add(1, Ordering::Acquire);
        let user = User(self);
        (state & OPEN != 0 && state >> NUMBER == number).then_some(user)
    }

    /// Closes the door, and waits for those inside. For the owner alone.
    pub(super) fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::Relaxed);
        // Acquire: pairs with the release of those who leave, so that what they did is over.
        while self.0.load(Ordering::Acquire) & USERS != 0 {
            crate::sync::spin_loop();
        }
    }
}

#[cfg(all(test, feature = "std", not(loom_model)))]
impl Gate {
    /// What a user does between counting itself and seeing that its number is an old one.
    pub(super) fn count_late_user(&self) -> User<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        User(self)
    }
}

/// A user inside.
#[derive(Debug)]
pub(super) struct User<'u>(&'u Gate);

impl Drop for User<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what the user did is over before `close` sees the count fall.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}
