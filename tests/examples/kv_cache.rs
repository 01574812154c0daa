//! The example over memory.

use loom_fabric::{Network, NetworkAttr};

use super::*;

fn run(kill: bool, strict: bool) -> String {
    let network = Network::new(NetworkAttr { strict, ..NetworkAttr::DEFAULT }).unwrap();
    Role { decodes: false, kill, command: None }.run(&network.info()).unwrap()
}

#[test]
fn decoder_verifies_all_requests() {
    for strict in [false, true] {
        assert_eq!(run(false, strict), "32 requests verified by 1 decoders\n");
    }
}

#[test]
fn decoder_takes_over_from_a_killed_one() {
    for strict in [false, true] {
        assert_eq!(run(true, strict), "32 requests verified by 2 decoders\n");
    }
}
