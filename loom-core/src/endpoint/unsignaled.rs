//! Operations with `FI_SELECTIVE_COMPLETION` and without `FI_COMPLETION`.

#![allow(unsafe_code, reason = "operations with memory that no completion gives back")]

use super::Endpoint;
use super::kind::Transmits;
use super::opened::Opened;
use super::options::{ReadOptions, SendOptions};
use super::pieces::with_fence;
use super::post::Op;
use super::remote_range::rma_target;
use crate::buffer::{Buffer, Lent};
use crate::error::PostError;
use crate::transport::{Context, Msg, RemotePart, Transport};
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, Errno, FabricAddr, ImmediateData, OpFlags, Tag};

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Sends a message, with or without a tag, without reporting success or returning memory.
    ///
    /// A [`Counter`](crate::counter::Counter) of the endpoint counts completed sends, and failures
    /// separately. With ordered completions
    /// ([`CompOrder::STRICT`](crate::vocabulary::CompOrder::STRICT)), a later operation's
    /// completion also shows the end of this one. A failure is also a
    /// [`Completion::Unclaimed`](crate::completion::Completion::Unclaimed), unless more than
    /// [`PEER_EVENTS`](crate::cq::PEER_EVENTS) operations are in flight.
    ///
    /// ```
    /// # #![allow(unsafe_code)]
    /// use core::ptr::NonNull;
    /// use loom_core::{Binding, Counted, Counter, CounterAttr, Forever, SendOptions, Source, buffer::Lent};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let sends = Counter::open(&domain, CounterAttr::default())?;
    /// let alice = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &sends).selective())?;
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// # bob.recv(Source::Any, vec![0; 5])?;
    /// let message = *b"hello";
    /// let lent = Lent::source(NonNull::from_ref(&message).cast(), message.len());
    /// // SAFETY: the message is only read, and lives until the counter reports the send.
    /// unsafe { alice.send_unsignaled(to_bob, None, SendOptions::default(), &lent) }?;
    /// assert!(cq.wait_counter(&sends, 1, Forever)?);
    /// // Only the receive has a completion.
    /// assert!(cq.poll()?.is_some() && cq.poll()?.is_none());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError::NotSelective`], [`PostError::Errno`] with `EOPNOTSUPP` where the provider
    /// requires memory for contexts (`FI_CONTEXT`), or any other of a send except `Full`.
    ///
    /// # Safety
    /// `lent` describes readable memory. Until the operation has ended
    /// - the memory stays in place and is not written to
    /// - endpoint and queue stay open
    #[doc(alias = "fi_sendmsg")]
    #[doc(alias = "fi_tsendmsg")]
    pub unsafe fn send_unsignaled(
        &self,
        to: impl Into<K::To>,
        tag: Option<Tag>,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        let (to, data, flags) = (to.into(), options.data, self.limits().with_default(options.flags()));
        let lent =
            self.opened.unsignaled(Op::Send { tag, data }, flags, self.kind.destination(self.limits(), to), lent)?;
        // SAFETY: `unsignaled` guarantees H1, T1 and O1, and this function's caller L1.
        Ok(unsafe { T::sendmsg(self.raw(), &lent.msg(data, flags), tag) }?)
    }

    /// [`send_unsignaled`](Self::send_unsignaled) for a write to a peer's region from byte
    /// `offset`.
    ///
    /// # Errors
    /// Those of [`send_unsignaled`](Self::send_unsignaled), [`PostError::RemoteAccess`] and
    /// [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// Conditions of [`send_unsignaled`](Self::send_unsignaled).
    #[doc(alias = "fi_writemsg")]
    pub unsafe fn write_unsignaled(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        let (peer, data, flags) = (peer.into(), options.data, self.limits().with_default(options.flags()));
        let lent =
            self.opened.unsignaled(Op::Write { data }, flags, self.kind.destination(self.limits(), peer), lent)?;
        let part = part(lent.address, (region, offset), lent.len(), Access::REMOTE_WRITE)?;
        // SAFETY: `unsignaled` guarantees H1, T1 and O1, and this function's caller L1.
        Ok(unsafe { T::writemsg(self.raw(), &lent.msg(data, flags), &[part]) }?)
    }

    /// [`send_unsignaled`](Self::send_unsignaled) for a read of a peer's region from byte `offset`.
    ///
    /// # Errors
    /// Those of [`send_unsignaled`](Self::send_unsignaled), [`PostError::RemoteAccess`] and
    /// [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// Conditions of [`send_unsignaled`](Self::send_unsignaled), but for writable memory, which the
    /// caller does not read or refer to until the operation has ended.
    #[doc(alias = "fi_readmsg")]
    pub unsafe fn read_unsignaled(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        options: ReadOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        let peer = peer.into();
        let flags = options.flags() | self.limits().tx_flags.intersection(OpFlags::FENCE);
        let lent = self.opened.unsignaled(Op::Read, flags, self.kind.destination(self.limits(), peer), lent)?;
        let part = part(lent.address, (region, offset), lent.len(), Access::REMOTE_READ)?;
        // SAFETY: `unsignaled` guarantees H1, T1 and O1, and this function's caller L1.
        Ok(unsafe { T::readmsg(self.raw(), &lent.msg(None, flags), &[part]) }?)
    }
}

struct Unsignaled {
    address: FabricAddr,
    lent: Lent,
}

impl Unsignaled {
    const fn len(&self) -> usize {
        self.lent.len
    }

    const fn msg(&self, data: Option<ImmediateData>, flags: OpFlags) -> Msg<'_> {
        let flags = flags.difference(OpFlags::COMPLETION);
        // The op table counts a failure as a stray.
        let context = Context::NONE;
        Msg { address: self.address, pieces: core::slice::from_ref(&self.lent), data, context, flags }
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// Validates an operation on an open endpoint (H1), on this thread (T1). The result has the
    /// address (O1).
    fn unsignaled(
        &self,
        op: Op,
        flags: OpFlags,
        address: Result<FabricAddr, PostError>,
        lent: &Lent,
    ) -> Result<Unsignaled, PostError> {
        if !self.limits.selective {
            return Err(PostError::NotSelective);
        }
        if !self.cq().domain().info().contexts().is_empty() {
            // No slot offers space for the provider's context.
            return Err(PostError::Errno(Errno::EOPNOTSUPP));
        }
        self.limits.admit(with_fence(op.caps(), flags), op.data())?;
        let address = address?;
        Ok(Unsignaled { address, lent: self.check_memory(lent, op, Context::NONE, address)? })
    }
}

fn part(to: FabricAddr, place: (&RemoteRegion, u64), len: usize, needed: Access) -> Result<RemotePart, PostError> {
    let target = rma_target(to, place, len, needed)?;
    Ok(RemotePart { addr: target.addr, len, key: target.key })
}
