//! Collectives over tagged messages: [`Collectives`] runs any [schedule](crate::schedule) for one member of a group.
//!
//! Messages go through packets, buffers of the group of a fixed length, in pieces: elements are copied into packets and out of them. Half of
//! the packets are for receives and half for sends. A round's messages are in flight together as far as there are packets.
//!
//! # Tags
//!
//! Tags are used whole, so receives need no order of messages and no directed receive. From the highest bit on: 8 bits for the group, 8 for the number of
//! the collective, 16 for the rank of the sender, 17 for the round, 15 for the piece. So a group has at most 2^16 members, and a message at most 2^15
//! pieces. After half as many collectives as the number can count there is a barrier, so members that run ahead cannot use a number twice.
//! The program must not receive with tags of the group on the same endpoint, nor with masks that accept them.
//!
//! What a member has sent goes out as its queue is driven: a member that has left a collective drives its queue, or runs the next one, until the
//! others have left it, too, before it closes its endpoint.
//!
//! # Errors
//!
//! After an error the members do not know of each other how far they are, so the group is [over](CollectiveError::Over). Operations that are still in
//! flight are cancelled, and their packets come out of the completion queue. Late messages of the group may still come, so a group that takes its place
//! must have another number.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, Domain, Forever};
//! use loom_group::collective::{Buffers, Collectives};
//! use loom_group::schedule::{Commutes, Member, Schedule, Table};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let endpoint = cq.endpoint(&av)?;
//! // A group of one member: itself.
//! let peers = [av.insert(&endpoint.address()?)?];
//! let mut packets = [(); 4].map(|()| Some(Vec::with_capacity(4096)));
//! let mut group = Collectives::new(&endpoint, &peers, 0, 1, &mut packets)?;
//!
//! let plan = Table::DEFAULT.all_reduce(group.member(), 3, 8, Commutes::Yes)?;
//! let (mut output, mut scratch) = ([0; 3], vec![0; plan.needs().scratch]);
//! let buffers = Buffers { input: &[1_u64, 2, 3], output: &mut output, scratch: &mut scratch };
//! group.run(&plan, buffers, |a, b| a + b, Forever)?;
//! assert_eq!(output, [1, 2, 3]);
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```

mod buffers;
mod element;
mod error;
mod pieces;

use loom_core::{Deadline, Endpoint, OpKey, Peer, Source, Spins, Tag, Transport};

pub use self::buffers::Buffers;
pub use self::element::{Element, Packet};
pub use self::error::CollectiveError;
use self::pieces::{Direction, Piece, Pieces};
use crate::schedule::{Barrier, Member, Op, Part, Schedule};

/// The collectives of a group, for one member: one at a time, in the same order on all members.
#[derive(Debug)]
pub struct Collectives<'c, 'm, T: Transport, B: Packet> {
    endpoint: &'c Endpoint<'m, T, B>,
    peers: &'c [Peer],
    member: Member,
    packets: &'c mut [Option<B>],
    packet: usize,
    group: u8,
    number: u8,
    over: bool,
}

/// An operation of the endpoint that is not over, and what it moves.
#[derive(Clone, Copy)]
struct Flight {
    key: OpKey,
    direction: Direction,
    part: Part,
}

/// The most packets that a group uses.
const MOST_PACKETS: usize = 32;

impl<'c, 'm, T: Transport, B: Packet> Collectives<'c, 'm, T, B> {
    /// A barrier comes before each collective of which the last 7 bits of the number are set.
    const HALF: u8 = 1 << 7;

    /// The collectives of the group `group`, of which this member has the rank `rank`. `peers` has all members in the order of their ranks, this one too.
    ///
    /// All packets must have the same capacity on all members: there must be at least 2, and at most 32 are used.
    ///
    /// # Errors
    /// - [`CollectiveError::Schedule`]: there is no such member, or there are more than 2^16.
    /// - [`CollectiveError::TagBits`]: the provider ignores bits of tags (`mem_tag_format`) that the number of the group needs. Over `net`, which
    ///   ignores the highest, the number is below 128.
    /// - [`CollectiveError::Packets`]: there are fewer than two packets, or one is missing, or their capacities differ.
    pub fn new(
        endpoint: &'c Endpoint<'m, T, B>,
        peers: &'c [Peer],
        rank: u32,
        group: u8,
        packets: &'c mut [Option<B>],
    ) -> Result<Self, CollectiveError> {
        // Zeros in front are bits that the provider ignores.
        let ignored = endpoint.cq().info().attributes().endpoint.mem_tag_format.leading_zeros();
        if group.leading_zeros() < ignored {
            return Err(CollectiveError::TagBits);
        }
        let members = u32::try_from(peers.len()).unwrap_or(u32::MAX);
        if members > 1 << 16 {
            return Err(crate::schedule::ScheduleError::Members.into());
        }
        let member = Member::new(rank, members)?;
        let used = packets.len().min(MOST_PACKETS);
        let packets = packets.get_mut(..used).unwrap_or_default();
        let packet = packets.first().and_then(Option::as_ref).map_or(0, Packet::most);
        if used < 2 || packets.iter().any(|it| it.as_ref().is_none_or(|it| it.most() != packet)) {
            return Err(CollectiveError::Packets);
        }
        Ok(Collectives { endpoint, peers, member, packets, packet, group, number: 0, over: false })
    }

    /// This member.
    pub const fn member(&self) -> Member {
        self.member
    }

    /// Waits until all members are here.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn barrier(&mut self, mut until: impl Deadline) -> Result<(), CollectiveError> {
        let buffers = Buffers::<u8> { input: &[], output: &mut [], scratch: &mut [] };
        self.run(&Barrier::new(self.member), buffers, |left, _| left, &mut until)
    }

    /// Runs a schedule of this member, with `op` as the operation of combinations. All members must run the same one.
    ///
    /// # Errors
    /// [`CollectiveError`] lists them. After [`Lengths`](CollectiveError::Lengths) nothing was posted; after all others the group is over.
    pub fn run<S: Schedule, E: Element>(
        &mut self,
        schedule: &S,
        mut buffers: Buffers<'_, E>,
        op: impl Fn(E, E) -> E,
        mut until: impl Deadline,
    ) -> Result<(), CollectiveError> {
        if self.over {
            return Err(CollectiveError::Over);
        }
        if !buffers.suffice(schedule.needs()) || self.packet < E::SIZE || E::SIZE == 0 {
            return Err(CollectiveError::Lengths);
        }
        self.over = true;
        if self.number & (Self::HALF - 1) == Self::HALF - 1 {
            let nothing = &mut Buffers::<u8> { input: &[], output: &mut [], scratch: &mut [] };
            self.rounds(&Barrier::new(self.member), nothing, |left, _| left, &mut until)?;
        }
        self.rounds(schedule, &mut buffers, op, &mut until)?;
        self.over = false;
        Ok(())
    }

    fn rounds<S: Schedule, E: Element>(
        &mut self,
        schedule: &S,
        buffers: &mut Buffers<'_, E>,
        op: impl Fn(E, E) -> E,
        until: &mut impl Deadline,
    ) -> Result<(), CollectiveError> {
        for round in 0..schedule.rounds() {
            let mut flights = [None; MOST_PACKETS];
            let moved = self.messages(schedule, round, buffers, &mut flights, until);
            if moved.is_err() {
                for flight in flights.into_iter().flatten() {
                    // One that is over already has nothing to cancel.
                    let _ = self.endpoint.cancel(flight.key);
                }
            }
            moved?;
            for local in schedule.ops(round) {
                match local {
                    Op::Copy { from, into } => buffers.copy(from, into),
                    Op::Combine { from, into, side } => buffers.combine(from, into, side, &op),
                    Op::Recv { .. } | Op::Send { .. } => Some(()),
                }
                .ok_or(CollectiveError::Lengths)?;
            }
        }
        self.number = self.number.wrapping_add(1);
        Ok(())
    }

    /// Sends and receives the messages of a round.
    fn messages<S: Schedule, E: Element>(
        &mut self,
        schedule: &S,
        round: u32,
        buffers: &mut Buffers<'_, E>,
        flights: &mut [Option<Flight>; MOST_PACKETS],
        until: &mut impl Deadline,
    ) -> Result<(), CollectiveError> {
        let most = self.packet / E::SIZE;
        let mut queues = [Direction::Recv, Direction::Send]
            .map(|direction| (direction, Pieces::new(schedule, round, direction, most)));
        // Sends must not wait for packets that receives hold, so each direction has packets of its own.
        let half = self.packets.len() / 2;
        loop {
            let mut went_on = false;
            for (direction, pieces) in &mut queues {
                let share = if *direction == Direction::Recv { 0..half } else { half..self.packets.len() };
                for place in share {
                    let (Some(piece), Some(None)) = (pieces.peek(), flights.get(place)) else { continue };
                    let Some(key) = self.post(place, *direction, round, piece, buffers)? else { break };
                    if let Some(flight) = flights.get_mut(place) {
                        *flight = Some(Flight { key, direction: *direction, part: piece.part });
                    }
                    pieces.pass();
                    went_on = true;
                }
            }
            let mut in_flight = false;
            for (place, slot) in flights.iter_mut().enumerate() {
                let Some(flight) = *slot else { continue };
                // One look at each: a send may be over before an earlier receive, and its packet has the next piece.
                let Some(done) = self.endpoint.cq().wait(flight.key, Spins(0))? else {
                    in_flight = true;
                    continue;
                };
                *slot = None;
                went_on = true;
                let (packet, result) = done.into_parts();
                let len = result.map(|transfer| transfer.len());
                let packet = self.packets.get_mut(place).map(|it| it.insert(packet));
                let (Some(packet), true) = (packet, flight.direction == Direction::Recv || len.is_err()) else {
                    continue;
                };
                let expected = flight.part.len.saturating_mul(E::SIZE);
                if len? != expected {
                    return Err(CollectiveError::Mismatch);
                }
                let into = buffers.part_mut(flight.part).ok_or(CollectiveError::Lengths)?;
                for (to, bytes) in into.iter_mut().zip(packet.sized(expected).chunks_exact(E::SIZE)) {
                    *to = E::get(bytes).unwrap_or(*to);
                }
            }
            if !in_flight && !went_on && queues.iter().all(|(_, pieces)| pieces.peek().is_none()) {
                return Ok(());
            }
            if !went_on {
                if !in_flight {
                    // A post that is refused for the moment needs progress that no wait makes.
                    self.endpoint.cq().progress()?;
                }
                if until.passed() {
                    return Err(CollectiveError::TimedOut);
                }
            }
        }
    }

    /// Posts a piece. `None`: it is refused for the moment.
    fn post<E: Element>(
        &mut self,
        place: usize,
        direction: Direction,
        round: u32,
        piece: Piece,
        buffers: &Buffers<'_, E>,
    ) -> Result<Option<OpKey>, CollectiveError> {
        let peer = usize::try_from(piece.peer).ok().and_then(|rank| self.peers.get(rank));
        let peer = *peer.ok_or(CollectiveError::Lengths)?;
        let sender = if direction == Direction::Recv { piece.peer } else { self.member.rank() };
        let tag = self.tag(sender, round, piece.number)?;
        let part = buffers.part(piece.part).ok_or(CollectiveError::Lengths)?;
        let slot = self.packets.get_mut(place).ok_or(CollectiveError::Packets)?;
        let mut packet = slot.take().ok_or(CollectiveError::Packets)?;
        let bytes = packet.sized(piece.part.len.saturating_mul(E::SIZE));
        let posted = match direction {
            // The tag has the sender.
            Direction::Recv => self.endpoint.tagged_recv(Source::Any, tag, packet),
            Direction::Send => {
                for (bytes, from) in bytes.chunks_exact_mut(E::SIZE).zip(part) {
                    from.put(bytes);
                }
                self.endpoint.tagged_send(peer, tag, packet)
            }
        };
        match posted {
            Ok(key) => Ok(Some(key)),
            Err(refused) => {
                *slot = Some(refused.buf);
                if refused.error.is_transient() { Ok(None) } else { Err(refused.error.into()) }
            }
        }
    }

    fn tag(&self, sender: u32, round: u32, piece: u32) -> Result<Tag, CollectiveError> {
        if sender >= 1 << 16 || round >= 1 << 17 || piece >= 1 << 15 {
            return Err(CollectiveError::TooLong);
        }
        let first = u64::from(self.group) << 56 | u64::from(self.number) << 48;
        Ok(Tag(first | u64::from(sender) << 32 | u64::from(round) << 15 | u64::from(piece)))
    }
}
