use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::storage::Array;
use loom_core::vocabulary::RangeError;
use loom_core::{Access, Buffer, Error, Transport};
use loom_transfer::{Engine, MemoryKey, Plan};

use crate::layout::{FlowLayout, SampleLayout};

/// Name of a flow of a target or an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey(u32);

impl FlowKey {
    const INDEX_BITS: u32 = 16;

    /// Number in messages.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn of_number(number: u32) -> Self {
        FlowKey(number)
    }

    const fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX_BITS) - 1)) as usize
    }
}

pub(crate) struct Flows<F, A: Allocator> {
    slots: Array<(FlowKey, Option<F>), A>,
}

impl<F, A: Allocator> Flows<F, A> {
    pub(crate) fn new(len: usize, alloc: A) -> Result<Self, OpenError> {
        if len > 1 << FlowKey::INDEX_BITS {
            return Err(OpenError::Size);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^16")]
        let slots = Array::new_in(len, alloc, |index| (FlowKey(index as u32), None))?;
        Ok(Flows { slots })
    }

    pub(crate) fn has_room(&self) -> bool {
        self.slots.iter().any(|(_, flow)| flow.is_none())
    }

    pub(crate) fn insert(&mut self, flow: F) -> Option<FlowKey> {
        let slot = self.slots.iter_mut().find(|(_, flow)| flow.is_none())?;
        slot.1 = Some(flow);
        Some(slot.0)
    }

    /// Removes a flow. Its name is not used again for 65,536 flows.
    pub(crate) fn remove(&mut self, key: FlowKey) -> Option<F> {
        let slot = self.slots.get_mut(key.index()).filter(|slot| slot.0 == key)?;
        let flow = slot.1.take()?;
        slot.0 = FlowKey(key.0.wrapping_add(1 << FlowKey::INDEX_BITS));
        Some(flow)
    }

    pub(crate) fn get(&self, key: FlowKey) -> Option<&F> {
        self.slots.get(key.index()).filter(|slot| slot.0 == key)?.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: FlowKey) -> Option<&mut F> {
        self.slots.get_mut(key.index()).filter(|slot| slot.0 == key)?.1.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &F> {
        self.slots.iter().filter_map(|(_, flow)| flow.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (FlowKey, &mut F)> {
        self.slots.iter_mut().filter_map(|(key, flow)| Some((*key, flow.as_mut()?)))
    }
}

pub(crate) fn register<'m, T, M, P, A>(
    engine: &mut Engine<'m, T, M, P, A>,
    memory: M,
    layout: &FlowLayout,
    access: Access,
) -> Result<MemoryKey, Error>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    if !layout.is_valid() {
        return Err(Error::Invalid(
            "the layout is empty or has parts of periods: use at least one plane, slice and slot, or whole periods",
        ));
    }
    let memory = engine.register(memory, access)?;
    if engine.window(memory).is_none_or(|window| (window.len() as u64) < layout.bytes()) {
        engine.deregister(memory)?;
        return Err(Error::Invalid("the memory is shorter than the ring of the flow: use `FlowLayout::bytes`"));
    }
    Ok(memory)
}

/// View of a ring of samples.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'t> {
    pub(crate) window: Window<'t>,
    pub(crate) layout: SampleLayout,
}

impl<'t> Samples<'t> {
    /// Layout.
    #[must_use]
    pub const fn layout(&self) -> SampleLayout {
        self.layout
    }

    /// Memory.
    #[must_use]
    pub const fn window(&self) -> Window<'t> {
        self.window
    }

    /// Copies samples of a channel, from number `start` of the flow on, out of the ring.
    ///
    /// # Errors
    /// [`RangeError::OutOfWindow`] for another channel, more samples than the ring, or a part of one.
    pub fn copy_to(&self, channel: u16, start: u64, out: &mut [u8]) -> Result<(), RangeError> {
        let mut rest = out;
        self.each_run(channel, start, rest.len(), |window, offset, len| {
            let (part, more) = core::mem::take(&mut rest).split_at_mut(len);
            rest = more;
            window.copy_to(offset, part)
        })
    }

    /// Copies samples of a channel into the ring.
    ///
    /// # Errors
    /// Those of [`copy_to`](Self::copy_to), and [`RangeError::ReadOnly`].
    pub fn copy_from(&self, channel: u16, start: u64, samples: &[u8]) -> Result<(), RangeError> {
        let mut rest = samples;
        self.each_run(channel, start, rest.len(), |window, offset, len| {
            let (part, more) = rest.split_at(len);
            rest = more;
            window.copy_from(offset, part)
        })
    }

    fn each_run(
        &self,
        channel: u16,
        start: u64,
        len: usize,
        mut run: impl FnMut(Window<'t>, usize, usize) -> Result<(), RangeError>,
    ) -> Result<(), RangeError> {
        let word = usize::from(self.layout.word);
        let count = (len / word) as u64;
        let end = start.checked_add(count).ok_or(RangeError::OutOfWindow)?;
        if channel >= self.layout.channels || !len.is_multiple_of(word) || count > u64::from(self.layout.len) {
            return Err(RangeError::OutOfWindow);
        }
        let mut at = start;
        while at < end {
            let samples = self.layout.run(at).min(end - at);
            let (offset, samples_len) = (self.layout.offset(at, channel), samples * u64::from(self.layout.word));
            let to_usize = |value| usize::try_from(value).map_err(|_| RangeError::OutOfWindow);
            run(self.window, to_usize(offset)?, to_usize(samples_len)?)?;
            at += samples;
        }
        Ok(())
    }
}

/// View of a grain's slot.
#[derive(Clone, Copy, Debug)]
pub struct Grain<'t> {
    /// Index in the flow.
    pub index: u64,
    /// Number of valid slices, from the first one on, in each plane.
    pub valid: u16,
    /// Marked as invalid by the initiator.
    pub is_invalid: bool,
    /// Header and planes, at the offsets of [`GrainLayout`](crate::GrainLayout).
    pub window: Window<'t>,
}
