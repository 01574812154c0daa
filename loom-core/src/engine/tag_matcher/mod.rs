//! The tag matcher: which message goes to which receive, at a cost that does not grow with how many there are.
//!
//! A receive accepts a message if their tags agree in all bits that it does not ignore,
//! `(sent ^ wanted) & !ignore == 0`, and if it names no source or the message's. A message goes to the *oldest* receive that
//! accepts it, and a receive takes the *oldest* message that it accepts; exact tags and masks, with and without source, are all in one
//! order. Messages are kept in the order in which they are given, so a caller that gives those of a sender in the order in which
//! they were sent has them matched in that order (`man fi_tagged`).
//!
//! [`TagMatcher`] holds what was [posted](TagMatcher::post) and what was [kept](TagMatcher::keep), and finds partners. What goes with
//! them (buffers, bytes, contexts) is its user's, by the number of the place. It decides nothing, so that everything is made of it:
//!
//! | | |
//! |---|---|
//! | a message arrives | [`receive_for`](TagMatcher::receive_for) it, and [`remove_receive`](TagMatcher::remove_receive); or [`keep`](TagMatcher::keep) it |
//! | a receive is posted | [`message_for`](TagMatcher::message_for) it, and [`remove_message`](TagMatcher::remove_message); or [`post`](TagMatcher::post) it |
//! | multi-receive (`FI_MULTI_RECV`) | it is not removed until it is used up |
//! | peek | [`message_for`](TagMatcher::message_for), and nothing else |
//! | claim, discard | the message is removed, and its user keeps it for the claim, or drops it |
//! | cancel | [`remove_receive`](TagMatcher::remove_receive) |
//!
//! # What it costs
//!
//! - Few are walked along: eight messages, and four receives besides those that accept everything, or up to twice as many for a
//!   while. The oldest costs a third of what the index takes that holds more, whatever the tags are. Receives leave the walk for
//!   the index together, and are walked along again when the last one has left the index; messages are, when two wait. What moves them
//!   takes as many others, so that they do not go to and fro.
//! - In the index: exact tags, with and without source, and receives that accept everything: the same number of instructions however
//!   many are posted or wait, but for the few that collide by chance: some hundredths more. So does taking any of them out.
//! - In the index, a message that arrives looks once for each *pattern* among the posted receives: for each set of bits that some of them
//!   ignore, with source and without.
//! - There, a receive with a mask takes an index of the messages that wait, and so one look. The index is made when a mask is first
//!   asked for while messages wait, which looks at all of them once; [`TagMatcherAttr::masks`] of them at least are kept, those that were
//!   asked for last, with and without source. Who asks for more of them in turn makes one each time. Each that is kept costs a
//!   message that has to wait one more entry. One that ignores the whole tag and names a source stays when it was made.
//! - Tags that were chosen to collide, by somebody who knows the [seed](TagMatcherAttr::seed), cost up to as many steps as tag,
//!   source and mask have bits, and about the logarithm of how many of them collide; they never cost a walk along all of them.
//!   Who does not know the seed does not know which they are: set one, where peers are not trusted.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use loom_core::engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want};
//! use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
//!
//! let mut matcher = TagMatcher::new(TagMatcherAttr { receives: 8, messages: 8, ..TagMatcherAttr::DEFAULT })?;
//! let whatever = matcher.post(Want { tag: TagMatch::masked(Tag(0x700), 0xff), source: FabricAddr::UNSPEC })?;
//! let exact = matcher.post(Want { tag: TagMatch::exact(Tag(0x701)), source: FabricAddr(3) })?;
//!
//! // The oldest that accepts it, though the other one is more exact.
//! let message = Envelope { tag: Tag(0x701), source: FabricAddr(3) };
//! assert_eq!(matcher.receive_for(&message), Some(whatever));
//! matcher.remove_receive(whatever);
//! assert_eq!(matcher.receive_for(&message), Some(exact));
//! # }
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```

mod index;
mod matcher;
mod posted;
mod table;
mod unexpected;
mod walk;

pub(crate) use index::{Index, Line, Link, NONE};
pub use matcher::{Full, MessageId, Messages, ReceiveId, TagMatcher, TagMatcherAttr};
pub(crate) use matcher::{fill, posted_lines, waiting_lines};
pub(crate) use posted::{Pattern, Posted, PostedReceives};
pub(crate) use table::Table;
pub(crate) use unexpected::{Memory, UnexpectedMessages, View, Waiting, views_shift};

use crate::vocabulary::{FabricAddr, Tag, TagMatch};

/// What a receive accepts.
///
/// ```
/// use loom_core::engine::tag_matcher::{Envelope, Want};
/// use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
///
/// // Tags from 0x700 to 0x7ff, of one peer.
/// let want = Want { tag: TagMatch::masked(Tag(0x700), 0xff), source: FabricAddr(3) };
/// let accepts = |tag, source| want.accepts(&Envelope { tag: Tag(tag), source: FabricAddr(source) });
/// assert!(accepts(0x742, 3) && !accepts(0x842, 3) && !accepts(0x742, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which tags.
    pub tag: TagMatch,
    /// From whom; [`FabricAddr::UNSPEC`] for anybody. (A directed receive, `FI_DIRECTED_RECV`)
    pub source: FabricAddr,
}

impl Want {
    /// Whether a message is accepted.
    #[must_use]
    #[inline]
    pub fn accepts(&self, envelope: &Envelope) -> bool {
        self.tag.accepts(envelope.tag) && (!self.is_directed() || self.source == envelope.source)
    }

    #[inline]
    pub(crate) fn is_directed(&self) -> bool {
        self.source != FabricAddr::UNSPEC
    }

    /// Every message from everybody.
    #[inline]
    pub(crate) fn is_everything(&self) -> bool {
        self.tag.ignore == u64::MAX && !self.is_directed()
    }
}

/// What a message is matched by.
///
/// ```
/// use loom_core::engine::tag_matcher::{Envelope, Want};
/// use loom_core::vocabulary::{FabricAddr, Tag, TagMatch};
///
/// // The transport does not tell the sender of this message.
/// let message = Envelope { tag: Tag(7), source: FabricAddr::UNSPEC };
/// let want = |source| Want { tag: TagMatch::exact(Tag(7)), source };
/// assert!(want(FabricAddr::UNSPEC).accepts(&message) && !want(FabricAddr(3)).accepts(&message));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its tag.
    pub tag: Tag,
    /// Who has sent it; [`FabricAddr::UNSPEC`] if that is not known, which no directed receive accepts.
    pub source: FabricAddr,
}
