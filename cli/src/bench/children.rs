use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::play::setup::Setup;

const GRACE: Duration = Duration::from_secs(1);

pub(super) struct Listener {
    process: Child,
    said: BufReader<ChildStderr>,
}

pub(super) fn listener(setup: &Setup) -> Result<Listener, Failure> {
    let failed = Failure::when("starting the second process");
    let program = env::current_exe().map_err(Failure::when("looking for this program's file"))?;
    let sizes: Vec<_> = setup.sizes.iter().map(ToString::to_string).collect();
    let mut command = Command::new(program);
    command.args(["bench", "--listen", "127.0.0.1:0", "--sizes", &sizes.join(",")]);
    command.args(["--provider", setup.provider.as_deref().unwrap_or_default()]);
    command.args(["--timeout", &setup.timeout.as_secs_f64().to_string()]);
    if let Some(iterations) = setup.iterations {
        command.args(["--iterations", &iterations.to_string()]);
    }
    if let Some(node) = &setup.node {
        command.args(["--node", node]);
    }
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let said = process.stderr.take().map(BufReader::new);
    let said = said.ok_or_else(|| Failure::Unavailable("the second process has no output".into()))?;
    Ok(Listener { process, said })
}

impl Listener {
    /// Any other output is its error.
    pub(super) fn address(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(Failure::when("reading what the second process says"))?;
        let line = line.trim();
        let address = line.strip_prefix("listening on ").map(str::to_owned);
        address.ok_or_else(|| {
            let why = if line.is_empty() { "it ended" } else { line };
            Failure::Unavailable(format!("the second process does not listen: {why}"))
        })
    }

    pub(super) fn wait(mut self) -> Result<(), Failure> {
        let status = self.process.wait().map_err(Failure::when("waiting for the second process"))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::OtherSide(format!("ended with {status}")))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Killed at once, the process would leak its shared memory. It ends by itself when it finds
        // the link closed.
        let until = Instant::now() + GRACE;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
