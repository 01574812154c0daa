//! [`Slots`]: table of submissions. The owner of a slot, caller or thread by its state, alone locks
//! the cell.

#[cfg(not(loom_model))]
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;
use std::boxed::Box;
#[cfg(not(loom_model))]
use std::sync::{Mutex, MutexGuard};
use std::sync::{PoisonError, TryLockError};
use std::vec::Vec;

#[cfg(loom_model)]
use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(loom_model)]
use loom::sync::{Mutex, MutexGuard};

use loom_core::Error;

use super::{ENDED, Message};
use crate::engine::Wait;
use crate::event::Outcome;
use crate::peers::PeerKey;
use crate::request::Request;

/// The caller's, in use or not.
const FREE: u8 = 0;
/// The thread's.
const SUBMITTED: u8 = 1;
/// The thread's, without a caller.
const ABANDONED: u8 = 2;
/// The caller's, with a result.
const DONE: u8 = 3;
/// The thread's, with a result not taken.
const RETURNED: u8 = 4;

pub(super) const NIL: u32 = u32::MAX;
/// The thread has ended.
const CLOSED: u32 = u32::MAX - 1;

pub(super) enum Work<P> {
    Transfer { request: Request<P>, notifies: bool },
    Wait(Wait),
    Notify(PeerKey),
    Receive,
    Watch,
}

#[expect(clippy::large_enum_variant, reason = "submissions are not boxed")]
pub(super) enum Done<P> {
    Ended(Outcome<P>),
    Completed,
    Received(Message),
    Changed(PeerKey, Result<(), Error>),
}

pub(super) type Ending<P> = Result<Done<P>, Error>;

pub(super) enum Content<P> {
    Empty,
    Work(Work<P>),
    Done(Ending<P>),
}

pub(super) struct Cell<P> {
    pub(super) content: Content<P>,
    pub(super) bytes: Vec<u8>,
    pub(super) since: u64,
}

struct Slot<P> {
    state: AtomicU8,
    cancelled: AtomicBool,
    queued: AtomicBool,
    next_queued: AtomicU32,
    next_free: AtomicU32,
    cell: Mutex<Cell<P>>,
    waker: Mutex<Option<Waker>>,
}

pub(super) struct Slots<P> {
    slots: Box<[Slot<P>]>,
    /// First free slot, below a count of changes.
    free: AtomicU64,
    mail: AtomicU32,
}

#[derive(Clone, Copy)]
pub(super) enum Mail {
    Submitted,
    Abandoned,
    Returned,
    Stale,
}

impl<P> Slots<P> {
    pub(super) fn new(len: usize) -> Option<Self> {
        let count = u32::try_from(len).ok().filter(|count| *count < CLOSED)?;
        let slot = |index| Slot {
            state: AtomicU8::new(FREE),
            cancelled: AtomicBool::new(false),
            queued: AtomicBool::new(false),
            next_queued: AtomicU32::new(NIL),
            next_free: AtomicU32::new(if index + 1 < count { index + 1 } else { NIL }),
            cell: Mutex::new(Cell { content: Content::Empty, bytes: Vec::new(), since: 0 }),
            waker: Mutex::new(None),
        };
        let first = if count > 0 { 0 } else { NIL };
        Some(Slots {
            slots: (0..count).map(slot).collect(),
            free: AtomicU64::new(first.into()),
            mail: AtomicU32::new(NIL),
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    fn at(&self, index: u32) -> &Slot<P> {
        &self.slots[index as usize]
    }

    pub(super) fn cell(&self, index: u32) -> MutexGuard<'_, Cell<P>> {
        self.at(index).cell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire(&self) -> Option<u32> {
        let mut free = self.free.load(Ordering::Acquire);
        loop {
            let index = low(free);
            if index == NIL {
                return None;
            }
            let next = self.at(index).next_free.load(Ordering::Relaxed);
            match self.free.compare_exchange_weak(free, after(free, next), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(other) => free = other,
            }
        }
    }

    fn release(&self, index: u32) {
        let slot = self.at(index);
        slot.state.store(FREE, Ordering::Relaxed);
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            slot.next_free.store(low(free), Ordering::Relaxed);
            match self.free.compare_exchange_weak(free, after(free, index), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => free = other,
            }
        }
    }

    /// Returns `false` if the thread has ended.
    fn post(&self, index: u32) -> bool {
        let slot = self.at(index);
        if slot.queued.swap(true, Ordering::AcqRel) {
            return true;
        }
        let mut last = self.mail.load(Ordering::Relaxed);
        loop {
            if last == CLOSED {
                slot.queued.store(false, Ordering::Relaxed);
                return false;
            }
            slot.next_queued.store(last, Ordering::Relaxed);
            match self.mail.compare_exchange_weak(last, index, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => last = other,
            }
        }
    }

    #[expect(clippy::result_large_err, reason = "submissions are not boxed")]
    pub(super) fn submit(
        &self,
        work: Work<P>,
        since: u64,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u32, (Work<P>, Error)> {
        let Some(index) = self.acquire() else {
            let closed = self.mail.load(Ordering::Relaxed) == CLOSED;
            return Err((work, if closed { ENDED } else { Error::Full("AgentAttr::slots") }));
        };
        let slot = self.at(index);
        slot.cancelled.store(false, Ordering::Relaxed);
        let mut cell = self.cell(index);
        (cell.content, cell.since) = (Content::Work(work), since);
        fill(&mut cell.bytes);
        drop(cell);
        slot.state.store(SUBMITTED, Ordering::Release);
        if self.post(index) {
            return Ok(index);
        }
        let content = core::mem::replace(&mut self.cell(index).content, Content::Empty);
        self.release(index);
        match content {
            Content::Work(work) => Err((work, ENDED)),
            _ => unreachable!("the caller owns the slot"),
        }
    }

    pub(super) fn cancel(&self, index: u32) {
        self.at(index).cancelled.store(true, Ordering::Release);
        self.post(index);
    }

    pub(super) fn poll(&self, index: u32, waker: &Waker) -> Option<Ending<P>> {
        let slot = self.at(index);
        if slot.state.load(Ordering::Acquire) != DONE {
            match slot.waker.try_lock() {
                Ok(mut place) => store(&mut place, waker),
                Err(TryLockError::Poisoned(place)) => store(&mut place.into_inner(), waker),
                Err(TryLockError::WouldBlock) => {
                    waker.wake_by_ref();
                    return None;
                }
            }
            // The thread writes the state before it takes the waker. This write comes before or
            // after.
            if slot.state.compare_exchange(SUBMITTED, SUBMITTED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return None;
            }
        }
        let content = core::mem::replace(&mut self.cell(index).content, Content::Empty);
        drop(self.take_waker(index));
        self.release(index);
        match content {
            Content::Done(ending) => Some(ending),
            _ => unreachable!("a completed slot holds a result"),
        }
    }

    fn take_waker(&self, index: u32) -> Option<Waker> {
        match self.at(index).waker.try_lock() {
            Ok(mut place) => place.take(),
            Err(TryLockError::Poisoned(place)) => place.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn abandon(&self, index: u32) {
        let slot = self.at(index);
        if slot.state.compare_exchange(SUBMITTED, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.post(index);
            return;
        }
        let is_unread = matches!(self.cell(index).content, Content::Done(Ok(Done::Received(_) | Done::Changed(..))));
        if is_unread {
            slot.state.store(RETURNED, Ordering::Release);
            if self.post(index) {
                return;
            }
        }
        let content = core::mem::replace(&mut self.cell(index).content, Content::Empty);
        self.release(index);
        drop(content);
    }

    pub(super) fn take_mail(&self, closes: bool) -> u32 {
        let end = if closes { CLOSED } else { NIL };
        if !closes && self.mail.load(Ordering::Relaxed) == NIL {
            return NIL;
        }
        let (mut last, mut first) = (self.mail.swap(end, Ordering::AcqRel), NIL);
        while last < CLOSED {
            let before = self.at(last).next_queued.swap(first, Ordering::Relaxed);
            (first, last) = (last, before);
        }
        first
    }

    pub(super) fn next(&self, first: &mut u32) -> Option<(u32, Mail)> {
        let index = *first;
        if index == NIL {
            return None;
        }
        let slot = self.at(index);
        *first = slot.next_queued.load(Ordering::Relaxed);
        slot.queued.swap(false, Ordering::AcqRel);
        let mail = match slot.state.load(Ordering::Acquire) {
            SUBMITTED => Mail::Submitted,
            ABANDONED => Mail::Abandoned,
            RETURNED => Mail::Returned,
            _ => Mail::Stale,
        };
        Some((index, mail))
    }

    pub(super) fn is_cancelled(&self, index: u32) -> bool {
        self.at(index).cancelled.load(Ordering::Acquire)
    }

    pub(super) fn take_returned(&self, index: u32) -> Option<Ending<P>> {
        let content = core::mem::replace(&mut self.cell(index).content, Content::Empty);
        self.release(index);
        if let Content::Done(ending) = content { Some(ending) } else { None }
    }

    pub(super) fn complete(&self, index: u32, ending: Ending<P>) -> Option<Ending<P>> {
        let slot = self.at(index);
        self.cell(index).content = Content::Done(ending);
        if slot.state.compare_exchange(SUBMITTED, DONE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return self.take_returned(index);
        }
        if let Some(waker) = self.take_waker(index) {
            waker.wake();
        }
        None
    }
}

fn store(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(stored) => stored.clone_from(waker),
        None => *place = Some(waker.clone()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn low(free: u64) -> u32 {
    free as u32
}

const fn after(free: u64, first: u32) -> u64 {
    ((free >> 32).wrapping_add(1) << 32) | first as u64
}
