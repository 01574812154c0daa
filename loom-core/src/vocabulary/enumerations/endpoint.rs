enumeration! {
    /// Kind of an endpoint.
    ///
    /// ```
    /// use loom_core::{EndpointAttributes, EndpointType, Hints};
    /// # use loom_core::soft::{Network, NetworkAttr};
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let asked = |kind| Hints { endpoint_attr: EndpointAttributes::of(kind), ..Hints::default() };
    /// assert!(network.query(&asked(EndpointType::RDM)).is_ok());
    /// assert!(network.query(&asked(EndpointType::MSG)).is_err(), "software has no connections");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *type*
    #[doc(alias = "fi_ep_type")]
    EndpointType {
        /// The provider chooses.
        UNSPEC = 0, "FI_EP_UNSPEC";
        /// Connected, reliable messages.
        MSG = 1, "FI_EP_MSG";
        /// Unconnected, unreliable datagrams.
        DGRAM = 2, "FI_EP_DGRAM";
        /// Unconnected, reliable messages.
        RDM = 3, "FI_EP_RDM";
        /// A connected byte stream (not in libfabric 2).
        SOCK_STREAM = 4, "FI_EP_SOCK_STREAM";
        /// Socket datagrams (not in libfabric 2).
        SOCK_DGRAM = 5, "FI_EP_SOCK_DGRAM";
    }
}

enumeration! {
    /// Format of an endpoint's address.
    ///
    /// ```
    /// use loom_core::{EndpointAddr, vocabulary::AddressFormat};
    ///
    /// let format = |text: &str| text.parse().map(|address: EndpointAddr| address.format());
    /// assert_eq!(format("10.0.0.1:7471"), Ok(AddressFormat::SOCKADDR_IN));
    /// assert_eq!(format("fi_shm://1234"), Ok(AddressFormat::ADDR_STR));
    /// ```
    ///
    /// # References
    ///
    /// - `fi_getinfo(3)`, section *Addressing formats*
    #[doc(alias = "fi_info::addr_format")]
    AddressFormat {
        /// The provider chooses.
        UNSPEC = 0, "FI_FORMAT_UNSPEC";
        /// A socket address of any family.
        SOCKADDR = 1, "FI_SOCKADDR";
        /// IPv4: `struct sockaddr_in`, 16 bytes.
        SOCKADDR_IN = 2, "FI_SOCKADDR_IN";
        /// IPv6: `struct sockaddr_in6`, 28 bytes.
        SOCKADDR_IN6 = 3, "FI_SOCKADDR_IN6";
        /// InfiniBand: `struct sockaddr_ib`.
        SOCKADDR_IB = 4, "FI_SOCKADDR_IB";
        /// Intel PSM (not in libfabric 2).
        ADDR_PSMX = 5, "FI_ADDR_PSMX";
        /// Cray GNI (not in libfabric 2).
        ADDR_GNI = 6, "FI_ADDR_GNI";
        /// IBM Blue Gene/Q (not in libfabric 2).
        ADDR_BGQ = 7, "FI_ADDR_BGQ";
        /// Mellanox MXM and UCX.
        ADDR_MLX = 8, "FI_ADDR_MLX";
        /// A string with its terminating zero byte.
        ADDR_STR = 9, "FI_ADDR_STR";
        /// Intel PSM2: two 64-bit numbers.
        ADDR_PSMX2 = 10, "FI_ADDR_PSMX2";
        /// InfiniBand unreliable datagrams: four 64-bit numbers.
        ADDR_IB_UD = 11, "FI_ADDR_IB_UD";
        /// Amazon EFA.
        ADDR_EFA = 12, "FI_ADDR_EFA";
        /// Intel PSM3: four 64-bit numbers.
        ADDR_PSMX3 = 13, "FI_ADDR_PSMX3";
        /// Cornelis OPX.
        ADDR_OPX = 14, "FI_ADDR_OPX";
        /// HPE Slingshot (CXI).
        ADDR_CXI = 15, "FI_ADDR_CXI";
        /// UCX (newer than libfabric 1.17).
        ADDR_UCX = 16, "FI_ADDR_UCX";
        /// IPv4 or IPv6, by the family field (newer than libfabric 1.17).
        SOCKADDR_IP = 17, "FI_SOCKADDR_IP";
    }
}

enumeration! {
    /// Protocol below an endpoint. Endpoints with the same protocol can communicate.
    ///
    /// ```
    /// use loom_core::{EndpointAttributes, vocabulary::Protocol};
    ///
    /// /// Whether two endpoints can talk to each other.
    /// fn can_talk(a: &EndpointAttributes, b: &EndpointAttributes) -> bool {
    ///     a.protocol != Protocol::UNSPEC && (a.protocol, a.protocol_version) == (b.protocol, b.protocol_version)
    /// }
    ///
    /// let with = |protocol| EndpointAttributes { protocol, ..EndpointAttributes::UNSPEC };
    /// assert!(!can_talk(&with(Protocol::RXM_TCP), &with(Protocol::XNET)));
    /// // A protocol that this crate has no name for is compared like all others.
    /// assert!(can_talk(&with(Protocol::from_raw(99)), &with(Protocol::from_raw(99))));
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *protocol*
    #[doc(alias = "fi_ep_attr::protocol")]
    Protocol {
        /// The provider chooses.
        UNSPEC = 0, "FI_PROTO_UNSPEC";
        /// InfiniBand reliable connections set up by RDMA CM.
        RDMA_CM_IB_RC = 1, "FI_PROTO_RDMA_CM_IB_RC";
        /// iWARP.
        IWARP = 2, "FI_PROTO_IWARP";
        /// InfiniBand unreliable datagrams.
        IB_UD = 3, "FI_PROTO_IB_UD";
        /// Intel PSM.
        PSMX = 4, "FI_PROTO_PSMX";
        /// UDP datagrams.
        UDP = 5, "FI_PROTO_UDP";
        /// The `sockets` provider over TCP.
        SOCK_TCP = 6, "FI_PROTO_SOCK_TCP";
        /// Mellanox MXM.
        MXM = 7, "FI_PROTO_MXM";
        /// Reliable datagrams over iWARP.
        IWARP_RDM = 8, "FI_PROTO_IWARP_RDM";
        /// Reliable datagrams over InfiniBand.
        IB_RDM = 9, "FI_PROTO_IB_RDM";
        /// Cray GNI.
        GNI = 10, "FI_PROTO_GNI";
        /// The `ofi_rxm` layer over connected endpoints.
        RXM = 11, "FI_PROTO_RXM";
        /// The `ofi_rxd` layer over datagram endpoints.
        RXD = 12, "FI_PROTO_RXD";
        /// Mellanox UCX, used by the `mlx` provider.
        MLX = 13, "FI_PROTO_MLX";
        /// Microsoft NetworkDirect.
        NETWORKDIRECT = 14, "FI_PROTO_NETWORKDIRECT";
        /// Intel PSM2.
        PSMX2 = 15, "FI_PROTO_PSMX2";
        /// Shared memory within a host.
        SHM = 16, "FI_PROTO_SHM";
        /// The multi-rail layer.
        MRAIL = 17, "FI_PROTO_MRAIL";
        /// Byte streams over RDMA.
        RSTREAM = 18, "FI_PROTO_RSTREAM";
        /// InfiniBand extended reliable connections.
        RDMA_CM_IB_XRC = 19, "FI_PROTO_RDMA_CM_IB_XRC";
        /// Amazon EFA.
        EFA = 20, "FI_PROTO_EFA";
        /// Intel PSM3.
        PSMX3 = 21, "FI_PROTO_PSMX3";
        /// The `ofi_rxm` layer over TCP.
        RXM_TCP = 22, "FI_PROTO_RXM_TCP";
        /// Cornelis OPX.
        OPX = 23, "FI_PROTO_OPX";
        /// HPE Slingshot (CXI).
        CXI = 24, "FI_PROTO_CXI";
        /// The `net` provider over TCP.
        XNET = 25, "FI_PROTO_XNET";
        /// The collective offload layer (newer than libfabric 1.17).
        COLL = 26, "FI_PROTO_COLL";
        /// UCX (newer than libfabric 1.17).
        UCX = 27, "FI_PROTO_UCX";
        /// Shared memory, second generation (newer than libfabric 1.17).
        SM2 = 28, "FI_PROTO_SM2";
        /// HPE Slingshot without receiver flow control (newer than libfabric 1.17).
        CXI_RNR = 29, "FI_PROTO_CXI_RNR";
        /// GigaIO FabreX (newer than libfabric 1.17).
        LPP = 30, "FI_PROTO_LPP";
        /// The linking layer over several providers (libfabric 2).
        LNX = 31, "FI_PROTO_LNX";
    }
}

enumeration! {
    /// Traffic class: the network service that a transfer requests.
    ///
    /// One of the labels below or a differentiated-services code point, see [`dscp`](Self::dscp).
    ///
    /// ```
    /// use loom_core::{Hints, vocabulary::{TrafficClass, TxAttributes}};
    ///
    /// // Expedited forwarding, code point 46.
    /// let tclass = TrafficClass::dscp(46);
    /// let hints = Hints { tx_attr: TxAttributes { tclass, ..TxAttributes::UNSPEC }, ..Hints::default() };
    /// assert_eq!(hints.tx_attr.tclass.as_raw(), 0x100 | 46);
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *Traffic class*
    #[doc(alias = "tclass")]
    TrafficClass {
        /// The provider chooses.
        UNSPEC = 0, "FI_TC_UNSPEC";
        /// Default service.
        BEST_EFFORT = 0x200, "FI_TC_BEST_EFFORT";
        /// Small transfers, low latency.
        LOW_LATENCY = 0x201, "FI_TC_LOW_LATENCY";
        /// A dedicated share.
        DEDICATED_ACCESS = 0x202, "FI_TC_DEDICATED_ACCESS";
        /// Large transfers, throughput before latency.
        BULK_DATA = 0x203, "FI_TC_BULK_DATA";
        /// Remaining capacity.
        SCAVENGER = 0x204, "FI_TC_SCAVENGER";
        /// Control of the network itself.
        NETWORK_CTRL = 0x205, "FI_TC_NETWORK_CTRL";
    }
}

impl TrafficClass {
    /// First label, equal to [`BEST_EFFORT`](Self::BEST_EFFORT).
    #[doc(alias = "FI_TC_LABEL")]
    pub const LABEL: Self = Self::BEST_EFFORT;

    /// Marks a code point: `FI_TC_DSCP`.
    const DSCP: u32 = 0x100;

    /// Class of a differentiated-services code point.
    #[doc(alias = "fi_tc_dscp_set")]
    #[doc(alias = "FI_TC_DSCP")]
    #[must_use]
    pub const fn dscp(code_point: u8) -> Self {
        Self(Self::DSCP | code_point as u32)
    }
}
