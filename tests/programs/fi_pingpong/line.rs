//! [`Line`]: endpoint that carries the messages, connectionless or connected.

use std::time::Instant;

use loom_core::eq::{ConnectedEvent, ConnectionRequest};
use loom_core::transport::Connected;
use loom_fabric::{
    Av, Cq, Endpoint, EndpointAddr, EqEvent, EventQueue, Info, MsgEndpoint, OpKey, Peer, PostError, Rejected, Source,
    Tag, ThePeer,
};

use crate::control::{Control, LIMIT};
use crate::play::Outcome;

/// Tag of all tagged messages.
const TAG: Tag = Tag(1234);

/// Endpoint to the other side.
pub(crate) enum Line<T: Connected> {
    ToPeer(Endpoint<'static, T, Vec<u8>>, Peer),
    Connected(MsgEndpoint<'static, T, Vec<u8>>),
}

impl<T: Connected> Line<T> {
    pub(crate) fn send(&self, tagged: bool, buf: Vec<u8>) -> Result<OpKey, Rejected<Vec<u8>>> {
        match (self, tagged) {
            (Line::ToPeer(endpoint, peer), false) => endpoint.send(*peer, buf),
            (Line::ToPeer(endpoint, peer), true) => endpoint.tagged_send(*peer, TAG, buf),
            (Line::Connected(endpoint), false) => endpoint.send(ThePeer, buf),
            (Line::Connected(endpoint), true) => endpoint.tagged_send(ThePeer, TAG, buf),
        }
    }

    pub(crate) fn inject(&self, tagged: bool, bytes: &[u8]) -> Result<(), PostError> {
        match (self, tagged) {
            (Line::ToPeer(endpoint, peer), false) => endpoint.inject(*peer, bytes),
            (Line::ToPeer(endpoint, peer), true) => endpoint.tagged_inject(*peer, TAG, bytes),
            (Line::Connected(endpoint), false) => endpoint.inject(ThePeer, bytes),
            (Line::Connected(endpoint), true) => endpoint.tagged_inject(ThePeer, TAG, bytes),
        }
    }

    pub(crate) fn recv(&self, tagged: bool, buf: Vec<u8>) -> Result<OpKey, Rejected<Vec<u8>>> {
        match self {
            Line::ToPeer(endpoint, _) if tagged => endpoint.tagged_recv(Source::Any, TAG, buf),
            Line::ToPeer(endpoint, _) => endpoint.recv(Source::Any, buf),
            Line::Connected(endpoint) => recv(endpoint, tagged, buf),
        }
    }
}

fn recv<T: Connected, S>(
    endpoint: &MsgEndpoint<'_, T, Vec<u8>, S>,
    tagged: bool,
    buf: Vec<u8>,
) -> Result<OpKey, Rejected<Vec<u8>>> {
    if tagged { endpoint.tagged_recv(ThePeer, TAG, buf) } else { endpoint.recv(ThePeer, buf) }
}

/// Returns the next event that `wanted` accepts. Failures are errors.
fn event<T: Connected, V>(
    eq: &EventQueue<'static, T>,
    what: &str,
    mut wanted: impl FnMut(EqEvent<'static, T>) -> Option<V>,
) -> Outcome<V> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        match eq.poll()? {
            Some(EqEvent::Failed(failure)) => return Err(format!("{what}: {}", failure.fault.errno).into()),
            Some(EqEvent::Shutdown(_)) => return Err(format!("{what}: the provider has shut the endpoint down").into()),
            Some(event) => {
                if let Some(value) = wanted(event) {
                    return Ok(value);
                }
            }
            None => {}
        }
    }
    Err(format!("{what} did not come within {} s", LIMIT.as_secs()).into())
}

fn connected<T: Connected>(eq: &EventQueue<'static, T>) -> Outcome<ConnectedEvent> {
    event(eq, "the connection", |event| match event {
        EqEvent::Connected(event) => Some(event),
        _ => None,
    })
}

const OTHER: &str = "another endpoint was connected";

/// Listens, sends the address to the other side, and accepts its request. A buffer for the first
/// message is posted before.
pub(crate) fn accept<T: Connected>(
    cq: &Cq<'static, T, Vec<u8>>,
    eq: &EventQueue<'static, T>,
    info: &Info<T>,
    control: &mut Control,
    (tagged, inbox): (bool, Vec<u8>),
) -> Outcome<Line<T>> {
    let listener = eq.listen(info)?;
    control.send_name(&listener.address()?)?;
    let request: ConnectionRequest<'_, T> = event(eq, "the client's request", |event| match event {
        EqEvent::Request(request) => Some(request),
        _ => None,
    })?;
    let endpoint = request.endpoint(cq, eq)?;
    recv(&endpoint, tagged, inbox).map_err(PostError::from)?;
    let accepting = endpoint.accept(&[]).map_err(|refused| refused.error)?;
    Ok(Line::Connected(accepting.established(&connected(eq)?).map_err(|_| OTHER)?))
}

/// Connects to the other side. A buffer for the first message is posted before.
pub(crate) fn connect<T: Connected>(
    cq: &Cq<'static, T, Vec<u8>>,
    eq: &EventQueue<'static, T>,
    info: &Info<T>,
    server: &EndpointAddr,
    (tagged, inbox): (bool, Vec<u8>),
) -> Outcome<Line<T>> {
    let endpoint = cq.msg_endpoint(eq, info)?;
    recv(&endpoint, tagged, inbox).map_err(PostError::from)?;
    let connecting = endpoint.connect(server, &[]).map_err(|refused| refused.error)?;
    Ok(Line::Connected(connecting.established(&connected(eq)?).map_err(|_| OTHER)?))
}

/// Exchanges names, and inserts the other side into the address vector.
pub(crate) fn introduce<T: Connected>(
    cq: &Cq<'static, T, Vec<u8>>,
    av: &Av<'static, T>,
    server: Option<EndpointAddr>,
    control: &mut Control,
) -> Outcome<Line<T>> {
    let endpoint = cq.endpoint(av)?;
    control.send_name(&endpoint.address()?)?;
    let peer = match server {
        Some(server) => server,
        None => control.receive_name()?,
    };
    let peer = av.insert(&peer)?;
    Ok(Line::ToPeer(endpoint, peer))
}
