//! Counts arrivals of immediate data, and reports when a value has arrived a given number of times.
//!
//! Values are numbers below the table's size: the immediate data or a field of it
//! ([`data_layout!`](crate::data_layout)). Waiters name a *total*, counted since the table was
//! opened.
//!
//! # Reusing a value
//!
//! If parts of a second transfer with the value overtake the first, the first may be reported too
//! early. A sender therefore reuses a value after an answer that all earlier parts were counted, or
//! cycles through more values than transfers are in flight.
//!
//! # Example with a queue
//!
//! ```
//! use loom_core::{Access, Arrivals, Completion, Forever, ImmediateData, Mr};
//!
//! # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
//! let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
//! // For the values below 8, and for 4 waits at the same time.
//! let arrivals = Arrivals::open(8, 4)?;
//! let both = arrivals.wait_for(3, 2)?;
//! for at in [0, 32] {
//!     cq.post(vec![7; 32], Forever, |part| alice.write_data(to_bob, &region.remote(), at, ImmediateData(3), part))?;
//! }
//! while !arrivals.take(both)? {
//!     if let Some(Completion::Remote(event)) = cq.poll()? { arrivals.count(event.data().map_or(0, |data| data.0))?; }
//! }
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

use core::cell::Cell;
use core::fmt;

use allocator_api2::alloc::Allocator;
#[cfg(feature = "std")]
use allocator_api2::alloc::Global;

use crate::error::{CqError, OpenError};
use crate::storage::Array;
use crate::util::debug::debug_struct;

const NONE: u32 = u32::MAX;

/// Counter of arrivals with waiters for totals.
///
/// Belongs to one thread.
///
/// ```
/// use loom_core::Arrivals;
///
/// let arrivals = Arrivals::open(8, 4)?;
/// // A part that arrives before the wait begins counts.
/// arrivals.count(3)?;
/// let both = arrivals.wait_for(3, 2)?;
/// arrivals.count(3)?;
/// let arrived = arrivals.poll().expect("both parts are there");
/// assert_eq!((arrived.key, arrived.value), (both, 3));
/// // The next transfer of two parts with this value waits for a total of four.
/// let next = arrivals.wait_for(3, arrived.threshold + 2)?;
/// assert_eq!(arrivals.take(next), Ok(false));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct Arrivals<A: Allocator> {
    values: Array<Value, A>,
    waiters: Array<Waiter, A>,
    free_waiter: Cell<u32>,
    /// Due values: the oldest and the newest.
    due_queue: Cell<(u32, u32)>,
}

/// Completed wait: the value has arrived as often as required.
///
/// ```
/// use loom_core::Arrivals;
///
/// let arrivals = Arrivals::open(8, 4)?;
/// // Both parts of a transfer, and the first one.
/// let [both, first] = [arrivals.wait_for(3, 2)?, arrivals.wait_for(3, 1)?];
/// arrivals.count(3)?;
/// arrivals.count(3)?;
/// // The lower threshold comes first.
/// let completed = core::iter::from_fn(|| arrivals.poll()).map(|arrived| (arrived.key, arrived.threshold));
/// assert!(completed.eq([(first, 1), (both, 2)]));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait ends with this value, which is given once"]
pub struct Arrived {
    /// Key of the wait.
    pub key: ArrivalKey,
    /// Value that arrived.
    pub value: u64,
    /// Total that was waited for. More may have arrived.
    pub threshold: u64,
}

/// Name of a wait in its table.
///
/// After the wait it is unknown, until its slot has been used 2<sup>32</sup> more times.
///
/// ```
/// use loom_core::{Arrivals, CqError};
///
/// let arrivals = Arrivals::open(8, 4)?;
/// let [first, second] = [arrivals.wait_for(3, 1)?, arrivals.wait_for(5, 1)?];
/// // The program does not wait for the second value any more. What arrives is counted all the same.
/// arrivals.give_up(second)?;
/// arrivals.count(3)?;
/// arrivals.count(5)?;
/// assert_eq!(arrivals.take(first), Ok(true));
/// assert_eq!(arrivals.take(second), Err(CqError::UnknownKey));
/// assert_eq!(arrivals.total(5), Ok(1));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrivalKey {
    index: u32,
    generation: u32,
}

impl ArrivalKey {
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

impl fmt::Debug for ArrivalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrivalKey(#{}.{})", self.index, self.generation)
    }
}

struct Value {
    total: Cell<u64>,
    /// At most the lowest threshold of the waiters. `u64::MAX` while the value is due.
    lowest_threshold: Cell<u64>,
    first_waiter: Cell<u32>,
    next_due: Cell<u32>,
}

struct Waiter {
    threshold: Cell<u64>,
    /// Its value, or `NONE` if the slot is free.
    value: Cell<u32>,
    generation: Cell<u32>,
    /// Next waiter of the value, or next free slot.
    next: Cell<u32>,
    previous: Cell<u32>,
}

#[cfg(feature = "std")]
impl Arrivals<Global> {
    /// [`open_in`](Self::open_in) with the global allocator.
    ///
    /// # Errors
    /// The errors of [`open_in`](Self::open_in).
    pub fn open(values: usize, waiters: usize) -> Result<Self, OpenError> {
        Self::open_in(values, waiters, Global)
    }
}

impl<A: Allocator> Arrivals<A> {
    /// Opens a table of the values below `values`, for `waiters` simultaneous waits. Allocates two
    /// blocks: 24 bytes for each value, and 24 for each wait.
    ///
    /// # Errors
    /// [`OpenError::Size`] if either is 2<sup>32</sup> - 1 or more, [`OpenError::OutOfMemory`].
    pub fn open_in(values: usize, waiters: usize, alloc: A) -> Result<Self, OpenError>
    where
        A: Clone,
    {
        let count = |count: usize| u32::try_from(count).ok().filter(|count| *count < NONE).ok_or(OpenError::Size);
        count(values)?;
        let last = count(waiters)?;
        let value = |_| Value {
            total: Cell::new(0),
            lowest_threshold: Cell::new(u64::MAX),
            first_waiter: Cell::new(NONE),
            next_due: Cell::new(NONE),
        };
        let waiter = |number: usize| Waiter {
            threshold: Cell::new(0),
            value: Cell::new(NONE),
            generation: Cell::new(0),
            next: Cell::new(u32::try_from(number + 1).ok().filter(|next| *next < last).unwrap_or(NONE)),
            previous: Cell::new(NONE),
        };
        Ok(Arrivals {
            values: Array::new_in(values, alloc.clone(), value)?,
            waiters: Array::new_in(waiters, alloc, waiter)?,
            free_waiter: Cell::new(if waiters == 0 { NONE } else { 0 }),
            due_queue: Cell::new((NONE, NONE)),
        })
    }

    /// Counts an arrival.
    ///
    /// # Errors
    /// [`CqError::NoSuchValue`]
    #[inline]
    pub fn count(&self, value: u64) -> Result<(), CqError> {
        let (index, entry) = self.value(value)?;
        let total = entry.total.get().wrapping_add(1);
        entry.total.set(total);
        if total >= entry.lowest_threshold.get() {
            self.becomes_due(index, entry);
        }
        Ok(())
    }

    /// Number of arrivals of a value.
    ///
    /// # Errors
    /// [`CqError::NoSuchValue`]
    #[inline]
    pub fn total(&self, value: u64) -> Result<u64, CqError> {
        Ok(self.value(value)?.1.total.get())
    }

    /// Waits until a value has arrived `threshold` times since the table was opened.
    ///
    /// # Errors
    /// [`CqError::NoSuchValue`], or [`CqError::TooManyWaits`] if all waits are in use.
    pub fn wait_for(&self, value: u64, threshold: u64) -> Result<ArrivalKey, CqError> {
        let (of, entry) = self.value(value)?;
        let index = self.free_waiter.get();
        let waiter = self.waiter(index).ok_or(CqError::TooManyWaits)?;
        self.free_waiter.set(waiter.next.get());
        let (mut before, mut next) = (NONE, entry.first_waiter.get());
        while let Some(other) = self.waiter(next).filter(|other| other.threshold.get() <= threshold) {
            (before, next) = (next, other.next.get());
        }
        waiter.threshold.set(threshold);
        waiter.value.set(of);
        self.join(entry, before, index);
        self.join(entry, index, next);
        if !self.is_due(of, entry) {
            entry.lowest_threshold.set(self.lowest(entry));
            if entry.total.get() >= entry.lowest_threshold.get() {
                self.becomes_due(of, entry);
            }
        }
        Ok(ArrivalKey { index, generation: waiter.generation.get() })
    }

    /// Returns the next completed wait and removes it.
    pub fn poll(&self) -> Option<Arrived> {
        loop {
            let (of, last) = self.due_queue.get();
            let entry = self.values.get(of as usize)?;
            if let Some((key, waiter)) = self.first_of(entry)
                && waiter.threshold.get() <= entry.total.get()
            {
                let arrived = Arrived { key, value: of.into(), threshold: waiter.threshold.get() };
                self.remove(key.index, waiter);
                return Some(arrived);
            }
            let next = entry.next_due.replace(NONE);
            self.due_queue.set(if of == last { (NONE, NONE) } else { (next, last) });
            entry.lowest_threshold.set(self.lowest(entry));
        }
    }

    /// Returns `true` and removes the wait if its total is reached. [`poll`](Self::poll) does not
    /// report it then.
    ///
    /// # Errors
    /// [`CqError::UnknownKey`] for a wait that has ended.
    pub fn take(&self, key: ArrivalKey) -> Result<bool, CqError> {
        let (waiter, entry) = self.named(key)?;
        let reached = waiter.threshold.get() <= entry.total.get();
        if reached {
            self.remove(key.index, waiter);
        }
        Ok(reached)
    }

    /// Ends a wait. Later arrivals are still counted.
    ///
    /// # Errors
    /// [`CqError::UnknownKey`] for a wait that has ended.
    pub fn give_up(&self, key: ArrivalKey) -> Result<(), CqError> {
        let (waiter, _) = self.named(key)?;
        self.remove(key.index, waiter);
        Ok(())
    }

    #[inline]
    fn value(&self, value: u64) -> Result<(u32, &Value), CqError> {
        let index = u32::try_from(value).ok();
        let found = index.and_then(|index| Some((index, self.values.get(index as usize)?)));
        found.ok_or(CqError::NoSuchValue { values: self.values.len() as u64 })
    }

    fn is_due(&self, index: u32, entry: &Value) -> bool {
        entry.next_due.get() != NONE || self.due_queue.get().1 == index
    }

    fn waiter(&self, index: u32) -> Option<&Waiter> {
        self.waiters.get(index as usize)
    }

    fn first_of(&self, entry: &Value) -> Option<(ArrivalKey, &Waiter)> {
        let index = entry.first_waiter.get();
        let waiter = self.waiter(index)?;
        Some((ArrivalKey { index, generation: waiter.generation.get() }, waiter))
    }

    fn named(&self, key: ArrivalKey) -> Result<(&Waiter, &Value), CqError> {
        let waiter = self.waiter(key.index).filter(|waiter| waiter.generation.get() == key.generation);
        let found = waiter.and_then(|waiter| Some((waiter, self.values.get(waiter.value.get() as usize)?)));
        found.ok_or(CqError::UnknownKey)
    }

    fn join(&self, entry: &Value, before: u32, next: u32) {
        match self.waiter(before) {
            Some(before) => before.next.set(next),
            None => entry.first_waiter.set(next),
        }
        if let Some(next) = self.waiter(next) {
            next.previous.set(before);
        }
    }

    fn remove(&self, index: u32, waiter: &Waiter) {
        if let Some(entry) = self.values.get(waiter.value.replace(NONE) as usize) {
            self.join(entry, waiter.previous.get(), waiter.next.get());
        }
        waiter.generation.set(waiter.generation.get().wrapping_add(1));
        waiter.next.set(self.free_waiter.replace(index));
    }

    fn lowest(&self, entry: &Value) -> u64 {
        self.waiter(entry.first_waiter.get()).map_or(u64::MAX, |waiter| waiter.threshold.get())
    }

    #[cold]
    #[inline(never)]
    fn becomes_due(&self, index: u32, entry: &Value) {
        entry.lowest_threshold.set(u64::MAX);
        let (first, last) = self.due_queue.get();
        match self.values.get(last as usize) {
            Some(last) => {
                last.next_due.set(index);
                self.due_queue.set((first, index));
            }
            None => self.due_queue.set((index, index)),
        }
    }
}

debug_struct!([A: Allocator] Arrivals[A], |it| values: it.values.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_documented() {
        assert_eq!((size_of::<Value>(), size_of::<Waiter>()), (24, 24));
    }
}
