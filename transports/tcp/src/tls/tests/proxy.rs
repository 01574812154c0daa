//! [`Proxy`]: forwards the bytes of connections, step by step, and keeps or alters them.

use core::net::SocketAddr;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::vec;
use std::vec::Vec;

pub(super) struct Proxy {
    listener: TcpListener,
    to: SocketAddr,
    /// Both ends of each connection.
    connections: Vec<[TcpStream; 2]>,
    /// Bytes of one step in each direction.
    piece: usize,
    /// Bytes of the side that connects.
    forwarded: Vec<u8>,
    alter_at: Option<usize>,
    /// Bytes of the other side until the one to alter.
    alter_answer_at: Option<usize>,
    has_altered: bool,
}

impl Proxy {
    pub(super) fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("option");
        let (connections, forwarded) = (Vec::new(), Vec::new());
        Proxy {
            listener,
            to,
            connections,
            piece: 1 << 16,
            forwarded,
            alter_at: None,
            alter_answer_at: None,
            has_altered: false,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("bound")
    }

    pub(super) fn pieces_of(&mut self, len: usize) {
        self.piece = len;
    }

    /// Alters one bit of the byte after so many others.
    pub(super) fn alter_after(&mut self, count: usize) {
        self.alter_at = Some(self.forwarded.len() + count);
    }

    /// Alters one bit of the other side's byte after so many others.
    pub(super) fn alter_answer_after(&mut self, count: usize) {
        self.alter_answer_at = Some(count);
    }

    pub(super) fn has_altered(&self) -> bool {
        self.has_altered
    }

    pub(super) fn forwarded(&self) -> &[u8] {
        &self.forwarded
    }

    pub(super) fn step(&mut self) {
        if let Ok((from, _)) = self.listener.accept() {
            let to = TcpStream::connect(self.to).expect("the server listens");
            for stream in [&from, &to] {
                stream.set_nonblocking(true).expect("option");
                stream.set_nodelay(true).expect("option");
            }
            self.connections.push([from, to]);
        }
        let mut bytes = vec![0; self.piece];
        for ends in &self.connections {
            for direction in 0..2 {
                let [mut from, mut to] = [&ends[direction], &ends[1 - direction]];
                match from.read(&mut bytes) {
                    Ok(0) => {
                        let _ = to.shutdown(Shutdown::Write);
                    }
                    Ok(len) => {
                        let bytes = &mut bytes[..len];
                        if direction == 0 {
                            let begin = self.forwarded.len();
                            let altered = self.alter_at.and_then(|at| bytes.get_mut(at.checked_sub(begin)?));
                            if let Some(byte) = altered {
                                *byte ^= 1;
                                self.has_altered = true;
                            }
                            self.forwarded.extend_from_slice(bytes);
                        } else if let Some(at) = self.alter_answer_at.take() {
                            match bytes.get_mut(at) {
                                Some(byte) => *byte ^= 1,
                                None => self.alter_answer_at = Some(at - bytes.len()),
                            }
                        }
                        // An end that is closed takes no more bytes.
                        let _ = to.write_all(bytes);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => {
                        let _ = to.shutdown(Shutdown::Both);
                    }
                }
            }
        }
    }
}
