#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::Transmits;
use super::options::SendOptions;
use super::post::Op;
use crate::buffer::{Buffer, SourceBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::{ImmediateData, Tag};

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Posts a message. Its completion returns the buffer ([`Cq::finish`](crate::cq::Cq::finish)).
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
    /// The buffer, with
    /// - [`PostError::Full`], [`PostError::Kept`] or [`PostError::Again`], which are
    ///   [transient](PostError::is_transient)
    /// - [`PostError::UnknownPeer`] for a removed peer, [`PostError::BeyondContexts`] for a receive
    ///   context that the vector has not
    /// - [`PostError::TooLong`] beyond `max_msg_size`, [`PostError::Access`] for memory that may
    ///   not be read, [`PostError::NoPrefix`] or [`PostError::NotRegistered`] where the provider
    ///   requires them, [`PostError::ForeignDescriptor`] for a region of another domain, and
    ///   [`PostError::DeviceMemory`] where the provider has no `HMEM`
    /// - [`PostError::NotGranted`] without `MSG` and `SEND`, [`PostError::OtherProcess`] in a
    ///   forked child, and [`PostError::Errno`] for other refusals of the provider
    #[doc(alias = "fi_send")]
    #[inline]
    pub fn send(&self, to: impl Into<K::To>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_send(to.into(), None, None, buf)
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
        self.post_send(to.into(), None, Some(data), buf)
    }

    /// Sends a message from one or several buffers. An array has at most `iov_limit` buffers
    /// ([`Info::attributes`](crate::info::Info::attributes)).
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
        self.post_send_msg(to.into(), None, options, buf)
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
        self.post_inject(to.into(), None, None, bytes)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// Those of [`inject`](Self::inject), and [`PostError::DataWidth`].
    #[doc(alias = "fi_injectdata")]
    #[inline]
    pub fn inject_data(&self, to: impl Into<K::To>, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        self.post_inject(to.into(), None, Some(data), bytes)
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
    #[inline(always)]
    pub fn tagged_send(&self, to: impl Into<K::To>, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.post_send(to.into(), Some(tag), None, buf)
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
        self.post_send(to.into(), Some(tag), Some(data), buf)
    }

    /// [`send_with`](Self::send_with) for a tagged message.
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
        self.post_send_msg(to.into(), Some(tag), options, buf)
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Success is not reported.
    ///
    /// # Errors
    /// Those of [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, to: impl Into<K::To>, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        self.post_inject(to.into(), Some(tag), None, bytes)
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
        self.post_inject(to.into(), Some(tag), Some(data), bytes)
    }

    #[inline(always)]
    fn post_send(
        &self,
        to: K::To,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let op = self.opened.prepare(Op::Send { tag, data }, buf, self.destination(to))?;
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = unsafe { T::send(op.raw, op.address, &op.lent, tag, data, op.context) };
        self.opened.submitted(op, submitted)
    }

    fn post_send_msg(&self, to: K::To, tag: Option<Tag>, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>> {
        let (limits, data) = (self.limits(), options.data);
        let flags = limits.with_default(options.flags());
        let op = self.opened.prepare_pieces(
            Op::Send { tag, data },
            flags,
            buf,
            self.destination(to),
            limits.tx_iov_limit,
        )?;
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = unsafe { T::sendmsg(op.raw, &op.msg(data, flags), tag) };
        self.opened.submitted(op, submitted)
    }

    #[inline(always)]
    fn post_inject(
        &self,
        to: K::To,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        let with_prefix;
        let (limits, mut bytes) = (self.limits(), bytes);
        // One comparison for two rare cases: too many bytes, or a prefix (`inject_end` is 0).
        if bytes.len() >= limits.inject_end {
            with_prefix = limits.prefixed(bytes)?;
            bytes = &with_prefix;
        }
        let op = Op::Send { tag, data };
        limits.admit(op.caps(), data)?;
        let to = self.kind.destination(limits, to)?;
        // SAFETY: handles keep H1 and T1, and the address is of the vector (O1). `bytes` has at
        // most a prefix and `inject_size` bytes, with the prefix required by L4.
        Ok(unsafe { T::inject(self.raw(), to, bytes, tag, data) }?)
    }
}
