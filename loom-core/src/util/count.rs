//! [`Count`] and [`SharedCount`]: numbers of handles or users of an object, which closes at zero.

use core::fmt;

use super::sync::{AtomicU32, Ordering};

/// Beyond it, the process is aborted, like with too many references of an `Arc`.
const MOST: u32 = i32::MAX.unsigned_abs();

#[inline]
fn admits_one_more(count: u32) {
    if count >= MOST {
        super::abort::abort("more than 2147483647 objects are counted by one, most of which were forgotten");
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

pub(crate) struct SharedCount(AtomicU32);

impl SharedCount {
    pub(crate) fn none() -> Self {
        SharedCount(AtomicU32::new(0))
    }

    pub(crate) fn one() -> Self {
        SharedCount(AtomicU32::new(1))
    }

    /// Without an atomic read-modify-write if only one thread counts. Other threads may add before
    /// the check, but the count wraps only if 2^31 threads do so at once.
    #[inline]
    pub(crate) fn add(&self, one_thread: bool) {
        if one_thread {
            let before = self.0.load(Ordering::Relaxed);
            admits_one_more(before);
            self.0.store(before + 1, Ordering::Relaxed);
        } else {
            admits_one_more(self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Decrements the count. Returns `true` if it was the last.
    ///
    /// Release pairs with the Acquire load of the thread that removes the last count, which sees
    /// the earlier accesses of all others.
    #[inline]
    pub(crate) fn remove(&self, one_thread: bool) -> bool {
        if one_thread {
            let before = self.0.load(Ordering::Relaxed);
            self.0.store(before - 1, Ordering::Relaxed);
            return before == 1;
        }
        let last = self.0.fetch_sub(1, Ordering::Release) == 1;
        // An Acquire load instead of a fence, which ThreadSanitizer does not support.
        last && self.0.load(Ordering::Acquire) == 0
    }

    pub(crate) fn remove_unless_last(&self) {
        let mut count = self.0.load(Ordering::Relaxed);
        while count > 1 {
            match self.0.compare_exchange(count, count - 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => count = other,
            }
        }
    }

    /// Returns `true` if it is `count`. Acquire pairs with the Release of [`remove`](Self::remove).
    pub(crate) fn is(&self, count: u32) -> bool {
        self.0.load(Ordering::Acquire) == count
    }
}

impl fmt::Debug for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(all(test, loom_model))]
#[path = "../../tests/models/count.rs"]
mod model;

#[cfg(all(test, not(loom_model)))]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::process::Command;
    use std::string::String;

    use super::*;
    use crate::util::visibility::is_seen_by_another_thread;

    fn shared(count: u32) -> SharedCount {
        SharedCount(AtomicU32::new(count))
    }

    #[test]
    fn counts_go_up_to_the_limit_and_back() {
        let count = Count(MOST - 1).one_more();
        assert!(count == Count(MOST) && count.one_less() == Count(MOST - 1) && !count.is_none());
        assert!(Count::NONE.is_none() && Count::NONE.one_more().one_less().is_none());
        for one_thread in [false, true] {
            let count = shared(MOST - 1);
            count.add(one_thread);
            assert!(count.is(MOST));
            assert!(!count.remove(one_thread));
            assert!(count.is(MOST - 1));
            let count = SharedCount::none();
            assert!(count.is(0));
            count.add(one_thread);
            count.add(one_thread);
            assert!(!count.is(0) && count.is(2));
            assert!(!count.remove(one_thread));
            assert!(count.remove(one_thread), "it was the last");
            assert!(count.is(0));
        }
        assert!(SharedCount::one().remove(false));
    }

    #[test]
    fn thread_that_sees_a_zero_count_sees_earlier_writes() {
        is_seen_by_another_thread(
            &shared(1),
            |count| {
                count.remove(false);
            },
            |count| count.is(0),
        );
    }

    #[test]
    fn thread_that_has_the_last_one_sees_the_writes_of_the_others() {
        is_seen_by_another_thread(&shared(2), SharedCount::remove_unless_last, |count| count.is(1));
        let last = SharedCount::one();
        last.remove_unless_last();
        assert!(last.is(1), "it stays");
    }

    #[test]
    fn thread_that_removes_the_last_sees_the_writes_of_the_others() {
        is_seen_by_another_thread(
            &shared(2),
            |count| {
                count.remove(false);
            },
            |count| {
                let last = count.remove(false);
                if !last {
                    count.add(false);
                }
                last
            },
        );
    }

    #[test]
    fn a_count_beyond_the_limit_ends_the_process() {
        const COUNT: &str = "LOOM_TEST_COUNT";
        if let Ok(count) = std::env::var(COUNT) {
            match &*count {
                "kept by one" => drop(Count(MOST).one_more()),
                "shared" => shared(MOST).add(false),
                "one thread's" => shared(MOST).add(true),
                "within the limit" => shared(MOST - 1).add(false),
                other => panic!("{other}"),
            }
            return;
        }
        let run = |count: &str| {
            let mut this = Command::new(std::env::current_exe().unwrap());
            let name = "util::count::tests::a_count_beyond_the_limit_ends_the_process";
            let output = this.args(["--exact", name, "--nocapture"]).env(COUNT, count).output().unwrap();
            let reported = String::from_utf8_lossy(&output.stderr).contains("more than 2147483647 objects");
            (output.status.success(), reported)
        };
        for count in ["kept by one", "shared", "one thread's"] {
            assert_eq!(run(count), (false, true), "{count}");
        }
        assert_eq!(run("within the limit"), (true, false));
    }
}
