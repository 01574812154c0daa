//! [`Endpoint`]: where messages, tagged messages and RMA operations are posted.

#![allow(unsafe_code, reason = "posts through raw handles what the op table has taken")]

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr;

use crate::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use crate::engine::op_table::{Kind, OpKey, Posted};
use crate::engine::peer_table::Peer;
use crate::error::{OpenError, PostError, Rejected};
use crate::objects::av::Av;
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::info::Info;
use crate::objects::mr::RemoteRegion;
use crate::transport::{Bindings, Closing, Context, InFlight, Refusal, RmaTarget, Transport};
use crate::vocabulary::{
    Attributes, Caps, EndpointAddr, EndpointType, Errno, FabricAddr, HmemIface, ImmediateData, Tag, TagMatch,
};

/// Whose messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Anybody's.
    Any,
    /// One peer's; where the provider grants `DIRECTED_RECV`.
    #[doc(alias = "FI_DIRECTED_RECV")]
    Peer(Peer),
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        Source::Peer(peer)
    }
}

/// A place for one endpoint in the storage of its queue, so that a forgotten one is closed with the queue.
pub struct Record<'d, T: Transport> {
    state: Cell<RecordState>,
    raw: UnsafeCell<MaybeUninit<T::Endpoint>>,
    av: Cell<Option<&'d Av<'d, T>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordState {
    Closed,
    Open,
    /// To be closed with the queue; see [`Closing::Retired`].
    Retired,
    /// Open for good; see [`Closing::Left`].
    Left,
    /// The provider failed to close it: whatever it was lent is lost with the queue.
    Failed(Errno),
}

impl<T: Transport> Record<'_, T> {
    pub(crate) const fn closed() -> Self {
        Record {
            state: Cell::new(RecordState::Closed),
            raw: UnsafeCell::new(MaybeUninit::uninit()),
            av: Cell::new(None),
        }
    }

    /// The raw handle.
    ///
    /// # Safety
    /// The state is `Open` or `Retired`: the handle was written, and is not written again before the record is closed.
    #[inline]
    unsafe fn raw(&self) -> &T::Endpoint {
        // SAFETY: the caller's promise.
        let raw = unsafe { &*self.raw.get() };
        // SAFETY: as above.
        unsafe { raw.assume_init_ref() }
    }

    /// Closes the endpoint, if one is open here. A close that failed is reported again, and not retried.
    ///
    /// # Safety
    /// No `Endpoint` uses the record after this; it is of an endpoint of `domain`, on which so much is in flight.
    pub(crate) unsafe fn close(&self, domain: &Domain<T>, in_flight: InFlight) -> Result<Closing, Errno> {
        match self.state.get() {
            RecordState::Closed => return Ok(Closing::Closed),
            RecordState::Left => return Ok(Closing::Left),
            RecordState::Failed(errno) => return Err(errno),
            RecordState::Open | RecordState::Retired => {}
        }
        // SAFETY: the state is `Open` or `Retired`.
        let raw = unsafe { self.raw() };
        // SAFETY: open, and closed once: the state changes below whatever comes back.
        let closing = unsafe { T::endpoint_close(raw, in_flight) };
        self.state.set(match closing {
            Ok(Closing::Closed) => RecordState::Closed,
            Ok(Closing::Retired) => RecordState::Retired,
            Ok(Closing::Left) => RecordState::Left,
            Err(errno) => RecordState::Failed(errno),
        });
        // Left open, it is still bound to the vector, which then stays open too.
        if let Ok(Closing::Closed) = closing
            && let Some(av) = self.av.take()
        {
            av.user_closed();
        }
        if let Ok(Closing::Closed | Closing::Left) = closing {
            domain.lingering().endpoint_closed();
        }
        closing
    }
}

impl<T: Transport> Record<'_, T> {
    /// Tells the transport that the queue of a retired endpoint is not polled any more, until it is closed again.
    pub(crate) fn leave(&self) {
        if self.state.get() == RecordState::Retired {
            // SAFETY: the state is `Retired`.
            let raw = unsafe { self.raw() };
            // SAFETY: the endpoint is retired.
            unsafe { T::endpoint_leave(raw, false) };
        }
    }

    /// Tells the transport that the queue of a retired endpoint, on which nothing is in flight, is not polled ever again.
    pub(crate) fn leave_for_good(&self, domain: &Domain<T>) {
        if self.state.get() == RecordState::Retired {
            // SAFETY: the state is `Retired`.
            let raw = unsafe { self.raw() };
            // SAFETY: the endpoint is retired.
            unsafe { T::endpoint_leave(raw, true) };
            self.state.set(RecordState::Left);
            domain.lingering().endpoint_closed();
        }
    }

    /// Asks for every operation in flight to end. Those that cannot be cancelled go on.
    pub(crate) fn cancel_all(&self, in_flight: impl Iterator<Item = Posted>) {
        if let RecordState::Open | RecordState::Retired = self.state.get() {
            // SAFETY: the state is `Open` or `Retired`.
            let raw = unsafe { self.raw() };
            for op in in_flight {
                // SAFETY: the endpoint is open and the context is one of its operations in flight.
                let _ = unsafe { T::cancel(raw, op.context) };
            }
        }
    }
}

impl<T: Transport> fmt::Debug for Record<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("open", &(self.state.get() == RecordState::Open)).finish_non_exhaustive()
    }
}

/// Opens an endpoint: everything that it is bound to is named before it is enabled.
#[derive(Debug)]
#[must_use = "an endpoint is opened by `enable`"]
pub struct EndpointBuilder<'q, 'd, T: Transport, B: Buffer> {
    cq: &'q Cq<'d, T, B>,
    av: &'d Av<'d, T>,
    info: Option<&'q Info<T>>,
}

impl<'q, 'd, T: Transport, B: Buffer> EndpointBuilder<'q, 'd, T, B> {
    pub(crate) fn new(cq: &'q Cq<'d, T, B>, av: &'d Av<'d, T>) -> Self {
        EndpointBuilder { cq, av, info: None }
    }

    /// Opens it from this info instead of the domain's: with another source address, for example.
    pub fn info(mut self, info: &'q Info<T>) -> Self {
        self.info = Some(info);
        self
    }

    /// Opens the endpoint, binds it to the queue and the address vector, and enables it.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`] if the info or the address vector belongs to another domain
    /// - [`OpenError::Connected`] if the info describes an endpoint that has to be connected
    /// - [`OpenError::TooManyEndpoints`] if the queue has no place for another endpoint
    /// - [`OpenError::Errno`] if the provider refuses
    #[doc(alias = "fi_enable")]
    #[doc(alias = "fi_ep_bind")]
    pub fn enable(self) -> Result<Endpoint<'q, 'd, T, B>, OpenError> {
        let EndpointBuilder { cq, av, info } = self;
        let domain = cq.domain();
        let info = info.unwrap_or_else(|| domain.info());
        if !ptr::eq(av.domain(), domain) || !info.same_domain(domain.info()) {
            return Err(OpenError::OtherDomain);
        }
        Domain::check(info)?;
        if !matches!(info.attributes().endpoint.kind, EndpointType::RDM | EndpointType::DGRAM) {
            return Err(OpenError::Connected);
        }
        let (index, record) = (0u16..)
            .zip(cq.records())
            .find(|(_, record)| record.state.get() == RecordState::Closed)
            .ok_or(OpenError::TooManyEndpoints)?;
        let (tx, rx) = cq.raw();
        let bind = Bindings { tx, rx, av: av.raw() };
        av.user_opened();
        domain.lingering().endpoint_opened();
        // SAFETY: queue and vector are open and of this domain; both outlive the endpoint: the queue closes it before
        // itself, and the vector lives for 'd and stays open while it has users.
        let raw = match unsafe { T::endpoint_open(domain.raw(), info.raw(), bind) } {
            Ok(raw) => raw,
            Err(error) => {
                if error.left_open {
                    // The vector keeps its user, and the queue finds out when it is dropped.
                    record.state.set(RecordState::Failed(error.errno));
                } else {
                    av.user_closed();
                    domain.lingering().endpoint_closed();
                }
                return Err(error.errno.into());
            }
        };
        // SAFETY: the record is closed, so nobody refers to its handle.
        unsafe { record.raw.get().write(MaybeUninit::new(raw)) };
        record.av.set(Some(av));
        record.state.set(RecordState::Open);
        Ok(Endpoint { cq, record, av, index, limits: Limits::of(info.attributes()) })
    }
}

/// What a provider has to grant for each group of operations.
mod needs {
    use crate::vocabulary::Caps;

    pub(super) const SEND: Caps = Caps::MSG.union(Caps::SEND);
    pub(super) const RECV: Caps = Caps::MSG.union(Caps::RECV);
    pub(super) const TAGGED_SEND: Caps = Caps::TAGGED.union(Caps::SEND);
    pub(super) const TAGGED_RECV: Caps = Caps::TAGGED.union(Caps::RECV);
    pub(super) const READ: Caps = Caps::RMA.union(Caps::READ);
    pub(super) const WRITE: Caps = Caps::RMA.union(Caps::WRITE);
}

/// What a post is checked against.
#[derive(Clone, Copy, Debug)]
struct Limits {
    caps: Caps,
    inject_size: usize,
    max_msg_size: usize,
    cq_data_size: usize,
}

impl Limits {
    fn of(attributes: &Attributes) -> Self {
        Limits {
            caps: attributes.caps.with_modifiers(),
            inject_size: attributes.tx.inject_size,
            max_msg_size: attributes.endpoint.max_msg_size,
            cq_data_size: attributes.domain.cq_data_size,
        }
    }
}

/// What an operation does with its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Send,
    Receive,
}

/// A connectionless endpoint.
///
/// Posts move a buffer into the queue and return an [`OpKey`]; the completion gives the buffer back. A post that is
/// not taken gives it back at once, in [`Rejected`]. Dropping the endpoint closes it: operations that are over by then
/// complete as they ended (unless [`PEER_EVENTS`](super::cq::PEER_EVENTS) events of peers lie before them), all others with
/// `ECANCELED`, so every buffer comes back through the queue. (Where the provider
/// cannot close an endpoint while others are open that have talked to it, as `shm` within one process, its receives are
/// cancelled, its sends go on, and it is closed with the queue; until then it keeps its place in it.)
///
/// # References
/// - `man fi_endpoint`, `man fi_msg`, `man fi_tagged`, `man fi_rma`
#[doc(alias = "fid_ep")]
pub struct Endpoint<'q, 'd, T: Transport, B: Buffer> {
    cq: &'q Cq<'d, T, B>,
    record: &'q Record<'d, T>,
    av: &'d Av<'d, T>,
    index: u16,
    limits: Limits,
}

impl<'q, 'd, T: Transport, B: Buffer> Endpoint<'q, 'd, T, B> {
    /// Sends a message.
    ///
    /// # Errors
    /// Any [`PostError`] but `OutOfBounds`; the buffer comes back.
    #[doc(alias = "fi_send")]
    #[inline]
    pub fn send(&self, to: Peer, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.send_with(to, None, buf)
    }

    /// Sends a message with immediate data, which the receiver finds in its completion.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`PostError::DataWidth`] if the provider carries fewer bytes than `data` needs.
    #[doc(alias = "fi_senddata")]
    #[inline]
    pub fn send_data(&self, to: Peer, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.send_with(to, Some(data), buf)
    }

    #[inline]
    fn send_with(&self, to: Peer, data: Option<ImmediateData>, buf: B) -> Result<OpKey, Rejected<B>> {
        self.transmit(needs::SEND, to, data, buf, |raw, to, lent, context| {
            // SAFETY: see `transmit`.
            unsafe { T::send(raw, to, lent, data, context) }
        })
    }

    /// Sends a copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the provider's `inject_size`, or any other [`PostError`] of a send.
    #[doc(alias = "fi_inject")]
    #[inline]
    pub fn inject(&self, to: Peer, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::SEND, to, None, bytes)?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::inject(self.raw(), to, bytes, None) }?)
    }

    /// Sends a copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject`](Self::inject), and [`PostError::DataWidth`].
    #[doc(alias = "fi_injectdata")]
    #[inline]
    pub fn inject_data(&self, to: Peer, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::SEND, to, Some(data), bytes)?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::inject(self.raw(), to, bytes, Some(data)) }?)
    }

    /// Receives a message.
    ///
    /// A message that is longer than the buffer completes with `ETRUNC`: what fits is there, and the error says how
    /// much did not.
    ///
    /// # Errors
    /// [`PostError::NotGranted`] for a directed receive where the provider has none, or any other [`PostError`]; the
    /// buffer comes back.
    #[doc(alias = "fi_recv")]
    #[inline]
    pub fn recv(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.receive(needs::RECV, from, buf, |raw, from, lent, context| {
            // SAFETY: see `receive`.
            unsafe { T::recv(raw, from, lent, context) }
        })
    }

    /// Sends a tagged message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "fi_tsend")]
    #[inline]
    pub fn tagged_send(&self, to: Peer, tag: Tag, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.tagged_send_with(to, tag, None, buf)
    }

    /// Sends a tagged message with immediate data.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data).
    #[doc(alias = "fi_tsenddata")]
    #[inline]
    pub fn tagged_send_data(&self, to: Peer, tag: Tag, data: ImmediateData, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.tagged_send_with(to, tag, Some(data), buf)
    }

    #[inline]
    fn tagged_send_with(&self, to: Peer, tag: Tag, data: Option<ImmediateData>, buf: B) -> Result<OpKey, Rejected<B>> {
        self.transmit(needs::TAGGED_SEND, to, data, buf, |raw, to, lent, context| {
            // SAFETY: see `transmit`.
            unsafe { T::tagged_send(raw, to, lent, data, tag, context) }
        })
    }

    /// Sends a tagged copy of `bytes`, which can be reused at once. Nothing reports success.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    #[doc(alias = "fi_tinject")]
    #[inline]
    pub fn tagged_inject(&self, to: Peer, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::TAGGED_SEND, to, None, bytes)?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::tagged_inject(self.raw(), to, bytes, None, tag) }?)
    }

    /// Sends a tagged copy of `bytes` with immediate data.
    ///
    /// # Errors
    /// As [`inject_data`](Self::inject_data).
    #[doc(alias = "fi_tinjectdata")]
    #[inline]
    pub fn tagged_inject_data(&self, to: Peer, tag: Tag, data: ImmediateData, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::TAGGED_SEND, to, Some(data), bytes)?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::tagged_inject(self.raw(), to, bytes, Some(data), tag) }?)
    }

    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, from: Source, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let tag = tag.into();
        self.receive(needs::TAGGED_RECV, from, buf, |raw, from, lent, context| {
            // SAFETY: see `receive`.
            unsafe { T::tagged_recv(raw, from, lent, tag, context) }
        })
    }

    /// Reads from a peer's region, from `offset` bytes into it, as many bytes as the buffer has.
    ///
    /// # Errors
    /// [`PostError::OutOfBounds`] if the region is shorter, or any other [`PostError`]; the buffer comes back. What the
    /// peer refuses is an error completion.
    #[doc(alias = "fi_read")]
    #[inline]
    pub fn read(&self, peer: Peer, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let to = match self.granted(needs::READ).and_then(|()| self.peer(peer)) {
            Ok(to) => to,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Read, buf, |lent, context| {
            self.lendable(lent, Use::Receive)?;
            let target = self.remote(to, region, offset, lent.len())?;
            // SAFETY: the endpoint is open and the peer in its vector; `lent` is in a slot of the op table, writable,
            // and stays there until its event or the endpoint's close.
            Ok(unsafe { T::read(self.raw(), target, lent, context) }?)
        })
    }

    /// Writes the buffer into a peer's region, from `offset` bytes into it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[doc(alias = "fi_write")]
    #[inline]
    pub fn write(&self, peer: Peer, region: &RemoteRegion, offset: u64, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.write_with(peer, region, offset, None, buf)
    }

    /// Writes the buffer into a peer's region and tells the peer, whose queue reports a
    /// [`RemoteEvent`](crate::completion::RemoteEvent) with `data`.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_writedata")]
    #[inline]
    pub fn write_data(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.write_with(peer, region, offset, Some(data), buf)
    }

    #[inline]
    fn write_with(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        data: Option<ImmediateData>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        // The range is checked inside: only the buffer in its slot says how long it is.
        let to = match self.reachable(needs::WRITE, peer, data) {
            Ok(to) => to,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Send, buf, |lent, context| {
            self.lendable(lent, Use::Send)?;
            let target = self.remote(to, region, offset, lent.len())?;
            // SAFETY: the endpoint is open and the peer in its vector; `lent` is in a slot of the op table, readable,
            // and stays there until its event or the endpoint's close.
            Ok(unsafe { T::write(self.raw(), target, lent, data, context) }?)
        })
    }

    /// Writes a copy of `bytes` into a peer's region. Nothing reports success.
    ///
    /// # Errors
    /// [`PostError::TooLong`] beyond the provider's `inject_size`, or any other [`PostError`] of a write.
    #[doc(alias = "fi_inject_write")]
    #[inline]
    pub fn inject_write(&self, peer: Peer, region: &RemoteRegion, offset: u64, bytes: &[u8]) -> Result<(), PostError> {
        let to = self.injectable(needs::WRITE, peer, None, bytes)?;
        let target = self.remote(to, region, offset, bytes.len())?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::inject_write(self.raw(), target, bytes, None) }?)
    }

    /// Writes a copy of `bytes` into a peer's region and tells the peer.
    ///
    /// # Errors
    /// As [`inject_write`](Self::inject_write), and [`PostError::DataWidth`].
    #[doc(alias = "fi_inject_writedata")]
    #[inline]
    pub fn inject_write_data(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        let to = self.injectable(needs::WRITE, peer, Some(data), bytes)?;
        let target = self.remote(to, region, offset, bytes.len())?;
        // SAFETY: the endpoint is open, the peer in its vector, and the length checked.
        Ok(unsafe { T::inject_write(self.raw(), target, bytes, Some(data)) }?)
    }

    /// Asks for an operation to end early. Its completion still comes: with `ECANCELED`, or as if nothing had
    /// happened if it was too late, or if the provider cannot cancel this kind of operation.
    ///
    /// # Errors
    /// `ENOENT` if the operation is not in flight on this endpoint, or what the provider says.
    #[doc(alias = "fi_cancel")]
    pub fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        let context = self.cq.ops().context_of(key, self.index).ok_or(Errno::ENOENT)?;
        // SAFETY: the endpoint is open and the context is one of its operations in flight.
        unsafe { T::cancel(self.raw(), context) }
    }

    /// The endpoint's address, for peers to insert into their address vectors.
    ///
    /// # Errors
    /// The provider's.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open.
        unsafe { T::endpoint_address(self.raw()) }
    }

    /// The most bytes that the inject calls take.
    #[must_use]
    pub fn inject_size(&self) -> usize {
        self.limits.inject_size
    }

    /// The queue that the endpoint completes into.
    #[must_use]
    pub fn cq(&self) -> &'q Cq<'d, T, B> {
        self.cq
    }

    /// The address vector in which the endpoint finds its peers.
    #[must_use]
    pub fn av(&self) -> &'d Av<'d, T> {
        self.av
    }

    /// The raw handle, for posting what loom does not wrap.
    ///
    /// Events of contexts that the op table did not give out are counted as strays and otherwise ignored.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &T::Endpoint {
        // SAFETY: the record is open from `enable` until this value is dropped.
        unsafe { self.record.raw() }
    }

    #[inline]
    fn granted(&self, caps: Caps) -> Result<(), PostError> {
        let missing = caps.difference(self.limits.caps);
        if missing.is_empty() { Ok(()) } else { Err(PostError::NotGranted(missing)) }
    }

    #[inline]
    fn peer(&self, peer: Peer) -> Result<FabricAddr, PostError> {
        self.av.fabric_addr(peer).ok_or(PostError::UnknownPeer)
    }

    /// Checks what can be checked before the buffer is in its slot.
    #[inline]
    fn reachable(&self, caps: Caps, to: Peer, data: Option<ImmediateData>) -> Result<FabricAddr, PostError> {
        self.granted(caps)?;
        if let Some(data) = data
            && !data.fits(self.limits.cq_data_size)
        {
            return Err(PostError::DataWidth { limit: self.limits.cq_data_size });
        }
        self.peer(to)
    }

    #[inline]
    fn injectable(
        &self,
        caps: Caps,
        to: Peer,
        data: Option<ImmediateData>,
        bytes: &[u8],
    ) -> Result<FabricAddr, PostError> {
        if bytes.len() > self.limits.inject_size {
            return Err(PostError::TooLong { limit: self.limits.inject_size });
        }
        self.reachable(caps, to, data)
    }

    #[inline]
    fn remote(&self, to: FabricAddr, region: &RemoteRegion, offset: u64, len: usize) -> Result<RmaTarget, PostError> {
        let addr = region.range(offset, len).ok_or(PostError::OutOfBounds)?;
        Ok(RmaTarget { to, addr, key: region.key() })
    }

    /// Checks what a buffer has lent.
    #[inline]
    fn lendable(&self, lent: &Lent, purpose: Use) -> Result<(), PostError> {
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
        if let Some(descriptor) = lent.descriptor()
            && descriptor.domain != self.cq.domain().identity()
        {
            return Err(PostError::ForeignDescriptor);
        }
        if purpose == Use::Send && lent.len() > self.limits.max_msg_size {
            return Err(PostError::TooLong { limit: self.limits.max_msg_size });
        }
        Ok(())
    }

    /// Posts something that goes out. `submit` may rely on this: the endpoint is open, the address is in its vector,
    /// and what is lent is readable and stays in the op table until its event or the endpoint's close.
    #[inline]
    fn transmit(
        &self,
        caps: Caps,
        to: Peer,
        data: Option<ImmediateData>,
        buf: B,
        submit: impl FnOnce(&T::Endpoint, FabricAddr, &Lent, Context) -> Result<(), Refusal>,
    ) -> Result<OpKey, Rejected<B>> {
        let to = match self.reachable(caps, to, data) {
            Ok(to) => to,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Send, buf, |lent, context| {
            self.lendable(lent, Use::Send)?;
            Ok(submit(self.raw(), to, lent, context)?)
        })
    }

    /// Posts something that comes in. `submit` may rely on this: the endpoint is open, the source is in its vector or
    /// unspecified, and what is lent is writable and stays in the op table until its event or the endpoint's close.
    #[inline]
    fn receive(
        &self,
        caps: Caps,
        from: Source,
        buf: B,
        submit: impl FnOnce(&T::Endpoint, FabricAddr, &Lent, Context) -> Result<(), Refusal>,
    ) -> Result<OpKey, Rejected<B>> {
        let from = self.granted(caps).and_then(|()| match from {
            Source::Any => Ok(FabricAddr::UNSPEC),
            Source::Peer(peer) => {
                self.granted(Caps::DIRECTED_RECV)?;
                self.peer(peer)
            }
        });
        let from = match from {
            Ok(from) => from,
            Err(error) => return Err(Rejected { buf, error }),
        };
        self.cq.ops().post(self.index, Kind::Receive, buf, |lent, context| {
            self.lendable(lent, Use::Receive)?;
            Ok(submit(self.raw(), from, lent, context)?)
        })
    }
}

impl<T: Transport, B: Buffer> Drop for Endpoint<'_, '_, T, B> {
    fn drop(&mut self) {
        let (ops, domain) = (self.cq.ops(), self.cq.domain());
        let close = || {
            // SAFETY: the record belongs to this endpoint, which is used no more.
            unsafe { self.record.close(domain, self.cq.in_flight_on(self.index)) }
        };
        let mut closed = close();
        if let Ok(Closing::Retired) = closed {
            self.record.cancel_all(ops.posted_on(self.index));
            self.cq.settle(self.index);
            closed = close();
        }
        // A retired endpoint is closed with its queue. If closing failed, the queue finds out when it is dropped, and
        // does what has to be done.
        if let Ok(Closing::Closed) = closed {
            // What was over before the close is a completion like any other.
            self.cq.collect();
            // SAFETY: the endpoint is closed.
            unsafe { ops.abandon(self.index) };
            self.cq.note_kept();
            domain.lingering().release();
        }
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for Endpoint<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("index", &self.index).field("limits", &self.limits).finish_non_exhaustive()
    }
}
