//! Connections of the stranger, and the endpoint's answers on them.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use loom_tcp::wire::{
    ByteOrder, ConnectKind, ConnectMessage, Frame, MAX_CONNECT_MESSAGE, MAX_HEADER, Operation, RdmData,
};
use rustix::net::sockopt::set_socket_linger;

pub struct Line {
    stream: TcpStream,
    /// All written bytes, and the number of sent ones.
    written: Vec<u8>,
    sent: usize,
    arrived: Vec<u8>,
    order: ByteOrder,
    frames: u8,
    frames_back: u8,
    /// Port that the request claimed.
    pub port: Option<u16>,
    /// The endpoint has opened the connection.
    pub is_callee: bool,
    /// The endpoint has accepted the request.
    pub is_accepted: bool,
    /// The bytes are messages of the protocol, so the endpoint reads them as intended.
    pub is_honest: bool,
    /// No message ends the connection.
    pub is_lasting: bool,
    /// The endpoint has ended the connection.
    pub is_over: bool,
    /// Acknowledgements and reads that the endpoint owes.
    pub acks: usize,
    pub reads: VecDeque<u64>,
    /// Acknowledgements and reads that the stranger owes.
    pub acks_owed: usize,
    pub reads_owed: VecDeque<u64>,
}

impl Line {
    pub fn over(stream: TcpStream, is_callee: bool) -> Self {
        stream.set_nonblocking(true).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        // Without this, the ports of many stories would wait for late packets.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
        Line {
            stream,
            written: Vec::new(),
            sent: 0,
            arrived: Vec::new(),
            order: ByteOrder::NATIVE,
            frames: 0,
            frames_back: 0,
            port: None,
            is_callee,
            is_accepted: false,
            is_honest: true,
            is_lasting: !is_callee,
            is_over: false,
            acks: 0,
            reads: VecDeque::new(),
            acks_owed: 0,
            reads_owed: VecDeque::new(),
        }
    }

    /// Sets the usual wait for late packets.
    pub fn linger(&self) {
        let _ = set_socket_linger(&self.stream, None);
    }

    pub fn shut_down(&mut self) {
        self.is_lasting = false;
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Writes a connect message. `is_foreign`: from a machine of the other byte order.
    pub fn connect(&mut self, kind: ConnectKind, data: RdmData, is_foreign: bool) {
        let mut bytes = [0; MAX_CONNECT_MESSAGE];
        let len = ConnectMessage { kind, data: &data.encode() }.encode(&mut bytes).expect("eight bytes");
        let is_expected = self.written.is_empty() && (kind != ConnectKind::Request) == self.is_callee;
        self.is_lasting &= is_expected && !self.is_callee;
        self.is_honest &= is_expected;
        if is_foreign {
            bytes[24..32].reverse();
            self.order = ByteOrder::Big;
        }
        self.written.extend(&bytes[..len]);
        if kind == ConnectKind::Request {
            self.port = Some(data.port);
        }
    }

    /// Writes a header, and returns the number of the frame.
    pub fn header(&mut self, frame: &Frame) {
        // The first message is not a frame.
        self.is_honest &= !self.written.is_empty();
        self.is_lasting &= !self.written.is_empty();
        let mut header = [0; MAX_HEADER];
        let len = frame.encode(self.order, self.frames, &mut header);
        self.frames = self.frames.wrapping_add(1);
        self.written.extend(&header[..len]);
    }

    pub fn payload(&mut self, bytes: impl Iterator<Item = u8>) {
        self.written.extend(bytes);
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.is_honest &= bytes.is_empty();
        self.is_lasting &= bytes.is_empty();
        self.written.extend(bytes);
    }

    /// Changes an unsent byte.
    pub fn flip(&mut self, back: usize, mask: u8) {
        let unsent = self.written.len() - self.sent;
        if unsent > 0 && mask != 0 {
            let at = self.written.len() - 1 - back % unsent;
            self.written[at] ^= mask;
            self.is_honest = false;
            self.is_lasting = false;
        }
    }

    pub fn is_sent(&self) -> bool {
        self.sent == self.written.len()
    }

    pub fn send(&mut self, count: usize) {
        let end = self.written.len().min(self.sent.saturating_add(count));
        if self.sent == end {
            return;
        }
        match self.stream.write(&self.written[self.sent..end]) {
            Ok(sent) => self.sent += sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.sent = self.written.len(),
        }
    }

    /// Receives and checks the endpoint's bytes, which follow the protocol for any input.
    pub fn receive(&mut self) {
        let mut bytes = [0; 4096];
        for _ in 0..16 {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.is_over = true;
                    break;
                }
                Ok(len) => self.arrived.extend(&bytes[..len]),
            }
        }
        if self.is_honest {
            let used = self.read();
            self.arrived.drain(..used);
        }
    }

    fn read(&mut self) -> usize {
        let bytes = core::mem::take(&mut self.arrived);
        let mut used = 0;
        if !self.is_accepted
            && let Some((message, _, len)) = ConnectMessage::parse(&bytes).expect("a connect message")
        {
            let data = RdmData::parse(message.data).expect("of an endpoint");
            match message.kind {
                ConnectKind::Request => assert!(self.is_callee, "a request on a connection of the stranger"),
                ConnectKind::Response => assert!(!self.is_callee && self.port == Some(data.port), "{data:?}"),
                ConnectKind::Reject => self.is_lasting = false,
            }
            self.is_accepted = message.kind != ConnectKind::Reject;
            used = len;
        }
        while self.is_accepted
            && let Some((frame, len)) = Frame::parse(&bytes[used..], self.order).expect("a frame")
            && let Some(end) = usize::try_from(frame.payload).ok().map(|payload| used + len + payload)
            && end <= bytes.len()
        {
            let mut again = [0; MAX_HEADER];
            assert_eq!(frame.encode(self.order, self.frames_back, &mut again), len, "{frame:?}");
            assert_eq!(bytes[used..used + len], again[..len], "frames are numbered");
            self.frames_back = self.frames_back.wrapping_add(1);
            self.answer(&frame);
            used = end;
        }
        self.arrived = bytes;
        used
    }

    fn answer(&mut self, frame: &Frame) {
        match &frame.operation {
            Operation::Acknowledgement => {
                self.acks = self.acks.checked_sub(1).expect("an acknowledgement that was requested");
            }
            Operation::ReadResponse => {
                assert_eq!(self.reads.pop_front(), Some(frame.payload), "the bytes that were requested");
            }
            Operation::ReadRequest { parts } => {
                assert!(frame.flags.is_empty(), "libfabric would copy them into its answer");
                self.reads_owed.push_back(parts.iter().map(|part| part.len).sum());
            }
            Operation::Message { .. } | Operation::Tagged { .. } | Operation::Write { .. } => {
                self.acks_owed += usize::from(!frame.flags.is_empty());
            }
            other => panic!("{other:?} without a rendezvous"),
        }
    }
}
