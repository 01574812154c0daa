enumeration! {
    /// Calls that the user keeps from running at the same time.
    ///
    /// ```
    /// use loom_core::vocabulary::Threading;
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // One thread at a time calls a queue and its endpoints. Other queues may have other threads.
    /// assert_eq!(network.info().attributes().domain.threading, Threading::COMPLETION);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_domain(3)`, section *Threading*
    #[doc(alias = "fi_threading")]
    Threading {
        /// The provider chooses.
        UNSPEC = 0, "FI_THREAD_UNSPEC";
        /// No calls: any call from any thread.
        SAFE = 1, "FI_THREAD_SAFE";
        /// Calls on the same object (not in libfabric 2).
        FID = 2, "FI_THREAD_FID";
        /// Calls on the same domain and its objects.
        DOMAIN = 3, "FI_THREAD_DOMAIN";
        /// Calls on the same completion queue or counter, and objects bound to it.
        COMPLETION = 4, "FI_THREAD_COMPLETION";
        /// Calls on the same endpoint (not in libfabric 2).
        ENDPOINT = 5, "FI_THREAD_ENDPOINT";
    }
}

enumeration! {
    /// Driver of transfers.
    ///
    /// ```
    /// use loom_core::{Hints, vocabulary::{DomainAttributes, Progress}};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // Software moves transfers on when the program polls, and never by itself.
    /// let domain_attr = DomainAttributes { data_progress: Progress::AUTO, ..DomainAttributes::UNSPEC };
    /// assert!(network.query(&Hints { domain_attr, ..Hints::default() }).is_err());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_domain(3)`, section *Progress models*
    #[doc(alias = "fi_progress")]
    Progress {
        /// The provider chooses.
        UNSPEC = 0, "FI_PROGRESS_UNSPEC";
        /// The provider, even while the user makes no call.
        AUTO = 1, "FI_PROGRESS_AUTO";
        /// The user, by reading queues and counters.
        MANUAL = 2, "FI_PROGRESS_MANUAL";
        /// The user. Driving data also drives control (control progress only, libfabric 2).
        CONTROL_UNIFIED = 3, "FI_PROGRESS_CONTROL_UNIFIED";
    }
}

enumeration! {
    /// Protection of queues from overflowing.
    ///
    /// ```
    /// use loom_core::{Hints, vocabulary::{DomainAttributes, ResourceMgmt}};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // The program relies on the provider, which refuses what a full queue has no room for.
    /// let domain_attr = DomainAttributes { resource_mgmt: ResourceMgmt::ENABLED, ..DomainAttributes::UNSPEC };
    /// assert!(network.query(&Hints { domain_attr, ..Hints::default() }).is_ok());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_domain(3)`, section *Resource management*
    #[doc(alias = "fi_resource_mgmt")]
    ResourceMgmt {
        /// The provider chooses.
        UNSPEC = 0, "FI_RM_UNSPEC";
        /// The user prevents overflow.
        DISABLED = 1, "FI_RM_DISABLED";
        /// The provider prevents overflow by refusing operations.
        ENABLED = 2, "FI_RM_ENABLED";
    }
}

enumeration! {
    /// Numbering of addresses in an address vector.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::{engine::address_table::{AddressTableAttr, AddressTableMemory}, vocabulary::{AvType, FabricAddr}};
    ///
    /// let attr = AddressTableAttr { av_type: AvType::TABLE, ..AddressTableAttr::new(4) };
    /// let mut memory = AddressTableMemory::new_in(attr, Global)?;
    /// let mut table = memory.table();
    /// let peer = table.insert("10.0.0.1:7471".parse::<std::net::SocketAddr>()?)?.peer();
    /// assert_eq!(table.peers().addr(peer), Some(FabricAddr(0)), "the first index");
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_av(3)`
    #[doc(alias = "fi_av_type")]
    AvType {
        /// The provider chooses.
        UNSPEC = 0, "FI_AV_UNSPEC";
        /// Opaque 64-bit values.
        MAP = 1, "FI_AV_MAP";
        /// Indices in order of insertion, from zero.
        TABLE = 2, "FI_AV_TABLE";
    }
}

enumeration! {
    /// Runtime that owns memory.
    ///
    /// ```
    /// use core::ptr::NonNull;
    /// use loom_core::{buffer::Lent, vocabulary::HmemIface};
    ///
    /// # let mut bytes = [0_u8; 16];
    /// # let pointer = NonNull::from_mut(&mut bytes).cast();
    /// // What a buffer in the memory of a device lends.
    /// let lent = Lent { kind: HmemIface::CUDA, ..Lent::both(pointer, 16) };
    /// // The host does not touch such bytes.
    /// assert_ne!(lent.kind, HmemIface::SYSTEM);
    /// ```
    ///
    /// # References
    ///
    /// - `fi_mr(3)`, section *iface*
    #[doc(alias = "fi_hmem_iface")]
    HmemIface {
        /// Ordinary host memory, the default.
        SYSTEM = 0, "FI_HMEM_SYSTEM";
        /// NVIDIA CUDA.
        CUDA = 1, "FI_HMEM_CUDA";
        /// AMD ROCm.
        ROCR = 2, "FI_HMEM_ROCR";
        /// Intel oneAPI Level Zero.
        ZE = 3, "FI_HMEM_ZE";
        /// AWS Neuron.
        NEURON = 4, "FI_HMEM_NEURON";
        /// Habana Gaudi (SynapseAI).
        SYNAPSEAI = 5, "FI_HMEM_SYNAPSEAI";
    }
}
