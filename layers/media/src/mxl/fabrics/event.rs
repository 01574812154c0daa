use loom_core::Error;

/// Event of a [`FabricsTarget`](super::FabricsTarget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "each event is reported once"]
pub enum FabricsEvent {
    /// An initiator is connected.
    Attached,
    /// The initiator has disconnected, with all completed transfers reported, or has failed.
    Detached {
        /// Failure.
        error: Option<Error>,
    },
    /// A connection could not be accepted.
    Unconnected {
        /// Failure.
        error: Error,
    },
    /// More slices of a grain are valid: the first `valid` of each plane.
    Slices {
        /// Index of the grain.
        index: u64,
        /// Number of valid slices. Does not decrease.
        valid: u16,
    },
    /// All slices of a grain have arrived.
    Complete {
        /// Index of the grain.
        index: u64,
    },
    /// The initiator has marked the grain as invalid.
    Invalid {
        /// Index of the grain.
        index: u64,
    },
    /// A block of samples is in the ring.
    Samples {
        /// Number of the first sample.
        start: u64,
        /// Number of samples of each channel.
        count: u32,
    },
    /// Grains that are not complete, or samples that are missing: this side was too slow, or the
    /// initiator has passed over them.
    Lapped {
        /// First.
        from: u64,
        /// Exclusive end.
        to: u64,
    },
    /// Ignored write: its immediate data fits no slot or entry, or not its header.
    Rejected {
        /// Immediate data.
        data: u64,
    },
}
