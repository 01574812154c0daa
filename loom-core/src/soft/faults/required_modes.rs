//! [`RequiredModes`]: requirements of hardware that a network's domains can simulate.

use crate::vocabulary::{Mode, MrMode};

const PREFIX: usize = 40;

/// Requirements of hardware that domains check although memory does not need them
/// ([`Network::info_requiring`](crate::soft::Network::info_requiring)).
///
/// ```
/// use loom_core::soft::RequiredModes;
///
/// let modes = RequiredModes::none().local_registration().contexts();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredModes {
    pub(crate) mode: Mode,
    pub(crate) mr_mode: MrMode,
}

impl RequiredModes {
    /// No requirements, like [`Network::info`](crate::soft::Network::info).
    #[must_use]
    pub const fn none() -> Self {
        RequiredModes { mode: Mode::empty(), mr_mode: MrMode::empty() }
    }

    /// Refuses posts of buffers that are not [`Registered`](crate::registered::Registered)
    /// (`FI_MR_LOCAL`).
    #[must_use]
    pub const fn local_registration(mut self) -> Self {
        self.mr_mode = self.mr_mode.union(MrMode::LOCAL);
        self
    }

    /// Binds regions for peers to an endpoint, which is their only path (`FI_MR_ENDPOINT`). The
    /// endpoint is closed after them.
    #[must_use]
    pub const fn endpoint_regions(mut self) -> Self {
        self.mr_mode = self.mr_mode.union(MrMode::ENDPOINT);
        self
    }

    /// Requires contexts that point to memory for the transport (`FI_CONTEXT`: 32 bytes). The
    /// transport writes to it, and reports the operation as failed if the memory is changed in the
    /// meantime.
    #[must_use]
    pub const fn contexts(mut self) -> Self {
        self.mode = self.mode.union(Mode::CONTEXT);
        self
    }

    /// Like [`contexts`](Self::contexts), with twice as much memory (`FI_CONTEXT2`: 64 bytes).
    #[must_use]
    pub const fn large_contexts(mut self) -> Self {
        self.mode = self.mode.union(Mode::CONTEXT2);
        self
    }

    /// Requires buffers of messages to have room in front ([`Prefixed`](crate::buffer::Prefixed),
    /// `FI_MSG_PREFIX`), which the transport writes to.
    #[must_use]
    pub const fn prefixes(mut self) -> Self {
        self.mode = self.mode.union(Mode::MSG_PREFIX);
        self
    }

    /// Requires arrays of ranges to stay in place until the operation completes (`FI_ASYNC_IOV`).
    /// loom permits only operations of one buffer then, and refuses others.
    #[must_use]
    pub const fn async_iov(mut self) -> Self {
        self.mode = self.mode.union(Mode::ASYNC_IOV);
        self
    }

    /// Lets a peer's write with immediate data consume the oldest receive of messages without tag,
    /// as over InfiniBand (`FI_RX_CQ_DATA`).
    #[must_use]
    pub const fn rx_cq_data(mut self) -> Self {
        self.mode = self.mode.union(Mode::RX_CQ_DATA);
        self
    }

    pub(crate) const fn consumes_receives(self) -> bool {
        self.mode.contains(Mode::RX_CQ_DATA)
    }

    pub(crate) const fn prefix(self) -> usize {
        if self.mode.contains(Mode::MSG_PREFIX) { PREFIX } else { 0 }
    }

    pub(crate) const fn any(self) -> bool {
        !self.mode.is_empty() || !self.mr_mode.is_empty()
    }
}
