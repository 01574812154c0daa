//! Two endpoints with a connection.

#![allow(unsafe_code, reason = "multi-receives over providers that do not keep to their buffer")]

use std::time::{Duration, Instant};

use loom_core::OpenError;
use loom_core::counter::Counter;
use loom_core::cq::Cq;
use loom_core::endpoint::RecvOptions;
use loom_core::endpoint::{Binding, MsgEndpoint, ThePeer};
use loom_core::engine::op_table::OpKey;
use loom_core::eq::{EqAttr, EqEvent, EventQueue, PassiveEndpoint};
use loom_core::error::PostError;
use loom_core::info::{Hints, Info};
use loom_core::mr::RemoteRegion;
use loom_core::scope;
use loom_core::transport::Connected;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointOption, EndpointType, Errno, ImmediateData, Tag};
#[cfg(feature = "libfabric")]
use loom_fabric::ofi::{Level, Ofi};
use loom_tcp::{Tcp, TcpAttr};

use crate::cases::{Message, takes_many};
use crate::count_allocations::{Counts, Measure, Memory, counter, on_queues, steady};
use crate::failure::Failure;
use crate::rig::{Buffer, EVERYTHING, Rig, Side};
use crate::verbs::{Posted, Verbs, send_options};

const LIMIT: Duration = Duration::from_secs(60);

/// Endpoint, and the event queue for the end of its connection.
struct Connection<'q, 'd, 'b, T: Connected> {
    endpoint: MsgEndpoint<'d, T, Buffer<'b>>,
    eq: &'q EventQueue<'d, T>,
}

type End<'q, 'd, 'b, T> = Side<'q, 'd, 'b, T, Connection<'q, 'd, 'b, T>>;

impl<'b, T: Connected + 'static> Verbs<'b> for Connection<'_, '_, 'b, T> {
    fn send(&self, message: Message, tag: Tag, data: ImmediateData, out: Buffer<'b>) -> Posted<'b> {
        let endpoint = &self.endpoint;
        match (message.tagged, message.data) {
            (false, _) if message.msg => endpoint.send_with(ThePeer, send_options(message, data), out),
            (true, _) if message.msg => endpoint.tagged_send_with(ThePeer, tag, send_options(message, data), out),
            (false, false) => endpoint.send(ThePeer, out),
            (false, true) => endpoint.send_data(ThePeer, data, out),
            (true, false) => endpoint.tagged_send(ThePeer, tag, out),
            (true, true) => endpoint.tagged_send_data(ThePeer, tag, data, out),
        }
    }

    fn inject(&self, message: Message, tag: Tag, data: ImmediateData, out: &[u8]) -> Result<(), PostError> {
        match (message.tagged, message.data) {
            (false, false) => self.endpoint.inject(ThePeer, out),
            (false, true) => self.endpoint.inject_data(ThePeer, data, out),
            (true, false) => self.endpoint.tagged_inject(ThePeer, tag, out),
            (true, true) => self.endpoint.tagged_inject_data(ThePeer, tag, data, out),
        }
    }

    fn receive(&self, message: Message, tag: Tag, into: Buffer<'b>) -> Posted<'b> {
        match (message.tagged, message.msg) {
            (true, true) => self.endpoint.tagged_recv_with(ThePeer, tag, RecvOptions::default(), into),
            (false, true) => self.endpoint.recv_with(ThePeer, RecvOptions::default(), into),
            (true, false) => self.endpoint.tagged_recv(ThePeer, tag, into),
            (false, false) => self.endpoint.recv(ThePeer, into),
        }
    }

    fn multi_receive(&self, tag: Option<Tag>, into: Buffer<'b>) -> Posted<'b> {
        // SAFETY: the peer sends messages that fit, and the receive is not cancelled.
        unsafe { self.endpoint.multi_recv_unchecked(ThePeer, tag.map(Into::into), into) }
    }

    fn read(&self, remote: &RemoteRegion, into: Buffer<'b>) -> Posted<'b> {
        self.endpoint.read(ThePeer, remote, 0, into)
    }

    fn write(&self, remote: &RemoteRegion, data: Option<ImmediateData>, out: Buffer<'b>) -> Posted<'b> {
        match data {
            None => self.endpoint.write(ThePeer, remote, 0, out),
            Some(data) => self.endpoint.write_data(ThePeer, remote, 0, data, out),
        }
    }

    fn inject_write(&self, remote: &RemoteRegion, data: Option<ImmediateData>, out: &[u8]) -> Result<(), PostError> {
        match data {
            None => self.endpoint.inject_write(ThePeer, remote, 0, out),
            Some(data) => self.endpoint.inject_write_data(ThePeer, remote, 0, data, out),
        }
    }

    fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.endpoint.cancel(key)
    }

    fn look_for_events(&self) -> Result<(), Failure> {
        match self.eq.poll()? {
            None => Ok(()),
            Some(_) => Err(Failure::Wrong("an event of a connection that works")),
        }
    }
}

/// Transport with connections.
pub trait Found: Connected + 'static {
    /// Returns the info for a client.
    fn find(hints: &Hints<'_>) -> Option<Info<Self>>;
}

#[cfg(feature = "libfabric")]
impl<L: Level + 'static> Found for Ofi<L> {
    fn find(hints: &Hints<'_>) -> Option<Info<Self>> {
        Self::query(hints).ok()?.next()
    }
}

impl Found for Tcp {
    fn find(hints: &Hints<'_>) -> Option<Info<Self>> {
        support::tcp::query(hints, TcpAttr { event_queues: 4, ..TcpAttr::DEFAULT }).ok()
    }
}

/// Objects that are opened once, and the info of clients.
struct Listening<'q, 'd, T: Found> {
    info: &'q Info<T>,
    eq: &'q EventQueue<'d, T>,
    listener: PassiveEndpoint<'d, T>,
    counter: Option<&'q Counter<'d, T>>,
}

impl<'q, 'd, T: Found> Listening<'q, 'd, T> {
    /// Opens both sides, and connects the first, which counts, to the second.
    fn rig<'b>(
        &self,
        cq_a: &'q Cq<'d, T, Buffer<'b>>,
        cq_b: &'q Cq<'d, T, Buffer<'b>>,
    ) -> Result<[End<'q, 'd, 'b, T>; 2], Failure> {
        let Listening { info: granted, eq, listener, counter } = self;
        let address = listener.address()?;
        let hints = Hints {
            caps: granted.caps().intersection(ASKED),
            endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
            provider: Some(granted.provider()),
            domain: Some(granted.domain()),
            destination: Some(&address),
            ..Hints::default()
        };
        let info = T::find(&hints).ok_or(Failure::Wrong("there is no info for the listener's address"))?;
        let binding = counter.iter().fold(Binding::to(*eq), |to, counter| to.counter(EVERYTHING, counter));
        let client = cq_a.msg_endpoint(binding, &info)?.connect(&address, &[]).map_err(OpenError::from)?;
        let (mut connecting, mut accepting) = (Some(client), None);
        let (mut a, mut b) = (None, None);
        let end = Instant::now() + LIMIT;
        while a.is_none() || b.is_none() {
            if Instant::now() > end {
                return Err(Failure::Late("a connection"));
            }
            match eq.poll()? {
                None => {}
                Some(EqEvent::Request(request)) => {
                    let to = match takes_many(granted) {
                        true => Binding::to(*eq).option(EndpointOption::MIN_MULTI_RECV, 1),
                        false => Binding::to(*eq),
                    };
                    accepting = Some(request.endpoint(cq_b, to)?.accept(&[]).map_err(OpenError::from)?);
                }
                Some(EqEvent::Connected(event)) => {
                    let is_a = connecting.as_ref().is_some_and(|client| client.id().fid == event.endpoint());
                    let (side, from) = if is_a { (&mut a, &mut connecting) } else { (&mut b, &mut accepting) };
                    *side = from.take().and_then(|from: MsgEndpoint<'d, _, _, _>| from.established(&event).ok());
                }
                Some(_) => return Err(Failure::Wrong("an event of something else")),
            }
        }
        let [Some(a), Some(b)] = [a, b] else { return Err(Failure::Wrong("a connection was lost")) };
        Ok([(cq_a, a), (cq_b, b)].map(|(cq, endpoint)| Side { cq, verbs: Connection { endpoint, eq } }))
    }
}

/// Capabilities that may be granted.
const ASKED: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA).union(Caps::MULTI_RECV);

/// Runs the rounds of a case over a connection.
pub fn run<T: Found>(info: &Info<T>, measure: Measure<'_>) -> Result<Counts, Failure> {
    let mut memory = Memory::of(measure.case);
    let (exposed, mut buffers) = memory.parts();
    scope(|s| {
        let domain = s.open_in(info, measure.seal)?;
        let eq = EventQueue::open(&domain, EqAttr::default())?;
        let counter = counter(&domain)?;
        let info = domain.info();
        let listening = Listening { info, eq: &eq, listener: eq.listen(info)?, counter: counter.as_ref() };
        on_queues(&domain, exposed, measure, |cq_a, cq_b, region| {
            let [a, b] = listening.rig(cq_a, cq_b)?;
            steady(&Rig { info, a, b, region }, &mut buffers, measure)
        })
    })
}
