//! Calls of endpoints to the provider, and calls that must not happen.

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::endpoint::{Binding, Source};
use loom_core::endpoint::{ReadOptions, RecvOptions, SendOptions};
use loom_core::error::{OpenError, PostError};
use loom_core::mr::RemoteRegion;
use loom_core::scope;
use loom_core::transport::{Claims, Closing, Event, InFlight, ProviderQuirks};
use loom_core::vocabulary::{
    Access, AddressFormat, Caps, CompletionFlags, EndpointAddr, EndpointOption, Errno, FabricAddr, MemoryKey, Mode,
    OpFlags, RemoteAddr, Tag,
};

use super::infos::attributes_with_mode;
use super::{Scene, attributes};
use crate::scripted::Said;

#[test]
fn an_option_accepts_valid_values_only() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let endpoint = scene.endpoint(&queue);
    let refused = Err(Errno::EINVAL);
    assert_eq!(endpoint.set_option(EndpointOption::MIN_MULTI_RECV, 0), refused);
    assert_eq!(endpoint.set_option(EndpointOption::MIN_MULTI_RECV, 1), Ok(()));
    assert_eq!(endpoint.set_option(EndpointOption::BUFFERED_LIMIT, 0), Ok(()));
    assert_eq!(endpoint.set_option(EndpointOption::CM_DATA_SIZE, 1), refused, "it can only be read");
    let open =
        |value| queue.endpoint(Binding::to(&scene.vector()).option(EndpointOption::MIN_MULTI_RECV, value)).map(drop);
    assert_eq!([open(0), open(1)], [Err(OpenError::Errno(Errno::EINVAL)), Ok(())]);
}

#[test]
fn a_receive_of_one_peer_is_posted_where_that_works() {
    for directed_recv in [true, false] {
        let scene = Scene::new(attributes());
        scene.script.quirks.set(Some(ProviderQuirks { directed_recv, ..ProviderQuirks::GOOD }));
        let (queue, av) = (scene.queue(4), scene.vector());
        let endpoint = queue.endpoint(&av).unwrap();
        let peer = av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()).unwrap();
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        let directed = endpoint.recv(peer, vec![0; 8]).map(drop).map_err(|refused| refused.error);
        let not_granted = Err(PostError::NotGranted(Caps::DIRECTED_RECV));
        assert_eq!(directed, if directed_recv { Ok(()) } else { not_granted });
        assert!(endpoint.tagged_recv(peer, Tag(1), vec![0; 8]).is_ok(), "tags make no difference");
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
        let scene = Scene::new(attributes_with_mode(mode));
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
        let scene = Scene::new(attributes_with_mode(mode));
        let opened = scene.queue(4).endpoint(Binding::to(&scene.vector()).remote_writes(count)).map(drop);
        assert_eq!(opened, if opens { Ok(()) } else { Err(OpenError::Mode(Mode::MSG_PREFIX)) }, "{mode}, {count}");
        let receives = if mode.contains(Mode::RX_CQ_DATA) && opens { count.into() } else { 0 };
        assert_eq!(scene.posts(), receives, "{mode}, {count}");
    }
}

#[test]
fn a_completed_operation_is_not_cancelled() {
    for mode in [Mode::empty(), Mode::RX_CQ_DATA] {
        let scene = Scene::new(attributes_with_mode(mode));
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

/// Closing an endpoint reports its longest read if the provider can close it with sends in flight,
/// else its number of transmits.
#[test]
fn an_endpoint_reports_its_operations_in_flight_when_it_closes() {
    for close_with_sends in [true, false] {
        let scene = Scene::new(attributes());
        scene.script.quirks.set(Some(ProviderQuirks { close_with_sends, ..ProviderQuirks::GOOD }));
        let (queue, av) = (scene.queue(8), scene.vector());
        let [endpoint, other] = [(); 2].map(|()| queue.endpoint(&av).unwrap());
        let peer = av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()).unwrap();
        let region = RemoteRegion {
            base: RemoteAddr(0),
            len: 64,
            key: MemoryKey(1),
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        endpoint.tagged_recv(Source::Any, Tag(1), vec![0; 8]).unwrap();
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
fn a_queue_closes_its_retired_endpoint_after_the_last_operation() {
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

/// A post passes its peer and its options.
#[test]
fn posts_pass_their_peer_and_options_to_the_provider() {
    let mut attributes = attributes();
    attributes.caps |= Caps::FENCE;
    let scene = Scene::new(attributes);
    let (queue, av) = (scene.queue(16), scene.vector());
    let endpoint = queue.endpoint(&av).unwrap();
    let [_, peer] = ["other", "peer"]
        .map(|name| av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).unwrap()).unwrap());
    let (its, any, none) = (av.peer_table().addr(peer).unwrap(), FabricAddr::UNSPEC, OpFlags::empty());
    assert_ne!(its, FabricAddr(0));
    let region = RemoteRegion {
        base: RemoteAddr(0),
        len: 64,
        key: MemoryKey(1),
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
    };
    let (buf, part) = (|| vec![0; 8], [region.part(0, 8).unwrap()]);
    endpoint.send(peer, buf()).unwrap();
    endpoint.recv(Source::Any, buf()).unwrap();
    endpoint.tagged_send(peer, Tag(1), buf()).unwrap();
    endpoint.tagged_recv(peer, Tag(1), buf()).unwrap();
    endpoint.write(peer, &region, 0, buf()).unwrap();
    endpoint.read(peer, &region, 0, buf()).unwrap();
    assert_eq!(scene.script.asked.take(), [its, any, its, its, its, its].map(|address| (address, none)));
    let options = SendOptions { more: true, fence: true, ..SendOptions::default() };
    endpoint.send_with(peer, options, buf()).unwrap();
    endpoint.write_with(peer, &part, options, buf()).unwrap();
    endpoint.read_with(peer, &part, ReadOptions { fence: true, ..ReadOptions::default() }, buf()).unwrap();
    endpoint.recv_with(Source::Any, RecvOptions { more: true }, buf()).unwrap();
    // Every post requests its completion.
    let with = |flags| OpFlags::COMPLETION | flags;
    let sends = (its, with(OpFlags::MORE | OpFlags::FENCE));
    let expected = [sends, sends, (its, with(OpFlags::FENCE)), (any, with(OpFlags::MORE))];
    assert_eq!(scene.script.asked.take(), expected);
}

#[test]
fn a_message_that_was_claimed_is_fetched_by_its_claim() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let endpoint = scene.endpoint(&queue);
    let key = endpoint.tagged_peek_claim(Source::Any, Tag(1)).unwrap();
    let flags = CompletionFlags::TAGGED | CompletionFlags::RECV;
    let event = Event { tag: Tag(1), ..Event::success(scene.last_context(), flags, 8) };
    scene.script.queues[0].borrow_mut().push_back(Said::Event(event));
    let found = queue.wait_peek(key, Spins(10)).unwrap().unwrap().message().unwrap().unwrap();
    endpoint.tagged_claim(found.claim.unwrap(), vec![0; 8]).unwrap();
    let asked: Vec<_> = scene.script.asked.take().into_iter().map(|(_, flags)| flags).collect();
    let claim = OpFlags::CLAIM | OpFlags::COMPLETION;
    assert_eq!(asked, [claim | OpFlags::PEEK, claim]);
}

/// The end of the scope closes the endpoint, which is bound to the vector until then.
#[test]
fn a_vector_that_endpoints_of_a_forgotten_queue_were_bound_to_is_closed_after_their_scope() {
    let Scene { script, domain } = Scene::new(attributes());
    let av = Av::open(&domain, 4).unwrap();
    scope(|s| {
        let queue = Cq::<_, Vec<u8>>::open(&s.domain(&domain), 4).unwrap();
        let endpoint = queue.endpoint(&av).unwrap();
        script.closings.borrow_mut().extend([Closing::Retired; 2]);
        drop(endpoint);
        core::mem::forget(queue);
    });
    assert_eq!(script.closed.borrow().len(), 3);
    drop((av, domain));
    assert_eq!(script.closed_domains.get(), 1, "its vector is closed");
}

#[test]
fn a_fence_is_posted_where_it_is_granted() {
    for granted in [true, false] {
        let mut attributes = attributes();
        attributes.caps.set(Caps::FENCE, granted);
        let scene = Scene::new(attributes);
        let (queue, av) = (scene.queue(4), scene.vector());
        let endpoint = queue.endpoint(&av).unwrap();
        let peer = av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()).unwrap();
        let sent =
            endpoint.send_with(peer, SendOptions { fence: true, ..SendOptions::default() }, vec![0; 8]).map(drop);
        let refused = Err(PostError::NotGranted(Caps::FENCE));
        assert_eq!(sent.map_err(|refused| refused.error), if granted { Ok(()) } else { refused });
        endpoint.send_with(peer, SendOptions::default(), vec![0; 8]).unwrap();
    }
}

const UNSUPPORTED: PostError = PostError::Errno(Errno::EOPNOTSUPP);

/// libfabric does not define whether the length of a peek includes the prefix.
#[test]
fn a_peek_is_refused_where_messages_have_prefixes() {
    for (mode, peeks) in [(Mode::empty(), true), (Mode::RX_CQ_DATA, true), (Mode::MSG_PREFIX, false)] {
        let scene = Scene::new(attributes_with_mode(mode));
        let queue = scene.queue(4);
        let peeked = scene.endpoint(&queue).tagged_peek(Source::Any, Tag(1)).map(drop);
        assert_eq!(peeked, if peeks { Ok(()) } else { Err(UNSUPPORTED) }, "{mode}");
    }
}

#[test]
fn claims_kept_in_contexts_require_a_queue_with_such_contexts() {
    for (mode, claims, attr, granted) in [
        (Mode::empty(), Claims::ByContext, CqAttr::new(4), true),
        (Mode::empty(), Claims::InContexts, CqAttr::new(4), false),
        (Mode::empty(), Claims::InContexts, CqAttr { claims: true, ..CqAttr::new(4) }, true),
        (Mode::CONTEXT2, Claims::InContexts, CqAttr::new(4), true),
        (Mode::empty(), Claims::Not, CqAttr { claims: true, ..CqAttr::new(4) }, false),
    ] {
        let scene = Scene::new(attributes_with_mode(mode));
        scene.script.quirks.set(Some(ProviderQuirks { claims, ..ProviderQuirks::GOOD }));
        let queue = scene.queue(attr);
        let endpoint = scene.endpoint(&queue);
        let claimed = endpoint.tagged_peek_claim(Source::Any, Tag(1)).map(drop);
        assert_eq!(claimed, if granted { Ok(()) } else { Err(UNSUPPORTED) }, "{mode}, {claims:?}, {attr:?}");
        assert!(endpoint.tagged_peek(Source::Any, Tag(1)).is_ok(), "a peek alone needs none");
    }
}

#[test]
fn a_receive_that_a_write_used_up_is_not_posted_again_on_a_retired_endpoint() {
    for retired in [false, true] {
        let scene = Scene::new(attributes_with_mode(Mode::RX_CQ_DATA));
        let queue = scene.queue(4);
        let endpoint = scene.endpoint(&queue);
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        let context = scene.last_context();
        if retired {
            scene.script.closings.borrow_mut().extend([Closing::Retired; 2]);
        }
        let _endpoint = (!retired).then_some(endpoint);
        let flags = CompletionFlags::REMOTE_WRITE | CompletionFlags::RMA | CompletionFlags::REMOTE_CQ_DATA;
        scene.script.queues[0].borrow_mut().push_back(Said::Event(Event::success(context, flags, 4)));
        assert!(matches!(queue.poll().unwrap(), Some(Completion::Remote(event)) if event.len == 4));
        let told = queue.poll().unwrap();
        assert_eq!((scene.posts(), told.is_some()), if retired { (1, true) } else { (2, false) });
    }
}
