//! loom inside of somebody's busy-polled runtime: a pinned thread, a fixed set of tasks, timers, and no allocation after the start.
//!
//! ```text
//! cargo run --release --example embedded_runtime
//! cargo run --release --features libfabric --example embedded_runtime -- --provider 'tcp;ofi_rxm'
//! ```
//!
//! A client sends requests on a schedule, a server answers them, and a housekeeper does what a program does besides: three tasks of
//! one thread, which never sleeps. Each has a queue of its own and takes at most so many completions at a time, so that none
//! waits long for its turn. At the end comes the distribution of the times from when a request *was due* to its answer: what
//! queues up behind a delay is counted, too, and what is left out because too much has queued up is told.
//!
//! | file | what it holds |
//! |---|---|
//! | `runtime` | the runtime, which knows nothing of loom: tasks, timers, turns |
//! | `client`, `server`, `housekeeper` | the tasks |
//! | `fabric` | what client and server have in common: an endpoint, its queue, its buffers |
//! | `times`, `histogram` | how long requests took, in places of fixed number |
//! | `heap` | the global allocator, which counts what is asked of it after the start |
//! | `options`, `pin` | what the user says; one processor for the thread |

mod client;
mod fabric;
mod heap;
mod histogram;
mod housekeeper;
mod options;
#[cfg_attr(not(target_os = "linux"), path = "pin_not.rs")]
mod pin;
mod runtime;
mod server;
mod times;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::{Av, Domain, Info, Network, NetworkAttr, Transport};

use client::Client;
use fabric::Fabric;
use housekeeper::Housekeeper;
use options::Options;
use runtime::Runtime;
use server::Server;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("embedded_runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let Some(options) = options::parse(lexopt::Parser::from_env())? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    match &options.provider {
        None => {
            let network = Network::new(NetworkAttr::DEFAULT)?;
            serve(&network.info(), &options)
        }
        Some(provider) => libfabric(provider, &options),
    }
}

#[cfg(feature = "libfabric")]
fn libfabric(provider: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    use loom_fabric::{Hints, Local, MsgOrder, Ofi};
    // Answers are told apart by their order.
    let hints = Hints::local(provider).with_msg_order(MsgOrder::SAS);
    let info = Ofi::<Local>::query(&hints)?.next().ok_or_else(|| format!("there is no {provider} here"))?;
    serve(&info, options)
}

#[cfg(not(feature = "libfabric"))]
fn libfabric(_: &str, _: &Options) -> Result<(), Box<dyn Error>> {
    Err("this program was built without libfabric: cargo run --release --features libfabric --example embedded_runtime"
        .into())
}

/// Opens everything, runs, and closes everything.
fn serve<T: Transport + 'static>(info: &Info<T>, options: &Options) -> Result<(), Box<dyn Error>> {
    let pinned = match (options.core, pin::to(options.core)) {
        (Some(_), Err(error)) => return Err(error.into()),
        (_, pinned) => pinned,
    };
    let domain = Domain::open(info)?;
    let av = Av::open(&domain, 4)?;
    let client = Fabric::open(&domain, &av)?;
    let server = Fabric::open(&domain, &av)?;
    let to_server = av.insert(&server.address()?)?;
    let to_client = av.insert(&client.address()?)?;
    let mut client = Client::new(client, to_server, options.interval, options.budget);
    let mut server = Server::new(server, to_client, options.budget);
    let mut housekeeper = Housekeeper::new();

    // From here on nothing takes memory.
    let (ran, late) = heap::watched(|| {
        let mut runtime = Runtime::new([&mut client, &mut server, &mut housekeeper]);
        let started = Instant::now();
        runtime.run(started + options.time, started + options.time + Duration::from_secs(5))
    });
    let turns = ran?;

    println!("{turns} turns, in {} of which the client used up its budget", client.exhausted());
    println!("{} jobs of the housekeeper", housekeeper.jobs());
    println!("{} requests, {} of which had to wait for room", client.answered(), client.delayed());
    println!("{} were left out, as too many were outstanding: the times are of the others", client.left_out());
    println!("{}", client.times());
    println!("{late} calls of the allocator after the start");
    match pinned {
        Ok(core) => println!("on processor {core}"),
        Err(error) => println!("on no processor of its own: {error}"),
    }
    if late > 0 {
        return Err("something has allocated after the start".into());
    }
    if client.answered() == 0 {
        return Err("nothing was answered".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_and_nothing_is_allocated() {
        let network = Network::new(NetworkAttr::DEFAULT).expect("the sizes are small");
        let options = Options { time: Duration::from_millis(200), ..Options::DEFAULT };
        serve(&network.info(), &options).expect("it runs");
    }
}
