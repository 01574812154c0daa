//! What every post goes through: it is checked, and its buffer moves into the op table.

use super::{Port, Receives};
use crate::buffer::{Buffer, Lent};
use crate::engine::op_table::{Kind, OpKey};
use crate::error::{PostError, Rejected};
use crate::objects::av::Av;
use crate::objects::domain::Domain;
use crate::objects::endpoint::Source;
use crate::objects::info::{Info, Prefixes};
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
    /// Inject calls of messages that have so many bytes, or more, are not posted as they are.
    inject_end: usize,
    pub(super) max_msg_size: usize,
    cq_data_size: usize,
    pub(super) tx_iov_limit: usize,
    pub(super) rx_iov_limit: usize,
    pub(super) rma_iov_limit: usize,
    /// What sends and writes do by default.
    pub(super) tx_flags: OpFlags,
    /// Bytes in front of messages.
    pub(super) prefixes: Prefixes,
    /// Buffers have to be registered.
    local: bool,
    /// Peers' writes use up receives.
    pub(super) consumes: bool,
    /// More is to be seen to than what every provider asks for.
    pub(super) insists: bool,
    /// Sends, reads and writes need not report their success.
    pub(super) selective: bool,
}

/// The most bytes that inject calls copy where a prefix has to be put before them: on the stack.
const INJECT_ROOM: usize = 1024;

impl Limits {
    /// Of an endpoint that is opened from this info of a domain.
    pub(super) fn of<T: Transport>(info: &Info<T>, domain: &Domain<T>, receives: Receives) -> Self {
        let attributes = info.attributes();
        let elsewhere = match receives {
            Receives::Through(_) | Receives::OfWrites(_) | Receives::Nowhere => Caps::RECV,
            Receives::Itself | Receives::ForOthers => Caps::empty(),
        };
        let consumes = info.consumes_receives();
        let prefixes = info.prefixes();
        // Nobody says where the prefixes of the messages are that one buffer receives, or what a write uses up of it.
        let without = if prefixes.rx > 0 || consumes { Caps::MULTI_RECV } else { Caps::empty() };
        let (inject_size, inject_end) = match prefixes.tx {
            0 => (attributes.tx.inject_size, attributes.tx.inject_size.saturating_add(1)),
            size => (attributes.tx.inject_size.min(INJECT_ROOM.saturating_sub(size)), 0),
        };
        // An info without a name came with a request: what it grants is known of the domain's alone.
        let granted = if info.provider().is_empty() { domain.info().caps() } else { Caps::all() };
        // The domain asks for it, whatever the info says.
        let local = attributes.domain.mr_mode.union(domain.attributes().domain.mr_mode).contains(MrMode::LOCAL);
        Limits {
            // Of the domain's: `sockets` does not say in the info of a request whose it is.
            conduct: T::conduct(domain.info().raw()),
            caps: attributes.caps.intersection(granted).with_modifiers().difference(elsewhere).difference(without),
            inject_size,
            inject_end,
            max_msg_size: attributes.endpoint.max_msg_size,
            cq_data_size: attributes.domain.cq_data_size,
            tx_iov_limit: attributes.tx.iov_limit,
            rx_iov_limit: attributes.rx.iov_limit,
            rma_iov_limit: attributes.tx.rma_iov_limit,
            tx_flags: attributes.tx.op_flags,
            prefixes,
            local,
            consumes,
            insists: local || consumes || prefixes != Prefixes { tx: 0, rx: 0 },
            selective: false,
        }
    }
}

/// What an operation does with its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A message is sent out of it.
    Send,
    /// A message is received into it.
    Receive,
    /// A tagged message is received into it.
    TaggedReceive,
    /// It is written to a peer's memory.
    Write,
    /// A peer's memory is read into it.
    Read,
}

impl Use {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Use::Send | Use::Write => Kind::Send,
            Use::Receive => Kind::Receive,
            Use::TaggedReceive => Kind::TaggedReceive,
            Use::Read => Kind::Read,
        }
    }

    /// Whether the buffer's bytes go out.
    pub(super) const fn is_out(self) -> bool {
        matches!(self, Use::Send | Use::Write)
    }
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

    /// Sends a message as a copy. `submit` may rely on this: the endpoint is open, the address is what `to` gave, and what it is
    /// given is not longer than a prefix and `inject_size` together.
    #[inline(always)]
    pub(super) fn inject_message(
        &self,
        caps: Caps,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        bytes: &[u8],
        submit: impl FnOnce(FabricAddr, &[u8]) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        let room;
        let mut bytes = bytes;
        if bytes.len() >= self.limits.inject_end {
            room = self.prefixed(bytes)?;
            bytes = room.get(..self.limits.prefixes.tx + bytes.len()).unwrap_or(&[]);
        }
        self.granted(caps)?;
        self.carries(data)?;
        submit(to()?, bytes)
    }

    /// Puts a prefix before what is injected, where one is asked for; else it is too long.
    #[cold]
    #[inline(never)]
    fn prefixed(&self, bytes: &[u8]) -> Result<[u8; INJECT_ROOM], PostError> {
        let (needed, limit) = (self.limits.prefixes.tx, self.limits.inject_size);
        if bytes.len() > limit {
            return Err(PostError::TooLong { limit });
        }
        let mut room = [0; INJECT_ROOM];
        let message = room.get_mut(needed..).and_then(|rest| rest.get_mut(..bytes.len()));
        message.ok_or(PostError::NoPrefix { needed })?.copy_from_slice(bytes);
        Ok(room)
    }

    /// Checks what a buffer has lent, but for what only some providers [insist](Self::insist) on.
    #[inline]
    pub(super) fn lendable(&self, lent: &Lent, purpose: Use) -> Result<(), PostError> {
        let allowed = if purpose.is_out() { lent.is_readable() } else { lent.is_writable() };
        if !allowed {
            return Err(PostError::Access);
        }
        if lent.kind() != HmemIface::SYSTEM {
            self.takes_of_device(lent)?;
        }
        if let Some(descriptor) = lent.descriptor()
            && descriptor.domain != self.cq.domain().identity()
        {
            return Err(PostError::ForeignDescriptor);
        }
        if purpose.is_out() && lent.len() > self.limits.max_msg_size {
            return Err(PostError::TooLong { limit: self.limits.max_msg_size });
        }
        Ok(())
    }

    /// Whether what a buffer has lent of a device's memory can be posted. It has to be registered, whether the domain asks for
    /// that or not: by its descriptor a provider knows whose memory it is.
    #[cold]
    fn takes_of_device(&self, lent: &Lent) -> Result<(), PostError> {
        if !self.limits.caps.contains(Caps::HMEM) {
            return Err(PostError::DeviceMemory);
        }
        if lent.descriptor().is_none() && lent.len() > 0 { Err(PostError::NotRegistered) } else { Ok(()) }
    }

    /// What is to be posted of a buffer for a provider that asks for more than others: with the prefix, if it is the first of a
    /// message's, and registered. The first comes with the operation's context and address.
    #[cold]
    #[inline(never)]
    pub(super) fn insist(
        &self,
        lent: Lent,
        purpose: Use,
        first: Option<(Context, FabricAddr)>,
    ) -> Result<Lent, PostError> {
        let needed = match purpose {
            _ if first.is_none() => 0,
            Use::Send => self.limits.prefixes.tx,
            Use::Receive | Use::TaggedReceive => self.limits.prefixes.rx,
            Use::Write | Use::Read => 0,
        };
        if let Some((context, from)) = first
            && self.limits.consumes
            && purpose == Use::Receive
        {
            // What it takes to post it again.
            self.cq.ops().note_source(context, from);
        }
        let lent = lent.with_prefix(needed).ok_or(PostError::NoPrefix { needed })?;
        if self.limits.local && lent.descriptor().is_none() && lent.len() > 0 {
            return Err(PostError::NotRegistered);
        }
        Ok(lent)
    }

    /// Hands what a buffer has lent to `submit`, as the provider wants it. (Which has one call only, so that it is compiled into
    /// where that is.)
    #[inline(always)]
    pub(super) fn hand_in(
        &self,
        lent: &Lent,
        purpose: Use,
        (context, address): (Context, FabricAddr),
        submit: impl FnOnce(&Lent) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        self.lendable(lent, purpose)?;
        let mut lent = *lent;
        if self.limits.insists {
            // By value: where nothing is insisted on, what is lent stays in registers.
            lent = self.insist(lent, purpose, Some((context, address)))?;
        }
        submit(&lent)
    }

    /// Posts something that goes out. `submit` may rely on this: the endpoint is open, the address is what `to` gave,
    /// and what is lent is readable and stays in the op table until its event or the endpoint's close.
    // Always: what does not hold for this endpoint or buffer is gone then, and the key need not go through memory.
    #[inline(always)]
    pub(super) fn transmit(
        &self,
        (caps, purpose): (Caps, Use),
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
        let lending = self.cq.ops().lend(self.index, purpose.kind(), buf)?;
        let submit = |lent: &Lent| submit(self.raw(), to, lent, lending.context);
        let submitted = self.hand_in(&lending.lent, purpose, (lending.context, to), submit);
        self.cq.ops().settle(lending, submitted)
    }

    /// Posts something that comes in. `submit` may rely on this: the endpoint is open, the address is what `from` gave,
    /// and what is lent is writable and stays in the op table until its event or the endpoint's close.
    // Always: see `transmit`.
    #[inline(always)]
    pub(super) fn receive(
        &self,
        (caps, purpose): (Caps, Use),
        from: impl FnOnce() -> Result<FabricAddr, PostError>,
        buf: B,
        submit: impl FnOnce(&T::Endpoint, FabricAddr, &Lent, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        let from = match self.granted(caps).and_then(|()| from()) {
            Ok(from) => from,
            Err(error) => return Err(Rejected { buf, error }),
        };
        let lending = self.cq.ops().lend(self.index, purpose.kind(), buf)?;
        let submit = |lent: &Lent| submit(self.raw(), from, lent, lending.context);
        let submitted = self.hand_in(&lending.lent, purpose, (lending.context, from), submit);
        self.cq.ops().settle(lending, submitted)
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
