//! [`Line`]: a connection of one endpoint to the proxy, and the proxy's to the other one.

use core::time::Duration;
use std::collections::VecDeque;
use std::vec::Vec;

use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

/// Bytes that a direction holds at most. The kernel keeps the others.
const HELD: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Fin,
    /// FIN in the direction of the fault.
    FinOneWay,
    Reset,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    End { side: usize, after: usize, ending: Ending },
    Alter { side: usize, after: usize },
}

/// Manner in which bytes are forwarded. Arrays are by the side that the bytes come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) piece: usize,
    /// Steps between the arrival of a byte and its departure.
    pub(super) delay: [usize; 2],
    pub(super) is_held: [bool; 2],
}

impl Style {
    pub(super) const PLAIN: Style = Style { piece: usize::MAX, delay: [0; 2], is_held: [false; 2] };
}

#[derive(Default)]
struct Pipe {
    queue: VecDeque<u8>,
    /// Number of bytes by the step from which they may leave.
    due: VecDeque<(usize, usize)>,
    has_ended: bool,
    /// The destination has the FIN. Further bytes are dropped.
    is_shut: bool,
    forwarded: Vec<u8>,
}

impl Pipe {
    fn receive(&mut self, from: &OwnedFd, due: usize) -> io::Result<()> {
        let mut bytes = [0; 1 << 14];
        if self.has_ended || self.queue.len() >= HELD {
            return Ok(());
        }
        match io::read(from, &mut bytes[..]) {
            Ok(0) => self.has_ended = true,
            Ok(_) if self.is_shut => {}
            Ok(received) => {
                self.queue.extend(&bytes[..received]);
                self.due.push_back((due, received));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn forward(&mut self, to: &OwnedFd, now: usize, limit: usize) -> io::Result<()> {
        let due: usize = self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, count)| count).sum();
        let front = self.queue.as_slices().0;
        let count = due.min(limit).min(front.len());
        if count > 0 {
            let sent = match send(to, &front[..count], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => sent,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(error) => return Err(error),
            };
            self.forwarded.extend(self.queue.drain(..sent));
            self.leave(sent);
        }
        if self.has_ended && self.queue.is_empty() {
            self.shut(to);
        }
        Ok(())
    }

    fn leave(&mut self, mut sent: usize) {
        while let Some((_, count)) = self.due.front_mut() {
            let of_front = sent.min(*count);
            sent -= of_front;
            *count -= of_front;
            if *count > 0 {
                return;
            }
            self.due.pop_front();
        }
    }

    /// Sends FIN, and drops the bytes that have not left.
    fn shut(&mut self, to: &OwnedFd) {
        if !self.is_shut {
            self.is_shut = true;
            self.queue.clear();
            self.due.clear();
            let _ = shutdown(to, Shutdown::Write);
        }
    }
}

/// Connections of both sides. Arrays are by side.
pub(super) struct Line {
    sockets: [OwnedFd; 2],
    pipes: [Pipe; 2],
    fault: Option<Fault>,
    is_struck: bool,
}

impl Line {
    pub(super) fn new(sockets: [OwnedFd; 2], fault: Option<Fault>) -> Self {
        Line { sockets, pipes: Default::default(), fault, is_struck: false }
    }

    pub(super) fn forwarded(&self, side: usize) -> &[u8] {
        &self.pipes[side].forwarded
    }

    pub(super) fn awaits_fault(&self) -> bool {
        self.fault.is_some()
    }

    pub(super) fn is_struck(&self) -> bool {
        self.is_struck
    }

    /// Forwards one piece in each direction, until the line has ended.
    pub(super) fn step(mut self, now: usize, style: &Style) -> Option<Self> {
        for side in 0..2 {
            self = self.strike(side)?;
            let limit = style.piece.min(self.until_fault(side));
            let (from, to) = (&self.sockets[side], &self.sockets[1 - side]);
            let pipe = &mut self.pipes[side];
            let mut flow = pipe.receive(from, now + style.delay[side]);
            if !style.is_held[side] {
                flow = flow.and_then(|()| pipe.forward(to, now, limit));
            }
            if let Err(error) = flow {
                assert!(self.fault.is_none(), "an endpoint ends the line before its fault: {error}");
                self.reset();
                return None;
            }
            self = self.strike(side)?;
        }
        let has_ended = self.pipes.iter().all(|pipe| pipe.has_ended && pipe.is_shut);
        assert!(!has_ended || self.fault.is_none(), "the endpoints end the line before its fault");
        (!has_ended).then_some(self)
    }

    fn until_fault(&self, of: usize) -> usize {
        match self.fault {
            Some(Fault::End { side, after, .. } | Fault::Alter { side, after }) if side == of => {
                after - self.pipes[side].forwarded.len()
            }
            _ => usize::MAX,
        }
    }

    fn strike(mut self, of: usize) -> Option<Self> {
        if self.until_fault(of) > 0 {
            return Some(self);
        }
        match self.fault {
            Some(Fault::End { side, ending, .. }) => return self.end(side, ending),
            Some(Fault::Alter { side, .. }) => {
                if let Some(byte) = self.pipes[side].queue.front_mut() {
                    *byte ^= 0x40;
                    self.fault = None;
                }
            }
            None => {}
        }
        Some(self)
    }

    pub(super) fn end(mut self, side: usize, ending: Ending) -> Option<Self> {
        self.fault = None;
        self.is_struck = true;
        let shut: &[usize] = match ending {
            Ending::Fin => &[0, 1],
            Ending::FinOneWay => &[side],
            Ending::Reset => {
                self.reset();
                return None;
            }
        };
        shut.iter().for_each(|side| self.pipes[*side].shut(&self.sockets[1 - side]));
        Some(self)
    }

    pub(super) fn reset(self) {
        for socket in &self.sockets {
            set_socket_linger(socket, Some(Duration::ZERO)).expect("option");
        }
    }
}
