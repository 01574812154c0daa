//! What every post goes through: it is checked against [`Limits`], and its buffer moves into the op table.

use heapless::Vec;

use super::opened::Opened;
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::cq::ReceiveMode;
use crate::domain::DomainInner;
use crate::engine::op_table::{Kind, OpKey, Slot};
use crate::error::{PostError, Rejected};
use crate::info::{Info, Prefixes};
use crate::options::CompletionLevel;
use crate::remote_region::RemoteRegion;
use crate::transport::{Context, Msg, ProviderQuirks, Refusal, RemotePart, RmaTarget, Transport};
use crate::vocabulary::{Access, Caps, FabricAddr, HmemIface, ImmediateData, MrMode, OpFlags};

/// What a provider has to grant for each group of operations.
pub(super) mod required_caps {
    use crate::vocabulary::Caps;

    pub(in crate::endpoint) const SEND: Caps = Caps::MSG.union(Caps::SEND);
    pub(in crate::endpoint) const RECV: Caps = Caps::MSG.union(Caps::RECV);
    pub(in crate::endpoint) const MULTI_RECV: Caps = RECV.union(Caps::MULTI_RECV);
    pub(in crate::endpoint) const TAGGED_SEND: Caps = Caps::TAGGED.union(Caps::SEND);
    pub(in crate::endpoint) const TAGGED_RECV: Caps = Caps::TAGGED.union(Caps::RECV);
    pub(in crate::endpoint) const TAGGED_MULTI_RECV: Caps = TAGGED_RECV.union(Caps::TAGGED_MULTI_RECV);
    pub(in crate::endpoint) const READ: Caps = Caps::RMA.union(Caps::READ);
    pub(in crate::endpoint) const WRITE: Caps = Caps::RMA.union(Caps::WRITE);
    pub(in crate::endpoint) const ATOMIC: Caps = Caps::ATOMIC.union(Caps::WRITE);
    pub(in crate::endpoint) const ATOMIC_READ: Caps = Caps::ATOMIC.union(Caps::READ);
    pub(in crate::endpoint) const ATOMIC_FETCH: Caps = ATOMIC.union(ATOMIC_READ);
}

/// What an operation does with its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpKind {
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

impl OpKind {
    pub(super) const fn kind(self) -> Kind {
        match self {
            OpKind::Send | OpKind::Write => Kind::Send,
            OpKind::Receive => Kind::Receive,
            OpKind::TaggedReceive => Kind::TaggedReceive,
            OpKind::Read => Kind::Read,
        }
    }

    /// Whether the buffer's bytes go out.
    pub(super) const fn is_out(self) -> bool {
        matches!(self, OpKind::Send | OpKind::Write)
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
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
        self.check(caps, to, data)
    }

    /// Sends a message as a copy. `submit` may rely on this: the endpoint is open (C1), on this thread (C5), the address is what `to`
    /// gave (C13), and what it is given is not longer than a prefix and `inject_size` together, with the prefix that C12 asks for.
    #[inline(always)]
    pub(super) fn inject(
        &self,
        caps: Caps,
        to: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        bytes: &[u8],
        submit: impl FnOnce(&T::Endpoint, FabricAddr, &[u8]) -> Result<(), Refusal>,
    ) -> Result<(), PostError> {
        let room;
        let mut bytes = bytes;
        if bytes.len() >= self.limits.inject_end {
            room = self.prefixed(bytes)?;
            bytes = room.get(..self.limits.prefixes.tx + bytes.len()).unwrap_or(&[]);
        }
        Ok(submit(self.raw(), self.check(caps, to, data)?, bytes)?)
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

    /// Checks what a buffer has lent, but for what only some providers [require](Self::apply_modes).
    #[inline]
    pub(super) fn lendable(&self, lent: &Lent, purpose: OpKind) -> Result<(), PostError> {
        let allowed = if purpose.is_out() { lent.is_readable() } else { lent.is_writable() };
        if !allowed {
            return Err(PostError::Access.cold());
        }
        if lent.kind() != HmemIface::SYSTEM {
            self.takes_of_device(lent)?;
        }
        if let Some(descriptor) = lent.descriptor()
            && descriptor.domain != self.cq().domain().identity()
        {
            return Err(PostError::ForeignDescriptor.cold());
        }
        if purpose.is_out() && lent.len() > self.limits.max_msg_size {
            return Err(PostError::TooLong { limit: self.limits.max_msg_size }.cold());
        }
        Ok(())
    }

    /// Whether what a buffer has lent of a device's memory can be posted. It has to be registered, whether the domain asks for
    /// that or not: by its descriptor a provider knows whose memory it is.
    #[cold]
    fn takes_of_device(&self, lent: &Lent) -> Result<(), PostError> {
        if !self.limits.takes_device_memory() {
            return Err(PostError::DeviceMemory);
        }
        if lent.descriptor().is_none() && lent.len() > 0 { Err(PostError::NotRegistered) } else { Ok(()) }
    }

    /// What is to be posted of a buffer for a provider that asks for more than others: with the prefix, if it is the first of a
    /// message's, and registered. The first comes with the operation's context and address.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_modes(
        &self,
        lent: Lent,
        purpose: OpKind,
        first: Option<(Context, FabricAddr)>,
    ) -> Result<Lent, PostError> {
        let needed = match purpose {
            _ if first.is_none() => 0,
            OpKind::Send => self.limits.prefixes.tx,
            OpKind::Receive | OpKind::TaggedReceive => self.limits.prefixes.rx,
            OpKind::Write | OpKind::Read => 0,
        };
        if let Some((context, from)) = first
            && self.limits.consumes
            && purpose == OpKind::Receive
        {
            // What it takes to post it again.
            self.cq().ops().note_source(context, from);
        }
        let lent = lent.with_prefix(needed).ok_or(PostError::NoPrefix { needed })?;
        if self.limits.local && lent.descriptor().is_none() && lent.len() > 0 {
            return Err(PostError::NotRegistered);
        }
        Ok(lent)
    }

    /// What is to be submitted of what a buffer has lent: that, or as the provider wants it.
    #[inline(always)]
    pub(super) fn checked(
        &self,
        lent: &Lent,
        purpose: OpKind,
        (context, address): (Context, FabricAddr),
    ) -> Result<Lent, PostError> {
        self.lendable(lent, purpose)?;
        if !self.limits.extra_checks {
            return Ok(*lent);
        }
        // By value, and no more of the result than what may be another: where nothing more is required, what is lent stays in registers.
        Ok(lent.with_range_of(&self.apply_modes(*lent, purpose, Some((context, address)))?))
    }

    /// Checks the capabilities that an operation needs, and its immediate data.
    #[inline(always)]
    pub(super) fn granted(&self, caps: Caps, data: Option<ImmediateData>) -> Result<(), PostError> {
        self.limits.granted(caps)?;
        self.limits.check_data_width(data)
    }

    /// Checks an operation without a buffer of the program, and returns the address.
    #[inline(always)]
    pub(super) fn check(
        &self,
        caps: Caps,
        address: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
    ) -> Result<FabricAddr, PostError> {
        self.granted(caps, data)?;
        address()
    }

    /// Lends a buffer for an operation, which is to be submitted, and what came of that [settled](Self::settle).
    // Always, and with no closure in between: what does not hold for this endpoint or buffer is gone then, and neither what is lent
    // nor the key goes through memory.
    #[inline(always)]
    pub(super) fn lend(
        &self,
        (caps, purpose): (Caps, OpKind),
        address: impl FnOnce() -> Result<FabricAddr, PostError>,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<Posting<'_, T, B>, Rejected<B>> {
        if let Err(error) = self.granted(caps, data) {
            return Err(Rejected { buf, error });
        }
        let lending = self.cq().ops().lend(self.index(), purpose.kind(), buf)?;
        // After the buffer's own code (rule 6 of the op table), which may remove the peer.
        let error = match address() {
            Ok(address) => match self.checked(&lending.lent, purpose, (lending.context, address)) {
                Ok(lent) => {
                    let (context, slot) = (lending.context, lending.slot);
                    return Ok(Posting { raw: self.raw(), address, lent, context, slot });
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        Err(Rejected { buf: self.take_back(lending.slot), error })
    }

    /// The operation is under way, or was refused.
    #[inline(always)]
    pub(super) fn settle(
        &self,
        posting: Posting<'_, T, B>,
        submitted: Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        match submitted {
            Ok(()) => Ok(posting.slot.key()),
            Err(error) => Err(Rejected { buf: self.take_back(posting.slot), error }),
        }
    }

    /// The buffer of an operation that was refused.
    // From the endpoint on: nothing of the table is kept in registers then while an operation is submitted.
    #[cold]
    #[inline(never)]
    fn take_back(&self, slot: &Slot<B>) -> B {
        self.cq().ops().take_back(slot)
    }
}

/// An operation that is about to be submitted. Who does may rely on this: the endpoint is open (C1), on this thread (C5), the address is
/// what [`lend`](Opened::lend) was given (C13), and what is lent allows what the purpose says, with the prefix and registration that the
/// provider asks for (C11, C12), and stays in the op table until its event or the endpoint's close (C9, C10).
#[must_use]
pub(super) struct Posting<'t, T: Transport, B> {
    pub(super) raw: &'t T::Endpoint,
    pub(super) address: FabricAddr,
    pub(super) lent: Lent,
    pub(super) context: Context,
    slot: &'t Slot<B>,
}

/// Target of an operation on `len` bytes of a region that needs this access to it.
#[inline]
pub(super) fn remote(
    to: FabricAddr,
    (region, offset): (&RemoteRegion, u64),
    len: usize,
    needed: Access,
) -> Result<RmaTarget, PostError> {
    granted_by(region, needed)?;
    let addr = region.range(offset, len as u64).ok_or_else(|| PostError::OutOfBounds.cold())?;
    Ok(RmaTarget { to, addr, key: region.key() })
}

/// Checks that a region grants this access.
#[inline]
fn granted_by(region: &RemoteRegion, needed: Access) -> Result<(), PostError> {
    let missing = needed.difference(region.access());
    if missing.is_empty() { Ok(()) } else { Err(PostError::RemoteAccess(missing).cold()) }
}

/// The answer of a transport.
#[inline]
pub(super) fn map_refusal(posted: Result<(), Refusal>) -> Result<(), PostError> {
    Ok(posted?)
}

/// The parts of peers' memory that one operation names.
pub(super) type Parts = Vec<RemotePart, { IoVecs::MOST }>;

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// What a provider has to grant besides the operation itself.
    pub(super) const fn with_fence(caps: Caps, flags: OpFlags) -> Caps {
        if flags.contains(OpFlags::FENCE) { caps.union(Caps::FENCE) } else { caps }
    }

    /// Posts an operation. `submit` may rely on what a [`Posting`] promises, for each piece.
    pub(super) fn post_msg(
        &self,
        (caps, purpose, iov_limit): (Caps, OpKind, usize),
        address: impl FnOnce() -> Result<FabricAddr, PostError>,
        (data, flags): (Option<ImmediateData>, OpFlags),
        buf: B,
        submit: impl FnOnce(&T::Endpoint, &Msg<'_>, usize) -> Result<(), PostError>,
    ) -> Result<OpKey, Rejected<B>> {
        let caps = Self::with_fence(caps, flags);
        // Rule 7 of the op table.
        let flags = flags | OpFlags::COMPLETION;
        if let Err(error) = self.granted(caps, data) {
            return Err(Rejected { buf, error });
        }
        self.cq().ops().post_pieces(self.index(), purpose.kind(), buf, |pieces, context| {
            // After the buffer's own code (rule 6 of the op table), which may remove the peer.
            let address = address()?;
            let too_many = PostError::TooManyPieces { limit: iov_limit.min(IoVecs::MOST) };
            let pieces_of = pieces.get().ok_or(too_many)?;
            let nothing = [().lend()];
            let pieces_of: &[Lent] = if pieces_of.is_empty() { &nothing } else { pieces_of };
            if pieces_of.len() > iov_limit {
                return Err(too_many);
            }
            for piece in pieces_of {
                self.lendable(piece, purpose)?;
            }
            let too_long = PostError::TooLong { limit: self.limits.max_msg_size };
            let total = pieces.total().ok_or(too_long)?;
            if purpose.is_out() && total > self.limits.max_msg_size {
                return Err(too_long);
            }
            let mut adjusted = Vec::<Lent, { IoVecs::MOST }>::new();
            if self.limits.extra_checks {
                for (at, piece) in pieces_of.iter().enumerate() {
                    // There is room: there are not more than that.
                    let _ =
                        adjusted.push(self.apply_modes(*piece, purpose, (at == 0).then_some((context, address)))?);
                }
            }
            let pieces = if self.limits.extra_checks { &adjusted } else { pieces_of };
            submit(self.raw(), &Msg { address, pieces, data, context, flags }, total)
        })
    }

    /// The parts of a peer's memory: at most `rma_iov_limit`, together as long as the buffer, and each with the access that the
    /// operation needs.
    pub(super) fn parts(&self, remote: &[RemoteRegion], total: usize, needed: Access) -> Result<Parts, PostError> {
        let limit = self.limits.rma_iov_limit.min(IoVecs::MOST);
        let too_many = PostError::TooManyPieces { limit };
        if remote.is_empty() || remote.len() > limit {
            return Err(too_many);
        }
        let (mut parts, mut left) = (Parts::new(), total);
        for region in remote {
            granted_by(region, needed)?;
            let len = usize::try_from(region.len()).map_err(|_| PostError::OutOfBounds)?;
            left = left.checked_sub(len).ok_or(PostError::OutOfBounds)?;
            let part = RemotePart { addr: region.base(), len, key: region.key() };
            parts.push(part).map_err(|_| too_many)?;
        }
        if left == 0 { Ok(parts) } else { Err(PostError::OutOfBounds) }
    }
}

/// What a post is checked against.
#[expect(unnameable_types, reason = "an argument of hidden methods")]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What is not granted: a post needs nothing of it.
    lacking: Caps,
    pub(super) quirks: ProviderQuirks,
    pub(super) inject_size: usize,
    /// Injects of at least this length need a prefix, or are too long.
    pub(super) inject_end: usize,
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
    pub(super) local: bool,
    /// Peers' writes use up receives.
    pub(super) consumes: bool,
    /// The provider requires additional checks.
    pub(super) extra_checks: bool,
    /// Sends, reads and writes need not report their success.
    pub(super) selective: bool,
}

/// The most bytes that inject calls copy where a prefix has to be put before them: on the stack.
pub(super) const INJECT_ROOM: usize = 1024;

impl Limits {
    /// Of an endpoint that is opened from this info of a domain.
    pub(super) fn of<T: Transport>(info: &Info<T>, domain: &DomainInner<T>, receive_mode: ReceiveMode) -> Self {
        let attributes = info.attributes();
        let elsewhere = match receive_mode {
            ReceiveMode::Through(_) | ReceiveMode::OfWrites(_) | ReceiveMode::Nowhere => Caps::RECV,
            // Providers that have tags with shared contexts crash when one arrives that no receive matches.
            ReceiveMode::ForOthers => Caps::TAGGED.union(Caps::MULTI_RECV),
            ReceiveMode::Itself => Caps::empty(),
        };
        let consumes = info.consumes_receives();
        let prefixes = info.prefixes();
        // libfabric does not define where prefixes lie in a multi-receive buffer, or what a write uses up of it.
        let multi = Caps::MULTI_RECV.union(Caps::TAGGED_MULTI_RECV);
        let without = if prefixes.rx > 0 || consumes { multi } else { Caps::empty() };
        let (inject_size, inject_end) = match prefixes.tx {
            0 => (attributes.tx.inject_size, attributes.tx.inject_size.saturating_add(1)),
            size => (attributes.tx.inject_size.min(INJECT_ROOM.saturating_sub(size)), 0),
        };
        // An info without a name came with a request: what it grants is known of the domain's alone.
        let granted = if info.provider().is_empty() { domain.info().caps() } else { Caps::all() };
        // The domain asks for it, whatever the info says.
        let local = attributes.domain.mr_mode.union(domain.attributes().domain.mr_mode).contains(MrMode::LOCAL);
        Limits {
            // Taken from the domain's info: `sockets` leaves the provider name out of the info of a connection request.
            quirks: T::quirks(domain.info().raw()),
            lacking: attributes.caps.intersection(granted).with_modifiers().complement() | elsewhere | without,
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
            extra_checks: local || consumes || prefixes != Prefixes { tx: 0, rx: 0 },
            selective: false,
        }
    }

    /// What is granted, as far as posts can use it.
    pub(super) const fn caps(&self) -> Caps {
        self.lacking.complement()
    }

    /// Bytes of immediate data.
    pub(super) const fn cq_data_size(&self) -> usize {
        self.cq_data_size
    }

    /// Whether something is granted.
    #[inline]
    pub(super) fn granted(&self, caps: Caps) -> Result<(), PostError> {
        let missing = caps.intersection(self.lacking);
        if missing.is_empty() { Ok(()) } else { Err(PostError::NotGranted(missing).cold()) }
    }

    /// Whether memory of devices can be posted.
    pub(super) const fn takes_device_memory(&self) -> bool {
        !self.lacking.contains(Caps::HMEM)
    }

    /// Whether immediate data is carried.
    #[inline]
    pub(super) fn check_data_width(&self, data: Option<ImmediateData>) -> Result<(), PostError> {
        match data {
            Some(data) if !data.fits(self.cq_data_size) => {
                Err(PostError::DataWidth { limit: self.cq_data_size }.cold())
            }
            _ => Ok(()),
        }
    }

    /// Whether a message without tag can be received from this address: of one peer, only where that works.
    #[inline]
    pub(super) fn directs(&self, from: FabricAddr) -> Result<FabricAddr, PostError> {
        if from == FabricAddr::UNSPEC || self.quirks.directed_recv {
            Ok(from)
        } else {
            Err(PostError::NotGranted(Caps::DIRECTED_RECV).cold())
        }
    }

    /// With what the endpoint does by default, which flags of a call would override; but for the level of completion, if
    /// another is asked for.
    pub(super) fn with_default(&self, flags: OpFlags) -> OpFlags {
        let other = flags.intersects(CompletionLevel::ALL);
        flags | if other { self.tx_flags.difference(CompletionLevel::ALL) } else { self.tx_flags }
    }
}
