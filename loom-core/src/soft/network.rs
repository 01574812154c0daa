//! [`Network`]: one block of memory, and what is where in it.

#![allow(unsafe_code, reason = "lays a network out in memory of the allocator")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::address::{NO_PORT, addr_parts};
use super::cell::MessageCell;
use super::endpoint_state::{EndpointState, LocalState, Sending};
use super::faults::{Faults, Injected};
use super::group::{Group, Member};
use super::ids::Ids;
use super::lane::{LANE_CELL, Lane, MOST_SLOTS, Slot, cells_of_lane};
use super::list::NIL;
use super::matching::{MatchingLayout, WaitsLayout};
use super::region::Region;
use super::strict::{self, Contact};
use super::waker;
use crate::engine::tag_matcher::Table;
use crate::error::OpenError;
use crate::handle::{CrossesThreads, Ended, Handle, HandleBlock, Head, Object, Plan, Unfilled};
use crate::storage::{array, extend};
use crate::sync::{AtomicBool, Ordering};
use crate::vocabulary::{Errno, MemoryKey, WaitObj};

/// How large a network is. All of its memory is taken when it is made.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::error::OpenError;
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain};
///
/// // Two endpoints, eight messages of each under way, and no regions.
/// let attr = NetworkAttr { endpoints: 2, tx_depth: 8, rx_depth: 8, regions: 0, ..NetworkAttr::DEFAULT };
/// assert!(attr.layout::<Global>()?.size() < NetworkAttr::DEFAULT.layout::<Global>()?.size());
/// let network = Network::new(attr)?;
/// let domain = Domain::open(&network.info())?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// let [_alice, _bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// assert_eq!(cq.endpoint(&av).err(), Some(OpenError::Limit("NetworkAttr::endpoints")));
/// assert_eq!(Network::new(NetworkAttr { endpoints: 0, ..attr }).err(), Some(OpenError::OutOfRange("NetworkAttr::endpoints")));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct NetworkAttr {
    /// How many endpoints can be open at a time.
    pub endpoints: u16,
    /// How many messages an endpoint can have under way: sent and not yet received. Rounded up to a power of two. A [lane](Self::lanes)
    /// has room for as many; it may seem full from three quarters on, because its receiver does not tell of each message.
    pub tx_depth: u32,
    /// How many receives can be posted on an endpoint. One into several buffers counts for each of them, and for one more.
    pub rx_depth: u32,
    /// The longest message, in bytes, that is copied into its cell and so is over for the sender at once; longer ones
    /// are copied once, from the sender's buffer, when they are received. Also the most that can be injected. With less than
    /// 64, a message is sent out of one buffer only.
    pub eager_size: u32,
    /// How many memory regions can be open at a time.
    pub regions: u16,
    /// How many groups for collective operations there can be at a time. Each takes about half a KiB for each of the `endpoints`. With
    /// zero, collective operations are not granted.
    pub groups: u16,
    /// The seed of what peers must not foresee: how tags are hashed, and the keys of memory regions. The same seed gives the
    /// same keys, in the order in which regions are opened. Set a random one where peers are not trusted: everybody knows the
    /// default.
    ///
    /// - A peer that does not know the seed cannot choose tags that slow a receiver down. (A message that waits costs about the
    ///   same however many do, of up to four senders with all their messages; of more, somewhat more.)
    /// - A peer that does not know the seed cannot work out the key of a region that it did not get, also not from other keys.
    ///   A key has 46 bits to guess, and no bound on how often a peer may try. A peer that knows a key reaches the region until it is
    ///   closed. With any seed, the key of a region that was closed opens none of the next 2^46 regions.
    /// - The seed does not protect from code in this process, which may look into memory anyway.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::hexadecimal"))]
    pub seed: u64,
    /// For how many peers an endpoint has a *lane*: a ring for short messages, which moves several times as many a second between threads.
    /// An endpoint uses its lanes for peers that it sends many messages of at most 104 bytes; other messages go without. With zero,
    /// all do. An endpoint receives by eight lanes at most, those of the first that asked. A lane takes about 550 bytes for each of the
    /// `tx_depth` messages that it holds, of 256 at most.
    pub lanes: u16,
    /// Gives no more than the least of the tested providers does: for programs that are to run over libfabric without a change.
    /// [What that is](super#strict-networks). Takes more memory, 20 bytes times the square of `endpoints`, and none for lanes.
    pub strict: bool,
}

impl NetworkAttr {
    /// Two to eight endpoints of a small program: 8 endpoints with 128 messages of up to 1024 bytes under way and 1024
    /// posted receives each, 64 regions, four groups, and a seed that everybody knows.
    pub const DEFAULT: NetworkAttr = NetworkAttr {
        endpoints: 8,
        tx_depth: 128,
        rx_depth: 1024,
        eager_size: 1024,
        regions: 64,
        groups: 4,
        seed: 0,
        lanes: 2,
        strict: false,
    };

    /// The memory that a network takes from an allocator of type `A`, in one block. It is that of a [strict](Self::strict) one where
    /// `LOOM_STRICT` makes all networks so.
    ///
    /// # Errors
    /// [`OpenError::OutOfRange`] if a number is zero (regions, groups and the eager size may be) or too large, and [`OpenError::Size`] if it is
    /// more than an address space holds.
    pub fn layout<A: Allocator>(&self) -> Result<Layout, OpenError> {
        Ok(self.in_environment().places::<A>()?.plan.layout())
    }

    /// As a network is made in this environment.
    fn in_environment(self) -> Self {
        NetworkAttr { strict: self.strict || strict::is_asked_for(), ..self }
    }

    fn places<A: Allocator>(&self) -> Result<Places, OpenError> {
        let in_range = [
            ("NetworkAttr::endpoints", self.endpoints != 0 && self.endpoints != NO_PORT),
            ("NetworkAttr::tx_depth", self.tx_depth != 0),
            ("NetworkAttr::rx_depth", self.rx_depth != 0),
            ("NetworkAttr::regions", self.regions != u16::MAX),
        ];
        if let Some((attribute, _)) = in_range.iter().find(|(_, good)| !good) {
            return Err(OpenError::OutOfRange(attribute));
        }
        let tx_depth = self.tx_depth.checked_next_power_of_two();
        let tx_depth = tx_depth.ok_or(OpenError::OutOfRange("NetworkAttr::tx_depth"))?;
        let cells = u32::from(self.endpoints).checked_mul(tx_depth).filter(|cells| *cells < NIL - 1);
        let cells = cells.ok_or(OpenError::Size)?;
        // One for each peer is as many as are ever used, and a strict network grants none.
        let lanes_each = if self.strict { 0 } else { self.lanes.min(self.endpoints) };
        let lane_slots = tx_depth.min(MOST_SLOTS);
        let lane_count = u32::from(self.endpoints) * u32::from(lanes_each);
        let lane_cells = lane_count.checked_mul(cells_of_lane(lane_slots)).ok_or(OpenError::Size)?;
        let all_cells = cells.checked_add(lane_cells).filter(|cells| *cells < NIL - 1).ok_or(OpenError::Size)?;
        let waits = WaitsLayout::new(all_cells)?;
        let all_slots = array::<Slot>(lane_count as usize * lane_slots as usize)?;
        let lane_cells = Layout::from_size_align(LANE_CELL, align_of::<MessageCell>()).map_err(|_| OpenError::Size)?;
        let lane_cells = repeated(lane_cells, (all_cells - cells) as usize)?;
        let matching = MatchingLayout::new(self.rx_depth, tx_depth, all_cells)?;
        let cells = cells as usize;
        let cell = Layout::new::<MessageCell>();
        let (cell, _) = extend(cell, array::<u8>(self.eager_size as usize)?)?;
        let cell = cell.pad_to_align();
        let own_cells = repeated(cell, cells)?;

        let mut plan = Plan::of::<Net, A>()?;
        let ports = plan.add(array::<EndpointState>(self.endpoints.into())?)?;
        let faults = plan.add(array::<Faults>(self.endpoints.into())?)?;
        let regions = plan.add(array::<Region>(self.regions.into())?)?;
        let matchings_at = plan.add(repeated(matching.layout, self.endpoints.into())?)?;
        let waits_at = plan.add(waits.layout)?;
        let sendings = plan.add(array::<Cell<Option<Sending>>>(cells)?)?;
        let cells_at = plan.add(own_cells)?;
        let lanes = plan.add(array::<Lane>(lane_count as usize)?)?;
        let slots = plan.add(all_slots)?;
        let lane_cells = plan.add(lane_cells)?;
        let endpoints = if self.strict { usize::from(self.endpoints) } else { 0 };
        let contact_count = endpoints * endpoints;
        let contacts = plan.add(array::<Cell<Option<Contact>>>(contact_count)?)?;
        let member_count = u32::from(self.groups).checked_mul(self.endpoints.into()).ok_or(OpenError::Size)?;
        let groups = plan.add(array::<Group>(self.groups.into())?)?;
        let members = plan.add(array::<Member>(member_count as usize)?)?;
        Ok(Places {
            plan,
            ports,
            faults,
            regions,
            matching,
            matchings_at,
            waits,
            waits_at,
            sendings,
            cells: cells_at,
            lanes,
            slots,
            lane_cells,
            lanes_each: lanes_each.into(),
            lane_slots,
            contacts,
            contact_count,
            groups,
            members,
            cell_count: cells,
            cell_stride: cell.size(),
            tx_shift: tx_depth.trailing_zeros(),
        })
    }
}

impl Default for NetworkAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// `count` times one layout, which is padded, one after the other.
fn repeated(one: Layout, count: usize) -> Result<Layout, OpenError> {
    let size = one.size().checked_mul(count).ok_or(OpenError::Size)?;
    Layout::from_size_align(size, one.align()).map_err(|_| OpenError::Size)
}

/// Offsets in the block, and what follows from the attributes.
struct Places {
    plan: Plan,
    ports: usize,
    faults: usize,
    regions: usize,
    /// One for each port.
    matching: MatchingLayout,
    matchings_at: usize,
    waits: WaitsLayout,
    waits_at: usize,
    sendings: usize,
    cells: usize,
    lanes: usize,
    slots: usize,
    lane_cells: usize,
    /// How many lanes an endpoint has, and how many slots a lane.
    lanes_each: u32,
    lane_slots: u32,
    contacts: usize,
    contact_count: usize,
    groups: usize,
    members: usize,
    cell_count: usize,
    cell_stride: usize,
    tx_shift: u32,
}

impl Places {
    /// Builds the lanes of a port.
    ///
    /// # Safety
    /// The network's block has the lanes and their cells, and from `slots` on their slots.
    unsafe fn build_lanes(&self, net: &Net, slots: NonNull<Slot>, port: u16) -> Table<Lane> {
        let first = u32::from(port) * self.lanes_each;
        for lane in first..first + self.lanes_each {
            let lane_cells = cells_of_lane(self.lane_slots);
            // SAFETY: the caller's promise. So it is with all of these.
            let slots = unsafe { slots.add(lane as usize * self.lane_slots as usize) };
            for slot in 0..self.lane_slots as usize {
                // SAFETY: as above.
                let slot = unsafe { slots.add(slot) };
                // SAFETY: as above.
                unsafe { slot.write(Slot::new()) };
            }
            // SAFETY: as above.
            let cells = unsafe { net.lane_cells.add((lane * lane_cells) as usize * LANE_CELL) };
            for at in 0..lane_cells {
                // SAFETY: as above.
                let cell = unsafe { cells.add(at as usize * LANE_CELL) };
                // SAFETY: as above.
                unsafe { cell.cast().write(MessageCell::new(net.cell_count + lane * lane_cells + at)) };
            }
            // SAFETY: as above.
            let place = unsafe { net.lanes.add(lane as usize) };
            // SAFETY: its slots and cells were just written, and no other lane has them.
            let built = unsafe { Lane::new(lane, slots, self.lane_slots, cells) };
            // SAFETY: as above.
            unsafe { place.write(built) };
        }
        // SAFETY: as above.
        let of_port = unsafe { net.lanes.add(first as usize) };
        // SAFETY: just written; they are looked up by numbers below the count.
        unsafe { Table::new(of_port, self.lanes_each) }
    }
}

/// What the block begins with; everything else follows it.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) attr: NetworkAttr,
    /// Tells this network from every other one of the program.
    pub(super) identity: u32,
    pub(super) eager_size: usize,
    /// Taken while endpoints and regions are opened and closed. It guards what they are numbered by, too.
    pub(super) opening: spin::Mutex<Ids>,
    /// Whether an endpoint or a region has, or has had, a counter of what peers do: only then peers look for one. Set before the
    /// endpoint can be reached, or peers get the key of the region: a peer that is to be counted finds it set.
    pub(super) peers_are_counted: AtomicBool,
    ports: NonNull<EndpointState>,
    regions: NonNull<Region>,
    sendings: NonNull<Cell<Option<Sending>>>,
    cells: NonNull<u8>,
    /// Those of lanes, which are numbered behind the others, and how many others there are.
    lane_cells: NonNull<u8>,
    cell_count: u32,
    lanes: NonNull<Lane>,
    /// For each port of a strict network, what it knows of each port.
    contacts: NonNull<Cell<Option<Contact>>>,
    groups: NonNull<Group>,
    /// For each group, one for each endpoint.
    members: NonNull<Member>,
    cell_stride: usize,
    /// How many cells each port has, as the exponent of a power of two.
    tx_shift: u32,
    /// One less than how many those are.
    cell_mask: u32,
}

// SAFETY: ports, regions, groups, cells and lanes are `Sync`, each for its own reason. Receives, sendings and contacts are a port's own, and so
// used by one thread at a time, like `EndpointState::own`.
unsafe impl Sync for Net {}
// SAFETY: nothing depends on the thread.
unsafe impl Send for Net {}

impl Net {
    #[inline]
    pub(super) fn ports(&self) -> &[EndpointState] {
        // SAFETY: written in `Network::new_in`, in the block that this lies in.
        unsafe { core::slice::from_raw_parts(self.ports.as_ptr(), self.attr.endpoints.into()) }
    }

    /// The port of this index: that of a port itself, or of the fabric address of an endpoint that is open.
    #[inline]
    pub(super) fn port(&self, index: u16) -> &EndpointState {
        debug_assert!(index < self.attr.endpoints, "indices are those of ports");
        // SAFETY: written in `Network::new_in`, one for each index below `attr.endpoints`. Indices come from ports (their own, their
        // neighbours' on a queue, the owner of a cell), or from addresses that `reach` has found or an endpoint has.
        let port = unsafe { self.ports.add(index.into()) };
        // SAFETY: as above.
        unsafe { port.as_ref() }
    }

    /// A cell, by a number from one of the lists.
    #[inline]
    pub(super) fn cell(&self, cell: u32) -> &MessageCell {
        let (cells, at) = if cell < self.cell_count {
            (self.cells, cell as usize * self.cell_stride)
        } else {
            (self.lane_cells, (cell - self.cell_count) as usize * LANE_CELL)
        };
        // SAFETY: written in `Network::new_in`; lists hold numbers of cells only.
        let cell = unsafe { cells.add(at) };
        // SAFETY: as above.
        unsafe { cell.cast().as_ref() }
    }

    /// Where the eager bytes of a cell are: right behind its head.
    #[inline]
    pub(super) fn eager_room(&self, head: &MessageCell) -> *mut u8 {
        let head = core::ptr::from_ref(head).addr();
        self.cells.as_ptr().with_addr(head + size_of::<MessageCell>())
    }

    /// A lane, by the number that its sender tells.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the number of a lane, as it was told")]
    pub(super) fn lane(&self, number: u64) -> &Lane {
        // SAFETY: written in `Network::new_in`; a sender tells the number of one of its lanes.
        let lane = unsafe { self.lanes.add(number as usize) };
        // SAFETY: as above.
        unsafe { lane.as_ref() }
    }

    /// The port that a cell belongs to, which is no lane's.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are no more ports than u16 counts")]
    pub(super) fn owner_of(&self, head: &MessageCell) -> &EndpointState {
        self.port((head.number >> self.tx_shift) as u16)
    }

    /// How many cells each port has.
    #[inline]
    pub(super) fn cells_each(&self) -> u32 {
        self.cell_mask + 1
    }

    /// One of a port's cells, in turn.
    #[inline]
    pub(super) fn cell_in_turn(&self, own: &LocalState, turn: u32) -> &MessageCell {
        self.cell(own.first_cell + (turn & self.cell_mask))
    }

    /// The cells that belong to a port.
    pub(super) fn cells_of(&self, own: &LocalState) -> impl Iterator<Item = &MessageCell> {
        (0..self.cells_each()).map(|turn| self.cell_in_turn(own, turn))
    }

    /// What the owner of a cell awaits of it.
    #[inline]
    pub(super) fn sending(&self, head: &MessageCell) -> &Cell<Option<Sending>> {
        // SAFETY: written in `Network::new_in`, one for each cell.
        let sending = unsafe { self.sendings.add(head.number as usize) };
        // SAFETY: as above.
        unsafe { sending.as_ref() }
    }

    /// What a port knows of another, in a strict network.
    pub(super) fn contact(&self, own: u16, peer: u16) -> &Cell<Option<Contact>> {
        assert!(self.attr.strict && own.max(peer) < self.attr.endpoints, "others have no such table");
        // SAFETY: written in `Network::new_in`, one for each pair of ports.
        let contact =
            unsafe { self.contacts.add(usize::from(own) * usize::from(self.attr.endpoints) + usize::from(peer)) };
        // SAFETY: as above.
        unsafe { contact.as_ref() }
    }

    pub(super) fn regions(&self) -> &[Region] {
        // SAFETY: written in `Network::new_in`.
        unsafe { core::slice::from_raw_parts(self.regions.as_ptr(), self.attr.regions.into()) }
    }

    #[inline]
    pub(super) fn region(&self, key: MemoryKey) -> Option<&Region> {
        self.regions().get(Region::index(key))
    }

    /// A group, by its place.
    pub(super) fn group(&self, at: u32) -> &Group {
        assert!(at < self.attr.groups.into(), "places are those of groups");
        // SAFETY: written in `Network::new_in`, one for each place below `attr.groups`.
        let group = unsafe { self.groups.add(at as usize) };
        // SAFETY: as above.
        unsafe { group.as_ref() }
    }

    /// The members of a group, by rank.
    pub(super) fn members_of(&self, at: u32) -> &[Member] {
        let first = at as usize * usize::from(self.attr.endpoints);
        let size = self.group(at).size.get() as usize;
        // SAFETY: written in `Network::new_in`: a group has places for as many members as there are endpoints, and no more members.
        let members = unsafe { self.members.add(first) };
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts(members.as_ptr(), size) }
    }

    /// The number of a membership.
    pub(super) fn membership(&self, at: u32, rank: u32) -> u32 {
        at * u32::from(self.attr.endpoints) + rank
    }

    /// The place of the group that a membership is in.
    pub(super) fn group_of(&self, number: u32) -> u32 {
        number / u32::from(self.attr.endpoints)
    }

    /// A member, by the number of its membership.
    pub(super) fn member(&self, number: u32) -> &Member {
        let count = u32::from(self.attr.groups) * u32::from(self.attr.endpoints);
        assert!(number < count, "numbers are those of memberships");
        // SAFETY: written in `Network::new_in`.
        let member = unsafe { self.members.add(number as usize) };
        // SAFETY: as above.
        unsafe { member.as_ref() }
    }

    /// Whether queues can be slept on that are opened so.
    pub(super) fn can_sleep(&self, wait: WaitObj) -> bool {
        // A strict network is as `shm`.
        !self.attr.strict && waker::exists_for(wait)
    }

    /// The domain of the endpoint that is open under this fabric address.
    #[inline]
    pub(super) fn reach(&self, to: u64) -> Result<u32, Errno> {
        let (index, generation) = addr_parts(to);
        let port = self.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
        port.reach.domain(generation).ok_or(Errno::EHOSTUNREACH)
    }

    /// Turns a list round that was taken newest first.
    #[inline]
    pub(super) fn oldest_first(&self, newest: u32) -> u32 {
        let (mut oldest, mut at) = (newest, self.cell(newest).link.load(Ordering::Relaxed));
        if at != NIL {
            self.cell(newest).link.store(NIL, Ordering::Relaxed);
        }
        while at != NIL {
            let link = &self.cell(at).link;
            let next = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            (oldest, at) = (at, next);
        }
        oldest
    }
}

impl CrossesThreads for Net {}

// SAFETY: a place begins with its head.
unsafe impl Object for Net {
    const ONE_THREAD: bool = false;

    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }

    /// There is nothing but memory.
    unsafe fn end(_: NonNull<Self>, _: bool) -> Ended {
        Ended::Free
    }
}

/// A software network: endpoints that reach each other through memory.
///
/// A counted handle: the network is there as long as its clones and infos, and what is opened from those. Its memory comes from an
/// allocator, once, when it is made; [`NetworkAttr::layout`] says how much that is. `'n` says how long that memory lives. It may be
/// shared between threads.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Source, Yielding};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let (tell, told) = std::sync::mpsc::channel();
/// std::thread::scope(|threads| {
///     let bob = threads.spawn(|| {
///         let domain = Domain::open(&network.info())?;
///         let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
///         let bob = cq.endpoint(&av)?;
///         let received = bob.recv(Source::Any, vec![0; 5])?;
///         tell.send(bob.address()?).expect("alice listens");
///         Ok::<_, loom_core::Error>(cq.finish(received, Yielding::new(Forever))?.into_buf())
///     });
///     let domain = Domain::open(&network.info())?;
///     let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
///     let alice = cq.endpoint(&av)?;
///     let to_bob = av.insert(&told.recv().expect("bob tells his address"))?;
///     cq.retry(Yielding::new(Forever), || alice.inject(to_bob, b"hello"))?;
///     assert_eq!(bob.join().expect("it does not panic")?, b"hello");
///     Ok::<_, loom_core::Error>(())
/// })?;
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Network<'n> {
    pub(super) net: Handle<'n, Net>,
}

impl<'n> Network<'n> {
    /// Makes a network in memory of `alloc`.
    ///
    /// Objects over a network that borrows its allocator are opened in a [`scope`](crate::scope()); `Domain::open` and other openers of
    /// kept objects want one that lives as long as the program: `&'static`, or an allocator that is shared by value.
    ///
    /// # Errors
    /// - [`OpenError::OutOfRange`] if a number is zero (regions, groups and the eager size may be) or too large
    /// - [`OpenError::Size`] if all of it is more than an address space holds
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    pub fn new_in<A: Allocator + Send + 'n>(attr: NetworkAttr, alloc: A) -> Result<Self, OpenError> {
        static IDENTITIES: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);

        let attr = attr.in_environment();
        let places = attr.places::<A>()?;
        let block = Unfilled::new(places.plan, alloc)?;
        let at = |offset: usize| {
            // SAFETY: one of the plan's.
            unsafe { block.at(offset) }
        };
        let net = Net {
            attr,
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            eager_size: attr.eager_size as usize,
            opening: spin::Mutex::new(Ids::new(attr.seed)),
            peers_are_counted: AtomicBool::new(false),
            ports: at(places.ports).cast(),
            regions: at(places.regions).cast(),
            sendings: at(places.sendings).cast(),
            cells: at(places.cells),
            lane_cells: at(places.lane_cells),
            cell_count: u32::from(attr.endpoints) << places.tx_shift,
            lanes: at(places.lanes).cast(),
            contacts: at(places.contacts).cast(),
            groups: at(places.groups).cast(),
            members: at(places.members).cast(),
            cell_stride: places.cell_stride,
            tx_shift: places.tx_shift,
            cell_mask: (1 << places.tx_shift) - 1,
        };
        // SAFETY: the block has room for them, and stays while the network does. A cell's place is used by the holder of the cell,
        // and lists of cells hold no other numbers.
        let waits = unsafe { places.waits.build(at(places.waits_at)) };
        for index in 0..attr.endpoints {
            let memory = at(places.matchings_at + usize::from(index) * places.matching.layout.size());
            // SAFETY: the block has room for that number. Each is used by one thread at a time, like `EndpointState::own`; numbers of
            // receives come from lists of them.
            let matching = unsafe { places.matching.build(memory, waits, attr.seed) };
            // SAFETY: the block has room for that number of ports.
            let port = unsafe { net.ports.add(index.into()) };
            // SAFETY: the block has room for the faults of each port.
            let faults = unsafe { at(places.faults).cast::<Faults>().add(index.into()) };
            // SAFETY: as above.
            unsafe { faults.write(Faults::none()) };
            // SAFETY: the block has room for the lanes of each port, their slots and cells.
            let lanes = unsafe { places.build_lanes(&net, at(places.slots).cast(), index) };
            // SAFETY: as above.
            unsafe { port.write(EndpointState::new(index, u32::from(index) << net.tx_shift, matching, lanes, faults)) };
        }
        for index in 0..attr.regions {
            // SAFETY: the block has room for that number of regions.
            let region = unsafe { net.regions.add(index.into()) };
            // SAFETY: as above.
            unsafe { region.write(Region::new()) };
        }
        for (number, index) in (0..).zip(0..places.cell_count) {
            // SAFETY: the block has room for that number.
            let sending = unsafe { net.sendings.add(index) };
            // SAFETY: as above.
            unsafe { sending.write(Cell::new(None)) };
            // SAFETY: as above.
            let cell = unsafe { net.cells.add(index * places.cell_stride) }.cast::<MessageCell>();
            // SAFETY: as above.
            unsafe { cell.write(MessageCell::new(number)) };
        }
        for index in 0..places.contact_count {
            // SAFETY: the block has room for that number.
            let contact = unsafe { net.contacts.add(index) };
            // SAFETY: as above.
            unsafe { contact.write(Cell::new(None)) };
        }
        for index in 0..attr.groups {
            // SAFETY: the block has room for this number of groups.
            let group = unsafe { net.groups.add(index.into()) };
            // SAFETY: as above.
            unsafe { group.write(Group::new()) };
        }
        for index in 0..usize::from(attr.groups) * usize::from(attr.endpoints) {
            // SAFETY: the block has room for this number of members.
            let member = unsafe { net.members.add(index) };
            // SAFETY: as above.
            unsafe { member.write(Member::new()) };
        }
        Ok(Network { net: block.fill(net) })
    }

    /// How often something went wrong since the network was made.
    #[must_use]
    pub fn injected(&self) -> Injected {
        Injected::sum(self.net.ports().iter().map(|port| port.own().faults()))
    }

    /// The attributes that it was made with.
    #[must_use]
    pub fn attr(&self) -> &NetworkAttr {
        &self.net.attr
    }

    /// Makes a network with the global allocator.
    ///
    /// # Errors
    /// As [`Network::new_in`].
    #[cfg(feature = "std")]
    pub fn new(attr: NetworkAttr) -> Result<Self, OpenError> {
        Self::new_in(attr, allocator_api2::alloc::Global)
    }
}

impl fmt::Debug for Network<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("attr", self.attr()).finish_non_exhaustive()
    }
}
