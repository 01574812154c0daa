//! Looking at tagged messages that have arrived and not been received: as
//! [connectionless endpoints](crate::objects::endpoint::Endpoint::tagged_peek) do it, where there is an example.

use super::{Established, MsgEndpoint, the_peer};
use crate::buffer::{Buffer, TargetBuffer};
use crate::completion::Claim;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Connected;
use crate::vocabulary::{OpFlags, TagMatch};

impl<T: Connected, B: Buffer> MsgEndpoint<'_, '_, T, B, Established> {
    /// Looks for a tagged message, and leaves it where it is. The answer is a
    /// [`Completion::Peek`](crate::completion::Completion::Peek), or what
    /// [`Cq::wait_peek`](crate::objects::cq::CqBody::wait_peek) returns.
    ///
    /// # Errors
    /// As [`tagged_recv`](Self::tagged_recv), and `EOPNOTSUPP` over a provider that cannot peek.
    #[doc(alias = "FI_PEEK")]
    pub fn tagged_peek(&self, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.port.tagged_peek(the_peer, tag.into(), OpFlags::empty())
    }

    /// Looks for a tagged message, and claims it: no other receive takes it. It is fetched with
    /// [`tagged_claim`](Self::tagged_claim), by the claim in the [answer](crate::completion::Found).
    ///
    /// # Errors
    /// As [`tagged_peek`](Self::tagged_peek); `EOPNOTSUPP` also if the provider keeps claims in contexts, and the queue was not
    /// opened [for that](crate::objects::cq::CqAttr::with_claims).
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(&self, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.port.tagged_peek(the_peer, tag.into(), OpFlags::CLAIM)
    }

    /// Looks for a tagged message, and throws it away.
    ///
    /// # Errors
    /// As [`tagged_peek_claim`](Self::tagged_peek_claim).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&self, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.port.tagged_peek(the_peer, tag.into(), OpFlags::DISCARD)
    }

    /// Receives a message that was claimed. The operation has the peek's key.
    ///
    /// # Errors
    /// [`PostError::UnknownClaim`] if it was fetched or discarded already, or claimed through another endpoint; or any other
    /// [`PostError`], and the claim stands.
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
    /// As [`tagged_claim`](Self::tagged_claim), and `EOPNOTSUPP` as [`tagged_peek_discard`](Self::tagged_peek_discard).
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_discard(&self, claim: Claim) -> Result<OpKey, PostError> {
        self.port.tagged_discard(claim)
    }
}
