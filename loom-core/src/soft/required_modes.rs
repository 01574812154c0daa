//! [`RequiredModes`]: what a network's domains can be made to ask of the application, as hardware does.

use crate::vocabulary::{Mode, MrMode};

/// As much as datagrams over InfiniBand have in front: their global route header.
const PREFIX: usize = 40;

/// What domains ask for that memory has no need of, and check: for trying out what hardware asks for
/// ([`Network::info_requiring`](super::Network::info_requiring)).
///
/// ```
/// use loom_core::soft::RequiredModes;
///
/// let modes = RequiredModes::none().local_registration().contexts();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredModes {
    pub(super) mode: Mode,
    pub(super) mr_mode: MrMode,
}

impl RequiredModes {
    /// As [`Network::info`](super::Network::info).
    #[must_use]
    pub const fn none() -> Self {
        RequiredModes { mode: Mode::empty(), mr_mode: MrMode::empty() }
    }

    /// Posts of buffers are refused that are not [`Registered`](crate::registered::Registered) (`FI_MR_LOCAL`).
    #[must_use]
    pub const fn local_registration(mut self) -> Self {
        self.mr_mode = self.mr_mode.union(MrMode::LOCAL);
        self
    }

    /// Regions that peers reach are bound to an endpoint, and reached through no other (`FI_MR_ENDPOINT`); an endpoint is not
    /// closed before them.
    #[must_use]
    pub const fn endpoint_regions(mut self) -> Self {
        self.mr_mode = self.mr_mode.union(MrMode::ENDPOINT);
        self
    }

    /// The context of an operation points to memory for the transport (`FI_CONTEXT`: 32 bytes). It writes there, and reports an
    /// operation as failed whose memory somebody else has written to meanwhile.
    #[must_use]
    pub const fn contexts(mut self) -> Self {
        self.mode = self.mode.union(Mode::CONTEXT);
        self
    }

    /// As [`contexts`](Self::contexts), with twice as much memory (`FI_CONTEXT2`: 64 bytes).
    #[must_use]
    pub const fn large_contexts(mut self) -> Self {
        self.mode = self.mode.union(Mode::CONTEXT2);
        self
    }

    /// Messages are sent out of, and received into, buffers that have room in front
    /// ([`Prefixed`](crate::buffer::Prefixed); `FI_MSG_PREFIX`), which the transport writes to.
    #[must_use]
    pub const fn prefixes(mut self) -> Self {
        self.mode = self.mode.union(Mode::MSG_PREFIX);
        self
    }

    /// The arrays of ranges of operations with several buffers stay where they are until these are over (`FI_ASYNC_IOV`), which
    /// loom serves with operations of one buffer; others are refused.
    #[must_use]
    pub const fn async_iov(mut self) -> Self {
        self.mode = self.mode.union(Mode::ASYNC_IOV);
        self
    }

    /// A peer's write with immediate data uses up the oldest receive of messages without tag, as over InfiniBand, and waits for
    /// one if there is none; what was sent behind it waits with it (`FI_RX_CQ_DATA`).
    #[must_use]
    pub const fn rx_cq_data(mut self) -> Self {
        self.mode = self.mode.union(Mode::RX_CQ_DATA);
        self
    }

    /// Whether peers' writes use up receives.
    pub(super) const fn consumes_receives(self) -> bool {
        self.mode.contains(Mode::RX_CQ_DATA)
    }

    /// The bytes in front of messages.
    pub(super) const fn prefix(self) -> usize {
        if self.mode.contains(Mode::MSG_PREFIX) { PREFIX } else { 0 }
    }

    /// Whether anything is asked for.
    pub(super) const fn any(self) -> bool {
        !self.mode.is_empty() || !self.mr_mode.is_empty()
    }
}
