flags! {
    /// Requirements of a domain on memory registration.
    ///
    /// An `int` in C, here the same 32 bits. In hints, the requirements that the user can meet. In
    /// results, those that the user must meet.
    ///
    /// ```
    /// use loom_core::{Domain, soft::{Network, NetworkAttr, RequiredModes}, vocabulary::MrMode};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION))?;
    /// // The provider takes `Registered` buffers alone.
    /// assert!(domain.info().attributes().domain.mr_mode.contains(MrMode::LOCAL));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_mr(3)`, section *MR mode bits*
    /// - `fi_domain(3)`, section *Memory registration mode*
    #[doc(alias = "fi_domain_attr::mr_mode")]
    pub struct MrMode: u32 {
        /// Old combined mode of versions before 1.5: virtual addresses, keys from the provider.
        #[doc(alias = "FI_MR_BASIC")]
        const BASIC = 1 << 0;
        /// Old combined mode of versions before 1.5: offsets, keys from the user.
        #[doc(alias = "FI_MR_SCALABLE")]
        const SCALABLE = 1 << 1;
        /// Local buffers must be registered, and operations carry their descriptors.
        #[doc(alias = "FI_MR_LOCAL")]
        const LOCAL = 1 << 2;
        /// Keys are larger than 64 bits or otherwise need mapping.
        #[doc(alias = "FI_MR_RAW")]
        const RAW = 1 << 3;
        /// RMA uses virtual addresses of remote memory instead of offsets.
        #[doc(alias = "FI_MR_VIRT_ADDR")]
        const VIRT_ADDR = 1 << 4;
        /// Memory must be backed by physical pages when it is registered.
        #[doc(alias = "FI_MR_ALLOCATED")]
        const ALLOCATED = 1 << 5;
        /// The provider chooses keys and ignores requested ones.
        #[doc(alias = "FI_MR_PROV_KEY")]
        const PROV_KEY = 1 << 6;
        /// The user notifies the provider when page tables of registered memory change.
        #[doc(alias = "FI_MR_MMU_NOTIFY")]
        const MMU_NOTIFY = 1 << 7;
        /// A region that reports RMA events must be bound and enabled.
        #[doc(alias = "FI_MR_RMA_EVENT")]
        const RMA_EVENT = 1 << 8;
        /// Regions are bound to an endpoint, then enabled.
        #[doc(alias = "FI_MR_ENDPOINT")]
        const ENDPOINT = 1 << 9;
        /// Device memory must be registered, also for local use.
        #[doc(alias = "FI_MR_HMEM")]
        const HMEM = 1 << 10;
        /// Buffers of collective operations must be registered.
        #[doc(alias = "FI_MR_COLLECTIVE")]
        const COLLECTIVE = 1 << 11;
    }
}

flags! {
    /// Permitted uses of a registered region.
    ///
    /// ```
    /// use loom_core::{Access, Mr, OpenError};
    ///
    /// # fixture::domain!(network, domain);
    /// // Peers may read this memory, and must not write it.
    /// let for_readers = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
    /// # let bytes: &'static [u8] = &[7; 64];
    /// // Shared bytes are not exposed to writes.
    /// assert_eq!(Mr::open(&domain, bytes, Access::REMOTE_WRITE).unwrap_err(), OpenError::Access);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_mr(3)`, `fi_mr_reg`
    #[doc(alias = "fi_mr_attr::access")]
    pub struct Access: u64 {
        /// Collective operations use the memory.
        #[doc(alias = "FI_COLLECTIVE")]
        const COLLECTIVE = 1 << 6;
        /// RMA reads and fetching atomics of this endpoint place data here.
        #[doc(alias = "FI_READ")]
        const READ = 1 << 8;
        /// RMA writes and atomics of this endpoint take data from here.
        #[doc(alias = "FI_WRITE")]
        const WRITE = 1 << 9;
        /// Messages are received here.
        #[doc(alias = "FI_RECV")]
        const RECV = 1 << 10;
        /// Messages are sent from here.
        #[doc(alias = "FI_SEND")]
        const SEND = 1 << 11;
        /// Peers may read here.
        #[doc(alias = "FI_REMOTE_READ")]
        const REMOTE_READ = 1 << 12;
        /// Peers may write here.
        #[doc(alias = "FI_REMOTE_WRITE")]
        const REMOTE_WRITE = 1 << 13;
    }
}

flags! {
    /// Flags of a registration.
    ///
    /// ```
    /// use loom_core::{Access, transport::{DmaBuf, RegionAttr}, vocabulary::{MemoryKey, MrFlags}};
    ///
    /// /// What a transport looks at: a descriptor, if the memory is given as one.
    /// fn descriptor(attr: &RegionAttr) -> Option<DmaBuf> {
    ///     attr.dmabuf.filter(|_| attr.flags.contains(MrFlags::DMABUF))
    /// }
    ///
    /// let host = RegionAttr { access: Access::REMOTE_READ, ..Default::default() };
    /// let device = RegionAttr { flags: MrFlags::DMABUF, dmabuf: Some(DmaBuf { fd: 3, offset: 0 }), ..host };
    /// assert!(descriptor(&device).is_some() && descriptor(&host).is_none());
    /// ```
    ///
    /// # References
    ///
    /// - `fi_mr(3)`, section *Flags*
    #[doc(alias = "fi_mr_regattr")]
    pub struct MrFlags: u64 {
        /// The memory is a dma-buf descriptor (libfabric 1.20).
        #[doc(alias = "FI_MR_DMABUF")]
        const DMABUF = 1 << 40;
        /// The region serves one operation (newer than libfabric 2.5).
        #[doc(alias = "FI_MR_SINGLE_USE")]
        const SINGLE_USE = 1 << 41;
        /// Host memory that the device runtime allocated.
        #[doc(alias = "FI_HMEM_HOST_ALLOC")]
        const HMEM_HOST_ALLOC = 1 << 45;
        /// Device memory that the host cannot reach.
        #[doc(alias = "FI_HMEM_DEVICE_ONLY")]
        const HMEM_DEVICE_ONLY = 1 << 46;
        /// The memory is persistent.
        #[doc(alias = "FI_RMA_PMEM")]
        const RMA_PMEM = 1 << 49;
        /// The region reports RMA events.
        #[doc(alias = "FI_RMA_EVENT")]
        const RMA_EVENT = 1 << 56;
    }
}
