//! [`Session`]: TLS of one connection.

use core::net::IpAddr;
use core::ops::Range;
use std::boxed::Box;

use rustix::fd::BorrowedFd;
use rustix::io::{self, Errno};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;

use super::Tls;
use super::handshake::{self, Advanced, Failed, Handshake};
use super::record::{Fault, Keys, MAX_RECORD, whole};
use crate::memory::Gathered;

/// Records of one system call.
const SIZE: usize = 4 * MAX_RECORD;

/// Encrypted bytes of a connection.
pub(crate) struct Records {
    input: [u8; SIZE],
    output: [u8; SIZE],
}

impl Records {
    pub(crate) const EMPTY: Self = Records { input: [0; SIZE], output: [0; SIZE] };
}

enum Phase {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
    Open(Box<Keys>),
    Ended(Fault),
}

/// TLS of one connection. Its records lie in the memory of the domain, its keys on the global heap.
pub(crate) struct Session {
    phase: Phase,
    tls: Tls,
    /// Name in the peer's certificate.
    name: ServerName<'static>,
    /// Received bytes of records.
    input: Range<usize>,
    /// Number of them that the handshake has seen.
    seen: usize,
    /// Decrypted bytes before those.
    plain: Range<usize>,
    /// Bytes that the kernel has not taken.
    output: Range<usize>,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Session of the side that connects.
    pub(crate) fn client(tls: &Tls, peer: IpAddr) -> Result<Self, Fault> {
        let name = tls.name_of(peer);
        Ok(Self::new(tls, Phase::Client(Box::new(handshake::client(tls, name.clone())?)), name))
    }

    /// Session of the side that accepts.
    pub(crate) fn server(tls: &Tls, peer: IpAddr) -> Result<Self, Fault> {
        Ok(Self::new(tls, Phase::Server(Box::new(handshake::server(tls)?)), tls.name_of(peer)))
    }

    fn new(tls: &Tls, phase: Phase, name: ServerName<'static>) -> Self {
        Session { phase, tls: tls.clone(), name, input: 0..0, seen: 0, plain: 0..0, output: 0..0 }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Returns `true` if the kernel has not taken all bytes.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Receives once. Returns the number of bytes, and whether the socket may have more. Returns
    /// `None` without a byte. A handshake without room is not one of this protocol.
    pub(crate) fn receive(&mut self, records: &mut Records, fd: BorrowedFd<'_>) -> io::Result<Option<(usize, bool)>> {
        let Self { input, plain, .. } = self;
        if Range::is_empty(plain) && input.start > 0 && (Range::is_empty(input) || SIZE - input.end < SIZE / 2) {
            records.input.copy_within(input.clone(), 0);
            *input = 0..input.len();
            *plain = 0..0;
        }
        let room = &mut records.input[input.end..];
        if room.is_empty() {
            return Err(Errno::PROTO);
        }
        let wanted = room.len();
        loop {
            match recv(fd, &mut *room, RecvFlags::empty()) {
                Ok((received, _)) => {
                    input.end += received;
                    return Ok(Some((received, received == wanted)));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Continues the handshake with the bytes received. Returns `true` when it is complete.
    pub(crate) fn advance(&mut self, records: &mut Records) -> Result<bool, Fault> {
        let Self { phase, input, seen, output, .. } = self;
        let received = &mut records.input[input.clone()];
        let advanced = match phase {
            Phase::Client(client) => client.advance(received, *seen, &mut records.output, output.end),
            Phase::Server(server) => server.advance(received, *seen, &mut records.output, output.end),
            Phase::Open(_) => return Ok(true),
            Phase::Ended(fault) => return Err(*fault),
        };
        match advanced {
            Ok(Advanced { used, seen: now_seen, written, is_complete }) => {
                *seen = now_seen;
                input.start += used;
                output.end = written;
                if is_complete { self.open(records) } else { Ok(false) }
            }
            Err(Failed { fault, written }) => {
                output.end = written;
                *phase = Phase::Ended(fault);
                Err(fault)
            }
        }
    }

    /// Takes the keys of a complete handshake, and verifies the name of the peer.
    fn open(&mut self, records: &mut Records) -> Result<bool, Fault> {
        let count = self.tls.0.records_per_key;
        let (verified, mut keys) = match core::mem::replace(&mut self.phase, Phase::Ended(Fault::Local)) {
            Phase::Client(client) => (client.verify(&self.name), client.into_keys(count)?),
            Phase::Server(server) => (server.verify(&self.name), server.into_keys(count)?),
            Phase::Open(_) | Phase::Ended(_) => return Err(Fault::Local),
        };
        if let Err(fault) = verified {
            self.output.end += keys.seal_refusal(&mut records.output[self.output.end..])?;
            self.phase = Phase::Ended(fault);
            return Err(fault);
        }
        self.phase = Phase::Open(Box::new(keys));
        Ok(true)
    }

    /// Decrypted bytes, at least one, or `None` without a whole record.
    pub(crate) fn plaintext<'r>(&mut self, records: &'r mut Records) -> Result<Option<&'r [u8]>, Fault> {
        let Self { phase, input, plain, .. } = self;
        let Phase::Open(keys) = phase else { return Ok(None) };
        while Range::is_empty(plain) {
            let Some(len) = whole(&records.input[input.clone()])? else { return Ok(None) };
            let range = input.start..input.start + len;
            let content = keys.open(&mut records.input[range.clone()])?;
            *plain = range.start + content.start..range.start + content.end;
            input.start = range.end;
        }
        Ok(Some(&records.input[plain.clone()]))
    }

    /// Drops the first bytes of [`plaintext`](Self::plaintext).
    pub(crate) fn consume(&mut self, count: usize) {
        self.plain.start += count;
    }

    /// Encrypts and sends bytes, as far as there is room. Returns the number of those that were
    /// encrypted, and whether the kernel has taken them.
    pub(crate) fn send(
        &mut self,
        records: &mut Records,
        fd: BorrowedFd<'_>,
        mut bytes: Gathered<'_>,
    ) -> io::Result<(u64, bool)> {
        let mut taken = 0;
        while self.flush(records, fd)? {
            let Self { phase, output, .. } = self;
            let Phase::Open(keys) = phase else { return Err(Errno::NOTCONN) };
            // Room for a change of the key, too.
            while SIZE - output.end >= MAX_RECORD {
                let sealed = keys.seal(&mut records.output[output.end..], |room| bytes.copy_to(room));
                let (len, content) = sealed.map_err(|_| Errno::PROTO)?;
                output.end += len;
                taken += content as u64;
                if content == 0 {
                    break;
                }
            }
            if Range::is_empty(output) {
                return Ok((taken, true));
            }
        }
        Ok((taken, false))
    }

    /// Sends encrypted bytes. Returns `true` if the kernel has taken all.
    pub(crate) fn flush(&mut self, records: &Records, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let Self { output, .. } = self;
        while !Range::is_empty(output) {
            match send(fd, &records.output[output.clone()], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => output.start += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        *output = 0..0;
        Ok(true)
    }
}
