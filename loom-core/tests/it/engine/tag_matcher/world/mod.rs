//! The tag matcher beside lists that are searched from their start.

#![allow(unreachable_pub, reason = "the fuzz target uses it, too")]

mod colliding;

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::tag_matcher::{Envelope, MessageId, ReceiveId, TagMatcher, TagMatcherAttr, Want};
use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};

pub use colliding::Colliding;

/// Input to a matcher. Numbers count existing entries, from the oldest on.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A message arrives. A receive takes it, or the message waits. A multi-receive stays posted.
    Arrive { envelope: Envelope, multi: bool },
    /// A receive is posted. It takes a message, or waits.
    Post(Want),
    /// A lookup of a message. A claim hides it, and removes the oldest of several claimed ones.
    Peek { want: Want, claim: bool },
    /// A posted receive is cancelled.
    Cancel { nth: usize },
    /// A sender revokes its message before a receive takes it.
    Revoke { nth: usize },
    /// Names of removed entries.
    Stale { nth: usize },
}

/// A matcher and its expected contents, oldest first.
pub struct World {
    matcher: TagMatcher<Global>,
    attr: TagMatcherAttr,
    posted: Vec<(ReceiveId, Want)>,
    waiting: Vec<(MessageId, Envelope)>,
    claimed: Vec<(MessageId, Envelope)>,
    gone: (Vec<ReceiveId>, Vec<MessageId>),
}

/// Checks `(sent ^ wanted) & !ignore == 0` and the source, independently of the matcher.
fn accepts(want: &Want, envelope: &Envelope) -> bool {
    let compared = !want.tag.ignore;
    want.tag.tag.0 & compared == envelope.tag.0 & compared
        && [FabricAddr::UNSPEC, envelope.source].contains(&want.source)
}

impl World {
    pub fn new(attr: TagMatcherAttr) -> Self {
        let matcher = TagMatcher::new_in(attr, Global).expect("the sizes are small");
        World { matcher, attr, posted: vec![], waiting: vec![], claimed: vec![], gone: (vec![], vec![]) }
    }

    pub fn apply(&mut self, action: Action) {
        match action {
            Action::Arrive { envelope, multi } => self.arrive(envelope, multi),
            Action::Post(want) => self.post(want),
            Action::Peek { want, claim } => {
                let found = self.matcher.message_for(&want);
                let expected = self.waiting.iter().position(|(_, envelope)| accepts(&want, envelope));
                assert_eq!(found, expected.map(|at| self.waiting[at].0), "a peek for {want:?}");
                if let Some(at) = expected.filter(|_| claim) {
                    let message = self.waiting.remove(at);
                    assert!(self.matcher.claim_message(message.0), "it waits");
                    assert!(!self.matcher.claim_message(message.0), "it was claimed just now");
                    self.claimed.push(message);
                }
                if self.claimed.len() > 2 {
                    self.take_claimed();
                }
            }
            Action::Cancel { nth } => {
                if let Some(at) = nth.checked_rem(self.posted.len()) {
                    self.take_receive(at);
                }
            }
            Action::Revoke { nth } => {
                if let Some(at) = nth.checked_rem(self.waiting.len()) {
                    self.take_message(at);
                }
            }
            Action::Stale { nth } => {
                let (receives, messages) = &self.gone;
                if let Some(at) = nth.checked_rem(receives.len()) {
                    assert_eq!(self.matcher.remove_receive(receives[at]), None, "it was removed before");
                }
                if let Some(at) = nth.checked_rem(messages.len()) {
                    assert_eq!(self.matcher.remove_message(messages[at]), None, "it was removed before");
                    assert!(!self.matcher.claim_message(messages[at]), "it was removed before");
                }
            }
        }
        assert_eq!((self.matcher.posted(), self.matcher.waiting()), (self.posted.len(), self.messages()));
    }

    fn messages(&self) -> usize {
        self.waiting.len() + self.claimed.len()
    }

    fn arrive(&mut self, envelope: Envelope, multi: bool) {
        let found = self.matcher.receive_for(&envelope);
        let expected = self.posted.iter().position(|(_, want)| accepts(want, &envelope));
        assert_eq!(found, expected.map(|at| self.posted[at].0), "a receive for {envelope:?}");
        match expected {
            Some(at) if !multi => self.take_receive(at),
            Some(_) => {}
            None => match self.matcher.keep(envelope) {
                Some(id) => self.waiting.push((id, envelope)),
                None => assert_eq!(self.messages(), self.attr.messages as usize),
            },
        }
    }

    fn post(&mut self, want: Want) {
        let found = self.matcher.message_for(&want);
        let expected = self.waiting.iter().position(|(_, envelope)| accepts(&want, envelope));
        assert_eq!(found, expected.map(|at| self.waiting[at].0), "a message for {want:?}");
        match expected {
            Some(at) => self.take_message(at),
            None => match self.matcher.post(want) {
                Some(id) => self.posted.push((id, want)),
                None => assert_eq!(self.posted.len(), self.attr.receives as usize),
            },
        }
    }

    fn take_receive(&mut self, at: usize) {
        let (id, want) = self.posted.remove(at);
        // The matcher does not keep ignored bits.
        let tag = TagMatch { tag: Tag(want.tag.tag.0 & !want.tag.ignore), ..want.tag };
        assert_eq!(self.matcher.remove_receive(id), Some(Want { tag, ..want }));
        assert_eq!(self.matcher.remove_receive(id), None, "it was removed just now");
        self.gone.0.push(id);
    }

    fn take_message(&mut self, at: usize) {
        let message = self.waiting.remove(at);
        self.remove(message);
    }

    fn take_claimed(&mut self) {
        let message = self.claimed.remove(0);
        self.remove(message);
    }

    fn remove(&mut self, (id, envelope): (MessageId, Envelope)) {
        assert_eq!(self.matcher.remove_message(id), Some(envelope));
        assert_eq!(self.matcher.remove_message(id), None, "it was removed just now");
        self.gone.1.push(id);
    }

    /// Removes all entries, in their order.
    pub fn close(mut self) {
        let found: Vec<_> = self.matcher.messages().collect();
        assert_eq!(found, self.waiting);
        // A message still finds each receive that accepts it.
        while let Some((_, want)) = self.posted.first() {
            let envelope = Envelope { tag: want.tag.tag, source: want.source };
            let (id, _) = *self.posted.iter().find(|(_, want)| accepts(want, &envelope)).expect("its own receive");
            assert_eq!(self.matcher.receive_for(&envelope), Some(id));
            let at = self.posted.iter().position(|(posted, _)| *posted == id).expect("just found");
            self.take_receive(at);
        }
        let everything = Want { tag: TagMatch::ANY, source: FabricAddr::UNSPEC };
        while !self.waiting.is_empty() {
            assert_eq!(self.matcher.message_for(&everything), Some(self.waiting[0].0));
            self.take_message(0);
        }
        assert_eq!(self.matcher.message_for(&everything), None);
        while !self.claimed.is_empty() {
            self.take_claimed();
        }
        assert_eq!(self.matcher.waiting(), 0);
        assert_eq!(self.matcher.receive_for(&Envelope { tag: Tag(0), source: FabricAddr::UNSPEC }), None);
    }
}
