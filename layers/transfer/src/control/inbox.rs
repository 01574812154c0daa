//! [`Inbox`]: notifications of peers, and counts of the writes that come before them.

use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::Transport;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use super::slip::{List, Slips};
use super::wire::{self, HEADER, Header};
use super::{Control, Layout};
use crate::event::Ending;
use crate::peers::PeerKey;
use crate::queue::Queue;

/// Name of a notification that has arrived ([`Event::Notified`](crate::Event::Notified)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotificationKey {
    index: u32,
    generation: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    generation: u32,
    counted: u64,
    /// Of all fragments, once one has arrived.
    head: Option<Header>,
    /// Bit for each fragment that has arrived.
    seen: u64,
    fragments: List,
    /// Reported, or in the queue.
    complete: bool,
    /// The peer must learn that the number is free.
    released: bool,
}

pub(crate) struct Inbox<A: Allocator> {
    entries: Array<Entry, A>,
    complete: Queue<A>,
    layout: Layout,
    pub(super) released: usize,
}

impl<A: Allocator + Clone> Inbox<A> {
    pub(super) fn new(peers: usize, layout: Layout, alloc: &A) -> Result<Self, OpenError> {
        let count = peers.checked_mul(layout.notifications.into()).ok_or(OpenError::Size)?;
        let entry = |_| Entry {
            generation: 0,
            counted: 0,
            head: None,
            seen: 0,
            fragments: List::EMPTY,
            complete: false,
            released: false,
        };
        let entries = Array::new_in(count, alloc.clone(), entry)?;
        Ok(Inbox { entries, complete: Queue::new(count, alloc.clone())?, layout, released: 0 })
    }
}

impl<A: Allocator> Inbox<A> {
    fn at(&self, peer: u32, number: u32) -> Option<usize> {
        let numbers = self.layout.notifications;
        (number < numbers.into()).then(|| peer as usize * usize::from(numbers) + number as usize)
    }

    pub(crate) fn peer_of(&self, index: u64) -> Option<u32> {
        let peer = index / u64::from(self.layout.notifications);
        (index < self.entries.len() as u64).then(|| u32::try_from(peer).ok()).flatten()
    }

    /// Restarts a peer's numbers at a new generation, by the clock at first. Returns it, and the
    /// arrived fragments.
    pub(crate) fn reset<T: Transport>(&mut self, peer: u32, now: u64, slips: &mut Slips<'_, T, A>) -> (u32, List) {
        let mut fragments = List::EMPTY;
        let Some(first) = self.at(peer, 0) else { return (0, fragments) };
        let entries = self.entries.get_mut(first..).unwrap_or_default();
        let entries = &mut entries[..usize::from(self.layout.notifications)];
        #[expect(clippy::cast_possible_truncation, reason = "any number is right")]
        let clock = (now >> 1) as u32 >> 1 | 1;
        let newest = entries.iter().map(|entry| entry.generation).max().unwrap_or(0);
        let epoch = if newest == 0 { clock } else { newest.wrapping_add(1) };
        for entry in entries {
            slips.append(&mut fragments, entry.fragments);
            self.released -= usize::from(entry.released);
            *entry = Entry {
                generation: epoch,
                counted: 0,
                head: None,
                seen: 0,
                fragments: List::EMPTY,
                complete: false,
                released: false,
            };
        }
        (epoch, fragments)
    }

    /// Returns `false` if the write belongs to no notification.
    pub(crate) fn count(&mut self, index: u64, generation: u64, mask: u32) -> bool {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(entry) = self.entries.get_mut(at) else { return false };
        if u64::from(entry.generation & mask) != generation || entry.released {
            return false;
        }
        if entry.head.is_some_and(|head| wire::ending(head.ending) == Ending::Done && entry.counted >= head.operations)
        {
            return false;
        }
        entry.counted += 1;
        self.complete(at);
        true
    }

    /// Returns `false` if the fragment belongs to no notification.
    pub(super) fn fragment<T: Transport>(
        &mut self,
        header: &Header,
        body: usize,
        slip: u32,
        slips: &mut Slips<'_, T, A>,
    ) -> bool {
        let room = self.layout.message as usize - HEADER;
        let (len, fragment) = (header.len as usize, usize::from(header.fragment));
        let count = fragments(len, room);
        let expected = len.saturating_sub(fragment * room).min(room);
        if fragment >= count || count > usize::from(self.layout.fragments) || body != expected {
            return false;
        }
        let Some(at) = self.at(header.to.index, header.number) else { return false };
        // A peer beyond its credit would take the receives of others.
        let of_peer = self.at(header.to.index, 0).and_then(|first| self.entries.get(first..)).unwrap_or_default();
        let held: u32 = of_peer.iter().take(self.layout.notifications.into()).map(|entry| entry.fragments.len()).sum();
        if held >= self.layout.fragments.into() {
            return false;
        }
        let Some(entry) = self.entries.get_mut(at) else { return false };
        let head = Header { fragment: 0, ..*header };
        let is_next = entry.generation == header.generation && !entry.released && entry.seen & 1 << fragment == 0;
        if !is_next || *entry.head.get_or_insert(head) != head {
            return false;
        }
        entry.seen |= 1 << fragment;
        slips.push(&mut entry.fragments, slip);
        self.complete(at);
        true
    }

    fn complete(&mut self, at: usize) {
        let room = self.layout.message as usize - HEADER;
        let Some(entry) = self.entries.get_mut(at).filter(|entry| !entry.complete) else { return };
        let Some(head) = entry.head else { return };
        let all = entry.fragments.len() as usize == fragments(head.len as usize, room);
        let fails = wire::ending(head.ending) != Ending::Done;
        if all && (fails || entry.counted >= head.operations) {
            entry.complete = true;
            #[expect(clippy::cast_possible_truncation, reason = "entries of `u32` peers")]
            self.complete.push(at as u32);
        }
    }

    pub(crate) fn next(&mut self) -> Option<NotificationKey> {
        while let Some(index) = self.complete.pop() {
            // An entry that was reset may be in the queue.
            if let Some(entry) = self.entries.get(index as usize).filter(|entry| entry.complete) {
                return Some(NotificationKey { index, generation: entry.generation });
            }
        }
        None
    }

    fn named(&self, key: NotificationKey) -> Option<(&Entry, Header)> {
        let entry = self.entries.get(key.index as usize)?;
        let head = entry.head.filter(|_| entry.complete && entry.generation == key.generation)?;
        Some((entry, head))
    }

    /// Peer of the next number, from an index on, to be reported as free.
    pub(super) fn next_released(&self, from: &mut usize) -> Option<u32> {
        let at = *from + self.entries.get(*from..)?.iter().position(|entry| entry.released)?;
        *from = at + 1;
        self.peer_of(at as u64)
    }

    /// Number before an index, and its generation.
    pub(super) fn take_released(&mut self, from: usize) -> Option<(u32, u32)> {
        let at = from.checked_sub(1)?;
        let entry = self.entries.get_mut(at).filter(|entry| entry.released)?;
        let generation = entry.generation;
        (entry.released, entry.generation) = (false, generation.wrapping_add(1));
        self.released -= 1;
        Some((u32::try_from(at).ok()? % u32::from(self.layout.notifications), generation))
    }
}

pub(crate) const fn fragments(len: usize, room: usize) -> usize {
    if len == 0 { 1 } else { len.div_ceil(room) }
}

/// Notification of a peer, after the writes of its transfer. Dropping it gives its room back to the
/// peer.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_transfer::{Block, Engine, EngineAttr, Event};
///
/// # fixture::domain!(network, domain);
/// let attr = EngineAttr { message: 2048, ..EngineAttr::default() };
/// let mut engine = Engine::<_, Vec<u8>, Block, _>::open_in(&[domain], attr, Global)?;
/// # let mut record = [0; 1024];
/// # let len = engine.address(&mut record)?;
/// let itself = engine.insert_peer(&record[..len])?;
/// while !matches!(engine.poll(0)?, Some(Event::Peer { result: Ok(()), .. })) {}
/// engine.notify(itself, &[7; 5000])?;
/// let key = loop {
///     if let Some(Event::Notified(key)) = engine.poll(0)? { break key; }
/// };
/// let notification = engine.notification(key).expect("it is new");
/// let mut message = vec![0; notification.len()];
/// notification.copy_to(&mut message);
/// assert_eq!((notification.peer(), message), (itself, vec![7; 5000]));
/// # drop(notification);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Notification<'e, 'm, T: Transport, A: Allocator> {
    control: &'e mut Control<'m, T, A>,
    key: NotificationKey,
    head: Header,
    keeps: bool,
}

impl<'e, 'm, T: Transport, A: Allocator> Notification<'e, 'm, T, A> {
    pub(crate) fn new(control: &'e mut Control<'m, T, A>, key: NotificationKey) -> Option<Self> {
        let (_, head) = control.inbox.named(key)?;
        Some(Notification { control, key, head, keeps: false })
    }

    /// Sender.
    #[must_use]
    pub const fn peer(&self) -> PeerKey {
        self.head.to
    }

    /// Returns [`Ending::Done`] if all writes of the transfer have arrived. Otherwise the transfer
    /// ended in this way, with any error as a number of the sender's system.
    #[must_use]
    pub fn ending(&self) -> Ending {
        wire::ending(self.head.ending)
    }

    /// Number of writes that may still arrive, above 0 only for a transfer that did not end well:
    /// they were in flight or have failed. Use the memory for other data when it is 0, or after
    /// closing the region where that is a fence. A failed write may never arrive.
    #[must_use]
    pub fn late_writes(&self) -> u64 {
        let counted = self.control.inbox.named(self.key).map_or(0, |(entry, _)| entry.counted);
        self.head.operations.saturating_add(self.head.late.into()).saturating_sub(counted)
    }

    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length in bytes, not a collection")]
    pub const fn len(&self) -> usize {
        self.head.len as usize
    }

    /// Parts of the message in their order, each in a receive buffer.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let room = self.control.inbox.layout.message as usize - HEADER;
        let list = self.control.inbox.named(self.key).map_or(List::EMPTY, |(entry, _)| entry.fragments);
        let slips = &self.control.slips;
        (0..fragments(self.len(), room)).filter_map(move |number| {
            let of = |index| Header::decode(slips.get(index)?.bytes());
            let (_, body) = slips.iter(list).filter_map(of).find(|(head, _)| usize::from(head.fragment) == number)?;
            Some(body)
        })
    }

    /// Copies the message to the start of `out`, and returns that part. Returns `None` if `out` is
    /// too short.
    pub fn copy_to<'o>(&self, out: &'o mut [u8]) -> Option<&'o mut [u8]> {
        let out = out.get_mut(..self.len())?;
        let mut at = 0;
        for chunk in self.chunks() {
            out.get_mut(at..at + chunk.len())?.copy_from_slice(chunk);
            at += chunk.len();
        }
        Some(out)
    }

    /// Keeps the notification, to look again at [`late_writes`](Self::late_writes).
    pub fn keep(mut self) {
        self.keeps = true;
    }
}

impl<T: Transport, A: Allocator> Drop for Notification<'_, '_, T, A> {
    fn drop(&mut self) {
        let Control { inbox, slips, unposted, .. } = &mut *self.control;
        let entry = inbox.entries.get_mut(self.key.index as usize).filter(|_| !self.keeps);
        let Some(entry) = entry else { return };
        slips.append(unposted, entry.fragments);
        let generation = entry.generation;
        *entry = Entry {
            generation,
            counted: 0,
            head: None,
            seen: 0,
            fragments: List::EMPTY,
            complete: false,
            released: true,
        };
        inbox.released += 1;
    }
}

impl<T: Transport, A: Allocator> fmt::Debug for Notification<'_, '_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("peer", &self.peer())
            .field("len", &self.len())
            .field("ending", &self.ending())
            .finish_non_exhaustive()
    }
}
