//! Multicast groups.

use loom_core::endpoint::MulticastEndpoint;
use loom_core::eq::{EqAttr, EqEvent, EventQueue, JoinedEvent};
use loom_core::error::OpenError;
use loom_core::transport::connected::{Fid, Notice};
use loom_core::vocabulary::{AddressFormat, Caps, EndpointAddr};

use super::line::{Asked, asked, line, name_endpoints, say};
use super::{Scene, T, attributes};

fn scene(caps: Caps) -> (Scene, EventQueue<'static, T>) {
    let mut attributes = attributes();
    attributes.caps |= caps;
    let scene = Scene::new(attributes);
    let eq = EventQueue::open(&scene.domain, EqAttr::default()).unwrap();
    (scene, eq)
}

fn open(scene: &Scene, eq: &EventQueue<'static, T>) -> Result<MulticastEndpoint<'static, T, Vec<u8>>, OpenError> {
    scene.queue(4).multicast_endpoint(&scene.vector(), eq)
}

#[test]
fn an_endpoint_joins_groups_if_that_is_granted_and_its_event_queue_is_of_its_domain() {
    let (other, with) = scene(Caps::MULTICAST);
    let (without, eq) = scene(Caps::empty());
    assert_eq!(open(&without, &eq).map(drop), Err(OpenError::NotGranted(Caps::MULTICAST)));
    assert_eq!(open(&other, &eq).map(drop), Err(OpenError::OtherDomain));
    open(&other, &with).unwrap();
}

#[test]
fn a_group_is_left_once() {
    let (scene, eq) = scene(Caps::MULTICAST);
    let endpoint = open(&scene, &eq).unwrap();
    let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"group").unwrap();
    name_endpoints(1);
    drop(endpoint.join(&address).unwrap());
    assert_eq!(asked(), [Asked::Leave(1)]);
    name_endpoints(2);
    let joining = endpoint.join(&address).unwrap();
    let context = line(|line| line.join);
    let event = |group, context| -> JoinedEvent {
        say(Notice::Joined { group: Fid(group), context });
        let Some(EqEvent::Joined(event)) = eq.poll().unwrap() else { panic!("it was said") };
        event
    };
    // Events of other joins: the name of a group is reused.
    let joining = joining.joined(&event(2, context - 1)).unwrap_err();
    let joining = joining.joined(&event(1, context)).unwrap_err();
    joining.joined(&event(2, context)).unwrap().leave().unwrap();
    assert_eq!(asked(), [Asked::Leave(2)]);
}
