//! The op table beside a naive oracle, which lists operations instead of slots. Each action runs on
//! both.

mod ledger;

use std::collections::VecDeque;

use loom_core::completion::{Done, OpError};
use loom_core::engine::op_table::{
    ContextKind, Direction, Kind, OpKey, OpTable, ParkedCompletion, Resolution, Slot, Taken,
};
use loom_core::error::PostError;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

pub(crate) use self::ledger::{Counted, Ledger};

/// Opens a table of `N` slots on the heap.
pub(crate) fn table<B, const N: usize>(kind: ContextKind, horizon: u32) -> Box<OpTable<B>> {
    prefixed_table::<B, N>(kind, horizon, 0)
}

pub(crate) fn prefixed_table<B, const N: usize>(kind: ContextKind, horizon: u32, prefix: usize) -> Box<OpTable<B>> {
    let mut room = Box::<OpTable<B, [Slot<B>; N]>>::new_uninit();
    // SAFETY: the box has room for the table.
    unsafe { OpTable::init(room.as_mut_ptr(), kind, horizon, prefix) };
    // SAFETY: initialized in the line above.
    unsafe { room.assume_init() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Success. A receive got this many bytes more (or fewer) than were lent.
    Success { beyond: isize },
    /// Failure after this many transferred bytes.
    Failure { len: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Post {
        direction: Direction,
        endpoint: u16,
    },
    Refused {
        direction: Direction,
    },
    /// Event of the `nth` operation in flight, taken at once.
    Complete {
        nth: usize,
        said: Said,
    },
    /// Event of the `nth` operation in flight, kept.
    Park {
        nth: usize,
        said: Said,
    },
    /// Event of the `op`th operation ever posted, which has already completed.
    Late {
        op: usize,
        keep: bool,
    },
    Foreign {
        keep: bool,
    },
    Abandon {
        endpoint: u16,
    },
    TakeParked {
        direction: Direction,
    },
    /// Takes the `op`th operation ever posted by its key.
    Take {
        op: usize,
    },
    Drained,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Success(usize),
    Failure { errno: Errno, len: Option<usize>, overflow: Option<usize> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Status {
    InFlight,
    Parked(Ending),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    key: OpKey,
    context: u64,
    endpoint: u16,
    direction: Direction,
    buffer: usize,
    lent: usize,
    status: Status,
    /// Its endpoint was closed, and its event was not seen.
    owed: bool,
}

pub(crate) struct World<const N: usize> {
    pub(crate) table: Box<OpTable<Counted>>,
    pub(crate) ledger: Ledger,
    kind: ContextKind,
    horizon: u32,
    ops: Vec<Op>,
    /// Operations that have not ended, oldest first.
    live: Vec<usize>,
    /// Kept completions, oldest first, by direction, with their batch. Order within a batch is not
    /// promised.
    parked: [VecDeque<(usize, u32)>; 2],
    batch: u32,
    /// Slots that wait for their event (pointer contexts), with the number of events at the time.
    orphans: VecDeque<(usize, u32)>,
    ghosts: usize,
    events: u32,
    strays: u64,
}

const fn side(direction: Direction) -> usize {
    match direction {
        Direction::Transmit => 0,
        Direction::Receive => 1,
    }
}

pub(crate) const fn kind(direction: Direction) -> Kind {
    match direction {
        Direction::Transmit => Kind::Send,
        Direction::Receive => Kind::Receive,
    }
}

/// Passes an event to a table in one of a queue's two ways: successes alone first, or all events
/// alike. The context's generation chooses, so that successive operations of a slot alternate.
pub(crate) fn complete<'t, B>(table: &'t OpTable<B>, event: &Event) -> Resolution<'t, B> {
    let by_itself = event.context >> 33 & 1 == 0;
    // SAFETY: these tests lend no memory to a provider, so any event is true.
    match unsafe { by_itself.then(|| table.succeed(event)).flatten() } {
        Some(done) => Resolution::Done(done),
        // SAFETY: as above.
        None => unsafe { table.complete(event) },
    }
}

/// Passes an event like [`complete`], and keeps the completion.
pub(crate) fn park<'t, B>(table: &'t OpTable<B>, event: &Event) -> Option<Resolution<'t, B>> {
    // SAFETY: as above.
    unsafe { table.park(event) }
}

const fn flags(direction: Direction) -> CompletionFlags {
    match direction {
        Direction::Transmit => CompletionFlags::SEND,
        Direction::Receive => CompletionFlags::RECV,
    }
}

impl<const N: usize> World<N> {
    pub(crate) fn new(kind: ContextKind, horizon: u32) -> Self {
        World {
            table: table::<_, N>(kind, horizon),
            ledger: Ledger::new(),
            kind,
            horizon,
            ops: Vec::new(),
            live: Vec::new(),
            parked: [VecDeque::new(), VecDeque::new()],
            batch: 0,
            orphans: VecDeque::new(),
            ghosts: 0,
            events: 0,
            strays: 0,
        }
    }

    pub(crate) fn posted_ever(&self) -> usize {
        self.ops.len()
    }

    /// Operations in flight, oldest first.
    pub(crate) fn in_flight(&self) -> Vec<usize> {
        self.those_in_flight().collect()
    }

    fn those_in_flight(&self) -> impl Iterator<Item = usize> + '_ {
        self.live.iter().copied().filter(|op| self.ops[*op].status == Status::InFlight)
    }

    /// Checks that the table can distinguish a late event of this operation from one of the
    /// operation in its slot now.
    ///
    /// With numbers it always can. With pointers, rule 4 keeps the slot until the event can no
    /// longer arrive.
    pub(crate) fn may_be_late(&self, op: usize) -> bool {
        let op = &self.ops[op];
        op.status != Status::InFlight
            && (self.kind == ContextKind::Word
                || !self.those_in_flight().any(|other| self.ops[other].context == op.context))
    }

    fn parked_count(&self) -> usize {
        self.parked.iter().map(VecDeque::len).sum()
    }

    /// Checks that a post finds a slot. Takes the oldest orphan if it is needed.
    fn expect_slot(&mut self) -> bool {
        let in_flight = self.those_in_flight().count();
        if in_flight + self.ghosts >= N {
            return false;
        }
        if in_flight + self.parked_count() + self.orphans.len() < N {
            return true;
        }
        match self.orphans.front() {
            Some((_, since)) if self.events - since >= self.horizon => {
                self.orphans.pop_front();
                true
            }
            _ => false,
        }
    }

    /// Number of empty slots that rule 5 admits.
    fn free_slots(&self) -> usize {
        let in_flight = self.those_in_flight().count();
        (N - in_flight).saturating_sub((self.parked_count() + self.orphans.len()).max(self.ghosts))
    }

    fn no_slot(&self) -> PostError {
        let by_events = self.those_in_flight().count() + self.ghosts >= N || !self.orphans.is_empty();
        if by_events { PostError::Full } else { PostError::Kept }
    }

    pub(crate) fn apply(&mut self, action: Action) {
        match action {
            Action::Post { direction, endpoint } => self.post(direction, endpoint),
            Action::Refused { direction } => self.refused(direction),
            Action::Complete { nth, said } => {
                let op = self.in_flight()[nth];
                let ending = self.ending(op, said);
                let event = self.event(op, said);
                self.end(op);
                // A caller can wait for it, and another caller for another operation.
                let others: Vec<_> = self.those_in_flight().map(|other| self.ops[other].key).collect();
                for other in others {
                    // SAFETY: the world lends no memory to a provider.
                    assert!(unsafe { self.table.succeed_as(other, &event) }.is_none(), "it is another's");
                }
                let awaited = self.events.is_multiple_of(2).then_some(self.ops[op].key);
                // SAFETY: as above.
                let taken = awaited.and_then(|key| unsafe { self.table.succeed_as(key, &event) });
                match taken.map_or_else(|| complete(&self.table, &event), Resolution::Done) {
                    Resolution::Done(done) => self.assert_done(done, op, ending),
                    other => panic!("{other:?} for an operation in flight"),
                }
            }
            Action::Park { nth, said } => {
                let op = self.in_flight()[nth];
                let ending = self.ending(op, said);
                let event = self.event(op, said);
                self.end(op);
                assert!(park(&self.table, &event).is_none());
                self.batch += 1;
                self.keep(op, ending);
            }
            Action::Late { op, keep } => self.late(op, keep),
            Action::Foreign { keep } => {
                self.count_event();
                self.strays += 1;
                let context = match self.kind {
                    ContextKind::Word => 7 << 32 | N as u64,
                    ContextKind::Space => 0x1000,
                };
                let event = Event::success(context, CompletionFlags::RECV, 1);
                assert!(matches!(self.submit(&event, keep), Some(Resolution::Foreign)));
            }
            Action::Abandon { endpoint } => self.abandon(endpoint),
            Action::TakeParked { direction } => {
                let kept = &self.parked[side(direction)];
                match (self.table.take_parked(direction).and_then(ParkedCompletion::done), kept.front()) {
                    (Some(done), Some((_, oldest))) => {
                        let of_key = |(op, _): &&(usize, u32)| self.ops[*op].key == done.key();
                        let (op, batch) = kept.iter().find(of_key).expect("it was kept");
                        assert_eq!(batch, oldest, "the oldest comes first");
                        let op = *op;
                        self.took(done, op);
                    }
                    (None, None) => {}
                    (done, kept) => panic!("{done:?} for {kept:?}"),
                }
            }
            Action::Take { op } => match (self.table.take(self.ops[op].key), self.ops[op].status) {
                (Taken::Done(done), Status::Parked(_)) => self.took(done, op),
                (Taken::InFlight, Status::InFlight) | (Taken::Unknown, Status::Over) => {}
                (taken, status) => panic!("{taken:?} for an operation that is {status:?}"),
            },
            Action::Drained => {
                self.table.drained(Direction::BOTH);
                self.ghosts = 0;
            }
        }
        self.live.retain(|op| self.ops[*op].status != Status::Over);
        self.check();
    }

    fn post(&mut self, direction: Direction, endpoint: u16) {
        let lent = 1 + self.ledger.made() % 8;
        let buf = self.ledger.buffer(lent);
        let buffer = buf.id;
        let mut context = None;
        let result = self.table.post(endpoint, kind(direction), buf, |lent, given| {
            assert!(lent.readable && lent.writable);
            context = Some((lent.len, given.addr()));
            Ok(())
        });
        if !self.expect_slot() {
            let rejected = result.expect_err("no slot is free");
            assert_eq!((rejected.value.id, rejected.error, context), (buffer, self.no_slot(), None));
            return;
        }
        let key = result.expect("a slot is free");
        let (shown, context) = context.expect("the transport was asked");
        assert_eq!(shown, lent);
        assert!(self.ops.iter().all(|op| op.key != key), "keys are not given out twice");
        assert!(
            !self.those_in_flight().any(|op| self.ops[op].context == context),
            "no two operations in flight share a context"
        );
        let owing = |op: &Op| self.kind == ContextKind::Space && op.owed && op.context == context;
        if let Some(op) = self.ops.iter_mut().find(|op| owing(op)) {
            // `expect_slot` has seen that the horizon was reached.
            assert_eq!(op.status, Status::Over);
            op.owed = false;
        }
        assert_ne!(context, 0, "the context of no operation");
        let status = Status::InFlight;
        self.live.push(self.ops.len());
        self.ops.push(Op { key, context, endpoint, direction, buffer, lent, status, owed: false });
    }

    fn refused(&mut self, direction: Direction) {
        let buf = self.ledger.buffer(3);
        let buffer = buf.id;
        let mut asked = false;
        let result = self.table.post(0, kind(direction), buf, |_, _| {
            asked = true;
            Err(PostError::Again)
        });
        let rejected = result.expect_err("the transport refuses");
        assert_eq!(rejected.value.id, buffer);
        // The slot of an orphan that was taken for this post is free from now on.
        let expected = self.expect_slot();
        assert_eq!(asked, expected);
        assert_eq!(rejected.error, if expected { PostError::Again } else { self.no_slot() });
    }

    fn event(&mut self, op: usize, said: Said) -> Event {
        self.count_event();
        let Op { context, direction, lent, .. } = self.ops[op];
        match said {
            Said::Success { beyond } => {
                Event::success(context, flags(direction), lent.checked_add_signed(beyond).unwrap_or(0))
            }
            Said::Failure { len } => {
                let mut event = Event::failure(context, flags(direction), Errno::EIO);
                event.len = len;
                event
            }
        }
    }

    /// Returns the end that the table derives from an event.
    fn ending(&self, op: usize, said: Said) -> Ending {
        let Op { direction, lent, .. } = self.ops[op];
        match said {
            Said::Success { .. } if direction == Direction::Transmit => Ending::Success(lent),
            Said::Success { beyond: overflow @ 1.. } => {
                Ending::Failure { errno: Errno::ETRUNC, len: Some(lent), overflow: Some(overflow.unsigned_abs()) }
            }
            Said::Success { beyond } => Ending::Success(lent.checked_add_signed(beyond).unwrap_or(0)),
            Said::Failure { len } => {
                Ending::Failure { errno: Errno::EIO, len: Some(len.min(lent)).filter(|len| *len > 0), overflow: None }
            }
        }
    }

    fn count_event(&mut self) {
        self.events += 1;
    }

    fn end(&mut self, op: usize) {
        self.ops[op].status = Status::Over;
    }

    fn keep(&mut self, op: usize, ending: Ending) {
        self.ops[op].status = Status::Parked(ending);
        self.parked[side(self.ops[op].direction)].push_back((op, self.batch));
    }

    fn took(&mut self, done: Done<Counted>, op: usize) {
        let Status::Parked(ending) = self.ops[op].status else { panic!("{:?} was not kept", self.ops[op]) };
        self.parked[side(self.ops[op].direction)].retain(|(kept, _)| *kept != op);
        self.end(op);
        if self.kind == ContextKind::Space && self.ops[op].owed {
            self.orphans.push_back((op, self.events));
        }
        self.assert_done(done, op, ending);
    }

    fn submit(&self, event: &Event, keep: bool) -> Option<Resolution<'_, Counted>> {
        if keep { park(&self.table, event) } else { Some(complete(&self.table, event)) }
    }

    fn late(&mut self, op: usize, keep: bool) {
        assert!(self.may_be_late(op));
        self.count_event();
        self.strays += 1;
        let context = self.ops[op].context;
        let event = Event::success(context, flags(self.ops[op].direction), 1);
        assert!(matches!(self.submit(&event, keep), Some(Resolution::Stale)));
        match self.kind {
            ContextKind::Word => self.ghosts = self.ghosts.saturating_sub(1),
            ContextKind::Space => {
                // The event counts for the orphan at this address.
                self.orphans.retain(|(orphan, _)| self.ops[*orphan].context != context);
                for op in self.ops.iter_mut().filter(|op| op.context == context) {
                    op.owed = false;
                }
            }
        }
    }

    fn abandon(&mut self, endpoint: u16) {
        // SAFETY: the world lends no memory to a provider.
        unsafe { self.table.abandon(endpoint) };
        let mut ended: Vec<_> = self.in_flight();
        ended.retain(|op| self.ops[*op].endpoint == endpoint);
        if self.kind == ContextKind::Word {
            self.ghosts += ended.len();
        }
        let ending = Ending::Failure { errno: Errno::ECANCELED, len: None, overflow: None };
        self.batch += 1;
        for op in ended {
            self.ops[op].owed = true;
            self.keep(op, ending);
        }
    }

    #[track_caller]
    fn assert_done(&self, done: Done<Counted>, op: usize, ending: Ending) {
        let op = &self.ops[op];
        assert_eq!(done.key(), op.key);
        assert_eq!(done.buf().id, op.buffer);
        let result = match done.result() {
            Ok(transfer) => Ending::Success(transfer.len),
            Err(OpError { errno, len, overflow, .. }) => Ending::Failure { errno, len, overflow },
        };
        assert_eq!(result, ending);
    }

    /// Checks all operations that have not ended, and the last ones. Long stories spend their time
    /// here.
    fn check(&self) {
        const LAST: usize = 8;
        assert_eq!(self.table.in_flight(), self.those_in_flight().count());
        assert!(self.table.in_flight() + self.ghosts <= N, "rule 5");
        assert_eq!(self.table.free_slots(), self.free_slots());
        assert_eq!(self.table.strays(), self.strays);
        assert_eq!(self.table.capacity(), N);
        let last = self.ops.len().saturating_sub(LAST);
        self.live.iter().filter(|op| **op < last).for_each(|op| self.check_op(&self.ops[*op]));
        self.ops[last..].iter().for_each(|op| self.check_op(op));
    }

    fn check_op(&self, op: &Op) {
        let context = self.table.context_of(op.key, op.endpoint).map(|context| context.addr());
        assert_eq!(context, (op.status == Status::InFlight).then_some(op.context));
        assert!(self.table.context_of(op.key, op.endpoint + 1).is_none());
        let kept = matches!(op.status, Status::InFlight | Status::Parked(_));
        assert_eq!(self.ledger.drops(op.buffer), u32::from(!kept));
    }

    /// Closes the table as a queue does, and checks that each buffer was dropped once.
    pub(crate) fn close(self) {
        self.ops.iter().for_each(|op| self.check_op(op));
        // SAFETY: the world lends no memory to a provider.
        unsafe { self.table.drop_buffers() };
        self.ledger.assert_all_dropped_once();
        drop(self.table);
        self.ledger.assert_all_dropped_once();
    }
}
