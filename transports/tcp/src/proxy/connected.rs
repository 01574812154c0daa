//! Endpoints with connections.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::format;
use std::string::String;
use std::time::Instant;
use std::vec::Vec;

use loom_core::endpoint::Msg;
use loom_core::{
    Cq, Deadline, Domain, EndpointAddr, EndpointAttributes, EndpointType, EqAttr, EqEvent, EventQueue, Hints, Info,
    MsgEndpoint, ThePeer,
};

use super::line::Ending;
use super::plan::Lens;
use super::route::Proxy;
use super::session::{Queue, SETTLED, Session, Side, exchange};
use super::{BRIEF, LONG, faults, style_before, styles};
use crate::strangers::sides::{LIMIT, SMALL};
use crate::{Tcp, TcpAttr, query};

const ATTR: TcpAttr =
    TcpAttr { endpoints: 4, unexpected: 4, tx_depth: 16, rx_depth: 16, connect_timeout: 20_000, ..SMALL };

type Connection = MsgEndpoint<'static, Tcp, Vec<u8>>;
type Kind = Msg<loom_core::endpoint::Established>;

struct Host {
    info: Info<Tcp>,
    domain: Domain<'static, Tcp>,
    eq: EventQueue<'static, Tcp>,
    cq: Queue,
}

impl Host {
    fn open() -> Self {
        let endpoint_attr = EndpointAttributes::of(EndpointType::MSG);
        let hints = Hints { endpoint_attr, node: Some("127.0.0.1"), listen: true, ..Hints::default() };
        let info = query(&hints, ATTR).expect("loopback");
        let domain = Domain::open(&info).expect("domain");
        let (eq, cq) =
            (EventQueue::open(&domain, EqAttr::default()).expect("queue"), Cq::open(&domain, 128).expect("queue"));
        Host { info, domain, eq, cq }
    }

    fn listen(&self) -> EndpointAddr {
        self.eq.listen(&self.info).and_then(|listener| Ok(listener.address()?)).expect("listens")
    }

    fn side<'a>(&'a self, endpoint: &'a Connection) -> Side<'a, Kind> {
        Side { domain: &self.domain, cq: &self.cq, endpoint, peer: ThePeer }
    }
}

/// Connects hosts, and returns both ends. `None` if the connection does not open.
fn connect(hosts: [&Host; 2], address: &EndpointAddr, proxy: &mut Proxy) -> Result<Option<[Connection; 2]>, String> {
    let [client, server] = hosts;
    let connecting = client.cq.msg_endpoint(&client.eq, &client.info).expect("endpoint");
    let connecting = connecting.connect(address, b"please").map_err(|refused| format!("{}", refused.error))?;
    let (mut connecting, mut accepting, mut ends) = (Some(connecting), None, [None, None]);
    let mut until = Instant::now() + LIMIT;
    while ends.iter().any(Option::is_none) {
        if until.passed() {
            return Err("neither connected nor failed".into());
        }
        proxy.step();
        hosts.into_iter().for_each(|host| _ = host.cq.progress().expect("the queue works"));
        match server.eq.poll().map_err(|error| format!("{error}"))? {
            Some(EqEvent::Request(request)) if request.data[..6] == *b"please" => {
                let endpoint = request.endpoint(&server.cq, &server.eq).expect("endpoint");
                // Its connection may have ended.
                accepting = endpoint.accept(b"welcome").ok();
            }
            Some(EqEvent::Connected(event)) => {
                ends[1] =
                    accepting.take().and_then(|accepting: MsgEndpoint<'_, _, _, _>| accepting.established(&event).ok());
            }
            Some(EqEvent::Shutdown(_)) | None => {}
            Some(other) => return Err(format!("of the server: {other:?}")),
        }
        match client.eq.poll().map_err(|error| format!("{error}"))? {
            Some(EqEvent::Connected(event)) => {
                ends[0] = connecting.take().and_then(|connecting| connecting.established(&event).ok());
            }
            Some(EqEvent::Failed(failure)) if connecting.as_ref().is_some_and(|waits| failure.is_of(waits)) => {
                return Ok(None);
            }
            None => {}
            Some(other) => return Err(format!("of the client: {other:?}")),
        }
    }
    let [Some(client), Some(server)] = ends else { return Err("half connected".into()) };
    Ok(Some([client, server]))
}

struct Pair {
    hosts: [Host; 2],
    third: Host,
    beside: [[Connection; 2]; 2],
    address: EndpointAddr,
    proxy: Proxy,
    seed: usize,
}

impl Pair {
    fn open() -> Self {
        let (hosts, third, mut proxy) = ([Host::open(), Host::open()], Host::open(), Proxy::new());
        let open = third.listen();
        let beside = [0, 1].map(|side: usize| {
            let opened = connect([&hosts[side], &third], &open, &mut proxy);
            opened.expect("the third host").expect("is connected")
        });
        let to = SocketAddr::try_from(&hosts[1].listen()).expect("socket");
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let address = proxy.listen(0, SocketAddr::new(from, 0), from, to).into();
        Pair { hosts, third, beside, address, proxy, seed: 0 }
    }

    fn connect(&mut self) -> Result<Option<[Connection; 2]>, String> {
        connect(self.hosts.each_ref(), &self.address, &mut self.proxy)
    }

    fn run(&mut self, lens: Lens, ends: bool) -> Result<(), String> {
        self.seed += 1;
        let Some([client, server]) = self.connect()? else {
            let is_struck = ends && !self.proxy.awaits_fault();
            return if is_struck { Ok(()) } else { Err("not connected".into()) };
        };
        let sides = [self.hosts[0].side(&client), self.hosts[1].side(&server)];
        Session::new(sides, lens, self.seed, false).run(&mut self.proxy, ends)
    }

    fn go_on(&mut self) -> Result<(), String> {
        let [client, server] = self.connect()?.ok_or("no other connection")?;
        let sides = [self.hosts[0].side(&client), self.hosts[1].side(&server)];
        exchange(&sides, &mut self.proxy)?;
        for (host, [near, far]) in self.hosts.iter().zip(&self.beside) {
            exchange(&[host.side(near), self.third.side(far)], &mut self.proxy)?;
        }
        Ok(())
    }

    fn part(&mut self) {
        self.proxy.reset();
        for Host { cq, eq, .. } in &self.hosts {
            (0..SETTLED).for_each(|_| _ = cq.progress().expect("the queue works"));
            while eq.poll().expect("the queue works").is_some() {}
            assert_eq!((cq.in_flight(), cq.strays()), (0, 0));
        }
    }

    fn ends_everywhere(&mut self, ending: Ending) {
        self.proxy.style = style_before(ending);
        self.run(BRIEF, false).expect("a session without fault");
        let lens = [0, 1].map(|side| self.proxy.forwarded(side).len());
        self.part();
        for fault in faults(lens, ending) {
            self.proxy.arm(fault, 0);
            self.run(BRIEF, true).and_then(|()| self.go_on()).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            self.part();
        }
    }
}

#[test]
fn sessions_complete_whatever_the_pieces_and_delays() {
    let mut pair = Pair::open();
    for style in styles() {
        pair.proxy.style = style;
        pair.run(LONG, false).unwrap_or_else(|error| panic!("{style:?}: {error}"));
        pair.part();
    }
}

#[test]
fn each_operation_ends_once_wherever_the_connection_ends() {
    Pair::open().ends_everywhere(Ending::Fin);
}

#[test]
fn each_operation_ends_once_wherever_one_direction_ends() {
    Pair::open().ends_everywhere(Ending::FinOneWay);
}

#[test]
fn each_operation_ends_once_wherever_the_connection_is_reset() {
    Pair::open().ends_everywhere(Ending::Reset);
}
