//! The transfer engine over `shm` compared with NIXL (`nixl.py`): a list of descriptors within one
//! process, posted and completed.
//!
//! `LOOM_NIXL` names a Python interpreter with the packages `nixl-cu12` and `numpy`.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::transfer::{self, Times};
use crate::Failure;
use crate::contest::{Contest, Settings};
use crate::report::{Goal, Ratio, Run};
use crate::sides::{Provider, size_name};

const DESCRIPTORS: usize = 10_000;

struct Nixl {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Nixl {
    /// Starts NIXL, or returns the reason why it is not available.
    fn start(python: &OsStr, len: usize) -> Result<Result<Self, String>, Failure> {
        let mut command = Command::new(python);
        // The path may lead to another UCX.
        command.env_remove("LD_LIBRARY_PATH").env("NIXL_LOG_LEVEL", "FATAL");
        command.args(["-c", include_str!("nixl.py"), &DESCRIPTORS.to_string(), &len.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let orders = process.stdin.take().ok_or("no input")?;
        let lines = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
        let mut nixl = Nixl { process, orders, lines };
        // Its libraries may print, too.
        let said = nixl.line(|line| (line == "ready" || line.contains("Error")).then(|| line.to_owned()))?;
        Ok(if said == "ready" { Ok(nixl) } else { Err(said) })
    }

    fn line<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
        for line in self.lines.by_ref() {
            if let Some(read) = read(&line?) {
                return Ok(read);
            }
        }
        Err("NIXL has ended".into())
    }

    fn list(&mut self) -> Result<Times, Failure> {
        self.orders.write_all(b"\n")?;
        self.line(|line| {
            let mut times = line.split(' ').map_while(|time| time.parse().ok().map(Duration::from_nanos));
            Some(Times { posted: times.next()?, done: times.next()? })
        })
    }
}

impl Drop for Nixl {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    let Some(python) = env::var_os("LOOM_NIXL") else {
        println!("nixl: skipped, LOOM_NIXL names no Python interpreter that has nixl-cu12 and numpy");
        return Ok(());
    };
    let settings = Settings { rounds: run.settings.rounds.min(15), repeats: 0, ..run.settings };
    let posted: fn(Times) -> Duration = |times| times.posted;
    let done: fn(Times) -> Duration = |times| times.done;
    for (len, figure, goal) in [(64, posted, 0.1), (4 << 10, done, 0.5)] {
        let list = transfer::list(len, DESCRIPTORS, DESCRIPTORS * len);
        let mut side = transfer::Side::open(&Provider::SHM.info()?, DESCRIPTORS * len)?;
        let mut nixl = match Nixl::start(&python, len)? {
            Ok(nixl) => nixl,
            Err(reason) => {
                println!("nixl: skipped, NIXL cannot be used here: {reason}");
                return Ok(());
            }
        };
        let outcome = Contest::new(format!("nixl.{}", size_name(len)))
            .side_that_measures("NIXL", |count| (0..count).map(|_| figure(nixl.list().expect("a list of NIXL"))).sum())
            .side_that_measures("loom", |count| (0..count).map(|_| figure(side.timed(&list))).sum())
            .run(&settings);
        run.contest(&outcome);
        let name = format!("transfer_over_nixl.{}", size_name(len));
        run.ratio(&outcome, Ratio { name: &name, of: "loom", over: "NIXL", goal: Goal::AtMost(goal) });
    }
    Ok(())
}
