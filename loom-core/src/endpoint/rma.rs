#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::Transmits;
use super::options::{ReadOptions, SendOptions};
use super::post::Op;
use super::remote_range::rma_target;
use crate::buffer::{Buffer, SourceBuffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, Errno, ImmediateData, OpFlags};

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Reads a peer's region from byte `offset`, as many bytes as the buffer holds.
    ///
    /// ```
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
    /// assert_eq!((result?.len, bytes), (4, vec![16, 17, 18, 19]));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The buffer, with [`PostError::RemoteAccess`], [`PostError::OutOfBounds`] or any other
    /// [`PostError`]. An operation that the peer refuses completes with an error.
    #[doc(alias = "fi_read")]
    #[inline]
    pub fn read(&self, peer: impl Into<K::To>, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let peer = peer.into();
        let op = self.opened.prepare(Op::Read, buf, self.destination(peer))?;
        let target = match rma_target(op.address, (region, offset), op.lent.len, Access::REMOTE_READ) {
            Ok(target) => target,
            Err(error) => return Err(self.opened.refused(op, error)),
        };
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = unsafe { T::read(op.raw, target, &op.lent, op.context) };
        self.opened.submitted(op, submitted)
    }

    /// Reads parts of a peer's memory ([`RemoteRegion::part`]) into one or several buffers. Parts
    /// and buffers form one range each, of equal length.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and [`PostError::TooManyPieces`] for either side.
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
        B: TargetBuffer,
    {
        let (peer, limits) = (peer.into(), self.limits());
        let flags = options.flags() | limits.tx_flags.intersection(OpFlags::FENCE);
        let op = self.opened.prepare_pieces(Op::Read, flags, buf, self.destination(peer), limits.tx_iov_limit)?;
        let parts = self.opened.remote_parts(remote, op.total(), Access::REMOTE_READ);
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = parts.and_then(|parts| Ok(unsafe { T::readmsg(op.raw, &op.msg(None, flags), &parts) }?));
        self.opened.submitted(op, submitted)
    }

    /// Writes the buffer to a peer's region from byte `offset`.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
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
        B: SourceBuffer,
    {
        self.post_write(peer.into(), region, offset, None, buf)
    }

    /// [`write`](Self::write) that notifies the peer: its queue reports a
    /// [`RemoteEvent`](crate::completion::RemoteEvent) with `data`.
    ///
    /// ```
    /// use loom_core::{Access, Completion, Forever, ImmediateData, Mr};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
    /// let write = |bytes| alice.write_data(to_bob, &region.remote(), 16, ImmediateData(7), bytes);
    /// cq.post(b"8 bytes.".to_vec(), Forever, write)?;
    /// // When bob's queue reports the write, the bytes are in his memory.
    /// let event = loop {
    ///     if let Some(Completion::Remote(event)) = cq.poll()? { break event; }
    /// };
    /// let mut bytes = [0; 8];
    /// region.window().copy_to(16, &mut bytes)?;
    /// assert_eq!((event.data(), &bytes), (Some(ImmediateData(7)), b"8 bytes."));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`write`](Self::write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_writedata")]
    // Always inlined: in a loop, most stays in registers.
    #[inline(always)]
    pub fn write_data(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
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
        let op = self.opened.prepare(Op::Write { data }, buf, self.destination(peer))?;
        let target = match rma_target(op.address, (region, offset), op.lent.len, Access::REMOTE_WRITE) {
            Ok(target) => target,
            Err(error) => return Err(self.opened.refused(op, error)),
        };
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = unsafe { T::write(op.raw, target, &op.lent, data, op.context) };
        self.opened.submitted(op, submitted)
    }

    /// Writes one or several buffers to parts of a peer's memory, like
    /// [`read_with`](Self::read_with).
    ///
    /// # Errors
    /// Those of [`write_data`](Self::write_data), and [`PostError::TooManyPieces`] for either side.
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
        B: SourceBuffer,
    {
        let (peer, limits, data) = (peer.into(), self.limits(), options.data);
        let flags = limits.with_default(options.flags());
        let op =
            self.opened.prepare_pieces(Op::Write { data }, flags, buf, self.destination(peer), limits.tx_iov_limit)?;
        let parts = self.opened.remote_parts(remote, op.total(), Access::REMOTE_WRITE);
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1.
        let submitted = parts.and_then(|parts| Ok(unsafe { T::writemsg(op.raw, &op.msg(data, flags), &parts) }?));
        self.opened.submitted(op, submitted)
    }

    /// Writes a copy of `bytes` to a peer's region. Success is not reported.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the [`inject_size`](Self::inject_size), or any [`PostError`]
    /// of a write. `EOPNOTSUPP` for transmit contexts over `sockets`.
    #[doc(alias = "fi_inject_write")]
    #[inline]
    pub fn inject_write(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.post_inject_write(peer.into(), region, offset, None, bytes)
    }

    /// [`inject_write`](Self::inject_write) that notifies the peer.
    ///
    /// # Errors
    /// Those of [`inject_write`](Self::inject_write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_inject_writedata")]
    #[inline]
    pub fn inject_write_data(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.post_inject_write(peer.into(), region, offset, Some(data), bytes)
    }

    #[inline]
    pub(super) fn admits_injected(&self, op: Op, len: usize) -> Result<(), PostError> {
        if !self.kind.injects_writes() {
            return Err(PostError::Errno(Errno::EOPNOTSUPP));
        }
        let limits = self.limits();
        if len > limits.inject_size {
            return Err(PostError::TooLong { limit: limits.inject_size });
        }
        limits.admit(op.caps(), op.data())
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
        self.admits_injected(Op::Write { data }, bytes.len())?;
        let to = self.kind.destination(self.limits(), peer)?;
        let target = rma_target(to, (region, offset), bytes.len(), Access::REMOTE_WRITE)?;
        // SAFETY: handles keep H1 and T1, the address is of the vector (O1), and the length is at
        // most `inject_size`.
        Ok(unsafe { T::inject_write(self.raw(), target, bytes, data) }?)
    }
}
