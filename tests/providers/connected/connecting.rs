//! Connecting, accepting, rejecting.

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::eq::{EqAttr, EqEvent, EventQueue, LISTENERS};
use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{Caps, EndpointAddr, EndpointAttributes, EndpointOption, EndpointType, Errno};

use super::Case;
use super::sides::{Bytes, Sides, T, client_info, with_sides};
use crate::connected::Found;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("data_goes_along_both_ways", data_goes_along_both_ways),
        ("an_earlier_endpoints_event_is_not_the_next_ones", an_earlier_endpoints_event_is_not_the_next_ones),
        ("the_info_may_go_before_the_listener", the_info_may_go_before_the_listener),
        ("both_sides_return_their_addresses", both_sides_return_their_addresses),
        ("a_rejected_request_fails_at_the_client", a_rejected_request_fails_at_the_client),
        ("a_dropped_request_is_rejected", a_dropped_request_is_rejected),
        ("connecting_without_a_listener_is_a_failure", connecting_without_a_listener_is_a_failure),
        ("data_that_is_too_long_is_refused", data_that_is_too_long_is_refused),
        ("an_endpoint_that_does_not_accept_fails_the_client", an_endpoint_that_does_not_accept_fails_the_client),
        ("an_info_of_another_kind_is_refused", an_info_of_another_kind_is_refused),
        ("a_queue_takes_as_many_listeners_as_it_was_opened_for", a_queue_takes_as_many_listeners_as_it_was_opened_for),
        ("requests_of_two_listeners_name_their_listener", requests_of_two_listeners_name_their_listener),
        ("an_address_that_is_taken_is_refused", an_address_that_is_taken_is_refused),
    ]
}

fn data_goes_along_both_ways(info: &Info<T>) {
    with_sides(info, |sides| {
        let idle = sides.idle();
        let limit = idle.option(EndpointOption::CM_DATA_SIZE).expect("the provider tells");
        for len in [0, 1, 5, limit] {
            let (there, back) = (super::sides::pattern(len, 1), super::sides::pattern(len, 2));
            let connecting = sides.connect(&there);
            let request = sides.request();
            assert_eq!(request.data[..], *there);
            assert_eq!(request.listener, sides.listener.fid);
            let accepting = request.endpoint(sides.cq, sides.server).expect("an endpoint");
            let accepting = accepting.accept(&back).expect("accepts");
            let server = sides.established(sides.server, accepting);
            match sides.event(sides.client, false) {
                EqEvent::Connected(event) => {
                    assert_eq!(connecting.answer(&event), &*back);
                    let client = connecting.established(&event).expect("about this one");
                    assert_ne!(client.id().fid, server.id().fid);
                }
                other => panic!("connected, not {other:?}"),
            }
        }
    });
}

/// Reuses addresses of endpoints. An event that was kept does not affect a later endpoint of the
/// same address.
fn an_earlier_endpoints_event_is_not_the_next_ones(info: &Info<T>) {
    with_sides(info, |sides| {
        let connecting = sides.connect(b"pair");
        let accepting = sides.request().endpoint(sides.cq, sides.server).expect("an endpoint").accept(b"answer");
        let server = sides.established(sides.server, accepting.expect("accepts"));
        let EqEvent::Connected(kept) = sides.event(sides.client, false) else { panic!("not connected") };
        let early = connecting.id().fid;
        drop(connecting.established(&kept).expect("it is about this one"));
        let ended = sides.ended(sides.server);
        assert!(ended.is_of(&server));
        let early_server = server.id().fid;
        drop(server);
        let mut others = Vec::new();
        let (mut met, mut met_server) = (0, 0);
        for _ in 0..12 {
            let idle = sides.idle();
            met += usize::from(idle.id().fid == early);
            let connecting = idle.connect(&sides.address, &[]).expect("asks");
            assert_eq!(connecting.answer(&kept), b"");
            let accepting = sides.request().endpoint(sides.cq, sides.server).expect("an endpoint");
            assert!(!ended.is_of(&accepting), "an event of another endpoint");
            met_server += usize::from(accepting.id().fid == early_server);
            others.push((connecting.established(&kept).expect_err("an event of another endpoint"), accepting));
            if met > 0 && met_server > 0 {
                break;
            }
        }
        println!("the address came again: {}, and that of the server: {}", met > 0, met_server > 0);
    });
}

/// Drops the info before the listener, because `sockets` still reads the info of its listener.
fn the_info_may_go_before_the_listener(info: &Info<T>) {
    let domain = Domain::open(info).expect("domain");
    let (server, client) = (EventQueue::open(&domain, EqAttr::default()), EventQueue::open(&domain, EqAttr::default()));
    let (server, client) = (server.expect("event queue"), client.expect("event queue"));
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(16)).expect("queue");
    let listener = {
        let copy = info.clone();
        server.listen(&copy).expect("listens")
    };
    // Allocations that reuse the memory of the dropped info.
    let taken: Vec<_> = (0..2000).map(|len| vec![0x41_u8; 16 + len % 256]).collect();
    let address = listener.address().expect("its address");
    let info = client_info(info, &address);
    let sides = Sides { domain: &domain, cq: &cq, server: &server, client: &client, listener, address, info };
    let (server, client) = sides.pair();
    sides.message(&client, &server, 64, 1);
    drop(taken);
}

fn both_sides_return_their_addresses(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        let address = client.address().expect("the client's address");
        assert_eq!(client.peer_address().expect("the server's address, as the client sees it"), sides.address);
        assert_eq!(server.peer_address().expect("the client's address, as the server sees it"), address);
    });
}

fn a_rejected_request_fails_at_the_client(info: &Info<T>) {
    with_sides(info, |sides| {
        let connecting = sides.connect(b"please");
        let request = sides.request();
        assert_eq!(*request.data, *b"please");
        request.reject(b"no").expect("rejects");
        let failure = sides.failure(sides.client);
        assert_eq!((failure.fault.object, failure.fault.errno), (connecting.id().fid, Errno::ECONNREFUSED));
        println!("data of the rejection: {:?}; {}", failure.data, sides.client.error_text(&failure));
        assert!(failure.data.is_empty() || failure.data.starts_with(b"no"), "{:?}", failure.data);
        drop(connecting);
        // The listener still works.
        sides.pair();
    });
}

fn a_dropped_request_is_rejected(info: &Info<T>) {
    with_sides(info, |sides| {
        let connecting = sides.connect(&[]);
        drop(sides.request());
        let failure = sides.failure(sides.client);
        assert_eq!((failure.fault.object, failure.fault.errno), (connecting.id().fid, Errno::ECONNREFUSED));
        sides.pair();
    });
}

fn connecting_without_a_listener_is_a_failure(info: &Info<T>) {
    with_sides(info, |sides| {
        // An address that was free before.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("its address");
        let nobody = EndpointAddr::from(nobody);
        match sides.idle().connect(&nobody, &[]) {
            Err(refused) => assert_eq!(refused.error, OpenError::Unconnected(Errno::ECONNREFUSED)),
            Ok(connecting) => {
                let failure = sides.failure(sides.client);
                assert_eq!((failure.fault.object, failure.fault.errno), (connecting.id().fid, Errno::ECONNREFUSED));
            }
        }
        sides.pair();
    });
}

fn data_that_is_too_long_is_refused(info: &Info<T>) {
    with_sides(info, |sides| {
        let idle = sides.idle();
        let limit = idle.option(EndpointOption::CM_DATA_SIZE).expect("the provider tells");
        let long = vec![1; limit + 1];
        let too_long = OpenError::DataTooLong { limit };
        let refused = idle.connect(&sides.address, &long).expect_err("more than is carried");
        assert_eq!(refused.error, too_long);
        let connecting = refused.value.connect(&sides.address, &[]).expect("the endpoint came back");
        let request = sides.request();
        let request = match request.reject(&long) {
            Err(refused) => {
                assert_eq!(refused.error, too_long);
                refused.value
            }
            Ok(()) => panic!("rejected with more than is carried"),
        };
        let refused = request
            .endpoint(sides.cq, sides.server)
            .expect("an endpoint")
            .accept(&long)
            .expect_err("more than is carried");
        assert_eq!(refused.error, too_long);
        let accepting = refused.value.accept(&[]).expect("the endpoint came back");
        sides.established(sides.server, accepting);
        sides.established(sides.client, connecting);
    });
}

fn an_endpoint_that_does_not_accept_fails_the_client(info: &Info<T>) {
    with_sides(info, |sides| {
        let connecting = sides.connect(&[]);
        drop(sides.request().endpoint(sides.cq, sides.server).expect("an endpoint"));
        let failure = sides.failure(sides.client);
        assert_eq!(failure.fault.object, connecting.id().fid);
        sides.pair();
    });
}

fn an_info_of_another_kind_is_refused(info: &Info<T>) {
    let hints = Hints { caps: Caps::MSG, provider: Some("shm"), ..Hints::default() };
    let Some(other) = T::find(&hints) else { return println!("{} has no other providers", info.provider()) };
    with_sides(info, |sides| {
        assert_eq!(sides.server.listen(&other).unwrap_err(), OpenError::OtherDomain);
        assert_eq!(sides.cq.msg_endpoint(sides.client, &other).unwrap_err(), OpenError::OtherDomain);
        let av = Av::open(sides.domain, 1).expect("address vector");
        let cq = Cq::<T, Vec<u8>>::open(sides.domain, CqAttr::new(4)).expect("queue");
        let refused = cq.endpoint(&av).unwrap_err();
        assert_eq!(refused, OpenError::EndpointType(EndpointType::MSG));
        // An info without connections, of the same domain if the provider has both.
        let hints = Hints {
            caps: Caps::MSG,
            provider: Some(info.provider()),
            domain: Some(info.domain()),
            fabric: Some(info.fabric()),
            endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
            ..Hints::default()
        };
        let same = T::find(&hints).filter(|found| found.provider() == info.provider());
        let Some(same) = same else { return println!("{} has connected endpoints alone", info.provider()) };
        let refused = OpenError::EndpointType(EndpointType::RDM);
        assert_eq!(sides.server.listen(&same).unwrap_err(), refused);
        assert_eq!(sides.cq.msg_endpoint(sides.client, &same).unwrap_err(), refused);
    });
}

fn a_queue_takes_as_many_listeners_as_it_was_opened_for(info: &Info<T>) {
    with_sides(info, |sides| {
        let more: Vec<_> = (1..LISTENERS).map(|_| sides.server.listen(info).expect("listens")).collect();
        assert_eq!(sides.server.listen(info).unwrap_err(), OpenError::TooManyEndpoints);
        let mut fids: Vec<_> = more.iter().map(|listener| listener.fid).collect();
        fids.push(sides.listener.fid);
        fids.sort();
        fids.dedup();
        assert_eq!(fids.len(), LISTENERS);
        sides.pair();
    });
}

fn requests_of_two_listeners_name_their_listener(info: &Info<T>) {
    with_sides(info, |sides| {
        let second = sides.server.listen(info).expect("listens");
        let address = second.address().expect("its address");
        let connecting = sides.idle().connect(&address, b"second").expect("asks");
        let request = sides.request();
        assert_eq!((request.listener, &request.data[..]), (second.fid, &b"second"[..]));
        let accepting = request.endpoint(sides.cq, sides.server).expect("an endpoint").accept(&[]).expect("accepts");
        sides.established(sides.server, accepting);
        sides.established(sides.client, connecting);
    });
}

fn an_address_that_is_taken_is_refused(info: &Info<T>) {
    with_sides(info, |sides| {
        let hints = Hints {
            caps: info.caps().intersection(crate::connected::INTERESTING),
            endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
            provider: Some(info.provider()),
            source: Some(&sides.address),
            ..Hints::default()
        };
        let taken = T::find(&hints).expect("an info");
        let refused = sides.server.listen(&taken).unwrap_err();
        let errno = if info.provider() == "sockets" { Errno::EINVAL } else { Errno::EADDRINUSE };
        assert_eq!(refused, OpenError::Errno(errno));
        sides.pair();
    });
}
