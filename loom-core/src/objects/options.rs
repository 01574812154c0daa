//! What can be asked of one operation beyond its arguments: the flags of libfabric's calls that end in `msg`, for each kind of
//! operation those that it has.

use crate::vocabulary::{ImmediateData, OpFlags};

/// When a send or write counts as over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionLevel {
    /// When its buffer could be used again.
    #[doc(alias = "FI_INJECT_COMPLETE")]
    Inject,
    /// When it does not depend on this side any more.
    #[doc(alias = "FI_TRANSMIT_COMPLETE")]
    Transmit,
    /// When it has arrived at the peer: in its memory, or in a buffer of its application's.
    #[doc(alias = "FI_DELIVERY_COMPLETE")]
    Delivery,
}

impl CompletionLevel {
    /// All of them, and those that an endpoint can have by default only.
    pub(crate) const ALL: OpFlags = OpFlags::INJECT_COMPLETE
        .union(OpFlags::TRANSMIT_COMPLETE)
        .union(OpFlags::DELIVERY_COMPLETE)
        .union(OpFlags::COMMIT_COMPLETE)
        .union(OpFlags::MATCH_COMPLETE);

    const fn flag(self) -> OpFlags {
        match self {
            CompletionLevel::Inject => OpFlags::INJECT_COMPLETE,
            CompletionLevel::Transmit => OpFlags::TRANSMIT_COMPLETE,
            CompletionLevel::Delivery => OpFlags::DELIVERY_COMPLETE,
        }
    }
}

/// What can be asked of a send or an RMA write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SendOptions {
    pub(crate) data: Option<ImmediateData>,
    pub(crate) flags: OpFlags,
}

impl SendOptions {
    /// Nothing but what the endpoint does by default.
    pub const fn new() -> Self {
        SendOptions { data: None, flags: OpFlags::empty() }
    }

    /// Immediate data goes along.
    #[doc(alias = "FI_REMOTE_CQ_DATA")]
    pub const fn data(mut self, data: ImmediateData) -> Self {
        self.data = Some(data);
        self
    }

    /// More operations follow at once, for which the provider may wait. An operation that is the last may not be sent before
    /// the next one is posted.
    #[doc(alias = "FI_MORE")]
    pub const fn more(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::MORE);
        self
    }

    /// It begins after all operations to the same peer that were posted before; where the provider grants
    /// [`Caps::FENCE`](crate::vocabulary::Caps::FENCE).
    #[doc(alias = "FI_FENCE")]
    pub const fn fence(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::FENCE);
        self
    }

    /// When it counts as over.
    pub const fn level(mut self, level: CompletionLevel) -> Self {
        self.flags = self.flags.difference(CompletionLevel::ALL).union(level.flag());
        self
    }
}

/// What can be asked of an RMA read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ReadOptions {
    pub(crate) flags: OpFlags,
}

impl ReadOptions {
    /// Nothing but what the endpoint does by default.
    pub const fn new() -> Self {
        ReadOptions { flags: OpFlags::empty() }
    }

    /// As [`SendOptions::more`].
    #[doc(alias = "FI_MORE")]
    pub const fn more(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::MORE);
        self
    }

    /// As [`SendOptions::fence`].
    #[doc(alias = "FI_FENCE")]
    pub const fn fence(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::FENCE);
        self
    }
}

/// What can be asked of an atomic operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AtomicOptions {
    pub(crate) flags: OpFlags,
}

impl AtomicOptions {
    /// Nothing but what the endpoint does by default.
    pub const fn new() -> Self {
        AtomicOptions { flags: OpFlags::empty() }
    }

    /// As [`SendOptions::more`].
    #[doc(alias = "FI_MORE")]
    pub const fn more(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::MORE);
        self
    }

    /// As [`SendOptions::fence`].
    #[doc(alias = "FI_FENCE")]
    pub const fn fence(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::FENCE);
        self
    }

    /// When it counts as over, if it fetches nothing: what fetches is over when the results are there.
    pub const fn level(mut self, level: CompletionLevel) -> Self {
        self.flags = self.flags.difference(CompletionLevel::ALL).union(level.flag());
        self
    }
}

/// What can be asked of a receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RecvOptions {
    pub(crate) flags: OpFlags,
}

impl RecvOptions {
    /// Nothing but what the endpoint does by default.
    pub const fn new() -> Self {
        RecvOptions { flags: OpFlags::empty() }
    }

    /// More receives follow at once, for which the provider may wait.
    #[doc(alias = "FI_MORE")]
    pub const fn more(mut self) -> Self {
        self.flags = self.flags.union(OpFlags::MORE);
        self
    }
}
