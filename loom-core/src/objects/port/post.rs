//! What every post goes through: it is checked, and its buffer moves into the op table.

use super::{Port, Receives};
use crate::buffer::{Buffer, Lent};
use crate::engine::op_table::{Kind, OpKey};
use crate::error::{PostError, Rejected};
use crate::objects::av::Av;
use crate::objects::domain::Domain;
use crate::objects::endpoint::Source;
use crate::objects::info::Info;
use crate::objects::mr::RemoteRegion;
use crate::transport::{Conduct, Context, Refusal, RmaTarget, Transport};
use crate::vocabulary::{Caps, FabricAddr, HmemIface, ImmediateData, MrMode, OpFlags};

/// What a provider has to grant for each group of operations.
pub(super) mod needs {
    use crate::vocabulary::Caps;

    pub(in crate::objects::port) const SEND: Caps = Caps::MSG.union(Caps::SEND);
    pub(in crate::objects::port) const RECV: Caps = Caps::MSG.union(Caps::RECV);
    pub(in crate::objects::port) const MULTI_RECV: Caps = RECV.union(Caps::MULTI_RECV);
    pub(in crate::objects::port) const TAGGED_SEND: Caps = Caps::TAGGED.union(Caps::SEND);
    pub(in crate::objects::port) const TAGGED_RECV: Caps = Caps::TAGGED.union(Caps::RECV);
    pub(in crate::objects::port) const READ: Caps = Caps::RMA.union(Caps::READ);
    pub(in crate::objects::port) const WRITE: Caps = Caps::RMA.union(Caps::WRITE);
}

/// What a post is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    caps: Caps,
    pub(crate) conduct: Conduct,
    pub(crate) inject_size: usize,
    pub(super) max_msg_size: usize,
    cq_data_size: usize,
    pub(super) tx_iov_limit: usize,
    pub(super) rx_iov_limit: usize,
    pub(super) rma_iov_limit: usize,
    /// What sends and writes do by default.
    pub(super) tx_flags: OpFlags,
    /// Buffers have to be registered.
    local: bool,
}

impl Limits {
    /// Of an endpoint that is opened from this info of a domain.
    pub(super) fn of<T: Transport>(info: &Info<T>, domain: &Domain<T>, receives: Receives) -> Self {
        let attributes = info.attributes();
        let elsewhere = match receives {
            Receives::Through(_) | Receives::Nowhere => Caps::RECV,
            Receives::Itself | Receives::ForOthers => Caps::empty(),
        };
        Limits {
            conduct: T::conduct(info.raw()),
            caps: attributes.caps.with_modifiers().difference(elsewhere),
            inject_size: attributes.tx.inject_size,
            max_msg_size: attributes.endpoint.max_msg_size,
            cq_data_size: attributes.domain.cq_data_size,
            tx_iov_limit: attributes.tx.iov_limit,
            rx_iov_limit: attributes.rx.iov_limit,
            rma_iov_limit: attributes.tx.rma_iov_limit,
            tx_flags: attributes.tx.op_flags,
            // The domain asks for it, whatever the info says.
            local: attributes.domain.mr_mode.union(domain.attributes().domain.mr_mode).contains(MrMode::LOCAL),
        }
    }
}

/// What an operation does with its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Send,
    Receive,
}

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// Whether something is granted.
    #[inline]
    pub(crate) fn granted(&self, caps: Caps) -> Result<(), PostError> {
        let missing = caps.difference(self.limits.caps);
        if missing.is_empty() { Ok(()) } else { Err(PostError::NotGranted(missing)) }
    }

    /// The address of the one whose messages a receive takes.
    #[inline]
    pub(crate) fn source(&self, av: &Av<'_, T>, from: Source) -> Result<FabricAddr, PostError> {
        match from {
            Source::Any => Ok(FabricAddr::UNSPEC),
            Source::Peer(peer) => {
                self.granted(Caps::DIRECTED_RECV)?;
                av.fabric_addr(peer).ok_or(PostError::UnknownPeer)
            }
        }
    }

    /// As [`source`](Self::source), of messages without tag.
    #[inline]
    pub(crate) fn plain_source(&self, av: &Av<'_, T>, from: Source) -> Result<FabricAddr, PostError> {
        if from != Source::Any && !self.limits.conduct.directed_recv {
            return Err(PostError::NotGranted(Caps::DIRECTED_RECV));
        }
        self.source(av, from)
    }

    #[inline]
    pub(super) fn carries(&self, data: Option<ImmediateData>) -> Result<(), PostError> {
        match data {
            Some(data) if !data.fits(self.limits.cq_data_size) => {
                Err(PostError::DataWidth { limit: self.limits.cq_data_size })
            }
            _ => Ok(()),
        }
    }

    /// Checks what goes out as a copy.
    #[inline]
    pub(super) fn injectable(
        &self,
        caps: Caps,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<FabricAddr, PostError> {
        if bytes.len() > self.limits.inject_size {
            return Err(PostError::TooLong { limit: self.limits.inject_size });
        }
        self.granted(caps)?;
        self.carries(data)?;
        to()
    }

    /// Checks what a buffer has lent.
    #[inline]
    pub(super) fn lendable(&self, lent: &Lent, purpose: Use) -> Result<(), PostError> {
        let allowed = match purpose {
            Use::Send => lent.is_readable(),
            Use::Receive => lent.is_writable(),
        };
        if !allowed {
            return Err(PostError::Access);
        }
        if lent.kind() != HmemIface::SYSTEM {
            return Err(PostError::DeviceMemory);
        }
        match lent.descriptor() {
            Some(descriptor) if descriptor.domain != self.cq.domain().identity() => {
                return Err(PostError::ForeignDescriptor);
            }
            None if self.limits.local && lent.len() > 0 => return Err(PostError::NotRegistered),
            _ => {}
        }
        if purpose == Use::Send && lent.len() > self.limits.max_msg_size {
            return Err(PostError::TooLong { limit: self.limits.max_msg_size });
        }
        Ok(())
    }

    /// Posts something that goes out. `submit` may rely on this: the endpoint is open, the address is what `to` gave,
    /// and what is lent is readable and stays in the op table until its event or the endpoint's close.
    #[inline]
    pub(super) fn transmit(
        &self,
        caps: Caps,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        buf: B,
        submit: impl FnOnce(&T::Endpoint, FabricAddr, &Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        // What can be checked before the buffer is in its slot.
        let to = match self.granted(caps).and_then(|()| self.carries(data)).and_then(|()| to()) {
            Ok(to) => to,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Send, buf, |lent, context| {
            self.lendable(lent, Use::Send)?;
            submit(self.raw(), to, lent, context)
        })
    }

    /// Posts something that comes in. `submit` may rely on this: the endpoint is open, the address is what `from` gave,
    /// and what is lent is writable and stays in the op table until its event or the endpoint's close.
    #[inline]
    pub(super) fn receive(
        &self,
        caps: Caps,
        kind: Kind,
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        buf: B,
        submit: impl FnOnce(&T::Endpoint, FabricAddr, &Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        let from = match self.granted(caps).and_then(|()| from()) {
            Ok(from) => from,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, kind, buf, |lent, context| {
            self.lendable(lent, Use::Receive)?;
            submit(self.raw(), from, lent, context)
        })
    }
}

/// Where an RMA operation of `len` bytes goes.
#[inline]
pub(super) fn remote(to: FabricAddr, region: &RemoteRegion, offset: u64, len: usize) -> Result<RmaTarget, PostError> {
    let addr = region.range(offset, len).ok_or(PostError::OutOfBounds)?;
    Ok(RmaTarget { to, addr, key: region.key() })
}

/// The answer of a transport.
#[inline]
pub(super) fn taken(posted: Result<(), Refusal>) -> Result<(), PostError> {
    Ok(posted?)
}
