//! What providers do not survive, and how they are spared it.

use core::ptr::NonNull;

use loom_core::transport::{Claims, Closing, Conduct, InFlight, Name};
use loom_core::vocabulary::{Caps, EndpointType, Errno, MsgOrder, Progress, Threading, WaitObj};

use super::decode;
use super::info::RawInfo;
use super::neighbours::Group;
use super::query::library_version;
use super::scalable::Member;
use super::sys;

/// Whether endpoints of this provider reach into each other's memory. (Those of `sm2` reach into a file that all processes of a
/// user share, and that stays as it is.)
pub(super) fn shares_memory(info: &RawInfo) -> bool {
    layers(info).any(|layer| layer == "shm")
}

/// Whether endpoints are called by the number of their process and their own: names that another process may have left, which
/// had the number and was killed. Libfabric 2 finds that out by itself.
pub(super) fn names_by_process(info: &RawInfo) -> bool {
    library_version().major < 2 && layers(info).any(|layer| layer == "shm")
}

/// The providers that an info is made of: `tcp;ofi_rxm` is two.
fn layers(info: &RawInfo) -> impl Iterator<Item = &str> {
    info.name(Name::Provider).unwrap_or_default().split(';')
}

/// What an info grants and its endpoints do not have: `ofi_rxd` names the first peer of its address vector as the source of
/// everything. Connected endpoints of `net` and `tcp` have tagged messages with shared receive contexts only, and follow a null
/// pointer when one arrives that nobody waits for (not those of `tcp` in libfabric 1).
pub(super) fn untrue_caps(info: &RawInfo) -> Caps {
    if layers(info).any(|layer| layer == "ofi_rxd") {
        Caps::SOURCE
    } else if has_untrue_tags(info) {
        Caps::TAGGED
    } else {
        Caps::empty()
    }
}

fn has_untrue_tags(info: &RawInfo) -> bool {
    let connected = decode::attributes(info).endpoint.kind == EndpointType::MSG;
    connected && (layers(info).eq(["net"]) || layers(info).eq(["tcp"]))
}

/// Changes what an info says, so that its endpoints do not have what they cannot have: `sm2` loses immediate data.
pub(super) fn correct(info: &mut RawInfo) {
    have_keys_checked(info);
    if layers(info).any(|layer| layer == "sm2") {
        info.carry_no_data();
    }
    if has_untrue_tags(info) {
        info.withdraw(Caps::TAGGED);
    }
}

/// Whether endpoints of an info can be in multicast groups. Those of `udp` can, unless they only send: such an endpoint joins no
/// group of the system's, so that leaving fails, and with it closing. Nobody else has groups so far; another provider might go
/// on looking at the address of one that was left.
pub(super) fn multicasts(info: &RawInfo) -> bool {
    let caps = decode::attributes(info).caps;
    layers(info).eq(["udp"]) && caps.contains(Caps::MULTICAST | Caps::RECV)
}

/// Whether connections can share their receives. Those of `sockets` go on with what was freed, when an endpoint is closed in the
/// middle of a message.
pub(super) fn shares_receives(info: &RawInfo) -> bool {
    !layers(info).any(|layer| layer == "sockets")
}

/// Sees to it that the peer's side checks keys and bounds of RMA operations.
///
/// Unless an order among RMA operations is asked for, `shm` writes to the peer's addresses without asking the peer (by
/// cross-memory attach): with any key, to any address, and to a region that is closed already. With an order it goes
/// through the peer's queue, where the region is looked up. (`sm2` has no RMA, and no domain for an info that asks for an
/// order of it.)
fn have_keys_checked(info: &mut RawInfo) {
    if layers(info).any(|layer| layer == "shm") {
        info.ask_for_order(MsgOrder::WAW);
    }
}

/// Whether endpoints that are bound with `FI_SELECTIVE_COMPLETION` keep to it. Those of `net`, and of `tcp` in libfabric 1, report
/// all the same.
pub(super) fn is_selective(info: &RawInfo) -> bool {
    let is_alone = |name| layers(info).eq([name]);
    !(is_alone("net") || is_alone("tcp") && library_version().major < 2)
}

/// Whether an endpoint needs a counter of writes. Without, `ofi_rxm` injects writes through its connections, which report those to
/// a peer that was killed without a context, and it follows that.
pub(super) fn counts_writes(info: &RawInfo) -> bool {
    layers(info).any(|layer| layer == "ofi_rxm") && info.attributes().caps.contains(Caps::RMA)
}

/// Whether answers to a transmit context's operations, which any context of its scalable endpoint may find, are given to it when it
/// is closed and freed. Those of `sockets` are: to sends, reads and writes, but not to messages that were injected.
pub(super) fn answers_late(info: &RawInfo) -> bool {
    layers(info).any(|layer| layer == "sockets")
}

/// Whether contexts of scalable endpoints can be closed. `sockets` drives closed ones on, with manual progress, when a queue is
/// polled that has another.
pub(super) fn closes_contexts(info: &RawInfo) -> bool {
    let domain = decode::attributes(info).domain;
    let manual = [domain.control_progress, domain.data_progress].contains(&Progress::MANUAL);
    !(manual && layers(info).any(|layer| layer == "sockets"))
}

/// Whether endpoints read their info's source address up to a zero byte: `sm2` does, and counts none in its length, so that a copy
/// of its info has none.
pub(super) fn reads_source_as_text(info: &RawInfo) -> bool {
    layers(info).any(|layer| layer == "sm2")
}

/// Whether an endpoint's options are to be set before it is enabled: `shm` of libfabric 1 and `sm2` follow a null pointer then, and
/// `shm` of libfabric 2 does not heed what is set later.
pub(super) fn takes_options_early(info: &RawInfo) -> bool {
    layers(info).all(|layer| match layer {
        "shm" => library_version().major >= 2,
        layer => layer != "sm2",
    })
}

/// What is not to be asked of a provider.
///
/// Multi-receives: only where they have been seen to be safe. `shm`, `sm2`, `ofi_rxm` (2.5), `ofi_rxd` and `sockets` write behind
/// the buffer after, or with, a message that is longer than what is left; `net`, `ofi_rxm` (1.17) and `ofi_rxd` release a
/// buffer before all of it is there, and write to one that was cancelled.
///
/// Peeks: `shm` of libfabric 1 does not know them, and receives. Claims: `net`, `tcp` and `sockets` compare contexts; others
/// follow them. `ofi_rxd` does not survive them, and `ofi_rxm` of libfabric 2 reports a message that was cut once for each of its
/// parts, which only contexts that are numbers tell from the next operation's. Discards: of a long message, `ofi_rxm`, `ofi_rxd` and `sm2` do not tell its sender, and nothing more may arrive
/// from there.
///
/// Directed receives of messages without tag: `net` and `tcp` take anybody's; `shm`, `sm2` and `ofi_rxm` of libfabric 2 crash when
/// the peer sends and an open receive is posted, too.
///
/// Closing regions: `shm` of libfabric 2 keeps a pointer to the region that a peer's long operation goes to, and the thread of
/// `sockets` looks for the counters of a region after it has let the lock go under which it found it.
pub(super) fn conduct(info: &RawInfo) -> Conduct {
    let two = library_version().major >= 2;
    let is = |name| layers(info).any(|layer| layer == name);
    let tcp_alone = layers(info).eq(["tcp"]);
    let crashes = two && ["shm", "sm2", "ofi_rxm"].into_iter().any(is);
    Conduct {
        multi_recv: two && tcp_alone,
        directed_recv: !crashes && !tcp_alone && !is("net"),
        peek: two || !is("shm"),
        claims: if tcp_alone || layers(info).eq(["net"]) || is("sockets") {
            Claims::ByContext
        } else if is("ofi_rxd") || two && is("ofi_rxm") {
            Claims::Not
        } else {
            Claims::InContexts
        },
        discard: !["ofi_rxm", "ofi_rxd", "sm2"].into_iter().any(is),
        mr_close: !(is("sockets") || two && is("shm")),
    }
}

/// Whether queues of a domain can be slept on. `shm` and `sm2` sleep by yielding, `shm` 1.17 without an end where the queue has no endpoint
/// yet, and 2.5.1 crashes there. `tcp` of libfabric 2 calls a null pointer when a queue is opened for it, unless the domain is
/// one thread's.
pub(super) fn sleeps(info: &RawInfo) -> bool {
    let tcp_alone = layers(info).eq(["tcp"]) && library_version().major >= 2;
    let one_thread = info.attributes().domain.threading == Threading::DOMAIN;
    !layers(info).any(|layer| matches!(layer, "shm" | "sm2")) && (one_thread || !tcp_alone)
}

/// Whether a queue can be slept on with this object, in a domain whose queues can. Wait sets are not here to be named.
pub(super) fn can_sleep(wait: WaitObj, sleeps: bool) -> bool {
    match wait {
        WaitObj::NONE => true,
        WaitObj::UNSPEC | WaitObj::FD | WaitObj::MUTEX_COND | WaitObj::YIELD => sleeps,
        _ => false,
    }
}

/// What the connections of a domain do not survive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connections {
    /// Whether a passive endpoint can be closed. `net` goes on using it for a peer that has connected and not yet sent its
    /// request, also when its event queue is closed, as long as there is another in the fabric.
    pub(super) closes_listeners: bool,
    /// Whether a connection can be shut down. `sockets` closes its file descriptor then, and again with the endpoint, when the
    /// number may be somebody else's.
    pub(super) shuts_down: bool,
}

impl Connections {
    pub(super) fn of(info: &RawInfo) -> Self {
        let is = |name| layers(info).any(|layer| layer == name);
        Connections { closes_listeners: !is("net"), shuts_down: !is("sockets") }
    }
}

/// When an endpoint can be closed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Closable {
    /// At any time.
    Always,
    /// When no receive is under way: `ofi_rxm` crashes when its endpoint is closed while it fetches a long message (seen
    /// with libfabric 1.17); and, with libfabric 2, when it was ever sent a message of more than so many bytes that did not fit.
    WithoutReceives { truncated: usize },
    /// A context of a scalable endpoint: when the others allow it.
    Context(Member),
    /// When none of its neighbours is active, and no long read is under way: what is longer than an injected message, the
    /// peer's process writes into the buffer by cross-memory attach, whether the endpoint is open or not.
    Alone { group: Group, inject_size: usize },
}

impl Closable {
    /// The rule for endpoints of an info, in a domain of this group.
    pub(super) fn rule(info: &RawInfo, group: Option<Group>) -> Self {
        match group {
            Some(group) => Closable::Alone { group, inject_size: info.attributes().tx.inject_size },
            None if layers(info).any(|layer| layer == "ofi_rxm") => {
                // 16 KiB, unless its buffers are set to be smaller: what is injected always fits into one.
                let two = library_version().major >= 2;
                let truncated = if two { info.attributes().tx.inject_size } else { usize::MAX };
                Closable::WithoutReceives { truncated }
            }
            None => Closable::Always,
        }
    }

    /// Closes an endpoint, or retires it, if it cannot be closed now.
    pub(super) fn close(
        self,
        in_flight: InFlight,
        fid: NonNull<sys::fid>,
        close: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Closing, Errno> {
        match self {
            Closable::WithoutReceives { truncated }
                if in_flight.receives > 0 || in_flight.longest_truncated > truncated =>
            {
                Ok(Closing::Retired)
            }
            Closable::Always | Closable::WithoutReceives { .. } => close().map(|()| Closing::Closed),
            Closable::Context(member) => member.close(in_flight, close),
            Closable::Alone { group, inject_size } => group.close(fid, in_flight.longest_read > inject_size, close),
        }
    }

    /// The queues of a retired endpoint are not polled any more, until it is closed again or for good. Returns whether the
    /// provider drives it all the same.
    pub(super) fn leave(self, fid: NonNull<sys::fid>, for_good: bool) -> bool {
        match self {
            Closable::Alone { group, .. } => {
                group.leave(fid, for_good);
                false
            }
            // The connections of a domain's endpoints, and those of a scalable endpoint's contexts, are driven together.
            Closable::Always | Closable::WithoutReceives { .. } | Closable::Context(_) => true,
        }
    }
}
