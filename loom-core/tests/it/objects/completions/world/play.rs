//! The driver: effects of each step on the objects, and its possible results.

use loom_core::completion::Claim;
use loom_core::deadline::Spins;
use loom_core::endpoint::Source;
use loom_core::endpoint::{ReadOptions, RecvOptions, SendOptions};
use loom_core::engine::op_table::Direction;
use loom_core::error::{PostError, Rejected};
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::{Access, FabricAddr, MemoryKey, RemoteAddr, TagMatch};

use super::story::{Failed, Flags, Len, Number, Of, Place, Says, Side};
use super::*;

const TAG: Tag = Tag(5);

impl World<'_, '_, '_> {
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Post { endpoint, what, len } => self.post(endpoint, what, 1 + usize::from(len) % LONGEST),
            Step::Fetch { nth, discard, len } => self.fetch(nth, discard, 1 + usize::from(len) % LONGEST),
            Step::Event { queue, of, says } => self.event(queue, of, says),
            Step::Crowd { queue, count } => {
                let flags = CompletionFlags::RMA | CompletionFlags::REMOTE_WRITE | CompletionFlags::REMOTE_CQ_DATA;
                for number in 0..count % 80 {
                    let event = Event::success(0, flags, 0);
                    self.say(queue, Said::Event(Event { data: ImmediateData(number.into()), ..event }));
                }
            }
            Step::Failure { queue, errno } => self.say(
                queue,
                match errno.map(errno_of) {
                    Some(errno) if errno != Errno::EAVAIL => Said::Failure(errno),
                    _ => Said::Nothing,
                },
            ),
            Step::Poll(side) => {
                self.poll(side);
            }
            Step::Progress => {
                let result = self.cq.progress();
                let ended = self.take_notes();
                match result {
                    Ok(_) => {}
                    Err(error) => self.is_reason(error, ended),
                }
            }
            Step::Wait { nth, spins } => self.wait(nth, spins),
            Step::WaitPeek { nth } => self.wait_peek(nth),
            Step::DropPiece { nth } => {
                let Some(nth) = usize::from(nth).checked_rem(self.pieces.len()) else { return };
                self.drop_piece(nth);
            }
            Step::Refuse { errno } => {
                self.script.refusal.set(Some(errno.map_or(Refusal::Again, |errno| Refusal::Errno(errno_of(errno)))));
            }
            Step::Cancel { nth } => self.cancel(nth),
            Step::Close { endpoint } => self.close(endpoint),
            Step::Open { endpoint } => self.open(endpoint),
        }
        self.check();
    }

    pub(super) fn open(&mut self, endpoint: bool) {
        let place = &mut self.endpoints[usize::from(endpoint)];
        if place.is_none() {
            let opened = self.cq.endpoint(self.av).expect("there are places");
            *place = Some((self.lives, opened));
            self.lives += 1;
        }
    }

    fn close(&mut self, endpoint: bool) {
        let Some((life, endpoint)) = self.endpoints[usize::from(endpoint)].take() else { return };
        for op in self.ops.iter_mut().filter(|op| op.life == life) {
            // Closing cancels.
            op.cancelled = true;
        }
        self.batch += 1;
        drop(endpoint);
        self.closed = true;
        // Used-up receives end before the last read of the provider's queues.
        self.end_those(life, State::UsedUp);
        self.take_notes();
        self.batch += 1;
        self.end_those(life, State::UsedUp);
        self.end_those(life, State::InFlight);
        for op in self.ops.iter_mut().filter(|op| op.life == life && op.state == State::Claimed) {
            op.state = State::Over;
        }
    }

    /// Ends the operations of a closed endpoint, which return their buffers.
    fn end_those(&mut self, life: usize, state: State) {
        for op in 0..self.ops.len() {
            let Op { what, pieces, .. } = self.ops[op];
            if self.ops[op].life != life || self.ops[op].state != state {
                continue;
            }
            if what.is_peek() {
                self.ops[op].state = State::Over;
            } else if what == Posting::MultiReceive && pieces > 0 {
                let event = Event::failure(0, what.cut_off_flags(), Errno::ECANCELED);
                self.ops[op].end = Some(oracle::error(&event, event.errno, 0, 0));
                self.ops[op].state = State::Draining;
            } else {
                self.cut_off(op, Errno::ECANCELED);
            }
        }
    }

    fn post(&mut self, endpoint: bool, what: Posting, len: usize) {
        let Some((life, endpoint)) = &self.endpoints[usize::from(endpoint)] else { return };
        let life = *life;
        let (peer, region) = (
            self.peer,
            RemoteRegion {
                base: RemoteAddr(0),
                len: LONGEST as u64,
                key: MemoryKey(1),
                access: Access::REMOTE_READ | Access::REMOTE_WRITE,
            },
        );
        let any = Source::Any;
        let buf = || match what {
            Posting::Gather | Posting::Scatter => Memory::in_two(&[0xee; LONGEST][..len], len / 2),
            _ => Memory::new(&[0xee; LONGEST][..len]),
        };
        let without = |result: Result<OpKey, PostError>| result.map(|key| (key, None)).map_err(|error| (error, None));
        let with = |buf: Memory, post: &dyn Fn(Memory) -> Result<OpKey, Rejected<Memory>>| {
            let id = buf.id;
            post(buf).map(|key| (key, Some(id))).map_err(|rejected| {
                assert_eq!(rejected.value.id, id);
                (rejected.error, Some(id))
            })
        };
        let posted = match what {
            Posting::Send => with(buf(), &|buf| endpoint.send(peer, buf)),
            Posting::Gather => with(buf(), &|buf| endpoint.send_with(peer, SendOptions::default(), buf)),
            Posting::Write => with(buf(), &|buf| endpoint.write(peer, &region, 0, buf)),
            Posting::Read if len.is_multiple_of(2) => with(buf(), &|buf| endpoint.read(peer, &region, 0, buf)),
            Posting::Read => {
                let part = [region.part(0, len).expect("it lies within")];
                with(buf(), &|buf| endpoint.read_with(peer, &part, ReadOptions::default(), buf))
            }
            Posting::Receive => with(buf(), &|buf| endpoint.recv(any, buf)),
            Posting::Scatter => with(buf(), &|buf| endpoint.recv_with(any, RecvOptions::default(), buf)),
            Posting::TaggedReceive => with(buf(), &|buf| endpoint.tagged_recv(any, TagMatch::ANY, buf)),
            Posting::MultiReceive => with(buf(), &|buf| endpoint.multi_recv(any, buf)),
            Posting::Peek => without(endpoint.tagged_peek(any, TAG)),
            Posting::PeekClaim => without(endpoint.tagged_peek_claim(any, TAG)),
            Posting::PeekDiscard => without(endpoint.tagged_peek_discard(any, TAG)),
        };
        let note = self.posted_note();
        match posted {
            Ok((key, buffer)) => {
                let (context, first, shown) = note.expect("the transport was asked").expect("and has not refused");
                let prefixed = self.setting.prefixes && !matches!(what, Posting::Read | Posting::Write);
                if buffer.is_some() {
                    assert_eq!(shown, len + if prefixed { PREFIX } else { 0 });
                }
                assert!(self.ops.iter().all(|op| op.key != key), "keys are not given out twice");
                let taken =
                    |op: &usize| matches!(self.ops[*op].state, State::InFlight | State::UsedUp | State::Claimed);
                assert!(!self.by_context(context).is_some_and(|op| taken(&op)), "two operations have one context");
                let lent = if buffer.is_some() { len } else { 0 };
                self.ops.push(Op {
                    key,
                    context,
                    what,
                    life,
                    buffer,
                    first,
                    lent,
                    state: State::InFlight,
                    reported: false,
                    cancelled: false,
                    end: None,
                    pieces: 0,
                });
            }
            Err((error, buffer)) => {
                assert!(buffer.is_none_or(|buffer| memory::drops(buffer) == 1), "it came back");
                self.is_refused(error, what, note);
            }
        }
    }

    /// The transport's note of the last post: context, first byte and length, or the refusal.
    /// `None` if no post reached it.
    fn posted_note(&mut self) -> Option<Result<(u64, usize, usize), Refusal>> {
        let notes = self.script.notes.take();
        assert!(notes.len() < 2, "a post asks once");
        notes.first().map(|note| match *note {
            Noted::Posted { refused: Some(refusal), .. } => Err(refusal),
            Noted::Posted { context, first, len, .. } => Ok((context, first, len)),
            Noted::Said(said) => panic!("a post does not poll: {said:?}"),
        })
    }

    fn is_refused(&self, error: PostError, what: Posting, note: Option<Result<(u64, usize, usize), Refusal>>) {
        let in_table = self.ops.iter().filter(|op| op.state != State::Over).count();
        let kept = self.due.iter().filter(|(_, due)| matches!(due, Due::Op(..))).count();
        match (error, note) {
            (PostError::Again, Some(Err(Refusal::Again))) => {}
            (PostError::Errno(errno), Some(Err(Refusal::Errno(refused)))) => assert_eq!(errno, refused),
            (PostError::Full | PostError::Kept, None) => {
                assert!(in_table + kept >= DEPTH || self.closed, "{in_table} and {kept} fit");
            }
            (PostError::NotGranted(caps), None) => {
                assert!(caps == Caps::MULTI_RECV && what == Posting::MultiReceive);
                assert!(self.setting.prefixes || self.setting.consumes);
            }
            (PostError::Errno(Errno::EOPNOTSUPP), None) => assert!(what.is_peek() && self.setting.prefixes),
            (error, note) => panic!("{error:?} and {note:?}"),
        }
    }

    fn fetch(&mut self, nth: u8, discard: bool, len: usize) {
        let Some(nth) = usize::from(nth).checked_rem(self.claims.len()) else { return };
        let (op, claim): (usize, Claim) = self.claims[nth];
        // The claim is posted on either endpoint.
        let Some((life, endpoint)) = self.endpoints[usize::from(len.is_multiple_of(4))].as_ref() else { return };
        let known = self.ops[op].state == State::Claimed && self.ops[op].life == *life;
        let buf = Memory::new(&[0xee; LONGEST][..len]);
        let buffer = buf.id;
        let result = if discard {
            drop(buf);
            endpoint.tagged_discard(claim)
        } else {
            endpoint.tagged_claim(claim, buf).map_err(|rejected| rejected.error)
        };
        match (result, self.posted_note()) {
            (Ok(key), Some(Ok((context, first, _)))) => {
                assert!(known && key == self.ops[op].key && context == self.ops[op].context);
                self.claims.remove(nth);
                let what = if discard { Posting::PeekDiscard } else { Posting::TaggedReceive };
                let buffer = (!discard).then_some(buffer);
                let lent = if discard { 0 } else { len };
                self.ops[op] = Op { what, buffer, first, lent, state: State::InFlight, ..self.ops[op] };
            }
            (Err(PostError::UnknownClaim), None) => assert!(!known),
            (Err(error), note) => {
                assert!(known);
                self.is_refused(error, Posting::Peek, note);
            }
            (Ok(key), note) => panic!("{key} and {note:?}"),
        }
    }

    fn say(&self, queue: bool, said: Said) {
        /// Size of the queues.
        const ROOM: usize = DEPTH + PEER_EVENTS;
        let mut queue = self.script.queues[usize::from(queue && self.setting.separate)].borrow_mut();
        if queue.len() < ROOM {
            queue.push_back(said);
        }
    }

    /// Reports an event. Contexts that are addresses follow the transport's contract: at most one
    /// event for each post. Numbers can arrive at any time.
    fn event(&mut self, queue: bool, of: Of, says: Says) {
        let choose = |nth: u8, among: Vec<usize>| Some(among[usize::from(nth).checked_rem(among.len())?]);
        let live = |op: &usize| {
            let op = &self.ops[*op];
            op.state == State::InFlight && !(self.setting.spaces && op.reported)
        };
        let op = match of {
            Of::Live(nth) => choose(nth, (0..self.ops.len()).filter(live).collect()),
            Of::Past(nth) if !self.setting.spaces => {
                choose(nth, (0..self.ops.len()).filter(|op| self.ops[*op].state != State::InFlight).collect())
            }
            _ => None,
        };
        let stranger = match of {
            // Not the address of a slot.
            Of::Nobody(context) if self.setting.spaces && context != 0 => context | 1,
            Of::Nobody(context) if self.by_context(context).is_none() => context,
            _ => 0,
        };
        let known = op.map(|op| self.ops[op]);
        let (what, first, lent) = known.map_or((Posting::Send, 1, 8), |op| (op.what, op.first, op.lent));
        let whole = if self.setting.prefixes && what.is_receive() { lent + PREFIX } else { lent };
        let flags = match says.flags {
            Flags::Usual => what.usual_flags(),
            Flags::But(bits) => what.usual_flags() ^ CompletionFlags::from_bits_retain(bits.into()),
            Flags::Any(bits) => CompletionFlags::from_bits_retain(bits),
        };
        let errno = says.error.map_or(Errno::from_raw(0), |error| match error.errno {
            Number::Truncated => Errno::ETRUNC,
            Number::Cancelled => Errno::ECANCELED,
            Number::NoMessage => Errno::ENOMSG,
            Number::Any(number) => Errno::from_raw(number.into()),
        });
        let event = Event {
            context: known.map_or(stranger, |op| op.context),
            flags,
            len: match says.len {
                Len::Lent(beyond) => whole.saturating_add_signed(beyond.into()),
                Len::Part(part) => usize::from(part) % (whole + 1),
                Len::Any(len) => usize::try_from(len).expect("64 bits"),
            },
            tag: Tag(says.tag.into()),
            overflow_or_place: match says.place {
                Place::Offset(offset) => first.wrapping_add_signed(offset.into()),
                Place::Any(place) => usize::try_from(place).expect("64 bits"),
            },
            data: ImmediateData(says.data.into()),
            errno,
            provider_errno: says.error.map_or(0, |error| error.provider_errno),
            source: says.source.map_or(FabricAddr::UNSPEC, |source| FabricAddr(source.into())),
        };
        if let Some(op) = op {
            // A multi-receive ends with the event that has the flag.
            self.ops[op].reported |= what != Posting::MultiReceive || flags.contains(CompletionFlags::MULTI_RECV);
        }
        let announced = matches!(says.error, Some(Failed { announced: true, .. }));
        self.say(queue, if announced { Said::Error(event) } else { Said::Event(event) });
    }

    /// Polls once. Returns `false` if the queue is empty.
    fn poll(&mut self, side: Side) -> bool {
        let result = match side {
            Side::Both => self.cq.poll(),
            Side::Transmit => self.cq.poll_direction(Direction::Transmit),
            Side::Receive => self.cq.poll_direction(Direction::Receive),
        };
        let ended = self.take_notes();
        match result {
            Ok(Some(completion)) => {
                match (&completion, side) {
                    (_, Side::Both) => {}
                    (Completion::Op(done), side) => {
                        let op = self.ops.iter().find(|op| op.key == done.key()).expect("it was posted");
                        assert_eq!(op.what.is_receive(), matches!(side, Side::Receive));
                    }
                    (other, side) => assert!(matches!(side, Side::Receive), "{other:?}"),
                }
                self.took(completion);
                true
            }
            Ok(None) if ended.is_some() => true,
            Ok(None) => {
                let asked = |due: &Due| match side {
                    Side::Both => true,
                    Side::Transmit => self.line(due) == Line::Transmits,
                    Side::Receive => self.line(due) != Line::Transmits,
                };
                assert!(!self.due.iter().any(|(_, due)| asked(due)), "{:?} is lost", self.due);
                let [tx, rx] = &self.script.queues;
                let (tx, rx) = (tx.borrow().is_empty(), rx.borrow().is_empty());
                match side {
                    Side::Both => assert!(tx && rx),
                    Side::Receive if self.setting.separate => assert!(rx),
                    _ => assert!(tx),
                }
                false
            }
            Err(error) => {
                self.is_reason(error, ended);
                true
            }
        }
    }

    /// Checks the reason of a failed call.
    fn is_reason(&self, error: CqError, ended: Option<Said>) {
        match error {
            CqError::Queue(errno) => assert!(matches!(ended, Some(Said::Failure(said)) if said == errno)),
            CqError::PeerEvents => {
                let peers = self.due.iter().filter(|(_, due)| self.line(due) == Line::Peers).count();
                assert!(peers >= PEER_EVENTS, "there is room for more than {peers}");
            }
            error => panic!("{error:#}"),
        }
    }

    fn wait(&mut self, nth: u8, spins: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.ops.len().min(16)) else { return };
        let op = self.ops.len() - 1 - nth;
        let result = self.cq.wait(self.ops[op].key, Spins((spins % 3).into()));
        let ended = self.take_notes();
        let state = self.ops[op].state;
        if let Ok(Some(done)) = result {
            assert_eq!(done.key(), self.ops[op].key);
            return self.done(done, false);
        }
        let due = self.due.iter().any(|(_, due)| matches!(due, Due::Op(of, _) if *of == op));
        match result {
            Ok(_) => assert!(!due && matches!(state, State::InFlight | State::UsedUp)),
            Err(CqError::UnknownKey) => assert!(!due && matches!(state, State::Over | State::Claimed)),
            Err(CqError::PiecesOut) => assert_eq!(state, State::Draining),
            Err(error) => self.is_reason(error, ended),
        }
    }

    fn wait_peek(&mut self, nth: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.ops.len().min(16)) else { return };
        let op = self.ops.len() - 1 - nth;
        let result = self.cq.wait_peek(self.ops[op].key, Spins(1));
        let ended = self.take_notes();
        let due = self.due.iter().position(|(_, due)| matches!(due, Due::Peek(of, _) if *of == op));
        match (result, due) {
            (Ok(Some(peek)), Some(due)) => {
                let (_, Due::Peek(op, wanted)) = self.due.remove(due) else { unreachable!("found above") };
                assert_eq!(peek.message().map(|message| message.map(oracle::found)), wanted);
                self.answered(op, peek);
            }
            (Ok(None), None) => assert!(self.ops[op].what.is_peek() && self.ops[op].state == State::InFlight),
            (Err(CqError::UnknownKey), None) => {
                assert!(!self.ops[op].what.is_peek() || self.ops[op].state != State::InFlight);
            }
            (Err(error), _) => self.is_reason(error, ended),
            (result, due) => panic!("{result:?} for {due:?}"),
        }
    }

    fn drop_piece(&mut self, nth: usize) {
        let (op, piece) = self.pieces.swap_remove(nth);
        drop(piece);
        self.ops[op].pieces -= 1;
        self.batch += 1;
        self.drained(op);
    }

    fn cancel(&mut self, nth: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.ops.len().min(16)) else { return };
        let op = self.ops.len() - 1 - nth;
        let Op { key, life, what, state, .. } = self.ops[op];
        for place in 0..self.endpoints.len() {
            let Some((own, endpoint)) = &self.endpoints[place] else { continue };
            let result = endpoint.cancel(key);
            let lent = *own == life && !what.is_peek();
            match state {
                State::InFlight if lent => {
                    assert_eq!(result, Ok(()));
                    self.ops[op].cancelled = true;
                }
                State::UsedUp if lent => {
                    assert_eq!(result, Ok(()));
                    self.batch += 1;
                    self.cut_off(op, Errno::ECANCELED);
                }
                _ => assert_eq!(result, Err(Errno::ENOENT)),
            }
        }
    }

    /// Completes every operation that can complete, then closes the endpoints.
    pub(super) fn finish(mut self) {
        self.script.refusal.take();
        self.drain();
        self.close(false);
        self.close(true);
        self.drain();
        assert!(self.ops.iter().all(|op| op.state == State::Over), "a closed endpoint has nothing in flight");
        assert_eq!(self.cq.in_flight(), 0);
    }

    fn drain(&mut self) {
        loop {
            while self.poll(Side::Both) {}
            if self.pieces.is_empty() {
                return;
            }
            while !self.pieces.is_empty() {
                self.drop_piece(0);
            }
        }
    }
}

fn errno_of(number: u8) -> Errno {
    Errno::from_raw(i32::from(number) + 1)
}
