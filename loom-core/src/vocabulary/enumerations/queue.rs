enumeration! {
    /// Object to sleep on until a queue has an entry.
    ///
    /// ```
    /// use loom_core::{Cq, CqAttr, WaitObj};
    ///
    /// # fixture::domain!(network, domain);
    /// // The program sleeps where it can, and polls elsewhere.
    /// let attr = CqAttr { wait: WaitObj::FD, wait_is_optional: true, ..CqAttr::new(16) };
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, attr)?;
    /// assert_eq!(cq.wait_fd().is_ok(), cq.wait_obj() == WaitObj::FD);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_cq(3)`, attribute `wait_obj`
    #[doc(alias = "fi_wait_obj")]
    WaitObj {
        /// No object: the queue is polled.
        NONE = 0, "FI_WAIT_NONE";
        /// The provider's choice: only its own calls can sleep on it.
        UNSPEC = 1, "FI_WAIT_UNSPEC";
        /// A wait set (not in libfabric 2).
        SET = 2, "FI_WAIT_SET";
        /// A file descriptor.
        FD = 3, "FI_WAIT_FD";
        /// A mutex and condition variable of POSIX threads.
        MUTEX_COND = 4, "FI_WAIT_MUTEX_COND";
        /// Yielding the processor between polls.
        YIELD = 5, "FI_WAIT_YIELD";
        /// File descriptors for `poll`.
        POLLFD = 6, "FI_WAIT_POLLFD";
    }
}

enumeration! {
    /// Format of completion queue entries. Each format extends the previous one.
    ///
    /// ```
    /// use loom_core::vocabulary::CqFormat;
    ///
    /// /// Whether entries of a format tell immediate data.
    /// fn has_data(format: CqFormat) -> bool {
    ///     format >= CqFormat::DATA
    /// }
    ///
    /// assert!(has_data(CqFormat::TAGGED) && !has_data(CqFormat::MSG));
    /// ```
    ///
    /// # References
    ///
    /// - `fi_cq(3)`, attribute `format`
    #[doc(alias = "fi_cq_format")]
    CqFormat {
        /// The provider chooses.
        UNSPEC = 0, "FI_CQ_FORMAT_UNSPEC";
        /// [`CqEntry`](crate::vocabulary::CqEntry)
        CONTEXT = 1, "FI_CQ_FORMAT_CONTEXT";
        /// [`CqMsgEntry`](crate::vocabulary::CqMsgEntry)
        MSG = 2, "FI_CQ_FORMAT_MSG";
        /// [`CqDataEntry`](crate::vocabulary::CqDataEntry)
        DATA = 3, "FI_CQ_FORMAT_DATA";
        /// [`CqTaggedEntry`](crate::vocabulary::CqTaggedEntry)
        TAGGED = 4, "FI_CQ_FORMAT_TAGGED";
    }
}

enumeration! {
    /// Kind of event in an event queue.
    ///
    /// ```
    /// use loom_core::vocabulary::EventKind;
    ///
    /// // For a log: the kind of an event, also of one that this crate does not know.
    /// assert_eq!(EventKind::CONNREQ.to_string(), "CONNREQ");
    /// assert_eq!(EventKind::from_raw(99).to_string(), "unknown (99)");
    /// ```
    ///
    /// # References
    /// - `man fi_eq`
    EventKind {
        /// The application's own event.
        NOTIFY = 0, "FI_NOTIFY";
        /// A peer requests a connection to a passive endpoint.
        CONNREQ = 1, "FI_CONNREQ";
        /// An endpoint is connected.
        CONNECTED = 2, "FI_CONNECTED";
        /// An endpoint is no longer connected.
        SHUTDOWN = 3, "FI_SHUTDOWN";
        /// A memory region is registered.
        MR_COMPLETE = 4, "FI_MR_COMPLETE";
        /// Addresses were inserted into an address vector.
        AV_COMPLETE = 5, "FI_AV_COMPLETE";
        /// A multicast or collective group was joined.
        JOIN_COMPLETE = 6, "FI_JOIN_COMPLETE";
    }
}
