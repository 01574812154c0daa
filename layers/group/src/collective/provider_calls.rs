//! Collectives that the [provider](super::ProviderGroup) runs.
//!
//! Such a collective is one operation on one packet: operands, then room for results.
//!
//! The provider matches operations by order. So those refused with a transient error are posted in
//! call order, by the next collective that is turned.

use core::cell::{Cell, RefMut};

use allocator_api2::alloc::Allocator;
use loom_core::collective::Collective;
use loom_core::cq::CqError;
use loom_core::error::Rejected;
use loom_core::vocabulary::CollectiveOp;
use loom_core::{Done, OpKey, Transport};

use super::cursor::Direction;
use super::lane::{Flight, Lane, Slot, State};
use super::provider::{Call, Provider, ProviderGroup, Stage, Wanted};
use super::{Combine, Element, Packet, Team};
use crate::CollectiveError;
use crate::schedule::{Part, Which};

impl<'g, 'm, T: Transport, B: Packet, A: Allocator> Team<'g, 'm, T, B, A> {
    /// Lets the provider run the collectives that it supports. `group` has the same members in the
    /// same order, joined by an endpoint of the group's queue
    /// ([`Endpoint::join_collective`](loom_core::Endpoint::join_collective)). All members make this
    /// call between the same collectives.
    ///
    /// The provider runs a collective if
    /// - it supports the operation for the elements and the combination
    ///   ([`CollectiveGroup::admits`](loom_core::endpoint::CollectiveGroup::admits)), with
    ///   [equal](crate::schedule::Blocks::Equal) blocks,
    /// - and operands and results of the root, at least one element, fit into one packet.
    ///
    /// Schedules run all others. Collectives wait until all members have joined. Floating-point
    /// sums may differ in bits from a schedule's.
    ///
    /// Providers do not cancel: the group's queue returns the packet of a dropped collective after
    /// the endpoint has left the group.
    ///
    /// # Errors
    /// - [`CollectiveError::ProviderGroup`]: the size, this member's rank or the queue differ, or
    ///   the team has a provider's group.
    /// - [`CollectiveError::Busy`]: a collective is in flight or was forgotten.
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

    pub(super) fn provided<E: Element, C: Combine<E>>(&self, wanted: Option<Wanted>) -> Option<(Collective, u32)> {
        let (provider, wanted) = (self.provider.as_ref()?, wanted?);
        let collective = wanted.collective::<E, C>()?;
        let (operands, results) = collective.parts(usize::try_from(self.size()).ok()?, true);
        let parts = operands.checked_add(results)?;
        let bytes = wanted.count.checked_mul(size_of::<E>())?.checked_mul(parts)?;
        (bytes <= self.packet && provider.group.has(collective, wanted.count)).then_some((collective, wanted.root))
    }

    fn post_calls(&self) -> Result<bool, CollectiveError> {
        let Some(provider) = &self.provider else { return Ok(false) };
        let mut posted = false;
        while provider.posted.get() != provider.called.get() {
            let number = provider.posted.get();
            let is_next = |call: &Option<Call<B>>| call.as_ref().is_some_and(|call| call.number == number);
            let next = self.lanes().iter().find(|lane| lane.call.try_borrow().is_ok_and(|call| is_next(&call)));
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
                Err(Rejected { value: buf, error }) => {
                    *place = Some(Call { stage: Stage::Waits(buf), ..call });
                    return if error.is_transient() { Ok(posted) } else { Err(CollectiveError::Provider(error)) };
                }
            }
        }
        Ok(posted)
    }

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

    /// Returns `true` on progress, and the state.
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

fn call_of<B, A: Allocator>(lane: &Lane<B, A>) -> Result<RefMut<'_, Option<Call<B>>>, CollectiveError> {
    lane.call.try_borrow_mut().map_err(|_| CollectiveError::Busy)
}

/// The slot gets the operation in flight or the unposted packet.
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
