//! libfabric's `fi_pingpong`, written with loom. It runs with the original as server or client,
//! over every provider and kind of endpoint.
//!
//! ```text
//! fi_pingpong -p 'tcp;ofi_rxm' -e rdm -c
//! cargo run --release --example fi_pingpong --features libfabric,std -- -p 'tcp;ofi_rxm' -e rdm -c localhost
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

mod control;
mod items;
mod line;
mod options;
mod play;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use control::{Control, LIMIT};
use loom_core::transport::Connected;
use loom_core::vocabulary::AddressFormat;
use loom_fabric::{
    Av, Caps, Cq, CqAttr, Domain, EndpointAddr, EndpointAttributes, EndpointType, EqAttr, EventQueue, Hints, Info,
    Local, Ofi, Transport,
};
use loom_tcp::TcpAttr;
use options::{HELP, LONGEST, Options};
use play::{Outcome, Player, Rules};

/// Plays over the first offer, like the original. A client requests one that reaches the server.
fn run(options: &Options) -> Outcome<()> {
    let mut control = match &options.server {
        Some(server) => Control::connect(server, options.server_port)?,
        None => Control::accept(options.listen_port())?,
    };
    let server = if options.server.is_some() { Some(control.receive_name()?) } else { None };
    let hints = Hints {
        caps: if options.tagged { Caps::TAGGED } else { Caps::MSG },
        provider: options.provider.as_deref(),
        domain: options.domain.as_deref(),
        endpoint_attr: EndpointAttributes::of(options.kind),
        addr_format: server.as_ref().map_or(AddressFormat::UNSPEC, EndpointAddr::format),
        destination: server.as_ref(),
        ..Hints::default()
    };
    if hints.provider == Some("loom-tcp") {
        let info = loom_tcp::query(&hints, TcpAttr::DEFAULT)?;
        return play_over(&info, options, control, server);
    }
    let info = Ofi::<Local>::query(&hints)?.next().ok_or("nothing fits")?;
    play_over(&info, options, control, server)
}

fn play_over<T: Transport + Connected + 'static>(
    info: &Info<T>,
    options: &Options,
    mut control: Control,
    server: Option<EndpointAddr>,
) -> Outcome<()> {
    let (is_client, connected) = (options.server.is_some(), options.kind == EndpointType::MSG);
    eprintln!("{info}");
    let attributes = info.attributes();
    let longest = LONGEST.min(attributes.endpoint.max_msg_size);
    let inject_size = attributes.tx.inject_size;
    let rules = Rules { is_client, tagged: options.tagged, check: options.check, inject_size };
    let domain = Domain::open(info)?;
    // One of them connects to the other side.
    let eq = connected.then(|| EventQueue::open(&domain, EqAttr::default())).transpose()?;
    let av = (!connected).then(|| Av::open(&domain, 2)).transpose()?;
    let cq = Cq::open(&domain, CqAttr::new(16))?;
    let inbox = || vec![0; longest];
    let line = match (&eq, &av, server) {
        (Some(eq), _, Some(server)) => line::connect(&cq, eq, info, &server, (options.tagged, inbox()))?,
        (Some(eq), _, None) => line::accept(&cq, eq, info, &mut control, (options.tagged, inbox()))?,
        (None, Some(av), server) => line::introduce(&cq, av, server, &mut control)?,
        (None, None, _) => unreachable!("one of them was opened"),
    };
    let mut player = Player::new(cq, line, rules, Vec::with_capacity(LONGEST));
    if !connected {
        player.receive(inbox())?;
    }
    if options.kind == EndpointType::DGRAM {
        // A spare buffer, so that the last message always finds one.
        player.receive(inbox())?;
    }
    println!("{:<10} {:>8} {:>8} {:>12} {:>12} {:>14}", "bytes", "sent", "ack", "time", "MB/s", "us per xfer");
    for size in options.sizes.iter().copied().filter(|size| *size <= longest) {
        let first = player.received();
        control.meet(is_client)?;
        let took = player.exchange(size, options.iterations)?;
        let acknowledged = control.settle(is_client, player.received() - first)?;
        report(size, options.iterations, acknowledged, took);
    }
    player.finish()?;
    // The last message of this side may be in flight, and the other side may wait for its receipt.
    control.finish()?;
    let deadline = Instant::now() + LIMIT;
    while !control.is_over() {
        if Instant::now() > deadline {
            return Err("the other side does not end".into());
        }
        player.progress()?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn report(size: usize, iterations: u64, acknowledged: u64, took: Duration) {
    let seconds = took.as_secs_f64();
    let (messages, bytes) = (2.0 * iterations as f64, 2.0 * iterations as f64 * size as f64);
    println!(
        "{size:<10} {iterations:>8} {acknowledged:>8} {:>11.2}s {:>12.2} {:>14.2}",
        seconds,
        bytes / seconds / 1e6,
        seconds / messages * 1e6
    );
}

fn main() -> ExitCode {
    let options = match options::read(lexopt::Parser::from_env()) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("fi_pingpong: {error}; --help tells what there is");
            return ExitCode::from(2);
        }
    };
    if options.help {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fi_pingpong: {error}");
            ExitCode::FAILURE
        }
    }
}
