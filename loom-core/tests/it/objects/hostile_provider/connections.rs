//! Event queues and connections.

use std::time::Duration;

use loom_core::CqError;
use loom_core::OpenError;
use loom_core::endpoint::{AnyConnection, Connecting, MsgEndpoint};
use loom_core::eq::{ConnectedEvent, ConnectionRequest, EqAttr, EqEvent, EventQueue};
use loom_core::info::Info;
use loom_core::transport::connected::{Fault, Fid, Notice};
use loom_core::vocabulary::{
    AddressFormat, Attributes, EndpointAddr, EndpointOption, EndpointType, Errno, FabricAddr, OpFlags, WaitObj,
};

use super::line::{Asked, LISTENER, asked, line, name_endpoints, push_failed, say};
use super::{Queue, Scene, T, attributes};
use crate::scripted::{FD, OPTION};

fn scene() -> (Scene, EventQueue<'static, T>) {
    let mut attributes: Attributes = attributes();
    attributes.endpoint.kind = EndpointType::MSG;
    let scene = Scene::new(attributes);
    let eq = EventQueue::open(&scene.domain, EqAttr::default()).unwrap();
    (scene, eq)
}

fn address() -> EndpointAddr {
    EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()
}

fn connecting(
    queue: &Queue,
    eq: &EventQueue<'static, T>,
    info: &Info<T>,
) -> MsgEndpoint<'static, T, Vec<u8>, Connecting> {
    queue.msg_endpoint(eq, info).unwrap().connect(&address(), b"").unwrap()
}

/// The event queue reports that an endpoint is connected.
fn connected(eq: &EventQueue<'static, T>, fid: u64) -> ConnectedEvent {
    say(Notice::Connected(Fid(fid)));
    let Some(EqEvent::Connected(event)) = eq.poll().unwrap() else { panic!("it was said") };
    event
}

fn request(scene: &Scene, eq: &EventQueue<'static, T>, number: u64) -> ConnectionRequest<'static, T> {
    say(Notice::Request { listener: LISTENER, info: scene.script, request: number });
    let Some(EqEvent::Request(request)) = eq.poll().unwrap() else { panic!("it was said") };
    request
}

#[test]
fn an_event_is_about_the_endpoint_of_its_name_that_was_open_when_it_was_read() {
    let (scene, eq) = scene();
    let (queue, info) = (scene.queue(4), scene.script.info());
    let before = connected(&eq, 1);
    name_endpoints(1);
    let endpoint = connecting(&queue, &eq, &info);
    let endpoint = endpoint.established(&before).unwrap_err();
    let other = connected(&eq, 2);
    let endpoint = endpoint.established(&other).unwrap_err();
    line(|line| line.data = b"hello");
    let its = connected(&eq, 1);
    assert_eq!(
        (endpoint.answer(&before), endpoint.answer(&other), endpoint.answer(&its)),
        (&b""[..], &b""[..], &b"hello"[..])
    );
    endpoint.established(&its).unwrap();
}

#[test]
fn an_accepting_endpoint_finds_no_answer_in_its_event() {
    let (scene, eq) = scene();
    let queue = scene.queue(4);
    let _listener = eq.listen(&scene.script.info()).unwrap();
    let request = request(&scene, &eq, 7);
    name_endpoints(1);
    let endpoint = request.endpoint(&queue, &eq).unwrap().accept(b"yes").unwrap();
    line(|line| line.data = b"anything at all");
    let event = connected(&eq, 1);
    assert_eq!(endpoint.answer(&event), b"");
    endpoint.established(&event).unwrap();
    assert_eq!(asked(), [Asked::Accept(b"yes".into())], "what was accepted is not rejected");
}

#[test]
fn data_longer_than_the_provider_carries_is_refused() {
    let (scene, eq) = scene();
    let (queue, info) = (scene.queue(4), scene.script.info());
    let open = || queue.msg_endpoint(&eq, &info).unwrap();
    assert_eq!(open().option(EndpointOption::CM_DATA_SIZE), Ok(OPTION));
    let refused = open().connect(&address(), &[1; OPTION + 1]).unwrap_err();
    assert_eq!((refused.error, asked()), (OpenError::DataTooLong { limit: OPTION }, vec![]));
    for len in [0, 1, OPTION] {
        open().connect(&address(), &vec![1; len]).unwrap();
        assert_eq!(asked(), [Asked::Connect(vec![1; len])]);
    }
}

#[test]
fn a_request_is_rejected_once_with_its_data() {
    let (scene, eq) = scene();
    let _listener = eq.listen(&scene.script.info()).unwrap();
    request(&scene, &eq, 1).reject(b"no").unwrap();
    assert_eq!(asked(), [Asked::Reject(1, b"no".into())]);
    drop(request(&scene, &eq, 2));
    assert_eq!(asked(), [Asked::Reject(2, vec![])]);
    // A refusal with too much data returns the request, which stays valid.
    let refused = request(&scene, &eq, 3).reject(&[1; OPTION + 1]).unwrap_err();
    assert_eq!((refused.error, asked()), (OpenError::DataTooLong { limit: OPTION }, vec![]));
    drop(refused);
    assert_eq!(asked(), [Asked::Reject(3, vec![])]);
    // A request that the provider fails to reject has ended.
    line(|line| line.failure = Some(Errno::EIO));
    let refused = request(&scene, &eq, 4).reject(b"no").unwrap_err();
    assert_eq!((refused.error, asked().len()), (OpenError::Unconnected(Errno::EIO), 1));
    drop(refused);
    assert_eq!(asked(), []);
}

#[test]
fn an_unread_request_is_rejected_when_its_queue_closes() {
    let (scene, eq) = scene();
    let listener = eq.listen(&scene.script.info()).unwrap();
    say(Notice::Request { listener: LISTENER, info: scene.script, request: 1 });
    say(Notice::Shutdown(Fid(1)));
    say(Notice::Request { listener: LISTENER, info: scene.script, request: 2 });
    drop((eq, listener));
    assert_eq!(asked(), [Asked::Reject(1, vec![]), Asked::Reject(2, vec![])]);
}

#[test]
fn a_failure_reports_object_errno_and_data() {
    let (_scene, eq) = scene();
    let object = Fid(3);
    let fault = Fault { object, context: 0, data: 0, errno: Errno::ECONNREFUSED, provider_errno: 0 };
    line(|line| line.data = b"go away");
    push_failed(fault);
    let Some(EqEvent::Failed(failure)) = eq.poll().unwrap() else { panic!("it was said") };
    assert_eq!(
        (failure.fault.object, failure.fault.errno, &*failure.data),
        (object, Errno::ECONNREFUSED, &b"go away"[..])
    );
}

#[test]
fn an_event_queue_is_slept_on_as_it_was_opened() {
    let (scene, _) = scene();
    let open = |wait| EventQueue::open(&scene.domain, EqAttr { wait, ..EqAttr::default() }).unwrap();
    let (none, fd, any) = (open(WaitObj::NONE), open(WaitObj::FD), open(WaitObj::UNSPEC));
    assert_eq!((fd.wait_fd(), fd.may_sleep()), (Ok(FD), Ok(false)));
    for other in [&none, &any] {
        assert_eq!(other.wait_fd(), Err(CqError::NotOpenedFor));
        assert_eq!(other.may_sleep(), Err(CqError::NotOpenedFor));
    }
    assert_eq!(none.poll_for(Duration::ZERO).map(drop), Err(CqError::NotOpenedFor));
    for slept_on in [&fd, &any] {
        say(Notice::Shutdown(Fid(5)));
        let event = slept_on.poll_for(Duration::ZERO).unwrap();
        assert!(matches!(event, Some(EqEvent::Shutdown(event)) if event.endpoint == Fid(5)));
        assert!(slept_on.poll_for(Duration::ZERO).unwrap().is_none());
    }
}

/// The last receiving endpoint closes a shared context that does not have a handle.
#[test]
fn a_shared_receive_context_is_closed_after_the_endpoints_that_receive_through_it() {
    let (scene, eq) = scene();
    let (queue, info) = (scene.queue(4), scene.script.info());
    let shared = queue.shared_rx(&info).unwrap();
    let [first, last] = [(); 2].map(|()| shared.msg_endpoint(&eq, &info).unwrap());
    shared.recv(AnyConnection, vec![0; 8]).unwrap();
    assert_eq!(scene.script.asked.take(), [(FabricAddr::UNSPEC, OpFlags::empty())], "of no peer in particular");
    let receives = || scene.script.closed.borrow().iter().map(|in_flight| in_flight.receives).collect::<Vec<_>>();
    drop(shared);
    drop(first);
    assert_eq!(receives(), [0]);
    drop(last);
    assert_eq!(receives(), [0, 0, 1]);
    // A context with a handle stays open without endpoints.
    let shared = queue.shared_rx(&info).unwrap();
    drop(shared.msg_endpoint(&eq, &info).unwrap());
    assert_eq!(receives().len(), 4);
    drop(shared);
    assert_eq!(receives().len(), 5);
}
