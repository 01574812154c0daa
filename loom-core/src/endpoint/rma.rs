//! Reading from and writing into a peer's memory: what `man fi_rma` describes.
//!
//! Ranges are checked when the buffer is in its slot, which alone says how long it is.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::{Has, Transmits};
use super::post::{OpKind, map_refusal, remote, required_caps};
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::options::{ReadOptions, SendOptions};
use crate::query::{Injects, Reads, Writes};
use crate::remote_region::RemoteRegion;
use crate::transport::Transport;
use crate::vocabulary::{Access, Errno, ImmediateData, OpFlags};

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Reads from a peer's region, from `offset` bytes into it, as many bytes as the buffer has.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Access, Av, Cq, Domain, Forever, Mr};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, (0..64).collect::<Vec<u8>>(), Access::REMOTE_READ)?;
    /// let read = cq.post(vec![0; 4], Forever, |room| alice.read(to_bob, &region.remote(), 16, room))?;
    /// let (bytes, result) = cq.finish(read, Forever)?.into_parts();
    /// assert_eq!((result?.len(), bytes), (4, vec![16, 17, 18, 19]));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError::RemoteAccess`] if the region does not grant the access, [`PostError::OutOfBounds`] if it is shorter, or any other
    /// [`PostError`]; the buffer comes back. What the peer refuses is an error completion.
    #[doc(alias = "fi_read")]
    #[inline]
    pub fn read(&self, peer: impl Into<K::To>, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Reads>,
        B: TargetBuffer,
    {
        let (peer, how) = (peer.into(), (required_caps::READ, OpKind::Read));
        let posting = self.opened.lend(how, || self.destination(peer), None, buf)?;
        let submitted = match remote(posting.address, (region, offset), posting.lent.len(), Access::REMOTE_READ) {
            // SAFETY: see `Posting`.
            Ok(target) => map_refusal(unsafe { T::read(posting.raw, target, &posting.lent, posting.context) }),
            Err(error) => Err(error),
        };
        self.opened.settle(posting, submitted)
    }

    /// Reads parts of a peer's memory into one buffer or several. The parts
    /// ([`RemoteRegion::part`]) and the buffers are taken as one range each, of the same length.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`PostError::TooManyPieces`] of either side.
    #[doc(alias = "fi_readmsg")]
    #[doc(alias = "fi_readv")]
    pub fn read_with(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        options: ReadOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Reads>,
        B: TargetBuffer,
    {
        let (peer, limits) = (peer.into(), self.limits());
        let how = (required_caps::READ, OpKind::Read, limits.tx_iov_limit);
        let flags = options.flags | limits.tx_flags.intersection(OpFlags::FENCE);
        self.opened.post_msg(
            how,
            || self.destination(peer),
            (None, flags),
            buf,
            |raw, msg, total| {
                let parts = self.opened.parts(remote, total, Access::REMOTE_READ)?;
                // SAFETY: see `post_msg`.
                map_refusal(unsafe { T::readmsg(raw, msg, &parts) })
            },
        )
    }

    /// Writes the buffer into a peer's region, from `offset` bytes into it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[doc(alias = "fi_write")]
    #[inline]
    pub fn write(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Writes>,
        B: SourceBuffer,
    {
        self.post_write(peer.into(), region, offset, None, buf)
    }

    /// Writes the buffer into a peer's region and tells the peer, whose queue reports a
    /// [`RemoteEvent`](crate::completion::RemoteEvent) with `data`.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Access, Av, Completion, Cq, Domain, Forever, ImmediateData, Mr};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
    /// let write = |bytes| alice.write_data(to_bob, &region.remote(), 16, ImmediateData(7), bytes);
    /// cq.post(b"8 bytes.".to_vec(), Forever, write)?;
    /// // When bob's queue reports the write, the bytes are in his memory.
    /// let event = loop {
    ///     if let Some(Completion::Remote(event)) = cq.poll()? {
    ///         break event;
    ///     }
    /// };
    /// let mut bytes = [0; 8];
    /// region.window().copy_to(16, &mut bytes)?;
    /// assert_eq!((event.data(), &bytes), (Some(ImmediateData(7)), b"8 bytes."));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_writedata")]
    #[inline]
    pub fn write_data(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Writes>,
        B: SourceBuffer,
    {
        self.post_write(peer.into(), region, offset, Some(data), buf)
    }

    #[inline(always)]
    fn post_write(
        &self,
        peer: K::To,
        region: &RemoteRegion,
        offset: u64,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        let how = (required_caps::WRITE, OpKind::Write);
        let posting = self.opened.lend(how, || self.destination(peer), data, buf)?;
        let submitted = match remote(posting.address, (region, offset), posting.lent.len(), Access::REMOTE_WRITE) {
            // SAFETY: see `Posting`.
            Ok(target) => map_refusal(unsafe { T::write(posting.raw, target, &posting.lent, data, posting.context) }),
            Err(error) => Err(error),
        };
        self.opened.settle(posting, submitted)
    }

    /// Writes one buffer or several into parts of a peer's memory, as [`read_with`](Self::read_with) reads.
    ///
    /// # Errors
    /// As [`write_data`](Self::write_data), and [`PostError::TooManyPieces`] of either side.
    #[doc(alias = "fi_writemsg")]
    #[doc(alias = "fi_writev")]
    pub fn write_with(
        &self,
        peer: impl Into<K::To>,
        remote: &[RemoteRegion],
        options: SendOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        K: Has<Writes>,
        B: SourceBuffer,
    {
        let (peer, limits) = (peer.into(), self.limits());
        let how = (required_caps::WRITE, OpKind::Write, limits.tx_iov_limit);
        let asked = (options.data, limits.with_default(options.flags));
        self.opened.post_msg(
            how,
            || self.destination(peer),
            asked,
            buf,
            |raw, msg, total| {
                let parts = self.opened.parts(remote, total, Access::REMOTE_WRITE)?;
                // SAFETY: see `post_msg`.
                map_refusal(unsafe { T::writemsg(raw, msg, &parts) })
            },
        )
    }

    /// Writes a copy of `bytes` into a peer's region. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the [`inject_size`](Self::inject_size), or any other [`PostError`] of a write;
    /// `EOPNOTSUPP` for transmit contexts over `sockets`, which does not survive that a context is closed before such a write was
    /// answered, and nothing tells when that is.
    #[doc(alias = "fi_inject_write")]
    #[inline]
    pub fn inject_write(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), PostError>
    where
        K: Has<Writes> + Has<Injects>,
    {
        self.post_inject_write(peer.into(), region, offset, None, bytes)
    }

    /// Writes a copy of `bytes` into a peer's region and tells the peer.
    ///
    /// # Errors
    /// As [`inject_write`](Self::inject_write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_inject_writedata")]
    #[inline]
    pub fn inject_write_data(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError>
    where
        K: Has<Writes> + Has<Injects>,
    {
        self.post_inject_write(peer.into(), region, offset, Some(data), bytes)
    }

    #[inline]
    fn post_inject_write(
        &self,
        peer: K::To,
        region: &RemoteRegion,
        offset: u64,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        if !self.kind.injects_writes() {
            return Err(PostError::Errno(Errno::EOPNOTSUPP));
        }
        let peer = self.opened.injectable(required_caps::WRITE, || self.destination(peer), data, bytes)?;
        let target = remote(peer, (region, offset), bytes.len(), Access::REMOTE_WRITE)?;
        // SAFETY: the endpoint is open (C1), on this thread (C5), the address one that it may write to (C13), and the length checked.
        map_refusal(unsafe { T::inject_write(self.raw(), target, bytes, data) })
    }
}
