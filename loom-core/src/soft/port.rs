//! Ports: the network's places for endpoints, and what they keep while an endpoint is open.

#![allow(unsafe_code, reason = "a port's inner state belongs to one thread at a time")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::cell::{Kind, Revocations, State};
use super::list::{Inbox, NIL, Returns};
use super::network::Net;
use super::queue::Queue;
use super::receive::{Ends, Receive};
use super::sync::{AtomicU32, Ordering};
use super::{NO_PORT, fabric_addr};
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Errno};

/// A place for one endpoint. What other endpoints touch comes first, each on cache lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Port {
    pub(super) inbox: Inbox,
    /// Looked at as often as the inbox, and seldom written: it lies on the same line.
    pub(super) revocations: Revocations,
    /// Which domain the endpoint belongs to; for RMA.
    pub(super) domain: AtomicU32,
    pub(super) returns: Aligned<Returns>,
    pub(super) own: Aligned<Own>,
}

/// Keeps a value on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Aligned<V>(pub(super) V);

/// What only the port's endpoint uses, on the thread of its queue.
#[derive(Debug)]
pub(super) struct Own {
    /// Whether an endpoint has this place; changed under the network's lock.
    pub(super) taken: Cell<bool>,
    pub(super) generation: Cell<u32>,
    pub(super) tx: Cell<Option<NonNull<Queue>>>,
    pub(super) rx: Cell<Option<NonNull<Queue>>>,
    /// The next port on the same transmit or receive queue.
    pub(super) next_on_tx: Cell<u16>,
    pub(super) next_on_rx: Cell<u16>,
    /// How many cells have been taken: the next one in turn.
    pub(super) turn: Cell<u32>,
    /// How many cells are away with an offer, whose end is awaited.
    pub(super) offers: Cell<u32>,
    /// Cells taken from the inbox and not yet looked at, oldest first, linked.
    pub(super) backlog: Cell<Ends>,
    /// The places for receives.
    places: NonNull<Receive>,
    /// Those which are free, linked.
    pub(super) receives: Cell<u32>,
    /// Posted receives, without and with tag.
    pub(super) posted: [Cell<Ends>; 2],
    /// Messages that no receive was posted for, without and with tag.
    pub(super) unexpected: [Cell<Ends>; 2],
}

// SAFETY: `own` is used by one thread at a time: the one that has the endpoint's queue, by `Transport`'s contract; and
// while the place is free, by whoever holds the network's lock.
unsafe impl Sync for Port {}

impl Port {
    /// A port with these places for receives, which are written before it is used.
    pub(super) fn new(places: NonNull<Receive>) -> Self {
        let ends = || Cell::new(Ends::EMPTY);
        Port {
            inbox: Inbox::new(),
            revocations: Revocations::new(),
            domain: AtomicU32::new(0),
            returns: Aligned(Returns::new()),
            own: Aligned(Own {
                taken: Cell::new(false),
                generation: Cell::new(0),
                tx: Cell::new(None),
                rx: Cell::new(None),
                next_on_tx: Cell::new(NO_PORT),
                next_on_rx: Cell::new(NO_PORT),
                turn: Cell::new(0),
                offers: Cell::new(0),
                backlog: ends(),
                places,
                receives: Cell::new(0),
                posted: [ends(), ends()],
                unexpected: [ends(), ends()],
            }),
        }
    }

    #[inline]
    pub(super) fn own(&self) -> &Own {
        &self.own.0
    }
}

impl Own {
    /// A place for a receive, by a number from one of the port's lists.
    #[inline]
    pub(super) fn receive(&self, at: u32) -> &Receive {
        // SAFETY: numbers come from lists of receives, which were written in `Network::new_in`.
        let receive = unsafe { self.places.add(at as usize) };
        // SAFETY: as above.
        unsafe { receive.as_ref() }
    }

    /// The next port on a queue that this port is on: by its transmit side, or by its receive side.
    #[inline]
    fn after(&self, queue: &Queue) -> u16 {
        let on_tx = self.tx.get() == Some(NonNull::from_ref(queue));
        if on_tx { self.next_on_tx.get() } else { self.next_on_rx.get() }
    }

    /// The transmit queue.
    #[inline]
    pub(super) fn tx(&self) -> &Queue {
        // SAFETY: set while the endpoint is open.
        let queue = unsafe { self.tx.get().unwrap_unchecked() };
        // SAFETY: queues are closed after their endpoints.
        unsafe { queue.as_ref() }
    }

    /// The receive queue.
    #[inline]
    pub(super) fn rx(&self) -> &Queue {
        // SAFETY: set while the endpoint is open.
        let queue = unsafe { self.rx.get().unwrap_unchecked() };
        // SAFETY: queues are closed after their endpoints.
        unsafe { queue.as_ref() }
    }
}

impl Net {
    /// Opens an endpoint in a free place.
    ///
    /// # Safety
    /// Both queues stay until the endpoint is closed, and are used by this thread.
    pub(super) unsafe fn open_port(
        &self,
        domain: u32,
        tx: NonNull<Queue>,
        rx: NonNull<Queue>,
    ) -> Result<(u16, u32), Errno> {
        let _opening = self.opening.lock();
        let (index, port) = (0..).zip(self.ports()).find(|(_, port)| !port.own().taken.get()).ok_or(Errno::EMFILE)?;
        let own = port.own();
        own.taken.set(true);
        own.tx.set(Some(tx));
        own.rx.set(Some(rx));
        own.next_on_tx.set(own.tx().first_port.replace(index));
        if tx != rx {
            own.next_on_rx.set(own.rx().first_port.replace(index));
        }
        port.domain.store(domain, Ordering::Relaxed);
        let generation = port.inbox.open();
        own.generation.set(generation);
        Ok((index, generation))
    }

    /// Closes an endpoint: after this, nobody touches what was lent through it.
    pub(super) fn close_port(&self, index: u16) {
        let port = self.port(index);
        let own = port.own();

        // What peers have sent: nobody will receive it.
        self.take_inbox(port, port.inbox.close(own.generation.get()));
        let backlog = own.backlog.replace(Ends::EMPTY);
        let mut cell = backlog.first;
        while cell != NIL {
            let next = if cell == backlog.last { NIL } else { self.cell(cell).link.load(Ordering::Relaxed) };
            self.refuse(cell);
            cell = next;
        }
        for list in &own.unexpected {
            let mut cell = list.replace(Ends::EMPTY).first;
            while cell != NIL {
                let next = self.cell(cell).next.get();
                self.refuse(cell);
                cell = next;
            }
        }

        // What this endpoint has sent: offers are revoked, and copies under way waited for.
        self.harvest(index);
        for cell in self.cells_of(index) {
            if !self.revoke(cell) {
                while self.cell(cell).is(State::Copying) {
                    super::sync::spin_loop();
                }
            }
            // Whatever became of it, there will be no event: the endpoint's operations end with it.
            if self.end_offer(index, cell).is_some() {
                own.tx().release();
            }
        }

        for list in &own.posted {
            let mut receive = list.replace(Ends::EMPTY).first;
            while receive != NIL {
                let next = own.receive(receive).next.get();
                own.free_receive(receive);
                own.rx().release();
                receive = next;
            }
        }

        self.unbind(index);
        let _opening = self.opening.lock();
        own.taken.set(false);
    }

    /// Takes the port out of its queues' lists.
    fn unbind(&self, index: u16) {
        let own = self.port(index).own();
        let (tx, rx) = (own.tx.replace(None), own.rx.replace(None));
        let cut = |queue: Option<NonNull<Queue>>, next_of: fn(&Own) -> &Cell<u16>| {
            let Some(queue) = queue else { return };
            // SAFETY: the endpoint was open until now, so its queues are.
            let mut link = &unsafe { queue.as_ref() }.first_port;
            while link.get() != NO_PORT {
                if link.get() == index {
                    link.set(next_of(own).replace(NO_PORT));
                    return;
                }
                link = next_of(self.port(link.get()).own());
            }
        };
        cut(tx, |own| &own.next_on_tx);
        if tx != rx {
            cut(rx, |own| &own.next_on_rx);
        }
    }

    /// Gives a message back to its sender unread.
    fn refuse(&self, cell: u32) {
        // An eager message is lost with its receiver; its sender's operation is over already. An offer that does not
        // stand was revoked. Either way the cell goes home.
        let _ = self.cell(cell).claim(State::Refused);
        self.return_cell(cell);
    }

    /// Moves what can be moved by the endpoints of an empty queue, until it has an event.
    #[inline]
    pub(super) fn advance(&self, queue: &Queue) {
        // Mostly there is nothing: what finds that out calls nothing, and is cheap.
        let busy = self.next_busy(queue, queue.first_port.get());
        if busy != NO_PORT {
            self.advance_from(queue, busy);
        }
    }

    #[inline(never)]
    fn advance_from(&self, queue: &Queue, mut index: u16) {
        while index != NO_PORT {
            let port = self.port(index);
            let own = port.own();
            if own.offers.get() != 0 {
                self.harvest(index);
            }
            if port.revocations.take() {
                self.return_revoked(port);
            }
            self.look(port, queue);
            index = self.next_busy(queue, own.after(queue));
        }
    }

    /// The first port from this one on that there may be something to do for.
    #[inline]
    fn next_busy(&self, queue: &Queue, mut index: u16) -> u16 {
        while index != NO_PORT {
            let port = self.port(index);
            let own = port.own();
            let idle = port.inbox.is_empty()
                && own.backlog.get().first == NIL
                && own.offers.get() == 0
                && !port.revocations.are_told();
            if !idle {
                break;
            }
            index = own.after(queue);
        }
        index
    }

    /// Looks at messages until the queue has an event or none is left.
    #[inline]
    fn look(&self, port: &Port, queue: &Queue) {
        let own = port.own();
        let newest = port.inbox.take(own.generation.get());
        if newest != NIL {
            self.take_inbox(port, newest);
        }
        while queue.is_empty() {
            let backlog = own.backlog.get();
            if backlog.first == NIL {
                return;
            }
            let cell = backlog.first;
            let next = self.cell(cell).link.load(Ordering::Relaxed);
            if !self.deliver(own, cell) {
                return;
            }
            own.backlog.set(if cell == backlog.last { Ends::EMPTY } else { Ends { first: next, last: backlog.last } });
        }
    }

    /// Appends what was taken from the inbox, newest first, to the backlog, oldest first.
    fn take_inbox(&self, port: &Port, newest: u32) {
        if newest == NIL {
            return;
        }
        let (mut oldest, mut at) = (NIL, newest);
        while at != NIL {
            let link = &self.cell(at).link;
            let next = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            (oldest, at) = (at, next);
        }
        let own = port.own();
        let backlog = own.backlog.get();
        if backlog.first == NIL {
            own.backlog.set(Ends { first: oldest, last: newest });
        } else {
            self.cell(backlog.last).link.store(oldest, Ordering::Relaxed);
            own.backlog.set(Ends { first: backlog.first, last: newest });
        }
    }

    /// Ends an operation early, if it still can be.
    pub(super) fn cancel(&self, index: u16, context: u64) {
        let own = self.port(index).own();
        for (kind, list) in [Kind::Message, Kind::Tagged].into_iter().zip(&own.posted) {
            let mut at = list.get().first;
            while at != NIL {
                let receive = own.receive(at);
                if receive.want.get().context == context {
                    own.unlink_receive(list, at);
                    own.free_receive(at);
                    own.rx().push(Event::failure(context, Receive::flags(kind), Errno::ECANCELED));
                    return;
                }
                at = receive.next.get();
            }
        }
        for cell in self.cells_of(index) {
            if let Some(sending) = self.sending(cell).get()
                && sending.context == context
            {
                if self.revoke(cell) {
                    self.end_offer(index, cell);
                    own.tx().push(Event::failure(context, sending.flags, Errno::ECANCELED));
                }
                return;
            }
        }
    }

    /// Whether an endpoint is open under this fabric address.
    pub(super) fn reach(&self, to: u64) -> Result<&Port, Errno> {
        let (index, generation) = super::addr_parts(to);
        let port = self.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
        if port.inbox.is_open(generation) { Ok(port) } else { Err(Errno::EHOSTUNREACH) }
    }

    /// The fabric address of a port's endpoint.
    pub(super) fn addr_of(&self, index: u16) -> u64 {
        fabric_addr(index, self.port(index).own().generation.get())
    }
}

/// An operation of which the sender awaits the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) context: u64,
    /// The place of the receiver.
    pub(super) to: u16,
    pub(super) len: usize,
    pub(super) flags: CompletionFlags,
}
