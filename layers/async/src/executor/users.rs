//! [`Users`]: how many handles and wakers a block has.

use crate::sync::{AtomicU32, Ordering};

/// A count that has reached this is not changed any more.
const STAYS: u32 = 1 << 31;

/// How many handles and wakers there are. The last one frees the block.
///
/// A count that reaches 2^31 stays there, and the block is never freed: that number of wakers exists only where a program forgets them, and a
/// count that came round to zero would free memory in use.
#[derive(Debug)]
pub(super) struct Users(AtomicU32);

impl Users {
    pub(super) fn one() -> Self {
        Users(AtomicU32::new(1))
    }

    #[inline]
    pub(super) fn add(&self) {
        // Threads that add at once go beyond the limit by their number at most.
        if self.0.load(Ordering::Relaxed) < STAYS {
            // Relaxed: who adds has one already.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One less; says whether it was the last.
    #[inline]
    pub(super) fn remove(&self) -> bool {
        if self.0.load(Ordering::Relaxed) >= STAYS {
            return false;
        }
        // Release: what was done with the block happens before it is freed. Acquire: see there. Not a fence, which ThreadSanitizer does
        // not see.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        self.0.load(Ordering::Acquire) == 0
    }
}

#[cfg(all(test, loom_model))]
mod model;

#[cfg(all(test, not(loom_model)))]
mod tests {
    use super::*;

    #[test]
    fn last_user_is_told_so() {
        let users = Users::one();
        users.add();
        assert!(!users.remove());
        assert!(users.remove());
    }

    #[test]
    fn count_that_reaches_the_limit_stays_there() {
        let users = Users(AtomicU32::new(STAYS - 1));
        users.add();
        users.add();
        assert!(!users.remove() && !users.remove());
        assert_eq!(users.0.load(Ordering::Relaxed), STAYS);
    }
}
