#![allow(dead_code, reason = "each example uses a part of the module")]

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use loom_async::tokio::{Mode, run};
use loom_fabric::{AnyInfo, Av, Cq, CqAttr, CqDriver, Domain, Endpoint, Hints, Program, Transport, Unclaimed, WaitObj};

pub(crate) type Failure = Box<dyn Error>;

/// Runs a program over the first offer of the provider that the hints name: `soft`, `loom-tcp` or
/// one of libfabric.
pub(crate) fn over<V>(hints: &Hints<'_>, program: impl Program<Output = Result<V, Failure>>) -> Result<V, Failure> {
    AnyInfo::query(hints)?[0].run(program)
}

pub(crate) fn exit(program: &str, outcome: Result<String, Failure>) -> ExitCode {
    match outcome {
        Ok(text) => {
            // The reader may have closed the pipe.
            let _ = write!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{program}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Receives at the first Ctrl-C. The second one ends the process.
///
/// `tokio::signal` also calls the previous handlers, and libraries that libfabric loads (PSM)
/// install handlers that end the process.
pub(crate) fn ctrl_c() -> Result<tokio::sync::watch::Receiver<bool>, Failure> {
    let (interrupt, interrupted) = tokio::sync::watch::channel(false);
    ctrlc::set_handler(move || {
        if interrupt.send_replace(true) {
            std::process::exit(130);
        }
    })?;
    Ok(interrupted)
}

pub(crate) fn block_on<O>(future: impl Future<Output = Result<O, Failure>>) -> Result<O, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::task::LocalSet::new().run_until(future))
}

pub(crate) struct Node<T: Transport + 'static> {
    pub(crate) domain: Domain<'static, T>,
    pub(crate) av: Av<'static, T>,
    pub(crate) driver: CqDriver<'static, T, Vec<u8>>,
    pub(crate) endpoint: Endpoint<'static, T, Vec<u8>>,
    /// `Sleep` if the queue has a descriptor, which `shm` has not.
    pub(crate) mode: Mode,
}

impl<T: Transport> Node<T> {
    pub(crate) fn open(domain: &Domain<'static, T>) -> Result<Self, loom_fabric::Error> {
        let queue = CqAttr { wait: WaitObj::FD, wait_is_optional: true, ..CqAttr::new(64) };
        let (av, cq) = (Av::open(domain, 64)?, Cq::open(domain, queue)?);
        let mode = if cq.wait_obj() == WaitObj::FD { Mode::Sleep } else { Mode::Busy };
        let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
        Ok(Node { endpoint: cq.endpoint(&av)?, domain: domain.clone(), av, driver, mode })
    }

    /// Runs a future in tokio, and drives the queue.
    pub(crate) fn block_on<O>(&self, future: impl Future<Output = Result<O, Failure>>) -> Result<O, Failure> {
        block_on(async { run(&self.driver, self.mode, future).await? })
    }
}
