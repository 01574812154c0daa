//! Peeks at messages that have arrived, and claims: operations without a buffer (rule 9).

use super::slot::Phase;
use super::{Kind, OpKey, OpTable, Slot};
use super::{OpError, Transfer};
use crate::buffer::{Buffer, Lent};
use crate::error::{PostError, Rejected};
use crate::transport::{Context, Event};
use crate::util::on_drop::OnDrop;
use crate::vocabulary::{Errno, ImmediateData, Tag};

/// Answer to a peek.
///
/// ```
/// use loom_core::{Cq, Forever, Source, Tag};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let cq: Cq<'_, _, Vec<u8>> = cq;
/// cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(7), b"hello"))?;
/// for (tag, expected) in [(7, Some(5)), (8, None)] {
///     let key = bob.tagged_peek(Source::Any, Tag(tag))?;
///     let peek = cq.finish_peek(key, Forever)?;
///     assert_eq!(peek.message()?.map(|found| found.len), expected);
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it reports whether there is a message"]
pub struct Peek {
    /// Key that the post returned.
    pub key: OpKey,
    event: Event,
    claimed: bool,
}

/// Message found by a peek, not yet received.
///
/// ```
/// use loom_core::{Forever, Source, Tag, TagMatch};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(7), b"hello"))?;
/// let key = bob.tagged_peek(Source::Any, TagMatch::ANY)?;
/// let found = cq.finish_peek(key, Forever)?.message()?.expect("a message");
/// // The buffer has the length of the message.
/// let received = bob.tagged_recv(Source::Any, found.tag, vec![0; found.len])?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Length of the whole message in bytes.
    pub len: usize,
    /// Tag of the message.
    pub tag: Tag,
    /// Immediate data, if the provider reports it.
    pub data: Option<ImmediateData>,
    /// Claim for fetching the message, if the peek claims.
    pub claim: Option<Claim>,
}

/// Claimed message: plain data, valid for one fetch or discard.
///
/// Losing it leaves the message claimed until the endpoint is closed.
///
/// ```
/// use loom_core::{Forever, Source, Tag, TagMatch};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(7), b"hello"))?;
/// let key = bob.tagged_peek_claim(Source::Any, TagMatch::ANY)?;
/// let peek = cq.finish_peek(key, Forever)?;
/// let found = peek.message()?.expect("a message");
/// let claim = found.claim.expect("it was to be claimed");
/// assert_eq!(found.tag, Tag(7));
/// // No other receive takes a claimed message. The buffer has its length.
/// let fetched = bob.tagged_claim(claim, vec![0; found.len])?;
/// assert_eq!(cq.finish(fetched, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    key: OpKey,
    pub(crate) tag: Tag,
}

impl Peek {
    /// Message, or `Ok(None)` if no message matches (`FI_ENOMSG`).
    ///
    /// # Errors
    /// The peek or the discard failed.
    pub fn message(&self) -> Result<Option<Found>, OpError> {
        let Peek { key, event, claimed } = self;
        if event.errno == Errno::ENOMSG {
            return Ok(None);
        }
        if event.is_error() {
            return Err(OpError::of(event));
        }
        // A changed `key` names no claim, or another one.
        let claim = claimed.then_some(Claim { key: *key, tag: event.tag });
        Ok(Some(Found { len: event.len, tag: event.tag, data: Transfer::of(event).data, claim }))
    }
}

impl<B> OpTable<B> {
    /// Takes a slot for an operation without buffer, and passes its context to `submit`: a
    /// [`Peek`](Kind::Peek), a [`PeekClaim`](Kind::PeekClaim), or a [`Spare`](Kind::Spare) receive,
    /// which waits after a transient error.
    ///
    /// # Errors
    /// Those of [`post`](Self::post), without a buffer.
    pub fn post_empty(
        &self,
        endpoint: u16,
        kind: Kind,
        submit: impl FnOnce(Context) -> Result<(), PostError>,
    ) -> Result<OpKey, PostError> {
        let (key, slot) = self.reserve().ok_or_else(|| self.no_slot())?;
        slot.endpoint.set(endpoint);
        slot.kind.set(kind);
        slot.phase.set(if kind == Kind::Spare { Phase::Spare } else { Phase::Peeking });
        match submit(self.context(slot, key)) {
            Err(error) if kind == Kind::Spare && error.is_transient() => {
                self.set_aside(key.index(), slot, Phase::SpareUsedUp);
            }
            Err(error) => {
                self.give_up(key.index(), slot);
                return Err(error);
            }
            Ok(()) => {}
        }
        Ok(key)
    }

    /// Returns `true` if a peek is in flight.
    #[must_use]
    pub fn is_peeking(&self, key: OpKey) -> bool {
        self.named(key).is_some_and(|slot| slot.phase.get() == Phase::Peeking)
    }

    pub(super) fn peeked(&self, event: &Event) -> Option<Peek> {
        let (key, slot) = self.by_context(event.context, Phase::Peeking)?;
        let claimed = slot.kind.get() == Kind::PeekClaim && !event.is_error();
        self.make_room();
        if claimed {
            slot.phase.set(Phase::Claimed);
        } else {
            self.release(key.index(), slot);
        }
        Some(Peek { key, event: *event, claimed })
    }

    fn unclaim(&self, endpoint: u16, claim: Claim) -> Result<&Slot<B>, PostError> {
        let claimed = |slot: &&Slot<B>| slot.phase.get() == Phase::Claimed && slot.endpoint.get() == endpoint;
        let slot = self.named(claim.key).filter(claimed).ok_or(PostError::UnknownClaim)?;
        let room = self.room.get().checked_sub(1).ok_or(PostError::Full)?;
        self.room.set(room);
        Ok(slot)
    }

    fn claim_again(&self, slot: &Slot<B>) {
        slot.phase.set(Phase::Claimed);
        self.make_room();
    }

    /// Posts a receive of a claimed message, like [`post`](Self::post), under the key and context
    /// of the claim.
    ///
    /// # Errors
    /// [`PostError::UnknownClaim`] if the message was fetched or discarded, or the claim belongs to
    /// another endpoint. After an error of [`post`](Self::post), the claim remains valid.
    pub fn post_claim(
        &self,
        endpoint: u16,
        claim: Claim,
        buf: B,
        submit: impl FnOnce(&Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: Buffer,
    {
        let slot = match self.unclaim(endpoint, claim) {
            Ok(slot) => slot,
            Err(error) => return Err(Rejected { value: buf, error }),
        };
        slot.phase.set(Phase::Held);
        let take_back = || {
            self.claim_again(slot);
            // SAFETY: rule 2: the buffer is in the slot, and no transport has it.
            unsafe { slot.empty() }
        };
        let unwound = OnDrop(|| drop(take_back()));
        // SAFETY: rule 2: the slot is `Held` and has no buffer. If `lend` unwinds, the buffer is
        // taken back.
        let lent = unsafe { slot.fill(buf, Buffer::lend) };
        core::mem::forget(unwound);

        slot.lent.set(lent.len);
        slot.kind.set(Kind::TaggedReceive);
        slot.phase.set(Phase::Posted);
        let submitted = submit(&lent, self.context(slot, claim.key));
        submitted.map(|()| claim.key).map_err(|error| Rejected { value: take_back(), error })
    }

    /// Posts a discard of a claimed message. Its answer is a peek.
    ///
    /// # Errors
    /// The errors of [`post_claim`](Self::post_claim).
    pub fn post_discard(
        &self,
        endpoint: u16,
        claim: Claim,
        submit: impl FnOnce(Context) -> Result<(), PostError>,
    ) -> Result<OpKey, PostError> {
        let slot = self.unclaim(endpoint, claim)?;
        slot.kind.set(Kind::Peek);
        slot.phase.set(Phase::Peeking);
        submit(self.context(slot, claim.key)).map(|()| claim.key).inspect_err(|_| self.claim_again(slot))
    }
}
