//! Peeks, claims and discards.

use loom_core::completion::Peek;
use loom_core::error::PostError;
use loom_core::vocabulary::{Errno, TagMatch};

use super::record::{Look, Moment, What};
use super::world::World;
use super::{EAGER, ENDPOINTS, step};
use crate::memory::Memory;

impl World<'_> {
    pub fn peek(&mut self, at: u8, from: Option<u8>, tag: step::Wanted, what: step::Look) {
        let from = from.map(|from| self.record.some_life(from));
        let Some((at, endpoint)) = &self.places[usize::from(at) % ENDPOINTS] else { return };
        let at = *at;
        let tag = TagMatch::from(tag);
        let source = self.source(from);
        let posted = match what {
            step::Look::Only => endpoint.tagged_peek(source, tag),
            step::Look::Claim => endpoint.tagged_peek_claim(source, tag),
            step::Look::Discard => endpoint.tagged_peek_discard(source, tag),
        };
        match posted {
            Ok(key) => {
                let (sent_before, moment) = (self.record.messages.len(), self.record.moments.len());
                let look = self.record.looks.len();
                self.record.looks.push(Look { at, from, tag, what, sent_before, moment, answer: None, fetched: None });
                self.record.moments.push(Moment::Looked(look));
                self.posted(at, key, None, What::Look(look));
            }
            Err(PostError::Errno(Errno::EOPNOTSUPP)) => assert!(self.prefixes),
            // In any case, a look takes a slot of the queue, and a claim takes a slot of a receive.
            Err(error) => self.not_received(error, at, from, 1),
        }
    }

    pub fn answered(&mut self, queue: usize, peek: Peek) {
        let op = self.record.ops.swap_remove(self.record.op(queue, peek.key));
        let found = peek.message().expect("looking does not fail");
        let told = found.map(|found| (found.len, found.tag.0, found.data.map(|data| data.0)));
        match op.what {
            What::Look(look) => {
                let kept = &mut self.record.looks[look];
                let claims = kept.what == step::Look::Claim && found.is_some();
                assert_eq!(found.is_some_and(|found| found.claim.is_some()), claims);
                kept.answer = Some(told);
                let claim = found.and_then(|found| found.claim).filter(|_| self.record.lives[op.life].open);
                self.record.claims.extend(claim.map(|claim| (look, claim)));
            }
            What::DiscardClaim(look) => {
                let kept = &mut self.record.looks[look];
                // The message is gone if it was withdrawn, as for a fetched one.
                assert!(told.is_none() || Some(told) == kept.answer);
                if told.is_none() {
                    kept.fetched = Some((0, None));
                }
            }
            what => panic!("an answer to {what:?}"),
        }
    }

    pub fn fetch(&mut self, nth: u8, len: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.record.claims.len()) else { return };
        let (look, claim) = self.record.claims[nth];
        let at = self.record.looks[look].at;
        let Some((_, endpoint)) = self.places.iter().flatten().find(|(life, _)| *life == at) else { return };
        let buf = Memory::new(&vec![0xee; usize::from(len) % (3 * EAGER)]);
        let buffer = buf.id;
        match endpoint.tagged_claim(claim, buf) {
            Ok(key) => {
                self.record.claims.remove(nth);
                self.posted(at, key, Some(buffer), What::Fetch(look));
            }
            Err(rejected) => {
                assert_eq!(rejected.value.id, buffer);
                self.not_received(rejected.error, at, None, 0);
            }
        }
    }

    pub fn discard_claim(&mut self, nth: u8) {
        let Some(nth) = usize::from(nth).checked_rem(self.record.claims.len()) else { return };
        let (look, claim) = self.record.claims[nth];
        let at = self.record.looks[look].at;
        let Some((_, endpoint)) = self.places.iter().flatten().find(|(life, _)| *life == at) else { return };
        match endpoint.tagged_discard(claim) {
            Ok(key) => {
                self.record.claims.remove(nth);
                self.posted(at, key, None, What::DiscardClaim(look));
                // The claim is valid once.
                assert_eq!(endpoint_of(self, at).tagged_discard(claim), Err(PostError::UnknownClaim));
            }
            Err(error) => self.not_received(error, at, None, 0),
        }
    }
}

fn endpoint_of<'w>(
    world: &'w World<'_>,
    life: usize,
) -> &'w loom_core::endpoint::Endpoint<'static, loom_core::soft::Soft<'static>, Memory> {
    let mut open = world.places.iter().flatten();
    &open.find(|(open, _)| *open == life).expect("it is open").1
}
