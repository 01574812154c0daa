//! Options of libfabric's `fi_pingpong`.

use lexopt::Arg::{Long, Short, Value};
use lexopt::{Parser, ValueExt};
use loom_fabric::EndpointType;

pub(crate) const HELP: &str = "\
Plays ping-pong with libfabric's own fi_pingpong, as its server or its client.

Usage: fi_pingpong [OPTIONS]            server
       fi_pingpong [OPTIONS] ADDRESS    client of the server there

  -p PROVIDER   libfabric's provider by its full name: shm, net, 'tcp;ofi_rxm' [libfabric's first]
  -d DOMAIN     domain by name, as lo
  -e TYPE       endpoints: rdm, dgram or msg [dgram]
  -m MODE       messages: msg or tagged [msg]
  -I NUMBER     messages each way of each size [10]
  -S SIZE       this size alone, in bytes [64,256,1024,4096,65536,1048576]
  -c            check every byte that arrives
  -B PORT       port of the control connection where a server listens [47592]
  -P PORT       port of the server's control connection, for a client [47592]
  -h, --help    this text

Both sides have to be given the same -e, -m, -I, -S and -c.

Exit status: 0 done, 1 failed, 2 wrong options.
";

const PORT: u16 = 47592;
const SIZES: [usize; 6] = [64, 256, 1024, 4096, 65536, 1 << 20];
/// Maximum length of a message that `fi_pingpong` has a buffer for.
pub(crate) const LONGEST: usize = 6 << 20;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) server: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) kind: EndpointType,
    pub(crate) tagged: bool,
    pub(crate) iterations: u64,
    pub(crate) sizes: Vec<usize>,
    pub(crate) check: bool,
    pub(crate) own_port: Option<u16>,
    pub(crate) server_port: u16,
    pub(crate) help: bool,
}

impl Options {
    /// Port of a server's listener.
    pub(crate) fn listen_port(&self) -> u16 {
        self.own_port.unwrap_or(PORT)
    }
}

pub(crate) fn read(mut parser: Parser) -> Result<Options, lexopt::Error> {
    let mut options = Options {
        server: None,
        provider: None,
        domain: None,
        kind: EndpointType::DGRAM,
        tagged: false,
        iterations: 10,
        sizes: SIZES.into(),
        check: false,
        own_port: None,
        server_port: PORT,
        help: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('p') => options.provider = Some(parser.value()?.string()?),
            Short('d') => options.domain = Some(parser.value()?.string()?),
            Short('e') => options.kind = parser.value()?.parse_with(kind)?,
            Short('m') => options.tagged = parser.value()?.parse_with(tagged)?,
            Short('I') => options.iterations = parser.value()?.parse()?,
            Short('S') => options.sizes = vec![parser.value()?.parse_with(size)?],
            Short('c') => options.check = true,
            Short('B') => options.own_port = Some(parser.value()?.parse()?),
            Short('P') => options.server_port = parser.value()?.parse()?,
            Short('h') | Long("help") => options.help = true,
            Value(server) if options.server.is_none() => options.server = Some(server.string()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn kind(text: &str) -> Result<EndpointType, &'static str> {
    match text {
        "rdm" => Ok(EndpointType::RDM),
        "dgram" => Ok(EndpointType::DGRAM),
        "msg" => Ok(EndpointType::MSG),
        _ => Err("rdm, dgram or msg"),
    }
}

fn tagged(text: &str) -> Result<bool, &'static str> {
    match text {
        "msg" => Ok(false),
        "tagged" => Ok(true),
        _ => Err("msg or tagged"),
    }
}

fn size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size <= LONGEST => Ok(size),
        Ok(_) => Err(format!("no more than {LONGEST} bytes")),
        Err(_) => Err("a number of bytes; fi_pingpong's `all` is not here".to_owned()),
    }
}
