//! Reads of provider queues, for polls, waits and drivers.

#![allow(unsafe_code, reason = "polls open raw queues")]

use core::borrow::Borrow;

use super::{CqError, CqInner, RemoteEvent};
use crate::buffer::Buffer;
use crate::transport::{Event, Transport};
use crate::vocabulary::{CompletionFlags, Errno};

/// Flags of events of a peer's RMA or atomic operation.
pub(super) const PEERS: CompletionFlags = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_READ);

/// Way of a poll without a result yet. A poll has one call for all detours: with several, results
/// of the fast path would be built in memory, at a third of its cost.
pub(super) enum Detour {
    /// Polls are slow, and nothing was read.
    Slow,
    /// Event for the slow path.
    Event(Event),
    /// Error of the read. `EAVAIL` announces an error event.
    Failed(Errno),
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// Reads the next event of a queue, without building it in memory. Polls, waits and drivers
    /// match the result themselves: a closure for their fast path costs 30 to 100 instructions.
    #[inline(always)]
    pub(super) fn read<'q>(&self, queue: &'q T::Cq) -> Result<Option<T::Polled<'q>>, Errno> {
        // SAFETY: handles keep H1 and T1.
        unsafe { T::cq_poll(queue) }
    }

    /// Reads the next event of a queue, also of a failed operation.
    ///
    /// # Errors
    /// Those of [`checked`](Self::checked).
    pub(super) fn next_event(&self, queue: &T::Cq) -> Result<Option<Event>, CqError> {
        let read = self.read(queue).map(|event| event.map(|event| *event.borrow()));
        self.checked(queue, read)
    }

    /// Returns the event of a read, or the error event that the read announces.
    ///
    /// # Errors
    /// [`CqError::Queue`], also for the event of an overrun queue, which belongs to no operation:
    /// events were lost, and no more will come.
    pub(super) fn checked(&self, queue: &T::Cq, read: Result<Option<Event>, Errno>) -> Result<Option<Event>, CqError> {
        let event = match read {
            Ok(event) => event,
            Err(Errno::EAVAIL) => self.read_error_event(queue)?,
            Err(errno) => return Err(errno.into()),
        };
        if event.is_some_and(|event| event.errno == Errno::EOVERRUN) {
            return Err(CqError::Queue(Errno::EOVERRUN));
        }
        Ok(event)
    }

    #[cold]
    fn read_error_event(&self, queue: &T::Cq) -> Result<Option<Event>, Errno> {
        // SAFETY: handles keep H1 and T1.
        let event = unsafe { T::cq_read_error(queue) }?;
        if let Some(event) = event.filter(|event| event.errno == Errno::ETRUNC)
            && let Some(endpoint) = self.ops.endpoint_of(event.context)
            && let Some(endpoint_slot) = self.endpoint_slots().get(usize::from(endpoint))
        {
            let whole = event.len.checked_add(event.overflow_or_place).filter(|_| event.overflow_or_place > 0);
            endpoint_slot.note_truncated(whole.unwrap_or(usize::MAX));
        }
        Ok(event)
    }

    /// The context of a peer's operation is meaningless, unless it consumes a receive.
    #[inline]
    pub(super) fn take_peer_event(&self, event: &Event) -> Option<RemoteEvent> {
        if !event.flags.intersects(PEERS) || event.is_error() {
            return None;
        }
        if self.writes_consume_receives {
            // SAFETY: the transport has just reported the event, with the context of a completed
            // receive.
            unsafe { self.ops.use_up(event.context) };
        }
        Some(RemoteEvent::of(event))
    }
}
