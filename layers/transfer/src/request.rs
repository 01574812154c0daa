use crate::memory::MemoryKey;
use crate::peers::PeerKey;
use crate::plan::Plan;
use crate::remote::RemoteMemory;

/// Transfer between registered memory and a peer's memory.
///
/// If source and target of a block overlap in one memory, the bytes are a mixture.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Access, Domain};
/// use loom_transfer::{Block, Engine, EngineAttr, Event, Request};
///
/// # fixture::domain!(network, domain);
/// let mut engine = Engine::open_in(&[domain], EngineAttr::default(), Global)?;
/// # let mut record = [0; 1024];
/// # let len = engine.address(&mut record)?;
/// let itself = engine.insert_peer(&record[..len])?;
/// let source = engine.register(vec![7; 4096], loom_core::Access::empty())?;
/// let target = engine.register(vec![0; 4096], Access::REMOTE_WRITE)?;
/// let remote = engine.remote(target)?;
/// let half = Block { local: 0, remote: 2048, len: 2048 };
/// // The peer counts the value 5.
/// let key = engine.submit(Request::write(itself, source, &remote, half).data(5))?;
/// let outcome = loop {
///     if let Some(Event::Ended(outcome)) = engine.poll(0)? { break outcome; }
/// };
/// assert_eq!((outcome.key, outcome.result()?), (key, 2048));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "submit it"]
pub struct Request<P> {
    pub(crate) peer: PeerKey,
    pub(crate) reads: bool,
    pub(crate) local: MemoryKey,
    pub(crate) remote: RemoteMemory,
    pub(crate) plan: P,
    pub(crate) data: Option<u64>,
    /// The last write alone has the data.
    pub(crate) signals: bool,
    pub(crate) deadline: u64,
    /// Number of the engine that has validated the blocks.
    pub(crate) checked: Option<u32>,
}

impl<P: Plan> Request<P> {
    /// Writes blocks of local memory to the peer's memory.
    #[doc(alias = "fi_write")]
    pub const fn write(peer: PeerKey, local: MemoryKey, remote: &RemoteMemory, plan: P) -> Self {
        Self::new(peer, local, remote, plan, false)
    }

    /// Reads blocks of the peer's memory into local memory.
    #[doc(alias = "fi_read")]
    pub const fn read(peer: PeerKey, local: MemoryKey, remote: &RemoteMemory, plan: P) -> Self {
        Self::new(peer, local, remote, plan, true)
    }

    const fn new(peer: PeerKey, local: MemoryKey, remote: &RemoteMemory, plan: P, reads: bool) -> Self {
        let (data, signals, deadline, checked) = (None, false, u64::MAX, None);
        Request { peer, reads, local, remote: *remote, plan, data, signals, deadline, checked }
    }

    /// Sends this value as immediate data with each write. The peer counts it
    /// ([`Plan::operations`] times with the piece of its memory).
    #[doc(alias = "fi_writedata")]
    pub const fn data(mut self, value: u64) -> Self {
        (self.data, self.signals) = (Some(value), false);
        self
    }

    /// Sends this value with the last write alone, after the delivery of all others
    /// ([`CompletionLevel::Delivery`](loom_core::endpoint::CompletionLevel::Delivery)). The peer
    /// counts it once. The plan has a block or more.
    #[doc(alias = "FI_DELIVERY_COMPLETE")]
    pub const fn signal(mut self, value: u64) -> Self {
        (self.data, self.signals) = (Some(value), true);
        self
    }

    /// Ends the transfer at this time in nanoseconds, on the clock of
    /// [`Engine::poll`](crate::Engine::poll).
    pub const fn deadline(mut self, ns: u64) -> Self {
        self.deadline = ns;
        self
    }

    /// Plan.
    pub const fn plan(&self) -> &P {
        &self.plan
    }

    /// Takes the plan.
    pub fn into_plan(self) -> P {
        self.plan
    }
}
