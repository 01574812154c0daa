//! [`Count`] and [`SharedCount`]: how many children or users an object has, which is closed when it has none.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// No count goes beyond this. A count that came round to zero would let a parent close before its children, so the process ends
/// instead, as it does with too many references of an `Arc`.
const MOST: u32 = i32::MAX.unsigned_abs();

/// Ends the process if there are too many for one more.
#[inline]
fn admits_one_more(count: u32) {
    if count >= MOST {
        crate::abort::abort("more than 2147483647 objects are counted by one, most of which were forgotten");
    }
}

/// A count that is kept by one thread, or under a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(u32);

impl Count {
    pub(crate) const NONE: Count = Count(0);

    #[must_use]
    pub(crate) fn one_more(self) -> Count {
        admits_one_more(self.0);
        Count(self.0 + 1)
    }

    #[must_use]
    pub(crate) fn one_less(self) -> Count {
        Count(self.0 - 1)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A count that threads share.
pub(crate) struct SharedCount(AtomicU32);

impl SharedCount {
    pub(crate) const fn none() -> Self {
        SharedCount(AtomicU32::new(0))
    }

    /// Other threads may add between the addition and the check of what was there before: the count comes round only if 2^31 threads do
    /// so at once.
    pub(crate) fn add(&self) {
        admits_one_more(self.0.fetch_add(1, Ordering::Relaxed));
    }

    /// Release: what the child did happens before the close that sees the count at zero.
    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether there are none. Acquire: see [`remove`](Self::remove).
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl fmt::Debug for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::process::Command;
    use std::string::String;

    use super::*;
    use crate::handed_over::is_seen_by_another_thread;
    use crate::objects::users::Users;

    fn shared(count: u32) -> SharedCount {
        SharedCount(AtomicU32::new(count))
    }

    #[test]
    fn counts_go_up_to_the_limit_and_back() {
        let count = Count(MOST - 1).one_more();
        assert!(count == Count(MOST) && count.one_less() == Count(MOST - 1) && !count.is_none());
        assert!(Count::NONE.is_none() && Count::NONE.one_more().one_less().is_none());
        let count = shared(MOST - 1);
        count.add();
        assert_eq!(count.0.load(Ordering::Relaxed), MOST);
        count.remove();
        assert_eq!(count.0.load(Ordering::Relaxed), MOST - 1);
        let count = SharedCount::none();
        assert!(count.is_none());
        count.add();
        assert!(!count.is_none());
        count.remove();
        assert!(count.is_none());
    }

    #[test]
    fn thread_that_sees_none_left_sees_what_they_did() {
        is_seen_by_another_thread(&shared(1), SharedCount::remove, SharedCount::is_none);
    }

    /// One more than the limit ends the process: this test runs itself in others.
    #[test]
    fn a_count_beyond_the_limit_ends_the_process() {
        const COUNT: &str = "LOOM_TEST_COUNT";
        if let Ok(count) = std::env::var(COUNT) {
            match &*count {
                "one thread's" => drop(Count(MOST).one_more()),
                "shared" => shared(MOST).add(),
                "users" => Users::counted(shared(MOST)).opened(),
                "within the limit" => Users::counted(shared(MOST - 1)).opened(),
                other => panic!("{other}"),
            }
            return;
        }
        let run = |count: &str| {
            let mut this = Command::new(std::env::current_exe().unwrap());
            let name = "objects::count::tests::a_count_beyond_the_limit_ends_the_process";
            let output = this.args(["--exact", name, "--nocapture"]).env(COUNT, count).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).contains("more than 2147483647 objects");
            (output.status.success(), said)
        };
        for count in ["one thread's", "shared", "users"] {
            assert_eq!(run(count), (false, true), "{count}");
        }
        assert_eq!(run("within the limit"), (true, false));
    }
}
