//! The one look at a provider queue: of [`Cq::poll`](super::Cq::poll), waits and drivers.

#![allow(unsafe_code, reason = "polls open raw queues, and tells the op table what they report")]

use core::borrow::Borrow;

use super::keep::UnmatchedEvent;
use super::{CqError, CqInner, RemoteEvent};
use crate::buffer::Buffer;
use crate::error::PostError;
use crate::transport::{Event, Msg, Transport};
use crate::vocabulary::{CompletionFlags, Errno, OpFlags};

/// Flags of events that a peer causes.
pub(super) const PEERS: CompletionFlags = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_READ);

/// Outcome of a look at the queue.
pub(super) enum Pumped<R> {
    Taken(R),
    Empty,
    Detour(Detour),
}

/// Events that leave the fast path.
pub(super) enum Detour {
    Event(Event),
    Failed(Errno),
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// The next event of a queue that is alone, if it completes an operation and `take` takes it.
    #[inline(always)]
    pub(super) fn pump<R>(&self, take: impl FnOnce(&Event) -> Option<R>) -> Pumped<R> {
        // SAFETY: handles keep the queue open (H1) on its thread (T1).
        match unsafe { T::cq_poll(&self.tx) } {
            Ok(Some(event)) => {
                let event = event.borrow();
                if !event.flags.intersects(PEERS)
                    && let Some(taken) = take(event)
                {
                    return Pumped::Taken(taken);
                }
                // Cloned only here, so that most events are never built in memory.
                Pumped::Detour(Detour::Event(Event::clone(event)))
            }
            Ok(None) => Pumped::Empty,
            Err(errno) => Pumped::Detour(Detour::Failed(errno)),
        }
    }

    /// The next event of one provider queue.
    pub(super) fn next_event(&self, queue: &T::Cq) -> Result<Option<Event>, CqError> {
        // SAFETY: handles keep the queue open (H1) on its thread (T1).
        match unsafe { T::cq_poll(queue) } {
            Ok(event) => Ok(event.map(|event| Event::clone(event.borrow()))),
            Err(errno) => self.failed(queue, errno),
        }
    }

    #[cold]
    pub(super) fn failed(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Event>, CqError> {
        if errno != Errno::EAVAIL {
            return Err(errno.into());
        }
        // SAFETY: handles keep the queue open (H1) on its thread (T1).
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
    pub(super) fn unmatched_by_flags(&self, event: &Event) -> Option<UnmatchedEvent> {
        if !event.flags.intersects(PEERS) || event.is_error() {
            return None;
        }
        if self.consumes {
            // SAFETY: the transport has just reported the event, with the context of a completed
            // receive.
            unsafe { self.ops.use_up(event.context) };
        }
        Some(UnmatchedEvent::Remote(RemoteEvent::of(event)))
    }

    #[inline]
    pub(super) fn post_used_up_again(&self) {
        if self.ops.has_used_up() {
            self.post_again();
        }
    }

    #[cold]
    #[inline(never)]
    fn post_again(&self) {
        let record_of = |endpoint: u16| {
            self.endpoint_slots().get(usize::from(endpoint)).filter(|endpoint_slot| endpoint_slot.is_open())
        };
        self.ops.post_again(
            |endpoint| record_of(endpoint).is_some(),
            |endpoint, from, pieces, context| {
                let endpoint_slot = record_of(endpoint).ok_or(PostError::Errno(Errno::ECANCELED))?;
                // SAFETY: open, and not closed before this returns, because no user code runs.
                let raw = unsafe { endpoint_slot.raw() };
                Ok(match pieces {
                    // SAFETY: the endpoint is open (H1), and the address is that of an earlier
                    // receive (O1). The memory is that of the first post (contract of `Buffer`),
                    // and stays in the op table until its event or the endpoint's close (L1).
                    [only] => unsafe { T::recv(raw, from, only, None, context) },
                    pieces => {
                        let msg = Msg { address: from, pieces, data: None, context, flags: OpFlags::COMPLETION };
                        // SAFETY: the endpoint is open (H1), the address is that of an earlier
                        // receive (O1), and the memory stays until its event or the endpoint's
                        // close (L1).
                        unsafe { T::recvmsg(raw, &msg, None) }
                    }
                }?)
            },
        );
    }
}

/// The error of an overrun queue belongs to no operation: events were lost, and no more will come.
#[inline]
pub(super) fn of_an_operation(event: &Event) -> Result<(), CqError> {
    if event.errno == Errno::EOVERRUN { Err(CqError::Queue(event.errno)) } else { Ok(()) }
}
