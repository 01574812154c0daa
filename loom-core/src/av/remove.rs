#![allow(unsafe_code, reason = "removes addresses from raw vectors")]

use super::Av;
use crate::engine::peer_table::Peer;
use crate::transport::Transport;

impl<T: Transport> Av<'_, T> {
    /// Removes a peer, so that posts to it are refused. Returns `true` if it was in the vector.
    ///
    /// Slots are reused in the order of removal, as late as possible. Until then messages of the
    /// removed peer have a [source](crate::Transfer::source) without a peer, and after it name no
    /// other peer either. Before the reuse, look up completions' sources, and cancel receives from
    /// the removed peer alone.
    ///
    /// If the provider cannot remove addresses while an endpoint is bound to the vector, slots are
    /// reused only if no endpoint is bound ([`AvAttr::capacity`](super::AvAttr::capacity)). The
    /// slot of a [range](Self::insert_symmetric) member is reusable at once.
    ///
    /// ```
    /// use loom_core::PostError;
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// assert!(av.remove(to_bob));
    /// let refused = alice.send(to_bob, b"hello".to_vec()).unwrap_err();
    /// assert_eq!((refused.error, &refused.value[..]), (PostError::UnknownPeer, &b"hello"[..]));
    /// // Inserting the address again makes a new peer.
    /// assert_ne!(av.insert(&bob.address()?)?, to_bob);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_av_remove")]
    pub fn remove(&self, peer: Peer) -> bool {
        let Ok(mut addresses) = self.body.addresses() else { return false };
        let are_removed = addresses.are_removed();
        if are_removed && let Some(place) = addresses.table.retire(peer) {
            addresses.removed.push(place);
            return true;
        }
        let Some(addr) = addresses.table.remove(peer) else { return false };
        if are_removed || !self.body.is_bound() {
            // SAFETY: open (H1). The transport allows removal, or no endpoint is bound (binding
            // takes the same lock), so no operation in flight refers to the address (O1).
            let _ = unsafe { T::av_remove(&self.body.raw, addr) };
        }
        true
    }
}
