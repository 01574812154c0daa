use core::cell::RefMut;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use allocator_api2::alloc::Allocator;
use loom_core::collective::Collective;
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Finish};
use loom_core::error::PostError;
use loom_core::{Deadline, Done, OpKey, Transport};

use super::buffers::Buffers;
use super::cursor::{Cursor, Direction, Piece};
use super::lane::{Flight, Lane, Room, Slot, State};
use super::{Combine, Element, MOST_PACKETS, Packet, Team, element, provider_calls};
use crate::CollectiveError;
use crate::operation::{self, What};
use crate::schedule::{Barrier, Needs, Op, Plan, Schedule};
use crate::scope::NOWHERE;

const LOOKS: u32 = 10_000;

const BUSY: u32 = 256;

/// Collective in flight. Its first messages are posted, unless a driver polls the group's queue.
///
/// An early drop cancels its operations and [ends](CollectiveError::Over) the team.
#[must_use = "a collective is given up when it is dropped"]
pub struct Running<'t, 'b, 'm, T: Transport, B: Packet, A: Allocator, E, C> {
    team: &'t Team<'t, 'm, T, B, A>,
    lane: &'t Lane<B, A>,
    input: &'b [E],
    output: &'b mut [E],
    combine: C,
    plan: Plan<'b>,
    /// After the barrier.
    then: Option<Plan<'b>>,
    number: u8,
    round: u32,
    /// `None` after completion, when the lane may belong to another collective.
    cursors: Option<[Cursor; 2]>,
    /// Takes over operations that are given up, after the first await.
    driver: Option<CqDriver<'m, T, B>>,
    provided: bool,
}

/// Dropping them does not give up the operations.
struct Futures<'m, T: Transport, B: Packet>([Option<Finish<'m, T, B>>; MOST_PACKETS]);

impl<T: Transport, B: Packet> Drop for Futures<'_, T, B> {
    fn drop(&mut self) {
        for future in self.0.iter_mut().filter_map(Option::take) {
            let _ = future.into_key();
        }
    }
}

/// Ends the team unless forgotten, also when user code panics.
struct EndsTeam<'t, 'm, T: Transport, B: Packet, A: Allocator>(&'t Team<'t, 'm, T, B, A>);

impl<T: Transport, B: Packet, A: Allocator> Drop for EndsTeam<'_, '_, T, B, A> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<'t, 'b, 'm, T: Transport, B: Packet, A: Allocator, E: Element, C: Combine<E>> Running<'t, 'b, 'm, T, B, A, E, C> {
    pub(super) fn begin(
        team: &'t Team<'_, 'm, T, B, A>,
        plan: Plan<'b>,
        provided: Option<(Collective, u32)>,
        input: &'b [E],
        output: &'b mut [E],
        combine: C,
    ) -> Result<Self, CollectiveError> {
        let (lane, number, barrier) = team.begin()?;
        let (plan, then, cursors) = match provided {
            Some(collective) => {
                let mut room = room(lane)?;
                let slot = room.slots.first_mut().ok_or(CollectiveError::Packets)?;
                team.call(lane, slot, collective, (input, &*output))?;
                (plan, None, [Direction::Recv, Direction::Send].map(Cursor::none))
            }
            None => {
                team.can_run(&plan, size_of::<E>())?;
                scratch::<E>(&mut room(lane)?.scratch, plan.needs())?;
                team.used(number.wrapping_add(u8::from(barrier)));
                let first = if barrier { Plan::Barrier(Barrier::new(team.member)) } else { plan };
                (first, barrier.then_some(plan), cursors(&first, 0))
            }
        };
        lane.number.set(Some(number));
        let mut running = Running {
            team,
            lane,
            input,
            output,
            combine,
            plan,
            then,
            number,
            round: 0,
            cursors: Some(cursors),
            driver: None,
            provided: provided.is_some(),
        };
        running.post_first()?;
        Ok(running)
    }

    /// Not under a driver: without an await, no operation needs it.
    fn post_first(&mut self) -> Result<(), CollectiveError> {
        if self.team.group.is_not_driven().is_ok() {
            self.step(|_, _| Ok(None))?;
        }
        Ok(())
    }

    /// Drives the group's queue and advances the collective. Returns `true` on completion.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # use loom_core::Domain;
    /// # use loom_group::{PeerIndex, Prepared};
    /// use loom_group::collective::{Sum, Team, TeamAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let prepared = Prepared::open(&domain, 1, 32)?;
    /// # let itself = prepared.address()?;
    /// # let group = prepared.connect([&itself])?;
    /// // Two collectives may be under way at a time. Of one member they are over soon.
    /// let attr = TeamAttr::new(1).with_at_once(2);
    /// let packets = std::iter::repeat_with(|| Vec::with_capacity(4096));
    /// let team = Team::open(&group, attr, (0..1).map(PeerIndex), 0, packets)?;
    /// let (mut sums, mut all) = ([0; 3], [0; 3]);
    /// let mut reduces = team.all_reduce(Sum, &[1_u64, 2, 3], &mut sums)?;
    /// let mut gathers = team.all_gather(&[7_u32, 8, 9], &mut all)?;
    /// while !(reduces.turn()? & gathers.turn()?) {
    ///     // The program computes something else meanwhile.
    /// }
    /// drop((reduces, gathers));
    /// assert_eq!((sums, all), ([1, 2, 3], [7, 8, 9]));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`CollectiveError::Queue`]: [`CqError::Driven`] if a driver polls the queue, or an error
    ///   of [`Cq::progress`](loom_core::Cq::progress). The collective can be turned again, except
    ///   after [`CqError::UnknownKey`]: the program took a completion of it.
    /// - All others: the team [has ended](Team::is_over).
    pub fn turn(&mut self) -> Result<bool, CollectiveError> {
        Ok(self.look()?.1 == State::Over)
    }

    fn look(&mut self) -> Result<(bool, State), CollectiveError> {
        if self.cursors.is_none() {
            return Ok((false, State::Over));
        }
        let cq = self.team.group.cq();
        self.team.group.is_not_driven()?;
        let busy = cq.progress()?;
        let (moved, state) = self.step(|_, key| cq.take(key))?;
        Ok((busy || moved, state))
    }

    /// Waits for completion.
    ///
    /// # Errors
    /// See [`turn`](Self::turn). [`CollectiveError::TimedOut`] if the deadline has passed: the
    /// collective stays in flight.
    pub fn wait(&mut self, mut until: impl Deadline) -> Result<(), CollectiveError> {
        let mut turns = 0_u32;
        loop {
            turns = turns.wrapping_add(1);
            match self.look()? {
                (_, State::Over) => return Ok(()),
                (true, _) if !turns.is_multiple_of(BUSY) => {}
                _ if until.passed() => return Err(CollectiveError::TimedOut { member: self.waits_for() }),
                _ => {}
            }
        }
    }

    /// Waits for completion under a driver. The collective starts at the first poll.
    ///
    /// For a deadline, drop the future and the collective when a timer fires: a dropped collective
    /// cancels its operations ([`Unclaimed`](loom_core::driver::Unclaimed)). After a dropped future
    /// alone, it can be awaited again.
    ///
    /// # Errors
    /// See [`turn`](Self::turn) and [`CqDriver::finish`]. The collective can be awaited again after
    /// - [`CqError::UnknownKey`], if the driver belongs to another queue,
    /// - [`CqError::PeerEvents`] and a transient [`CollectiveError::Post`]: take peer events first.
    pub async fn finish(&mut self, driver: &CqDriver<'m, T, B>) -> Result<(), CollectiveError> {
        if driver.cq() != self.team.group.cq() {
            return Err(CqError::UnknownKey.into());
        }
        if self.cursors.is_none() {
            return Ok(());
        }
        self.driver = Some(driver.clone());
        let mut futures = Futures([const { None }; MOST_PACKETS]);
        let mut room = pin!(None);
        poll_fn(|cx| {
            loop {
                let (_, state) = self.step(|place, key| {
                    let Some(future) = futures.0.get_mut(place) else { return Err(CqError::UnknownKey) };
                    let polled = Pin::new(future.get_or_insert_with(|| driver.finish(key))).poll(cx);
                    if polled.is_ready() {
                        *future = None;
                    }
                    match polled {
                        Poll::Pending => Ok(None),
                        Poll::Ready(done) => done.map(Some),
                    }
                })?;
                match state {
                    State::Over => return Poll::Ready(Ok(())),
                    State::Waits => {
                        room.set(None);
                        self.lane.is_awaited_by(cx.waker());
                        return Poll::Pending;
                    }
                    // Queue for room. Completions also wake this task: peers may wait for their
                    // packets.
                    State::Refused => {
                        if room.is_none() {
                            room.set(Some(driver.retry(refused_once())));
                        }
                        match room.as_mut().as_pin_mut().map(|room| room.poll(cx)) {
                            Some(Poll::Pending) => {
                                self.lane.is_awaited_by(cx.waker());
                                return Poll::Pending;
                            }
                            Some(Poll::Ready(Err(error))) => {
                                let member = self.waits_for().unwrap_or_default();
                                return Poll::Ready(Err(CollectiveError::Post { member, error }));
                            }
                            Some(Poll::Ready(Ok(()))) | None => room.set(None),
                        }
                    }
                }
            }
        })
        .await
    }

    fn waits_for(&self) -> Option<u32> {
        let room = self.lane.room.try_borrow().ok()?;
        let flights = || room.slots.iter().filter_map(|slot| slot.flight);
        let received = flights().find(|flight| flight.direction == Direction::Recv);
        let next = || self.cursors.iter().flatten().find_map(|cursor| cursor.peek(usize::MAX));
        received.or_else(|| flights().next()).map(|flight| flight.member).or_else(|| next().map(|piece| piece.peer))
    }

    /// Returns `true` on progress, and the state.
    fn step(
        &mut self,
        mut take: impl FnMut(usize, OpKey) -> Result<Option<Done<B>>, CqError>,
    ) -> Result<(bool, State), CollectiveError> {
        if self.cursors.is_none() {
            return Ok((false, State::Over));
        }
        if self.team.is_over() {
            return Err(CollectiveError::Over);
        }
        let ends = EndsTeam(self.team);
        let step = self.step_on(&mut *room(self.lane)?, &mut take);
        match step {
            Ok(_) | Err(CollectiveError::Queue(CqError::PeerEvents | CqError::PiecesOut | CqError::Driven)) => {
                core::mem::forget(ends);
            }
            Err(_) => {}
        }
        if matches!(step, Ok((_, State::Over))) {
            (self.driver, _) = (None, self.lane.task.take());
        }
        step
    }

    fn step_on(
        &mut self,
        room: &mut Room<B, A>,
        take: &mut impl FnMut(usize, OpKey) -> Result<Option<Done<B>>, CqError>,
    ) -> Result<(bool, State), CollectiveError> {
        if self.provided {
            let slot = room.slots.first_mut().ok_or(CollectiveError::Packets)?;
            let (moved, state) = self.team.step_call(self.lane, slot, self.output, take)?;
            if state == State::Over {
                self.cursors = None;
                self.lane.number.set(None);
            }
            return Ok((moved, state));
        }
        let mut moved = false;
        while let Some(mut cursors) = self.cursors {
            let posted = self.post_all(room, &mut cursors);
            self.cursors = Some(cursors);
            let (posted, refused) = posted?;
            let (taken, in_flight) = self.take_all(room, take)?;
            moved |= posted || taken;
            if !in_flight && !refused && cursors.iter().all(|cursor| cursor.peek(1).is_none()) {
                self.end_round(room)?;
                moved = true;
            } else if !taken {
                return Ok((moved, if refused { State::Refused } else { State::Waits }));
            }
        }
        Ok((moved, State::Over))
    }

    fn end_round(&mut self, room: &mut Room<B, A>) -> Result<(), CollectiveError> {
        let (plan, mut buffers) = (
            self.plan,
            Buffers {
                input: self.input,
                output: &mut *self.output,
                scratch: scratch(&mut room.scratch, self.plan.needs())?,
            },
        );
        for local in plan.ops(self.round) {
            match local {
                Op::Copy { from, into } => buffers.copy(from, into),
                Op::Combine { from, into, side } => buffers.combine(from, into, side, &self.combine),
                Op::Recv { .. } | Op::Send { .. } => Some(()),
            }
            .ok_or(CollectiveError::Lengths)?;
        }
        self.round += 1;
        if self.round >= plan.rounds() {
            let Some(then) = self.then.take() else {
                self.cursors = None;
                self.lane.number.set(None);
                return Ok(());
            };
            (self.plan, self.number, self.round) = (then, self.number.wrapping_add(1), 0);
        }
        self.cursors = Some(cursors(&self.plan, self.round));
        Ok(())
    }

    /// Returns `true` for a post, and `true` for a transient refusal.
    fn post_all(&mut self, room: &mut Room<B, A>, cursors: &mut [Cursor; 2]) -> Result<(bool, bool), CollectiveError> {
        let most = self.team.packet / size_of::<E>();
        let all = room.slots.len();
        let (mut posted, mut refused) = (false, false);
        for cursor in cursors {
            // Sends must not wait for receives, so each direction has its own packets.
            let share = if cursor.direction() == Direction::Recv { 0..all / 2 } else { all / 2..all };
            for place in share {
                let Some(piece) = cursor.peek(most) else { break };
                let Some(slot) = room.slots.get(place).filter(|slot| slot.flight.is_none()) else { continue };
                if slot.packet.is_none() {
                    return Err(CollectiveError::Packets);
                }
                if !self.post(room, place, cursor.direction(), piece)? {
                    refused = true;
                    break;
                }
                cursor.pass(most, &self.plan, self.round);
                posted = true;
            }
        }
        Ok((posted, refused))
    }

    /// Returns `false` after a transient refusal.
    fn post(
        &mut self,
        room: &mut Room<B, A>,
        place: usize,
        direction: Direction,
        piece: Piece,
    ) -> Result<bool, CollectiveError> {
        let member = piece.peer;
        // A newcomer with the member's number is not of the team.
        let to = self.team.to(member).ok_or(CollectiveError::Post { member, error: PostError::UnknownPeer })?;
        let sender = if direction == Direction::Recv { member } else { self.team.rank() };
        let tag = self.team.tag(self.number, sender, self.round, piece.number)?;
        let Room { slots, scratch: words } = room;
        let buffers =
            Buffers { input: self.input, output: &mut *self.output, scratch: scratch(words, self.plan.needs())? };
        let part = buffers.part(piece.part).ok_or(CollectiveError::Lengths)?;
        let Some(Slot { packet: slot, flight }) = slots.get_mut(place) else { return Err(CollectiveError::Packets) };
        let Some(mut packet) = slot.take() else { return Err(CollectiveError::Packets) };
        let message = packet.sized(size_of_val(part));
        if message.len() != size_of_val(part) {
            *slot = Some(packet);
            return Err(CollectiveError::Packets);
        }
        let what = What { region: &NOWHERE, word: tag.0 };
        let posted = match direction {
            Direction::Recv if self.team.by_order => self.team.group.post::<operation::Recv>(to, what, packet),
            Direction::Recv => self.team.group.recv_by_tag(to, tag, packet),
            Direction::Send => {
                element::put(part, message);
                if self.team.by_order {
                    self.team.group.post::<operation::Send>(to, what, packet)
                } else {
                    self.team.group.post::<operation::TaggedSend>(to, what, packet)
                }
            }
        };
        match posted {
            Ok(key) => {
                *flight = Some(Flight { key, direction, member, part: piece.part });
                Ok(true)
            }
            Err(refused) => {
                *slot = Some(refused.value);
                if refused.error.is_transient() {
                    Ok(false)
                } else {
                    Err(CollectiveError::Post { member, error: refused.error })
                }
            }
        }
    }

    /// Returns `true` if it took a completion, and `true` if an operation is still in flight.
    fn take_all(
        &mut self,
        room: &mut Room<B, A>,
        take: &mut impl FnMut(usize, OpKey) -> Result<Option<Done<B>>, CqError>,
    ) -> Result<(bool, bool), CollectiveError> {
        let Room { slots, scratch: words } = room;
        let mut buffers =
            Buffers { input: self.input, output: &mut *self.output, scratch: scratch(words, self.plan.needs())? };
        let (mut taken, mut in_flight) = (false, false);
        for (place, slot) in slots.iter_mut().enumerate() {
            let Some(Flight { key, direction, member, part }) = slot.flight else { continue };
            let Some(done) = take(place, key)? else {
                in_flight = true;
                continue;
            };
            slot.flight = None;
            taken = true;
            let (packet, result) = done.into_parts();
            let packet = slot.packet.insert(packet);
            let len = result.map_err(|error| CollectiveError::Operation { member, error })?.len;
            if direction == Direction::Recv {
                // The sender may be a newcomer in the member's place.
                if self.team.to(member).is_none() {
                    return Err(CollectiveError::Post { member, error: PostError::UnknownPeer });
                }
                let into = buffers.part_mut(part).ok_or(CollectiveError::Lengths)?;
                if len != size_of_val(into) {
                    return Err(CollectiveError::Mismatch { member });
                }
                let message = packet.sized(len);
                if message.len() != len {
                    return Err(CollectiveError::Packets);
                }
                element::take(message, into);
            }
        }
        Ok((taken, in_flight))
    }
}

fn cursors(plan: &Plan<'_>, round: u32) -> [Cursor; 2] {
    [Direction::Recv, Direction::Send].map(|direction| Cursor::new(direction, plan, round))
}

fn room<B, A: Allocator>(lane: &Lane<B, A>) -> Result<RefMut<'_, Room<B, A>>, CollectiveError> {
    lane.room.try_borrow_mut().map_err(|_| CollectiveError::Busy)
}

fn refused_once() -> impl FnMut() -> Result<(), PostError> {
    let mut refused = false;
    move || if core::mem::replace(&mut refused, true) { Ok(()) } else { Err(PostError::Again) }
}

fn scratch<E: Element>(words: &mut [u128], needs: Needs) -> Result<&mut [E], CollectiveError> {
    if needs.scratch == 0 {
        return Ok(&mut []);
    }
    let needs = needs.scratch.saturating_mul(size_of::<E>());
    let bytes = bytemuck::cast_slice_mut::<u128, u8>(words).get_mut(..needs);
    bytes.and_then(|bytes| bytemuck::try_cast_slice_mut(bytes).ok()).ok_or(CollectiveError::Scratch { needs })
}

impl<T: Transport, B: Packet, A: Allocator, E, C> Drop for Running<'_, '_, '_, T, B, A, E, C> {
    fn drop(&mut self) {
        if self.cursors.is_none() {
            return;
        }
        self.team.end();
        let group = self.team.group;
        let Ok(mut room) = self.lane.room.try_borrow_mut() else { return };
        if self.provided {
            provider_calls::give_up(self.lane, room.slots.first_mut(), self.team.rank());
        }
        for flight in room.slots.iter().filter_map(|slot| slot.flight) {
            let _ = self.team.peer(flight.member).map(|peer| group.cancel(peer, flight.key));
            drop(self.driver.as_ref().map(|driver| driver.finish(flight.key)));
        }
        for _ in 0..LOOKS {
            let mut in_flight = false;
            if group.is_not_driven().is_err() {
                break;
            }
            for slot in room.slots.iter_mut() {
                let Some(flight) = slot.flight else { continue };
                match group.cq().take(flight.key) {
                    Ok(Some(done)) => (slot.packet, slot.flight) = (Some(done.into_parts().0), None),
                    Ok(None) => in_flight = true,
                    // The program has taken it, or the queue has failed.
                    Err(_) => {}
                }
            }
            if !in_flight || group.cq().progress().is_err() {
                break;
            }
        }
        for slot in room.slots.iter_mut() {
            slot.flight = None;
        }
        self.lane.number.set(None);
    }
}

impl<T: Transport, B: Packet, A: Allocator, E, C> fmt::Debug for Running<'_, '_, '_, T, B, A, E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("plan", &self.plan)
            .field("number", &self.number)
            .field("round", &self.round)
            .field("over", &self.cursors.is_none())
            .finish_non_exhaustive()
    }
}
