use core::alloc::Layout;

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use crate::error::Violation;
use crate::slab::array;

/// Values in the order of their numbers, which start at zero and wrap at 2^32.
#[derive(Debug)]
pub(crate) struct Sequence<V, A: Allocator> {
    next: u32,
    /// Slot of the next value, in a ring.
    head: usize,
    early: Array<Option<V>, A>,
}

impl<V, A: Allocator> Sequence<V, A> {
    pub(crate) fn layout(window: usize) -> Result<Layout, OpenError> {
        array::<Option<V>>(window)
    }

    /// Accepts `window` numbers from the next one on.
    pub(crate) fn new_in(window: usize, alloc: A) -> Result<Self, OpenError> {
        Ok(Sequence { next: 0, head: 0, early: Array::new_in(window, alloc, |_| None)? })
    }

    pub(crate) fn arrive(&mut self, number: u32, what: V) -> Result<(), Violation> {
        let ahead = number.wrapping_sub(self.next);
        let window = self.early.len();
        let Some(ahead) = usize::try_from(ahead).ok().filter(|ahead| *ahead < window) else {
            return Err(if ahead > u32::MAX / 2 { Violation::Repeated } else { Violation::Beyond });
        };
        match self.early.get_mut((self.head + ahead) % window) {
            Some(place @ None) => {
                *place = Some(what);
                Ok(())
            }
            _ => Err(Violation::Repeated),
        }
    }

    pub(crate) fn take(&mut self) -> Option<V> {
        let what = self.early.get_mut(self.head)?.take()?;
        self.head = (self.head + 1) % self.early.len();
        self.next = self.next.wrapping_add(1);
        Some(what)
    }

    pub(crate) fn clear(&mut self) {
        self.early.iter_mut().for_each(|place| *place = None);
    }
}

#[cfg(all(test, feature = "std"))]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::vec::Vec;

    use allocator_api2::alloc::Global;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Returned numbers make room for others.
        #[test]
        fn everything_is_given_on_once_and_in_order(
            window in 1usize..20,
            first: u32,
            choices in proptest::collection::vec(any::<usize>(), 0..300),
        ) {
            let mut sequence = Sequence::new_in(window, Global).unwrap();
            sequence.next = first;
            let mut under_way: Vec<u32> = Vec::new();
            let (mut sent, mut given) = (0u32, 0u32);
            for choice in choices {
                while (sent - given) as usize == under_way.len() && under_way.len() < window
                    || ((sent - given) as usize) < window
                {
                    under_way.push(first.wrapping_add(sent));
                    sent += 1;
                }
                let number = under_way.swap_remove(choice % under_way.len());
                prop_assert_eq!(sequence.arrive(number, number), Ok(()));
                let now = first.wrapping_add(given);
                let is_early = number.wrapping_sub(now) > 0;
                prop_assert_eq!(sequence.arrive(number, number), Err(Violation::Repeated));
                while let Some(next) = sequence.take() {
                    prop_assert_eq!(next, first.wrapping_add(given));
                    given += 1;
                }
                prop_assert!(is_early || given > 0);
                let now = first.wrapping_add(given);
                prop_assert_eq!(sequence.arrive(now.wrapping_sub(1), 0), Err(Violation::Repeated));
                let beyond = now.wrapping_add(u32::try_from(window).unwrap());
                prop_assert_eq!(sequence.arrive(beyond, 0), Err(Violation::Beyond));
            }
        }
    }
}
