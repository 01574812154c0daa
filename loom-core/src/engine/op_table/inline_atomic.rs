//! Atomic operations on values, without a buffer (rule 11).

#![allow(unsafe_code, reason = "values in slots: rules 2 and 11")]

use core::ptr::NonNull;

use super::slot::Phase;
use super::{ContextKind, Kind, OpError, OpKey, OpTable, Slot};
use crate::atomic::Element;
use crate::buffer::Lent;
use crate::error::PostError;
use crate::transport::{Context, Event};
use crate::vocabulary::{ImmediateData, Tag};

/// Memory of one value: as long as the longest element.
type Place = [u64; 2];

fn placed<E: Element>(value: E) -> Place {
    let mut place = [0; 2];
    // SAFETY: no element is longer than `place`.
    unsafe { (&raw mut place).cast::<E::Word>().write_unaligned(value.to_word()) };
    place
}

fn places<B>(holder: &Slot<B>) -> [NonNull<Place>; 3] {
    const { assert!(3 * size_of::<Place>() <= size_of::<[u64; 8]>(), "the scratch space has room for them") };
    let first = holder.scratch().cast::<Place>();
    // SAFETY: three places lie within the scratch space, asserted above.
    [0, 1, 2].map(|at| unsafe { first.add(at) })
}

/// Memory lent by an atomic operation on a value.
#[derive(Clone, Copy, Debug)]
pub struct LentValues {
    /// Operand.
    pub operand: Lent,
    /// Comparand.
    pub compare: Lent,
    /// Room for the previous value.
    pub result: Lent,
}

/// Completed atomic operation on a value, with the previous value if the operation fetches it.
///
/// ```
/// use loom_core::{Access, Caps, Forever, Mr, atomic::CompareOp};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
/// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// # let (lock, offset) = (memory.remote(), memory.window().as_ptr().align_offset(8) as u64);
/// let swap = domain.query_atomic(CompareOp::<u64>::CSWAP)?;
/// // The first owner finds 0, and takes the lock. The second finds 1.
/// for (owner, before) in [(1, 0), (2, 1)] {
///     let key = cq.retry(Forever, || alice.compare_value(to_bob, &lock, offset, swap, 0, owner))?;
///     let fetched = cq.finish_value(key, Forever)?;
///     assert_eq!(fetched.value::<u64>()?, Some(before));
///     assert_eq!(fetched.value::<u32>()?, None, "an element has 8 bytes");
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it reports whether the operation succeeded, and what it has fetched"]
pub struct Fetched {
    /// Key that the post returned.
    pub key: OpKey,
    /// Holds the value in fields that an atomic's event does not use.
    event: Event,
    size: usize,
}

impl Fetched {
    /// Result of the operation.
    ///
    /// # Errors
    /// The operation's own error: cancelled, refused by the peer.
    pub fn result(&self) -> Result<(), OpError> {
        if self.event.is_error() { Err(OpError::of(&self.event)) } else { Ok(()) }
    }

    /// Previous value, or `None` if the operation does not fetch or its elements have another size.
    ///
    /// # Errors
    /// The error of [`result`](Self::result).
    pub fn value<E: Element>(&self) -> Result<Option<E>, OpError> {
        self.result()?;
        let place: Place = [self.event.tag.0, self.event.data.0];
        // SAFETY: no element is longer than `place`, and every bit pattern is valid.
        let word = unsafe { (&raw const place).cast::<E::Word>().read_unaligned() };
        Ok((self.size == size_of::<E>()).then(|| E::from_word(word)))
    }
}

impl<B> OpTable<B> {
    /// Takes a slot for an atomic operation on a value, and passes its lent memory to `submit`.
    ///
    /// # Errors
    /// Those of [`post`](Self::post), without a buffer.
    #[inline(always)]
    pub fn post_values<E: Element>(
        &self,
        endpoint: u16,
        (operand, compare): (E, E),
        fetches: bool,
        submit: impl FnOnce(&LentValues, Context) -> Result<(), PostError>,
    ) -> Result<OpKey, PostError> {
        let (key, slot) = self.reserve().ok_or_else(|| self.no_slot())?;
        let holder = match self.contexts {
            ContextKind::Word => slot,
            ContextKind::Space => {
                let Some((second, holder)) = self.reserve() else {
                    let error = self.no_slot();
                    self.give_up(key.index(), slot);
                    return Err(error);
                };
                holder.phase.set(Phase::Holds);
                slot.pieces.set(second.index().into());
                holder
            }
        };
        slot.endpoint.set(endpoint);
        slot.kind.set(Kind::Value);
        slot.lent.set(if fetches { size_of::<E>() } else { 0 });
        slot.phase.set(Phase::PostedValue);
        let [first, second, third] = places(holder);
        for (place, value) in [(first, operand), (second, compare)] {
            // SAFETY: rule 11: only this operation's values use the scratch space.
            unsafe { place.write(placed(value)) };
        }
        // SAFETY: rule 11: only this operation's values use the scratch space.
        unsafe { third.write([0; 2]) };
        let size = size_of::<E>();
        let lent = LentValues {
            operand: Lent::source(first.cast(), size),
            compare: Lent::source(second.cast(), size),
            result: Lent::target(third.cast(), size),
        };
        submit(&lent, self.context(slot, key)).map(|()| key).inspect_err(|_| {
            self.release_holder(slot);
            self.give_up(key.index(), slot);
        })
    }

    #[inline]
    fn holder<'t>(&'t self, slot: &'t Slot<B>) -> Option<&'t Slot<B>> {
        match self.contexts {
            ContextKind::Word => Some(slot),
            ContextKind::Space => self.slot(u32::try_from(slot.pieces.get()).ok()?),
        }
    }

    #[inline]
    pub(super) fn release_holder(&self, slot: &Slot<B>) {
        if self.contexts == ContextKind::Space
            && let Some(holder) = self.holder(slot).filter(|holder| holder.phase.get() == Phase::Holds)
        {
            self.give_up(holder.key.get().index(), holder);
        }
    }

    /// Returns the event with the result of a completed operation.
    ///
    /// # Safety
    /// The requirements of [`complete`](Self::complete).
    #[inline(always)]
    pub(super) unsafe fn value_of(&self, slot: &Slot<B>, event: &Event) -> Option<Event> {
        let [.., result] = places(self.holder(slot)?);
        // SAFETY: rule 11: the operation has completed, so the provider no longer writes the
        // result.
        let [low, high] = unsafe { result.read() };
        self.release_holder(slot);
        let len = if event.is_error() { 0 } else { slot.lent.get() };
        Some(Event { len, tag: Tag(low), data: ImmediateData(high), ..*event })
    }

    /// Completes this operation on a value if the event is its success. On `None`, pass the event
    /// to [`complete`](Self::complete) or [`park`](Self::park).
    ///
    /// # Safety
    /// The requirements of [`complete`](Self::complete).
    #[inline(always)]
    pub unsafe fn succeed_value(&self, key: OpKey, event: &Event) -> Option<Fetched> {
        if event.is_error() {
            return None;
        }
        let (named, slot) = self.by_context(event.context, Phase::PostedValue)?;
        if named != key {
            return None;
        }
        let [.., result] = places(self.holder(slot)?);
        self.count_event();
        // SAFETY: rule 11: the operation has completed, so the provider no longer writes the
        // result.
        let [low, high] = unsafe { result.read() };
        self.release_holder(slot);
        let event = Event {
            tag: Tag(low),
            data: ImmediateData(high),
            ..Event::success(event.context, event.flags, slot.lent.get())
        };
        Some(self.end_value(key, slot, event))
    }

    #[inline]
    pub(super) fn end_value(&self, key: OpKey, slot: &Slot<B>, event: Event) -> Fetched {
        let size = slot.lent.get();
        self.give_up(key.index(), slot);
        Fetched { key, event, size }
    }

    pub(super) fn fetched(slot: &Slot<B>, event: Event) -> Fetched {
        Fetched { key: slot.key.get(), event, size: slot.lent.get() }
    }

    /// Returns `true` if an operation on a value is in flight.
    #[inline]
    #[must_use]
    pub fn is_valued(&self, key: OpKey) -> bool {
        self.named(key).is_some_and(|slot| slot.phase.get() == Phase::PostedValue)
    }

    /// Takes the completion of an operation on a value, if it has completed.
    #[cold]
    #[inline(never)]
    pub fn take_value(&self, key: OpKey) -> Option<Fetched> {
        self.named(key).filter(|slot| slot.is_parked() && slot.kind.get() == Kind::Value)?;
        match self.take_at(key.index()) {
            super::ParkedCompletion::Value(fetched) => Some(fetched),
            super::ParkedCompletion::Done(_) => None,
        }
    }
}
