//! A story of three nodes, compared with a model that searches lists: matching, completions and
//! refused posts.

pub(crate) mod nodes;

use loom_core::error::PostError;
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};
use loom_tagged::{Source, TaggedAttr, TaggedClaim, TaggedEvent, TaggedKey};

use self::nodes::{FITS, Nodes, SMALL, link, pattern, room, with_nodes};

pub(crate) const NODES: usize = 3;
const ATTR: TaggedAttr = TaggedAttr { operations: 10, ..SMALL };

/// Action of a story. Numbers select among the existing operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Sends of one node may be in flight together.
    Send {
        from: usize,
        to: usize,
        tag: u64,
        len: usize,
        data: Option<u64>,
    },
    Receive {
        at: usize,
        from: Option<usize>,
        tag: u64,
        ignore: u64,
        room: usize,
    },
    Peek {
        at: usize,
        from: Option<usize>,
        tag: u64,
        ignore: u64,
        then: Then,
    },
    Fetch {
        at: usize,
        nth: usize,
        room: usize,
    },
    Discard {
        at: usize,
        nth: usize,
    },
    CancelReceive {
        at: usize,
        nth: usize,
    },
    CancelSend {
        at: usize,
        nth: usize,
    },
    Settle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Nothing,
    Claim,
    Discard,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    from: usize,
    to: usize,
    key: TaggedKey,
    tag: u64,
    data: Option<u64>,
    len: usize,
    seed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Receive {
    key: TaggedKey,
    from: Option<usize>,
    tag: u64,
    ignore: u64,
    room: usize,
}

fn accepts(from: Option<usize>, tag: u64, ignore: u64, message: &Message) -> bool {
    tag & !ignore == message.tag & !ignore && from.is_none_or(|from| from == message.from)
}

#[derive(Clone, Copy, Debug)]
enum End {
    Sent(Message),
    Received(Message, Receive),
    Cancelled,
}

#[derive(Default)]
struct Side {
    posted: Vec<Receive>,
    waiting: Vec<Message>,
    claimed: Vec<(TaggedClaim, Message)>,
    ends: Vec<(TaggedKey, End)>,
}

struct World<'a, 'w> {
    nodes: &'a mut Nodes<'w>,
    sides: [Side; NODES],
    under_way: Vec<Message>,
    seed: usize,
}

impl World<'_, '_> {
    fn source(&self, at: usize, from: Option<usize>) -> Source {
        from.map_or(Source::Any, |from| self.nodes.ids[link(at, from)].into())
    }

    fn other(at: usize, number: usize) -> usize {
        (at + 1 + number % (NODES - 1)) % NODES
    }

    /// Number of operations of a node at rest: receives without a message, and sends with an
    /// unrequested rest.
    fn operations(&self, at: usize) -> usize {
        let own = |message: &&Message| message.from == at && message.len > FITS;
        let waiting = self.sides.iter().flat_map(|side| &side.waiting).filter(own).count();
        let claimed = self.sides.iter().flat_map(|side| &side.claimed).map(|(_, message)| message).filter(own).count();
        self.sides[at].posted.len() + waiting + claimed
    }

    /// Number of messages that hold packets of `to`.
    fn held(&self, from: usize, to: usize) -> usize {
        let side = &self.sides[to];
        let claimed = side.claimed.iter().map(|(_, message)| message);
        side.waiting.iter().chain(claimed).filter(|message| message.from == from).count()
    }

    fn settle(&mut self) {
        for message in std::mem::take(&mut self.under_way) {
            let side = &mut self.sides[message.to];
            let accepting = |receive: &Receive| accepts(receive.from, receive.tag, receive.ignore, &message);
            match side.posted.iter().position(accepting) {
                Some(at) => {
                    let receive = side.posted.remove(at);
                    self.matched(message, receive);
                }
                None => {
                    side.waiting.push(message);
                    if message.len <= FITS {
                        self.sides[message.from].ends.push((message.key, End::Sent(message)));
                    }
                }
            }
        }
        self.nodes.settle();
        for at in 0..NODES {
            let mut ends = std::mem::take(&mut self.sides[at].ends);
            for event in self.nodes.events(at) {
                let TaggedEvent::Op(done) = event else { panic!("{event:?}") };
                let expected = ends.iter().position(|(key, _)| *key == done.key());
                let (_, end) = ends.swap_remove(expected.unwrap_or_else(|| panic!("{done:?} of node {at}, too early")));
                let over = done.link();
                let (bytes, result) = done.into_parts();
                match end {
                    End::Cancelled => assert_eq!(result.unwrap_err().errno, Errno::ECANCELED),
                    End::Sent(message) => {
                        assert_eq!(result.unwrap().len, message.len);
                        assert_eq!(bytes, pattern(message.len, message.seed));
                    }
                    End::Received(message, receive) => {
                        let fits = message.len.min(receive.room);
                        let (len, tag, data, overflow) = match result {
                            Ok(transfer) => (transfer.len, transfer.tag.unwrap(), transfer.data, 0),
                            Err(error) => {
                                assert_eq!(error.errno, Errno::ETRUNC);
                                (
                                    error.len.unwrap(),
                                    error.tag,
                                    message.data.map(|_| error.data),
                                    error.overflow.unwrap(),
                                )
                            }
                        };
                        assert_eq!((len, overflow), (fits, message.len - fits));
                        assert_eq!((tag, data), (Tag(message.tag), message.data.map(ImmediateData)));
                        assert_eq!(over, Some(self.nodes.ids[link(at, message.from)]));
                        assert_eq!(bytes[..fits], pattern(message.len, message.seed)[..fits]);
                        assert!(bytes[fits..].iter().all(|byte| *byte == 0xee));
                    }
                }
            }
            assert!(ends.is_empty(), "of node {at} has not ended: {ends:?}");
            let layer = &self.nodes.nodes[at].layer;
            assert_eq!((layer.waiting(), layer.in_flight()), (self.sides[at].waiting.len(), self.operations(at)));
        }
    }

    /// Records the completions of both sides.
    fn matched(&mut self, message: Message, receive: Receive) {
        self.sides[message.to].ends.push((receive.key, End::Received(message, receive)));
        self.sides[message.from].ends.push((message.key, End::Sent(message)));
    }

    /// Records a match of a message that had waited. The send of an eager one has already
    /// completed.
    fn matched_late(&mut self, message: Message, receive: Receive) {
        self.matched(message, receive);
        if message.len <= FITS {
            self.sides[message.from].ends.pop();
        }
    }

    /// Records the completion of a send that the peer discarded.
    fn thrown_away(&mut self, message: Message) {
        if message.len > FITS {
            self.sides[message.from].ends.push((message.key, End::Sent(message)));
        }
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Send { from, to, tag, len, data } => {
                if self.under_way.first().is_some_and(|other| other.from != from) {
                    self.settle();
                }
                self.send(from, Self::other(from, to), tag, len, data);
            }
            Action::Receive { at, from, tag, ignore, room } => {
                let from = from.map(|from| Self::other(at, from));
                self.receive(at, from, tag, ignore, room);
            }
            Action::Peek { at, from, tag, ignore, then } => {
                let from = from.map(|from| Self::other(at, from));
                self.peek(at, from, tag, ignore, then);
            }
            Action::Fetch { at, nth, room } => self.fetch(at, nth, room),
            Action::Discard { at, nth } => {
                self.settle();
                if self.sides[at].claimed.is_empty() {
                    return;
                }
                let nth = nth % self.sides[at].claimed.len();
                let (claim, message) = self.sides[at].claimed.remove(nth);
                assert_eq!(self.nodes.nodes[at].layer.tagged_discard(claim), Ok(()));
                assert_eq!(self.nodes.nodes[at].layer.tagged_discard(claim), Err(PostError::UnknownClaim));
                self.thrown_away(message);
            }
            Action::CancelReceive { at, nth } => {
                if self.sides[at].posted.is_empty() {
                    return;
                }
                let nth = nth % self.sides[at].posted.len();
                let receive = self.sides[at].posted.remove(nth);
                self.nodes.nodes[at].layer.cancel(receive.key).unwrap();
                self.sides[at].ends.push((receive.key, End::Cancelled));
            }
            Action::CancelSend { at, nth } => {
                self.settle();
                let own = |message: &&Message| message.from == at && message.len > FITS;
                let waiting: Vec<_> = self.sides.iter().flat_map(|side| &side.waiting).filter(own).copied().collect();
                if waiting.is_empty() {
                    return;
                }
                let message = waiting[nth % waiting.len()];
                self.nodes.nodes[at].layer.cancel(message.key).unwrap();
                self.sides[message.to].waiting.retain(|other| other.seed != message.seed);
                self.sides[at].ends.push((message.key, End::Cancelled));
                self.settle();
            }
            Action::Settle => self.settle(),
        }
    }

    fn send(&mut self, from: usize, to: usize, tag: u64, len: usize, data: Option<u64>) {
        let buf = || pattern(len, self.seed);
        let mut post = || match data {
            Some(data) => self.nodes.send_data(from, to, tag, data, buf()),
            None => self.nodes.send(from, to, tag, buf()),
        };
        let mut posted = post();
        if posted.is_err() {
            // At rest the model predicts the refusal.
            self.settle();
            let expected = match (self.operations(from), self.held(from, to)) {
                (10.., _) => Some(PostError::Full),
                (_, 4..) => Some(PostError::Again),
                _ => None,
            };
            let buf = pattern(len, self.seed);
            posted = match data {
                Some(data) => self.nodes.send_data(from, to, tag, data, buf),
                None => self.nodes.send(from, to, tag, buf),
            };
            assert_eq!(posted.err(), expected);
        }
        if let Ok(key) = posted {
            self.under_way.push(Message { from, to, key, tag, data, len, seed: self.seed });
            self.seed += 1;
        }
    }

    fn receive(&mut self, at: usize, from: Option<usize>, tag: u64, ignore: u64, size: usize) {
        let source = self.source(at, from);
        let want = TagMatch { tag: Tag(tag), ignore };
        let mut posted = self.nodes.nodes[at].layer.tagged_recv(source, want, room(size));
        if posted.is_err() {
            self.settle();
            posted = self.nodes.nodes[at].layer.tagged_recv(source, want, room(size));
            let is_full = self.operations(at) >= 10;
            assert_eq!(posted.as_ref().err().map(|rejected| rejected.error), is_full.then_some(PostError::Full));
        }
        let Ok(key) = posted else { return };
        let receive = Receive { key, from, tag, ignore, room: size };
        let side = &mut self.sides[at];
        match side.waiting.iter().position(|message| accepts(from, tag, ignore, message)) {
            Some(nth) => {
                let message = side.waiting.remove(nth);
                self.matched_late(message, receive);
            }
            None => side.posted.push(receive),
        }
    }

    fn peek(&mut self, at: usize, from: Option<usize>, tag: u64, ignore: u64, then: Then) {
        let (source, want) = (self.source(at, from), TagMatch { tag: Tag(tag), ignore });
        let side = &mut self.sides[at];
        let expected = side.waiting.iter().position(|message| accepts(from, tag, ignore, message));
        let layer = &mut self.nodes.nodes[at].layer;
        let mut claimed = None;
        let found = match then {
            Then::Nothing => layer.tagged_peek(source, want),
            Then::Discard => layer.tagged_peek_discard(source, want),
            Then::Claim => layer.tagged_peek_claim(source, want).map(|(found, claim)| {
                claimed = Some(claim);
                found
            }),
        };
        let message = expected.map(|nth| side.waiting[nth]);
        assert_eq!(
            found.map(|found| (found.link, found.tag, found.len, found.data)),
            message.map(|message| {
                let data = message.data.map(ImmediateData);
                (self.nodes.ids[link(at, message.from)], Tag(message.tag), message.len as u64, data)
            })
        );
        let (Some(nth), Then::Claim | Then::Discard) = (expected, then) else { return };
        let message = side.waiting.remove(nth);
        match claimed {
            Some(claim) => side.claimed.push((claim, message)),
            None => self.thrown_away(message),
        }
    }

    fn fetch(&mut self, at: usize, nth: usize, size: usize) {
        self.settle();
        if self.sides[at].claimed.is_empty() {
            return;
        }
        let nth = nth % self.sides[at].claimed.len();
        let (claim, message) = self.sides[at].claimed[nth];
        match self.nodes.nodes[at].layer.tagged_claim(claim, room(size)) {
            Ok(key) => {
                self.sides[at].claimed.remove(nth);
                self.matched_late(message, Receive { key, from: None, tag: 0, ignore: 0, room: size });
            }
            Err(rejected) => {
                assert_eq!((rejected.error, self.operations(at)), (PostError::Full, 10));
                assert_eq!(rejected.value, room(size));
            }
        }
    }
}

/// Plays a story. With `shuffled`, packets arrive in an order derived from the number.
pub(crate) fn play(shuffled: Option<usize>, story: impl IntoIterator<Item = Action>) {
    with_nodes(NODES, ATTR, shuffled, |nodes| {
        let mut world = World { nodes, sides: Default::default(), under_way: vec![], seed: 0 };
        for action in story {
            world.apply(action);
        }
        world.settle();
    });
}
