//! Needs of providers in every version, and decisions that follow from their
//! [facts](self::known_behaviour).

pub(crate) mod av_lock;
pub(crate) mod known_behaviour;
pub(crate) mod nap;
pub(crate) mod overrun;
pub(crate) mod removal;
pub(crate) mod shm_registry;
pub(crate) mod sm2_table;

use loom_core::transport::{Claims, Name, ProviderQuirks};
use loom_core::vocabulary::{AddressFormat, Caps, EndpointType, MrMode, MsgOrder, Progress, Threading, WaitObj};

use self::known_behaviour::Facts;
use super::info::RawInfo;
use super::info::decode;

fn layers(info: &RawInfo) -> impl Iterator<Item = &str> {
    info.name(Name::Provider).unwrap_or_default().split(';')
}

fn has_layer(info: &RawInfo, name: &str) -> bool {
    layers(info).any(|layer| layer == name)
}

/// Names in shared memory, which two endpoints must not have (`shm-name-that-was-refused-crashes`).
/// Infos may name a parent process. `sm2` reads up to a zero byte, which copies of its infos lack.
pub(crate) fn are_named_by_processes(info: &RawInfo) -> bool {
    has_layer(info, "shm") || has_layer(info, "sm2")
}

pub(crate) fn correct(info: &mut RawInfo) {
    have_keys_checked(info);
    // `sm2` loses immediate data (`sm2-immediate-data-is-not-told`).
    if has_layer(info, "sm2") {
        info.carry_no_data();
    }
    // Otherwise its thread and an inserting thread would use an endpoint at once.
    if may_walk_messages(info) && decode::attributes(info).domain.threading != Threading::DOMAIN {
        info.be_threaded(Threading::SAFE);
    }
    if has_untrue_tags(info) {
        info.withdraw(Caps::TAGGED);
    }
}

/// Without an order among RMA operations, `shm` writes directly into the peer: with any key, to any
/// address, and to a closed region. With an order, the peer checks. In an untested version the
/// check rests on `man fi_mr`: a process that may attach can write without a key.
fn have_keys_checked(info: &mut RawInfo) {
    if has_layer(info, "shm") {
        info.request_order(MsgOrder::WAW);
    }
}

/// Capabilities that an info grants and its endpoints lack:
/// - `ofi_rxd`: sources (`rxd-source-is-always-the-first`), atomic operations
///   (`rxd-two-atomics-crash`, `rxd-injected-atomic-at-an-offset-is-never-taken`).
/// - `net`: atomic operations (`net-atomics-are-not-there`).
/// - Tags of connections ([`Facts::TAGS_ON_CONNECTIONS`]).
/// - Tags beside collectives of `ofi_rxm` (`rxm-tag-beside-collectives-crashes`).
pub(crate) fn untrue_caps(info: &RawInfo) -> Caps {
    let untrue = [
        (has_layer(info, "ofi_rxd"), Caps::SOURCE.union(Caps::ATOMIC)),
        (has_layer(info, "net"), Caps::ATOMIC),
        (has_untrue_tags(info), Caps::TAGGED),
        (has_layer(info, "ofi_rxm") && decode::attributes(info).caps.contains(Caps::COLLECTIVE), Caps::TAGGED),
    ];
    untrue.into_iter().filter(|(is, _)| *is).fold(Caps::empty(), |all, (_, caps)| all | caps)
}

/// A connection request's info has no name, and at most the capabilities of the domain's info.
fn has_untrue_tags(info: &RawInfo) -> bool {
    let connected = decode::attributes(info).endpoint.kind == EndpointType::MSG;
    connected && info.name(Name::Provider).is_some() && !Facts::of(info).contains(Facts::TAGS_ON_CONNECTIONS)
}

/// A killed process may have left such a name. libfabric 2 detects that.
pub(crate) fn names_by_process(info: &RawInfo) -> bool {
    has_layer(info, "shm")
}

/// An insertion may walk waiting messages of unknown senders: `shm`, `sm2` and `ofi_rxm` of
/// libfabric 2 lock them only in the model `SAFE`.
fn may_walk_messages(info: &RawInfo) -> bool {
    !info.is_tested() || ["shm", "sm2", "ofi_rxm"].into_iter().any(|layer| has_layer(info, layer))
}

/// A counter prevents `rxm-injected-write-to-a-killed-peer-crashes`.
pub(crate) fn counts_writes(info: &RawInfo) -> bool {
    has_layer(info, "ofi_rxm") && info.attributes().caps.contains(Caps::RMA)
}

/// Mandatory registration would include the [last piece](self::overrun).
pub(crate) fn overruns(info: &RawInfo) -> bool {
    const LAYERS: [&str; 7] = ["ofi_rxm", "ofi_rxd", "net", "shm", "sm2", "tcp", "udp"];
    let all = decode::attributes(info);
    let registers = all.domain.mr_mode.contains(MrMode::LOCAL);
    all.rx.iov_limit > 1 && !registers && LAYERS.iter().any(|layer| has_layer(info, layer))
}

/// See [`sm2_table`].
pub(crate) fn has_table(info: &RawInfo) -> bool {
    has_layer(info, "sm2")
}

pub(crate) fn divides(info: &RawInfo) -> bool {
    has_layer(info, "ofi_rxm")
}

/// `shm` and `sm2` do: shown in 1.17 and 2.5, and in the sources of `shm`. Others get pointers
/// (`man fi_av`), which `psm3` follows.
pub(crate) fn takes_strings_in_place(info: &RawInfo) -> bool {
    has_layer(info, "shm") || has_layer(info, "sm2")
}

/// Connections of `ofi_rxm`, `net` and `tcp` do, and `ofi_rxd` reports index 0 for each peer
/// without an index.
pub(crate) fn keeps_index_of_removed(info: &RawInfo) -> bool {
    ["ofi_rxm", "net", "tcp", "ofi_rxd"].into_iter().any(|layer| has_layer(info, layer))
}

/// `shm` has an array of them, through which it answers even removed peers: addresses are not
/// removed while endpoints are open.
pub(crate) fn addresses_limit(info: &RawInfo) -> Option<usize> {
    has_layer(info, "shm").then_some(256)
}

/// `sm2` opens no larger vector.
pub(crate) fn addresses_at_a_time(info: &RawInfo) -> usize {
    if has_layer(info, "sm2") { 256 } else { usize::MAX }
}

/// An endpoint of `udp` that only sends joins no group of the system: leaving and closing fail
/// (`udp-endpoint-that-only-sends-cannot-leave`).
pub(crate) fn multicasts(facts: Facts, info: &RawInfo) -> bool {
    facts.contains(Facts::MULTICAST) && decode::attributes(info).caps.contains(Caps::MULTICAST | Caps::RECV)
}

pub(crate) fn has_contexts(facts: Facts, info: &RawInfo) -> bool {
    let domain = decode::attributes(info).domain;
    let manual = [domain.control_progress, domain.data_progress].contains(&Progress::MANUAL);
    facts.contains(Facts::SCALABLE) && !manual
}

/// Those of `sm2` do not return the value (`sm2-atomic-read-brings-nothing`).
pub(crate) fn reads_atomically(info: &RawInfo) -> bool {
    !has_layer(info, "sm2")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakesOptions {
    BeforeEnabled,
    Enabled,
    Never,
}

pub(crate) fn takes_options(facts: Facts) -> TakesOptions {
    if facts.contains(Facts::OPTIONS_BEFORE) {
        TakesOptions::BeforeEnabled
    } else if facts.contains(Facts::OPTIONS_AFTER) {
        TakesOptions::Enabled
    } else {
        TakesOptions::Never
    }
}

/// Socket addresses exclude shared memory. For other addresses, tests have to exclude it.
pub(crate) fn may_share_memory(facts: Facts, info: &RawInfo) -> bool {
    let format = AddressFormat::from_raw(info.fields().addr_format);
    let sockets = [
        AddressFormat::SOCKADDR,
        AddressFormat::SOCKADDR_IN,
        AddressFormat::SOCKADDR_IN6,
        AddressFormat::SOCKADDR_IB,
        AddressFormat::SOCKADDR_IP,
    ];
    !facts.contains(Facts::CLOSES_BESIDE_OTHERS) && !sockets.contains(&format)
}

pub(crate) fn quirks(info: &RawInfo) -> ProviderQuirks {
    let facts = Facts::of(info);
    ProviderQuirks {
        // Shown without connections: connected endpoints of `tcp` 2.5 take one message and never
        // complete the receive.
        multi_recv: facts.contains(Facts::MULTI_RECV) && decode::attributes(info).endpoint.kind != EndpointType::MSG,
        // No tested provider grants them.
        tagged_multi_recv: false,
        directed_recv: facts.contains(Facts::DIRECTED_RECV),
        // Known to fail in a version of `shm`, from which `sm2` derives.
        masked_recv: facts.contains(Facts::MASKED_RECV) || !are_named_by_processes(info),
        peek: facts.contains(Facts::PEEK),
        claims: if facts.contains(Facts::CLAIMS_BY_CONTEXT) {
            Claims::ByContext
        } else if facts.contains(Facts::CLAIMS_IN_CONTEXTS) {
            Claims::InContexts
        } else {
            Claims::Not
        },
        discard: facts.contains(Facts::DISCARD),
        mr_close: facts.contains(Facts::CLOSES_REGIONS),
        close_with_sends: facts.contains(Facts::CLOSES_WITH_SENDS),
        ends_with_queue: facts.contains(Facts::LEFT_IN_PEACE) || !may_share_memory(facts, info),
    }
}

pub(crate) fn workarounds(info: &RawInfo) -> impl Iterator<Item = &'static str> + use<> {
    let facts = Facts::of(info);
    let untrue = untrue_caps(info);
    [
        (!info.is_tested(), "no test has run over this version of the provider: loom relies on nothing that providers do differently"),
        (has_layer(info, "shm"), "writes are ordered (FI_ORDER_WAW), so that the peer's side checks keys and bounds"),
        (has_layer(info, "sm2"), "immediate data is not granted: the provider loses it"),
        (
            may_walk_messages(info) && info.attributes().domain.threading == Threading::SAFE,
            "the domain is opened with FI_THREAD_SAFE: an insertion into an address vector may meet other threads' endpoints",
        ),
        (untrue.contains(Caps::SOURCE), "FI_SOURCE is not granted: the provider names wrong sources"),
        (untrue.contains(Caps::ATOMIC), "FI_ATOMIC is not granted: the provider's atomic operations fail"),
        (has_untrue_tags(info) || untrue.contains(Caps::TAGGED), "FI_TAGGED is not granted: tags are not safe here"),
        (counts_writes(info), "endpoints count writes: an injected write to a peer that was killed would crash"),
        (overruns(info), "receives have room behind them for the rest of messages that are too long"),
        (may_share_memory(facts, info), "endpoints that have met in this process are not closed beside each other"),
        (!sleeps(facts, info), "queues are polled: sleeping on them is refused"),
        (
            sleeps(facts, info) && !facts.contains(Facts::SLEEPS_AFTER_CLOSE),
            "after an endpoint was closed, its queues and counters are polled once a millisecond: the provider's sleep would crash",
        ),
        (leaves_readable(info), "descriptors of queues that stay readable are drained before a sleep"),
    ]
    .into_iter()
    .filter_map(|(applies, decision)| applies.then_some(decision))
}

pub(crate) fn sleeps(facts: Facts, info: &RawInfo) -> bool {
    let one_thread = info.attributes().domain.threading == Threading::DOMAIN;
    facts.contains(if one_thread { Facts::SLEEPS } else { Facts::SLEEPS_SHARED })
}

/// A message leaves descriptors readable until `net` itself sleeps
/// (`net-idle-descriptor-is-readable`).
pub(crate) fn leaves_readable(info: &RawInfo) -> bool {
    has_layer(info, "net")
}

pub(crate) fn can_sleep(wait: WaitObj, sleeps: bool) -> bool {
    match wait {
        WaitObj::NONE => true,
        WaitObj::UNSPEC | WaitObj::FD | WaitObj::MUTEX_COND | WaitObj::YIELD => sleeps,
        _ => false,
    }
}
