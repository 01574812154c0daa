//! [`Engine`]: moves blocks of registered memory over *rails* (network cards).

mod completions;
mod handshake;
mod loopback;
mod messages;
mod open;
mod posting;
mod submit;
mod waits;

use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::exposed::Window;
use loom_core::mr::EndpointMr;
use loom_core::storage::Array;
use loom_core::{Access, Arrivals, Buffer, Error, Transport};

use self::open::DataLayout;
use self::posting::Turn;
pub use self::waits::Wait;
use self::waits::Waits;
use crate::attr::EngineAttr;
use crate::control::{Bytes, Control};
use crate::event::{Ending, Event, Outcome};
use crate::memory::{Memories, MemoryKey, Shared};
use crate::peers::{PeerKey, Peers, Record, Vectors};
use crate::plan::Plan;
use crate::rail::{Rail, RailSet};
use crate::remote::RemoteMemory;
use crate::transfers::{Stage, TransferSlot, Transfers};

/// Engine for transfers between registered memory and memory of peers, over 1 to 16 rails.
///
/// Operations of a transfer are spread over the rails in turn, except rails without room.
///
/// # Control messages
/// With [`EngineAttr::message`], an engine has one more endpoint, for messages. A peer that is
/// inserted is greeted: both sides compare their limits, connect all rails, and report the peer as
/// ready or refused ([`Event::Peer`]). An engine that was greeted inserts the peer by itself.
/// Transfers wait until their peer is ready. They may carry a notification
/// ([`submit_and_notify`](Self::submit_and_notify)), and a failed one also ends the receiver's wait
/// for it.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Access, Domain};
/// use loom_transfer::{Block, Ending, Engine, EngineAttr, Event, Request};
///
/// # fixture::domain!(network, domain);
/// # let attr = EngineAttr { message: 2048, ..EngineAttr::default() };
/// # let mut source = Engine::open_in(&[domain.clone()], attr, Global)?;
/// # let mut target = Engine::<_, _, Block, _>::open_in(&[domain], attr, Global)?;
/// let local = source.register(vec![7; 4096], Access::empty())?;
/// let exposed = target.register(vec![0; 4096], Access::REMOTE_WRITE)?;
/// # let mut record = [0; 1024];
/// let len = target.address(&mut record)?;
/// let peer = source.insert_peer(&record[..len])?;
/// let page = Block { local: 0, remote: 0, len: 4096 };
/// source.submit_and_notify(Request::write(peer, local, &target.remote(exposed)?, page), b"layer 3")?;
/// let received = loop {
///     source.poll(0)?;
///     if let Some(Event::Notified(key)) = target.poll(0)? { break key; }
/// };
/// // All 4,096 bytes are there.
/// let notification = target.notification(received).expect("it is new");
/// assert_eq!((notification.ending(), notification.chunks().next()), (Ending::Done, Some(&b"layer 3"[..])));
/// # drop(notification);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// Belongs to one thread. `M` is the memory, `P` the plan.
pub struct Engine<'m, T: Transport, M: Buffer + Send, P, A: Allocator + Send> {
    /// First field: queues are closed before the memory of their operations.
    rails: Array<Rail<'m, T>, A>,
    failed: RailSet,
    turn: Turn,

    control: Option<Control<'m, T, A>>,
    /// Time of the next search for silent peers.
    next_beat: u64,

    /// Memory for peers' writes of no bytes, by which they connect. Declared after `rails`: some
    /// providers crash when a region is closed that a peer writes to.
    scratch: Option<Scratch<'m, T, A>>,
    memories: Memories<'m, T, M, A>,

    peers: Peers<A>,
    /// This engine as a peer of itself: such transfers are copies.
    own_peer: Option<PeerKey>,

    transfers: Transfers<P, A>,
    /// No transfer has an earlier deadline.
    next_deadline: u64,

    data: DataLayout,
    arrivals: Arrivals<A>,
    waits: Waits<A>,
    strays: u64,

    now: u64,
    /// First generation of this engine's keys, by which those of other engines are found stale.
    number: u32,
    attr: EngineAttr,
    alloc: A,
}

type Scratch<'m, T, A> = Array<EndpointMr<'m, T, Shared<Bytes<A>, A>>, A>;

impl<'m, T, M, P, A> Engine<'m, T, M, P, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    /// Registers memory on all rails: for local use, and for peers as `access` permits. Allocates.
    ///
    /// # Errors
    /// [`Error::Full`] beyond [`EngineAttr::memories`],
    /// [`OpenError::DeviceMemory`](loom_core::OpenError::DeviceMemory), those of
    /// [`Mr::open_in`](loom_core::Mr::open_in), and [`Error::Invalid`] if rails address memory in
    /// different ways. The memory is dropped.
    pub fn register(&mut self, memory: M, access: Access) -> Result<MemoryKey, Error> {
        let registered = self.memories.register(&self.rails, memory, access, &self.alloc)?;
        let key = registered.ok_or(Error::Full("EngineAttr::memories"))?;
        if let Err(error) = self.remote(key) {
            self.memories.deregister(key);
            return Err(error);
        }
        Ok(key)
    }
}

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    /// Polls all rails, posts operations, and returns the next event. `now` is the time in
    /// nanoseconds of any clock, for [deadlines](crate::Request::deadline).
    ///
    /// # Errors
    /// [`Error::Queue`], once, if a queue failed. If it is that of a rail, transfers with operations in flight fail,
    /// because these may not complete. The rail is no longer used, and others are. If it is that of
    /// the control messages, all peers with these fail.
    pub fn poll(&mut self, now: u64) -> Result<Option<Event<P>>, Error> {
        self.poll_checked(now, |_| Ok(()))
    }

    /// [`poll`](Self::poll) that checks transfers with notifications after their operations. An
    /// error ends them, here and at the receiver.
    ///
    /// # Errors
    /// Those of [`poll`](Self::poll).
    pub fn poll_checked(
        &mut self,
        now: u64,
        check: impl Fn(&P) -> Result<(), Error>,
    ) -> Result<Option<Event<P>>, Error> {
        self.now = now;
        self.poll_rails()?;
        if self.control.is_some() {
            self.poll_control()?;
        }
        self.expire(now);
        self.post();
        self.send_messages(&check);
        Ok(self.next_event())
    }

    /// Closes the regions of a memory, which is dropped when peers cannot reach it any more.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown key, and while transfers use the memory.
    pub fn deregister(&mut self, memory: MemoryKey) -> Result<(), Error> {
        let refused = Error::Invalid("the memory is not registered, or a transfer uses it: take its outcome first");
        self.memories.deregister(memory).then_some(()).ok_or(refused)
    }

    /// This side's view of the memory. `None` for an unknown key.
    #[must_use]
    pub fn window(&self, memory: MemoryKey) -> Option<Window<'_>> {
        self.memories.window(memory)
    }

    /// Number of operations in flight on the memory. `None` for an unknown key.
    #[must_use]
    pub fn in_flight(&self, memory: MemoryKey) -> Option<u32> {
        self.memories.in_flight(memory)
    }

    /// Description with which peers reach the memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown key.
    pub fn remote(&self, memory: MemoryKey) -> Result<RemoteMemory, Error> {
        let registered =
            self.memories.get(memory).ok_or(Error::Invalid("the memory is not registered: register it first"))?;
        RemoteMemory::of(self.attr.piece, registered.regions().iter().map(loom_core::Mr::remote))
            .ok_or(Error::Invalid("rails address memory in different ways: open an engine for each kind"))
    }

    /// Maximum length in bytes of a write to this engine's memory, by which [`Plan::operations`]
    /// counts them.
    #[must_use]
    pub const fn piece(&self) -> u64 {
        self.attr.piece
    }

    /// Number of rails.
    #[must_use]
    pub fn rails(&self) -> usize {
        self.rails.len()
    }

    /// Writes the record of this engine's addresses ([`insert_peer`](Self::insert_peer)), and
    /// returns its length.
    ///
    /// # Errors
    /// [`AddressError::BufferTooSmall`](loom_core::AddressError::BufferTooSmall), or
    /// [`Error::Provider`].
    pub fn address(&self, out: &mut [u8]) -> Result<usize, Error> {
        let control = self.control.as_ref().map(Control::address).transpose()?;
        Record::encode(&self.rails, control.as_ref(), out)
    }

    /// Inserts a peer by the record of its addresses. The rails of this side use the peer's in turn
    /// if the numbers differ. Returns the same key for the same addresses.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other bytes, or if an address belongs to another peer, [`Error::Full`]
    /// beyond [`EngineAttr::peers`], [`Error::Address`].
    pub fn insert_peer(&mut self, record: &[u8]) -> Result<PeerKey, Error> {
        let vectors = Vectors::of(&self.rails, self.control.as_ref());
        let (peer, is_new) = self.peers.insert(record, &vectors)?;
        if is_new {
            if self.peers.is_own(peer, &vectors) {
                self.own_peer = Some(peer);
            }
            self.begin_link(peer);
        }
        Ok(peer)
    }

    /// Removes a peer. Its transfers fail with [`PostError::UnknownPeer`]. Its slot is free once
    /// their operations in flight have completed. Returns `false` for an unknown key.
    pub fn remove_peer(&mut self, peer: PeerKey) -> bool {
        let vectors = Vectors::of(&self.rails, self.control.as_ref());
        let removed = self.peers.remove(peer, &vectors);
        if removed {
            if let Some(control) = &mut self.control {
                control.reset(peer, self.now);
            }
            self.waits.forget(peer);
            self.lose_peer(peer, PostError::UnknownPeer.into());
        }
        removed
    }

    /// Number of peers' writes with a value that is not counted, and of failed operations of peers.
    #[must_use]
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed == RailSet::all(self.rails.len())
    }

    #[inline(always)]
    fn count_arrival(&mut self, data: Option<u64>) {
        if data.is_none_or(|value| self.arrivals.count(value).is_err()) {
            self.count_notified(data);
        }
    }

    fn next_event(&mut self) -> Option<Event<P>> {
        if let Some((key, request, slot)) = self.transfers.take_ended() {
            let TransferSlot { ending, operations, bytes, in_flight, .. } = *slot;
            self.memories.used(request.local, -1);
            return Some(Event::Ended(Outcome { key, request, ending, operations, bytes, in_flight }));
        }
        if let Some(arrived) = self.arrivals.poll() {
            self.waits.end(arrived.key);
            return Some(Event::Arrived(arrived));
        }
        if let Some((wait, failure)) = self.waits.next_failed(&self.arrivals) {
            return Some(Event::WaitFailed { wait, error: failure.error, late_writes: failure.late_writes() });
        }
        if let Some(key) = self.control.as_mut().and_then(|control| control.inbox.next()) {
            return Some(Event::Notified(key));
        }
        self.peers.next_change().map(|(peer, result)| Event::Peer { peer, result })
    }

    /// Ends transfers at their deadlines, also with operations in flight.
    fn expire(&mut self, now: u64) {
        self.waits.expire(now);
        if now < self.next_deadline {
            return;
        }
        let mut next = u64::MAX;
        for index in self.transfers.indices() {
            let Some(slot) = self.transfers.get_mut(index) else { break };
            let Some(request) = &slot.request else { continue };
            if !matches!(slot.stage, Stage::Posting | Stage::Draining) {
                continue;
            }
            if request.deadline > now || request.deadline == u64::MAX {
                next = next.min(request.deadline);
                continue;
            }
            slot.stop(Ending::Deadline);
            self.transfers.end(index);
        }
        self.next_deadline = next;
    }
}

impl<T: Transport, M: Buffer + Send, P, A: Allocator + Send> Drop for Engine<'_, T, M, P, A> {
    fn drop(&mut self) {
        // Before the rails, which they keep open.
        self.memories.close_bound();
        if self.rails.iter().any(Rail::binds_regions) {
            self.scratch = None;
        }
    }
}

impl<T: Transport, M: Buffer + Send, P, A: Allocator + Send> fmt::Debug for Engine<'_, T, M, P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("rails", &self.rails.len()).field("attr", &self.attr).finish_non_exhaustive()
    }
}
