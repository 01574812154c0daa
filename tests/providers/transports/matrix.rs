//! Behaviours that are not run, because they fail.

#![cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "without libfabric there is nothing that fails"))]

/// A limit of a provider, by the behaviour that shows it.
struct Fault {
    provider: &'static str,
    behaviour: &'static str,
    /// First major version of libfabric with the fault.
    since: u16,
    what: &'static str,
}

const NO_BYTES: &str = "A read of zero bytes never ends (`rxd-read-of-no-bytes-never-ends`)";

const VERY_LONG: &str = "very_long_message_is_truncated_with_an_error";
const LINE: &str = "directed_receives_stand_in_line_with_the_others";
/// Reason that names programs in C. Their names begin with the provider's.
const DIRECTED_FIRST: &str =
    "A directed receive matches before older receives from any source (`…-directed-receive-goes-before-older-ones`)";

/// Faults of behaviours that are not run: they would fail, or never end. In brackets: the name
/// under which `tests/provider_faults/faults.c` shows the same in C.
const FAULTS: [Fault; 11] = [
    Fault { provider: "shm", behaviour: LINE, since: 2, what: DIRECTED_FIRST },
    Fault { provider: "sm2", behaviour: LINE, since: 2, what: DIRECTED_FIRST },
    Fault { provider: "tcp;ofi_rxm", behaviour: LINE, since: 2, what: DIRECTED_FIRST },
    Fault {
        provider: "sm2",
        behaviour: VERY_LONG,
        since: 2,
        what: "If a message is more than 1 MiB longer than its buffer, a poll never ends \
            (`sm2-long-message-for-a-short-buffer-never-ends`)",
    },
    Fault {
        provider: "net",
        behaviour: "threads_close_in_the_middle_of_traffic",
        since: 1,
        what: "The provider uses an endpoint that is closed just after a peer has connected to it, which can crash \
            (`net-close-while-a-peer-connects-crashes`)",
    },
    Fault { provider: "udp;ofi_rxd", behaviour: "read_fetches_from_the_peers_region", since: 1, what: NO_BYTES },
    Fault { provider: "udp;ofi_rxd", behaviour: "operations_end_at_every_level", since: 1, what: NO_BYTES },
    Fault {
        provider: "udp;ofi_rxd",
        behaviour: VERY_LONG,
        since: 1,
        what: "If a message is more than 1 MiB longer than its buffer, its length is unknown \
            (`rxd-truncated-message-is-whole`)",
    },
    Fault {
        provider: "udp;ofi_rxd",
        behaviour: "endpoints_come_and_go",
        since: 1,
        what: "A new endpoint at the address of a closed one, such as a restarted process, crashes the peers of the \
            closed one (`rxd-endpoint-at-a-used-address-crashes-its-peer`)",
    },
    Fault {
        provider: "shm",
        behaviour: VERY_LONG,
        since: 1,
        what: "If a message is more than 1 MiB longer than its buffer, the receive never ends, and with libfabric \
            1.17 neither does the poll (`shm-long-message-for-a-short-buffer-never-ends`)",
    },
    Fault {
        provider: "udp;ofi_rxd",
        behaviour: "region_that_forbids_writing_is_not_written",
        since: 1,
        what: "A write through a forged `RemoteRegion` that claims access never ends \
            (`rxd-write-not-allowed-never-ends`)",
    },
];

/// Returns the reason why a behaviour fails over a provider.
pub(crate) fn known_fault(provider: &str, behaviour: &str, major: u16) -> Option<&'static str> {
    let is_it = |fault: &&Fault| fault.provider == provider && fault.behaviour == behaviour && fault.since <= major;
    FAULTS.iter().find(is_it).map(|fault| fault.what)
}
