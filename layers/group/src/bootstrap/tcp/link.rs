//! [`Link`]: a connection that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::vec::Vec;

use super::frame::Frame;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

pub(super) struct Link {
    stream: TcpStream,
    /// Grows by received bytes, not by a stated length.
    pub(super) inbox: Vec<u8>,
    outbox: Vec<u8>,
    sent: usize,
    moved: bool,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Link { stream, inbox: Vec::new(), outbox: Vec::new(), sent: 0, moved: false })
    }

    /// Returns `false` if `want` bytes have not arrived.
    pub(super) fn fill(&mut self, want: usize) -> Result<bool, Gone> {
        let mut chunk = [0; 4096];
        while let missing @ 1.. = want.saturating_sub(self.inbox.len()) {
            let room = missing.min(chunk.len());
            match self.stream.read(chunk.get_mut(..room).unwrap_or_default()) {
                Ok(0) => return Err(Gone),
                Ok(len) => {
                    self.moved = true;
                    self.inbox.extend_from_slice(chunk.get(..len).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        Ok(true)
    }

    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }

    /// Returns `false` if some bytes remain.
    pub(super) fn flush(&mut self) -> Result<bool, Gone> {
        let mut sent = self.sent;
        let outbox = core::mem::take(&mut self.outbox);
        let all = self.write(&outbox, &mut sent);
        (self.outbox, self.sent) = (outbox, sent);
        if all == Ok(true) {
            self.outbox.clear();
            self.sent = 0;
        }
        all
    }

    pub(super) fn send(&mut self, bytes: &[u8], sent: &mut usize) -> Result<bool, Gone> {
        Ok(self.flush()? && self.write(bytes, sent)?)
    }

    fn write(&mut self, bytes: &[u8], sent: &mut usize) -> Result<bool, Gone> {
        while let rest @ [_, ..] = bytes.get(*sent..).unwrap_or_default() {
            match self.stream.write(rest) {
                Ok(0) => return Err(Gone),
                Ok(len) => {
                    self.moved = true;
                    *sent = sent.saturating_add(len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        Ok(true)
    }

    pub(super) fn report(&mut self, frame: Frame) -> Result<(), Gone> {
        self.queue(&frame.to_bytes());
        self.flush().map(|_| ())
    }

    pub(super) fn has_moved(&mut self) -> bool {
        core::mem::take(&mut self.moved)
    }
}
