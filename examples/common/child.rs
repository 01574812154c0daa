//! Child process that prints its records first, as one line of hexadecimal digits.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::Failure;

/// Function that returns `true` when another side has ended. Dropping it ends that side.
pub(crate) type Step = Box<dyn FnMut() -> Result<bool, Failure>>;

/// Starts a shell command.
pub(crate) fn start(command: &str) -> Result<(Step, Vec<u8>), Failure> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]).stdin(Stdio::null()).stdout(Stdio::piped());
    let (mut child, mut line) = (Killed(shell.spawn()?), String::new());
    BufReader::new(child.0.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
    let digits = line.trim().as_bytes().chunks(2).map(str::from_utf8);
    let records = digits.map(|digits| Ok(u8::from_str_radix(digits?, 16)?)).collect::<Result<_, Failure>>()?;
    let step = move || match child.0.try_wait()? {
        Some(status) if !status.success() => Err(format!("the child: {status}").into()),
        status => Ok(status.is_some()),
    };
    Ok((Box::new(step), records))
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn print(records: &[u8]) -> Result<(), Failure> {
    let mut line = String::new();
    records.iter().try_for_each(|byte| write!(line, "{byte:02x}"))?;
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// Ends this process with an error, also if a provider hangs with a lock of a killed process.
pub(crate) fn exit_after(limit: Duration) {
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!("not complete in {limit:?}");
        std::process::exit(1);
    });
}
