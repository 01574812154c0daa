//! Sends, with and without tags (`man fi_msg`, `man fi_tagged`).

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::Transmits;
use super::options::SendOptions;
use super::post::{OpKind, map_refusal, required_caps};
use crate::buffer::{Buffer, SourceBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::{ImmediateData, Tag};

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Sends a message.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Av, Cq, Domain, Forever, Source};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// // Tries again while there is no room.
    /// let sent = cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// assert_eq!(cq.finish(sent, Forever)?.into_buf(), b"hello", "the message comes back");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Any [`PostError`] except `OutOfBounds`, with the buffer.
    #[doc(alias = "fi_send")]
    #[inline]
    pub fn send(&self, to: impl Into<K::To>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_send(to.into(), None, buf)
    }

    /// Sends a message with immediate data for the receiver's completion.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), and [`PostError::DataWidth`].
    #[doc(alias = "fi_senddata")]
    #[inline]
    pub fn send_data(&self, to: impl Into<K::To>, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_send(to.into(), Some(data), buf)
    }

    #[inline(always)]
    fn post_send(&self, to: K::To, data: Option<ImmediateData>, buf: B) -> Result<OpKey, Rejected<B>> {
        let how = (required_caps::SEND, OpKind::Send);
        let posting = self.opened.lend(how, || self.destination(to), data, buf)?;
        // SAFETY: `posting` guarantees H1, T1 and L1 to L4, O1.
        let submitted = unsafe { T::send(posting.raw, posting.address, &posting.lent, data, posting.context) };
        self.opened.settle(posting, map_refusal(submitted))
    }

    /// Sends a message from one or several buffers. An array of buffers is one message of all in
    /// order, at most `iov_limit` ([`Info::attributes`](crate::info::Info::attributes)). Any other
    /// buffer is one piece.
    ///
    /// # Errors
    /// Those of [`send_data`](Self::send_data), [`PostError::TooManyPieces`], and
    /// [`PostError::NotGranted`] for a fence that the provider lacks.
    #[doc(alias = "fi_sendmsg")]
    #[doc(alias = "fi_sendv")]
    pub fn send_with(&self, to: impl Into<K::To>, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (to, limits) = (to.into(), self.limits());
        let how = (required_caps::SEND, OpKind::Send, limits.tx_iov_limit);
        let asked = (options.data, limits.with_default(options.flags()));
        self.opened.post_msg(
            how,
            || self.destination(to),
            asked,
            buf,
            |raw, msg, _| {
                // SAFETY: `post_msg` guarantees H1, T1 and L1 to L4, O1.
                map_refusal(unsafe { T::sendmsg(raw, msg) })
            },
        )
    }

    /// Sends a copy of `bytes`, which can be reused at once. Success is not reported.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Av, Cq, Domain, Forever, Source};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// // The bytes are copied: there is no completion.
    /// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// assert_eq!(cq.in_flight(), 0);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the [`inject_size`](Self::inject_size), or any other
    /// [`PostError`] of a send.
    #[doc(alias = "fi_inject")]
    #[inline]
    pub fn inject(&self, to: impl Into<K::To>, bytes: &[u8]) -> Result<(), PostError> {
        self.post_inject(to.into(), None, bytes)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// Those of [`inject`](Self::inject), and [`PostError::DataWidth`].
    #[doc(alias = "fi_injectdata")]
    #[inline]
    pub fn inject_data(&self, to: impl Into<K::To>, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.post_inject(to.into(), Some(data), bytes)
    }

    #[inline]
    fn post_inject(&self, to: K::To, data: Option<ImmediateData>, bytes: &[u8]) -> Result<(), PostError> {
        self.opened.inject(
            required_caps::SEND,
            || self.destination(to),
            data,
            bytes,
            |raw, to, bytes| {
                // SAFETY: `Opened::inject` guarantees H1, T1, L4, O1 and the length.
                unsafe { T::inject(raw, to, bytes, data) }
            },
        )
    }

    /// Sends a tagged message.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Av, Cq, Domain, Forever, Source, Tag};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let seven = bob.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
    /// let eight = bob.tagged_recv(Source::Any, Tag(8), vec![0; 5])?;
    /// cq.post(b"eight".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(8), message))?;
    /// assert_eq!(cq.finish(eight, Forever)?.into_buf(), b"eight");
    /// # let _ = seven;
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    #[doc(alias = "fi_tsend")]
    #[inline]
    pub fn tagged_send(&self, to: impl Into<K::To>, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_tagged_send(to.into(), tag, None, buf)
    }

    /// Sends a tagged message with immediate data.
    ///
    /// # Errors
    /// Those of [`send_data`](Self::send_data).
    #[doc(alias = "fi_tsenddata")]
    #[inline]
    pub fn tagged_send_data(
        &self,
        to: impl Into<K::To>,
        tag: Tag,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_tagged_send(to.into(), tag, Some(data), buf)
    }

    #[inline(always)]
    fn post_tagged_send(&self, to: K::To, tag: Tag, data: Option<ImmediateData>, buf: B) -> Result<OpKey, Rejected<B>> {
        let how = (required_caps::TAGGED_SEND, OpKind::Send);
        let posting = self.opened.lend(how, || self.destination(to), data, buf)?;
        // SAFETY: `posting` guarantees H1, T1 and L1 to L4, O1.
        let submitted =
            unsafe { T::tagged_send(posting.raw, posting.address, &posting.lent, data, tag, posting.context) };
        self.opened.settle(posting, map_refusal(submitted))
    }

    /// [`send_with`](Self::send_with) for a tagged message.
    ///
    /// # Errors
    /// Those of [`send_with`](Self::send_with).
    #[doc(alias = "fi_tsendmsg")]
    #[doc(alias = "fi_tsendv")]
    pub fn tagged_send_with(
        &self,
        to: impl Into<K::To>,
        tag: Tag,
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let (to, limits) = (to.into(), self.limits());
        let how = (required_caps::TAGGED_SEND, OpKind::Send, limits.tx_iov_limit);
        let asked = (options.data, limits.with_default(options.flags()));
        self.opened.post_msg(
            how,
            || self.destination(to),
            asked,
            buf,
            |raw, msg, _| {
                // SAFETY: `post_msg` guarantees H1, T1 and L1 to L4, O1.
                map_refusal(unsafe { T::tagged_sendmsg(raw, msg, tag) })
            },
        )
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Success is not reported.
    ///
    /// # Errors
    /// Those of [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, to: impl Into<K::To>, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        self.post_tagged_inject(to.into(), tag, None, bytes)
    }

    /// Sends a tagged copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// Those of [`inject_data`](Self::inject_data).
    #[doc(alias = "fi_tinjectdata")]
    #[inline]
    pub fn tagged_inject_data(
        &self,
        to: impl Into<K::To>,
        tag: Tag,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.post_tagged_inject(to.into(), tag, Some(data), bytes)
    }

    #[inline(always)]
    fn post_tagged_inject(
        &self,
        to: K::To,
        tag: Tag,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.opened.inject(
            required_caps::TAGGED_SEND,
            || self.destination(to),
            data,
            bytes,
            |raw, to, bytes| {
                // SAFETY: `Opened::inject` guarantees H1, T1, L4, O1 and the length.
                unsafe { T::tagged_inject(raw, to, bytes, data, tag) }
            },
        )
    }
}
