//! [`RxPeer`]: which receive context of a peer something goes to.

use crate::engine::peer_table::Peer;

/// A receive context of a peer's scalable endpoint: [`Peer::rx_context`].
///
/// A peer alone is its context 0, and so is a peer that is an ordinary endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "fi_rx_addr")]
pub struct RxPeer {
    peer: Peer,
    index: u16,
}

impl RxPeer {
    /// The peer.
    #[must_use]
    pub const fn peer(self) -> Peer {
        self.peer
    }

    /// The number of the context.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.index
    }
}

impl Peer {
    /// The receive context of this number. Whether it can be addressed is the address vector's to say, when something is posted.
    #[doc(alias = "fi_rx_addr")]
    #[must_use]
    pub const fn rx_context(self, index: u16) -> RxPeer {
        RxPeer { peer: self, index }
    }
}

impl From<Peer> for RxPeer {
    fn from(peer: Peer) -> Self {
        peer.rx_context(0)
    }
}
