/// Sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineAttr {
    /// Maximum number of peers.
    pub peers: usize,
    /// Maximum number of peers in the address vectors, where the least recently used one makes room
    /// for another. 0 for all peers.
    pub addresses: usize,
    /// Maximum number of registered memories.
    pub memories: usize,
    /// Maximum number of transfers with operations in flight, or an outcome that is not taken.
    pub transfers: usize,
    /// Maximum number of operations in flight on each rail.
    pub depth: usize,
    /// Maximum number of operations in flight to each peer, so that a silent one leaves room for
    /// others.
    pub peer_depth: usize,
    /// Maximum length of an operation in bytes. The provider's `max_msg_size` also limits it.
    pub piece: u64,
    /// Values of immediate data that are counted: those below this number. 0 for providers without
    /// immediate data.
    pub values: usize,
    /// Maximum number of simultaneous waits for arrivals, and of peers' failures kept for later
    /// waits.
    pub waits: usize,
    /// Maximum number of peers' writes on each rail between two polls.
    pub remote_writes: u16,
    /// Operations on a rail before the next rail takes over. All but the last are posted with
    /// `FI_MORE`. With 1, `FI_MORE` is not used.
    pub batch: usize,
    /// Length in bytes of the buffers for [control messages](crate::Engine#control-messages), the
    /// same at all peers. 0 for an engine without them. Each holds 40 bytes less of a notification.
    /// At most 192 for engines of one process over `shm` of libfabric 2.5, which longer messages
    /// both ways crash.
    pub message: usize,
    /// Maximum number of simultaneous notifications from each peer, up to 16, the same at all
    /// peers. Released ones return to the peer together, once half of them are in use.
    pub notifications: u16,
    /// Maximum number of buffers that notifications of one peer take up, up to 64, the same at all
    /// peers. Also limits the length of a notification.
    pub fragments: u16,
    /// Number of buffers for notifications to send.
    pub messages: usize,
    /// Time in nanoseconds after which a silent peer fails. 0: no limit.
    pub silence: u64,
    /// Maximum number of operations that one [poll](crate::Engine::poll) posts. A poll copies at
    /// most 1 MiB within the engine.
    pub budget: usize,
}

impl EngineAttr {
    pub(crate) const fn vector_len(&self) -> usize {
        if self.addresses == 0 { self.peers } else { self.addresses }
    }
}

impl Default for EngineAttr {
    /// 64 peers, memories and transfers, 256 operations in flight on each rail and to each peer,
    /// pieces of 1 MiB, 1,024 values, 64 waits, 256 remote writes, no `FI_MORE`, no
    /// control messages (otherwise 4 notifications and fragments of each peer, 64 to send), a
    /// budget of 1,024.
    fn default() -> Self {
        EngineAttr {
            peers: 64,
            addresses: 0,
            memories: 64,
            transfers: 64,
            depth: 256,
            peer_depth: 256,
            piece: 1 << 20,
            values: 1024,
            waits: 64,
            remote_writes: 256,
            batch: 1,
            message: 0,
            notifications: 4,
            fragments: 4,
            messages: 64,
            silence: 0,
            budget: 1024,
        }
    }
}
