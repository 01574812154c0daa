//! The example over the software transport.

use loom_fabric::{Network, NetworkAttr};

use super::*;

#[test]
fn requests_are_answered_without_allocation() {
    let network = Network::new(NetworkAttr::DEFAULT).expect("the sizes are small");
    let runtime = Runtime { time: Duration::from_millis(200), interval: Duration::from_micros(20) };
    let text = runtime.run(&network.info()).expect("requests are answered");
    assert!(text.contains(" of 10000 requests in time, no call of the allocator"), "{text}");
    assert!(!text.contains(" 0 of 10000 "), "{text}");
}

#[test]
fn calls_of_the_allocator_are_counted() {
    let (_, calls) = heap::watched(|| drop(Box::new([1_u8; 100])));
    assert!(calls == 2 || cfg!(not(debug_assertions)), "allocated and freed");
    assert_eq!(heap::watched(|| 1 + 1), (2, 0));
}
