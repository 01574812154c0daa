//! Socket that exchanges the addresses of the two processes, and keeps them in step.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::hosts::posting::LIMIT;

/// This process's end of the socket.
pub(crate) struct Line {
    stream: UnixStream,
    /// Bytes that have arrived, and were not taken.
    pending: Vec<u8>,
}

impl Line {
    pub(crate) fn of_standard_input() -> Self {
        let input = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
        let stream = UnixStream::from(input);
        stream.set_nonblocking(true).expect("a socket");
        Line { stream, pending: Vec::new() }
    }

    /// Sends a line, which is short enough for the socket to take it at once.
    pub(crate) fn say(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).expect("the other side listens");
    }

    /// Returns the other side's next line. Calls `progress` until it arrives.
    pub(crate) fn hear(&mut self, progress: impl Fn()) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            assert!(Instant::now() < deadline, "the other side says nothing");
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => panic!("the other side has ended"),
                Ok(read) => self.pending.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    progress();
                    std::thread::yield_now();
                }
                Err(error) => panic!("the other side: {error:#}"),
            }
        }
    }

    /// Sends a line, and returns the other side's next line.
    pub(crate) fn exchange(&mut self, line: &str) -> String {
        self.say(line);
        self.hear(|| {})
    }
}
