//! What is not run, because it is known to fail; the rest is the page's.

#![cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "without libfabric there is nothing that fails"))]

/// What a provider cannot do, by the behaviour that shows it.
struct Fault {
    /// Its column.
    provider: &'static str,
    behaviour: &'static str,
    /// The first major version of libfabric that has it.
    since: u16,
    what: &'static str,
}

const NO_BYTES: &str = "a read of no bytes never ends (`rxd-read-of-no-bytes-never-ends`)";

const VERY_LONG: &str = "very_long_message_is_truncated_with_an_error";
const LINE: &str = "directed_receives_stand_in_line_with_the_others";
/// The programs in C have the provider's name before it.
const DIRECTED_FIRST: &str =
    "it goes before older ones of anybody's messages (`…-directed-receive-goes-before-older-ones`)";

/// Not run: they would fail, or never end. In brackets, the name under which `tests/faults/faults.c` shows the same in C.
const FAULTS: [Fault; 11] = [
    Fault { provider: "shm", behaviour: LINE, since: 2, what: DIRECTED_FIRST },
    Fault { provider: "sm2", behaviour: LINE, since: 2, what: DIRECTED_FIRST },
    Fault { provider: "tcp;ofi_rxm", behaviour: LINE, since: 2, what: DIRECTED_FIRST },
    Fault {
        provider: "sm2",
        behaviour: VERY_LONG,
        since: 2,
        what: "a poll never ends (`sm2-long-message-for-a-short-buffer-never-ends`)",
    },
    Fault {
        provider: "net",
        behaviour: "threads_close_in_the_middle_of_traffic",
        since: 1,
        what: "one that is closed when a peer has just connected to it is used afterwards (`net-close-while-a-peer-connects-crashes`)",
    },
    Fault { provider: "udp;ofi_rxd", behaviour: "read_fetches_from_the_peers_region", since: 1, what: NO_BYTES },
    Fault { provider: "udp;ofi_rxd", behaviour: "operations_end_at_every_level", since: 1, what: NO_BYTES },
    Fault {
        provider: "udp;ofi_rxd",
        behaviour: VERY_LONG,
        since: 1,
        what: "the error has no more than 1 MiB of what did not fit (`rxd-truncated-message-is-whole`)",
    },
    Fault {
        provider: "udp;ofi_rxd",
        behaviour: "endpoints_come_and_go",
        since: 1,
        what: "one that comes at the address of one that has gone crashes the peers that knew the former one (`rxd-endpoint-at-a-used-address-crashes-its-peer`)",
    },
    Fault {
        provider: "shm",
        behaviour: VERY_LONG,
        since: 1,
        what: "the receive does not end, nor with libfabric 1.17 the poll (`shm-long-message-for-a-short-buffer-never-ends`)",
    },
    Fault {
        provider: "udp;ofi_rxd",
        behaviour: "region_that_forbids_writing_is_not_written",
        since: 1,
        what: "a write that the peer does not allow never ends (`rxd-write-not-allowed-never-ends`)",
    },
];

/// Why a behaviour is known to fail over a provider.
pub(crate) fn known_fault(provider: &str, behaviour: &str, major: u16) -> Option<&'static str> {
    let is_it = |fault: &&Fault| fault.provider == provider && fault.behaviour == behaviour && fault.since <= major;
    FAULTS.iter().find(is_it).map(|fault| fault.what)
}
