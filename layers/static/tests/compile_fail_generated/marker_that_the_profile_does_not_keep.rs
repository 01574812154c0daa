//! A profile that is said to inject, and does not say how much.

use loom_core::vocabulary::{Caps, EndpointType};
use loom_static::profiles::{InjectCapable, Profile};

struct Ours;

impl Profile for Ours {
    const NAME: &'static str = "ours";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = Caps::MSG;
}

impl InjectCapable for Ours {}
const _: () = <Ours as InjectCapable>::HOLDS;

fn main() {}
