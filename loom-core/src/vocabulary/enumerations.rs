//! Enumerations, as newtypes over libfabric's numbers: unknown numbers are kept and printed as such.

/// Defines an enumeration: a transparent newtype over `u32` with named constants.
///
/// Each line is `NAME = number, "C name";`. Zero is the default, as in C.
macro_rules! enumeration {
    (
        $(#[$type_attribute:meta])*
        $Type:ident {
            $(
                $(#[$attribute:meta])*
                $NAME:ident = $number:literal, $c_name:literal;
            )+
        }
    ) => {
        $(#[$type_attribute])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Type(u32);

        impl $Type {
            $(
                $(#[$attribute])*
                #[doc(alias = $c_name)]
                pub const $NAME: Self = Self($number);
            )+

            /// Every value that has a name, in the order of the numbers.
            pub const NAMED: &'static [Self] = &[$(Self::$NAME),+];

            /// The value with libfabric's number, known or not.
            #[must_use]
            pub const fn from_raw(number: u32) -> Self {
                Self(number)
            }

            /// libfabric's number.
            #[must_use]
            pub const fn as_raw(self) -> u32 {
                self.0
            }

            /// libfabric's name without `FI_`, if this crate knows one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$NAME => $c_name.strip_prefix("FI_"),)+
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $Type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "unknown ({})", self.0),
                }
            }
        }

        impl core::fmt::Debug for $Type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($Type), "({})"), self)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.name() {
                    Some(name) if serializer.is_human_readable() => serializer.serialize_str(name),
                    _ => serializer.serialize_u32(self.0),
                }
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let named = |text: &str| Self::NAMED.iter().find(|value| value.name() == Some(text)).map(|value| value.0);
                $crate::serial::named(deserializer, named).map(Self)
            }
        }
    };
}

pub(super) use enumeration;

enumeration! {
    /// Which calls the user keeps from running at the same time.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::vocabulary::Threading;
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // One thread at a time calls a queue and its endpoints. Other queues may have other threads.
    /// assert_eq!(network.info().attributes().domain.threading, Threading::COMPLETION);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_domain(3)`, section *Threading*
    #[doc(alias = "fi_threading")]
    Threading {
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_THREAD_UNSPEC";
        /// None: any call from any thread.
        SAFE = 1, "FI_THREAD_SAFE";
        /// Calls on the same object; not in libfabric 2.
        FID = 2, "FI_THREAD_FID";
        /// Calls on the same domain and everything under it.
        DOMAIN = 3, "FI_THREAD_DOMAIN";
        /// Calls on the same completion queue or counter and what is bound to it.
        COMPLETION = 4, "FI_THREAD_COMPLETION";
        /// Calls on the same endpoint; not in libfabric 2.
        ENDPOINT = 5, "FI_THREAD_ENDPOINT";
    }
}

enumeration! {
    /// Who drives transfers forward.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Hints;
    /// use loom_core::vocabulary::{DomainAttributes, Progress};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // Software moves transfers on when the program polls, and never by itself.
    /// let domain_attr = DomainAttributes { data_progress: Progress::AUTO, ..DomainAttributes::UNSPEC };
    /// assert!(network.query(&Hints { domain_attr, ..Hints::default() }).is_none());
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_domain(3)`, section *Progress models*
    #[doc(alias = "fi_progress")]
    Progress {
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_PROGRESS_UNSPEC";
        /// The provider, also while the user makes no call.
        AUTO = 1, "FI_PROGRESS_AUTO";
        /// The user, by reading queues and counters.
        MANUAL = 2, "FI_PROGRESS_MANUAL";
        /// For control progress: the user, and driving data drives control too (libfabric 2).
        CONTROL_UNIFIED = 3, "FI_PROGRESS_CONTROL_UNIFIED";
    }
}

enumeration! {
    /// Who prevents queues from overflowing.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Hints;
    /// use loom_core::vocabulary::{DomainAttributes, ResourceMgmt};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// // The program relies on the provider, which refuses what a full queue has no room for.
    /// let domain_attr = DomainAttributes { resource_mgmt: ResourceMgmt::ENABLED, ..DomainAttributes::UNSPEC };
    /// assert!(network.query(&Hints { domain_attr, ..Hints::default() }).is_some());
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_domain(3)`, section *Resource management*
    #[doc(alias = "fi_resource_mgmt")]
    ResourceMgmt {
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_RM_UNSPEC";
        /// The user.
        DISABLED = 1, "FI_RM_DISABLED";
        /// The provider, by refusing operations.
        ENABLED = 2, "FI_RM_ENABLED";
    }
}

enumeration! {
    /// How an address vector numbers its addresses.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};
    /// use loom_core::vocabulary::{AvType, FabricAddr};
    ///
    /// let attr = AddressTableAttr { av_type: AvType::TABLE, ..AddressTableAttr::new(4) };
    /// let mut memory = AddressTableMemory::new(attr)?;
    /// let mut table = memory.table();
    /// let peer = table.insert("10.0.0.1:7471".parse::<std::net::SocketAddr>()?)?.peer();
    /// assert_eq!(table.peers().addr(peer), Some(FabricAddr(0)), "the first index");
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_av(3)`
    #[doc(alias = "fi_av_type")]
    AvType {
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_AV_UNSPEC";
        /// Opaque 64-bit values.
        MAP = 1, "FI_AV_MAP";
        /// Indices in the order of insertion, from zero.
        TABLE = 2, "FI_AV_TABLE";
    }
}

enumeration! {
    /// Kind of an endpoint.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::Hints;
    /// use loom_core::vocabulary::{EndpointAttributes, EndpointType};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let asked = |kind| Hints { endpoint_attr: EndpointAttributes::of(kind), ..Hints::default() };
    /// assert!(network.query(&asked(EndpointType::RDM)).is_some());
    /// assert!(network.query(&asked(EndpointType::MSG)).is_none(), "software has no connections");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *type*
    #[doc(alias = "fi_ep_type")]
    EndpointType {
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_EP_UNSPEC";
        /// Connected, reliable messages.
        MSG = 1, "FI_EP_MSG";
        /// Unconnected, unreliable datagrams.
        DGRAM = 2, "FI_EP_DGRAM";
        /// Unconnected, reliable messages.
        RDM = 3, "FI_EP_RDM";
        /// A connected byte stream; not in libfabric 2.
        SOCK_STREAM = 4, "FI_EP_SOCK_STREAM";
        /// Socket datagrams; not in libfabric 2.
        SOCK_DGRAM = 5, "FI_EP_SOCK_DGRAM";
    }
}

enumeration! {
    /// Format of an endpoint's address.
    ///
    /// ```
    /// use loom_core::EndpointAddr;
    /// use loom_core::vocabulary::AddressFormat;
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
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_FORMAT_UNSPEC";
        /// A socket address; its family field says which.
        SOCKADDR = 1, "FI_SOCKADDR";
        /// IPv4: `struct sockaddr_in`, 16 bytes.
        SOCKADDR_IN = 2, "FI_SOCKADDR_IN";
        /// IPv6: `struct sockaddr_in6`, 28 bytes.
        SOCKADDR_IN6 = 3, "FI_SOCKADDR_IN6";
        /// InfiniBand: `struct sockaddr_ib`.
        SOCKADDR_IB = 4, "FI_SOCKADDR_IB";
        /// Intel PSM; not in libfabric 2.
        ADDR_PSMX = 5, "FI_ADDR_PSMX";
        /// Cray GNI; not in libfabric 2.
        ADDR_GNI = 6, "FI_ADDR_GNI";
        /// IBM Blue Gene/Q; not in libfabric 2.
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
        /// IPv4 or IPv6; the family field says which (newer than libfabric 1.17).
        SOCKADDR_IP = 17, "FI_SOCKADDR_IP";
    }
}

enumeration! {
    /// The protocol below an endpoint: two endpoints with the same one can talk to each other.
    ///
    /// ```
    /// use loom_core::vocabulary::{EndpointAttributes, Protocol};
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
        /// Nothing said: the provider chooses.
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
        /// Mellanox UCX, as the `mlx` provider.
        MLX = 13, "FI_PROTO_MLX";
        /// Microsoft NetworkDirect.
        NETWORKDIRECT = 14, "FI_PROTO_NETWORKDIRECT";
        /// Intel PSM2.
        PSMX2 = 15, "FI_PROTO_PSMX2";
        /// Shared memory of one host.
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
    /// Where memory lives: the runtime that owns it.
    ///
    /// ```
    /// use core::ptr::NonNull;
    ///
    /// use loom_core::buffer::Lent;
    /// use loom_core::vocabulary::HmemIface;
    ///
    /// # let mut bytes = [0_u8; 16];
    /// # let pointer = NonNull::from_mut(&mut bytes).cast();
    /// // What a buffer in the memory of a device lends.
    /// let lent = Lent::both(pointer, 16).in_memory_of(HmemIface::CUDA);
    /// // The host does not touch such bytes.
    /// assert_ne!(lent.kind(), HmemIface::SYSTEM);
    /// ```
    ///
    /// # References
    ///
    /// - `fi_mr(3)`, section *iface*
    #[doc(alias = "fi_hmem_iface")]
    HmemIface {
        /// Ordinary host memory; the default.
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

enumeration! {
    /// Traffic class: which service a transfer asks of the network.
    ///
    /// Either one of the labels below or a differentiated-services code point, see [`dscp`](Self::dscp).
    ///
    /// ```
    /// use loom_core::Hints;
    /// use loom_core::vocabulary::{TrafficClass, TxAttributes};
    ///
    /// // Expedited forwarding, code point 46.
    /// let tclass = TrafficClass::dscp(46);
    /// let hints = Hints { tx_attr: TxAttributes { tclass, ..TxAttributes::UNSPEC }, ..Hints::default() };
    /// assert_eq!(hints.tx_attr.tclass.code_point(), Some(46));
    /// assert_eq!(TrafficClass::LOW_LATENCY.code_point(), None, "it is a label");
    /// ```
    ///
    /// # References
    ///
    /// - `fi_endpoint(3)`, section *Traffic class*
    #[doc(alias = "tclass")]
    TrafficClass {
        /// Nothing said: the provider chooses.
        UNSPEC = 0, "FI_TC_UNSPEC";
        /// Default service.
        BEST_EFFORT = 0x200, "FI_TC_BEST_EFFORT";
        /// Little data, soon.
        LOW_LATENCY = 0x201, "FI_TC_LOW_LATENCY";
        /// A share of its own.
        DEDICATED_ACCESS = 0x202, "FI_TC_DEDICATED_ACCESS";
        /// Much data, throughput before latency.
        BULK_DATA = 0x203, "FI_TC_BULK_DATA";
        /// What is left over.
        SCAVENGER = 0x204, "FI_TC_SCAVENGER";
        /// Control of the network itself.
        NETWORK_CTRL = 0x205, "FI_TC_NETWORK_CTRL";
    }
}

impl TrafficClass {
    /// The first of the labels: the same number as [`BEST_EFFORT`](Self::BEST_EFFORT).
    #[doc(alias = "FI_TC_LABEL")]
    pub const LABEL: Self = Self::BEST_EFFORT;

    /// What marks a code point: `FI_TC_DSCP`.
    const DSCP: u32 = 0x100;

    /// The class for a differentiated-services code point.
    #[doc(alias = "fi_tc_dscp_set")]
    #[doc(alias = "FI_TC_DSCP")]
    #[must_use]
    pub const fn dscp(code_point: u8) -> Self {
        Self(Self::DSCP | code_point as u32)
    }

    /// The code point, if this class is one.
    #[doc(alias = "fi_tc_dscp_get")]
    #[must_use]
    pub const fn code_point(self) -> Option<u8> {
        let [code_point, ..] = self.0.to_le_bytes();
        if self.0 == Self::DSCP | code_point as u32 { Some(code_point) } else { None }
    }
}

enumeration! {
    /// By what a queue wakes up those that sleep until it has something.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::vocabulary::WaitObj;
    /// use loom_core::{Cq, CqAttr, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let info = network.info();
    /// # let domain = Domain::open(&info)?;
    /// // The program sleeps where it can, and polls elsewhere.
    /// let wait = if info.can_sleep_on(WaitObj::FD) { WaitObj::FD } else { WaitObj::NONE };
    /// let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr { wait, ..CqAttr::new(16) })?;
    /// assert_eq!(cq.wait_fd().is_ok(), wait == WaitObj::FD);
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// - `fi_cq(3)`, attribute `wait_obj`
    #[doc(alias = "fi_wait_obj")]
    WaitObj {
        /// Nothing: it is polled.
        NONE = 0, "FI_WAIT_NONE";
        /// Something that the provider chooses: its own calls alone can sleep on it.
        UNSPEC = 1, "FI_WAIT_UNSPEC";
        /// A wait set; not in libfabric 2.
        SET = 2, "FI_WAIT_SET";
        /// A file descriptor.
        FD = 3, "FI_WAIT_FD";
        /// A mutex and a condition of POSIX threads.
        MUTEX_COND = 4, "FI_WAIT_MUTEX_COND";
        /// Yielding the processor between two looks.
        YIELD = 5, "FI_WAIT_YIELD";
        /// File descriptors for `poll`.
        POLLFD = 6, "FI_WAIT_POLLFD";
    }
}

enumeration! {
    /// What the entries of a completion queue tell; each tells what those before it do, and more.
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
        /// What the provider chooses.
        UNSPEC = 0, "FI_CQ_FORMAT_UNSPEC";
        /// [`CqEntry`](super::CqEntry)
        CONTEXT = 1, "FI_CQ_FORMAT_CONTEXT";
        /// [`CqMsgEntry`](super::CqMsgEntry)
        MSG = 2, "FI_CQ_FORMAT_MSG";
        /// [`CqDataEntry`](super::CqDataEntry)
        DATA = 3, "FI_CQ_FORMAT_DATA";
        /// [`CqTaggedEntry`](super::CqTaggedEntry)
        TAGGED = 4, "FI_CQ_FORMAT_TAGGED";
    }
}

enumeration! {
    /// The kind of bus that a network card sits on.
    ///
    /// # References
    ///
    /// - `fi_nic(3)`
    #[doc(alias = "fi_bus_type")]
    BusType {
        /// Not known.
        UNSPEC = 0, "FI_BUS_UNSPEC";
        /// PCI.
        PCI = 1, "FI_BUS_PCI";
    }
}

enumeration! {
    /// Whether the link of a network card is up.
    ///
    /// # References
    ///
    /// - `fi_nic(3)`
    #[doc(alias = "fi_link_state")]
    LinkState {
        /// Not known.
        UNKNOWN = 0, "FI_LINK_UNKNOWN";
        /// Down.
        DOWN = 1, "FI_LINK_DOWN";
        /// Up.
        UP = 2, "FI_LINK_UP";
    }
}

enumeration! {
    /// What the value of an environment parameter is.
    ///
    /// ```
    /// use loom_core::vocabulary::ParamType;
    ///
    /// /// Whether a text can be the value of a parameter.
    /// fn fits(kind: ParamType, text: &str) -> bool {
    ///     match kind {
    ///         ParamType::INT => text.parse::<i32>().is_ok(),
    ///         ParamType::BOOL => ["0", "1", "no", "yes", "false", "true", "off", "on"].contains(&text),
    ///         _ => true,
    ///     }
    /// }
    ///
    /// assert!(fits(ParamType::BOOL, "yes") && !fits(ParamType::INT, "yes"));
    /// ```
    ///
    /// # References
    ///
    /// - `fi_getparams(3)`
    #[doc(alias = "fi_param_type")]
    ParamType {
        /// Text.
        STRING = 0, "FI_PARAM_STRING";
        /// A number.
        INT = 1, "FI_PARAM_INT";
        /// Yes or no.
        BOOL = 2, "FI_PARAM_BOOL";
        /// A size, in bytes, with or without a unit.
        SIZE_T = 3, "FI_PARAM_SIZE_T";
    }
}

enumeration! {
    /// What an event queue reports.
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
        /// Something that the application wrote itself.
        NOTIFY = 0, "FI_NOTIFY";
        /// A peer wants to connect to a passive endpoint.
        CONNREQ = 1, "FI_CONNREQ";
        /// An endpoint is connected.
        CONNECTED = 2, "FI_CONNECTED";
        /// An endpoint is not connected any more.
        SHUTDOWN = 3, "FI_SHUTDOWN";
        /// A memory region is registered.
        MR_COMPLETE = 4, "FI_MR_COMPLETE";
        /// Addresses were inserted into an address vector.
        AV_COMPLETE = 5, "FI_AV_COMPLETE";
        /// A multicast group or a collective's group was joined.
        JOIN_COMPLETE = 6, "FI_JOIN_COMPLETE";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{format, string::ToString};

    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!(Threading::COMPLETION.as_raw(), 4);
        assert_eq!(Progress::MANUAL.as_raw(), 2);
        assert_eq!(ResourceMgmt::ENABLED.as_raw(), 2);
        assert_eq!(AvType::TABLE.as_raw(), 2);
        assert_eq!(EndpointType::RDM.as_raw(), 3);
        assert_eq!(AddressFormat::ADDR_STR.as_raw(), 9);
        assert_eq!(AddressFormat::ADDR_CXI.as_raw(), 15);
        assert_eq!(Protocol::EFA.as_raw(), 20);
        assert_eq!(Protocol::XNET.as_raw(), 25);
        assert_eq!(Protocol::LNX.as_raw(), 31);
        assert_eq!(HmemIface::SYNAPSEAI.as_raw(), 5);
        assert_eq!(TrafficClass::NETWORK_CTRL.as_raw(), 0x205);
    }

    #[test]
    fn text_is_the_name_or_the_number() {
        assert_eq!(EndpointType::RDM.to_string(), "EP_RDM");
        assert_eq!(Threading::SAFE.to_string(), "THREAD_SAFE");
        assert_eq!(AddressFormat::UNSPEC.to_string(), "FORMAT_UNSPEC");
        assert_eq!(AddressFormat::SOCKADDR_IN.to_string(), "SOCKADDR_IN");
        assert_eq!(Threading::from_raw(17).to_string(), "unknown (17)");
        assert_eq!(Threading::from_raw(17).as_raw(), 17);
        assert_eq!(format!("{:?}", Protocol::SHM), "Protocol(PROTO_SHM)");
    }

    #[test]
    fn default_is_unspecified() {
        assert_eq!(Threading::default(), Threading::UNSPEC);
        assert_eq!(Protocol::default(), Protocol::UNSPEC);
        assert_eq!(AddressFormat::default(), AddressFormat::UNSPEC);
        assert_eq!(HmemIface::default(), HmemIface::SYSTEM);
        assert_eq!(TrafficClass::default(), TrafficClass::UNSPEC);
    }

    #[test]
    fn named_numbers_are_dense_and_named() {
        for (number, protocol) in (0_u32..).zip(Protocol::NAMED) {
            assert_eq!(protocol.as_raw(), number);
            assert!(protocol.name().is_some());
        }
        for (number, format) in (0_u32..).zip(AddressFormat::NAMED) {
            assert_eq!(format.as_raw(), number);
        }
    }

    #[test]
    fn code_points_are_apart_from_labels() {
        assert_eq!(TrafficClass::dscp(46).as_raw(), 0x12e);
        assert_eq!(TrafficClass::dscp(46).code_point(), Some(46));
        assert_eq!(TrafficClass::BULK_DATA.code_point(), None);
        assert_eq!(TrafficClass::UNSPEC.code_point(), None);
        assert_eq!(TrafficClass::from_raw(0x8000_012e).code_point(), None);
        assert_eq!(TrafficClass::LABEL, TrafficClass::BEST_EFFORT);
    }
}
