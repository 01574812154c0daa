//! Ports: the network's places for endpoints, and what they keep while an endpoint is open.

#![allow(unsafe_code, reason = "a port's inner state belongs to one thread at a time")]

use core::cell::Cell;
use core::ptr::NonNull;

use super::cell::{MessageCell, Revocations, State};
use super::counter::{Counters, SoftCounter};
use super::faults::{Faults, Plan};
use super::list::{Inbox, NIL, Reach, Returns};
use super::matching::Matching;
use super::multi::MIN_LEFT;
use super::network::Net;
use super::queue::Queue;
use super::receive::{KINDS, Receive, RecvKind};
use super::required_modes::RequiredModes;
use super::send::Report;
use super::{NO_PORT, addr_parts, fabric_addr};
use crate::engine::tag_matcher::{PostedReceives, Table, UnexpectedMessages};
use crate::sync::Ordering;
use crate::transport::Event;
use crate::vocabulary::{CompletionFlags, Counted, Errno};

/// A place for one endpoint. What other endpoints touch comes first, each on cache lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct EndpointState {
    pub(super) inbox: Inbox,
    /// Looked at as often as the inbox, and seldom written: it lies on the same line.
    pub(super) revocations: Revocations,
    /// Messages that plans of their senders delay.
    pub(super) wire: Inbox,
    /// For RMA.
    pub(super) reach: Reach,
    pub(super) returns: Aligned<Returns>,
    pub(super) own: Aligned<LocalState>,
}

/// Keeps a value on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Aligned<V>(pub(super) V);

/// What only the port's endpoint uses, on the thread of its queue.
#[derive(Debug)]
pub(super) struct LocalState {
    /// The place's own number.
    pub(super) index: u16,
    /// The first of the endpoint's cells.
    pub(super) first_cell: u32,
    /// Whether an endpoint has this place; changed under the network's lock.
    pub(super) taken: Cell<bool>,
    /// The fabric address of the endpoint.
    pub(super) addr: Cell<u64>,
    pub(super) tx: Cell<Option<NonNull<Queue>>>,
    pub(super) rx: Cell<Option<NonNull<Queue>>>,
    pub(super) counters: Counters,
    /// How many memory regions are bound to the endpoint.
    pub(super) regions: Cell<u32>,
    /// What its domain asks for.
    pub(super) modes: Cell<RequiredModes>,
    /// Whether more is to be done for its operations than to report them: they are counted, or something is asked for.
    attended: Cell<bool>,
    faults: NonNull<Faults>,
    /// The bytes that are left at least of multi-receives that go on.
    pub(super) min_left: Cell<usize>,
    /// The next port in the circle of the transmit queue and of the receive queue; if they are one, in the former.
    next_on_tx: Cell<u16>,
    next_on_rx: Cell<u16>,
    /// How many cells have been taken: the next one in turn.
    pub(super) turn: Cell<u32>,
    /// How many cells are away with an offer, whose end is awaited.
    pub(super) offers: Cell<u32>,
    /// Cells taken from the inbox and not yet looked at, oldest first, linked.
    pub(super) backlog: Cell<u32>,
    /// The places for receives.
    pub(super) places: Table<Receive>,
    /// Those which are free, linked.
    pub(super) receives: Cell<u32>,
    /// Where a receive was last posted with such a context.
    pub(super) by_context: Table<Cell<u32>>,
    /// Posted receives, for each of the `KINDS`.
    pub(super) posted: [PostedReceives; 2],
    /// Messages that no receive was posted for, for each of the `KINDS`. Their places are the numbers of their cells.
    pub(super) unexpected: [UnexpectedMessages; 2],
}

// SAFETY: `own` is used by one thread at a time: the one that has the endpoint's queue, by `Transport`'s contract; and
// while the place is free, by whoever holds the network's lock.
unsafe impl Sync for EndpointState {}

impl EndpointState {
    /// The port of this place, with these cells, and a place for a plan, which is written before it is used.
    pub(super) fn new(index: u16, first_cell: u32, matching: Matching, faults: NonNull<Faults>) -> Self {
        EndpointState {
            inbox: Inbox::new(),
            revocations: Revocations::new(),
            wire: Inbox::new(),
            reach: Reach::new(),
            returns: Aligned(Returns::new()),
            own: Aligned(LocalState {
                index,
                first_cell,
                taken: Cell::new(false),
                addr: Cell::new(0),
                tx: Cell::new(None),
                rx: Cell::new(None),
                counters: Counters::none(),
                regions: Cell::new(0),
                modes: Cell::new(RequiredModes::none()),
                attended: Cell::new(false),
                faults,
                min_left: Cell::new(MIN_LEFT),
                next_on_tx: Cell::new(NO_PORT),
                next_on_rx: Cell::new(NO_PORT),
                turn: Cell::new(0),
                offers: Cell::new(0),
                backlog: Cell::new(NIL),
                places: matching.receives,
                receives: Cell::new(0),
                by_context: matching.by_context,
                posted: matching.posted,
                unexpected: matching.unexpected,
            }),
        }
    }

    /// Whether there may be something to do for the endpoint.
    #[inline]
    fn is_busy(&self) -> bool {
        let own = self.own();
        !self.inbox.is_empty() || own.backlog.get() != NIL || own.offers.get() != 0 || self.revocations.are_told()
    }

    #[inline]
    pub(super) fn own(&self) -> &LocalState {
        &self.own.0
    }
}

impl LocalState {
    /// A place for a receive, by a number from one of the port's lists.
    #[inline]
    pub(super) fn receive(&self, at: u32) -> &Receive {
        self.places.at(at)
    }

    /// Where the next port in the circle of a queue is, which this port is on by its transmit side or its receive side.
    #[inline]
    fn next_on(&self, queue: &Queue) -> &Cell<u16> {
        let on_tx = self.tx.get() == Some(NonNull::from_ref(queue));
        if on_tx { &self.next_on_tx } else { &self.next_on_rx }
    }

    pub(super) fn generation(&self) -> u32 {
        addr_parts(self.addr.get()).1
    }

    /// What goes wrong.
    pub(super) fn faults(&self) -> &Faults {
        // SAFETY: written in `Network::new_in`, in the block that the port lies in.
        unsafe { self.faults.as_ref() }
    }

    /// The next poll of the endpoint's queues looks at it, if it finds nothing else.
    pub(super) fn look_again(&self) {
        self.offers.set(self.offers.get() + 1);
    }

    /// The transmit queue.
    #[inline]
    pub(super) fn tx(&self) -> &Queue {
        // SAFETY: set while the endpoint is open.
        let queue = unsafe { self.tx.get().unwrap_unchecked() };
        // SAFETY: queues are closed after their endpoints.
        unsafe { queue.as_ref() }
    }

    /// Reports the end of an operation that goes out, for which a place was reserved. (It is counted where it lies: to have it
    /// in memory twice costs as much as counting.)
    #[inline]
    pub(super) fn end_transmit(&self, event: Event) {
        let event = self.tx().push(event);
        if self.attended.get() {
            self.attend(event, self.tx());
        }
    }

    /// Reports the end of a receive, for which a place was reserved.
    #[inline]
    pub(super) fn end_receive(&self, event: Event) {
        let event = self.rx().push(event);
        if self.attended.get() {
            self.attend(event, self.rx());
        }
    }

    /// Whether more is to be done for what ends here than to report it.
    #[inline]
    pub(super) fn is_attended(&self) -> bool {
        self.attended.get()
    }

    /// Reports what is no operation's end, in a place that was reserved for it: what a peer has done, for example.
    pub(super) fn tell(&self, event: Event) {
        let mut event = self.rx().push(event);
        if self.attended.get() {
            // SAFETY: just pushed, by this thread, which is the only one that reads or writes the queue.
            self.faults().note_news(unsafe { event.as_mut() }, self.rx());
        }
    }

    /// Counts an operation that ends without being reported.
    #[inline]
    pub(super) fn count_unsignaled(&self, flags: CompletionFlags, len: usize) {
        if self.attended.get() {
            self.counters.count(&Event::success(0, flags, len));
        }
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
    /// Both queues stay until the endpoint is closed, and are used by this thread; and so do the counters, or else nobody
    /// uses the queues any more.
    pub(super) unsafe fn open_port(
        &self,
        (domain, modes, plan): (u32, RequiredModes, Plan),
        tx: NonNull<Queue>,
        rx: NonNull<Queue>,
        counters: &[(Counted, &SoftCounter)],
    ) -> Result<&EndpointState, Errno> {
        let _opening = self.opening.lock();
        let port = self.ports().iter().find(|port| !port.own().taken.get()).ok_or(Errno::EMFILE)?;
        let own = port.own();
        let index = own.index;
        own.tx.set(Some(tx));
        own.rx.set(Some(rx));
        if own.tx().is_overrun() || own.rx().is_overrun() {
            return Err(Errno::EOVERRUN);
        }
        own.taken.set(true);
        own.counters.bind(counters);
        own.modes.set(modes);
        own.attended.set(modes.any() || !counters.is_empty() || plan.strikes());
        own.min_left.set(MIN_LEFT);
        self.join_circle(port, own.tx());
        if tx != rx {
            self.join_circle(port, own.rx());
        }
        let generation = port.wire.open();
        own.addr.set(fabric_addr(index, generation));
        own.faults().begin(plan, own.addr.get());
        // Last: peers may know the address already, from what was here before.
        let opened = port.inbox.open();
        debug_assert_eq!(opened, generation, "both are opened and closed together");
        port.reach.open(generation, domain);
        Ok(port)
    }

    /// Lets a queue look after a port.
    fn join_circle(&self, port: &EndpointState, queue: &Queue) {
        let index = port.own().index;
        let next = match queue.turn.get() {
            NO_PORT => {
                queue.turn.set(index);
                index
            }
            first => self.port(first).own().next_on(queue).replace(index),
        };
        port.own().next_on(queue).set(next);
    }

    fn leave_circle(&self, port: &EndpointState, queue: &Queue) {
        let index = port.own().index;
        let next = port.own().next_on(queue).get();
        let mut before = port.own().next_on(queue);
        while before.get() != index {
            before = self.port(before.get()).own().next_on(queue);
        }
        before.set(next);
        queue.turn.set(if next == index { NO_PORT } else { next });
        if queue.is_overrun() && next != index {
            self.port(next).own().look_again();
        }
    }

    /// Closes an endpoint: after this, nobody touches what was lent through it.
    pub(super) fn close_port(&self, port: &EndpointState) {
        let own = port.own();
        if !own.faults().is_dead() {
            self.end_port(port);
        }
        own.tx.set(None);
        own.rx.set(None);
        own.counters.bind(&[]);
        let _opening = self.opening.lock();
        own.taken.set(false);
    }

    /// Ends what an endpoint does: peers do not reach it any more, and nobody touches what was lent through it.
    pub(super) fn end_port(&self, port: &EndpointState) {
        let own = port.own();

        port.reach.close();
        // What peers have sent: nobody will receive it.
        let generation = own.generation();
        let arrived = [own.backlog.replace(NIL), port.inbox.close(generation)];
        let delayed = [own.faults().held.replace(NIL), port.wire.close(generation)];
        for mut cell in arrived.into_iter().chain(delayed) {
            while cell != NIL {
                let head = self.cell(cell);
                cell = head.link.load(Ordering::Relaxed);
                self.refuse(head);
            }
        }
        for unexpected in &own.unexpected {
            while let Some(at) = unexpected.first() {
                unexpected.remove(at);
                self.refuse(self.cell(at));
            }
        }

        // What this endpoint has sent: offers are revoked, and copies under way waited for.
        self.forget_late(own);
        self.harvest(port);
        for head in self.cells_of(own) {
            if !self.revoke(head) {
                head.wait_for_copy();
            }
            // Whatever became of it, there will be no event: the endpoint's operations end with it.
            if self.end_offer(own, head).is_some() {
                own.tx().release();
            }
        }

        for (at, used) in own.receives_used() {
            if let Some(kind) = used.kind() {
                own.posted[kind].remove(at);
                own.free_pieces(own.receive(at).room());
                own.rx().release();
            } else if used == RecvKind::Claimed {
                self.refuse(self.claimed_cell(own, at));
            }
            own.free_receive(at);
        }

        self.leave_circle(port, own.tx());
        if own.tx.get() != own.rx.get() {
            self.leave_circle(port, own.rx());
        }
        own.offers.set(0);
    }

    /// Gives a message back to its sender unread.
    fn refuse(&self, head: &MessageCell) {
        // An eager message is lost with its receiver; its sender's operation is over already. An offer that does not
        // stand was revoked. Either way the cell goes home.
        let _ = head.claim(State::Refused);
        self.return_cell(head);
    }

    /// Moves what can be moved by the endpoints of an empty queue, until it has an event.
    #[inline]
    pub(super) fn advance(&self, queue: &Queue) {
        // Mostly there is nothing: what finds that out calls nothing, and is cheap.
        let first = queue.turn.get();
        if first == NO_PORT {
            return;
        }
        let mut port = self.port(first);
        while !port.is_busy() {
            let next = port.own().next_on(queue).get();
            if next == first {
                return;
            }
            port = self.port(next);
        }
        self.advance_from(queue, port, first);
    }

    /// From this port on, until the circle is back at the first one.
    #[inline(never)]
    fn advance_from<'n>(&'n self, queue: &Queue, mut port: &'n EndpointState, first: u16) {
        if queue.is_overrun() {
            return queue.tell_overrun();
        }
        loop {
            self.advance_port(queue, port);
            if !queue.is_empty() {
                if queue.had_its_turn(port.own().index) {
                    queue.turn.set(port.own().next_on(queue).get());
                }
                return;
            }
            let next = port.own().next_on(queue).get();
            if next == first {
                return;
            }
            port = self.port(next);
        }
    }

    #[inline]
    fn advance_port(&self, queue: &Queue, port: &EndpointState) {
        let own = port.own();
        if own.offers.get() != 0 {
            self.harvest(port);
            if own.faults().are_late() {
                self.do_late(port);
            }
        }
        if port.revocations.take() {
            self.return_revoked(port);
            self.unload(port);
        }
        if own.backlog.get() != NIL && queue.is_empty() {
            self.deliver_backlog(own, queue);
        }
        // Messages stay in order: those in the inbox are younger.
        if own.backlog.get() == NIL && queue.is_empty() {
            let newest = port.inbox.take(own.generation());
            if newest != NIL {
                own.backlog.set(self.deliver_from(self.oldest_first(newest), own, queue));
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn deliver_backlog(&self, own: &LocalState, queue: &Queue) {
        own.backlog.set(self.deliver_from(own.backlog.get(), own, queue));
    }

    /// Delivers messages to an endpoint of an empty queue, until that has an event; returns the first that is left.
    #[inline(always)]
    fn deliver_from(&self, mut cell: u32, own: &LocalState, queue: &Queue) -> u32 {
        loop {
            let head = self.cell(cell);
            let next = head.link.load(Ordering::Relaxed);
            if !self.deliver(own, head) {
                return cell;
            }
            if next == NIL || !queue.is_empty() {
                return next;
            }
            cell = next;
        }
    }

    /// Delivers whatever has come, however much there is in the queue already: for a look at what nobody has received.
    #[cold]
    #[inline(never)]
    pub(super) fn take_in(&self, port: &EndpointState) {
        let own = port.own();
        if port.revocations.take() {
            self.return_revoked(port);
            self.unload(port);
        }
        for of_inbox in [false, true] {
            let mut cell = if of_inbox {
                match port.inbox.take(own.generation()) {
                    NIL => NIL,
                    newest => self.oldest_first(newest),
                }
            } else {
                own.backlog.replace(NIL)
            };
            while cell != NIL {
                let head = self.cell(cell);
                let next = head.link.load(Ordering::Relaxed);
                if !self.deliver(own, head) {
                    // Those in the inbox are younger, and wait behind it.
                    own.backlog.set(cell);
                    return;
                }
                cell = next;
            }
        }
    }

    /// Turns a list round that was taken newest first.
    #[inline]
    pub(super) fn oldest_first(&self, newest: u32) -> u32 {
        let (mut oldest, mut at) = (newest, self.cell(newest).link.load(Ordering::Relaxed));
        if at != NIL {
            self.cell(newest).link.store(NIL, Ordering::Relaxed);
        }
        while at != NIL {
            let link = &self.cell(at).link;
            let next = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            (oldest, at) = (at, next);
        }
        oldest
    }

    /// Ends an operation early, if it still can be.
    pub(super) fn cancel(&self, port: &EndpointState, context: u64) {
        let own = port.own();
        if let Some((at, used)) = own.find_place(context, |used| used.kind().is_some())
            && let Some(kind) = used.kind()
        {
            let room = own.receive(at).room();
            own.posted[kind].remove(at);
            own.free_pieces(room);
            own.free_receive(at);
            let kind = KINDS[kind] | CompletionFlags::RECV;
            let multi = if room.is_multi() { CompletionFlags::MULTI_RECV } else { CompletionFlags::empty() };
            own.end_receive(Event::failure(context, kind | multi, Errno::ECANCELED));
            return;
        }
        if own.faults().strict().is_some() {
            // Providers cancel receives alone.
            return;
        }
        for head in self.cells_of(own) {
            if let Some(sending) = self.sending(head).get()
                && sending.context == context
            {
                if self.revoke(head) {
                    self.end_offer(own, head);
                    own.end_transmit(Event::failure(context, sending.flags, Errno::ECANCELED));
                }
                return;
            }
        }
    }

    /// The domain of the endpoint that is open under this fabric address.
    #[inline]
    pub(super) fn reach(&self, to: u64) -> Result<u32, Errno> {
        let (index, generation) = super::addr_parts(to);
        let port = self.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
        port.reach.domain(generation).ok_or(Errno::EHOSTUNREACH)
    }
}

/// An operation of which the sender awaits the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) context: u64,
    /// The place of the receiver.
    pub(super) to: u16,
    pub(super) report: Report,
    pub(super) len: usize,
    pub(super) flags: CompletionFlags,
}
