//! Who gets which message, by definition.
//!
//! The oldest receive that accepts a message takes it, and a receive takes the oldest message that it accepts. Both
//! sides rank by age, so who ends up with whom does not depend on when anything is looked at: it is what a loop over the
//! messages, oldest first, finds when each takes the oldest free receive that accepts it. Receives and offers that were
//! cancelled have met nobody and are left out.
//!
//! So what was posted and what was reported is compared at the end: for an endpoint that is still open, exactly these
//! pairs; for one that was closed, no others.

use std::collections::BTreeMap;

use loom_core::vocabulary::Tag;

use super::EAGER;
use super::record::{End, Fate, Got, Record};

impl Record {
    /// Compares what was reported with what the definition of matching says.
    pub fn check(&self) {
        for life in 0..self.lives.len() {
            let mut expected: BTreeMap<usize, usize> = BTreeMap::new();
            for (number, message) in self.messages.iter().enumerate() {
                if message.to != life || matches!(message.fate, Fate::Revoked | Fate::Refused) {
                    continue;
                }
                let taker = self.receives.iter().enumerate().find(|(number, receive)| {
                    receive.at == life
                        && receive.end != End::Cancelled
                        && !expected.contains_key(number)
                        && receive.from.is_none_or(|from| from == message.from)
                        && match (receive.tag, message.tag) {
                            (None, None) => true,
                            (Some(wanted), Some(tag)) => wanted.accepts(Tag(tag)),
                            _ => false,
                        }
                });
                if let Some((taker, _)) = taker {
                    expected.insert(taker, number);
                }
            }
            let open = self.lives[life].open;
            for (number, receive) in self.receives.iter().enumerate().filter(|(_, receive)| receive.at == life) {
                let expected = expected.get(&number).map(|message| &self.messages[*message]);
                match (&receive.end, expected) {
                    (End::Got(got), Some(message)) => {
                        let kept = message.bytes.len().min(receive.len);
                        let overflow = message.bytes.len() - kept;
                        let from = self.lives[message.from].addr;
                        let wanted = Got {
                            tag: message.tag,
                            data: message.data,
                            bytes: message.bytes[..kept].to_vec(),
                            overflow,
                            source: (overflow == 0).then_some(from),
                        };
                        assert_eq!(*got, wanted, "receive {number}");
                        if message.bytes.len() > EAGER && self.lives[message.from].open {
                            assert_eq!(message.fate, Fate::Copied);
                        }
                    }
                    (End::Got(got), None) => panic!("receive {number} made up {got:?}"),
                    (End::Waiting, Some(message)) => assert!(!open, "receive {number} waits for {:?}", message.bytes),
                    (End::Closed | End::Waiting, _) | (End::Cancelled, None) => {}
                    (End::Cancelled, Some(_)) => unreachable!("left out above"),
                }
            }
        }
    }
}
