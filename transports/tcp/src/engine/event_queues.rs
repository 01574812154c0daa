//! Event queues: events of connections, listeners and the program.

use loom_core::vocabulary::Errno;

use super::connected::{ConnectData, PendingRequest};
use super::progress::NO_QUEUE;
use super::queues::Wait;
use super::{Engine, Full};

/// Events of the program that a queue has room for.
pub(super) const OWN_EVENTS: u32 = 64;

/// Event of a listener, an endpoint or the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EqEvent {
    Request { listener: u64, pending: PendingRequest },
    Connected { endpoint: u64 },
    Shutdown { endpoint: u64 },
    Failed { endpoint: u64, errno: Errno, code: i32 },
    Program { context: u64, data: u64 },
}

/// Event in a queue, with the connection data of the peer.
#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) event: EqEvent,
    pub(crate) data: ConnectData,
}

#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    is_open: bool,
    /// First event, from the first place of the queue on.
    first: u32,
    /// Number of events.
    len: u32,
    pub(super) wait: Option<Wait>,
}

impl Engine {
    pub(crate) fn open_event_queue(&mut self, size: usize, waits: bool) -> Result<u16, Errno> {
        if size > self.event_room() as usize {
            return Err(Errno::EINVAL);
        }
        let free = self.event_queues.iter().position(|queue| !queue.is_open).ok_or(Full::EVENT_QUEUES)?;
        let wait = self.new_wait(waits)?;
        self.event_queues[free] = EventQueue { is_open: true, first: 0, len: 0, wait };
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 queues")]
        Ok(free as u16)
    }

    pub(crate) fn close_event_queue(&mut self, queue: u16) {
        self.event_queues[usize::from(queue)] = EventQueue::default();
    }

    /// Events that a queue has room for.
    fn event_room(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the table has fewer than `NIL` events")]
        let len = self.events.len() as u32;
        len / u32::from(self.attr.event_queues).max(1)
    }

    fn event_at(&self, queue: u16, number: u32) -> usize {
        let room = self.event_room();
        (u32::from(queue) * room + (self.event_queues[usize::from(queue)].first + number) % room) as usize
    }

    /// Adds an event, unless the queue is full.
    pub(super) fn queue_event(&mut self, queue: u16, event: EqEvent, data: &[u8]) -> Result<(), Errno> {
        let (room, len) = (self.event_room(), self.event_queues[usize::from(queue)].len);
        if len == room {
            return Err(Errno::EAGAIN);
        }
        let at = self.event_at(queue, len);
        self.events[at] = Some(QueuedEvent { event, data: ConnectData::from_slice(data).unwrap_or_default() });
        let queue = &mut self.event_queues[usize::from(queue)];
        queue.len += 1;
        if let Some(wait) = &mut queue.wait {
            wait.set();
        }
        Ok(())
    }

    /// Adds an event of the program. Events of connections have room of their own.
    pub(crate) fn queue_own_event(&mut self, queue: u16, context: u64, data: u64) -> Result<(), Errno> {
        if self.event_queues[usize::from(queue)].len >= OWN_EVENTS {
            return Err(Errno::EAGAIN);
        }
        self.queue_event(queue, EqEvent::Program { context, data }, &[])
    }

    /// Removes the next event, if it fits.
    pub(crate) fn next_eq_event(&mut self, queue: u16, fits: impl Fn(&EqEvent) -> bool) -> Option<QueuedEvent> {
        if self.event_queues[usize::from(queue)].len == 0 {
            return None;
        }
        let at = self.event_at(queue, 0);
        let event = self.events[at].take_if(|queued| fits(&queued.event))?;
        let room = self.event_room();
        let queue = &mut self.event_queues[usize::from(queue)];
        queue.first = (queue.first + 1) % room;
        queue.len -= 1;
        Some(event)
    }

    pub(crate) fn has_eq_event(&self, queue: u16) -> bool {
        self.event_queues[usize::from(queue)].len > 0
    }

    /// Removes the events that fit.
    pub(super) fn withdraw(&mut self, queue: u16, fits: impl Fn(&EqEvent) -> bool) {
        let len = self.event_queues[usize::from(queue)].len;
        let mut kept = 0;
        for number in 0..len {
            let from = self.event_at(queue, number);
            let Some(event) = self.events[from].take_if(|queued| !fits(&queued.event)) else {
                self.events[from] = None;
                continue;
            };
            let to = self.event_at(queue, kept);
            self.events[to] = Some(event);
            kept += 1;
        }
        self.event_queues[usize::from(queue)].len = kept;
    }

    /// Drives progress, and waits for at most so many milliseconds until an event has happened.
    pub(crate) fn drive(&mut self, milliseconds: i32, has_happened: impl Fn(&Self) -> bool) -> Result<(), Errno> {
        let may_sleep = milliseconds != 0 && self.leave_dirty() && !(self.try_paused && self.paused > 0);
        self.read_shared();
        self.progress(NO_QUEUE, if may_sleep && !has_happened(self) { milliseconds } else { 0 })
    }

    pub(crate) fn event_fd(&self, queue: u16) -> Result<rustix::fd::RawFd, Errno> {
        self.event_queues[usize::from(queue)].wait.as_ref().map(Wait::fd).ok_or(Errno::ENOSYS)
    }

    pub(crate) fn may_await_event(&mut self, queue: u16) -> Result<bool, Errno> {
        if !self.leave_dirty() || self.has_kernel_events() {
            return Ok(false);
        }
        let queue = &mut self.event_queues[usize::from(queue)];
        queue.wait.as_mut().ok_or(Errno::ENOSYS)?.reset();
        Ok(queue.len == 0 && !(self.try_paused && self.paused > 0))
    }
}
