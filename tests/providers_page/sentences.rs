//! What the page of providers says of what the tests found.

use crate::page::{Exception, Feature, Words};

pub(crate) const WORDS: Words<'_> = Words {
    introduction: INTRODUCTION,
    providers: PROVIDERS,
    kinds: KINDS,
    features: FEATURES,
    exceptions: EXCEPTIONS,
};

const INTRODUCTION: &str = "\
# What differs between providers

This page says where a provider of libfabric differs from loom's documentation. All else that the tests try was shown to hold: they move
data and check it, over libfabric 1.17 and 2.5. A version in brackets means that a statement holds with that version only.

[behaviours.md](behaviours.md) lists every tested behaviour by provider and version, and names the programs in C that show the faults.
[limits.md](limits.md) says what a program can do about them. `cargo test --test providers_page` compares this page with behaviours.md.

In the table, an empty cell means that the provider has the feature; `*`, that it has the feature with an exception, which stands in the
provider's section or under [several providers](#several-providers), there maybe under another feature; `no`, that loom refuses the request with an error, or that an exception
says why the feature is missing; `–`, that the tests do not try it there.
";

const PROVIDERS: &[(&str, &str)] = &[
    ("soft", "loom's software transport, without libfabric."),
    ("strict", "A software network that is as weak as the weakest provider, for tests of portable programs."),
    ("shm", "Shared memory of one host."),
    ("sm2", "Shared memory of one host."),
    ("tcp", "TCP."),
    ("net", "TCP; libfabric 2 has `tcp` in its place."),
    ("tcp;ofi_rxm", "Connectionless endpoints over connections of `tcp`."),
    ("udp;ofi_rxd", "Reliable endpoints over datagrams of `udp`."),
    ("udp", "UDP: a datagram may be lost."),
    ("sockets", "TCP, for the development of programs."),
    ("sockets, datagrams", "The datagram endpoints of `sockets` (`FI_EP_DGRAM`)."),
];

const KINDS: &[(&str, &str)] = &[
    ("", "connectionless endpoints"),
    ("connected endpoints", "connected endpoints"),
    ("peers that fail", "killed peers and strangers"),
    ("scalable endpoints", "scalable endpoints"),
    ("multicast groups", "multicast groups"),
    ("collective operations", "collective operations"),
];

/// What only sentences are about has no behaviours here.
const FEATURES: &[Feature] = &[
    Feature { name: "messages", refused: &[] },
    Feature { name: "completion levels", refused: &[] },
    Feature {
        name: "tagged messages",
        refused: &[
            "tagged message reaches posted receive",
            "tagged message waits for its receive",
            "tags choose the receive",
            "oldest receive that accepts takes the message",
            "tags and plain messages do not mix",
            "claims need a queue for them",
        ],
    },
    Feature { name: "ignored bits of tags", refused: &["ignored bits of a tag match anything"] },
    Feature { name: "tags over plain messages", refused: &["tags over plain messages of one peer each"] },
    Feature { name: "immediate data of messages", refused: &["immediate data arrives with the message"] },
    Feature {
        name: "sources of messages",
        refused: &["source is the sender where granted", "late messages of a removed peer name no later one"],
    },
    Feature {
        name: "directed receives",
        refused: &["directed receive takes one peer or is refused", "directed receives stand in line with the others"],
    },
    Feature {
        name: "directed receives of untagged messages",
        refused: &["plain directed receives stand in line with the others"],
    },
    Feature {
        name: "peeks",
        refused: &["a peek finds what has arrived", "a peek of nothing says so", "a peek asks for a tag and a source"],
    },
    Feature {
        name: "claims",
        refused: &["a claimed message matches no other receive", "claims end with their endpoint"],
    },
    Feature { name: "discards", refused: &["a discarded message is gone", "a claimed message can be discarded"] },
    Feature {
        name: "multi-receives",
        refused: &[
            "messages fill one buffer",
            "a buffer waits for its pieces",
            "messages that wait fill a buffer",
            "the next buffer takes over",
            "long messages fill one buffer",
            "a message longer than what is left is truncated",
            "a cancelled buffer comes back",
            "a closed endpoint gives its filled buffer back",
            "waiting keeps pieces until there are many",
            "a buffer that is not kept to is refused",
            "options are read and set",
        ],
    },
    Feature {
        name: "multi-receives of tagged messages",
        refused: &[
            "tagged messages fill one buffer",
            "tags decide which buffer is filled",
            "long tagged message is truncated in a buffer",
            "a cancelled buffer of tags comes back",
            "a buffer of tags that is not kept to is refused",
        ],
    },
    Feature {
        name: "RMA",
        refused: &[
            "write lands in the peers region",
            "write at an offset leaves the rest alone",
            "read fetches from the peers region",
            "write with immediate data is an event at the peer",
            "injected write lands in the peers region",
            "range beyond the region is refused",
            "region of borrowed memory ends with its scope",
            "scope of borrowed memory is around the queues where closing is no fence",
            "closed region gives its memory back",
            "region closed in the middle of a transfer keeps its memory while it is reached",
            "memory of a closed region waits for every endpoint of the domain",
            "regions of one domain have keys of their own",
            "unknown key loses no buffer",
            "region that forbids writing is not written",
            "access that a region lacks is refused by the post",
            "read only memory cannot be exposed for writing",
            "windows check their bounds",
            "region for an endpoint is reached through it",
            "key is chosen where the provider leaves it",
            "what a region cannot be is refused",
            "registered buffers serve every operation",
            "leases serve every operation",
            "peers reach each exposed lease at its place",
            "cached buffers serve every operation",
            "reads and writes of several buffers and parts",
            "reads and writes are counted",
            "reads and writes are deferred",
            "awaited reads and writes move bytes",
            "group writes and reads regions of its peers",
            "reads in flight come back with their endpoint",
            "forgotten region leaks and nothing else",
            "destructors that panic while closing leave a domain that works",
            "what is forgotten in a scope is closed with it",
            "parts of transfers are counted by their immediate data",
            "layout is refused where it does not fit",
        ],
    },
    Feature {
        name: "atomics",
        refused: &[
            "atomics are deferred",
            "awaited values are fetched",
            "every atomic computes what it says",
            "values need no buffer",
            "injected atomic is done",
            "atomic of parts takes them in order",
            "what is no atomic is refused",
            "atomics need the access of the manual",
            "closed endpoint gives atomics back",
        ],
    },
    Feature { name: "fences", refused: &["a fence holds or is refused"] },
    Feature {
        name: "counters and deferred work",
        refused: &[
            "messages are counted on both sides",
            "one counter counts for several endpoints",
            "a failed operation is counted apart",
            "a counter is set and added to",
            "a counter outlives its endpoints",
            "what cannot be counted is refused",
            "send starts when a receive has ended",
            "deferred work starts in the order of thresholds",
            "deferred chain runs in order",
            "deferred work comes back in each state",
            "dropped deferred work leaves what has started",
            "foreign deferred work is refused",
            "tagged messages are deferred",
        ],
    },
    Feature {
        name: "counters of peers' reads and writes",
        refused: &["what peers read and write is counted", "send starts when a peer has written"],
    },
    Feature { name: "counters of peers' atomics", refused: &["atomics of peers are counted"] },
    Feature { name: "counters of regions", refused: &["what peers write to a region is counted"] },
    Feature { name: "unsignaled sends", refused: &["unsignaled sends arrive and are counted"] },
    Feature {
        name: "unsignaled reads and writes",
        refused: &["unsignaled reads and writes are counted", "all others report on a selective endpoint"],
    },
    Feature {
        name: "cancelled receives",
        refused: &["cancelled receive gives its buffer back", "cancel leaves other receives alone"],
    },
    Feature {
        name: "cancelled sends",
        refused: &["cancelled sends make room for others", "thread that polls lets go of cancelled sends"],
    },
    Feature {
        name: "sleeping on queues",
        refused: &[
            "sleeping ends when the time is over",
            "sleeping ends at the deadline whatever wakes it",
            "sleeping ends with a completion",
            "queue is slept on after each of its endpoints was closed",
        ],
    },
    Feature { name: "sleeping on counters", refused: &["counter is waited for after one of its endpoints was closed"] },
    Feature {
        name: "sleeping in shared domains, and signals",
        refused: &[
            "a sleeper is woken by another thread",
            "a signal wakes the sleeper up",
            "a signal without a sleeper ends one sleep",
            "signals lose no completion",
            "queue is signalled after an endpoint was closed",
        ],
    },
    Feature {
        name: "descriptors of queues",
        refused: &[
            "a program may sleep on the descriptor of an idle queue",
            "idle queue with a closed endpoint costs little",
        ],
    },
    Feature {
        name: "descriptors in shared domains",
        refused: &["a descriptor tells of another threads message", "a signal makes the descriptor readable"],
    },
    Feature { name: "addresses", refused: &[] },
    Feature { name: "peers by node and service", refused: &["peer may be inserted by node and service"] },
    Feature { name: "peers by a range of addresses", refused: &["peers may be inserted by their range"] },
    Feature { name: "groups", refused: &[] },
    Feature { name: "collective operations", refused: &["collective operations are refused"] },
    Feature { name: "connections", refused: &[] },
    Feature { name: "connections: peeks", refused: &["a peek finds claims and discards over a connection"] },
    Feature { name: "connections: shutdown", refused: &["a shutdown reaches the peer"] },
    Feature {
        name: "connections: shared receive contexts",
        refused: &[
            "counters count through a shared context",
            "shared receives take messages of any connection",
            "a shared receive cuts a message that is too long",
            "a shared receive is cancelled",
            "shared receives outlive connections",
            "a connection that ends in the middle of a message leaves the others",
            "an endpoint that is closed in the middle of a message leaves the others",
            "connections have no tags that crash",
            "an endpoint with shared receives has none of its own",
            "a client receives through a shared context too",
            "what waits comes back with a shared context",
            "a forgotten endpoint keeps its shared context",
            "shared receives complete into a queue of their own",
        ],
    },
    Feature { name: "closing", refused: &[] },
    Feature { name: "killed peers", refused: &[] },
    Feature { name: "strangers", refused: &[] },
];

const EXCEPTIONS: &[Exception] = &[
    Exception {
        about: "messages",
        note: "a message of the greatest length is not tried",
        sentence: "The tests send no message of the greatest length",
    },
    Exception {
        about: "messages",
        note: "the length of the message is unknown",
        sentence: "If a message is more than 1 MiB longer than its buffer, its length is unknown",
    },
    Exception {
        about: "messages",
        note: "the error has no more than 1 MiB of what did not fit (`rxd-truncated-message-is-whole`)",
        sentence: "If a message is more than 1 MiB longer than its buffer, its length is unknown",
    },
    Exception {
        about: "messages",
        note: "the receive does not end, nor with libfabric 1.17 the poll (`shm-long-message-for-a-short-buffer-never-ends`)",
        sentence: "If a message is more than 1 MiB longer than its buffer, the receive never ends; with 1.17, neither does the poll",
    },
    Exception {
        about: "messages",
        note: "a poll never ends (`sm2-long-message-for-a-short-buffer-never-ends`)",
        sentence: "If a message is more than 1 MiB longer than its buffer, a poll never ends",
    },
    Exception {
        about: "closing",
        note: "the endpoint stays open after it, because closing crashes if it was divided into segments (`rxm-close-after-a-truncated-long-message-crashes`)",
        sentence: "After a message that was more than 1 MiB too long, loom leaves the endpoint open, because closing it can crash",
    },
    Exception {
        about: "ignored bits of tags",
        note: "of one tag: receives with ignored bits are refused (`shm-masked-receive-misses-what-has-arrived`)",
        sentence: "loom refuses receives with ignored bits, because they would miss messages that have arrived",
    },
    Exception {
        about: "directed receives",
        note: "it goes before older ones of anybody's messages (`…-directed-receive-goes-before-older-ones`)",
        sentence: "A directed receive matches before older receives from any source",
    },
    Exception {
        about: "RMA",
        note: "a read of no bytes never ends (`rxd-read-of-no-bytes-never-ends`)",
        sentence: "A read of zero bytes never ends",
    },
    Exception {
        about: "RMA",
        note: "a read of a region that is closed is never answered, and not tried",
        sentence: "A read of a closed region never ends",
    },
    Exception {
        about: "RMA",
        note: "the write is reported as a success, though nothing was written",
        sentence: "A write through a forged `RemoteRegion` that claims access changes nothing, but completes as a success",
    },
    Exception {
        about: "RMA",
        note: "the connection breaks, and neither side gets an error for the write that is not allowed",
        sentence: "A write through a forged `RemoteRegion` that claims access breaks the connection, and no error reports it",
    },
    Exception {
        about: "RMA",
        note: "a write that the peer does not allow never ends (`rxd-write-not-allowed-never-ends`)",
        sentence: "A write through a forged `RemoteRegion` that claims access never ends",
    },
    Exception {
        about: "completion levels",
        note: "the delivery of an empty message is never reported",
        sentence: "The delivery of an empty message (`CompletionLevel::Delivery`) is never reported",
    },
    Exception {
        about: "completion levels",
        note: "a buffer of the provider's at the peer is delivery",
        sentence: "A message counts as delivered when the provider has buffered it at the peer",
    },
    Exception {
        about: "multi-receives",
        note: "by the `unsafe` form only",
        sentence: "Only the `unsafe` forms are accepted, tagged or not",
    },
    Exception {
        about: "multi-receives",
        note: "by the `unsafe` form only: memory behind the buffer is written, or the buffer when it has come back (`…-multi-receive-…`)",
        sentence: "The provider may write behind the buffer, or to a buffer that has come back, so only the `unsafe` form is accepted",
    },
    Exception {
        about: "multi-receives",
        note: "a buffer is released before a message of more than 16 KiB is there (`rxm-multi-receive-is-released-too-early`)",
        sentence: "A buffer comes back before a message of more than 16 KiB is in it",
    },
    Exception {
        about: "multi-receives",
        note: "memory behind the buffer is written, or the buffer does not come back (`…-multi-receive-…`)",
        sentence: "A message longer than the rest of the buffer is written behind it, or the buffer does not come back",
    },
    Exception {
        about: "immediate data of messages",
        note: "the receive of a message that has waited does not tell of its immediate data (`sockets-immediate-data-is-not-told`)",
        sentence: "A receive of a message that has waited does not report the immediate data",
    },
    Exception {
        about: "claims",
        note: "short messages only: a long one holds up those behind it until it is received",
        sentence: "Short messages only, as with discards: a long message holds up those behind it until it is received",
    },
    Exception {
        about: "counters of peers' reads and writes",
        note: "it grants `FI_RMA_EVENT`, and counts nothing of what peers do",
        sentence: "The provider grants `FI_RMA_EVENT`, but never counts what peers do",
    },
    Exception {
        about: "counters of peers' atomics",
        note: "atomic operations that fetch are not counted",
        sentence: "Atomic operations that fetch are not counted",
    },
    Exception {
        about: "counters and deferred work",
        note: "a receive that is cancelled is not counted as failed",
        sentence: "A cancelled receive is not counted as failed",
    },
    Exception {
        about: "unsignaled sends",
        note: "everything is reported (`net-selective-completion-reports-everything`)",
        sentence: "loom refuses unsignaled operations, because the provider reports them all the same",
    },
    Exception {
        about: "cancelled sends",
        note: "the provider cancels receives alone (`…-send-is-not-cancelled`)",
        sentence: "The provider cancels no sends, only receives",
    },
    Exception {
        about: "cancelled sends",
        note: "a send is over at once",
        sentence: "A send ends at once and cannot be cancelled",
    },
    Exception {
        about: "groups",
        note: "answers are received from any peer",
        sentence: "A group receives answers from any peer, because receives have no source",
    },
    Exception {
        about: "sleeping on queues",
        note: "after a close it is polled once a millisecond (`…-sleep-after-an-endpoint-was-closed-crashes`)",
        sentence: "After an endpoint was closed, its queues and counters are polled once a millisecond, because a sleep would read freed memory",
    },
    Exception {
        about: "addresses",
        note: "they reach the endpoint that has taken its place",
        sentence: "A message to a closed endpoint reaches the endpoint that has taken its place",
    },
    Exception {
        about: "addresses",
        note: "a vector takes 256 addresses in its lifetime, whatever its capacity",
        sentence: "An address vector takes 256 addresses in its lifetime, those of removed peers included",
    },
    Exception {
        about: "addresses",
        note: "one that comes at the address of one that has gone crashes the peers that knew the former one (`rxd-endpoint-at-a-used-address-crashes-its-peer`)",
        sentence: "A new endpoint at the address of a closed one, such as a restarted process, crashes the peers of the closed one",
    },
    Exception {
        about: "addresses",
        note: "it has a place for each endpoint that there can be",
        sentence: "An address vector is never full: it has an entry for each endpoint of the network",
    },
    Exception {
        about: "tags over plain messages",
        note: "packets must not be lost",
        sentence: "Datagrams do not carry them, because the network may lose a datagram",
    },
    Exception {
        about: "atomics",
        note: "reads bring nothing, and are refused (`sm2-atomic-read-brings-nothing`)",
        sentence: "loom refuses atomic reads, because they return no data",
    },
    Exception {
        about: "closing",
        note: "one that is closed when a peer has just connected to it is used afterwards (`net-close-while-a-peer-connects-crashes`)",
        sentence: "The provider uses an endpoint that is closed just after a peer has connected to it, which can crash",
    },
    Exception {
        about: "closing",
        note: "closing in the middle of a message between 16 and 128 KiB crashes (`rxm-close-in-the-middle-of-segments-crashes`)",
        sentence: "Closing an endpoint while a message between 16 and 128 KiB arrives crashes; `FI_OFI_RXM_SAR_LIMIT=16384` in the sender's environment avoids it",
    },
    Exception {
        about: "connections",
        note: "everything is reported (`…-selective-completion-reports-everything`)",
        sentence: "loom refuses unsignaled operations, because the provider reports them all the same",
    },
    Exception {
        about: "connections",
        note: "the end of a connection into which it writes is not always told",
        sentence: "The provider does not always report the end of a connection to which it writes",
    },
    Exception {
        about: "connections",
        note: "the end of a connection into which it writes is not always told, and a message that fits into its buffers is reported as sent",
        sentence: "On a connection that has ended, it reports a message that fits into its buffers as sent",
    },
    Exception {
        about: "strangers",
        note: "no connection is accepted while the provider waits for the rest of what a stranger has begun",
        sentence: "A stranger that has sent part of a request holds up the listener, which accepts no connection meanwhile",
    },
    Exception {
        about: "killed peers",
        note: "the long messages to it end with their endpoint only (`rxm-long-message-to-a-killed-peer-never-ends`)",
        sentence: "A long message to a killed peer ends only when its endpoint is closed",
    },
    Exception {
        about: "killed peers",
        note: "what is under way to the peer ends with this side's endpoint only (`rxd-message-to-a-killed-peer-never-ends`)",
        sentence: "An operation to a killed peer ends only when its endpoint is closed",
    },
    Exception {
        about: "killed peers",
        note: "by the `unsafe` form only (`…-multi-receive-…`)",
        sentence: "Multi-receives from a killed peer come back; only the `unsafe` form was tested",
    },
    Exception {
        about: "killed peers",
        note: "the buffer does not come back, and its queue leaks itself (`rxm-multi-receive-of-a-killed-sender-is-never-over`)",
        sentence: "A multi-receive that a killed peer was filling does not come back, and its queue leaks itself",
    },
    Exception {
        about: "killed peers",
        note: "the provider says \"try again\", however often it is tried",
        sentence: "Posts to a killed peer are refused with \"try again\" for ever",
    },
    Exception {
        about: "killed peers",
        note: "it crashes this process (`rxm-killed-writer-with-immediate-data-crashes`)",
        sentence: "A peer that is killed while it writes with immediate data crashes the target's process",
    },
    Exception {
        about: "strangers",
        note: "messages of others may never come after it (`sockets-message-after-garbage-never-comes`)",
        sentence: "After garbage from a stranger, messages of peers may never arrive",
    },
    Exception {
        about: "strangers",
        note: "a datagram of something else crashes the process (`rxd-foreign-datagram-crashes`)",
        sentence: "A datagram from a stranger crashes the process",
    },
    Exception {
        about: "strangers",
        note: "a stranger who speaks when the endpoint is closed can crash its domain (`…-stranger-of-a-closed-endpoint-crashes`)",
        sentence: "A stranger that has connected and sends while the endpoint is closed can crash the process",
    },
];
