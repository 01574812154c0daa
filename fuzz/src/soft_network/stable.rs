//! Invariant of matching where faults leave the order or arrival of messages of several senders
//! open: no message and no receive both prefer each other to their match.
//!
//! A receive prefers an older message of the same sender to the one that it took, and any message
//! to no match. A message prefers an older receive. If all messages of an endpoint come from one
//! sender, this leaves one outcome.
//!
//! The first byte identifies a message ([`NUMBERED`](super::world::NUMBERED)). If no bytes of a
//! message are shown, all candidates are left out of account.

use loom_core::vocabulary::Tag;

use super::got::Got;
use super::record::{End, Fate, Look, Message, Moment, Receive, Record};
use super::step;
use super::world::NUMBERED;

/// Matches of messages.
struct Account {
    /// Post time of the receive that took it.
    taken: Vec<Option<usize>>,
    /// A receive without a report may have taken it.
    perhaps: Vec<bool>,
}

impl Record {
    pub fn check_stable(&self) {
        let count = self.messages.len();
        let mut account = Account { taken: vec![None; count], perhaps: vec![false; count] };
        let mut posted = vec![0; self.receives.len()];
        for (moment, what) in self.moments.iter().enumerate() {
            if let Moment::Received(receive) = what {
                posted[*receive] = moment;
            }
        }
        let takes: Vec<Vec<usize>> = self
            .receives
            .iter()
            .zip(&posted)
            .map(|(receive, moment)| self.taken_by(receive, *moment, &mut account))
            .collect();
        self.looks.iter().for_each(|look| self.taken_by_look(look, &mut account));

        for (number, message) in self.messages.iter().enumerate() {
            let taken = account.taken[number];
            if account.perhaps[number] || taken.is_none() && !self.is_for_certain(message) {
                continue;
            }
            let copied = message.fate == Fate::Copied && self.lives[message.to].open && self.is_driven(message.to);
            assert!(!copied || taken.is_some(), "nobody has taken message {number}");
            for (older, receive) in self.receives.iter().enumerate() {
                if receive.accepts(message) && taken.is_none_or(|taken| posted[older] < taken) {
                    let waits = receive.end == End::Waiting && self.is_driven(receive.at);
                    assert!(!waits, "receive {older} waits for message {number}");
                    let mut later = takes[older].iter().filter(|other| **other > number);
                    let overtaken = later.find(|other| self.messages[**other].from == message.from);
                    assert_eq!(overtaken, None, "of receive {older}, instead of {number}");
                }
            }
        }
    }

    /// Returns `true` if an untaken message certainly exists.
    fn is_for_certain(&self, message: &Message) -> bool {
        let told = match message.fate {
            // It may have been lost without a report.
            Fate::Sent => self.is_driven(message.from) && self.lives[message.from].open,
            Fate::Copied => true,
            Fate::Revoked | Fate::Refused | Fate::Lost | Fate::Unsure => false,
        };
        told && self.lives[message.to].open
    }

    /// Returns the identifiable messages that a receive has taken.
    fn taken_by(&self, receive: &Receive, posted: usize, account: &mut Account) -> Vec<usize> {
        let mut left = receive.len;
        let mut numbers: Vec<usize> = Vec::new();
        for got in &receive.got {
            match number(got) {
                Some(number) => {
                    let message = self.messages.get(number).expect("somebody has sent it");
                    assert!(receive.accepts(message), "message {number} is not wanted");
                    self.assert_shows(got, message, left, !receive.multi);
                    self.arrived(number, posted, account);
                    let before =
                        numbers.iter().all(|before| *before < number || self.messages[*before].from != message.from);
                    assert!(before, "message {number} comes after later ones of its sender");
                    numbers.push(number);
                }
                None => {
                    let len = got.failed.unwrap_or(left + got.overflow);
                    let told = (len, got.tag, got.data);
                    self.took_one_of(told, |message| receive.accepts(message), account);
                }
            }
            left -= got.used().min(left);
        }
        let silent = receive.end == End::Closed || !receive.is_over() && !self.is_driven(receive.at);
        if silent {
            self.took_one_of_all(|message| receive.accepts(message), account);
        }
        numbers
    }

    fn arrived(&self, number: usize, when: usize, account: &mut Account) {
        let message = &self.messages[number];
        assert!(
            !matches!(message.fate, Fate::Lost | Fate::Revoked | Fate::Refused),
            "message {number} was {:?}, and has arrived",
            message.fate
        );
        assert_eq!(account.taken[number].replace(when), None, "message {number} has arrived twice");
    }

    /// Records a peek, which finds an existing message. Its claim or discard removes the message.
    fn taken_by_look(&self, look: &Look, account: &mut Account) {
        let wants = |message: &Message| {
            message.to == look.at
                && look.from.is_none_or(|from| from == message.from)
                && message.tag.is_some_and(|tag| look.tag.accepts(Tag(tag)))
        };
        let takes = look.what != step::Look::Only;
        match look.answer {
            Some(Some((len, tag, data))) => {
                let mut unheeded = Account { taken: account.taken.clone(), perhaps: account.perhaps.clone() };
                let account = if takes { account } else { &mut unheeded };
                self.took_one_of((len, Some(tag), data), wants, account);
                if let Some((room, Some(got))) = &look.fetched
                    && let Some(number) = number(got)
                {
                    self.assert_shows(got, &self.messages[number], *room, true);
                    assert!(wants(&self.messages[number]));
                    self.arrived(number, look.moment, account);
                }
            }
            Some(None) => {}
            None if takes => self.took_one_of_all(wants, account),
            None => {}
        }
    }

    /// Records that one of several messages was seen.
    fn took_one_of(
        &self,
        (len, tag, data): (usize, Option<u64>, Option<u64>),
        wants: impl Fn(&Message) -> bool,
        account: &mut Account,
    ) {
        let alike = |message: &Message| {
            (message.bytes.len(), message.tag, message.data) == (len, tag, data)
                && message.fate != Fate::Lost
                && wants(message)
        };
        assert!(self.messages.iter().any(alike), "nobody has sent {len} bytes, with {tag:?} and {data:?}");
        self.took_one_of_all(alike, account);
    }

    fn took_one_of_all(&self, alike: impl Fn(&Message) -> bool, account: &mut Account) {
        for (message, perhaps) in self.messages.iter().zip(&mut account.perhaps) {
            *perhaps |= alike(message);
        }
    }
}

/// Number of the message that a report shows, if it shows bytes.
fn number(got: &Got) -> Option<usize> {
    let is_it = |number: &usize| (number * NUMBERED) as u8 == got.bytes[0];
    (!got.bytes.is_empty()).then(|| (0..256).find(is_it)).flatten()
}
