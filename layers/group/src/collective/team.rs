use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::Waker;

use allocator_api2::alloc::Allocator;
use loom_core::storage::Array;
use loom_core::vocabulary::{Caps, MsgOrder};
use loom_core::{Tag, Transport};

use super::lane::{Lane, Room, Slot};
use super::provider::Provider;
use super::{MOST_PACKETS, Packet};
use crate::CollectiveError;
use crate::routes::{Links, To};
use crate::schedule::{Member, Op, Plan, Schedule, Table};
use crate::{Group, PeerIndex};

/// Attributes of a team, equal on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamAttr {
    /// Number, unique among teams that share a member. Reuse requires that the team has closed and
    /// all members have left its collectives, for example after a barrier of a third team.
    pub number: u8,
    /// Maximum number of collectives in flight, at least 1.
    pub at_once: usize,
    /// Packets of each collective, 2 to 32, half of them for receives.
    pub packets: usize,
    /// Scratch bytes of each collective that combines ([`CollectiveError::Scratch`] has the
    /// number).
    pub scratch: usize,
    /// Choice of algorithms.
    pub table: Table,
}

impl TeamAttr {
    /// One collective at a time, 8 packets, 64 KiB of scratch and the default table.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        TeamAttr { number, at_once: 1, packets: 8, scratch: 64 << 10, table: Table::DEFAULT }
    }

    /// Sets `at_once`.
    #[must_use]
    pub const fn with_at_once(self, at_once: usize) -> Self {
        TeamAttr { at_once, ..self }
    }

    /// Sets `packets`.
    #[must_use]
    pub const fn with_packets(self, packets: usize) -> Self {
        TeamAttr { packets, ..self }
    }

    /// Sets `scratch`.
    #[must_use]
    pub const fn with_scratch(self, scratch: usize) -> Self {
        TeamAttr { scratch, ..self }
    }

    /// Sets `table`.
    #[must_use]
    pub const fn with_table(self, table: Table) -> Self {
        TeamAttr { table, ..self }
    }
}

/// Members of a group that act together, with equal packet capacity and [`TeamAttr`]. They call the
/// same collectives in the same order.
#[doc(alias = "MPI_Comm")]
pub struct Team<'g, 'm, T: Transport, B: Packet, A: Allocator> {
    pub(super) group: &'g Group<'m, T, B, A>,
    peers: Array<(PeerIndex, Option<To>), A>,
    pub(super) member: Member,
    pub(super) attr: TeamAttr,
    pub(super) packet: usize,
    next: Cell<u8>,
    over: Cell<bool>,
    /// No tags: a receive takes the next message of a connection.
    pub(super) by_order: bool,
    lanes: Array<Lane<B, A>, A>,
    pub(super) provider: Option<Provider<'g, 'm, T, B>>,
}

#[cfg(feature = "std")]
impl<'g, 'm, T: Transport, B: Packet> Team<'g, 'm, T, B, allocator_api2::alloc::Global> {
    /// [`open_in`](Self::open_in) with the global allocator.
    pub fn open(
        group: &'g Group<'m, T, B, allocator_api2::alloc::Global>,
        attr: TeamAttr,
        members: impl ExactSizeIterator<Item = PeerIndex>,
        rank: u32,
        packets: impl IntoIterator<Item = B>,
    ) -> Result<Self, CollectiveError> {
        Self::open_in(group, attr, members, rank, packets, allocator_api2::alloc::Global)
    }
}

/// Limit of the distance of numbers in flight. Those in use differ by less than three periods, so
/// the 256 numbers do not collide.
const PERIOD: u8 = 63;

/// Limited by the tag.
const MOST_PIECES: u32 = 1 << 15;

impl<'g, 'm, T: Transport, B: Packet, A: Allocator> Team<'g, 'm, T, B, A> {
    /// Maximum number of members.
    pub const MOST: u32 = 1 << 16;

    /// Opens a team of `members` in rank order, of which `rank` is this side. All memory comes from
    /// `alloc`, now.
    ///
    /// # Errors
    /// - [`CollectiveError::Rank`]: `rank` is not below the number of members.
    /// - [`CollectiveError::Members`]: zero members, or more than [`MOST`](Self::MOST).
    /// - [`CollectiveError::TagBits`]: over `net`, which ignores the highest bit, numbers are below
    ///   128.
    /// - [`CollectiveError::Order`], [`CollectiveError::AtOnce`], [`CollectiveError::NumberTaken`],
    ///   [`CollectiveError::Open`].
    /// - [`CollectiveError::Packets`]: too few packets, different capacities, or attributes out of
    ///   range.
    /// - [`CollectiveError::Depth`]: the group's queue needs a slot for each packet of all teams
    ///   with collectives in flight (only this team's are checked), and for each operation of the
    ///   program.
    pub fn open_in(
        group: &'g Group<'m, T, B, A>,
        attr: TeamAttr,
        members: impl ExactSizeIterator<Item = PeerIndex>,
        rank: u32,
        packets: impl IntoIterator<Item = B>,
        alloc: A,
    ) -> Result<Self, CollectiveError>
    where
        A: Clone,
    {
        let granted = group.cq().info().attributes();
        let by_order = !granted.caps.contains(Caps::TAGGED) && matches!(group.links, Links::Each(_));
        if by_order {
            if !granted.tx.msg_order.intersection(granted.rx.msg_order).contains(MsgOrder::SAS) {
                return Err(CollectiveError::Order);
            }
            if attr.at_once > 1 {
                return Err(CollectiveError::AtOnce);
            }
        } else {
            // The provider ignores leading zeros. Without tagged messages, its collectives may
            // still run.
            let ignored = granted.endpoint.mem_tag_format.leading_zeros();
            if attr.number.leading_zeros() < ignored {
                return Err(CollectiveError::TagBits);
            }
        }
        let size = u32::try_from(members.len()).unwrap_or(u32::MAX);
        if size > Self::MOST {
            return Err(CollectiveError::Members);
        }
        let member = Member::new(rank, size)?;
        if attr.at_once == 0 || !(2..=MOST_PACKETS).contains(&attr.packets) {
            return Err(CollectiveError::Packets);
        }
        let needs = attr.at_once.saturating_mul(attr.packets);
        if needs > group.cq().capacity() {
            return Err(CollectiveError::Depth { needs });
        }
        let mut members = members;
        let peers = Array::new_in(members.len(), alloc.clone(), |_| {
            let peer = members.next().unwrap_or(PeerIndex(u32::MAX));
            (peer, group.links.to(peer))
        })?;
        let mut packets = packets.into_iter();
        let words = attr.scratch.div_ceil(size_of::<u128>());
        let lanes = Array::try_new_in(attr.at_once, alloc.clone(), |_| {
            let slots = Array::new_in(attr.packets, alloc.clone(), |_| Slot { packet: packets.next(), flight: None })?;
            let scratch = Array::new_in(words, alloc.clone(), |_| 0)?;
            let room = RefCell::new(Room { slots, scratch });
            Ok(Lane { number: Cell::new(None), room, task: Cell::new(None), call: RefCell::new(None) })
        })?;
        let packet = common_capacity(&lanes).ok_or(CollectiveError::Packets)?;
        let is_free = if by_order { group.take_all_team_numbers() } else { group.take_team_number(attr.number) };
        if !is_free {
            return Err(CollectiveError::NumberTaken);
        }
        Ok(Team {
            group,
            peers,
            member,
            attr,
            packet,
            next: Cell::new(0),
            over: Cell::new(false),
            by_order,
            lanes,
            provider: None,
        })
    }

    /// Group of the team.
    #[must_use]
    pub const fn group(&self) -> &'g Group<'m, T, B, A> {
        self.group
    }

    /// Rank of this member.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.member.rank()
    }

    /// Number of members.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.member.members()
    }

    /// Group number of a member.
    #[must_use]
    pub fn peer(&self, rank: u32) -> Option<PeerIndex> {
        self.peers.get(usize::try_from(rank).ok()?).map(|(peer, _)| *peer)
    }

    /// Returns `true` if a collective has failed or was given up, which ends the team.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Number of collectives in flight.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.number.get().is_some()).count()
    }

    /// `None` if a newcomer has replaced the member.
    pub(super) fn to(&self, rank: u32) -> Option<To> {
        let (peer, to) = *self.peers.get(usize::try_from(rank).ok()?)?;
        to.filter(|to| self.group.links.to(peer) == Some(*to))
    }

    pub(super) fn end(&self) {
        /// Wakes the remaining lanes' tasks, also when a waker unwinds.
        struct Rest<'l, B, A: Allocator>(core::slice::Iter<'l, Lane<B, A>>);

        impl<B, A: Allocator> Rest<'_, B, A> {
            fn wake_all(&mut self) {
                self.0.by_ref().filter_map(|lane| lane.task.take()).for_each(Waker::wake);
            }
        }

        impl<B, A: Allocator> Drop for Rest<'_, B, A> {
            fn drop(&mut self) {
                self.wake_all();
            }
        }

        self.over.set(true);
        Rest(self.lanes.iter()).wake_all();
    }

    pub(super) fn lanes(&self) -> &[Lane<B, A>] {
        &self.lanes
    }

    /// Lane, number, and `true` if a barrier precedes the collective.
    pub(super) fn begin(&self) -> Result<(&Lane<B, A>, u8, bool), CollectiveError> {
        if self.over.get() {
            return Err(CollectiveError::Over);
        }
        let number = self.next.get();
        let is_far = |lane: &Lane<B, A>| lane.number.get().is_some_and(|begun| number.wrapping_sub(begun) >= PERIOD);
        let free = self.lanes.iter().find(|lane| lane.number.get().is_none());
        let lane = free.filter(|_| !self.lanes.iter().any(is_far)).ok_or(CollectiveError::Busy)?;
        Ok((lane, number, number & PERIOD == PERIOD))
    }

    pub(super) fn used(&self, number: u8) {
        self.next.set(number.wrapping_add(1));
    }

    pub(super) fn can_run(&self, plan: &Plan<'_>, element: usize) -> Result<(), CollectiveError> {
        if element == 0 || self.packet < element {
            return Err(CollectiveError::Packets);
        }
        let needs = plan.needs();
        let most = (self.packet / element).saturating_mul(MOST_PIECES as usize);
        let is_long =
            |op: Op| matches!(op, Op::Recv { into: part, .. } | Op::Send { from: part, .. } if part.len > most);
        let may_be_long = [needs.input, needs.output, needs.scratch].into_iter().any(|len| len > most);
        if may_be_long && (0..plan.rounds()).any(|round| plan.ops(round).any(is_long)) {
            return Err(CollectiveError::TooLong);
        }
        Ok(())
    }

    pub(super) fn tag(&self, number: u8, sender: u32, round: u32, piece: u32) -> Result<Tag, CollectiveError> {
        if sender >= Self::MOST || round >= 1 << 17 || piece >= MOST_PIECES {
            return Err(CollectiveError::TooLong);
        }
        let first = u64::from(self.attr.number) << 56 | u64::from(number) << 48;
        Ok(Tag(first | u64::from(sender) << 32 | u64::from(round) << 15 | u64::from(piece)))
    }
}

fn common_capacity<B: Packet, A: Allocator>(lanes: &[Lane<B, A>]) -> Option<usize> {
    let mut common = None;
    for lane in lanes {
        for slot in lane.room.borrow().slots.iter() {
            let capacity = slot.packet.as_ref()?.most();
            if *common.get_or_insert(capacity) != capacity {
                return None;
            }
        }
    }
    common
}

impl<T: Transport, B: Packet, A: Allocator> Drop for Team<'_, '_, T, B, A> {
    fn drop(&mut self) {
        // Otherwise late messages may arrive, or a forgotten collective has receives posted.
        if !self.over.get() && self.under_way() == 0 {
            if self.by_order {
                self.group.give_all_team_numbers();
            } else {
                self.group.give_team_number(self.attr.number);
            }
        }
    }
}

impl<T: Transport, B: Packet, A: Allocator> fmt::Debug for Team<'_, '_, T, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("number", &self.attr.number)
            .field("member", &self.member)
            .field("under_way", &self.under_way())
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
