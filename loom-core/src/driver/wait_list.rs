//! [`WaitList`]: its nodes lie in the pinned futures that wait.

#![allow(unsafe_code, reason = "a list through pinned places")]

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Waker;

use crate::util::debug::debug_struct;
use crate::util::on_drop::for_each;
use heapless::Vec;

const WAKERS_PER_BATCH: usize = 16;

/// Waiters, oldest first, on one thread.
///
/// # Rules
///
/// 1. A waiter in the list is pinned, and leaves the list when dropped: the list's pointers are
///    valid.
/// 2. A list with waiters does not move, and removes them when dropped: a waiter's pointer to its
///    list is valid.
/// 3. Wakers are user code: they are not woken, cloned or dropped while links change.
pub(crate) struct WaitList {
    first: Cell<Option<NonNull<Waiter>>>,
    last: Cell<Option<NonNull<Waiter>>>,
    next_in_turn: Cell<Option<NonNull<Waiter>>>,
    batches: Cell<u64>,
}

pub(crate) struct Waiter {
    list: Cell<Option<NonNull<WaitList>>>,
    before: Cell<Option<NonNull<Waiter>>>,
    after: Cell<Option<NonNull<Waiter>>>,
    waker: Cell<Option<Waker>>,
    /// Notified, and not polled since.
    notified: Cell<bool>,
    /// Awaited condition: a threshold, the address of an object, or another number.
    goal: Cell<u64>,
    batches_at_start: Cell<u64>,
    _pinned: PhantomPinned,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        WaitList { first: Cell::new(None), last: Cell::new(None), next_in_turn: Cell::new(None), batches: Cell::new(0) }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// # Safety
    /// Rule 2: the list does not move any more.
    unsafe fn push(&self, waiter: Pin<&Waiter>) {
        let place = NonNull::from(waiter.get_ref());
        waiter.list.set(Some(NonNull::from(self)));
        waiter.before.set(self.last.get());
        waiter.after.set(None);
        match self.last.replace(Some(place)) {
            // SAFETY: rule 1.
            Some(last) => unsafe { last.as_ref() }.after.set(Some(place)),
            None => self.first.set(Some(place)),
        }
    }

    fn remove(&self, waiter: &Waiter) {
        let (before, after) = (waiter.before.take(), waiter.after.take());
        match before {
            // SAFETY: rule 1.
            Some(before) => unsafe { before.as_ref() }.after.set(after),
            None => self.first.set(after),
        }
        match after {
            // SAFETY: rule 1.
            Some(after) => unsafe { after.as_ref() }.before.set(before),
            None => self.last.set(before),
        }
        if self.next_in_turn.get() == Some(NonNull::from(waiter)) {
            self.next_in_turn.set(after);
        }
        waiter.list.set(None);
    }

    fn iter(&self) -> impl Iterator<Item = &Waiter> {
        // SAFETY: rule 1.
        let get = |place: NonNull<Waiter>| unsafe { place.as_ref() };
        core::iter::successors(self.first.get().map(get), move |waiter| waiter.after.get().map(get))
    }

    /// Notifies the matching waiters among the first `most`, except those that begin to wait
    /// meanwhile.
    fn notify(&self, most: usize, is_meant: impl Fn(&Waiter) -> bool) {
        let batch = self.batches.get();
        self.batches.set(batch + 1);
        let waits = |waiter: &&Waiter| !waiter.notified.get() && waiter.batches_at_start.get() <= batch;
        let next_batch = || {
            let mut wakers = Vec::<Waker, WAKERS_PER_BATCH>::new();
            for waiter in self.iter().take(most).filter(waits).filter(|waiter| is_meant(waiter)) {
                if wakers.is_full() {
                    break;
                }
                waiter.notified.set(true);
                if let Some(waker) = waiter.waker.take() {
                    // There is room: checked above.
                    let _ = wakers.push(waker);
                }
            }
            (!wakers.is_empty()).then_some(wakers)
        };
        // Wakes in batches, because wakers are user code that may change the list.
        for_each(core::iter::from_fn(next_batch), |wakers| for_each(wakers.into_iter(), Waker::wake));
    }

    /// Notifies the first `most` waiters. Those already notified that have not polled since count
    /// towards `most`.
    pub(crate) fn notify_first(&self, most: usize) {
        if !self.is_empty() {
            self.notify(most, |_| true);
        }
    }

    /// Notifies the first waiter that is not yet notified.
    pub(crate) fn notify_one(&self) {
        let next = self.iter().find(|waiter| !waiter.notified.replace(true));
        if let Some(waker) = next.and_then(|waiter| waiter.waker.take()) {
            waker.wake();
        }
    }

    pub(crate) fn notify_next_in_turn(&self) {
        let Some(place) = self.next_in_turn.get().or(self.first.get()) else { return };
        // SAFETY: rule 1, and `remove` advances the turn.
        let waiter = unsafe { place.as_ref() };
        self.next_in_turn.set(waiter.after.get());
        waiter.notified.set(true);
        if let Some(waker) = waiter.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn notify_where(&self, is_meant: impl Fn(u64) -> bool) {
        if !self.is_empty() {
            self.notify(usize::MAX, |waiter| is_meant(waiter.goal.get()));
        }
    }

    pub(crate) fn has(&self, goal: u64) -> bool {
        self.iter().any(|waiter| waiter.goal.get() == goal)
    }

    pub(crate) fn notify_all(&self) {
        self.notify_first(usize::MAX);
    }
}

impl Drop for WaitList {
    fn drop(&mut self) {
        while let Some(first) = self.first.get() {
            // SAFETY: rule 1.
            self.remove(unsafe { first.as_ref() });
        }
    }
}

debug_struct!(WaitList, |it| len: it.iter().count());

impl Waiter {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Waiter {
            list: Cell::new(None),
            before: Cell::new(None),
            after: Cell::new(None),
            waker: Cell::new(None),
            notified: Cell::new(false),
            goal: Cell::new(0),
            batches_at_start: Cell::new(0),
            _pinned: PhantomPinned,
        }
    }

    /// Waits in a list until notified. Runs user code, which may fulfil the condition: check it
    /// after this.
    ///
    /// # Safety
    /// Rule 2: the list does not move any more. The waiter is in this list or in no list.
    pub(crate) unsafe fn wait_in(self: Pin<&Self>, list: &WaitList, goal: u64, waker: &Waker) {
        self.goal.set(goal);
        self.notified.set(false);
        self.batches_at_start.set(list.batches.get());
        debug_assert!(self.list.get().is_none_or(|own| own == NonNull::from(list)), "one list at a time");
        if self.list.get().is_none() {
            // SAFETY: the caller guarantees rule 2, and the waiter is in no list.
            unsafe { list.push(self) };
        }
        // Runs user code, so it comes last.
        self.store(waker);
    }

    pub(crate) const fn still_waits(&self) -> bool {
        self.list.get().is_some() && !self.notified.get()
    }

    pub(crate) const fn is_in_a_list(&self) -> bool {
        self.list.get().is_some()
    }

    /// Stores a waker, and wakes it if user code meanwhile notified this waiter.
    pub(crate) fn store(&self, waker: &Waker) {
        store(&self.waker, waker);
        if self.notified.get() {
            waker.wake_by_ref();
        }
    }

    /// Leaves the list. Returns `true` if the waiter was notified and has not polled since: the
    /// caller then notifies another one.
    #[cold]
    pub(crate) fn leave(&self) -> bool {
        if let Some(list) = self.list.get() {
            // SAFETY: rule 2.
            unsafe { list.as_ref() }.remove(self);
        }
        drop(self.waker.take());
        self.notified.replace(false)
    }
}

impl Drop for Waiter {
    #[inline]
    fn drop(&mut self) {
        if self.is_in_a_list() {
            self.leave();
        }
    }
}

debug_struct!(Waiter, |it| notified: it.notified.get());

/// Stores a waker. Runs user code, which may wake the stored waker: check the condition after this.
/// A waker that user code stores meanwhile stays, because the caller's wait has then ended.
#[inline]
pub(crate) fn store(place: &Cell<Option<Waker>>, waker: &Waker) {
    match place.take() {
        Some(stored) if stored.will_wake(waker) => place.set(Some(stored)),
        other => {
            let own = waker.clone();
            let unused = match place.take() {
                None => {
                    place.set(Some(own));
                    None
                }
                of_another => {
                    place.set(of_another);
                    Some(own)
                }
            };
            drop((other, unused));
        }
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::task::{RawWaker, RawWakerVTable};
    use std::sync::Arc;
    use std::task::Wake;
    use std::vec::Vec;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn notified(notify: impl Fn(&WaitList)) -> Vec<bool> {
        let list = WaitList::new();
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let waiters = pin!([const { Waiter::new() }; 5]);
        let waiters = waiters.as_ref().get_ref();
        for (goal, waiter) in (0..).zip(waiters) {
            // SAFETY: the array is pinned.
            let waiter = unsafe { Pin::new_unchecked(waiter) };
            // SAFETY: the list does not move.
            unsafe { waiter.wait_in(&list, goal, &waker) };
        }
        notify(&list);
        let notified: Vec<bool> = waiters.iter().map(|waiter| !waiter.still_waits()).collect();
        assert_eq!(woken.0.load(Ordering::Relaxed), notified.iter().filter(|notified| **notified).count());
        notified
    }

    struct Taken {
        place: Cell<Option<Waker>>,
        by: Cell<Option<Waker>>,
    }

    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |taken| {
            // SAFETY: `taken` lives on the stack of the test.
            let this = unsafe { &*taken.cast::<Taken>() };
            this.place.set(this.by.take());
            RawWaker::new(taken, &TABLE)
        },
        |_| {},
        |_| {},
        |_| {},
    );

    #[test]
    fn waker_stored_in_the_meantime_is_not_overwritten() {
        let woken = Arc::<Woken>::default();
        let taken = Taken { place: Cell::new(None), by: Cell::new(Some(woken.clone().into())) };
        // SAFETY: the functions free nothing, and `taken` outlives the waker.
        let waker = unsafe { Waker::from_raw(RawWaker::new((&raw const taken).cast(), &TABLE)) };
        store(&taken.place, &waker);
        taken.place.take().into_iter().for_each(Waker::wake);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        store(&taken.place, &waker);
        assert!(taken.place.take().is_some_and(|stored| stored.will_wake(&waker)), "the place was free");
    }

    #[test]
    fn only_matching_waiters_are_notified() {
        assert_eq!(notified(|list| list.notify_first(2)), [true, true, false, false, false]);
        assert_eq!(notified(WaitList::notify_all), [true; 5]);
        assert_eq!(notified(|list| list.notify_where(|goal| goal % 2 == 1)), [false, true, false, true, false]);
        let twice = |notify: fn(&WaitList)| {
            move |list: &WaitList| {
                notify(list);
                notify(list);
            }
        };
        assert_eq!(notified(twice(WaitList::notify_one)), [true, true, false, false, false]);
        assert_eq!(notified(twice(WaitList::notify_next_in_turn)), [true, true, false, false, false]);
        assert_eq!(notified(twice(|list| list.notify_first(1))), [true, false, false, false, false]);
    }

    #[test]
    fn dropped_waiter_leaves_and_the_turn_goes_on() {
        let list = WaitList::new();
        let waker = Waker::noop();
        let first = pin!(Waiter::new());
        // SAFETY: the list does not move.
        unsafe { first.as_ref().wait_in(&list, 1, waker) };
        {
            let second = pin!(Waiter::new());
            // SAFETY: the list does not move.
            unsafe { second.as_ref().wait_in(&list, 2, waker) };
            list.notify_next_in_turn();
            assert!(!first.still_waits() && second.still_waits(), "the next turn is that of the second");
        }
        // SAFETY: the list does not move.
        unsafe { first.as_ref().wait_in(&list, 1, waker) };
        list.notify_next_in_turn();
        assert!(!first.still_waits());
        assert!(first.leave() && list.is_empty());
    }

    #[test]
    fn list_that_is_dropped_first_releases_its_waiters() {
        let waiter = pin!(Waiter::new());
        {
            let list = WaitList::new();
            // SAFETY: the list does not move.
            unsafe { waiter.as_ref().wait_in(&list, 0, Waker::noop()) };
        }
        assert!(!waiter.is_in_a_list());
    }
}
