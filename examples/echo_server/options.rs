//! What the user asks for.

use std::net::SocketAddr;

use lexopt::Arg::{Long, Short};
use lexopt::{Parser, ValueExt};

use crate::Failure;

pub(crate) const HELP: &str = "\
Echoes messages of several hundred connections, in one thread, and answers at an admin port.

Usage: echo_server [OPTIONS]

  --listen ADDR:PORT    where peers connect, over libfabric's `tcp` [127.0.0.1:47610]
  --admin ADDR:PORT     a plain TCP port: `stats` tells peers, messages and bytes [127.0.0.1:47611]
  --peers N             the most peers at a time; with --self-test: the number of clients [600; 200]
  --self-test           start a server and clients, check every byte, kill some clients, drain
  --transport NAME      for --self-test: soft (memory of this process) or libfabric [libfabric if built with it]
  --connect ADDR:PORT   be a client: send messages and check the echoes
  --messages N          how many messages the client sends [1000]
  --help                this text

Ctrl-C drains the server. Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted twice.
";

/// The most peers: two descriptors each are below what systems give a process.
const MAX_PEERS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Soft,
    Libfabric,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerOptions {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) peers: u16,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Serve(ServerOptions),
    Connect { to: SocketAddr, messages: u64 },
    SelfTest { transport: TransportKind, peers: u16 },
}

pub(crate) fn parse(mut parser: Parser) -> Result<Command, Failure> {
    let (mut listen, mut admin) =
        (SocketAddr::from(([127, 0, 0, 1], 47610)), SocketAddr::from(([127, 0, 0, 1], 47611)));
    let (mut peers, mut self_test, mut transport, mut connect, mut messages) = (None, false, None, None, 1000);
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("listen") => listen = address("--listen", &value(&mut parser)?)?,
            Long("admin") => admin = address("--admin", &value(&mut parser)?)?,
            Long("peers") => peers = u16::try_from(number("--peers", &value(&mut parser)?, MAX_PEERS)?).ok(),
            Long("self-test") => self_test = true,
            Long("transport") => transport = Some(transport_kind(&value(&mut parser)?)?),
            Long("connect") => connect = Some(address("--connect", &value(&mut parser)?)?),
            Long("messages") => messages = number("--messages", &value(&mut parser)?, u64::MAX)?,
            other => return Err(usage(other.unexpected())),
        }
    }
    let built_with = if cfg!(feature = "libfabric") { TransportKind::Libfabric } else { TransportKind::Soft };
    match (self_test, connect) {
        (true, Some(_)) => Err(usage("--self-test and --connect exclude each other")),
        (true, None) => {
            Ok(Command::SelfTest { transport: transport.unwrap_or(built_with), peers: peers.unwrap_or(200) })
        }
        (false, _) if transport == Some(TransportKind::Soft) => {
            Err(usage("the software transport lives in the memory of one process; it is for --self-test"))
        }
        (false, Some(to)) => Ok(Command::Connect { to, messages }),
        (false, None) => Ok(Command::Serve(ServerOptions { listen, admin, peers: peers.unwrap_or(600) })),
    }
}

fn value(parser: &mut Parser) -> Result<String, Failure> {
    parser.value().and_then(ValueExt::string).map_err(usage)
}

fn usage(text: impl ToString) -> Failure {
    Failure::Usage(text.to_string())
}

fn address(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| usage(format!("{option} takes an address and a port, like 127.0.0.1:47610, not `{text}`")))
}

fn number(option: &str, text: &str, max: u64) -> Result<u64, Failure> {
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| usage(format!("{option} takes a number from 1 to {max}, not `{text}`")))
}

fn transport_kind(text: &str) -> Result<TransportKind, Failure> {
    match text {
        "soft" => Ok(TransportKind::Soft),
        "libfabric" => Ok(TransportKind::Libfabric),
        _ => Err(usage(format!("--transport is soft or libfabric, not `{text}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<Command, Failure> {
        parse(Parser::from_args(arguments.split_whitespace()))
    }

    #[test]
    fn options_are_read() {
        let options = parsed("--listen 127.0.0.1:1 --admin [::1]:2 --peers 3");
        let Ok(Command::Serve(options)) = options else { panic!("a server") };
        assert_eq!((options.listen.port(), options.admin.port(), options.peers), (1, 2, 3));
        let command = parsed("--self-test --transport soft");
        assert!(matches!(command, Ok(Command::SelfTest { transport: TransportKind::Soft, peers: 200 })));
    }

    #[test]
    fn options_without_sense_are_refused() {
        for wrong in
            ["--peers 0", "--peers x", "--listen here", "--transport soft", "--what", "--self-test --connect [::1]:1"]
        {
            assert!(matches!(parsed(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
