flags! {
    /// Order in which operations of one endpoint take effect at one peer.
    ///
    /// Empty (`FI_ORDER_NONE`) promises no order. *X after Y* promises that an X posted after a Y
    /// takes effect after it. For RMA this holds up to `max_order_*_size` bytes of the endpoint.
    ///
    /// ```
    /// use loom_core::{Hints, MsgOrder};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // Sends stay in order, and writes do.
    /// let hints = Hints::default().with_msg_order(MsgOrder::SAS | MsgOrder::WAW);
    /// let info = network.query(&hints)?;
    /// assert!(info.attributes().tx.msg_order.contains(MsgOrder::SAS | MsgOrder::WAW));
    /// // Writes up to this length stay in order.
    /// assert!(info.attributes().endpoint.max_order_waw_size > 0);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *Message ordering*
    #[doc(alias = "fi_tx_attr::msg_order")]
    pub struct MsgOrder: u64 {
        /// Read after read.
        #[doc(alias = "FI_ORDER_RAR")]
        const RAR = 1 << 0;
        /// Read after write.
        #[doc(alias = "FI_ORDER_RAW")]
        const RAW = 1 << 1;
        /// Read after send.
        #[doc(alias = "FI_ORDER_RAS")]
        const RAS = 1 << 2;
        /// Write after read.
        #[doc(alias = "FI_ORDER_WAR")]
        const WAR = 1 << 3;
        /// Write after write.
        #[doc(alias = "FI_ORDER_WAW")]
        const WAW = 1 << 4;
        /// Write after send.
        #[doc(alias = "FI_ORDER_WAS")]
        const WAS = 1 << 5;
        /// Send after read.
        #[doc(alias = "FI_ORDER_SAR")]
        const SAR = 1 << 6;
        /// Send after write.
        #[doc(alias = "FI_ORDER_SAW")]
        const SAW = 1 << 7;
        /// Send after send.
        #[doc(alias = "FI_ORDER_SAS")]
        const SAS = 1 << 8;
        /// RMA read after RMA read.
        #[doc(alias = "FI_ORDER_RMA_RAR")]
        const RMA_RAR = 1 << 32;
        /// RMA read after RMA write.
        #[doc(alias = "FI_ORDER_RMA_RAW")]
        const RMA_RAW = 1 << 33;
        /// RMA write after RMA read.
        #[doc(alias = "FI_ORDER_RMA_WAR")]
        const RMA_WAR = 1 << 34;
        /// RMA write after RMA write.
        #[doc(alias = "FI_ORDER_RMA_WAW")]
        const RMA_WAW = 1 << 35;
        /// Atomic read after atomic read.
        #[doc(alias = "FI_ORDER_ATOMIC_RAR")]
        const ATOMIC_RAR = 1 << 36;
        /// Atomic read after atomic write.
        #[doc(alias = "FI_ORDER_ATOMIC_RAW")]
        const ATOMIC_RAW = 1 << 37;
        /// Atomic write after atomic read.
        #[doc(alias = "FI_ORDER_ATOMIC_WAR")]
        const ATOMIC_WAR = 1 << 38;
        /// Atomic write after atomic write.
        #[doc(alias = "FI_ORDER_ATOMIC_WAW")]
        const ATOMIC_WAW = 1 << 39;
        /// All nine orders between reads, writes and sends, printed as separate flags.
        #[doc(alias = "FI_ORDER_STRICT")]
        const STRICT = 0x1ff;
    }
}

flags! {
    /// Order in which completions are reported.
    ///
    /// Empty (`FI_ORDER_NONE`) promises no order.
    ///
    /// ```
    /// use loom_core::{Hints, vocabulary::{CompOrder, TxAttributes}};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // The program wants to hear of its sends in the order in which it posts them.
    /// let tx_attr = TxAttributes { comp_order: CompOrder::STRICT, ..TxAttributes::UNSPEC };
    /// let ordered = network.query(&Hints { tx_attr, ..Hints::default() });
    /// // Where that is not granted, it tells them apart by their keys.
    /// assert!(ordered.is_err() && network.info().attributes().tx.comp_order == CompOrder::NONE);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *Completion ordering*
    #[doc(alias = "fi_tx_attr::comp_order")]
    pub struct CompOrder: u64 {
        /// The data of one message or RMA operation arrives in byte order.
        #[doc(alias = "FI_ORDER_DATA")]
        const DATA = 1 << 16;
        /// Completions are reported in the order of posts.
        #[doc(alias = "FI_ORDER_STRICT")]
        const STRICT = 0x1ff;
    }
}

impl MsgOrder {
    /// The empty set.
    #[doc(alias = "FI_ORDER_NONE")]
    pub const NONE: Self = Self::empty();
}

impl CompOrder {
    /// The empty set.
    #[doc(alias = "FI_ORDER_NONE")]
    pub const NONE: Self = Self::empty();
}
