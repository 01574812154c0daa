//! Contents of an info: names, modes, cards.

use loom_core::endpoint::Binding;
use loom_core::error::OpenError;
use loom_core::info::{Nic, NicLink};
use loom_core::transport::Name;
use loom_core::vocabulary::{Attributes, Mode};

use super::{Scene, attributes, info};
use crate::scripted::Script;

/// Attributes with this mode in both directions.
pub(crate) fn attributes_with_mode(mode: Mode) -> Attributes {
    let mut attributes = attributes();
    (attributes.mode, attributes.tx.mode, attributes.rx.mode) = (mode, mode, mode);
    attributes.endpoint.msg_prefix_size = if mode.contains(Mode::MSG_PREFIX) { 16 } else { 0 };
    attributes
}

#[test]
fn an_info_has_the_card_that_the_provider_reports() {
    let link = NicLink { mtu: 9000, ..NicLink::default() };
    assert_eq!(info(attributes()).nic(), Some(Nic { link, ..Nic::default() }));
}

#[test]
fn an_endpoint_is_opened_from_infos_of_its_domain_alone() {
    let scene = Scene::new(attributes());
    let (queue, vector) = (scene.queue(4), scene.vector());
    for other in [None, Some(Name::Provider), Some(Name::Fabric), Some(Name::Domain)] {
        let script: &'static Script = Box::leak(Box::new(Script::new(attributes())));
        script.other.set(other);
        let opened = queue.endpoint(Binding::to(&vector).info(script.info())).map(drop);
        assert_eq!(opened, if other.is_none() { Ok(()) } else { Err(OpenError::OtherDomain) }, "{other:?}");
    }
    // All endpoints of a queue have one kind of contexts, prefixes and receives.
    for mode in [Mode::CONTEXT, Mode::CONTEXT2, Mode::MSG_PREFIX, Mode::RX_CQ_DATA] {
        let opened = queue.endpoint(Binding::to(&vector).info(info(attributes_with_mode(mode)))).map(drop);
        assert_eq!(opened, Err(OpenError::OtherDomain), "{mode}");
    }
}
