//! Matches tagged messages with receives, at a cost independent of their number.
//!
//! A receive accepts a message if their tags agree in all bits that it does not ignore, `(sent ^
//! wanted) & !ignore == 0`, and it names the message's source or no source. A message goes to the
//! *oldest* receive that accepts it, and a receive takes the *oldest* message that it accepts. A
//! sender's messages are matched in the order of their passing (`man fi_tagged`).
//!
//! | | |
//! |---|---|
//! | a message arrives | [`receive_for`](TagMatcher::receive_for), then [`remove_receive`](TagMatcher::remove_receive), or [`keep`](TagMatcher::keep) |
//! | a receive is posted | [`message_for`](TagMatcher::message_for), then [`remove_message`](TagMatcher::remove_message), or [`post`](TagMatcher::post) |
//! | multi-receive (`FI_MULTI_RECV`) | removed only when it is used up |
//! | peek | [`message_for`](TagMatcher::message_for) alone |
//! | claim | [`claim_message`](TagMatcher::claim_message), later [`remove_message`](TagMatcher::remove_message) |
//! | discard | [`remove_message`](TagMatcher::remove_message) |
//! | cancel | [`remove_receive`](TagMatcher::remove_receive) |
//!
//! Set a secret [seed](TagMatcherAttr::seed) if peers are not trusted.
//!
//! ```
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_core::{Tag, TagMatch};
//! use loom_core::{engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want}, vocabulary::FabricAddr};
//!
//! let mut matcher = TagMatcher::new_in(TagMatcherAttr { receives: 8, messages: 8, ..TagMatcherAttr::DEFAULT }, Global)?;
//! let whatever = matcher.post(Want { tag: TagMatch { tag: Tag(0x700), ignore: 0xff }, source: FabricAddr::UNSPEC }).expect("a slot is free");
//! let exact = matcher.post(Want { tag: TagMatch::exact(Tag(0x701)), source: FabricAddr(3) }).expect("a slot is free");
//!
//! // The oldest that accepts it, though the other one is more exact.
//! let message = Envelope { tag: Tag(0x701), source: FabricAddr(3) };
//! assert_eq!(matcher.receive_for(&message), Some(whatever));
//! matcher.remove_receive(whatever);
//! assert_eq!(matcher.receive_for(&message), Some(exact));
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

mod index;
mod matcher;
mod posted_receives;
mod table;
mod unexpected_messages;
mod walk;

pub(crate) use index::{Index, Line, Link};
pub use matcher::{MessageId, ReceiveId, TagMatcher, TagMatcherAttr};
pub(crate) use matcher::{posted_lines, table, waiting_lines};
pub(crate) use posted_receives::{Pattern, Posted, PostedReceives};
pub(crate) use table::Table;
pub(crate) use unexpected_messages::{Memory, UnexpectedMessages, View, Waiting, views_shift};

use crate::vocabulary::{FabricAddr, Tag, TagMatch};

/// Messages that a receive accepts.
///
/// ```
/// use loom_core::{Tag, TagMatch, engine::tag_matcher::{Envelope, Want}, vocabulary::FabricAddr};
///
/// // Tags from 0x700 to 0x7ff, of one peer.
/// let want = Want { tag: TagMatch { tag: Tag(0x700), ignore: 0xff }, source: FabricAddr(3) };
/// let accepts = |tag, source| want.accepts(&Envelope { tag: Tag(tag), source: FabricAddr(source) });
/// assert!(accepts(0x742, 3) && !accepts(0x842, 3) && !accepts(0x742, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Accepted tags.
    pub tag: TagMatch,
    /// Accepted source, or [`FabricAddr::UNSPEC`] for any. (A directed receive, `FI_DIRECTED_RECV`)
    pub source: FabricAddr,
}

impl Want {
    /// Returns `true` if the message is accepted.
    #[must_use]
    #[inline]
    pub fn accepts(&self, envelope: &Envelope) -> bool {
        self.tag.accepts(envelope.tag) && (!self.is_directed() || self.source == envelope.source)
    }

    #[inline]
    pub(crate) fn is_directed(&self) -> bool {
        self.source != FabricAddr::UNSPEC
    }

    #[inline]
    pub(crate) fn is_everything(&self) -> bool {
        self.tag.ignore == u64::MAX && !self.is_directed()
    }
}

/// Tag and source of a message.
///
/// ```
/// use loom_core::{Tag, TagMatch, engine::tag_matcher::{Envelope, Want}, vocabulary::FabricAddr};
///
/// // The transport does not tell the sender of this message.
/// let message = Envelope { tag: Tag(7), source: FabricAddr::UNSPEC };
/// let want = |source| Want { tag: TagMatch::exact(Tag(7)), source };
/// assert!(want(FabricAddr::UNSPEC).accepts(&message) && !want(FabricAddr(3)).accepts(&message));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Tag of the message.
    pub tag: Tag,
    /// Sender, or [`FabricAddr::UNSPEC`] if unknown, which no directed receive accepts.
    pub source: FabricAddr,
}
