//! Looking at tagged messages that have arrived at a receive context: as
//! [`Endpoint::tagged_peek`](crate::objects::endpoint::Endpoint::tagged_peek) and those after it, where there is an example.

use super::RxContext;
use crate::buffer::{Buffer, TargetBuffer};
use crate::completion::Claim;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::endpoint::Source;
use crate::transport::Scalable;
use crate::vocabulary::{OpFlags, TagMatch};

impl<T: Scalable, B: Buffer> RxContext<'_, '_, T, B> {
    /// Looks for a tagged message, and leaves it where it is.
    ///
    /// # Errors
    /// As [`Endpoint::tagged_peek`](crate::objects::endpoint::Endpoint::tagged_peek).
    #[doc(alias = "FI_PEEK")]
    pub fn tagged_peek(&self, from: Source, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from, tag.into(), OpFlags::empty())
    }

    /// Looks for a tagged message, and claims it: no other receive takes it.
    ///
    /// # Errors
    /// As [`Endpoint::tagged_peek_claim`](crate::objects::endpoint::Endpoint::tagged_peek_claim).
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(&self, from: Source, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from, tag.into(), OpFlags::CLAIM)
    }

    /// Looks for a tagged message, and throws it away.
    ///
    /// # Errors
    /// As [`Endpoint::tagged_peek_discard`](crate::objects::endpoint::Endpoint::tagged_peek_discard).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&self, from: Source, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.peek(from, tag.into(), OpFlags::DISCARD)
    }

    fn peek(&self, from: Source, tag: TagMatch, flags: OpFlags) -> Result<OpKey, PostError> {
        self.port.tagged_peek(|| self.port.source(self.av, from), tag, flags)
    }

    /// Receives a message that was claimed. The operation has the peek's key.
    ///
    /// # Errors
    /// As [`Endpoint::tagged_claim`](crate::objects::endpoint::Endpoint::tagged_claim).
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_claim(&self, claim: Claim, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.tagged_claim(claim, buf)
    }

    /// Throws a message away that was claimed. The answer is that of a peek, with the same key.
    ///
    /// # Errors
    /// As [`Endpoint::tagged_discard`](crate::objects::endpoint::Endpoint::tagged_discard).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_discard(&self, claim: Claim) -> Result<OpKey, PostError> {
        self.port.tagged_discard(claim)
    }
}
