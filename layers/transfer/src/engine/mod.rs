//! [`Engine`]: transfers over rails.

mod loopback;
mod messages;
mod posting;
mod submit;
mod waits;

use core::fmt;
use core::mem::replace;
use core::sync::atomic::{AtomicU32, Ordering};

use allocator_api2::alloc::Allocator;
use loom_core::error::{OpenError, PostError};
use loom_core::exposed::Window;
use loom_core::mr::EndpointMr;
use loom_core::storage::Array;
use loom_core::vocabulary::RangeError;
use loom_core::{Access, Arrivals, Buffer, Caps, Completion, Domain, Done, Error, OpError, Transport};

use self::posting::Turn;
pub use self::waits::Wait;
use self::waits::Waits;
use crate::attr::EngineAttr;
use crate::control::{Bytes, Control};
use crate::event::{Ending, Event, Outcome};
use crate::link::{MAX_NUMBERS, SCRATCH};
use crate::memory::{LentPart, Memories, MemoryKey, Shared};
use crate::peers::{PeerKey, Peers, Record, Vectors};
use crate::plan::Plan;
use crate::rail::{Rail, RailSet};
use crate::remote::{MAX_RAILS, RemoteMemory};
use crate::transfers::{Stage, TransferSlot, Transfers};

/// Transfers between registered memory and peers' memory, over one to 16 rails.
///
/// Operations of a transfer are spread over the rails in turn, and a rail without room is passed
/// over.
///
/// # Control messages
/// With [`EngineAttr::message`], an engine has one more endpoint, for messages. A peer that is inserted
/// is greeted: both sides compare their limits, connect all rails, and report the peer as ready or
/// refused ([`Event::Peer`]). An engine that was greeted inserts the peer by itself. Transfers wait
/// until their peer is ready. They may carry a notification
/// ([`submit_and_notify`](Self::submit_and_notify)), and failed ones end the waits of the receiver.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Access, Domain};
/// use loom_transfer::{Block, Ending, Engine, EngineAttr, Event, Request};
///
/// # fixture::domain!(network, domain);
/// let attr = EngineAttr { message: 2048, ..EngineAttr::default() };
/// let mut source = Engine::open_in(&[domain.clone()], attr, Global)?;
/// let mut target = Engine::<_, _, Block, _>::open_in(&[domain], attr, Global)?;
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
/// Belongs to one thread, and makes progress in [`poll`](Self::poll).
///
/// `M` is the type of the memory, and `P` that of the plans.
pub struct Engine<'m, T: Transport, M: Buffer + Send, P, A: Allocator + Send> {
    /// First field: queues are closed before the memory of their operations.
    rails: Array<Rail<'m, T>, A>,
    control: Option<Control<'m, T, A>>,
    /// Memory for peers' writes of no bytes, by which they connect. Behind the rails: some providers
    /// crash when a region is closed that a peer writes to.
    scratch: Option<Scratch<'m, T, A>>,
    memories: Memories<'m, T, M, A>,
    peers: Peers<A>,
    transfers: Transfers<P, A>,
    arrivals: Arrivals<A>,
    strays: u64,
    /// Rails with a failed queue.
    failed: RailSet,
    /// This engine as its own peer.
    own: Option<PeerKey>,
    /// Differs between engines.
    number: u32,
    attr: EngineAttr,
    turn: Turn,
    /// No transfer has an earlier deadline.
    next_deadline: u64,
    waits: Waits<A>,
    /// Bits of immediate data below a notification's generation, and bytes that all rails carry.
    data_bits: u32,
    data_width: u8,
    now: u64,
    next_beat: u64,
    alloc: A,
}

/// Operations that have completed together.
struct Completed {
    transfer: u32,
    ended: u32,
    /// Without flushes, as the bytes.
    operations: u64,
    bytes: u64,
}

impl Completed {
    const fn of(transfer: u32) -> Self {
        Completed { transfer, ended: 0, operations: 0, bytes: 0 }
    }

    #[inline(always)]
    fn add(&mut self, part: &LentPart) {
        self.ended += 1;
        if !part.flushes {
            self.operations += 1;
            self.bytes += part.len();
        }
    }
}

type Scratch<'m, T, A> = Array<EndpointMr<'m, T, Shared<Bytes<A>, A>>, A>;

static ENGINES: AtomicU32 = AtomicU32::new(0);

/// Bits of immediate data for the generation of a notification, at least.
const GENERATION_BITS: u32 = 4;

impl<'m, T, M, P, A> Engine<'m, T, M, P, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    /// Opens an engine with one rail for each domain.
    ///
    /// # Errors
    /// - [`OpenError::Size`] without a domain, with more than [`MAX_RAILS`], or for a piece, depth,
    ///   batch or budget of 0. With control messages, also for other sizes than those of [`EngineAttr`]
    /// - [`OpenError::NotGranted`] if a domain does not grant [`RMA`](loom_core::Caps::RMA), or
    ///   [`MSG`](loom_core::Caps::MSG) for control messages
    /// - [`RangeError::TooWide`] if a provider carries too few bytes of immediate data for
    ///   [`values`](EngineAttr::values), and the generations of [`notifications`](EngineAttr::notifications)
    /// - [`Error::Invalid`] if [`message`](EngineAttr::message) is too short for an address
    /// - those of [`Cq::open_in`](loom_core::Cq::open_in) and of endpoints
    pub fn open_in(domains: &[Domain<'m, T>], attr: EngineAttr, alloc: A) -> Result<Self, Error> {
        let sizes = [attr.depth, attr.peer_depth, attr.batch, attr.budget];
        if !(1..=MAX_RAILS).contains(&domains.len()) || attr.piece == 0 || sizes.contains(&0) {
            return Err(OpenError::Size.into());
        }
        let control = attr.message > 0;
        let numbers = if control { attr.peers.saturating_mul(attr.notifications.into()) } else { 0 };
        let last = attr.values.saturating_add(numbers).saturating_sub(1);
        let data_bits = usize::BITS - last.leading_zeros();
        let width = data_bits + if control { GENERATION_BITS } else { 0 };
        for domain in domains {
            let caps = if control { Caps::RMA | Caps::MSG } else { Caps::RMA };
            let missing = caps.difference(domain.info().caps());
            if !missing.is_empty() {
                return Err(OpenError::NotGranted(missing).into());
            }
            let limit = domain.info().attributes().domain.cq_data_size;
            if width as usize > limit.saturating_mul(8) {
                return Err(RangeError::TooWide { width, limit }.into());
            }
        }
        let numbers = 1..=MAX_NUMBERS;
        if control
            && (!numbers.contains(&usize::from(attr.notifications))
                || !(1..=64).contains(&attr.fragments)
                || width > 32)
        {
            return Err(OpenError::Size.into());
        }
        let rails = Array::try_new_in(domains.len(), alloc.clone(), |number| {
            Rail::open(domains.get(number).ok_or(OpenError::Size)?, &attr, &alloc)
        })?;
        let piece = rails.iter().map(Rail::max_msg_size).fold(attr.piece, u64::min);
        let width = rails.iter().map(|rail| rail.domain.info().attributes().domain.cq_data_size).min();
        let (mut scratch, mut messages) = (None, None);
        if let (true, [domain, ..]) = (control, domains) {
            let memory = Shared::new(Bytes::new(SCRATCH, alloc.clone())?, alloc.clone())?;
            scratch = Some(Array::try_new_in(rails.len(), alloc.clone(), |number| {
                let (rail, access) = (rails.get(number).ok_or(OpenError::Size)?, Access::REMOTE_WRITE);
                EndpointMr::open_for_in(&rail.domain, &rail.endpoint, memory.clone(), access, alloc.clone())
            })?);
            messages = Some(Control::open(domain, &attr, &alloc)?);
        }
        // Keys begin with another generation in each engine.
        let number = ENGINES.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9);
        let engine = Engine {
            control: messages,
            scratch,
            memories: Memories::new(attr.memories, number, &alloc)?,
            peers: Peers::new(attr.peers, rails.len(), number, &alloc)?,
            transfers: Transfers::new(attr.transfers, number, &alloc)?,
            arrivals: Arrivals::open_in(attr.values, attr.waits, alloc.clone())?,
            strays: 0,
            failed: RailSet::EMPTY,
            own: None,
            number,
            attr: EngineAttr { piece, ..attr },
            turn: Turn::default(),
            next_deadline: u64::MAX,
            waits: Waits::new(attr.waits, &alloc)?,
            data_bits,
            data_width: width.map_or(0, |width| u8::try_from(width.min(8)).unwrap_or(8)),
            now: 0,
            next_beat: 0,
            rails,
            alloc,
        };
        engine.check_message_len()?;
        Ok(engine)
    }

    /// Registers memory on all rails: for local use, and for peers as `access` permits. Allocates.
    ///
    /// # Errors
    /// [`Error::Full`] beyond [`EngineAttr::memories`], [`OpenError::DeviceMemory`], those of
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
        let registered = self.memories.get(memory).ok_or(Error::Invalid("the memory is not registered"))?;
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

    /// Writes the record of this engine's addresses, for [`insert_peer`](Self::insert_peer) of
    /// peers, and returns its length.
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
                self.own = Some(peer);
            }
            self.begin_link(peer);
        }
        Ok(peer)
    }

    /// Removes a peer. Its transfers that have operations to post fail with
    /// [`PostError::UnknownPeer`] once their operations in flight have completed. Returns `false` for
    /// an unknown key.
    pub fn remove_peer(&mut self, peer: PeerKey) -> bool {
        let vectors = Vectors::of(&self.rails, self.control.as_ref());
        let removed = self.peers.remove(peer, &vectors);
        if removed {
            if let Some(control) = &mut self.control {
                control.reset(peer, self.now);
            }
            self.lose_peer(peer, PostError::UnknownPeer.into());
        }
        removed
    }

    /// Number of peers' writes with a value that is not counted, and of failed operations of peers.
    #[must_use]
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Polls all rails, posts operations, and returns the next event. `now` is the time in
    /// nanoseconds of any clock, for [deadlines](crate::Request::deadline).
    ///
    /// # Errors
    /// [`Error::Queue`], once, if a queue failed. If it is that of a rail, transfers with operations in
    /// flight fail, because these may not complete. The rail is not used any more, and others are.
    /// If it is that of the control messages, all peers with these fail.
    pub fn poll(&mut self, now: u64) -> Result<Option<Event<P>>, Error> {
        self.now = now;
        self.poll_rails()?;
        if self.control.is_some() {
            self.poll_control()?;
        }
        self.expire(now);
        self.post();
        self.send_messages();
        Ok(self.next_event())
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed == RailSet::all(self.rails.len())
    }

    #[inline(always)]
    fn count(&mut self, data: Option<u64>) {
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
        if let Some((wait, error)) = self.waits.next_failed(&self.arrivals) {
            return Some(Event::WaitFailed { wait, error });
        }
        if let Some(key) = self.control.as_mut().and_then(|control| control.inbox.next()) {
            return Some(Event::Notified(key));
        }
        self.peers.next_change().map(|(peer, result)| Event::Peer { peer, result })
    }

    fn poll_rails(&mut self) -> Result<(), Error> {
        for number in 0..self.rails.len() {
            if self.failed.contains(number) {
                continue;
            }
            let mut completed = Completed::of(u32::MAX);
            let mut polled = Ok(());
            for _ in 0..self.rails[number].events(&self.attr) {
                match self.rails[number].cq.poll() {
                    Ok(None) => break,
                    Ok(Some(Completion::Op(done))) => {
                        let part = done.buf();
                        if done.result().is_ok() && part.transfer == completed.transfer && !part.flushes {
                            completed.add(&done.into_buf());
                        } else {
                            self.completed_apart(&mut completed, done);
                        }
                    }
                    Ok(Some(Completion::Remote(event))) => self.count(event.data().map(|data| data.0)),
                    Ok(Some(_)) => self.strays += 1,
                    Err(error) => {
                        polled = Err(error);
                        break;
                    }
                }
            }
            self.completed(completed, None);
            if let Err(error) = polled {
                self.failed.insert(number);
                self.end_in_flight(error.into());
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Ends transfers with operations in flight, which may not complete, and all if no rail is left.
    fn end_in_flight(&mut self, error: Error) {
        let all = self.is_failed();
        for index in self.transfers.indices() {
            let Some(slot) = self.transfers.get_mut(index) else { return };
            if (slot.in_flight > 0 || all) && matches!(slot.stage, Stage::Posting | Stage::Draining) {
                slot.fail(error);
                self.transfers.end(index);
            }
        }
    }

    /// The completion does not continue those before it.
    #[inline(never)]
    fn completed_apart(&mut self, completed: &mut Completed, done: Done<LentPart>) {
        let (error, part) = (done.result().err(), done.into_buf());
        let (transfer, ends) = (part.transfer, error.is_some() || part.flushes);
        let before = replace(completed, Completed::of(transfer));
        completed.add(&part);
        drop(part);
        self.completed(before, None);
        if ends {
            self.completed(replace(completed, Completed::of(transfer)), error);
        }
    }

    /// They failed if there is an error.
    #[inline(never)]
    fn completed(&mut self, Completed { transfer, ended, operations, bytes }: Completed, error: Option<OpError>) {
        if ended == 0 {
            return;
        }
        let Some(slot) = self.transfers.get_mut(transfer) else { return };
        slot.in_flight -= ended;
        match error {
            None => {
                slot.operations += operations;
                slot.bytes += bytes;
            }
            Some(error) => {
                slot.failed += operations;
                if operations > 0 {
                    slot.fail(error);
                }
            }
        }
        let is_last = slot.in_flight == 0;
        if let Some(peer) = slot.peer {
            self.peers.completed(peer, ended, &Vectors::of(&self.rails, self.control.as_ref()));
        }
        if is_last {
            self.transfers.settle(transfer);
        }
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
