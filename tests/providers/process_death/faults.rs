//! Cases that are not run, because they crash or hang. In brackets: the name under which
//! `tests/provider_faults/faults.c` shows the same in C.

use support::library_version;

const CLOSED: &str = "A stranger that has connected and sends while the endpoint is closed can crash the process \
    (`…-stranger-of-a-closed-endpoint-crashes`)";
const DATAGRAM: &str = "A datagram from a stranger crashes the process (`rxd-foreign-datagram-crashes`)";
const STOPS: &str = "After garbage from a stranger, messages of peers may never arrive \
    (`sockets-message-after-garbage-never-comes`)";
const UNFINISHED: &str = "A peer that is killed while it writes with immediate data crashes the target's process \
    (`rxm-killed-writer-with-immediate-data-crashes`)";

const NEVER_OVER: &str = "A multi-receive that a killed peer was filling does not come back, and its queue leaks itself \
        (`rxm-multi-receive-of-a-killed-sender-is-never-over`)";

const LEFT: &str = "A receive for a long message that a killed peer has left crashes the process, or has another peer's bytes \
    (`rxm-receive-of-a-closed-peers-long-message-crashes`)";

/// Returns the reason why a behaviour fails over a provider.
pub(crate) fn known(provider: &str, behaviour: &str) -> Option<&'static str> {
    match (provider, behaviour) {
        ("net" | "tcp", "a_stranger_may_outlive_the_endpoint") => Some(CLOSED),
        ("tcp;ofi_rxm", "a_sender_is_killed_in_the_middle_of_filling_one_buffer") if library_version().major >= 2 => {
            Some(NEVER_OVER)
        }
        ("tcp;ofi_rxm", "an_initiator_is_killed_in_the_middle_of_writes_with_immediate_data")
            if library_version().major >= 2 =>
        {
            Some(UNFINISHED)
        }
        ("tcp;ofi_rxm", "a_sender_is_killed_before_the_receive_of_its_long_message") => Some(LEFT),
        ("sockets", "garbage_does_not_stop_the_others") => Some(STOPS),
        ("udp;ofi_rxd", "garbage_does_not_stop_the_others") => Some(DATAGRAM),
        _ => None,
    }
}
