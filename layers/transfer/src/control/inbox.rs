//! [`Inbox`]: notifications of peers, and counts of the writes that come before them.

use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::Transport;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use super::message_buffer::{List, MessageBuffers};
use super::wire::{HEADER, Header, Kind, NotificationHead};
use super::{Control, Layout};
use crate::event::Ending;
use crate::link::Number;
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
    /// Sender and head, once a fragment has arrived.
    head: Option<(PeerKey, NotificationHead)>,
    /// Bit for each fragment that has arrived.
    seen: u64,
    fragments: List,
    /// Reported, or in the queue.
    complete: bool,
    /// Released with so many fragments, which the peer has not learned of.
    released: u32,
}

/// Numbers and fragments that a peer has used of its grant.
#[derive(Clone, Copy)]
struct Used {
    numbers: u32,
    fragments: u32,
    /// Released numbers, which the peer has not learned of.
    released: u32,
    is_due: bool,
    waits: bool,
}

impl Used {
    const NOTHING: Used = Used { numbers: 0, fragments: 0, released: 0, is_due: false, waits: false };
}

pub(crate) struct Inbox<A: Allocator> {
    entries: Array<Entry, A>,
    complete: Queue<A>,
    layout: Layout,
    used: Array<Used, A>,
    pub(super) due: usize,
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
            released: 0,
        };
        let used = Array::new_in(peers, alloc.clone(), |_| Used::NOTHING)?;
        let entries = Array::new_in(count, alloc.clone(), entry)?;
        Ok(Inbox { entries, complete: Queue::new(count, alloc.clone())?, layout, used, due: 0 })
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
    pub(crate) fn reset<T: Transport>(
        &mut self,
        peer: u32,
        now: u64,
        buffers: &mut MessageBuffers<'_, T, A>,
    ) -> (u32, List) {
        let mut fragments = List::EMPTY;
        let Some(first) = self.at(peer, 0) else { return (0, fragments) };
        let entries = self.entries.get_mut(first..).unwrap_or_default();
        let entries = &mut entries[..usize::from(self.layout.notifications)];
        #[expect(clippy::cast_possible_truncation, reason = "any number is right")]
        let clock = (now >> 1) as u32 >> 1 | 1;
        let newest = entries.iter().map(|entry| entry.generation).max().unwrap_or(0);
        let epoch = if newest == 0 { clock } else { newest.wrapping_add(1) };
        for entry in entries {
            buffers.append(&mut fragments, entry.fragments);
            *entry = Entry {
                generation: epoch,
                counted: 0,
                head: None,
                seen: 0,
                fragments: List::EMPTY,
                complete: false,
                released: 0,
            };
        }
        if let Some(used) = self.used.get_mut(peer as usize) {
            self.due -= usize::from(core::mem::replace(used, Used::NOTHING).is_due);
        }
        (epoch, fragments)
    }

    pub(crate) fn count(&mut self, index: u64, generation: u64, mask: u32) -> bool {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(entry) = self.entries.get_mut(at) else { return false };
        if u64::from(entry.generation & mask) != generation || entry.released > 0 {
            return false;
        }
        let counted = entry.counted;
        if entry.head.is_some_and(|(_, head)| head.ending.decode() == Ending::Done && counted >= head.operations) {
            return false;
        }
        let is_first = entry.counted == 0 && entry.head.is_none();
        entry.counted += 1;
        if is_first {
            self.note_number(index);
        }
        self.complete(at);
        true
    }

    pub(super) fn fragment<T: Transport>(
        &mut self,
        header: Header,
        body: usize,
        buffer: u32,
        buffers: &mut MessageBuffers<'_, T, A>,
    ) -> bool {
        let Header { to: peer, kind: Kind::Notify { number, fragment, head } } = header else { return false };
        let room = self.layout.message as usize - HEADER;
        let (len, fragment) = (head.len as usize, usize::from(fragment));
        let count = fragments(len, room);
        let expected = len.saturating_sub(fragment * room).min(room);
        if fragment >= count || count > usize::from(self.layout.fragments) || body != expected {
            return false;
        }
        let Some(at) = self.at(peer.index, number.index) else { return false };
        let Some(used) = self.used.get_mut(peer.index as usize) else { return false };
        // A peer beyond its credit would take the receives of others.
        if used.fragments >= self.layout.fragments.into() {
            return false;
        }
        let Some(entry) = self.entries.get_mut(at) else { return false };
        let is_next = entry.generation == number.generation && entry.released == 0 && entry.seen & 1 << fragment == 0;
        let is_first = entry.counted == 0 && entry.head.is_none();
        if !is_next || *entry.head.get_or_insert((peer, head)) != (peer, head) {
            return false;
        }
        used.numbers += u32::from(is_first);
        used.fragments += 1;
        entry.seen |= 1 << fragment;
        buffers.push(&mut entry.fragments, buffer);
        self.complete(at);
        self.review(peer.index);
        true
    }

    fn complete(&mut self, at: usize) {
        let room = self.layout.message as usize - HEADER;
        let Some(entry) = self.entries.get_mut(at).filter(|entry| !entry.complete) else { return };
        let Some((_, head)) = entry.head else { return };
        let all = entry.fragments.len() as usize == fragments(head.len as usize, room);
        let fails = head.ending.decode() != Ending::Done;
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

    fn named(&self, key: NotificationKey) -> Option<(&Entry, (PeerKey, NotificationHead))> {
        let entry = self.entries.get(key.index as usize)?;
        let head = entry.head.filter(|_| entry.complete && entry.generation == key.generation)?;
        Some((entry, head))
    }

    /// Released numbers are due if the peer waits, or has used half of its grant: one message has
    /// several of them.
    fn review(&mut self, peer: u32) {
        let Layout { notifications, fragments, .. } = self.layout;
        let Some(used) = self.used.get_mut(peer as usize) else { return };
        let half = 2 * used.numbers >= notifications.into() || 2 * used.fragments >= fragments.into();
        if (half || used.waits) && used.released > 0 && !used.is_due {
            used.is_due = true;
            self.due += 1;
        }
    }

    /// The transfer of a notification whose first write has arrived may take long: the peer may
    /// soon need the other numbers.
    fn note_number(&mut self, index: u64) {
        let Some(peer) = self.peer_of(index) else { return };
        if let Some(used) = self.used.get_mut(peer as usize) {
            used.numbers += 1;
        }
        self.review(peer);
    }

    pub(crate) fn note_wait(&mut self, peer: u32) {
        if let Some(used) = self.used.get_mut(peer as usize) {
            used.waits = true;
        }
        self.review(peer);
    }

    pub(super) fn next_due(&self, from: &mut usize) -> Option<u32> {
        let at = *from + self.used.get(*from..)?.iter().position(|used| used.is_due)?;
        *from = at + 1;
        u32::try_from(at).ok()
    }

    pub(super) fn take_released(&mut self, peer: u32) -> Option<Number> {
        let first = self.at(peer, 0)?;
        let used = self.used.get_mut(peer as usize)?;
        let entries = self.entries.get_mut(first..)?.iter_mut().zip(0..self.layout.notifications);
        let found = entries.map(|(entry, number)| (number, entry)).find(|(_, entry)| entry.released > 0);
        let Some((number, entry)) = found else {
            self.due -= usize::from(core::mem::take(&mut used.is_due));
            used.waits = false;
            return None;
        };
        used.numbers -= 1;
        used.released -= 1;
        used.fragments -= core::mem::take(&mut entry.released);
        let generation = entry.generation;
        entry.generation = generation.wrapping_add(1);
        Some(Number { index: number.into(), generation })
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
    peer: PeerKey,
    head: NotificationHead,
    keeps: bool,
}

impl<'e, 'm, T: Transport, A: Allocator> Notification<'e, 'm, T, A> {
    pub(crate) fn new(control: &'e mut Control<'m, T, A>, key: NotificationKey) -> Option<Self> {
        let (_, (peer, head)) = control.inbox.named(key)?;
        Some(Notification { control, key, peer, head, keeps: false })
    }

    /// Sender.
    #[must_use]
    pub const fn peer(&self) -> PeerKey {
        self.peer
    }

    /// End of the transfer: [`Ending::Done`] if all writes have arrived. Errors are numbers of the
    /// sender's system.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.head.ending.decode()
    }

    /// Number of writes in flight or failed that may still arrive. Use the memory for other data
    /// when it is 0, or after closing the region where that is a fence. A failed write may never
    /// arrive.
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
        let buffers = &self.control.buffers;
        (0..fragments(self.len(), room)).filter_map(move |number| {
            buffers.iter(list).find_map(|index| match Header::decode(buffers.get(index)?.bytes())? {
                (Header { kind: Kind::Notify { fragment, .. }, .. }, body) if usize::from(fragment) == number => {
                    Some(body)
                }
                _ => None,
            })
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
        let Control { inbox, buffers, unposted, .. } = &mut *self.control;
        let entry = inbox.entries.get_mut(self.key.index as usize).filter(|_| !self.keeps);
        let Some(entry) = entry else { return };
        let (generation, released) = (entry.generation, entry.fragments.len());
        buffers.append(unposted, entry.fragments);
        *entry =
            Entry { generation, counted: 0, head: None, seen: 0, fragments: List::EMPTY, complete: false, released };
        let peer = self.peer.index;
        if let Some(used) = inbox.used.get_mut(peer as usize) {
            used.released += 1;
        }
        inbox.review(peer);
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
