//! Operations that report nothing unless they fail: past the op table, with memory that the caller answers for.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the caller lends")]

use super::Port;
use super::post::{Use, needs, remote, taken};
use crate::buffer::{Buffer, Lent};
use crate::error::PostError;
use crate::objects::mr::RemoteRegion;
use crate::objects::options::{ReadOptions, SendOptions};
use crate::transport::{Context, Msg, RemotePart, Transport};
use crate::vocabulary::{Caps, Errno, FabricAddr, ImmediateData, OpFlags, Tag};

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// Posts an operation. `submit` may rely on this: the endpoint is open, the address is what `address` gave, and what is lent
    /// allows the access; that it stays is the caller's promise.
    fn post_unreported(
        &self,
        (caps, purpose): (Caps, Use),
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
        self.granted(Self::with_fence(caps, flags))?;
        self.carries(data)?;
        let (address, flags) = (address()?, flags.difference(OpFlags::COMPLETION));
        // No slot's context: the op table takes a failure for a stray.
        let context = Context::NONE;
        self.hand_in(lent, purpose, (context, address), |lent| {
            let pieces = core::slice::from_ref(lent);
            submit(self.raw(), &Msg { address, pieces, data, context, flags })
        })
    }

    /// `to` gives an address that the endpoint may send to: one in its vector.
    ///
    /// # Safety
    /// What is lent stays as it is, and the endpoint open, until the operation is over.
    pub(crate) unsafe fn send_unreported(
        &self,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        tag: Option<Tag>,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        let caps = if tag.is_some() { needs::TAGGED_SEND } else { needs::SEND };
        let how = (options.data, self.with_default(options.flags));
        self.post_unreported((caps, Use::Send), to, how, lent, |raw, msg| {
            taken(match tag {
                // SAFETY: see `post_unreported`.
                None => unsafe { T::sendmsg(raw, msg) },
                // SAFETY: as above.
                Some(tag) => unsafe { T::tagged_sendmsg(raw, msg, tag) },
            })
        })
    }

    /// As [`send_unreported`](Self::send_unreported).
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported).
    pub(crate) unsafe fn write_unreported(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        region: &RemoteRegion,
        offset: u64,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        let how = (options.data, self.with_default(options.flags));
        self.post_unreported((needs::WRITE, Use::Write), peer, how, lent, |raw, msg| {
            let part = part(msg.address, region, offset, lent.len())?;
            // SAFETY: see `post_unreported`.
            taken(unsafe { T::writemsg(raw, msg, &[part]) })
        })
    }

    /// As [`send_unreported`](Self::send_unreported).
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported), and nobody else uses what is lent until then.
    pub(crate) unsafe fn read_unreported(
        &self,
        peer: impl FnOnce() -> Result<FabricAddr, PostError>,
        region: &RemoteRegion,
        offset: u64,
        options: ReadOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        let flags = options.flags | self.limits.tx_flags.intersection(OpFlags::FENCE);
        self.post_unreported((needs::READ, Use::Read), peer, (None, flags), lent, |raw, msg| {
            let part = part(msg.address, region, offset, lent.len())?;
            // SAFETY: see `post_unreported`.
            taken(unsafe { T::readmsg(raw, msg, &[part]) })
        })
    }
}

/// The one part of the peer's memory.
fn part(to: FabricAddr, region: &RemoteRegion, offset: u64, len: usize) -> Result<RemotePart, PostError> {
    let target = remote(to, region, offset, len)?;
    Ok(RemotePart { addr: target.addr, len, key: target.key })
}
