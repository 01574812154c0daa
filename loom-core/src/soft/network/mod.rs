//! [`Network`]: one block of memory and its layout.

#![allow(unsafe_code, reason = "lays a network out in memory of the allocator")]

pub(crate) mod attr;

pub(crate) mod group;

pub(crate) mod matching_memory;

pub(crate) mod region;

pub(crate) mod counter;

pub(crate) mod endpoint_state;

pub(crate) mod reported_attributes;

mod block_layout;

pub use self::attr::NetworkAttr;

use core::cell::Cell;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::faults::strict::Contact;
use super::faults::{Faults, Injected};
use super::lane::{LANE_CELL, Lane};
use super::network::endpoint_state::{EndpointState, LocalState, Sending};
use super::network::group::{Group, Member};
use super::network::region::Region;
use super::shared::address::addr_parts;
use super::shared::cell::MessageCell;
use super::shared::ids::Ids;
use super::shared::list::NIL;
use super::shared::waker;
use crate::error::OpenError;
use crate::storage::handle::{CrossesThreads, Handle, Object, Unfilled};
use crate::util::debug::debug_struct;
use crate::util::sync::{AtomicBool, Ordering};
use crate::vocabulary::{Errno, MemoryKey, WaitObj};

#[derive(Debug)]
pub(super) struct Net {
    pub(super) attr: NetworkAttr,
    pub(super) identity: u32,
    pub(super) eager_size: usize,
    /// Lock for opening and closing endpoints and regions. Guards their numbers.
    pub(super) opening: spin::Mutex<Ids>,
    /// Set before the endpoint can be reached, or before peers get the region's key.
    pub(super) peers_are_counted: AtomicBool,
    ports: NonNull<EndpointState>,
    regions: NonNull<Region>,
    sendings: NonNull<Cell<Option<Sending>>>,
    cells: NonNull<u8>,
    /// Cells of lanes, which are numbered behind the others, and number of the others.
    lane_cells: NonNull<u8>,
    cell_count: u32,
    lanes: NonNull<Lane>,
    /// Contact of each pair of ports of a strict network.
    contacts: NonNull<Cell<Option<Contact>>>,
    groups: NonNull<Group>,
    /// One member for each group and endpoint, by group.
    members: NonNull<Member>,
    cell_stride: usize,
    /// Number of cells of a port, as the exponent of a power of two.
    tx_shift: u32,
    cell_mask: u32,
}

// SAFETY: ports, regions, groups, cells and lanes are `Sync`. Receives, sendings and contacts
// belong to one port, and are used by one thread at a time, like `EndpointState::own`.
unsafe impl Sync for Net {}
// SAFETY: no part depends on the thread.
unsafe impl Send for Net {}

impl Net {
    #[inline]
    pub(super) fn ports(&self) -> &[EndpointState] {
        // SAFETY: `new_in` writes the ports, in the block of `self`.
        unsafe { core::slice::from_raw_parts(self.ports.as_ptr(), self.attr.endpoints.into()) }
    }

    #[inline]
    pub(super) fn port(&self, index: u16) -> &EndpointState {
        debug_assert!(index < self.attr.endpoints, "indices are those of ports");
        // SAFETY: `new_in` writes a port for each index below `attr.endpoints`. Indices come from
        // ports (their own, their neighbours' on a queue, a cell's owner), from `reach`, or from an
        // endpoint's address.
        let port = unsafe { self.ports.add(index.into()) };
        // SAFETY: `new_in` has written this port.
        unsafe { port.as_ref() }
    }

    #[inline]
    pub(super) fn cell(&self, cell: u32) -> &MessageCell {
        let (cells, at) = if cell < self.cell_count {
            (self.cells, cell as usize * self.cell_stride)
        } else {
            (self.lane_cells, (cell - self.cell_count) as usize * LANE_CELL)
        };
        // SAFETY: `new_in` writes the cells, and lists hold only their numbers.
        let cell = unsafe { cells.add(at) };
        // SAFETY: `new_in` has written this cell.
        unsafe { cell.cast().as_ref() }
    }

    #[inline]
    pub(super) fn eager_room(&self, head: &MessageCell) -> *mut u8 {
        let head = core::ptr::from_ref(head).addr();
        self.cells.as_ptr().with_addr(head + size_of::<MessageCell>())
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the number of a lane, as reported")]
    pub(super) fn lane(&self, number: u64) -> &Lane {
        // SAFETY: `new_in` writes the lanes, and a sender passes the number of one of its lanes.
        let lane = unsafe { self.lanes.add(number as usize) };
        // SAFETY: `new_in` has written this lane.
        unsafe { lane.as_ref() }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are no more ports than u16 counts")]
    pub(super) fn owner_of(&self, head: &MessageCell) -> &EndpointState {
        self.port((head.number >> self.tx_shift) as u16)
    }

    #[inline]
    pub(super) fn cells_each(&self) -> u32 {
        self.cell_mask + 1
    }

    #[inline]
    pub(super) fn cell_in_turn(&self, own: &LocalState, turn: u32) -> &MessageCell {
        self.cell(own.first_cell + (turn & self.cell_mask))
    }

    pub(super) fn cells_of(&self, own: &LocalState) -> impl Iterator<Item = &MessageCell> {
        (0..self.cells_each()).map(|turn| self.cell_in_turn(own, turn))
    }

    #[inline]
    pub(super) fn sending(&self, head: &MessageCell) -> &Cell<Option<Sending>> {
        // SAFETY: `new_in` writes a sending for each cell of a port.
        let sending = unsafe { self.sendings.add(head.number as usize) };
        // SAFETY: `new_in` has written this sending.
        unsafe { sending.as_ref() }
    }

    pub(super) fn contact(&self, own: u16, peer: u16) -> &Cell<Option<Contact>> {
        assert!(self.attr.strict && own.max(peer) < self.attr.endpoints, "others have no such table");
        // SAFETY: `new_in` writes a contact for each pair of ports, checked above.
        let contact =
            unsafe { self.contacts.add(usize::from(own) * usize::from(self.attr.endpoints) + usize::from(peer)) };
        // SAFETY: `new_in` has written this contact.
        unsafe { contact.as_ref() }
    }

    pub(super) fn regions(&self) -> &[Region] {
        // SAFETY: `new_in` writes the regions.
        unsafe { core::slice::from_raw_parts(self.regions.as_ptr(), self.attr.regions.into()) }
    }

    #[inline]
    pub(super) fn region(&self, key: MemoryKey) -> Option<&Region> {
        self.regions().get(Region::index(key))
    }

    pub(super) fn group(&self, at: u32) -> &Group {
        assert!(at < self.attr.groups.into(), "places are those of groups");
        // SAFETY: `new_in` writes the groups, and `at` is below their number, checked above.
        let group = unsafe { self.groups.add(at as usize) };
        // SAFETY: `new_in` has written this group.
        unsafe { group.as_ref() }
    }

    pub(super) fn members_of(&self, at: u32) -> &[Member] {
        let first = at as usize * usize::from(self.attr.endpoints);
        let size = self.group(at).size.get() as usize;
        // SAFETY: `new_in` writes a member for each endpoint in each group, and a group has no more
        // members.
        let members = unsafe { self.members.add(first) };
        // SAFETY: `new_in` has written these members.
        unsafe { core::slice::from_raw_parts(members.as_ptr(), size) }
    }

    pub(super) fn membership(&self, at: u32, rank: u32) -> u32 {
        at * u32::from(self.attr.endpoints) + rank
    }

    pub(super) fn group_of(&self, number: u32) -> u32 {
        number / u32::from(self.attr.endpoints)
    }

    pub(super) fn member(&self, number: u32) -> &Member {
        let count = u32::from(self.attr.groups) * u32::from(self.attr.endpoints);
        assert!(number < count, "numbers are those of memberships");
        // SAFETY: `new_in` writes the members, and `number` is below their number, checked above.
        let member = unsafe { self.members.add(number as usize) };
        // SAFETY: `new_in` has written this member.
        unsafe { member.as_ref() }
    }

    pub(super) fn can_sleep(&self, wait: WaitObj) -> bool {
        !self.attr.strict && waker::exists_for(wait)
    }

    #[inline]
    pub(super) fn reach(&self, to: u64) -> Result<u32, Errno> {
        let (index, generation) = addr_parts(to);
        let port = self.ports().get(usize::from(index)).ok_or(Errno::EHOSTUNREACH)?;
        port.reach.domain(generation).ok_or(Errno::EHOSTUNREACH)
    }

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

impl Object for Net {
    const ONE_THREAD: bool = false;
}

/// Software network of endpoints that reach each other through memory.
///
/// A counted handle, shareable between threads. `'n` is the lifetime of its memory.
///
/// ```
/// use loom_core::{Av, Cq, Domain, Forever, Source, Yielding, soft::{Network, NetworkAttr}};
///
/// let network = Network::new(NetworkAttr::default())?;
/// let (peers, (sender, address)) = (network.clone(), std::sync::mpsc::channel());
/// let bob = std::thread::spawn(move || {
/// # let domain = Domain::open(&peers.info())?;
/// # let bob = Cq::open(&domain, 16)?.endpoint(&Av::open(&domain, 2)?)?;
///     let received = bob.recv(Source::Any, vec![0; 5])?;
///     sender.send(bob.address()?).expect("alice waits for the address");
///     Ok::<_, loom_core::Error>(bob.cq().finish(received, Yielding::new(Forever))?.into_buf())
/// });
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// # let alice = cq.endpoint(&av)?;
/// let to_bob = av.insert(&address.recv().expect("bob sends his address"))?;
/// cq.retry(Yielding::new(Forever), || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(bob.join().expect("it does not panic")?, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Network<'n> {
    pub(super) net: Handle<'n, Net>,
}

impl<'n> Network<'n> {
    /// Creates a network in memory of `alloc`.
    ///
    /// `Domain::open` requires a `'static` network: `&'static`, or an allocator shared by value.
    ///
    /// # Errors
    /// Those of [`NetworkAttr::layout`], and [`OpenError::OutOfMemory`].
    pub fn new_in<A: Allocator + Send + 'n>(attr: NetworkAttr, alloc: A) -> Result<Self, OpenError> {
        static IDENTITIES: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);

        let attr = attr.in_environment();
        let places = attr.places::<A>()?;
        let block = Unfilled::new(places.plan, alloc)?;
        let at = |offset: usize| {
            // SAFETY: callers pass offsets of the plan.
            unsafe { block.at(offset) }
        };
        let net = Net {
            attr,
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            eager_size: attr.eager_size as usize,
            opening: spin::Mutex::new(Ids::new(attr.seed)),
            peers_are_counted: AtomicBool::new(false),
            ports: at(places.ports).cast(),
            // SAFETY: the block has the regions.
            regions: unsafe { places.regions.fill(at(0), |_| Region::new()) }.cast(),
            // SAFETY: the block has the sendings.
            sendings: unsafe { places.sendings.fill(at(0), |_| Cell::new(None)) }.cast(),
            cells: at(places.cells),
            lane_cells: at(places.lane_cells),
            cell_count: u32::from(attr.endpoints) << places.tx_shift,
            lanes: at(places.lanes).cast(),
            // SAFETY: the block has the contacts.
            contacts: unsafe { places.contacts.fill(at(0), |_| Cell::new(None)) }.cast(),
            // SAFETY: the block has the groups.
            groups: unsafe { places.groups.fill(at(0), |_| Group::new()) }.cast(),
            // SAFETY: the block has the members.
            members: unsafe { places.members.fill(at(0), |_| Member::new()) }.cast(),
            cell_stride: places.cell_stride,
            tx_shift: places.tx_shift,
            cell_mask: (1 << places.tx_shift) - 1,
        };
        // SAFETY: the block has room, and lives as long as the network. The holder of a cell uses
        // the cell's place, and lists hold only numbers of cells.
        let waits = unsafe { places.waits.build(at(places.waits_at)) };
        for index in 0..attr.endpoints {
            let memory = at(places.matchings_at + usize::from(index) * places.matching.layout.size());
            // SAFETY: the block has room for each. One thread at a time uses it, like
            // `EndpointState::own`, and numbers of receives come from its lists.
            let matching = unsafe { places.matching.build(memory, waits, attr.seed) };
            // SAFETY: the block has room for the ports.
            let port = unsafe { net.ports.add(index.into()) };
            // SAFETY: the block has room for the faults.
            let faults = unsafe { at(places.faults).cast::<Faults>().add(index.into()) };
            // SAFETY: the block has room for the faults.
            unsafe { faults.write(Faults::none()) };
            // SAFETY: the block has room for the lanes, their slots and cells.
            let lanes = unsafe { places.build_lanes(&net, at(places.slots).cast(), index) };
            // SAFETY: the block has room for the ports.
            unsafe { port.write(EndpointState::new(index, u32::from(index) << net.tx_shift, matching, lanes, faults)) };
        }
        for number in 0..net.cell_count {
            // SAFETY: the block has room for the cells.
            let cell = unsafe { net.cells.add(number as usize * places.cell_stride) }.cast::<MessageCell>();
            // SAFETY: the block has room for the cells.
            unsafe { cell.write(MessageCell::new(number)) };
        }
        Ok(Network { net: block.fill(net) })
    }

    /// Number of faults injected since the network was created.
    #[must_use]
    pub fn injected(&self) -> Injected {
        Injected::sum(self.net.ports().iter().map(|port| port.own().faults()))
    }

    /// Attributes of the network.
    #[must_use]
    pub fn attr(&self) -> &NetworkAttr {
        &self.net.attr
    }

    /// Creates a network with the global allocator.
    ///
    /// # Errors
    /// See [`Network::new_in`].
    #[cfg(feature = "std")]
    pub fn new(attr: NetworkAttr) -> Result<Self, OpenError> {
        Self::new_in(attr, allocator_api2::alloc::Global)
    }
}

debug_struct!(Network['_], |it| attr: it.attr());
