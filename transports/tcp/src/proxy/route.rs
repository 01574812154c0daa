//! [`Proxy`]: addresses of endpoints, and the lines that they have opened. The loop of a test steps
//! it.

use core::net::{IpAddr, SocketAddr};
use std::vec::Vec;

use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, getsockname, listen, socket};

use super::line::{Ending, Fault, Line, Style};

const BACKLOG: i32 = 64;

/// Address at which a side connects to the other one.
struct Route {
    side: usize,
    listener: OwnedFd,
    from: IpAddr,
    to: SocketAddr,
}

pub(super) struct Proxy {
    routes: Vec<Route>,
    lines: Vec<Line>,
    pub(super) style: Style,
    /// Fault of a later line, and the number of lines before it.
    fault: Option<(Fault, usize)>,
    now: usize,
}

fn new_socket() -> OwnedFd {
    socket(AddressFamily::INET, SocketType::STREAM, None).expect("socket")
}

impl Proxy {
    pub(super) fn new() -> Self {
        Proxy { routes: Vec::new(), lines: Vec::new(), style: Style::PLAIN, fault: None, now: 0 }
    }

    /// Listens for connections of a side, which the other side sees come from `from`.
    pub(super) fn listen(&mut self, side: usize, at: SocketAddr, from: IpAddr, to: SocketAddr) -> SocketAddr {
        let listener = new_socket();
        set_socket_reuseaddr(&listener, true).expect("option");
        bind(&listener, &at).expect("a free address");
        listen(&listener, BACKLOG).expect("listener");
        ioctl_fionbio(&listener, true).expect("option");
        let address = SocketAddr::try_from(getsockname(&listener).expect("address")).expect("socket");
        self.routes.push(Route { side, listener, from, to });
        address
    }

    /// Arms the line behind `before` others with a fault.
    pub(super) fn arm(&mut self, fault: Fault, before: usize) {
        assert!(self.lines.is_empty(), "all lines have ended");
        self.fault = Some((fault, before));
    }

    pub(super) fn awaits_fault(&self) -> bool {
        self.fault.is_some() || self.lines.iter().any(Line::awaits_fault)
    }

    /// The fault has not happened, or its line has not ended.
    pub(super) fn has_faulty_line(&self) -> bool {
        self.awaits_fault() || self.lines.iter().any(Line::is_struck)
    }

    pub(super) fn forwarded(&self, side: usize) -> &[u8] {
        let [line] = &self.lines[..] else { panic!("{} lines are open", self.lines.len()) };
        line.forwarded(side)
    }

    pub(super) fn end(&mut self, side: usize, ending: Ending) {
        self.lines = self.lines.drain(..).filter_map(|line| line.end(side, ending)).collect();
    }

    pub(super) fn reset(&mut self) {
        self.lines.drain(..).for_each(Line::reset);
    }

    pub(super) fn step(&mut self) {
        self.now += 1;
        for route in &self.routes {
            let near = match accept_with(&route.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(near) => near,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => panic!("the proxy accepts: {error}"),
            };
            let far = new_socket();
            bind(&far, &SocketAddr::new(route.from, 0)).expect("an address of this host");
            connect(&far, &route.to).expect("the endpoint listens");
            ioctl_fionbio(&far, true).expect("option");
            [&near, &far].into_iter().for_each(|socket| set_tcp_nodelay(socket, true).expect("option"));
            let sockets = if route.side == 0 { [near, far] } else { [far, near] };
            let fault = self.fault.take_if(|(_, before)| *before == 0).map(|(fault, _)| fault);
            if let Some((_, before)) = &mut self.fault {
                *before -= 1;
            }
            self.lines.push(Line::new(sockets, fault));
        }
        let (now, style) = (self.now, self.style);
        let lines = self.lines.drain(..).filter_map(|line| line.step(now, &style)).collect();
        self.lines = lines;
    }
}
