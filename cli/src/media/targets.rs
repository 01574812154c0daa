//! Targets of a sender: threads, processes of this machine, or processes that listen.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Receiving, RecvTimeoutError, Sender as Channel, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use loom_core::info::Info;
use loom_core::transport::Transport;
use serde_json::Value;

use super::format::Format;
use super::receive::{Files, Receiver};
use super::send::Control;
use crate::failure::Failure;
use crate::play::bootstrap::{Connection, Until};
use crate::play::frame::Message;
use crate::text::harmless;

pub(super) const MAX_TARGETS: usize = 32;

const TICK: Duration = Duration::from_millis(5);

pub(super) struct Started {
    pub(super) number: usize,
    /// Of video and audio.
    pub(super) records: [Vec<u8>; 2],
}

#[derive(Clone)]
pub(super) enum Place {
    Thread,
    /// Process of this machine, with these options of `loom media receive`.
    Process(Vec<String>),
    Listening(Vec<String>),
}

/// Number of a target, and the figures of its flows. `None` if it was killed, or is a process
/// elsewhere.
pub(super) type Ended = (usize, Result<Option<Vec<Value>>, Failure>);

pub(super) struct Targets<'s, 'e, T: Transport + 'static> {
    pub(super) scope: &'s Scope<'s, 'e>,
    pub(super) info: &'e Info<T>,
    pub(super) format: Format,
    pub(super) place: Place,
    pub(super) files: Files,
    pub(super) timeout: Duration,
    pub(super) silence: Duration,
    pub(super) started: Channel<Result<Started, Failure>>,
    pub(super) interrupted: &'e AtomicBool,
    pub(super) running: Vec<(usize, Arc<AtomicBool>, ScopedJoinHandle<'s, Ended>)>,
    pub(super) next: usize,
    /// Number of the first not killed.
    pub(super) oldest: usize,
}

impl<T: Transport + 'static> Control for Targets<'_, '_, T>
where
    Info<T>: Sync,
{
    fn start(&mut self) {
        let number = self.next;
        self.next += 1;
        let files = if number == 1 { self.files.clone() } else { Files::default() };
        let kill = Arc::new(AtomicBool::new(false));
        let one = One {
            number,
            format: self.format,
            files,
            timeout: self.timeout,
            silence: self.silence,
            kill: Arc::clone(&kill),
            interrupted: self.interrupted,
        };
        let (info, place, started) = (self.info, self.place.clone(), self.started.clone());
        let handle = self.scope.spawn(move || {
            let ended = match place {
                Place::Thread => one.in_thread(info, &started),
                Place::Process(options) => one.in_process(&options, &started),
                Place::Listening(addresses) => one.listening(addresses.get(number - 1), &started),
            };
            let ended = ended.map_err(|failure| {
                let text = failure.to_string();
                let _ = started.send(Err(failure));
                Failure::Unavailable(text)
            });
            (number, ended)
        });
        self.running.push((number, kill, handle));
    }

    fn kill(&mut self) -> Option<usize> {
        let (number, kill, _) = self.running.iter().find(|(number, ..)| *number == self.oldest)?;
        kill.store(true, Ordering::Relaxed);
        self.oldest += 1;
        Some(*number)
    }

    fn kill_others(&mut self, numbers: &[usize]) {
        let others = self.running.iter().filter(|(number, ..)| !numbers.contains(number));
        others.for_each(|(_, kill, _)| kill.store(true, Ordering::Relaxed));
    }
}

impl<T: Transport + 'static> Targets<'_, '_, T> {
    pub(super) fn join(self) -> Vec<Ended> {
        let ended = self.running.into_iter().map(|(_, _, handle)| handle.join());
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }
}

struct One<'e> {
    number: usize,
    format: Format,
    files: Files,
    timeout: Duration,
    silence: Duration,
    kill: Arc<AtomicBool>,
    interrupted: &'e AtomicBool,
}

type Reports = Channel<Result<Started, Failure>>;

impl One<'_> {
    fn in_thread<T: Transport + 'static>(
        self,
        info: &Info<T>,
        started: &Reports,
    ) -> Result<Option<Vec<Value>>, Failure> {
        let (mut receiver, records) = Receiver::open(info, &self.format, self.files, self.silence)?;
        let _ = started.send(Ok(Started { number: self.number, records }));
        match receiver.run(self.timeout, &self.kill) {
            Err(Failure::Interrupted) => return Ok(None),
            ended => ended?,
        }
        receiver.write_files()?;
        Ok(Some(receiver.figures()))
    }

    fn in_process(self, options: &[String], started: &Reports) -> Result<Option<Vec<Value>>, Failure> {
        let program = env::current_exe().map_err(Failure::when("looking for this program's file"))?;
        let mut command = Command::new(program);
        command.args(["media", "receive", "--json", "--listen", "127.0.0.1:0"]).args(options);
        for (option, path) in [("--png", &self.files.png), ("--wav", &self.files.wav)] {
            if let Some(path) = path {
                command.arg(option).arg(path);
            }
        }
        // Ctrl-C ends the sender, which ends its targets.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Killed(command.spawn().map_err(Failure::when("starting a target"))?);
        let lines = lines_of(process.0.stderr.take().ok_or_else(no_output)?);
        let mut last = String::new();
        let begin = Instant::now();
        let address = loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => match line.strip_prefix("listening on ") {
                    Some(address) => break address.to_owned(),
                    // Also logs of libfabric.
                    None => last = line,
                },
                Err(RecvTimeoutError::Timeout) if begin.elapsed() < self.timeout => {}
                Err(_) => return Err(Failure::Unavailable(format!("a target does not listen: {}", harmless(&last)))),
            }
            if self.kill.load(Ordering::Relaxed) {
                return Ok(None);
            }
        };
        self.meet(&address, started)?;
        let status = loop {
            if self.kill.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if let Some(status) = process.0.try_wait().map_err(Failure::when("waiting for a target"))? {
                break status;
            }
            std::thread::sleep(TICK);
        };
        let mut text = String::new();
        let mut output = process.0.stdout.take().ok_or_else(no_output)?;
        output.read_to_string(&mut text).map_err(Failure::when("reading the output of a target"))?;
        if let Ok(Value::Array(flows)) = serde_json::from_str(&text)
            && (status.success() || super::check([&flows[..]], false).is_err())
        {
            return Ok(Some(flows));
        }
        let last = lines.iter().last().unwrap_or_default();
        Err(Failure::OtherSide(format!("ended with {status}: {}", harmless(&last))))
    }

    fn listening(self, address: Option<&String>, started: &Reports) -> Result<Option<Vec<Value>>, Failure> {
        self.meet(address.ok_or_else(|| Failure::Usage("--to has no more addresses".into()))?, started)?;
        Ok(None)
    }

    fn meet(&self, address: &str, started: &Reports) -> Result<(), Failure> {
        let until = Until { timeout: self.timeout, interrupted: self.interrupted };
        let mut connection = Connection::connect(address, until)?;
        connection.send(&Message::Data(self.format.to_text().into_bytes()))?;
        let mut records = [Vec::new(), Vec::new()];
        for record in &mut records {
            *record = receive(&mut connection, until)?;
        }
        let _ = started.send(Ok(Started { number: self.number, records }));
        Ok(())
    }
}

pub(super) fn receive(connection: &mut Connection, until: Until<'_>) -> Result<Vec<u8>, Failure> {
    let begin = Instant::now();
    loop {
        match connection.receive()? {
            Some(Message::Data(bytes)) => return Ok(bytes),
            Some(Message::Failed(reason)) => return Err(Failure::OtherSide(format!("failed: {reason}"))),
            None if until.interrupted.load(Ordering::Relaxed) => return Err(Failure::Interrupted),
            None if begin.elapsed() > until.timeout => {
                return Err(Failure::Timeout { doing: "meeting the other side".into(), waited: until.timeout });
            }
            None => std::thread::sleep(TICK),
        }
    }
}

/// Lines of a process, read by a thread.
fn lines_of(output: ChildStderr) -> Receiving<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    lines
}

fn no_output() -> Failure {
    Failure::Unavailable("a target has no output".into())
}

/// Process that does not outlive its thread.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
