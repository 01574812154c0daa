//! Operations that do not report their success: `FI_SELECTIVE_COMPLETION` without `FI_COMPLETION`.

#![allow(unsafe_code, reason = "operations with memory that no completion gives back")]

use super::Endpoint;
use super::kind::{Has, Transmits};
use super::opened::Opened;
use super::post::{OpKind, map_refusal, remote, required_caps};
use crate::buffer::{Buffer, Lent};
use crate::error::PostError;
use crate::options::{ReadOptions, SendOptions};
use crate::query::{Messages, Reads, Tagged, Writes};
use crate::remote_region::RemoteRegion;
use crate::transport::{Context, Msg, RemotePart, Transport};
use crate::vocabulary::{Access, Caps, Errno, FabricAddr, ImmediateData, OpFlags, Tag};

impl<T: Transport, B: Buffer, K: Transmits<T>> Endpoint<'_, T, B, K> {
    /// Sends a message, and reports nothing if that succeeds: no completion, and nothing that keeps the memory.
    ///
    /// That it is over, a [`Counter`](crate::counter::Counter) of the endpoint tells, which counts those that fail
    /// apart. So does the completion of a later operation where the provider completes them in order
    /// ([`CompOrder::STRICT`](crate::vocabulary::CompOrder::STRICT)). One that fails is a
    /// [`Completion::Unclaimed`](crate::completion::Completion::Unclaimed) besides: with more than
    /// [`PEER_EVENTS`](crate::cq::PEER_EVENTS) in flight the queue might not have room for them.
    ///
    /// ```
    /// # #![allow(unsafe_code)]
    /// # #[cfg(feature = "std")] {
    /// use core::ptr::NonNull;
    ///
    /// use loom_core::buffer::Lent;
    /// use loom_core::counter::{Counter, CounterAttr};
    /// use loom_core::{av::Av, cq::Cq, domain::Domain, endpoint::{Binding, Source}, options::SendOptions};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::Counted;
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// let sends = Counter::open(&domain, CounterAttr::default())?;
    /// let message = *b"hello";
    /// let alice = cq.endpoint(Binding::to(&av).counter(Counted::SEND, &sends).selective())?;
    /// let bob = cq.endpoint(&av)?;
    /// let to_bob = av.insert(&bob.address()?)?;
    /// bob.recv(Source::Any, vec![0; 5])?;
    /// let lent = Lent::source(NonNull::from_ref(&message).cast(), message.len());
    /// // SAFETY: the message is read only, and stays until the counter says that the send is over.
    /// unsafe { alice.send_unsignaled(to_bob, SendOptions::new(), &lent) }?;
    /// while sends.read() < 1 {
    ///     cq.progress()?;
    /// }
    /// // The receive is all that completes.
    /// let completion = cq.poll()?;
    /// assert!(completion.is_some() && cq.poll()?.is_none());
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`PostError::NotSelective`] if the endpoint was not opened as
    ///   [selective](super::Binding::selective);
    /// - any other [`PostError`] of a send but `Full`; [`PostError::Errno`] with `EOPNOTSUPP` where the provider wants
    ///   memory for each operation's context (`FI_CONTEXT`).
    ///
    /// # Safety
    /// What `lent` describes is memory that may be read. Until the operation is over
    /// - the memory stays where it is, and is not written to;
    /// - the endpoint stays open: it is not dropped, and neither is its queue.
    #[doc(alias = "fi_sendmsg")]
    pub unsafe fn send_unsignaled(
        &self,
        to: impl Into<K::To>,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError>
    where
        K: Has<Messages>,
    {
        let to = to.into();
        let how = (options.data, self.limits().with_default(options.flags));
        self.opened.post_unsignaled(
            (required_caps::SEND, OpKind::Send),
            || self.destination(to),
            how,
            lent,
            |raw, msg| {
                // SAFETY: see `post_unsignaled`.
                map_refusal(unsafe { T::sendmsg(raw, msg) })
            },
        )
    }

    /// Sends a tagged message, as [`send_unsignaled`](Self::send_unsignaled).
    ///
    /// # Errors
    /// As [`send_unsignaled`](Self::send_unsignaled).
    ///
    /// # Safety
    /// As [`send_unsignaled`](Self::send_unsignaled).
    #[doc(alias = "fi_tsendmsg")]
    pub unsafe fn tagged_send_unsignaled(
        &self,
        to: impl Into<K::To>,
        tag: Tag,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError>
    where
        K: Has<Tagged>,
    {
        let to = to.into();
        let how = (options.data, self.limits().with_default(options.flags));
        self.opened.post_unsignaled(
            (required_caps::TAGGED_SEND, OpKind::Send),
            || self.destination(to),
            how,
            lent,
            |raw, msg| {
                // SAFETY: see `post_unsignaled`.
                map_refusal(unsafe { T::tagged_sendmsg(raw, msg, tag) })
            },
        )
    }

    /// Writes into a peer's region, from `offset` bytes into it, as [`send_unsignaled`](Self::send_unsignaled).
    ///
    /// # Errors
    /// As [`send_unsignaled`](Self::send_unsignaled), [`PostError::RemoteAccess`] and [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// As [`send_unsignaled`](Self::send_unsignaled).
    #[doc(alias = "fi_writemsg")]
    pub unsafe fn write_unsignaled(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError>
    where
        K: Has<Writes>,
    {
        let peer = peer.into();
        let how = (options.data, self.limits().with_default(options.flags));
        self.opened.post_unsignaled(
            (required_caps::WRITE, OpKind::Write),
            || self.destination(peer),
            how,
            lent,
            |raw, msg| {
                let part = part(msg.address, (region, offset), lent.len(), Access::REMOTE_WRITE)?;
                // SAFETY: see `post_unsignaled`.
                map_refusal(unsafe { T::writemsg(raw, msg, &[part]) })
            },
        )
    }

    /// Reads from a peer's region, from `offset` bytes into it, as [`send_unsignaled`](Self::send_unsignaled).
    ///
    /// # Errors
    /// As [`send_unsignaled`](Self::send_unsignaled), [`PostError::RemoteAccess`] and [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// As [`send_unsignaled`](Self::send_unsignaled), but it is memory that may be written, and the caller does not read from it or refer
    /// to it until then.
    #[doc(alias = "fi_readmsg")]
    pub unsafe fn read_unsignaled(
        &self,
        peer: impl Into<K::To>,
        region: &RemoteRegion,
        offset: u64,
        options: ReadOptions,
        lent: &Lent,
    ) -> Result<(), PostError>
    where
        K: Has<Reads>,
    {
        let peer = peer.into();
        let how = (None, options.flags | self.limits().tx_flags.intersection(OpFlags::FENCE));
        self.opened.post_unsignaled(
            (required_caps::READ, OpKind::Read),
            || self.destination(peer),
            how,
            lent,
            |raw, msg| {
                let part = part(msg.address, (region, offset), lent.len(), Access::REMOTE_READ)?;
                // SAFETY: see `post_unsignaled`.
                map_refusal(unsafe { T::readmsg(raw, msg, &[part]) })
            },
        )
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// Posts an operation. `submit` may rely on this: the endpoint is open (C1), on this thread (C5), the address is what `address` gave
    /// (C13), and what is lent allows the access; that it stays is the caller's promise (C9).
    fn post_unsignaled(
        &self,
        (caps, purpose): (Caps, OpKind),
        address: impl FnOnce() -> Result<FabricAddr, PostError>,
        (data, flags): (Option<ImmediateData>, OpFlags),
        lent: &Lent,
        submit: impl FnOnce(&T::Endpoint, &Msg<'_>) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        if !self.limits.selective {
            return Err(PostError::NotSelective);
        }
        if !self.cq().domain().info().contexts().is_empty() {
            // There is no slot whose space the provider could write to.
            return Err(PostError::Errno(Errno::EOPNOTSUPP));
        }
        let address = self.check(Self::with_fence(caps, flags), address, data)?;
        let flags = flags.difference(OpFlags::COMPLETION);
        // No slot's context: the op table takes a failure for a stray.
        let context = Context::NONE;
        let lent = self.checked(lent, purpose, (context, address))?;
        let pieces = core::slice::from_ref(&lent);
        submit(self.raw(), &Msg { address, pieces, data, context, flags })
    }
}

/// The one part of the peer's memory.
fn part(to: FabricAddr, place: (&RemoteRegion, u64), len: usize, needed: Access) -> Result<RemotePart, PostError> {
    let target = remote(to, place, len, needed)?;
    Ok(RemotePart { addr: target.addr, len, key: target.key })
}
