//! Arrivals: how often each value of immediate data has come, and who waits for how many.
//!
//! A sender of many parts puts the number of the transfer into the immediate data of each; the receiver counts, and knows that all parts
//! are there when it has counted as many as both sides can compute. That needs no order of the parts, which not every provider grants.
//!
//! The values are the numbers below the table's size: a field of the immediate data ([`data_layout!`](crate::data_layout)), or
//! all of it. A field of 20 bits takes a table of 2<sup>20</sup> values, which is 24 MiB. Who waits names the *total* at which it is
//! told, counted from when the table was opened: parts that come before anybody waits are not lost, and the next transfer of the same
//! value waits for a total that is higher by its parts.
//!
//! # Using a value again
//!
//! The table cannot tell two transfers of one value apart. If a part of the second may overtake one of the first, the first is
//! told too early. So a sender uses a value again when an answer has told it that all earlier parts were counted. Or it takes the values in
//! turn, more of them than transfers are under way. Parts of a transfer that was given up may still come: its value can be used
//! again when its sender is known to send no more, from the [total](Arrivals::total) of then on.
//!
//! # What it costs
//!
//! Counting an arrival takes constant time, however many wait: where the lowest of their thresholds is reached, the value is put on a list,
//! and [`poll`](Arrivals::poll) takes those who wait off one by one. Who begins to wait is put behind those of the same value with lower
//! or equal thresholds, which are walked.
//!
//! # From a queue
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::engine::arrivals::Arrivals;
//! use loom_core::immediate::Layout;
//! use loom_core::{av::Av, cq::Cq, deadline::Forever, domain::Domain, mr::Mr};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Access, Completion, data_layout};
//!
//! data_layout! {
//!     struct Part {
//!         transfer: u8 = 3,
//!         index: u16 = 13,
//!     }
//! }
//!
//! let network = Network::new(NetworkAttr::default())?;
//! network.info().carries::<Part>()?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
//! let to_bob = av.insert(&bob.address()?)?;
//! let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
//!
//! // For the 8 transfers of the layout, and for 4 who wait at the same time.
//! let arrivals = Arrivals::open(8, 4)?;
//! let all = arrivals.wait_for(3, 2)?;
//! for index in 0..2 {
//!     let data = Part { transfer: 3, index }.encode()?;
//!     let at = 32 * u64::from(index);
//!     cq.post(vec![7; 32], Forever, |part| alice.write_data(to_bob, &region.remote(), at, data, part))?;
//! }
//! let told = loop {
//!     // Polled, so that the queue always has room for the next event of a peer.
//!     if let Some(Completion::Remote(event)) = cq.poll()? {
//!         // What does not decode, or names no transfer of the table, is the peer's error.
//!         let part = Part::decode(event.data().expect("every write has some here"))?;
//!         arrivals.count(part.transfer.into())?;
//!     }
//!     if let Some(told) = arrivals.poll() {
//!         break told;
//!     }
//! };
//! assert_eq!((told.key, told.value, told.threshold), (all, 3, 2));
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```

use core::cell::Cell;
use core::fmt;

use allocator_api2::alloc::Allocator;
#[cfg(feature = "std")]
use allocator_api2::alloc::Global;

use crate::error::OpenError;
use crate::storage::Array;

/// No waiter, or no value.
const NONE: u32 = u32::MAX;

/// The name of somebody who waits, for the table that has given it out.
///
/// Plain data: forgetting it loses nothing. It is recognised as unknown afterwards, until its place has been used 2<sup>32</sup> times more.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::arrivals::{Arrivals, ArrivalsError};
///
/// let arrivals = Arrivals::open(8, 4)?;
/// let [first, second] = [arrivals.wait_for(3, 1)?, arrivals.wait_for(5, 1)?];
/// // The program does not wait for the second value any more. What arrives is counted all the same.
/// arrivals.give_up(second)?;
/// arrivals.count(3)?;
/// arrivals.count(5)?;
/// assert_eq!(arrivals.take(first), Ok(true));
/// assert_eq!(arrivals.take(second), Err(ArrivalsError::UnknownKey));
/// assert_eq!(arrivals.total(5), Ok(1));
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrivalKey {
    index: u32,
    generation: u32,
}

impl ArrivalKey {
    /// The number of its place.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

impl fmt::Debug for ArrivalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrivalKey(#{}.{})", self.index, self.generation)
    }
}

/// A wait that is over: the value has come as often as was waited for.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::arrivals::Arrivals;
///
/// let arrivals = Arrivals::open(8, 4)?;
/// // Both parts of a transfer, and the first one.
/// let [both, first] = [arrivals.wait_for(3, 2)?, arrivals.wait_for(3, 1)?];
/// arrivals.count(3)?;
/// arrivals.count(3)?;
/// // The lower threshold comes first.
/// let mut over = Vec::new();
/// while let Some(arrived) = arrivals.poll() {
///     over.push((arrived.key, arrived.threshold));
/// }
/// assert_eq!(over, [(first, 1), (both, 2)]);
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait ends with this value, which is given once"]
pub struct Arrived {
    /// Who has waited for them.
    pub key: ArrivalKey,
    /// Of which value.
    pub value: u64,
    /// For how many, in all; there may be more.
    pub threshold: u64,
}

/// Why arrivals are not counted or waited for.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::arrivals::{Arrivals, ArrivalsError};
///
/// let arrivals = Arrivals::open(8, 1)?;
/// // A value that a peer has sent may be any number.
/// assert_eq!(arrivals.count(8), Err(ArrivalsError::NoSuchValue { values: 8 }));
/// arrivals.wait_for(7, 1)?;
/// assert_eq!(arrivals.wait_for(7, 2), Err(ArrivalsError::Full));
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrivalsError {
    /// The table has no such value.
    NoSuchValue {
        /// How many it has, from zero on.
        values: u64,
    },
    /// As many wait as there is room for.
    Full,
    /// No wait has this key any more: it was told, or given up.
    UnknownKey,
}

impl fmt::Display for ArrivalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrivalsError::NoSuchValue { values } => write!(f, "the table counts values below {values}"),
            ArrivalsError::Full => f.write_str("as many wait for arrivals as there is room for"),
            ArrivalsError::UnknownKey => f.write_str("no wait for arrivals has this key"),
        }
    }
}

impl core::error::Error for ArrivalsError {}

/// What is known of one value.
struct Value {
    /// How often it has come.
    total: Cell<u64>,
    /// The total at which the next count looks: the highest number while it is due, else never above the lowest threshold.
    next: Cell<u64>,
    /// Those who wait, by threshold.
    first: Cell<u32>,
    /// The next value that is due, if this one is and another follows.
    due: Cell<u32>,
}

/// Somebody who waits, or could.
struct Waiter {
    threshold: Cell<u64>,
    /// Of which value; none if the place is free.
    value: Cell<u32>,
    generation: Cell<u32>,
    /// The next one of the same value, or the next free place.
    next: Cell<u32>,
    before: Cell<u32>,
}

/// Counts arrivals of values, and tells those who wait for a number of them.
///
/// It belongs to one thread. All of its memory is taken when it is opened.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::arrivals::Arrivals;
///
/// // For the values below 8, and for 4 waits at the same time.
/// let arrivals = Arrivals::open(8, 4)?;
/// // A part that comes before the wait begins counts.
/// arrivals.count(3)?;
/// let both = arrivals.wait_for(3, 2)?;
/// assert_eq!(arrivals.poll(), None);
/// arrivals.count(3)?;
/// let arrived = arrivals.poll().expect("both parts are there");
/// assert_eq!((arrived.key, arrived.value), (both, 3));
/// // The next transfer of two parts with this value waits for a total of four.
/// let next = arrivals.wait_for(3, arrived.threshold + 2)?;
/// assert_eq!(arrivals.take(next), Ok(false));
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct Arrivals<A: Allocator> {
    values: Array<Value, A>,
    waiters: Array<Waiter, A>,
    free: Cell<u32>,
    /// Values that have become due: the oldest and the newest.
    due: Cell<(u32, u32)>,
}

#[cfg(feature = "std")]
impl Arrivals<Global> {
    /// [`open_in`](Self::open_in), with memory of the global allocator.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
    pub fn open(values: usize, waiters: usize) -> Result<Self, OpenError> {
        Self::open_in(values, waiters, Global)
    }
}

impl<A: Allocator> Arrivals<A> {
    /// Opens a table of the values below `values`, for as many who wait at the same time as `waiters`. It takes two blocks of the
    /// allocator: 24 bytes for each value, and for each who waits.
    ///
    /// # Errors
    /// [`OpenError::Size`] for 2<sup>32</sup> - 1 of either and more, [`OpenError::OutOfMemory`].
    pub fn open_in(values: usize, waiters: usize, alloc: A) -> Result<Self, OpenError>
    where
        A: Clone,
    {
        let count = |count: usize| u32::try_from(count).ok().filter(|count| *count < NONE).ok_or(OpenError::Size);
        count(values)?;
        let last = count(waiters)?;
        let value =
            |_| Value { total: Cell::new(0), next: Cell::new(u64::MAX), first: Cell::new(NONE), due: Cell::new(NONE) };
        let waiter = |number: usize| Waiter {
            threshold: Cell::new(0),
            value: Cell::new(NONE),
            generation: Cell::new(0),
            next: Cell::new(u32::try_from(number + 1).ok().filter(|next| *next < last).unwrap_or(NONE)),
            before: Cell::new(NONE),
        };
        Ok(Arrivals {
            values: Array::new_in(values, alloc.clone(), value)?,
            waiters: Array::new_in(waiters, alloc, waiter)?,
            free: Cell::new(if waiters == 0 { NONE } else { 0 }),
            due: Cell::new((NONE, NONE)),
        })
    }

    /// Counts an arrival.
    ///
    /// # Errors
    /// [`ArrivalsError::NoSuchValue`]: it is counted nowhere.
    #[inline]
    pub fn count(&self, value: u64) -> Result<(), ArrivalsError> {
        let (index, entry) = self.value(value)?;
        let total = entry.total.get().wrapping_add(1);
        entry.total.set(total);
        if total >= entry.next.get() {
            self.becomes_due(index, entry);
        }
        Ok(())
    }

    /// How often a value has come.
    ///
    /// # Errors
    /// [`ArrivalsError::NoSuchValue`]
    #[inline]
    pub fn total(&self, value: u64) -> Result<u64, ArrivalsError> {
        Ok(self.value(value)?.1.total.get())
    }

    /// Waits until a value has come `threshold` times in all, counted from when the table was opened. If it has already, the next
    /// [`poll`](Self::poll) says so.
    ///
    /// # Errors
    /// [`ArrivalsError::NoSuchValue`], [`ArrivalsError::Full`]
    pub fn wait_for(&self, value: u64, threshold: u64) -> Result<ArrivalKey, ArrivalsError> {
        let (of, entry) = self.value(value)?;
        let index = self.free.get();
        let waiter = self.waiter(index).ok_or(ArrivalsError::Full)?;
        self.free.set(waiter.next.get());
        let (mut before, mut next) = (NONE, entry.first.get());
        while let Some(other) = self.waiter(next).filter(|other| other.threshold.get() <= threshold) {
            (before, next) = (next, other.next.get());
        }
        waiter.threshold.set(threshold);
        waiter.value.set(of);
        self.join(entry, before, index);
        self.join(entry, index, next);
        self.look(of, entry);
        Ok(ArrivalKey { index, generation: waiter.generation.get() })
    }

    /// The next one for whom enough has come. It waits no longer. All of one value come before those of the next.
    pub fn poll(&self) -> Option<Arrived> {
        loop {
            let (of, last) = self.due.get();
            let entry = self.values.get(of as usize)?;
            if let Some((key, waiter)) = self.first_of(entry)
                && waiter.threshold.get() <= entry.total.get()
            {
                let arrived = Arrived { key, value: of.into(), threshold: waiter.threshold.get() };
                self.remove(key.index, waiter);
                return Some(arrived);
            }
            // Those who wait for this value still need more of it.
            let next = entry.due.replace(NONE);
            self.due.set(if of == last { (NONE, NONE) } else { (next, last) });
            entry.next.set(self.first_of(entry).map_or(u64::MAX, |(_, waiter)| waiter.threshold.get()));
        }
    }

    /// Whether enough has come for one of those who wait. If so, it waits no longer, and [`poll`](Self::poll) does not name it.
    ///
    /// # Errors
    /// [`ArrivalsError::UnknownKey`]
    pub fn take(&self, key: ArrivalKey) -> Result<bool, ArrivalsError> {
        let (waiter, entry) = self.named(key)?;
        let reached = waiter.threshold.get() <= entry.total.get();
        if reached {
            self.remove(key.index, waiter);
        }
        Ok(reached)
    }

    /// Ends the waiting of one, whether enough has come or not. What comes later is counted all the same.
    ///
    /// # Errors
    /// [`ArrivalsError::UnknownKey`]
    pub fn give_up(&self, key: ArrivalKey) -> Result<(), ArrivalsError> {
        let (waiter, _) = self.named(key)?;
        self.remove(key.index, waiter);
        Ok(())
    }

    #[inline]
    fn value(&self, value: u64) -> Result<(u32, &Value), ArrivalsError> {
        let index = u32::try_from(value).ok();
        let found = index.and_then(|index| Some((index, self.values.get(index as usize)?)));
        found.ok_or(ArrivalsError::NoSuchValue { values: self.values.len() as u64 })
    }

    fn waiter(&self, index: u32) -> Option<&Waiter> {
        self.waiters.get(index as usize)
    }

    fn first_of(&self, entry: &Value) -> Option<(ArrivalKey, &Waiter)> {
        let index = entry.first.get();
        let waiter = self.waiter(index)?;
        Some((ArrivalKey { index, generation: waiter.generation.get() }, waiter))
    }

    fn named(&self, key: ArrivalKey) -> Result<(&Waiter, &Value), ArrivalsError> {
        let waiter = self.waiter(key.index).filter(|waiter| waiter.generation.get() == key.generation);
        let found = waiter.and_then(|waiter| Some((waiter, self.values.get(waiter.value.get() as usize)?)));
        found.ok_or(ArrivalsError::UnknownKey)
    }

    /// Puts one behind another: the first of the list behind none, and none behind the last.
    fn join(&self, entry: &Value, before: u32, next: u32) {
        match self.waiter(before) {
            Some(before) => before.next.set(next),
            None => entry.first.set(next),
        }
        if let Some(next) = self.waiter(next) {
            next.before.set(before);
        }
    }

    /// Takes one out of its list. Where it was the first, its value may become due in vain: the next poll finds that.
    fn remove(&self, index: u32, waiter: &Waiter) {
        if let Some(entry) = self.values.get(waiter.value.replace(NONE) as usize) {
            self.join(entry, waiter.before.get(), waiter.next.get());
        }
        waiter.generation.set(waiter.generation.get().wrapping_add(1));
        waiter.next.set(self.free.replace(index));
    }

    /// Looks whether a value is due, or when it will be, now that one more waits for it.
    fn look(&self, index: u32, entry: &Value) {
        let first = self.first_of(entry).map_or(u64::MAX, |(_, waiter)| waiter.threshold.get());
        if self.is_due(index, entry) {
            return;
        }
        entry.next.set(first);
        if entry.total.get() >= first {
            self.becomes_due(index, entry);
        }
    }

    fn is_due(&self, index: u32, entry: &Value) -> bool {
        entry.due.get() != NONE || self.due.get().1 == index
    }

    #[cold]
    #[inline(never)]
    fn becomes_due(&self, index: u32, entry: &Value) {
        entry.next.set(u64::MAX);
        let (first, last) = self.due.get();
        match self.values.get(last as usize) {
            Some(last) => {
                last.due.set(index);
                self.due.set((first, index));
            }
            None => self.due.set((index, index)),
        }
    }
}

impl<A: Allocator> fmt::Debug for Arrivals<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_documented() {
        assert_eq!((size_of::<Value>(), size_of::<Waiter>()), (24, 24));
    }
}
