flags! {
    /// Capabilities of an endpoint, a domain or an `Info`.
    ///
    /// Primary capabilities (`MSG`, `RMA`, `TAGGED`, `ATOMIC`, `MULTICAST`, `COLLECTIVE`,
    /// `NAMED_RX_CTX`, `DIRECTED_RECV`, `TAGGED_DIRECTED_RECV`, `TAGGED_MULTI_RECV`, `HMEM`, `XPU`)
    /// are granted only on request. Modifiers (`SEND`, `RECV`, `READ`, `WRITE`, `REMOTE_READ`,
    /// `REMOTE_WRITE`) restrict them. Without modifiers, all apply. Other capabilities are
    /// secondary: a provider may grant them unrequested.
    ///
    /// ```
    /// use loom_core::{Caps, Hints};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    ///
    /// let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::WRITE | Caps::REMOTE_WRITE, ..Hints::default() };
    /// let info = network.query(&hints)?;
    /// assert!(info.caps().contains(Caps::MSG | Caps::WRITE));
    /// // `MSG` without a modifier means both directions.
    /// assert_eq!(Caps::MSG.with_modifiers(), Caps::MSG | Caps::SEND | Caps::RECV);
    /// assert_eq!(hints.caps.to_string(), "MSG | RMA | WRITE | REMOTE_WRITE");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_getinfo(3)`, section *Capabilities*
    #[doc(alias = "fi_info::caps")]
    pub struct Caps: u64 {
        /// Sending and receiving messages.
        #[doc(alias = "FI_MSG")]
        const MSG = 1 << 1;
        /// Remote memory access: read and write.
        #[doc(alias = "FI_RMA")]
        const RMA = 1 << 2;
        /// Tagged messages.
        #[doc(alias = "FI_TAGGED")]
        const TAGGED = 1 << 3;
        /// Atomic operations on remote memory (also `FI_ATOMICS` in the header).
        #[doc(alias = "FI_ATOMIC")]
        const ATOMIC = 1 << 4;
        /// Multicast messages, together with [`MSG`](Self::MSG).
        #[doc(alias = "FI_MULTICAST")]
        const MULTICAST = 1 << 5;
        /// Collective operations.
        #[doc(alias = "FI_COLLECTIVE")]
        const COLLECTIVE = 1 << 6;
        /// The endpoint starts reads (`RMA`, `ATOMIC`).
        #[doc(alias = "FI_READ")]
        const READ = 1 << 8;
        /// The endpoint starts writes (`RMA`, `ATOMIC`).
        #[doc(alias = "FI_WRITE")]
        const WRITE = 1 << 9;
        /// The endpoint receives (`MSG`, `TAGGED`).
        #[doc(alias = "FI_RECV")]
        const RECV = 1 << 10;
        /// The endpoint sends (`MSG`, `TAGGED`). Same bit as `FI_TRANSMIT`.
        #[doc(alias = "FI_SEND")]
        const SEND = 1 << 11;
        /// Peers may read the endpoint's memory (`RMA`, `ATOMIC`).
        #[doc(alias = "FI_REMOTE_READ")]
        const REMOTE_READ = 1 << 12;
        /// Peers may write the endpoint's memory (`RMA`, `ATOMIC`).
        #[doc(alias = "FI_REMOTE_WRITE")]
        const REMOTE_WRITE = 1 << 13;
        /// A posted buffer may take several messages.
        #[doc(alias = "FI_MULTI_RECV")]
        const MULTI_RECV = 1 << 16;
        /// Operations started by a counter.
        #[doc(alias = "FI_TRIGGER")]
        const TRIGGER = 1 << 20;
        /// Fenced operations, which start after all earlier ones to the same peer completed.
        #[doc(alias = "FI_FENCE")]
        const FENCE = 1 << 21;
        /// Completions report the user's number of an address instead of the address itself.
        #[doc(alias = "FI_AV_USER_ID")]
        const AV_USER_ID = 1 << 41;
        /// Objects can be shared with another provider (peer interface).
        #[doc(alias = "FI_PEER")]
        const PEER = 1 << 43;
        /// Operations started by a device. `FI_XPU_TRIGGER` in older headers.
        #[doc(alias = "FI_XPU")]
        const XPU = 1 << 44;
        /// A tagged receive may name its sender. Part of `DIRECTED_RECV` (libfabric 2).
        #[doc(alias = "FI_TAGGED_DIRECTED_RECV")]
        const TAGGED_DIRECTED_RECV = 1 << 45;
        /// A tagged receive may take several messages (libfabric 2).
        #[doc(alias = "FI_TAGGED_MULTI_RECV")]
        const TAGGED_MULTI_RECV = 1 << 46;
        /// Transfers to and from device memory.
        #[doc(alias = "FI_HMEM")]
        const HMEM = 1 << 47;
        /// RMA to and from persistent memory, experimental in libfabric.
        #[doc(alias = "FI_RMA_PMEM")]
        const RMA_PMEM = 1 << 49;
        /// Messages of peers that are not in the address vector report the raw source address.
        #[doc(alias = "FI_SOURCE_ERR")]
        const SOURCE_ERR = 1 << 50;
        /// Peers on the same host can be reached.
        #[doc(alias = "FI_LOCAL_COMM")]
        const LOCAL_COMM = 1 << 51;
        /// Peers on other hosts can be reached.
        #[doc(alias = "FI_REMOTE_COMM")]
        const REMOTE_COMM = 1 << 52;
        /// Address vectors may be shared among processes.
        #[doc(alias = "FI_SHARED_AV")]
        const SHARED_AV = 1 << 53;
        /// The target of RMA and atomics may get or count completions.
        #[doc(alias = "FI_RMA_EVENT")]
        const RMA_EVENT = 1 << 56;
        /// Completions of received messages report the sender.
        #[doc(alias = "FI_SOURCE")]
        const SOURCE = 1 << 57;
        /// A sender may name a receive context of a scalable endpoint.
        #[doc(alias = "FI_NAMED_RX_CTX")]
        const NAMED_RX_CTX = 1 << 58;
        /// A receive may be restricted to messages of one peer.
        #[doc(alias = "FI_DIRECTED_RECV")]
        const DIRECTED_RECV = 1 << 59;
    }
}

flags! {
    /// Demands of a provider on its user.
    ///
    /// In hints, the demands that the user can meet. In results, those that the user must meet.
    ///
    /// ```
    /// use loom_core::{Hints, vocabulary::Mode};
    ///
    /// // The program leaves room in front of its messages, so providers may ask for that.
    /// let hints = Hints { mode: Mode::MSG_PREFIX, ..Hints::default() };
    /// assert_eq!(hints.mode.to_string(), "MSG_PREFIX");
    /// ```
    ///
    /// # References
    ///
    /// - `fi_getinfo(3)`, section *Mode*
    #[doc(alias = "fi_info::mode")]
    pub struct Mode: u64 {
        /// The user is another provider and takes over transfers (peer interface).
        #[doc(alias = "FI_PEER_TRANSFER")]
        const PEER_TRANSFER = 1 << 36;
        /// Messages arrive in the provider's own buffers (not in libfabric 2).
        #[doc(alias = "FI_BUFFERED_RECV")]
        const BUFFERED_RECV = 1 << 51;
        /// Each operation in flight lends the provider a context of eight pointers.
        #[doc(alias = "FI_CONTEXT2")]
        const CONTEXT2 = 1 << 52;
        /// Only endpoints with the same capabilities share queues and counters (not in libfabric
        /// 2).
        #[doc(alias = "FI_RESTRICTED_COMP")]
        const RESTRICTED_COMP = 1 << 53;
        /// Completion flags report remote notifications only (not in libfabric 2).
        #[doc(alias = "FI_NOTIFY_FLAGS_ONLY")]
        const NOTIFY_FLAGS_ONLY = 1 << 54;
        /// Local buffers must be registered (before version 1.5, see [`MrMode::LOCAL`]).
        #[doc(alias = "FI_LOCAL_MR")]
        const LOCAL_MR = 1 << 55;
        /// Immediate data consumes a receive buffer at the target, even for an RMA write.
        #[doc(alias = "FI_RX_CQ_DATA")]
        const RX_CQ_DATA = 1 << 56;
        /// Vectors of buffers must stay until the operation completes, not only until the post
        /// returns.
        #[doc(alias = "FI_ASYNC_IOV")]
        const ASYNC_IOV = 1 << 57;
        /// Message buffers start with a prefix for the provider (`msg_prefix_size` bytes).
        #[doc(alias = "FI_MSG_PREFIX")]
        const MSG_PREFIX = 1 << 58;
        /// Each operation in flight lends the provider a context of four pointers.
        #[doc(alias = "FI_CONTEXT")]
        const CONTEXT = 1 << 59;
    }
}

impl Caps {
    /// The header's second name of [`ATOMIC`](Self::ATOMIC).
    #[doc(alias = "FI_ATOMICS")]
    pub const ATOMICS: Self = Self::ATOMIC;

    /// Adds the implied modifiers of a group without any: `MSG` alone means `MSG | SEND | RECV`.
    #[must_use]
    pub const fn with_modifiers(self) -> Self {
        const MESSAGES: Caps = Caps::SEND.union(Caps::RECV);
        const MEMORY: Caps = Caps::READ.union(Caps::WRITE).union(Caps::REMOTE_READ).union(Caps::REMOTE_WRITE);
        let mut all = self;
        if self.intersects(Caps::MSG.union(Caps::TAGGED)) && !self.intersects(MESSAGES) {
            all = all.union(MESSAGES);
        }
        if self.intersects(Caps::RMA.union(Caps::ATOMIC)) && !self.intersects(MEMORY) {
            all = all.union(MEMORY);
        }
        all
    }
}
