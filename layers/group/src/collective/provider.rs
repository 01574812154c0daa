//! [`ProviderGroup`]: a team's collectives by the provider's own.
//!
//! A collective that the provider has is one operation on one packet: operands, and room for the results behind them. Whether it is the provider's
//! depends on its arguments and on the provider alone, and is decided before anything is posted, so all members decide the same. Such a collective
//! takes no number of the team: it has no tags.
//!
//! The provider matches the operations of members by their order. So those that are refused for the moment are posted in the order in which
//! they were called, each by the next collective of the team that is turned, also if that is another one.

use core::cell::{Cell, RefMut};

use allocator_api2::alloc::Allocator;
use loom_core::collective::Collective;
use loom_core::cq::CqError;
use loom_core::endpoint::CollectiveGroup;
use loom_core::error::Rejected;
use loom_core::transport::Collectives;
use loom_core::vocabulary::{AtomicOp, CollectiveOp};
use loom_core::{Cq, Done, OpKey, Transport};

use super::cursor::Direction;
use super::lane::{Flight, Lane, Slot};
use super::running::State;
use super::{CollectiveError, Combine, Element, Packet, Team};
use crate::schedule::{Part, Which};

/// What a team needs of a provider's group, whose transport it does not know to have collectives.
pub(super) trait Provides<'m, T: Transport, B: Packet> {
    fn place(&self) -> (usize, usize);
    fn queue(&self) -> &Cq<'m, T, B>;
    fn has(&self, collective: Collective, count: usize) -> bool;
    fn call(&self, collective: Collective, root: usize, packet: B) -> Result<OpKey, Rejected<B>>;
}

impl<'m, T: Collectives, B: Packet> Provides<'m, T, B> for CollectiveGroup<'m, T, B> {
    fn place(&self) -> (usize, usize) {
        (self.rank(), self.size())
    }

    fn queue(&self) -> &Cq<'m, T, B> {
        self.cq()
    }

    fn has(&self, collective: Collective, count: usize) -> bool {
        self.admits(collective, count).is_ok()
    }

    fn call(&self, collective: Collective, root: usize, packet: B) -> Result<OpKey, Rejected<B>> {
        self.post(collective, root, packet)
    }
}

/// The provider's group of the members of a team: a [`CollectiveGroup`], for [`Team::with_provider`].
#[expect(private_bounds, reason = "other crates do not implement it")]
pub trait ProviderGroup<'m, T: Transport, B: Packet>: Provides<'m, T, B> {}

impl<'m, T: Collectives, B: Packet> ProviderGroup<'m, T, B> for CollectiveGroup<'m, T, B> {}

/// The provider's group of a team, and how far its calls are.
pub(super) struct Provider<'g, 'm, T: Transport, B: Packet> {
    group: &'g dyn ProviderGroup<'m, T, B>,
    /// How many were called.
    called: Cell<u64>,
    /// How many of them were posted.
    posted: Cell<u64>,
}

/// A collective that the provider may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) op: CollectiveOp,
    /// The rank of the root; zero where there is none.
    pub(super) root: u32,
    /// Elements of a part: what one member gives to, or gets of, one other.
    pub(super) count: usize,
}

impl Wanted {
    /// Of this type and combination; `None` if providers have no name for them.
    fn collective<E: Element, C: Combine<E>>(self) -> Option<Collective> {
        match self.op {
            CollectiveOp::BARRIER => return Some(Collective::BARRIER),
            // Nothing to move: a schedule says what that is.
            _ if self.count == 0 => return None,
            _ => {}
        }
        let reduces = matches!(self.op, CollectiveOp::ALLREDUCE | CollectiveOp::REDUCE | CollectiveOp::REDUCE_SCATTER);
        let reduction = if reduces { C::PROVIDER_OP? } else { AtomicOp::NOOP };
        let datatype = E::PROVIDER_TYPE.filter(|datatype| datatype.size() == Some(size_of::<E>()))?;
        Collective::new(self.op, datatype, reduction)
    }
}

/// A collective of the provider's that is under way.
#[derive(Debug)]
pub(super) struct Call<B> {
    /// Its place in the order of the team's calls.
    number: u64,
    collective: Collective,
    root: usize,
    /// Where the results begin in the packet.
    results: usize,
    stage: Stage<B>,
}

#[derive(Debug)]
enum Stage<B> {
    /// It is not posted yet.
    Waits(B),
    Flies(OpKey),
}

impl<'g, 'm, T: Transport, B: Packet, A: Allocator> Team<'g, 'm, T, B, A> {
    /// The same team, which leaves to the provider what that has of its own: a group of the same members in the same order, joined by an
    /// endpoint of the group's queue ([`Endpoint::join_collective`](loom_core::Endpoint::join_collective)). All members do this, between the same collectives.
    ///
    /// Collectives are called, waited for and awaited as before. The provider does one of them if
    /// - it has the operation for the elements and the combination ([`CollectiveGroup::admits`]), and blocks are
    ///   [equal](crate::schedule::Blocks::Equal);
    /// - there is an element or more, and operands and results of the root fit into one packet.
    ///
    /// Others run their schedules. It takes until all members have joined: collectives that are called before wait for that.
    ///
    /// What the provider computes is what it says of its operations. Floating-point numbers may be added in another order than that of the
    /// schedule, and so have other bits.
    ///
    /// A provider does not cancel its operations. If a collective is dropped before it is over, its packet comes out of the group's queue when
    /// the endpoint has left the provider's group.
    ///
    /// The provider tells operations apart by their order alone, so the team has the provider's group for itself.
    ///
    /// # Errors
    /// - [`CollectiveError::ProviderGroup`]: it has another size, this member has another rank in it, it is one of another queue, or the team
    ///   has one.
    /// - [`CollectiveError::Busy`]: a collective is under way, or was forgotten.
    #[doc(alias = "fi_join_collective")]
    pub fn with_provider(
        mut self,
        group: &'g mut (impl ProviderGroup<'m, T, B> + 'g),
    ) -> Result<Self, CollectiveError> {
        if self.under_way() > 0 {
            return Err(CollectiveError::Busy);
        }
        let same = |ours: u32, theirs: usize| usize::try_from(ours) == Ok(theirs);
        let (rank, size) = group.place();
        if !same(self.rank(), rank)
            || !same(self.size(), size)
            || group.queue() != self.group.cq()
            || self.provider.is_some()
        {
            return Err(CollectiveError::ProviderGroup);
        }
        self.provider = Some(Provider { group, called: Cell::new(0), posted: Cell::new(0) });
        Ok(self)
    }

    /// What the provider would do of this, if it does it.
    pub(super) fn provided<E: Element, C: Combine<E>>(&self, wanted: Option<Wanted>) -> Option<(Collective, u32)> {
        let (provider, wanted) = (self.provider.as_ref()?, wanted?);
        let collective = wanted.collective::<E, C>()?;
        // The root's packet is the longest: the answer is that of all members.
        let (operands, results) = collective.parts(usize::try_from(self.size()).ok()?, true);
        let parts = operands.checked_add(results)?;
        let bytes = wanted.count.checked_mul(size_of::<E>())?.checked_mul(parts)?;
        (bytes <= self.packet && provider.group.has(collective, wanted.count)).then_some((collective, wanted.root))
    }

    /// Posts what was called, in its order. Says whether there was anything that was taken.
    fn post_calls(&self) -> Result<bool, CollectiveError> {
        let Some(provider) = &self.provider else { return Ok(false) };
        let mut posted = false;
        while provider.posted.get() != provider.called.get() {
            let number = provider.posted.get();
            let is_next = |call: &Option<Call<B>>| call.as_ref().is_some_and(|call| call.number == number);
            let next = self.lanes().iter().find(|lane| lane.call.try_borrow().is_ok_and(|call| is_next(&call)));
            // It was given up, and the team is over.
            let lane = next.ok_or(CollectiveError::Over)?;
            let mut place = call_of(lane)?;
            let Some(call) = place.take() else { return Err(CollectiveError::Over) };
            let Stage::Waits(packet) = call.stage else { return Err(CollectiveError::Over) };
            match provider.group.call(call.collective, call.root, packet) {
                Ok(key) => {
                    *place = Some(Call { stage: Stage::Flies(key), ..call });
                    provider.posted.set(number.wrapping_add(1));
                    posted = true;
                }
                Err(Rejected { buf, error }) => {
                    *place = Some(Call { stage: Stage::Waits(buf), ..call });
                    return if error.is_transient() { Ok(posted) } else { Err(CollectiveError::Provider(error)) };
                }
            }
        }
        Ok(posted)
    }

    /// Puts a collective of the provider's into a lane, with the packet of its first slot.
    pub(super) fn call<E: Element>(
        &self,
        lane: &Lane<B, A>,
        slot: &mut Slot<B>,
        (collective, root): (Collective, u32),
        (input, output): (&[E], &[E]),
    ) -> Result<(), CollectiveError> {
        let provider = self.provider.as_ref().ok_or(CollectiveError::ProviderGroup)?;
        let root = usize::try_from(root).map_err(|_| CollectiveError::ProviderGroup)?;
        let mut place = call_of(lane)?;
        let packet = slot.packet.as_mut().ok_or(CollectiveError::Packets)?;
        // A broadcast overwrites its operands.
        let is_broadcast = collective.op() == CollectiveOp::BROADCAST;
        let operands: &[u8] = bytemuck::cast_slice(if is_broadcast { output } else { input });
        let results = if is_broadcast { 0 } else { operands.len() };
        let len = results.checked_add(size_of_val(output)).ok_or(CollectiveError::Lengths)?;
        let message = packet.sized(len);
        if message.len() != len {
            return Err(CollectiveError::Packets);
        }
        message.get_mut(..operands.len()).ok_or(CollectiveError::Packets)?.copy_from_slice(operands);
        let packet = slot.packet.take().ok_or(CollectiveError::Packets)?;
        let number = provider.called.get();
        provider.called.set(number.wrapping_add(1));
        *place = Some(Call { number, collective, root, results, stage: Stage::Waits(packet) });
        Ok(())
    }

    /// Goes on with the collective of a lane. Says whether anything has moved, and what it waits for.
    pub(super) fn step_call<E: Element>(
        &self,
        lane: &Lane<B, A>,
        slot: &mut Slot<B>,
        output: &mut [E],
        take: &mut impl FnMut(usize, OpKey) -> Result<Option<Done<B>>, CqError>,
    ) -> Result<(bool, State), CollectiveError> {
        let moved = self.post_calls()?;
        let (key, results) = match &*call_of(lane)? {
            Some(Call { stage: Stage::Flies(key), results, .. }) => (*key, *results),
            Some(_) => return Ok((moved, State::Refused)),
            None => return Err(CollectiveError::Over),
        };
        let Some(done) = take(0, key)? else { return Ok((moved, State::Waits)) };
        *call_of(lane)? = None;
        let (packet, result) = done.into_parts();
        let packet = slot.packet.insert(packet);
        result.map_err(CollectiveError::ProviderOperation)?;
        let output: &mut [u8] = bytemuck::cast_slice_mut(output);
        let len = results.checked_add(output.len()).ok_or(CollectiveError::Lengths)?;
        output.copy_from_slice(packet.sized(len).get(results..len).ok_or(CollectiveError::Packets)?);
        Ok((true, State::Over))
    }
}

/// What a lane has of the provider's.
fn call_of<B, A: Allocator>(lane: &Lane<B, A>) -> Result<RefMut<'_, Option<Call<B>>>, CollectiveError> {
    lane.call.try_borrow_mut().map_err(|_| CollectiveError::Busy)
}

/// The collective of a lane is given up: what is in flight is in its slot, as if it were a message, and a packet that is not is back in it.
pub(super) fn give_up<B, A: Allocator>(lane: &Lane<B, A>, slot: Option<&mut Slot<B>>, rank: u32) {
    let call = lane.call.try_borrow_mut().ok().and_then(|mut call| call.take());
    let (Some(call), Some(slot)) = (call, slot) else { return };
    match call.stage {
        Stage::Waits(packet) => slot.packet = Some(packet),
        Stage::Flies(key) => {
            let part = Part::new(Which::Input, 0, 0);
            slot.flight = Some(Flight { key, direction: Direction::Send, member: rank, part });
        }
    }
}
