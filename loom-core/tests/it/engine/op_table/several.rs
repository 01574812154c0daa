//! Operations with several events or without one, beside a naive oracle: multi-receives and their
//! pieces, peeks and claims, among plain operations. Runs every short sequence of actions, and long
//! random ones.

use std::collections::VecDeque;

use loom_core::completion::Claim;
use loom_core::engine::op_table::{
    ContextKind, Direction, Kind, OpKey, OpTable, ParkedCompletion, Piece, Resolution, Taken,
};
use loom_core::error::PostError;
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use crate::daily_share;
use crate::engine::op_table::world::{Counted, Ledger, complete, kind, park, table};

const RECEIVED: CompletionFlags = CompletionFlags::TAGGED.union(CompletionFlags::RECV);
const LEN: usize = 32;

/// Input to a table. Numbers are taken modulo the number of choices.
#[derive(Clone, Copy, Debug)]
enum Action {
    Post {
        endpoint: u16,
    },
    PostMulti {
        endpoint: u16,
    },
    PostPeek {
        endpoint: u16,
        claims: bool,
    },
    Complete(usize),
    /// A message for a multi-receive, possibly its last.
    Message {
        nth: usize,
        last: bool,
        keep: bool,
    },
    /// Releases or cancels a multi-receive: for good, or with further messages to come.
    Release(usize),
    Cancelled {
        nth: usize,
        over: bool,
    },
    GiveBack(usize),
    Forget(usize),
    Answer {
        nth: usize,
        found: bool,
        keep: bool,
    },
    Fetch(usize),
    Discard(usize),
    Abandon {
        endpoint: u16,
    },
    TakeParked,
    /// An event of an operation of a closed endpoint.
    Late(usize),
    Drained,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    InFlight,
    Parked,
    /// Completed, with pieces outstanding.
    Draining,
    Claimed,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Plain,
    Multi,
    Peek { claims: bool },
}

#[derive(Debug)]
struct Op {
    what: What,
    key: OpKey,
    context: u64,
    endpoint: u16,
    state: State,
    buffer: Option<usize>,
    /// First byte lent by a multi-receive.
    start: usize,
    /// Number of outstanding pieces, including forgotten ones.
    out: usize,
    claim: Option<Claim>,
    /// Its endpoint was closed while it was in flight, and its events can still arrive.
    owed: bool,
}

struct World<const N: usize> {
    // Declared before the table, to which the pieces refer.
    held: Vec<(usize, Piece<'static, Counted>)>,
    table: Box<OpTable<Counted>>,
    ledger: Ledger,
    kind: ContextKind,
    ops: Vec<Op>,
    parked: VecDeque<usize>,
    ghosts: usize,
    /// Slots with a taken completion and outstanding events, if contexts are pointers.
    orphans: Vec<usize>,
}

impl<const N: usize> World<N> {
    fn new(kind: ContextKind) -> Self {
        World {
            held: Vec::new(),
            // The horizon is out of reach, so with pointers a slot waits for its event.
            table: table::<_, N>(kind, u32::MAX),
            ledger: Ledger::new(),
            kind,
            ops: Vec::new(),
            parked: VecDeque::new(),
            ghosts: 0,
            orphans: Vec::new(),
        }
    }

    fn which(&self, is_it: impl Fn(&Op) -> bool) -> Vec<usize> {
        (0..self.ops.len()).filter(|op| is_it(&self.ops[*op])).collect()
    }

    fn in_flight(&self, what: impl Fn(What) -> bool) -> Vec<usize> {
        self.which(|op| op.state == State::InFlight && what(op.what))
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for endpoint in [0, 1] {
            actions.extend([Action::Post { endpoint }, Action::PostMulti { endpoint }, Action::Abandon { endpoint }]);
        }
        actions.extend([false, true].map(|claims| Action::PostPeek { endpoint: 0, claims }));
        actions.extend((0..self.in_flight(|what| what == What::Plain).len()).map(Action::Complete));
        for nth in 0..self.in_flight(|what| what == What::Multi).len() {
            actions.extend([false, true].map(|last| Action::Message { nth, last, keep: last }));
            actions.extend([Action::Release(nth), Action::Cancelled { nth, over: true }]);
            actions.push(Action::Cancelled { nth, over: false });
        }
        for nth in 0..self.held.len() {
            actions.extend([Action::GiveBack(nth), Action::Forget(nth)]);
        }
        for nth in 0..self.in_flight(|what| matches!(what, What::Peek { .. })).len() {
            actions.extend([false, true].map(|found| Action::Answer { nth, found, keep: !found }));
        }
        for nth in 0..self.which(|op| op.state == State::Claimed).len() {
            actions.extend([Action::Fetch(nth), Action::Discard(nth)]);
        }
        actions.extend((0..self.late().len()).map(Action::Late));
        actions.extend([Action::TakeParked, Action::Drained]);
        actions
    }

    fn late(&self) -> Vec<usize> {
        self.which(|op| op.owed)
    }

    fn has_room(&self) -> bool {
        let in_flight = self.in_flight(|_| true).len();
        let kept = self.which(|op| matches!(op.state, State::Parked | State::Draining | State::Claimed)).len();
        in_flight + self.ghosts < N && in_flight + kept + self.orphans.len() < N
    }

    fn posted(&mut self, what: What, endpoint: u16, key: OpKey, context: u64, buffer: Option<usize>, start: usize) {
        assert!(self.ops.iter().all(|op| op.key != key), "keys are not given out twice");
        let taken =
            |op: &Op| op.context == context && (op.state != State::Over || op.owed && self.kind == ContextKind::Space);
        assert!(!self.ops.iter().any(taken), "a context is one operation's");
        let state = State::InFlight;
        self.ops.push(Op { what, key, context, endpoint, state, buffer, start, out: 0, claim: None, owed: false });
    }

    fn post(&mut self, what: What, endpoint: u16) {
        let room = self.has_room();
        let mut seen = (0, 0);
        let (result, buffer) = match what {
            What::Peek { claims } => {
                let kind = if claims { Kind::PeekClaim } else { Kind::Peek };
                let result = self.table.post_empty(endpoint, kind, |context| {
                    seen.0 = context.addr();
                    Ok(())
                });
                (result, None)
            }
            What::Plain | What::Multi => {
                let buf = self.ledger.buffer(LEN);
                let buffer = buf.id;
                let submit = |lent: &loom_core::buffer::Lent, context: loom_core::transport::Context| {
                    seen = (context.addr(), lent.ptr.addr().get());
                    Ok(())
                };
                let kind = if what == What::Multi { Kind::MultiReceive } else { kind(Direction::Receive) };
                let result = self.table.post(endpoint, kind, buf, submit);
                (result.map_err(|rejected| rejected.error), Some(buffer))
            }
        };
        match result {
            Ok(key) => {
                assert!(room);
                self.posted(what, endpoint, key, seen.0, buffer, seen.1);
            }
            Err(error) => {
                let by_events = self.in_flight(|_| true).len() + self.ghosts >= N || !self.orphans.is_empty();
                assert_eq!((error, room), (if by_events { PostError::Full } else { PostError::Kept }, false));
            }
        }
    }

    /// Passes an event to the table. Only completions of plain operations are kept.
    fn submit(&mut self, event: &Event, keep: bool) -> Option<Resolution<'static, Counted>> {
        let resolution = if keep { park(&self.table, event) } else { Some(complete(&self.table, event)) };
        // SAFETY: the table stays in its box until the world, with all pieces, is dropped.
        unsafe { core::mem::transmute::<Option<Resolution<'_, Counted>>, _>(resolution) }
    }

    fn ends(&mut self, op: usize) {
        if self.ops[op].out > 0 {
            self.ops[op].state = State::Draining;
        } else {
            self.ops[op].state = State::Parked;
            self.parked.push_back(op);
        }
    }

    fn message(&mut self, op: usize, last: bool, keep: bool) {
        let offset = self.ops[op].out % LEN;
        let mut event = Event::success(self.ops[op].context, RECEIVED, 1);
        event.overflow_or_place = self.ops[op].start + offset;
        if last {
            event.flags |= CompletionFlags::MULTI_RECV;
        }
        let Some(Resolution::Piece(piece)) = self.submit(&event, keep) else { panic!("a piece") };
        assert_eq!((piece.key(), piece.bytes().len()), (self.ops[op].key, 1));
        self.held.push((op, piece));
        self.ops[op].out += 1;
        if last {
            self.ends(op);
        }
    }

    fn released(&mut self, op: usize, event: &Event) {
        let resolution = self.submit(event, false).expect("not kept");
        if self.ops[op].out > 0 {
            assert!(matches!(resolution, Resolution::Continues));
            self.ops[op].state = State::Draining;
        } else {
            let Resolution::Done(done) = resolution else { panic!("{resolution:?}") };
            assert_eq!((done.key(), Some(done.buf().id)), (self.ops[op].key, self.ops[op].buffer));
            self.ops[op].state = State::Over;
        }
    }

    fn answer(&mut self, op: usize, found: bool, keep: bool) {
        let context = self.ops[op].context;
        let event = match found {
            true => Event::success(context, RECEIVED, 1 << 20),
            false => Event::failure(context, RECEIVED, Errno::ENOMSG),
        };
        let Some(Resolution::Peek(peek)) = self.submit(&event, keep) else { panic!("an answer") };
        let message = peek.message().unwrap();
        assert_eq!((peek.key, message.is_some()), (self.ops[op].key, found));
        self.ops[op].claim = message.and_then(|message| message.claim);
        let claimed = found && self.ops[op].what == What::Peek { claims: true };
        assert_eq!(self.ops[op].claim.is_some(), claimed);
        self.ops[op].state = if claimed { State::Claimed } else { State::Over };
    }

    fn fetch(&mut self, op: usize, discard: bool) {
        let room = self.in_flight(|_| true).len() + self.ghosts < N;
        let Op { claim, endpoint, context, key, .. } = self.ops[op];
        let claim = claim.unwrap();
        let same = |given: loom_core::transport::Context| {
            assert_eq!(given.addr(), context, "the peek's context");
            Ok(())
        };
        let other = self.table.post_discard(endpoint + 1, claim, |_| Ok(()));
        assert_eq!(other, Err(PostError::UnknownClaim), "it is one endpoint's");
        let (result, what, buffer) = if discard {
            (self.table.post_discard(endpoint, claim, same), What::Peek { claims: false }, None)
        } else {
            let buf = self.ledger.buffer(LEN);
            let buffer = buf.id;
            let result = self.table.post_claim(endpoint, claim, buf, |_, given| same(given));
            (result.map_err(|rejected| rejected.error), What::Plain, Some(buffer))
        };
        match result {
            Ok(again) => {
                assert!(room && again == key);
                (self.ops[op].what, self.ops[op].buffer) = (what, buffer);
                self.ops[op].state = State::InFlight;
            }
            Err(error) => assert_eq!((error, room), (PostError::Full, false)),
        }
    }

    fn abandon(&mut self, endpoint: u16) {
        // SAFETY: the world lends no memory to a provider.
        unsafe { self.table.abandon(endpoint) };
        for op in self.which(|op| op.endpoint == endpoint) {
            match (self.ops[op].state, self.ops[op].what) {
                (State::InFlight, What::Peek { .. }) => {
                    self.ops[op].state = State::Over;
                    self.ops[op].owed = true;
                    if self.kind == ContextKind::Space {
                        self.orphans.push(op);
                    }
                }
                (State::InFlight, _) => {
                    self.ends(op);
                    self.ops[op].owed = true;
                }
                (State::Claimed, _) => {
                    self.ops[op].state = State::Over;
                    continue;
                }
                _ => continue,
            }
            if self.kind == ContextKind::Word {
                self.ghosts += 1;
            }
        }
    }

    fn give_back(&mut self, nth: usize) {
        let (op, piece) = self.held.swap_remove(nth);
        drop(piece);
        self.ops[op].out -= 1;
        if self.ops[op].state == State::Draining && self.ops[op].out == 0 {
            self.ops[op].state = State::Parked;
            self.parked.push_back(op);
            assert!(self.table.needs_slow_poll(), "a poll has to look");
        }
    }

    fn take_parked(&mut self) {
        match (self.table.take_parked(Direction::Receive).and_then(ParkedCompletion::done), self.parked.pop_front()) {
            (Some(done), Some(_)) => {
                // Operations of one close end in any order.
                let op = self.ops.iter().position(|op| op.key == done.key()).unwrap();
                assert_eq!((self.ops[op].state, Some(done.buf().id)), (State::Parked, self.ops[op].buffer));
                self.ops[op].state = State::Over;
                if self.kind == ContextKind::Space && self.ops[op].owed {
                    self.orphans.push(op);
                }
            }
            (None, None) => {}
            (done, parked) => panic!("{done:?} for {parked:?}"),
        }
    }

    fn late_event(&mut self, op: usize) {
        let event = Event::success(self.ops[op].context, RECEIVED, 1);
        let resolution = self.submit(&event, false);
        assert!(matches!(resolution, Some(Resolution::Stale)), "{resolution:?}");
        match self.kind {
            ContextKind::Word => self.ghosts = self.ghosts.saturating_sub(1),
            // A multi-receive can have further events.
            ContextKind::Space if self.ops[op].what == What::Multi => {}
            ContextKind::Space => {
                self.ops[op].owed = false;
                self.orphans.retain(|orphan| *orphan != op);
            }
        }
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Post { endpoint } => self.post(What::Plain, endpoint),
            Action::PostMulti { endpoint } => self.post(What::Multi, endpoint),
            Action::PostPeek { endpoint, claims } => self.post(What::Peek { claims }, endpoint),
            Action::Complete(nth) => {
                let op = self.in_flight(|what| what == What::Plain)[nth];
                let event = Event::success(self.ops[op].context, RECEIVED, 1);
                let Some(Resolution::Done(done)) = self.submit(&event, false) else { panic!("over") };
                assert_eq!((done.key(), Some(done.buf().id)), (self.ops[op].key, self.ops[op].buffer));
                self.ops[op].state = State::Over;
            }
            Action::Message { nth, last, keep } => {
                self.message(self.in_flight(|what| what == What::Multi)[nth], last, keep);
            }
            Action::Release(nth) => {
                let op = self.in_flight(|what| what == What::Multi)[nth];
                let event = Event::success(self.ops[op].context, CompletionFlags::MULTI_RECV, 0);
                self.released(op, &event);
            }
            Action::Cancelled { nth, over } => {
                let op = self.in_flight(|what| what == What::Multi)[nth];
                let flags = if over { RECEIVED | CompletionFlags::MULTI_RECV } else { RECEIVED };
                let event = Event::failure(self.ops[op].context, flags, Errno::ECANCELED);
                if over {
                    self.released(op, &event);
                } else {
                    self.table.cancelling(self.ops[op].key, true);
                    assert!(matches!(self.submit(&event, false), Some(Resolution::Continues)));
                }
            }
            Action::GiveBack(nth) => self.give_back(nth),
            Action::Forget(nth) => core::mem::forget(self.held.swap_remove(nth).1),
            Action::Answer { nth, found, keep } => {
                self.answer(self.in_flight(|what| matches!(what, What::Peek { .. }))[nth], found, keep);
            }
            Action::Fetch(nth) => self.fetch(self.which(|op| op.state == State::Claimed)[nth], false),
            Action::Discard(nth) => self.fetch(self.which(|op| op.state == State::Claimed)[nth], true),
            Action::Abandon { endpoint } => self.abandon(endpoint),
            Action::TakeParked => self.take_parked(),
            Action::Late(nth) => self.late_event(self.late()[nth]),
            Action::Drained => {
                self.table.drained(Direction::BOTH);
                self.ghosts = 0;
            }
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.table.in_flight(), self.in_flight(|_| true).len());
        for op in &self.ops {
            let peek = matches!(op.what, What::Peek { .. });
            assert_eq!(self.table.is_peeking(op.key), op.state == State::InFlight && peek);
            let cancellable = op.state == State::InFlight && !peek;
            assert_eq!(self.table.context_of(op.key, op.endpoint).is_some(), cancellable);
            match (
                op.state,
                op.state != State::Parked && self.ops.iter().filter(|other| other.key == op.key).count() == 1,
            ) {
                (State::InFlight, true) => assert!(matches!(self.table.take(op.key), Taken::InFlight)),
                (State::Draining, true) => assert!(matches!(self.table.take(op.key), Taken::Draining)),
                (State::Claimed | State::Over, true) => assert!(matches!(self.table.take(op.key), Taken::Unknown)),
                _ => {}
            }
            if let Some(buffer) = op.buffer {
                let kept = matches!(op.state, State::InFlight | State::Parked | State::Draining);
                assert_eq!(self.ledger.drops(buffer), u32::from(!kept), "{op:?}");
            }
        }
        for (op, piece) in &self.held {
            assert!(self.ops[*op].state != State::Over, "a buffer is back while a piece is out");
            assert_eq!(piece.bytes().len(), 1);
        }
    }

    fn close(mut self) {
        self.held.clear();
        // SAFETY: the world lends no memory to a provider, and no piece is left.
        unsafe { self.table.drop_buffers() };
        self.ledger.assert_all_dropped_once();
    }
}

/// Prints the actions when an assertion fails.
struct Story<'a>(&'a [Action]);

impl Drop for Story<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {:#?}", self.0);
        }
    }
}

/// Plays a sequence. `choose` gets the number of actions.
fn play<const N: usize>(kind: ContextKind, steps: usize, mut choose: impl FnMut(usize, usize) -> usize) {
    let mut world = World::<N>::new(kind);
    let mut done = Vec::new();
    for step in 0..steps {
        let actions = world.actions();
        let action = actions[choose(step, actions.len())];
        done.push(action);
        let _story = Story(&done);
        world.apply(action);
    }
    let _story = Story(&done);
    world.close();
}

/// Runs every sequence of this length that begins with one of today's.
fn explore<const N: usize>(kind: ContextKind, steps: usize) -> u64 {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut sequences = 0;
    let (first, distance) = daily_share::of_first_steps();
    loop {
        play::<N>(kind, steps, |step, count| {
            if path.len() == step {
                path.push((if step == 0 { first } else { 0 }, count));
            }
            path[step].0
        });
        sequences += 1;
        loop {
            let Some((taken, count)) = path.pop() else { return sequences };
            let next = taken + if path.is_empty() { distance } else { 1 };
            if next < count {
                path.push((next, count));
                break;
            }
        }
    }
}

#[test]
fn every_sequence_with_pieces_and_claims() {
    for kind in [ContextKind::Word, ContextKind::Space] {
        let sequences = [explore::<1>(kind, 5), explore::<2>(kind, 4), explore::<3>(kind, 4)];
        println!("{kind:?}: {sequences:?} sequences");
        assert!(sequences.iter().all(|count| *count > 3_000), "{sequences:?}");
    }
}

#[test]
fn long_random_sequences_with_pieces_and_claims() {
    for seed in 0..300_u64 {
        let mut state = seed;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % end
        };
        let kind = if seed % 2 == 0 { ContextKind::Word } else { ContextKind::Space };
        play::<5>(kind, 150, |_, count| below(count));
    }
}
