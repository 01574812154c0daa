//! A server and a client in one thread, with their operations in tests.

use std::time::Instant;

use crate::connected::Found;
use loom_core::completion::{OpError, Transfer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Connecting, Established, Idle, MsgEndpoint, Requested, ThePeer};
use loom_core::engine::op_table::OpKey;
use loom_core::eq::{ConnectionRequest, EqAttr, EqEvent, EventQueue, Failure, PassiveEndpoint, ShutdownEvent};
use loom_core::error::{OpenError, Rejected};
use loom_core::info::{Hints, Info};
use loom_core::scope;
use loom_core::vocabulary::{Caps, EndpointAddr, EndpointAttributes, EndpointType};

pub(crate) use crate::connected::posting::LIMIT;

pub(crate) use super::T;
pub(crate) type Bytes = Box<[u8]>;
pub(crate) type Endpoint<'d, S = Established> = MsgEndpoint<'d, T, Bytes, S>;

/// Bytes that identify their message and place.
pub(crate) fn pattern(len: usize, seed: usize) -> Bytes {
    crate::connected::posting::pattern(len, seed).into()
}

pub(crate) fn room(len: usize) -> Bytes {
    vec![0xee; len].into()
}

/// Both sides, and their domain and queues. Each side has an event queue.
pub(crate) struct Sides<'q, 'd> {
    pub(crate) domain: &'q Domain<'d, T>,
    pub(crate) cq: &'q Cq<'d, T, Bytes>,
    pub(crate) server: &'q EventQueue<'d, T>,
    pub(crate) client: &'q EventQueue<'d, T>,
    pub(crate) listener: PassiveEndpoint<'d, T>,
    pub(crate) address: EndpointAddr,
    pub(crate) info: Info<T>,
}

pub(crate) fn client_info(info: &Info<T>, server: &EndpointAddr) -> Info<T> {
    let hints = Hints {
        caps: info.caps().intersection(crate::connected::INTERESTING | Caps::ATOMIC),
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some(info.provider()),
        domain: Some(info.domain()),
        destination: Some(server),
        ..Hints::default()
    };
    T::find(&hints).expect("an info for the server's address")
}

pub(crate) fn with_sides(info: &Info<T>, test: impl FnOnce(&Sides<'_, '_>)) {
    with_sides_of(&Domain::open(info).expect("domain"), info, test);
}

/// Opens both sides in a scope, which closes objects that the test forgets.
pub(crate) fn with_sides_in_a_scope(info: &Info<T>, test: impl FnOnce(&Sides<'_, '_>)) {
    scope(|s| with_sides_of(&s.open(info).expect("domain"), info, test));
}

fn with_sides_of(domain: &Domain<'_, T>, info: &Info<T>, test: impl FnOnce(&Sides<'_, '_>)) {
    let server = EventQueue::open(domain, EqAttr::default()).expect("the server's event queue");
    let client = EventQueue::open(domain, EqAttr::default()).expect("the client's event queue");
    let cq = Cq::<T, Bytes>::open(domain, CqAttr { endpoints: 32, ..CqAttr::new(256) }).expect("completion queue");
    let listener = server.listen(info).expect("listens");
    let address = listener.address().expect("the listener's address");
    let info = client_info(info, &address);
    test(&Sides { domain, cq: &cq, server: &server, client: &client, listener, address, info });
}

/// Connects a client to a server on the same event queue, with the endpoint that `open` opens.
/// Returns the server's endpoint and the client's.
pub(crate) fn meet<'d>(
    eq: &EventQueue<'d, T>,
    client: Endpoint<'d, Connecting>,
    open: impl Fn(ConnectionRequest<'d, T>) -> Result<Endpoint<'d, Requested>, OpenError>,
) -> (Endpoint<'d>, Endpoint<'d>) {
    let (mut connecting, mut accepting) = (Some(client), None);
    let (mut client, mut server) = (None, None);
    let deadline = Instant::now() + LIMIT;
    while client.is_none() || server.is_none() {
        assert!(Instant::now() < deadline, "not connected within {LIMIT:?}");
        match eq.poll().expect("works") {
            Some(EqEvent::Request(request)) => {
                accepting = Some(open(request).expect("an endpoint").accept(&[]).expect("accepts"));
            }
            Some(EqEvent::Connected(event))
                if connecting.as_ref().is_some_and(|client| client.id().fid == event.endpoint()) =>
            {
                client = connecting.take().and_then(|client| client.established(&event).ok());
            }
            Some(EqEvent::Connected(event)) => {
                server = accepting.take().and_then(|accepting: Endpoint<'d, _>| accepting.established(&event).ok());
            }
            Some(other) => panic!("not expected: {other:?}"),
            None => {}
        }
    }
    (server.expect("a server"), client.expect("a client"))
}

impl<'d> Sides<'_, 'd> {
    pub(crate) fn idle(&self) -> Endpoint<'d, Idle> {
        self.cq.msg_endpoint(self.client, &self.info).expect("a client's endpoint")
    }

    pub(crate) fn connect(&self, data: &[u8]) -> Endpoint<'d, Connecting> {
        self.idle().connect(&self.address, data).expect("asks for a connection")
    }

    pub(crate) fn request(&self) -> ConnectionRequest<'d, T> {
        // A read of the client's queue sends its request.
        match self.event(self.server, true) {
            EqEvent::Request(request) => request,
            other => panic!("a request, not {other:?}"),
        }
    }

    /// Returns the next event of one queue, while connections of both make progress. With `alone`,
    /// the other queue must be empty.
    pub(crate) fn event(&self, of: &EventQueue<'d, T>, alone: bool) -> EqEvent<'d, T> {
        let other = if std::ptr::eq(of, self.server) { self.client } else { self.server };
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(event) = of.poll().expect("the event queue works") {
                return event;
            }
            self.cq.progress().expect("the completion queue works");
            if alone && let Some(event) = other.poll().expect("the other event queue works") {
                panic!("the other side has {event:?}");
            }
        }
        panic!("no event within {LIMIT:?}");
    }

    pub(crate) fn established(&self, of: &EventQueue<'d, T>, endpoint: Endpoint<'d, Connecting>) -> Endpoint<'d> {
        match self.event(of, false) {
            EqEvent::Connected(event) => endpoint.established(&event).expect("the event is about this endpoint"),
            other => panic!("connected, not {other:?}"),
        }
    }

    /// Waits for the event of an endpoint's ended connection.
    pub(crate) fn ended(&self, of: &EventQueue<'d, T>) -> ShutdownEvent {
        match self.event(of, false) {
            EqEvent::Shutdown(event) => event,
            other => panic!("the end of a connection, not {other:?}"),
        }
    }

    pub(crate) fn failure(&self, of: &EventQueue<'d, T>) -> Failure {
        match self.event(of, true) {
            EqEvent::Failed(failure) => failure,
            other => panic!("a failure, not {other:?}"),
        }
    }

    /// Connects, and returns the server's endpoint and the client's.
    pub(crate) fn pair(&self) -> (Endpoint<'d>, Endpoint<'d>) {
        let connecting = self.connect(b"pair");
        let mut request = self.request();
        // The bytes of a stranger can look like a request.
        while *request.data != *b"pair" {
            request = self.request();
        }
        let accepting = request.endpoint(self.cq, self.server).expect("an endpoint for the request");
        let accepting = accepting.accept(&[]).expect("accepts");
        let server = self.established(self.server, accepting);
        let client = self.established(self.client, connecting);
        (server, client)
    }

    pub(crate) fn post(&self, buf: Bytes, post: impl Fn(Bytes) -> Result<OpKey, Rejected<Bytes>>) -> OpKey {
        crate::connected::posting::post(self.cq, buf, post)
    }

    pub(crate) fn end(&self, key: OpKey) -> (Bytes, Result<Transfer, OpError>) {
        let done = self.cq.wait(key, Instant::now() + LIMIT).expect("the queue works").expect("it ends in time");
        assert_eq!(done.key(), key);
        done.into_parts()
    }

    pub(crate) fn finish(&self, key: OpKey) -> (Bytes, Transfer) {
        let (buf, result) = self.end(key);
        (buf, result.expect("the operation succeeds"))
    }

    pub(crate) fn message(&self, from: &Endpoint<'_>, to: &Endpoint<'_>, len: usize, seed: usize) {
        let received = self.post(room(len), |buf| to.recv(ThePeer, buf));
        let sent = self.post(pattern(len, seed), |buf| from.send(ThePeer, buf));
        let (bytes, transfer) = self.finish(received);
        assert_eq!(transfer.len, len);
        assert!(bytes == pattern(len, seed), "a message of {len} bytes");
        assert!(self.finish(sent).0 == pattern(len, seed), "what was sent comes back as it was");
    }
}
