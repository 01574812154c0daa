flags! {
    /// Flags of an operation.
    ///
    /// Also the default flags of an endpoint (`op_flags` of
    /// [`TxAttributes`](crate::vocabulary::TxAttributes) and
    /// [`RxAttributes`](crate::vocabulary::RxAttributes)).
    ///
    /// ```
    /// use loom_core::{Hints, vocabulary::{OpFlags, TxAttributes}};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // By default, sends are to complete when the message is persistent at the peer.
    /// let tx_attr = TxAttributes { op_flags: OpFlags::COMMIT_COMPLETE, ..TxAttributes::UNSPEC };
    /// assert!(network.query(&Hints { tx_attr, ..Hints::default() }).is_err(), "software does not grant that");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *Operation flags*
    /// - `fi_msg(3)`, `fi_tagged(3)`, `fi_rma(3)`, section *Flags*
    pub struct OpFlags: u64 {
        /// The destination is a multicast address.
        #[doc(alias = "FI_MULTICAST")]
        const MULTICAST = 1 << 5;
        /// The buffer takes messages until less than the minimum is left.
        #[doc(alias = "FI_MULTI_RECV")]
        const MULTI_RECV = 1 << 16;
        /// The operation carries immediate data.
        #[doc(alias = "FI_REMOTE_CQ_DATA")]
        const REMOTE_CQ_DATA = 1 << 17;
        /// More operations follow at once, and the provider may wait for them.
        #[doc(alias = "FI_MORE")]
        const MORE = 1 << 18;
        /// Check for a message without receiving it.
        #[doc(alias = "FI_PEEK")]
        const PEEK = 1 << 19;
        /// The operation waits for its trigger.
        #[doc(alias = "FI_TRIGGER")]
        const TRIGGER = 1 << 20;
        /// Start after all earlier operations to the same peer completed.
        #[doc(alias = "FI_FENCE")]
        const FENCE = 1 << 21;
        /// Prefer this operation.
        #[doc(alias = "FI_PRIORITY")]
        const PRIORITY = 1 << 22;
        /// Report a completion on an endpoint with selective completion (same bit as `FI_EVENT`).
        #[doc(alias = "FI_COMPLETION")]
        const COMPLETION = 1 << 24;
        /// The buffer may be reused when the call returns.
        #[doc(alias = "FI_INJECT")]
        const INJECT = 1 << 25;
        /// Complete when the buffer may be reused.
        #[doc(alias = "FI_INJECT_COMPLETE")]
        const INJECT_COMPLETE = 1 << 26;
        /// Complete when the operation no longer depends on the local side.
        #[doc(alias = "FI_TRANSMIT_COMPLETE")]
        const TRANSMIT_COMPLETE = 1 << 27;
        /// Complete when the data has arrived in the target's memory.
        #[doc(alias = "FI_DELIVERY_COMPLETE")]
        const DELIVERY_COMPLETE = 1 << 28;
        /// The affinity fields of the operation are valid.
        #[doc(alias = "FI_AFFINITY")]
        const AFFINITY = 1 << 29;
        /// Complete when the data is persistent at the target.
        #[doc(alias = "FI_COMMIT_COMPLETE")]
        const COMMIT_COMPLETE = 1 << 30;
        /// Complete when the message was matched with a receive buffer.
        #[doc(alias = "FI_MATCH_COMPLETE")]
        const MATCH_COMPLETE = 1 << 31;
        /// The transfer belongs to a peer provider.
        #[doc(alias = "FI_PEER_TRANSFER")]
        const PEER_TRANSFER = 1 << 36;
        /// A device triggers the operation.
        #[doc(alias = "FI_XPU_TRIGGER")]
        const XPU_TRIGGER = 1 << 44;
        /// Drop the peeked or claimed message.
        #[doc(alias = "FI_DISCARD")]
        const DISCARD = 1 << 58;
        /// Reserve the peeked message, or receive the reserved one.
        #[doc(alias = "FI_CLAIM")]
        const CLAIM = 1 << 59;
    }
}

flags! {
    /// Properties of a completion.
    ///
    /// ```
    /// use loom_core::{Forever, Source, Tag, vocabulary::CompletionFlags};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.tagged_recv(Source::Any, Tag(7), vec![0; 5])?;
    /// cq.retry(Forever, || alice.tagged_inject(to_bob, Tag(7), b"hello"))?;
    /// let flags = cq.finish(received, Forever)?.result()?.flags;
    /// assert!(flags.contains(CompletionFlags::RECV | CompletionFlags::TAGGED));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_cq(3)`, section *Completion flags*
    #[doc(alias = "fi_cq_data_entry::flags")]
    pub struct CompletionFlags: u64 {
        /// Message.
        #[doc(alias = "FI_MSG")]
        const MSG = 1 << 1;
        /// Remote memory access.
        #[doc(alias = "FI_RMA")]
        const RMA = 1 << 2;
        /// Tagged message.
        #[doc(alias = "FI_TAGGED")]
        const TAGGED = 1 << 3;
        /// Atomic operation.
        #[doc(alias = "FI_ATOMIC")]
        const ATOMIC = 1 << 4;
        /// Message to a multicast address.
        #[doc(alias = "FI_MULTICAST")]
        const MULTICAST = 1 << 5;
        /// The operation was a collective.
        #[doc(alias = "FI_COLLECTIVE")]
        const COLLECTIVE = 1 << 6;
        /// This endpoint read.
        #[doc(alias = "FI_READ")]
        const READ = 1 << 8;
        /// This endpoint wrote.
        #[doc(alias = "FI_WRITE")]
        const WRITE = 1 << 9;
        /// This endpoint received.
        #[doc(alias = "FI_RECV")]
        const RECV = 1 << 10;
        /// This endpoint sent.
        #[doc(alias = "FI_SEND")]
        const SEND = 1 << 11;
        /// A peer read this endpoint's memory.
        #[doc(alias = "FI_REMOTE_READ")]
        const REMOTE_READ = 1 << 12;
        /// A peer wrote this endpoint's memory.
        #[doc(alias = "FI_REMOTE_WRITE")]
        const REMOTE_WRITE = 1 << 13;
        /// The multi-receive buffer is used up and belongs to the user again.
        #[doc(alias = "FI_MULTI_RECV")]
        const MULTI_RECV = 1 << 16;
        /// The `data` field holds immediate data.
        #[doc(alias = "FI_REMOTE_CQ_DATA")]
        const REMOTE_CQ_DATA = 1 << 17;
        /// Part of a message. More of it follows.
        #[doc(alias = "FI_MORE")]
        const MORE = 1 << 18;
        /// The message must be claimed or discarded.
        #[doc(alias = "FI_CLAIM")]
        const CLAIM = 1 << 59;
    }
}

impl OpFlags {
    /// The header's second name of [`COMPLETION`](Self::COMPLETION).
    #[doc(alias = "FI_EVENT")]
    pub const EVENT: Self = Self::COMPLETION;
}
