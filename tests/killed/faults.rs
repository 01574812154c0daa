//! What is not run, because it is known to crash, or to hang. In brackets, the name under which `tests/faults/faults.c` shows
//! the same in C.

const CLOSED: &str = "a stranger who speaks when the endpoint is closed can crash its domain (`…-stranger-of-a-closed-endpoint-crashes`)";
const DATAGRAM: &str = "a datagram of something else crashes the process (`rxd-foreign-datagram-crashes`)";
const STOPS: &str = "messages of others may never come after it (`sockets-message-after-garbage-never-comes`)";

/// Why a behaviour is known to fail over a provider.
pub(crate) fn known(provider: &str, behaviour: &str) -> Option<&'static str> {
    match (provider, behaviour) {
        ("net" | "tcp", "a_stranger_may_outlive_the_endpoint") => Some(CLOSED),
        ("sockets", "garbage_does_not_stop_the_others") => Some(STOPS),
        ("udp;ofi_rxd", "garbage_does_not_stop_the_others") => Some(DATAGRAM),
        _ => None,
    }
}
