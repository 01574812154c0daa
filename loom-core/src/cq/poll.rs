//! Asking a queue for the next completion.

#![allow(unsafe_code, reason = "polls open raw queues, and tells the op table what they report")]

use core::borrow::Borrow;

use super::wait::UnmatchedEvent;
use super::{Completion, RemoteEvent};
use super::{Cq, CqError, CqInner};
use crate::buffer::Buffer;
use crate::engine::op_table::OpError;
use crate::engine::op_table::{Direction, Resolution};
use crate::error::PostError;
use crate::transport::{Event, Msg, Transport};
use crate::vocabulary::{CompletionFlags, Errno, OpFlags};

/// Flags of events that a peer has caused by itself.
pub(super) const PEERS: CompletionFlags = CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_READ);

/// What the slower ways of a poll return. Not what `poll` itself does: the compiler would build the completions of the fast
/// way in memory, where these are.
type Next<'m, B> = Option<Result<Completion<'m, B>, CqError>>;

/// Why a poll goes another way than that of an operation that has succeeded.
pub(super) enum Detour {
    /// Something may be kept, or left of endpoints that are closed, or there is more than one queue to look at.
    Kept,
    /// Any other event.
    Event(Event),
    /// An error of the provider's queue.
    Failed(Errno),
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// The next completion of either direction; `None` if there is none for now. Drives progress.
    ///
    /// What [`wait`](Self::wait) and [`progress`](Self::progress) have kept comes first, receives before transmits;
    /// then one provider queue's completions come in its order.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Completion, Cq, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// // Most polls find nothing. They drive progress all the same.
    /// let mut over = 0;
    /// while over < 2 {
    ///     match cq.poll()? {
    ///         Some(Completion::Op(done)) if done.key() == received => {
    ///             assert_eq!(done.into_buf(), b"hello");
    ///             over += 1;
    ///         }
    ///         Some(Completion::Op(done)) => {
    ///             done.result()?;
    ///             over += 1;
    ///         }
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`CqError::Queue`] if the provider's queue failed
    /// - [`CqError::Driven`] if a [driver](crate::driver) polls the queue
    #[doc(alias = "fi_cq_read")]
    // Always, with the way of a successful operation through it and nothing else: its completion is built where the caller
    // wants it, not copied from one return value to the next. That is a third of the cost of a poll.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        let detour = if self.body.ops.is_kept() {
            Detour::Kept
        } else {
            // SAFETY: the queue is open until its last handle is dropped (C1), and these stay on this thread (C5).
            match unsafe { T::cq_poll(&self.body.tx) } {
                Ok(Some(event)) => {
                    let event = event.borrow();
                    if !event.flags.intersects(PEERS) {
                        // SAFETY: the transport has just reported the event, and a queue has one table. Where there are prefixes,
                        // the table counts as keeping something (`detours`).
                        if let Some(done) = unsafe { self.body.ops.succeed(event) } {
                            return Ok(Some(Completion::Op(done)));
                        }
                    }
                    // A copy: most events are never put together in memory then.
                    Detour::Event(Event::clone(event))
                }
                // No event of a closed endpoint is left either: something counts as kept until there is none.
                Ok(None) => return Ok(None),
                Err(errno) => Detour::Failed(errno),
            }
        };
        self.poll_detour(detour).transpose()
    }

    /// [`poll`](Self::poll) by any other way than that of a success. One call for all of them: with more, the compiler would keep the
    /// completions of the fast way in memory, too.
    #[cold]
    #[inline(never)]
    fn poll_detour(&self, detour: Detour) -> Next<'m, B> {
        match detour {
            Detour::Kept => self.poll_kept(),
            Detour::Event(event) => self.poll_on(&event),
            Detour::Failed(errno) => self.poll_failed(errno),
        }
    }

    /// [`poll`](Self::poll) where something may be kept, or left of endpoints that are closed, or there are two provider queues or prefixes.
    fn poll_kept(&self) -> Next<'m, B> {
        if self.body.driven.get() {
            return Some(Err(CqError::Driven));
        }
        self.body.post_used_up_again();
        if let Some(completion) = self.take_any_kept() {
            return Some(Ok(completion));
        }
        let Some(rx) = &self.body.rx else { return self.poll_last(&self.body.tx) };
        let turn = self.body.turn.get();
        self.body.turn.set(!turn);
        let (first, second) = if turn { (rx, &self.body.tx) } else { (&self.body.tx, rx) };
        self.poll_queue(first).or_else(|| self.poll_last(second))
    }

    /// [`poll`](Self::poll) from an event on which is not that of a success.
    fn poll_on(&self, event: &Event) -> Next<'m, B> {
        self.resolve(event).or_else(|| self.poll_last(&self.body.tx))
    }

    /// [`poll`](Self::poll) after an error of the provider's queue.
    #[cold]
    fn poll_failed(&self, errno: Errno) -> Next<'m, B> {
        match self.body.failed(&self.body.tx, errno).transpose()? {
            Ok(event) => self.poll_on(&event),
            Err(error) => Some(Err(error)),
        }
    }

    /// The next completion of the last raw queue to look at.
    fn poll_last(&self, queue: &T::Cq) -> Next<'m, B> {
        let polled = self.poll_queue(queue);
        if polled.is_none() {
            self.body.ops.drained();
        }
        polled
    }

    /// The next completion of a raw queue.
    fn poll_queue(&self, queue: &T::Cq) -> Next<'m, B> {
        // Bounded: stray events are no more than the queue holds and peers go on adding.
        loop {
            // SAFETY: the queue is open until its last handle is dropped (C1), and these stay on this thread (C5).
            let completion = match unsafe { T::cq_poll(queue) } {
                Ok(event) => self.resolve(event?.borrow()),
                Err(errno) => match self.body.failed(queue, errno).transpose()? {
                    Ok(event) => self.resolve(&event),
                    Err(error) => return Some(Err(error)),
                },
            };
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// The next completion of a send, read or write.
    ///
    /// # Errors
    /// As [`Cq::poll`](Self::poll).
    pub fn poll_tx(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        self.poll_direction(&self.body.tx, Direction::Transmit)
    }

    /// The next completion of a receive, or event of a peer.
    ///
    /// # Errors
    /// As [`Cq::poll`](Self::poll).
    pub fn poll_rx(&self) -> Result<Option<Completion<'m, B>>, CqError> {
        self.poll_direction(self.body.rx.as_ref().unwrap_or(&self.body.tx), Direction::Receive)
    }

    /// The next completion of one direction. Those of the other are kept: one raw queue may report both.
    fn poll_direction(&self, queue: &T::Cq, direction: Direction) -> Result<Option<Completion<'m, B>>, CqError> {
        if self.body.driven.get() {
            return Err(CqError::Driven);
        }
        self.body.post_used_up_again();
        loop {
            if let Some(completion) = self.take_kept(direction) {
                return Ok(Some(completion));
            }
            if !self.body.keep_next(queue)? {
                match self.body.rx {
                    Some(_) => self.body.ops.drained_of(direction),
                    None => self.body.ops.drained(),
                }
                return Ok(None);
            }
        }
    }

    /// What an event says to the user; nothing, if it belongs to an operation that is over.
    fn resolve(&self, event: &Event) -> Next<'m, B> {
        if let Some(event) = self.body.unmatched_by_flags(event) {
            return Some(Ok(self.unmatched(event)));
        }
        if let Err(error) = of_an_operation(event) {
            return Some(Err(error));
        }
        // SAFETY: the transport has just reported the event, and a queue has one table.
        let completion = match unsafe { self.body.ops.complete(event) } {
            Resolution::Done(done) => Some(Completion::Op(done)),
            Resolution::Piece(piece) => Some(Completion::Piece(self.piece(piece))),
            Resolution::Peek(peek) => Some(Completion::Peek(peek)),
            Resolution::Value(fetched) => Some(Completion::Value(fetched)),
            Resolution::Unwanted(error) => Some(Completion::Unclaimed(error)),
            Resolution::Foreign if event.is_error() => Some(Completion::Unclaimed(OpError::of(event))),
            Resolution::NotOver | Resolution::Stale | Resolution::Foreign => None,
        };
        completion.map(Ok)
    }
}

impl<T: Transport, B: Buffer> CqInner<T, B> {
    /// The event behind an error of a poll, if there is one.
    #[cold]
    pub(super) fn failed(&self, queue: &T::Cq, errno: Errno) -> Result<Option<Event>, CqError> {
        if errno != Errno::EAVAIL {
            return Err(errno.into());
        }
        // SAFETY: the queue is open until its last handle is dropped (C1), and these stay on this thread (C5).
        let event = unsafe { T::cq_read_error(queue) }?;
        if let Some(event) = event.filter(|event| event.errno == Errno::ETRUNC)
            && let Some(endpoint) = self.ops.endpoint_of(event.context)
            && let Some(endpoint_slot) = self.endpoint_slots().get(usize::from(endpoint))
        {
            // What did not fit is not told by every provider.
            let whole = event.len.checked_add(event.overflow_or_place).filter(|_| event.overflow_or_place > 0);
            endpoint_slot.note_truncated(whole.unwrap_or(usize::MAX));
        }
        Ok(event)
    }

    /// A peer's operation on this side's memory, which the provider reports with a context of no meaning; or, where it uses up a
    /// receive, with the context of that.
    #[inline]
    pub(super) fn unmatched_by_flags(&self, event: &Event) -> Option<UnmatchedEvent> {
        if !event.flags.intersects(PEERS) || event.is_error() {
            return None;
        }
        if self.consumes {
            // SAFETY: the transport has just reported the event, whose context is then that of a receive which is over.
            unsafe { self.ops.use_up(event.context) };
        }
        Some(UnmatchedEvent::Remote(RemoteEvent::of(event)))
    }

    /// Posts the receives again that peers' writes have used up.
    #[inline]
    pub(super) fn post_used_up_again(&self) {
        if self.ops.has_used_up() {
            self.post_again();
        }
    }

    /// [`post_used_up_again`](Self::post_used_up_again), if there are any.
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
                // SAFETY: open, and not closed before this returns: no user code runs.
                let raw = unsafe { endpoint_slot.raw() };
                Ok(match pieces {
                    // SAFETY: the endpoint is open (C1), the address is one that a receive was posted with (C13), and what is lent is
                    // what was lent then (contract of `Buffer`), and stays in the op table until the event or the endpoint's
                    // close (C9).
                    [only] => unsafe { T::recv(raw, from, only, context) },
                    pieces => {
                        let msg = Msg { address: from, pieces, data: None, context, flags: OpFlags::COMPLETION };
                        // SAFETY: as above.
                        unsafe { T::recvmsg(raw, &msg) }
                    }
                }?)
            },
        );
    }
}

/// Whether an event is that of an operation: the error of a queue that was overrun is not. Events were lost, and there will be no
/// more.
#[inline]
pub(super) fn of_an_operation(event: &Event) -> Result<(), CqError> {
    if event.errno == Errno::EOVERRUN { Err(CqError::Queue(event.errno)) } else { Ok(()) }
}
