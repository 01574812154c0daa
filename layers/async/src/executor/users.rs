use crate::sync::{AtomicU32, Ordering};

/// Count that no longer changes.
const STAYS: u32 = 1 << 31;

/// A count of 2^31 stays: one that wraps to zero would free memory in use.
#[derive(Debug)]
pub(super) struct Users(AtomicU32);

impl Users {
    pub(super) fn one() -> Self {
        Users(AtomicU32::new(1))
    }

    #[inline]
    pub(super) fn add(&self) {
        // Concurrent additions exceed the limit by at most the threads.
        if self.0.load(Ordering::Relaxed) < STAYS {
            // Relaxed: the caller is already a user.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn remove(&self) -> bool {
        if self.0.load(Ordering::Relaxed) >= STAYS {
            return false;
        }
        // Release: use of the block happens before it is freed. Acquire: pairs with it in the load
        // below. Not a fence, which ThreadSanitizer does not track.
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
    fn last_user_is_reported() {
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
