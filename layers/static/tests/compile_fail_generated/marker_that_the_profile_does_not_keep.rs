//! A profile with inject, and without its maximum length.

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
