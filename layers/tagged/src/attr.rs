use loom_core::engine::tag_matcher::TagMatcherAttr;
use loom_core::error::OpenError;

use crate::credit::{LEAST_CONTROL, MOST};
use crate::wire::HEADER_LEN;

/// Capacities of a [`TaggedEndpoint`](crate::TaggedEndpoint), which allocates on opening.
///
/// ```
/// use loom_tagged::TaggedAttr;
///
/// // Four peers, each with up to 64 messages of at most 4 KiB that wait.
/// let attr = TaggedAttr { links: 4, messages: 64, packet_size: 4096, ..TaggedAttr::DEFAULT };
/// assert_eq!((attr.packets_per_link(), attr.eager_size()), (64 + 16 + 16, 4096 - 64));
/// // The queue needs a place for each packet.
/// let depth = usize::from(attr.links) * attr.packets_per_link();
/// assert_eq!(depth, 384);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct TaggedAttr {
    /// Maximum number of links.
    pub links: u16,
    /// Maximum number of operations until their completions are taken.
    pub operations: u32,
    /// Length of packets in bytes, including the header of [`HEADER_LEN`] bytes; at most 2^30.
    /// Messages that fit are sent at once. The smaller length of both sides counts.
    pub packet_size: u32,
    /// Messages of a peer that can wait for a receive: packets for each link, at most 2^15.
    pub messages: u32,
    /// Segments and other packets that do not wait, in flight from a peer: packets for each link, 4
    /// to 2^15.
    pub control: u32,
    /// Packets in flight to a peer, for each link, at most 2^16.
    pub sends: u32,
    /// See [`TagMatcherAttr::masks`].
    pub masks: u32,
    /// See [`TagMatcherAttr::seed`].
    #[cfg_attr(feature = "serde", serde(with = "loom_core::hexadecimal"))]
    pub seed: u64,
}

impl TaggedAttr {
    /// One link, 256 operations, packets of 8 KiB: 32 for messages, 16 for control and 16 for
    /// sends.
    pub const DEFAULT: TaggedAttr = TaggedAttr {
        links: 1,
        operations: 256,
        packet_size: 8 << 10,
        messages: 32,
        control: 16,
        sends: 16,
        masks: TagMatcherAttr::DEFAULT.masks,
        seed: 0,
    };

    /// Packets of each link, and slots of the queue.
    #[must_use]
    pub const fn packets_per_link(&self) -> usize {
        self.messages as usize + self.control as usize + self.sends as usize
    }

    /// Maximum bytes of an eager message, if the peer's packets are as long.
    #[must_use]
    pub const fn eager_size(&self) -> usize {
        (self.packet_size as usize).saturating_sub(HEADER_LEN)
    }

    pub(crate) fn all_messages(&self) -> Result<u32, OpenError> {
        self.messages.checked_mul(self.links.into()).ok_or(OpenError::Size)
    }

    pub(crate) fn matcher(&self) -> Result<TagMatcherAttr, OpenError> {
        Ok(TagMatcherAttr {
            receives: self.operations,
            messages: self.all_messages()?,
            masks: self.masks,
            seed: self.seed,
        })
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let good = self.links > 0
            && self.operations > 0
            && (1..=1 << 30).contains(&self.packet_size)
            && self.eager_size() > 0
            && (1..=MOST).contains(&self.messages)
            && (LEAST_CONTROL..=MOST).contains(&self.control)
            && (1..=2 * MOST).contains(&self.sends);
        if good { Ok(()) } else { Err(OpenError::Size) }
    }
}

impl Default for TaggedAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_up_to_their_limits_are_taken_and_others_refused() {
        const ATTR: TaggedAttr = TaggedAttr::DEFAULT;
        let header = u32::try_from(HEADER_LEN).expect("a short header");
        let good = [
            ATTR,
            TaggedAttr { links: u16::MAX, ..ATTR },
            TaggedAttr { operations: 1, ..ATTR },
            TaggedAttr { packet_size: header + 1, ..ATTR },
            TaggedAttr { packet_size: 1 << 30, ..ATTR },
            TaggedAttr { messages: 1, ..ATTR },
            TaggedAttr { messages: MOST, ..ATTR },
            TaggedAttr { control: LEAST_CONTROL, ..ATTR },
            TaggedAttr { control: MOST, ..ATTR },
            TaggedAttr { sends: 1, ..ATTR },
            TaggedAttr { sends: 2 * MOST, ..ATTR },
        ];
        for attr in good {
            assert_eq!(attr.check(), Ok(()), "{attr:?}");
        }
        let bad = [
            TaggedAttr { links: 0, ..ATTR },
            TaggedAttr { operations: 0, ..ATTR },
            TaggedAttr { packet_size: 0, ..ATTR },
            TaggedAttr { packet_size: header, ..ATTR },
            TaggedAttr { packet_size: (1 << 30) + 1, ..ATTR },
            TaggedAttr { messages: 0, ..ATTR },
            TaggedAttr { messages: MOST + 1, ..ATTR },
            TaggedAttr { control: LEAST_CONTROL - 1, ..ATTR },
            TaggedAttr { control: MOST + 1, ..ATTR },
            TaggedAttr { sends: 0, ..ATTR },
            TaggedAttr { sends: 2 * MOST + 1, ..ATTR },
        ];
        for attr in bad {
            assert_eq!(attr.check(), Err(OpenError::Size), "{attr:?}");
        }
    }
}
