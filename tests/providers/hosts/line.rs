//! The socket over which the two processes learn each other's address, and keep in step.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::hosts::posting::LIMIT;

/// This process's end of it.
pub(crate) struct Line {
    stream: UnixStream,
    /// What has arrived, and was not taken yet.
    pending: Vec<u8>,
}

impl Line {
    pub(crate) fn of_standard_input() -> Self {
        let input = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
        let stream = UnixStream::from(input);
        stream.set_nonblocking(true).expect("a socket");
        Line { stream, pending: Vec::new() }
    }

    /// Says a line, which is short enough for the socket to take it at once.
    pub(crate) fn say(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).expect("the other side listens");
    }

    /// The other side's next line. Until it is there, `progress` is called.
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

    /// Says a line, and hears what the other side says then.
    pub(crate) fn exchange(&mut self, line: &str) -> String {
        self.say(line);
        self.hear(|| {})
    }
}
