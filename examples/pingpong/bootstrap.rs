//! The TCP connection over which two processes learn each other's address and keep in step.
//!
//! Each side first sends [`MAGIC`], then frames: one byte for the kind, the length as 32 bits (little-endian, at most
//! [`MAX_FRAME`]), and the bytes. What does not look like that ends the connection with an error.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::link::Message;

/// The last byte is the version of what follows.
const MAGIC: [u8; 8] = *b"LOOM-PP\x01";
const MAX_FRAME: usize = 4096;
const HEADER: usize = 5;
const DATA: u8 = 0;
const FAILED: u8 = 1;

/// How long to sleep between two attempts to connect or accept.
const PAUSE: Duration = Duration::from_millis(20);

/// How long one attempt to connect may take, so that Ctrl-C is noticed in between.
const ATTEMPT: Duration = Duration::from_millis(500);

/// How to wait: until then, unless interrupted.
#[derive(Clone, Copy)]
pub(crate) struct Until<'a> {
    pub(crate) timeout: Duration,
    pub(crate) interrupted: &'a AtomicBool,
}

/// A connection to the other process. Reads never wait.
pub(crate) struct Connection {
    stream: TcpStream,
    timeout: Duration,
    /// Bytes which have arrived and are not taken yet.
    pending: Vec<u8>,
    greeted: bool,
}

impl Connection {
    /// Binds `at`, tells `listening` where that is, and waits for a process to connect.
    pub(crate) fn listen(
        at: &str,
        until: Until<'_>,
        listening: impl FnOnce(SocketAddr) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Unavailable(format!("cannot listen on {at}: {error}"));
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        listening(listener.local_addr().map_err(failed)?)?;
        let begin = Instant::now();
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Self::new(stream, until.timeout),
                Err(error) if is_momentary(&error) => {}
                Err(error) => return Err(failed(error)),
            }
            pause(until.interrupted)?;
            if begin.elapsed() >= until.timeout {
                let waited = until.timeout.as_secs_f64();
                return Err(Failure::Unavailable(format!("nobody connected to {at} within {waited} s")));
            }
        }
    }

    /// Connects to a process that listens, or will soon.
    pub(crate) fn connect(to: &str, until: Until<'_>) -> Result<Self, Failure> {
        let begin = Instant::now();
        loop {
            let error = match Self::attempt(to) {
                Ok(stream) => return Self::new(stream, until.timeout),
                Err(error) => error,
            };
            // An address that is none does not become one by waiting.
            if error.kind() == ErrorKind::InvalidInput || begin.elapsed() >= until.timeout {
                let waited = begin.elapsed().as_secs_f64();
                return Err(Failure::Unavailable(format!("cannot connect to {to}: {error} (tried for {waited:.1} s)")));
            }
            pause(until.interrupted)?;
        }
    }

    fn attempt(to: &str) -> io::Result<TcpStream> {
        let mut last = io::Error::new(ErrorKind::InvalidInput, "the name has no address");
        for address in to.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, ATTEMPT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn new(stream: TcpStream, timeout: Duration) -> Result<Self, Failure> {
        let failed = Failure::when("preparing the connection to the other process");
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        let mut connection = Connection { stream, timeout, pending: Vec::new(), greeted: false };
        connection.write(&MAGIC)?;
        Ok(connection)
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.write(&encode(message)?)
    }

    /// Frames are few and small, so the socket takes them at once unless the other process has stopped reading.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let begin = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_momentary(&error) && begin.elapsed() < self.timeout => thread::sleep(PAUSE),
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(())
    }

    /// The next message, if all of it is here.
    pub(crate) fn receive(&mut self) -> Result<Option<Message>, Failure> {
        if let Some(message) = self.take()? {
            return Ok(Some(message));
        }
        let mut bytes = [0; MAX_FRAME];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Failure::OtherSide("closed the connection".into())),
            Ok(read) => {
                self.pending.extend_from_slice(&bytes[..read]);
                self.take()
            }
            Err(error) if is_momentary(&error) => Ok(None),
            Err(error) => Err(lost(&error)),
        }
    }

    fn take(&mut self) -> Result<Option<Message>, Failure> {
        if !self.greeted {
            let Some(magic) = self.pending.first_chunk() else { return Ok(None) };
            if *magic != MAGIC {
                return Err(Failure::OtherSide("is not a pingpong of this version".into()));
            }
            self.pending.drain(..MAGIC.len());
            self.greeted = true;
        }
        let Some((message, len)) = decode(&self.pending)? else { return Ok(None) };
        self.pending.drain(..len);
        Ok(Some(message))
    }
}

fn encode(message: &Message) -> Result<Vec<u8>, Failure> {
    let (kind, bytes) = match message {
        Message::Data(bytes) => (DATA, &bytes[..]),
        // A long reason is cut: the end of it is not worth a failure of its own.
        Message::Failed(reason) => (FAILED, &reason.as_bytes()[..reason.len().min(MAX_FRAME)]),
    };
    let len = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME);
    let len = len.ok_or_else(|| Failure::Protocol("a message is too long for the other process".into()))?;
    let mut frame = vec![kind];
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(bytes);
    Ok(frame)
}

/// The first frame and its length, if all of it is here.
fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, Failure> {
    let Some([kind, len @ ..]) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let garbled = || Failure::OtherSide("sent what is not a frame".into());
    let len = usize::try_from(u32::from_le_bytes(*len)).ok().filter(|len| *len <= MAX_FRAME).ok_or_else(garbled)?;
    let Some(payload) = bytes.get(HEADER..HEADER + len) else { return Ok(None) };
    let message = match *kind {
        DATA => Message::Data(payload.to_vec()),
        // Not trusted to be harmless for a terminal.
        FAILED => Message::Failed(String::from_utf8_lossy(payload).replace(char::is_control, " ")),
        _ => return Err(garbled()),
    };
    Ok(Some((message, HEADER + len)))
}

fn is_momentary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn lost(error: &io::Error) -> Failure {
    Failure::OtherSide(format!("cannot be reached any more: {error}"))
}

fn pause(interrupted: &AtomicBool) -> Result<(), Failure> {
    thread::sleep(PAUSE);
    if interrupted.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_whole_or_not_at_all() {
        for message in [Message::Data(vec![]), Message::Data(vec![7; MAX_FRAME]), Message::Failed("why".into())] {
            let Ok(frame) = encode(&message) else { panic!("fits") };
            for len in 0..frame.len() {
                assert!(matches!(decode(&frame[..len]), Ok(None)));
            }
            assert!(matches!(decode(&frame), Ok(Some((same, len))) if same == message && len == frame.len()));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(decode(&[9, 0, 0, 0, 0]).is_err());
        assert!(decode(&[DATA, 1, 16, 0, 0]).is_err());
        assert!(decode(&[DATA, 255, 255, 255, 255]).is_err());
        assert!(encode(&Message::Data(vec![0; MAX_FRAME + 1])).is_err());
    }
}
