//! TCP connection of two processes, with [frames](crate::play::frame).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::play::frame::{FrameError, Inbox, MAGIC, MAX_FRAME, Message, encode};

const PAUSE: Duration = Duration::from_millis(20);

/// Short, so that Ctrl-C is noticed in between.
const ATTEMPT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
pub(crate) struct Until<'a> {
    pub(crate) timeout: Duration,
    pub(crate) interrupted: &'a AtomicBool,
}

/// Reads never wait.
pub(crate) struct Connection {
    stream: TcpStream,
    timeout: Duration,
    inbox: Inbox,
}

impl Connection {
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
                return Err(Failure::Unavailable(format!(
                    "no process connected to {at} within {waited} s: start the other side, or wait longer with --timeout"
                )));
            }
        }
    }

    pub(crate) fn connect(to: &str, until: Until<'_>) -> Result<Self, Failure> {
        let begin = Instant::now();
        loop {
            let error = match Self::attempt(to) {
                Ok(stream) => return Self::new(stream, until.timeout),
                Err(error) => error,
            };
            if error.kind() == ErrorKind::InvalidInput || begin.elapsed() >= until.timeout {
                let waited = begin.elapsed().as_secs_f64();
                return Err(Failure::Unavailable(format!(
                    "cannot connect to {to}: {error} (tried for {waited:.1} s): does a process listen there, and does a firewall let it through?"
                )));
            }
            pause(until.interrupted)?;
        }
    }

    fn attempt(to: &str) -> io::Result<TcpStream> {
        let mut last = io::Error::new(ErrorKind::InvalidInput, "the name has no address");
        for address in to.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, ATTEMPT) {
                // Without a listener at a port that clients may also get, a client may connect to
                // itself.
                Ok(stream) if stream.local_addr()? == stream.peer_addr()? => last = ErrorKind::ConnectionRefused.into(),
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn new(stream: TcpStream, timeout: Duration) -> Result<Self, Failure> {
        let failed = Failure::when("preparing the connection to the other process");
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        let mut connection = Connection { stream, timeout, inbox: Inbox::default() };
        connection.write(&MAGIC)?;
        Ok(connection)
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.write(&encode(message).map_err(not_a_frame)?)
    }

    /// Waits only if the other process has stopped reading: frames are few and small.
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

    pub(crate) fn receive(&mut self) -> Result<Option<Message>, Failure> {
        if let Some(message) = self.inbox.take().map_err(not_a_frame)? {
            return Ok(Some(message));
        }
        let mut bytes = [0; MAX_FRAME];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Failure::OtherSide("closed the connection".into())),
            Ok(read) => {
                self.inbox.arrived(&bytes[..read]);
                self.inbox.take().map_err(not_a_frame)
            }
            Err(error) if is_momentary(&error) => Ok(None),
            Err(error) => Err(lost(&error)),
        }
    }
}

fn not_a_frame(error: FrameError) -> Failure {
    match error {
        FrameError::TooLong => Failure::Protocol(error.to_string()),
        FrameError::Stranger | FrameError::Garbled => Failure::OtherSide(error.to_string()),
    }
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
