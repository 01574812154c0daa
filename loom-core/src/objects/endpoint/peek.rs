//! Looking at tagged messages that have arrived and not been received.
//!
//! A peek is answered by a [`Completion::Peek`](crate::completion::Completion::Peek), or
//! [`Cq::wait_peek`](crate::objects::cq::CqBody::wait_peek). It does not wait for a message: the answer says that there is none,
//! or which one is the oldest that would be received. A message may have arrived and not be seen before the queue was polled
//! once more.

use super::{Endpoint, Source};
use crate::buffer::{Buffer, TargetBuffer};
use crate::completion::Claim;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::{OpFlags, TagMatch};

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Looks for a tagged message, and leaves it where it is.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::error::PostError;
    /// use loom_core::objects::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, domain::Domain, endpoint::Source};
    /// use loom_core::soft::{Network, NetworkAttr, Soft};
    /// use loom_core::vocabulary::{Tag, TagMatch};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let av = Av::open(&domain, 2)?;
    /// let cq = Cq::<Soft<'_>, Vec<u8>>::open(&domain, CqAttr::<16>::new())?;
    /// let (alice, bob) = (cq.endpoint(&av).enable()?, cq.endpoint(&av).enable()?);
    /// alice.tagged_inject(av.insert(&bob.address()?)?, Tag(7), b"hello")?;
    ///
    /// let key = bob.tagged_peek(Source::Any, TagMatch::any())?;
    /// let found = cq.wait_peek(key, Forever)?.expect("there is no deadline").message()?.expect("a message");
    /// let room = vec![0; found.len];
    /// let received = bob.tagged_recv(Source::Any, found.tag, room).map_err(PostError::from)?;
    /// assert_eq!(cq.wait(received, Forever)?.expect("there is no deadline").into_buf(), b"hello");
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`tagged_recv`](Self::tagged_recv), and `EOPNOTSUPP` over a provider that cannot peek (`shm` of libfabric 1).
    #[doc(alias = "FI_PEEK")]
    pub fn tagged_peek(&self, from: Source, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.port.tagged_peek(|| self.source(from), tag.into(), OpFlags::empty())
    }

    /// Looks for a tagged message, and claims it: no other receive takes it. It is fetched with
    /// [`tagged_claim`](Self::tagged_claim), by the claim in the [answer](crate::completion::Found).
    ///
    /// # Errors
    /// As [`tagged_peek`](Self::tagged_peek); `EOPNOTSUPP` also if the provider keeps claims in contexts, and the queue was not
    /// opened [for that](crate::objects::cq::CqAttr::with_claims), and over `ofi_rxd` and libfabric 2's `ofi_rxm`, which
    /// cannot be trusted with claims.
    #[doc(alias = "FI_CLAIM")]
    pub fn tagged_peek_claim(&self, from: Source, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.port.tagged_peek(|| self.source(from), tag.into(), OpFlags::CLAIM)
    }

    /// Looks for a tagged message, and throws it away.
    ///
    /// # Errors
    /// As [`tagged_peek_claim`](Self::tagged_peek_claim); `EOPNOTSUPP` also over `ofi_rxm` and `ofi_rxd`, where the sender of a
    /// long message that is discarded waits for ever.
    #[doc(alias = "FI_DISCARD")]
    pub fn tagged_peek_discard(&self, from: Source, tag: impl Into<TagMatch>) -> Result<OpKey, PostError> {
        self.port.tagged_peek(|| self.source(from), tag.into(), OpFlags::DISCARD)
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
