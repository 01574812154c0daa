//! [`EngineAttr`]: sizes of an engine.

/// Sizes of an engine, which allocates all of its memory when it is opened and when memory is
/// registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineAttr {
    /// Maximum number of peers.
    pub peers: usize,
    /// Maximum number of registered memories.
    pub memories: usize,
    /// Maximum number of transfers that have not ended, have an outcome to take, or have operations in
    /// flight.
    pub transfers: usize,
    /// Maximum number of operations in flight on each rail.
    pub depth: usize,
    /// Maximum number of operations in flight to each peer, so that a peer that does not respond
    /// leaves room for others.
    pub peer_depth: usize,
    /// Maximum length of an operation in bytes. The provider's `max_msg_size` also limits it.
    pub piece: u64,
    /// Values of immediate data that are counted: those below this number. 0 for providers without
    /// immediate data.
    pub values: usize,
    /// Maximum number of simultaneous waits for arrivals.
    pub waits: usize,
    /// Maximum number of peers' writes on each rail between two polls. For each, the queue has room
    /// for an event, and a receive where the provider consumes them (`FI_RX_CQ_DATA`).
    pub remote_writes: u16,
    /// Operations on a rail before the next rail takes over. All but the last are posted with
    /// `FI_MORE`. With 1, `FI_MORE` is not used.
    pub batch: usize,
    /// Maximum number of operations that one [poll](crate::Engine::poll) posts.
    pub budget: usize,
}

impl Default for EngineAttr {
    /// 64 peers, memories and transfers, 256 operations in flight on each rail and to each peer,
    /// pieces of 1 MiB, 1,024 values, 64 waits, 256 remote writes, no `FI_MORE`, a budget of 1,024.
    fn default() -> Self {
        EngineAttr {
            peers: 64,
            memories: 64,
            transfers: 64,
            depth: 256,
            peer_depth: 256,
            piece: 1 << 20,
            values: 1024,
            waits: 64,
            remote_writes: 256,
            batch: 1,
            budget: 1024,
        }
    }
}
