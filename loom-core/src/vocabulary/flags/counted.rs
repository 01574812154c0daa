flags! {
    /// Operations of an endpoint that a counter counts: the flags of `fi_ep_bind`.
    ///
    /// ```
    /// use loom_core::{Binding, Counted, Counter, CounterAttr, Forever, Source};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// // One counter counts both directions.
    /// let messages = Counter::open(&domain, CounterAttr::default())?;
    /// let bob = cq.endpoint(Binding::to(&av).counter(Counted::SEND | Counted::RECV, &messages))?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// let sent = cq.post(b"hello".to_vec(), Forever, |message| bob.send(to_bob, message))?;
    /// for key in [received, sent] {
    ///     cq.finish(key, Forever)?.result()?;
    /// }
    /// assert_eq!(messages.read(), 2);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *fi_ep_bind*
    pub struct Counted: u64 {
        /// Reads from peers' regions.
        #[doc(alias = "FI_READ")]
        const READ = 1 << 8;
        /// Writes into peers' regions.
        #[doc(alias = "FI_WRITE")]
        const WRITE = 1 << 9;
        /// Receives, including tagged ones.
        #[doc(alias = "FI_RECV")]
        const RECV = 1 << 10;
        /// Sends, including tagged and injected ones.
        #[doc(alias = "FI_SEND")]
        const SEND = 1 << 11;
        /// Peers' reads from this side's regions, if `RMA_EVENT` is granted.
        #[doc(alias = "FI_REMOTE_READ")]
        const REMOTE_READ = 1 << 12;
        /// Peers' writes into this side's regions, if `RMA_EVENT` is granted.
        #[doc(alias = "FI_REMOTE_WRITE")]
        const REMOTE_WRITE = 1 << 13;
    }
}
