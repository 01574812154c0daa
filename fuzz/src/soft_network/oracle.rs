//! Matching by definition.
//!
//! The oldest receive that accepts a message takes it, and a receive takes the oldest message that
//! it accepts. Both sides rank by age, so matching does not depend on the time of progress. The
//! oracle replays all posts in their order, as if each took effect at once. It uses hindsight:
//! cancelled receives and offers are left out, and a multi-receive that ended early has taken only
//! its reported messages. A peek sees all messages that were sent before it.
//!
//! The final comparison of posts and reports requires exactly this of an open endpoint, and no
//! other matches of a closed one.

use loom_core::vocabulary::Tag;

use super::got::Got;
use super::record::{End, Fate, Look, Message, Moment, Receive, Record};
use super::{EAGER, MIN_LEFT, step};

/// State of a message in this account.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    NotSent,
    /// Waits for a receive.
    Unexpected,
    /// Taken by this receive.
    Taken,
    Claimed,
}

/// Receive in this account: its messages, and the rest of a multi-receive.
#[derive(Clone, Default)]
struct Taking {
    messages: Vec<usize>,
    left: usize,
    full: bool,
}

impl Record {
    /// Compares the reports with the definition of matching.
    pub fn check(&self) {
        if !self.faults.leave_matching_alone() {
            return self.check_stable();
        }
        let mut places = vec![Place::NotSent; self.messages.len()];
        let mut taking = vec![Taking { full: true, ..Taking::default() }; self.receives.len()];
        for moment in &self.moments {
            match *moment {
                Moment::Sent(number) => {
                    let message = &self.messages[number];
                    let wants = |receive: &usize| !taking[*receive].full && self.receives[*receive].accepts(message);
                    let taker = (0..self.receives.len()).find(wants).filter(|_| message.is_matched());
                    places[number] = Place::Unexpected;
                    if let Some(taker) = taker {
                        places[number] = Place::Taken;
                        self.take(&mut taking[taker], taker, number);
                    }
                }
                Moment::Received(number) => {
                    let receive = &self.receives[number];
                    let met_nobody =
                        receive.is_over() && receive.got.is_empty() && (receive.multi || receive.end == End::Cancelled);
                    taking[number] = Taking { messages: Vec::new(), left: receive.len, full: met_nobody };
                    for (message, told) in self.messages.iter().enumerate().take(receive.sent_before) {
                        let free = places[message] == Place::Unexpected && told.is_matched();
                        if !taking[number].full && free && receive.accepts(told) {
                            places[message] = Place::Taken;
                            self.take(&mut taking[number], number, message);
                        }
                    }
                }
                Moment::Looked(look) => self.check_look(&self.looks[look], &mut places),
            }
        }
        for (number, (receive, taking)) in self.receives.iter().zip(&taking).enumerate() {
            self.compare(number, receive, &taking.messages);
        }
        for (number, (message, place)) in self.messages.iter().zip(&places).enumerate() {
            let open = self.lives[message.to].open && self.lives[message.from].open;
            if message.bytes.len() > EAGER {
                let (told, taken) = (message.fate == Fate::Copied, *place == Place::Taken);
                assert!(!told || *place != Place::Unexpected, "nobody wanted message {number}");
                assert!(told || !taken || !open, "message {number} was taken, and its sender was not told");
            }
        }
    }

    fn take(&self, taking: &mut Taking, number: usize, message: usize) {
        let receive = &self.receives[number];
        taking.messages.push(message);
        taking.full = true;
        if receive.multi {
            taking.left -= self.messages[message].bytes.len().min(taking.left);
            let ended_early = receive.is_over() && taking.messages.len() >= receive.got.len();
            taking.full = taking.left < MIN_LEFT || ended_early;
        }
    }

    /// Checks that a peek finds the oldest matching message that no receive has taken.
    fn check_look(&self, look: &Look, places: &mut [Place]) {
        let wanted = |(number, message): &(usize, &Message)| {
            places[*number] == Place::Unexpected
                && message.to == look.at
                && look.from.is_none_or(|from| from == message.from)
                && message.tag.is_some_and(|tag| look.tag.accepts(Tag(tag)))
                // A withdrawn message exists until its withdrawal.
                && (message.fate != Fate::Revoked || message.gone_at.is_none_or(|gone| gone > look.moment))
        };
        let oldest = self.messages.iter().enumerate().take(look.sent_before).find(wanted);
        let expected = oldest.map(|(_, message)| (message.bytes.len(), message.tag.expect("it has one"), message.data));
        if let Some(answer) = look.answer {
            assert_eq!(answer, expected, "a look at {}", look.at);
        }
        let Some((number, message)) = oldest else { return };
        match look.what {
            step::Look::Only => {}
            step::Look::Discard => places[number] = Place::Taken,
            step::Look::Claim => places[number] = Place::Claimed,
        }
        match &look.fetched {
            Some((_, None)) => assert_eq!(message.fate, Fate::Revoked, "a claimed message is there"),
            Some((room, Some(got))) => self.assert_shows(got, message, *room, true),
            None => {}
        }
    }

    /// Checks the report of a message for a receive of `room` bytes. A failed receive may show the
    /// whole message.
    pub fn assert_shows(&self, got: &Got, message: &Message, room: usize, shows_part: bool) {
        let kept = message.bytes.len().min(room);
        let overflow = message.bytes.len() - kept;
        let shown = shows_part || overflow == 0 && got.failed.is_none();
        let bytes = if shown { message.bytes[..kept].to_vec() } else { Vec::new() };
        let told = overflow == 0 && got.failed.is_none() && !self.hides_sources(message.to);
        let source = told.then_some(self.lives[message.from].addr);
        let failed = got.failed.map(|_| message.bytes.len());
        assert_eq!(*got, Got { tag: message.tag, data: message.data, bytes, overflow, source, failed });
    }

    pub fn hides_sources(&self, life: usize) -> bool {
        self.faults.hides_sources(self.lives[life].place)
    }

    fn compare(&self, number: usize, receive: &Receive, expected: &[usize]) {
        let open = self.lives[receive.at].open;
        let mut left = receive.len;
        for (nth, message) in expected.iter().enumerate() {
            let message = &self.messages[*message];
            match receive.got.get(nth) {
                // A message beyond the rest of a multi-receive shows no bytes.
                Some(got) => self.assert_shows(got, message, left, !receive.multi),
                None => assert!(!open, "receive {number} waits for {:?}", message.bytes),
            }
            left -= message.bytes.len().min(left);
        }
        assert!(receive.got.len() <= expected.len(), "receive {number} made up {:?}", receive.got.last());
        if receive.multi && receive.end == End::Over {
            assert!(left < MIN_LEFT, "receive {number} ended with {left} bytes left");
        }
    }
}

impl Message {
    /// Returns `true` if receives can match the message: it was not withdrawn, and its receiver did
    /// not close before.
    fn is_matched(&self) -> bool {
        !matches!(self.fate, Fate::Revoked | Fate::Refused)
    }
}
