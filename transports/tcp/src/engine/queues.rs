//! Completion queues and counters.

use loom_core::transport::{CounterWait, Event};
use loom_core::vocabulary::{CompletionFlags, Counted, Errno};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io;

use super::progress::NO_QUEUE;
use super::socket::errno;
use super::{Engine, Full};
use crate::memory::Ring;

/// Kinds of operations that an endpoint counts.
const COUNTED: [(Counted, CompletionFlags); 6] = [
    (Counted::SEND, CompletionFlags::SEND),
    (Counted::RECV, CompletionFlags::RECV),
    (Counted::READ, CompletionFlags::READ),
    (Counted::WRITE, CompletionFlags::WRITE),
    (Counted::REMOTE_READ, CompletionFlags::REMOTE_READ),
    (Counted::REMOTE_WRITE, CompletionFlags::REMOTE_WRITE),
];

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BoundCounters {
    /// By kind of operation.
    indices: [Option<u16>; COUNTED.len()],
    /// Operations that a counter counts.
    counted: CompletionFlags,
}

impl BoundCounters {
    pub(super) fn bind(counters: impl Iterator<Item = (Counted, u16)> + Clone) -> Self {
        let of = |kind| counters.clone().find(|(wanted, _)| wanted.contains(kind)).map(|(_, index)| index);
        let indices = COUNTED.map(|(kind, _)| of(kind));
        let counted = COUNTED.iter().zip(indices).filter(|(_, index)| index.is_some());
        BoundCounters { indices, counted: counted.map(|((_, flags), _)| *flags).collect() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    ring: Option<Ring>,
    /// Number of events with reserved room, of operations in flight.
    reserved: u32,
    wait: Option<Wait>,
}

/// Descriptors to sleep on.
#[derive(Debug)]
pub(super) struct Wait {
    /// Readable if the domain's sockets or the event are.
    epoll: OwnedFd,
    /// Readable if the queue got an event while it was not polled.
    event: OwnedFd,
    is_set: bool,
}

impl Wait {
    pub(super) fn new(domain: impl AsFd) -> io::Result<Self> {
        let (epoll, event) =
            (epoll::create(epoll::CreateFlags::CLOEXEC)?, eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, domain, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &event, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
        Ok(Wait { epoll, event, is_set: false })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    pub(super) fn set(&mut self) {
        if !self.is_set {
            self.is_set = io::write(&self.event, &1_u64.to_ne_bytes()).is_ok();
        }
    }

    /// Returns `true` if it was set.
    pub(super) fn reset(&mut self) -> bool {
        if self.is_set {
            let _ = io::read(&self.event, &mut [0_u8; 8]);
        }
        core::mem::take(&mut self.is_set)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter {
    is_open: bool,
    pub(crate) value: u64,
    pub(crate) errors: u64,
    wait: Option<Wait>,
}

#[expect(clippy::cast_possible_truncation, reason = "tables have at most as many elements")]
fn index(position: usize) -> u16 {
    position as u16
}

impl Engine {
    pub(crate) fn open_queue(&mut self, ring: Ring, waits: bool) -> Result<u16, Errno> {
        let free = self.queues.iter().position(|queue| queue.ring.is_none()).ok_or(Full::QUEUES)?;
        let wait = self.new_wait(waits)?;
        self.queues[free] = Queue { ring: Some(ring), reserved: 0, wait };
        Ok(index(free))
    }

    pub(super) fn new_wait(&self, waits: bool) -> Result<Option<Wait>, Errno> {
        waits.then(|| Wait::new(&self.epoll)).transpose().map_err(errno)
    }

    pub(crate) fn close_queue(&mut self, queue: u16) {
        self.queues[usize::from(queue)] = Queue::default();
    }

    /// Returns the next event without progress.
    #[inline]
    pub(crate) fn next_event(&mut self, queue: u16) -> Option<Event> {
        let ring = self.queues[usize::from(queue)].ring.as_mut()?;
        // A write with immediate data may wait for room.
        self.try_paused |= self.paused > 0;
        ring.pop()
    }

    /// Returns the next event of a queue, if it is a success.
    #[inline]
    pub(super) fn take_success(&mut self, queue: u16) -> Result<Option<Event>, Errno> {
        let Some(ring) = &mut self.queues[usize::from(queue)].ring else { return Ok(None) };
        let event = ring.pop_success()?;
        // A write with immediate data may wait for room.
        self.try_paused |= event.is_some() && self.paused > 0;
        Ok(event)
    }

    #[inline]
    pub(crate) fn first_event(&self, queue: u16) -> Option<&Event> {
        self.queues[usize::from(queue)].ring.as_ref()?.first()
    }

    pub(crate) fn wait_fd(&self, queue: u16) -> Result<RawFd, Errno> {
        self.queues[usize::from(queue)].wait.as_ref().map(Wait::fd).ok_or(Errno::ENOSYS)
    }

    /// Returns `true` if the descriptor of the queue becomes readable at the next event.
    pub(crate) fn may_sleep(&mut self, queue: u16) -> Result<bool, Errno> {
        if !self.leave_dirty() || self.has_kernel_events() {
            return Ok(false);
        }
        let queue = &mut self.queues[usize::from(queue)];
        queue.wait.as_mut().ok_or(Errno::ENOSYS)?.reset();
        Ok(queue.ring.as_ref().is_none_or(|ring| ring.len() == 0) && !(self.try_paused && self.paused > 0))
    }

    /// Wakes all sleepers but the polled queue's, which then poll.
    pub(super) fn wake_sleepers(&mut self) {
        let polled = self.polled;
        let others = self.queues.iter_mut().zip(0..).filter(|(_, index)| *index != polled);
        let counters = self.counters.iter_mut().filter_map(|counter| counter.wait.as_mut());
        let event_queues = self.event_queues.iter_mut().filter_map(|queue| queue.wait.as_mut());
        let others = others.filter_map(|(queue, _)| queue.wait.as_mut());
        others.chain(counters).chain(event_queues).for_each(|wait| wait.set());
    }

    /// Reserves room for the event of an operation.
    #[inline]
    pub(super) fn reserve(&mut self, queue: u16) -> bool {
        let queue = &mut self.queues[usize::from(queue)];
        let room = queue.ring.as_ref().map_or(0, |ring| ring.capacity() - ring.len());
        let granted = queue.reserved < room;
        queue.reserved += u32::from(granted);
        granted
    }

    /// Gives back room that [`reserve`](Self::reserve) granted.
    #[inline]
    pub(super) fn release(&mut self, queue: u16) {
        self.try_paused |= self.paused > 0;
        let queue = &mut self.queues[usize::from(queue)];
        queue.reserved = queue.reserved.saturating_sub(1);
    }

    /// Adds an event, in room that was reserved.
    #[inline]
    pub(super) fn report(&mut self, queue: u16, event: Event) {
        let is_polled = self.polled == queue;
        let queue = &mut self.queues[usize::from(queue)];
        queue.reserved = queue.reserved.saturating_sub(1);
        if let Some(ring) = &mut queue.ring {
            let added = ring.push(event);
            debug_assert!(added, "room was reserved");
        }
        if !is_polled && let Some(wait) = &mut queue.wait {
            wait.set();
        }
    }

    /// Counts an operation of an endpoint.
    #[inline(always)]
    pub(super) fn count(&mut self, endpoint: u16, flags: CompletionFlags, succeeded: bool) {
        let counters = &self.endpoints[usize::from(endpoint)].counters;
        if flags.intersects(counters.counted) {
            self.count_on_all(counters.indices, flags, succeeded);
        }
    }

    fn count_on_all(&mut self, counters: [Option<u16>; COUNTED.len()], flags: CompletionFlags, succeeded: bool) {
        for (counter, (_, counted)) in counters.into_iter().zip(COUNTED) {
            if let Some(counter) = counter.filter(|_| flags.intersects(counted)) {
                self.count_on(counter, succeeded);
            }
        }
    }

    pub(super) fn count_on(&mut self, counter: u16, succeeded: bool) {
        self.change_counter(counter, |counter| {
            let number = if succeeded { &mut counter.value } else { &mut counter.errors };
            *number = number.wrapping_add(1);
        });
    }

    pub(crate) fn change_counter(&mut self, counter: u16, change: impl FnOnce(&mut Counter)) {
        let counter = &mut self.counters[usize::from(counter)];
        change(counter);
        if let Some(wait) = &mut counter.wait {
            wait.set();
        }
    }

    pub(crate) fn open_counter(&mut self, waits: bool) -> Result<u16, Errno> {
        let free = self.counters.iter().position(|counter| !counter.is_open).ok_or(Full::COUNTERS)?;
        self.counters[free] = Counter { is_open: true, wait: self.new_wait(waits)?, ..Counter::default() };
        Ok(index(free))
    }

    pub(crate) fn close_counter(&mut self, counter: u16) {
        self.counters[usize::from(counter)] = Counter::default();
    }

    pub(crate) fn counter(&self, counter: u16) -> &Counter {
        &self.counters[usize::from(counter)]
    }

    pub(crate) fn await_counter(
        &mut self,
        counter: u16,
        threshold: u64,
        milliseconds: i32,
    ) -> Result<CounterWait, Errno> {
        let before = self.counter(counter).errors;
        let result = |engine: &Self| match engine.counter(counter) {
            Counter { value, .. } if *value >= threshold => CounterWait::Reached,
            Counter { errors, .. } if *errors != before => CounterWait::OperationFailed,
            _ => CounterWait::TimeIsOver,
        };
        if result(self) == CounterWait::TimeIsOver {
            self.drive(milliseconds, |engine| result(engine) != CounterWait::TimeIsOver)?;
        }
        Ok(result(self))
    }

    pub(crate) fn counter_fd(&self, counter: u16) -> Result<RawFd, Errno> {
        self.counter(counter).wait.as_ref().map(Wait::fd).ok_or(Errno::ENOSYS)
    }

    /// Returns `true` if the counter has not changed since the last call. Otherwise drives
    /// progress.
    pub(crate) fn may_await_counter(&mut self, counter: u16) -> Result<bool, Errno> {
        if !self.leave_dirty() || self.has_kernel_events() || self.try_paused && self.paused > 0 {
            self.read_shared();
            self.progress(NO_QUEUE, 0)?;
            return Ok(false);
        }
        Ok(!self.counters[usize::from(counter)].wait.as_mut().ok_or(Errno::ENOSYS)?.reset())
    }
}
