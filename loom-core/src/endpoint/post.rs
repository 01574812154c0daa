//! Common path of posts: checks against [`Limits`] and the buffer's move into the op table.

use heapless::Vec;

use super::opened::Opened;
use super::options::CompletionLevel;
use crate::buffer::{Buffer, IoVecs, Lent};
use crate::cq::ReceiveMode;
use crate::domain::DomainInner;
use crate::engine::op_table::{Kind, OpKey, Slot};
use crate::error::{PostError, Rejected};
use crate::info::{Info, Prefixes};
use crate::transport::{Context, Msg, ProviderQuirks, Refusal, RemotePart, RmaTarget, Transport};
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, Caps, FabricAddr, HmemIface, ImmediateData, MrMode, OpFlags};

/// Capabilities required by groups of operations.
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

/// Use of the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpKind {
    Send,
    Receive,
    TaggedReceive,
    Write,
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

    pub(super) const fn is_out(self) -> bool {
        matches!(self, OpKind::Send | OpKind::Write)
    }
}

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
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

    /// Injects a message. `submit` may rely on an open endpoint (H1) on this thread (T1), an
    /// address from `to` (O1), and bytes of at most a prefix and `inject_size`, with the prefix
    /// required by L4.
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

    /// Prepends the required prefix. Without one the bytes are too long.
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

    /// Checks lent memory, except for [modes](Self::apply_modes) of some providers.
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

    /// Checks lent device memory. It must always be registered: the descriptor identifies the
    /// device.
    #[cold]
    fn takes_of_device(&self, lent: &Lent) -> Result<(), PostError> {
        if !self.limits.takes_device_memory() {
            return Err(PostError::DeviceMemory);
        }
        if lent.descriptor().is_none() && lent.len() > 0 { Err(PostError::NotRegistered) } else { Ok(()) }
    }

    /// Applies the provider's modes: registration, and the prefix of a message's first piece, given
    /// as `first` with the operation's context and address.
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
            // To post the receive again.
            self.cq().ops().note_source(context, from);
        }
        let lent = lent.with_prefix(needed).ok_or(PostError::NoPrefix { needed })?;
        if self.limits.local && lent.descriptor().is_none() && lent.len() > 0 {
            return Err(PostError::NotRegistered);
        }
        Ok(lent)
    }

    /// Checks lent memory and returns it in the form that the provider requires.
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
        // Takes only the range, by value, so that `lent` stays in registers without extra checks.
        Ok(lent.with_range_of(&self.apply_modes(*lent, purpose, Some((context, address)))?))
    }

    #[inline(always)]
    pub(super) fn granted(&self, caps: Caps, data: Option<ImmediateData>) -> Result<(), PostError> {
        self.limits.granted(caps)?;
        self.limits.check_data_width(data)
    }

    /// Checks an operation without a buffer and returns its address.
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

    /// Lends a buffer for an operation. Its submission's result goes to [`settle`](Self::settle).
    // Always inlined, without a closure: checks that cannot fail here are optimised out, and the
    // lent range and the key stay in registers.
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

    /// Returns the key of an operation in flight, or a refused one's buffer.
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

    // Takes the endpoint, so that the op table occupies no registers during submission.
    #[cold]
    #[inline(never)]
    fn take_back(&self, slot: &Slot<B>) -> B {
        self.cq().ops().take_back(slot)
    }
}

/// An operation to submit, which guarantees an open endpoint (H1) on this thread (T1), the address
/// of [`lend`](Opened::lend) (O1), and memory that allows the purpose, has the required prefix and
/// registration (L3, L4), and stays in the op table until the event or the endpoint's close (L1,
/// L2).
#[must_use]
pub(super) struct Posting<'t, T: Transport, B> {
    pub(super) raw: &'t T::Endpoint,
    pub(super) address: FabricAddr,
    pub(super) lent: Lent,
    pub(super) context: Context,
    slot: &'t Slot<B>,
}

/// Target of an operation on `len` bytes of a region that must grant `needed`.
#[inline]
pub(super) fn remote(
    to: FabricAddr,
    (region, offset): (&RemoteRegion, u64),
    len: usize,
    needed: Access,
) -> Result<RmaTarget, PostError> {
    granted_by(region, needed)?;
    let addr = region.range(offset, len as u64).ok_or_else(|| PostError::OutOfBounds.cold())?;
    Ok(RmaTarget { to, addr, key: region.key })
}

#[inline]
fn granted_by(region: &RemoteRegion, needed: Access) -> Result<(), PostError> {
    let missing = needed.difference(region.access);
    if missing.is_empty() { Ok(()) } else { Err(PostError::RemoteAccess(missing).cold()) }
}

#[inline]
pub(super) fn map_refusal(posted: Result<(), Refusal>) -> Result<(), PostError> {
    Ok(posted?)
}

pub(super) type Parts = Vec<RemotePart, { IoVecs::MOST }>;

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    pub(super) const fn with_fence(caps: Caps, flags: OpFlags) -> Caps {
        if flags.contains(OpFlags::FENCE) { caps.union(Caps::FENCE) } else { caps }
    }

    /// Posts an operation. `submit` may rely on [`Posting`]'s guarantees, for each piece.
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
                    // Always fits: at most `IoVecs::MOST` pieces.
                    let _ =
                        adjusted.push(self.apply_modes(*piece, purpose, (at == 0).then_some((context, address)))?);
                }
            }
            let pieces = if self.limits.extra_checks { &adjusted } else { pieces_of };
            submit(self.raw(), &Msg { address, pieces, data, context, flags }, total)
        })
    }

    /// Checks a peer's parts: at most `rma_iov_limit`, together as long as the buffer, each with
    /// access `needed`.
    pub(super) fn parts(&self, remote: &[RemoteRegion], total: usize, needed: Access) -> Result<Parts, PostError> {
        let limit = self.limits.rma_iov_limit.min(IoVecs::MOST);
        let too_many = PostError::TooManyPieces { limit };
        if remote.is_empty() || remote.len() > limit {
            return Err(too_many);
        }
        let (mut parts, mut left) = (Parts::new(), total);
        for region in remote {
            granted_by(region, needed)?;
            let len = usize::try_from(region.len).map_err(|_| PostError::OutOfBounds)?;
            left = left.checked_sub(len).ok_or(PostError::OutOfBounds)?;
            let part = RemotePart { addr: region.base, len, key: region.key };
            parts.push(part).map_err(|_| too_many)?;
        }
        if left == 0 { Ok(parts) } else { Err(PostError::OutOfBounds) }
    }
}

/// Limits of posts.
#[expect(unnameable_types, reason = "an argument of hidden methods")]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Capabilities that posts may not require.
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
    /// Default flags of sends and writes.
    pub(super) tx_flags: OpFlags,
    pub(super) prefixes: Prefixes,
    /// Buffers must be registered.
    pub(super) local: bool,
    /// Peers' writes consume receives.
    pub(super) consumes: bool,
    pub(super) extra_checks: bool,
    /// Sends, reads and writes need not report success.
    pub(super) selective: bool,
}

/// Maximum bytes, on the stack, of an inject with a prefix.
pub(super) const INJECT_ROOM: usize = 1024;

impl Limits {
    pub(super) fn of<T: Transport>(info: &Info<T>, domain: &DomainInner<T>, receive_mode: ReceiveMode) -> Self {
        let attributes = info.attributes();
        let elsewhere = match receive_mode {
            ReceiveMode::Through(_) | ReceiveMode::OfWrites(_) | ReceiveMode::Nowhere => Caps::RECV,
            // Providers that support tags with shared contexts crash when an unmatched tagged
            // message arrives.
            ReceiveMode::ForOthers => Caps::TAGGED.union(Caps::MULTI_RECV),
            ReceiveMode::Itself => Caps::empty(),
        };
        let consumes = info.consumes_receives();
        let prefixes = info.prefixes();
        // libfabric does not define where prefixes lie in a multi-receive buffer, or how much of it
        // a write consumes.
        let multi = Caps::MULTI_RECV.union(Caps::TAGGED_MULTI_RECV);
        let without = if prefixes.rx > 0 || consumes { multi } else { Caps::empty() };
        let (inject_size, inject_end) = match prefixes.tx {
            0 => (attributes.tx.inject_size, attributes.tx.inject_size.saturating_add(1)),
            size => (attributes.tx.inject_size.min(INJECT_ROOM.saturating_sub(size)), 0),
        };
        // An info without a name comes from a request, and only the domain's info has reliable
        // capabilities.
        let granted = if info.provider().is_empty() { domain.info().caps() } else { Caps::all() };
        // The domain may require registration even if the info does not.
        let local = attributes.domain.mr_mode.union(domain.attributes().domain.mr_mode).contains(MrMode::LOCAL);
        Limits {
            // From the domain's info: `sockets` omits the provider name from the info of a
            // connection request.
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

    /// Granted capabilities of posts.
    pub(super) const fn caps(&self) -> Caps {
        self.lacking.complement()
    }

    pub(super) const fn cq_data_size(&self) -> usize {
        self.cq_data_size
    }

    #[inline]
    pub(super) fn granted(&self, caps: Caps) -> Result<(), PostError> {
        let missing = caps.intersection(self.lacking);
        if missing.is_empty() { Ok(()) } else { Err(PostError::NotGranted(missing).cold()) }
    }

    pub(super) const fn takes_device_memory(&self) -> bool {
        !self.lacking.contains(Caps::HMEM)
    }

    #[inline]
    pub(super) fn check_data_width(&self, data: Option<ImmediateData>) -> Result<(), PostError> {
        match data {
            Some(data) if !data.fits(self.cq_data_size) => {
                Err(PostError::DataWidth { limit: self.cq_data_size }.cold())
            }
            _ => Ok(()),
        }
    }

    /// Checks the source of an untagged message: directed receives require a provider where they
    /// work.
    #[inline]
    pub(super) fn directs(&self, from: FabricAddr) -> Result<FabricAddr, PostError> {
        if from == FabricAddr::UNSPEC || self.quirks.directed_recv {
            Ok(from)
        } else {
            Err(PostError::NotGranted(Caps::DIRECTED_RECV).cold())
        }
    }

    /// Adds the default flags, which flags of a call would override. A completion level in `flags`
    /// replaces the default.
    pub(super) fn with_default(&self, flags: OpFlags) -> OpFlags {
        let other = flags.intersects(CompletionLevel::ALL);
        flags | if other { self.tx_flags.difference(CompletionLevel::ALL) } else { self.tx_flags }
    }
}
