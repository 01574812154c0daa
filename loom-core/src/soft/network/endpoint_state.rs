//! [`EndpointState`]: slot of an endpoint in a network, called its *port*, and its state while
//! open.

#![allow(unsafe_code, reason = "a port's inner state belongs to one thread at a time")]

use core::cell::Cell;
use core::ptr::{self, NonNull};

use super::counter::BoundCounters;
use super::matching_memory::{Matching, Receive, RecvBuffer, RecvKind};
use crate::engine::tag_matcher::{PostedReceives, Table, UnexpectedMessages, Want};
use crate::soft::faults::Faults;
use crate::soft::faults::required_modes::RequiredModes;
use crate::soft::lane::Lane;
use crate::soft::lane::arrivals::Arrivals;
use crate::soft::lane::routes::Routes;
use crate::soft::shared::address::{NO_PORT, addr_parts};
use crate::soft::shared::cell::{MessageCell, Revocations};
use crate::soft::shared::list::{Inbox, NIL, Reach, Returns};
use crate::soft::shared::peer_counts::PeerCounters;
use crate::soft::shared::queue::Queue;
use crate::soft::shared::sleeper::Watch;
use crate::transport::{Context, Event, Refusal};
use crate::vocabulary::{CompletionFlags, Errno};

/// Default minimum of bytes left in a multi-receive that stays posted.
pub(crate) const MIN_LEFT: usize = 64;

/// Fields that other endpoints access come first, each on its own cache lines.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct EndpointState {
    pub(crate) inbox: Inbox,
    /// Polled as often as the inbox and seldom written: shares its cache line.
    pub(crate) revocations: Revocations,
    /// Read after each push to the inbox: begins on its cache line.
    pub(crate) watch: Watch,
    /// Messages delayed by their senders' fault plans.
    pub(crate) wire: Inbox,
    pub(crate) reach: Reach,
    pub(crate) peer_counters: PeerCounters,
    pub(crate) returns: Aligned<Returns>,
    pub(crate) own: Aligned<LocalState>,
}

#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Aligned<V>(pub(crate) V);

/// State for the endpoint's thread.
#[derive(Debug)]
pub(crate) struct LocalState {
    pub(crate) index: u16,
    pub(crate) first_cell: u32,
    /// Changed under the network's lock.
    pub(crate) taken: Cell<bool>,
    pub(crate) addr: Cell<u64>,
    pub(crate) tx: Cell<Option<NonNull<Queue>>>,
    pub(crate) rx: Cell<Option<NonNull<Queue>>>,
    pub(crate) counters: BoundCounters,
    pub(crate) regions: Cell<u32>,
    pub(crate) modes: Cell<RequiredModes>,
    /// `true` if completions need more than a report: counters, required modes or a fault plan.
    pub(crate) attended: Cell<bool>,
    pub(crate) may_sleep: Cell<bool>,
    faults: NonNull<Faults>,
    pub(crate) min_left: Cell<usize>,
    /// Next ports in the circles of the transmit and receive queues. One shared queue uses the
    /// former.
    next_on_tx: Cell<u16>,
    next_on_rx: Cell<u16>,
    /// Number of cells taken: selects the next one.
    pub(crate) turn: Cell<u32>,
    pub(crate) offers: Cell<u32>,
    /// Linked cells from the inbox, undelivered, oldest first.
    pub(crate) backlog: Cell<u32>,
    pub(crate) places: Table<Receive>,
    /// Free receive slots, linked.
    pub(crate) receives: Cell<u32>,
    /// Receive slot last used for each context.
    pub(crate) by_context: Table<Cell<u32>>,
    pub(crate) posted: [PostedReceives; 2],
    /// Messages without a receive, for each of the `KINDS`, by cell number.
    pub(crate) unexpected: [UnexpectedMessages; 2],
    pub(crate) routes: Routes,
    pub(crate) arrivals: Arrivals,
    /// Numbers of memberships, linked.
    pub(crate) memberships: Cell<u32>,
}

// SAFETY: one thread at a time uses `own`: the thread of the endpoint's queue (T1, T2), or the
// holder of the network's lock while the port is free.
unsafe impl Sync for EndpointState {}

impl EndpointState {
    pub(crate) fn new(
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
                modes: Cell::new(RequiredModes::empty()),
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

    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        let own = self.own();
        !self.inbox.is_empty() || own.backlog.get() != NIL || own.offers.get() != 0 || self.revocations.are_pending()
    }

    #[inline]
    pub(crate) fn own(&self) -> &LocalState {
        &self.own.0
    }
}

impl EndpointState {
    /// Returns `false` if the endpoint of this generation is closed. The caller then keeps the
    /// cell.
    #[inline(always)]
    pub(crate) fn push(&self, generation: u32, head: &MessageCell) -> bool {
        let pushed = self.inbox.push(generation, head.number, &head.link);
        if pushed {
            self.watch.wake();
        }
        pushed
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, head: &MessageCell) {
        self.returns.0.push(head.number, &head.link);
        self.watch.wake();
    }

    pub(crate) fn notify(&self) {
        self.revocations.notify();
        self.watch.wake();
    }
}

impl LocalState {
    #[inline]
    pub(crate) fn receive(&self, at: u32) -> &Receive {
        self.places.at(at)
    }

    #[inline]
    pub(crate) fn next_on(&self, queue: &Queue) -> &Cell<u16> {
        let on_tx = self.tx.get() == Some(NonNull::from_ref(queue));
        if on_tx { &self.next_on_tx } else { &self.next_on_rx }
    }

    pub(crate) fn generation(&self) -> u32 {
        addr_parts(self.addr.get()).1
    }

    pub(crate) fn faults(&self) -> &Faults {
        // SAFETY: `Network::new_in` writes the faults in the port's block.
        unsafe { self.faults.as_ref() }
    }

    pub(crate) fn look_again(&self) {
        self.offers.set(self.offers.get() + 1);
    }

    #[inline]
    pub(crate) fn tx(&self) -> &Queue {
        // SAFETY: set while the endpoint is open, and it is open (H1).
        let queue = unsafe { self.tx.get().unwrap_unchecked() };
        // SAFETY: a queue is closed after its endpoints (H2), and its memory stays until then
        // (M1).
        unsafe { queue.as_ref() }
    }

    #[inline]
    pub(crate) fn end_transmit(&self, event: Event) {
        let event = self.tx().push(event);
        if self.attended.get() {
            self.attend(event, self.tx());
        }
    }

    #[inline]
    pub(crate) fn end_receive(&self, event: Event) {
        let event = self.rx().push(event);
        if self.attended.get() {
            self.attend(event, self.rx());
        }
    }

    pub(crate) fn report_received(&self, event: Event) {
        let mut event = self.rx().push(event);
        if self.attended.get() {
            // SAFETY: just pushed by this thread, the only user of the queue (T1).
            self.faults().note_news(unsafe { event.as_mut() }, self.rx());
        }
    }

    /// Reserves the slot for the event of an operation. One without a context has no event.
    #[inline(always)]
    pub(crate) fn reserve_transmit(&self, context: Option<u64>) -> Result<(), Refusal> {
        if context.is_some() && !self.tx().reserve() { Err(Refusal::Again) } else { Ok(()) }
    }

    #[inline(always)]
    pub(crate) fn reserve_receive(&self) -> Result<(), Refusal> {
        if self.rx().reserve() { Ok(()) } else { Err(Refusal::Again) }
    }

    #[inline]
    pub(crate) fn count_unsignaled(&self, flags: CompletionFlags, len: usize) {
        if self.attended.get() {
            self.counters.count(&Event::success(0, flags, len));
        }
    }

    #[inline]
    pub(crate) fn rx(&self) -> &Queue {
        // SAFETY: set while the endpoint is open, and it is open (H1).
        let queue = unsafe { self.rx.get().unwrap_unchecked() };
        // SAFETY: a queue is closed after its endpoints (H2), and its memory stays until then
        // (M1).
        unsafe { queue.as_ref() }
    }

    pub(crate) fn report(&self, event: Event, report: Report) {
        match report {
            Report::Failure if !event.is_error() => {
                self.counters.count(&event);
                self.tx().release();
            }
            Report::All | Report::Failure => self.end_transmit(event),
            Report::Nothing => self.counters.count(&event),
            Report::Reported => {}
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn attend(&self, mut event: NonNull<Event>, queue: &Queue) {
        // SAFETY: just pushed by this thread, the only user of the queue (T1).
        let event = unsafe { event.as_mut() };
        // SAFETY: the event belongs to an operation begun on this endpoint, and was not polled.
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
            self.look_again();
        }
    }

    #[inline(always)]
    pub(crate) fn wait(&self, at: u32, kind: usize, want: Want, room: RecvBuffer) {
        self.use_place(at, RecvKind::posted(kind), room);
        self.posted[kind].post(at, want);
    }

    #[inline(always)]
    pub(crate) fn use_place(&self, at: u32, used: RecvKind, room: RecvBuffer) {
        let receive = self.receive(at);
        receive.set_room(room);
        receive.used.set(used);
        self.by_context(room.context).set(at);
    }

    #[inline]
    pub(crate) fn free_receive(&self, at: u32) {
        let receive = self.receive(at);
        receive.used.set(RecvKind::Other);
        receive.next.set(self.receives.replace(at));
    }

    pub(crate) fn unpost(&self, kind: usize, at: u32) {
        self.posted[kind].remove(at);
        self.free_pieces(self.receive(at).room());
        self.free_receive(at);
    }

    pub(crate) fn receives_used(&self) -> impl Iterator<Item = (u32, RecvKind)> {
        (0..self.places.len()).map(|at| (at, self.receive(at).used.get())).filter(|(_, used)| *used != RecvKind::Other)
    }

    pub(crate) fn find_place(&self, context: u64, is: impl Fn(RecvKind) -> bool) -> Option<(u32, RecvKind)> {
        let holds = |(at, used): &(u32, RecvKind)| is(*used) && self.receive(*at).context.get() == context;
        let hinted = self.by_context(context).get();
        let hinted = Some((hinted, self.receive(hinted).used.get())).filter(holds);
        hinted.or_else(|| self.receives_used().find(holds))
    }

    #[inline]
    fn by_context(&self, context: u64) -> &Cell<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
        let number = (context ^ context >> 7) as u32;
        self.by_context.at(number & (self.by_context.len() - 1))
    }

    pub(crate) fn take_places(&self, count: usize) -> Option<u32> {
        let first = self.receives.get();
        let mut last = first;
        for _ in 1..count {
            last = if last == NIL { return None } else { self.receive(last).next.get() };
        }
        let last = self.receive((last != NIL).then_some(last)?);
        self.receives.set(last.next.replace(NIL));
        Some(first)
    }

    pub(crate) fn chain_from(&self, first: u32) -> impl Iterator<Item = u32> {
        let place = |at: u32| (at != NIL).then_some(at);
        core::iter::successors(place(first), move |at| place(self.receive(*at).next.get()))
    }

    pub(crate) fn free_pieces(&self, room: RecvBuffer) {
        self.chain_from(room.first_piece()).for_each(|at| self.free_receive(at));
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) context: u64,
    pub(crate) to: u16,
    pub(crate) report: Report,
    pub(crate) len: usize,
    pub(crate) flags: CompletionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    All,
    /// Failure alone, as an event or an immediate refusal (`FI_SELECTIVE_COMPLETION`).
    Failure,
    /// No event: injected, and no longer refusable.
    Nothing,
    /// Neither event nor count: both preceded the operation.
    Reported,
}

const fn context_words(modes: RequiredModes) -> usize {
    if modes.contains(RequiredModes::LARGE_CONTEXTS) {
        8
    } else if modes.contains(RequiredModes::CONTEXTS) {
        4
    } else {
        0
    }
}

const fn seal(context: u64, word: u64) -> u64 {
    !context.rotate_left(17).wrapping_add(word)
}

/// # Safety
/// The context points to the memory that the domain requires, which is the transport's until the
/// event (L2).
pub(crate) unsafe fn begin_context(modes: RequiredModes, context: Context) {
    let memory = context.as_ptr().cast::<u64>();
    let _ = memory.expose_provenance();
    for (at, word) in (0..context_words(modes)).zip(0..) {
        // SAFETY: the caller guarantees `context_words` words at the context (L2).
        let place = unsafe { memory.add(at) };
        // SAFETY: the memory is the transport's until the event (L2).
        unsafe { place.write(seal(context.addr(), word)) };
    }
}

/// # Safety
/// The operation was [begun](begin_context), and its event has not been polled.
unsafe fn end_context(modes: RequiredModes, context: u64) -> bool {
    const { assert!(usize::BITS == 64, "a context is an address") };
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
    let memory = ptr::with_exposed_provenance_mut::<u64>(context as usize);
    let mut intact = true;
    for (at, word) in (0..context_words(modes)).zip(0..) {
        // SAFETY: the memory is the transport's until the event is polled (L2), and
        // `begin_context` exposed its provenance.
        let place = unsafe { memory.add(at) };
        // SAFETY: the memory is the transport's until the event is polled (L2).
        intact &= unsafe { place.read() } == seal(context, word);
        // A multi-receive has several events.
        // SAFETY: the memory is the transport's until the event is polled (L2).
        unsafe { place.write(seal(context, word)) };
    }
    intact
}
