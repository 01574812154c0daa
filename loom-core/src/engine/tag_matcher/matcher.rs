//! [`TagMatcher`]: both halves of a matcher in one block. A transport may place them in its own memory.

#![allow(unsafe_code, reason = "lays tables out in memory of the allocator")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::index::{Index, Line, Link};
use super::posted_receives::{Pattern, Posted, PostedReceives};
use super::table::Table;
use super::unexpected_messages::{Memory, UnexpectedMessages, View, Waiting, views_shift};
use super::{Envelope, Want};
use crate::error::OpenError;
use crate::storage::{Block, Part};
use crate::util::debug::debug_struct;
use crate::util::index_list::NONE;

/// Size of a matcher.
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
    /// Maximum number of posted receives.
    pub receives: u32,
    /// Maximum number of waiting messages.
    pub messages: u32,
    /// Minimum number of masks (ignored bits, with or without source) with an index of the
    /// messages. At most [`MAX_MASKS`](Self::MAX_MASKS).
    pub masks: u32,
    /// Seed of the hash function. Peers without it cannot choose tags that collide.
    pub seed: u64,
}

impl TagMatcherAttr {
    /// 1024 receives, 1024 messages, 6 masks, and a fixed seed.
    pub const DEFAULT: TagMatcherAttr = TagMatcherAttr { receives: 1024, messages: 1024, masks: 6, seed: 0 };

    /// Maximum number of masks.
    pub const MAX_MASKS: u32 = 254;

    /// Layout of the one block that a matcher allocates.
    ///
    /// # Errors
    /// [`OpenError::Size`] if a number other than `masks` is zero, or a number is too large.
    pub fn layout(&self) -> Result<Layout, OpenError> {
        Ok(self.plan()?.layout)
    }

    fn plan(&self) -> Result<Plan, OpenError> {
        if self.receives == 0 || self.messages == 0 || self.masks > Self::MAX_MASKS {
            return Err(OpenError::Size);
        }
        let views = 1 << views_shift(self.masks);
        // Node numbers are below `NONE`.
        let links = self.messages.checked_mul(views).filter(|links| *links < NONE).ok_or(OpenError::Size)?;
        let (posted, waiting) = (posted_lines(self.receives)?, waiting_lines(self.messages)?);
        let (receives, messages) = (self.receives as usize, self.messages as usize);
        let mut layout = Layout::new::<()>();
        Ok(Plan {
            posted: Part::of(&mut layout, receives)?,
            patterns: Part::of(&mut layout, receives)?,
            waiting: Part::of(&mut layout, messages)?,
            views: Part::of(&mut layout, views as usize)?,
            links: Part::of(&mut layout, links as usize)?,
            posted_lines: Part::of(&mut layout, posted as usize)?,
            waiting_lines: Part::of(&mut layout, waiting as usize)?,
            receives: Part::of(&mut layout, receives)?,
            messages: Part::of(&mut layout, messages)?,
            layout,
        })
    }
}

pub(crate) fn posted_lines(receives: u32) -> Result<u32, OpenError> {
    lines(receives, 8)
}

pub(crate) fn waiting_lines(messages: u32) -> Result<u32, OpenError> {
    lines(messages, 16)
}

fn lines(nodes: u32, buckets: u32) -> Result<u32, OpenError> {
    let buckets = nodes.checked_mul(buckets).and_then(u32::checked_next_power_of_two).ok_or(OpenError::Size)?;
    Ok((buckets / Line::BUCKETS).max(4))
}

struct Plan {
    posted: Part<Posted>,
    patterns: Part<Pattern>,
    waiting: Part<Waiting>,
    views: Part<Cell<View>>,
    links: Part<Link>,
    posted_lines: Part<Line>,
    waiting_lines: Part<Line>,
    receives: Part<Own>,
    messages: Part<Own>,
    layout: Layout,
}

#[derive(Debug)]
struct Own {
    /// Odd while the slot is in use.
    generation: Cell<u32>,
    next: Cell<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NodeKey {
    index: u32,
    generation: u32,
}

/// Posted receive. Unknown after the removal until its slot was used 2^31 times.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Tag, TagMatch};
/// use loom_core::{engine::tag_matcher::{TagMatcher, TagMatcherAttr, Want}, vocabulary::FabricAddr};
///
/// let mut matcher = TagMatcher::new_in(TagMatcherAttr::DEFAULT, Global)?;
/// let want = Want { tag: TagMatch::exact(Tag(7)), source: FabricAddr::UNSPEC };
/// let receive = matcher.post(want).expect("a slot is free");
/// // A cancel. The second one finds nothing.
/// assert_eq!(matcher.remove_receive(receive), Some(want));
/// assert_eq!(matcher.remove_receive(receive), None);
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiveId(NodeKey);

/// Waiting message, valid like a [`ReceiveId`].
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Tag, TagMatch};
/// use loom_core::{engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want}, vocabulary::FabricAddr};
///
/// let mut matcher = TagMatcher::new_in(TagMatcherAttr::DEFAULT, Global)?;
/// let message = Envelope { tag: Tag(7), source: FabricAddr(3) };
/// let id = matcher.keep(message).expect("a slot is free");
/// // A peek leaves the message where it is.
/// let want = Want { tag: TagMatch::exact(Tag(7)), source: FabricAddr::UNSPEC };
/// assert_eq!(matcher.message_for(&want), Some(id));
/// // No later receive finds a claimed message.
/// assert!(matcher.claim_message(id) && !matcher.claim_message(id));
/// assert_eq!((matcher.message_for(&want), matcher.waiting()), (None, 1));
/// assert_eq!(matcher.remove_message(id), Some(message));
/// assert_eq!((matcher.remove_message(id), matcher.claim_message(id)), (None, false));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(NodeKey);

impl ReceiveId {
    /// Slot index, below [`TagMatcherAttr::receives`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }
}

impl MessageId {
    /// Slot index, below [`TagMatcherAttr::messages`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.index as usize
    }
}

#[derive(Debug)]
struct Places {
    own: Table<Own>,
    free: u32,
    taken: u32,
}

impl Places {
    fn take(&mut self) -> Option<NodeKey> {
        let index = self.free;
        if index == NONE {
            return None;
        }
        let own = self.own.at(index);
        own.generation.set(own.generation.get().wrapping_add(1));
        self.free = own.next.get();
        self.taken += 1;
        Some(NodeKey { index, generation: own.generation.get() })
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

    /// Links a place in use to itself, which others never are.
    fn claim(&self, place: NodeKey) {
        self.own.at(place.index).next.set(place.index);
    }

    fn is_claimed(&self, place: NodeKey) -> bool {
        self.own.at(place.index).next.get() == place.index
    }

    fn named(&self, index: u32) -> NodeKey {
        NodeKey { index, generation: self.own.at(index).generation.get() }
    }
}

/// Matcher of posted receives and waiting messages. See the [module](super).
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Tag, TagMatch};
/// use loom_core::{engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want}, vocabulary::FabricAddr};
///
/// let mut matcher = TagMatcher::new_in(TagMatcherAttr::DEFAULT, Global)?;
/// // A message arrives before its receive.
/// let message = Envelope { tag: Tag(7), source: FabricAddr(3) };
/// assert_eq!(matcher.receive_for(&message), None);
/// let waits = matcher.keep(message).expect("a slot is free");
/// // A receive takes the message. Without a message, `TagMatcher::post` would keep the receive.
/// let want = Want { tag: TagMatch::ANY, source: FabricAddr(3) };
/// assert_eq!(matcher.message_for(&want), Some(waits));
/// assert_eq!(matcher.remove_message(waits), Some(message));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
pub struct TagMatcher<A: Allocator> {
    posted: PostedReceives,
    receives: Places,
    unexpected: UnexpectedMessages,
    messages: Places,
    block: Block<A>,
}

// SAFETY: the tables lie in the matcher's own block, and all changes take `&mut` of the matcher.
// Only the allocator depends on the thread.
unsafe impl<A: Allocator + Send> Send for TagMatcher<A> {}

impl<A: Allocator> TagMatcher<A> {
    /// Makes a matcher in memory of `alloc`.
    ///
    /// # Errors
    /// Those of [`TagMatcherAttr::layout`], and [`OpenError::OutOfMemory`].
    pub fn new_in(attr: TagMatcherAttr, alloc: A) -> Result<Self, OpenError> {
        let plan = attr.plan()?;
        let block = Block::new(plan.layout, alloc)?;
        // SAFETY: the block has the plan's layout. For all tables, the block lives as long as the
        // matcher, which one thread uses at a time, and numbers come from its own lists or were
        // compared with the length.
        let posted = unsafe { table(&plan.posted, block.ptr(), |_| Posted::new()) };
        // SAFETY: the plan has this part.
        let patterns =
            unsafe { table(&plan.patterns, block.ptr(), |number| Pattern::before(number + 1, attr.receives)) };
        // SAFETY: the plan has this part.
        let waiting = unsafe { table(&plan.waiting, block.ptr(), |_| Waiting::new()) };
        // SAFETY: the plan has this part.
        let views = unsafe { table(&plan.views, block.ptr(), |_| Cell::new(UnexpectedMessages::NO_VIEW)) };
        // SAFETY: the plan has this part.
        let links = unsafe { table(&plan.links, block.ptr(), |_| Link::new()) };
        // SAFETY: the plan has this part.
        let posted_lines = unsafe { table(&plan.posted_lines, block.ptr(), |_| Line::new()) };
        // SAFETY: the plan has this part.
        let waiting_lines = unsafe { table(&plan.waiting_lines, block.ptr(), |_| Line::new()) };
        // SAFETY: the plan has this part.
        let own_receives =
            unsafe { table(&plan.receives, block.ptr(), |number| Own::before(number + 1, attr.receives)) };
        // SAFETY: the plan has this part.
        let own_messages =
            unsafe { table(&plan.messages, block.ptr(), |number| Own::before(number + 1, attr.messages)) };
        let memory = Memory { places: waiting, links, views };
        Ok(TagMatcher {
            posted: PostedReceives::new(posted, patterns, Index::new(posted_lines, attr.seed)),
            receives: Places { own: own_receives, free: 0, taken: 0 },
            unexpected: UnexpectedMessages::new(memory, Index::new(waiting_lines, attr.seed), true),
            messages: Places { own: own_messages, free: 0, taken: 0 },
            block,
        })
    }

    /// Posts a receive behind the others. Returns `None` if every slot is in use.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::{Tag, TagMatch};
    /// use loom_core::{engine::tag_matcher::{TagMatcher, TagMatcherAttr, Want}, vocabulary::FabricAddr};
    ///
    /// let mut matcher = TagMatcher::new_in(TagMatcherAttr { receives: 1, ..TagMatcherAttr::DEFAULT }, Global)?;
    /// let want = Want { tag: TagMatch::exact(Tag(7)), source: FabricAddr::UNSPEC };
    /// let posted = matcher.post(want).expect("a slot is free");
    /// assert_eq!(matcher.post(want), None);
    /// // There is room again when a receive has its message.
    /// matcher.remove_receive(posted);
    /// assert!(matcher.post(want).is_some());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use = "a receive that is not posted matches no message"]
    pub fn post(&mut self, want: Want) -> Option<ReceiveId> {
        let place = self.receives.take()?;
        self.posted.post(place.index, want);
        Some(ReceiveId(place))
    }

    /// Oldest posted receive that accepts a message, without removing it.
    #[must_use]
    pub fn receive_for(&self, envelope: &Envelope) -> Option<ReceiveId> {
        self.posted.find(*envelope).map(|index| ReceiveId(self.receives.named(index)))
    }

    /// Removes a posted receive. Returns its criteria, with the ignored bits of the tag cleared.
    pub fn remove_receive(&mut self, ReceiveId(receive): ReceiveId) -> Option<Want> {
        if !self.receives.has(receive) {
            return None;
        }
        let want = self.posted.want(receive.index);
        self.posted.remove(receive.index);
        self.receives.give_back(receive);
        Some(want)
    }

    /// Number of posted receives.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.receives.taken as usize
    }

    /// Keeps a message behind the others. Returns `None` if every slot is in use.
    #[must_use = "a message that is not kept is lost"]
    pub fn keep(&mut self, envelope: Envelope) -> Option<MessageId> {
        let place = self.messages.take()?;
        self.unexpected.keep(place.index, envelope);
        Some(MessageId(place))
    }

    /// Oldest message that a receive accepts, without removing it.
    #[must_use]
    pub fn message_for(&self, want: &Want) -> Option<MessageId> {
        self.unexpected.find(want).map(|index| MessageId(self.messages.named(index)))
    }

    /// Hides a message from receives until it is removed. Returns `false` if it does not wait.
    pub fn claim_message(&mut self, MessageId(message): MessageId) -> bool {
        let waits = self.messages.has(message) && !self.messages.is_claimed(message);
        if waits {
            self.unexpected.remove(message.index);
            self.messages.claim(message);
        }
        waits
    }

    /// Removes a message and returns its envelope, or `None` if it neither waits nor is claimed.
    pub fn remove_message(&mut self, MessageId(message): MessageId) -> Option<Envelope> {
        if !self.messages.has(message) {
            return None;
        }
        let envelope = self.unexpected.envelope(message.index);
        if !self.messages.is_claimed(message) {
            self.unexpected.remove(message.index);
        }
        self.messages.give_back(message);
        Some(envelope)
    }

    /// Number of waiting and claimed messages.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.messages.taken as usize
    }

    /// Waiting messages, oldest first.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::{Tag, engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr}, vocabulary::FabricAddr};
    ///
    /// let mut matcher = TagMatcher::new_in(TagMatcherAttr::DEFAULT, Global)?;
    /// for (tag, source) in [(7, 3), (8, 4), (9, 3)] {
    ///     matcher.keep(Envelope { tag: Tag(tag), source: FabricAddr(source) }).expect("a slot is free");
    /// }
    /// // What waits of a peer that is gone, oldest first.
    /// let of_peer = matcher.messages().filter(|(_, message)| message.source == FabricAddr(3));
    /// let gone: Vec<_> = of_peer.map(|(id, _)| id).collect();
    /// let tags = gone.into_iter().filter_map(|id| matcher.remove_message(id)).map(|message| message.tag);
    /// assert!(tags.eq([Tag(7), Tag(9)]));
    /// assert_eq!(matcher.waiting(), 1);
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    pub fn messages(&self) -> impl Iterator<Item = (MessageId, Envelope)> + '_ {
        let places = core::iter::successors(self.unexpected.first(), |index| self.unexpected.after(*index));
        places.map(|index| (MessageId(self.messages.named(index)), self.unexpected.envelope(index)))
    }
}

debug_struct!(
    [A: Allocator] TagMatcher[A],
    |it| posted: it.posted(), waiting: it.waiting(), block: it.block
);

impl Own {
    fn before(next: u32, places: u32) -> Self {
        Own { generation: Cell::new(0), next: Cell::new(if next == places { NONE } else { next }) }
    }
}

/// Writes a table.
///
/// # Safety
/// The block has the part, and the requirements of [`Table::new`] hold.
#[expect(clippy::cast_possible_truncation, reason = "planned from a `u32`")]
pub(crate) unsafe fn table<V>(part: &Part<V>, block: NonNull<u8>, value: impl Fn(u32) -> V) -> Table<V> {
    // SAFETY: the caller guarantees that the block has the part.
    let values = unsafe { part.fill(block, |number| value(number as u32)) };
    // SAFETY: all values are written, and the caller guarantees the rest.
    unsafe { Table::new(values.cast(), part.len as u32) }
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
