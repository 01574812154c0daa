//! What endpoints ask of the provider, and what not.

use loom_core::error::{OpenError, PostError};
use loom_core::objects::endpoint::Source;
use loom_core::objects::mr::RemoteRegion;
use loom_core::transport::{Closing, Event, InFlight, ProviderQuirks};
use loom_core::vocabulary::{
    AddressFormat, Caps, CompletionFlags, EndpointAddr, EndpointOption, Errno, MemoryKey, Mode, RemoteAddr,
};

use super::infos::asking_for;
use super::scripted::Said;
use super::{Scene, attributes};

#[test]
fn an_option_is_set_to_what_leaves_something() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let endpoint = scene.endpoint(&queue);
    let refused = Err(Errno::EINVAL);
    assert_eq!(endpoint.set_option(EndpointOption::MIN_MULTI_RECV, 0), refused);
    assert_eq!(endpoint.set_option(EndpointOption::MIN_MULTI_RECV, 1), Ok(()));
    assert_eq!(endpoint.set_option(EndpointOption::BUFFERED_LIMIT, 0), Ok(()));
    assert_eq!(endpoint.set_option(EndpointOption::CM_DATA_SIZE, 1), refused, "it can only be read");
    let open = |value| queue.endpoint(&scene.vector()).option(EndpointOption::MIN_MULTI_RECV, value).open().map(drop);
    assert_eq!([open(0), open(1)], [Err(OpenError::Errno(Errno::EINVAL)), Ok(())]);
}

#[test]
fn a_receive_of_one_peer_is_posted_where_that_works() {
    for directed_recv in [true, false] {
        let scene = Scene::new(attributes());
        scene.script.quirks.set(Some(ProviderQuirks { directed_recv, ..ProviderQuirks::GOOD }));
        let (queue, av) = (scene.queue(4), scene.vector());
        let endpoint = queue.endpoint(&av).open().unwrap();
        let peer = av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()).unwrap();
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        let directed = endpoint.recv(peer, vec![0; 8]).map(drop).map_err(|refused| refused.error);
        let not_granted = Err(PostError::NotGranted(Caps::DIRECTED_RECV));
        assert_eq!(directed, if directed_recv { Ok(()) } else { not_granted });
        assert!(
            endpoint.tagged_recv(peer, loom_core::vocabulary::Tag(1), vec![0; 8]).is_ok(),
            "tags make no difference"
        );
    }
}

#[test]
fn multi_receives_are_refused_where_prefixes_or_writes_take_of_their_buffer() {
    for (mode, granted) in [
        (Mode::CONTEXT, true),
        (Mode::MSG_PREFIX, false),
        (Mode::RX_CQ_DATA, false),
        (Mode::MSG_PREFIX | Mode::RX_CQ_DATA, false),
    ] {
        let scene = Scene::new(asking_for(mode));
        let queue = scene.queue(4);
        let posted = scene.endpoint(&queue).multi_recv(Source::Any, vec![0; 64]).map(drop);
        let refused = Err(PostError::NotGranted(Caps::MULTI_RECV));
        assert_eq!(posted.map_err(|refused| refused.error), if granted { Ok(()) } else { refused }, "{mode}");
    }
}

#[test]
fn an_endpoint_of_writes_is_refused_where_their_receives_would_need_prefixes() {
    for (mode, count, opens) in [
        (Mode::MSG_PREFIX, 1, true),
        (Mode::RX_CQ_DATA, 1, true),
        (Mode::MSG_PREFIX | Mode::RX_CQ_DATA, 0, true),
        (Mode::MSG_PREFIX | Mode::RX_CQ_DATA, 1, false),
    ] {
        let scene = Scene::new(asking_for(mode));
        let opened = scene.queue(4).endpoint(&scene.vector()).remote_writes(count).open().map(drop);
        assert_eq!(opened, if opens { Ok(()) } else { Err(OpenError::Mode(Mode::MSG_PREFIX)) }, "{mode}, {count}");
        let receives = if mode.contains(Mode::RX_CQ_DATA) && opens { count.into() } else { 0 };
        assert_eq!(scene.posts(), receives, "{mode}, {count}");
    }
}

#[test]
fn an_operation_that_is_over_is_not_cancelled() {
    for mode in [Mode::empty(), Mode::RX_CQ_DATA] {
        let scene = Scene::new(asking_for(mode));
        let queue = scene.queue(4);
        let endpoint = scene.endpoint(&queue);
        let key = endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        assert_eq!(endpoint.cancel(key), Ok(()));
        let event = Event::success(scene.last_context(), CompletionFlags::RECV | CompletionFlags::MSG, 8);
        scene.script.queues[0].borrow_mut().push_back(Said::Event(event));
        assert!(queue.poll().unwrap().is_some());
        assert_eq!(endpoint.cancel(key), Err(Errno::ENOENT), "{mode}");
    }
}

/// Reads and sends count apart where the provider can be closed in the middle of them.
#[test]
fn an_endpoint_is_closed_with_what_is_in_flight_on_it() {
    for close_with_sends in [true, false] {
        let scene = Scene::new(attributes());
        scene.script.quirks.set(Some(ProviderQuirks { close_with_sends, ..ProviderQuirks::GOOD }));
        let (queue, av) = (scene.queue(8), scene.vector());
        let [endpoint, other] = [(); 2].map(|()| queue.endpoint(&av).open().unwrap());
        let peer = av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()).unwrap();
        let region = RemoteRegion::new(RemoteAddr(0), 64, MemoryKey(1));
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        endpoint.tagged_recv(Source::Any, loom_core::vocabulary::Tag(1), vec![0; 8]).unwrap();
        endpoint.send(peer, vec![0; 40]).unwrap();
        endpoint.read(peer, &region, 0, vec![0; 8]).unwrap();
        endpoint.read(peer, &region, 0, vec![0; 24]).unwrap();
        drop(other);
        drop(endpoint);
        let expected = if close_with_sends {
            InFlight { receives: 2, longest_read: 24, ..InFlight::NOTHING }
        } else {
            InFlight { receives: 2, transmits: 3, ..InFlight::NOTHING }
        };
        assert_eq!(*scene.script.closed.borrow(), [InFlight::NOTHING, expected]);
    }
}

#[test]
fn a_queue_closes_its_retired_endpoint_when_nothing_is_in_flight_any_more() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let endpoint = scene.endpoint(&queue);
    endpoint.recv(Source::Any, vec![0; 8]).unwrap();
    let say = |closings: &[Closing]| scene.script.closings.borrow_mut().extend(closings);
    say(&[Closing::Retired, Closing::Retired]);
    drop(endpoint);
    assert_eq!(scene.script.closed.borrow().len(), 2, "it is tried again after a while");
    let event = Event::success(scene.last_context(), CompletionFlags::RECV | CompletionFlags::MSG, 8);
    scene.script.queues[0].borrow_mut().push_back(Said::Event(event));
    say(&[Closing::Retired, Closing::Retired]);
    let Scene { script, domain } = scene;
    drop(queue);
    assert!(script.queues[0].borrow().is_empty(), "its event was read");
    let receives: Vec<_> = script.closed.borrow().iter().map(|in_flight| in_flight.receives).collect();
    assert_eq!(receives, [1, 1, 1, 0, 0]);
    drop(domain);
    assert_eq!(script.closed_domains.get(), 1, "everything is closed");
}
