//! What the user asks for.

use std::net::SocketAddr;

use lexopt::Arg::{Long, Short, Value};
use lexopt::{Parser, ValueExt};

use crate::Failure;
use crate::demo::Demo;

pub(crate) const HELP: &str = "\
A key-value server and its clients: messages for short values, RMA for long ones.

Usage:
  kv demo [--clients N] [--rounds N] [--memory MIB]   server and clients in this process, over memory
  kv serve [--provider NAME] [--listen ADDR:PORT] [--memory MIB]
  kv get KEY [--connect ADDR:PORT]                    the value goes to the standard output
  kv put KEY VALUE [--connect ADDR:PORT]              `-` for VALUE: what is on the standard input
  kv delete KEY [--connect ADDR:PORT]

  --clients N           clients of the demo [8]
  --rounds N            values of each length that a client of the demo puts and gets [200]
  --memory MIB          memory of the server for keys and values [256]
  --provider NAME       libfabric's provider, as fi_info names it: 'tcp;ofi_rxm', shm [tcp;ofi_rxm]
  --listen ADDR:PORT    where clients ask for the server's address, over TCP [127.0.0.1:47620]
  --connect ADDR:PORT   where the server listens [127.0.0.1:47620]
  --help                this text

Exit status: 0 done, 1 failed or no such key, 2 wrong options. Ctrl-C ends the server.
";

#[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "two processes need libfabric"))]
#[derive(Clone, Debug)]
pub(crate) struct ServeOptions {
    pub(crate) provider: String,
    pub(crate) listen: SocketAddr,
    /// In bytes.
    pub(crate) memory: usize,
}

#[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "two processes need libfabric"))]
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Get(Vec<u8>),
    /// Without a value: that is on the standard input.
    Put(Vec<u8>, Option<Vec<u8>>),
    Delete(Vec<u8>),
}

#[cfg_attr(not(feature = "libfabric"), allow(dead_code, reason = "two processes need libfabric"))]
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Demo(Demo),
    Serve(ServeOptions),
    Ask { server: SocketAddr, question: Question },
}

pub(crate) fn parse(mut parser: Parser) -> Result<Command, Failure> {
    let (mut words, mut provider) = (Vec::new(), "tcp;ofi_rxm".to_owned());
    let (mut clients, mut rounds, mut mib) = (8, 200, 256);
    let mut listen = SocketAddr::from(([127, 0, 0, 1], 47620));
    let mut connect = listen;
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("clients") => clients = number("--clients", &value(&mut parser)?, 1000)?,
            Long("rounds") => rounds = number("--rounds", &value(&mut parser)?, u32::MAX)?,
            Long("memory") => mib = number("--memory", &value(&mut parser)?, 1 << 20)?,
            Long("provider") => provider = value(&mut parser)?,
            Long("listen") => listen = address("--listen", &value(&mut parser)?)?,
            Long("connect") => connect = address("--connect", &value(&mut parser)?)?,
            Value(word) => words.push(word.string().map_err(usage)?),
            other => return Err(usage(other.unexpected())),
        }
    }
    let memory = usize::try_from(u64::from(mib) << 20).map_err(usage)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let question = match words[..] {
        ["demo"] => {
            return Ok(Command::Demo(Demo { clients: u16::try_from(clients).map_err(usage)?, rounds, memory }));
        }
        ["serve"] => return Ok(Command::Serve(ServeOptions { provider, listen, memory })),
        ["get", key] => Question::Get(key.into()),
        ["put", key, "-"] => Question::Put(key.into(), None),
        ["put", key, value] => Question::Put(key.into(), Some(value.into())),
        ["delete", key] => Question::Delete(key.into()),
        [] => return Err(usage("what is to be done? `kv demo` needs nothing")),
        _ => return Err(usage(format!("`{}` is none of the commands", words.join(" ")))),
    };
    Ok(Command::Ask { server: connect, question })
}

fn value(parser: &mut Parser) -> Result<String, Failure> {
    parser.value().and_then(ValueExt::string).map_err(usage)
}

fn usage(text: impl ToString) -> Failure {
    Failure::Usage(text.to_string())
}

fn address(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| usage(format!("{option} takes an address and a port, like 127.0.0.1:47620, not `{text}`")))
}

fn number(option: &str, text: &str, max: u32) -> Result<u32, Failure> {
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| usage(format!("{option} takes a number from 1 to {max}, not `{text}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<Command, Failure> {
        parse(Parser::from_args(arguments.split_whitespace()))
    }

    #[test]
    fn commands_are_read() {
        assert!(matches!(parsed("demo --clients 3"), Ok(Command::Demo(Demo { clients: 3, .. }))));
        let Ok(Command::Serve(options)) = parsed("serve --provider shm --memory 2") else { panic!("a server") };
        assert_eq!((&*options.provider, options.memory), ("shm", 2 << 20));
        let Ok(Command::Ask { server, question }) = parsed("put a - --connect [::1]:5") else { panic!("a question") };
        assert!(server.port() == 5 && matches!(question, Question::Put(_, None)));
    }

    #[test]
    fn commands_without_sense_are_refused() {
        for wrong in ["", "get", "put a", "demo --clients 0", "serve --listen here", "what", "get a b"] {
            assert!(matches!(parsed(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
