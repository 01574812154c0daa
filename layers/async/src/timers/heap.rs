//! [`Heap`]: deadlines in order, as a pairing heap through pinned places, without allocation or
//! recursion.
//!
//! # Rules
//! 1. A place in the heap is pinned, and leaves the heap when dropped, so links are valid.
//! 2. A place is only ever used with one heap, which its owner passes to every call.
//! 3. Links change in this file only, on one thread, while no user code (wakers, clocks) runs.

#![allow(unsafe_code, reason = "a heap through pinned places")]

use core::cell::Cell;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Waker;
use core::time::Duration;

type Link = Option<NonNull<Place>>;

pub(super) struct Heap {
    first: Cell<Link>,
    /// Orders equal deadlines.
    number: Cell<u64>,
}

pub(super) struct Place {
    deadline: Cell<Duration>,
    number: Cell<u64>,
    state: Cell<State>,
    waker: Cell<Option<Waker>>,
    child: Cell<Link>,
    after: Cell<Link>,
    /// Previous sibling, or the parent of the first child.
    before: Cell<Link>,
    _pinned: PhantomPinned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Out,
    Waiting,
    Due,
}

impl Place {
    pub(super) const fn new() -> Self {
        Place {
            deadline: Cell::new(Duration::ZERO),
            number: Cell::new(0),
            state: Cell::new(State::Out),
            waker: Cell::new(None),
            child: Cell::new(None),
            after: Cell::new(None),
            before: Cell::new(None),
            _pinned: PhantomPinned,
        }
    }

    pub(super) const fn state(&self) -> State {
        self.state.get()
    }

    pub(super) fn store(&self, waker: &Waker) {
        match self.waker.take() {
            Some(stored) if stored.will_wake(waker) => self.waker.set(Some(stored)),
            other => {
                // User code, after which the caller checks the state.
                let before = self.waker.replace(Some(waker.clone()));
                drop((other, before));
            }
        }
    }

    fn is_before(&self, other: &Place) -> bool {
        (self.deadline.get(), self.number.get()).cmp(&(other.deadline.get(), other.number.get())).is_lt()
    }
}

#[inline]
fn at<'a>(link: NonNull<Place>) -> &'a Place {
    // SAFETY: rule 1. References leave this file for the time of a call only.
    unsafe { link.as_ref() }
}

fn link(a: NonNull<Place>, b: NonNull<Place>) -> NonNull<Place> {
    let (top, below) = if at(b).is_before(at(a)) { (b, a) } else { (a, b) };
    let first = at(top).child.replace(Some(below));
    at(below).after.set(first);
    at(below).before.set(Some(top));
    if let Some(first) = first {
        at(first).before.set(Some(below));
    }
    top
}

/// Pairs siblings, then joins the pairs from last to first.
fn join(row: Link) -> Link {
    let single = |place: NonNull<Place>| {
        at(place).before.set(None);
        at(place).after.take()
    };
    let (mut row, mut pairs) = (row, None);
    while let Some(a) = row {
        row = single(a);
        let pair = match row {
            Some(b) => {
                row = single(b);
                link(a, b)
            }
            None => a,
        };
        at(pair).after.set(pairs);
        pairs = Some(pair);
    }
    let mut joined = pairs?;
    pairs = at(joined).after.take();
    while let Some(pair) = pairs {
        pairs = at(pair).after.take();
        joined = link(joined, pair);
    }
    Some(joined)
}

impl Heap {
    pub(super) const fn new() -> Self {
        Heap { first: Cell::new(None), number: Cell::new(0) }
    }

    pub(super) fn earliest(&self) -> Option<Duration> {
        self.first.get().map(|first| at(first).deadline.get())
    }

    /// # Safety
    /// The place is used with this heap only (rule 2), and removed before it is dropped.
    pub(super) unsafe fn add(&self, place: Pin<&Place>, deadline: Duration) {
        let added = NonNull::from(place.get_ref());
        self.number.set(self.number.get() + 1);
        place.number.set(self.number.get());
        place.deadline.set(deadline);
        place.state.set(State::Waiting);
        self.first.set(Some(self.first.get().map_or(added, |first| link(first, added))));
    }

    pub(super) fn remove(&self, place: &Place) {
        if place.state.get() != State::Waiting {
            return;
        }
        place.state.set(State::Out);
        let rest = join(place.child.take());
        let Some(before) = place.before.take() else {
            self.first.set(rest);
            return;
        };
        let after = place.after.take();
        if at(before).child.get() == Some(NonNull::from(place)) {
            at(before).child.set(after);
        } else {
            at(before).after.set(after);
        }
        if let Some(after) = after {
            at(after).before.set(Some(before));
        }
        if let (Some(first), Some(rest)) = (self.first.get(), rest) {
            self.first.set(Some(link(first, rest)));
        }
    }

    pub(super) fn take_due(&self, now: Duration) -> Option<Option<Waker>> {
        let first = at(self.first.get().filter(|first| at(*first).deadline.get() <= now)?);
        self.remove(first);
        first.state.set(State::Due);
        Some(first.waker.take())
    }
}

#[cfg(test)]
mod tests;
