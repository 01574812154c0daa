//! Table of work deferred until counters reach thresholds.
//!
//! Work waits in the list of its counter, ordered by threshold and then by [addition](Vacant::add).

use core::fmt;
use core::ops::DerefMut;
use core::task::Waker;

const NONE: u32 = u32::MAX;

/// Plain name of a piece of work, unknown after its end.
///
/// ```
/// use loom_deferred::work_table::{Phase, Place, WorkTable};
///
/// let mut places = [Place::free(0, 1)];
/// let mut table = WorkTable::new(&mut places[..]);
/// // The work waits until counter 5 has reached 10.
/// let key = table.vacant().ok_or("no place is free")?.add((5, 10), i32::eq, "work");
/// assert_eq!(table.phase(key), Some(Phase::Waiting));
/// // Work that waits can be cancelled. Its counter comes back, because no other work waits for it.
/// assert_eq!(table.cancel(key, |_| ()), Ok(Some(5)));
/// assert_eq!(table.take_returned_of(key), Some("work"));
/// assert_eq!(table.phase(key), None, "the key names nothing any more");
/// # Ok::<_, &str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkKey {
    index: u32,
    generation: u32,
}

impl WorkKey {
    /// Index of the slot.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

impl fmt::Debug for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkKey(#{}.{})", self.index, self.generation)
    }
}

/// State of work.
///
/// ```
/// use loom_deferred::work_table::{Phase, Place, WorkTable};
///
/// let mut places = [Place::free(0, 1)];
/// let mut table = WorkTable::new(&mut places[..]);
/// let added = table.vacant().ok_or("no place is free")?.add((5, 10), i32::eq, "work");
/// // The counter has reached the threshold.
/// let (key, work) = table.take_due(0, |_| 10).ok_or("it is due")?;
/// assert_eq!((key, table.phase(key)), (added, Some(Phase::TakenOut)));
/// table.start(key, work);
/// assert_eq!(table.phase(key), Some(Phase::Started));
/// assert_eq!(table.end(key).0, Some("work"));
/// # Ok::<_, &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In a counter's list.
    Waiting,
    /// First in a counter's list, and being tried.
    TakenOut,
    /// In progress.
    Started,
    /// Ended before it started.
    Returned,
}

/// State of the work's futures.
///
/// ```
/// use loom_deferred::work_table::{Interest, Place, WorkTable};
///
/// let mut places = [Place::free(0, 1)];
/// let mut table = WorkTable::new(&mut places[..]);
/// let key = table.vacant().ok_or("no place is free")?.add((5, 10), i32::eq, "work");
/// table.set_interest(key, Interest::Abandoned);
/// assert_eq!(table.interest(key), Interest::Abandoned);
/// # Ok::<_, &str>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// No future has been polled.
    #[default]
    None,
    /// A future waits.
    Awaited,
    /// The future was dropped.
    Abandoned,
}

/// Slot of a [`WorkTable`], for work and for a counter.
///
/// ```
/// use loom_deferred::work_table::{Place, WorkTable};
///
/// // Places for 16 pieces of work, which wait for counters that are numbers.
/// let places: Vec<Place<usize, String>> = (0..16).map(|number| Place::free(number, 16)).collect();
/// let table = WorkTable::new(places);
/// assert_eq!((table.capacity(), table.len()), (16, 0));
/// ```
#[derive(Debug)]
pub struct Place<C, V> {
    generation: u32,
    phase: Option<Phase>,
    threshold: u64,
    list: u32,
    interest: Interest,
    waker: Option<Waker>,
    /// Next slot in the phase's list.
    next: u32,
    value: Option<V>,
    waiting: Waiting<C>,
}

#[derive(Debug)]
struct Waiting<C> {
    counter: Option<C>,
    first: u32,
    last: u32,
}

impl<C, V> Place<C, V> {
    /// Free slot at an index of `count` slots.
    #[must_use]
    pub fn free(number: usize, count: usize) -> Self {
        let next = if number + 1 < count { u32::try_from(number + 1).unwrap_or(NONE) } else { NONE };
        let waiting = Waiting { counter: None, first: NONE, last: NONE };
        Place {
            generation: 0,
            phase: None,
            threshold: 0,
            list: NONE,
            interest: Interest::None,
            waker: None,
            next,
            value: None,
            waiting,
        }
    }
}

/// Work that waits for counters. `S` stores the slots of [`Place::free`].
///
/// ```
/// use loom_deferred::work_table::{Place, WorkTable};
///
/// # let mut counters = [0, 0];
/// let mut places = [0, 1, 2, 3].map(|number| Place::free(number, 4));
/// let mut table = WorkTable::new(&mut places[..]);
/// for (threshold, work) in [(2, "second"), (1, "first")] {
///     // A counter is named by its index.
///     table.vacant().ok_or("no place is free")?.add((1_usize, threshold), usize::eq, work);
/// }
/// counters[1] = 1;
/// # let mut started = None;
/// for list in 0..table.lists() {
///     while let Some((key, work)) = table.take_due(list, |counter| counters[*counter]) {
///         started = Some(work);
/// #       table.start(key, work);
///     }
/// }
/// assert_eq!((started, table.len()), (Some("first"), 2));
/// # Ok::<_, &str>(())
/// ```
#[derive(Debug)]
pub struct WorkTable<S> {
    places: S,
    free: u32,
    /// Exclusive upper bound of the slots with counters.
    lists: u32,
    /// Returned work, oldest first.
    returned: (u32, u32),
    len: usize,
}

/// Free slot of a [`WorkTable`].
///
/// ```
/// use loom_deferred::work_table::{Place, WorkTable};
///
/// let mut places = [Place::free(0, 1)];
/// let mut table = WorkTable::new(&mut places[..]);
/// let mut accepted = 0;
/// // Work is made only when there is a place for it.
/// while let Some(vacant) = table.vacant() {
///     vacant.add(("counter", 1), |a, b| a == b, "work");
///     accepted += 1;
/// }
/// assert_eq!(accepted, 1);
/// ```
#[derive(Debug)]
#[must_use]
pub struct Vacant<'t, S>(&'t mut WorkTable<S>);

impl<C, V, S: DerefMut<Target = [Place<C, V>]>> Vacant<'_, S> {
    /// Adds work that waits for a counter's `threshold`. `is_same` finds the counter.
    pub fn add(self, (counter, threshold): (C, u64), is_same: impl Fn(&C, &C) -> bool, value: V) -> WorkKey {
        let Vacant(table) = self;
        let index = table.free;
        let lists = table.lists as usize;
        let known = |place: &Place<C, V>| place.waiting.counter.as_ref().is_some_and(|known| is_same(known, &counter));
        let found = table.places.iter().take(lists).position(known);
        let list = found.or_else(|| table.places.iter().take(lists).position(|place| place.waiting.counter.is_none()));
        let list = list.and_then(|list| u32::try_from(list).ok()).unwrap_or_else(|| {
            table.lists += 1;
            table.lists - 1
        });
        let place = table.own(index);
        let next_free = place.next;
        place.generation = place.generation.wrapping_add(1);
        (place.phase, place.threshold, place.list) = (Some(Phase::Waiting), threshold, list);
        (place.value, place.interest) = (Some(value), Interest::None);
        let key = WorkKey { index, generation: place.generation };
        table.free = next_free;
        table.len += 1;
        if found.is_none() {
            table.own(list).waiting.counter = Some(counter);
        }
        table.link(list, index, threshold);
        key
    }
}

impl<C, V, S: DerefMut<Target = [Place<C, V>]>> WorkTable<S> {
    /// Creates a table of at most `u32::MAX - 1` free slots.
    #[must_use]
    pub fn new(places: S) -> Self {
        let free = if places.is_empty() { NONE } else { 0 };
        WorkTable { places, free, lists: 0, returned: (NONE, NONE), len: 0 }
    }

    /// Number of pieces of work, in any state.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the table has no work.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    #[expect(clippy::indexing_slicing, reason = "own indices; a wrong one must not go unnoticed")]
    fn own(&mut self, index: u32) -> &mut Place<C, V> {
        &mut self.places[index as usize]
    }

    fn place(&self, key: WorkKey) -> Option<&Place<C, V>> {
        let place = self.places.get(key.index as usize)?;
        (place.generation == key.generation && place.phase.is_some()).then_some(place)
    }

    fn named(&mut self, key: WorkKey) -> Option<&mut Place<C, V>> {
        let place = self.places.get_mut(key.index as usize)?;
        (place.generation == key.generation && place.phase.is_some()).then_some(place)
    }

    /// State of work that has not ended.
    pub fn phase(&self, key: WorkKey) -> Option<Phase> {
        self.place(key)?.phase
    }

    /// Work, unless taken out.
    pub fn value<'a>(&'a self, key: WorkKey) -> Option<&'a V>
    where
        C: 'a,
    {
        self.place(key)?.value.as_ref()
    }

    /// Work for modification, unless taken out.
    pub fn value_mut<'a>(&'a mut self, key: WorkKey) -> Option<&'a mut V>
    where
        C: 'a,
    {
        self.named(key)?.value.as_mut()
    }

    /// Sets the state of the futures, in any phase.
    pub fn set_interest(&mut self, key: WorkKey, interest: Interest) {
        if let Some(place) = self.named(key) {
            place.interest = interest;
        }
    }

    /// State of the futures, in any phase.
    pub fn interest(&self, key: WorkKey) -> Interest {
        self.place(key).map_or(Interest::None, |place| place.interest)
    }

    /// Stores or takes the waker of a future, also of ended work until its slot is used.
    /// Returns the former waker, or `waker` if the key is unknown.
    pub fn replace_waker(&mut self, key: WorkKey, waker: Option<Waker>) -> Option<Waker> {
        match self.places.get_mut(key.index as usize) {
            Some(place) if place.generation == key.generation => core::mem::replace(&mut place.waker, waker),
            _ => waker,
        }
    }

    /// Oldest abandoned returned work.
    pub fn abandoned_returned(&mut self) -> Option<WorkKey> {
        let (mut at, _) = self.returned;
        while at != NONE {
            let place = self.own(at);
            if place.interest == Interest::Abandoned {
                return Some(WorkKey { index: at, generation: place.generation });
            }
            at = place.next;
        }
        None
    }

    /// Key of the started work in a slot.
    pub fn started_at(&mut self, index: u32) -> Option<WorkKey> {
        let place = self.places.get(index as usize)?;
        (place.phase == Some(Phase::Started)).then_some(WorkKey { index, generation: place.generation })
    }

    /// Returns a free slot.
    pub fn vacant(&mut self) -> Option<Vacant<'_, S>> {
        (self.free != NONE).then_some(Vacant(self))
    }

    fn link(&mut self, list: u32, index: u32, threshold: u64) {
        let Waiting { first, last, .. } = self.own(list).waiting;
        let before = if last != NONE && self.own(last).threshold <= threshold {
            last
        } else {
            let (mut before, mut at) = (NONE, first);
            while at != NONE && self.own(at).threshold <= threshold {
                (before, at) = (at, self.own(at).next);
            }
            before
        };
        let next = if before == NONE { first } else { self.own(before).next };
        self.own(index).next = next;
        match before {
            NONE => self.own(list).waiting.first = index,
            before => self.own(before).next = index,
        }
        if next == NONE {
            self.own(list).waiting.last = index;
        }
    }

    fn unlink(&mut self, index: u32) -> Option<C> {
        let (list, next) = (self.own(index).list, self.own(index).next);
        let (mut before, mut at) = (NONE, self.own(list).waiting.first);
        while at != index {
            (before, at) = (at, self.own(at).next);
        }
        match before {
            NONE => self.own(list).waiting.first = next,
            before => self.own(before).next = next,
        }
        let waiting = &mut self.own(list).waiting;
        if next == NONE {
            waiting.last = before;
        }
        let counter = if waiting.first == NONE { waiting.counter.take() } else { None };
        while self.lists > 0 && self.own(self.lists - 1).waiting.counter.is_none() {
            self.lists -= 1;
        }
        counter
    }

    /// Number of lists of counters, some of them empty.
    #[must_use]
    pub const fn lists(&self) -> u32 {
        self.lists
    }

    /// Takes out the first work of a list if its counter, by `read`, has reached the threshold.
    pub fn take_due(&mut self, list: u32, read: impl FnOnce(&C) -> u64) -> Option<(WorkKey, V)> {
        if list >= self.lists {
            return None;
        }
        let first = self.own(list).waiting.first;
        let value = read(self.own(list).waiting.counter.as_ref()?);
        let place = self.own(first);
        if place.phase != Some(Phase::Waiting) || place.threshold > value {
            return None;
        }
        place.phase = Some(Phase::TakenOut);
        let value = place.value.take()?;
        Some((WorkKey { index: first, generation: place.generation }, value))
    }

    /// Puts taken-out work back, to be tried again.
    pub fn put_back(&mut self, key: WorkKey, value: V) {
        if let Some(place) = self.named(key)
            && place.phase == Some(Phase::TakenOut)
        {
            (place.phase, place.value) = (Some(Phase::Waiting), Some(value));
        }
    }

    /// Marks taken-out work as started. Returns the counter if no other work waits for it.
    pub fn start(&mut self, key: WorkKey, value: V) -> Option<C> {
        let place = self.named(key).filter(|place| place.phase == Some(Phase::TakenOut))?;
        (place.phase, place.value) = (Some(Phase::Started), Some(value));
        self.unlink(key.index)
    }

    /// Moves taken-out work to *returned*.
    pub fn give_up(&mut self, key: WorkKey, value: V) -> Option<C> {
        let place = self.named(key).filter(|place| place.phase == Some(Phase::TakenOut))?;
        place.value = Some(value);
        let counter = self.unlink(key.index);
        self.return_it(key.index);
        counter
    }

    /// Removes taken-out or started work. Returns started work, and the counter like
    /// [`start`](Self::start).
    pub fn end(&mut self, key: WorkKey) -> (Option<V>, Option<C>) {
        let Some(place) = self.named(key) else { return (None, None) };
        let counter = match place.phase {
            Some(Phase::TakenOut) => self.unlink(key.index),
            Some(Phase::Started) => None,
            _ => return (None, None),
        };
        (self.release(key.index), counter)
    }

    /// Moves waiting work to *returned*, after `edit`. Returns the counter like
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// The state of other work, or `None` if it has ended.
    pub fn cancel(&mut self, key: WorkKey, edit: impl FnOnce(&mut V)) -> Result<Option<C>, Option<Phase>> {
        let Some(place) = self.named(key) else { return Err(None) };
        match (place.phase, &mut place.value) {
            (Some(Phase::Waiting), Some(value)) => edit(value),
            (phase, _) => return Err(phase),
        }
        let counter = self.unlink(key.index);
        self.return_it(key.index);
        Ok(counter)
    }

    /// Moves the first waiting work of a counter that `of` accepts to *returned*, after `edit`.
    pub fn flush(&mut self, of: impl Fn(&C) -> bool, edit: impl FnOnce(&mut V)) -> Option<(WorkKey, Option<C>)> {
        let lists = self.lists as usize;
        for list in 0..lists {
            let waiting = &self.places.get(list)?.waiting;
            if !waiting.counter.as_ref().is_some_and(&of) {
                continue;
            }
            let mut at = waiting.first;
            while at != NONE && self.own(at).phase != Some(Phase::Waiting) {
                at = self.own(at).next;
            }
            if at != NONE {
                let key = WorkKey { index: at, generation: self.own(at).generation };
                return self.cancel(key, edit).ok().map(|counter| (key, counter));
            }
        }
        None
    }

    /// Takes the oldest returned work.
    pub fn take_returned(&mut self) -> Option<(WorkKey, V)> {
        let (first, last) = self.returned;
        let place = self.places.get_mut(first as usize)?;
        let key = WorkKey { index: first, generation: place.generation };
        self.returned = if first == last { (NONE, NONE) } else { (place.next, last) };
        self.release(first).map(|value| (key, value))
    }

    /// Takes this returned work.
    pub fn take_returned_of(&mut self, key: WorkKey) -> Option<V> {
        self.named(key).filter(|place| place.phase == Some(Phase::Returned))?;
        let (first, last) = self.returned;
        let (mut before, mut at) = (NONE, first);
        while at != key.index {
            (before, at) = (at, self.own(at).next);
        }
        let next = self.own(key.index).next;
        let first = match before {
            NONE => next,
            before => {
                self.own(before).next = next;
                first
            }
        };
        self.returned = (first, if next == NONE { before } else { last });
        self.release(key.index)
    }

    fn return_it(&mut self, index: u32) {
        let place = self.own(index);
        (place.phase, place.next) = (Some(Phase::Returned), NONE);
        let (first, last) = self.returned;
        self.returned = match last {
            NONE => (index, index),
            last => {
                self.own(last).next = index;
                (first, index)
            }
        };
    }

    fn release(&mut self, index: u32) -> Option<V> {
        let free = self.free;
        let place = self.own(index);
        (place.phase, place.next) = (None, free);
        let value = place.value.take();
        self.free = index;
        self.len -= 1;
        value
    }
}
