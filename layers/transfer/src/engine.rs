//! [`Engine`]: transfers over rails.

use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::endpoint::{ReadOptions, SendOptions};
use loom_core::error::{OpenError, PostError};
use loom_core::exposed::Window;
use loom_core::storage::Array;
use loom_core::vocabulary::{ImmediateData, RangeError};
use loom_core::{
    Access, Arrivals, Buffer, Caps, Completion, Domain, Error, OpError, OpKey, Peer, Rejected, RemoteRegion, Transport,
};

use crate::attr::EngineAttr;
use crate::event::{Ending, Event, Outcome, TransferKey};
use crate::memory::{Memories, MemoryKey, Part};
use crate::peers::{self, PeerKey, Peers};
use crate::plan::{Block, Plan};
use crate::rail::{Rail, Unflushed};
use crate::remote::{MAX_RAILS, RemoteMemory};
use crate::request::Request;
use crate::transfers::{Slot, Stage, Transfers};

/// Operations of one transfer before another one posts.
const TURN: usize = 32;

/// Transfers between registered memory and peers' memory, over one to 16 rails.
///
/// A rail is a domain with a queue and an endpoint. Operations of a transfer are spread over the
/// rails in turn, and a rail without room is passed over.
///
/// Belongs to one thread, and makes progress in [`poll`](Self::poll). Dropping it closes its queues
/// and regions, and ends all transfers.
///
/// `M` is the type of the memory, and `P` that of the plans.
pub struct Engine<'m, T: Transport, M: Buffer + Send, P, A: Allocator + Send> {
    /// First field: queues are closed before the memory of their operations.
    rails: Array<Rail<'m, T>, A>,
    memories: Memories<'m, T, M, A>,
    peers: Peers<A>,
    transfers: Transfers<P, A>,
    arrivals: Arrivals<A>,
    strays: u64,
    /// Rails with a failed queue, a bit for each.
    failed: u32,
    attr: EngineAttr,
    /// Rail of the next operation, and number of operations that it has had in turn.
    turn: (usize, usize),
    /// No transfer has an earlier deadline.
    next_deadline: u64,
    alloc: A,
}

impl<'m, T, M, P, A> Engine<'m, T, M, P, A>
where
    T: Transport,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    /// Opens an engine with one rail for each domain.
    ///
    /// # Errors
    /// - [`OpenError::Size`] without a domain, with more than [`MAX_RAILS`], or for a piece, depth,
    ///   batch or budget of 0
    /// - [`OpenError::NotGranted`] if a domain does not grant [`RMA`](loom_core::Caps::RMA)
    /// - [`RangeError::TooWide`] if a provider carries too few bytes of immediate data for
    ///   [`values`](EngineAttr::values)
    /// - those of [`Cq::open_in`](loom_core::Cq::open_in) and of endpoints
    pub fn open_in(domains: &[Domain<'m, T>], attr: EngineAttr, alloc: A) -> Result<Self, Error> {
        let sizes = [attr.depth, attr.peer_depth, attr.batch, attr.budget];
        if !(1..=MAX_RAILS).contains(&domains.len()) || attr.piece == 0 || sizes.contains(&0) {
            return Err(OpenError::Size.into());
        }
        let width = usize::BITS - attr.values.saturating_sub(1).leading_zeros();
        for domain in domains {
            let missing = Caps::RMA.difference(domain.info().caps());
            if !missing.is_empty() {
                return Err(OpenError::NotGranted(missing).into());
            }
            let limit = domain.info().attributes().domain.cq_data_size;
            if width as usize > limit.saturating_mul(8) {
                return Err(RangeError::TooWide { width, limit }.into());
            }
        }
        let rails = Array::try_new_in(domains.len(), alloc.clone(), |number| {
            Rail::open(domains.get(number).ok_or(OpenError::Size)?, &attr, &alloc)
        })?;
        let piece = rails.iter().map(Rail::max_msg_size).fold(attr.piece, u64::min);
        Ok(Engine {
            memories: Memories::new(attr.memories, &alloc)?,
            peers: Peers::new(attr.peers, alloc.clone())?,
            transfers: Transfers::new(attr.transfers, &alloc)?,
            arrivals: Arrivals::open_in(attr.values, attr.waits, alloc.clone())?,
            strays: 0,
            failed: 0,
            attr: EngineAttr { piece, ..attr },
            turn: (0, 0),
            next_deadline: u64::MAX,
            rails,
            alloc,
        })
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
        peers::encode(&self.rails, out)
    }

    /// Inserts a peer by the record of its addresses. The rails of this side use the peer's in turn
    /// if the numbers differ. Returns the same key for the same addresses.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other bytes, or if an address belongs to another peer, [`Error::Full`]
    /// beyond [`EngineAttr::peers`], [`Error::Address`].
    pub fn insert_peer(&mut self, record: &[u8]) -> Result<PeerKey, Error> {
        self.peers.insert(record, &self.rails)
    }

    /// Removes a peer. Its transfers that have operations to post fail with
    /// [`PostError::UnknownPeer`] once their operations in flight have completed. Returns `false` for
    /// an unknown key.
    pub fn remove_peer(&mut self, peer: PeerKey) -> bool {
        let removed = self.peers.remove(peer, &self.rails);
        if removed {
            for index in self.transfers.indices() {
                let slot = self.transfers.get_mut(index).filter(|slot| slot.peer == Some(peer));
                if slot.is_some_and(|slot| slot.stop_posting(Ending::Failed(PostError::UnknownPeer.into()))) {
                    self.transfers.settle(index);
                }
            }
        }
        removed
    }

    /// Counts of immediate data that peers have sent, and waits for them. [`poll`](Self::poll)
    /// reports waits that have ended.
    #[must_use]
    pub const fn arrivals(&self) -> &Arrivals<A> {
        &self.arrivals
    }

    /// Number of peers' writes with a value that is not counted, and of failed operations of peers.
    #[must_use]
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Submits a transfer, which [`poll`](Self::poll) posts. Validates all blocks of the plan.
    ///
    /// # Errors
    /// The request, with
    /// - [`Error::Full`] beyond [`EngineAttr::transfers`]
    /// - [`PostError::UnknownPeer`], [`PostError::OutOfBounds`], [`PostError::RemoteAccess`],
    ///   [`PostError::Access`] for local memory, [`PostError::DataWidth`]
    /// - [`PostError::TooLong`] for a write with data if a rail's `max_msg_size` is below the piece of
    ///   the peer's memory
    /// - [`RangeError::OutOfWindow`] for a block outside of the local memory
    /// - [`Error::Invalid`] if the queues of all rails have failed, for memory that is not registered,
    ///   a read with data, or memory of another number of rails than the peer's
    #[expect(clippy::result_large_err, reason = "the request is returned, which cannot be boxed without an allocator")]
    pub fn submit(&mut self, request: Request<P>) -> Result<TransferKey, Rejected<Request<P>, Error>> {
        if let Err(error) = self.check(&request) {
            return Err(Rejected { value: request, error });
        }
        let (local, deadline) = (request.local, request.deadline);
        let key = match self.transfers.begin(request) {
            Ok(key) => key,
            Err(value) => return Err(Rejected { value, error: Error::Full("EngineAttr::transfers") }),
        };
        self.memories.used(local, 1);
        self.next_deadline = self.next_deadline.min(deadline);
        Ok(key)
    }

    fn check(&self, request: &Request<P>) -> Result<(), Error> {
        let Request { remote, plan, reads, .. } = request;
        if self.failed == Self::all_rails(self.rails.len()) {
            return Err(Error::Invalid("the queues of all rails have failed: open another engine"));
        }
        let rails = self.peers.rails(request.peer).ok_or(PostError::UnknownPeer)?;
        if rails != remote.rails() {
            return Err(Error::Invalid("the remote memory has another number of rails than the peer"));
        }
        let local = self.memories.get(request.local).ok_or(Error::Invalid("the memory is not registered"))?;
        if !local.allows(*reads) {
            return Err(PostError::Access.into());
        }
        let needed = if *reads { Access::REMOTE_READ } else { Access::REMOTE_WRITE };
        if !remote.access().contains(needed) {
            return Err(PostError::RemoteAccess(needed).into());
        }
        if let Some(value) = request.data {
            if *reads {
                return Err(Error::Invalid("a read carries no immediate data"));
            }
            for rail in self.rails.iter() {
                let limit = rail.domain.info().attributes().domain.cq_data_size;
                if limit < 8 && value >> (8 * limit) != 0 {
                    return Err(PostError::DataWidth { limit }.into());
                }
            }
        }
        let limit = self.rails.iter().map(Rail::max_msg_size).min().unwrap_or(0);
        if request.data.is_some() && remote.piece() > limit {
            return Err(PostError::TooLong { limit: usize::try_from(limit).unwrap_or(usize::MAX) }.into());
        }
        let within = |offset: u64, len, whole| offset.checked_add(len).is_some_and(|end| end <= whole);
        for index in 0..plan.blocks() {
            let Block { local: from, remote: to, len } = plan.block(index);
            if !within(from, len, local.len()) {
                return Err(RangeError::OutOfWindow.into());
            }
            if !within(to, len, remote.len()) {
                return Err(PostError::OutOfBounds.into());
            }
        }
        Ok(())
    }

    /// Stops a transfer that has operations to post. Its outcome is [`Ending::Cancelled`] once its
    /// operations in flight have completed, unless one has failed. Returns `false` if all operations
    /// have been posted.
    pub fn cancel(&mut self, transfer: TransferKey) -> bool {
        let stops = self.transfers.named(transfer).is_some_and(|slot| slot.stop_posting(Ending::Cancelled));
        if stops {
            self.transfers.settle(transfer.index);
        }
        stops
    }

    /// Number of operations in flight of a transfer, also after an outcome that has some. `None` once
    /// it has ended without any.
    #[must_use]
    pub fn operations_in_flight(&self, transfer: TransferKey) -> Option<u32> {
        self.transfers.in_flight(transfer)
    }

    /// Polls all rails, posts operations, and returns the next event. `now` is the time in
    /// nanoseconds of any clock, for [deadlines](Request::deadline).
    ///
    /// # Errors
    /// [`Error::Queue`], once, if the queue of a rail failed. Transfers with operations in flight fail
    /// then, because these may not complete. The rail is not used any more, and others are.
    pub fn poll(&mut self, now: u64) -> Result<Option<Event<P>>, Error> {
        self.poll_rails()?;
        self.expire(now);
        self.post();
        Ok(self.next_event())
    }

    fn next_event(&mut self) -> Option<Event<P>> {
        if let Some((key, request, slot)) = self.transfers.take_ended() {
            let Slot { ending, operations, bytes, in_flight, .. } = *slot;
            self.memories.used(request.local, -1);
            return Some(Event::Ended(Outcome { key, plan: request.plan, ending, operations, bytes, in_flight }));
        }
        self.arrivals.poll().map(Event::Arrived)
    }

    fn poll_rails(&mut self) -> Result<(), Error> {
        for number in 0..self.rails.len() {
            if self.failed & 1 << number != 0 {
                continue;
            }
            for _ in 0..self.rails[number].events(&self.attr) {
                match self.rails[number].cq.poll() {
                    Ok(None) => break,
                    Ok(Some(Completion::Op(done))) => {
                        let (error, part) = (done.result().err(), done.into_buf());
                        let (index, len) = (part.transfer, (!part.flushes).then(|| part.len()));
                        drop(part);
                        self.completed(index, len, error);
                    }
                    Ok(Some(Completion::Remote(event))) => {
                        let counted = event.data().is_some_and(|data| self.arrivals.count(data.0).is_ok());
                        self.strays += u64::from(!counted);
                    }
                    Ok(Some(_)) => self.strays += 1,
                    Err(error) => {
                        self.failed |= 1 << number;
                        self.end_in_flight(error.into());
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(())
    }

    const fn all_rails(rails: usize) -> u32 {
        (1 << rails) - 1
    }

    /// Ends transfers with operations in flight, which may not complete, and all if no rail is left.
    fn end_in_flight(&mut self, error: Error) {
        let all = self.failed == Self::all_rails(self.rails.len());
        for index in self.transfers.indices() {
            let Some(slot) = self.transfers.get_mut(index) else { return };
            if (slot.in_flight > 0 || all) && matches!(slot.stage, Stage::Posting | Stage::Draining) {
                slot.fail(error);
                self.transfers.end(index);
            }
        }
    }

    /// Counts a completion, of an operation without a length if it flushed a rail.
    #[inline]
    fn completed(&mut self, index: u32, len: Option<u64>, error: Option<OpError>) {
        let Some(slot) = self.transfers.get_mut(index) else { return };
        slot.in_flight -= 1;
        match (error, len) {
            (None, Some(len)) => {
                slot.operations += 1;
                slot.bytes += len;
            }
            (Some(error), Some(_)) => slot.fail(error),
            (_, None) => {}
        }
        let is_last = slot.in_flight == 0;
        if let Some(peer) = slot.peer {
            self.peers.completed(peer, &self.rails);
        }
        if is_last {
            self.transfers.settle(index);
        }
    }

    /// Ends transfers at their deadlines, also with operations in flight.
    fn expire(&mut self, now: u64) {
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

    /// Posts operations of all transfers in turn, until the budget is used up or no rail has room.
    fn post(&mut self) {
        let mut budget = self.attr.budget;
        // Rails without room, a bit for each.
        let (mut blocked, all) = (self.failed, Self::all_rails(self.rails.len()));
        let mut idle = 0;
        while budget > 0 && blocked != all && idle < self.transfers.posting() {
            let Some(index) = self.transfers.next_posting() else { break };
            if self.transfers.get_mut(index).is_none_or(|slot| slot.stage != Stage::Posting) {
                continue;
            }
            // Before its plan is called, which may panic.
            self.transfers.post_later(index);
            let posted = self.post_some(index, budget.min(self.attr.batch.max(TURN)), &mut blocked);
            budget -= posted;
            idle = if posted == 0 { idle + 1 } else { 0 };
            self.transfers.settle(index);
        }
        for number in 0..self.rails.len() {
            self.flush(number);
        }
    }

    /// Posts an operation without bytes on a rail where the last operation has announced another one
    /// and is in flight.
    fn flush(&mut self, number: usize) {
        let Engine { rails, memories, peers, transfers, .. } = self;
        let Some(rail) = rails.get_mut(number) else { return };
        let Some(Unflushed { peer, region, local, reads, transfer }) = rail.unflushed else { return };
        let slot = transfers.named(transfer).filter(|slot| slot.in_flight > 0);
        let lender = memories.lender(local, reads, transfer.index);
        if let (Some(slot), Some(mut part)) = (slot, lender.and_then(|lender| lender.part(number, Block::default()))) {
            part.flushes = true;
            match rail.post(&Target { peer, region, offset: 0 }, reads, None, false, part) {
                Ok(_) => {
                    slot.in_flight += 1;
                    if let Some(peer) = slot.peer {
                        peers.posted(peer);
                    }
                }
                Err(error) if error.is_transient() => return,
                Err(_) => {}
            }
        }
        rail.unflushed = None;
    }

    /// Posts up to `most` operations of a transfer, and returns their number.
    fn post_some(&mut self, index: u32, most: usize, blocked: &mut u32) -> usize {
        let Engine { rails, memories, peers, transfers, attr, turn, .. } = self;
        let Some(slot) = transfers.get_mut(index).filter(|slot| slot.stage == Stage::Posting) else { return 0 };
        let Some(Request { peer, reads, local, remote, plan, data, .. }) = &slot.request else { return 0 };
        let Some((routes, peer_in_flight)) = peers.routes(*peer) else {
            slot.fail(PostError::UnknownPeer);
            return 0;
        };
        let Some(lender) = memories.lender(*local, *reads, index) else {
            slot.fail(PostError::Access);
            return 0;
        };
        let piece = if data.is_some() { remote.piece() } else { attr.piece };
        let most = most.min(attr.peer_depth.saturating_sub(*peer_in_flight as usize));
        let all = Self::all_rails(rails.len());
        // Rails on which this transfer was refused: others may have other peers.
        let mut refused = 0;
        let mut posted = 0;
        let mut stopped = None;
        while posted < most {
            let Some(block) = slot.cursor.peek(piece) else { break };
            if *blocked | refused == all {
                break;
            }
            while (*blocked | refused) & 1 << turn.0 != 0 {
                *turn = (next_of(turn.0, rails.len()), 0);
            }
            let (number, count) = *turn;
            let (Some(rail), Some(&Some(peer))) = (rails.get_mut(number), routes.get(number)) else {
                stopped = Some(PostError::UnknownPeer.into());
                break;
            };
            if !rail.has_room() {
                *blocked |= 1 << number;
                continue;
            }
            let Some(part) = lender.part(number, block) else {
                stopped = Some(RangeError::OutOfWindow.into());
                break;
            };
            let more =
                count + 1 < attr.batch && posted + 1 < most && !slot.cursor.is_last(piece) && rail.has_room_for_two();
            // Address, key and descriptor are those of this rail.
            let to = Target { peer, region: remote.on(number), offset: block.remote };
            match rail.post(&to, *reads, data.map(ImmediateData), more, part) {
                Ok(_) => {
                    if more || rail.unflushed.is_some() {
                        let transfer = slot.key(index);
                        rail.unflushed = more.then_some(Unflushed {
                            peer,
                            region: to.region,
                            local: *local,
                            reads: *reads,
                            transfer,
                        });
                    }
                    posted += 1;
                    slot.in_flight += 1;
                    *peer_in_flight += 1;
                    slot.cursor.advance(plan, block);
                    *turn =
                        if count + 1 < attr.batch { (number, count + 1) } else { (next_of(number, rails.len()), 0) };
                }
                Err(PostError::Again) => refused |= 1 << number,
                Err(error) if error.is_transient() => *blocked |= 1 << number,
                Err(error) => {
                    stopped = Some(Error::Post(error));
                    break;
                }
            }
        }
        match stopped {
            Some(error) => slot.fail(error),
            None if slot.cursor.is_lost() => slot.fail(Error::Invalid("the plan panicked")),
            None if slot.cursor.peek(piece).is_none() => slot.stage = Stage::Draining,
            None => {}
        }
        posted
    }
}

const fn next_of(rail: usize, rails: usize) -> usize {
    if rail + 1 < rails { rail + 1 } else { 0 }
}

/// Remote side of an operation.
struct Target {
    peer: Peer,
    region: RemoteRegion,
    offset: u64,
}

impl<T: Transport> Rail<'_, T> {
    #[inline]
    fn post(
        &self,
        to: &Target,
        reads: bool,
        data: Option<ImmediateData>,
        more: bool,
        part: Part,
    ) -> Result<OpKey, PostError> {
        let Target { peer, region, offset } = to;
        let posted = match data {
            _ if more => return self.post_more(to, reads, data, part),
            _ if reads => self.endpoint.read(*peer, region, *offset, part),
            Some(data) => self.endpoint.write_data(*peer, region, *offset, data, part),
            None => self.endpoint.write(*peer, region, *offset, part),
        };
        posted.map_err(|rejected| rejected.error)
    }

    /// Posts an operation with `FI_MORE`.
    fn post_more(&self, to: &Target, reads: bool, data: Option<ImmediateData>, part: Part) -> Result<OpKey, PostError> {
        let len = usize::try_from(part.len()).map_err(|_| PostError::OutOfBounds)?;
        let target = [to.region.part(to.offset, len).ok_or(PostError::OutOfBounds)?];
        let posted = if reads {
            self.endpoint.read_with(to.peer, &target, ReadOptions { more: true, ..ReadOptions::default() }, part)
        } else {
            self.endpoint.write_with(to.peer, &target, SendOptions { data, more: true, ..SendOptions::default() }, part)
        };
        posted.map_err(|rejected| rejected.error)
    }
}

impl<T: Transport, M: Buffer + Send, P, A: Allocator + Send> Drop for Engine<'_, T, M, P, A> {
    fn drop(&mut self) {
        // Before the rails, which they keep open.
        self.memories.close_bound();
    }
}

impl<T: Transport, M: Buffer + Send, P, A: Allocator + Send> fmt::Debug for Engine<'_, T, M, P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("rails", &self.rails.len()).field("attr", &self.attr).finish_non_exhaustive()
    }
}
