use loom_transfer::EngineAttr;

use crate::stream::Stream;

/// Sizes of a target or an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaAttr {
    /// Maximum number of flows.
    pub flows: usize,
    /// Maximum number of peers: initiators of a target (those without a flow make room for others),
    /// or targets of an initiator. A target of two flows counts twice.
    pub peers: usize,
    /// Maximum number of unfinished transfers, each to one target.
    pub transfers: usize,
    /// Maximum number of operations in flight on each rail, and of a peer's operations between two
    /// polls of a target.
    pub depth: usize,
    /// Maximum length of an operation in bytes.
    pub piece: u64,
    /// Length in bytes of the buffers for messages, the same at all peers: at least 192, and more
    /// for providers with long addresses. Targets and initiators of one process over `shm` of
    /// libfabric 2.5 require 192.
    pub message: usize,
    /// Maximum length in bytes of a target's record.
    pub record: usize,
    /// Time in nanoseconds after which a silent peer fails. With 0, transfers to a peer that has
    /// gone may never end. An initiator that is not polled for half of this time cancels its
    /// transfers.
    pub silence: u64,
    /// Time in nanoseconds after which an initiator tries a failed or refusing target again, once
    /// no operation to it is in flight. 0: a target fails for good.
    pub retry: u64,
}

impl Default for MediaAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl MediaAttr {
    const DEFAULT: Self = MediaAttr {
        flows: 16,
        peers: 16,
        transfers: 256,
        depth: 256,
        piece: 8 << 20,
        message: 192,
        record: 1024,
        silence: 0,
        retry: 0,
    };

    /// Sizes for streams to `targets` each, with at most `poll_ns` nanoseconds between two polls:
    /// twice the transfers and operations of this time, up to those of the rings. Half may still be
    /// in flight.
    ///
    /// ```
    /// use loom_media::{FlowLayout, GrainLayout, MediaAttr, Rate, Stream};
    ///
    /// // Two planes in slices of 108 lines for four targets, and polls each millisecond.
    /// let layout = FlowLayout::Grains(GrainLayout::v210a(1920, 1080), 12);
    /// let stream = Stream { layout, rate: Rate::new(60, 1), part: 108 };
    /// let attr = MediaAttr::for_streams(&[stream], 4, 1_000_000);
    /// assert_eq!((attr.transfers, attr.depth), (2 * 10 * 4, 2 * 10 * 2 * 4));
    /// ```
    ///
    /// # Panics
    /// If a part or a period is 0.
    #[must_use]
    pub const fn for_streams(streams: &[Stream], targets: usize, poll_ns: u64) -> Self {
        let (mut transfers, mut depth, mut next) = (0_usize, 0_usize, 0);
        while next < streams.len() {
            let count = streams[next].transfers(poll_ns).0.saturating_mul(targets);
            transfers = transfers.saturating_add(count);
            depth = depth.saturating_add(count.saturating_mul(streams[next].writes(Self::DEFAULT.piece)));
            next += 1;
        }
        MediaAttr {
            flows: streams.len(),
            peers: streams.len().saturating_mul(targets),
            transfers,
            depth,
            ..Self::DEFAULT
        }
    }

    pub(crate) fn engine(&self) -> EngineAttr {
        EngineAttr {
            // One more, for the next peer before another one makes room.
            peers: self.peers.saturating_add(1),
            memories: self.flows,
            transfers: self.transfers,
            depth: self.depth,
            peer_depth: self.depth,
            piece: self.piece,
            values: 0,
            waits: 0,
            remote_writes: u16::try_from(self.depth.saturating_mul(self.peers)).unwrap_or(u16::MAX),
            message: self.message,
            notifications: 16,
            fragments: 32,
            messages: self.transfers.saturating_add(self.peers),
            silence: self.silence,
            ..EngineAttr::default()
        }
    }
}
