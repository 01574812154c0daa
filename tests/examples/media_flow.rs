//! The example over memory.

use loom_fabric::{Network, NetworkAttr};

use super::*;

#[test]
fn all_targets_verify_the_frames() {
    for strict in [false, true] {
        let attr = NetworkAttr { strict, ..NetworkAttr::DEFAULT };
        let info = Network::new(attr).unwrap().info();
        let output = Role { receives: false, targets: 2, command: None }.run(&info).unwrap();
        assert_eq!(output, "60 frames to 2 targets\n");
    }
}
