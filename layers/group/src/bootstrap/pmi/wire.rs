use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::string::String;
use std::vec::Vec;
use std::{format, io};

use loom_core::deadline::Deadline;

use super::super::Pause;
use super::LauncherFault;

const PREFIX: usize = 6;
const LONGEST: usize = 4096;
const LONGEST_LINE: usize = 256;

#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    /// Grows by received bytes.
    inbox: Vec<u8>,
}

impl Wire {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Wire { stream, inbox: Vec::new() })
    }

    pub(super) fn line(&mut self, line: &str, until: &mut dyn Deadline) -> Result<Fields<'_>, LauncherFault> {
        self.write(line.as_bytes(), until)?;
        self.inbox.clear();
        while self.inbox.last() != Some(&b'\n') {
            let want = self.inbox.len().saturating_add(1);
            if want > LONGEST_LINE {
                return Err(LauncherFault::Malformed);
            }
            self.fill(want, until)?;
        }
        Ok(Fields { text: text(&self.inbox)?, separator: ' ' })
    }

    pub(super) fn request(
        &mut self,
        command: &str,
        fields: &str,
        until: &mut dyn Deadline,
    ) -> Result<Fields<'_>, LauncherFault> {
        let body = format!("cmd={command};{fields}");
        self.write(format!("{:>PREFIX$}{body}", body.len()).as_bytes(), until)?;
        self.inbox.clear();
        self.fill(PREFIX, until)?;
        let digits = text(&self.inbox)?.trim_start_matches(' ');
        let len = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        let len: usize = len.filter(|&len| len <= LONGEST).ok_or(LauncherFault::Malformed)?;
        self.inbox.clear();
        self.fill(len, until)?;
        let answer = Fields { text: text(&self.inbox)?, separator: ';' };
        let named = answer.get("cmd").and_then(|name| name.strip_suffix("-response"));
        if named == Some(command) { Ok(answer) } else { Err(LauncherFault::Malformed) }
    }

    fn fill(&mut self, want: usize, until: &mut dyn Deadline) -> Result<(), LauncherFault> {
        let (mut chunk, mut pause) = ([0; 1024], Pause::default());
        while let missing @ 1.. = want.saturating_sub(self.inbox.len()) {
            let room = missing.min(chunk.len());
            match self.stream.read(chunk.get_mut(..room).unwrap_or_default()) {
                Ok(0) => return Err(LauncherFault::Gone),
                Ok(len) => self.inbox.extend_from_slice(chunk.get(..len).unwrap_or_default()),
                Err(error) => wait(&error, &mut pause, until)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8], until: &mut dyn Deadline) -> Result<(), LauncherFault> {
        let mut pause = Pause::default();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(LauncherFault::Gone),
                Ok(len) => bytes = bytes.get(len..).unwrap_or_default(),
                Err(error) => wait(&error, &mut pause, until)?,
            }
        }
        Ok(())
    }
}

fn wait(error: &io::Error, pause: &mut Pause, until: &mut dyn Deadline) -> Result<(), LauncherFault> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock if until.passed() => Err(LauncherFault::Silent),
        ErrorKind::WouldBlock => {
            pause.wait();
            Ok(())
        }
        _ => Err(LauncherFault::Gone),
    }
}

fn text(bytes: &[u8]) -> Result<&str, LauncherFault> {
    core::str::from_utf8(bytes).map_err(|_| LauncherFault::Malformed)
}

/// Values used here contain no separator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'w> {
    text: &'w str,
    separator: char,
}

impl<'w> Fields<'w> {
    pub(super) fn get(self, name: &str) -> Option<&'w str> {
        let fields = self.text.trim_end_matches('\n').split(self.separator);
        fields.filter_map(|field| field.split_once('=')).find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub(super) fn number<N: core::str::FromStr>(self, name: &str) -> Result<N, LauncherFault> {
        self.get(name).and_then(|value| value.parse().ok()).ok_or(LauncherFault::Malformed)
    }

    pub(super) fn done(self) -> Result<Self, LauncherFault> {
        match self.number("rc")? {
            0 => Ok(self),
            rc => Err(LauncherFault::Refused { rc }),
        }
    }
}

pub(super) fn encode(bytes: &[u8], into: &mut String) {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    bytes.iter().for_each(|byte| into.extend([digit(byte >> 4), digit(byte & 15)]));
}

pub(super) fn decode(digits: &str, into: &mut Vec<u8>) -> bool {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return false };
    pairs.iter().all(|pair| {
        let byte = core::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'));
        byte.and_then(|pair| u8::from_str_radix(pair, 16).ok()).map(|byte| into.push(byte)).is_some()
    })
}
