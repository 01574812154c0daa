//! Ports: the network's places for endpoints, and what they keep while an endpoint is open. What is done with it stands in the files
//! below this one.

#![allow(unsafe_code, reason = "a port's inner state belongs to one thread at a time")]

use core::cell::Cell;
use core::ptr::{self, NonNull};

use super::address::{NO_PORT, addr_parts};
use super::cell::{MessageCell, Revocations};
use super::counter::BoundCounters;
use super::faults::Faults;
use super::lane::Lane;
use super::lane_arrivals::Arrivals;
use super::lane_routes::Routes;
use super::list::{Inbox, NIL, Reach, Returns};
use super::matching::{Matching, Receive, RecvBuffer, RecvKind};
use super::peer_counts::PeerCounters;
use super::queue::Queue;
use super::required_modes::RequiredModes;
use super::sleeper::Watch;
use crate::engine::tag_matcher::{PostedReceives, Table, UnexpectedMessages, Want};
use crate::transport::{Context, Event};
use crate::vocabulary::{CompletionFlags, Errno, Mode};

/// The least that is left of a multi-receive that goes on, unless the endpoint's option says something else.
pub(super) const MIN_LEFT: usize = 64;

/// A place for one endpoint. What other endpoints touch comes first, each on cache lines of its own.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct EndpointState {
    pub(super) inbox: Inbox,
    /// Looked at as often as the inbox, and seldom written: it lies on the same line.
    pub(super) revocations: Revocations,
    /// Looked at by who has pushed to the inbox: it begins on the same line.
    pub(super) watch: Watch,
    /// Messages that plans of their senders delay.
    pub(super) wire: Inbox,
    /// For RMA.
    pub(super) reach: Reach,
    pub(super) peer_counters: PeerCounters,
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
    pub(super) counters: BoundCounters,
    /// How many memory regions are bound to the endpoint.
    pub(super) regions: Cell<u32>,
    /// What its domain asks for.
    pub(super) modes: Cell<RequiredModes>,
    /// Whether more is to be done for its operations than to report them: they are counted, or something is asked for.
    pub(super) attended: Cell<bool>,
    /// Whether a queue of it can be slept on.
    pub(super) may_sleep: Cell<bool>,
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
    /// The endpoint's lanes, for what it sends.
    pub(super) routes: Routes,
    /// The lanes of others, by which it receives.
    pub(super) arrivals: Arrivals,
    /// The groups that it has joined: the numbers of its memberships, linked.
    pub(super) memberships: Cell<u32>,
}

// SAFETY: `own` is used by one thread at a time: the one that has the endpoint's queue (C5, C6); and while the place is free, by
// the holder of the network's lock.
unsafe impl Sync for EndpointState {}

impl EndpointState {
    /// The port of this place, with these cells, and a place for a plan, which is written before it is used.
    pub(super) fn new(
        index: u16,
        first_cell: u32,
        matching: Matching,
        lanes: Table<Lane>,
        faults: NonNull<Faults>,
    ) -> Self {
        EndpointState {
            inbox: Inbox::new(),
            revocations: Revocations::new(),
            watch: Watch::new(),
            wire: Inbox::new(),
            reach: Reach::new(),
            peer_counters: PeerCounters::new(),
            returns: Aligned(Returns::new()),
            own: Aligned(LocalState {
                index,
                first_cell,
                taken: Cell::new(false),
                addr: Cell::new(0),
                tx: Cell::new(None),
                rx: Cell::new(None),
                counters: BoundCounters::none(),
                regions: Cell::new(0),
                modes: Cell::new(RequiredModes::none()),
                attended: Cell::new(false),
                may_sleep: Cell::new(false),
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
                routes: Routes::new(lanes),
                arrivals: Arrivals::new(),
                memberships: Cell::new(NIL),
            }),
        }
    }

    /// Whether there may be something to do for the endpoint, besides what comes by lanes.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        let own = self.own();
        !self.inbox.is_empty() || own.backlog.get() != NIL || own.offers.get() != 0 || self.revocations.are_told()
    }

    #[inline]
    pub(super) fn own(&self) -> &LocalState {
        &self.own.0
    }
}

/// What peers bring, each by a step that its endpoint finds when it next moves on, or is woken up for.
impl EndpointState {
    /// Gives a cell to the endpoint of this generation; `false` if it is gone, and the cell stays with the caller.
    #[inline(always)]
    pub(super) fn push(&self, generation: u32, head: &MessageCell) -> bool {
        let pushed = self.inbox.push(generation, head.number, &head.link);
        if pushed {
            self.watch.wake();
        }
        pushed
    }

    /// Gives a cell back to the endpoint that it belongs to.
    #[inline(always)]
    pub(super) fn give_back(&self, head: &MessageCell) {
        self.returns.0.push(head.number, &head.link);
        self.watch.wake();
    }

    /// Leaves word that there is something to look at.
    pub(super) fn tell(&self) {
        self.revocations.tell();
        self.watch.wake();
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
    pub(super) fn next_on(&self, queue: &Queue) -> &Cell<u16> {
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
        // SAFETY: set while the endpoint is open, which it is (C1).
        let queue = unsafe { self.tx.get().unwrap_unchecked() };
        // SAFETY: a queue is closed after its endpoints (C2), and its memory stays until then (C16).
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
        // SAFETY: as for `tx`.
        let queue = unsafe { self.rx.get().unwrap_unchecked() };
        // SAFETY: as for `tx`.
        unsafe { queue.as_ref() }
    }

    /// Reports the end of an operation as far as it is to be told, for which a place was reserved unless nothing is.
    pub(super) fn report(&self, event: Event, report: Report) {
        match report {
            Report::Failure if !event.is_error() => {
                self.counters.count(&event);
                self.tx().release();
            }
            Report::All | Report::Failure => self.end_transmit(event),
            Report::Nothing => self.counters.count(&event),
            Report::Told => {}
        }
    }

    /// Sees to what an endpoint is asked beyond its operations, now that one of them has its event in the queue.
    #[cold]
    #[inline(never)]
    pub(super) fn attend(&self, mut event: NonNull<Event>, queue: &Queue) {
        // SAFETY: just pushed, by this thread, which is the only one that reads or writes the queue.
        let event = unsafe { event.as_mut() };
        // SAFETY: an operation of this endpoint has this event, so that it was begun here, and it was not polled.
        if !unsafe { end_context(self.modes.get(), event.context) } {
            event.errno = Errno::EOTHER;
        }
        if event.flags.contains(CompletionFlags::RECV) && event.errno != Errno::ECANCELED {
            event.len += self.modes.get().prefix();
        }
        let kept = self.faults().note_end(event, queue);
        self.counters.count(event);
        if !kept {
            queue.lose_newest();
            // The next poll looks at this endpoint, and finds out.
            self.look_again();
        }
    }

    /// Lets a receive wait in a place that was taken for it.
    #[inline(always)]
    pub(super) fn wait(&self, at: u32, kind: usize, want: Want, room: RecvBuffer) {
        self.use_place(at, RecvKind::posted(kind), room);
        self.posted[kind].post(at, want);
    }

    #[inline(always)]
    pub(super) fn use_place(&self, at: u32, used: RecvKind, room: RecvBuffer) {
        let receive = self.receive(at);
        receive.set_room(room);
        receive.used.set(used);
        self.by_context(room.context).set(at);
    }

    #[inline]
    pub(super) fn free_receive(&self, at: u32) {
        let receive = self.receive(at);
        receive.used.set(RecvKind::Other);
        receive.next.set(self.receives.replace(at));
    }

    /// Every place for a receive that is used for something.
    pub(super) fn receives_used(&self) -> impl Iterator<Item = (u32, RecvKind)> {
        (0..self.places.len()).map(|at| (at, self.receive(at).used.get())).filter(|(_, used)| *used != RecvKind::Other)
    }

    /// The place of a posted receive or of a claim, by its context: mostly the first that is looked at.
    pub(super) fn find_place(&self, context: u64, is: impl Fn(RecvKind) -> bool) -> Option<(u32, RecvKind)> {
        let holds = |(at, used): &(u32, RecvKind)| is(*used) && self.receive(*at).context.get() == context;
        let hinted = self.by_context(context).get();
        let hinted = Some((hinted, self.receive(hinted).used.get())).filter(holds);
        hinted.or_else(|| self.receives_used().find(holds))
    }

    /// Where it is noted which place was last taken for such a context. Contexts are numbers of slots, or addresses of slots that are 128
    /// bytes apart: either way those of a queue that is no longer than there are places have notes of their own. Of a longer one, some are
    /// forgotten, and looked for.
    #[inline]
    fn by_context(&self, context: u64) -> &Cell<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
        let number = (context ^ context >> 7) as u32;
        self.by_context.at(number & (self.by_context.len() - 1))
    }

    /// Takes `count` places for receives, linked; `None` if there are fewer.
    pub(super) fn take_places(&self, count: usize) -> Option<u32> {
        let first = self.receives.get();
        let mut last = first;
        for _ in 1..count {
            last = if last == NIL { return None } else { self.receive(last).next.get() };
        }
        let last = self.receive((last != NIL).then_some(last)?);
        self.receives.set(last.next.replace(NIL));
        Some(first)
    }

    /// The places from this one on, as they are linked; none from [`NIL`] on.
    pub(super) fn chain_from(&self, first: u32) -> impl Iterator<Item = u32> {
        let place = |at: u32| (at != NIL).then_some(at);
        core::iter::successors(place(first), move |at| place(self.receive(*at).next.get()))
    }

    /// Gives the places of a receive's pieces back, if it has any.
    pub(super) fn free_pieces(&self, room: RecvBuffer) {
        self.chain_from(room.first_piece()).for_each(|at| self.free_receive(at));
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

/// What an operation tells its sender, besides counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// How it has ended.
    All,
    /// That it has failed: as an event, or by being refused where that is known at once. (`FI_SELECTIVE_COMPLETION`)
    Failure,
    /// Nothing: it was injected, and could not be refused any more.
    Nothing,
    /// Nothing, and it is not counted either: both were done before it was.
    Told,
}

/// How many words of memory the context of an operation points to.
const fn context_words(modes: RequiredModes) -> usize {
    if modes.mode.contains(Mode::CONTEXT2) {
        8
    } else if modes.mode.contains(Mode::CONTEXT) {
        4
    } else {
        0
    }
}

/// What the transport writes into a word of a context's memory while the operation is under way.
const fn seal(context: u64, word: u64) -> u64 {
    !context.rotate_left(17).wrapping_add(word)
}

/// An operation begins: its context's memory is the transport's.
///
/// # Safety
/// The context points to the memory that the domain asks for, which is the transport's until the event (C10).
pub(super) unsafe fn begin_context(modes: RequiredModes, context: Context) {
    let memory = context.as_ptr().cast::<u64>();
    // For the end of the operation, which has the number alone.
    let _ = memory.expose_provenance();
    for (at, word) in (0..context_words(modes)).zip(0..) {
        // SAFETY: the caller's promise.
        let place = unsafe { memory.add(at) };
        // SAFETY: as above.
        unsafe { place.write(seal(context.addr(), word)) };
    }
}

/// An operation ends, with this context: whether its memory is as the transport left it. It is written once more.
///
/// # Safety
/// The operation was [begun](begin_context), and its event has not been polled.
unsafe fn end_context(modes: RequiredModes, context: u64) -> bool {
    const { assert!(usize::BITS == 64, "a context is an address") };
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
    let memory = ptr::with_exposed_provenance_mut::<u64>(context as usize);
    let mut intact = true;
    for (at, word) in (0..context_words(modes)).zip(0..) {
        // SAFETY: the memory is the transport's until the event is polled (C10), and its provenance was exposed by `begin_context`.
        let place = unsafe { memory.add(at) };
        // SAFETY: as above.
        intact &= unsafe { place.read() } == seal(context, word);
        // The same again: a multi-receive has more than one event.
        // SAFETY: as above.
        unsafe { place.write(seal(context, word)) };
    }
    intact
}
