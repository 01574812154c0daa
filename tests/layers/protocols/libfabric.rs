//! Protocols over providers of libfabric: endpoints, connections, shared receives, and contexts of
//! scalable endpoints.

use std::time::Instant;

use loom_core::endpoint::{Connecting, Contexts, MsgEndpoint, ScalableEndpoint, SharedRx};
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::error::OpenError;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType, Errno};
use loom_core::{Access, Av, AvAttr, Cq, CqAttr, Domain, Hints, Info, Mr};
use loom_fabric::loom_core;
use loom_fabric::{Local, Ofi};
use loom_static::query::{AtomicOps, Dgram, Injects, Messages, Msg, Query, Rdm, Reads, Tagged, Writes};

use crate::protocols::example::{self, Program as _};
use crate::protocols::framed::Framed;
use crate::protocols::generic::{self, Bytes};
use crate::protocols::soft;
use support::library_version;
use support::posting::LIMIT;

pub(crate) type T = Ofi<Local>;

pub(crate) fn info(provider: &str, kind: EndpointType, caps: Caps) -> Info<T> {
    let node = (provider != "shm").then_some("127.0.0.1");
    let endpoint_attr = EndpointAttributes::of(kind);
    let hints =
        Hints { caps, provider: Some(provider), node, listen: node.is_some(), endpoint_attr, ..Hints::default() };
    T::query(&hints).unwrap().next().expect("every libfabric has it")
}

#[test]
fn endpoints_have_every_protocol_that_is_granted_and_frames_travel_over_them() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let info = info(provider, EndpointType::RDM, Caps::MSG | Caps::TAGGED | Caps::RMA);
        let domain = Domain::open(&info).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<T, Bytes>::open(&domain, CqAttr::new(64)).unwrap());
        let (mut a, mut b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
        let to_b = av.insert(&b.address().unwrap()).unwrap();
        generic::messages((&mut a, to_b), &mut b, true);
        generic::tagged((&mut a, to_b), &mut b);
        generic::injected((&mut a, to_b), &mut b);
        generic::tagged_injected((&mut a, to_b), &mut b);
        let region = Mr::open(&domain, vec![0; 5000], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        generic::remote_memory((&mut a, to_b), &mut b, &region.remote());
        let (mut a, mut b) = (Framed::new(a, 1 << 16), Framed::new(b, 1 << 16));
        generic::messages((&mut a, to_b), &mut b, true);
        generic::tagged((&mut a, to_b), &mut b);
        generic::injected((&mut a, to_b), &mut b);
    }
}

/// Hints for a query, of one provider.
fn hints<Q: Query>(provider: &'static str) -> Hints<'static> {
    let node = (provider != "shm").then_some("127.0.0.1");
    Hints { provider: Some(provider), node, listen: node.is_some(), ..Q::HINTS }
}

#[test]
fn endpoints_of_queries_have_the_requested_operations() {
    type Wanted = ((Rdm, Messages, Tagged), (Reads, Writes), Injects<8>);

    for provider in ["shm", "tcp;ofi_rxm"] {
        let info =
            Wanted::ranked(T::query(&hints::<Wanted>(provider)).unwrap()).first().expect("every libfabric has it");
        let domain = Domain::open(&info).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<T, Bytes>::open(&domain, CqAttr::new(64)).unwrap());
        let [mut a, mut b] = [(); 2].map(|()| Wanted::endpoint(&cq, &av).unwrap());
        let to_b = av.insert(&b.whole().address().unwrap()).unwrap();
        generic::messages((&mut a, to_b), &mut b, true);
        generic::tagged((&mut a, to_b), &mut b);
        generic::injected((&mut a, to_b), &mut b);
        let region = Mr::open(&domain, vec![0; 5000], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        generic::remote_memory((&mut a, to_b), &mut b, &region.remote());
        generic::messages((&mut Framed::new(a, 1 << 16), to_b), &mut Framed::new(b, 1 << 16), true);
        assert_eq!(<(Dgram, Messages)>::endpoint(&cq, &av).map(drop), Err(OpenError::EndpointType(EndpointType::RDM)));
    }
}

#[test]
fn datagrams_are_requested_by_their_type() {
    type Wanted = (Messages, Dgram);

    let info = Wanted::ranked(T::query(&hints::<Wanted>("udp")).unwrap()).first().expect("every libfabric has it");
    let domain = Domain::open(&info).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<T, Bytes>::open(&domain, CqAttr::new(64)).unwrap());
    assert!(Wanted::endpoint(&cq, &av).is_ok());
    let refused = <(Messages, Rdm)>::endpoint(&cq, &av).map(drop);
    assert_eq!(refused, Err(OpenError::EndpointType(EndpointType::DGRAM)));
    assert!(T::query(&hints::<(Wanted, AtomicOps)>("udp")).is_err(), "there are no datagrams with atomic operations");
}

#[test]
fn infos_come_in_the_order_of_libfabric_each_time() {
    type Wanted = (Rdm, Messages, Writes);

    let name = |info: Info<T>| (info.provider().to_owned(), info.fabric().to_owned(), info.domain().to_owned());
    let ranked = || Wanted::ranked(T::query(&Wanted::HINTS).unwrap());
    let infos: Vec<_> = ranked().map(name).collect();
    assert_eq!(infos, ranked().map(name).collect::<Vec<_>>());
    assert_eq!(infos, T::query(&Wanted::HINTS).unwrap().map(name).collect::<Vec<_>>(), "each grants what it says");
    assert_eq!(ranked().first().map(name).as_ref(), infos.first());
    for provider in ["shm", "tcp;ofi_rxm"] {
        let first = infos.iter().find(|info| info.0 == provider).expect("every libfabric has it");
        let found = ranked().first_where(|info| info.provider() == provider).map(name);
        assert_eq!(found.as_ref(), Some(first));
    }
}

#[test]
fn the_example_shows_the_same() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        soft::check(&example::Frames.run(&info(provider, EndpointType::RDM, Caps::MSG)).unwrap());
    }
}

pub(crate) type Connection = MsgEndpoint<'static, T, Bytes>;

/// Returns a connection, the server's side first. With `shared`, that side receives through a
/// shared context.
pub(crate) fn connected(
    (domain, cq): (&Domain<'static, T>, &Cq<'static, T, Bytes>),
    info: &Info<T>,
    shared: Option<&SharedRx<'static, T, Bytes>>,
) -> (Connection, Connection) {
    let eq = EventQueue::open(domain, EqAttr::default()).unwrap();
    let listener = eq.listen(info).unwrap();
    let address = listener.address().unwrap();
    let hints = Hints {
        caps: Caps::MSG | Caps::RMA,
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some(info.provider()),
        domain: Some(info.domain()),
        destination: Some(&address),
        ..Hints::default()
    };
    let client = T::query(&hints).unwrap().next().unwrap();
    let mut connecting = Some(cq.msg_endpoint(&eq, &client).unwrap().connect(&address, &[]).unwrap());
    let mut accepting: Option<MsgEndpoint<'_, T, Bytes, Connecting>> = None;
    let (mut server, mut client) = (None, None);
    let deadline = Instant::now() + LIMIT;
    while server.is_none() || client.is_none() {
        assert!(Instant::now() < deadline, "connected within {LIMIT:?}");
        match eq.poll().unwrap() {
            Some(EqEvent::Request(request)) => {
                let endpoint = match shared {
                    Some(shared) => request.endpoint_through(shared, &eq),
                    None => request.endpoint(cq, &eq),
                };
                accepting = Some(endpoint.unwrap().accept(&[]).unwrap());
            }
            Some(EqEvent::Connected(event)) => {
                let is_client = connecting.as_ref().is_some_and(|client| client.id().fid == event.endpoint());
                let side = if is_client { (&mut connecting, &mut client) } else { (&mut accepting, &mut server) };
                *side.1 = side.0.take().and_then(|side| side.established(&event).ok());
            }
            Some(other) => panic!("connected, not {other:?}"),
            None => drop(cq.progress().unwrap()),
        }
    }
    (server.unwrap(), client.unwrap())
}

#[test]
fn connections_have_every_protocol_that_is_granted_and_frames_travel_over_them() {
    let info = info("tcp", EndpointType::MSG, Caps::MSG | Caps::RMA);
    let domain = Domain::open(&info).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(64)).unwrap();
    let (mut server, mut client) = connected((&domain, &cq), &info, None);
    generic::connection(&mut client, &mut server);
    generic::messages((&mut server, loom_core::ThePeer), &mut client, true);
    generic::injected((&mut server, loom_core::ThePeer), &mut client);
    let region = Mr::open(&domain, vec![0; 5000], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    generic::remote_memory((&mut client, loom_core::ThePeer), &mut server, &region.remote());
    let mut narrow = <(Msg, Messages, Reads, Writes, Injects<8>)>::only(&client).unwrap();
    generic::connection(&mut narrow, &mut server);
    generic::injected((&mut narrow, loom_core::ThePeer), &mut server);
    generic::remote_memory((&mut narrow, loom_core::ThePeer), &mut server, &region.remote());
    assert_eq!(loom_static::protocol::Connection::peer_address(&narrow).unwrap(), client.peer_address().unwrap());
    assert_eq!(<(Msg, Tagged)>::only(&client).map(drop), Err(OpenError::NotGranted(Caps::TAGGED)));
    let (mut server, mut client) = (Framed::new(server, 1 << 16), Framed::new(client, 1 << 16));
    generic::messages((&mut client, loom_core::ThePeer), &mut server, true);
    generic::injected((&mut client, loom_core::ThePeer), &mut server);
}

#[test]
fn connection_is_shut_down_where_the_library_can() {
    let info = info("tcp", EndpointType::MSG, Caps::MSG | Caps::RMA);
    let domain = Domain::open(&info).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(64)).unwrap();
    let (mut server, mut client) = connected((&domain, &cq), &info, None);
    generic::connection(&mut client, &mut server);
    let received = server.recv(loom_core::ThePeer, vec![0; 8]).unwrap();
    let mut narrow = <(Msg, Messages)>::only(&client).unwrap();
    let shut_down = loom_static::protocol::Connection::shutdown(&mut narrow);
    let ends = shut_down.is_ok();
    assert_eq!(ends, library_version().major >= 2 && info.raw().is_tested());
    if !ends {
        assert_eq!(shut_down, Err(Errno::EOPNOTSUPP));
        cq.retry(Instant::now() + LIMIT, || client.inject(loom_core::ThePeer, &[7; 8])).unwrap();
    }
    let received = cq.finish(received, Instant::now() + LIMIT).unwrap();
    assert_eq!((received.result().is_err(), &received.buf()[..]), (ends, &[if ends { 0 } else { 7 }; 8][..]));
}

#[test]
fn contexts_have_the_protocols_of_their_direction() {
    let info = info("sockets", EndpointType::RDM, Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::NAMED_RX_CTX);
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let contexts = Contexts { tx: 1, rx: 1 };
    let opened = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, contexts));
    if !info.raw().is_tested() {
        println!("as if nothing were known of `sockets`: it has no scalable endpoints then");
        assert!(opened.iter().all(Result::is_err));
        return;
    }
    let [a, b] = opened.map(Result::unwrap);
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(64)).unwrap();
    let (mut tx, mut rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&b, 0).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap().rx_context(0);
    generic::messages((&mut tx, to_b), &mut rx, true);
    generic::tagged((&mut tx, to_b), &mut rx);
    generic::injected((&mut tx, to_b), &mut rx);
    let region = Mr::open(&domain, vec![0; 5000], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    generic::remote_memory((&mut tx, to_b), &mut rx, &region.remote());
    let mut narrow = (<(Rdm, Messages, Reads, Writes)>::only(&tx).unwrap(), Messages::only(&rx).unwrap());
    generic::messages((&mut narrow.0, to_b), &mut narrow.1, true);
    generic::remote_memory((&mut narrow.0, to_b), &mut narrow.1, &region.remote());
    assert_eq!(Dgram::only(&tx).map(drop), Err(OpenError::EndpointType(EndpointType::RDM)));
    assert_eq!(<(AtomicOps, Tagged)>::only(&rx).map(drop), Err(OpenError::NotGranted(Caps::ATOMIC)));
    let (mut tx, mut rx) = (Framed::new(tx, 1 << 16), Framed::new(rx, 1 << 16));
    generic::messages((&mut tx, to_b), &mut rx, true);
    generic::tagged((&mut tx, to_b), &mut rx);
}

#[test]
fn shared_receives_take_messages_of_connections() {
    let info = info("tcp", EndpointType::MSG, Caps::MSG);
    let domain = Domain::open(&info).unwrap();
    let cq = Cq::open(&domain, CqAttr::new(64)).unwrap();
    let shared = cq.shared_rx(&info);
    if !info.raw().is_tested() {
        println!("as if nothing were known of `tcp`: it has no shared receives then");
        assert!(shared.is_err());
        return;
    }
    let mut shared = shared.unwrap();
    let (server, mut client) = connected((&domain, &cq), &info, Some(&shared));
    generic::connection(&mut client, &mut shared);
    // Receives in a shared context do not prevent a query for messages.
    let mut server = <(Msg, Messages)>::only(&server).unwrap();
    generic::messages((&mut server, loom_core::ThePeer), &mut client, true);
    let (mut client, mut shared) = (Framed::new(client, 1 << 16), Framed::new(shared, 1 << 16));
    generic::messages((&mut client, loom_core::ThePeer), &mut shared, true);
}
