//! [`Asks`]: what a network's domains can be made to ask of the application, as hardware does.

use crate::vocabulary::MrMode;

/// What domains ask for that memory has no need of, and insist on: for trying out what hardware asks for
/// ([`Network::info_that_asks`](super::Network::info_that_asks)).
///
/// ```
/// use loom_core::soft::Asks;
///
/// let asks = Asks::nothing().for_local_registration();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    pub(super) mr_mode: MrMode,
}

impl Asks {
    /// As [`Network::info`](super::Network::info).
    #[must_use]
    pub const fn nothing() -> Self {
        Asks { mr_mode: MrMode::empty() }
    }

    /// Posts of buffers are refused that are not [`Registered`](crate::objects::registered::Registered) (`FI_MR_LOCAL`).
    #[must_use]
    pub const fn for_local_registration(mut self) -> Self {
        self.mr_mode = self.mr_mode.union(MrMode::LOCAL);
        self
    }

    /// Regions that peers reach are bound to an endpoint, and reached through no other (`FI_MR_ENDPOINT`); an endpoint is not
    /// closed before them.
    #[must_use]
    pub const fn for_regions_of_endpoints(mut self) -> Self {
        self.mr_mode = self.mr_mode.union(MrMode::ENDPOINT);
        self
    }
}
