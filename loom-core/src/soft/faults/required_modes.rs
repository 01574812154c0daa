use bitflags::bitflags;

use crate::vocabulary::{Mode, MrMode};

/// Size of the prefix, in bytes: the global route header of datagrams over InfiniBand.
const PREFIX: usize = 40;

bitflags! {
    /// Requirements of hardware that domains check although memory does not need them
    /// ([`Network::info_requiring`](crate::soft::Network::info_requiring)).
    ///
    /// ```
    /// use loom_core::soft::RequiredModes;
    ///
    /// let modes = RequiredModes::LOCAL_REGISTRATION | RequiredModes::CONTEXTS;
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RequiredModes: u8 {
        /// Refuses posts of buffers that are not [`Registered`](crate::registered::Registered)
        /// (`FI_MR_LOCAL`).
        const LOCAL_REGISTRATION = 1;
        /// Binds regions for peers to an endpoint, which closes after them (`FI_MR_ENDPOINT`).
        const ENDPOINT_REGIONS = 1 << 1;
        /// Requires contexts that point to memory for the transport (`FI_CONTEXT`: 32 bytes), which
        /// reports the operation as failed if that memory is changed meanwhile.
        const CONTEXTS = 1 << 2;
        /// Like [`CONTEXTS`](Self::CONTEXTS), with twice as much memory (`FI_CONTEXT2`: 64 bytes).
        const LARGE_CONTEXTS = 1 << 3;
        /// Requires buffers of messages to have room in front
        /// ([`Prefixed`](crate::buffer::Prefixed), `FI_MSG_PREFIX`), which the transport writes to.
        const PREFIXES = 1 << 4;
        /// Requires arrays of ranges to stay in place until the operation completes
        /// (`FI_ASYNC_IOV`). loom then permits only operations of one buffer.
        const ASYNC_IOV = 1 << 5;
        /// Lets a peer's write with immediate data consume the oldest receive of messages without
        /// tag, as over InfiniBand (`FI_RX_CQ_DATA`).
        const RX_CQ_DATA = 1 << 6;
    }
}

impl RequiredModes {
    pub(crate) fn mode(self) -> Mode {
        let modes = [
            (Self::CONTEXTS, Mode::CONTEXT),
            (Self::LARGE_CONTEXTS, Mode::CONTEXT2),
            (Self::PREFIXES, Mode::MSG_PREFIX),
            (Self::ASYNC_IOV, Mode::ASYNC_IOV),
            (Self::RX_CQ_DATA, Mode::RX_CQ_DATA),
        ];
        modes.into_iter().filter(|(required, _)| self.contains(*required)).map(|(_, mode)| mode).collect()
    }

    pub(crate) fn mr_mode(self) -> MrMode {
        let modes = [(Self::LOCAL_REGISTRATION, MrMode::LOCAL), (Self::ENDPOINT_REGIONS, MrMode::ENDPOINT)];
        modes.into_iter().filter(|(required, _)| self.contains(*required)).map(|(_, mode)| mode).collect()
    }

    pub(crate) const fn consumes_receives(self) -> bool {
        self.contains(Self::RX_CQ_DATA)
    }

    pub(crate) const fn prefix(self) -> usize {
        if self.contains(Self::PREFIXES) { PREFIX } else { 0 }
    }
}
