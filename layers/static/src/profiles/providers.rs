//! A profile for each provider of libfabric.
//!
//! Comments name the source of the values ([versions](super)): a file (`prov/...`), a manual page
//! (`fi_shm(7)`), or `fi_getinfo`, which the tests query. No profile promises device memory, nor
//! `LOCAL_COMM` and `REMOTE_COMM`, which 1.17 does not always report. `mrail`, hooks and `coll`
//! have the limits of the provider below, and no profile.

use loom_core::vocabulary::{Caps, EndpointType, Mode, MrMode, MsgOrder, Progress};

use super::{AtomicSet, AutoProgress, InjectCapable, ManualProgress, NativeAtomics, Profile, Promise};

/// Every profile of this module.
pub const ALL: &[Promise] = &[
    Promise::of::<Software>(),
    Promise::of::<Shm>(),
    Promise::of::<Sm2>(),
    Promise::of::<Tcp>(),
    Promise::of::<TcpRdm>(),
    Promise::of::<TcpRxm>(),
    Promise::of::<Net>(),
    Promise::of::<Udp>(),
    Promise::of::<UdpRxd>(),
    Promise::of::<Sockets>(),
    Promise::of::<SocketsMsg>(),
    Promise::of::<Verbs>(),
    Promise::of::<VerbsRxm>(),
    Promise::of::<Efa>(),
    Promise::of::<Cxi>(),
    Promise::of::<Opx>(),
    Promise::of::<Psm>(),
    Promise::of::<Psm2>(),
    Promise::of::<Psm3>(),
    Promise::of::<Ucx>(),
    Promise::of::<Usnic>(),
    Promise::of::<Lpp>(),
    Promise::of::<Lnx>(),
];

/// Equivalent of `FI_MR_BASIC`.
const BASIC: MrMode = MrMode::VIRT_ADDR.union(MrMode::ALLOCATED).union(MrMode::PROV_KEY);

const MESSAGES: Caps = Caps::MSG.union(Caps::TAGGED);

const USUAL: Caps = MESSAGES.union(Caps::RMA).union(Caps::MULTI_RECV).union(Caps::SOURCE).union(Caps::DIRECTED_RECV);

/// `OFI_ORDER_RAR_SET`, `OFI_ORDER_RAW_SET` and `OFI_ORDER_WAW_SET` of `include/ofi_util.h`,
/// without atomics.
const READS_AND_WRITES: MsgOrder = MsgOrder::RAR
    .union(MsgOrder::RAW)
    .union(MsgOrder::WAW)
    .union(MsgOrder::RMA_RAR)
    .union(MsgOrder::RMA_RAW)
    .union(MsgOrder::RMA_WAW);

const ATOMICS_IN_ORDER: MsgOrder =
    MsgOrder::ATOMIC_RAR.union(MsgOrder::ATOMIC_RAW).union(MsgOrder::ATOMIC_WAR).union(MsgOrder::ATOMIC_WAW);

/// Orders of messages relative to reads, writes and messages.
const AFTER_MESSAGES: MsgOrder = MsgOrder::RAS.union(MsgOrder::WAS).union(MsgOrder::SAW).union(MsgOrder::SAS);

/// Software transport ([`soft`](loom_core::soft)), strict or not, with an
/// [`eager_size`](loom_core::soft::NetworkAttr::eager_size) of at least 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Software;

// `soft/network/reported_attributes.rs`. `soft/faults/strict.rs` grants the minimum of the tested
// providers.
impl Profile for Software {
    const NAME: &'static str = "soft";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC).union(Caps::RMA_EVENT).union(Caps::TAGGED_MULTI_RECV);
    const MR_MODE: MrMode = MrMode::PROV_KEY.union(MrMode::VIRT_ADDR);
    const MSG_ORDER: MsgOrder = READS_AND_WRITES.union(MsgOrder::SAW).union(MsgOrder::SAS);
    const INJECT_SIZE: usize = 64;
    const CQ_DATA_SIZE: usize = 8;
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `shm`: between processes of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_shm")]
pub struct Shm;

// prov/shm/src/smr_attr.c, `SMR_INJECT_SIZE` of smr_util.h, fi_getinfo.
// fi_shm(7) documents manual progress, the source of 1.17 has automatic control progress.
impl Profile for Shm {
    const NAME: &'static str = "shm";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC).union(Caps::RMA_EVENT);
    const MR_MODE: MrMode = MrMode::VIRT_ADDR;
    const MSG_ORDER: MsgOrder = MsgOrder::SAS;
    const INJECT_SIZE: usize = 4096;
    const CQ_DATA_SIZE: usize = 8;
    // `smr_query_atomic`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `sm2`: between processes of one host. Not in libfabric 1.17.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sm2;

// prov/sm2/src/sm2_attr.c, fi_getinfo of 2.5.1. No manual page exists. Immediate data is 8 bytes,
// but does not arrive (`tests/provider_faults/faults.c`).
impl Profile for Sm2 {
    const NAME: &'static str = "sm2";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.difference(Caps::RMA).union(Caps::ATOMIC);
    const MSG_ORDER: MsgOrder = MsgOrder::SAS;
    // `SM2_ATOMIC_INJECT_SIZE` of prov/sm2/src/sm2.h
    const INJECT_SIZE: usize = 3864;
    // `sm2_query_atomic`. Reads are granted but return no data.
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS_WITHOUT_READ;
}

/// `tcp`: connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_tcp")]
pub struct Tcp;

// prov/tcp/src/xnet_attr.c, `XNET_DEF_INJECT` of xnet.h, fi_getinfo, which reports
// automatic progress where fi_tcp(7) of 1.17 documents manual progress.
impl Profile for Tcp {
    const NAME: &'static str = "tcp";
    const ENDPOINT: EndpointType = EndpointType::MSG;
    const CAPS: Caps = Caps::MSG.union(Caps::RMA).union(Caps::RMA_EVENT);
    const MSG_ORDER: MsgOrder = READS_AND_WRITES.union(AFTER_MESSAGES);
    const INJECT_SIZE: usize = 128;
    const CQ_DATA_SIZE: usize = 8;
}

/// `tcp` without connections, since libfabric 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_tcp")]
pub struct TcpRdm;

// Sources of `Tcp`: xnet_rdm_info, fi_getinfo of 2.5.1.
impl Profile for TcpRdm {
    const NAME: &'static str = "tcp";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::RMA_EVENT);
    const MSG_ORDER: MsgOrder = READS_AND_WRITES.union(AFTER_MESSAGES);
    const INJECT_SIZE: usize = 128;
    const CQ_DATA_SIZE: usize = 8;
}

/// `tcp;ofi_rxm`: reliable datagrams over connections of `tcp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_rxm")]
pub struct TcpRxm;

// prov/rxm/src/rxm_attr.c and rxm_init.c, fi_getinfo. Progress is manual unless hints
// request automatic progress (rxm_alter_info).
impl Profile for TcpRxm {
    const NAME: &'static str = "tcp;ofi_rxm";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC);
    // More orders without atomics: fi_rxm(7), "FI_ATOMIC limitations".
    const MSG_ORDER: MsgOrder = RXM_ORDER;
    // `XNET_DEF_INJECT` less `struct rxm_pkt` (rxm_info_to_rxm).
    const INJECT_SIZE: usize = 64;
    const CQ_DATA_SIZE: usize = 8;
    // `rxm_ep_query_atomic`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// Orders outside `RXM_ATOMIC_UNSUPPORTED_MSG_ORDER`, when atomics are requested.
const RXM_ORDER: MsgOrder = MsgOrder::SAS.union(MsgOrder::RAS).union(MsgOrder::WAS);

/// `net`: predecessor of `tcp` without connections, in libfabric 1.17 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Net;

// fi_getinfo of 1.17.0. Sources and fi_tcp(7) of `tcp`.
impl Profile for Net {
    const NAME: &'static str = "net";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.difference(Caps::DIRECTED_RECV).union(Caps::RMA_EVENT);
    const MSG_ORDER: MsgOrder = READS_AND_WRITES.union(AFTER_MESSAGES);
    const INJECT_SIZE: usize = 128;
    const CQ_DATA_SIZE: usize = 8;
}

/// `udp`: datagrams, which may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_udp")]
pub struct Udp;

// prov/udp/src/udpx_attr.c, fi_udp(7), fi_getinfo.
impl Profile for Udp {
    const NAME: &'static str = "udp";
    const ENDPOINT: EndpointType = EndpointType::DGRAM;
    const CAPS: Caps = Caps::MSG.union(Caps::SOURCE).union(Caps::MULTICAST);
    const INJECT_SIZE: usize = 1472;
    const CONTROL_PROGRESS: Progress = Progress::AUTO;
    const DATA_PROGRESS: Progress = Progress::AUTO;
}

/// `udp;ofi_rxd`: reliable datagrams over `udp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_rxd")]
pub struct UdpRxd;

// prov/rxd/src/rxd_attr.c, fi_getinfo. It also grants sources, which are wrong,
// and atomic operations, which crash or never end (`tests/provider_faults/faults.c`).
impl Profile for UdpRxd {
    const NAME: &'static str = "udp;ofi_rxd";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.difference(Caps::SOURCE).union(Caps::RMA_EVENT);
    const MSG_ORDER: MsgOrder = READS_AND_WRITES.union(AFTER_MESSAGES);
    // Room behind the headers in a datagram of 1,472 bytes (prov/rxd/src/rxd_init.c,
    // rxd_info_to_rxd).
    const INJECT_SIZE: usize = 1256;
    const CQ_DATA_SIZE: usize = 8;
}

/// `sockets`, without connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_sockets")]
pub struct Sockets;

const SOCKETS_CAPS: Caps = USUAL.union(Caps::ATOMIC).union(Caps::RMA_EVENT).union(Caps::FENCE).union(Caps::TRIGGER);

/// `SOCK_EP_MSG_ORDER`
const SOCKETS_ORDER: MsgOrder = READS_AND_WRITES
    .union(AFTER_MESSAGES)
    .union(ATOMICS_IN_ORDER)
    .union(MsgOrder::WAR)
    .union(MsgOrder::SAR)
    .union(MsgOrder::RMA_WAR);

// prov/sockets/src/sock_attr.c, prov/sockets/include/sock.h, fi_getinfo. A thread of the
// provider makes progress.
impl Profile for Sockets {
    const NAME: &'static str = "sockets";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = SOCKETS_CAPS;
    const MSG_ORDER: MsgOrder = SOCKETS_ORDER;
    // `SOCK_EP_MAX_INJECT_SZ`
    const INJECT_SIZE: usize = 255;
    const CQ_DATA_SIZE: usize = 8;
    const CONTROL_PROGRESS: Progress = Progress::AUTO;
    const DATA_PROGRESS: Progress = Progress::AUTO;
    // `sock_query_atomic`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `sockets`: connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_sockets")]
pub struct SocketsMsg;

// Sources of `Sockets`: sock_msg_info. Tagged messages over connections are offered only for
// tested versions (`docs/providers/sockets.md`).
impl Profile for SocketsMsg {
    const NAME: &'static str = Sockets::NAME;
    const ENDPOINT: EndpointType = EndpointType::MSG;
    const CAPS: Caps = SOCKETS_CAPS.difference(Caps::TAGGED);
    const MSG_ORDER: MsgOrder = SOCKETS_ORDER;
    const INJECT_SIZE: usize = Sockets::INJECT_SIZE;
    const CQ_DATA_SIZE: usize = Sockets::CQ_DATA_SIZE;
    const CONTROL_PROGRESS: Progress = Sockets::CONTROL_PROGRESS;
    const DATA_PROGRESS: Progress = Sockets::DATA_PROGRESS;
    const ATOMICS: AtomicSet = Sockets::ATOMICS;
}

/// `verbs`: connections of InfiniBand, RoCE and iWARP.
///
/// The inject size (inline data, possibly zero) and the atomic operations depend on the card, and
/// are not promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_verbs")]
pub struct Verbs;

// prov/verbs/src/verbs_info.c, fi_verbs(7) of 1.17 and 2.1.0.
impl Profile for Verbs {
    const NAME: &'static str = "verbs";
    const ENDPOINT: EndpointType = EndpointType::MSG;
    const CAPS: Caps = Caps::MSG.union(Caps::RMA);
    const MODE: Mode = Mode::RX_CQ_DATA;
    const MR_MODE: MrMode = BASIC.union(MrMode::LOCAL);
    const MSG_ORDER: MsgOrder = READS_AND_WRITES.union(AFTER_MESSAGES);
    // `imm_data` of a work request. Zero without `RX_CQ_DATA`.
    const CQ_DATA_SIZE: usize = 4;
    const CONTROL_PROGRESS: Progress = Progress::AUTO;
    const DATA_PROGRESS: Progress = Progress::AUTO;
}

/// `verbs;ofi_rxm`: reliable datagrams over connections of `verbs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_rxm")]
pub struct VerbsRxm;

// Sources of `TcpRxm`, and verbs_info.c.
impl Profile for VerbsRxm {
    const NAME: &'static str = "verbs;ofi_rxm";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC);
    const MR_MODE: MrMode = BASIC;
    const MSG_ORDER: MsgOrder = RXM_ORDER;
    // 16,384 (`rxm_buffer_size`) if `verbs` requires registered buffers, which `rxm` does not pass
    // on. Never less than over `tcp`.
    const INJECT_SIZE: usize = 64;
    const CQ_DATA_SIZE: usize = 4;
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `efa`: reliable datagrams of Amazon's Elastic Fabric Adapter. Infos of `efa-direct`, of the same
/// provider, grant less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_efa")]
pub struct Efa;

// prov/efa/src/efa_prov_info.c (efa_prov_info_alloc_for_rdm), fi_efa(7) of 1.17 and 2.1.0, with "No
// support for inject" where the source has the size of a packet.
impl Profile for Efa {
    const NAME: &'static str = "efa";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC);
    const MR_MODE: MrMode = BASIC;
    const MSG_ORDER: MsgOrder = MsgOrder::SAS;
    // `EFA_CQ_DATA_SIZE` of efa_cq.h
    const CQ_DATA_SIZE: usize = 4;
    // `efa_rdm_atomic_query`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `cxi`: HPE Slingshot. Not in libfabric 1.17.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_cxi")]
pub struct Cxi;

// prov/cxi/src/cxip_info.c, prov/cxi/include/cxip.h, fi_cxi(7).
impl Profile for Cxi {
    const NAME: &'static str = "cxi";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC).union(Caps::RMA_EVENT).union(Caps::FENCE).union(Caps::TRIGGER);
    const MR_MODE: MrMode = MrMode::ENDPOINT.union(MrMode::ALLOCATED).union(MrMode::PROV_KEY);
    // `CXIP_MSG_ORDER`. Earlier versions have more orders of atomics.
    const MSG_ORDER: MsgOrder = MsgOrder::SAS.union(MsgOrder::WAW).union(MsgOrder::RMA_WAW).union(MsgOrder::ATOMIC_WAW);
    // `C_MAX_IDC_PAYLOAD_UNR`
    const INJECT_SIZE: usize = 192;
    // `CXIP_REMOTE_CQ_DATA_SZ`
    const CQ_DATA_SIZE: usize = 8;
    // `_cxip_amo_valid`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `opx`: Omni-Path of Cornelis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_opx")]
pub struct Opx;

// prov/opx/src/fi_opx_info.c, prov/opx/include/rdma/opx/fi_opx.h. Earlier versions also require
// `FI_CONTEXT2`. Its domains do not answer `fi_query_atomic` (fi_opx_domain.c).
impl Profile for Opx {
    const NAME: &'static str = "opx";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL;
    const MODE: Mode = Mode::CONTEXT2.union(Mode::ASYNC_IOV);
    // `OPX_MR` is scalable or basic, depending on the build of libfabric.
    const MR_MODE: MrMode = BASIC.union(MrMode::BASIC).union(MrMode::SCALABLE);
    // `FI_OPX_HFI1_PACKET_IMM`
    const INJECT_SIZE: usize = 16;
    // `FI_OPX_REMOTE_CQ_DATA_SIZE`
    const CQ_DATA_SIZE: usize = 4;
}

/// Common to `psm2` and `psm3`: `PSMX2_CAPS`, `PSMX3_CAPS`.
const PSM_CAPS: Caps = USUAL.union(Caps::ATOMIC).union(Caps::RMA_EVENT);

/// `PSMX2_MSG_ORDER`, `PSMX3_MSG_ORDER`
const PSM_ORDER: MsgOrder =
    READS_AND_WRITES.union(ATOMICS_IN_ORDER).union(MsgOrder::SAS).union(MsgOrder::WAR).union(MsgOrder::RMA_WAR);

/// `psm`: True Scale of Intel. Only in libfabric 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_psm")]
pub struct Psm;

// fi_psm(7) of 1.17, which has neither sizes nor orders.
impl Profile for Psm {
    const NAME: &'static str = "psm";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = MESSAGES.union(Caps::RMA).union(Caps::MULTI_RECV);
    const MODE: Mode = Mode::CONTEXT;
    const MR_MODE: MrMode = BASIC.union(MrMode::BASIC).union(MrMode::SCALABLE);
}

/// `psm2`: Omni-Path of Intel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_psm2")]
pub struct Psm2;

// prov/psm2/src/psmx2_attr.c and psmx2_init.c, fi_psm2(7).
impl Profile for Psm2 {
    const NAME: &'static str = "psm2";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = PSM_CAPS;
    const MODE: Mode = Mode::CONTEXT;
    const MR_MODE: MrMode = BASIC;
    const MSG_ORDER: MsgOrder = PSM_ORDER;
    const INJECT_SIZE: usize = 64;
    // Only if hints request it: it takes 4 bits of the tags.
    const CQ_DATA_SIZE: usize = 4;
    // `psmx2_query_atomic`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `psm3`: Ethernet and Omni-Path by Intel's PSM3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_psm3")]
pub struct Psm3;

// prov/psm3/src/psmx3_attr.c and psmx3_init.c, fi_psm3(7).
impl Profile for Psm3 {
    const NAME: &'static str = "psm3";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = PSM_CAPS;
    const MODE: Mode = Mode::CONTEXT;
    const MR_MODE: MrMode = BASIC;
    const MSG_ORDER: MsgOrder = PSM_ORDER;
    const INJECT_SIZE: usize = 64;
    // See `Psm2`.
    const CQ_DATA_SIZE: usize = 4;
    // `psmx3_query_atomic`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `ucx`: cards of NVIDIA by UCX. Not in libfabric 1.17.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_ucx")]
pub struct Ucx;

// prov/ucx/src/ucx_init.c and ucx.h, fi_ucx(7), which specifies no size of immediate data.
impl Profile for Ucx {
    const NAME: &'static str = "ucx";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = MESSAGES.union(Caps::RMA).union(Caps::MULTI_RECV);
    const MR_MODE: MrMode = BASIC.union(MrMode::RAW);
    const MSG_ORDER: MsgOrder = MsgOrder::SAS;
    // `FI_UCX_DEFAULT_INJECT_SIZE`
    const INJECT_SIZE: usize = 1024;
}

/// `usnic`: datagrams of Cisco's cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_usnic")]
pub struct Usnic;

// prov/usnic/src/usdf_ep_dgram.c and usdf_dgram.h, fi_usnic(7). Modes are limited to those of the
// hints.
impl Profile for Usnic {
    const NAME: &'static str = "usnic";
    const ENDPOINT: EndpointType = EndpointType::DGRAM;
    const CAPS: Caps = Caps::MSG.union(Caps::SOURCE);
    const MR_MODE: MrMode = MrMode::LOCAL.union(MrMode::ALLOCATED);
    // `USD_SEND_MAX_COPY` (1,024) less the headers of Ethernet, IP and UDP.
    const INJECT_SIZE: usize = 982;
    const CONTROL_PROGRESS: Progress = Progress::AUTO;
}

/// `lpp`: PCIe fabrics of GigaIO. Not in libfabric 1.17.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_lpp")]
pub struct Lpp;

// prov/lpp/include/lpp.h, prov/lpp/src/lpp_domain.c, fi_lpp(7).
impl Profile for Lpp {
    const NAME: &'static str = "lpp";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = USUAL.union(Caps::ATOMIC);
    const MR_MODE: MrMode = BASIC;
    // `LPP_ORDER`
    const MSG_ORDER: MsgOrder = PSM_ORDER;
    // `LPP_MAX_INJECT`
    const INJECT_SIZE: usize = 64;
    // `LPP_MIN_CQ_DATA_SIZE`
    const CQ_DATA_SIZE: usize = 4;
    // `lpp_fi_query_atomic`
    const ATOMICS: AtomicSet = AtomicSet::INTEGERS;
}

/// `lnx`: combines the providers named in `FI_LNX_PROV_LINKS`, and has their limits. Not in
/// libfabric 1.17.
///
/// In libfabric 2.1 the name of an info begins with its links: `shm+cxi:lnx`. It offers only the
/// infos that a process's first query requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "fi_lnx")]
pub struct Lnx;

// prov/lnx/src/lnx_init.c, fi_lnx(7), which has tagged messages only, fi_getinfo of 2.5.1 with
// `shm` and `tcp`. Sizes are the minimum of the links, which has no lower bound.
impl Profile for Lnx {
    const NAME: &'static str = "lnx";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = Caps::TAGGED;
    const MODE: Mode = Mode::CONTEXT.union(Mode::CONTEXT2);
    const MR_MODE: MrMode = BASIC.union(MrMode::ENDPOINT);
}

macro_rules! profiles_with {
    ($($Trait:ident: $($Profile:ty),+;)+) => {$($(
        impl $Trait for $Profile {}
        const _: () = <$Profile as $Trait>::HOLDS;
    )+)+};
}

profiles_with! {
    NativeAtomics: Software, Shm, Sm2, TcpRxm, Sockets, SocketsMsg, VerbsRxm, Efa, Cxi, Psm2, Psm3, Lpp;
    InjectCapable: Software, Shm, Sm2, Tcp, TcpRdm, TcpRxm, Net, Udp, UdpRxd, Sockets, SocketsMsg, VerbsRxm, Cxi, Opx, Psm2, Psm3, Ucx, Usnic, Lpp;
    AutoProgress: Udp, Sockets, SocketsMsg, Verbs;
    ManualProgress: Software, Shm, Sm2, Tcp, TcpRdm, TcpRxm, Net, UdpRxd, VerbsRxm, Efa, Cxi, Opx, Psm, Psm2, Psm3, Ucx, Usnic, Lpp, Lnx;
}
