//! What providers need that is not in their info, and what is made of their [facts](super::facts).
//!
//! Needs are known by a provider's name and hold in every version: to see to one that is not there does no harm.

use loom_core::transport::{Claims, Name, ProviderQuirks};
use loom_core::vocabulary::{AddressFormat, Caps, EndpointType, MrMode, MsgOrder, Progress, Threading, WaitObj};

use super::decode;
use super::info::RawInfo;
use super::known_behaviour::Facts;

/// The providers that an info is made of: `tcp;ofi_rxm` is two.
fn layers(info: &RawInfo) -> impl Iterator<Item = &str> {
    info.name(Name::Provider).unwrap_or_default().split(';')
}

fn has_layer(info: &RawInfo, name: &str) -> bool {
    layers(info).any(|layer| layer == name)
}

/// Whether processes meet by names of endpoints in shared memory. One that was refused another's name crashes when it sends to it
/// (`shm-name-that-was-refused-crashes`); in 2.5 two that have one name do not reach each other, or crash. Their infos name the process that queried
/// them, which may be the parent of the one that opens an endpoint. `sm2` reads that name up to a zero byte, which copies of its infos lack.
pub(super) fn are_named_by_processes(info: &RawInfo) -> bool {
    has_layer(info, "shm") || has_layer(info, "sm2")
}

/// Changes what an info says, so that its endpoints do not have what they cannot have.
pub(super) fn correct(info: &mut RawInfo) {
    have_keys_checked(info);
    // `sm2` loses immediate data (`sm2-immediate-data-is-not-told`).
    if has_layer(info, "sm2") {
        info.carry_no_data();
    }
    // Two threads would meet in an endpoint: the one that drives it and one that inserts an address.
    if may_walk_messages(info) && decode::attributes(info).domain.threading != Threading::DOMAIN {
        info.be_threaded(Threading::SAFE);
    }
    if has_untrue_tags(info) {
        info.withdraw(Caps::TAGGED);
    }
}

/// Sees to it that the peer's side checks keys and bounds of RMA operations.
///
/// Unless an order among RMA operations is asked for, `shm` writes to the peer's addresses without asking the peer (by
/// cross-memory attach): with any key, to any address, and to a region that is closed already. With an order it goes
/// through the peer's queue, where the region is looked up. (`sm2` has no RMA, and no domain for an info that asks for an
/// order of it.) In a version that no test has seen, asking is what there is to do: keys are the manual's promise (`man fi_mr`),
/// and the system lets who may attach to a process write to it without any.
fn have_keys_checked(info: &mut RawInfo) {
    if has_layer(info, "shm") {
        info.ask_for_order(MsgOrder::WAW);
    }
}

/// What an info grants and its endpoints do not have:
///
/// - `ofi_rxd` names the first peer of its address vector as the source of everything (`rxd-source-is-always-the-first`), and crashes or
///   refuses atomic operations for ever (`rxd-two-atomics-crash`, `rxd-injected-atomic-at-an-offset-is-never-taken`);
/// - `net` has no atomic operation (`net-atomics-are-not-there`);
/// - tags of connections ([`Facts::TAGS_ON_CONNECTIONS`]);
/// - tags beside collective operations: `ofi_rxm` takes a tagged message or receive whose tag has the highest bit for one of an operation,
///   and follows its context (`rxm-tag-beside-collectives-crashes`).
pub(super) fn untrue_caps(info: &RawInfo) -> Caps {
    let untrue = [
        (has_layer(info, "ofi_rxd"), Caps::SOURCE.union(Caps::ATOMIC)),
        (has_layer(info, "net"), Caps::ATOMIC),
        (has_untrue_tags(info), Caps::TAGGED),
        (has_layer(info, "ofi_rxm") && decode::attributes(info).caps.contains(Caps::COLLECTIVE), Caps::TAGGED),
    ];
    untrue.into_iter().filter(|(is, _)| *is).fold(Caps::empty(), |all, (_, caps)| all | caps)
}

/// An info without a name is that of a connection request, and grants no more than the info of the domain does.
fn has_untrue_tags(info: &RawInfo) -> bool {
    let connected = decode::attributes(info).endpoint.kind == EndpointType::MSG;
    connected && info.name(Name::Provider).is_some() && !Facts::of(info).contains(Facts::TAGS_ON_CONNECTIONS)
}

/// Whether endpoints are called by the number of their process and their own: names that another process may have left, which
/// had the number and was killed. (Libfabric 2 finds that out by itself.)
pub(super) fn names_by_process(info: &RawInfo) -> bool {
    has_layer(info, "shm")
}

/// Whether an insertion into an address vector may walk the messages that wait at its endpoints for their sender to be known: so do those of
/// `shm`, `sm2` and `ofi_rxm` of libfabric 2, which lock what waits only in domains of the model `SAFE`; and a provider that is not tested
/// may. (One that has no such model refuses the domain.)
fn may_walk_messages(info: &RawInfo) -> bool {
    !info.is_tested() || ["shm", "sm2", "ofi_rxm"].into_iter().any(|layer| has_layer(info, layer))
}

/// Whether an endpoint needs a counter of writes. Without, `ofi_rxm` injects writes through its connections, which report those to
/// a peer that was killed without a context, and it follows that (`rxm-injected-write-to-a-killed-peer-crashes`).
pub(super) fn counts_writes(info: &RawInfo) -> bool {
    has_layer(info, "ofi_rxm") && info.attributes().caps.contains(Caps::RMA)
}

/// Returns `true` if receives have a [last piece](super::overrun) for the rest of messages that are too long. Where memory has to be registered, that piece
/// would have to be, too.
pub(super) fn overruns(info: &RawInfo) -> bool {
    const LAYERS: [&str; 7] = ["ofi_rxm", "ofi_rxd", "net", "shm", "sm2", "tcp", "udp"];
    let all = decode::attributes(info);
    let registers = all.domain.mr_mode.contains(MrMode::LOCAL);
    all.rx.iov_limit > 1 && !registers && LAYERS.iter().any(|layer| has_layer(info, layer))
}

/// Returns `true` if messages are divided into segments, which a receive must have room for.
pub(super) fn divides(info: &RawInfo) -> bool {
    has_layer(info, "ofi_rxm")
}

/// Whether insertions into an address vector read strings where they are given. `shm` and `sm2` do: shown in 1.17 and 2.5, and so do the sources of `shm`
/// before, between and after. The manual has them given as pointers (`man fi_av`), and `psm3` follows those. Of another provider the manual holds:
/// one that reads in place all the same finds a name that no endpoint has.
pub(super) fn takes_strings_in_place(info: &RawInfo) -> bool {
    has_layer(info, "shm") || has_layer(info, "sm2")
}

/// Returns `true` if messages of a removed peer name the index that it had: connections of `ofi_rxm`, `net` and `tcp` keep it, and `ofi_rxd`
/// names index 0 for each peer without an index.
pub(super) fn keeps_index_of_removed(info: &RawInfo) -> bool {
    ["ofi_rxm", "net", "tcp", "ofi_rxd"].into_iter().any(|layer| has_layer(info, layer))
}

/// Maximum number of addresses that a vector takes in its lifetime. `shm` has an array of them, and a peer that was removed may still send
/// messages, which the provider answers through the peer's entry: so addresses are not removed while endpoints are open.
pub(super) fn addresses_limit(info: &RawInfo) -> Option<usize> {
    has_layer(info, "shm").then_some(256)
}

/// Maximum number of addresses that a vector has room for at a time: `sm2` opens no larger one.
pub(super) fn addresses_at_a_time(info: &RawInfo) -> usize {
    if has_layer(info, "sm2") { 256 } else { usize::MAX }
}

/// Whether endpoints of an info can be in multicast groups. An endpoint of `udp` that only sends cannot: it joins no group of the
/// system's, so that leaving fails, and with it closing (`udp-endpoint-that-only-sends-cannot-leave`).
pub(super) fn multicasts(facts: Facts, info: &RawInfo) -> bool {
    facts.contains(Facts::MULTICAST) && decode::attributes(info).caps.contains(Caps::MULTICAST | Caps::RECV)
}

/// Whether contexts of scalable endpoints can be opened in a domain of this info.
pub(super) fn has_contexts(facts: Facts, info: &RawInfo) -> bool {
    let domain = decode::attributes(info).domain;
    let manual = [domain.control_progress, domain.data_progress].contains(&Progress::MANUAL);
    facts.contains(Facts::SCALABLE) && !manual
}

/// Whether atomic operations that only read bring what they have read: those of `sm2` succeed without (`sm2-atomic-read-brings-nothing`).
pub(super) fn reads_atomically(info: &RawInfo) -> bool {
    !has_layer(info, "sm2")
}

/// When an endpoint's options are to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakesOptions {
    BeforeEnabled,
    Enabled,
    Never,
}

pub(super) fn takes_options(facts: Facts) -> TakesOptions {
    if facts.contains(Facts::OPTIONS_BEFORE) {
        TakesOptions::BeforeEnabled
    } else if facts.contains(Facts::OPTIONS_AFTER) {
        TakesOptions::Enabled
    } else {
        TakesOptions::Never
    }
}

/// Whether endpoints may reach into each other's memory, so that they are not closed beside each other. An endpoint that is
/// called by a socket address reaches its peers through sockets or a network card; of all others it has to be shown.
pub(super) fn may_share_memory(facts: Facts, info: &RawInfo) -> bool {
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

/// What may be asked of a provider.
pub(super) fn quirks(info: &RawInfo) -> ProviderQuirks {
    let facts = Facts::of(info);
    ProviderQuirks {
        // Shown of endpoints without connections: connected ones of `tcp` 2.5 take one message, and never end the receive.
        multi_recv: facts.contains(Facts::MULTI_RECV) && decode::attributes(info).endpoint.kind != EndpointType::MSG,
        // No provider that was tested grants them.
        tagged_multi_recv: false,
        directed_recv: facts.contains(Facts::DIRECTED_RECV),
        // Known to fail in a version of `shm`, whose code `sm2` began as.
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

/// What is done for a provider beyond its [`quirks`], each in a few words, for the log. The functions that decide it say why.
pub(super) fn workarounds(info: &RawInfo) -> impl Iterator<Item = &'static str> + use<> {
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

/// Whether queues of a domain can be slept on.
pub(super) fn sleeps(facts: Facts, info: &RawInfo) -> bool {
    let one_thread = info.attributes().domain.threading == Threading::DOMAIN;
    facts.contains(if one_thread { Facts::SLEEPS } else { Facts::SLEEPS_SHARED })
}

/// Returns `true` if a message leaves descriptors of queues readable, and only a sleep of the provider's own ends that: `net`
/// (`net-idle-descriptor-is-readable`).
pub(super) fn leaves_readable(info: &RawInfo) -> bool {
    has_layer(info, "net")
}

/// Whether a queue can be slept on with this object, in a domain whose queues can. Wait sets are not here to be named.
pub(super) fn can_sleep(wait: WaitObj, sleeps: bool) -> bool {
    match wait {
        WaitObj::NONE => true,
        WaitObj::UNSPEC | WaitObj::FD | WaitObj::MUTEX_COND | WaitObj::YIELD => sleeps,
        _ => false,
    }
}
