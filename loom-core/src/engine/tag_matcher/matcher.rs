//! [`TagMatcher`]: the matcher with places and memory of its own.

#![allow(unsafe_code, reason = "lays tables out in memory of the allocator")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::index::{Index, Line, Link, NONE};
use super::posted::{Pattern, Posted, PostedReceives};
use super::table::Table;
use super::unexpected::{Memory, UnexpectedMessages, View, Waiting, views_shift};
use super::{Envelope, Want};
use crate::error::OpenError;
use crate::storage::{Block, array, extend};

/// How large a matcher is. All of its memory is taken when it is made.
///
/// ```
/// use loom_core::engine::tag_matcher::TagMatcherAttr;
///
/// // For few receives, and no masks. The seed is not one that peers can guess.
/// # let random = 4711;
/// let attr = TagMatcherAttr { receives: 16, messages: 16, masks: 0, seed: random };
/// // What the allocator has to have.
/// assert!(attr.layout()?.size() < TagMatcherAttr::DEFAULT.layout()?.size() / 16);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagMatcherAttr {
    /// How many receives can be posted at a time.
    pub receives: u32,
    /// How many messages can wait at a time.
    pub messages: u32,
    /// For how many masks at least an index of the messages that wait is kept: bits that receives ignore, with or without
    /// source. Up to [`MAX_MASKS`](Self::MAX_MASKS).
    pub masks: u32,
    /// The seed of the hash function. Peers that do not know it cannot choose tags that collide.
    pub seed: u64,
}

impl TagMatcherAttr {
    /// 1024 receives, 1024 messages, six masks, and a seed that is the same for all.
    pub const DEFAULT: TagMatcherAttr = TagMatcherAttr { receives: 1024, messages: 1024, masks: 6, seed: 0 };

    /// The most masks.
    pub const MAX_MASKS: u32 = 254;

    /// The memory that a matcher takes from its allocator, in one block.
    ///
    /// # Errors
    /// [`OpenError::Size`] if a number is zero (that of the masks may be), or too large.
    pub fn layout(&self) -> Result<Layout, OpenError> {
        Ok(self.offsets()?.layout)
    }

    fn offsets(&self) -> Result<Offsets, OpenError> {
        if self.receives == 0 || self.messages == 0 || self.masks > Self::MAX_MASKS {
            return Err(OpenError::Size);
        }
        let shift = views_shift(self.masks);
        // Numbers of nodes are below `NONE`. (Those of receives are: they would need more lines than there can be.)
        let links = self.messages.checked_mul(1 << shift).filter(|links| *links < NONE).ok_or(OpenError::Size)?;
        let (posted, waiting) = (posted_lines(self.receives)?, waiting_lines(self.messages)?);
        let (layout, pattern) =
            extend(array::<Posted>(self.receives as usize)?, array::<Pattern>(self.receives as usize)?)?;
        let (layout, message) = extend(layout, array::<Waiting>(self.messages as usize)?)?;
        let (layout, view) = extend(layout, array::<Cell<View>>(1 << shift)?)?;
        let (layout, link) = extend(layout, array::<Link>(links as usize)?)?;
        let (layout, line) = extend(layout, array::<Line>(posted as usize + waiting as usize)?)?;
        let (layout, own) = extend(layout, array::<Own>(self.receives as usize + self.messages as usize)?)?;
        Ok(Offsets { layout, pattern, message, view, link, links, line, posted, waiting, own, shift })
    }
}

impl Default for TagMatcherAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How many lines of buckets the receives are looked up in: enough that few receives share a bucket.
pub(crate) fn posted_lines(receives: u32) -> Result<u32, OpenError> {
    lines(receives, 8)
}

/// The same of messages, which are in two indices at least.
pub(crate) fn waiting_lines(messages: u32) -> Result<u32, OpenError> {
    lines(messages, 16)
}

fn lines(nodes: u32, buckets: u32) -> Result<u32, OpenError> {
    let buckets = nodes.checked_mul(buckets).and_then(u32::checked_next_power_of_two).ok_or(OpenError::Size)?;
    Ok((buckets / Line::BUCKETS).max(4))
}

/// What is where in the block.
struct Offsets {
    layout: Layout,
    pattern: usize,
    message: usize,
    view: usize,
    link: usize,
    links: u32,
    line: usize,
    posted: u32,
    waiting: u32,
    own: usize,
    shift: u32,
}

/// What the matcher keeps of a place besides.
#[derive(Debug)]
struct Own {
    /// Odd while the place is taken.
    generation: Cell<u32>,
    /// The next free place.
    next: Cell<u32>,
}

/// A place in the matcher, and what tells what is in it from what is there before and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NodeKey {
    index: u32,
    generation: u32,
}

/// A posted receive of this matcher. Plain data; when the receive was removed, it names nothing any more, until its place was used
/// 2 to the power of 31 times.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::tag_matcher::{TagMatcher, TagMatcherAttr, Want};
/// use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
///
/// let mut matcher = TagMatcher::new(TagMatcherAttr::DEFAULT)?;
/// let want = Want { tag: TagMatch::exact(Tag(7)), source: FabricAddr::UNSPEC };
/// let receive = matcher.post(want)?;
/// // A cancel. The second one finds nothing.
/// assert_eq!(matcher.remove_receive(receive), Some(want));
/// assert_eq!(matcher.remove_receive(receive), None);
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiveId(NodeKey);

/// A message that waits in this matcher. Plain data; when the message was removed, it names nothing any more, until its place was
/// used 2 to the power of 31 times.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want};
/// use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
///
/// let mut matcher = TagMatcher::new(TagMatcherAttr::DEFAULT)?;
/// let message = Envelope { tag: Tag(7), source: FabricAddr(3) };
/// let id = matcher.keep(message)?;
/// // A peek leaves the message where it is.
/// let want = Want { tag: TagMatch::exact(Tag(7)), source: FabricAddr::UNSPEC };
/// assert_eq!(matcher.message_for(&want), Some(id));
/// // A claim takes the message out: no later receive finds it.
/// assert_eq!(matcher.remove_message(id), Some(message));
/// assert_eq!((matcher.message_for(&want), matcher.remove_message(id)), (None, None));
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(NodeKey);

impl ReceiveId {
    /// The number of its place, below [`TagMatcherAttr::receives`]: for an array of what goes with it.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }
}

impl MessageId {
    /// The number of its place, below [`TagMatcherAttr::messages`]: for an array of what goes with it.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }
}

/// Every place is taken.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::tag_matcher::{Full, TagMatcher, TagMatcherAttr, Want};
/// use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
///
/// let mut matcher = TagMatcher::new(TagMatcherAttr { receives: 1, ..TagMatcherAttr::DEFAULT })?;
/// let want = Want { tag: TagMatch::exact(Tag(7)), source: FabricAddr::UNSPEC };
/// let posted = matcher.post(want)?;
/// assert_eq!(matcher.post(want), Err(Full));
/// // There is room again when a receive has its message.
/// matcher.remove_receive(posted);
/// assert!(matcher.post(want).is_ok());
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every place of the tag matcher is taken")
    }
}

impl core::error::Error for Full {}

/// Places that are taken and given back.
#[derive(Debug)]
struct Places {
    own: Table<Own>,
    free: u32,
    taken: u32,
}

impl Places {
    fn take(&mut self) -> Result<NodeKey, Full> {
        let index = self.free;
        if index == NONE {
            return Err(Full);
        }
        let own = self.own.at(index);
        own.generation.set(own.generation.get().wrapping_add(1));
        self.free = own.next.get();
        self.taken += 1;
        Ok(NodeKey { index, generation: own.generation.get() })
    }

    fn has(&self, place: NodeKey) -> bool {
        place.index < self.own.len() && self.own.at(place.index).generation.get() == place.generation
    }

    fn give_back(&mut self, place: NodeKey) {
        let own = self.own.at(place.index);
        own.generation.set(own.generation.get().wrapping_add(1));
        own.next.set(self.free);
        self.free = place.index;
        self.taken -= 1;
    }

    /// The place of this number, which is taken.
    fn named(&self, index: u32) -> NodeKey {
        NodeKey { index, generation: self.own.at(index).generation.get() }
    }
}

/// Posted receives and messages that wait for one, and which go together. See the [module](super).
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want};
/// use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
///
/// let mut matcher = TagMatcher::new(TagMatcherAttr::DEFAULT)?;
/// // A message arrives before its receive.
/// let message = Envelope { tag: Tag(7), source: FabricAddr(3) };
/// assert_eq!(matcher.receive_for(&message), None);
/// let waits = matcher.keep(message)?;
/// // A receive takes the message if it waits. Otherwise the receive is posted.
/// let want = Want { tag: TagMatch::any(), source: FabricAddr(3) };
/// match matcher.message_for(&want) {
///     Some(id) => assert_eq!((id, matcher.remove_message(id)), (waits, Some(message))),
///     None => _ = matcher.post(want)?,
/// }
/// assert_eq!((matcher.waiting(), matcher.posted()), (0, 0));
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct TagMatcher<A: Allocator> {
    attr: TagMatcherAttr,
    posted: PostedReceives,
    receives: Places,
    unexpected: UnexpectedMessages,
    messages: Places,
    block: Block<A>,
}

// SAFETY: the tables lie in the matcher's own block, and what changes them takes the matcher as a whole; nothing depends on
// the thread but the allocator.
unsafe impl<A: Allocator + Send> Send for TagMatcher<A> {}

impl<A: Allocator> TagMatcher<A> {
    /// Makes a matcher in memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if a number is zero (that of the masks may be), or too large
    /// - [`OpenError::OutOfMemory`] if the allocator has no room
    pub fn new_in(attr: TagMatcherAttr, alloc: A) -> Result<Self, OpenError> {
        let offsets = attr.offsets()?;
        let block = Block::new(offsets.layout, alloc)?;
        let at = |offset: usize| {
            // SAFETY: the offset is one of the block's own layout.
            unsafe { block.ptr().add(offset) }
        };
        // SAFETY: the offsets are those of arrays of these lengths, and aligned for them. The block stays while the matcher does,
        // which is used by one thread at a time; numbers come from its own lists, or have been compared with the length.
        let places = unsafe { fill(at(0), attr.receives, |_| Posted::new()) };
        // SAFETY: as above.
        let patterns =
            unsafe { fill(at(offsets.pattern), attr.receives, |number| Pattern::before(number + 1, attr.receives)) };
        // SAFETY: as above.
        let waiting = unsafe { fill(at(offsets.message), attr.messages, |_| Waiting::new()) };
        // SAFETY: as above.
        let views = unsafe { fill(at(offsets.view), 1 << offsets.shift, |_| Cell::new(UnexpectedMessages::NO_VIEW)) };
        // SAFETY: as above.
        let links = unsafe { fill(at(offsets.link), offsets.links, |_| Link::new()) };
        // SAFETY: as above.
        let lines = unsafe { fill(at(offsets.line), offsets.posted, |_| Line::new()) };
        // SAFETY: as above.
        let waiting_lines = unsafe {
            fill(at(offsets.line + offsets.posted as usize * size_of::<Line>()), offsets.waiting, |_| Line::new())
        };
        // SAFETY: as above.
        let own = unsafe { fill(at(offsets.own), attr.receives, |number| Own::before(number + 1, attr.receives)) };
        // SAFETY: as above.
        let own_of_messages = unsafe {
            fill(at(offsets.own + attr.receives as usize * size_of::<Own>()), attr.messages, |number| {
                Own::before(number + 1, attr.messages)
            })
        };
        let memory = Memory { places: waiting, links, views };
        Ok(TagMatcher {
            attr,
            posted: PostedReceives::new(places, patterns, Index::new(lines, attr.seed)),
            receives: Places { own, free: 0, taken: 0 },
            unexpected: UnexpectedMessages::new(memory, Index::new(waiting_lines, attr.seed), true),
            messages: Places { own: own_of_messages, free: 0, taken: 0 },
            block,
        })
    }

    /// The attributes that it was made with.
    #[must_use]
    pub fn attr(&self) -> &TagMatcherAttr {
        &self.attr
    }

    /// Posts a receive, behind those that are posted. It takes no message that waits: [`message_for`](Self::message_for) comes first.
    ///
    /// # Errors
    /// [`Full`] if as many are posted as there are places.
    pub fn post(&mut self, want: Want) -> Result<ReceiveId, Full> {
        let place = self.receives.take()?;
        self.posted.post(place.index, want);
        Ok(ReceiveId(place))
    }

    /// The oldest posted receive that accepts a message. It stays posted.
    #[must_use]
    pub fn receive_for(&self, envelope: &Envelope) -> Option<ReceiveId> {
        self.posted.find(*envelope).map(|index| ReceiveId(self.receives.named(index)))
    }

    /// Takes a posted receive out, because it has its message or is cancelled; returns what it wanted, with the bits of the tag
    /// clear that it ignores. `None` if it is not posted (any more).
    pub fn remove_receive(&mut self, ReceiveId(receive): ReceiveId) -> Option<Want> {
        if !self.receives.has(receive) {
            return None;
        }
        let want = self.posted.want(receive.index);
        self.posted.remove(receive.index);
        self.receives.give_back(receive);
        Some(want)
    }

    /// How many receives are posted.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.receives.taken as usize
    }

    /// Keeps a message that no posted receive accepts, behind those that are kept.
    ///
    /// # Errors
    /// [`Full`] if as many wait as there are places.
    pub fn keep(&mut self, envelope: Envelope) -> Result<MessageId, Full> {
        let place = self.messages.take()?;
        self.unexpected.keep(place.index, envelope);
        Ok(MessageId(place))
    }

    /// The oldest message that a receive accepts. It goes on waiting.
    #[must_use]
    pub fn message_for(&self, want: &Want) -> Option<MessageId> {
        self.unexpected.find(want).map(|index| MessageId(self.messages.named(index)))
    }

    /// Takes a message out; returns what it was matched by. `None` if it does not wait (any more).
    pub fn remove_message(&mut self, MessageId(message): MessageId) -> Option<Envelope> {
        if !self.messages.has(message) {
            return None;
        }
        let envelope = self.unexpected.envelope(message.index);
        self.unexpected.remove(message.index);
        self.messages.give_back(message);
        Some(envelope)
    }

    /// How many messages wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.messages.taken as usize
    }

    /// The messages that wait, oldest first.
    pub fn messages(&self) -> Messages<'_, A> {
        Messages { matcher: self, next: self.unexpected.first() }
    }
}

#[cfg(feature = "std")]
impl TagMatcher<allocator_api2::alloc::Global> {
    /// Makes a matcher with the global allocator.
    ///
    /// # Errors
    /// As [`TagMatcher::new_in`].
    pub fn new(attr: TagMatcherAttr) -> Result<Self, OpenError> {
        TagMatcher::new_in(attr, allocator_api2::alloc::Global)
    }
}

impl<A: Allocator> fmt::Debug for TagMatcher<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagMatcher")
            .field("attr", &self.attr)
            .field("posted", &self.posted())
            .field("waiting", &self.waiting())
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

/// The messages that wait, oldest first: [`TagMatcher::messages`].
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr};
/// use loom_core::vocabulary::{FabricAddr, Tag};
///
/// let mut matcher = TagMatcher::new(TagMatcherAttr::DEFAULT)?;
/// for (tag, source) in [(7, 3), (8, 4), (9, 3)] {
///     matcher.keep(Envelope { tag: Tag(tag), source: FabricAddr(source) })?;
/// }
/// // What waits of a peer that is gone, oldest first.
/// let of_peer = matcher.messages().filter(|(_, message)| message.source == FabricAddr(3));
/// let gone: Vec<_> = of_peer.map(|(id, _)| id).collect();
/// let tags = gone.into_iter().filter_map(|id| matcher.remove_message(id)).map(|message| message.tag);
/// assert!(tags.eq([Tag(7), Tag(9)]));
/// assert_eq!(matcher.waiting(), 1);
/// # }
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Messages<'m, A: Allocator> {
    matcher: &'m TagMatcher<A>,
    next: Option<u32>,
}

impl<A: Allocator> Iterator for Messages<'_, A> {
    type Item = (MessageId, Envelope);

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next?;
        self.next = self.matcher.unexpected.after(index);
        Some((MessageId(self.matcher.messages.named(index)), self.matcher.unexpected.envelope(index)))
    }
}

impl Own {
    /// Of a free place, before this one, if there is one.
    fn before(next: u32, places: u32) -> Self {
        Own { generation: Cell::new(0), next: Cell::new(if next == places { NONE } else { next }) }
    }
}

/// Writes a table.
///
/// # Safety
/// There is room for `len` values, aligned for them; and see [`Table::new`].
pub(crate) unsafe fn fill<V>(at: NonNull<u8>, len: u32, value: impl Fn(u32) -> V) -> Table<V> {
    let first = at.cast::<V>();
    for number in 0..len {
        // SAFETY: the caller's promise.
        let place = unsafe { first.add(number as usize) };
        // SAFETY: as above.
        unsafe { place.write(value(number)) };
    }
    // SAFETY: as above; all of them are written.
    unsafe { Table::new(first, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_receive_and_message_has_as_many_buckets_as_it_needs() {
        let buckets = |lines: Result<u32, OpenError>| lines.map(|lines| lines * Line::BUCKETS);
        assert_eq!((buckets(posted_lines(1024)), buckets(waiting_lines(1024))), (Ok(8 * 1024), Ok(16 * 1024)));
        assert_eq!((buckets(posted_lines(1025)), buckets(posted_lines(1))), (Ok(16 * 1024), Ok(64)));
        assert_eq!((posted_lines(1 << 29), waiting_lines(1 << 28)), (Err(OpenError::Size), Err(OpenError::Size)));
    }
}
