//! [`Team`]: members of a group that act together.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::Waker;

use allocator_api2::alloc::Allocator;
use loom_core::storage::Array;
use loom_core::vocabulary::{Caps, MsgOrder};
use loom_core::{Tag, Transport};

use super::lane::{Lane, Room, Slot};
use super::provider::Provider;
use super::{CollectiveError, MOST_PACKETS, Packet};
use crate::links::{Links, To};
use crate::schedule::{Member, Op, Plan, Schedule, ScheduleError, Table};
use crate::{Group, PeerIndex};

/// What a team has. All members have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamAttr {
    /// The number of the team, which no other team has that shares a member with it. When the team has closed, another one can have the number, if
    /// all members have left the collectives of the first: after a barrier of a third team, say. Before that, messages of the one may be taken
    /// for messages of the other.
    pub number: u8,
    /// The most collectives that are under way at a time: 1 or more.
    pub at_once: usize,
    /// How many packets each of them has, half of them for what is received: from 2 to 32.
    pub packets: usize,
    /// How many bytes of scratch each of them has: what combines messages needs room for one or more of them
    /// ([`CollectiveError::Scratch`] says how much).
    pub scratch: usize,
    /// Which algorithms run.
    pub table: Table,
}

impl TeamAttr {
    /// One collective at a time, with 8 packets, 64 KiB of scratch and the default table.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        TeamAttr { number, at_once: 1, packets: 8, scratch: 64 << 10, table: Table::DEFAULT }
    }

    /// The same, for this number of collectives at a time.
    #[must_use]
    pub const fn with_at_once(self, at_once: usize) -> Self {
        TeamAttr { at_once, ..self }
    }

    /// The same, with this number of packets for each collective.
    #[must_use]
    pub const fn with_packets(self, packets: usize) -> Self {
        TeamAttr { packets, ..self }
    }

    /// The same, with this number of bytes of scratch for each collective.
    #[must_use]
    pub const fn with_scratch(self, scratch: usize) -> Self {
        TeamAttr { scratch, ..self }
    }

    /// The same, with this table.
    #[must_use]
    pub const fn with_table(self, table: Table) -> Self {
        TeamAttr { table, ..self }
    }
}

/// Members of a group that act together, for one of them: all members of the group, or some.
///
/// Every member calls the same collectives, in the same order.
///
/// The capacity of the packets, and what [`TeamAttr`] says, are the same on all members.
#[doc(alias = "MPI_Comm")]
pub struct Team<'g, 'm, T: Transport, B: Packet, A: Allocator> {
    pub(super) group: &'g Group<'m, T, B, A>,
    /// By the rank: the number, and the member that had it when the team was opened.
    peers: Array<(PeerIndex, Option<To>), A>,
    pub(super) member: Member,
    pub(super) attr: TeamAttr,
    /// The capacity of a packet, in bytes.
    pub(super) packet: usize,
    /// The number of the next collective.
    next: Cell<u8>,
    over: Cell<bool>,
    /// There are no tags: a receive takes the next message of a connection, which is the one that it awaits.
    pub(super) by_order: bool,
    lanes: Array<Lane<B, A>, A>,
    pub(super) provider: Option<Provider<'g, 'm, T, B>>,
}

#[cfg(feature = "std")]
impl<'g, 'm, T: Transport, B: Packet> Team<'g, 'm, T, B, allocator_api2::alloc::Global> {
    /// [`open_in`](Self::open_in), with memory of the global allocator.
    ///
    /// # Errors
    /// As [`open_in`](Self::open_in).
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

/// At a number that has these bits set all members meet in a barrier, and none begins a collective while one is under way whose
/// number is as far behind. So the numbers that are in use at a time differ by less than three times as much, and the 256 numbers do not meet.
const PERIOD: u8 = 63;

/// The most pieces of a message: more have no number in a tag.
const MOST_PIECES: u32 = 1 << 15;

impl<'g, 'm, T: Transport, B: Packet, A: Allocator> Team<'g, 'm, T, B, A> {
    /// The most members.
    pub const MOST: u32 = 1 << 16;

    /// A team of these members of a group, in the order of their ranks, for the member that has the rank `rank`: that is this side. The number at
    /// this rank is not looked at: this side need not be a member of its own group.
    ///
    /// It takes as many packets as [`TeamAttr`] says. All memory comes from `alloc`, now.
    ///
    /// # Errors
    /// - [`CollectiveError::Schedule`]: there is no such rank, or there are more than [`MOST`](Self::MOST) members.
    /// - [`CollectiveError::TagBits`]: the provider ignores bits of tags (`mem_tag_format`) that the number of the team needs. Over `net`, which
    ///   ignores the highest, the number is below 128.
    /// - [`CollectiveError::Order`]: over connections without tagged messages, the provider does not promise their order.
    /// - [`CollectiveError::AtOnce`]: over connections without tagged messages, more than one collective at a time.
    /// - [`CollectiveError::NumberTaken`]: an open team of this group has the number; or is there, over connections without tagged messages.
    /// - [`CollectiveError::Packets`]: there are too few, or their capacities differ.
    /// - [`CollectiveError::Depth`]: the queue of the group has not a place for each packet. If several teams have collectives under way at once, it
    ///   needs a place for each packet of all of them, and one for each operation of the program's own.
    /// - [`CollectiveError::Open`]: there was no memory.
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
            // Zeros in front are bits that the provider ignores. Without tagged messages there may be collectives of the provider's own.
            let ignored = granted.endpoint.mem_tag_format.leading_zeros();
            if attr.number.leading_zeros() < ignored {
                return Err(CollectiveError::TagBits);
            }
        }
        let size = u32::try_from(members.len()).unwrap_or(u32::MAX);
        if size > Self::MOST {
            return Err(ScheduleError::Members.into());
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

    /// The group.
    #[must_use]
    pub const fn group(&self) -> &'g Group<'m, T, B, A> {
        self.group
    }

    /// This member's rank.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.member.rank()
    }

    /// How many members there are.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.member.members()
    }

    /// The member of that rank, by its number in the group.
    #[must_use]
    pub fn peer(&self, rank: u32) -> Option<PeerIndex> {
        self.peers.get(usize::try_from(rank).ok()?).map(|(peer, _)| *peer)
    }

    /// The member of that rank, if it is still the one that the team was opened with.
    pub(super) fn to(&self, rank: u32) -> Option<To> {
        let (peer, to) = *self.peers.get(usize::try_from(rank).ok()?)?;
        to.filter(|to| self.group.links.to(peer) == Some(*to))
    }

    /// Whether no collective can run any more, because one has failed or was given up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// No collective can run any more. Tasks that await one learn of it.
    pub(super) fn end(&self) {
        /// Wakes the tasks of these lanes: of the rest also when a waker, which is user code, unwinds.
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

    /// How many collectives are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.number.get().is_some()).count()
    }

    /// The room of each collective.
    pub(super) fn lanes(&self) -> &[Lane<B, A>] {
        &self.lanes
    }

    /// A lane for the next collective, its number, and whether a barrier comes before it.
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

    /// The number is used: one of a barrier, or of a collective.
    pub(super) fn used(&self, number: u8) {
        self.next.set(number.wrapping_add(1));
    }

    /// Looks whether elements of this size fit into packets, and whether tags have a number for each piece of the messages.
    ///
    /// # Errors
    /// [`CollectiveError::Packets`], [`CollectiveError::TooLong`] if not.
    pub(super) fn can_run(&self, plan: &Plan<'_>, element: usize) -> Result<(), CollectiveError> {
        if element == 0 || self.packet < element {
            return Err(CollectiveError::Packets);
        }
        let needs = plan.needs();
        let most = (self.packet / element).saturating_mul(MOST_PIECES as usize);
        let is_long =
            |op: Op| matches!(op, Op::Recv { into: part, .. } | Op::Send { from: part, .. } if part.len > most);
        // A message is a part of a buffer: if the buffers are short, it is not looked for.
        let may_be_long = [needs.input, needs.output, needs.scratch].into_iter().any(|len| len > most);
        if may_be_long && (0..plan.rounds()).any(|round| plan.ops(round).any(is_long)) {
            return Err(CollectiveError::TooLong);
        }
        Ok(())
    }

    /// The tag of a piece of a message of `sender`.
    pub(super) fn tag(&self, number: u8, sender: u32, round: u32, piece: u32) -> Result<Tag, CollectiveError> {
        if sender >= Self::MOST || round >= 1 << 17 || piece >= MOST_PIECES {
            return Err(CollectiveError::TooLong);
        }
        let first = u64::from(self.attr.number) << 56 | u64::from(number) << 48;
        Ok(Tag(first | u64::from(sender) << 32 | u64::from(round) << 15 | u64::from(piece)))
    }
}

/// The capacity that all packets have.
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
        // Late messages of a team that is over may still come, and receives of a collective that was forgotten are still posted.
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
