//! Drivers of event queues, and the futures that an event wakes.

use core::future::Future;
use core::pin::pin;
use std::cell::{Cell, RefCell};

use loom_core::CqError;
use loom_core::OpenError;
use loom_core::driver::{Drive, EqDriver};
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::transport::connected::{Fault, Fid, Notice};
use loom_core::vocabulary::{AddressFormat, Attributes, EndpointAddr, EndpointType, Errno};

use super::line::{LISTENER, name_endpoints, push_failed, say};
use super::{Queue, Scene, T, attributes};
use crate::executor::{Task, block_on, poll_once, woken};

struct Events {
    scene: Scene,
    queue: Queue,
    driver: EqDriver<'static, T>,
}

impl Events {
    fn new(places: usize) -> Self {
        let mut attributes: Attributes = attributes();
        attributes.endpoint.kind = EndpointType::MSG;
        let scene = Scene::new(attributes);
        let eq = EventQueue::open(&scene.domain, EqAttr::default()).unwrap();
        let (queue, driver) = (scene.queue(4), EqDriver::open(&eq, places).unwrap());
        Events { scene, queue, driver }
    }

    /// Connects an endpoint, named `fid` by its events, and returns the result.
    fn connect(&self, fid: u64) -> impl Future<Output = Result<(), OpenError>> + use<> {
        name_endpoints(fid);
        let endpoint = self.queue.msg_endpoint(self.driver.eq(), &self.scene.script.info()).unwrap();
        let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap();
        let connected = self.driver.connect(endpoint, &address, b"");
        async move { Ok(connected.await.map(drop)?) }
    }

    /// Accepts a request with an endpoint, named `fid` by its events.
    fn accept(&self, fid: u64) -> impl Future<Output = Result<(), OpenError>> + use<> {
        say(Notice::Request { listener: LISTENER, info: self.scene.script, request: 1 });
        let EqEvent::Request(request) = block_on(&self.driver, self.driver.next_event()).unwrap() else {
            panic!("a request")
        };
        name_endpoints(fid);
        let accepted = self.driver.accept(request.endpoint(&self.queue, self.driver.eq()).unwrap(), b"");
        async move { Ok(accepted.await.map(drop)?) }
    }

    /// A task that takes the next event at its wake-up and records it.
    fn next<'f>(&self, told: &'f RefCell<Vec<&'static str>>) -> Task<'f> {
        let next = self.driver.next_event();
        let mut task = Task::new(async move {
            let event = next.await.unwrap();
            told.borrow_mut().push(name(&event));
        });
        task.run();
        task
    }
}

fn name(event: &EqEvent<'_, T>) -> &'static str {
    match event {
        EqEvent::Connected(_) => "connected",
        EqEvent::Failed(_) => "failed",
        EqEvent::Shutdown(_) => "shutdown",
        _ => "other",
    }
}

fn connected(fid: u64) {
    say(Notice::Connected(Fid(fid)));
}

fn failed(fid: u64) {
    let object = Fid(fid);
    push_failed(Fault { object, context: 0, data: 0, errno: Errno::ECONNRESET, provider_errno: 0 });
}

fn shutdown(fid: u64) {
    say(Notice::Shutdown(Fid(fid)));
}

/// A future was woken for an event, and was dropped before it took the event.
#[test]
fn events_of_a_dropped_connect_or_accept_wake_as_many_as_wait_for_events() {
    let events = Events::new(8);
    let _listener = events.driver.eq().listen(&events.scene.script.info()).unwrap();
    let told = RefCell::default();
    let futures: [std::pin::Pin<Box<dyn Future<Output = _>>>; 2] =
        [Box::pin(events.connect(1)), Box::pin(events.accept(2))];
    for (fid, mut future) in (1..).zip(futures) {
        assert!(poll_once(&mut future).is_pending());
        let mut next = [(); 3].map(|()| events.next(&told));
        connected(fid);
        failed(fid);
        events.driver.turn(8);
        assert_eq!(next.each_ref().map(|task| woken(&task.flag)), [0; 3], "the events are awaited");
        drop(future);
        assert_eq!(next.each_ref().map(|task| woken(&task.flag)), [1, 1, 0]);
        next.iter_mut().for_each(|task| _ = task.run());
        assert_eq!(told.take(), ["connected", "failed"]);
    }
}

/// The future takes the first of both. The second belongs to the waiters for events.
#[test]
fn event_at_the_end_of_a_connect_wakes_the_waiter_for_events() {
    for (second, named) in [(failed as fn(u64), "failed"), (shutdown, "shutdown")] {
        let events = Events::new(8);
        let told = RefCell::default();
        let mut connect = Box::pin(events.connect(1));
        assert!(poll_once(&mut connect).is_pending());
        let mut next = events.next(&told);
        connected(1);
        second(1);
        events.driver.turn(8);
        block_on(&events.driver, connect).unwrap();
        assert!(next.run(), "it was woken");
        assert_eq!(told.take(), [named]);
    }
}

/// Some providers report a failed attempt by a shutdown. For another endpoint, or for a connection,
/// a shutdown is an event.
#[test]
fn shutdown_of_a_connecting_endpoint_ends_its_future() {
    let events = Events::new(8);
    let _listener = events.driver.eq().listen(&events.scene.script.info()).unwrap();
    let told = RefCell::default();
    let ends = [(); 2].map(|()| Cell::new(None));
    let accept = events.accept(2);
    let connect = events.connect(1);
    // Event of an earlier endpoint with the same address, which the queue has not returned yet.
    shutdown(1);
    let mut accept = Task::new(async { ends[0].set(Some(accept.await)) });
    let mut connect = Task::new(async { ends[1].set(Some(connect.await)) });
    accept.run();
    connect.run();
    events.next(&told);
    assert_eq!(told.take(), ["shutdown"], "that of the earlier endpoint");
    let mut next = events.next(&told);
    for (task, end, fid) in [(&mut accept, &ends[0], 2), (&mut connect, &ends[1], 1)] {
        shutdown(fid);
        events.driver.turn(8);
        assert!(task.run(), "it was woken");
        assert_eq!(end.take(), Some(Err(OpenError::Shutdown)));
    }
    assert!(!next.run(), "they were awaited");
    // Event of a connection.
    let mut connect = Box::pin(events.connect(3));
    assert!(poll_once(&mut connect).is_pending());
    connected(3);
    block_on(&events.driver, connect).unwrap();
    shutdown(3);
    events.driver.turn(8);
    assert!(next.run(), "it was woken");
    assert_eq!(told.take(), ["shutdown"]);
}

/// A future for an endpoint with the address of an earlier one leaves events of the earlier one to
/// others.
#[test]
fn events_of_an_earlier_endpoint_are_left_to_others() {
    let events = Events::new(1);
    let told = RefCell::default();
    let mut first = Box::pin(events.connect(1));
    assert!(poll_once(&mut first).is_pending());
    failed(1);
    events.driver.turn(8);
    drop(first);
    // Future of the second endpoint. Its event does not have room yet.
    let mut second = Box::pin(events.connect(1));
    assert!(poll_once(&mut second).is_pending());
    connected(1);
    let mut next = events.next(&told);
    assert!(!next.run(), "it was over at once");
    assert_eq!(told.take(), ["failed"]);
    block_on(&events.driver, second).unwrap();
}

/// The event is kept from before the first endpoint closes until after the second opens in its
/// place.
#[test]
fn kept_event_is_not_about_a_later_endpoint_with_the_same_address() {
    let events = Events::new(8);
    let open = || {
        name_endpoints(1);
        events.queue.msg_endpoint(events.driver.eq(), &events.scene.script.info()).unwrap()
    };
    let next = || block_on(&events.driver, events.driver.next_event()).unwrap();
    let first = open();
    let named = first.id();
    shutdown(1);
    failed(1);
    events.driver.turn(8);
    drop(first);
    let second = open();
    assert_eq!(second.id().fid, named.fid);
    let EqEvent::Shutdown(event) = next() else { panic!("it was said") };
    assert_eq!((event.is_of(named), event.is_of(&second)), (true, false));
    let EqEvent::Failed(failure) = next() else { panic!("it was said") };
    assert_eq!((failure.is_of(named), failure.is_of(&second)), (true, false));
    // Events of the second endpoint.
    shutdown(1);
    failed(1);
    assert!(matches!(next(), EqEvent::Shutdown(event) if event.is_of(&second)));
    assert!(matches!(next(), EqEvent::Failed(failure) if failure.is_of(&second)));
    // Another object, and another queue.
    name_endpoints(2);
    let other = events.queue.msg_endpoint(events.driver.eq(), &events.scene.script.info()).unwrap();
    assert!(!event.is_of(&other) && !failure.is_of(&other));
    name_endpoints(1);
    let eq = EventQueue::open(&events.scene.domain, EqAttr::default()).unwrap();
    let elsewhere = events.queue.msg_endpoint(&eq, &events.scene.script.info()).unwrap();
    assert!(!event.is_of(&elsewhere) && !failure.is_of(&elsewhere));
}

/// Connections fail as long as no future takes the kept events.
#[test]
fn full_driver_fails_connects_until_its_events_are_taken() {
    let events = Events::new(1);
    let end = Cell::new(None);
    let mut connect = Task::new(async { end.set(Some(events.connect(1).await)) });
    connect.run();
    shutdown(7);
    shutdown(8);
    connected(1);
    assert_eq!(events.driver.turn(8), 1, "there is room for one");
    assert!(connect.run(), "it was woken");
    assert_eq!(end.take(), Some(Err(OpenError::Events(CqError::Unread))));
    // Later connects fail too, until the event is taken.
    let later = pin!(events.connect(2));
    assert_eq!(block_on(&events.driver, later), Err(OpenError::Events(CqError::Unread)));
    for fid in [7, 8] {
        let event = block_on(&events.driver, events.driver.next_event()).unwrap();
        assert!(matches!(event, EqEvent::Shutdown(event) if event.endpoint == Fid(fid)));
    }
    let event = block_on(&events.driver, events.driver.next_event()).unwrap();
    assert!(matches!(event, EqEvent::Connected(_)), "of the first, which is closed");
    let mut connect = Box::pin(events.connect(3));
    assert!(poll_once(&mut connect).is_pending());
    connected(3);
    block_on(&events.driver, connect).unwrap();
}
